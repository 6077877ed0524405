//! A cut: some instructions of a trace, as a trace of their own.
//!
//! records, selection ─▶ **slice** ─▶ records
//!
//! A piece starts with the time and the Context that hold at its first instruction, and everything between two
//! instructions of it stays as it is, byte for byte. What belongs to an instruction (Extra EAs, its Trap) stays with it;
//! what happened between the last instruction of a piece and the next one is left out. Strings before the first
//! instruction of the trace stand in front of every cut. A Basic trace has room for what was not traced, so that several
//! pieces can follow one another; a BasicPlus trace has none, and so each piece is a trace of its own.

use std::io::{self, Read};

use unspool_isa::{ControlFlow, Isa, decode};

use super::layout::Bytes;
use super::read::{ReadError, Reader};
use super::record::{InstructionView, Level, View, trap_type};
use unspool_model::selection::{Candidate, Choice, Select, SliceSink};

/// Records of strings before the first instruction that are kept.
const MOST_STRINGS: usize = 1 << 16;

/// Timestamps that may stand between an instruction and its Trap; see [`lift`](super::lift).
const MOST_BEHIND: usize = 16;

/// Records between two instructions that are kept; more are no interlude but another story.
const MOST_BETWEEN: usize = 1 << 20;

/// How to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SliceOptions {
    /// Every piece is a trace of its own.
    pub split: bool,
}

/// What was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sliced {
    /// How many instructions the cut has.
    pub instructions: u64,
    /// In how many pieces.
    pub pieces: u64,
}

/// Why nothing, or not everything, was cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// Writing failed.
    #[error("the cut could not be written: {0}")]
    Write(#[source] io::Error),
    /// The trace cannot be read to the end of the cut. What came before was cut.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No instruction is wanted.
    #[error("there is no such instruction among {0}")]
    Empty(u64),
    /// A BasicPlus trace has no gaps.
    #[error(
        "record {record}: the cut has several pieces, and a BasicPlus trace cannot have gaps; write each piece to a file \
         of its own"
    )]
    Pieces {
        /// The first record of the second piece.
        record: u64,
    },
}

/// Cuts instructions out of a trace of which nothing but the header was read. The header is not handed out: that of the
/// trace is right for every piece.
pub fn slice<R: Read>(
    reader: &mut Reader<R>,
    select: &mut impl Select,
    options: SliceOptions,
    sink: &mut impl SliceSink<Bytes>,
) -> Result<Sliced, SliceError> {
    let header = *reader.header();
    let mut cut = Cut {
        is_continuous: header.level() == Level::BasicPlus && !options.split,
        has_times: header.timestamps,
        select,
        sink,
        options,
        // The header is the first.
        record: 1,
        index: 0,
        start: Vec::new(),
        strings: Vec::new(),
        context: None,
        timestamp: None,
        time: None,
        is_interrupted: false,
        open: None,
        is_within: false,
        between: Vec::new(),
        written_time: None,
        sliced: Sliced::default(),
    };
    cut.run(reader)?;
    if cut.sliced.instructions == 0 { Err(SliceError::Empty(cut.index)) } else { Ok(cut.sliced) }
}

/// A cut in the making.
struct Cut<'c, C, S> {
    select: &'c mut C,
    sink: &'c mut S,
    options: SliceOptions,
    is_continuous: bool,
    has_times: bool,
    /// The number of the record at hand, and how many instructions came before it.
    record: u64,
    index: u64,
    /// Everything before the first instruction, and the strings of it.
    start: Vec<Bytes>,
    strings: Vec<Bytes>,
    /// What holds here.
    context: Option<Bytes>,
    timestamp: Option<Bytes>,
    time: Option<u64>,
    /// An exception was taken behind the last instruction.
    is_interrupted: bool,
    /// More may belong to the last instruction.
    open: Option<Open>,
    /// The last instruction was taken.
    is_within: bool,
    /// What came behind it and does not belong to it.
    between: Vec<Bytes>,
    /// The last time that the cut tells.
    written_time: Option<u64>,
    sliced: Sliced,
}

/// An instruction to which more may belong.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// An Extra EA follows.
    wants_accesses: bool,
    /// Its Trap may follow: of an exception, or of the return from one.
    traps: bool,
    returns: bool,
    /// Timestamps behind it.
    timestamps: usize,
}

