//! The page of an STF file: fields of its header, and totals of its records.

use std::io::{self, Write};

use serde_json::{Value, json};
use unspool::stf::header::{Header, Maker};
use unspool::stf::names;
use unspool::stf::read::{ChunkSizes, Container, Warning};
use unspool::stf::stats::Contents;

use crate::args::OutputArgs;
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;
use unspool::file::{End, StfFile, is_damage};
use unspool::number::{grouped, many};

/// Prints the page. `quick`: only what the header says.
pub(super) fn run(mut file: StfFile, quick: bool, args: &OutputArgs, mut output: Output) -> anyhow::Result<Verdict> {
    let (header, mut end) = match file.header()? {
        Ok(header) => (header, End::Stopped),
        Err(end) => (Header::default(), end),
    };
    let mut page = Page {
        name: file.name().to_string(),
        container: file.container(),
        chunks: None,
        size: file.meter().size,
        header,
        contents: None,
        warnings: Vec::new(),
        end: End::Stopped,
    };
    if !quick && end == End::Stopped {
        let mut progress = Progress::new(false);
        let mut contents;
        (contents, end) =
            file.gather(&page.header, &mut progress.callback(), Contents::default(), Contents::add_trailing)?;
        contents.bytes = file.reader().place().offset;
        // Of a file with an index, not all is read in order; what there is was read.
        page.size = page.size.or(Some(file.meter().bytes_read()));
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

struct Page {
    name: String,
    container: Container,
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
        writeln!(out, "{}: STF {version}, {}", self.name, container_text(self.container))?;
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
            contents_text(contents, out)?;
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
            Some(contents) if self.container != Container::Plain && size > 0 => {
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
            "container": self.container.to_string(),
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
            page["event_names"] = json!(contents.events.rows());
            for (name, count) in contents.counts.fields() {
                page[name] = json!(count);
            }
        }
        page
    }
}

fn contents_text(contents: &Contents, out: &mut dyn Write) -> io::Result<()> {
    let counts = &contents.counts;
    writeln!(out, "  records      {} behind the header", grouped(counts.records))?;
    if contents.transactions > 0 {
        return writeln!(out, "  transactions {}", grouped(contents.transactions));
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
        let rows = contents.events.rows();
        let list: Vec<String> = rows.iter().map(|(name, count)| format!("{} {name}", grouped(*count))).collect();
        writeln!(out, "  events       {}", list.join(", "))?;
    }
    Ok(())
}

fn container_text(container: Container) -> &'static str {
    match container {
        Container::Plain => "plain",
        Container::Zstf => "in chunks of zstd (.zstf)",
        Container::Gzip => "in a gzip file",
        Container::Xz => "in an .xz file",
        Container::Zstd => "in a zstd file",
    }
}
