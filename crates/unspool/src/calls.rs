//! Calls of any source, followed by [`analyze::calls`](unspool_analyze::calls).
//!
//! ```text
//! any source ─▶ steps, blocks ─▶ Tracker ───────────────────────────┐
//! Tarmac ─────▶ lines ─▶ stack pointer, link register, instructions ─┴─▶ calls
//! ```
//!
//! A log of a simulator is read line by line: its lines name the stack pointer of each mode, and cores, which steps do not
//! have. A log that was made of another trace has the contexts and exceptions of that
//! trace in its annotations, and goes through steps. Only calls in progress are held in memory. Times of a log are in the unit of
//! its first time.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;

use unspool_analyze::calls::{
    CallPart, CallSink, Executions, Follower, Instruction, Moment, Opcode, Site, Spans, Stack, Tracker, Window,
};
use unspool_analyze::marks::Marks;
use unspool_analyze::pass::{Pass, Seam};
use unspool_analyze::tree::Forest;
use unspool_isa::Isa;
use unspool_model::{BlockSink, BlockTrace, Event, Exception, Gap, SourceError, Step, StepSource};
use unspool_tarmac::dialect::{Dialect, Effects};
use unspool_tarmac::read::Position;
use unspool_tarmac::record::{self, InstructionSet, Line, Record, Stamp};
use unspool_tarmac::registers::Mode;
use unspool_tarmac::state::Registers;

use crate::file::{End, FileError, TarmacFile};
use crate::meter::{Meter, OnProgress};
use crate::{CaptureSteps, Clock, Parts};

/// Maximum number of cores of a log; lines of further ones are skipped.
const MAX_CORES: usize = 256;

/// Steps, or runs of blocks, between two reports of progress.
const STRIDE: u64 = 1 << 14;

/// Bytes of a capture that are reduced at once: some megabytes of memory.
const SHARD: usize = 1 << 18;

/// Call trees that spill to an unnamed temporary file.
pub type CallForest = Forest<Spill>;

/// Call trees without calls.
pub fn call_forest() -> CallForest {
    Forest::new(Spill::default())
}

/// Call trees without calls, for profiles and timelines: [`Forest::of_costs`].
pub fn cost_forest() -> CallForest {
    Forest::of_costs(Spill::default())
}

/// Call trees, with exceptions, gaps and the like, that spill to unnamed temporary files.
pub type CallMarks = Marks<CallForest, Spill>;

/// Call trees without calls, and no marks.
pub fn call_marks() -> CallMarks {
    Marks::new(cost_forest(), Spill::default())
}

/// An unnamed temporary file, which is created when it is first written.
#[derive(Debug, Default)]
pub struct Spill(Option<File>);

impl Spill {
    fn file(&mut self) -> io::Result<&mut File> {
        match &mut self.0 {
            Some(file) => Ok(file),
            empty => Ok(empty.insert(tempfile::tempfile()?)),
        }
    }
}

impl Read for Spill {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file()?.read(buffer)
    }
}

impl Write for Spill {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file()?.flush()
    }
}

impl Seek for Spill {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file()?.seek(to)
    }
}

/// The calls of a source.
#[derive(Debug)]
pub struct FollowedCalls<S> {
    /// The sink, which has received all calls.
    pub sink: S,
    /// The stacks, in order of first appearance.
    pub stacks: Vec<Stack>,
    /// Instructions of threads and cores that were too many to follow.
    pub not_followed: u64,
    /// What the stacks executed in the window.
    pub spans: Spans,
    /// How reading ended.
    pub ended: Result<(), SourceError>,
}

/// Follows the calls of a source, and finds what is in a window.
pub fn follow_calls<S: CallSink>(
    source: &mut dyn StepSource,
    window: &Window,
    meter: &Meter,
    progress: &mut OnProgress<'_>,
    sink: S,
) -> FollowedCalls<S> {
    let tracker = Tracker::new(sink).in_window(window.clone());
    let mut metered = Metered { tracker, meter, left: STRIDE, progress };
    let ended = source.follow(&mut metered);
    metered.finish(ended)
}

