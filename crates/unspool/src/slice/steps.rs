//! Slices of steps: selected instructions of any source, written in another format than that of the source.
//!
//! steps, selection ─▶ **pieces** ─▶ sink of a format ─▶ OUT
//!
//! A piece starts with the contexts, registers and memory that are known there. Steps between two of its instructions are
//! part of it, and so is the exception that its last instruction caused. Between two pieces of one file there is a gap.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use unspool_analyze::known_state::KnownState;
use unspool_analyze::selection::FunctionSelection;
use unspool_model::selection::{Candidate, Choice, Select as _};
use unspool_model::{Coverage, Event, Gap, Instruction, Losses, SinkError, Step, StepSink as _, TimeUnit};

use super::{KeptState, Slice, SliceError, SliceOutput, numbered};
use crate::OpenedSteps;
use crate::convert::{FileSink, OpenSinkError, SinkOptions};
use crate::file::End;
use crate::target::WriteError;

/// Maximum number of steps that wait for the next instruction; if there are more, they are written at once.
const MAX_HELD: usize = 1 << 12;

/// Writes the selected instructions of a source as a trace of another format. The losses are those of the format.
pub fn slice_steps(
    mut source: OpenedSteps,
    selection: &mut FunctionSelection,
    options: &SinkOptions,
    output: SliceOutput<'_>,
) -> Result<(Slice, Losses), SliceError> {
    let mut slicer = Slicer {
        wants_start: selection.wants_start(),
        selection,
        files: Files::new(output, source.coverage(), source.time_unit(), options),
        known: KnownState::new(),
        held: Vec::new(),
        is_within: false,
        is_interrupted: false,
        index: 0,
        slice: Slice::default(),
        failed: None,
    };
    let ended = if slicer.selection.wants_more() { source.each(&mut |step| slicer.step(step)) } else { Ok(()) };
    // What follows the last instruction of the trace belongs to it.
    if slicer.is_within && slicer.failed.is_none() && slicer.selection.wants_more() {
        slicer.release()?;
    }
    let Slicer { mut files, slice, failed, index, .. } = slicer;
    if let Some(error) = failed {
        return Err(error);
    }
    files.keep()?;
    match ended {
        Err(error) if error.is_damage => {
            Err(SliceError::Damaged { end: End::Damaged(error.to_string()), has_begun: slice.pieces > 0 })
        }
        Err(error) => Err(SliceError::Source(error)),
        Ok(()) if slice.pieces == 0 => Err(SliceError::Nothing { read: index, unit: "instruction" }),
        Ok(()) => Ok((slice, files.losses)),
    }
}

/// A slice in the making.
struct Slicer<'s, 'o> {
    selection: &'s mut FunctionSelection,
    wants_start: bool,
    files: Files<'o>,
    known: KnownState,
    /// Steps after the last instruction, or before the first one, which the next one decides about.
    held: Vec<Step>,
    /// The last instruction was selected.
    is_within: bool,
    /// An exception came after it.
    is_interrupted: bool,
    /// Number of instructions so far.
    index: u64,
    slice: Slice,
    failed: Option<SliceError>,
}

