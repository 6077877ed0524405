//! Traces of A64 instructions, checked against their opcodes.

use super::fixtures::*;
use super::{accepted, broken};

const NOP: u32 = 0xd503_201f;
const ADD: u32 = 0x8b00_0000;
/// `{pc}+8`
const B: u32 = 0x1400_0002;
/// `{pc}+4`
const B_4: u32 = 0x1400_0001;
/// `{pc}+8`
const BL: u32 = 0x9400_0002;
/// `{pc}+8`
const CBZ: u32 = 0xb400_0040;
/// `{pc}+8`, under the condition "always"
const B_AL: u32 = 0x5400_004e;
const BR: u32 = 0xd61f_0000;
const RET: u32 = 0xd65f_03c0;
const ERET: u32 = 0xd69f_03e0;
const SVC: u32 = 0xd400_0001;
const LDR: u32 = 0xf940_0020;
const LDRB: u32 = 0x3940_0020;
const STR: u32 = 0xf900_0020;
const LDP: u32 = 0xa8c1_7bfd;
const STP_Q: u32 = 0xad00_0400;
const LDADD: u32 = 0xf820_0041;
const CAS: u32 = 0xc8a0_7c41;
const STXR: u32 = 0xc800_7c41;
const PRFM: u32 = 0xf980_0020;
const DC_ZVA: u32 = 0xd50b_7420;
const STG: u32 = 0xd920_0800;
/// `ld1w {z0.s}, p0/z, [x0]`
const LD1W: u32 = 0xa540_a000;
/// `ld1rw {z0.s}, p0/z, [x0]`, whose opcode determines the size
const LD1RW: u32 = 0x8540_c000;
const FADD_V: u32 = 0x4e20_d400;
/// An unallocated access.
const RESERVED_ACCESS: u32 = 0x0c00_1000;
/// An implementation defined system instruction.
const SYS: u32 = 0xd508_b000;

fn arm(features: u64, body: Records) -> Records {
    let mut records = [header(), vec![mode(3), op(NOP)], body].concat();
    records[3] = Record::Isa(2);
    records[4] = Record::InstIem(1);
    records[6] = Record::TraceInfoFeature(features);
    records
}

/// A header, and an instruction at `PC`; the body starts with record 11, at `PC + 4`.
fn a64(body: Records) -> Records {
    arm(0x8_0000, body)
}

pub(crate) fn broken() -> Vec<broken::Row> {
    [broken_flow(), broken_accesses()].concat()
}

fn broken_flow() -> Vec<broken::Row> {
    vec![
        ("stf-target-missing", "A64: a call", 11, a64(vec![op(BL), op(NOP)])),
        ("stf-target-missing", "A64: a return", 11, a64(vec![op(RET), op(NOP)])),
        ("stf-target-missing", "A64: an exception return", 11, a64(vec![op(ERET), op(NOP)])),
        ("stf-target-missing", "A64: the condition \"always\"", 11, a64(vec![op(B_AL), op(NOP)])),
        ("stf-target-opcode", "A64: a jump", 11, a64(vec![to(PC + 16), op(B)])),
        ("stf-target-opcode", "A64: a branch", 11, a64(vec![to(MEM), op(CBZ)])),
        ("stf-target-not-taken", "A64: a branch", 11, a64(vec![to(PC + 8), op(CBZ)])),
        ("stf-target-no-branch", "A64: an addition", 11, a64(vec![to(MEM), op(ADD)])),
        ("stf-target-no-branch", "A64: a load", 11, a64(vec![to(MEM), read(8), word(0), op(LDR)])),
        ("stf-mode-down", "A64: to user mode", 11, a64(vec![mode(0), op(NOP), op(NOP)])),
        ("stf-opcode-illegal", "A64: zeros", 11, a64(vec![op(0)])),
        ("stf-fetch-fault-nop", "A64: a load", 12, a64(vec![event(1, &[PC + 4]), op(LDR)])),
    ]
}

fn broken_accesses() -> Vec<broken::Row> {
    vec![
        ("stf-access-missing", "A64: a load", 14, a64(vec![read(8), word(0), op(LDR), op(LDR), op(NOP)])),
        ("stf-access-missing", "A64: a comparison reads", 14, a64(vec![read(8), word(0), op(LDR), op(CAS), op(NOP)])),
        ("stf-access-last", "A64: a store", 14, a64(vec![read(8), word(0), op(LDR), op(STR)])),
        ("stf-accesses-absent", "A64: two", 11, a64(vec![op(LDR), op(LDP), op(NOP)])),
        ("stf-access-unexpected", "A64: an addition", 11, a64(vec![read(8), word(0), op(ADD)])),
        ("stf-access-unexpected", "A64: a branch", 11, a64(vec![read(8), word(0), op(CBZ)])),
        ("stf-access-unexpected", "A64: an addition of vectors", 11, a64(vec![read(8), word(0), op(FADD_V)])),
        ("stf-access-direction", "A64: a load writes", 11, a64(vec![write(8), word(0), op(LDR)])),
        ("stf-access-direction", "A64: a store reads", 11, a64(vec![read(8), word(0), op(STR)])),
        ("stf-access-atomic", "A64: nothing written", 13, a64(vec![read(8), word(0), op(LDADD)])),
        ("stf-access-atomic", "A64: nothing compared", 13, a64(vec![write(8), word(0), op(CAS)])),
        ("stf-access-size", "A64: a load", 11, a64(vec![read(4), word(0), op(LDR)])),
        ("stf-access-size", "A64: half of a pair", 11, a64(vec![read(8), word(0), op(LDP)])),
        ("stf-access-bits", "A64: a load", 11, a64(vec![read(64), word(0), op(LDR)])),
        ("stf-content-count", "A64: a pair", 11, a64(vec![read(16), word(0), word(0), word(0), op(LDP)])),
        ("stf-content-first-only", "A64: a pair", 11, a64(vec![read(16), word(0), op(LDP)])),
        ("stf-content-missing", "A64: a load", 11, a64(vec![read(8), op(LDR)])),
        ("stf-content-justified", "A64: a byte", 11, a64(vec![read(1), word(0x100), op(LDRB)])),
    ]
}

