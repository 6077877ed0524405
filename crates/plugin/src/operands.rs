//! Instructions of A64 whose address only a register tells, since nothing is accessed there that the emulator would tell:
//! which registers those are.
//!
//! Prefetches, and operations on caches, translations and blocks of zeros; and what is written to SPSR_ELx and SPSel, from
//! which the stack pointer in use follows. Fills and copies of memory (FEAT_MOPS) are not
//! among them: the emulator accesses memory for them and does not always tell it, so that registers alone would tell less
//! than what happened.

/// A register, as the stream has it: X0 to X30, and these.
pub(crate) type Register = u8;
pub(crate) const SP: Register = 31;
pub(crate) const TCR_EL1: Register = 32;
/// Where a block is executed, which the stream tells in another way.
pub(crate) const PC: Register = 33;
/// How large a block of zeros is. What reads it is told instead: the emulator does not show it.
pub(crate) const DCZID_EL0: Register = 34;
/// None.
const NONE: Register = 63;

/// Registers that are told with an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operands {
    /// The block and the index of the instruction that they are told before.
    pub(crate) block: u32,
    pub(crate) index: u16,
    /// Up to two of them.
    registers: [Register; 2],
    pub(crate) what: What,
}

/// What an instruction does with its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// An address is made of them, or the state.
    Address,
    /// A block of zeros is written, as large as DCZID_EL0 says.
    Zeros,
    /// The instruction before has read DCZID_EL0 into the first.
    BlockSize,
}

impl Operands {
    /// Those of an instruction, in the place where they are told; `None`: it has none that matter.
    pub(crate) fn of(bytes: &[u8], block: u32, index: u16) -> Option<Self> {
        let opcode = u32::from_le_bytes(bytes.try_into().ok()?);
        let field = |low: u32| (opcode >> low & 0x1f) as Register;
        let told = |registers, what| Some(Self { block, index, registers, what });
        match opcode {
            // PRFM of a base and an offset, PRFUM, and PRFM of a base and an index.
            _ if opcode & 0xffc0_0000 == 0xf980_0000 || opcode & 0xffe0_0c00 == 0xf880_0000 => {
                told([field(5), NONE], What::Address)
            }
            _ if opcode & 0xffe0_0c00 == 0xf8a0_0800 => told([field(5), or_none(field(16))], What::Address),
            _ if opcode & !0x1f == MRS_DCZID_EL0 => {
                Some(Self { index: index + 1, ..told([or_none(field(0)), NONE], What::BlockSize)? })
            }
            _ if opcode & !0x1f == DC_ZVA => told([or_none(field(0)), NONE], What::Zeros),
            // MSR of SPSR_EL1 to SPSR_EL3, SPSR_EL12 and SPSel.
            _ if [0xd518_4000, 0xd51c_4000, 0xd51e_4000, 0xd51d_4000, 0xd518_4200].contains(&(opcode & !0x1f)) => {
                told([or_none(field(0)), NONE], What::Address)
            }
            // SYS: IC, DC and AT; TLBI, of ranges too.
            _ if opcode & 0xfff8_0000 == 0xd508_0000 => match (opcode >> 12 & 0xf, opcode >> 8 & 0xf) {
                (8 | 9, 2 | 5 | 6) => told([or_none(field(0)), TCR_EL1], What::Address),
                (7..=9, _) => told([or_none(field(0)), NONE], What::Address),
                _ => None,
            },
            _ => None,
        }
    }

    /// The registers.
    pub(crate) fn registers(self) -> impl Iterator<Item = Register> {
        self.registers.into_iter().filter(|register| *register != NONE)
    }

    /// As one word.
    pub(crate) fn pack(self) -> u64 {
        let [one, other] = self.registers.map(u64::from);
        let what = match self.what {
            What::Address => 0,
            What::Zeros => 1,
            What::BlockSize => 2,
        };
        u64::from(self.block) << 32 | u64::from(self.index) << 16 | what << 12 | one << 6 | other
    }

    pub(crate) fn unpack(word: u64) -> Self {
        let what = match word >> 12 & 0xf {
            0 => What::Address,
            1 => What::Zeros,
            _ => What::BlockSize,
        };
        let registers = [word >> 6, word].map(|register| (register & 0x3f) as Register);
        Self { block: (word >> 32) as u32, index: (word >> 16) as u16, registers, what }
    }
}

const MRS_DCZID_EL0: u32 = 0xd53b_00e0;
const DC_ZVA: u32 = 0xd50b_7420;

/// Register 31 is zero where it is not the stack pointer.
fn or_none(register: Register) -> Register {
    if register == SP { NONE } else { register }
}
