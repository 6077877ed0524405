//! What a conversion lost, for people or for programs.
//!
//! losses ─▶ **report** ─▶ lines of text or JSON objects, on the standard error: the standard output may be the trace

use std::io;

use unspool::model::{Loss, Losses};

use super::Args;
use crate::args::tell;
use crate::cmd::{grouped, many};
use crate::json::Object;
use crate::target::is_stream;

/// What was lost of a trace.
pub(super) struct Report<'a> {
    args: &'a Args,
    /// The trace, and what its places are.
    name: &'a str,
    place: &'static str,
    /// What is written.
    target: String,
    rows: Vec<Row>,
}

/// Why something was lost, if it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// No step says it.
    Untold,
    /// It cannot be read, so that nobody knows what it says.
    Unreadable,
    /// What is written has no word for it.
    NoWord,
    /// It is not lost: it was left as it was.
    Kept,
}

/// So much of one kind.
struct Row {
    why: Why,
    /// Its name, which stays.
    what: String,
    words: &'static str,
    count: u64,
    first: Option<u64>,
}

impl<'a> Report<'a> {
    /// Nothing was lost so far on the way into `target`. Places of the trace are such.
    pub(super) fn new(args: &'a Args, (name, place): (&'a str, &'static str), target: impl Into<String>) -> Self {
        Self { args, name, place, target: target.into(), rows: Vec::new() }
    }

    /// With what no step said, and what the steps said and the target cannot.
    pub(super) fn with_steps(mut self, untold: &Losses, lost: &Losses) -> Self {
        let row = |why, (loss, lost): (Loss, unspool::model::Lost)| Row {
            why,
            what: loss.name().to_string(),
            words: loss.words(),
            count: lost.count,
            first: Some(lost.first),
        };
        let why = |loss| if loss == Loss::Unreadable { Why::Unreadable } else { Why::Untold };
        self.rows.extend(untold.iter().map(|lost| row(why(lost.0), lost)));
        self.rows.extend(lost.iter().map(|lost| row(Why::NoWord, lost)));
        self
    }

    /// With something that the target has no word for, or that was kept as it was.
    pub(super) fn add(&mut self, words: &'static str, is_kept: bool, count: u64, first: Option<u64>) {
        let why = if is_kept { Why::Kept } else { Why::NoWord };
        self.rows.push(Row { why, what: name_of(words), words, count, first });
    }

    /// Is everything there?
    pub(super) fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.why == Why::Kept)
    }

    /// Is there something that cannot be read?
    pub(super) fn is_unreadable(&self) -> bool {
        self.has(Why::Unreadable)
    }

    /// Is it more than the user wants to lose?
    pub(super) fn is_denied(&self) -> bool {
        self.args.deny_loss && !self.is_empty()
    }

    /// Tells what was lost, and what was left as it was.
    pub(super) fn tell(&self) {
        if self.args.json {
            return self.rows.iter().for_each(|row| self.put(row));
        }
        self.lines().iter().for_each(|line| tell(format_args!("{}: {line}", self.name)));
    }

    /// Tells that nothing is kept, since something would be lost.
    pub(super) fn deny(&self) {
        if self.args.json {
            self.tell();
            let written = if is_stream(&self.args.output) { "part" } else { "nothing" };
            return object(|object| {
                object.string("kind", "denied").string("written", written);
            });
        }
        let parts = [
            self.part(Why::Untold).map(|rows| format!("no step says {rows}")),
            self.unreadable(),
            self.part(Why::NoWord).map(|rows| format!("{} cannot say {rows}", self.target)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        tell(format_args!("{}: {}; {}", self.name, parts.join("; "), unkept(self.args)));
    }

    /// Tells that other cores were left out.
    pub(super) fn left_out(&self, steps: u64) {
        if steps > 0 && self.args.json {
            object(|object| {
                object.string("kind", "left_out").string("what", "other-cores").plain("count", steps);
            });
        } else if steps > 0 {
            tell(format_args!("{}: {} of other cores left out", self.name, many(steps, "step")));
        }
    }

    fn lines(&self) -> Vec<String> {
        let target = &self.target;
        let lines = [
            self.unreadable(),
            self.part(Why::Untold).map(|rows| format!("lost on the way, since no step says it: {rows}")),
            self.part(Why::NoWord).map(|rows| format!("lost, since {target} cannot say it: {rows}")),
            self.part(Why::Kept).map(|rows| format!("kept as they are: {rows}")),
        ];
        lines.into_iter().flatten().collect()
    }

    fn has(&self, why: Why) -> bool {
        self.rows.iter().any(|row| row.why == why)
    }

    fn unreadable(&self) -> Option<String> {
        let row = self.rows.iter().find(|row| row.why == Why::Unreadable)?;
        let first = row.first.map_or(String::new(), |first| format!(", the first is {}", at(self.place, first)));
        Some(format!("{} cannot be read{first}", many(row.count, self.place)))
    }

    fn part(&self, why: Why) -> Option<String> {
        let rows: Vec<String> = self.rows.iter().filter(|row| row.why == why).map(|row| self.row(row)).collect();
        (!rows.is_empty()).then(|| rows.join(", "))
    }

    fn row(&self, row: &Row) -> String {
        let first = row.first.map_or(String::new(), |first| match self.place {
            "offset" => format!(" (first at {})", at(self.place, first)),
            place => format!(" (first in {})", at(place, first)),
        });
        format!("{} × {}{first}", grouped(row.count), row.words)
    }

    fn put(&self, row: &Row) {
        object(|object| {
            match row.why {
                Why::Kept => object.string("kind", "kept"),
                Why::Untold | Why::Unreadable => object.string("kind", "lost").string("by", "source"),
                Why::NoWord => object.string("kind", "lost").string("by", "target"),
            };
            object.string("what", &row.what).plain("count", row.count).optional(self.place, row.first);
        });
    }
}

/// A place, in words.
pub(super) fn at(unit: &str, place: u64) -> String {
    if unit == "offset" { format!("offset {place:#x}") } else { format!("{unit} {place}") }
}

/// What became of what was written and is not kept: what went through a pipe cannot be taken back.
pub(super) fn unkept(args: &Args) -> &'static str {
    if is_stream(&args.output) { "what went through the pipe so far is not all" } else { "nothing was written" }
}

