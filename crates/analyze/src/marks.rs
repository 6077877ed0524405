//! Events of cores beside their calls: exceptions, gaps, changes of the stack, notes.
//!
//! what a tracker reports ─▶ **marks**, spilled ─▶ marks in the order of the trace
//!
//! As [`calls`](crate::calls) are known when they end, marks wait for the end of the trace too: in a [`Read`] + [`Write`] +
//! [`Seek`], usually a temporary file. Which instruction of its core an instruction of a stack is, is kept in memory, for as
//! many changes of the stack as there is room for.

use std::io::{self, Read, Seek, SeekFrom, Write};

use unspool_model::{Event, ExceptionKind, Gap};

use crate::calls::{Began, Call, CallSink, Moment, Stack};

/// Maximum number of changes of stacks whose numbers of instructions are known.
const LIMIT: usize = 1 << 20;

/// Maximum length of a text; longer ones are truncated.
const MAX_TEXT: usize = 1 << 10;

/// Size of the buffer before the spill.
const BUFFER: usize = 1 << 16;

/// Kinds of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkKind {
    /// An exception.
    Exception,
    /// A return from an exception.
    ExceptionReturn,
    /// Part of the execution is missing.
    Gap,
    /// The core executes another stack.
    Switch,
    /// Anything else: events, markers, software trace.
    Note,
}

impl MarkKind {
    const ALL: [Self; 5] = [Self::Exception, Self::ExceptionReturn, Self::Gap, Self::Switch, Self::Note];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exception => "exception",
            Self::ExceptionReturn => "exception return",
            Self::Gap => "gap",
            Self::Switch => "switch",
            Self::Note => "note",
        }
    }
}

/// Something that happened on a core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What it is.
    pub kind: MarkKind,
    /// Where and when.
    pub at: Moment,
    /// The stack that the core executes, if it executes one.
    pub stack: Option<usize>,
    /// Further words.
    pub text: String,
}

/// Calls go to another sink; marks are spilled.
#[derive(Debug)]
pub struct Marks<C, S> {
    /// The sink of the calls.
    pub calls: C,
    spill: S,
    buffer: Vec<u8>,
    count: u64,
    failed: Option<io::Error>,
    /// Numbers of instructions.
    pub numbers: CoreNumbers,
}

/// Numbers of the instructions of stacks among those of their cores.
#[derive(Debug, Clone, Default)]
pub struct CoreNumbers {
    /// Of each stack: its number of instructions when a core began to execute it, and the number of those of the core.
    changes: Vec<Vec<(u64, u64)>>,
    count: usize,
}

impl CoreNumbers {
    /// Number among the instructions of a core of an instruction of a stack, both counted from 1.
    pub fn of(&self, stack: usize, number: u64) -> u64 {
        let Some(changes) = self.changes.get(stack) else { return number };
        let later = changes.partition_point(|(first, _)| *first < number);
        let (first, on_core) = later.checked_sub(1).and_then(|last| changes.get(last)).copied().unwrap_or_default();
        number.wrapping_sub(first).wrapping_add(on_core)
    }

    fn add(&mut self, stack: usize, count: u64, on_core: u64) {
        if self.changes.len() <= stack {
            self.changes.resize_with(stack + 1, Vec::new);
        }
        if let Some(changes) = self.changes.get_mut(stack).filter(|_| self.count < LIMIT) {
            changes.push((count, on_core));
            self.count += 1;
        }
    }
}

impl<C: CallSink, S: Read + Write + Seek> Marks<C, S> {
    /// No marks. `spill` must be empty.
    pub fn new(calls: C, spill: S) -> Self {
        Self { calls, spill, buffer: Vec::new(), count: 0, failed: None, numbers: CoreNumbers::default() }
    }