impl CaptureSteps {
    /// Follows the calls of the source. Shards are decoded and reduced on several threads; their calls are followed in order.
    pub fn follow_calls<S: CallSink + Send>(
        &mut self,
        threads: usize,
        window: &Window,
        meter: &Meter,
        progress: &mut OnProgress<'_>,
        sink: S,
    ) -> FollowedCalls<S> {
        if !self.can_be_sharded() {
            return follow_calls(self, window, meter, progress, sink);
        }
        let has_notes = sink.wants_notes();
        let part = || CallPart::new(has_notes);
        let tracker = Tracker::new(sink).in_window(window.clone());
        let mut whole = Metered { tracker, meter, left: STRIDE, progress };
        let mut pass = CallPass { part: part(), whole: Some(&mut whole) };
        let parts = Parts::on(threads).of_bytes(SHARD);
        let ended = self.run_pass_into(&mut pass, parts, || CallPass { part: part(), whole: None });
        whole.finish(ended)
    }
}

/// A pass over a shard, which reduces it, or over the whole.
struct CallPass<'w, 'm, 'p, S> {
    part: CallPart,
    whole: Option<&'w mut Metered<'m, 'p, S>>,
}

impl<S: CallSink + Send> BlockSink for CallPass<'_, '_, '_, S> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.part.step(step)
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.part.blocks(trace)
    }
}

impl<S: CallSink + Send> Pass for CallPass<'_, '_, '_, S> {
    /// What a shard repeats of the one before it, a context or a gap, makes no difference to calls.
    fn merge(&mut self, later: Self, _seam: Seam) {
        if let Some(whole) = &mut self.whole {
            whole.tracker.part(&later.part);
            whole.meter.report(whole.progress);
        }
    }
}

/// A tracker that reports progress.
struct Metered<'m, 'p, S> {
    tracker: Tracker<S>,
    meter: &'m Meter,
    left: u64,
    progress: &'m mut OnProgress<'p>,
}

impl<S: CallSink> Metered<'_, '_, S> {
    fn finish(self, ended: Result<(), SourceError>) -> FollowedCalls<S> {
        let tracker = self.tracker;
        let (stacks, not_followed) = (tracker.stacks().copied().collect(), tracker.not_followed());
        let spans = tracker.spans().clone();
        FollowedCalls { sink: tracker.finish(), stacks, not_followed, spans, ended }
    }
}

impl<S: CallSink> BlockSink for Metered<'_, '_, S> {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.meter.tick(&mut self.left, STRIDE, self.progress);
        self.tracker.step(step);
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.meter.tick(&mut self.left, STRIDE, self.progress);
        self.tracker.blocks(trace);
        ControlFlow::Continue(())
    }
}

impl TarmacFile {
    /// Hands the calls of a log to `sink`, each when it ends. The number of a stack is that of its core.
    pub fn calls(
        &mut self,
        progress: &mut OnProgress<'_>,
        sink: &mut impl CallSink,
    ) -> Result<(TarmacCalls, End), FileError> {
        self.calls_in(&Window::default(), progress, sink)
    }

    /// As [`calls`](Self::calls), and finds what is in a window.
    pub fn calls_in(
        &mut self,
        window: &Window,
        progress: &mut OnProgress<'_>,
        sink: &mut impl CallSink,
    ) -> Result<(TarmacCalls, End), FileError> {
        let mut calls = TarmacCalls::new(self.dialect());
        calls.spans = Spans::new(window.clone());
        let end = self.each(progress, |position, line| {
            calls.line(position, line, sink);
            true
        })?;
        calls.finish(sink);
        Ok((calls, end))
    }
}

/// Follower of the calls of all cores of a log.
#[derive(Debug)]
pub struct TarmacCalls {
    effects: Effects,
    cores: Vec<Core>,
    /// Core of the previous line, which lines without a core belong to.
    current: Option<usize>,
    clock: Clock,
    time: u64,
    spans: Spans,
}