/// The words of formats as a name: without what is in brackets, and without blanks.
fn name_of(words: &str) -> String {
    let words = words.split(" (").next().unwrap_or(words);
    words.replace(',', "").replace(' ', "-")
}

fn object(put: impl FnOnce(&mut Object<'_>)) {
    let mut line = String::new();
    let mut object = Object::new(&mut line);
    put(&mut object);
    // A closed error stream leaves nobody to tell.
    let _ = object.finish(&mut io::stderr());
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: Args,
    }

    fn args(more: &[&str]) -> Args {
        Words::parse_from([&["convert", "in", "out"], more].concat()).args
    }

    /// Two modes and two lines that cannot be read at lines 7 and 8, and data that the target cannot say at line 9.
    fn losses() -> [Losses; 2] {
        let (mut untold, mut lost) = (Losses::default(), Losses::default());
        untold.add_many(Loss::Modes, 2, 7);
        untold.add_many(Loss::Unreadable, 2, 8);
        lost.add(Loss::Data, 9);
        [untold, lost]
    }

    #[test]
    fn what_no_step_says_is_told_apart_from_what_the_target_cannot_say() {
        let (args, [untold, lost]) = (args(&[]), losses());
        let report = Report::new(&args, ("in", "line"), "STF").with_steps(&untold, &lost);
        let expected = [
            "2 lines cannot be read, the first is line 8",
            "lost on the way, since no step says it: 2 × modes of AArch32 (first in line 7)",
            "lost, since STF cannot say it: 1 × data of accesses (first in line 9)",
        ];
        assert_eq!(report.lines(), expected);
        assert!(report.is_unreadable() && !report.is_empty() && !report.is_denied());
    }

    #[test]
    fn any_loss_can_be_denied() {
        let (args, [untold, lost]) = (args(&["--deny-loss"]), losses());
        let none = Losses::default();
        for (untold, lost, is_denied) in [(&untold, &none, true), (&none, &lost, true), (&none, &none, false)] {
            let report = Report::new(&args, ("in", "line"), "STF").with_steps(untold, lost);
            assert_eq!(report.is_denied(), is_denied);
        }
        let mut report = Report::new(&args, ("in", "line"), "rev3");
        report.add("comment", true, 1, Some(1));
        assert!(!report.is_denied(), "what is kept is not lost");
        report.add("page order", false, 1, Some(1));
        assert!(report.is_denied());
    }

    #[test]
    fn names_have_no_blanks() {
        let rows = [
            ("page order", "page-order"),
            ("attribute of an access (exclusive, locked)", "attribute-of-an-access"),
            ("bus, coprocessor or flow line", "bus-coprocessor-or-flow-line"),
        ];
        for (words, expected) in rows {
            assert_eq!(name_of(words), expected);
        }
    }

    #[test]
    fn offsets_are_in_hex() {
        let args = args(&[]);
        let mut untold = Losses::default();
        untold.add(Loss::CycleCounts, 0x20);
        let report = Report::new(&args, ("in", "offset"), "STF").with_steps(&untold, &Losses::default());
        assert_eq!(report.lines(), ["lost on the way, since no step says it: 1 × cycle counts (first at offset 0x20)"]);
    }
}
