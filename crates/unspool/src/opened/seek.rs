//! Steps of one source of anything, from any instruction on: by its index if it has one, or from the beginning.
//!
//! number of an instruction ─▶ segment of the index ─▶ **steps from there**

use std::ops::{ControlFlow, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;

use unspool_capture::Code;
use unspool_model::{Coverage, SourceError, Step, TimeUnit};
use unspool_tarmac::index::{Position, State};

use super::{Opened, Part};
use crate::indexed_log::{LogError, index_path};
use crate::indexed_steps::{
    IndexedSteps, StepPoints, capture_index_path, find_capture_points, find_step_points, fingerprint_of,
    make_capture_index, make_step_index, open_capture_index, open_step_index, with_capture_index,
};
use crate::meter::OnProgress;
use crate::place::{Place, PlaceFinder};
use crate::state::replay;
use crate::steps::CaptureSteps;
use crate::{Error, FileKind, OpenedSteps, Program, SpaceOptions};

/// Steps of a source, which can be read from any instruction.
pub struct SeekableSteps {
    /// Name of the source of a capture, or path of the file.
    pub name: String,
    /// The code that it executed.
    pub program: Arc<Program>,
    /// What its steps have.
    pub coverage: Coverage,
    /// The unit of its times.
    pub time_unit: TimeUnit,
    part: Part,
    codes: Vec<Code>,
    index: Option<IndexedSteps>,
    /// Where reading can start, while there is no index.
    points: Option<StepPoints>,
}

impl Opened {
    /// The steps of each source of a capture, or of a trace file, to be read from any instruction. Selections do not apply.
    ///
    /// # Errors
    ///
    /// If one of them cannot be opened.
    pub fn seekable_steps(&self) -> Result<Vec<SeekableSteps>, Error> {
        self.parts()?.into_iter().map(|part| SeekableSteps::new(part, &self.codes)).collect()
    }
}

impl SeekableSteps {
    fn new(part: Part, codes: &[Code]) -> Result<Self, Error> {
        let opened = part.clone().open_with(|| Arc::new(Program::new(codes.to_vec())))?;
        let (coverage, time_unit) = (opened.steps.coverage(), opened.steps.time_unit());
        let (name, program, codes) = (opened.name, opened.program, codes.to_vec());
        Ok(Self { name, program, coverage, time_unit, part, codes, index: None, points: None })
    }

    /// Its steps, from the beginning.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn open(&self) -> Result<OpenedSteps, Error> {
        self.part.clone().open()
    }

    /// The source of a capture, for analyses that decode its shards on several threads. `None`: it is a file.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn capture_steps(&self) -> Result<Option<CaptureSteps>, Error> {
        match &self.part {
            Part::File { .. } => Ok(None),
            Part::Source { capture, source, .. } => {
                CaptureSteps::new(capture.as_ref().clone(), Some(source), &self.codes).map(Some)
            }
        }
    }

    /// Format.
    pub fn kind(&self) -> FileKind {
        match &self.part {
            Part::File { kind, .. } => *kind,
            Part::Source { .. } => FileKind::Capture,
        }
    }

    /// Path of the file, or of the capture.
    pub fn path(&self) -> PathBuf {
        match &self.part {
            Part::File { path, .. } => path.clone(),
            Part::Source { capture, .. } => capture.path.clone(),
        }
    }

    /// Bytes of the file, or of the trace of the source.
    pub fn size(&self) -> u64 {
        match &self.part {
            Part::File { path, .. } => path.metadata().map_or(0, |about| about.len()),
            Part::Source { .. } => self.capture_steps().ok().flatten().map_or(0, |steps| steps.size()),
        }
    }

    /// Number of its instructions, if it has an index or points.
    pub fn instructions(&self) -> Option<u64> {
        let indexed = self.index.as_ref().map(|index| index.index().totals().instructions);
        indexed.or_else(|| self.points.as_ref().map(|points| points.instructions))
    }

    /// Whether it has an index.
    pub fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// Uses points from here on, as long as there is no index.
    pub fn set_points(&mut self, points: StepPoints) {
        self.points = Some(points);
    }

    /// Finds points that reading can start at, by one pass. `None`: only the beginning, or the trace is small.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn find_points(&self, progress: &mut OnProgress<'_>) -> Result<Option<StepPoints>, LogError> {
        match &self.part {
            Part::File { path, kind: FileKind::Astf | FileKind::Stf } => find_step_points(path, progress),
            Part::File { .. } => Ok(None),
            Part::Source { capture, source, .. } => {
                let steps = CaptureSteps::new(capture.as_ref().clone(), Some(source), &self.codes);
                let found = steps.and_then(|steps| find_capture_points(steps, progress));
                found.map_err(|error| LogError::of_file(&capture.path, std::io::Error::other(error.to_string())))
            }
        }
    }

    /// Uses an index from here on.
    pub fn set_index(&mut self, index: IndexedSteps) {
        self.index = Some(index);
    }

    /// Opens the index beside the trace, which must be up to date.
    ///
    /// # Errors
    ///
    /// If there is none, or it is of another trace.
    pub fn open_index(&self) -> Result<IndexedSteps, LogError> {
        match &self.part {
            Part::File { path, kind: FileKind::Astf | FileKind::Stf } => open_step_index(path, &index_path(path)),
            Part::File { path, .. } => Err(LogError::NotSeekable { path: path.display().to_string(), why: NO_INDEX }),
            Part::Source { capture, source, .. } => {
                let of_steps =
                    |error: Error| LogError::of_file(&capture.path, std::io::Error::other(error.to_string()));
                let steps = CaptureSteps::new(capture.as_ref().clone(), Some(source), &self.codes).map_err(of_steps)?;
                let fingerprint = fingerprint_of(capture, source, &self.codes, &SpaceOptions::default());
                let index = open_capture_index(&capture_index_path(capture, source), &fingerprint)?;
                Ok(with_capture_index(steps, index))
            }
        }
    }

    /// Makes the index beside the trace. It is used once it is [set](Self::set_index).
    ///
    /// # Errors
    ///
    /// If the trace can only be read from its beginning, or the index cannot be written.
    pub fn make_index(&self, progress: &mut OnProgress<'_>) -> Result<IndexedSteps, LogError> {
        match &self.part {
            Part::File { path, kind: FileKind::Astf | FileKind::Stf } => {
                make_step_index(path, &index_path(path), progress)?;
            }
            Part::File { .. } => {}
            Part::Source { capture, source, .. } => {
                let of_steps =
                    |error: Error| LogError::of_file(&capture.path, std::io::Error::other(error.to_string()));
                let steps = CaptureSteps::new(capture.as_ref().clone(), Some(source), &self.codes);
                let fingerprint = fingerprint_of(capture, source, &self.codes, &SpaceOptions::default());
                let path = capture_index_path(capture, source);
                make_capture_index(&mut steps.map_err(of_steps)?, fingerprint, &path, progress)?;
            }
        }
        self.open_index()
    }

    /// Passes on steps until `take` breaks, each with the number of instructions up to and including it. They start at or
    /// before an instruction, which is counted from 1: with an index, close to it, after the contexts of the cores.
    ///
    /// # Errors
    ///
    /// If the trace is damaged or cannot be read.
    pub fn each_from(
        &mut self,
        instruction: u64,
        take: &mut dyn FnMut(u64, &Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        if let Some(index) = &mut self.index {
            return index.each_step_from(instruction, take);
        }
        if let Some(points) = &mut self.points {
            return points.each_step_from(instruction, take);
        }
        let mut count = 0;
        self.open().map_err(SourceError::unreadable)?.each(&mut |step| {
            count += u64::from(step.event.instruction().is_some());
            take(count, step)
        })
    }

    /// Registers, and memory in these ranges, after an instruction. `None`: the trace has no such instruction.
    ///
    /// # Errors
    ///
    /// If the trace or its index cannot be read.
    pub fn state_at(&mut self, instruction: u64, ranges: &[RangeInclusive<u64>]) -> Result<Option<State>, SourceError> {
        if let Some(index) = &mut self.index {
            let state = index.state_at(Position::Instruction(instruction), None, ranges);
            return state.map_err(SourceError::unreadable);
        }
        let place = Place::Instruction(instruction);
        let finder = PlaceFinder::new(&place, None, self.time_unit, &self.program);
        let mut finder = finder.map_err(SourceError::unreadable)?;
        let mut source = self.open().map_err(SourceError::unreadable)?;
        Ok(replay(&mut *source, &mut finder, !ranges.is_empty(), MAX_WORDS)?.state)
    }

    /// The next instruction at an address after an instruction, or the last one before it. `None`: there is none, or no
    /// index to find it with.
    ///
    /// # Errors
    ///
    /// If the trace or its index cannot be read.
    pub fn near(&mut self, address: u64, instruction: u64, is_backward: bool) -> Result<Option<u64>, SourceError> {
        let Some(index) = &mut self.index else { return Ok(None) };
        let found = match is_backward {
            true => index.previous_at(address, instruction),
            false => index.next_at(address, instruction),
        };
        Ok(found.map_err(SourceError::unreadable)?.map(|found| found.line))
    }

    /// An instruction that is not after a place, so that the place is found from there on. `None`: the trace does not have
    /// it.
    ///
    /// # Errors
    ///
    /// If the index cannot be read, or the program has no such function.
    pub fn start_for(&mut self, place: &Place) -> Result<Option<u64>, String> {
        let addresses = place.addresses(&self.program)?;
        let Some(index) = &mut self.index else { return Ok(Some(1)) };
        let positions: Vec<Position> = match place {
            Place::Position(_) => return Ok(Some(1)),
            Place::Instruction(number) => vec![Position::Instruction(*number)],
            Place::Time(time) => vec![Position::Time(*time)],
            Place::Address(_) | Place::Function(_) => addresses.into_iter().map(Position::Address).collect(),
        };
        let mut first = None;
        for position in positions {
            let found = index.index_mut().segment_with(position).map_err(|error| error.to_string())?;
            let start = found.map(|segment| segment.instructions + 1);
            first = first.into_iter().chain(start).min();
        }
        Ok(first)
    }
}

/// Words of eight bytes of memory that are kept for each core where there is no index.
const MAX_WORDS: usize = 1 << 18;

/// Why a log has no index of its steps.
const NO_INDEX: &str = "a log is read from its beginning";