impl TarmacCalls {
    /// Starts. The dialect decides whether registers are printed before or after the instruction that writes them.
    pub fn new(dialect: Dialect) -> Self {
        let (effects, clock) = (dialect.effects(), Clock::default());
        Self { effects, cores: Vec::new(), current: None, clock, time: 0, spans: Spans::default() }
    }

    /// What the cores executed in the window.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Names of the cores with instructions or registers. A log without core names has one core with an empty name.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.cores.iter().map(|core| &*core.name)
    }

    /// Whether any core has executed something.
    pub fn has_instructions(&self) -> bool {
        self.cores.iter().any(|core| core.count > 0)
    }

    /// Unit of times.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Reads the next line. Calls that end with it are handed to `sink`; the number of their stack is that of their core.
    #[inline]
    pub fn line(&mut self, position: Position, line: &Line<'_>, sink: &mut impl CallSink) {
        if let Stamp::At(time) = line.stamp {
            self.time = self.clock.count(time);
        }
        match &line.record {
            Record::Instruction(instruction) => {
                let (effects, time) = (self.effects, self.time);
                let Some(core) = self.core(line.core) else { return };
                let first = core.count;
                core.instruction(position.line, time, effects, instruction, sink);
                let (stack, time) = (core.number as usize, core.time);
                self.spans.add(stack, Executions { first, on_core: first, count: 1, time });
            }
            Record::Register(register) if may_be_pointer(register.name) => {
                let Some(core) = self.core(line.core) else { return };
                core.register(register);
            }
            Record::Exception(exception) => {
                self.happened(line.core, &Event::Exception(Exception::default()), exception.name, sink);
                self.interrupt(line.core, exception.is_step.then_some(position.line));
            }
            Record::Asynchronous(_) => self.interrupt(line.core, Some(position.line)),
            Record::Event(event) if event.is_exception => {
                self.happened(line.core, &Event::Exception(Exception::default()), event.name, sink);
                self.interrupt(line.core, None);
            }
            Record::Event(event) => self.happened(line.core, &Event::Note, event.name, sink),
            record if record.is_gap() => self.happened(line.core, &Event::Gap(Gap::Start), b"", sink),
            _ => {}
        }
    }

    /// Passes what happened to the sink.
    fn happened(&self, name: Option<&[u8]>, event: &Event, text: &[u8], sink: &mut impl CallSink) {
        // Cores are those that execute something.
        let of_name = |name: &[u8]| self.cores.iter().position(|core| *core.name == *name);
        let Some(core) = name.map_or(self.current, of_name).and_then(|core| self.cores.get(core)) else { return };
        let at = Moment { core: core.number, time: core.time.max(self.time), number: core.count };
        sink.happened(event, &String::from_utf8_lossy(text), &at);
    }

    /// Ends the log, and with it all calls.
    pub fn finish(&mut self, sink: &mut impl CallSink) {
        self.cores.iter_mut().for_each(|core| core.follower.finish(sink));
    }

    /// Marks an exception; `step`: line at which it starts a step.
    fn interrupt(&mut self, name: Option<&[u8]>, step: Option<u64>) {
        let Some(core) = self.core(name) else { return };
        core.is_interrupted = true;
        core.step = core.step.or(step);
    }

    #[inline]
    fn core(&mut self, name: Option<&[u8]>) -> Option<&mut Core> {
        let index = match (self.current, name) {
            (Some(index), None) => index,
            (Some(index), Some(name)) if *self.cores[index].name == *name => index,
            (_, name) => self.find(name.unwrap_or_default())?,
        };
        self.current = Some(index);
        self.cores.get_mut(index)
    }

    fn find(&mut self, name: &[u8]) -> Option<usize> {
        if let Some(index) = self.cores.iter().position(|core| *core.name == *name) {
            return Some(index);
        }
        if self.cores.len() >= MAX_CORES {
            return None;
        }
        let index = self.cores.len();
        let (number, follower) = (index as u32, Follower::of_stack(index));
        self.cores.push(Core { number, name: name.into(), follower, ..Core::default() });
        Some(index)
    }
}

