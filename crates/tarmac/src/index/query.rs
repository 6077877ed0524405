//! Questions to an index and its log.
//!
//! A question finds its piece in the directory, and then goes through this piece line by line: from what is known at its
//! start to the line that is asked for.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::ops::{Range, RangeInclusive};

use super::IndexError;
use super::calls::Calls;
use super::checkpoint::Checkpoint;
use super::directory::{Directory, Index};
use super::segment::{Text, Track, each_line};
use crate::record::{Line, Record, Stamp, Time};
use crate::state::{Core, EarlierState, GRANULE, Granule, Known, LastWrite, Machine, Memory, Registers, bytes_of};

/// A log and its index.
#[derive(Debug)]
pub struct Indexed<T, S> {
    log: T,
    pub(super) index: Index<S>,
}

/// Where something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The line.
    pub line: u64,
    /// The name of its core.
    pub core: Vec<u8>,
    /// The address of the instruction.
    pub pc: u64,
}

/// An answer, or why there is none.
pub type Answer<T> = Result<T, IndexError>;

/// What is known behind a line.
#[derive(Debug)]
pub struct State {
    /// The line.
    pub line: u64,
    /// The time of the line, or of the last before that has one.
    pub time: Option<Time>,
    /// The cores that have appeared.
    pub cores: Vec<CoreState>,
}

/// What is known of a core.
#[derive(Debug)]
pub struct CoreState {
    /// Its name; may be empty.
    pub name: Vec<u8>,
    /// Its registers.
    pub registers: Registers,
    /// Memory as it sees it, where it was asked for.
    pub memory: Memory,
    /// The address of its last instruction.
    pub pc: Option<u64>,
    /// How many instructions it has executed or skipped.
    pub instructions: u64,
    /// How many calls deep it is.
    pub depth: u64,
}

impl State {
    /// A byte of memory that all cores share: what was written last, by whichever core.
    pub fn byte(&self, address: u64) -> Option<Known> {
        self.last_write(address)?.known()
    }

    /// The last write to a byte of memory that all cores share, even if it is not known what it wrote.
    pub fn last_write(&self, address: u64) -> Option<LastWrite> {
        let each = || self.cores.iter().filter_map(|core| core.memory.last_write(address));
        let last = each().max_by_key(|byte| (byte.line, !byte.is_seen))?;
        // What one core saw, another may have written.
        let written = each().filter(|byte| !byte.is_seen && byte.line > 0).max_by_key(|byte| byte.line);
        Some(written.filter(|byte| last.is_seen && byte.value == last.value).unwrap_or(last))
    }

    /// A core by its name.
    pub fn core(&self, name: &[u8]) -> Option<&CoreState> {
        self.cores.iter().find(|core| core.name == name)
    }
}

impl<T: Read + Seek, S: Read + Seek> Indexed<T, S> {
    /// A log and its index, which have to belong together.
    pub fn new(log: T, index: Index<S>) -> Self {
        Self { log, index }
    }

    /// The index.
    pub fn index(&self) -> &Index<S> {
        &self.index
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.index.directory
    }

    /// What is known behind a line (all of it, if the log has fewer): registers, and memory within these ranges.
    pub fn state(&mut self, line: u64, ranges: &[RangeInclusive<u64>]) -> Answer<State> {
        let line = line.min(self.directory().totals.lines);
        let Some(piece) = self.piece_of(line.max(1)) else {
            return Ok(State { line: 0, time: None, cores: Vec::new() });
        };
        let granules: Vec<_> = ranges.iter().map(|range| range.start() / GRANULE..=range.end() / GRANULE).collect();
        let Replay { machine, time, tracks } = self.replay(piece, line)?;
        let base = self.base(piece);
        let mut cores = Vec::new();
        for (at, (core, (track, calls))) in machine.cores().iter().zip(tracks).enumerate() {
            let place = self.directory().cores.iter().position(|name| *name == core.name).unwrap_or(at);
            let mut memory = Memory::new();
            for range in &granules {
                self.gather(place, 0..piece, range, &mut memory)?;
                memory.append(&core.memory, range, u32::try_from(base).unwrap_or(u32::MAX));
            }
            cores.push(CoreState {
                name: core.name.clone(),
                registers: core.registers.clone(),
                memory,
                pc: track.previous.map(|previous| previous.address),
                instructions: track.instructions,
                depth: calls.depth(),
            });
        }
        let mut state = State { line, time, cores };
        let nothing = Memory::new();
        let is_all_known = |core: &CoreState| granules.iter().all(|range| is_known(&core.memory, &nothing, range));
        if !state.cores.iter().all(is_all_known) {
            self.look_ahead(&mut state, piece, &granules)?;
        }
        Ok(state)
    }

