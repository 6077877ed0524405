//! Summary of a segment of a log, made without the earlier ones.
//!
//! lines ─▶ **summary**: counts, times, addresses of instructions, exceptions, registers and memory at its end
//!
//! Lines are counted from the start of the segment; the first is 1.

use unspool_model::Lost;

use super::IndexOptions;
use super::bytes::put;
use super::calls::{Flow, Pointers, Previous, flow};
use super::store::Packed;
use super::table::{Key, TableWriter};
use super::time::compare;
use crate::dialect::Effects;
use crate::parse::Parser;
use crate::read::{LONGEST, lines};
use crate::record::{Instruction, Line, Record, Stamp, Time};
use crate::state::{EarlierState, LastInstruction, MAX_CORES, Machine, Registers, UnknownWrites};

/// Index of a core beyond the limit, whose lines are ignored.
pub(super) const NO_CORE: usize = MAX_CORES;

#[derive(Debug, Default)]
pub(super) struct SegmentText {
    pub(super) bytes: Vec<u8>,
    /// Whether it starts within an overlong line.
    pub(super) is_within_line: bool,
}

#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) lines: u32,
    pub(super) instructions: u64,
    /// Number of lines that could not be parsed.
    pub(super) problems: u64,
    /// Loads that the log calls writes.
    pub(super) corrected_loads: Lost,
    /// Times of the first and last line with a time, and the latest time; times need not be in order.
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
    pub(super) latest: Option<Time>,
    /// The cores, in order of appearance.
    pub(super) cores: Vec<CoreSummary>,
    /// The core of the last line.
    pub(super) current: usize,
    /// Exceptions: line, core (an index into `cores`, or [`NO_CORE`]), address of the instruction before it.
    pub(super) exceptions: Vec<(u32, usize, u64)>,
    /// State of memory. The core of a key is an index into `cores`.
    pub(super) tables: Vec<(Key, Packed)>,
    pub(super) addresses: Vec<u64>,
    /// Whether a semihosting call or an access needs earlier state to be interpreted.
    pub(super) is_unresolved: bool,
}

#[derive(Debug, Default)]
pub(super) struct CoreSummary {
    pub(super) name: Vec<u8>,
    pub(super) registers: Registers,
    /// Whether the registers include all earlier state.
    pub(super) is_seeded: bool,
    /// Register lines before the first instruction, each with its number.
    pub(super) early: Vec<(u32, Vec<u8>)>,
    /// Writes of unknown data, to granules that are in no table.
    pub(super) unknown_writes: UnknownWrites,
    pub(super) track: Track,
}

/// Progress of a core through the program.
#[derive(Debug, Clone, Default)]
pub(super) struct Track {
    pub(super) instructions: u64,
    pub(super) first: Option<First>,
    pub(super) previous: Option<Previous>,
    /// Link register and stack pointer after the previous instruction, if its effects are printed before it.
    pub(super) snapshot: Option<Pointers>,
    pub(super) flows: Vec<Flow>,
    /// Whether an exception followed the previous instruction.
    pub(super) is_interrupted: bool,
    /// Whether this part of the log has a gap, and whether it has one before its first instruction.
    pub(super) has_gap: bool,
    pub(super) starts_after_gap: bool,
}

/// The first instruction of a core in a segment: its address, and the state it implies.
#[derive(Debug, Clone)]
pub(super) struct First {
    pub(super) address: u64,
    pub(super) mode: Vec<u8>,
    pub(super) is_a64: Option<bool>,
    pub(super) pointers: Pointers,
}

impl First {
    #[cold]
    fn of(address: u64, registers: &Registers) -> Self {
        let pointers = Pointers::of(registers);
        Self { address, mode: registers.mode_text().to_vec(), is_a64: registers.is_a64(), pointers }
    }
}

impl Track {
    /// The last instruction.
    pub(super) fn last(&self) -> LastInstruction {
        let previous = self.previous.filter(|_| !self.is_interrupted);
        previous.map_or_else(LastInstruction::default, |Previous { set, opcode, .. }| LastInstruction { set, opcode })
    }

    /// Takes a line, with the registers after it.
    #[inline]
    pub(super) fn line(&mut self, line: &Line<'_>, registers: &Registers, effects: Effects) {
        match &line.record {
            Record::Instruction(instruction) => self.instruction(instruction, registers, effects),
            record if record.is_gap() => self.gap(),
            record if record.is_exception() => self.is_interrupted = true,
            _ => {}
        }
    }

    /// What was executed before is not known: the next instruction was neither called nor returned to by the previous one.
    #[cold]
    fn gap(&mut self) {
        self.starts_after_gap |= self.first.is_none();
        (self.has_gap, self.previous, self.snapshot, self.is_interrupted) = (true, None, None, false);
    }

    #[inline]
    fn instruction(&mut self, instruction: &Instruction<'_>, registers: &Registers, effects: Effects) {
        self.instructions = self.instructions.saturating_add(1);
        let Some(address) = instruction.address else { return };
        match &self.previous {
            None => {
                self.first.get_or_insert_with(|| First::of(address, registers));
            }
            Some(previous) if previous.next == address => {}
            Some(previous) => {
                let pointers = self.snapshot.unwrap_or_else(|| Pointers::of(registers));
                self.flows.extend(flow(previous, address, pointers));
            }
        }
        (self.previous, self.is_interrupted) = (Previous::of(instruction), false);
        if effects == Effects::Before {
            self.snapshot = Some(Pointers::of(registers));
        }
    }
}

