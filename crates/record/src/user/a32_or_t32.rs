//! A32 or T32: the state of a block, where its bytes alone do not show it.
//!
//! a block in both states, where execution came from and where it continued ─▶ **the state that fits**
//!
//! The emulator reports bytes, and not the state that they are executed in. Most blocks show it themselves: Thumb has
//! halfwords, and few words of A32 start as its 32-bit instructions do. Of the rest, only one state agrees with the path:
//! only a branch changes the state, and each reading leads elsewhere. A block has one state wherever it is executed, since
//! the emulator translates it for one state. Where both agree, the block is counted as ambiguous.

use std::collections::{BTreeMap, HashMap};

use unspool_model::Isa;

use super::block::Block;
use super::thread::Thread;

/// Blocks whose state is open. Until it is found they are T32.
#[derive(Debug, Default)]
pub(super) struct OpenStates {
    /// The blocks as A32, by number.
    open: HashMap<usize, Block>,
    /// The addresses of those that were emitted while their state was open.
    ambiguous: BTreeMap<usize, u64>,
}

/// Blocks that were recorded as T32 and may be A32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmbiguousState {
    /// The number of blocks.
    pub blocks: usize,
    /// The address of the first one.
    pub first: u64,
}

/// The execution of a block, and what surrounds it.
pub(super) struct Surroundings<'a> {
    pub(super) thread: &'a Thread,
    /// The number of the block; if it was left, instructions before `left` are complete.
    pub(super) id: usize,
    pub(super) left: Option<u16>,
    /// Address at which execution continues.
    pub(super) next: Option<u64>,
}

impl OpenStates {
    /// The block in its state, or in T32 while that is open.
    pub(super) fn block(&mut self, id: usize, address: u64, instructions: &[&[u8]]) -> Block {
        let set = set_of(address, instructions);
        if set == Some(Isa::A32) {
            return Block::new(Isa::A32, address, instructions);
        }
        if set.is_none() {
            self.open.insert(id, Block::new(Isa::A32, address, instructions));
        }
        let halfwords: Vec<&[u8]> = instructions.iter().map(|bytes| of_its_length(bytes)).collect();
        Block::new(Isa::T32, address, &halfwords)
    }

    /// Whether the state of every block is known.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the state of this block is known.
    pub(super) fn is_settled(&self, id: usize) -> bool {
        !self.open.contains_key(&id)
    }

    /// Blocks that may have been emitted in the wrong state.
    pub(super) fn ambiguous(&self) -> Option<AmbiguousState> {
        let (_, first) = self.ambiguous.first_key_value()?;
        Some(AmbiguousState { blocks: self.ambiguous.len(), first: *first })
    }

    /// Finds the state of the block that is held, if it is open and the path shows it.
    #[cold]
    pub(super) fn settle(&mut self, blocks: &mut [Block], around: &Surroundings<'_>) {
        let id = around.id;
        let (Some(t32), Some(a32)) = (blocks.get(id), self.open.get(&id)) else { return };
        let set = match (self.fits(t32, blocks, around), self.fits(a32, blocks, around)) {
            (true, false) => Some(Isa::T32),
            (false, true) => Some(Isa::A32),
            (true, true) => None,
            // A signal came between it and what follows: the path that led here still holds.
            (false, false) => around.thread.leads,
        };
        match set {
            None => {
                self.ambiguous.insert(id, t32.address());
            }
            Some(set) => self.decide(blocks, id, set),
        }
    }

    fn decide(&mut self, blocks: &mut [Block], id: usize, set: Isa) {
        let (Some(a32), Some(block)) = (self.open.remove(&id), blocks.get_mut(id)) else { return };
        if set == Isa::A32 {
            *block = a32;
        } else {
            self.ambiguous.remove(&id);
        }
    }

    /// Whether a reading agrees with where execution came from and where it continued.
    fn fits(&self, reading: &Block, blocks: &[Block], around: &Surroundings<'_>) -> bool {
        let Surroundings { thread, left, next, .. } = around;
        let isa = reading.isa();
        let leads = reading.leads();
        let follows = thread.next.and_then(|id| self.set(blocks, id)).filter(|_| next.is_some());
        (thread.leads.is_none() || thread.leads == isa)
            && next.is_none_or(|next| reading.ended(*left, Some(next), &thread.accesses).is_straight)
            && (leads.is_none() || follows.is_none() || leads == follows)
    }

