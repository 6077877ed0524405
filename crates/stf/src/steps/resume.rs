//! Reading steps from the middle of a file.
//!
//! steps ─▶ **points** to continue from; point, file ─▶ steps
//!
//! Files without compression are read from an offset, and .zstf files from the chunk of an instruction. Other storage has no
//! points. A point has what the emitter knows from earlier groups, so that the steps are those of the whole file.

use std::cell::RefCell;
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;

use unspool_model::{Isa, SourceError, Step};

use super::{ReadError, ReadErrorKind, Reader, StepEmitter, Steps, source_error};
use crate::header::{Header, HeaderError};
use crate::lift::{Follower, Instruction};
use crate::read::{Position, Storage};

/// A point at which the steps of a file can be read from: before the group of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePoint {
    /// Position of the group in the uncompressed trace.
    pub position: Position,
    /// State of execution before it.
    pub follower: Follower,
    /// State of the emitter of steps before it.
    pub state: EmitterState,
}

/// What an emitter of steps knows from earlier groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmitterState {
    /// The mode that was emitted last.
    pub mode: Option<u64>,
    /// Next address according to the records.
    pub next: Option<u64>,
    /// An instruction was not A64; one had two bytes; an access had a size in bits.
    pub seen: [bool; 3],
    /// Time and instruction set of annotations.
    pub time: Option<u64>,
    /// The instruction set of annotations.
    pub isa: Isa,
}

/// A group, before it is emitted.
pub(super) struct BeforeGroup<'g, 'b> {
    pub(super) group: &'g Instruction<'b>,
    pub(super) state: &'g dyn Fn() -> EmitterState,
}

/// A step, or the point to read the following ones from.
#[derive(Debug)]
pub enum StepOrPoint<'s> {
    /// A step.
    Step(&'s Step),
    /// The next steps are those of the group at this point.
    Point(&'s ResumePoint),
}

impl<R: Read> Steps<R> {
    /// Passes on all steps, and before some of the groups the point to read them from: every `distance` instructions, if the
    /// storage has such points. Damage is the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is damaged.
    pub fn each_with_points(
        &mut self,
        distance: u64,
        take: &mut dyn FnMut(StepOrPoint<'_>) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let has_points = matches!(self.reader.storage(), Storage::PLAIN | Storage::Zstf);
        let isa = self.reader.isa().unwrap_or(0);
        let (take, mut next) = (RefCell::new(take), 0);
        let mut sink = |step: &Step| (*take.borrow_mut())(StepOrPoint::Step(step));
        if self.header_notes(&mut sink).is_break() {
            return Ok(());
        }
        let mut before = |BeforeGroup { group, state }: BeforeGroup<'_, '_>| {
            if !has_points || group.number <= next {
                return ControlFlow::Continue(());
            }
            next = group.number - 1 + distance;
            let follower =
                Follower { next_pc: group.pc, mode: group.mode, iem: group.iem, isa, instructions: group.number - 1 };
            let point = ResumePoint { position: group.position, follower, state: state() };
            (*take.borrow_mut())(StepOrPoint::Point(&point))
        };
        match self.part(&mut Follower::default(), &mut sink, &mut before) {
            Ok(_) => Ok(()),
            Err(error) => Err(source_error(&error)),
        }
    }
}

impl Steps<Box<dyn Read + Send>> {
    /// Continues at a point of the same file, of which nothing was read yet.
    ///
    /// # Errors
    ///
    /// If the file cannot be read there.
    pub fn resume_at(
        mut self,
        point: &ResumePoint,
        mut file: impl Read + Seek + Send + 'static,
    ) -> Result<Self, ReadError> {
        let mut point = *point;
        match self.reader.storage() {
            Storage::Zstf => {
                let mut follower = Follower::default();
                if !self.reader.seek_instruction(point.follower.instructions, &mut follower)? {
                    return Err(self.no_such_point());
                }
                self.reader.count_from(point.position.record);
                // The mode may have been recorded in an earlier chunk.
                point.follower = Follower { mode: follower.mode.or(point.follower.mode), ..follower };
            }
            _ => {
                Header::read(&mut self.reader).map_err(|error| match error {
                    HeaderError::Read(error) => error,
                    _ => self.no_such_point(),
                })?;
                let io = |error: std::io::Error| ReadError { kind: ReadErrorKind::Io(error), ..self.no_such_point() };
                file.seek(SeekFrom::Start(point.position.offset)).map_err(io)?;
                self.reader = Reader::resumed(&self.reader, Box::new(file), point.position);
            }
        }
        self.point = Some(point);
        Ok(self)
    }

    fn no_such_point(&self) -> ReadError {
        let Position { record, offset } = self.reader.position();
        let missing = std::io::Error::new(std::io::ErrorKind::InvalidData, "the file has no such point");
        ReadError { offset, record, kind: ReadErrorKind::Io(missing) }
    }
}

impl StepEmitter<'_> {
    pub(super) fn state(&self) -> EmitterState {
        let seen = [self.is_aarch32, self.has_halfwords, self.counts_bits];
        EmitterState { mode: self.mode, next: self.next, seen, ..EmitterState::default() }
    }

    pub(super) fn restore(&mut self, state: &EmitterState) {
        (self.mode, self.next) = (state.mode, state.next);
        [self.is_aarch32, self.has_halfwords, self.counts_bits] = state.seen;
    }
}
