//! Traces that each break one rule: rule, name of the row, number of the record, records.

use super::fixtures::*;

pub(crate) type Row = (&'static str, &'static str, u64, Records);

pub(crate) fn rows() -> Vec<Row> {
    let of_riscv = [flow(), registers_and_walks(), accesses(), buses(), events(), opcodes()].concat();
    [anatomy(), header(), of_transactions(), of_riscv, super::a64::broken()].concat()
}

fn anatomy() -> Vec<Row> {
    let all = [
        super::fixtures::header()[..8].to_vec(),
        vec![Record::ProtocolId(1), Record::ClockId { id: 1, name: b"clk" }, Record::EndHeader],
        vec![mode(3), op(NOP), transaction(1, 1)],
    ];
    let mut mixed = all.concat();
    mixed[6] = Record::TraceInfoFeature(FEATURES | 0x10_0000);
    let version = |minor| Record::Version { major: 1, minor };
    let mut extended = inserted(8, Record::IsaExtended(b"rv64gc"));
    extended[1] = version(5);
    vec![
        ("stf-not-empty", "an empty trace", 0, vec![]),
        ("stf-end-header", "a header without an end", 7, super::fixtures::header()[..8].to_vec()),
        ("stf-one-header", "a version after the header", 11, trace(vec![version(6), op(NOP)])),
        ("stf-one-header", "a second end", 9, inserted(9, Record::EndHeader)),
        ("stf-body-in-header", "a register in the header", 8, inserted(8, register(1, 0x11))),
        ("stf-header-once", "two instruction sets", 4, inserted(4, Record::Isa(1))),
        ("stf-header-once", "two starts", 8, inserted(8, Record::ForcePc(PC))),
        ("stf-header-order", "trace info after features", 6, swapped(5)),
        ("stf-record-version", "wide events in 1.4", 6, with(1, version(4))),
        ("stf-record-version", "extensions in 1.5", 8, extended),
        ("stf-no-instruction", "only a header", 8, super::fixtures::header()),
        ("stf-open-group", "a register without an instruction", 11, trace(vec![register(1, 0x11)])),
        ("stf-mixed", "a transaction after an instruction", 13, mixed),
        ("stf-record-order", "a register after a ready one", 12, {
            trace(vec![Record::InstReadyReg(1), register(1, 0x11), op(NOP)])
        }),
        ("stf-record-order", "a target after an access", 13, trace(vec![read(8), word(0), to(PC), op(UNKNOWN)])),
        ("stf-end-last", "an instruction after the end", 11, trace(vec![Record::ReserveEnd, op(NOP)])),
    ]
}

