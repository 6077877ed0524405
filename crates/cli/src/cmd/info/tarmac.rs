//! Summary of a Tarmac log: its dialect, and totals of its lines.

use std::collections::BTreeMap;
use std::io::{self, Write};

use unspool::info::TarmacInfo;
use unspool::number::{grouped, many};
use unspool::tarmac::text::Text;

use crate::listing::counted;

pub(super) fn text(info: &TarmacInfo, out: &mut dyn Write) -> io::Result<()> {
    let summary = &info.summary;
    writeln!(out, "{}: Tarmac, {}, {}", info.name, info.dialect, info.container_text())?;
    if let Some((revision, flags)) = &summary.header {
        writeln!(out, "  header       revision {revision}, flags '{flags}'")?;
    }
    if let Some(size) = info.size {
        writeln!(out, "  size         {} bytes", grouped(size))?;
    }
    let first = if info.is_quick { "the first " } else { "" };
    writeln!(out, "  lines        {first}{}", grouped(summary.lines))?;
    let skipped = if summary.skipped > 0 { format!(", {} skipped", grouped(summary.skipped)) } else { String::new() };
    writeln!(out, "  instructions {}{skipped}", grouped(summary.instructions()))?;
    line(out, "sets", &counted(summary.sets.iter().map(|(name, count)| (name, *count))))?;
    line(out, "modes", &names(&summary.modes))?;
    line(out, "cores", &names(&summary.cores))?;
    if let Some(start) = summary.start {
        writeln!(out, "  start        {start:#x}")?;
    }
    if let (Some(first), Some(last)) = (summary.first, summary.last) {
        writeln!(out, "  time         {first} to {last}")?;
    }
    if summary.exceptions > 0 {
        writeln!(out, "  exceptions   {}", grouped(summary.exceptions))?;
    }
    let kinds = summary.kinds.iter().filter(|(kind, _)| !matches!(**kind, "instruction" | "unknown" | "blank"));
    line(out, "others", &counted(kinds.map(|(kind, count)| (kind, *count))))?;
    match summary.kinds.get("unknown") {
        Some(count) => writeln!(out, "  unknown      {} cannot be parsed", many(*count, "line")),
        None => Ok(()),
    }
}

fn names(names: &BTreeMap<Vec<u8>, u64>) -> String {
    counted(names.iter().filter(|(name, _)| !name.is_empty()).map(|(name, count)| (Text(name), *count)))
}

fn line(out: &mut dyn Write, name: &str, list: &str) -> io::Result<()> {
    if list.is_empty() { Ok(()) } else { writeln!(out, "  {name:<12} {list}") }
}
