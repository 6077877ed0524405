//! Queries on an index and its log.
//!
//! A query finds its segment in the directory, then replays that segment from its checkpoint to the requested line.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::ops::{Range, RangeInclusive};

use unspool_model::Context;

use super::calls::Calls;
use super::checkpoint::Checkpoint;
use super::directory::{Directory, Index, Segment};
use super::segment::{SegmentText, Track, each_line};
use super::{IndexError, IndexOptions, IndexResult};
use crate::dialect::Dialect;
use crate::record::{Line, Stamp, Time};
use crate::state::{Core, EarlierState, GRANULE, Granule, Known, LastWrite, Machine, Memory, Registers, bytes_of};

/// A segment of a log or of steps, for what reads it.
#[derive(Debug, Clone)]
pub struct SegmentAt<'d> {
    /// Offsets of its first byte and of the first byte after it.
    pub offset: u64,
    /// Offset of the first byte after it.
    pub end: u64,
    pub(super) is_within_line: bool,
    /// Number of its lines, or of its instructions.
    pub lines: u64,
    /// How a reader of steps continues here, and the number of steps.
    pub resume: &'d [u8],
    pub(super) steps: u64,
    /// Contexts of the cores of steps.
    pub contexts: &'d [Context],
    pub(super) options: IndexOptions,
}

impl<'d> SegmentAt<'d> {
    /// A segment without an index: only what a reader of steps needs to continue.
    pub fn to_continue(offset: u64, resume: &'d [u8]) -> Self {
        let options = IndexOptions::of(Dialect::Other);
        Self { offset, end: u64::MAX, is_within_line: false, lines: 0, resume, steps: u64::MAX, contexts: &[], options }
    }
}

/// Reader of the lines of segments.
pub trait Segments {
    /// Passes on the lines of a segment with their numbers, counted from 1 in the segment, until `sink` returns false.
    ///
    /// # Errors
    ///
    /// If the segment cannot be read, or has changed.
    fn each_line(&mut self, at: &SegmentAt<'_>, sink: &mut dyn FnMut(u32, &Line<'_>) -> bool) -> IndexResult<()>;
}

/// The text of a log.
impl<T: Read + Seek> Segments for T {
    fn each_line(&mut self, at: &SegmentAt<'_>, sink: &mut dyn FnMut(u32, &Line<'_>) -> bool) -> IndexResult<()> {
        let (mut bytes, length) = (Vec::new(), at.end.saturating_sub(at.offset));
        self.seek(SeekFrom::Start(at.offset)).map_err(IndexError::Log)?;
        self.by_ref().take(length).read_to_end(&mut bytes).map_err(IndexError::Log)?;
        if bytes.len() as u64 != length {
            return Err(IndexError::Changed);
        }
        each_line(&SegmentText { bytes, is_within_line: at.is_within_line }, &at.options, sink);
        Ok(())
    }
}

/// A log with its index.
#[derive(Debug)]
pub struct Indexed<T, S> {
    pub(super) log: T,
    pub(super) index: Index<S>,
}

/// Position of an instruction or exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The line number.
    pub line: u64,
    /// Name of the core.
    pub core: Vec<u8>,
    /// Address of the instruction; for an exception, of the instruction before it. 0: unknown.
    pub pc: u64,
}

/// State after a line.
#[derive(Debug)]
pub struct State {
    /// The line number.
    pub line: u64,
    /// Time of the line, or of the last earlier one with a time.
    pub time: Option<Time>,
    /// The cores that have appeared.
    pub cores: Vec<CoreState>,
}

/// State of one core.
#[derive(Debug)]
pub struct CoreState {
    /// The name; may be empty.
    pub name: Vec<u8>,
    /// The registers.
    pub registers: Registers,
    /// Memory as the core sees it, in the requested ranges.
    pub memory: Memory,
    /// Address of the last instruction.
    pub pc: Option<u64>,
    /// Number of instructions that were executed or skipped.
    pub instructions: u64,
    /// The call depth.
    pub depth: u64,
}

impl State {
    /// A byte of memory shared by all cores: the last write of any core.
    pub fn byte(&self, address: u64) -> Option<Known> {
        self.last_write(address)?.known()
    }

    /// The last write to a byte of memory shared by all cores, even if its value is unknown.
    pub fn last_write(&self, address: u64) -> Option<LastWrite> {
        let each = || self.cores.iter().filter_map(|core| core.memory.last_write(address));
        let last = each().max_by_key(|byte| (byte.line, !byte.is_seen))?;
        // A change that one core read may have been written by another.
        let written = each().filter(|byte| !byte.is_seen && byte.line > 0).max_by_key(|byte| byte.line);
        Some(written.filter(|byte| last.is_seen && byte.value == last.value).unwrap_or(last))
    }

