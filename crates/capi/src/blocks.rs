//! Executed blocks.

use unspool::{ExecutedBlock, Opened};

use crate::instructions::UnspoolIsa;
use crate::pointer::free;
use crate::reader::{Reader, open, read};
use crate::status::UnspoolStatus;
use crate::trace::UnspoolTrace;

/// One execution of straight-line code with one exit.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolBlock {
    /// Address of the first instruction.
    pub start: u64,
    /// Address after the last instruction.
    pub end: u64,
    /// Record, line or byte offset of its first instruction; of a capture, offset of its packet.
    pub position: u64,
    /// Core; of a capture, index of the source.
    pub core: u32,
    /// Number of instructions.
    pub instructions: u32,
    /// Instruction set.
    pub isa: UnspoolIsa,
    /// Whether the branch at its end was taken; false if there is no branch.
    pub taken: bool,
    /// Whether part of the execution before it is missing, or it is the first of its core.
    pub follows_gap: bool,
}

impl From<ExecutedBlock> for UnspoolBlock {
    fn from(block: ExecutedBlock) -> Self {
        Self {
            start: block.start,
            end: block.end,
            position: block.position,
            core: block.core,
            instructions: block.instructions,
            isa: block.isa.into(),
            taken: block.taken,
            follows_gap: block.follows_gap,
        }
    }
}

/// Iterator over executed blocks.
pub struct UnspoolBlocks {
    reader: Reader<ExecutedBlock>,
}

/// Opens an iterator over the executed blocks, which is much faster than instructions for a capture. Free it with
/// unspool_blocks_free.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_blocks_open(
    trace: *const UnspoolTrace,
    blocks: *mut *mut UnspoolBlocks,
) -> UnspoolStatus {
    let iterate = |opened: &Opened| Ok(UnspoolBlocks { reader: Reader::new(opened.blocks()?) });
    // SAFETY: as required of the caller.
    unsafe { open(trace, blocks, iterate) }
}

/// Reads up to `capacity` blocks into an array, as unspool_instructions_read does with instructions.
///
/// # Safety
///
/// The pointers are NULL or valid; `items` has room for `capacity` structs, which may be uninitialized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_blocks_read(
    blocks: *mut UnspoolBlocks,
    items: *mut UnspoolBlock,
    capacity: usize,
    count: *mut usize,
) -> UnspoolStatus {
    let fill = |it: &mut UnspoolBlocks, items: &mut [_]| it.reader.read(items, Into::into);
    // SAFETY: as required of the caller.
    unsafe { read(blocks, items, capacity, count, fill) }
}

/// Frees an iterator; NULL is allowed.
///
/// # Safety
///
/// It was not freed before, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_blocks_free(blocks: *mut UnspoolBlocks) {
    // SAFETY: as required of the caller.
    unsafe { free(blocks) };
}
