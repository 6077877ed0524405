//! `info`: one page that says what a capture is, what each source was configured for, and what is missing; or what is in
//! an ASTF or STF file or a Tarmac log.

mod astf;
mod stf;
mod tarmac;

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use unspool::capture::{Buffer, Capture, Code, Format, Image, LoadedCode, Note, NoteKind, Spaces};
use unspool::coresight::Protocol;
use unspool::coresight::etm4::element::exception_name;
use unspool::coresight::etm4::{PacketKind, explain};
use unspool::{BufferOverview, Error, Overview, Trace, TraceOverview, overview};

use super::{grouped, many};
use crate::Verdict;
use crate::args::{CaptureArgs, OutputArgs};
use crate::file::{Opened, open_if_trace};
use crate::output::Output;
use crate::progress::Progress;

/// Say what a capture holds, what each source was configured for, and what is missing; or what is in an ASTF or STF file
/// or a Tarmac log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    capture: CaptureArgs,

    /// Explain every field of every known register
    #[arg(long = "registers")]
    explain_registers: bool,

    /// Do not read buffers, images and records, only the description
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool info snapshot/
  unspool info capture.zip --registers
  unspool info trace.astf
  unspool info trace.zstf --quick
  unspool info run.tarmac.gz
  unspool info dump.bin --protocol ete --reg TRCIDR8=6";

/// Prints the page.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if let Some(path) = args.capture.path()
        && let Some(file) = open_if_trace(path)
    {
        let open_output = || Output::open_for(&args.output, path);
        return match file? {
            None => Ok(Verdict::Problems),
            Some(Opened::Astf(file)) => astf::run(file, args.quick, &args.output, open_output()?),
            Some(Opened::Stf(file)) => stf::run(file, args.quick, &args.output, open_output()?),
            Some(Opened::Tarmac(file)) => tarmac::run(file, args.quick, &args.output, open_output()?),
        };
    }
    let capture = args.capture.open()?;
    let mut output = Output::open(&args.output, &capture)?;
    let looked = (!args.quick).then(|| {
        let mut progress = Progress::new(false);
        overview(&capture, &mut |done, all| progress.at(done, all))
    });
    let loaded = if args.quick { LoadedCode::default() } else { capture.code(None) };
    let page = Page { capture: &capture, overview: looked.as_ref(), loaded, registers: args.explain_registers };
    if args.output.json {
        output.write(|out| writeln!(out, "{}", page.json()));
    } else {
        output.write(|out| page.text(out));
    }
    output.finish()?;
    Ok(looked.as_ref().map_or(Verdict::Clean, verdict))
}

/// Buffers that cannot be read and bytes that are no trace are problems; sources of other kinds are not.
fn verdict(overview: &Overview<'_>) -> Verdict {
    let buffers = overview.buffers.iter().all(|buffer| buffer.as_ref().is_ok_and(|buffer| buffer.lost == 0));
    let traces = overview.traces.iter().all(|(_, trace)| match trace {
        Ok(trace) => trace.malformed == 0 && trace.errors.is_empty() && is_synchronised(trace),
        Err(error) => matches!(error, Error::NotReadable { .. }),
    });
    if buffers && traces { Verdict::Clean } else { Verdict::Problems }
}

/// Bytes without a single packet are not the trace that they are said to be.
fn is_synchronised(trace: &TraceOverview) -> bool {
    trace.packets() > 0 || trace.unsynchronised_bytes == 0
}

struct Page<'c> {
    capture: &'c Capture,
    overview: Option<&'c Overview<'c>>,
    loaded: LoadedCode,
    registers: bool,
}

