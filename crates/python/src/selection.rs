//! Keyword arguments that select a part of what was executed, with the names of the command line.
//!
//! keywords + program ─▶ [`StepSelection`]

use std::ops::Range;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use unspool::analyze::step_selection::StepSelection;
use unspool::{Opened, Program};

use crate::errors::{Class, Failure, unlocked};

/// Selection as it was given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    functions: Vec<String>,
    processes: Vec<String>,
    steps: StepSelection,
}

impl Selection {
    /// Whether everything is selected.
    pub(crate) fn is_all(&self) -> bool {
        self.functions.is_empty() && self.processes.is_empty() && self.steps.is_all()
    }

    /// Parses keyword arguments. One that is None is as if it was not given.
    pub(crate) fn parse(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut selection = Self::default();
        for (name, value) in keywords.iter().flat_map(|keywords| keywords.iter()) {
            let name: String = name.extract()?;
            if !value.is_none() {
                selection.add(&name, &value)?;
            }
        }
        Ok(selection)
    }

    fn add(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let steps = &mut self.steps;
        match name {
            "function" => {
                self.functions = list(value)?.iter().map(PyAnyMethods::extract).collect::<PyResult<_>>()?;
            }
            "address" => steps.addresses = list(value)?.iter().map(addresses).collect::<PyResult<_>>()?,
            "level" => steps.levels = list(value)?.iter().map(level).collect::<PyResult<_>>()?,
            "mode" => steps.levels.extend(levels_of_mode(value.extract()?)?),
            "process" => self.processes = list(value)?.iter().map(process).collect::<PyResult<_>>()?,
            "time" => steps.times = Some(range(name, value)?),
            "instructions" => steps.instructions = Some(range(name, value)?),
            _ => return Err(PyTypeError::new_err(format!("unexpected keyword argument '{name}'"))),
        }
        Ok(())
    }

    /// The part of a trace that is selected, from this source or from all.
    pub(crate) fn of(self, py: Python<'_>, opened: &Opened, source: Option<String>, file: &str) -> PyResult<Opened> {
        let steps = unlocked(py, || self.resolve(opened))?;
        let steps = steps.map_err(|failure| failure.in_file(file).into_exception(py))?;
        let selected = opened.clone().with_selection(steps);
        Ok(match source {
            Some(source) => selected.with_source(source),
            None => selected,
        })
    }

    fn resolve(self, opened: &Opened) -> Result<StepSelection, Failure> {
        let Self { functions, processes, mut steps } = self;
        for name in &functions {
            steps.addresses.extend(find_function(opened.program(), name)?);
        }
        for name in &processes {
            steps.processes.extend(find_process(opened, name)?);
        }
        Ok(steps)
    }
}

fn find_function(program: &Program, name: &str) -> Result<Vec<Range<u64>>, Failure> {
    let found: Vec<Range<u64>> = program.functions(name).collect();
    if found.is_empty() {
        let text =
            format!("no function '{name}' with a known size in the symbols of the trace; add its program with image");
        return Err(Failure::new(Class::Selection, text));
    }
    Ok(found)
}

fn find_process(opened: &Opened, wanted: &str) -> Result<Vec<u64>, Failure> {
    if let Ok(number) = wanted.parse() {
        return Ok(vec![number]);
    }
    let found: Vec<u64> = opened.program().processes_named(wanted).into_iter().map(u64::from).collect();
    if found.is_empty() {
        return Err(Failure::new(Class::Selection, format!("no process '{wanted}' in the trace")));
    }
    Ok(found)
}

/// The elements of a list; anything else is a list of one.
fn list<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match value.cast::<PyList>() {
        Ok(list) => Ok(list.iter().collect()),
        Err(_) => Ok(vec![value.clone()]),
    }
}

/// An address, or a tuple of the first address and the one after the last.
fn addresses(value: &Bound<'_, PyAny>) -> PyResult<Range<u64>> {
    if let Ok(address) = value.extract::<u64>() {
        return Ok(address..address.saturating_add(1));
    }
    range("address", value)
}

/// A tuple of a start and an end, of which either may be None.
fn range(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Range<u64>> {
    let (start, end): (Option<u64>, Option<u64>) = value.extract()?;
    let range = start.unwrap_or(0)..end.unwrap_or(u64::MAX);
    if range.is_empty() {
        let text = format!("{name} is empty: a range (a, b) ends before b, so a must be below b");
        return Err(PyValueError::new_err(text));
    }
    Ok(range)
}

fn level(value: &Bound<'_, PyAny>) -> PyResult<u8> {
    let level: u8 = value.extract()?;
    if level > 3 {
        return Err(PyValueError::new_err(format!("{level} is not an Exception level or privilege mode: 0 to 3")));
    }
    Ok(level)
}

fn levels_of_mode(mode: &str) -> PyResult<Vec<u8>> {
    match mode {
        "user" => Ok(vec![0]),
        "kernel" => Ok(vec![1, 2, 3]),
        _ => Err(PyValueError::new_err(format!("mode is 'user' or 'kernel', not '{mode}'"))),
    }
}

/// A number or the name of a program.
fn process(value: &Bound<'_, PyAny>) -> PyResult<String> {
    value.extract::<u64>().map(|number| number.to_string()).or_else(|_| value.extract())
}