    /// Number of marks.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Passes all marks to `take`, in the order of the trace.
    pub fn each(&mut self, mut take: impl FnMut(&Mark) -> io::Result<()>) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.flush()?;
        self.spill.seek(SeekFrom::Start(0))?;
        let mut input = io::BufReader::with_capacity(BUFFER, &mut self.spill);
        for _ in 0..self.count {
            take(&read(&mut input)?)?;
        }
        Ok(())
    }

    fn add(&mut self, kind: MarkKind, at: &Moment, stack: Option<usize>, text: &str) {
        if self.failed.is_some() {
            return;
        }
        // A character that is cut is replaced when the mark is read.
        let text = text.as_bytes();
        let text = text.get(..MAX_TEXT).unwrap_or(text);
        let stack = stack.map_or(0, |stack| stack as u64 + 1);
        let words = [u64::from(at.core), at.time, at.number, stack, (kind as u64) << 32 | text.len() as u64];
        words.iter().for_each(|word| self.buffer.extend(word.to_le_bytes()));
        self.buffer.extend_from_slice(text);
        self.count += 1;
        if self.buffer.len() >= BUFFER {
            self.failed = self.flush().err();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.spill.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

fn read(input: &mut impl Read) -> io::Result<Mark> {
    let mut words = [0; 5];
    for word in &mut words {
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    let [core, time, number, stack, kind] = words;
    let mut text = vec![0; (kind & 0xffff_ffff) as usize];
    input.read_exact(&mut text)?;
    Ok(Mark {
        kind: MarkKind::ALL.get((kind >> 32) as usize).copied().unwrap_or(MarkKind::Note),
        at: Moment { core: core as u32, time, number },
        stack: stack.checked_sub(1).map(|stack| stack as usize),
        text: String::from_utf8_lossy(&text).into_owned(),
    })
}

impl<C: CallSink, S: Read + Write + Seek> CallSink for Marks<C, S> {
    fn wants_notes(&self) -> bool {
        true
    }

    fn switched(&mut self, stack: usize, count: u64, at: &Moment) {
        self.numbers.add(stack, count, at.number);
        self.add(MarkKind::Switch, at, Some(stack), "");
        self.calls.switched(stack, count, at);
    }

    fn happened(&mut self, event: &Event, text: &str, at: &Moment) {
        let (kind, words) = match event {
            Event::Exception(exception) => (MarkKind::Exception, exception_name(exception.kind)),
            Event::ExceptionReturn { .. } => (MarkKind::ExceptionReturn, ""),
            Event::Gap(gap) => (MarkKind::Gap, gap_name(gap)),
            Event::Note => (MarkKind::Note, ""),
            Event::State | Event::Instruction(_) | Event::Context(_) => return,
        };
        self.add(kind, at, None, if text.is_empty() { words } else { text });
        self.calls.happened(event, text, at);
    }

    fn opened(&mut self, stack: usize, of: &Stack) {
        self.calls.opened(stack, of);
    }

    fn began(&mut self, stack: usize, function: u64, began: Began) {
        self.calls.began(stack, function, began);
    }

    fn absorbed(&mut self, stack: usize) {
        self.calls.absorbed(stack);
    }

    fn resolved(&mut self, stack: usize) {
        self.calls.resolved(stack);
    }

    fn dropped(&mut self, stack: usize, calls: std::ops::Range<usize>) {
        self.calls.dropped(stack, calls);
    }

    fn ended(&mut self, stack: usize, call: &Call) {
        self.calls.ended(stack, call);
    }
}

fn exception_name(kind: ExceptionKind) -> &'static str {
    match kind {
        ExceptionKind::Unknown => "",
        ExceptionKind::Reset => "reset",
        ExceptionKind::Synchronous => "synchronous",
        ExceptionKind::Irq => "IRQ",
        ExceptionKind::Fiq => "FIQ",
        ExceptionKind::SError => "SError",
        ExceptionKind::Debug => "debug",
    }
}

fn gap_name(gap: &Gap) -> &'static str {
    match gap {
        Gap::Start => "tracing starts",
        Gap::Overflow => "overflow",
        Gap::Discard => "discarded",
        Gap::NoCode(_) => "no code",
        Gap::Damaged => "damaged",
        Gap::Contradiction => "trace and code contradict each other",
        Gap::TransactionFailed => "transaction failed",
    }
}
