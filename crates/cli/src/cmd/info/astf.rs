//! The page of an ASTF file: fields of its header, and totals of its records.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use unspool::astf::read::Warning;
use unspool::astf::record::{Header, Level, RECORD_BYTES, Storage};

use crate::args::OutputArgs;
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;
use unspool::astf::stats::{Counts, TRAPS, TYPES, Threads};
use unspool::file::{AstfFile, End};
use unspool::number::{grouped, many};

/// Prints the page. `quick`: only what the header says.
pub(super) fn run(mut file: AstfFile, quick: bool, args: &OutputArgs, mut output: Output) -> anyhow::Result<Verdict> {
    let mut page = Page {
        name: file.name().to_string(),
        header: *file.header(),
        size: file.meter().size,
        warnings: file.warnings().to_vec(),
        counts: None,
        end: End::Stopped,
    };
    if !quick {
        let mut counts = Counts::default();
        page.end = file.each(&mut Progress::new(false).callback(), |_, records| {
            records.iter().for_each(|record| counts.add(record));
            true
        })?;
        page.size = Some(file.meter().bytes_read());
        page.counts = Some(counts);
    }
    output.write(|out| if args.json { writeln!(out, "{}", page.json()) } else { page.text(out) });
    output.finish()?;
    Ok(match page.end {
        End::Damaged(_) => Verdict::Problems,
        _ => Verdict::Clean,
    })
}

struct Page {
    name: String,
    header: Header,
    /// Bytes of the file.
    size: Option<u64>,
    warnings: Vec<Warning>,
    counts: Option<Counts>,
    end: End,
}

impl Page {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let header = &self.header;
        let (major, minor) = (header.version_major, header.version_minor);
        let [level, storage] = [level_name(header), storage_name(header)];
        writeln!(out, "{}: ASTF {major}.{minor}, {level} level, stored as {storage}", self.name)?;
        let features = features(header);
        let list = if features.is_empty() { "none".to_string() } else { features.join(", ") };
        writeln!(out, "  features     {list}")?;
        if let Some(size) = self.size {
            write!(out, "  size         {} bytes", grouped(size))?;
            match &self.counts {
                Some(counts) => writeln!(out, "{}", self.ratio_text(counts))?,
                None => writeln!(out)?,
            }
        }
        if let Some(counts) = &self.counts {
            executed(counts, out)?;
            around(counts, out)?;
        }
        for warning in &self.warnings {
            writeln!(out, "  warning      {warning}")?;
        }
        if let End::Damaged(text) = &self.end {
            writeln!(out, "  damaged      {text}")?;
        }
        Ok(())
    }

    fn ratio_text(&self, counts: &Counts) -> String {
        let records = many(counts.records(), "record");
        match self.ratio(counts) {
            Some(ratio) if self.header.storage() != Storage::Raw => {
                format!(" for {records} of {} bytes, {ratio:.1} : 1", grouped(unpacked(counts)))
            }
            _ => format!(", {records}"),
        }
    }

    /// How many times larger the records are than the file.
    fn ratio(&self, counts: &Counts) -> Option<f64> {
        self.size.filter(|size| *size > 0).map(|size| unpacked(counts) as f64 / size as f64)
    }

    fn json(&self) -> Value {
        let header = &self.header;
        let mut page = json!({
            "path": self.name,
            "format": "astf",
            "version": format!("{}.{}", header.version_major, header.version_minor),
            "level": level_name(header).to_lowercase(),
            "storage": storage_name(header).to_lowercase(),
            "features": features(header),
            "bytes": self.size,
            "warnings": self.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "damage": match &self.end { End::Damaged(text) => Some(text), _ => None },
        });
        if let Some(counts) = &self.counts {
            page["unpacked_bytes"] = json!(unpacked(counts));
            page["ratio"] = json!(self.ratio(counts));
            counts_json(counts, &mut page);
        }
        page
    }
}

/// How many bytes the records have when nothing is compressed.
fn unpacked(counts: &Counts) -> u64 {
    counts.records() * RECORD_BYTES as u64
}

fn level_name(header: &Header) -> &'static str {
    match header.level() {
        Level::Basic => "Basic",
        Level::BasicPlus => "BasicPlus",
    }
}

fn storage_name(header: &Header) -> &'static str {
    match header.storage() {
        Storage::Raw => "RAW",
        Storage::Lzma => "LZMA",
        Storage::Zlib => "zlib",
    }
}

/// The feature flags that are set.
fn features(header: &Header) -> Vec<&'static str> {
    let all = [
        (header.reginfo, "reginfo"),
        (header.meminfo, "meminfo"),
        (header.addrinfo_d, "addrinfo_d"),
        (header.addrinfo_i, "addrinfo_i"),
        (header.pseudo, "pseudo"),
        (header.single_el, "single_el"),
        (header.timestamps, "timestamps"),
    ];
    all.into_iter().filter_map(|(set, name)| set.then_some(name)).collect()
}

