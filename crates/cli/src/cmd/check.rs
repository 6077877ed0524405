//! `check`: does a trace file keep to the rules of its format?

use std::collections::BTreeMap;
use std::io::{self, Write};

use unspool::formats::astf::check::{Checker, Finding, Rule, Severity};

use super::{grouped, many};
use crate::Verdict;
use crate::args::OutputArgs;
use crate::astf::{Astf, End, FileArgs};
use crate::json::Object;
use crate::output::Output;
use crate::progress::Progress;

/// Check an ASTF file against the rules of its format; each finding has a stable rule name and a place
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
  unspool check trace.astf --limit 3 --deny-warnings
  unspool check trace.astf --json | jq -r .rule | sort | uniq -c

Errors are what the format forbids: exit code 1. Warnings are what it advises against: exit code 0.
Offsets are those of the records when nothing is compressed.";

/// Checks.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let Some(mut file) = Astf::open(&args.file.file, None)? else { return Ok(Verdict::Problems) };
    let mut output = Output::open_for(&args.output, &args.file.file)?;
    let mut progress = Progress::new(output.on_terminal);
    let mut checker = Checker::new();
    let mut report = Report::new(args, file.name());
    let end = file.each(&mut progress, |_, records| {
        for record in records {
            checker.push(record, &mut |finding| report.add(&finding, &mut output));
        }
        report.records += records.len() as u64;
        Ok(output.is_open())
    });
    // Of a trace that breaks off it cannot be said what is missing.
    if matches!(end, Ok(End::Whole)) {
        checker.finish(&mut |finding| report.add(&finding, &mut output));
    }
    output.write(|out| report.summary(out));
    output.finish()?;
    let verdict = end?.verdict();
    Ok(if report.is_bad(args.deny_warnings) { Verdict::Problems } else { verdict })
}

/// What was found.
struct Report<'a> {
    name: String,
    args: &'a Args,
    records: u64,
    /// How often each rule was broken.
    rules: BTreeMap<&'static str, (&'static Rule, u64)>,
    line: String,
}

impl<'a> Report<'a> {
    fn new(args: &'a Args, name: &str) -> Self {
        Self { name: name.to_string(), args, records: 0, rules: BTreeMap::new(), line: String::new() }
    }

    fn add(&mut self, finding: &Finding, output: &mut Output) {
        let (_, count) = self.rules.entry(finding.rule.name).or_insert((finding.rule, 0));
        *count += 1;
        if self.args.limit.is_some_and(|limit| *count > limit) {
            return;
        }
        let Finding { rule, record, offset, detail } = finding;
        if !self.args.output.json {
            return output.write(|out| {
                writeln!(out, "{}: record {record} at offset {offset:#x}: {}: {detail}", self.name, rule.name)
            });
        }
        let mut object = Object::new(&mut self.line);
        object.string("kind", "finding").plain("record", record).plain("offset", offset).string("rule", rule.name);
        object.string("severity", severity_name(rule.severity)).string("section", rule.section);
        object.string("detail", detail);
        output.write(|out| object.finish(out));
    }

    fn count(&self, severity: Severity) -> u64 {
        self.rules.values().filter(|(rule, _)| rule.severity == severity).map(|(_, count)| count).sum()
    }

    fn is_bad(&self, deny_warnings: bool) -> bool {
        self.count(Severity::Error) > 0 || deny_warnings && self.count(Severity::Warning) > 0
    }

    fn summary(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let [errors, warnings] = [Severity::Error, Severity::Warning].map(|severity| self.count(severity));
        if self.args.output.json {
            let rules: BTreeMap<&str, u64> = self.rules.iter().map(|(name, (_, count))| (*name, *count)).collect();
            let mut object = Object::new(&mut self.line);
            object.string("kind", "summary").plain("records", self.records).plain("errors", errors);
            object.plain("warnings", warnings).plain("rules", serde_json::json!(rules));
            return object.finish(out);
        }
        let records = many(self.records, "record");
        if self.rules.is_empty() {
            return writeln!(out, "{}: {records}, nothing found", self.name);
        }
        writeln!(out, "{}: {records}, {}, {}", self.name, many(errors, "error"), many(warnings, "warning"))?;
        for (rule, count) in self.rules.values() {
            let severity = severity_name(rule.severity);
            writeln!(out, "{:>10} {severity:<7} {} ({}): {}", grouped(*count), rule.name, rule.section, rule.says)?;
        }
        Ok(())
    }
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}
