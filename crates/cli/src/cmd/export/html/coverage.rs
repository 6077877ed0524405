//! Coverage on a page: of functions, and of lines where the images have debug information.

use std::collections::BTreeMap;
use std::path::PathBuf;

use unspool::coverage::{ExecutedImages, LineCoverage, Ratio, Report};
use unspool::export::html::Table;
use unspool::file::is_pipe;

use crate::counting::count;
use crate::diagnostic;
use crate::selection_args::SelectionArgs;
use crate::source_lines::source_lines;
use crate::symbols::{printable, symbol_text};
use crate::traces::{EachOptions, ReadArgs};

/// Maximum number of rows of a table, and of ranges of lines in a row.
const ROWS: usize = 1000;
const RANGES: usize = 100;

/// Tables of what traces have covered, which are read again.
pub(super) fn tables(files: &[PathBuf], read: &ReadArgs, core: EachOptions<'_>, is_whole: bool) -> Vec<Table> {
    let table = |note: String| Table { id: "coverage", title: "Coverage".to_string(), note, ..Table::default() };
    if files.iter().any(|file| is_pipe(file)) {
        return vec![table("Not known: a pipe can be read only once.".to_string())];
    }
    let mut executed = ExecutedImages::default();
    let counted = {
        // All that there is to report was reported when the trace was read for its calls.
        let _muted = diagnostic::mute();
        files.iter().try_for_each(|file| {
            let mut take = |counts: &_, program: &_| executed.add(counts, program);
            read.each(file, core, &mut |trace| count(trace, &SelectionArgs::default(), read, &mut take)).map(drop)
        })
    };
    if let Err(error) = counted {
        return vec![table(format!("Not known: {error:#}."))];
    }
    let lines = match read.processes.load() {
        Ok(spaces) => source_lines(&spaces, &read.images),
        Err(error) => return vec![table(format!("Not known: {error:#}."))],
    };
    let report = Report::new(&executed, &lines);
    if report.images.is_empty() {
        return vec![table("Not known: nothing that was executed is in an image.".to_string())];
    }
    let mut notes = Vec::new();
    if !is_whole {
        notes.push("Of the whole trace: what is selected does not matter here.");
    }
    if executed.is_lower_bound() {
        notes.push("At least: part of the execution is missing.");
    }
    if report.files.is_empty() {
        notes.push("No source lines: the images have no debug information.");
    }
    let mut found = vec![Table {
        columns: vec!["", "covered", "of", "percent"],
        rows: [("lines", report.lines()), ("functions", report.functions()), ("instructions", report.instructions())]
            .into_iter()
            .filter(|(_, ratio)| ratio.total > 0)
            .map(|(name, ratio)| row(name.to_string(), ratio, None))
            .collect(),
        ..table(notes.join(" "))
    }];
    found.extend([functions(&report), of_files(&report)].into_iter().filter(|table| !table.rows.is_empty()));
    found
}

fn row(name: String, ratio: Ratio, last: Option<String>) -> Vec<String> {
    let percent = ratio.percent().map_or_else(String::new, |percent| format!("{percent:.1}%"));
    [name, ratio.covered.to_string(), ratio.total.to_string(), percent].into_iter().chain(last).collect()
}

/// Functions of which anything was executed, the least covered first, and how many were not executed at all.
fn functions(report: &Report) -> Table {
    let all = || report.images.iter().flat_map(|image| &image.functions);
    let mut covered: Vec<_> = all().filter(|function| function.is_covered()).collect();
    covered.sort_by(|one, other| {
        let percent = |ratio: &Ratio| ratio.percent().unwrap_or(0.0);
        percent(&one.instructions).total_cmp(&percent(&other.instructions)).then(one.name.cmp(&other.name))
    });
    let left_out = covered.len().saturating_sub(ROWS);
    covered.truncate(ROWS);
    let rows = covered.iter().map(|function| {
        let name = printable(&symbol_text((&function.name, 0)));
        row(name, function.instructions, Some(function.entries.to_string()))
    });
    let not_executed = all().filter(|function| !function.is_covered()).count();
    let mut note = format!("Functions that were not executed: {not_executed}.");
    if left_out > 0 {
        note.push_str(&format!(" Left out, covered best: {left_out}."));
    }
    Table {
        id: "covered-functions",
        title: "Covered functions".to_string(),
        note,
        columns: vec!["function", "covered", "instructions", "percent", "entries"],
        rows: rows.collect(),
    }
}

/// Source files, with their lines that were not executed.
fn of_files(report: &Report) -> Table {
    let rows = report.files.iter().take(ROWS).map(|(path, lines)| {
        let mut ratio = Ratio::default();
        for line in lines.values() {
            ratio.append(Ratio { covered: line.is_covered().into(), total: 1 });
        }
        row(printable(path), ratio, Some(not_executed(lines)))
    });
    let left_out = report.files.len().saturating_sub(ROWS);
    let note = if left_out > 0 { format!("Files left out: {left_out}.") } else { String::new() };
    Table {
        id: "covered-files",
        title: "Covered lines".to_string(),
        note,
        columns: vec!["file", "covered", "lines", "percent", "not executed"],
        rows: rows.collect(),
    }
}

/// Lines that were not executed, as ranges. Lines without code do not interrupt a range.
fn not_executed(lines: &BTreeMap<u32, LineCoverage>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut continues = false;
    for (number, line) in lines {
        match (line.is_covered(), ranges.last_mut().filter(|_| continues)) {
            (true, _) => {}
            (false, Some((_, last))) => *last = *number,
            (false, None) => ranges.push((*number, *number)),
        }
        continues = !line.is_covered();
    }
    let text = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let mut texts: Vec<String> = ranges.iter().take(RANGES).map(text).collect();
    texts.extend((ranges.len() > RANGES).then(|| "...".to_string()));
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_not_executed_are_ranges() {
        let line = |covered| LineCoverage { instructions: Ratio { covered, total: 1 }, ..LineCoverage::default() };
        let rows = [(3, 0), (4, 1), (7, 0), (9, 0), (10, 1), (11, 1), (20, 0)];
        let lines = rows.into_iter().map(|(number, covered)| (number, line(covered))).collect();
        assert_eq!(not_executed(&lines), "3, 7-9, 20");
    }
}
