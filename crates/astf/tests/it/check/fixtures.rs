//! Records and traces for the rows of the tests.

pub(crate) use unspool_astf::record::*;

pub(crate) const PC: u64 = 0x40_0000;
pub(crate) const MEM: u64 = 0x50_0000;
/// The entry for synchronous exceptions of the same level; those for IRQ, FIQ and SError follow.
pub(crate) const VECTOR: u64 = 0xffff_8000_0001_0200;
/// `{pc}-0x44`
pub(crate) const B_NE: u32 = 0x54ff_fde1;
/// `{pc}+8`
pub(crate) const B: u32 = 0x1400_0002;
pub(crate) const RET: u32 = 0xd65f_03c0;
pub(crate) const ERET: u32 = 0xd69f_03e0;
pub(crate) const SVC: u32 = 0xd400_0001;
pub(crate) const HVC: u32 = 0xd400_0002;
pub(crate) const ADD: u32 = 0x9100_0400;
pub(crate) const WFI: u32 = 0xd503_207f;
pub(crate) const LDR: u32 = 0xf940_0020;
pub(crate) const STR: u32 = 0xf900_0020;
pub(crate) const LDP: u32 = 0xa941_53f3;
pub(crate) const STXR: u32 = 0xc800_7c41;
pub(crate) const CAS: u32 = 0xc8a0_7c41;
pub(crate) const LDADD: u32 = 0xf820_0041;
pub(crate) const PRFM: u32 = 0xf980_0000;
pub(crate) const PRFB: u32 = 0x85c0_0000;
pub(crate) const DC_CVAC: u32 = 0xd50b_7a20;
pub(crate) const DC_ZVA: u32 = 0xd50b_7420;
pub(crate) const DC_GVA: u32 = 0xd50b_7460;
pub(crate) const TLBI_VAE1: u32 = 0xd508_8720;
pub(crate) const TLBI_VMALLE1: u32 = 0xd508_871f;
pub(crate) const TLBI_RVAE1: u32 = 0xd508_8620;
pub(crate) const AT_S1E1R: u32 = 0xd508_7800;
pub(crate) const STG: u32 = 0xd920_0820;
pub(crate) const LDG: u32 = 0xd960_0020;
pub(crate) const STGP: u32 = 0x6900_0440;
pub(crate) const LD1D: u32 = 0xa5e0_4000;
pub(crate) const ST1D: u32 = 0xe5e0_4000;
pub(crate) const LDFF1D: u32 = 0xa5e0_6000;
pub(crate) const SETP: u32 = 0x19c2_0420;
pub(crate) const CPYFP: u32 = 0x1901_0440;
pub(crate) const LDR_ZA: u32 = 0xe100_0004;
pub(crate) const LDR_ZT0: u32 = 0xe11f_8000;
pub(crate) const LDR_Z: u32 = 0x8580_4000;
pub(crate) const STR_P: u32 = 0xe580_0000;
pub(crate) const SVE_ADD: u32 = 0x0420_0000;
pub(crate) const SMOPA: u32 = 0xa080_0000;
pub(crate) const ZERO_ZA: u32 = 0xc008_00ff;
pub(crate) const ADDHA: u32 = 0xc090_0000;
pub(crate) const MOVT: u32 = 0xc04c_03e0;
pub(crate) const NOP: u32 = 0xd503_201f;
pub(crate) const ISB: u32 = 0xd503_3fdf;
pub(crate) const DSB: u32 = 0xd503_3f9f;
/// `mrs x0, tpidr_el0`
pub(crate) const MRS_EL0: u32 = 0xd53b_d040;
/// `mrs x0, sctlr_el1`
pub(crate) const MRS_EL1: u32 = 0xd538_1000;
pub(crate) const SMSTART_SM: u32 = 0xd503_437f;
pub(crate) const MSR_DIT_1: u32 = 0xd503_415f;
/// Unallocated, in the group of branches.
pub(crate) const UNKNOWN_BRANCH: u32 = 0x5600_0000;
/// Unallocated, in the group of loads and stores.
pub(crate) const UNKNOWN_ACCESS: u32 = 0x7800_0800 | 1 << 26;

/// Type of a record.
pub(crate) trait IsRecord {
    fn record(self) -> Record;
}

macro_rules! is_record {
    ($($type:ident)*) => {
        $(impl IsRecord for $type {
            fn record(self) -> Record {
                Record::$type(self)
            }
        })*
    };
}
is_record!(Header Instruction Trap ExtraEa Context StringStart StringContinuation Timestamp);

impl IsRecord for Record {
    fn record(self) -> Record {
        self
    }
}

/// A vector of records of any types.
macro_rules! records {
    ($($record:expr),* $(,)?) => { vec![$($crate::check::fixtures::IsRecord::record($record)),*] };
}
pub(crate) use records;

macro_rules! plus {
    ($($record:tt)*) => { $crate::check::fixtures::plus_trace(records![$($record)*]) };
}
macro_rules! basic {
    ($($record:tt)*) => { $crate::check::fixtures::basic_trace(records![$($record)*]) };
}
macro_rules! timed {
    ($($record:tt)*) => { $crate::check::fixtures::timed_trace(records![$($record)*]) };
}
pub(crate) use {basic, plus, timed};

