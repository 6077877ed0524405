//! Logs through the parser, the restyler, the checker and the machine, as several tests need them.

use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_tarmac::check::{Checker, Finding};
use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::read::{Position, ReadOptions, Reader, lines};
use unspool_tarmac::record::Line;
use unspool_tarmac::restyle::{Losses, Restyler};
use unspool_tarmac::state::Machine;

/// Parses all lines of a log. Instructions without an instruction set are Thumb.
pub(crate) fn each_line(log: &[u8], mut sink: impl FnMut(Position, &Line<'_>)) {
    let mut parser = Parser::new(ParseOptions { implicit_thumb: true });
    for (line, (offset, raw)) in (1..).zip(lines(log)) {
        sink(Position { line, offset: offset as u64 }, &parser.parse(raw));
    }
}

/// Reads all lines of a log, and returns its dialect.
pub(crate) fn read_lines(log: &[u8], mut sink: impl FnMut(Position, &Line<'_>)) -> Dialect {
    let mut reader = Reader::new(log, ReadOptions::default()).unwrap();
    let read = reader.each(|position, line| {
        sink(position, line);
        ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
    reader.dialect()
}

pub(crate) fn restyle(mut restyler: Restyler, log: &[u8]) -> (Vec<u8>, Losses) {
    let mut out = Vec::new();
    each_line(log, |position, line| restyler.line(position, line, &mut out));
    restyler.finish(&mut out);
    (out, restyler.losses().clone())
}

pub(crate) fn check(dialect: Dialect, log: &[u8]) -> Vec<Finding> {
    let (mut checker, mut findings) = (Checker::new(dialect), Vec::new());
    each_line(log, |position, line| checker.push(position, line, &mut |finding| findings.push(finding)));
    checker.finish(&mut |finding| findings.push(finding));
    findings
}

/// The machine after all lines of a log.
pub(crate) fn machine(is_big_endian: bool, log: &[u8]) -> Machine {
    let mut machine = Machine::new(is_big_endian, 0);
    each_line(log, |position, line| {
        machine.line(position.line, line);
    });
    machine
}

/// One of these lines, perhaps with one more character.
pub(crate) fn any_line_like(known: Vec<String>) -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(known.clone()),
        2 => (prop::sample::select(known), any::<prop::sample::Index>(), "[ -~]").prop_map(|(mut line, at, letter)| {
            line.insert_str(at.index(line.len().max(1)).min(line.len()), &letter);
            line
        }),
    ]
}