impl Page<'_> {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.title(out)?;
        section(out, "Buffers", self.capture.buffers.len(), |out| {
            (0..self.capture.buffers.len()).try_for_each(|index| self.buffer(index, out))
        })?;
        let traces = Trace::all(self.capture);
        section(out, "Trace sources", traces.len(), |out| {
            (0..traces.len()).try_for_each(|index| self.trace(&traces[index], index, out))
        })?;
        self.silent_sources(out)?;
        let images = images(self.capture);
        section(out, "Program images", images.len(), |out| {
            images.iter().try_for_each(|(line, cores)| image(line, self.code_of(line), cores, out))
        })?;
        section(out, "Not interpreted", self.capture.extras.len(), |out| self.extras(out))?;
        let notes = self.notes();
        section(out, "Notes", notes.len(), |out| notes.iter().try_for_each(|note| writeln!(out, "  {note}")))
    }

    /// What is odd about the description, and about images. That a file is missing was noted when it was described.
    fn notes(&self) -> Vec<&Note> {
        let of_images = self.loaded.notes.iter().filter(|note| note.kind != NoteKind::MissingFile);
        self.capture.notes.iter().chain(of_images).collect()
    }

    /// What was read of an image.
    fn code_of(&self, image: &Image) -> Option<&Code> {
        let spaces = image.space.as_deref().and_then(Spaces::from_name).unwrap_or(Spaces::ANY);
        let is_meant = |code: &&Code| {
            let place = code.regions.first();
            code.name == image.file
                && place.is_some_and(|piece| piece.spaces == spaces)
                && image.address.is_none_or(|address| place.is_some_and(|piece| piece.address == address))
                && code.raw == image.address.is_some()
        };
        self.loaded.codes.iter().find(is_meant)
    }

    fn title(&self, out: &mut dyn Write) -> io::Result<()> {
        let capture = self.capture;
        writeln!(out, "{}: {}", capture.path.display(), format_text(capture))?;
        let missing = capture.notes.iter().filter(|note| note.kind == NoteKind::MissingFile).count() as u64;
        let [buffers, sources, cores] =
            [capture.buffers.len(), capture.sources.len(), capture.cores.len()].map(|n| n as u64);
        write!(out, "{}, {}, {}", many(buffers, "buffer"), many(sources, "trace source"), many(cores, "core"))?;
        match missing {
            0 => writeln!(out, ", no file missing"),
            missing => writeln!(out, ", {} missing (see Notes)", many(missing, "file")),
        }
    }

    fn buffer(&self, index: usize, out: &mut dyn Write) -> io::Result<()> {
        let buffer = &self.capture.buffers[index];
        writeln!(out, "  {:<12} {} bytes, {}, {}", buffer.name, grouped(buffer.len()), layout(buffer), files(buffer))?;
        match self.overview.map(|overview| &overview.buffers[index]) {
            None => Ok(()),
            Some(Err(error)) => writeln!(out, "  {:<12} cannot be read: {error}", ""),
            Some(Ok(found)) => self.frames(found, out),
        }
    }

    fn frames(&self, found: &BufferOverview, out: &mut dyn Write) -> io::Result<()> {
        if !found.ids.is_empty() {
            writeln!(out, "  {:<12} ids {}", "", self.ids_text(found))?;
        }
        let counts = [
            (found.full_syncs, "full synchronisation"),
            (found.half_syncs, "half synchronisation"),
            (found.barriers, "barrier"),
            (found.triggers, "trigger"),
        ];
        let said: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| many(*count, name)).collect();
        if !said.is_empty() {
            writeln!(out, "  {:<12} {}", "", said.join(", "))?;
        }
        if found.lost > 0 {
            writeln!(out, "  {:<12} {} bytes belong to no frame:", "", grouped(found.lost_bytes))?;
            found.errors.iter().try_for_each(|error| writeln!(out, "  {:<12}   {error}", ""))?;
        }
        Ok(())
    }

    /// Ids of known sources one by one; of the others, as many as fit.
    fn ids_text(&self, found: &BufferOverview) -> String {
        const UNKNOWN_LISTED: usize = 4;
        let is_known = |id: u8| self.capture.sources.iter().any(|source| source.id == Some(id));
        let (known, unknown): (Vec<_>, Vec<_>) = found.ids.iter().partition(|(id, _)| is_known(**id));
        let said = |(id, bytes): &(&u8, &u64), who: &str| format!("{id:#04x} ({} bytes{who})", grouped(**bytes));
        let mut list: Vec<String> = known.iter().map(|it| said(it, "")).collect();
        list.extend(unknown.iter().take(UNKNOWN_LISTED).map(|it| said(it, ", described by nobody")));
        if let Some(rest @ [_, ..]) = unknown.get(UNKNOWN_LISTED..) {
            let bytes = rest.iter().map(|(_, bytes)| **bytes).sum();
            list.push(format!("{} more that nobody describes ({} bytes)", rest.len(), grouped(bytes)));
        }
        list.join(", ")
    }

    fn trace(&self, trace: &Trace<'_>, index: usize, out: &mut dyn Write) -> io::Result<()> {
        let source = trace.source();
        let id = source.id.map_or_else(|| "no id".to_string(), |id| format!("{id:#04x}"));
        let core = trace.core().map_or_else(String::new, |core| format!(", traces {} ({})", core.name, core.kind));
        writeln!(
            out,
            "  {id:<5} {} ({}), session {}, buffer {}{core}",
            source.name,
            source.kind,
            trace.session(),
            trace.buffer().name
        )?;
        self.configuration(trace, out)?;
        match self.overview.map(|overview| &overview.traces[index].1) {
            None => Ok(()),
            Some(Err(error)) => writeln!(out, "        {error}"),
            Some(Ok(found)) => contents(found, out),
        }
    }

    fn configuration(&self, trace: &Trace<'_>, out: &mut dyn Write) -> io::Result<()> {
        let source = trace.source();
        let Some(protocol @ (Protocol::Ete | Protocol::Etm4)) = source.protocol else {
            return source
                .registers
                .iter()
                .try_for_each(|it| writeln!(out, "        {} = {:#010x}", it.name, it.value));
        };
        if let Ok((config, assumed)) = trace.config() {
            let speculation = match config.max_speculation {
                0 => "no speculation".to_string(),
                depth => format!("speculation up to {depth} P0 elements"),
            };
            writeln!(out, "        {}, {speculation}", config.version)?;
            self.explained(trace, protocol, out)?;
            assumed.iter().try_for_each(|it| writeln!(out, "        assumed {it}"))?;
        }
        source.options.iter().try_for_each(|(name, value)| writeln!(out, "        option {name} = {value}"))
    }

    fn explained(&self, trace: &Trace<'_>, protocol: Protocol, out: &mut dyn Write) -> io::Result<()> {
        for register in &trace.source().registers {
            let Some(explanation) = explain(&register.name, register.value, protocol) else { continue };
            if self.registers || explanation.register == "TRCCONFIGR" {
                writeln!(out, "        {} = {:#010x}: {}", register.name, register.value, explanation.summary())?;
            }
            if self.registers {
                for field in &explanation.fields {
                    let bits = if field.high == field.low {
                        field.low.to_string()
                    } else {
                        format!("{}:{}", field.high, field.low)
                    };
                    writeln!(out, "          {:>5} {:<12} {:#x}  {}", bits, field.name, field.value, field.meaning)?;
                }
            }
        }
        Ok(())
    }

    /// Sources that are in no buffer.
    fn silent_sources(&self, out: &mut dyn Write) -> io::Result<()> {
        for source in self.capture.sources.iter().filter(|source| source.buffers.is_empty()) {
            writeln!(out, "  {} ({}) is in none of the buffers", source.name, source.kind)?;
        }
        Ok(())
    }

    fn extras(&self, out: &mut dyn Write) -> io::Result<()> {
        for extra in &self.capture.extras {
            let pairs: Vec<String> = extra.pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            writeln!(out, "  {} [{}] {}", extra.file, extra.section, pairs.join(", "))?;
        }
        Ok(())
    }
}

