//! A64 instructions with an address that no access reports, and the registers that form it.
//!
//! Prefetches, maintenance of caches and translations, DC ZVA; writes of SPSR_ELx and SPSel, which determine the stack pointer
//! in use, and of the registers that determine the process. Fills and copies of memory (FEAT_MOPS) are not among them: the emulator accesses memory for them and does
//! not always report it, so that registers alone would be incomplete.

use unspool_wire::register::{Register, SP, TCR_EL1};

const NONE: Register = 63;

/// Registers to record with an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operands {
    /// The block and the index of the instruction that they are recorded before.
    pub(crate) block: u32,
    pub(crate) index: u16,
    /// Up to two of them.
    registers: [Register; 2],
    pub(crate) usage: Usage,
}

/// The use that an instruction makes of its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// To form an address, or the state.
    Address,
    /// As the address of a block of zeros, whose size is in DCZID_EL0.
    Zeros,
    /// As the size in DCZID_EL0, which the previous instruction has read: the emulator does not report that register.
    BlockSize,
}

impl Operands {
    /// The operands of an instruction, where they are recorded; `None`: none are needed.
    pub(crate) fn of(bytes: &[u8], block: u32, index: u16) -> Option<Self> {
        let opcode = u32::from_le_bytes(bytes.try_into().ok()?);
        let field = |low: u32| (opcode >> low & 0x1f) as Register;
        let some = |registers, usage| Some(Self { block, index, registers, usage });
        match opcode {
            // PRFM of a base and an offset, PRFUM, and PRFM of a base and an index.
            _ if opcode & 0xffc0_0000 == 0xf980_0000 || opcode & 0xffe0_0c00 == 0xf880_0000 => {
                some([field(5), NONE], Usage::Address)
            }
            _ if opcode & 0xffe0_0c00 == 0xf8a0_0800 => some([field(5), or_none(field(16))], Usage::Address),
            _ if opcode & !0x1f == MRS_DCZID_EL0 => {
                Some(Self { index: index + 1, ..some([or_none(field(0)), NONE], Usage::BlockSize)? })
            }
            _ if opcode & !0x1f == DC_ZVA => some([or_none(field(0)), NONE], Usage::Zeros),
            _ if STATE.contains(&(opcode & !0x1f)) => some([or_none(field(0)), NONE], Usage::Address),
            // SYS: IC, DC and AT; TLBI, of ranges too.
            _ if opcode & 0xfff8_0000 == 0xd508_0000 => match (opcode >> 12 & 0xf, opcode >> 8 & 0xf) {
                (8 | 9, 2 | 5 | 6) => some([or_none(field(0)), TCR_EL1], Usage::Address),
                (7..=9, _) => some([or_none(field(0)), NONE], Usage::Address),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn registers(self) -> impl Iterator<Item = Register> {
        self.registers.into_iter().filter(|register| *register != NONE)
    }

    pub(crate) fn pack(self) -> u64 {
        let [one, other] = self.registers.map(u64::from);
        let usage = match self.usage {
            Usage::Address => 0,
            Usage::Zeros => 1,
            Usage::BlockSize => 2,
        };
        u64::from(self.block) << 32 | u64::from(self.index) << 16 | usage << 12 | one << 6 | other
    }

    pub(crate) fn unpack(word: u64) -> Self {
        let usage = match word >> 12 & 0xf {
            0 => Usage::Address,
            1 => Usage::Zeros,
            _ => Usage::BlockSize,
        };
        let registers = [word >> 6, word].map(|register| (register & 0x3f) as Register);
        Self { block: (word >> 32) as u32, index: (word >> 16) as u16, registers, usage }
    }
}

/// MSR of registers that the state follows from: SPSR_EL1 to SPSR_EL3, SPSR_EL12, SPSel; TTBR0_EL1, TTBR1_EL1, TCR_EL1,
/// CONTEXTIDR_EL1.
const STATE: [u32; 9] = [
    0xd518_4000,
    0xd51c_4000,
    0xd51e_4000,
    0xd51d_4000,
    0xd518_4200,
    0xd518_2000,
    0xd518_2020,
    0xd518_2040,
    0xd518_d020,
];
const MRS_DCZID_EL0: u32 = 0xd53b_00e0;
const DC_ZVA: u32 = 0xd50b_7420;

/// Register 31 is zero where it is not the stack pointer.
fn or_none(register: Register) -> Register {
    if register == SP { NONE } else { register }
}
