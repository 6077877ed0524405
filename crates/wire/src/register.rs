//! The numbers of registers in the stream.
//!
//! General-purpose registers have their own numbers: X0 to X30, R0 to R14, x1 to x31 of RISC-V.

/// The number of a register.
pub type Register = u16;

/// The stack pointer of AArch64.
pub const SP: Register = 31;
/// TCR_EL1.
pub const TCR_EL1: Register = 32;
/// The program counter. It is read by the plugin and never sent.
pub const PC: Register = 33;
/// DCZID_EL0: the size of the block that DC ZVA writes.
pub const DCZID_EL0: Register = 34;
/// CPSR, or its part that AArch64 has.
pub const STATUS: Register = 35;
/// TTBR0_EL1.
pub const TTBR0_EL1: Register = 36;
/// TTBR1_EL1.
pub const TTBR1_EL1: Register = 37;
/// CONTEXTIDR_EL1.
pub const CONTEXTIDR_EL1: Register = 38;
/// The first of 32 vector or floating-point registers: V0, D0 or f0.
pub const FLOAT: Register = 64;
/// The number of register numbers.
pub const COUNT: usize = FLOAT as usize + 32;