impl Slicer<'_, '_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let taken = match &step.event {
            Event::Instruction(instruction) => self.instruction(step, instruction),
            _ => self.other(step).map(|()| ControlFlow::Continue(())),
        };
        self.known.apply(step);
        taken.unwrap_or_else(|error| {
            self.failed = Some(error);
            ControlFlow::Break(())
        })
    }

    fn instruction(&mut self, step: &Step, instruction: &Instruction) -> Result<ControlFlow<()>, SliceError> {
        let candidate = Candidate {
            core: step.core,
            index: self.index,
            pc: Some(instruction.address),
            time: step.time,
            code: instruction.opcode.map(|opcode| (instruction.isa, opcode)),
            length: instruction.length,
            is_executed: instruction.is_executed != Some(false),
            is_interrupted: std::mem::take(&mut self.is_interrupted),
        };
        // Nothing is read after the last instruction, except what belongs to it.
        if !self.selection.wants_more() {
            return Ok(ControlFlow::Break(()));
        }
        match self.selection.choose(&candidate) {
            Choice::Stop => {
                self.is_within = false;
                return Ok(ControlFlow::Break(()));
            }
            Choice::Leave => {
                self.is_within = false;
                self.held.clear();
            }
            Choice::Take => {
                self.begin(step)?;
                self.files.push(step)?;
                self.slice.instructions += 1;
            }
        }
        self.index += 1;
        Ok(ControlFlow::Continue(()))
    }

    /// Continues the piece, or begins another at this step.
    fn begin(&mut self, step: &Step) -> Result<(), SliceError> {
        let is_start = self.wants_start && self.index == 0;
        if !self.is_within {
            self.slice.pieces += 1;
            self.files.begin(step)?;
            if !is_start {
                let (files, mut pushed) = (&mut self.files, Ok(()));
                let state = files.output.state;
                self.known.steps(step, |step| {
                    let is_meant = match step.event {
                        Event::State if step.accesses().len() > 0 => state == KeptState::All,
                        Event::State => state != KeptState::None,
                        _ => true,
                    };
                    if pushed.is_ok() && is_meant {
                        pushed = files.push(step);
                    }
                });
                pushed?;
            }
        }
        self.is_within = true;
        self.release()
    }

    /// Writes the steps that were held.
    fn release(&mut self) -> Result<(), SliceError> {
        std::mem::take(&mut self.held).iter().try_for_each(|step| self.files.push(step))
    }

    fn other(&mut self, step: &Step) -> Result<(), SliceError> {
        let is_caused = matches!(step.event, Event::Exception(_) | Event::ExceptionReturn { .. });
        self.is_interrupted |= matches!(step.event, Event::Exception(_));
        if self.is_within && is_caused && self.held.is_empty() {
            return self.files.push(step);
        }
        let is_start = self.wants_start && self.index == 0;
        if self.is_within || is_start && self.held.len() < MAX_HELD {
            self.held.push(step.clone());
        }
        if self.is_within && self.held.len() >= MAX_HELD { self.release() } else { Ok(()) }
    }
}

/// Files of a slice, opened one after the other.
struct Files<'o> {
    output: SliceOutput<'o>,
    coverage: Coverage,
    unit: TimeUnit,
    options: &'o SinkOptions,
    current: Option<(PathBuf, FileSink)>,
    count: u64,
    losses: Losses,
}

impl<'o> Files<'o> {
    fn new(output: SliceOutput<'o>, coverage: Coverage, unit: TimeUnit, options: &'o SinkOptions) -> Self {
        Self { output, coverage, unit, options, current: None, count: 0, losses: Losses::default() }
    }

    /// Begins a piece: a file of its own, or after a gap.
    fn begin(&mut self, step: &Step) -> Result<(), SliceError> {
        if self.current.is_some() && !self.output.split {
            let mut gap = Step::default();
            (gap.core, gap.position, gap.time) = (step.core, step.position, step.time);
            gap.event = Event::Gap(Gap::Start);
            return self.push(&gap);
        }
        self.keep()?;
        self.count += 1;
        let path = match self.output.split {
            true => numbered(self.output.path, self.count),
            false => self.output.path.to_path_buf(),
        };
        let sink = FileSink::open(&path, self.coverage, self.unit, self.options).map_err(|error| match error {
            OpenSinkError::Write(error) => SliceError::Write(error),
            OpenSinkError::Sink(error) => refused(&path, error),
        })?;
        self.current = Some((path, sink));
        Ok(())
    }

    fn push(&mut self, step: &Step) -> Result<(), SliceError> {
        let Some((path, sink)) = &mut self.current else { return Ok(()) };
        sink.push(step).map_err(|error| refused(path, error))
    }

    /// Completes the current file.
    fn keep(&mut self) -> Result<(), SliceError> {
        let Some((path, mut sink)) = self.current.take() else { return Ok(()) };
        sink.finish().map_err(|error| refused(&path, error))?;
        self.losses.add_all(sink.losses());
        sink.keep().map_err(|source| WriteError { path, source }.into())
    }
}

fn refused(path: &Path, error: SinkError) -> SliceError {
    match error {
        SinkError::Io(source) => SliceError::Write(WriteError { path: path.to_path_buf(), source }),
        error => SliceError::Sink(error),
    }
}
