//! Conversion to another format, or to another container of the same format.
//!
//! path ─▶ steps, or the records themselves ─▶ file, which appears when it is complete

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspool::convert::native::{NativeError, NativeOutput, store_astf, store_stf, store_tarmac};
use unspool::convert::{FileSink, Format, SinkOptions, Transferred, transfer};
use unspool::file::{End, FileOptions, TraceFile};
use unspool::model::{Losses, StepSink, StepSource};
use unspool::target::{astf_storage, log_container};
use unspool::{FileKind, Opened};

use crate::errors::{Class, Failing, Failure, unlocked};
use crate::selection::Selection;
use crate::trace::{open_with, paths};
use crate::writer::{format_of, losses_dict};

/// What a conversion did.
#[pyclass(frozen, module = "unspool")]
pub(crate) struct Conversion {
    instructions: Option<u64>,
    losses: Losses,
    damage: Option<String>,
}

#[pymethods]
impl Conversion {
    /// Number of instructions. None: records were copied within a format, and not counted.
    #[getter]
    fn instructions(&self) -> Option<u64> {
        self.instructions
    }

    /// What is not in the output, each kind with how often.
    #[getter]
    fn losses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        losses_dict(py, &self.losses)
    }

    /// Damage of the input, if what was before it was kept.
    #[getter]
    fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    fn __repr__(&self) -> String {
        match self.instructions {
            Some(instructions) => format!("Conversion(instructions={instructions})"),
            None => "Conversion(instructions=None)".to_string(),
        }
    }
}

/// Converts a trace into another format, or writes it into another container. The output appears when it is complete.
///
/// Args:
///     input: Path of the trace.
///     output: Path of the file to write. A file that exists is replaced only with force.
///     format: 'astf', 'stf' or 'tarmac' [default: by the extension of the output, which also selects the compression].
///     image: Path of an ELF file with the code of a capture, or a list of them.
///     source: Source of a capture: its name or trace id. Required if there are several.
///     core: Only this core of the trace, counted from 0.
///     force: Replace the output.
///     keep_damaged: Keep what comes before damage of the input, in place of raising a DamagedError.
///     selection: Only a part of the execution: the arguments that Trace describes.
///
/// Raises:
///     OpenError: If the input cannot be read.
///     DamagedError: If the input is damaged; nothing is written.
///     WriteError: If the output cannot be written, or cannot express the trace.
#[pyfunction]
#[pyo3(signature = (
    input, output, *, format = None, image = None, source = None, core = None, force = false, keep_damaged = false, **selection
))]
#[allow(clippy::too_many_arguments, reason = "these are keywords")]
pub(crate) fn convert(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    format: Option<&str>,
    image: Option<&Bound<'_, PyAny>>,
    source: Option<String>,
    core: Option<u32>,
    force: bool,
    keep_damaged: bool,
    selection: Option<&Bound<'_, PyDict>>,
) -> PyResult<Conversion> {
    let (to, images, selection) = (format_of(format, &output)?, paths(image)?, Selection::parse(selection)?);
    let file = input.display().to_string();
    let failed = |failure: Failure| failure.in_file(&file).into_exception(py);
    check_output(&input, &output, force).map_err(|failure| failure.into_exception(py))?;
    let opened =
        unlocked(py, || open_with(&input, &images, source))?.map_err(|error| failed(error.failure("offset")))?;
    let is_whole = core.is_none() && selection.is_all();
    let conversion = Converting { input: &input, output: &output, to, core, keep_damaged };
    if is_whole && format_of_kind(opened.kind()) == Some(to) {
        return unlocked(py, || conversion.store())?.map_err(failed);
    }
    let part = selection.of(py, &opened, None, &file)?;
    unlocked(py, || conversion.steps(&part))?.map_err(failed)
}

fn format_of_kind(kind: FileKind) -> Option<Format> {
    match kind {
        FileKind::Astf => Some(Format::Astf),
        FileKind::Stf => Some(Format::Stf),
        FileKind::Tarmac => Some(Format::Tarmac),
        _ => None,
    }
}

