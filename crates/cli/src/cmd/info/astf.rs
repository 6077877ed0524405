//! Summary of an ASTF file: fields of its header, and totals of its records.

use std::io::{self, Write};

use unspool::astf::record::Storage;
use unspool::astf::stats::{Counts, TRAPS, TYPES, Threads};
use unspool::file::End;
use unspool::info::{AstfInfo, features, level_name, storage_name};
use unspool::number::{grouped, many};

use crate::listing::counted;

pub(super) fn text(info: &AstfInfo, out: &mut dyn Write) -> io::Result<()> {
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
        instructions(counts, out)?;
        state(counts, out)?;
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

fn instructions(counts: &Counts, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  records      {}", nonzero(TYPES, &counts.types))?;
    let levels = nonzero(["at EL0", "at EL1", "at EL2", "at EL3"], &counts.at_level);
    let split = if levels.is_empty() { String::new() } else { format!(": {levels}") };
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

fn nonzero<'n>(names: impl IntoIterator<Item = &'n str>, counts: &[u64]) -> String {
    counted(names.into_iter().zip(counts.iter().copied()).filter(|(_, count)| *count > 0))
}

fn state(counts: &Counts, out: &mut dyn Write) -> io::Result<()> {
    if counts.trapping > 0 {
        writeln!(out, "  trapped      {}", many(counts.trapping, "instruction"))?;
    }
    let traps = nonzero(TRAPS, &counts.traps);
    if !traps.is_empty() {
        writeln!(out, "  traps        {traps}")?;
    }
    if !counts.contexts.is_empty() {
        let contexts = counts.contexts.iter().map(|(name, count)| (format_args!("x {name}").to_string(), *count));
        writeln!(out, "  contexts     {}", counted(contexts))?;
    }
    if !counts.processes.is_empty() {
        writeln!(out, "  processes    {}", processes_text(counts))?;
    }
    if let Some((first, last)) = counts.time {
        let span = grouped(last.saturating_sub(first));
        writeln!(out, "  time         {first} to {last} us, {span} us")?;
    }
    for text in &counts.strings {
        writeln!(out, "  string       {}", text.escape_debug())?;
    }
    if counts.more_strings > 0 {
        writeln!(out, "               and {}", many(counts.more_strings, "more string"))?;
    }
    Ok(())
}

/// The first processes, with their threads.
fn processes_text(counts: &Counts) -> String {
    const MAX_LISTED: usize = 8;
    let text = |(pid, threads): (&u64, &Threads)| match threads.count() {
        0 => format!("PID {pid}"),
        count => format!("PID {pid} ({})", many(count, "thread")),
    };
    let mut list: Vec<String> = counts.processes.iter().take(MAX_LISTED).map(text).collect();
    let more = counts.processes.len().saturating_sub(MAX_LISTED) as u64;
    if more > 0 || counts.processes_overflow {
        let at_least = if counts.processes_overflow { "at least " } else { "" };
        list.push(format!("{at_least}{} more", grouped(more)));
    }
    list.join(", ")
}
