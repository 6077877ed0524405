//! Blocks that a file tells again and again, so that who follows execution need not look at each record.
//!
//! ```text
//! records ─▶ known blocks? ─▶ passes, one look at each record
//!      └──── new ─▶ learn ─▶ blocks
//! ```
//!
//! A block is known by the first word of each of its records, which has the opcode and all flags, and by their addresses.
//! What was accessed, and where, makes no difference. Instructions of which steps say more than that, or something else each
//! time, are in no block; behind a pass comes another instruction, so that no other record belongs to it.

use std::collections::HashMap;

use unspool_model::{Block, Isa, Pass};

use super::layout::Bytes;
use super::record::{Instruction, InstructionView, xattr_mode};

/// Instructions of a block at most.
const LONGEST: usize = 64;

/// Instructions of all blocks at most; what is new then is never known.
const MOST: usize = 1 << 20;

/// In the first word: a branch was taken.
const TAKEN: u64 = 1 << 22;

/// No instruction is here: where blocks start that were found changed.
const NOWHERE: u64 = 1;

/// No block follows, as far as was seen.
const NONE: u32 = u32::MAX;

/// The blocks of a file, and those that were executed.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    told: Vec<Block>,
    known: Vec<Known>,
    /// First words of records, of all blocks.
    words: Vec<u64>,
    /// The block that starts at an address.
    at: HashMap<u64, u32>,
    passes: Vec<Pass>,
    learner: Learner,
}

/// How a block is recognised.
#[derive(Debug, Clone, Copy)]
struct Known {
    start: u64,
    /// Where its words are.
    first: u32,
    length: u32,
    /// What may differ in its last word.
    open: u64,
    /// What followed last time: a branch that was not taken, and one that was.
    next: [u32; 2],
}

/// Records that may become a block.
#[derive(Debug, Default)]
struct Learner {
    start: u64,
    words: Vec<u64>,
}

/// Known blocks were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// In so many records.
    pub(super) records: usize,
    /// The address of the record behind them, which is an instruction.
    pub(super) next: u64,
}

impl Blocks {
    /// All blocks, and those that the last [`follow`](Self::follow) found.
    pub(super) fn found(&self) -> (&[Block], &[Pass]) {
        (&self.told, &self.passes)
    }

    /// Finds known blocks at the start of these records, each of which goes on where the next one is.
    pub(super) fn follow(&mut self, records: &[Bytes]) -> Option<Found> {
        self.passes.clear();
        let mut next = pc(records.first()?);
        if !self.learner.words.is_empty() && next == self.learner.behind() {
            // In the midst of one that is learnt.
            return None;
        }
        self.end_block();
        let (mut rest, mut number) = (records, self.find(next)?);
        while let Some((is_taken, behind)) = self.known[number as usize].pass(&self.words, rest) {
            self.passes.push(Pass::new(number, is_taken));
            (rest, next) = (&rest[self.known[number as usize].length as usize..], behind);
            match self.follower(number, is_taken, next) {
                Some(follower) => number = follower,
                None => break,
            }
        }
        (!self.passes.is_empty()).then_some(Found { records: records.len() - rest.len(), next })
    }

    fn find(&self, start: u64) -> Option<u32> {
        self.at.get(&start).copied()
    }

    /// The block that starts at `start`: most often the one that followed last time.
    #[inline]
    fn follower(&mut self, number: u32, is_taken: bool, start: u64) -> Option<u32> {
        let last_time = self.known[number as usize].next[usize::from(is_taken)];
        if self.known.get(last_time as usize).is_some_and(|known| known.start == start) {
            return Some(last_time);
        }
        let found = self.find(start)?;
        self.known[number as usize].next[usize::from(is_taken)] = found;
        Some(found)
    }

    /// Looks at a record that belongs to no known block.
    pub(super) fn learn(&mut self, record: &Bytes) {
        if !may_be_in_block(record) {
            return self.end_block();
        }
        let view = InstructionView::new(record);
        if view.pc() != self.learner.behind() {
            self.end_block();
        }
        if self.learner.words.is_empty() {
            self.learner.start = view.pc();
        }
        // Which way a branch goes makes no other block of it.
        self.learner.words.push(word(record, 0) & if view.is_branch() { !TAKEN } else { u64::MAX });
        if view.is_branch() || self.learner.words.len() == LONGEST {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let Learner { start, words } = &mut self.learner;
        let Some(last) = words.last() else { return };
        let is_known = self.at.get(start).is_some_and(|number| {
            let known = &self.known[*number as usize];
            self.words[known.first as usize..][..known.length as usize] == words[..]
        });
        if !is_known && self.words.len() + words.len() <= MOST {
            let ends_in_branch = InstructionView::new(&record_of(*last)).is_branch();
            let (first, length) = (self.words.len() as u32, words.len() as u32);
            if let Some(before) = self.at.insert(*start, self.known.len() as u32) {
                self.known[before as usize].start = NOWHERE;
            }
            let open = if ends_in_branch { TAKEN } else { 0 };
            self.known.push(Known { start: *start, first, length, open, next: [NONE; 2] });
            let opcodes = words.iter().map(|word| InstructionView::new(&record_of(*word)).iword()).collect();
            self.told.push(Block { start: *start, isa: Isa::A64, opcodes, ends_in_branch });
            self.words.extend_from_slice(words);
        }
        words.clear();
    }
}

impl Known {
    /// Do the records have this block, and then an instruction where it leads? Whether it was left by a branch, and where to.
    #[inline]
    fn pass(&self, words: &[u64], records: &[Bytes]) -> Option<(bool, u64)> {
        let length = self.length as usize;
        let (mine, behind) = (records.get(..length)?, records.get(length)?);
        let words = words.get(self.first as usize..)?.get(..length)?;
        let ((last, before), (last_word, words)) = (mine.split_last()?, words.split_last()?);
        let end = self.start.wrapping_add(4 * length as u64);
        let mut differs = (word(last, 0) ^ last_word) & !self.open | (pc(last) ^ end.wrapping_sub(4));
        let mut address = self.start;
        for (record, wanted) in before.iter().zip(words) {
            differs |= (word(record, 0) ^ wanted) | (pc(record) ^ address);
            address = address.wrapping_add(4);
        }
        let is_taken = word(last, 0) & self.open != 0;
        let leads_to = if is_taken { InstructionView::new(last).ea() } else { end };
        let goes_on = behind[0] == Instruction::TYPE && pc(behind) == leads_to;
        (differs == 0 && goes_on).then_some((is_taken, leads_to))
    }
}

impl Learner {
    /// Where the next record has to be.
    fn behind(&self) -> u64 {
        self.start.wrapping_add(4 * self.words.len() as u64)
    }
}

/// Is it an instruction of which a step says no more than a block does? A trap is a step of its own, an index into ZA is
/// another each time.
fn may_be_in_block(record: &Bytes) -> bool {
    let view = InstructionView::new(record);
    record[0] == Instruction::TYPE && !view.trap() && view.xattr_mode() != xattr_mode::SME
}

#[inline(always)]
fn pc(record: &Bytes) -> u64 {
    word(record, 1)
}

#[inline(always)]
fn word(record: &Bytes, index: usize) -> u64 {
    u64::from_le_bytes(record.as_chunks().0[index])
}

/// A record that starts with this word.
fn record_of(word: u64) -> Bytes {
    let mut record = Bytes::default();
    record[..8].copy_from_slice(&word.to_le_bytes());
    record
}
