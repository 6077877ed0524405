//! Slicing: the lines of selected instructions, byte for byte.
//!
//! lines, selection ─▶ **slice** ─▶ lines
//!
//! A line belongs to the previous instruction of its core, or to the next one where the producer prints effects first.
//! The header of the log is kept, and so are the lines before the first instruction if they are selected. Tarmac has no
//! notation for missing lines, so a reader would take the next instruction for the target of a branch: between two
//! pieces of one log, an annotation marks the cut. Of a lowered log, the coverage annotation is kept, and each piece
//! starts with the current context. If the first line of a piece has no time of its own, it gets the current one. On
//! request, a piece starts with lines of the registers and memory that are known there (`state_lines`).

mod state_lines;

use std::io::{self, Read};
use std::ops::ControlFlow;

use unspool_model::{CoreSelector, Event};

use super::annotation::{Annotation, write_cut};
use super::clock::Clock;
use super::dialect::{Dialect, Effects, is_lowered};
use super::opcode::isa;
use super::read::{Position, ReadError, Reader};
use super::record::{Instruction, Line, Record, Stamp};
use super::state::Machine;
use super::write::{Style, push_start};
use unspool_model::selection::{Candidate, Choice, Select, SliceSink};

/// Maximum number of bytes of lines that wait for their instruction; further lines are dropped.
const MAX_WAITING: usize = 1 << 20;

/// Maximum number of words of eight bytes of memory that are known of each core.
const MAX_WORDS: usize = 1 << 21;

/// State that a piece starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeptState {
    /// None but the context of a lowered log.
    #[default]
    None,
    /// The registers that are known.
    Registers,
    /// The registers and the memory that are known.
    All,
}

/// Options of [`slice()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SliceOptions<'n> {
    /// Write every piece as a log of its own.
    pub split: bool,
    /// Keep only lines of this core.
    pub core: Option<&'n CoreSelector>,
    /// The dialect, to override the detected one.
    pub dialect: Option<Dialect>,
    /// State that each piece starts with. Where a dialect prints effects before their instruction, there is none: the lines
    /// would be effects of the first instruction.
    pub state: KeptState,
    /// Whether data is big-endian; only state depends on it.
    pub big_endian: bool,
}

/// Result of [`slice()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sliced {
    /// Number of instructions in the log, as far as it was read.
    pub seen: u64,
    /// Number of instructions in the slice.
    pub instructions: u64,
    /// Number of pieces.
    pub pieces: u64,
    /// Number of lines in the slice.
    pub lines: u64,
    /// Whether the first line of a piece had no time of its own and got the current one.
    pub has_new_time: bool,
}

