//! Counts of the lines in a log: instructions by set, mode and mnemonic, accesses, exceptions.
//!
//! Takes lines in order; produces totals in constant memory. Knows nothing of files or printing.

use std::collections::BTreeMap;

use crate::read::Position;
use crate::record::{Direction, Instruction, Line, Record, Stamp, Time};
use crate::text::{Text, kind, set_name};

/// Limit of distinct cores and of distinct modes in a [`Summary`].
const SUMMARY_NAMES: usize = 256;

/// Limit of distinct names of each kind in [`Counts`], and of the length of one.
const NAMES: usize = 4096;
const NAME: usize = 24;

/// Overview of a log.
#[derive(Debug, Default)]
pub struct Summary {
    /// Revision and flags of the header line.
    pub header: Option<(u32, String)>,
    /// Count of lines.
    pub lines: u64,
    /// Lines by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Instructions by instruction set.
    pub sets: BTreeMap<&'static str, u64>,
    /// Lines by core.
    pub cores: BTreeMap<Vec<u8>, u64>,
    /// Instructions by mode.
    pub modes: BTreeMap<Vec<u8>, u64>,
    /// Count of exceptions.
    pub exceptions: u64,
    /// Instructions that failed their condition.
    pub skipped: u64,
    /// The first time in the log.
    pub first: Option<Time>,
    /// The last time in the log.
    pub last: Option<Time>,
    /// Address of the first instruction.
    pub start: Option<u64>,
}

impl Summary {
    /// Counts a line.
    pub fn add(&mut self, position: Position, line: &Line<'_>) {
        self.lines = position.line;
        *self.kinds.entry(kind(&line.record)).or_default() += 1;
        if let Stamp::At(time) = line.stamp {
            self.first.get_or_insert(time);
            self.last = Some(time);
        }
        if let Some(core) = line.core {
            add_name(&mut self.cores, core);
        }
        match &line.record {
            Record::Header(header) => {
                self.header.get_or_insert_with(|| (header.revision, Text(header.flags).to_string()));
            }
            Record::Instruction(instruction) => {
                self.start = self.start.or(instruction.address);
                self.skipped += u64::from(!instruction.is_executed);
                *self.sets.entry(instruction.set.map_or("not said", set_name)).or_default() += 1;
                add_name(&mut self.modes, instruction.mode);
            }
            Record::Exception(_) => self.exceptions += 1,
            Record::Event(event) => self.exceptions += u64::from(event.is_exception),
            _ => {}
        }
    }

    /// Count of instructions.
    pub fn instructions(&self) -> u64 {
        self.kinds.get("instruction").copied().unwrap_or(0)
    }
}

fn add_name(names: &mut BTreeMap<Vec<u8>, u64>, name: &[u8]) {
    if let Some(count) = names.get_mut(name) {
        *count += 1;
    } else if names.len() < SUMMARY_NAMES {
        names.insert(name.to_vec(), 1);
    }
}

/// Totals of a log.
#[derive(Debug, Default)]
pub struct Counts {
    /// Count of lines.
    pub lines: u64,
    /// Count of instructions.
    pub instructions: u64,
    /// Instructions that failed their condition.
    pub skipped: u64,
    /// Reads of memory.
    pub reads: u64,
    /// Writes of memory.
    pub writes: u64,
    /// Register lines.
    pub registers: u64,
    /// Count of exceptions.
    pub exceptions: u64,
    /// Branch lines.
    pub branches: u64,
    /// Instructions by instruction set.
    pub sets: BTreeMap<&'static str, u64>,
    /// Instructions by mode.
    pub modes: Names,
    /// Instructions by mnemonic.
    pub mnemonics: Names,
}

/// Counts by name, of a bounded number of names.
#[derive(Debug, Default)]
pub struct Names {
    counts: BTreeMap<Vec<u8>, u64>,
}

impl Names {
    fn add(&mut self, name: &[u8]) {
        let name = &name[..name.len().min(NAME)];
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
            return;
        }
        let name = if self.counts.len() < NAMES { name } else { b"(others)" };
        *self.counts.entry(name.to_vec()).or_default() += 1;
    }

    /// Names and counts, the most frequent first.
    pub fn rows(&self) -> Vec<(String, u64)> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let mut rows: Vec<_> = self.counts.iter().map(|(name, count)| (text(name), *count)).collect();
        rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        rows
    }
}

impl Counts {
    /// Counts a record.
    pub fn add(&mut self, record: &Record<'_>) {
        self.lines += 1;
        match record {
            Record::Instruction(instruction) => self.instruction(instruction),
            Record::Register(_) => self.registers += 1,
            Record::Access(access) => self.access(access.direction),
            Record::Picture(picture) => self.access(picture.kind.direction()),
            Record::Exception(_) => self.exceptions += 1,
            Record::Event(event) if event.is_exception => self.exceptions += 1,
            Record::Branch(_) => self.branches += 1,
            _ => {}
        }
    }

    fn access(&mut self, direction: Direction) {
        match direction {
            Direction::Read => self.reads += 1,
            Direction::Write => self.writes += 1,
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) {
        self.instructions += 1;
        self.skipped += u64::from(!instruction.is_executed);
        *self.sets.entry(instruction.set.map_or("not said", set_name)).or_default() += 1;
        self.modes.add(if instruction.mode.is_empty() { b"(none)" } else { instruction.mode });
        let mut word = [0; NAME];
        let mnemonic = instruction.text.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
        let mnemonic = mnemonic.unwrap_or(b"(none)");
        let length = mnemonic.len().min(NAME);
        word[..length].copy_from_slice(&mnemonic[..length]);
        word[..length].make_ascii_lowercase();
        self.mnemonics.add(&word[..length]);
    }
}
