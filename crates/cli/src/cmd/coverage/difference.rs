//! What is covered in one of two reports only.

use std::collections::BTreeSet;
use std::io::{self, Write};

use unspool::coverage::Report;
use unspool::model::json::Object;
use unspool::number::{grouped, many};

use crate::symbols::{printable, symbol_text};

/// Lines and functions that only one report covers.
#[derive(Debug, Default)]
pub(super) struct Difference {
    gained: Covered,
    lost: Covered,
}

#[derive(Debug, Default)]
struct Covered {
    lines: BTreeSet<(String, u32)>,
    functions: BTreeSet<(String, String)>,
}

impl Covered {
    fn of(report: &Report) -> Self {
        let files = report.files.iter().flat_map(|(path, lines)| lines.iter().map(move |line| (path, line)));
        let lines =
            files.filter(|(_, (_, line))| line.is_covered()).map(|(path, (number, _))| (path.to_string(), *number));
        let functions = report.images.iter().flat_map(|image| image.functions.iter().map(move |it| (image, it)));
        let functions = functions.filter(|(_, function)| function.is_covered());
        let functions = functions.map(|(image, function)| (image.name.clone(), function.name.clone()));
        Self { lines: lines.collect(), functions: functions.collect() }
    }

    /// What this has and the other has not.
    fn without(&self, other: &Self) -> Self {
        Self {
            lines: self.lines.difference(&other.lines).cloned().collect(),
            functions: self.functions.difference(&other.functions).cloned().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.functions.is_empty()
    }
}

impl Difference {
    pub(super) fn new(old: &Report, new: &Report) -> Self {
        let (old, new) = (Covered::of(old), Covered::of(new));
        Self { gained: new.without(&old), lost: old.without(&new) }
    }

    /// Is something no longer covered?
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        for (sign, covered) in [('-', &self.lost), ('+', &self.gained)] {
            for (_, function) in &covered.functions {
                writeln!(out, "{sign} function {}", printable(&symbol_text((function, 0))))?;
            }
            for (path, line) in &covered.lines {
                writeln!(out, "{sign} {}:{line}", printable(path))?;
            }
        }
        let count = |covered: &Covered| {
            let functions = many(covered.functions.len() as u64, "function");
            format!("{} and {functions}", many(covered.lines.len() as u64, "line"))
        };
        let none = grouped(0);
        match self.lost.is_empty() && self.gained.is_empty() {
            true => writeln!(out, "the same lines and functions are covered: {none} differences"),
            false => writeln!(out, "{} newly covered, {} no longer covered", count(&self.gained), count(&self.lost)),
        }
    }

    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        for (change, covered) in [("lost", &self.lost), ("gained", &self.gained)] {
            for (image, function) in &covered.functions {
                let mut object = Object::new(&mut text);
                object.string("kind", "function_difference").string("change", change).string("image", image);
                object.string("name", symbol_text((function, 0))).write_line(out)?;
            }
            for (path, line) in &covered.lines {
                let mut object = Object::new(&mut text);
                object.string("kind", "line_difference").string("change", change).string("path", path);
                object.plain("line", line).write_line(out)?;
            }
        }
        Ok(())
    }
}
