//! The page of an ASTF file: fields of its header, and totals of its records.

use std::io::{self, Write};

use unspool::astf::record::Storage;
use unspool::astf::stats::{Counts, TRAPS, TYPES, Threads};
use unspool::file::{AstfFile, End};
use unspool::info::{AstfInfo, features, level_name, storage_name};
use unspool::number::{grouped, many};

use crate::args::OutputArgs;
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Prints the page. `quick`: only what the header says.
pub(super) fn run(mut file: AstfFile, quick: bool, args: &OutputArgs, mut output: Output) -> anyhow::Result<Verdict> {
    let info = AstfInfo::read(&mut file, quick, &mut Progress::new(false).callback())?;
    output.write(|out| if args.json { writeln!(out, "{}", info.json()) } else { text(&info, out) });
    output.finish()?;
    Ok(Verdict::of(matches!(info.end, End::Damaged(_))))
}

fn text(info: &AstfInfo, out: &mut dyn Write) -> io::Result<()> {
    let header = &info.header;
    let (major, minor) = (header.version_major, header.version_minor);
    let [level, storage] = [level_name(header), storage_name(header)];
    writeln!(out, "{}: ASTF {major}.{minor}, {level} level, stored as {storage}", info.name)?;
    let features = features(header);
    let list = if features.is_empty() { "none".to_string() } else { features.join(", ") };
    writeln!(out, "  features     {list}")?;
    if let Some(size) = info.size {
        write!(out, "  size         {} bytes", grouped(size))?;
        match &info.counts {
            Some(counts) => writeln!(out, "{}", ratio_text(info, counts))?,
            None => writeln!(out)?,
        }
    }
    if let Some(counts) = &info.counts {
        executed(counts, out)?;
        around(counts, out)?;
    }
    for warning in &info.warnings {
        writeln!(out, "  warning      {warning}")?;
    }
    if let End::Damaged(text) = &info.end {
        writeln!(out, "  damaged      {text}")?;
    }
    Ok(())
}

fn ratio_text(info: &AstfInfo, counts: &Counts) -> String {
    let records = many(counts.records(), "record");
    match info.ratio(counts) {
        Some(ratio) if info.header.storage() != Storage::Raw => {
            format!(" for {records} of {} bytes, {ratio:.1} : 1", grouped(info.unpacked(counts)))
        }
        _ => format!(", {records}"),
    }
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
