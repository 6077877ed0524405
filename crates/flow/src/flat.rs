//! Cached runs as flat arrays of instructions.
//!
//! a run of ranges ─▶ **its instructions** in one array
//!
//! Ranges are short, and the processor mispredicts the end of each loop over one. With the instructions of a whole run in
//! one array, it mispredicts once per run. This is a bounded cache; runs that are not cached are expanded range by range.

use unspool_isa::Isa;

use crate::instruction::{Instruction, Outcome};
use crate::item::{Run, RunKey};

/// Runs with more instructions are not cached.
const MAX_INSTRUCTIONS: u64 = 512;

/// Greatest number of entries, 16 bytes each.
const MAX_ENTRIES: usize = 1 << 22;

/// An instruction of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    address: u64,
    opcode: u32,
    isa: Isa,
    length: u8,
    traits: u8,
}

impl Entry {
    /// Ends its range.
    const LAST: u8 = 1;
    /// Trace has an element for it.
    const P0: u8 = 2;
    const TAKEN: u8 = 4;
    /// Branches to the address of the next entry.
    const BRANCHES: u8 = 8;
    /// Branches to an address that only the following trace has.
    const WAITS: u8 = 16;

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Is it an indirect branch that was taken? Its target is where execution continues.
    #[inline(always)]
    pub(crate) fn waits(&self) -> bool {
        self.traits & Self::WAITS != 0
    }

    /// The instruction, if `next` is the entry after it.
    #[inline(always)]
    pub(crate) fn instruction(&self, next: &Entry, offset: u64) -> Instruction {
        let has = |bit| self.traits & bit != 0;
        let target = has(Self::BRANCHES).then_some(next.address);
        Instruction {
            address: self.address,
            opcode: self.opcode,
            isa: self.isa,
            length: self.length,
            ends_range: has(Self::LAST),
            branch: has(Self::P0).then_some(Outcome { taken: has(Self::TAKEN), target }),
            offset,
        }
    }
}

/// Instructions of a cached run, one after the other. A taken indirect branch at its end is not among them: its target is not
/// known yet.
#[derive(Debug, Clone, Copy)]
pub struct FlatRun<'r> {
    /// The instructions, and one more entry with the target of the last one.
    entries: &'r [Entry],
    key: RunKey,
    offset: u64,
    ranges: usize,
}

impl<'r> FlatRun<'r> {
    /// The instructions of a run before a branch that waits, if it ends with one. `entries` are those of the whole run.
    #[inline(always)]
    pub(crate) fn before_waiting(run: &Run<'_>, key: RunKey, entries: &'r [Entry], waits: bool) -> Self {
        let waiting = usize::from(waits);
        let (entries, ranges) = (&entries[..entries.len() - waiting], run.len() - waiting);
        Self { entries, key, offset: run.offset(), ranges }
    }

    /// What identifies the run: equal keys have equal instructions.
    pub fn key(&self) -> RunKey {
        self.key
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.entries.len() - 1
    }

    /// Are there no instructions?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of instructions that end their range.
    pub fn ranges(&self) -> usize {
        self.ranges
    }

    /// Each instruction, in the order of execution.
    #[inline(always)]
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = Instruction> + use<'r> {
        let offset = self.offset;
        self.entries.windows(2).map(move |pair| pair[0].instruction(&pair[1], offset))
    }
}

/// Cached runs of one walker.
#[derive(Debug, Default)]
pub(crate) struct Flat {
    /// The generation of these runs.
    generation: u64,
    /// Index of the entries of a run, by the index of its steps; zero: not cached.
    starts: Vec<u32>,
    entries: Vec<Entry>,
}

impl Flat {
    /// The instructions of a run and one more entry, with the target of the last one.
    #[inline(always)]
    pub(crate) fn get(&mut self, run: &Run<'_>) -> Option<&[Entry]> {
        let known = match self.starts.get(run.start as usize) {
            Some(&start) if start != 0 && self.generation == run.generation => start,
            _ => self.add(run)?,
        };
        Some(&self.entries[known as usize..][..run.instructions as usize + 1])
    }

    #[inline(never)]
    fn add(&mut self, run: &Run<'_>) -> Option<u32> {
        let is_cached = run.generation != 0;
        if !is_cached || run.instructions > MAX_INSTRUCTIONS || run.instructions == 0 {
            return None;
        }
        if self.generation != run.generation || self.entries.len() > MAX_ENTRIES {
            self.generation = run.generation;
            self.starts.clear();
            self.entries.clear();
        }
        if self.entries.is_empty() {
            // Unused capacity costs nothing; moving entries does.
            self.entries.reserve(1 << 19);
            self.entries.push(NOWHERE);
        }
        let index = run.start as usize;
        if self.starts.len() <= index {
            self.starts.resize(run.among.len().max(index + 1), 0);
        }
        let start = self.entries.len() as u32;
        self.starts[index] = start;
        self.push(run);
        Some(start)
    }

    fn push(&mut self, run: &Run<'_>) {
        let mut target = 0;
        for range in run.ranges() {
            let isa = range.isa();
            let mut address = range.start();
            for &opcode in range.opcodes() {
                let length = isa.opcode_length(opcode);
                self.entries.push(Entry { address, opcode, isa, length, traits: 0 });
                address = crate::code::within(isa, address.wrapping_add(u64::from(length)));
            }
            let (facts, taken) = (range.last(), range.taken());
            let branches = facts.target.filter(|_| taken);
            target = branches.map_or(0, |target| target.address);
            if let Some(last) = self.entries.last_mut() {
                let is_p0 = range.has_outcome();
                let waits = facts.flow.is_indirect() && taken;
                last.traits = Entry::LAST;
                for (is_so, bit) in [
                    (is_p0, Entry::P0),
                    (taken, Entry::TAKEN),
                    (branches.is_some(), Entry::BRANCHES),
                    (waits, Entry::WAITS),
                ] {
                    last.traits |= u8::from(is_so) * bit;
                }
            }
        }
        self.entries.push(Entry { address: target, ..NOWHERE });
    }
}

const NOWHERE: Entry = Entry { address: 0, opcode: 0, isa: Isa::A64, length: 4, traits: 0 };
