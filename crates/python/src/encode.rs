//! Captures made of traces, as trace units would have recorded them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unspool::coresight::Protocol;
use unspool::encode::{self as encoder, EncodeOptions, UnitSettings};
use unspool::model::{StepSource, TimeUnit};

use crate::errors::{Class, Failing, Failure, unlocked};
use crate::trace::{open_with, paths};

/// Totals of an encoded capture.
#[pyclass(frozen, module = "unspool")]
pub(crate) struct Encoded(encoder::Encoded);

#[pymethods]
impl Encoded {
    /// Number of cores.
    #[getter]
    fn cores(&self) -> usize {
        self.0.cores
    }

    /// Number of instructions that the trace units executed.
    #[getter]
    fn instructions(&self) -> u64 {
        self.0.instructions
    }

    /// Number of breaks: the steps did not continue.
    #[getter]
    fn breaks(&self) -> u64 {
        self.0.breaks
    }

    /// Number of bytes of trace, without frames.
    #[getter]
    fn trace_bytes(&self) -> u64 {
        self.0.trace_bytes
    }

    /// Number of contexts without an Exception level or a Security state: EL0 and Non-secure were assumed.
    #[getter]
    fn assumed_contexts(&self) -> u64 {
        self.0.assumed_contexts
    }

    /// Whether any step had a time.
    #[getter]
    fn has_times(&self) -> bool {
        self.0.has_times
    }

    fn __repr__(&self) -> String {
        format!("Encoded(instructions={}, trace_bytes={})", self.0.instructions, self.0.trace_bytes)
    }
}

/// Generates the capture that a trace unit would produce for a run: trace, registers, program image.
///
/// Args:
///     trace: Path of an ASTF file, STF file, Tarmac log or capture of Arm instructions.
///     output: Directory of the capture: a new or empty one, unless force is given.
///     protocol: Architecture of the trace unit: 'ete', 'etm4', 'ptm' or 'etm3'.
///     registers: Registers of the trace unit by name, such as {'TRCCONFIGR': 0x1001}.
///     formatted: Write formatter frames, with all cores in one buffer.
///     events: Path of a system event log with the code of all processes.
///     image: Path of an ELF file with the code of a capture, or a list of them.
///     source: Source of a capture: its name or trace id. Required if there are several.
///     force: Replace a capture in the directory that was encoded.
///
/// Raises:
///     OpenError: If the trace cannot be read.
///     WriteError: If the capture cannot be written, or the trace cannot be encoded.
#[pyfunction]
#[pyo3(signature = (
    trace, output, *, protocol = "ete", registers = None, formatted = false, events = None, image = None, source = None,
    force = false
))]
#[allow(clippy::too_many_arguments, reason = "these are keywords")]
pub(crate) fn encode(
    py: Python<'_>,
    trace: PathBuf,
    output: PathBuf,
    protocol: &str,
    registers: Option<BTreeMap<String, u64>>,
    formatted: bool,
    events: Option<PathBuf>,
    image: Option<&Bound<'_, PyAny>>,
    source: Option<String>,
    force: bool,
) -> PyResult<Encoded> {
    let (settings, images) = (settings(protocol, registers.unwrap_or_default())?, paths(image)?);
    let file = trace.display().to_string();
    let encoding = move || {
        if !force && output.join("snapshot.ini").exists() {
            let text = format!("{}: the directory has a capture; give force=True to replace it", output.display());
            return Err(Failure::new(Class::Write, text).in_file(&output.display().to_string()));
        }
        let opened = open_with(&trace, &images, source).map_err(|error| error.failure("offset"))?;
        let unit = opened.kind().unit();
        let steps = opened.open_steps().map_err(|error| error.failure(unit))?;
        let time_unit: TimeUnit = steps.time_unit();
        let options = EncodeOptions { settings, formatted, buffer: None, time_unit, replace: force, events };
        let (encoded, _) = encoder::encode(&output, vec![steps], options).map_err(|error| error.failure(unit))?;
        Ok(Encoded(encoded))
    };
    unlocked(py, encoding)?.map_err(|failure| failure.in_file(&file).into_exception(py))
}

/// Settings of a trace unit with these registers.
fn settings(protocol: &str, registers: BTreeMap<String, u64>) -> PyResult<UnitSettings> {
    let known = Protocol::from_name(protocol).and_then(UnitSettings::new);
    let Some(mut settings) = known else {
        return Err(PyValueError::new_err(format!("unknown protocol '{protocol}': ete, etm4, ptm, etm3")));
    };
    for (name, value) in registers {
        if !settings.set(&name, value) {
            return Err(PyValueError::new_err(format!("the trace unit model has no register '{name}'")));
        }
    }
    Ok(settings)
}