    /// A core by name.
    pub fn core(&self, name: &[u8]) -> Option<&CoreState> {
        self.cores.iter().find(|core| core.name == name)
    }
}

impl CoreState {
    pub(super) fn of(core: &Core, memory: Memory, track: &Track, calls: &Calls) -> Self {
        Self {
            name: core.name.clone(),
            registers: core.registers.clone(),
            memory,
            pc: track.previous.map(|previous| previous.address),
            instructions: track.instructions,
            depth: calls.depth(),
        }
    }
}

impl<T: Segments, S: Read + Seek> Indexed<T, S> {
    /// Combines a log with its index, which must belong together.
    pub fn new(log: T, index: Index<S>) -> Self {
        Self { log, index }
    }

    /// The index.
    pub fn index(&self) -> &Index<S> {
        &self.index
    }

    /// The index, to be queried by itself.
    pub fn index_mut(&mut self) -> &mut Index<S> {
        &mut self.index
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.index.directory
    }

    /// State after a line, or at the end if the log is shorter: registers, and memory within these ranges.
    pub fn state(&mut self, line: u64, ranges: &[RangeInclusive<u64>]) -> IndexResult<State> {
        let line = line.min(self.directory().totals.lines);
        let Some(segment) = self.segment_of(line.max(1)) else {
            return Ok(State { line: 0, time: None, cores: Vec::new() });
        };
        let state = self.state_until(segment, |number, _| number > line, ranges)?;
        Ok(State { line, ..state })
    }

