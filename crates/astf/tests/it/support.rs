//! Helpers that several tests share.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use unspool_astf::Bytes;
use unspool_astf::check::{Checker, Finding, Severity};
use unspool_astf::lift::{Item, Lifter};
use unspool_astf::lower::{LowerOptions, Lowerer, header};
use unspool_model::{Losses, StepSink, StepSource};

/// All findings about a trace.
pub(crate) fn findings(records: &[Bytes]) -> Vec<Finding> {
    let (mut checker, mut findings) = (Checker::new(), Vec::new());
    records.iter().for_each(|record| checker.push(record, &mut |finding| findings.push(finding)));
    checker.finish(&mut |finding| findings.push(finding));
    findings
}

pub(crate) fn assert_no_errors(records: &[Bytes], name: &str) {
    let mut errors = findings(records);
    errors.retain(|finding| finding.rule.severity == Severity::Error);
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

/// Lowers all steps of a source, with a header that fits it.
pub(crate) fn lower_source(source: &mut impl StepSource, options: &LowerOptions) -> (Vec<Bytes>, Losses) {
    let (coverage, unit) = (source.coverage(), source.time_unit());
    let header = header(coverage, unit, options).unwrap();
    let mut lowerer = Lowerer::new(vec![header.to_bytes()], &header, coverage, unit, options).unwrap();
    source
        .each(&mut |step| {
            lowerer.push(step).unwrap();
            ControlFlow::Continue(())
        })
        .unwrap();
    lowerer.finish().unwrap();
    let losses = lowerer.losses().clone();
    (lowerer.into_sink(), losses)
}

/// Lifts all records of a trace.
pub(crate) fn lift(records: &[Bytes], mut emit: impl FnMut(u64, Item<'_>)) {
    let mut lifter = Lifter::new();
    records.iter().for_each(|record| lifter.push(record, &mut emit));
    lifter.finish(&mut emit);
}