fn section(
    out: &mut dyn Write,
    title: &str,
    count: usize,
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    body(out)
}

fn format_text(capture: &Capture) -> String {
    let version = capture.version.as_ref().map_or_else(String::new, |version| format!(", version {version}"));
    let what = match capture.format {
        Format::Snapshot => "snapshot",
        Format::Package => "trace package",
        _ => "bare buffer",
    };
    format!("{what}{}{version}", if capture.in_zip { " in a zip archive" } else { "" })
}

fn layout(buffer: &Buffer) -> String {
    let mut text = if buffer.format.is_formatted() { "formatted" } else { "raw" }.to_string();
    if buffer.format.name().starts_with("dstream") {
        text += " in DSTREAM blocks";
    }
    if let Some(pointer) = buffer.write_pointer {
        text += &format!(", circular with its oldest byte at {pointer:#x}");
    } else if buffer.wrapped == Some(true) {
        text += ", circular with unknown start";
    }
    text
}

fn files(buffer: &Buffer) -> String {
    let file = |file: &unspool::capture::BufferFile| match file.size {
        Some(_) => file.name.clone(),
        None => format!("{} (missing)", file.name),
    };
    buffer.files.iter().map(file).collect::<Vec<_>>().join(" + ")
}

/// What the trace says in total.
fn contents(found: &TraceOverview, out: &mut dyn Write) -> io::Result<()> {
    let [taken, not_taken] = found.atoms;
    let syncs = found.count(PacketKind::AlignmentSync);
    write!(out, "        {} packets in {} bytes", grouped(found.packets()), grouped(found.bytes))?;
    writeln!(
        out,
        ", {} atoms ({} E, {} N), {}",
        grouped(taken + not_taken),
        grouped(taken),
        grouped(not_taken),
        many(syncs, "synchronisation")
    )?;
    if let Some((first, last)) = found.time {
        writeln!(out, "        timestamps {first:#x} to {last:#x} ({} ticks)", grouped(last.wrapping_sub(first)))?;
    }
    if found.cycles > 0 {
        writeln!(out, "        {} cycles counted", grouped(found.cycles))?;
    }
    line_of(out, "contexts", &found.contexts, ToString::to_string)?;
    line_of(out, "exceptions", &found.exceptions, |number| {
        exception_name(*number).map_or_else(|| number.to_string(), str::to_string)
    })?;
    for (kind, name) in
        [(PacketKind::Overflow, "overflow"), (PacketKind::Discard, "discard"), (PacketKind::TraceOn, "trace on")]
    {
        match found.count(kind) {
            0 => {}
            count => writeln!(out, "        {}", many(count, name))?,
        }
    }
    if found.unsynchronised_bytes > 0 {
        writeln!(out, "        {} bytes could not be synchronised", grouped(found.unsynchronised_bytes))?;
    }
    if found.malformed > 0 {
        writeln!(
            out,
            "        {} malformed, {} bytes skipped:",
            many(found.malformed, "stretch"),
            grouped(found.malformed_bytes)
        )?;
    }
    found.errors.iter().try_for_each(|error| writeln!(out, "          {error}"))
}

