//! A cut: the lines of some instructions, byte for byte.
//!
//! lines, selection ─▶ **slice** ─▶ lines
//!
//! A line belongs to the instruction of its core before it, or behind it where the producer prints effects first. The
//! header of the log stays in front, and so does what stands before the first instruction if that is wanted. A log has no
//! word for what is not in it, and a reader would take the next instruction for the target of a branch: so where a piece
//! follows another, a comment says that something was left out, unless each piece is a log of its own. Of a log that was
//! lowered, the remark that says what it covers stays in front, and each piece starts with the context that holds. Where a
//! piece starts with a line that has no time of its own, it gets the one that holds: lines before it are gone.

use std::io::{self, Read};
use std::ops::ControlFlow;

use unspool_isa::Isa;
use unspool_model::Event;

use super::clock::Clock;
use super::dialect::{Dialect, Effects};
use super::lower::annotation::{Annotation, write_cut};
use super::read::{Place, ReadError, Reader};
use super::record::{Instruction, InstructionSet, Line, Record, Stamp};
use super::state::Machine;
use super::write::{Style, push_start};
use unspool_model::selection::{Candidate, Choice, PieceSink, Select};

/// Bytes of lines that wait for their instruction; more are of none.
const MOST_WAITING: usize = 1 << 20;

/// How to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SliceOptions<'n> {
    /// Every piece is a log of its own.
    pub split: bool,
    /// Only lines of the core with this name.
    pub core: Option<&'n [u8]>,
    /// Who wrote the log, if somebody knows better than its start tells.
    pub dialect: Option<Dialect>,
}

/// What was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sliced {
    /// How many instructions the log has, as far as it was read.
    pub seen: u64,
    /// How many instructions the cut has.
    pub instructions: u64,
    /// In how many pieces.
    pub pieces: u64,
    /// How many lines the cut has.
    pub lines: u64,
    /// The first line of a piece had no time of its own, and has the one that holds.
    pub has_new_time: bool,
}

/// Why not everything was cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// Writing failed.
    #[error("the cut could not be written: {0}")]
    Write(#[source] io::Error),
    /// The log cannot be read to the end of the cut. What came before was cut.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Cuts instructions out of a log of which nothing was read. Every line is also handed to `look`.
pub fn slice<R: Read>(
    reader: &mut Reader<R>,
    select: &mut impl Select,
    options: SliceOptions<'_>,
    sink: &mut impl PieceSink<u8>,
    mut look: impl FnMut(Place, &Line<'_>),
) -> Result<Sliced, SliceError> {
    let dialect = options.dialect.unwrap_or(reader.dialect());
    let mut cut = Cut {
        effects: dialect.effects(),
        wants_start: select.wants_start(),
        select,
        sink,
        options,
        machine: Machine::new(false, 1),
        clock: Clock::default(),
        time: None,
        stamp: Stamp::Absent,
        style: if dialect == Dialect::Rev3 { Style::Rev3 } else { Style::FastModels },
        cores: Vec::new(),
        heading: Vec::new(),
        is_behind_heading: false,
        waiting: Vec::new(),
        is_lowered: false,
        contexts: Vec::new(),
        waits_context: false,
        written: None,
        is_apart: true,
        waits_line: false,
        timeless: None,
        lacks_time: None,
        ending: b"\n",
        is_stopped: false,
        sliced: Sliced::default(),
        failed: None,
    };
    let read = reader.each(|place, line| {
        cut.end_line(place.offset);
        look(place, line);
        cut.line(place, line)
    });
    cut.end_line(reader.place().offset);
    if matches!(read, Ok(false)) {
        cut.end();
    }
    match (cut.failed, read) {
        (Some(error), _) => Err(SliceError::Write(error)),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(_)) => Ok(cut.sliced),
    }
}

/// What is known of a core.
#[derive(Debug, Clone, Copy, Default)]
struct Core {
    /// Its last instruction was taken.
    is_taken: bool,
    /// It had an instruction.
    has_begun: bool,
    /// An exception was taken behind the last instruction.
    is_interrupted: bool,
    /// Lines of it were written.
    is_told: bool,
    /// How many instructions were left out behind them.
    left: u64,
}

/// A cut in the making.
struct Cut<'c, C, S> {
    /// Do lines belong to the instruction before them, or to the one behind?
    effects: Effects,
    wants_start: bool,
    select: &'c mut C,
    sink: &'c mut S,
    options: SliceOptions<'c>,
    machine: Machine,
    clock: Clock,
    time: Option<u64>,
    /// The time of the line before, as it is written, and in whose words.
    stamp: Stamp,
    style: Style,
    cores: Vec<Core>,
    /// The header of the log, with line ends.
    heading: Vec<u8>,
    is_behind_heading: bool,
    /// Lines that wait for their instruction, with line ends.
    waiting: Vec<u8>,
    /// The log was lowered: it has remarks.
    is_lowered: bool,
    /// The remarks with the contexts that hold, core by core.
    contexts: Vec<Vec<u8>>,
    /// There is a context among the lines that wait.
    waits_context: bool,
    /// Where the last line that was kept ends, and where it is. Its own end, one byte or two, is known when the next line
    /// comes.
    written: Option<(u64, Kept)>,
    /// Something was left out behind what was written, or nothing was written.
    is_apart: bool,
    /// There is more than comments among those.
    waits_line: bool,
    /// Where among those the first that is no comment is, if it has no time; and whether it names its core.
    timeless: Option<(usize, bool)>,
    /// The next line of this core starts a piece and has no time.
    lacks_time: Option<usize>,
    /// How lines end.
    ending: &'static [u8],
    /// No more is wanted.
    is_stopped: bool,
    sliced: Sliced,
    failed: Option<io::Error>,
}

