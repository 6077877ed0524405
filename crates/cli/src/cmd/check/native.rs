//! The rules of each format.
//!
//! Comes in: a file of one of the formats. Goes out: findings into the report, and whether the file is whole.

use unspool::stf::read::Place;
use unspool::{astf, stf, tarmac};

use super::report::{Found, Report, Rule};
use crate::Verdict;
use crate::astf::{Astf, End};
use crate::file::Opened;
use crate::output::Output;
use crate::progress::Progress;
use crate::stf::Stf;
use crate::tarmac::Tarmac;

/// Checks a file against the rules of its format.
pub(super) fn check(file: Opened, report: &mut Report<'_>, output: &mut Output) -> anyhow::Result<Verdict> {
    let mut progress = Progress::new(output.on_terminal);
    match file {
        Opened::Astf(file) => check_astf(file, report, output, &mut progress),
        Opened::Stf(file) => check_stf(file, report, output, &mut progress),
        Opened::Tarmac(file) => check_tarmac(file, report, output, &mut progress),
    }
}

fn check_astf(
    mut file: Astf,
    report: &mut Report<'_>,
    output: &mut Output,
    progress: &mut Progress,
) -> anyhow::Result<Verdict> {
    report.begin(file.name(), "record");
    let mut checker = astf::check::Checker::new();
    let end = file.each(progress, |_, records| {
        for record in records {
            checker.push(record, &mut |finding| report.add(&of_astf(&finding), output));
        }
        report.records += records.len() as u64;
        Ok(output.is_open())
    });
    // Of a trace that breaks off it cannot be said what is missing.
    if matches!(end, Ok(End::Whole)) {
        checker.finish(&mut |finding| report.add(&of_astf(&finding), output));
    }
    Ok(end?.verdict())
}

fn check_stf(
    mut file: Stf,
    report: &mut Report<'_>,
    output: &mut Output,
    progress: &mut Progress,
) -> anyhow::Result<Verdict> {
    report.begin(file.name(), "record");
    let mut checker = stf::check::Checker::new();
    let end = file.each(progress, |place, record| {
        checker.push(place, record, &mut |finding| report.add(&of_stf(&finding), output));
        report.records += 1;
        output.is_open()
    });
    if matches!(end, Ok(End::Whole)) {
        checker.finish(&mut |finding| report.add(&of_stf(&finding), output));
    }
    let verdict = crate::stf::verdict(&mut file, &end?);
    // What is odd about the container has no rule, but it was told.
    report.is_odd = !file.warnings().is_empty();
    Ok(verdict)
}

fn check_tarmac(
    mut file: Tarmac,
    report: &mut Report<'_>,
    output: &mut Output,
    progress: &mut Progress,
) -> anyhow::Result<Verdict> {
    report.begin(file.name(), "line");
    let mut checker = tarmac::check::Checker::new(file.dialect());
    let end = file.each(progress, |place, line| {
        checker.push(place, line, &mut |finding| report.add(&of_tarmac(&finding), output));
        report.records += 1;
        output.is_open()
    });
    if matches!(end, Ok(End::Whole)) {
        checker.finish(&mut |finding| report.add(&of_tarmac(&finding), output));
    }
    Ok(end?.verdict())
}

fn of_astf(finding: &astf::check::Finding) -> Found<'_> {
    let astf::check::Rule { name, severity, section, says, .. } = *finding.rule;
    let rule = Rule { name, is_error: severity == astf::check::Severity::Error, section, says };
    Found { offset: Some(finding.offset), ..Found::new(rule, finding.record, &finding.detail) }
}

fn of_stf(finding: &stf::check::Finding) -> Found<'_> {
    let stf::check::Rule { name, severity, section, says, .. } = *finding.rule;
    let rule = Rule { name, is_error: severity == stf::check::Severity::Error, section, says };
    let Place { record, offset } = finding.place;
    let instruction = Some(finding.instruction);
    Found { offset: Some(offset), instruction, ..Found::new(rule, record, &finding.detail) }
}

fn of_tarmac(finding: &tarmac::check::Finding) -> Found<'_> {
    let tarmac::check::Rule { name, severity, section, says, .. } = *finding.rule;
    let rule = Rule { name, is_error: severity == tarmac::check::Severity::Error, section, says };
    let tarmac::read::Place { line, offset } = finding.place;
    let column = Some(finding.column);
    Found { offset: Some(offset), column, ..Found::new(rule, line, &finding.detail) }
}
