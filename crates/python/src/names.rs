//! Names that values of the model have in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unspool::isa::Isa;
use unspool::model::{Direction, ExceptionKind, Facet, Gap, Security, TimeUnit};

const DIRECTIONS: [(&str, Direction); 4] = [
    ("read", Direction::Read),
    ("write", Direction::Write),
    ("both", Direction::Both),
    ("neither", Direction::Neither),
];

const EXCEPTIONS: [(&str, ExceptionKind); 7] = [
    ("unknown", ExceptionKind::Unknown),
    ("reset", ExceptionKind::Reset),
    ("synchronous", ExceptionKind::Synchronous),
    ("irq", ExceptionKind::Irq),
    ("fiq", ExceptionKind::Fiq),
    ("serror", ExceptionKind::SError),
    ("debug", ExceptionKind::Debug),
];

const SECURITIES: [(&str, Security); 4] = [
    ("secure", Security::Secure),
    ("nonsecure", Security::NonSecure),
    ("root", Security::Root),
    ("realm", Security::Realm),
];

/// Gaps that can be written.
const GAPS: [(&str, Gap); 5] = [
    ("start", Gap::Start),
    ("overflow", Gap::Overflow),
    ("discard", Gap::Discard),
    ("damaged", Gap::Damaged),
    ("contradiction", Gap::Contradiction),
];

const TIME_UNITS: [(&str, TimeUnit); 6] = [
    ("s", TimeUnit::Seconds(0)),
    ("ms", TimeUnit::Seconds(-3)),
    ("us", TimeUnit::Seconds(-6)),
    ("ns", TimeUnit::Seconds(-9)),
    ("ps", TimeUnit::Seconds(-12)),
    ("cycles", TimeUnit::Cycles),
];

fn name_of<T: PartialEq + Copy>(names: &[(&'static str, T)], wanted: T) -> Option<&'static str> {
    names.iter().find(|(_, value)| *value == wanted).map(|(name, _)| *name)
}

fn named<T: Copy>(names: &[(&'static str, T)], what: &str, wanted: &str) -> PyResult<T> {
    let found = names.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("unknown {what} '{wanted}': {}", known.join(", ")))
    })
}

pub(crate) fn direction_name(direction: Direction) -> &'static str {
    name_of(&DIRECTIONS, direction).unwrap_or_default()
}

pub(crate) fn direction(name: &str) -> PyResult<Direction> {
    named(&DIRECTIONS, "direction", name)
}

pub(crate) fn exception_name(kind: ExceptionKind) -> &'static str {
    name_of(&EXCEPTIONS, kind).unwrap_or_default()
}

pub(crate) fn exception_kind(name: &str) -> PyResult<ExceptionKind> {
    named(&EXCEPTIONS, "kind of exception", name)
}

pub(crate) fn security_name(security: Security) -> &'static str {
    name_of(&SECURITIES, security).unwrap_or_default()
}

pub(crate) fn security(name: &str) -> PyResult<Security> {
    named(&SECURITIES, "Security state", name)
}

pub(crate) fn gap_name(gap: Gap) -> &'static str {
    match gap {
        Gap::NoCode(_) => "no-code",
        Gap::TransactionFailed => "transaction-failed",
        gap => name_of(&GAPS, gap).unwrap_or_default(),
    }
}

pub(crate) fn gap(name: &str) -> PyResult<Gap> {
    named(&GAPS, "gap", name)
}

/// Name of a unit of time; `None`: ticks of unknown length, or an unusual power of ten.
pub(crate) fn time_unit_name(unit: TimeUnit) -> Option<&'static str> {
    name_of(&TIME_UNITS, unit)
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