fn line_of<K>(
    out: &mut dyn Write,
    name: &str,
    counts: &BTreeMap<K, u64>,
    text: impl Fn(&K) -> String,
) -> io::Result<()> {
    if counts.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = counts.iter().map(|(key, count)| format!("{} x {}", grouped(*count), text(key))).collect();
    writeln!(out, "        {name}: {}", list.join(", "))
}

/// Images, each once, with the cores and other devices that have it.
fn images(capture: &Capture) -> Vec<(Image, Vec<&str>)> {
    let mut all: Vec<(Image, Vec<&str>)> = vec![];
    let cores = capture.cores.iter().map(|core| (&core.name, &core.images));
    let devices = capture.devices.iter().map(|device| (&device.name, &device.images));
    for (name, images) in cores.chain(devices) {
        for image in images {
            match all.iter_mut().find(|(known, _)| known == image) {
                Some((_, owners)) => owners.push(name),
                None => all.push((image.clone(), vec![name])),
            }
        }
    }
    all
}

/// What the file holds, or what is said of it if it was not read.
fn image(image: &Image, code: Option<&Code>, cores: &[&str], out: &mut dyn Write) -> io::Result<()> {
    if let Some(code) = code {
        return writeln!(out, "  {code}; {}", cores.join(" "));
    }
    let length = image.length.or(image.size.map(|size| size.saturating_sub(image.offset)));
    let place = match (image.address, length) {
        (Some(start), Some(length)) => format!("{start:#018x} to {:#018x}", start.wrapping_add(length)),
        (Some(start), None) => format!("{start:#018x}"),
        (None, _) => "at the addresses that the file names".to_string(),
    };
    let space = image.space.as_ref().map_or_else(String::new, |space| format!(", space {space}"));
    let state = if image.size.is_some() { "" } else { " (missing)" };
    writeln!(out, "  {place}  {}{state}{space}, {}", image.file, cores.join(" "))
}

