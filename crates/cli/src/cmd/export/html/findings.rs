//! Findings of a check on a page: each broken rule with its count and its first finding.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use unspool::check::{Broken, Check, Found, TraceChecks};
use unspool::export::html::Table;
use unspool::file::is_pipe;
use unspool::model::rule::Severity;
use unspool::number::{grouped, many};
use unspool::{FileKind, open_capture};

use crate::diagnostic;
use crate::listing::each_trace;
use crate::programs::Programs;
use crate::traces::{ReadArgs, name_of};
use crate::verdict::Verdict;

/// The table of what a check of traces finds, which are read again.
pub(super) fn table(files: &[PathBuf], read: &ReadArgs) -> Table {
    let table = |note: String| Table { id: "findings", title: "Findings".to_string(), note, ..Table::default() };
    let (mut rows, mut total, mut notes) = (Vec::new(), Check::default(), Vec::new());
    for file in files {
        if is_pipe(file) {
            notes.push(format!("{}: not checked: a pipe can be read only once.", name_of(file)));
            continue;
        }
        let mut checked = Checked::default();
        let result = {
            // What cannot be read was reported when the trace was read for its calls.
            let _muted = diagnostic::mute();
            checked.file(file, read)
        };
        if let Err(error) = result {
            notes.push(format!("{}: {error:#}.", name_of(file)));
        }
        rows.extend(checked.check.rules().map(|broken| checked.row(file, &broken)));
        total.append(&checked.check);
    }
    let [errors, warnings] = [Severity::Error, Severity::Warning].map(|severity| total.count(severity));
    let counts =
        format!("{}, {}. 'unspool check' lists all of them.", many(errors, "error"), many(warnings, "warning"));
    notes.insert(0, if errors + warnings == 0 { "None.".to_string() } else { counts });
    let columns = vec!["file", "severity", "rule", "count", "first at", "first finding"];
    Table { columns, rows, ..table(notes.join(" ")) }
}

/// The check of a file.
#[derive(Default)]
struct Checked {
    check: Check,
    /// Position and details of the first finding of each rule.
    first: BTreeMap<&'static str, (String, String)>,
}

impl Checked {
    fn file(&mut self, path: &Path, read: &ReadArgs) -> anyhow::Result<()> {
        if read.is_capture(path) {
            return self.capture(path, read);
        }
        let (mut file, first) = (read.reopen(path)?, &mut self.first);
        let unit = file.kind().unit();
        let mut take = |found: &Found<'_>, _: u64| note_first(first, unit, "", found);
        self.check.file(&mut file, &mut |_, _| {}, &mut take)?;
        let file = read.reopen(path)?;
        let (kind, (mut steps, meter)) = (file.kind(), file.into_steps(false));
        self.check.steps(kind, &mut *steps, (&meter, &mut |_, _| {}), &mut take)?;
        Ok(())
    }

    fn capture(&mut self, path: &Path, read: &ReadArgs) -> anyhow::Result<()> {
        let capture = open_capture(path)?;
        let mut programs = Programs::new(read.processes.codes(&read.images)?, read.processes.load()?);
        programs.start(&capture);
        let (mut buffers, this) = (BTreeSet::new(), RefCell::new(self));
        each_trace(&capture, read.sources(), |trace| {
            trace.features()?;
            let program = programs.of(&capture, trace.source().core);
            let frames = buffers.insert(trace.buffer_index());
            let checks = TraceChecks { native: true, frames, steps: true, threads: read.jobs.count() };
            let Self { check, first } = &mut **this.borrow_mut();
            let source = format!(" of {}", trace.source().name);
            let unit = FileKind::Capture.unit();
            let mut take = |found: &Found<'_>, _: u64| note_first(first, unit, &source, found);
            check.trace(trace, program, checks, &mut |_, _| {}, &mut take)?;
            Ok(Verdict::Clean)
        })?;
        Ok(())
    }

    fn row(&self, file: &Path, broken: &Broken) -> Vec<String> {
        let (at, what) = self.first.get(broken.rule.name).cloned().unwrap_or_default();
        let (severity, rule) = (broken.severity.to_string(), broken.rule.name.to_string());
        vec![name_of(file), severity, rule, grouped(broken.count), at, what]
    }
}

type First = BTreeMap<&'static str, (String, String)>;

/// Keeps the first finding of a rule.
fn note_first(first: &mut First, unit: &str, source: &str, found: &Found<'_>) -> bool {
    let at = || (format!("{unit} {}{source}", found.position), found.detail.to_string());
    first.entry(found.rule.name).or_insert_with(at);
    true
}