/// Reason why the slice is incomplete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// Writing failed.
    #[error("cannot write the slice: {0}")]
    Write(#[source] io::Error),
    /// The log could not be read to the end of the slice. Everything before was written.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Writes the selected instructions of a log that was not read yet. Every line is also passed to `visit`.
pub fn slice<R: Read>(
    reader: &mut Reader<R>,
    select: &mut impl Select,
    options: SliceOptions<'_>,
    sink: &mut impl SliceSink<u8>,
    mut visit: impl FnMut(Position, &Line<'_>),
) -> Result<Sliced, SliceError> {
    let dialect = options.dialect.unwrap_or(reader.dialect());
    let mut slicer = Slicer {
        effects: dialect.effects(),
        wants_start: select.wants_start(),
        select,
        sink,
        options,
        machine: Machine::new(options.big_endian, if options.state == KeptState::All { MAX_WORDS } else { 1 }),
        clock: Clock::default(),
        time: None,
        stamp: Stamp::Absent,
        style: if dialect == Dialect::Rev3 { Style::Rev3 } else { Style::FastModels },
        cores: Vec::new(),
        header: Vec::new(),
        is_past_header: false,
        waiting: Waiting::default(),
        is_lowered: false,
        contexts: Vec::new(),
        written: None,
        follows_cut: true,
        needs_time: None,
        ending: b"\n",
        is_stopped: false,
        sliced: Sliced::default(),
        failed: None,
    };
    let read = reader.each(|position, line| {
        slicer.end_line(position.offset);
        visit(position, line);
        slicer.line(position, line)
    });
    slicer.end_line(reader.position().offset);
    if matches!(read, Ok(false)) {
        slicer.end();
    }
    match (slicer.failed, read) {
        (Some(error), _) => Err(SliceError::Write(error)),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(_)) => Ok(slicer.sliced),
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Core {
    /// Whether its last instruction is selected.
    is_selected: bool,
    /// Whether it had an instruction.
    has_begun: bool,
    /// Whether an exception followed the last instruction.
    is_interrupted: bool,
    /// Whether lines of it were written.
    has_output: bool,
    /// Number of instructions that were left out since.
    skipped: u64,
}

/// Lines that wait for their instruction.
#[derive(Debug, Default)]
struct Waiting {
    /// The lines with line ends.
    lines: Vec<u8>,
    has_context: bool,
    /// Whether there are more than comments.
    has_line: bool,
    /// Offset of the first line that is no comment, if it has no time, and whether it names its core.
    timeless: Option<(usize, bool)>,
}

/// State of a slice.
struct Slicer<'c, C, S> {
    /// Whether lines belong to the previous instruction or to the next.
    effects: Effects,
    wants_start: bool,
    select: &'c mut C,
    sink: &'c mut S,
    options: SliceOptions<'c>,
    machine: Machine,
    clock: Clock,
    time: Option<u64>,
    /// The last timestamp.
    stamp: Stamp,
    style: Style,
    cores: Vec<Core>,
    /// The header of the log, with line ends.
    header: Vec<u8>,
    is_past_header: bool,
    /// Lines that wait for their instruction.
    waiting: Waiting,
    /// Whether the log was lowered and has annotations.
    is_lowered: bool,
    /// The annotation with the current context, per core.
    contexts: Vec<Vec<u8>>,
    /// End offset of the last line that was kept, and where it was kept. The length of its line end is known once the
    /// next line is read.
    written: Option<(u64, Kept)>,
    /// Whether lines were left out since the last one that was written, or none was written yet.
    follows_cut: bool,
    /// The core whose next line starts a piece and has no time.
    needs_time: Option<usize>,
    /// The line end of the log.
    ending: &'static [u8],
    /// Whether the selection has ended.
    is_stopped: bool,
    sliced: Sliced,
    failed: Option<io::Error>,
}

/// Destination of a kept line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Header,
    Waiting,
    Written,
}

impl<C: Select, S: SliceSink<u8>> Slicer<'_, C, S> {
    fn line(&mut self, position: Position, line: &Line<'_>) -> ControlFlow<()> {
        let flow = self.decide(position, line);
        if self.options.state != KeptState::None && flow.is_continue() {
            self.machine.line(position.line, line);
        }
        flow
    }

    fn decide(&mut self, position: Position, line: &Line<'_>) -> ControlFlow<()> {
        if self.failed.is_some() {
            return ControlFlow::Break(());
        }
        if let Stamp::At(time) = line.stamp {
            self.time = Some(self.clock.count(time));
        }
        if line.stamp != Stamp::Absent {
            self.stamp = line.stamp;
        }
        let is_covers = matches!(line.record, Record::Comment(text) if is_lowered(text)) && self.sliced.seen == 0;
        self.is_lowered |= is_covers;
        if is_covers || matches!(line.record, Record::Header(_)) && !self.is_past_header {
            self.keep(position, line, Kept::Header);
            return ControlFlow::Continue(());
        }
        self.is_past_header = true;
        let at = self.machine.select_core(line);
        let core = at.unwrap_or(self.machine.current());
        if self.cores.len() <= core {
            self.cores.resize(core + 1, Core::default());
        }
        let name = self.machine.cores().get(core).map(|core| core.name.as_slice());
        let is_meant = |wanted: &CoreSelector| name.is_some_and(|name| wanted.matches(core, name));
        if !self.options.core.is_none_or(is_meant) {
            return ControlFlow::Continue(());
        }
        match &line.record {
            Record::Instruction(instruction) => return self.instruction(position, line, core, instruction),
            Record::Comment(text) if self.is_lowered && self.is_of_next(line, core, text) => {
                self.keep(position, line, Kept::Waiting);
            }
            record => {
                self.cores[core].is_interrupted |= is_exception(record);
                self.other(position, line, core);
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether an annotation belongs to the next instruction. A context is stored, since it holds until the next one.
    fn is_of_next(&mut self, line: &Line<'_>, core: usize, comment: &[u8]) -> bool {
        match Annotation::parse(comment) {
            Some(Annotation::Instruction(_)) => true,
            Some(Annotation::Step { event: Event::Context(_), .. }) => {
                self.contexts.resize(self.contexts.len().max(core + 1), Vec::new());
                self.contexts[core] = line.raw.to_vec();
                self.waiting.has_context = true;
                true
            }
            _ => false,
        }
    }

    fn instruction(
        &mut self,
        position: Position,
        line: &Line<'_>,
        core: usize,
        instruction: &Instruction<'_>,
    ) -> ControlFlow<()> {
        let candidate = self.candidate(core, instruction);
        self.sliced.seen += 1;
        let choice = self.select.choose(&candidate);
        let is_selected = choice == Choice::Take;
        self.cores[core] = Core { is_selected, has_begun: true, is_interrupted: false, ..self.cores[core] };
        match choice {
            Choice::Stop => {
                self.is_stopped = true;
                return ControlFlow::Break(());
            }
            Choice::Leave => {
                self.follows_cut = true;
                self.cores[core].skipped += 1;
                self.waiting = Waiting::default();
            }
            Choice::Take => {
                self.join(core, line);
                self.sliced.instructions += 1;
                self.write_waiting();
                self.keep(position, line, Kept::Written);
            }
        }
        // If effects come first, nothing more belongs to the last instruction.
        let is_over = self.effects == Effects::Before && !self.select.wants_more();
        if is_over || self.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn candidate(&self, core: usize, instruction: &Instruction<'_>) -> Candidate {
        let isa = instruction.set.map(isa);
        Candidate {
            core: core as u32,
            index: self.sliced.seen,
            pc: instruction.address,
            time: self.time,
            code: isa.zip(instruction.opcode),
            length: instruction.length,
            is_executed: instruction.is_executed,
            is_interrupted: self.cores[core].is_interrupted,
        }
    }

    /// Handles a line that is no instruction.
    fn other(&mut self, position: Position, line: &Line<'_>, core: usize) {
        let Core { is_selected, has_begun, .. } = self.cores[core];
        match self.effects {
            Effects::Before => {
                if self.waiting.lines.len() < MAX_WAITING {
                    self.keep(position, line, Kept::Waiting);
                }
            }
            // A context precedes it.
            Effects::After if !self.waiting.lines.is_empty() => self.keep(position, line, Kept::Waiting),
            Effects::After if is_selected || !has_begun && self.wants_start => {
                self.join(core, line);
                self.keep(position, line, Kept::Written);
            }
            Effects::After => {}
        }
    }

    /// Starts a new piece if needed, before a line of this core is written.
    fn join(&mut self, core: usize, line: &Line<'_>) {
        let is_first = self.sliced.pieces == 0;
        let Core { has_output, skipped, .. } = self.cores[core];
        let begins = is_first || if self.options.split { self.follows_cut } else { has_output && skipped > 0 };
        if begins {
            self.sliced.pieces += 1;
            let is_log = is_first || self.options.split;
            self.begin(is_log, core);
            self.write_context(core);
            // Lines before the first instruction are the state of a slice that starts with them.
            if self.sliced.seen > 1 || !self.wants_start {
                self.write_state(is_log, core);
            }
        }
        if begins || skipped > 0 {
            self.add_time(core, line);
        }
        self.follows_cut = false;
        (self.cores[core].has_output, self.cores[core].skipped) = (true, 0);
    }

    /// Writes the current context at the start of a piece of a lowered log.
    fn write_context(&mut self, core: usize) {
        let Some(context) = self.contexts.get(core).filter(|context| !self.waiting.has_context && !context.is_empty())
        else {
            return;
        };
        let mut lines = Vec::new();
        if let Some(number) = self.core_number(core) {
            Annotation::Core(number).write(&mut lines);
        }
        lines.extend_from_slice(context);
        lines.extend_from_slice(self.ending);
        self.put(&lines);
    }

    /// Number of a core of a lowered log, if it has several.
    fn core_number(&self, core: usize) -> Option<u32> {
        let cores = self.machine.cores();
        let name =
            cores.get(core).filter(|_| cores.len() > 1).map(|core| str::from_utf8(&core.name).unwrap_or_default());
        name.map(|name| name.strip_prefix("cpu").and_then(|number| number.parse().ok()).unwrap_or(0))
    }

    /// Writes what is known of a core, or of all at the start of a log.
    fn write_state(&mut self, is_log: bool, core: usize) {
        if self.options.state == KeptState::None || self.effects == Effects::Before {
            return;
        }
        let mut lines = Vec::new();
        for (at, known) in self.machine.cores().iter().enumerate() {
            let is_meant = self.options.core.is_none_or(|wanted| wanted.matches(at, &known.name));
            if at == core || is_log && is_meant {
                let number = self.core_number(at);
                let (stamp, style, is_lowered) = (self.stamp, self.style, self.is_lowered);
                let head = state_lines::Head { stamp, style, is_lowered, number };
                state_lines::write(known, &head, self.options, &mut lines);
            }
        }
        self.put(&lines);
    }

    /// Adds the current time to the first line after a cut, if it has none.
    fn add_time(&mut self, core: usize, line: &Line<'_>) {
        let is_missing = self.stamp != Stamp::Absent;
        match self.waiting.timeless.filter(|_| is_missing) {
            Some((at, names_core)) => {
                let rest = self.waiting.lines.split_off(at);
                let start = self.start(core, names_core);
                self.waiting.lines.extend_from_slice(&start);
                self.waiting.lines.extend_from_slice(rest.trim_ascii_start());
            }
            None if is_missing && !self.waiting.has_line && line.stamp == Stamp::Absent => self.needs_time = Some(core),
            None => {}
        }
    }

    /// The start of a line that has no time and perhaps no core of its own.
    fn start(&mut self, core: usize, names_core: bool) -> Vec<u8> {
        self.sliced.has_new_time = true;
        let name = self.machine.cores().get(core).map(|core| core.name.as_slice());
        let name = name.filter(|name| !name.is_empty() && !names_core);
        let mut start = Vec::new();
        push_start(self.style, self.stamp, name, &mut start);
        start
    }

    /// Begins a piece, as a log of its own or after a cut mark.
    fn begin(&mut self, is_log: bool, core: usize) {
        if is_log {
            if self.failed.is_none() {
                self.failed = self.sink.begin().and_then(|()| self.sink.write_part(&self.header)).err();
            }
        } else {
            // The mark reads as a gap. It names the core if the log has several.
            let mut cut_mark = Vec::new();
            let cores = self.machine.cores();
            let name = cores.get(core).map(|core| core.name.as_slice()).filter(|_| cores.len() > 1);
            write_cut(name, &mut cut_mark);
            cut_mark.extend_from_slice(self.ending);
            self.put(&cut_mark);
        }
    }

    /// Writes the lines after the last instruction at the end of the log.
    fn end(&mut self) {
        let is_wanted = if self.sliced.seen == 0 { self.wants_start } else { !self.follows_cut };
        if is_wanted && !self.is_stopped && self.select.wants_more() && !self.waiting.lines.is_empty() {
            if self.sliced.pieces == 0 {
                self.sliced.pieces += 1;
                self.begin(true, self.machine.current());
            }
            self.write_waiting();
        }
    }

    /// Writes the waiting lines, which belong to the current instruction.
    fn write_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.put(&waiting.lines);
    }

    fn keep(&mut self, position: Position, line: &Line<'_>, kept: Kept) {
        match kept {
            Kept::Header => self.header.extend_from_slice(line.raw),
            Kept::Waiting => {
                // A line without a time field, or a malformed one, stays as it is.
                let has_time = !matches!(line.record, Record::Comment(_) | Record::Unknown(_) | Record::Blank);
                if !self.waiting.has_line && has_time {
                    self.waiting.has_line = true;
                    let here = (self.waiting.lines.len(), line.core.is_some());
                    self.waiting.timeless = Some(here).filter(|_| line.stamp == Stamp::Absent);
                }
                self.waiting.lines.extend_from_slice(line.raw);
            }
            Kept::Written => {
                self.sliced.lines += 1;
                match self.needs_time.take() {
                    None => self.put(line.raw),
                    Some(core) => {
                        let start = self.start(core, line.core.is_some());
                        self.put(&start);
                        self.put(line.raw.trim_ascii_start());
                    }
                }
            }
        }
        self.written = Some((position.offset + line.raw.len() as u64, kept));
    }

    /// Adds the line end to the last line, once the offset of the next line is known.
    fn end_line(&mut self, next: u64) {
        let Some((end, kept)) = self.written.take() else { return };
        let ending: &'static [u8] = match next.saturating_sub(end) {
            0 => b"",
            1 => b"\n",
            _ => b"\r\n",
        };
        self.ending = if ending.is_empty() { self.ending } else { ending };
        match kept {
            Kept::Header => self.header.extend_from_slice(ending),
            Kept::Waiting => self.waiting.lines.extend_from_slice(ending),
            Kept::Written => self.put(ending),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.failed.is_none() && !bytes.is_empty() {
            self.failed = self.sink.write_part(bytes).err();
        }
    }
}

fn is_exception(record: &Record<'_>) -> bool {
    match record {
        Record::Exception(_) | Record::Asynchronous(_) => true,
        Record::Event(event) => event.is_exception,
        _ => false,
    }
}