    /// What is not known yet may be read later, before anything is written there.
    fn look_ahead(&mut self, state: &mut State, piece: usize, ranges: &[RangeInclusive<u64>]) -> Answer<()> {
        let options = self.directory().options;
        let names = state.cores.iter().map(|core| Core { name: core.name.clone(), ..Core::default() });
        let mut rest = Machine::with(options.big_endian, names.collect(), self.current_core(piece)?, 0);
        let (line, base) = (state.line, self.base(piece));
        self.each_line(piece, |number, other| {
            if number > line {
                rest.line(number - base, other);
            } else {
                rest.pass(other);
            }
            true
        })?;
        let last = self.directory().pieces.len();
        for core in &mut state.cores {
            let Some(place) = self.directory().cores.iter().position(|name| *name == core.name) else { continue };
            let own = rest.cores().iter().find(|other| other.name == core.name).map(|other| &other.memory);
            for range in ranges {
                let mut later = Memory::new();
                if let Some(own) = own {
                    later.append(own, range, 0);
                }
                // A few bytes are mostly known soon; of all memory everything has to be looked at.
                for node in self.directory().tree.cover(piece + 1..last) {
                    if is_known(&core.memory, &later, range) {
                        break;
                    }
                    self.gather(place, self.directory().tree.pieces(node), range, &mut later)?;
                }
                fill(&mut core.memory, &later);
            }
        }
        Ok(())
    }

    /// Adds what pieces tell of a range of memory.
    fn gather(
        &mut self,
        core: usize,
        pieces: Range<usize>,
        range: &RangeInclusive<u64>,
        memory: &mut Memory,
    ) -> Answer<()> {
        let Index { file, directory, .. } = &mut self.index;
        gather(file, directory, core, pieces, range, memory)
    }

    /// Goes from the start of a piece to a line: all cores, the time, and how each goes through the program.
    fn replay(&mut self, piece: usize, line: u64) -> Answer<Replay> {
        let (checkpoint, text) = (self.checkpoint(piece)?, self.text(piece)?);
        let (base, options) = (self.base(piece), self.directory().options);
        let mut time = checkpoint.time;
        let (mut cores, mut tracks) = (Vec::new(), Vec::new());
        for core in checkpoint.cores {
            let (name, registers) = (core.name, core.registers);
            cores.push(Core { name, registers, is_settled: true, ..Core::default() });
            tracks.push((core.track, core.calls));
        }
        let mut machine = Machine::with(options.big_endian, cores, checkpoint.current, base);
        let Index { file, directory, .. } = &mut self.index;
        let mut before = Before::new(file, directory, piece);
        // All that was before is in the registers.
        let nothing = Registers::new();
        each_line(&text, &options, |number, other| {
            if base + u64::from(number) > line {
                return false;
            }
            if let Stamp::At(at) = other.stamp {
                time = Some(at);
            }
            let core = machine.line_after(number.into(), other, &mut before);
            if let (Record::Instruction(instruction), Some(at)) = (&other.record, core) {
                tracks.resize_with(machine.cores().len(), Default::default);
                let (track, calls): &mut (Track, Calls) = &mut tracks[at];
                track.instruction(instruction, &machine.cores()[at].registers, options.dialect.effects());
                track.flows.drain(..).for_each(|flow| calls.take(&flow, &nothing));
            }
            true
        });
        tracks.resize_with(machine.cores().len(), Default::default);
        before.failed.map_or(Ok(Replay { machine, time, tracks }), Err)
    }

    fn current_core(&mut self, piece: usize) -> Answer<usize> {
        self.checkpoint(piece).map(|checkpoint| checkpoint.current)
    }

    pub(super) fn checkpoint(&mut self, piece: usize) -> Answer<Checkpoint> {
        let Index { file, directory, .. } = &mut self.index;
        let block = directory.pieces[piece].checkpoint;
        Checkpoint::take(&block.load(file)?, block.offset)
    }

