//! `check`: does a trace file keep to the rules of its format?

use std::collections::BTreeMap;
use std::io::{self, Write};

use unspool::formats::stf::read::Place;
use unspool::formats::{astf, stf, tarmac};

use super::{grouped, many};
use crate::Verdict;
use crate::args::OutputArgs;
use crate::astf::{Astf, End};
use crate::file::{FileArgs, Opened};
use crate::json::Object;
use crate::output::Output;
use crate::progress::Progress;
use crate::stf::Stf;
use crate::tarmac::Tarmac;

/// Check an ASTF or STF file or a Tarmac log against the rules of its format; each finding has a stable rule name and a place
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    file: FileArgs,

    /// Print at most N findings of each rule; the summary counts all
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Warnings are problems too: exit code 1
    #[arg(long)]
    deny_warnings: bool,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool check trace.astf
  unspool check trace.zstf --limit 3 --deny-warnings
  unspool check run.tarmac.xz
  unspool check trace.astf --json | jq -r .rule | sort | uniq -c

Errors are what the format forbids: exit code 1. Warnings are what it advises against: exit code 0.
Offsets are those of the records when nothing is compressed.";

/// Checks.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    match args.file.open(None)? {
        None => Ok(Verdict::Problems),
        Some(Opened::Astf(file)) => check_astf(args, file),
        Some(Opened::Stf(file)) => check_stf(args, file),
        Some(Opened::Tarmac(file)) => check_tarmac(args, file),
    }
}

fn check_astf(args: &Args, mut file: Astf) -> anyhow::Result<Verdict> {
    let mut output = Output::open_for(&args.output, &args.file.file)?;
    let mut progress = Progress::new(output.on_terminal);
    let mut checker = astf::check::Checker::new();
    let mut report = Report::new(args, file.name());
    let end = file.each(&mut progress, |_, records| {
        for record in records {
            checker.push(record, &mut |finding| report.add(&of_astf(&finding), &mut output));
        }
        report.records += records.len() as u64;
        Ok(output.is_open())
    });
    // Of a trace that breaks off it cannot be said what is missing.
    if matches!(end, Ok(End::Whole)) {
        checker.finish(&mut |finding| report.add(&of_astf(&finding), &mut output));
    }
    output.write(|out| report.summary(out));
    output.finish()?;
    let verdict = end?.verdict();
    Ok(if report.is_bad(args.deny_warnings) { Verdict::Problems } else { verdict })
}

fn check_stf(args: &Args, mut file: Stf) -> anyhow::Result<Verdict> {
    let mut output = Output::open_for(&args.output, &args.file.file)?;
    let mut progress = Progress::new(output.on_terminal);
    let mut checker = stf::check::Checker::new();
    let mut report = Report::new(args, file.name());
    let end = file.each(&mut progress, |place, record| {
        checker.push(place, record, &mut |finding| report.add(&of_stf(&finding), &mut output));
        report.records += 1;
        output.is_open()
    });
    if matches!(end, Ok(End::Whole)) {
        checker.finish(&mut |finding| report.add(&of_stf(&finding), &mut output));
    }
    output.write(|out| report.summary(out));
    output.finish()?;
    let verdict = crate::stf::verdict(&mut file, &end?);
    // What is odd about the container has no rule, but it was told.
    let is_odd = args.deny_warnings && !file.warnings().is_empty();
    Ok(if is_odd || report.is_bad(args.deny_warnings) { Verdict::Problems } else { verdict })
}

fn check_tarmac(args: &Args, mut file: Tarmac) -> anyhow::Result<Verdict> {
    let mut output = Output::open_for(&args.output, &args.file.file)?;
    let mut progress = Progress::new(output.on_terminal);
    let mut checker = tarmac::check::Checker::new(file.dialect());
    let mut report = Report { of: "line", ..Report::new(args, file.name()) };
    let end = file.each(&mut progress, |place, line| {
        checker.push(place, line, &mut |finding| report.add(&of_tarmac(&finding), &mut output));
        report.records += 1;
        output.is_open()
    });
    if matches!(end, Ok(End::Whole)) {
        checker.finish(&mut |finding| report.add(&of_tarmac(&finding), &mut output));
    }
    output.write(|out| report.summary(out));
    output.finish()?;
    let verdict = end?.verdict();
    Ok(if report.is_bad(args.deny_warnings) { Verdict::Problems } else { verdict })
}

/// A finding, of whatever format.
struct Found<'f> {
    rule: Rule,
    /// The number of the record, or of the line.
    record: u64,
    offset: u64,
    instruction: Option<u64>,
    column: Option<u32>,
    detail: &'f str,
}

