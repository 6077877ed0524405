//! The page of a Tarmac log: who wrote it, and what its lines come to.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use unspool::container::Container;
use unspool::tarmac::Line;
use unspool::tarmac::read::Place;
use unspool::tarmac::record::{Record, Stamp, Time};
use unspool::tarmac::text::{Text, kind, set_name};

use super::super::{grouped, many};
use crate::Verdict;
use crate::args::OutputArgs;
use crate::astf::End;
use crate::output::Output;
use crate::progress::Progress;
use crate::tarmac::Tarmac;

/// Cores and modes that are told apart.
const NAMES: usize = 256;

/// Lines that are looked at when there is no time for all.
const QUICK: u64 = 10_000;

/// Prints the page. `quick`: only of the first lines.
pub(super) fn run(mut file: Tarmac, quick: bool, args: &OutputArgs, mut output: Output) -> anyhow::Result<Verdict> {
    let mut page = Page { name: file.name().to_string(), is_quick: quick, ..Page::default() };
    let end = file.each(&mut Progress::new(false), |place, line| {
        page.add(place, line);
        !quick || place.line < QUICK
    })?;
    page.size = file.size().or_else(|| (end == End::Whole).then(|| file.bytes_read()));
    page.container = Some(file.container());
    page.dialect = file.dialect().name();
    output.write(|out| if args.json { writeln!(out, "{}", page.json()) } else { page.text(out) });
    output.finish()?;
    Ok(file.verdict(&end))
}

#[derive(Default)]
struct Page {
    name: String,
    is_quick: bool,
    container: Option<Container>,
    dialect: &'static str,
    size: Option<u64>,
    header: Option<(u32, String)>,
    lines: u64,
    kinds: BTreeMap<&'static str, u64>,
    sets: BTreeMap<&'static str, u64>,
    cores: BTreeMap<Vec<u8>, u64>,
    modes: BTreeMap<Vec<u8>, u64>,
    exceptions: u64,
    skipped: u64,
    /// The times of the first and of the last line that has one.
    first: Option<Time>,
    last: Option<Time>,
    start: Option<u64>,
}

impl Page {
    fn add(&mut self, place: Place, line: &Line<'_>) {
        self.lines = place.line;
        *self.kinds.entry(kind(&line.record)).or_default() += 1;
        if let Stamp::At(time) = line.stamp {
            self.first.get_or_insert(time);
            self.last = Some(time);
        }
        if let Some(core) = line.core {
            add_name(&mut self.cores, core);
        }
        match &line.record {
            Record::Header(header) => {
                self.header.get_or_insert_with(|| (header.revision, Text(header.flags).to_string()));
            }
            Record::Instruction(instruction) => {
                self.start = self.start.or(instruction.address);
                self.skipped += u64::from(!instruction.is_executed);
                *self.sets.entry(instruction.set.map_or("not said", set_name)).or_default() += 1;
                add_name(&mut self.modes, instruction.mode);
            }
            Record::Exception(_) => self.exceptions += 1,
            Record::Event(event) => self.exceptions += u64::from(event.is_exception),
            _ => {}
        }
    }

    fn instructions(&self) -> u64 {
        self.kinds.get("instruction").copied().unwrap_or(0)
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}: Tarmac, {}, {}", self.name, self.dialect, self.container_text())?;
        if let Some((revision, flags)) = &self.header {
            writeln!(out, "  header       revision {revision}, flags '{flags}'")?;
        }
        if let Some(size) = self.size {
            writeln!(out, "  size         {} bytes", grouped(size))?;
        }
        let first = if self.is_quick { "the first " } else { "" };
        writeln!(out, "  lines        {first}{}", grouped(self.lines))?;
        let skipped = if self.skipped > 0 { format!(", {} skipped", grouped(self.skipped)) } else { String::new() };
        writeln!(out, "  instructions {}{skipped}", grouped(self.instructions()))?;
        let counts: Vec<String> = self.sets.iter().map(|(name, count)| format!("{} {name}", grouped(*count))).collect();
        line(out, "sets", &counts)?;
        line(out, "modes", &names(&self.modes))?;
        line(out, "cores", &names(&self.cores))?;
        if let Some(start) = self.start {
            writeln!(out, "  start        {start:#x}")?;
        }
        if let (Some(first), Some(last)) = (self.first, self.last) {
            writeln!(out, "  time         {first} to {last}")?;
        }
        if self.exceptions > 0 {
            writeln!(out, "  exceptions   {}", grouped(self.exceptions))?;
        }
        let kinds = self.kinds.iter().filter(|(kind, _)| !matches!(**kind, "instruction" | "unknown" | "blank"));
        line(out, "others", &kinds.map(|(kind, count)| format!("{} {kind}", grouped(*count))).collect::<Vec<_>>())?;
        match self.kinds.get("unknown") {
            Some(count) => writeln!(out, "  unknown      {} cannot be understood", many(*count, "line")),
            None => Ok(()),
        }
    }

    fn container_text(&self) -> &'static str {
        match self.container {
            Some(Container::Gzip) => "in a gzip file",
            Some(Container::Xz) => "in an .xz file",
            Some(Container::Zstd) => "in a zstd file",
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
            "header": self.header.as_ref().map(|(revision, flags)| json!({"revision": revision, "flags": flags})),
            "quick": self.is_quick,
            "lines": self.lines,
            "kinds": self.kinds,
            "instructions": self.instructions(),
            "skipped": self.skipped,
            "sets": self.sets,
            "modes": table(&self.modes),
            "cores": table(&self.cores),
            "exceptions": self.exceptions,
            "start": self.start.map(|start| format!("{start:#x}")),
            "first": self.first.map(|time| time.to_string()),
            "last": self.last.map(|time| time.to_string()),
        })
    }
}

fn add_name(names: &mut BTreeMap<Vec<u8>, u64>, name: &[u8]) {
    if let Some(count) = names.get_mut(name) {
        *count += 1;
    } else if names.len() < NAMES {
        names.insert(name.to_vec(), 1);
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
