//! Tables as Arrow streams, which pyarrow, polars, pandas and DuckDB take without a copy.
//!
//! trace, name of a table ─▶ ArrowTable ─▶ TableReader ─▶ **C stream** in a capsule ─▶ any library with the Arrow PyCapsule interface
//!
//! A library may ask for the stream as often as it wants: each time, the trace is read anew, by a thread of its own. Only a few
//! batches are in memory. Specification: Apache Arrow, "The Arrow C stream interface" and "The Arrow PyCapsule Interface".

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use unspool::Opened;
use unspool_tables::{Table, TableReader};

/// A table of a trace, made by Trace.to_arrow(). Its rows are read when a library asks for them: pass it to pyarrow.table(),
/// polars.DataFrame(), pandas.DataFrame.from_arrow() or pyarrow.RecordBatchReader.from_stream().
#[pyclass(frozen, module = "unspool")]
pub(crate) struct ArrowTable {
    trace: Arc<Opened>,
    table: Table,
}

impl ArrowTable {
    pub(crate) fn new(trace: Opened, table: &str) -> PyResult<Self> {
        Ok(Self { trace: Arc::new(trace), table: crate::shards::table(table)? })
    }
}

#[pymethods]
impl ArrowTable {
    /// Name of the table.
    #[getter]
    fn name(&self) -> &'static str {
        self.table.name()
    }

    /// Returns the rows as a stream. The schema is always that of the table, whatever is requested.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let rows = TableReader::new(Arc::clone(&self.trace), self.table);
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(rows)), c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        format!("ArrowTable(name='{}')", self.table.name())
    }
}
