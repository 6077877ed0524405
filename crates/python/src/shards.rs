//! Tables of shards, for processes that write them together.
//!
//! trace ─▶ shards ─▶ counted ─▶ assembled ─▶ **files of a folder of tables**
//!
//! What goes from one process to another is text and bytes, which can be pickled. `unspool.distributed` is the scheduler.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use unspool_tables::Table;
use unspool_tables::shards::{self, Assembled, Counted, First, Output, Shard, Start, Text};

use crate::errors::{Failing, unlocked};
use crate::trace::Trace;

/// Numbers of the first source, version of the code and instruction of a trace.
type Firsts = (u32, u32, u32);

/// Splits a trace into shards of about this many bytes of a source, in order: each is a text. A file, and a source that can
/// only be read from its beginning, is one shard.
#[pyfunction]
pub(crate) fn split_trace(py: Python<'_>, trace: &Trace, shard_bytes: u64) -> PyResult<Vec<String>> {
    let split = unlocked(py, || shards::split(trace.opened(), shard_bytes))?;
    Ok(split.map_err(|error| of_trace(py, trace, &error))?.iter().map(Text::to_text).collect())
}

/// Reads a shard without writing rows. Returns what is known of it then, as JSON, and the code that it executes.
#[pyfunction]
pub(crate) fn count_shard<'py>(
    py: Python<'py>,
    trace: &Trace,
    shard: &str,
    tables: Vec<String>,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let (shard, tables) = (described::<Shard>(shard)?, named(&tables)?);
    let counted = unlocked(py, || shards::count(trace.opened(), &shard, &tables))?;
    let (counted, code) = counted.map_err(|error| of_trace(py, trace, &error))?;
    Ok((counted.to_text(), PyBytes::new(py, &code)))
}

/// Puts the shards of a trace together, from what is known of each. The JSON has the shards that have rows, with what they start with
/// (starts), and the sources.
#[pyfunction]
pub(crate) fn assemble_shards(counted: Vec<String>) -> PyResult<String> {
    let counted: Vec<Counted> = counted.iter().map(|text| described(text)).collect::<PyResult<_>>()?;
    Ok(Assembled::of(&counted).to_text())
}

/// The same for a trace that cannot be opened: one source with this problem.
#[pyfunction]
pub(crate) fn unreadable_trace(path: &str, problem: &str) -> String {
    Assembled::of_problem(path, problem).to_text()
}

/// Returns the whole source of a shard as a shard, for the table of calls. None: the shard is whole.
#[pyfunction]
pub(crate) fn whole_shard(shard: &str) -> PyResult<Option<String>> {
    Ok(described::<Shard>(shard)?.whole().map(|whole| whole.to_text()))
}

/// Merges the code of shards, in order.
#[pyfunction]
pub(crate) fn merge_code<'py>(py: Python<'py>, parts: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
    let merged = unlocked(py, || shards::merge_code(parts.iter().map(Vec::as_slice)))?;
    Ok(PyBytes::new(py, &merged.map_err(|error| error.failure("offset").into_exception(py))?))
}

/// Returns the number of versions of the code of a trace, and of its instructions.
#[pyfunction]
pub(crate) fn count_code(py: Python<'_>, trace: &Trace, code: &[u8]) -> PyResult<(u32, u32)> {
    let counted = unlocked(py, || shards::count_code(trace.opened(), code))?;
    counted.map_err(|error| of_trace(py, trace, &error))
}

/// Writes the rows of a shard into a folder of tables; returns their numbers. The files appear when all are complete, and have
/// the same names if they are written again.
///
/// Args:
///     trace: The trace.
///     shard: The shard.
///     start: What it starts with.
///     tables: Names of tables.
///     code: The code of the trace; None if it has one version.
///     first: Numbers of the first source, version of the code and instruction of the trace.
///     folder: The folder.
///     attempt: Text that no other attempt to write the shard has.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "they are named in Python")]
#[pyo3(signature = (trace, shard, start, tables, code, first, folder, attempt))]
pub(crate) fn write_shard(
    py: Python<'_>,
    trace: &Trace,
    shard: &str,
    start: &str,
    tables: Vec<String>,
    code: Option<&[u8]>,
    first: Firsts,
    folder: PathBuf,
    attempt: &str,
) -> PyResult<BTreeMap<&'static str, u64>> {
    let (shard, start, tables) = (described::<Shard>(shard)?, described::<Start>(start)?, named(&tables)?);
    let output = Output { folder: &folder, attempt };
    let write = || shards::write(trace.opened(), (&shard, &start), (&tables, code), &of_firsts(first), &output);
    let rows = unlocked(py, write)?.map_err(|error| of_trace(py, trace, &error))?;
    Ok(rows.into_iter().map(|(table, rows)| (table.name(), rows)).collect())
}

/// Writes the table of instructions of a trace, as write_shard() does.
#[pyfunction]
pub(crate) fn write_code(
    py: Python<'_>,
    trace: &Trace,
    code: &[u8],
    first: Firsts,
    folder: PathBuf,
    attempt: &str,
) -> PyResult<BTreeMap<&'static str, u64>> {
    let output = Output { folder: &folder, attempt };
    let rows = unlocked(py, || shards::write_code(trace.opened(), code, &of_firsts(first), &output))?;
    let rows = rows.map_err(|error| of_trace(py, trace, &error))?;
    Ok(rows.into_iter().map(|(table, rows)| (table.name(), rows)).collect())
}

/// Writes the table of sources, removes what attempts that ended early have left, and gives the folder its name.
#[pyfunction]
pub(crate) fn finish_tables(
    py: Python<'_>,
    folder: PathBuf,
    target: PathBuf,
    tables: Vec<String>,
    assembled: Vec<String>,
) -> PyResult<()> {
    let all: Vec<Assembled> = assembled.iter().map(|text| described(text)).collect::<PyResult<_>>()?;
    let tables = named(&tables)?;
    let finished = unlocked(py, || shards::finish(&folder, &target, &tables, &all))?;
    finished.map_err(|error| error.failure("offset").into_exception(py))
}

fn of_firsts((source, code, instruction): Firsts) -> First {
    First { source, code, instruction }
}

fn of_trace(py: Python<'_>, trace: &Trace, error: &unspool_tables::Error) -> PyErr {
    error.failure(trace.unit()).in_file(trace.file()).into_exception(py)
}

fn described<T: Text>(text: &str) -> PyResult<T> {
    T::from_text(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn named(names: &[String]) -> PyResult<Vec<Table>> {
    names.iter().map(|name| table(name)).collect()
}

/// The table of this name.
pub(crate) fn table(name: &str) -> PyResult<Table> {
    let names = || Table::ALL.map(Table::name).join("', '");
    Table::named(name).ok_or_else(|| PyValueError::new_err(format!("no table '{name}': there are '{}'", names())))
}
