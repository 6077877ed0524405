//! Bits of the members `known`: which other members of a struct have a value.
//!
//! Absent is not zero: a member whose bit is clear is 0, and means nothing.

/// A time: `time`.
pub const UNSPOOL_KNOWN_TIME: u32 = 1 << 0;
/// The opcode of an instruction: `opcode`.
pub const UNSPOOL_KNOWN_OPCODE: u32 = 1 << 1;
/// Whether the condition of an instruction held: `is_executed`.
pub const UNSPOOL_KNOWN_IS_EXECUTED: u32 = 1 << 2;
/// It is a branch with a known outcome: `taken`.
pub const UNSPOOL_KNOWN_TAKEN: u32 = 1 << 3;
/// Where a branch, exception or exception return leads: `target`.
pub const UNSPOOL_KNOWN_TARGET: u32 = 1 << 4;
/// The index into ZA that an instruction computes: `za_index`.
pub const UNSPOOL_KNOWN_ZA_INDEX: u32 = 1 << 5;
/// The class of an exception (EC of ESR_ELx): `exception_class`.
pub const UNSPOOL_KNOWN_EXCEPTION_CLASS: u32 = 1 << 6;
/// The immediate of the instruction that called: `call`.
pub const UNSPOOL_KNOWN_CALL: u32 = 1 << 7;
/// Whether an interrupt is virtual: `is_virtual`.
pub const UNSPOOL_KNOWN_IS_VIRTUAL: u32 = 1 << 8;
/// Where the interrupted program resumes: `return_address`.
pub const UNSPOOL_KNOWN_RETURN_ADDRESS: u32 = 1 << 9;
/// The Exception level: `level`.
pub const UNSPOOL_KNOWN_LEVEL: u32 = 1 << 10;
/// Whether the core is in AArch64 state: `is_aarch64`.
pub const UNSPOOL_KNOWN_IS_AARCH64: u32 = 1 << 11;
/// Whether the stack pointer is that of the Exception level: `is_handler`.
pub const UNSPOOL_KNOWN_IS_HANDLER: u32 = 1 << 12;
/// The process or context identifier: `process`.
pub const UNSPOOL_KNOWN_PROCESS: u32 = 1 << 13;
/// The thread: `thread`.
pub const UNSPOOL_KNOWN_THREAD: u32 = 1 << 14;
/// The virtual machine: `vmid`.
pub const UNSPOOL_KNOWN_VMID: u32 = 1 << 15;
/// Modes that change what instructions do: `streaming`, `dit`, `ssbs`, `vector_length`, `tag_check_fault`.
pub const UNSPOOL_KNOWN_MODES: u32 = 1 << 16;
/// The address without code: `address`.
pub const UNSPOOL_KNOWN_ADDRESS: u32 = 1 << 17;

/// Collects the bits of a struct.
#[derive(Default)]
pub(crate) struct Known(pub(crate) u32);

impl Known {
    /// The value or 0, and its bit.
    pub(crate) fn value<T: Default>(&mut self, bit: u32, value: Option<T>) -> T {
        if value.is_some() {
            self.0 |= bit;
        }
        value.unwrap_or_default()
    }
}
