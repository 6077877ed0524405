//! Executed instructions.

use unspool::isa::Isa;
use unspool::{ExecutedInstruction, Opened, model};

use crate::known::*;
use crate::pointer::free;
use crate::reader::{Reader, open, read};
use crate::status::UnspoolStatus;
use crate::trace::UnspoolTrace;

/// Instruction set.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnspoolIsa {
    /// AArch64.
    A64 = 0,
    /// AArch32, 32-bit instructions.
    A32 = 1,
    /// AArch32, 16-bit and 32-bit instructions (Thumb).
    T32 = 2,
    /// RISC-V with 32-bit registers.
    Rv32 = 3,
    /// RISC-V with 64-bit registers.
    Rv64 = 4,
}

impl From<Isa> for UnspoolIsa {
    fn from(isa: Isa) -> Self {
        match isa {
            Isa::A64 => Self::A64,
            Isa::A32 => Self::A32,
            Isa::T32 => Self::T32,
            Isa::Rv32 => Self::Rv32,
            Isa::Rv64 => Self::Rv64,
        }
    }
}

/// An instruction.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolInstruction {
    /// Address.
    pub address: u64,
    /// Address at which execution continues after a taken branch, if UNSPOOL_KNOWN_TARGET.
    pub target: u64,
    /// Opcode, if UNSPOOL_KNOWN_OPCODE; of T32, the first halfword is the high one.
    pub opcode: u32,
    /// UNSPOOL_KNOWN_ bits of the members that have a value.
    pub known: u32,
    /// Instruction set.
    pub isa: UnspoolIsa,
    /// Length in bytes.
    pub length: u8,
    /// Index into ZA that the instruction computes, if UNSPOOL_KNOWN_ZA_INDEX.
    pub za_index: u8,
    /// Whether its condition held, if UNSPOOL_KNOWN_IS_EXECUTED.
    pub is_executed: bool,
    /// Whether the branch was taken, if UNSPOOL_KNOWN_TAKEN; without this bit it is no branch, or the outcome is unknown.
    pub taken: bool,
}

impl From<&model::Instruction> for UnspoolInstruction {
    fn from(instruction: &model::Instruction) -> Self {
        let mut known = Known::default();
        Self {
            address: instruction.address,
            target: known.value(UNSPOOL_KNOWN_TARGET, instruction.branch.and_then(|branch| branch.target)),
            opcode: known.value(UNSPOOL_KNOWN_OPCODE, instruction.opcode),
            isa: instruction.isa.into(),
            length: instruction.length,
            za_index: known.value(UNSPOOL_KNOWN_ZA_INDEX, instruction.za_index),
            is_executed: known.value(UNSPOOL_KNOWN_IS_EXECUTED, instruction.is_executed),
            taken: known.value(UNSPOOL_KNOWN_TAKEN, instruction.branch.map(|branch| branch.taken)),
            known: known.0,
        }
    }
}

/// An executed instruction, with its position and time.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolExecutedInstruction {
    /// The instruction.
    pub instruction: UnspoolInstruction,
    /// Record of an ASTF or STF file, line of a log, byte offset in a buffer of a capture.
    pub position: u64,
    /// Time in the unit of the trace, if UNSPOOL_KNOWN_TIME.
    pub time: u64,
    /// UNSPOOL_KNOWN_ bits of the members that have a value.
    pub known: u32,
    /// Core; of a capture, index of the source.
    pub core: u32,
    /// Whether part of the execution before it is missing, or it is the first of its core.
    pub follows_gap: bool,
}

impl From<ExecutedInstruction> for UnspoolExecutedInstruction {
    fn from(executed: ExecutedInstruction) -> Self {
        let mut known = Known::default();
        Self {
            instruction: (&executed.instruction).into(),
            position: executed.position,
            time: known.value(UNSPOOL_KNOWN_TIME, executed.time),
            core: executed.core,
            follows_gap: executed.follows_gap,
            known: known.0,
        }
    }
}

/// Iterator over executed instructions.
pub struct UnspoolInstructions {
    reader: Reader<ExecutedInstruction>,
}

/// Opens an iterator over the executed instructions. Free it with unspool_instructions_free.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_instructions_open(
    trace: *const UnspoolTrace,
    instructions: *mut *mut UnspoolInstructions,
) -> UnspoolStatus {
    let iterate = |opened: &Opened| Ok(UnspoolInstructions { reader: Reader::new(opened.instructions()?) });
    // SAFETY: as required of the caller.
    unsafe { open(trace, instructions, iterate) }
}

/// Reads up to `capacity` instructions into an array, and their number, which is at least 1, into `count`. Returns
/// UNSPOOL_STATUS_END after the last one. An error stands for a part that cannot be read: the next call continues after it.
///
/// # Safety
///
/// The pointers are NULL or valid; `items` has room for `capacity` structs, which may be uninitialized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_instructions_read(
    instructions: *mut UnspoolInstructions,
    items: *mut UnspoolExecutedInstruction,
    capacity: usize,
    count: *mut usize,
) -> UnspoolStatus {
    let fill = |it: &mut UnspoolInstructions, items: &mut [_]| it.reader.read(items, Into::into);
    // SAFETY: as required of the caller.
    unsafe { read(instructions, items, capacity, count, fill) }
}

/// Frees an iterator; NULL is allowed.
///
/// # Safety
///
/// It was not freed before, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_instructions_free(instructions: *mut UnspoolInstructions) {
    // SAFETY: as required of the caller.
    unsafe { free(instructions) };
}
