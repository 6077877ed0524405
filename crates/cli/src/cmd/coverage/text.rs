//! Coverage as text: totals, then one table.

use std::io::{self, Write};

use unspool::coverage::{LineCoverage, Ratio};
use unspool::number::grouped;

use super::{By, Page};
use crate::symbols::{printable, symbol_text};

impl Page<'_> {
    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(difference) = self.difference {
            return difference.text(out);
        }
        for (name, ratio) in self.totals() {
            writeln!(out, "{name:<13} {}", share(ratio, self.at_least()))?;
        }
        writeln!(
            out,
            "{:<13} {} executed, {} of them in no image",
            "executions",
            grouped(self.executed.instructions),
            grouped(self.executed.outside)
        )?;
        writeln!(out)?;
        match self.args.by {
            By::File => self.files(out),
            By::Line => self.lines(out),
            By::Function => self.functions(out),
            By::Image => self.images(out),
            By::Process => self.processes(out),
        }
    }

    /// All totals by name.
    pub(super) fn totals(&self) -> Vec<(&'static str, Ratio)> {
        let report = self.report;
        let all = [
            ("lines", report.lines()),
            ("functions", report.functions()),
            ("instructions", report.instructions()),
            ("directions", report.directions()),
            ("conditions", report.conditions()),
        ];
        all.into_iter().filter(|(name, ratio)| *name != "conditions" || ratio.total > 0).collect()
    }

    fn at_least(&self) -> &'static str {
        if self.executed.is_lower_bound() { "at least " } else { "" }
    }

    fn files(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {:>7} {:>9} {:>9}  file", "percent", "covered", "lines")?;
        for (path, lines) in &self.report.files {
            let ratio = of_lines(lines.values());
            writeln!(
                out,
                "{:>8.1}% {:>9} {:>9}  {}",
                ratio.percent().unwrap_or(0.0),
                ratio.covered,
                ratio.total,
                printable(path)
            )?;
        }
        Ok(())
    }

    fn lines(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {:>10} {:>12}  line", "count", "instructions")?;
        for (path, lines) in &self.report.files {
            for (number, line) in lines {
                let instructions = format!("{}/{}", line.instructions.covered, line.instructions.total);
                writeln!(
                    out,
                    "{:>12} {instructions:>12}  {}:{number}{}",
                    grouped(line.count),
                    printable(path),
                    branches(line)
                )?;
            }
        }
        Ok(())
    }

    fn functions(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {:>10} {:>12} {:>10}  function", "entries", "instructions", "directions")?;
        let of_image = self.report.images.iter().flat_map(|image| image.functions.iter());
        for function in of_image {
            let ratio = |ratio: Ratio| format!("{}/{}", ratio.covered, ratio.total);
            let (instructions, directions) = (ratio(function.instructions), ratio(function.directions));
            let name = printable(&symbol_text((&function.name, 0)));
            writeln!(out, "{:>12} {instructions:>12} {directions:>10}  {name}", grouped(function.entries))?;
        }
        Ok(())
    }

    fn images(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {:>7} {:>9} {:>12}  image", "percent", "covered", "instructions")?;
        for image in &self.report.images {
            let Ratio { covered, total } = image.instructions;
            let percent = image.instructions.percent().unwrap_or(0.0);
            writeln!(out, "{percent:>8.1}% {covered:>9} {total:>12}  {}", printable(&image.name))?;
        }
        Ok(())
    }

    fn processes(&self, out: &mut dyn Write) -> io::Result<()> {
        let ratio = |ratio: Ratio| format!("{}/{}", ratio.covered, ratio.total);
        let [executed, instructions, lines, functions] = ["executed", "instructions", "lines", "functions"];
        writeln!(out, "# {executed:>14} {instructions:>16} {lines:>12} {functions:>12}  process")?;
        for row in &self.processes {
            let [instructions, lines, functions] = [row.instructions, row.lines, row.functions].map(ratio);
            let (name, executed) =
                (row.process.map_or("unknown".into(), |id| format!("{id:#x}")), grouped(row.executed));
            writeln!(out, "{executed:>16} {instructions:>16} {lines:>12} {functions:>12}  {name}")?;
        }
        Ok(())
    }
}

/// Lines that are covered.
pub(super) fn of_lines<'l>(lines: impl Iterator<Item = &'l LineCoverage>) -> Ratio {
    let mut ratio = Ratio::default();
    for line in lines {
        ratio.append(Ratio { covered: u64::from(line.is_covered()), total: 1 });
    }
    ratio
}

fn share(ratio: Ratio, at_least: &str) -> String {
    match ratio.percent() {
        Some(percent) => format!("{at_least}{} of {}, {percent:.1}%", grouped(ratio.covered), grouped(ratio.total)),
        None => "none".to_string(),
    }
}

/// Outcomes of the branches and conditions of a line.
fn branches(line: &LineCoverage) -> String {
    let one = |taken: u64, not_taken: u64| format!("{}+{}", grouped(taken), grouped(not_taken));
    let list: Vec<String> = line.branches.iter().map(|branch| one(branch.taken, branch.not_taken)).collect();
    if list.is_empty() { String::new() } else { format!("  ({})", list.join(", ")) }
}