/// Passes on the lines of a segment with their numbers, until `sink` returns false.
pub(super) fn each_line(text: &SegmentText, options: &IndexOptions, mut sink: impl FnMut(u32, &Line<'_>) -> bool) {
    let mut parser = Parser::new(options.parse);
    // The rest of a line that started in the previous segment has no number of its own.
    let first = u32::from(!text.is_within_line);
    for (number, (_, raw)) in (first..).zip(lines(&text.bytes)) {
        let is_kept = raw.len() <= LONGEST && number > 0;
        if is_kept && !sink(number, &parser.parse(raw)) {
            return;
        }
    }
}

/// Summarizes a segment. `machine`: the state of the cores before it.
pub(super) fn summarize(
    text: &SegmentText,
    options: &IndexOptions,
    machine: Machine,
    before: &mut impl EarlierState,
) -> Summary {
    let mut work = Work::new(machine);
    each_line(text, options, |number, line| {
        work.line(number, line, options, before);
        true
    });
    // Lines that start in this segment.
    let ends = memchr::memchr_iter(b'\n', &text.bytes).count();
    let has_rest = text.bytes.last().is_some_and(|byte| *byte != b'\n');
    work.set_lines((ends + usize::from(has_rest)).saturating_sub(usize::from(text.is_within_line)) as u32);
    work.finish()
}

/// Summary of a segment in the making.
#[derive(Debug, Default)]
pub(super) struct Work {
    machine: Machine,
    tracks: Vec<Track>,
    summary: Summary,
    recent: Recent,
}

impl Work {
    /// A summary of nothing. `machine`: the state of the cores before it.
    pub(super) fn new(machine: Machine) -> Self {
        Self { machine, ..Self::default() }
    }

    /// Counts lines.
    pub(super) fn set_lines(&mut self, lines: u32) {
        self.summary.lines = lines;
    }

    #[inline]
    pub(super) fn line(
        &mut self,
        number: u32,
        line: &Line<'_>,
        options: &IndexOptions,
        before: &mut impl EarlierState,
    ) {
        if let Stamp::At(time) = line.stamp {
            self.time(time);
        }
        let core = self.machine.line_after(number.into(), line, before);
        if let Some(at) = core {
            if self.tracks.len() <= at {
                self.tracks.resize_with(at + 1, Track::default);
            }
            self.tracks[at].line(line, &self.machine.cores()[at].registers, options.dialect.effects());
        }
        match &line.record {
            Record::Instruction(instruction) => {
                self.summary.instructions += 1;
                self.address(instruction);
            }
            Record::Asynchronous(_) => {}
            record if record.is_exception() => self.exception(number, core),
            Record::Unknown(_) => self.summary.problems += 1,
            _ => {}
        }
    }

    #[inline]
    fn time(&mut self, time: Time) {
        let summary = &mut self.summary;
        if summary.last == Some(time) {
            return;
        }
        summary.first = summary.first.or(Some(time));
        summary.last = Some(time);
        if summary.latest.is_none_or(|latest| compare(latest, time).is_some_and(std::cmp::Ordering::is_lt)) {
            summary.latest = Some(time);
        }
    }

    #[inline]
    fn address(&mut self, instruction: &Instruction<'_>) {
        if let Some(address) = instruction.address
            && self.recent.is_new(address)
        {
            self.summary.addresses.push(address);
        }
    }

    #[cold]
    fn exception(&mut self, number: u32, core: Option<usize>) {
        let at = core.unwrap_or(NO_CORE);
        let previous = self.tracks.get(at).and_then(|track| track.previous);
        self.summary.exceptions.push((number, at, previous.map_or(0, |previous| previous.address)));
    }

    pub(super) fn finish(self) -> Summary {
        let Self { mut machine, mut tracks, mut summary, .. } = self;
        summary.addresses.sort_unstable();
        summary.addresses.dedup();
        summary.current = machine.current();
        summary.corrected_loads = machine.corrected();
        tracks.resize_with(machine.cores().len(), Track::default);
        let mut writer = TableWriter::default();
        for (at, (core, track)) in machine.cores_mut().iter_mut().zip(tracks).enumerate() {
            let mut full = |key: Key, block: &[u8]| summary.tables.push((key, Packed::of(block)));
            let (granules, unknown_writes) = core.memory.sorted();
            let unknown_writes = unknown_writes.clone();
            for (number, granule) in granules {
                writer.add((at as u16, *number), granule, &mut full);
            }
            writer.finish(&mut full);
            let mut early = Vec::new();
            core.each_early(|line, raw| early.push((line, raw.to_vec())));
            let (name, registers) = (std::mem::take(&mut core.name), std::mem::take(&mut core.registers));
            summary.cores.push(CoreSummary { name, registers, is_seeded: false, early, unknown_writes, track });
        }
        summary
    }
}

/// Cache of recent addresses.
#[derive(Debug)]
struct Recent(Vec<u64>);

impl Default for Recent {
    fn default() -> Self {
        Self(vec![u64::MAX; 1 << 12])
    }
}

impl Recent {
    #[inline]
    fn is_new(&mut self, address: u64) -> bool {
        let index = &mut self.0[(address >> 1) as usize & ((1 << 12) - 1)];
        let is_new = *index != address || address == u64::MAX;
        *index = address;
        is_new
    }
}

/// Encodes addresses in ascending order.
pub(super) fn encode_addresses(addresses: &[u64]) -> Vec<u8> {
    let (mut out, mut last) = (Vec::with_capacity(addresses.len() * 2), 0);
    for address in addresses {
        put(&mut out, address.wrapping_sub(last));
        last = *address;
    }
    out
}
