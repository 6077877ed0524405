//! The page of a Tarmac log: its dialect, and totals of its lines.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use unspool::tarmac::read::Container;
use unspool::tarmac::stats::Summary;
use unspool::tarmac::text::Text;

use crate::args::OutputArgs;
use crate::file::tarmac_verdict;
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;
use unspool::file::{End, TarmacFile};
use unspool::number::{grouped, many};

/// Lines that are read if not all are.
const QUICK: u64 = 10_000;

/// Prints the page. `quick`: only of the first lines.
pub(super) fn run(mut file: TarmacFile, quick: bool, args: &OutputArgs, mut output: Output) -> anyhow::Result<Verdict> {
    let mut summary = Summary::default();
    let end = file.each(&mut Progress::new(false).callback(), |place, line| {
        summary.add(place, line);
        !quick || place.line < QUICK
    })?;
    let meter = file.meter();
    let page = Page {
        name: file.name().to_string(),
        is_quick: quick,
        container: file.container(),
        dialect: file.dialect().name(),
        size: meter.size.or_else(|| (end == End::Whole).then(|| meter.bytes_read())),
        summary,
    };
    output.write(|out| if args.json { writeln!(out, "{}", page.json()) } else { page.text(out) });
    output.finish()?;
    Ok(tarmac_verdict(&mut file, &end))
}

struct Page {
    name: String,
    is_quick: bool,
    container: Container,
    dialect: &'static str,
    size: Option<u64>,
    summary: Summary,
}

impl Page {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}: Tarmac, {}, {}", self.name, self.dialect, self.container_text())?;
        if let Some((revision, flags)) = &self.summary.header {
            writeln!(out, "  header       revision {revision}, flags '{flags}'")?;
        }
        if let Some(size) = self.size {
            writeln!(out, "  size         {} bytes", grouped(size))?;
        }
        let first = if self.is_quick { "the first " } else { "" };
        writeln!(out, "  lines        {first}{}", grouped(self.summary.lines))?;
        let skipped = if self.summary.skipped > 0 {
            format!(", {} skipped", grouped(self.summary.skipped))
        } else {
            String::new()
        };
        writeln!(out, "  instructions {}{skipped}", grouped(self.summary.instructions()))?;
        let counts: Vec<String> =
            self.summary.sets.iter().map(|(name, count)| format!("{} {name}", grouped(*count))).collect();
        line(out, "sets", &counts)?;
        line(out, "modes", &names(&self.summary.modes))?;
        line(out, "cores", &names(&self.summary.cores))?;
        if let Some(start) = self.summary.start {
            writeln!(out, "  start        {start:#x}")?;
        }
        if let (Some(first), Some(last)) = (self.summary.first, self.summary.last) {
            writeln!(out, "  time         {first} to {last}")?;
        }
        if self.summary.exceptions > 0 {
            writeln!(out, "  exceptions   {}", grouped(self.summary.exceptions))?;
        }
        let kinds =
            self.summary.kinds.iter().filter(|(kind, _)| !matches!(**kind, "instruction" | "unknown" | "blank"));
        line(out, "others", &kinds.map(|(kind, count)| format!("{} {kind}", grouped(*count))).collect::<Vec<_>>())?;
        match self.summary.kinds.get("unknown") {
            Some(count) => writeln!(out, "  unknown      {} cannot be understood", many(*count, "line")),
            None => Ok(()),
        }
    }

    fn container_text(&self) -> &'static str {
        match self.container {
            Container::Gz => "in a gzip file",
            Container::Xz => "in an .xz file",
            Container::Zst => "in a zstd file",
            _ => "plain",
        }
    }

    fn json(&self) -> Value {
        let table = |names: &BTreeMap<Vec<u8>, u64>| -> Value {
            names
                .iter()
                .map(|(name, count)| (Text(name).to_string(), json!(count)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        json!({
            "file": self.name,
            "format": "tarmac",
            "dialect": self.dialect,
            "container": self.container_text(),
            "bytes": self.size,
            "header": self.summary.header.as_ref().map(|(revision, flags)| json!({"revision": revision, "flags": flags})),
            "quick": self.is_quick,
            "lines": self.summary.lines,
            "kinds": self.summary.kinds,
            "instructions": self.summary.instructions(),
            "skipped": self.summary.skipped,
            "sets": self.summary.sets,
            "modes": table(&self.summary.modes),
            "cores": table(&self.summary.cores),
            "exceptions": self.summary.exceptions,
            "start": self.summary.start.map(|start| format!("{start:#x}")),
            "first": self.summary.first.map(|time| time.to_string()),
            "last": self.summary.last.map(|time| time.to_string()),
        })
    }
}

fn names(names: &BTreeMap<Vec<u8>, u64>) -> Vec<String> {
    names
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, count)| format!("{} {}", grouped(*count), Text(name)))
        .collect()
}

fn line(out: &mut dyn Write, name: &str, list: &[String]) -> io::Result<()> {
    if list.is_empty() { Ok(()) } else { writeln!(out, "  {name:<12} {}", list.join(", ")) }
}
