//! Errors of the library as Python exceptions, with the place where something is wrong.
//!
//! library error, or a panic ─▶ **exception** of `unspool.errors`
//!
//! The classes are written in Python, since the stable interface of Python 3.10 has no way to derive an exception in Rust.

use std::any::Any;
use std::error::Error as StdError;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspool::convert::native::NativeError;
use unspool::convert::{OpenSinkError, TransferError};
use unspool::encode::EncodeError;
use unspool::model::{SinkError, SourceError};
use unspool::{Error, FileError};

/// Class of an exception in `unspool.errors`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    Error,
    Open,
    Damaged,
    Selection,
    Write,
    Internal,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Open => "OpenError",
            Self::Damaged => "DamagedError",
            Self::Selection => "SelectionError",
            Self::Write => "WriteError",
            Self::Internal => "InternalError",
        }
    }
}

/// An exception before it is one of Python.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: Class,
    pub(crate) message: String,
    /// Path of the file or directory.
    file: Option<String>,
    /// Position, and what it counts.
    position: Option<(u64, &'static str)>,
    /// Error of the system that caused it.
    system: Option<i32>,
}

impl Failure {
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), file: None, position: None, system: None }
    }

    /// The error with its causes.
    pub(crate) fn of(class: Class, error: &(dyn StdError + 'static)) -> Self {
        let (mut message, mut system, mut next) = (error.to_string(), None, Some(error));
        while let Some(error) = next {
            system = system.or_else(|| error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error));
            next = error.source();
            let text = next.map(ToString::to_string).filter(|text| !message.ends_with(text.as_str()));
            text.into_iter().for_each(|text| message.extend([": ", &text]));
        }
        Self { system, ..Self::new(class, message) }
    }

    pub(crate) fn in_file(self, file: &str) -> Self {
        Self { file: self.file.or_else(|| Some(file.to_string())), ..self }
    }

    /// At this position, if it is known.
    pub(crate) fn at(self, position: Option<u64>, unit: &'static str) -> Self {
        Self { position: position.map(|position| (position, unit)), ..self }
    }

    /// An error of the library about a trace whose positions have this unit.
    pub(crate) fn library(error: &Error, unit: &'static str) -> Self {
        let failure = Self::of(class_of(error), error);
        match error {
            Error::Steps(error) => failure.at(error.position, unit),
            Error::Frame(error) => failure.at(Some(error.offset), "offset"),
            Error::Read { offset, .. } | Error::File(FileError::Read { offset, .. }) => {
                failure.at(Some(*offset), "offset")
            }
            _ => failure,
        }
    }

    pub(crate) fn source(error: &SourceError, unit: &'static str) -> Self {
        let class = if error.is_damage { Class::Damaged } else { Class::Error };
        Self::of(class, error).at(error.position, unit)
    }

    fn sink(error: &SinkError, unit: &'static str) -> Self {
        let position = if let SinkError::Refused { position, .. } = error { *position } else { None };
        Self::of(Class::Write, error).at(position, unit)
    }

    /// What was thrown by a panic.
    pub(crate) fn panic(thrown: &(dyn Any + Send)) -> Self {
        let text = thrown.downcast_ref::<String>().map(String::as_str).or_else(|| thrown.downcast_ref().copied());
        Self::new(Class::Internal, format!("a defect of unspool: {}", text.unwrap_or("panic")))
    }

    pub(crate) fn into_exception(self, py: Python<'_>) -> PyErr {
        self.exception(py).unwrap_or_else(|failed| failed)
    }

    fn exception(self, py: Python<'_>) -> PyResult<PyErr> {
        let arguments = PyDict::new(py);
        arguments.set_item("file", &self.file)?;
        arguments.set_item("position", self.position.map(|(position, _)| position))?;
        arguments.set_item("unit", self.position.map(|(_, unit)| unit))?;
        let class = py.import(intern!(py, "unspool.errors"))?.getattr(self.class.name())?;
        let exception = PyErr::from_value(class.call((self.message,), Some(&arguments))?);
        exception.set_cause(py, self.system.map(|code| io::Error::from_raw_os_error(code).into()));
        Ok(exception)
    }
}

fn class_of(error: &Error) -> Class {
    match error {
        Error::Steps(error) if error.is_damage => Class::Damaged,
        Error::Frame(_) | Error::File(FileError::Damaged(_)) => Class::Damaged,
        Error::NoSource { .. } | Error::SharedId { .. } | Error::WhichSource { .. } | Error::NotCovered { .. } => {
            Class::Selection
        }
        Error::Capture(_)
        | Error::File(_)
        | Error::Read { .. }
        | Error::UnknownProtocol { .. }
        | Error::NoInstructions { .. }
        | Error::NoTraceId { .. }
        | Error::WrongKind(_) => Class::Open,
        _ => Class::Error,
    }
}

/// Errors of writers, with what positions in their input count.
pub(crate) trait Failing {
    fn failure(&self, unit: &'static str) -> Failure;
}

impl Failing for Error {
    fn failure(&self, unit: &'static str) -> Failure {
        Failure::library(self, unit)
    }
}

impl Failing for unspool_tables::Error {
    fn failure(&self, unit: &'static str) -> Failure {
        match self {
            Self::Trace(error) => Failure::library(error, unit),
            Self::File { .. } | Self::Occupied { .. } => Failure::of(Class::Write, self),
            _ => Failure::of(Class::Error, self),
        }
    }
}

impl Failing for SinkError {
    fn failure(&self, unit: &'static str) -> Failure {
        Failure::sink(self, unit)
    }
}

impl Failing for io::Error {
    fn failure(&self, _unit: &'static str) -> Failure {
        Failure::of(Class::Write, self)
    }
}

impl Failing for OpenSinkError {
    fn failure(&self, unit: &'static str) -> Failure {
        match self {
            Self::Write(error) => Failure::of(Class::Write, error),
            Self::Sink(error) => Failure::sink(error, unit),
        }
    }
}

impl Failing for TransferError {
    fn failure(&self, unit: &'static str) -> Failure {
        match self {
            Self::Source(error) => Failure::source(error, unit),
            Self::Sink(error) => Failure::sink(error, unit),
            Self::NoCore { .. } => Failure::of(Class::Selection, self),
        }
    }
}

impl Failing for EncodeError {
    fn failure(&self, unit: &'static str) -> Failure {
        match self {
            Self::Source(error) => Failure::source(error, unit),
            Self::Sink(error) => Failure::sink(error, unit),
        }
    }
}

impl Failing for NativeError {
    fn failure(&self, _unit: &'static str) -> Failure {
        Failure::of(if matches!(self, Self::File(_)) { Class::Open } else { Class::Write }, self)
    }
}

/// Does work of the library with the interpreter lock released. A panic becomes an exception.
pub(crate) fn unlocked<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    done.map_err(|thrown| Failure::panic(&*thrown).into_exception(py))
}

/// Panics where the library would.
#[cfg(feature = "test-support")]
#[pyfunction]
#[allow(clippy::panic, reason = "this is what is tested")]
pub(crate) fn panic_in_library(py: Python<'_>) -> PyResult<()> {
    unlocked(py, || panic!("as the test wants it"))
}
