//! Open traces: what they are, and iterators over them.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use unspool::model::{Coverage, Facet, TimeUnit};
use unspool::{Error, FileKind, Items, Opened};
use unspool_tables::Table;

use crate::arrow::ArrowTable;
use crate::call::CallIterator;
use crate::errors::{Failing, unlocked};
use crate::instruction::{BlockIterator, InstructionIterator};
use crate::iterate::{AtDamage, Batches, Reading};
use crate::names::time_unit_name;
use crate::packet::PacketIterator;
use crate::selection::Selection;
use crate::step::StepIterator;

/// Opens a trace: a capture (a directory or zip archive of CoreSight trace, a perf.data file), an ASTF file, an STF file or a
/// Tarmac log. The first bytes decide which.
///
/// Args:
///     path: Its path.
///     image: Path of an ELF file with code and symbols, or a list of them. It takes precedence over the images of a capture.
///         Images and symbols are also found in the capture or beside the file.
///     source: Only this source of a capture: its name or trace id.
///
/// Raises:
///     OpenError: If it cannot be read, or is something else.
#[pyfunction]
#[pyo3(signature = (path, *, image = None, source = None))]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    image: Option<&Bound<'_, PyAny>>,
    source: Option<String>,
) -> PyResult<Trace> {
    let images = paths(image)?;
    let file = path.display().to_string();
    let opened = unlocked(py, || open_with(&path, &images, source))?;
    match opened {
        Ok(opened) => Ok(Trace { opened, file }),
        Err(error) => Err(error.failure("offset").in_file(&file).into_exception(py)),
    }
}

/// Opens a trace with the code of images.
pub(crate) fn open_with(path: &PathBuf, images: &[PathBuf], source: Option<String>) -> Result<Opened, Error> {
    let mut opened = unspool::open(path)?;
    // The first one takes precedence, and each is put before the others.
    for image in images.iter().rev() {
        opened = opened.with_image(image)?;
    }
    Ok(match source {
        Some(source) => opened.with_source(source),
        None => opened,
    })
}

/// A path, or a list of them.
pub(crate) fn paths(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<PathBuf>> {
    match given {
        None => Ok(Vec::new()),
        Some(given) if given.is_instance_of::<PyList>() => given.extract(),
        Some(given) => Ok(vec![given.extract()?]),
    }
}

/// An open capture or trace file, made by open().
///
/// The methods that iterate take keyword arguments that select a part of the execution; what is left out is a gap. They have
/// the names of the options of the command line, and all of them have to hold:
///
///     source: Only this source of a capture: its name or trace id.
///     function: Only instructions of this function, or of a list of functions.
///     address: Only instructions at this address, from an address up to another one (a tuple), or a list of both.
///     level: Only at this Exception level or privilege mode, 0 to 3, or a list of them.
///     mode: Only 'user' mode (level 0), or only the 'kernel' (the levels above).
///     process: Only this process, by number or by the name of its program, or a list of them.
///     time: Only from a time up to another one (a tuple; either may be None), in time_unit.
///     instructions: Only from this number of an instruction up to another one, counted on each core from 0.
///
/// Args with the name damage decide what happens where a trace is damaged. With 'raise', iteration raises a DamagedError after
/// all items before the damage; the iterator can be continued with next() or another loop, and has what follows. With
/// 'collect', it continues by itself, and the list damage of the iterator has the exceptions. In both cases, the next item
/// follows a gap.
#[pyclass(frozen, module = "unspool")]
pub(crate) struct Trace {
    opened: Opened,
    file: String,
}

impl Trace {
    /// The trace itself.
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Path, as it was given.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// What positions count.
    pub(crate) fn unit(&self) -> &'static str {
        self.opened.kind().unit()
    }

    fn reading(&self, damage: &str) -> PyResult<Reading> {
        Ok(Reading { file: self.file.clone(), unit: self.unit(), at_damage: AtDamage::parse(damage)? })
    }

    /// Items of the selected part.
    fn items<T: Send + 'static>(
        &self,
        py: Python<'_>,
        (source, damage, selection): (Option<String>, &str, Option<&Bound<'_, PyDict>>),
        open: impl FnOnce(&Opened) -> Result<Items<T>, Error> + Send,
    ) -> PyResult<Batches<T>> {
        let reading = self.reading(damage)?;
        let part = Selection::parse(selection)?.of(py, &self.opened, source, &self.file)?;
        Batches::open(py, reading, || open(&part))
    }

    /// What the steps have, and the unit of their times; of a capture, of all sources together.
    fn coverage(&self, py: Python<'_>) -> PyResult<(Coverage, TimeUnit)> {
        let covered = unlocked(py, || coverage_of(&self.opened))?;
        covered.map_err(|error| error.failure(self.unit()).in_file(&self.file).into_exception(py))
    }
}