/// What was executed.
fn executed(counts: &Counts, out: &mut dyn Write) -> io::Result<()> {
    let named = counts.types.iter().zip(TYPES).filter(|(count, _)| **count > 0);
    let list: Vec<String> = named.map(|(count, name)| format!("{} {name}", grouped(*count))).collect();
    writeln!(out, "  records      {}", list.join(", "))?;
    let levels = counts.at_level.iter().enumerate().filter(|(_, count)| **count > 0);
    let levels: Vec<String> = levels.map(|(el, count)| format!("{} at EL{el}", grouped(*count))).collect();
    let split = if levels.is_empty() { String::new() } else { format!(": {}", levels.join(", ")) };
    writeln!(out, "  instructions {}{split}", grouped(counts.instructions()))?;
    let branches = counts.taken + counts.not_taken;
    let [branches, taken, not_taken] = [branches, counts.taken, counts.not_taken].map(grouped);
    writeln!(out, "  branches     {branches}: {taken} taken, {not_taken} not taken")?;
    let [reads, read, writes, written] = [counts.reads, counts.bytes_read, counts.writes, counts.bytes_written];
    let [reads, writes] = [many(reads, "read"), many(writes, "write")];
    writeln!(out, "  accesses     {reads} of {} bytes, {writes} of {} bytes", grouped(read), grouped(written))?;
    if counts.others + counts.tagged > 0 {
        let [others, tagged] = [counts.others, counts.tagged].map(grouped);
        writeln!(out, "               {others} neither, {tagged} of all with tags")?;
    }
    Ok(())
}

/// What happened around it.
fn around(counts: &Counts, out: &mut dyn Write) -> io::Result<()> {
    if counts.trapping > 0 {
        writeln!(out, "  trapped      {}", many(counts.trapping, "instruction"))?;
    }
    let named = counts.traps.iter().zip(TRAPS).filter(|(count, _)| **count > 0);
    let list: Vec<String> = named.map(|(count, name)| format!("{} {name}", grouped(*count))).collect();
    if !list.is_empty() {
        writeln!(out, "  traps        {}", list.join(", "))?;
    }
    if !counts.contexts.is_empty() {
        let list: Vec<String> =
            counts.contexts.iter().map(|(name, count)| format!("{} x {name}", grouped(*count))).collect();
        writeln!(out, "  contexts     {}", list.join(", "))?;
    }
    if !counts.processes.is_empty() {
        writeln!(out, "  processes    {}", processes_text(counts))?;
    }
    if let Some((first, last)) = counts.time {
        let span = grouped(last.saturating_sub(first));
        writeln!(out, "  time         {} to {} us, {span} us", grouped(first), grouped(last))?;
    }
    for text in &counts.strings {
        writeln!(out, "  string       {}", text.escape_debug())?;
    }
    if counts.more_strings > 0 {
        writeln!(out, "               and {}", many(counts.more_strings, "more string"))?;
    }
    Ok(())
}

/// Processes, as many as fit a line, with their threads.
fn processes_text(counts: &Counts) -> String {
    const LISTED: usize = 8;
    let said = |(pid, threads): (&u64, &Threads)| match threads.count() {
        0 => format!("PID {pid}"),
        count => format!("PID {pid} ({})", many(count, "thread")),
    };
    let mut list: Vec<String> = counts.processes.iter().take(LISTED).map(said).collect();
    let more = counts.processes.len().saturating_sub(LISTED) as u64;
    if more > 0 || counts.processes_overflow {
        let at_least = if counts.processes_overflow { "at least " } else { "" };
        list.push(format!("{at_least}{} more", grouped(more)));
    }
    list.join(", ")
}

fn counts_json(counts: &Counts, page: &mut Value) {
    let types: BTreeMap<&str, u64> = TYPES.into_iter().zip(counts.types).collect();
    let traps: BTreeMap<&str, u64> = TRAPS.into_iter().zip(counts.traps).collect();
    page["records"] = json!(counts.records());
    page["types"] = json!(types);
    page["instructions"] = json!(counts.instructions());
    page["instructions_at_el"] = json!(counts.at_level);
    page["branches"] = json!({"taken": counts.taken, "not_taken": counts.not_taken});
    page["reads"] = json!({"count": counts.reads, "bytes": counts.bytes_read});
    page["writes"] = json!({"count": counts.writes, "bytes": counts.bytes_written});
    page["other_accesses"] = json!(counts.others);
    page["tagged_accesses"] = json!(counts.tagged);
    page["trapping_instructions"] = json!(counts.trapping);
    page["traps"] = json!(traps);
    page["contexts"] = json!(counts.contexts);
    page["pids"] = json!(counts.processes.keys().collect::<Vec<_>>());
    page["time"] = json!(counts.time.map(|(first, last)| [first, last]));
    page["strings"] = json!(counts.strings);
    page["more_strings"] = json!(counts.more_strings);
}
