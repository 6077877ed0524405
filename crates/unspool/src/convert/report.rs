//! Losses of a conversion, as sentences or as JSON lines.
//!
//! Takes counted losses; produces one row per kind. Knows nothing of files.

use unspool_model::json::Object;
use unspool_model::{Loss, Losses, Lost};

use crate::number::{grouped, many};

/// Losses of one conversion.
#[derive(Debug)]
pub struct LossReport {
    /// Unit of positions in the source: `record`, `line` or `offset`.
    unit: &'static str,
    target: String,
    rows: Vec<Row>,
}

/// Why something was lost, if it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Steps have no field for it.
    NotInSteps,
    /// The source cannot be parsed there.
    Unreadable,
    /// The target has no field for it.
    NotInTarget,
    /// Not lost, but left unchanged.
    Kept,
    /// Not lost: the source contradicts an opcode, and the opcode is right.
    Corrected,
}

#[derive(Debug)]
struct Row {
    why: Why,
    /// Stable name.
    what: String,
    words: &'static str,
    count: u64,
    first: Option<u64>,
}

impl LossReport {
    /// An empty report of a conversion into `target`.
    pub fn new(unit: &'static str, target: impl Into<String>) -> Self {
        Self { unit, target: target.into(), rows: Vec::new() }
    }

    /// Adds facts that steps do not carry, and facts that the target has no field for.
    pub fn with_steps(mut self, not_in_steps: &Losses, not_in_target: &Losses) -> Self {
        let row = |why, (loss, lost): (Loss, Lost)| Row {
            why,
            what: loss.name().to_string(),
            words: loss.words(),
            count: lost.count,
            first: Some(lost.first),
        };
        let why = |loss| match loss {
            Loss::Unreadable => Why::Unreadable,
            Loss::CorrectedLoads => Why::Corrected,
            _ => Why::NotInSteps,
        };
        self.rows.extend(not_in_steps.iter().map(|lost| row(why(lost.0), lost)));
        self.rows.extend(not_in_target.iter().map(|lost| row(Why::NotInTarget, lost)));
        self
    }

    /// Adds facts that the target has no field for, or that were left unchanged.
    pub fn add(&mut self, words: &'static str, is_kept: bool, count: u64, first: Option<u64>) {
        let why = if is_kept { Why::Kept } else { Why::NotInTarget };
        self.rows.push(Row { why, what: name_of(words), words, count, first });
    }

    /// Adds loads that the source calls writes, and that became reads.
    pub fn add_corrected(&mut self, corrected: Lost) {
        let loss = Loss::CorrectedLoads;
        let (what, words) = (loss.name().to_string(), loss.words());
        self.rows.push(Row { why: Why::Corrected, what, words, count: corrected.count, first: Some(corrected.first) });
    }

    /// Whether nothing was lost.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| matches!(row.why, Why::Kept | Why::Corrected))
    }

    /// Reason for refusing a source whose facts had to be corrected.
    pub fn corrections(&self) -> Option<String> {
        self.part(Why::Corrected)
    }

    /// Whether parts of the source cannot be parsed.
    pub fn is_unreadable(&self) -> bool {
        self.rows.iter().any(|row| row.why == Why::Unreadable)
    }

    /// One sentence per reason.
    pub fn lines(&self) -> Vec<String> {
        let target = &self.target;
        let lines = [
            self.unreadable(),
            self.part(Why::NotInSteps).map(|rows| format!("dropped: steps have no field for {rows}")),
            self.part(Why::NotInTarget).map(|rows| format!("dropped: {target} has no field for {rows}")),
            self.part(Why::Kept).map(|rows| format!("left unchanged: {rows}")),
            self.corrections().map(|rows| format!("taken as reads: {rows}")),
        ];
        lines.into_iter().flatten().collect()
    }

    /// Reason for refusing a conversion that may not lose anything.
    pub fn refusal(&self) -> String {
        let parts = [
            self.part(Why::NotInSteps).map(|rows| format!("steps have no field for {rows}")),
            self.unreadable(),
            self.part(Why::NotInTarget).map(|rows| format!("{} has no field for {rows}", self.target)),
        ];
        parts.into_iter().flatten().collect::<Vec<String>>().join("; ")
    }

    /// Adds one JSON line per row.
    pub fn push_json(&self, text: &mut String) {
        let mut line = String::new();
        for row in &self.rows {
            let mut object = Object::new(&mut line);
            match row.why {
                Why::Kept => object.string("kind", "kept"),
                Why::Corrected => object.string("kind", "corrected"),
                Why::NotInSteps | Why::Unreadable => object.string("kind", "lost").string("by", "source"),
                Why::NotInTarget => object.string("kind", "lost").string("by", "target"),
            };
            object.string("what", &row.what).plain("count", row.count).optional(self.unit, row.first).end_line();
            text.push_str(&line);
        }
    }

    fn unreadable(&self) -> Option<String> {
        let row = self.rows.iter().find(|row| row.why == Why::Unreadable)?;
        let first =
            row.first.map_or(String::new(), |first| format!(", the first is {}", describe_position(self.unit, first)));
        Some(format!("{} cannot be read{first}", many(row.count, self.unit)))
    }

    fn part(&self, why: Why) -> Option<String> {
        let rows: Vec<String> = self.rows.iter().filter(|row| row.why == why).map(|row| self.row(row)).collect();
        (!rows.is_empty()).then(|| rows.join(", "))
    }

    fn row(&self, row: &Row) -> String {
        let first = row.first.map_or(String::new(), |first| match self.unit {
            "offset" => format!(" (first at {})", describe_position(self.unit, first)),
            unit => format!(" (first in {})", describe_position(unit, first)),
        });
        format!("{} × {}{first}", grouped(row.count), row.words)
    }
}

/// Position in a trace, in words.
pub fn describe_position(unit: &str, number: u64) -> String {
    if unit == "offset" { format!("offset {number:#x}") } else { format!("{unit} {number}") }
}

/// Name made of words: without parentheses, with dashes for blanks.
fn name_of(words: &str) -> String {
    let words = words.split(" (").next().unwrap_or(words);
    words.replace(',', "").replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_source_and_target() {
        let (mut not_in_steps, mut not_in_target) = (Losses::default(), Losses::default());
        not_in_steps.add_many(Loss::Modes, 2, 7);
        not_in_steps.add_many(Loss::Unreadable, 2, 8);
        not_in_target.add(Loss::Data, 9);
        let report = LossReport::new("line", "STF").with_steps(&not_in_steps, &not_in_target);
        let expected = [
            "2 lines cannot be read, the first is line 8",
            "dropped: steps have no field for 2 × modes of AArch32 (first in line 7)",
            "dropped: STF has no field for 1 × data of accesses (first in line 9)",
        ];
        assert_eq!(report.lines(), expected);
        assert!(report.is_unreadable() && !report.is_empty());
    }

    #[test]
    fn unchanged_facts_are_not_losses() {
        let mut report = LossReport::new("line", "rev3");
        report.add("comment", true, 1, Some(1));
        assert!(report.is_empty());
        report.add("page order", false, 1, Some(1));
        assert!(!report.is_empty());
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
        let mut losses = Losses::default();
        losses.add(Loss::CycleCounts, 0x20);
        let report = LossReport::new("offset", "STF").with_steps(&losses, &Losses::default());
        assert_eq!(report.lines(), ["dropped: steps have no field for 1 × cycle counts (first at offset 0x20)"]);
    }
}
