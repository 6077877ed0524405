//! Slices: some instructions of a trace, as a trace of their own.
//!
//! records, selection ─▶ **slice** ─▶ records
//!
//! A piece starts with the time and the Context that are valid at its first instruction. Everything between two of its
//! instructions is kept byte for byte. What belongs to an instruction (Extra EAs, its Trap) stays with it; what
//! happened between the last instruction of a piece and the next one is left out. Strings before the first instruction
//! of the trace start every slice. A Basic trace allows for untraced execution, so several pieces can follow one
//! another; a BasicPlus trace does not, so each piece is a trace of its own.

use std::io::{self, Read};

use unspool_isa::{ControlFlow, Isa, decode};

use super::layout::Bytes;
use super::read::{ReadError, Reader};
use super::record::{InstructionView, Level, View, trap_type};
use unspool_model::selection::{Candidate, Choice, Select, SliceSink};

/// Maximum string records before the first instruction that are kept.
const MAX_STRINGS: usize = 1 << 16;

/// Maximum timestamps between an instruction and its Trap; see [`lift`](super::lift).
const MAX_TIMESTAMPS: usize = 16;

/// Maximum records between two instructions that are kept.
const MAX_BETWEEN: usize = 1 << 20;

/// Options of [`slice()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SliceOptions {
    /// Every piece is a trace of its own.
    pub split: bool,
}

/// Size of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sliced {
    /// Number of instructions.
    pub instructions: u64,
    /// Number of pieces.
    pub pieces: u64,
}

/// Reason why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// Writing failed.
    #[error("the slice could not be written: {0}")]
    Write(#[source] io::Error),
    /// The trace cannot be read to the end of the slice. What came before was written.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No instruction is selected.
    #[error("none of the {0} instructions is selected")]
    Empty(u64),
    /// A BasicPlus trace has no gaps.
    #[error(
        "record {record}: the slice has several pieces, but a BasicPlus trace cannot have gaps; \
         write each piece to a file of its own"
    )]
    Pieces {
        /// First record of the second piece.
        record: u64,
    },
}

/// Writes the selected instructions of a trace of which only the header was read. The header is not written: that of
/// the trace fits every piece.
pub fn slice<R: Read>(
    reader: &mut Reader<R>,
    select: &mut impl Select,
    options: SliceOptions,
    sink: &mut impl SliceSink<Bytes>,
) -> Result<Sliced, SliceError> {
    let header = *reader.header();
    let mut slicer = Slicer {
        is_continuous: header.level() == Level::BasicPlus && !options.split,
        has_times: header.timestamps,
        select,
        sink,
        options,
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
    slicer.run(reader)?;
    if slicer.sliced.instructions == 0 { Err(SliceError::Empty(slicer.index)) } else { Ok(slicer.sliced) }
}

/// A slice in the making.
struct Slicer<'c, C, S> {
    select: &'c mut C,
    sink: &'c mut S,
    options: SliceOptions,
    is_continuous: bool,
    has_times: bool,
    /// Number of the current record; the header is the first. Number of instructions before it.
    record: u64,
    index: u64,
    /// Everything before the first instruction, and the strings of it.
    start: Vec<Bytes>,
    strings: Vec<Bytes>,
    /// State that is valid here.
    context: Option<Bytes>,
    timestamp: Option<Bytes>,
    time: Option<u64>,
    /// An exception was taken after the last instruction.
    is_interrupted: bool,
    /// More may belong to the last instruction.
    open: Option<Open>,
    /// The last instruction was selected.
    is_within: bool,
    /// Records after it that do not belong to it.
    between: Vec<Bytes>,
    /// The last time that the slice has.
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
    /// Timestamps after it.
    timestamps: usize,
}

impl<C: Select, S: SliceSink<Bytes>> Slicer<'_, C, S> {
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

    /// Nothing is read after the last instruction and what belongs to it, so that a damaged end does no harm.
    fn wants_records(&self) -> bool {
        self.select.wants_more() || self.open.is_some()
    }

    /// Writes what follows the last instruction of the trace.
    fn end(&mut self) -> io::Result<()> {
        if self.is_within { self.sink.write_part(&self.between) } else { Ok(()) }
    }

    /// Adds a record. False: no more are wanted.
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
            if self.start.len() < MAX_BETWEEN {
                self.start.push(*bytes);
            }
            return Ok(true);
        }
        self.after_instruction(bytes, belongs).map_err(SliceError::Write)?;
        Ok(true)
    }

    /// Strings before the first instruction start every slice.
    fn keeps_strings(&self) -> bool {
        self.index == 0 && self.strings.len() < MAX_STRINGS
    }

    /// Whether it belongs to the last instruction.
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
            View::Timestamp(_) if open.timestamps < MAX_TIMESTAMPS => {
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

    /// Adds a record after an instruction.
    fn after_instruction(&mut self, bytes: &Bytes, belongs: bool) -> io::Result<()> {
        if !self.is_within {
            return Ok(());
        }
        self.between.push(*bytes);
        if belongs || self.between.len() >= MAX_BETWEEN {
            self.write_between()?;
        }
        Ok(())
    }

    /// Writes the records after the last instruction.
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

    /// Begins a piece.
    fn begin(&mut self, is_first: bool) -> Result<(), SliceError> {
        self.sliced.pieces += 1;
        if self.sliced.pieces > 1 && self.is_continuous {
            return Err(SliceError::Pieces { record: self.record });
        }
        let is_trace = self.options.split || self.sliced.pieces == 1;
        let is_whole = is_first && self.start.len() < MAX_BETWEEN;
        let written = match is_trace {
            true if is_whole => self.sink.begin().and_then(|()| self.sink.write_part(&self.start)),
            true => {
                self.written_time = None;
                self.sink.begin().and_then(|()| self.sink.write_part(&self.strings)).and_then(|()| self.seam())
            }
            false => self.seam(),
        };
        self.start = Vec::new();
        self.written_time = self.time;
        written.map_err(SliceError::Write)
    }

    /// Writes what is valid at the first instruction of a piece.
    fn seam(&mut self) -> io::Result<()> {
        let is_later = self.time.is_some() && self.time > self.written_time;
        let timestamp = self.timestamp.filter(|_| self.has_times && is_later);
        let state: Vec<Bytes> = timestamp.into_iter().chain(self.context).collect();
        self.sink.write_part(&state)
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
