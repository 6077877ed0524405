//! Constructors of records and traces.

pub(crate) use unspool_stf::record::*;

use crate::fixtures::words;

pub(crate) const PC: u64 = 0x8000_0000;
pub(crate) const MEM: u64 = 0x8010_0000;
pub(crate) const NOP: u32 = 0x13;
/// `{pc}+8`
pub(crate) const JAL: u32 = 0x0080_006f;
/// `{pc}+4`
pub(crate) const JAL_4: u32 = 0x0040_00ef;
/// `{pc}+8`
pub(crate) const BEQ: u32 = 0x0000_0463;
pub(crate) const RET: u32 = 0x0000_8067;
pub(crate) const MRET: u32 = 0x3020_0073;
pub(crate) const ECALL: u32 = 0x73;
pub(crate) const LB: u32 = 0x0007_0783;
pub(crate) const LD: u32 = 0x0007_3783;
pub(crate) const SD: u32 = 0x00f7_3023;
pub(crate) const AMOADD_D: u32 = 0x00f7_37af;
pub(crate) const SC_D: u32 = 0x18f7_37af;
pub(crate) const CBO_ZERO: u32 = 0x0045_200f;
pub(crate) const VLE64: u32 = 0x0205_7087;
/// Only RV64 has it.
pub(crate) const ADDIW: u32 = 0x0007_879b;
/// `custom-0`, which is not standardized.
pub(crate) const UNKNOWN: u32 = 0x0b;

/// RV64, and wide events.
pub(crate) const FEATURES: u64 = 0x8_0020;

pub(crate) type Records = Vec<Record<'static>>;

/// A header without its end: nine records with it.
fn start(iem: u16, features: u64) -> Records {
    vec![
        Record::Identifier(*b"STF"),
        Record::Version { major: 1, minor: 6 },
        Record::Comment(b"made by a test"),
        Record::Isa(1),
        Record::InstIem(iem),
        info(6, b"a test"),
        Record::TraceInfoFeature(features),
        Record::ForcePc(PC),
        Record::EndHeader,
    ]
}

pub(crate) fn header() -> Records {
    start(2, FEATURES)
}

/// A header, and an instruction at `PC` with machine mode; the body starts with record 11, at `PC + 4`.
pub(crate) fn trace(body: Records) -> Records {
    featured(FEATURES, body)
}

pub(crate) fn featured(features: u64, body: Records) -> Records {
    [start(2, features), vec![mode(3), op(NOP)], body].concat()
}

/// The same in RV32.
pub(crate) fn rv32(body: Records) -> Records {
    [start(1, FEATURES & !0x20), vec![mode(3), op(NOP)], body].concat()
}

fn edited(edit: impl FnOnce(&mut Records)) -> Records {
    let mut records = trace(vec![]);
    edit(&mut records);
    records
}

/// A trace with another record in the header.
pub(crate) fn with(index: usize, record: Record<'static>) -> Records {
    edited(|records| records[index] = record)
}

pub(crate) fn without(index: usize) -> Records {
    edited(|records| {
        records.remove(index);
    })
}

pub(crate) fn inserted(index: usize, record: Record<'static>) -> Records {
    edited(|records| records.insert(index, record))
}

pub(crate) fn swapped(index: usize) -> Records {
    edited(|records| records.swap(index, index + 1))
}

/// A trace of one transaction; its header has eight records.
pub(crate) fn transactions() -> Records {
    vec![
        Record::Identifier(*b"STF"),
        Record::Version { major: 1, minor: 6 },
        Record::Comment(b"made by a test"),
        info(0x40, b"a test"),
        Record::TraceInfoFeature(0x10_0000),
        Record::ProtocolId(1),
        Record::ClockId { id: 1, name: b"clk" },
        Record::EndHeader,
        transaction(1, 1),
    ]
}

pub(crate) fn transaction(id: u64, clock: u8) -> Record<'static> {
    let data = &[5, 0, 0, 0, 0, 0, 0, 0, 0];
    Record::Transaction(Transaction { id, cycles: 1, clock, count: 0, metadata: &[], data })
}

pub(crate) fn info(generator: u8, comment: &'static [u8]) -> Record<'static> {
    Record::TraceInfo(TraceInfo { generator, version: [1, 2, 3], comment })
}

pub(crate) fn op(opcode: u32) -> Record<'static> {
    Record::InstOpcode32(opcode)
}

pub(crate) fn to(target: u64) -> Record<'static> {
    Record::InstPcTarget(target)
}

pub(crate) fn read(size: u16) -> Record<'static> {
    Record::InstMemAccess(MemAccess { address: MEM, size, attributes: 0, kind: 1 })
}

pub(crate) fn write(size: u16) -> Record<'static> {
    Record::InstMemAccess(MemAccess { address: MEM, size, attributes: 0, kind: 2 })
}

pub(crate) fn word(value: u64) -> Record<'static> {
    Record::InstMemContent(value)
}

pub(crate) fn bus(size: u16, initiator: u8, kind: u8) -> Record<'static> {
    Record::BusMasterAccess(BusAccess { address: MEM, size, initiator, index: 0, attributes: 0, kind })
}

fn fields(fields: &[u64]) -> &'static [u8] {
    words(fields).leak()
}

pub(crate) fn event(raw: u64, words: &[u64]) -> Record<'static> {
    Record::Event(Event { raw, is_wide: true, data: fields(words) })
}

pub(crate) fn mode(mode: u64) -> Record<'static> {
    event(1 << 62, &[mode])
}

/// A load page fault that leads to `MEM`.
pub(crate) fn fault() -> Records {
    vec![event(13, &[PC, 0, MEM]), Record::EventPcTarget(MEM)]
}

pub(crate) fn walk(page_size: u32, entry: u64) -> Record<'static> {
    Record::PageTableWalk(PageTableWalk { address: MEM, first_use: 1, page_size, entries: fields(&[0x1000, entry]) })
}

pub(crate) fn register(number: u16, meta: u8) -> Record<'static> {
    Record::InstReg(Register { number, meta, value: &[0; 8] })
}

/// RV64 without `c.fsdsp`; the body starts with record 12.
pub(crate) fn extended(list: &'static [u8], body: Records) -> Records {
    let mut records = trace(body);
    records.insert(8, Record::IsaExtended(list));
    records
}
