//! The page of an STF file: what its header says, and what its records come to.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use unspool::stf::lift::Instruction;
use unspool::stf::names;
use unspool::stf::read::{ChunkSizes, Gather, Storage, Warning};
use unspool::stf::record::{Event, Record};
use unspool::stf::stats::Counts;

use super::super::stats::each_count;
use super::super::{grouped, many};
use crate::Verdict;
use crate::args::OutputArgs;
use crate::astf::End;
use crate::output::Output;
use crate::progress::Progress;
use crate::stf::{Header, Maker, Stf, is_damage};

/// Names of events that are told.
const EVENTS: usize = 64;

/// Names of events that are counted.
const COUNTED_EVENTS: usize = 1 << 16;

/// Prints the page. `quick`: only what the header says.
pub(super) fn run(mut file: Stf, quick: bool, args: &OutputArgs, mut output: Output) -> anyhow::Result<Verdict> {
    let (header, mut end) = match file.header()? {
        Ok(header) => (header, End::Left),
        Err(end) => (Header::default(), end),
    };
    let mut page = Page {
        name: file.name().to_string(),
        storage: file.storage(),
        chunks: None,
        size: file.size(),
        header,
        contents: None,
        warnings: Vec::new(),
        end: End::Left,
    };
    if !quick && end == End::Left {
        let mut contents;
        (contents, end) = Contents::read(&mut file, &page.header)?;
        contents.bytes = file.reader().place().offset;
        // Of a file with an index, not all is read in order; what there is was read.
        page.size = page.size.or(Some(file.bytes_read()));
        page.contents = Some(contents);
    }
    page.end = end;
    // Without an index, their number is known by now.
    page.chunks = file.chunks();
    page.warnings = file.warnings().to_vec();
    output.write(|out| if args.json { writeln!(out, "{}", page.json()) } else { page.text(out) });
    output.finish()?;
    Ok(match page.end {
        End::Damaged(_) => Verdict::Problems,
        _ if page.warnings.iter().any(is_damage) => Verdict::Problems,
        _ => Verdict::Clean,
    })
}

/// What the records come to.
#[derive(Default)]
struct Contents {
    counts: Counts,
    transactions: u64,
    events: Events,
    /// Bytes of the records.
    bytes: u64,
}

impl Contents {
    fn read(file: &mut Stf, header: &Header) -> anyhow::Result<(Self, End)> {
        let (mut contents, mut progress) = (Self::default(), Progress::new(false));
        if !header.has_transactions() {
            let end;
            (contents, end) = file.gather(&mut header.follower(), &mut progress, contents)?;
            if end != End::Whole {
                return Ok((contents, end));
            }
        }
        let Self { counts, transactions, events, .. } = &mut contents;
        let end = file.each(&mut progress, |_, record| {
            counts.add_trailing(record);
            *transactions += u64::from(matches!(record, Record::Transaction(_)));
            if let Record::Event(event) = record {
                events.add(event);
            }
            true
        })?;
        Ok((contents, end))
    }
}

impl Gather for Contents {
    fn take(&mut self, instruction: &Instruction<'_>) {
        let before = self.counts.events;
        self.counts.add(instruction);
        if self.counts.events > before {
            instruction.events().for_each(|event| self.events.add(&event));
        }
    }

    fn part(&self) -> Self {
        Self::default()
    }

    fn append(&mut self, part: Self) {
        self.counts.append(part.counts);
        self.events.append(part.events);
    }
}

/// Events by name: when the first was met, and how many there are.
#[derive(Default)]
struct Events(BTreeMap<String, (usize, u64)>);

impl Events {
    fn add(&mut self, event: &Event<'_>) {
        self.add_some(names::event(event).to_string(), 1);
    }

    fn add_some(&mut self, name: String, count: u64) {
        let is_counted = self.0.len() < COUNTED_EVENTS || self.0.contains_key(&name);
        let order = self.0.len();
        self.0.entry(if is_counted { name } else { OTHERS.into() }).or_insert((order, 0)).1 += count;
    }

    fn append(&mut self, part: Self) {
        let mut names: Vec<_> = part.0.into_iter().collect();
        names.sort_by_key(|(_, (order, _))| *order);
        names.into_iter().for_each(|(name, (_, count))| self.add_some(name, count));
    }

    /// The first names that were met, and all others as one.
    fn told(&self) -> BTreeMap<&str, u64> {
        let mut told = BTreeMap::new();
        for (name, (order, count)) in &self.0 {
            *told.entry(if *order < EVENTS { name } else { OTHERS }).or_default() += count;
        }
        told
    }
}

const OTHERS: &str = "others";