/// What the steps of all sources have together, and the unit of times if all have the same.
fn coverage_of(opened: &Opened) -> Result<(Coverage, TimeUnit), Error> {
    if opened.kind() != FileKind::Capture {
        let steps = opened.open_steps()?;
        return Ok((steps.coverage(), steps.time_unit()));
    }
    let (mut coverage, mut units) = (Coverage::default(), Vec::new());
    for source in opened.sources() {
        match opened.clone().with_source(source).open_steps() {
            Ok(steps) => {
                coverage = steps.coverage().iter().fold(coverage, Coverage::with);
                units.push(steps.time_unit());
            }
            // Software trace has no steps.
            Err(error) if error.is_other_kind() => {}
            Err(error) => return Err(error),
        }
    }
    let first = units.first().copied().unwrap_or_default();
    let unit = if units.iter().all(|unit| *unit == first) { first } else { TimeUnit::Unknown };
    Ok((coverage, unit))
}

#[pymethods]
impl Trace {
    /// Path, as it was given.
    #[getter]
    fn path(&self) -> &str {
        &self.file
    }

    /// Format: 'capture', 'astf', 'stf' or 'tarmac'.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.opened.kind() {
            FileKind::Astf => "astf",
            FileKind::Stf => "stf",
            FileKind::Tarmac => "tarmac",
            _ => "capture",
        }
    }

    /// What positions count: 'offset' in a buffer of a capture, 'record' of an ASTF or STF file, 'line' of a Tarmac log.
    #[getter]
    fn position_unit(&self) -> &'static str {
        self.unit()
    }

    /// Unit of times: 's', 'ms', 'us', 'ns', 'ps' or 'cycles'. None: unknown, or the sources of a capture have several.
    #[getter]
    fn time_unit(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(time_unit_name(self.coverage(py)?.1))
    }

    /// Kinds of information that its steps may have, such as 'opcodes', 'accesses' and 'times'.
    #[getter]
    fn covers(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        Ok(self.coverage(py)?.0.iter().map(Facet::name).collect())
    }

    /// Names of the sources of a capture that have trace. A trace file has none.
    #[getter]
    fn sources(&self) -> Vec<String> {
        self.opened.sources().into_iter().map(str::to_string).collect()
    }

    /// Returns the symbol of the function at an address, or None.
    fn function(&self, py: Python<'_>, address: u64) -> PyResult<Option<String>> {
        unlocked(py, || self.opened.function(address).map(str::to_string))
    }

    /// Iterates over the executed instructions of one source after the other. See the class for the arguments.
    #[pyo3(signature = (*, source = None, damage = "raise", **selection))]
    fn instructions(
        &self,
        py: Python<'_>,
        source: Option<String>,
        damage: &str,
        selection: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<InstructionIterator> {
        let batches = self.items(py, (source, damage, selection), Opened::instructions)?;
        Ok(InstructionIterator { batches })
    }

    /// Iterates over the executed blocks: straight-line code, up to a branch or to where the trace does not continue. Much
    /// faster than instructions() for a capture. See the class for the arguments.
    #[pyo3(signature = (*, source = None, damage = "raise", **selection))]
    fn blocks(
        &self,
        py: Python<'_>,
        source: Option<String>,
        damage: &str,
        selection: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<BlockIterator> {
        let batches = self.items(py, (source, damage, selection), Opened::blocks)?;
        Ok(BlockIterator { batches })
    }

    /// Iterates over the steps: instructions with their accesses and register writes, exceptions, contexts, gaps and notes.
    /// See the class for the arguments.
    #[pyo3(signature = (*, source = None, damage = "raise", **selection))]
    fn steps(
        &self,
        py: Python<'_>,
        source: Option<String>,
        damage: &str,
        selection: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<StepIterator> {
        let batches = self.items(py, (source, damage, selection), Opened::steps)?;
        Ok(StepIterator { batches })
    }

    /// Iterates over the calls of one thread, process or core after the other, each in the order in which they began. The trace
    /// is read to its end first, since a call has its end: memory does not grow, but a temporary file does.
    ///
    /// Args:
    ///     source: Only this source of a capture.
    ///     process: Only this process, by number or by the name of its program, or a list of them.
    ///     complete: Only calls whose start and end are both in the trace, and the root.
    ///     depth: Omit calls that are nested deeper.
    ///     damage: See the class.
    #[pyo3(signature = (*, source = None, process = None, complete = false, depth = None, damage = "raise"))]
    fn calls(
        &self,
        py: Python<'_>,
        source: Option<String>,
        process: Option<&Bound<'_, PyAny>>,
        complete: bool,
        depth: Option<usize>,
        damage: &str,
    ) -> PyResult<CallIterator> {
        let selection = PyDict::new(py);
        selection.set_item("process", process)?;
        let batches = self.items(py, (source, damage, Some(&selection)), |part| {
            part.calls(move |call| !complete || call.is_complete() || call.is_root())
        })?;
        Ok(CallIterator::new(batches, depth))
    }

    /// Iterates over the packets of a capture, source by source. Bytes that are not a packet are items too.
    ///
    /// Args:
    ///     source: Only this source.
    ///     damage: See the class.
    ///
    /// Raises:
    ///     OpenError: If it is not a capture: other formats have no packets.
    #[pyo3(signature = (*, source = None, damage = "raise"))]
    fn packets(&self, py: Python<'_>, source: Option<String>, damage: &str) -> PyResult<PacketIterator> {
        let names = self.opened.sources().into_iter().map(Arc::from).collect();
        let batches = self.items(py, (source, damage, None), Opened::packets)?;
        Ok(PacketIterator::new(batches, names))
    }

    /// Returns a table of the trace: 'sources', 'blocks', 'instructions', 'calls', 'accesses' or 'events'; docs/tables.md describes
    /// the columns. Its rows are read when a library takes them, as an Arrow stream. Where the trace is damaged, there are the
    /// rows before the damage, a gap in 'events', and the problem in 'sources'.
    ///
    /// Args:
    ///     table: Its name.
    ///     source: Only this source of a capture.
    ///
    /// See the class for the other arguments. Calls need the whole execution: of them, rows can be selected afterwards.
    ///
    /// Raises:
    ///     ValueError: If there is no such table, or a part of the calls is selected.
    #[pyo3(signature = (table, *, source = None, **selection))]
    fn to_arrow(
        &self,
        py: Python<'_>,
        table: &str,
        source: Option<String>,
        selection: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ArrowTable> {
        if table == Table::Calls.name() && selection.is_some_and(|selection| !selection.is_empty()) {
            return Err(PyValueError::new_err("calls need the whole execution: select rows of the table instead"));
        }
        ArrowTable::new(Selection::parse(selection)?.of(py, &self.opened, source, &self.file)?, table)
    }

    fn __repr__(&self) -> String {
        format!("Trace(path='{}', kind='{}')", self.file, self.kind())
    }
}
