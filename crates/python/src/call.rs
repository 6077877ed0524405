//! Calls.

use pyo3::prelude::*;
use unspool::ExecutedCall;

use crate::iterate::Batches;

/// A call, with its place in the call tree of a thread, process or core.
#[pyclass(frozen, eq, module = "unspool")]
#[derive(PartialEq)]
pub(crate) struct Call(ExecutedCall);

impl Call {
    fn time_of(&self, time: u64) -> Option<u64> {
        self.0.has_times.then_some(time)
    }
}

#[pymethods]
impl Call {
    /// Number of the core; of a capture, index of the source in Trace.sources.
    #[getter]
    fn core(&self) -> u32 {
        self.0.core
    }

    /// Name of the core, if a log has one.
    #[getter]
    fn core_name(&self) -> Option<&str> {
        self.0.core_name.as_deref()
    }

    /// Process.
    #[getter]
    fn process(&self) -> Option<u64> {
        self.0.process
    }

    /// Thread.
    #[getter]
    fn thread(&self) -> Option<u64> {
        self.0.thread
    }

    /// Depth in the tree; 0: the function that was executed when the trace started.
    #[getter]
    fn depth(&self) -> usize {
        self.0.depth
    }

    /// Symbol of the function.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Address of the function; if the call began before the trace or in a gap, the first address that was seen in it.
    #[getter]
    fn address(&self) -> u64 {
        self.0.function
    }

    /// Its beginning: 'start' (the root), 'before' the trace, 'called', 'exception' or 'gap'.
    #[getter]
    fn began(&self) -> &'static str {
        self.0.began.name()
    }

    /// Its end: 'returned', 'left' without a return, 'gap' or 'at_end' of the trace.
    #[getter]
    fn ended(&self) -> &'static str {
        self.0.ended.name()
    }

    /// Offset, record or line of its first instruction: see Trace.position_unit.
    #[getter]
    fn position(&self) -> u64 {
        self.0.entry.position
    }

    /// Position of its last instruction.
    #[getter]
    fn last_position(&self) -> u64 {
        self.0.exit.position
    }

    /// Address of its last instruction.
    #[getter]
    fn last_address(&self) -> u64 {
        self.0.exit.pc
    }

    /// Time of its first instruction.
    #[getter]
    fn time(&self) -> Option<u64> {
        self.time_of(self.0.entry.time)
    }

    /// Time of its last instruction.
    #[getter]
    fn last_time(&self) -> Option<u64> {
        self.time_of(self.0.exit.time)
    }

    /// Time without the calls that it made.
    #[getter]
    fn own_time(&self) -> Option<u64> {
        self.time_of(self.0.own.time)
    }

    /// Number of instructions, callees included.
    #[getter]
    fn instructions(&self) -> u64 {
        self.0.total().instructions
    }

    /// Number of instructions without the calls that it made.
    #[getter]
    fn own_instructions(&self) -> u64 {
        self.0.own.instructions
    }

    /// Whether a part of its execution is missing, so that it had more instructions.
    #[getter]
    fn has_gap(&self) -> bool {
        self.0.has_gap
    }

    /// Position of the calling instruction.
    #[getter]
    fn call_position(&self) -> Option<u64> {
        self.0.site.map(|site| site.position)
    }

    /// Address of the calling instruction.
    #[getter]
    fn call_address(&self) -> Option<u64> {
        self.0.site.map(|site| site.pc)
    }

    /// Position of the instruction that it returned to.
    #[getter]
    fn return_position(&self) -> Option<u64> {
        self.0.back.map(|site| site.position)
    }

    /// Address of the instruction that it returned to.
    #[getter]
    fn return_address(&self) -> Option<u64> {
        self.0.back.map(|site| site.pc)
    }

    fn __repr__(&self) -> String {
        let name = self.name().map_or_else(|| format!("{:#x}", self.0.function), |name| format!("'{name}'"));
        format!("Call(name={name}, depth={}, instructions={})", self.0.depth, self.instructions())
    }
}

/// Iterator over calls, in the order in which they began.
#[pyclass(module = "unspool")]
pub(crate) struct CallIterator {
    batches: Batches<ExecutedCall>,
    /// Deepest calls that are not omitted.
    depth: usize,
}

impl CallIterator {
    pub(crate) fn new(batches: Batches<ExecutedCall>, depth: Option<usize>) -> Self {
        Self { batches, depth: depth.unwrap_or(usize::MAX) }
    }
}

#[pymethods]
impl CallIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Call>> {
        while let Some(call) = self.batches.next(py)? {
            if call.depth <= self.depth {
                return Ok(Some(Call(call)));
            }
        }
        Ok(None)
    }

    /// Damage that was met so far, as exceptions, if iteration collects it.
    #[getter]
    fn damage(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.batches.damage(py)
    }
}