    /// The instruction set of a block, if it is known.
    fn set(&self, blocks: &[Block], id: usize) -> Option<Isa> {
        blocks.get(id).filter(|_| self.is_settled(id))?.isa()
    }
}

impl Block {
    fn isa(&self) -> Option<Isa> {
        self.instructions.first().map(|first| first.isa)
    }

    fn address(&self) -> u64 {
        self.instructions.first().map_or(0, |first| first.address)
    }

    /// The instruction set of what follows, unless a register decides.
    pub(super) fn leads(&self) -> Option<Isa> {
        let last = self.instructions.last().filter(|last| last.opcode.is_some())?;
        // BLX to an address changes it.
        (!self.last.flow.is_indirect()).then(|| self.last.target.map_or(last.isa, |target| target.isa))
    }
}

/// The smallest page of memory.
const PAGE: u64 = 4096;

/// The instruction set of a block, if its bytes show it.
fn set_of(address: u64, instructions: &[&[u8]]) -> Option<Isa> {
    let (last, before) = instructions.split_last()?;
    if address & 2 != 0 || instructions.iter().any(|bytes| bytes.len() != 4) {
        return Some(Isa::T32);
    }
    let end = address.wrapping_add(4 * instructions.len() as u64);
    // Before the end of a page the emulator reads the next halfword too, and reports it as part of the last instruction.
    let is_last_whole = !end.is_multiple_of(PAGE);
    let is_a32 = before.iter().any(|bytes| !is_long(bytes)) || (is_last_whole && !is_long(last));
    is_a32.then_some(Isa::A32)
}

fn is_long(bytes: &[u8]) -> bool {
    matches!(bytes, [low, high, ..] if Isa::T32.length(u16::from_le_bytes([*low, *high])) == 4)
}

/// An instruction of T32 without bytes that do not belong to it.
fn of_its_length(bytes: &[u8]) -> &[u8] {
    bytes.get(..if is_long(bytes) { 4 } else { 2 }).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name, an address, the bytes of instructions, and the instruction set they show.
    type Row<'r> = (&'r str, u64, &'r [&'r [u8]], Option<Isa>);

    #[test]
    fn bytes_show_the_instruction_set() {
        let rows: &[Row<'_>] = &[
            ("an odd halfword", 0x8002, &[&[0, 0xf0, 0, 0xf8]], Some(Isa::T32)),
            ("a halfword", 0x8000, &[&[0, 0xf0, 0, 0xf8], &[0x70, 0x47]], Some(Isa::T32)),
            ("a word that is not long", 0x8000, &[&[0, 0, 0xa0, 0xe1]], Some(Isa::A32)),
            ("one before a long one", 0x8000, &[&[0, 0, 0xa0, 0xe1], &[0x1e, 0xff, 0x2f, 0xe1]], Some(Isa::A32)),
            ("bx lr of A32", 0x8000, &[&[0x1e, 0xff, 0x2f, 0xe1]], None),
            ("bl of T32", 0x8000, &[&[0, 0xf0, 0, 0xf8]], None),
            ("before the end of a page", 0x8ffc, &[&[0, 0, 0xa0, 0xe1]], None),
            ("a long one, and a halfword more", 0x8ff8, &[&[0, 0xf0, 0, 0xf8, 0, 0xf0]], Some(Isa::T32)),
        ];
        for (name, address, instructions, expected) in rows {
            assert_eq!(set_of(*address, instructions), *expected, "{name}");
        }
    }

    #[test]
    fn a_halfword_more_is_no_part_of_an_instruction() {
        let mut states = OpenStates::default();
        let block = states.block(0, 0x8ffa, &[&[0, 0xf0, 0, 0xf8], &[0x70, 0x47, 0, 0xf0]]);
        let found: Vec<_> = block.instructions.iter().map(|one| (one.length, one.opcode)).collect();
        assert_eq!(found, [(4, Some(0xf000_f800)), (2, Some(0x4770))]);
        assert!(states.is_empty());
    }
}