fn header() -> Vec<Row> {
    let version = |major, minor| with(1, Record::Version { major, minor });
    vec![
        ("stf-identifier-first", "other letters", 0, with(0, Record::Identifier(*b"STX"))),
        ("stf-identifier-first", "a comment first", 0, with(0, Record::Comment(b"STF"))),
        ("stf-version-second", "a comment second", 1, with(1, Record::Comment(b"1.6"))),
        ("stf-version-readable", "2.0", 1, version(2, 0)),
        ("stf-version-readable", "1.1", 1, version(1, 1)),
        ("stf-version-known", "1.7", 1, version(1, 7)),
        ("stf-comment-missing", "no comment", 7, without(2)),
        ("stf-comment-nul", "a zero at the end", 2, with(2, Record::Comment(b"text\0"))),
        ("stf-comment-nul", "in the body", 11, trace(vec![Record::Comment(b"\0"), op(NOP)])),
        ("stf-isa-missing", "no instruction set", 7, without(3)),
        ("stf-isa-before-iem", "after the mode", 4, swapped(3)),
        ("stf-isa-known", "9", 3, with(3, Record::Isa(9))),
        ("stf-iem-missing", "no encoding mode", 7, without(4)),
        ("stf-iem-known", "7", 4, with(4, Record::InstIem(7))),
        ("stf-iem-known", "7 in the body", 11, trace(vec![Record::InstIem(7), op(NOP)])),
        ("stf-trace-info-missing", "no trace info", 7, without(5)),
        ("stf-generator-known", "200", 5, with(5, info(200, b"a tool"))),
        ("stf-generator-known", "reserved, by another tool", 5, with(5, info(0, b"a tool"))),
        ("stf-feature-missing", "no features", 7, without(6)),
        ("stf-feature-claim", "physical addresses", 6, with(6, Record::TraceInfoFeature(FEATURES | 1))),
        ("stf-feature-claim", "processes", 6, with(6, Record::TraceInfoFeature(FEATURES | 0x400))),
        ("stf-feature-rv64", "not set", 6, with(6, Record::TraceInfoFeature(0x8_0000))),
        ("stf-feature-unclaimed", "a walk", 6, trace(vec![walk(4096, 0xf), op(NOP)])),
        ("stf-feature-unclaimed", "a micro-operation", 6, {
            trace(vec![Record::InstMicroop { size: 4, encoding: 0x13 }, op(NOP)])
        }),
        ("stf-force-pc-missing", "no start", 7, without(7)),
        ("stf-pc-odd", "the start", 7, with(7, Record::ForcePc(PC + 1))),
        ("stf-vlen-range", "32 bits", 8, inserted(8, Record::VlenConfig(32))),
        ("stf-vlen-power", "100 bits", 8, inserted(8, Record::VlenConfig(100))),
        ("stf-extensions-mode", "rv32", 8, inserted(8, Record::IsaExtended(b"RV32GC"))),
    ]
}

fn of_transactions() -> Vec<Row> {
    let without = |index: usize| {
        let mut records = transactions();
        records.remove(index);
        records
    };
    let with = |index: usize, record| {
        let mut records = transactions();
        records[index] = record;
        records
    };
    let mut clocks = transactions();
    clocks.insert(7, Record::ClockId { id: 1, name: b"other" });
    vec![
        ("stf-protocol-missing", "no protocol", 6, without(5)),
        ("stf-protocol-known", "2", 5, with(5, Record::ProtocolId(2))),
        ("stf-clock-missing", "no clock", 6, without(6)),
        ("stf-clock-number", "two clocks 1", 7, clocks),
        ("stf-clock-known", "clock 5", 8, with(8, transaction(1, 5))),
        ("stf-transaction-number", "0", 8, with(8, transaction(0, 1))),
        ("stf-open-group", "a dependency at the end", 9, {
            [transactions(), vec![Record::TransactionDependency { id: 1, cycles: 1, clock: 1 }]].concat()
        }),
    ]
}

fn flow() -> Vec<Row> {
    vec![
        ("stf-force-pc-once", "two addresses", 12, trace(vec![Record::ForcePc(PC), Record::ForcePc(MEM), op(NOP)])),
        ("stf-pc-odd", "a forced address", 11, trace(vec![Record::ForcePc(MEM + 1), op(NOP)])),
        ("stf-pc-odd", "a target", 11, trace(vec![to(MEM + 1), op(RET)])),
        ("stf-pc-width", "in RV32", 11, rv32(vec![Record::ForcePc(1 << 40), op(NOP)])),
        ("stf-target-missing", "a return", 11, trace(vec![op(RET), op(NOP)])),
        ("stf-target-missing", "a jump", 11, trace(vec![op(JAL), op(NOP)])),
        ("stf-target-missing", "a return from a trap", 11, trace(vec![op(MRET), op(NOP)])),
        ("stf-target-opcode", "a jump elsewhere", 11, trace(vec![to(MEM), op(JAL)])),
        ("stf-target-opcode", "a branch elsewhere", 11, trace(vec![to(MEM), op(BEQ)])),
        ("stf-target-not-taken", "the next instruction", 11, trace(vec![to(PC + 8), op(BEQ)])),
        ("stf-target-no-branch", "of a nop", 11, trace(vec![to(MEM), op(NOP)])),
        ("stf-target-no-branch", "of a system call", 11, trace(vec![to(MEM), op(ECALL)])),
        ("stf-target-once", "two targets", 12, trace(vec![to(PC), to(MEM), op(RET)])),
        ("stf-mode-start", "no mode", 9, [super::fixtures::header(), vec![op(NOP)]].concat()),
        ("stf-mode-down", "to user mode by a nop", 11, trace(vec![mode(0), op(NOP), op(NOP)])),
        ("stf-mode-down", "to supervisor mode by a nop", 11, trace(vec![mode(1), op(NOP), op(NOP)])),
    ]
}

