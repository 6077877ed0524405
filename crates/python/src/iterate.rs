//! Iteration: batches of items are taken from the library with the interpreter lock released, and handed out one by one.
//!
//! ```text
//! decoding thread ─▶ Items ─▶ **batch**, without the lock ─▶ next, next, next
//! ```

use std::sync::{Mutex, PoisonError};
use std::vec::IntoIter;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unspool::{Error, Items};

use crate::errors::{Class, Failure, unlocked};

/// What iteration does at damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtDamage {
    /// Raises it; the iterator continues after it.
    Raise,
    /// Puts it into a list.
    Collect,
}

impl AtDamage {
    pub(crate) fn parse(text: &str) -> PyResult<Self> {
        match text {
            "raise" => Ok(Self::Raise),
            "collect" => Ok(Self::Collect),
            _ => Err(PyValueError::new_err(format!("damage is 'raise' or 'collect', not '{text}'"))),
        }
    }
}

/// The trace that an iterator reads, as errors name it.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) file: String,
    /// Unit of positions.
    pub(crate) unit: &'static str,
    pub(crate) at_damage: AtDamage,
}

impl Reading {
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        Failure::library(error, self.unit).in_file(&self.file)
    }
}

/// Items of a trace in the order of the trace.
pub(crate) struct Batches<T> {
    /// Never locked: it makes the iterator shareable, as Python demands.
    items: Mutex<Items<T>>,
    batch: IntoIter<T>,
    reading: Reading,
    damage: Vec<Py<PyAny>>,
}

impl<T: Send + 'static> Batches<T> {
    /// Items that the library opens.
    pub(crate) fn open(
        py: Python<'_>,
        reading: Reading,
        open: impl FnOnce() -> Result<Items<T>, Error> + Send,
    ) -> PyResult<Self> {
        let items = unlocked(py, open)?.map_err(|error| reading.failure(&error).into_exception(py))?;
        Ok(Self { items: Mutex::new(items), batch: Vec::new().into_iter(), reading, damage: Vec::new() })
    }

    #[inline]
    pub(crate) fn next(&mut self, py: Python<'_>) -> PyResult<Option<T>> {
        match self.batch.next() {
            Some(item) => Ok(Some(item)),
            None => self.fetch(py),
        }
    }

    /// The first item of the next batch.
    fn fetch(&mut self, py: Python<'_>) -> PyResult<Option<T>> {
        loop {
            let items = self.items.get_mut().unwrap_or_else(PoisonError::into_inner);
            match unlocked(py, || items.next_batch())? {
                None => return Ok(None),
                Some(Ok(batch)) => self.batch = batch.into_iter(),
                Some(Err(error)) => self.fail(py, &error)?,
            }
            if let Some(item) = self.batch.next() {
                return Ok(Some(item));
            }
        }
    }

    fn fail(&mut self, py: Python<'_>, error: &Error) -> PyResult<()> {
        let failure = self.reading.failure(error);
        let is_collected = matches!(failure.class, Class::Damaged) && self.reading.at_damage == AtDamage::Collect;
        let exception = failure.into_exception(py);
        if !is_collected {
            return Err(exception);
        }
        self.damage.push(exception.into_value(py).into_any());
        Ok(())
    }

    /// The damage that was collected so far.
    pub(crate) fn damage(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.damage.iter().map(|error| error.clone_ref(py)).collect()
    }
}

/// Declares the class of an iterator.
macro_rules! iterator {
    ($(#[$doc:meta])* $name:ident of $item:ty as $class:ty, $make:expr) => {
        $(#[$doc])*
        #[pyclass(module = "unspool")]
        pub(crate) struct $name {
            pub(crate) batches: $crate::iterate::Batches<$item>,
        }

        #[pymethods]
        impl $name {
            fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
                slf
            }

            fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<$class>> {
                Ok(self.batches.next(py)?.map($make))
            }

            /// Damage that was met so far, as exceptions, if iteration collects it.
            #[getter]
            fn damage(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
                self.batches.damage(py)
            }
        }
    };
}

pub(crate) use iterator;