impl Page<'_> {
    fn json(&self) -> Value {
        let capture = self.capture;
        let buffers: Vec<Value> = (0..capture.buffers.len()).map(|index| self.buffer_json(index)).collect();
        let traces = Trace::all(capture);
        let sources: Vec<Value> = (0..traces.len()).map(|index| self.trace_json(&traces[index], index)).collect();
        let images: Vec<Value> =
            images(capture).iter().map(|(image, cores)| image_json(image, self.code_of(image), cores)).collect();
        let notes: Vec<Value> = self.notes().iter().map(|note| json!({"file": note.file, "line": note.line, "kind": format!("{:?}", note.kind), "text": note.text})).collect();
        let extras: Vec<Value> = capture
            .extras
            .iter()
            .map(|it| json!({"file": it.file, "section": it.section, "pairs": it.pairs}))
            .collect();
        json!({
            "path": capture.path.display().to_string(),
            "format": format!("{:?}", capture.format).to_lowercase(),
            "zip": capture.in_zip,
            "version": capture.version,
            "buffers": buffers,
            "sources": sources,
            "cores": capture.cores.iter().map(|core| json!({"name": core.name, "type": core.kind})).collect::<Vec<_>>(),
            "images": images,
            "extras": extras,
            "notes": notes,
        })
    }

    fn buffer_json(&self, index: usize) -> Value {
        let buffer = &self.capture.buffers[index];
        let files: Vec<Value> = buffer.files.iter().map(|file| json!({"name": file.name, "size": file.size})).collect();
        let mut value =
            json!({"name": buffer.name, "format": buffer.format.name(), "bytes": buffer.len(), "files": files});
        match self.overview.map(|overview| &overview.buffers[index]) {
            None => {}
            Some(Err(error)) => value["error"] = json!(error.to_string()),
            Some(Ok(found)) => {
                let ids: Vec<Value> =
                    found.ids.iter().map(|(id, bytes)| json!({"source": id, "bytes": bytes})).collect();
                value["ids"] = json!(ids);
                value["full_syncs"] = json!(found.full_syncs);
                value["half_syncs"] = json!(found.half_syncs);
                value["barriers"] = json!(found.barriers);
                value["triggers"] = json!(found.triggers);
                value["lost_bytes"] = json!(found.lost_bytes);
            }
        }
        value
    }

    fn trace_json(&self, trace: &Trace<'_>, index: usize) -> Value {
        let source = trace.source();
        let registers: BTreeMap<&str, String> =
            source.registers.iter().map(|it| (it.name.as_str(), format!("{:#x}", it.value))).collect();
        let mut value = json!({
            "source": source.id,
            "session": trace.session(),
            "name": source.name,
            "type": source.kind,
            "protocol": source.protocol.map(Protocol::name),
            "core": trace.core().map(|core| &core.name),
            "buffer": trace.buffer().name,
            "registers": registers,
        });
        match self.overview.map(|overview| &overview.traces[index].1) {
            None => {}
            Some(Err(error)) => value["error"] = json!(error.to_string()),
            Some(Ok(found)) => trace_found_json(found, &mut value),
        }
        value
    }
}

fn trace_found_json(found: &TraceOverview, value: &mut Value) {
    let assumed: BTreeMap<&str, String> =
        found.assumed.iter().map(|it| (it.register, format!("{:#x}", it.value))).collect();
    let kinds: BTreeMap<&str, u64> = found.kinds.iter().map(|(kind, count)| (kind.name(), *count)).collect();
    let errors: Vec<Value> = found
        .errors
        .iter()
        .map(|it| json!({"offset": it.offset, "skipped": it.skipped, "what": it.kind.to_string()}))
        .collect();
    value["version"] = json!(found.config.version.to_string());
    value["assumed"] = json!(assumed);
    value["bytes"] = json!(found.bytes);
    value["packets"] = json!(kinds);
    value["atoms"] = json!({"e": found.atoms[0], "n": found.atoms[1]});
    value["time"] = json!(found.time.map(|(first, last)| [first, last]));
    value["cycles"] = json!(found.cycles);
    value["exceptions"] = json!(found.exceptions);
    value["contexts"] = json!(found.contexts);
    value["malformed"] = json!({"count": found.malformed, "bytes": found.malformed_bytes});
    value["unsynchronised_bytes"] = json!(found.unsynchronised_bytes);
    value["errors"] = json!(errors);
}

fn image_json(image: &Image, code: Option<&Code>, cores: &[&str]) -> Value {
    let build_id = code.and_then(|code| code.build_id.as_ref());
    json!({
        "machine": code.and_then(|code| code.machine).map(|machine| machine.to_string()),
        "build_id": build_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        "symbols": code.map(|code| code.symbols.len()),
        "file": image.file,
        "present": image.size.is_some(),
        "address": image.address.map(|address| format!("{address:#x}")),
        "length": image.length,
        "offset": image.offset,
        "space": image.space,
        "cores": cores,
    })
}
