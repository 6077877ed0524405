//! Opcodes of the tests.

pub(crate) const NOP: u32 = 0xd503_201f;
pub(crate) const ADD: u32 = 0x8b00_0000;
/// ldr x0, [x1]
pub(crate) const LDR: u32 = 0xf940_0020;
pub(crate) const STR: u32 = 0xf900_0020;
/// ldp x19, x20, [sp, #0x10]
pub(crate) const LDP: u32 = 0xa941_53f3;
pub(crate) const LDADD: u32 = 0xf820_0041;
pub(crate) const CAS: u32 = 0xc8a1_7c02;
pub(crate) const STXR: u32 = 0xc800_7c41;
/// prfm pldl1keep, [x0]
pub(crate) const PRFM: u32 = 0xf980_0000;
/// dc cvac, x0
pub(crate) const DC: u32 = 0xd50b_7a20;
pub(crate) const ZVA: u32 = 0xd50b_7420;
/// b.eq .+8
pub(crate) const B_EQ: u32 = 0x5400_0040;
/// b .+8
pub(crate) const B: u32 = 0x1400_0002;
pub(crate) const RET: u32 = 0xd65f_03c0;
/// svc #5
pub(crate) const SVC: u32 = 0xd400_00a1;
pub(crate) const HVC: u32 = 0xd400_0002;
pub(crate) const BRK: u32 = 0xd420_0000;
pub(crate) const ERET: u32 = 0xd69f_03e0;
/// ld1b {z0.b}, p0/z, [x0, x0]
pub(crate) const LD1B: u32 = 0xa400_4000;
/// msr SPSel, #0
pub(crate) const SPSEL_0: u32 = 0xd500_40bf;
pub(crate) const SMSTART: u32 = 0xd503_437f;
pub(crate) const CPYM: u32 = 0x1941_0440;
pub(crate) const SETM: u32 = 0x19c1_4440;