struct Page {
    name: String,
    storage: Storage,
    chunks: Option<ChunkSizes>,
    /// Bytes of the file.
    size: Option<u64>,
    header: Header,
    contents: Option<Contents>,
    warnings: Vec<Warning>,
    end: End,
}

impl Page {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let header = &self.header;
        let version = header.version.map_or("of no version".to_string(), |(major, minor)| format!("{major}.{minor}"));
        writeln!(out, "{}: STF {version}, {}", self.name, storage_text(self.storage))?;
        if let Some(ChunkSizes { instructions, count }) = self.chunks {
            let count = count.map_or("not known how many".to_string(), grouped);
            writeln!(out, "  chunks       {count}, of {} each", many(instructions, "instruction"))?;
        }
        self.machine(out)?;
        let features = header.features.unwrap_or(0);
        let list: Vec<String> = names::features(features).map(|name| name.to_string()).collect();
        writeln!(
            out,
            "  features     {features:#x}: {}",
            if list.is_empty() { "none".into() } else { list.join(", ") }
        )?;
        for Maker { generator, version: [major, minor, patch], comment } in &header.makers {
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
        self.size(out)?;
        if let Some(contents) = &self.contents {
            contents.text(out)?;
        }
        for warning in &self.warnings {
            writeln!(out, "  warning      {warning}")?;
        }
        if let End::Damaged(text) = &self.end {
            writeln!(out, "  damaged      {text}")?;
        }
        Ok(())
    }

    /// What executed it.
    fn machine(&self, out: &mut dyn Write) -> io::Result<()> {
        let header = &self.header;
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

    fn size(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(size) = self.size else { return Ok(()) };
        write!(out, "  size         {} bytes", grouped(size))?;
        match &self.contents {
            Some(contents) if self.storage != Storage::PLAIN && size > 0 => {
                let ratio = contents.bytes as f64 / size as f64;
                writeln!(out, " for {} bytes of records, {ratio:.1} : 1", grouped(contents.bytes))
            }
            _ => writeln!(out),
        }
    }

    fn json(&self) -> Value {
        let header = &self.header;
        let features = header.features.unwrap_or(0);
        let makers: Vec<Value> = header
            .makers
            .iter()
            .map(|Maker { generator, version: [major, minor, patch], comment }| {
                json!({
                    "generator": generator,
                    "name": names::generator(*generator),
                    "version": format!("{major}.{minor}.{patch}"),
                    "comment": comment,
                })
            })
            .collect();
        let clocks: Vec<Value> = header.clocks.iter().map(|(id, name)| json!({"id": id, "name": name})).collect();
        let mut page = json!({
            "path": self.name,
            "format": "stf",
            "container": self.storage.to_string(),
            "version": header.version.map(|(major, minor)| format!("{major}.{minor}")),
            "isa": header.isa,
            "isa_name": header.isa.and_then(names::isa),
            "iem": header.iem,
            "iem_name": header.iem.and_then(names::iem),
            "vlen": header.vlen,
            "extensions": header.extensions,
            "features": format!("{features:#x}"),
            "feature_names": names::features(features).map(|name| name.to_string()).collect::<Vec<_>>(),
            "generators": makers,
            "comments": header.comments,
            "process": header.process,
            "protocol": header.protocol,
            "clocks": clocks,
            "start": header.pc.map(|pc| format!("{pc:#x}")),
            "header_records": header.records,
            "bytes": self.size,
            "chunks": self.chunks.as_ref().map(|chunks| json!({
                "count": chunks.count,
                "instructions": chunks.instructions,
            })),
            "warnings": self.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "damage": match &self.end { End::Damaged(text) => Some(text), _ => None },
        });
        if let Some(contents) = &self.contents {
            page["unpacked_bytes"] = json!(contents.bytes);
            page["transactions"] = json!(contents.transactions);
            page["event_names"] = json!(contents.events.told());
            each_count(&contents.counts, |name, count| page[name] = json!(count));
        }
        page
    }
}

impl Contents {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let counts = &self.counts;
        writeln!(out, "  records      {} behind the header", grouped(counts.records))?;
        if self.transactions > 0 {
            return writeln!(out, "  transactions {}", grouped(self.transactions));
        }
        let named = counts.modes.iter().zip(0..).filter(|(count, _)| **count > 0);
        let modes: Vec<String> = named
            .map(|(count, mode)| format!("{} in {} mode", grouped(*count), names::mode(mode).unwrap_or("no")))
            .collect();
        let modes = if modes.is_empty() { String::new() } else { format!(": {}", modes.join(", ")) };
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
            let told = self.events.told();
            let list: Vec<String> = told.iter().map(|(name, count)| format!("{} {name}", grouped(*count))).collect();
            writeln!(out, "  events       {}", list.join(", "))?;
        }
        Ok(())
    }
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
