//! Blocks in the records of a file: those that repeat are handed over by number, without a step per record.
//!
//! ```text
//! records ─▶ known blocks? ─▶ executions, one comparison per record
//!      └──── new ─▶ learn ─▶ blocks
//! ```
//!
//! A block is known by the first word of each of its records, which holds the opcode and all flags, and by their
//! addresses. Addresses of accesses make no difference, and are collected only if they are wanted. Instructions whose steps contain more than that, or something else each
//! time, are in no block. After an execution comes another instruction, so that no other record belongs to it.

use std::collections::HashMap;

use unspool_model::{Block, BlockAccesses, BlockExecution, Isa, TemplateAccess};

use super::layout::Bytes;
use super::record::{Instruction, InstructionView, Record, xattr_mode};

/// Maximum instructions of a block.
const LONGEST: usize = 64;

/// Maximum instructions of all blocks; no more blocks are learned then.
const MAX_WORDS: usize = 1 << 20;

/// The bit of the first word for a branch that was taken.
const TAKEN: u64 = 1 << 22;

/// The start of blocks whose code has changed: no instruction is there.
const NOWHERE: u64 = 1;

/// No successor is known.
const NONE: u32 = u32::MAX;

/// The blocks of a file, and the executions found last.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    all: Vec<Block>,
    known: Vec<Known>,
    /// First words of records, of all blocks.
    words: Vec<u64>,
    /// The block that starts at an address.
    at: HashMap<u64, u32>,
    executions: Vec<BlockExecution>,
    learner: Learner,
    /// Accesses of all blocks, if they are wanted.
    accesses: Option<Accesses>,
}

/// Accesses of the blocks, and of the executions found last.
#[derive(Debug, Default)]
struct Accesses {
    of_blocks: Vec<Vec<TemplateAccess>>,
    addresses: Vec<u64>,
}

/// Key by which a block is recognized.
#[derive(Debug, Clone, Copy)]
struct Known {
    start: u64,
    /// Index of its first word.
    first: u32,
    length: u32,
    /// Bits of its last word that may differ.
    open: u64,
    /// The last successors: if the branch was not taken, and if it was.
    next: [u32; 2],
}

/// Records that may become a block.
#[derive(Debug, Default)]
struct Learner {
    start: u64,
    words: Vec<u64>,
}

/// A run of known blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// The number of records.
    pub(super) records: usize,
    /// The address of the record after them, which is an instruction.
    pub(super) next: u64,
}

impl Blocks {
    /// No blocks yet. Addresses are collected if `wants_accesses`.
    pub(super) fn new(wants_accesses: bool) -> Self {
        Self { accesses: wants_accesses.then(Accesses::default), ..Self::default() }
    }

    /// All blocks, and the executions that the last [`find`](Self::find) found, with their accesses.
    pub(super) fn found(&self) -> (&[Block], &[BlockExecution], Option<BlockAccesses<'_>>) {
        let accesses =
            self.accesses.as_ref().map(|Accesses { of_blocks, addresses }| BlockAccesses { of_blocks, addresses });
        (&self.all, &self.executions, accesses)
    }

    /// Finds known blocks at the start of these records, each of which continues where the next one starts.
    pub(super) fn find(&mut self, records: &[Bytes]) -> Option<Found> {
        self.executions.clear();
        if let Some(accesses) = &mut self.accesses {
            accesses.addresses.clear();
        }
        let mut next = pc(records.first()?);
        if !self.learner.words.is_empty() && next == self.learner.end() {
            // Inside a block that is being learned.
            return None;
        }
        self.end_block();
        let (mut rest, mut number) = (records, self.starting_at(next)?);
        while let Some((is_taken, to)) = self.known[number as usize].execution(&self.words, rest) {
            self.executions.push(BlockExecution::new(number, is_taken));
            if let Some(accesses) = &mut self.accesses {
                accesses.collect(number, rest);
            }
            (rest, next) = (&rest[self.known[number as usize].length as usize..], to);
            match self.successor(number, is_taken, next) {
                Some(successor) => number = successor,
                None => break,
            }
        }
        (!self.executions.is_empty()).then_some(Found { records: records.len() - rest.len(), next })
    }

    fn starting_at(&self, start: u64) -> Option<u32> {
        self.at.get(&start).copied()
    }

