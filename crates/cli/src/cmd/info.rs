//! `info`: one page that says what a capture is, what each source was configured for, and what is missing; or what is in
//! an ASTF or STF file or a Tarmac log.

mod astf;
mod stf;
mod tarmac;

use std::collections::BTreeMap;
use std::io::{self, Write};

use unspool::capture::{Buffer, Capture, Code, Format, Image, LoadedCode, NoteKind};
use unspool::coresight::Protocol;
use unspool::coresight::etm4::explain;
use unspool::coresight::exception::exception_name;
use unspool::info::{CaptureInfo, images, is_sound};
use unspool::number::{grouped, many};
use unspool::{BufferOverview, Trace, TraceFile, TraceOverview, overview};

use crate::args::{CaptureArgs, OutputArgs};
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;

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
        && let Some(file) = TraceFile::open_if_trace(path)
    {
        let open_output = || Output::open_for(&args.output, path);
        return match file? {
            TraceFile::Astf(file) => astf::run(file, args.quick, &args.output, open_output()?),
            TraceFile::Stf(file) => stf::run(file, args.quick, &args.output, open_output()?),
            TraceFile::Tarmac(file) => tarmac::run(file, args.quick, &args.output, open_output()?),
        };
    }
    let capture = args.capture.open()?;
    let mut output = Output::open(&args.output, &capture)?;
    let looked = (!args.quick).then(|| {
        let mut progress = Progress::new(false);
        overview(&capture, &mut |done, all| progress.at(done, all))
    });
    let loaded = if args.quick { LoadedCode::default() } else { capture.code(None) };
    let info = CaptureInfo { capture: &capture, overview: looked.as_ref(), loaded };
    let page = Page { info: &info, registers: args.explain_registers };
    output.write(|out| if args.output.json { writeln!(out, "{}", info.json()) } else { page.text(out) });
    output.finish()?;
    Ok(Verdict::of(!looked.as_ref().is_none_or(is_sound)))
}

/// Text of a capture.
struct Page<'c> {
    info: &'c CaptureInfo<'c>,
    registers: bool,
}

impl Page<'_> {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.title(out)?;
        section(out, "Buffers", self.info.capture.buffers.len(), |out| {
            (0..self.info.capture.buffers.len()).try_for_each(|index| self.buffer(index, out))
        })?;
        let traces = Trace::all(self.info.capture);
        section(out, "Trace sources", traces.len(), |out| {
            (0..traces.len()).try_for_each(|index| self.trace(&traces[index], index, out))
        })?;
        self.silent_sources(out)?;
        let images = images(self.info.capture);
        section(out, "Program images", images.len(), |out| {
            images.iter().try_for_each(|(line, cores)| image(line, self.info.code_of(line), cores, out))
        })?;
        section(out, "Not interpreted", self.info.capture.extras.len(), |out| self.extras(out))?;
        let notes = self.info.notes();
        section(out, "Notes", notes.len(), |out| notes.iter().try_for_each(|note| writeln!(out, "  {note}")))
    }

    fn title(&self, out: &mut dyn Write) -> io::Result<()> {
        let capture = self.info.capture;
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
        let buffer = &self.info.capture.buffers[index];
        writeln!(out, "  {:<12} {} bytes, {}, {}", buffer.name, grouped(buffer.len()), layout(buffer), files(buffer))?;
        match self.info.overview.map(|overview| &overview.buffers[index]) {
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
        let is_known = |id: u8| self.info.capture.sources.iter().any(|source| source.id == Some(id));
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
        match self.info.overview.map(|overview| &overview.traces[index].1) {
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
        if let Ok((features, assumed)) = trace.features() {
            let speculation = match features.max_speculation {
                0 => "no speculation".to_string(),
                depth => format!("speculation up to {depth} P0 elements"),
            };
            writeln!(out, "        {}, {speculation}", features.version)?;
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
        for source in self.info.capture.sources.iter().filter(|source| source.buffers.is_empty()) {
            writeln!(out, "  {} ({}) is in none of the buffers", source.name, source.kind)?;
        }
        Ok(())
    }

    fn extras(&self, out: &mut dyn Write) -> io::Result<()> {
        for extra in &self.info.capture.extras {
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
    let syncs = found.count("alignment_sync");
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
    for (kind, name) in [("overflow", "overflow"), ("discard", "discard"), ("trace_on", "trace on")] {
        match found.count(kind) {
            0 => {}
            count => writeln!(out, "        {}", many(count, name))?,
        }
    }
    if found.unsynchronized_bytes > 0 {
        writeln!(out, "        {} bytes could not be synchronised", grouped(found.unsynchronized_bytes))?;
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

/// What the file holds, or what is said of it if it was not read.
fn image(image: &Image, code: Option<&Code>, cores: &[&str], out: &mut dyn Write) -> io::Result<()> {
    if let Some(code) = code {
        return writeln!(out, "  {code}; {}", cores.join(" "));
    }
    let length = image.length.or(image.size.map(|size| size.saturating_sub(image.offset)));
    let position = match (image.address, length) {
        (Some(start), Some(length)) => format!("{start:#018x} to {:#018x}", start.wrapping_add(length)),
        (Some(start), None) => format!("{start:#018x}"),
        (None, _) => "at the addresses that the file names".to_string(),
    };
    let space = image.space.as_ref().map_or_else(String::new, |space| format!(", space {space}"));
    let state = if image.size.is_some() { "" } else { " (missing)" };
    writeln!(out, "  {position}  {}{state}{space}, {}", image.file, cores.join(" "))
}
