//! Coverage as HTML: a page with all files, and one page per source file with its text.
//!
//! The pages need nothing else: no script, no font, no other file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use unspool::coverage::{ExecutedImages, LineCoverage, Ratio, Report};
use unspool::number::grouped;

use super::cobertura::escaped;
use super::text::of_lines;
use crate::source_lines::SourceFiles;
use crate::symbols::symbol_text;

const STYLE: &str = "body{font:14px sans-serif;margin:2em;color:#222;background:#fff}table{border-collapse:collapse}\
td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}td:last-child,th:last-child{text-align:left}\
pre{line-height:1.35}.hit{background:#d9f2d9}.miss{background:#f8d7d7}.part{background:#fbeec2}\
.n{color:#777;display:inline-block;width:5em;text-align:right;margin-right:1em}\
.c{display:inline-block;width:9em;text-align:right;margin-right:1em}";

/// Refuses a folder with files, unless they may be replaced.
pub(super) fn check(folder: &Path, force: bool) -> anyhow::Result<()> {
    let has_files = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if has_files && !force {
        bail!("{}: the folder is not empty; use --force to replace files in it", folder.display());
    }
    Ok(())
}

pub(super) fn write(
    folder: &Path,
    executed: &ExecutedImages,
    report: &Report,
    files: &mut SourceFiles,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let at_least = if executed.is_lower_bound() { "At least: part of the execution is missing." } else { "" };
    let mut out = BufWriter::new(File::create(folder.join("index.html"))?);
    start(&mut out, "Coverage")?;
    writeln!(out, "<p>{at_least}</p><table><tr><th>covered</th><th>total</th><th>percent</th><th></th></tr>")?;
    let totals = [
        (report.lines(), "lines"),
        (report.functions(), "functions"),
        (report.instructions(), "instructions"),
        (report.directions(), "branch directions"),
        (report.conditions(), "outcomes of conditional instructions"),
    ];
    totals.iter().try_for_each(|(ratio, name)| row(&mut out, *ratio, name))?;
    writeln!(out, "</table><h2>Files</h2><table><tr><th>covered</th><th>lines</th><th>percent</th><th>file</th></tr>")?;
    for (index, (path, lines)) in report.files.iter().enumerate() {
        let link = format!("<a href=\"{}\">{}</a>", page_name(index), escaped(path));
        row(&mut out, of_lines(lines.values()), &link)?;
    }
    writeln!(
        out,
        "</table><h2>Functions</h2><table><tr><th>covered</th><th>instructions</th><th>percent</th><th>function</th></tr>"
    )?;
    for function in report.images.iter().flat_map(|image| &image.functions) {
        row(&mut out, function.instructions, &escaped(&symbol_text((&function.name, 0))))?;
    }
    writeln!(out, "</table></body></html>")?;
    out.flush()?;
    for (index, (path, lines)) in report.files.iter().enumerate() {
        write_page(&folder.join(page_name(index)), path, lines, files)?;
    }
    Ok(())
}

fn page_name(index: usize) -> String {
    format!("file{index}.html")
}

fn start(out: &mut dyn Write, title: &str) -> io::Result<()> {
    let title = escaped(title);
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>")?;
    writeln!(out, "<style>{STYLE}</style></head><body><h1>{title}</h1>")
}

fn row(out: &mut dyn Write, ratio: Ratio, name: &str) -> io::Result<()> {
    let percent = ratio.percent().map_or("-".to_string(), |percent| format!("{percent:.1}%"));
    let (covered, total) = (grouped(ratio.covered), grouped(ratio.total));
    writeln!(out, "<tr><td>{covered}</td><td>{total}</td><td>{percent}</td><td>{name}</td></tr>")
}

fn write_page(
    page: &Path,
    path: &Arc<str>,
    lines: &BTreeMap<u32, LineCoverage>,
    files: &mut SourceFiles,
) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(page)?);
    start(&mut out, path)?;
    writeln!(out, "<p><a href=\"index.html\">all files</a></p><pre>")?;
    match files.lines(path) {
        Some(text) => {
            for (number, text) in (1_u32..).zip(text) {
                write_line(&mut out, number, lines.get(&number), text)?;
            }
        }
        // Without the file, the lines that have code.
        None => lines.iter().try_for_each(|(number, line)| write_line(&mut out, *number, Some(line), ""))?,
    }
    writeln!(out, "</pre></body></html>")?;
    out.flush()
}

fn write_line(out: &mut dyn Write, number: u32, line: Option<&LineCoverage>, text: &str) -> io::Result<()> {
    let is_partial = |line: &LineCoverage| {
        line.instructions.covered < line.instructions.total
            || line.branches.iter().any(|branch| branch.taken == 0 || branch.not_taken == 0)
    };
    let class = match line {
        None => "",
        Some(line) if !line.is_covered() => "miss",
        Some(line) if is_partial(line) => "part",
        Some(_) => "hit",
    };
    let count = line.map_or(String::new(), |line| grouped(line.count));
    let (text, count) = (escaped(text), escaped(&count));
    writeln!(
        out,
        "<span class=\"{class}\"><span class=\"n\">{number}</span><span class=\"c\">{count}</span>{text}</span>"
    )
}
