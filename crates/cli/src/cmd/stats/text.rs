//! Counts of steps as text.

use std::io::{self, Write};

use unspool::Counted;
use unspool::analyze::stats::json::{share, unit_name};
use unspool::analyze::stats::{Report, Tally};
use unspool::number::{grouped, many};

use super::by::By;
use crate::listing::counted;

/// Rows of a table that was not selected.
const MAX_ROWS: usize = 10;

pub(super) struct Page<'p> {
    pub(super) name: &'p str,
    pub(super) counted: &'p Counted,
    /// The selected table; `None`: all.
    pub(super) by: Option<By>,
    /// Tables that the format counts natively.
    pub(super) native: &'p [By],
}

impl Page<'_> {
    pub(super) fn shows(&self, by: By) -> bool {
        self.by.is_none_or(|wanted| wanted == by) && !self.native.contains(&by)
    }

    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.head(out)?;
        if self.shows(By::Branch) {
            self.branches(out)?;
        }
        for (name, mut rows) in self.counted.report.groups() {
            let Some(by) = By::of(name) else { continue };
            rows.retain(|(_, tally)| tally.instructions > 0);
            // A single row would repeat the first lines.
            if self.by == Some(by) || self.shows(by) && rows.len() > 1 {
                self.group(name, &rows, out)?;
            }
        }
        if self.by == Some(By::Exception) {
            writeln!(out, "\n{:<16} {:>15}", "exception", "count")?;
            for (name, count) in &self.counted.report.exceptions {
                writeln!(out, "{name:<16} {:>15}", grouped(*count))?;
            }
        }
        self.mix(out)
    }

    fn mix(&self, out: &mut dyn Write) -> io::Result<()> {
        let mix = &self.counted.report.mix;
        if self.by == Some(By::Isa) || self.shows(By::Isa) && mix.by_isa().len() > 1 {
            table(out, "isa", &mix.by_isa(), mix.total)?;
        }
        if self.shows(By::Class) {
            table(out, "class", &mix.by_class(), mix.total)?;
            if mix.unclassified > 0 {
                row(out, "(none)", mix.unclassified, mix.total)?;
            }
        }
        if self.shows(By::Mnemonic) {
            table(out, "mnemonic", &mix.by_mnemonic(), mix.total)?;
            if mix.unknown > 0 {
                row(out, "(no opcode)", mix.unknown, mix.total)?;
            }
        }
        Ok(())
    }

    /// Totals, one per line. A native count has printed the first ones.
    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let (Report { contexts, times, code, data, .. }, all) = (&self.counted.report, self.counted.report.all());
        if self.native.is_empty() {
            let skipped = if all.skipped > 0 { format!(", {} skipped", grouped(all.skipped)) } else { String::new() };
            writeln!(out, "{}: {}{skipped}", self.name, many(all.instructions, "instruction"))?;
        }
        for (name, count) in [("registers", all.registers), ("contexts", *contexts)] {
            if count > 0 && self.native.is_empty() {
                writeln!(out, "  {name:<12} {}", grouped(count))?;
            }
        }
        if let Some((first, last)) = times {
            writeln!(out, "  time         {first} to {last} {}", unit_name(self.counted.unit))?;
        }
        self.events(out)?;
        let [reads, writes] = [many(all.reads, "read"), many(all.writes, "write")];
        if all.reads + all.writes > 0 {
            let [read, written] = [all.read_bytes, all.written_bytes].map(|bytes| many(bytes, "byte"));
            writeln!(out, "  data         {reads} of {read}, {writes} of {written}")?;
        }
        let at_least = |is: bool| if is { "at least " } else { "" };
        let [pages, data_pages] = [code.pages, data.pages].map(|pages| many(pages, "page"));
        writeln!(out, "  code touched {}{} in {pages}", at_least(code.is_lower_bound), many(code.bytes, "byte"))?;
        if data.pages > 0 {
            let lines = many(data.lines, "line");
            writeln!(out, "  data touched {}{lines} of 64 bytes in {data_pages}", at_least(data.is_lower_bound))?;
        }
        Ok(())
    }

    fn events(&self, out: &mut dyn Write) -> io::Result<()> {
        let (report, all) = (&self.counted.report, self.counted.report.all());
        if all.exceptions + all.exception_returns > 0 {
            let (kinds, returns) = (counted(report.exceptions.iter().copied()), many(all.exception_returns, "return"));
            let kinds = if kinds.is_empty() { kinds } else { format!(" ({kinds})") };
            writeln!(out, "  raised       {}{kinds}, {returns}", many(all.exceptions, "exception"))?;
        }
        if all.gaps > 0 {
            writeln!(out, "  gaps         {} ({})", grouped(all.gaps), counted(report.gaps.iter().copied()))?;
        }
        Ok(())
    }

    fn branches(&self, out: &mut dyn Write) -> io::Result<()> {
        let branches = &self.counted.report.branches;
        if branches.all().total() == 0 && self.by.is_none() {
            return Ok(());
        }
        writeln!(out, "\n{:<18} {:>15} {:>15} {:>15}", "branches", "taken", "not taken", "unknown")?;
        for (name, outcomes) in [("all", branches.all())].into_iter().chain(branches.kinds()) {
            if outcomes.total() > 0 || name == "all" {
                let [taken, not, unknown] = [outcomes.taken, outcomes.not_taken, outcomes.unknown].map(grouped);
                writeln!(out, "{name:<18} {taken:>15} {not:>15} {unknown:>15}")?;
            }
        }
        Ok(())
    }

    fn group(&self, name: &str, rows: &[(String, Tally)], out: &mut dyn Write) -> io::Result<()> {
        let [reads, writes, taken] = ["reads", "writes", "taken"];
        writeln!(out, "\n{name:<16} {:>15} {:>8} {taken:>13} {reads:>13} {writes:>13}", "instructions", "share")?;
        let shown = if self.by.is_some() { rows.len() } else { MAX_ROWS };
        for (name, tally) in rows.iter().take(shown) {
            let share = share(tally.instructions, self.counted.report.all().instructions) * 100.0;
            let count = grouped(tally.instructions);
            let [taken, reads, writes] = [tally.taken, tally.reads, tally.writes].map(grouped);
            writeln!(out, "{name:<16} {count:>15} {share:>7.2}% {taken:>13} {reads:>13} {writes:>13}")?;
        }
        if rows.len() > shown {
            writeln!(out, "({} more; see --by {name})", grouped((rows.len() - shown) as u64))?;
        }
        Ok(())
    }
}

pub(super) fn table(out: &mut dyn Write, name: &str, rows: &[(&str, u64)], total: u64) -> io::Result<()> {
    writeln!(out, "\n{name:<16} {:>15} {:>8}", "instructions", "share")?;
    rows.iter().try_for_each(|(name, count)| row(out, name, *count, total))
}

pub(super) fn row(out: &mut dyn Write, name: &str, count: u64, total: u64) -> io::Result<()> {
    writeln!(out, "{name:<16} {:>15} {:>7.2}%", grouped(count), share(count, total) * 100.0)
}