    /// Goes through a piece, with the name of the core of every line.
    pub(super) fn each_core_line(
        &mut self,
        piece: usize,
        mut take: impl FnMut(u64, &Line<'_>, &[u8]) -> bool,
    ) -> Answer<()> {
        let checkpoint = self.checkpoint(piece)?;
        let cores = checkpoint.cores.into_iter().map(|core| Core { name: core.name, ..Core::default() }).collect();
        let mut machine = Machine::with(false, cores, checkpoint.current, 0);
        self.each_line(piece, |number, line| {
            let core = machine.pass(line);
            let name = core.and_then(|core| machine.cores().get(core)).map_or(&[][..], |core| &core.name);
            take(number, line, name)
        })
    }

    /// Goes through a piece.
    pub(super) fn each_line(&mut self, piece: usize, mut take: impl FnMut(u64, &Line<'_>) -> bool) -> Answer<()> {
        let (text, base) = (self.text(piece)?, self.base(piece));
        let options = self.directory().options;
        each_line(&text, &options, |number, line| take(base + u64::from(number), line));
        Ok(())
    }

    /// Lines before a piece.
    pub(super) fn base(&self, piece: usize) -> u64 {
        self.directory().tree.node((0, piece)).map_or(0, |node| node.base)
    }

    /// The piece that a line is in.
    pub(super) fn piece_of(&self, line: u64) -> Option<usize> {
        let nodes = self.directory().tree.levels.first()?;
        let place = nodes.partition_point(|node| node.base < line).checked_sub(1)?;
        (line <= self.directory().totals.lines).then_some(place)
    }

    /// Reads a piece of the log.
    fn text(&mut self, piece: usize) -> Answer<Text> {
        let directory = &self.index.directory;
        let start = directory.pieces[piece].offset;
        let end = directory.pieces.get(piece + 1).map_or(directory.fingerprint.length, |next| next.offset);
        let mut bytes = Vec::new();
        self.log.seek(SeekFrom::Start(start)).map_err(IndexError::Log)?;
        self.log.by_ref().take(end - start).read_to_end(&mut bytes).map_err(IndexError::Log)?;
        if bytes.len() as u64 != end - start {
            return Err(IndexError::Changed);
        }
        Ok(Text { bytes, is_within_line: directory.pieces[piece].is_within_line })
    }
}

/// All cores at a line, and how each went through the program.
struct Replay {
    machine: Machine,
    time: Option<Time>,
    tracks: Vec<(Track, Calls)>,
}

/// Does it begin a step?
pub(super) fn starts_step(record: &Record<'_>) -> bool {
    match record {
        Record::Instruction(_) | Record::Asynchronous(_) => true,
        Record::Exception(exception) => exception.is_step,
        _ => false,
    }
}

fn gather(
    file: &mut (impl Read + Seek),
    directory: &Directory,
    core: usize,
    pieces: Range<usize>,
    range: &RangeInclusive<u64>,
    memory: &mut Memory,
) -> Answer<()> {
    for place in directory.tree.cover(pieces) {
        let Some(node) = directory.tree.node(place) else { continue };
        let shift = u32::try_from(node.base).unwrap_or(u32::MAX);
        let mut own = Vec::new();
        node.each_granule(core as u16, range, file, |number, later| {
            own.push(number);
            if let Some(granule) = memory.granule(number) {
                granule.append(later, shift);
            }
        })?;
        if let Some(mut forgotten) = node.forgotten(core as u16, file)? {
            own.iter().for_each(|number| forgotten.cut(&bytes_of(*number)));
            let bytes = *bytes_of(*range.start()).start()..=*bytes_of(*range.end()).end();
            for (range, line) in forgotten.within(&bytes) {
                memory.forget(range, line.saturating_add(shift));
            }
        }
    }
    Ok(())
}

/// Is every byte known now, or is it clear that it will not be told?
fn is_known(memory: &Memory, later: &Memory, range: &RangeInclusive<u64>) -> bool {
    const FEW: u64 = 1 << 12;
    range.end() - range.start() < FEW
        && range.clone().all(|number| {
            let known = memory.get(number).map_or(0, |granule| granule.value().1);
            let later = later.get(number).map_or(0, |granule| granule.firsts | granule.changed);
            known | later == 0xff
        })
}

/// Fills in what is not known with what was read later, before anything was written there.
pub(super) fn fill(memory: &mut Memory, later: &Memory) {
    later.each_within(&(0..=u64::MAX), |number, later| {
        if let Some(granule) = memory.granule(number) {
            let known = granule.value().1;
            granule.read(later.first, later.firsts & !known, 0);
        }
    });
}

/// Memory as it was before a piece.
pub(super) struct Before<'a, S> {
    file: &'a mut S,
    directory: &'a Directory,
    pieces: usize,
    /// What was looked for already: calls to the host use the same memory again and again.
    found: HashMap<(usize, u64), Option<Granule>>,
    pub(super) failed: Option<IndexError>,
}

impl<'a, S> Before<'a, S> {
    pub(super) fn new(file: &'a mut S, directory: &'a Directory, pieces: usize) -> Self {
        Self { file, directory, pieces, found: HashMap::new(), failed: None }
    }
}

impl<S: Read + Seek> EarlierState for Before<'_, S> {
    fn byte(&mut self, core: &[u8], address: u64) -> Option<u8> {
        let core = self.directory.cores.iter().position(|name| name == core)?;
        let number = address / GRANULE;
        let granule = match self.found.get(&(core, number)) {
            Some(granule) => *granule,
            None => {
                let mut memory = Memory::new();
                let read = gather(self.file, self.directory, core, 0..self.pieces, &(number..=number), &mut memory);
                self.failed = read.err().or(self.failed.take());
                self.found.insert((core, number), memory.get(number));
                memory.get(number)
            }
        };
        granule?.last_write(address)?.value
    }

    fn unresolved(&mut self) {}
}