impl<C: Select, S: SliceSink<Bytes>> Cut<'_, C, S> {
    fn run<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<(), SliceError> {
        while self.wants_records() {
            let records = reader.next_records()?;
            if records.is_empty() {
                return self.end().map_err(SliceError::Write);
            }
            for bytes in records {
                self.record += 1;
                if !self.record(bytes)? || !self.wants_records() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Behind the last instruction and what belongs to it nothing is read, so that a damaged end does no harm.
    fn wants_records(&self) -> bool {
        self.select.wants_more() || self.open.is_some()
    }

    /// What stands behind the last instruction of the trace.
    fn end(&mut self) -> io::Result<()> {
        if self.is_within { self.sink.write_part(&self.between) } else { Ok(()) }
    }

    /// Takes a record. False: no more are wanted.
    fn record(&mut self, bytes: &Bytes) -> Result<bool, SliceError> {
        let view = View::new(bytes);
        if let View::Instruction(view) = view {
            return self.instruction(view, bytes);
        }
        let belongs = self.belongs(view);
        match view {
            View::Context(_) => self.context = Some(*bytes),
            View::Timestamp(timestamp) => {
                (self.timestamp, self.time) = (Some(*bytes), Some(timestamp.value()));
            }
            View::Trap(trap) => self.is_interrupted |= trap.trap_type() != trap_type::EXCEPTION_RETURN,
            View::StringStart(_) | View::StringContinuation(_) if self.keeps_strings() => self.strings.push(*bytes),
            _ => {}
        }
        if self.index == 0 {
            if self.start.len() < MOST_BETWEEN {
                self.start.push(*bytes);
            }
            return Ok(true);
        }
        self.behind(bytes, belongs).map_err(SliceError::Write)?;
        Ok(true)
    }

    /// Strings before the first instruction stand in front of every cut.
    fn keeps_strings(&self) -> bool {
        self.index == 0 && self.strings.len() < MOST_STRINGS
    }

    /// Does it belong to the last instruction?
    fn belongs(&mut self, view: View<'_>) -> bool {
        let Some(open) = &mut self.open else { return false };
        match view {
            View::ExtraEa(extra) if open.wants_accesses => {
                open.wants_accesses = extra.extra_eas();
                if !(open.wants_accesses || open.traps || open.returns) {
                    self.open = None;
                }
                true
            }
            View::Trap(trap) => {
                let (kind, Open { traps, returns, .. }) = (trap.trap_type(), *open);
                self.open = None;
                kind == trap_type::SYNCHRONOUS && traps || kind == trap_type::EXCEPTION_RETURN && returns
            }
            View::Timestamp(_) if open.timestamps < MOST_BEHIND => {
                // Only if a Trap follows.
                open.timestamps += 1;
                false
            }
            _ => {
                self.open = None;
                false
            }
        }
    }

    /// A record behind an instruction.
    fn behind(&mut self, bytes: &Bytes, belongs: bool) -> io::Result<()> {
        if !self.is_within {
            return Ok(());
        }
        self.between.push(*bytes);
        if belongs || self.between.len() >= MOST_BETWEEN {
            self.write_between()?;
        }
        Ok(())
    }

    /// What stands behind the last instruction belongs to the cut.
    fn write_between(&mut self) -> io::Result<()> {
        self.sink.write_part(&self.between)?;
        self.between.clear();
        self.written_time = self.time;
        Ok(())
    }

    fn instruction(&mut self, view: InstructionView<'_>, bytes: &Bytes) -> Result<bool, SliceError> {
        let candidate = Candidate {
            core: 0,
            index: self.index,
            pc: Some(view.pc()),
            time: self.time,
            code: Some((Isa::A64, view.iword())),
            length: 4,
            is_executed: true,
            is_interrupted: std::mem::replace(&mut self.is_interrupted, view.trap()),
        };
        let choice = self.select.choose(&candidate);
        let is_first = self.index == 0;
        self.index += 1;
        self.open = None;
        match choice {
            Choice::Stop => return Ok(false),
            Choice::Leave => self.is_within = false,
            Choice::Take => {
                if self.is_within {
                    self.write_between().map_err(SliceError::Write)?;
                } else {
                    self.begin(is_first)?;
                }
                self.sink.write_part(std::slice::from_ref(bytes)).map_err(SliceError::Write)?;
                (self.is_within, self.open) = (true, Open::of(view));
                self.sliced.instructions += 1;
            }
        }
        self.between.clear();
        Ok(true)
    }

    /// A piece begins.
    fn begin(&mut self, is_first: bool) -> Result<(), SliceError> {
        self.sliced.pieces += 1;
        if self.sliced.pieces > 1 && self.is_continuous {
            return Err(SliceError::Pieces { record: self.record });
        }
        let is_trace = self.options.split || self.sliced.pieces == 1;
        let is_whole = is_first && self.start.len() < MOST_BETWEEN;
        let told = match is_trace {
            true if is_whole => self.sink.begin().and_then(|()| self.sink.write_part(&self.start)),
            true => {
                self.written_time = None;
                self.sink.begin().and_then(|()| self.sink.write_part(&self.strings)).and_then(|()| self.seam())
            }
            false => self.seam(),
        };
        self.start = Vec::new();
        self.written_time = self.time;
        told.map_err(SliceError::Write)
    }

    /// Tells what holds at the first instruction of a piece.
    fn seam(&mut self) -> io::Result<()> {
        let is_later = self.time.is_some() && self.time > self.written_time;
        let timestamp = self.timestamp.filter(|_| self.has_times && is_later);
        let told: Vec<Bytes> = timestamp.into_iter().chain(self.context).collect();
        self.sink.write_part(&told)
    }
}

impl Open {
    /// `None`: nothing can belong to it.
    fn of(view: InstructionView<'_>) -> Option<Self> {
        let (wants_accesses, traps) = (view.extra_eas(), view.trap());
        let returns = decode(Isa::A64, view.pc(), view.iword()).flow == ControlFlow::ExceptionReturn;
        (wants_accesses || traps || returns).then_some(Self { wants_accesses, traps, returns, timestamps: 0 })
    }
}
