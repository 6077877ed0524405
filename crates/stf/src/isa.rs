//! Instruction sets as the format numbers them.

/// Number of RISC-V among instruction sets.
pub(crate) const RISCV: u16 = 1;

/// Number of Arm among instruction sets.
pub(crate) const ARM: u16 = 2;

/// Number of RV32 among encoding modes.
pub(crate) const RV32: u16 = 1;

/// Is the word unallocated in A64, so that the trace must be of another instruction set of Arm? Half of the data in A32
/// code is.
pub(crate) fn is_unallocated_in_a64(word: u32) -> bool {
    matches!(word >> 25 & 0xf, 0b0001 | 0b0011)
}