    /// State before the first line of a segment for which `is_after` holds, or after the segment. Its line is the number of
    /// instructions.
    pub(super) fn state_until(
        &mut self,
        segment: usize,
        is_after: impl Fn(u64, &Line<'_>) -> bool,
        ranges: &[RangeInclusive<u64>],
    ) -> IndexResult<State> {
        let granules: Vec<_> = ranges.iter().map(|range| range.start() / GRANULE..=range.end() / GRANULE).collect();
        let replay = self.replay(segment, &is_after)?;
        let base = self.base(segment);
        let mut cores = Vec::new();
        for (at, (core, (track, calls))) in replay.machine.cores().iter().zip(&replay.tracks).enumerate() {
            let index = self.directory().cores.iter().position(|name| *name == core.name).unwrap_or(at);
            let mut memory = Memory::default();
            for range in &granules {
                gather(&mut self.index.file, &self.index.directory, index, 0..segment, range, &mut memory)?;
                memory.append(&core.memory, range, u32::try_from(base).unwrap_or(u32::MAX));
            }
            cores.push(CoreState::of(core, memory, track, calls));
        }
        let line = replay.tracks.iter().map(|(track, _)| track.instructions).sum();
        let mut state = State { line, time: replay.time, cores };
        let nothing = Memory::default();
        let is_all_known = |core: &CoreState| granules.iter().all(|range| is_known(&core.memory, &nothing, range));
        if !state.cores.iter().all(is_all_known) {
            self.fill_from_later(&mut state, segment, &replay.machine, &is_after, &granules)?;
        }
        Ok(state)
    }

    /// Fills in unknown bytes from later reads that precede any write. `machine`: the part of the segment before.
    fn fill_from_later(
        &mut self,
        state: &mut State,
        segment: usize,
        machine: &Machine,
        is_after: &impl Fn(u64, &Line<'_>) -> bool,
        ranges: &[RangeInclusive<u64>],
    ) -> IndexResult<()> {
        let rest = self.rest(segment, machine, is_after)?;
        let last = self.directory().segments.len();
        for core in &mut state.cores {
            let Some(index) = self.directory().cores.iter().position(|name| *name == core.name) else { continue };
            let own = rest.cores().iter().find(|other| other.name == core.name).map(|other| &other.memory);
            for range in ranges {
                let mut later = Memory::default();
                if let Some(own) = own {
                    later.append(own, range, 0);
                }
                // A few bytes are usually known soon; a large range takes the whole tree.
                for node in self.directory().tree.cover(segment + 1..last) {
                    if is_known(&core.memory, &later, range) {
                        break;
                    }
                    let Index { file, directory, .. } = &mut self.index;
                    gather(file, directory, index, directory.tree.segments(node), range, &mut later)?;
                }
                fill(&mut core.memory, &later);
            }
        }
        Ok(())
    }

    /// The rest of a segment, after the part in `machine`: memory that it accesses.
    fn rest(
        &mut self,
        segment: usize,
        machine: &Machine,
        is_after: &impl Fn(u64, &Line<'_>) -> bool,
    ) -> IndexResult<Machine> {
        let (base, mut rest, mut is_past) = (self.base(segment), machine.without_memory(0), false);
        let Self { log, index: Index { file, directory, .. } } = self;
        let mut before = After { machine, before: Before::new(file, directory, segment) };
        log.each_line(&segment_at(directory, segment), &mut |number, line| {
            is_past = is_past || is_after(base + u64::from(number), line);
            if is_past {
                rest.line_after(number.into(), line, &mut before);
            }
            true
        })?;
        before.before.failed.map_or(Ok(rest), Err)
    }

    fn replay(&mut self, segment: usize, is_after: &impl Fn(u64, &Line<'_>) -> bool) -> IndexResult<Replay> {
        let checkpoint = self.checkpoint(segment)?;
        let (base, options) = (self.base(segment), self.directory().options);
        let mut time = checkpoint.time;
        let (mut cores, mut tracks) = (Vec::new(), Vec::<(Track, Calls)>::new());
        for core in checkpoint.cores {
            let (name, registers, last) = (core.name, core.registers, Some(core.track.last()));
            cores.push(Core { name, registers, last, has_mode: true, ..Core::default() });
            tracks.push((core.track, core.calls));
        }
        let mut machine = Machine::with(options.big_endian, cores, checkpoint.current, base);
        let Self { log, index: Index { file, directory, .. } } = self;
        let at = segment_at(directory, segment);
        let mut before = Before::new(file, directory, segment);
        log.each_line(&at, &mut |number, other| {
            if is_after(base + u64::from(number), other) {
                return false;
            }
            if let Stamp::At(at) = other.stamp {
                time = Some(at);
            }
            if let Some(at) = machine.line_after(number.into(), other, &mut before) {
                tracks.resize_with(machine.cores().len(), Default::default);
                let (track, calls) = &mut tracks[at];
                follow(track, calls, other, &machine.cores()[at].registers, &options);
            }
            true
        })?;
        tracks.resize_with(machine.cores().len(), Default::default);
        before.failed.map_or(Ok(Replay { machine, time, tracks }), Err)
    }

    pub(super) fn checkpoint(&mut self, segment: usize) -> IndexResult<Checkpoint> {
        let Index { file, directory, .. } = &mut self.index;
        let block = directory.segments[segment].checkpoint;
        Checkpoint::decode(&block.load(file)?, block.offset)
    }

    /// Passes on the lines of a segment, each with the name of its core.
    pub(super) fn each_core_line(
        &mut self,
        segment: usize,
        mut sink: impl FnMut(u64, &Line<'_>, &[u8]) -> bool,
    ) -> IndexResult<()> {
        let checkpoint = self.checkpoint(segment)?;
        let cores = checkpoint.cores.into_iter().map(|core| Core { name: core.name, ..Core::default() }).collect();
        let mut machine = Machine::with(false, cores, checkpoint.current, 0);
        self.each_line(segment, |number, line| {
            let core = machine.select_core(line);
            let name = core.and_then(|core| machine.cores().get(core)).map_or(&[][..], |core| &core.name);
            sink(number, line, name)
        })
    }

    /// Passes on the lines of a segment.
    pub(super) fn each_line(
        &mut self,
        segment: usize,
        mut sink: impl FnMut(u64, &Line<'_>) -> bool,
    ) -> IndexResult<()> {
        let base = self.base(segment);
        let at = segment_at(&self.index.directory, segment);
        self.log.each_line(&at, &mut |number, line| sink(base + u64::from(number), line))
    }

    /// Number of lines before a segment.
    pub(super) fn base(&self, segment: usize) -> u64 {
        self.directory().tree.node((0, segment)).map_or(0, |node| node.base)
    }

    /// The segment of a line.
    pub(super) fn segment_of(&self, line: u64) -> Option<usize> {
        self.index.segment_of_line(line)
    }
}

/// A segment, for what reads it.
pub(super) fn segment_at(directory: &Directory, segment: usize) -> SegmentAt<'_> {
    let Segment { offset, is_within_line, resume, steps, contexts, .. } = &directory.segments[segment];
    let end = directory.segments.get(segment + 1).map_or(directory.fingerprint.length, |next| next.offset);
    let lines = directory.tree.node((0, segment)).map_or(0, |node| node.lines);
    let (is_within_line, options) = (*is_within_line, directory.options);
    SegmentAt { offset: *offset, end, is_within_line, lines, resume, steps: *steps, contexts, options }
}

/// All cores at a line, with their progress through the program.
struct Replay {
    machine: Machine,
    time: Option<Time>,
    tracks: Vec<(Track, Calls)>,
}

/// Takes a line of a core, whose registers include all earlier state.
#[inline]
pub(super) fn follow(
    track: &mut Track,
    calls: &mut Calls,
    line: &Line<'_>,
    registers: &Registers,
    options: &IndexOptions,
) {
    track.line(line, registers, options.dialect.effects());
    if !track.flows.is_empty() {
        track.flows.drain(..).for_each(|flow| calls.apply(&flow, &Registers::default()));
    }
}

/// Adds the state of a range of memory from segments.
fn gather(
    file: &mut (impl Read + Seek),
    directory: &Directory,
    core: usize,
    segments: Range<usize>,
    range: &RangeInclusive<u64>,
    memory: &mut Memory,
) -> IndexResult<()> {
    for index in directory.tree.cover(segments) {
        let Some(node) = directory.tree.node(index) else { continue };
        let shift = u32::try_from(node.base).unwrap_or(u32::MAX);
        let mut own = Vec::new();
        node.each_granule(core as u16, range, file, |number, later| {
            own.push(number);
            if let Some(granule) = memory.granule(number) {
                granule.append(later, shift);
            }
        })?;
        if let Some(mut unknown_writes) = node.unknown_writes(core as u16, file)? {
            own.iter().for_each(|number| unknown_writes.remove(&bytes_of(*number)));
            let bytes = *bytes_of(*range.start()).start()..=*bytes_of(*range.end()).end();
            for (range, line) in unknown_writes.within(&bytes) {
                memory.write_unknown(range, line.saturating_add(shift));
            }
        }
    }
    Ok(())
}

/// Whether every byte is known, or cannot become known any more.
fn is_known(memory: &Memory, later: &Memory, range: &RangeInclusive<u64>) -> bool {
    const FEW: u64 = 1 << 12;
    range.end() - range.start() < FEW
        && range.clone().all(|number| {
            let known = memory.get(number).map_or(0, |granule| granule.value().1);
            let later = later.get(number).map_or(0, |granule| granule.firsts | granule.changed);
            known | later == 0xff
        })
}

/// Fills in unknown bytes with values that were read later, before any write.
pub(super) fn fill(memory: &mut Memory, later: &Memory) {
    later.each_within(&(0..=u64::MAX), |number, later| {
        if let Some(granule) = memory.granule(number) {
            let known = granule.value().1;
            granule.read(later.first, later.firsts & !known, 0);
        }
    });
}

/// Memory as it was before a segment.
pub(super) struct Before<'a, S> {
    file: &'a mut S,
    directory: &'a Directory,
    segments: usize,
    /// Cache of the results: semihosting calls use the same memory repeatedly.
    found: HashMap<(usize, u64), Option<Granule>>,
    pub(super) failed: Option<IndexError>,
}

impl<'a, S> Before<'a, S> {
    pub(super) fn new(file: &'a mut S, directory: &'a Directory, segments: usize) -> Self {
        Self { file, directory, segments, found: HashMap::new(), failed: None }
    }
}

/// Memory as it was after a machine, and before it.
pub(super) struct After<'m, B> {
    pub(super) machine: &'m Machine,
    pub(super) before: B,
}

impl<B: EarlierState> EarlierState for After<'_, B> {
    fn byte(&mut self, core: &[u8], address: u64) -> Option<u8> {
        let own = self.machine.cores().iter().find(|other| other.name == core);
        match own.and_then(|own| own.memory.last_write(address)) {
            Some(write) => write.value,
            None => self.before.byte(core, address),
        }
    }
}

impl<S: Read + Seek> EarlierState for Before<'_, S> {
    fn byte(&mut self, core: &[u8], address: u64) -> Option<u8> {
        let core = self.directory.cores.iter().position(|name| name == core)?;
        let number = address / GRANULE;
        let granule = match self.found.get(&(core, number)) {
            Some(granule) => *granule,
            None => {
                let mut memory = Memory::default();
                let read = gather(self.file, self.directory, core, 0..self.segments, &(number..=number), &mut memory);
                self.failed = read.err().or(self.failed.take());
                self.found.insert((core, number), memory.get(number));
                memory.get(number)
            }
        };
        granule?.last_write(address)?.value
    }
}