/// Refuses an output that is the input, or that may not be replaced.
fn check_output(input: &Path, output: &Path, force: bool) -> Result<(), Failure> {
    match (input.canonicalize(), output.canonicalize()) {
        (Ok(input), Ok(existing)) if input == existing => {
            Err(refused(output, "the trace is read from this file; write to another one"))
        }
        _ => check_replaceable(output, force),
    }
}

/// Refuses a file with contents, unless it may be replaced.
pub(crate) fn check_replaceable(output: &Path, force: bool) -> Result<(), Failure> {
    let has_contents = output.metadata().is_ok_and(|about| about.is_file() && about.len() > 0);
    if has_contents && !force {
        return Err(refused(output, "the file exists; give force=True to replace it"));
    }
    Ok(())
}

fn refused(output: &Path, text: &str) -> Failure {
    let name = output.display().to_string();
    Failure::new(Class::Write, format!("{name}: {text}")).in_file(&name)
}

/// Conversion of an input to an output.
struct Converting<'a> {
    input: &'a Path,
    output: &'a Path,
    to: Format,
    core: Option<u32>,
    keep_damaged: bool,
}

impl Converting<'_> {
    /// Copies the records into another container.
    fn store(&self) -> Result<Conversion, Failure> {
        let end = self.store_records().map_err(|error| error.failure("offset"))?;
        let damage = if let End::Damaged(text) = end { Some(text) } else { None };
        self.done(Conversion { instructions: None, losses: Losses::default(), damage }, None)
    }

    fn store_records(&self) -> Result<End, NativeError> {
        let options = FileOptions::default();
        let output = NativeOutput {
            path: self.output,
            keep_damaged: self.keep_damaged,
            deny_loss: false,
            rejects_corrections: false,
        };
        let progress = &mut |_, _| {};
        match (TraceFile::open(self.input, &options)?, SinkOptions::for_path(self.to, self.output)) {
            (TraceFile::Astf(mut file), SinkOptions::Astf { write, .. }) => {
                let storage = astf_storage(self.output).unwrap_or(file.header().storage());
                store_astf(&mut file, storage, write, output, progress)
            }
            (TraceFile::Stf(mut file), SinkOptions::Stf { storage, write, .. }) => {
                store_stf(&mut file, (self.input, &options), storage, (write, false), output, progress)
            }
            (TraceFile::Tarmac(mut file), SinkOptions::Tarmac { write, .. }) => {
                store_tarmac(&mut file, log_container(self.output), write, output, progress)
            }
            _ => Ok(End::Stopped),
        }
    }

    /// Transfers the steps of a part.
    fn steps(&self, part: &Opened) -> Result<Conversion, Failure> {
        let unit = part.kind().unit();
        let steps = part.open_steps().map_err(|error| error.failure(unit))?;
        let options = SinkOptions::for_path(self.to, self.output);
        let sink = FileSink::open(self.output, steps.coverage(), steps.time_unit(), &options);
        let mut sink = sink.map_err(|error| error.failure(unit))?;
        let done = transfer(steps, self.core, &mut sink, |_, _| ControlFlow::Continue(()));
        let Transferred { instructions, not_in_steps: mut losses, damage, .. } =
            done.map_err(|error| error.failure(unit))?;
        if damage.is_some() && self.keep_damaged {
            sink.finish().map_err(|error| error.failure(unit))?;
        }
        losses.add_all(sink.losses());
        self.done(Conversion { instructions: Some(instructions), losses, damage }, Some(sink))
    }

    /// Keeps the output, unless damage of the input forbids it.
    fn done(&self, conversion: Conversion, sink: Option<FileSink>) -> Result<Conversion, Failure> {
        if let Some(damage) = conversion.damage.as_ref().filter(|_| !self.keep_damaged) {
            return Err(Failure::new(Class::Damaged, damage));
        }
        sink.map_or(Ok(()), FileSink::keep).map_err(|error| error.failure("offset"))?;
        Ok(conversion)
    }
}