    /// The block that starts at `start`: most often the one that followed last time.
    #[inline]
    fn successor(&mut self, number: u32, is_taken: bool, start: u64) -> Option<u32> {
        let last_time = self.known[number as usize].next[usize::from(is_taken)];
        if self.known.get(last_time as usize).is_some_and(|known| known.start == start) {
            return Some(last_time);
        }
        let found = self.starting_at(start)?;
        self.known[number as usize].next[usize::from(is_taken)] = found;
        Some(found)
    }

    /// Learns from a record that belongs to no known block.
    pub(super) fn learn(&mut self, record: &Bytes) {
        if !may_be_in_block(record) {
            return self.end_block();
        }
        let view = InstructionView::new(record);
        if view.pc() != self.learner.end() {
            self.end_block();
        }
        if self.learner.words.is_empty() {
            self.learner.start = view.pc();
        }
        // The outcome of a branch is no part of the block.
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
        if !is_known && self.words.len() + words.len() <= MAX_WORDS {
            let ends_in_branch = InstructionView::new(&record_of(*last)).is_branch();
            let (first, length) = (self.words.len() as u32, words.len() as u32);
            if let Some(before) = self.at.insert(*start, self.known.len() as u32) {
                self.known[before as usize].start = NOWHERE;
            }
            let open = if ends_in_branch { TAKEN } else { 0 };
            self.known.push(Known { start: *start, first, length, open, next: [NONE; 2] });
            let opcodes = words.iter().map(|word| InstructionView::new(&record_of(*word)).iword()).collect();
            self.all.push(Block::new(*start, Isa::A64, opcodes, ends_in_branch));
            if let Some(accesses) = &mut self.accesses {
                accesses.of_blocks.push((0..).zip(&*words).filter_map(|(index, word)| access(index, *word)).collect());
            }
            self.words.extend_from_slice(words);
        }
        words.clear();
    }
}

impl Accesses {
    /// Collects the addresses of an execution whose records these are.
    #[inline]
    fn collect(&mut self, number: u32, records: &[Bytes]) {
        let accesses = &self.of_blocks[number as usize];
        self.addresses.extend(accesses.iter().map(|access| ea(&records[usize::from(access.index)])));
    }
}

/// The access of a record with this first word.
fn access(index: u16, word: u64) -> Option<TemplateAccess> {
    let Record::Instruction(instruction) = Record::from_bytes(&record_of(word)) else { return None };
    let access = instruction.access()?;
    Some(TemplateAccess { index, size: access.extent.bytes() as u16, direction: access.direction() })
}

impl Known {
    /// Whether the branch was taken and where to, if the records start with this block and an instruction where it
    /// leads.
    #[inline]
    fn execution(&self, words: &[u64], records: &[Bytes]) -> Option<(bool, u64)> {
        let length = self.length as usize;
        let (mine, next) = (records.get(..length)?, records.get(length)?);
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
        let continues = next[0] == Instruction::TYPE && pc(next) == leads_to;
        (differs == 0 && continues).then_some((is_taken, leads_to))
    }
}

impl Learner {
    /// The address that the next record has to have.
    fn end(&self) -> u64 {
        self.start.wrapping_add(4 * self.words.len() as u64)
    }
}

/// Whether the step of a record contains no more than a block does. A trap is a step of its own; an index into ZA and the
/// size of a range change, and a block does not contain tags.
fn may_be_in_block(record: &Bytes) -> bool {
    let view = InstructionView::new(record);
    let may_change = matches!(view.xattr_mode(), xattr_mode::SME | xattr_mode::RANGE);
    record[0] == Instruction::TYPE && !view.trap() && !view.ea_tagged() && !may_change
}

#[inline(always)]
fn pc(record: &Bytes) -> u64 {
    word(record, 1)
}

#[inline(always)]
fn ea(record: &Bytes) -> u64 {
    word(record, 2)
}

#[inline(always)]
fn word(record: &Bytes, index: usize) -> u64 {
    u64::from_le_bytes(record.as_chunks().0[index])
}

/// A record with this first word.
fn record_of(word: u64) -> Bytes {
    let mut record = Bytes::default();
    record[..8].copy_from_slice(&word.to_le_bytes());
    record
}