/// Where a line is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Heading,
    Waiting,
    Written,
}

impl<C: Select, S: PieceSink<u8>> Cut<'_, C, S> {
    fn line(&mut self, place: Place, line: &Line<'_>) -> ControlFlow<()> {
        if self.failed.is_some() {
            return ControlFlow::Break(());
        }
        if let Stamp::At(time) = line.stamp {
            self.time = Some(self.clock.count(time));
        }
        if line.stamp != Stamp::Absent {
            self.stamp = line.stamp;
        }
        if matches!(line.record, Record::Header(_)) && !self.is_behind_heading {
            self.keep(place, line, Kept::Heading);
            return ControlFlow::Continue(());
        }
        if matches!(line.record, Record::Comment(text) if is_covers(text)) && self.sliced.seen == 0 {
            self.is_lowered = true;
            self.keep(place, line, Kept::Heading);
            return ControlFlow::Continue(());
        }
        self.is_behind_heading = true;
        let at = self.machine.pass(line);
        let core = at.unwrap_or(self.machine.current());
        if self.cores.len() <= core {
            self.cores.resize(core + 1, Core::default());
        }
        if !self.is_of_core(core) {
            return ControlFlow::Continue(());
        }
        match &line.record {
            Record::Instruction(instruction) => self.instruction(place, line, core, instruction),
            Record::Comment(text) if self.is_lowered && self.is_of_next(line, core, text) => {
                self.keep(place, line, Kept::Waiting);
                ControlFlow::Continue(())
            }
            record => {
                self.cores[core].is_interrupted |= is_exception(record);
                self.other(place, line, core);
                ControlFlow::Continue(())
            }
        }
    }

    /// Is it a remark about the next instruction? A context is remembered: it holds until another comes.
    fn is_of_next(&mut self, line: &Line<'_>, core: usize, comment: &[u8]) -> bool {
        match Annotation::parse(comment) {
            Some(Annotation::Instruction(_)) => true,
            Some(Annotation::Step { event: Event::Context(_), .. }) => {
                self.contexts.resize(self.contexts.len().max(core + 1), Vec::new());
                self.contexts[core] = line.raw.to_vec();
                self.waits_context = true;
                true
            }
            _ => false,
        }
    }

    fn is_of_core(&self, core: usize) -> bool {
        let Some(wanted) = self.options.core else { return true };
        self.machine.cores().get(core).is_some_and(|core| core.name == wanted)
    }

    fn instruction(
        &mut self,
        place: Place,
        line: &Line<'_>,
        core: usize,
        instruction: &Instruction<'_>,
    ) -> ControlFlow<()> {
        let candidate = self.candidate(core, instruction);
        self.sliced.seen += 1;
        let choice = self.select.choose(&candidate);
        let is_taken = choice == Choice::Take;
        self.cores[core] = Core { is_taken, has_begun: true, is_interrupted: false, ..self.cores[core] };
        match choice {
            Choice::Stop => {
                self.is_stopped = true;
                return ControlFlow::Break(());
            }
            Choice::Leave => {
                self.is_apart = true;
                self.cores[core].left += 1;
                self.waiting.clear();
                (self.waits_context, self.timeless, self.waits_line) = (false, None, false);
            }
            Choice::Take => {
                self.join(core, line);
                self.sliced.instructions += 1;
                self.write_waiting();
                self.keep(place, line, Kept::Written);
            }
        }
        self.flow()
    }

    /// Where effects come first, nothing more belongs to the last instruction.
    fn flow(&self) -> ControlFlow<()> {
        let is_over = self.effects == Effects::Before && !self.select.wants_more();
        if is_over || self.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn candidate(&self, core: usize, instruction: &Instruction<'_>) -> Candidate {
        let isa = instruction.set.map(|set| match set {
            InstructionSet::O => Isa::A64,
            InstructionSet::A => Isa::A32,
            InstructionSet::T | InstructionSet::E => Isa::T32,
        });
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

    /// A line that is no instruction.
    fn other(&mut self, place: Place, line: &Line<'_>, core: usize) {
        let Core { is_taken, has_begun, .. } = self.cores[core];
        match self.effects {
            Effects::Before => {
                if self.waiting.len() < MOST_WAITING {
                    self.keep(place, line, Kept::Waiting);
                }
            }
            // A context stands before it.
            Effects::After if !self.waiting.is_empty() => self.keep(place, line, Kept::Waiting),
            Effects::After if is_taken || !has_begun && self.wants_start => {
                self.join(core, line);
                self.keep(place, line, Kept::Written);
            }
            Effects::After => {}
        }
    }

    /// A line of this core is about to be written: does a piece begin with it?
    fn join(&mut self, core: usize, line: &Line<'_>) {
        let is_first = self.sliced.pieces == 0;
        let Core { is_told, left, .. } = self.cores[core];
        let begins = is_first || if self.options.split { self.is_apart } else { is_told && left > 0 };
        if begins {
            self.sliced.pieces += 1;
            self.begin(is_first || self.options.split, core);
            self.say_context(core);
        }
        if begins || left > 0 {
            self.give_time(core, line);
        }
        self.is_apart = false;
        (self.cores[core].is_told, self.cores[core].left) = (true, 0);
    }

    /// A piece of a lowered log begins with the context that holds.
    fn say_context(&mut self, core: usize) {
        let Some(context) = self.contexts.get(core).filter(|context| !self.waits_context && !context.is_empty()) else {
            return;
        };
        let mut said = Vec::new();
        if self.machine.cores().len() > 1 {
            let name = str::from_utf8(&self.machine.cores()[core].name).unwrap_or_default();
            let number = name.strip_prefix("cpu").and_then(|number| number.parse().ok()).unwrap_or(0);
            Annotation::Core(number).write(&mut said);
        }
        said.extend_from_slice(context);
        said.extend_from_slice(self.ending);
        self.put(&said);
    }

    /// Lines before this one are left out: if it has no time, it gets the one that holds.
    fn give_time(&mut self, core: usize, line: &Line<'_>) {
        let is_missing = self.stamp != Stamp::Absent;
        match self.timeless.filter(|_| is_missing) {
            Some((at, names_core)) => {
                let rest = self.waiting.split_off(at);
                let start = self.start(core, names_core);
                self.waiting.extend_from_slice(&start);
                self.waiting.extend_from_slice(rest.trim_ascii_start());
            }
            None if is_missing && !self.waits_line && line.stamp == Stamp::Absent => self.lacks_time = Some(core),
            None => {}
        }
    }

    /// What a line of a core starts with that has no time and perhaps no core of its own.
    fn start(&mut self, core: usize, names_core: bool) -> Vec<u8> {
        self.sliced.has_new_time = true;
        let name = self.machine.cores().get(core).map(|core| core.name.as_slice());
        let name = name.filter(|name| !name.is_empty() && !names_core);
        let mut start = Vec::new();
        push_start(self.style, self.stamp, name, &mut start);
        start
    }

    /// A piece begins, in a log of its own or not.
    fn begin(&mut self, is_log: bool, core: usize) {
        if is_log {
            if self.failed.is_none() {
                self.failed = self.sink.begin().and_then(|()| self.sink.take(&self.heading)).err();
            }
        } else {
            let seam = self.seam(core);
            self.put(&seam);
        }
    }

    /// What stands between two pieces: the remark by which a lowered log tells a gap. Where there are several cores, it says
    /// which one it is about.
    fn seam(&self, core: usize) -> Vec<u8> {
        let mut seam = Vec::new();
        let cores = self.machine.cores();
        let name = cores.get(core).map(|core| core.name.as_slice()).filter(|_| cores.len() > 1);
        write_cut(name, &mut seam);
        seam.extend_from_slice(self.ending);
        seam
    }

    /// The log ends. What stands behind its last instruction stays there.
    fn end(&mut self) {
        let is_wanted = if self.sliced.seen == 0 { self.wants_start } else { !self.is_apart };
        if is_wanted && !self.is_stopped && self.select.wants_more() && !self.waiting.is_empty() {
            if self.sliced.pieces == 0 {
                self.sliced.pieces += 1;
                self.begin(true, self.machine.current());
            }
            self.write_waiting();
        }
    }

    /// Lines that waited belong to the instruction that comes.
    fn write_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.put(&waiting);
        (self.waits_context, self.timeless, self.waits_line) = (false, None, false);
    }

    fn keep(&mut self, place: Place, line: &Line<'_>, kept: Kept) {
        match kept {
            Kept::Heading => self.heading.extend_from_slice(line.raw),
            Kept::Waiting => {
                // What has no time, or cannot be read, stays as it is.
                let has_time = !matches!(line.record, Record::Comment(_) | Record::Unknown(_) | Record::Blank);
                if !self.waits_line && has_time {
                    self.waits_line = true;
                    let here = (self.waiting.len(), line.core.is_some());
                    self.timeless = Some(here).filter(|_| line.stamp == Stamp::Absent);
                }
                self.waiting.extend_from_slice(line.raw);
            }
            Kept::Written => {
                self.sliced.lines += 1;
                match self.lacks_time.take() {
                    None => self.put(line.raw),
                    Some(core) => {
                        let start = self.start(core, line.core.is_some());
                        self.put(&start);
                        self.put(line.raw.trim_ascii_start());
                    }
                }
            }
        }
        self.written = Some((place.offset + line.raw.len() as u64, kept));
    }

    /// The next line starts there, or the log ends.
    fn end_line(&mut self, next: u64) {
        let Some((end, kept)) = self.written.take() else { return };
        let ending: &'static [u8] = match next.saturating_sub(end) {
            0 => b"",
            1 => b"\n",
            _ => b"\r\n",
        };
        self.ending = if ending.is_empty() { self.ending } else { ending };
        match kept {
            Kept::Heading => self.heading.extend_from_slice(ending),
            Kept::Waiting => self.waiting.extend_from_slice(ending),
            Kept::Written => self.put(ending),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.failed.is_none() && !bytes.is_empty() {
            self.failed = self.sink.take(bytes).err();
        }
    }
}

/// Does the comment say what a log covers that was lowered?
fn is_covers(comment: &[u8]) -> bool {
    matches!(Annotation::parse(comment), Some(Annotation::Covers(..)))
}

fn is_exception(record: &Record<'_>) -> bool {
    match record {
        Record::Exception(_) | Record::Asynchronous(_) => true,
        Record::Event(event) => event.is_exception,
        _ => false,
    }
}
