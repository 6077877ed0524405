//! Instructions per source line, source file or module, as text and as JSON.

use std::io::{self, Write};

use unspool::Program;
use unspool::analyze::address_counts::AddressCounts;
use unspool::coverage::ExecutedImages;
use unspool::line_profile::{CodeOrigin, LineGroup, LineProfile};
use unspool::model::json::Object;

use super::{Args, percent};
use crate::counting::count;
use crate::file::each_file;
use crate::json::write_summary;
use crate::source_lines::{report_lines, source_lines};
use crate::symbols::printable;
use crate::traces::{EachOptions, OpenTrace};
use crate::verdict::Verdict;

/// Prints a table for each trace.
pub(super) fn run(args: &Args, group: LineGroup) -> anyhow::Result<Verdict> {
    let read = &args.calls.read;
    let mut output = args.calls.open_output(&args.output)?;
    let lines = source_lines(&read.processes.load()?, &read.images);
    let mut totals = Totals::default();
    let verdict = each_file(&args.calls.files, |_, file| {
        read.each(file, EachOptions::default(), &mut |trace| {
            let mut executed = ExecutedImages::default();
            let mut add = |counts: &AddressCounts, program: &Program| executed.add(counts, program);
            let verdict = count(trace, &args.selection, read, &mut add)?;
            let profile = LineProfile::new(&executed, &lines, group);
            let at_least = executed.is_lower_bound();
            let table = Table { args, group, profile: &profile, at_least, number: totals.tables };
            output.write(|out| table.write(trace, out));
            totals.add(&profile, at_least);
            Ok(verdict)
        })
    })?;
    report_lines(Some(&lines));
    if args.output.json {
        write_summary(&mut output, "profile", verdict, |object| totals.put(object));
    }
    output.finish()?;
    Ok(verdict)
}

/// Totals of all traces.
#[derive(Default)]
struct Totals {
    tables: u64,
    rows: u64,
    total: u64,
    at_least: bool,
}

impl Totals {
    fn add(&mut self, profile: &LineProfile, at_least: bool) {
        self.tables += 1;
        self.rows += profile.rows.len() as u64;
        self.total += profile.total;
        self.at_least |= at_least;
    }

    fn put(&self, object: &mut Object<'_>) {
        object.plain("rows", self.rows).string("weight", "instructions").string("unit", "");
        object.plain("total", self.total).flag("at_least", self.at_least);
    }
}

/// Rows of one trace.
struct Table<'a> {
    args: &'a Args,
    group: LineGroup,
    profile: &'a LineProfile,
    at_least: bool,
    /// Number of tables before it.
    number: u64,
}

impl Table<'_> {
    fn write(&self, trace: &OpenTrace, out: &mut dyn Write) -> io::Result<()> {
        if self.args.output.json {
            return self.json(trace, out);
        }
        if self.args.calls.files.len() > 1 || !trace.is_only_source {
            writeln!(out, "{}# {}", if self.number > 0 { "\n" } else { "" }, trace.name())?;
        }
        self.text(out)
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (at_least, total) = (if self.at_least { "at least " } else { "" }, self.profile.total);
        writeln!(out, "# instructions, {at_least}{total} in total")?;
        writeln!(out, "# {:>14} {:>6}  {}", "self", "%", self.kind())?;
        for (origin, count) in &self.profile.rows {
            writeln!(out, "{count:>16} {:>6}  {}", percent(*count, total), printable(&text_of(origin)))?;
        }
        Ok(())
    }

    fn json(&self, trace: &OpenTrace, out: &mut dyn Write) -> io::Result<()> {
        let core = trace.source.as_ref().filter(|_| !trace.is_only_source).map_or("", |(name, _)| name);
        let mut line = String::new();
        for (origin, count) in &self.profile.rows {
            let mut object = Object::new(&mut line);
            object.string("kind", self.kind()).string("core", core);
            let (file, number, module) = match origin {
                CodeOrigin::Line(position) => (Some(&position.file), Some(position.line), None),
                CodeOrigin::File(file) => (Some(file), None, None),
                CodeOrigin::Module(module) => (None, None, Some(module)),
                CodeOrigin::Unknown(module) => (None, None, module.as_ref()),
            };
            if self.group != LineGroup::Module {
                object.nullable_string("file", file);
            }
            if self.group == LineGroup::Line {
                object.nullable("line", number);
            }
            if file.is_none() {
                object.nullable_string("module", module);
            }
            object.plain("self", count).write_line(out)?;
        }
        Ok(())
    }

    fn kind(&self) -> &'static str {
        match self.group {
            LineGroup::Line => "line",
            LineGroup::File => "file",
            LineGroup::Module => "module",
        }
    }
}

fn text_of(origin: &CodeOrigin) -> String {
    match origin {
        CodeOrigin::Line(position) => position.to_string(),
        CodeOrigin::File(name) | CodeOrigin::Module(name) => name.to_string(),
        CodeOrigin::Unknown(Some(module)) => format!("unknown line in {module}"),
        CodeOrigin::Unknown(None) => "unknown: in no image".to_string(),
    }
}
