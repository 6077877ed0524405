//! Coverage in the XML format of Cobertura (coverage-04.dtd).

use std::io::{self, Write};

use unspool::coverage::{LineCoverage, Ratio, Report};

use super::text::of_lines;
use crate::source_lines::SourcePathArgs;

pub(super) fn write(report: &Report, paths: &SourcePathArgs, out: &mut dyn Write) -> io::Result<()> {
    let (lines, branches) = (report.lines(), of_branches(report.files.values().flat_map(|lines| lines.values())));
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<!DOCTYPE coverage SYSTEM \"http://cobertura.sourceforge.net/xml/coverage-04.dtd\">")?;
    writeln!(
        out,
        "<coverage {} lines-covered=\"{}\" lines-valid=\"{}\" branches-covered=\"{}\" branches-valid=\"{}\" \
         complexity=\"0\" version=\"unspool\" timestamp=\"0\">",
        rates(lines, branches),
        lines.covered,
        lines.total,
        branches.covered,
        branches.total
    )?;
    writeln!(out, "<sources><source>/</source></sources>")?;
    writeln!(out, "<packages><package name=\"\" {} complexity=\"0\"><classes>", rates(lines, branches))?;
    for (path, lines) in &report.files {
        let path = paths.path(path);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let rates = rates(of_lines(lines.values()), of_branches(lines.values()));
        let file = escaped(&path.to_string_lossy());
        writeln!(
            out,
            "<class name=\"{}\" filename=\"{file}\" {rates} complexity=\"0\"><methods/><lines>",
            escaped(&name)
        )?;
        for (number, line) in lines {
            let hits = line.count.max(u64::from(line.is_covered()));
            write!(out, "<line number=\"{number}\" hits=\"{hits}\"")?;
            match of_branches([line].into_iter()) {
                Ratio { total: 0, .. } => writeln!(out, " branch=\"false\"/>")?,
                ratio => writeln!(
                    out,
                    " branch=\"true\" condition-coverage=\"{:.0}% ({}/{})\"/>",
                    ratio.percent().unwrap_or(0.0),
                    ratio.covered,
                    ratio.total
                )?,
            }
        }
        writeln!(out, "</lines></class>")?;
    }
    writeln!(out, "</classes></package></packages>\n</coverage>")
}

/// Directions of all branches.
fn of_branches<'l>(lines: impl Iterator<Item = &'l LineCoverage>) -> Ratio {
    let mut ratio = Ratio::default();
    for count in lines.flat_map(|line| &line.branches).flat_map(|branch| [branch.taken, branch.not_taken]) {
        ratio.append(Ratio { covered: u64::from(count > 0), total: 1 });
    }
    ratio
}

fn rates(lines: Ratio, branches: Ratio) -> String {
    let rate = |ratio: Ratio| ratio.percent().unwrap_or(0.0) / 100.0;
    format!("line-rate=\"{:.4}\" branch-rate=\"{:.4}\"", rate(lines), rate(branches))
}

/// Text of an attribute or of HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push('\t'),
            control if control.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    out
}
