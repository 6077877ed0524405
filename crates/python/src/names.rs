//! Names that values of the model have in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unspool::isa::Isa;
use unspool::model::{Direction, ExceptionKind, Facet, Gap, Security, TimeUnit};

const DIRECTIONS: [Direction; 4] = [Direction::Read, Direction::Write, Direction::Both, Direction::Neither];

const EXCEPTIONS: [ExceptionKind; 7] = [
    ExceptionKind::Unknown,
    ExceptionKind::Reset,
    ExceptionKind::Synchronous,
    ExceptionKind::Irq,
    ExceptionKind::Fiq,
    ExceptionKind::SError,
    ExceptionKind::Debug,
];

const SECURITIES: [Security; 4] = [Security::Secure, Security::NonSecure, Security::Root, Security::Realm];

/// Gaps that can be written.
const GAPS: [Gap; 5] = [Gap::Start, Gap::Overflow, Gap::Discard, Gap::Damaged, Gap::Contradiction];

const TIME_UNITS: [(&str, TimeUnit); 6] = [
    ("s", TimeUnit::Seconds(0)),
    ("ms", TimeUnit::Seconds(-3)),
    ("us", TimeUnit::Seconds(-6)),
    ("ns", TimeUnit::Seconds(-9)),
    ("ps", TimeUnit::Seconds(-12)),
    ("cycles", TimeUnit::Cycles),
];

fn named<T: Copy>(names: &[(&'static str, T)], what: &str, wanted: &str) -> PyResult<T> {
    let found = names.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("unknown {what} '{wanted}': {}", known.join(", ")))
    })
}

pub(crate) fn direction(name: &str) -> PyResult<Direction> {
    named(&DIRECTIONS.map(|value| (value.name(), value)), "direction", name)
}

pub(crate) fn exception_kind(name: &str) -> PyResult<ExceptionKind> {
    named(&EXCEPTIONS.map(|value| (value.name(), value)), "kind of exception", name)
}

pub(crate) fn security(name: &str) -> PyResult<Security> {
    named(&SECURITIES.map(|value| (value.name(), value)), "Security state", name)
}

pub(crate) fn gap(name: &str) -> PyResult<Gap> {
    named(&GAPS.map(|value| (value.name(), value)), "gap", name)
}

/// Name of a unit of time; `None`: ticks of unknown length, or an unusual power of ten.
pub(crate) fn time_unit_name(unit: TimeUnit) -> Option<&'static str> {
    TIME_UNITS.iter().find(|(_, known)| *known == unit).map(|(name, _)| *name)
}

pub(crate) fn time_unit(name: Option<&str>) -> PyResult<TimeUnit> {
    name.map_or(Ok(TimeUnit::Unknown), |name| named(&TIME_UNITS, "unit of time", name))
}

pub(crate) fn isa(name: &str) -> PyResult<Isa> {
    named(&Isa::ALL.map(|isa| (isa.name(), isa)), "instruction set", name)
}

pub(crate) fn facet(name: &str) -> PyResult<Facet> {
    named(&Facet::ALL.map(|facet| (facet.name(), facet)), "kind of information", name)
}