fn registers_and_walks() -> Vec<Row> {
    let walks = |body| featured(FEATURES | 0x100, body);
    vec![
        ("stf-register-meta", "type 5", 11, trace(vec![register(1, 0x15), op(NOP)])),
        ("stf-register-meta", "no operand", 11, trace(vec![register(1, 0x01), op(NOP)])),
        ("stf-register-meta", "reserved bits", 11, trace(vec![register(1, 0x51), op(NOP)])),
        ("stf-register-number", "x40", 11, trace(vec![register(40, 0x11), op(NOP)])),
        ("stf-register-number", "a CSR of 13 bits", 11, trace(vec![register(0x1000, 0x14), op(NOP)])),
        ("stf-walk-before-access", "after it", 13, walks(vec![read(8), word(0), walk(4096, 0xf), op(LD)])),
        ("stf-walk-page-size", "1000", 11, walks(vec![walk(1000, 0xf), op(NOP)])),
        ("stf-walk-leaf", "not a leaf", 11, walks(vec![walk(4096, 1), op(NOP)])),
    ]
}

fn accesses() -> Vec<Row> {
    let kind = Record::InstMemAccess(MemAccess { address: MEM, size: 8, attributes: 0, kind: 0 });
    vec![
        ("stf-access-missing", "of a load among others", 14, trace(vec![read(8), word(0), op(LD), op(LD), op(NOP)])),
        ("stf-access-missing", "of a store among others", 14, trace(vec![read(8), word(0), op(LD), op(SD), op(NOP)])),
        ("stf-access-missing", "before the first", 11, trace(vec![op(LD), op(LD), read(8), word(0), op(LD)])),
        ("stf-access-last", "a store at the end", 14, trace(vec![read(8), word(0), op(LD), op(SD)])),
        ("stf-accesses-absent", "none at all", 11, trace(vec![op(LD), op(SD)])),
        ("stf-access-unexpected", "of a nop", 11, trace(vec![read(8), word(0), op(NOP)])),
        ("stf-access-kind", "0", 11, trace(vec![kind, word(0), op(LD)])),
        ("stf-access-direction", "a load that writes", 11, trace(vec![write(8), word(0), op(LD)])),
        ("stf-access-direction", "a store that also reads", 11, {
            trace(vec![read(8), word(0), write(8), word(0), op(SD)])
        }),
        ("stf-access-atomic", "an atomic that only reads", 13, trace(vec![read(8), word(0), op(AMOADD_D)])),
        ("stf-access-size", "4 of 8 bytes", 11, trace(vec![read(4), word(0), op(LD)])),
        ("stf-access-size", "two of 8 bytes", 11, trace(vec![read(8), word(0), read(8), word(0), op(LD)])),
        ("stf-access-bits", "64", 11, trace(vec![read(64), word(0), op(LD), read(64), word(0), op(LD)])),
        ("stf-content-missing", "of a load", 11, trace(vec![read(8), op(LD)])),
        ("stf-content-alone", "without an access", 11, trace(vec![word(0), op(NOP)])),
        ("stf-content-count", "two for eight bytes", 11, trace(vec![read(8), word(0), word(0), op(LD)])),
        ("stf-content-count", "two for 32 bytes", 11, trace(vec![read(32), word(0), word(0), op(VLE64)])),
        ("stf-content-first-only", "one for 32 bytes", 11, {
            trace(vec![read(32), word(0), op(VLE64), read(32), word(0), op(VLE64)])
        }),
        ("stf-content-justified", "nine bits in a byte", 11, trace(vec![read(1), word(0x1ff), op(LB)])),
    ]
}