pub(crate) fn accepted() -> Vec<accepted::Row> {
    [accepted_flow(), accepted_accesses(), other_sets()].concat()
}

fn accepted_flow() -> Vec<accepted::Row> {
    vec![
        ("A64: a call and a return", a64(vec![to(PC + 12), op(BL), to(PC + 8), op(RET), op(NOP)])),
        ("A64: a branch", a64(vec![to(PC + 12), op(CBZ), op(CBZ), op(NOP)])),
        ("A64: a branch back", a64(vec![to(PC + 4 - (1 << 20)), op(0xb480_0000), op(NOP)])),
        ("A64: a jump to the next instruction", a64(vec![op(B_4), op(NOP)])),
        ("A64: the next address is forced", a64(vec![op(BR), Record::ForcePc(MEM), op(NOP)])),
        ("A64: a jump at the end", a64(vec![op(BR)])),
        ("A64: a call without a trap", a64(vec![op(SVC), op(NOP)])),
        // The specification numbers the events of RISC-V only.
        ("A64: a call, and a forced address", a64(vec![op(SVC), Record::ForcePc(MEM), op(NOP)])),
        ("A64: a load that fails, and a forced address", {
            a64(vec![read(8), word(0), op(LDR), op(LDR), Record::ForcePc(MEM), op(NOP)])
        }),
        ("A64: a call with its event", {
            a64(vec![event(8, &[64]), mode(3), Record::EventPcTarget(MEM), op(SVC), op(NOP)])
        }),
        ("A64: a return to user mode", a64(vec![to(MEM), mode(0), op(ERET), op(NOP)])),
        ("A64: a fetch that failed", a64(vec![event(1, &[PC + 4]), Record::EventPcTarget(MEM), op(NOP), op(NOP)])),
        ("A64: zeros, and an event", a64(vec![event(2, &[PC + 4, 0, 1]), Record::EventPcTarget(MEM), op(0)])),
        ("A64: an unallocated access", a64(vec![to(MEM), read(8), word(0), op(RESERVED_ACCESS), op(NOP)])),
        ("A64: a system register", a64(vec![register(0xc080, 0x34), op(0xd538_1000)])),
    ]
}

fn accepted_accesses() -> Vec<accepted::Row> {
    let load = || vec![read(8), word(u64::MAX), op(LDR)];
    let zeros = || [vec![write(64)], vec![word(0); 8]].concat();
    vec![
        (
            "A64: loads and stores",
            a64([load(), vec![write(8), word(0), op(STR), read(1), word(0xff), op(LDRB)]].concat()),
        ),
        ("A64: a pair", a64(vec![read(16), word(0), word(1), op(LDP)])),
        ("A64: a pair in two parts", a64(vec![read(8), word(0), read(8), word(1), op(LDP)])),
        ("A64: a pair of vectors", a64([vec![write(32)], vec![word(0); 4], vec![op(STP_Q)]].concat())),
        ("A64: a load that faulted", a64([load(), fault(), vec![op(LDR), op(NOP)]].concat())),
        ("A64: an atomic", a64(vec![read(8), word(0), write(8), word(0), op(LDADD)])),
        ("A64: a comparison that holds", a64(vec![read(8), word(0), write(8), word(0), op(CAS)])),
        ("A64: a comparison that does not hold", a64(vec![read(8), word(0), op(CAS)])),
        ("A64: an exclusive store", a64(vec![write(8), word(0), op(STXR)])),
        ("A64: an exclusive store that failed", a64([load(), vec![op(STXR), op(NOP)]].concat())),
        ("A64: a prefetch", a64([load(), vec![op(PRFM), read(8), word(0), op(PRFM)]].concat())),
        ("A64: a block of zeros", a64([load(), vec![op(DC_ZVA)], zeros(), vec![op(DC_ZVA)]].concat())),
        ("A64: tags", a64([load(), vec![op(STG), write(16), word(0), word(0), op(STG)]].concat())),
        ("A64: a predicate selects nothing", a64([load(), vec![op(LD1W), op(LD1RW), op(NOP)]].concat())),
        (
            "A64: a predicate selects something",
            a64(vec![read(12), word(0), word(0), op(LD1W), read(4), word(0), op(LD1RW)]),
        ),
        ("A64: a guarded control stack", {
            a64(vec![to(PC + 12), write(8), word(0), op(BL), to(PC + 8), read(8), word(0), op(RET), op(NOP)])
        }),
        ("A64: an implementation defined instruction", a64(vec![read(8), word(0), op(SYS)])),
        ("A64: vectors", arm(0xc_0000, vec![op(FADD_V)])),
    ]
}

/// The header has one number for all instruction sets of Arm.
fn other_sets() -> Vec<accepted::Row> {
    vec![
        (
            "T32: a load and a branch",
            a64(vec![Record::InstOpcode16(0x6808), to(MEM), Record::InstOpcode16(0xe7fe), op(NOP)]),
        ),
        // mov r0, #1; b; ldr r0, [r1]
        ("A32: a number and a branch", a64(vec![op(0xe3a0_0001), to(MEM), op(0xea00_0000), op(0xe591_0000), op(NOP)])),
    ]
}