/// A rule, of whatever format.
#[derive(Clone, Copy)]
struct Rule {
    name: &'static str,
    is_error: bool,
    section: &'static str,
    says: &'static str,
}

fn of_astf(finding: &astf::check::Finding) -> Found<'_> {
    let astf::check::Rule { name, severity, section, says, .. } = *finding.rule;
    let rule = Rule { name, is_error: severity == astf::check::Severity::Error, section, says };
    let (record, offset) = (finding.record, finding.offset);
    Found { rule, record, offset, instruction: None, column: None, detail: &finding.detail }
}

fn of_stf(finding: &stf::check::Finding) -> Found<'_> {
    let stf::check::Rule { name, severity, section, says, .. } = *finding.rule;
    let rule = Rule { name, is_error: severity == stf::check::Severity::Error, section, says };
    let Place { record, offset } = finding.place;
    Found { rule, record, offset, instruction: Some(finding.instruction), column: None, detail: &finding.detail }
}

fn of_tarmac(finding: &tarmac::check::Finding) -> Found<'_> {
    let tarmac::check::Rule { name, severity, section, says, .. } = *finding.rule;
    let rule = Rule { name, is_error: severity == tarmac::check::Severity::Error, section, says };
    let tarmac::read::Place { line, offset } = finding.place;
    Found { rule, record: line, offset, instruction: None, column: Some(finding.column), detail: &finding.detail }
}

/// What was found.
struct Report<'a> {
    name: String,
    args: &'a Args,
    /// What is counted.
    of: &'static str,
    records: u64,
    /// How often each rule was broken.
    rules: BTreeMap<&'static str, (Rule, u64)>,
    line: String,
}

impl<'a> Report<'a> {
    fn new(args: &'a Args, name: &str) -> Self {
        Self { name: name.to_string(), args, of: "record", records: 0, rules: BTreeMap::new(), line: String::new() }
    }

    fn add(&mut self, found: &Found<'_>, output: &mut Output) {
        let Found { rule, record, offset, instruction, column, detail } = *found;
        let (_, count) = self.rules.entry(rule.name).or_insert((rule, 0));
        *count += 1;
        if self.args.limit.is_some_and(|limit| *count > limit) {
            return;
        }
        if !self.args.output.json {
            if let Some(column) = column {
                return output.write(|out| {
                    writeln!(out, "{}: line {record}, column {column}: {}: {detail}", self.name, rule.name)
                });
            }
            let of = instruction.filter(|number| *number > 0);
            let of = of.map_or_else(String::new, |number| format!(" (instruction {number})"));
            return output.write(|out| {
                writeln!(out, "{}: record {record} at offset {offset:#x}{of}: {}: {detail}", self.name, rule.name)
            });
        }
        let mut object = Object::new(&mut self.line);
        object.string("kind", "finding").plain(self.of, record).optional("column", column).plain("offset", offset);
        object.optional("instruction", instruction).string("rule", rule.name);
        object.string("severity", severity_name(rule.is_error)).string("section", rule.section);
        object.string("detail", detail);
        output.write(|out| object.finish(out));
    }

    fn count(&self, is_error: bool) -> u64 {
        self.rules.values().filter(|(rule, _)| rule.is_error == is_error).map(|(_, count)| count).sum()
    }

    fn is_bad(&self, deny_warnings: bool) -> bool {
        self.count(true) > 0 || deny_warnings && self.count(false) > 0
    }

    fn summary(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let [errors, warnings] = [true, false].map(|is_error| self.count(is_error));
        if self.args.output.json {
            let rules: BTreeMap<&str, u64> = self.rules.iter().map(|(name, (_, count))| (*name, *count)).collect();
            let mut object = Object::new(&mut self.line);
            object.string("kind", "summary").plain(&format!("{}s", self.of), self.records).plain("errors", errors);
            object.plain("warnings", warnings).plain("rules", serde_json::json!(rules));
            return object.finish(out);
        }
        let records = many(self.records, self.of);
        if self.rules.is_empty() {
            return writeln!(out, "{}: {records}, nothing found", self.name);
        }
        writeln!(out, "{}: {records}, {}, {}", self.name, many(errors, "error"), many(warnings, "warning"))?;
        for (rule, count) in self.rules.values() {
            let severity = severity_name(rule.is_error);
            writeln!(out, "{:>10} {severity:<7} {} ({}): {}", grouped(*count), rule.name, rule.section, rule.says)?;
        }
        Ok(())
    }
}

fn severity_name(is_error: bool) -> &'static str {
    if is_error { "error" } else { "warning" }
}