/// A BasicPlus trace in EL1; the body starts with record 3.
pub(crate) fn plus_trace(body: Vec<Record>) -> Vec<Record> {
    [records![Header::new(Level::BasicPlus, false, Storage::Raw), el1()], body].concat()
}

/// A Basic trace in EL0; the body starts with record 3.
pub(crate) fn basic_trace(body: Vec<Record>) -> Vec<Record> {
    [records![Header::new(Level::Basic, false, Storage::Raw), el0()], body].concat()
}

/// A BasicPlus trace in EL1 with the time 100 in record 2; the body starts with record 4.
pub(crate) fn timed_trace(body: Vec<Record>) -> Vec<Record> {
    [records![Header::new(Level::BasicPlus, true, Storage::Raw), time(100), el1()], body].concat()
}

pub(crate) fn el0() -> Context {
    Context::default()
}

pub(crate) fn el1() -> Context {
    Context { el: 1, handler: true, ..Context::default() }
}

pub(crate) fn unsupported() -> Context {
    Context { unsupported: true, ..Context::default() }
}

pub(crate) fn time(value: u64) -> Timestamp {
    Timestamp { unit: MICROSECONDS, value, ..Timestamp::default() }
}

pub(crate) fn text(size: u16, bytes: &[u8]) -> StringStart {
    let mut string = [0; 28];
    string[..bytes.len()].copy_from_slice(bytes);
    StringStart { size, string, ..StringStart::default() }
}

pub(crate) fn more_text(bytes: &[u8]) -> StringContinuation {
    let mut string = [0; 31];
    string[..bytes.len()].copy_from_slice(bytes);
    StringContinuation { string }
}

pub(crate) fn op(pc: u64, iword: u32) -> Instruction {
    Instruction { pc, iword, ..Instruction::default() }
}

pub(crate) fn add(pc: u64) -> Instruction {
    op(pc, ADD)
}

/// An instruction with an access that neither reads nor writes.
pub(crate) fn touch(pc: u64, iword: u32, bytes: u16) -> Instruction {
    Instruction { ea_valid: true, ea: MEM, ea_size: (bytes - 1) as u8, ..op(pc, iword) }
}

pub(crate) fn read(pc: u64, iword: u32, bytes: u16) -> Instruction {
    Instruction { is_read: true, ..touch(pc, iword, bytes) }
}

pub(crate) fn write(pc: u64, iword: u32, bytes: u16) -> Instruction {
    Instruction { is_write: true, ..touch(pc, iword, bytes) }
}

pub(crate) fn more(instruction: Instruction) -> Instruction {
    Instruction { extra_eas: true, ..instruction }
}

pub(crate) fn tagged(instruction: Instruction) -> Instruction {
    Instruction { ea_tagged: true, ..instruction }
}

/// An instruction with an index into ZA.
pub(crate) fn indexed(instruction: Instruction) -> Instruction {
    Instruction { xattr_mode: xattr_mode::SME, ..instruction }
}

pub(crate) fn trapped(instruction: Instruction) -> Instruction {
    Instruction { trap: true, ..instruction }
}

pub(crate) fn ranged(instruction: Instruction, size: u64) -> Instruction {
    Instruction { xattr_mode: xattr_mode::RANGE, xattr: size, ea_size: 0, ..instruction }
}

/// A branch that is taken.
pub(crate) fn jump(pc: u64, iword: u32, ea: u64) -> Instruction {
    Instruction { is_branch: true, ea_valid: true, ea, ..op(pc, iword) }
}

/// A branch that is not taken.
pub(crate) fn pass(pc: u64, iword: u32) -> Instruction {
    Instruction { is_branch: true, ..op(pc, iword) }
}

/// One more access, which neither reads nor writes.
pub(crate) fn extra(mem0_addr: u64, bytes: u16) -> ExtraEa {
    ExtraEa { mem0_addr, mem0_size: (bytes - 1) as u8, ..ExtraEa::default() }
}

pub(crate) fn extra_read(address: u64, bytes: u16) -> ExtraEa {
    ExtraEa { mem0_is_read: true, ..extra(address, bytes) }
}

pub(crate) fn extra_write(address: u64, bytes: u16) -> ExtraEa {
    ExtraEa { mem0_is_write: true, ..extra(address, bytes) }
}

/// One more range, which is written.
pub(crate) fn extra_range(address: u64, size: u64) -> ExtraEa {
    ExtraEa { mem1_addr_range: true, mem1_addr: size, ..extra_write(address, 1) }
}

/// A synchronous exception of a class.
pub(crate) fn exception(ec: u8) -> Trap {
    Trap { ec, target_pc: VECTOR, ..Trap::default() }
}

pub(crate) fn irq() -> Trap {
    Trap { trap_type: trap_type::IRQ, target_pc: VECTOR + 0x80, ..Trap::default() }
}

pub(crate) fn serror() -> Trap {
    Trap { trap_type: trap_type::SERROR, ec: 0x2f, target_pc: VECTOR + 0x180, ..Trap::default() }
}

pub(crate) fn exception_return(target_pc: u64) -> Trap {
    Trap { trap_type: trap_type::EXCEPTION_RETURN, target_pc, ..Trap::default() }
}

pub(crate) fn reset(target_pc: u64) -> Trap {
    Trap { trap_type: trap_type::RESET, target_pc, ..Trap::default() }
}