#[derive(Debug, Default)]
struct Core {
    number: u32,
    name: Box<[u8]>,
    registers: Registers,
    follower: Follower,
    /// Number of instructions so far.
    count: u64,
    /// Time of the last instruction.
    time: u64,
    mode: Mode,
    /// Modes so far: each has a stack pointer of its own.
    modes: Vec<Mode>,
    stack: u32,
    pointers: Pointers,
    /// Pointers before the current instruction, where registers are printed before it.
    earlier: Pointers,
    is_interrupted: bool,
    /// First line of the current step, if it is not that of the instruction.
    step: Option<u64>,
}

/// The stack pointer and the link register.
#[derive(Debug, Clone, Copy, Default)]
struct Pointers {
    sp: Option<u64>,
    lr: Option<u64>,
    is_lr_written: bool,
}

impl Core {
    #[inline]
    fn instruction(
        &mut self,
        line: u64,
        time: u64,
        effects: Effects,
        instruction: &record::Instruction<'_>,
        sink: &mut impl CallSink,
    ) {
        self.count += 1;
        // A time that goes back takes none: otherwise a part could take longer than the whole.
        self.time = self.time.max(time);
        // In debug state, instructions are read from a register, and there are no calls.
        let Some(pc) = instruction.address else { return };
        self.registers.instruction(instruction);
        if self.registers.mode() != self.mode || self.modes.is_empty() {
            self.enter_mode();
        }
        let pointers = self.pointers_before(effects);
        let site = Site { position: self.step.take().unwrap_or(line), time: self.time, number: self.count, pc };
        let step = Instruction {
            is_executed: instruction.is_executed,
            sp: pointers.sp,
            stack: self.stack,
            lr: pointers.lr,
            is_lr_written: pointers.is_lr_written,
            is_interrupted: std::mem::take(&mut self.is_interrupted),
            ..Instruction::new(site, instruction.length, code(instruction))
        };
        self.follower.step(&step, sink);
    }

    /// Pointers as they were before the current instruction.
    #[inline]
    fn pointers_before(&mut self, effects: Effects) -> Pointers {
        let current = self.pointers;
        self.pointers.is_lr_written = false;
        match effects {
            Effects::After => current,
            Effects::Before => std::mem::replace(&mut self.earlier, current),
        }
    }

    fn enter_mode(&mut self) {
        self.mode = self.registers.mode();
        let known = self.modes.iter().position(|mode| *mode == self.mode);
        let index = known.unwrap_or(self.modes.len());
        if known.is_none() {
            self.modes.push(self.mode);
        }
        self.stack = index as u32;
        (self.pointers.sp, self.pointers.lr) = (self.registers.sp(), self.registers.lr());
    }

    fn register(&mut self, register: &record::Register<'_>) {
        let touched = self.registers.update(register);
        if touched.sp {
            self.pointers.sp = self.registers.sp();
        }
        if touched.lr {
            self.pointers.lr = self.registers.lr();
            self.pointers.is_lr_written = true;
        }
    }
}

/// Whether a register can be a stack pointer, a link register, or one that selects them. Most are not.
#[inline]
fn may_be_pointer(name: &[u8]) -> bool {
    match name {
        [b'x' | b'X' | b'e' | b'E', rest @ ..] => rest == b"30" || !rest.iter().all(u8::is_ascii_digit),
        [b'r' | b'R', rest @ ..] => !matches!(rest, [b'0'..=b'9'] | [b'1', b'0'..=b'2']),
        [b'c', b'p', b's', b'r'] => false,
        [letter, b'0'..=b'9', ..] => !letter.is_ascii_alphabetic(),
        _ => true,
    }
}

fn code(instruction: &record::Instruction<'_>) -> Option<Opcode> {
    let isa = match instruction.set? {
        InstructionSet::A => Isa::A32,
        InstructionSet::T | InstructionSet::E => Isa::T32,
        InstructionSet::O => Isa::A64,
    };
    Some(Opcode { isa, opcode: instruction.opcode? })
}
