//! State at a position of a log without an index, by one pass over the whole log.
//!
//! lines, position ─▶ **scanner** ─▶ the same state as [`Indexed::state`](super::Indexed::state)
//!
//! Used for logs that cannot be indexed: standard input and compressed files. The lines after the position matter too:
//! memory that is read there before any write already had its contents at the position.

use unspool_model::{CoreSelector, Lost};

use super::calls::Calls;
use super::query::{After, CoreState, State, fill, follow};
use super::segment::Track;
use super::time::compare;
use super::{IndexOptions, Position};
use crate::dialect::Effects;
use crate::record::{Line, Record, Stamp, Time};
use crate::state::Machine;

/// Computes the state at a position in one pass.
#[derive(Debug)]
pub struct Scanner {
    options: IndexOptions,
    position: Position,
    /// The core whose instructions are counted; `None`: all.
    wanted_core: Option<CoreSelector>,
    limit: usize,
    machine: Machine,
    tracks: Vec<(Track, Calls)>,
    time: Option<Time>,
    /// The last line that is in the state.
    line: u64,
    /// Number of instructions so far, of the wanted core.
    instructions: u64,
    /// Whether a line has a time that is comparable with the requested one.
    has_comparable_time: bool,
    /// Core of the requested instruction, once found.
    found: Option<usize>,
    /// Accesses after the position, once it is reached.
    reads_after: Option<Machine>,
}

impl Scanner {
    /// A scanner for a position; instructions are counted per core if one is given. Keeps at most `limit` granules
    /// (eight bytes) of memory per core.
    pub fn new(options: IndexOptions, position: Position, core: Option<&CoreSelector>, limit: usize) -> Self {
        Self {
            options,
            position,
            wanted_core: core.cloned(),
            limit,
            machine: Machine::new(options.big_endian, limit),
            tracks: Vec::new(),
            time: None,
            line: 0,
            instructions: 0,
            has_comparable_time: false,
            found: None,
            reads_after: None,
        }
    }

    /// Takes the next line.
    pub fn line(&mut self, number: u64, line: &Line<'_>) {
        if self.reads_after.is_none() && self.is_after(number, line) {
            self.end();
        }
        match &mut self.reads_after {
            Some(machine) => {
                machine.line_after(number, line, &mut After { machine: &self.machine, before: () });
            }
            None => self.apply(number, line),
        }
    }

    /// The position is reached: further lines only show what memory contained.
    pub(super) fn end(&mut self) {
        if self.reads_after.is_none() {
            self.reads_after = Some(self.machine.without_memory(self.limit));
        }
    }

    /// Includes a line in the state that has no record.
    pub(super) fn passed(&mut self, number: u64) {
        self.line = number;
    }

    fn is_after(&mut self, number: u64, line: &Line<'_>) -> bool {
        match self.position {
            Position::Line(last) => number > last,
            Position::Time(time) => {
                matches!(line.stamp, Stamp::At(at) if compare(at, time).is_some_and(std::cmp::Ordering::is_gt))
            }
            Position::Instruction(_) | Position::Address(_) => match self.found {
                None => false,
                Some(_) if self.options.dialect.effects() == Effects::Before => true,
                Some(found) => line.record.begins_step() && self.machine.select_core(line) == Some(found),
            },
        }
    }

    fn apply(&mut self, number: u64, line: &Line<'_>) {
        self.line = number;
        if let Stamp::At(time) = line.stamp {
            self.time = Some(time);
            self.has_comparable_time |=
                matches!(self.position, Position::Time(wanted) if compare(time, wanted).is_some());
        }
        let core = self.machine.line(number, line);
        self.tracks.resize_with(self.machine.cores().len(), Default::default);
        if let Some(at) = core {
            let (track, calls) = &mut self.tracks[at];
            follow(track, calls, line, &self.machine.cores()[at].registers, &self.options);
        }
        let Record::Instruction(instruction) = &line.record else { return };
        let is_wanted = |at: usize| {
            let name = &self.machine.cores()[at].name;
            self.wanted_core.as_ref().is_none_or(|wanted| wanted.matches(at, name))
        };
        let is_counted = core.is_none_or(is_wanted);
        self.instructions += u64::from(is_counted);
        let is_meant = match self.position {
            Position::Instruction(number) => number == self.instructions,
            Position::Address(address) => instruction.address == Some(address) && self.found.is_none(),
            Position::Line(_) | Position::Time(_) => false,
        };
        if is_counted && is_meant {
            self.found = Some(core.unwrap_or(0));
        }
    }

    /// Loads that the log calls writes so far, and that are taken as reads.
    pub fn corrected_loads(&self) -> Lost {
        let (before, after) =
            (self.machine.corrected(), self.reads_after.as_ref().map_or(Lost::default(), Machine::corrected));
        Lost { count: before.count + after.count, first: if before.count > 0 { before.first } else { after.first } }
    }

    /// The state at the position. `None`: the log has no such position.
    pub fn finish(self) -> Option<State> {
        let is_there = match self.position {
            Position::Line(line) => line <= self.line || self.reads_after.is_some(),
            Position::Time(_) => self.has_comparable_time,
            Position::Instruction(_) | Position::Address(_) => self.found.is_some(),
        };
        is_there.then(|| self.into_state())
    }

    /// The state after the lines up to the end of the position, or of the log.
    pub(super) fn into_state(self) -> State {
        let reads_after = self.reads_after.as_ref();
        let cores = self.machine.cores().iter().zip(self.tracks).map(|(core, (track, calls))| {
            let mut memory = core.memory.clone();
            let later = reads_after.and_then(|machine| machine.cores().iter().find(|other| other.name == core.name));
            later.into_iter().for_each(|later| fill(&mut memory, &later.memory));
            CoreState::of(core, memory, &track, &calls)
        });
        State { line: self.line, time: self.time, cores: cores.collect() }
    }
}