fn buses() -> Vec<Row> {
    let content = Record::BusMasterContent(0);
    vec![
        ("stf-bus-kind", "0", 11, trace(vec![bus(8, 1, 0), content, op(NOP)])),
        ("stf-bus-initiator", "9", 11, trace(vec![bus(8, 9, 1), content, op(NOP)])),
        ("stf-bus-content", "no content", 11, trace(vec![bus(8, 1, 1), op(NOP)])),
        ("stf-bus-content", "no access", 11, trace(vec![content, op(NOP)])),
        ("stf-bus-content-count", "one for 16 bytes", 11, trace(vec![bus(16, 1, 1), content, op(NOP)])),
        ("stf-bus-content-count", "two for 8 bytes", 11, trace(vec![bus(8, 1, 1), content, content, op(NOP)])),
    ]
}

fn events() -> Vec<Row> {
    let interrupt = 1 << 63;
    vec![
        ("stf-event-known", "fault 40", 11, trace(vec![event(40, &[]), op(NOP)])),
        ("stf-event-known", "interrupt 14", 11, trace(vec![event(interrupt | 14, &[0]), op(NOP)])),
        ("stf-event-known", "special 1", 11, trace(vec![event(1 << 62 | 1, &[0]), op(NOP)])),
        ("stf-event-data", "a page fault without fields", 11, trace(vec![event(13, &[]), op(LD)])),
        ("stf-event-missing", "a load, and a forced address", 11, {
            trace(vec![op(LD), Record::ForcePc(MEM), read(8), word(0), op(LD), op(LD), Record::ForcePc(PC), op(NOP)])
        }),
        ("stf-event-missing", "a call", 11, trace(vec![op(ECALL), Record::ForcePc(MEM), op(NOP)])),
        ("stf-event-zero-extended", "in RV32", 11, rv32(vec![event(interrupt | 7, &[1 << 32]), op(NOP)])),
        ("stf-fetch-fault-nop", "a load", 12, trace(vec![event(12, &[PC, 0]), op(LD)])),
        ("stf-mode-known", "7", 11, trace(vec![mode(7), op(NOP)])),
        ("stf-mode-known", "no field", 11, trace(vec![event(1 << 62, &[]), op(NOP)])),
        ("stf-event-target", "no event", 11, trace(vec![Record::EventPcTarget(MEM), op(NOP)])),
    ]
}

fn opcodes() -> Vec<Row> {
    let microop = Record::InstMicroop { size: 3, encoding: 0x13 };
    // cm.push {ra}, -16; cm.popret {ra}, 64
    let [push, pop] = [0xb842, 0xbe4e].map(Record::InstOpcode16);
    vec![
        ("stf-access-size", "a push", 12, extended(b"rv64imac_zcmp", vec![write(16), word(0), word(0), push])),
        ("stf-target-missing", "a pop and a return", 14, {
            extended(b"rv64imac_zcmp", vec![read(8), word(0), pop, op(NOP)])
        }),
        ("stf-microop-size", "3", 11, featured(FEATURES | 0x4000, vec![microop, op(NOP)])),
        ("stf-opcode-length", "two bytes in four", 11, trace(vec![op(0x4501)])),
        ("stf-opcode-length", "four bytes in two", 11, trace(vec![Record::InstOpcode16(0x13)])),
        ("stf-opcode-mode", "addiw in RV32", 11, rv32(vec![op(ADDIW)])),
        ("stf-opcode-illegal", "zeros", 11, trace(vec![Record::InstOpcode16(0)])),
        ("stf-opcode-illegal", "ones", 11, trace(vec![op(u32::MAX)])),
    ]
}
