//! Summary of an STF file: fields of its header, and totals of its records.

use std::io::{self, Write};

use unspool::file::End;
use unspool::info::StfInfo;
use unspool::number::{grouped, many};
use unspool::stf::header::{Header, OwnedTraceInfo};
use unspool::stf::names;
use unspool::stf::read::{ChunkSizes, Storage};
use unspool::stf::stats::Contents;

use crate::listing::counted;

pub(super) fn text(info: &StfInfo, out: &mut dyn Write) -> io::Result<()> {
    let header = &info.header;
    let version = header.version.map_or("of no version".to_string(), |(major, minor)| format!("{major}.{minor}"));
    writeln!(out, "{}: STF {version}, {}", info.name, storage_text(info.storage))?;
    if let Some(ChunkSizes { instructions, count }) = info.chunks {
        let count = count.map_or("unknown number".to_string(), grouped);
        writeln!(out, "  chunks       {count}, of {} each", many(instructions, "instruction"))?;
    }
    machine(header, out)?;
    let features = header.features.unwrap_or(0);
    let list: Vec<String> = names::features(features).map(|name| name.to_string()).collect();
    writeln!(out, "  features     {features:#x}: {}", if list.is_empty() { "none".into() } else { list.join(", ") })?;
    for OwnedTraceInfo { generator, version: [major, minor, patch], comment } in &header.trace_infos {
        let name = names::generator(*generator).map_or_else(|| format!("tool {generator}"), str::to_string);
        let line = format!("  made by      {name} {major}.{minor}.{patch} {comment}");
        writeln!(out, "{}", line.trim_end())?;
    }
    for comment in &header.comments {
        writeln!(out, "{}", format_args!("  comment      {comment}").to_string().trim_end())?;
    }
    if let Some([first, second, third]) = header.process {
        writeln!(out, "  process      {first} {second} {third}")?;
    }
    for (id, name) in &header.clocks {
        writeln!(out, "  clock        {id} {name}")?;
    }
    if let Some(pc) = header.pc {
        writeln!(out, "  start        {pc:#x}")?;
    }
    size(info, out)?;
    if let Some(contents) = &info.contents {
        contents_text(contents, out)?;
    }
    for warning in &info.warnings {
        writeln!(out, "  warning      {warning}")?;
    }
    if let End::Damaged(text) = &info.end {
        writeln!(out, "  damaged      {text}")?;
    }
    Ok(())
}

fn machine(header: &Header, out: &mut dyn Write) -> io::Result<()> {
    if let Some(protocol) = header.protocol {
        let name = names::protocol(protocol).map_or_else(|| format!("protocol {protocol}"), str::to_string);
        return writeln!(out, "  transactions of {name}");
    }
    let isa = header.isa.map_or("no instruction set".to_string(), |isa| {
        names::isa(isa).map_or_else(|| format!("instruction set {isa}"), str::to_string)
    });
    let iem = header.iem.map_or(String::new(), |iem| {
        names::iem(iem).map_or_else(|| format!(", encoding mode {iem}"), |name| format!(", {name}"))
    });
    let vlen = header.vlen.map_or(String::new(), |bits| format!(", vectors of {bits} bits"));
    let extensions = header.extensions.as_ref().map_or(String::new(), |text| format!(", {text}"));
    writeln!(out, "  machine      {isa}{iem}{extensions}{vlen}")
}

fn size(info: &StfInfo, out: &mut dyn Write) -> io::Result<()> {
    let Some(size) = info.size else { return Ok(()) };
    write!(out, "  size         {} bytes", grouped(size))?;
    match &info.contents {
        Some(contents) if info.storage != Storage::PLAIN && size > 0 => {
            let ratio = contents.bytes as f64 / size as f64;
            writeln!(out, " for {} bytes of records, {ratio:.1} : 1", grouped(contents.bytes))
        }
        _ => writeln!(out),
    }
}

fn contents_text(contents: &Contents, out: &mut dyn Write) -> io::Result<()> {
    let counts = &contents.counts;
    writeln!(out, "  records      {} after the header", grouped(counts.records))?;
    if contents.transactions > 0 {
        return writeln!(out, "  transactions {}", grouped(contents.transactions));
    }
    let modes = counts.modes.iter().zip(0..).filter(|(count, _)| **count > 0);
    let modes = modes.map(|(count, mode)| (format!("in {} mode", names::mode(mode).unwrap_or("no")), *count));
    let modes = counted(modes);
    let modes = if modes.is_empty() { modes } else { format!(": {modes}") };
    writeln!(out, "  instructions {}{modes}", grouped(counts.opcodes))?;
    if counts.faults > 0 {
        writeln!(out, "  faulted      {}", many(counts.faults, "instruction"))?;
    }
    let [targets, forced] = [counts.targets, counts.forced].map(grouped);
    writeln!(out, "  flow         {targets} with a target, {forced} with a forced address")?;
    let [reads, writes] = [many(counts.reads, "read"), many(counts.writes, "write")];
    writeln!(out, "  accesses     {}: {reads}, {writes}", grouped(counts.accesses))?;
    for (name, count) in [
        ("registers", counts.registers),
        ("walks", counts.walks),
        ("bus accesses", counts.bus_accesses),
        ("micro-ops", counts.microops),
        ("comments", counts.comments),
    ] {
        if count > 0 {
            writeln!(out, "  {name:<12} {}", grouped(count))?;
        }
    }
    if counts.events > 0 {
        writeln!(out, "  events       {}", counted(contents.events.rows()))?;
    }
    Ok(())
}

fn storage_text(storage: Storage) -> &'static str {
    match storage {
        Storage::PLAIN => "plain",
        Storage::Zstf => "in chunks of zstd (.zstf)",
        Storage::GZIP => "in a gzip file",
        Storage::XZ => "in an .xz file",
        Storage::ZSTD => "in a zstd file",
        Storage::Stream(_) => "compressed",
    }
}
