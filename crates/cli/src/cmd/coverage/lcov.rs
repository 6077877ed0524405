//! Coverage as a tracefile of lcov, which `genhtml` reads (geninfo(1), "FILES").

use std::io::{self, Write};

use unspool::coverage::{FunctionCoverage, Report};

use super::text::of_lines;
use crate::source_lines::SourcePathArgs;
use crate::symbols::symbol_text;

pub(super) fn write(report: &Report, paths: &SourcePathArgs, out: &mut dyn Write) -> io::Result<()> {
    for (path, lines) in &report.files {
        writeln!(out, "TN:")?;
        writeln!(out, "SF:{}", one_line(&paths.path(path).to_string_lossy()))?;
        let all = report.images.iter().flat_map(|image| &image.functions);
        let own: Vec<(u32, &FunctionCoverage)> = all
            .filter_map(|function| {
                let position = function.position.as_ref().filter(|position| position.file == *path)?;
                Some((position.line, function))
            })
            .collect();
        for (line, function) in &own {
            writeln!(out, "FN:{line},{}", name(function))?;
        }
        for (_, function) in &own {
            writeln!(out, "FNDA:{},{}", function.entries.max(u64::from(function.is_covered())), name(function))?;
        }
        writeln!(out, "FNF:{}", own.len())?;
        writeln!(out, "FNH:{}", own.iter().filter(|(_, function)| function.is_covered()).count())?;
        let (mut found, mut hit) = (0, 0);
        for (number, line) in lines {
            for (index, branch) in line.branches.iter().enumerate() {
                for (direction, count) in [branch.taken, branch.not_taken].into_iter().enumerate() {
                    let count = if branch.executed == 0 { "-".to_string() } else { count.to_string() };
                    found += 1;
                    hit += u64::from(count != "-" && count != "0");
                    writeln!(out, "BRDA:{number},{index},{direction},{count}")?;
                }
            }
        }
        writeln!(out, "BRF:{found}\nBRH:{hit}")?;
        for (number, line) in lines {
            // A line of which something was executed is covered, even if it was never entered at its start.
            writeln!(out, "DA:{number},{}", line.count.max(u64::from(line.is_covered())))?;
        }
        let ratio = of_lines(lines.values());
        writeln!(out, "LF:{}\nLH:{}\nend_of_record", ratio.total, ratio.covered)?;
    }
    Ok(())
}

fn name(function: &FunctionCoverage) -> String {
    one_line(&symbol_text((&function.name, 0)))
}

/// Names come from files; a line break would start another record.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], "?")
}
