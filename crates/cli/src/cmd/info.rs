//! `info`: summarizes a capture, with the configuration of each source and missing files, or a trace file.

mod astf;
mod stf;
mod tarmac;

use std::collections::BTreeMap;
use std::io::{self, Write};

use unspool::capture::{Buffer, Capture, Code, Image, LoadedCode, NoteKind, PackageFormat};
use unspool::coresight::PacketKind;
use unspool::coresight::etm4::explain;
use unspool::file::{End, is_damage};
use unspool::info::{AstfInfo, CaptureInfo, SourceTotals, StfInfo, TarmacInfo, images, is_sound};
use unspool::number::{grouped, many};
use unspool::{BufferOverview, Trace, TraceFile, TraceOverview, overview};

use super::program::field_text;
use crate::args::{CaptureArgs, OutputArgs, open_package};
use crate::diagnostic;
use crate::file::{each_file, tarmac_verdict};
use crate::json::write_summary;
use crate::output::Output;
use crate::progress::Progress;
use crate::symbols::printable;
use crate::verdict::Verdict;

/// Summarize captures and trace files: format, sources and their configuration, sizes, time span, missing files
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    capture: CaptureArgs,

    /// Explain every field of every known register of a capture
    #[arg(long)]
    explain: bool,

    /// Read only the description of a capture, the header of a file, or the first lines of a log
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool info snapshot/
  unspool info capture.zip --explain
  unspool info trace.astf
  unspool info *.zstf --quick
  unspool info run.tarmac.gz
  unspool info dump.bin --protocol ete --register TRCIDR8=6

CAPTURE can also be an ASTF file, an STF file or a Tarmac log. Several files are summarized one after the other; with \
--protocol they are the parts of one buffer. Of more than 16 buffers, sessions or notes, the first 8 are shown and the others are \
totals; -v and --json show all.
Exit code 1: a file is damaged, or a buffer contains bytes that cannot be parsed.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let Some(paths) = args.capture.packages() else {
        let capture = args.capture.open()?;
        let mut output = Output::open(&args.output, &capture)?;
        let verdict = summarize_capture(args, &capture, &mut output);
        return finish(args, output, 1, verdict);
    };
    let mut output = Output::open_beside_all(&args.output, paths)?;
    let verdict = each_file(paths, |index, path| {
        if index > 0 && !args.output.json {
            output.write(|out| writeln!(out));
        }
        match TraceFile::open_if_trace(path) {
            Some(file) => summarize_file(args, file?, &mut output),
            None => Ok(summarize_capture(args, &open_package(path)?, &mut output)),
        }
    })?;
    finish(args, output, paths.len(), verdict)
}

fn finish(args: &Args, mut output: Output, files: usize, verdict: Verdict) -> anyhow::Result<Verdict> {
    if args.output.json {
        write_summary(&mut output, "info", verdict, |object| {
            object.plain("files", files);
        });
    }
    output.finish()?;
    Ok(verdict)
}

fn summarize_capture(args: &Args, capture: &Capture, output: &mut Output) -> Verdict {
    let overview = (!args.quick).then(|| overview(capture, &mut Progress::new(false).callback()));
    let loaded = if args.quick { LoadedCode::default() } else { capture.code(None) };
    let info = CaptureInfo { capture, overview: overview.as_ref(), loaded };
    let page = Page { info: &info, registers: args.explain };
    output.write(|out| if args.output.json { writeln!(out, "{}", info.json()) } else { page.text(out) });
    Verdict::of(!overview.as_ref().is_none_or(is_sound))
}

/// Summarizes a trace file. `--quick`: its header or first lines only.
fn summarize_file(args: &Args, file: TraceFile, output: &mut Output) -> anyhow::Result<Verdict> {
    let (quick, json) = (args.quick, args.output.json);
    let mut progress = Progress::new(false);
    let verdict = match file {
        TraceFile::Astf(mut file) => {
            let info = AstfInfo::read(&mut file, quick, &mut progress.callback())?;
            output.write(|out| if json { writeln!(out, "{}", info.json()) } else { astf::text(&info, out) });
            Verdict::of(matches!(info.end, End::Damaged(_)))
        }
        TraceFile::Stf(mut file) => {
            let info = StfInfo::read(&mut file, quick, &mut progress.callback())?;
            output.write(|out| if json { writeln!(out, "{}", info.json()) } else { stf::text(&info, out) });
            Verdict::of(matches!(info.end, End::Damaged(_)) || info.warnings.iter().any(is_damage))
        }
        TraceFile::Tarmac(mut file) => {
            let info = TarmacInfo::read(&mut file, quick, &mut progress.callback())?;
            output.write(|out| if json { writeln!(out, "{}", info.json()) } else { tarmac::text(&info, out) });
            tarmac_verdict(&mut file, &info.end)
        }
    };
    Ok(verdict)
}

struct Page<'c> {
    info: &'c CaptureInfo<'c>,
    registers: bool,
}

impl Page<'_> {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.title(out)?;
        section(out, "Buffers", self.info.capture.buffers.len(), |out| self.buffers(out))?;
        let traces = self.info.traces();
        section(out, "Trace sources", traces.len(), |out| self.traces(&traces, out))?;
        self.silent_sources(out)?;
        let images = images(self.info.capture);
        section(out, "Program images", images.len(), |out| {
            images.iter().try_for_each(|(line, cores)| image(line, self.info.code_of(line), cores, out))
        })?;
        let events = self.info.events();
        section(out, "System events", usize::from(events.is_some()), |out| {
            events.iter().try_for_each(|events| writeln!(out, "  {events}"))
        })?;
        section(out, "Not interpreted", self.info.capture.extras.len(), |out| self.extras(out))?;
        let notes = self.info.notes();
        section(out, "Notes", notes.len(), |out| {
            let shown = shown(notes.len());
            notes.iter().take(shown).try_for_each(|note| writeln!(out, "  {note}"))?;
            match notes.len() - shown {
                0 => Ok(()),
                more => writeln!(out, "  and {}; -v shows all of them", many(more as u64, "more note")),
            }
        })
    }

    /// The buffers; of many, the first ones and totals.
    fn buffers(&self, out: &mut dyn Write) -> io::Result<()> {
        let all = &self.info.capture.buffers;
        let shown = shown(all.len());
        (0..shown).try_for_each(|index| self.buffer(index, out))?;
        let Some(more @ [_, ..]) = all.get(shown..) else { return Ok(()) };
        let bytes = more.iter().map(Buffer::len).fold(0, u64::saturating_add);
        write!(out, "  and {} with {} bytes", many(more.len() as u64, "more buffer"), grouped(bytes))?;
        let found = self.info.overview.iter().flat_map(|overview| overview.buffers.iter().skip(shown));
        let (lost, unreadable) = found.fold((0, 0), |(lost, unreadable), buffer| match buffer {
            Ok(buffer) => (lost + buffer.lost_bytes, unreadable),
            Err(_) => (lost, unreadable + 1),
        });
        if lost > 0 {
            write!(out, ", of which {} belong to no frame", grouped(lost))?;
        }
        if unreadable > 0 {
            write!(out, ", {} that cannot be read", many(unreadable, "buffer"))?;
        }
        writeln!(out, "; -v shows all of them")
    }

    /// The streams; of many, the first ones and totals of each source.
    fn traces(&self, traces: &[Trace<'_>], out: &mut dyn Write) -> io::Result<()> {
        let shown = shown(traces.len());
        (0..shown).try_for_each(|index| self.trace(&traces[index], index, out))?;
        if shown == traces.len() {
            return Ok(());
        }
        writeln!(out, "  and {}; -v shows all of them:", many((traces.len() - shown) as u64, "more session"))?;
        self.info.totals_from(shown).iter().try_for_each(|totals| self.totals(totals, out))
    }

    fn totals(&self, totals: &SourceTotals<'_>, out: &mut dyn Write) -> io::Result<()> {
        let source = totals.source;
        let id = source.id.map_or_else(|| "no id".to_string(), |id| format!("{id:#04x}"));
        writeln!(out, "  {id:<5} {} ({}), {}", source.name, source.kind, many(totals.sessions, "session"))?;
        if self.info.overview.is_none() {
            return Ok(());
        }
        let [taken, not_taken] = totals.atoms;
        let [atoms, taken, not_taken] = [taken + not_taken, taken, not_taken].map(grouped);
        let syncs = many(totals.synchronizations, "synchronization");
        write!(out, "        {} packets in {} bytes", grouped(totals.packets), grouped(totals.bytes))?;
        writeln!(out, ", {atoms} atoms ({taken} E, {not_taken} N), {syncs}")?;
        if let Some((first, last)) = totals.time {
            writeln!(out, "        timestamps {first:#x} to {last:#x} ({} ticks)", grouped(last.wrapping_sub(first)))?;
        }
        if totals.unsynchronized_bytes > 0 {
            writeln!(out, "        {} could not be synchronized", many(totals.unsynchronized_bytes, "byte"))?;
        }
        if totals.malformed > 0 {
            let (ranges, bytes) = (many(totals.malformed, "malformed range"), grouped(totals.malformed_bytes));
            writeln!(out, "        {ranges}, {bytes} bytes skipped")?;
        }
        match totals.unreadable {
            0 => Ok(()),
            count => writeln!(out, "        {} cannot be read", many(count, "session")),
        }
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
            (found.full_syncs, "full synchronization"),
            (found.half_syncs, "half synchronization"),
            (found.barriers, "barrier"),
            (found.triggers, "trigger"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| many(*count, name));
        let counts: Vec<String> = counts.collect();
        if !counts.is_empty() {
            writeln!(out, "  {:<12} {}", "", counts.join(", "))?;
        }
        if found.lost > 0 {
            writeln!(out, "  {:<12} {} bytes belong to no frame:", "", grouped(found.lost_bytes))?;
            found.errors.iter().try_for_each(|error| writeln!(out, "  {:<12}   {error}", ""))?;
        }
        Ok(())
    }

    /// Ids of known sources, and a few of the others.
    fn ids_text(&self, found: &BufferOverview) -> String {
        const MAX_UNKNOWN: usize = 4;
        let is_known = |id: u8| self.info.capture.sources.iter().any(|source| source.id == Some(id));
        let (known, unknown): (Vec<_>, Vec<_>) = found.ids.iter().partition(|(id, _)| is_known(**id));
        let text = |(id, bytes): &(&u8, &u64), note: &str| format!("{id:#04x} ({} bytes{note})", grouped(**bytes));
        let mut list: Vec<String> = known.iter().map(|it| text(it, "")).collect();
        list.extend(unknown.iter().take(MAX_UNKNOWN).map(|it| text(it, ", no such source")));
        if let Some(rest @ [_, ..]) = unknown.get(MAX_UNKNOWN..) {
            let bytes = rest.iter().map(|(_, bytes)| **bytes).sum();
            list.push(format!("{} more without a source ({} bytes)", rest.len(), grouped(bytes)));
        }
        list.join(", ")
    }

    fn trace(&self, trace: &Trace<'_>, index: usize, out: &mut dyn Write) -> io::Result<()> {
        let source = trace.source();
        let id = source.id.map_or_else(|| "no id".to_string(), |id| format!("{id:#04x}"));
        let core = trace.core().map_or_else(String::new, |core| format!(", traces {} ({})", core.name, core.kind));
        write!(out, "  {id:<5} {} ({}), session {}", source.name, source.kind, trace.session())?;
        writeln!(out, ", buffer {}{core}", trace.buffer().name)?;
        self.configuration(trace, out)?;
        match self.info.overview.map(|overview| &overview.traces[index].1) {
            None => Ok(()),
            Some(Err(error)) => writeln!(out, "        {error}"),
            Some(Ok(found)) => contents(found, out),
        }
    }

    fn configuration(&self, trace: &Trace<'_>, out: &mut dyn Write) -> io::Result<()> {
        let source = trace.source();
        let Ok((features, assumed)) = trace.features() else {
            let mut registers = source.registers.iter();
            return registers.try_for_each(|it| writeln!(out, "        {} = {:#010x}", it.name, it.value));
        };
        let speculation = match features.max_speculation {
            0 => "no speculation".to_string(),
            depth => format!("speculation up to {depth} P0 elements"),
        };
        if trace.has_instructions() {
            writeln!(out, "        {}, {speculation}", features.version)?;
        } else {
            writeln!(out, "        {}, no instructions", features.version)?;
            let mut registers = source.registers.iter();
            registers.try_for_each(|it| writeln!(out, "        {} = {:#010x}", it.name, it.value))?;
        }
        self.explained(trace, out)?;
        for (number, meaning) in self.info.event_meanings(trace).all() {
            writeln!(out, "        event {number}: {}", printable(meaning))?;
        }
        assumed.iter().try_for_each(|it| match it.contradicted_by {
            None => writeln!(out, "        assumed {it}"),
            Some(_) => writeln!(out, "        {it}"),
        })?;
        source.options.iter().try_for_each(|(name, value)| writeln!(out, "        option {name} = {value}"))
    }

    fn explained(&self, trace: &Trace<'_>, out: &mut dyn Write) -> io::Result<()> {
        let source = trace.source();
        for register in &source.registers {
            let explanation = source.protocol.and_then(|protocol| explain(&register.name, register.value, protocol));
            let Some(explanation) = explanation else { continue };
            if self.registers || explanation.register == "TRCCONFIGR" {
                writeln!(out, "        {} = {:#010x}: {}", register.name, register.value, explanation.summary())?;
            }
            if self.registers {
                for field in &explanation.fields {
                    writeln!(out, "          {}", field_text(field))?;
                }
            }
        }
        Ok(())
    }

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

/// Number of entries of a list that are shown: all of a short one, or if all were asked for.
fn shown(count: usize) -> usize {
    const LONG: usize = 16;
    const FIRST: usize = 8;
    if count <= LONG || diagnostic::is_verbose() { count } else { FIRST }
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
    let format = match capture.format {
        PackageFormat::Snapshot => "snapshot",
        PackageFormat::Package => "trace package",
        PackageFormat::Perf => "perf.data recording",
        _ => "bare buffer",
    };
    format!("{format}{}{version}", if capture.in_zip { " in a zip archive" } else { "" })
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

fn contents(found: &TraceOverview, out: &mut dyn Write) -> io::Result<()> {
    let [taken, not_taken] = found.atoms;
    let [atoms, taken, not_taken] = [taken + not_taken, taken, not_taken].map(grouped);
    let syncs = found.kinds.iter().filter(|(kind, _)| kind.is_sync()).map(|(_, count)| count).sum();
    let syncs = many(syncs, "synchronization");
    write!(out, "        {} packets in {} bytes", grouped(found.packets()), grouped(found.bytes))?;
    match found.kinds.keys().next() {
        Some(PacketKind::Itm(_) | PacketKind::Stm(_)) => {
            writeln!(out, ", {} of software, {syncs}", many(found.written, "value"))?;
        }
        Some(PacketKind::Etm4Data(_)) => writeln!(out, ", {syncs}")?,
        Some(_) => writeln!(out, ", {atoms} atoms ({taken} E, {not_taken} N), {syncs}")?,
        None => writeln!(out)?,
    }
    channels(found, out)?;
    if let Some((first, last)) = found.local_time {
        writeln!(out, "        local times {first:#x} to {last:#x} ({} ticks)", grouped(last.wrapping_sub(first)))?;
    }
    if let Some((first, last)) = found.time {
        writeln!(out, "        timestamps {first:#x} to {last:#x} ({} ticks)", grouped(last.wrapping_sub(first)))?;
    }
    if found.cycles > 0 {
        writeln!(out, "        {} cycles counted", grouped(found.cycles))?;
    }
    line_of(out, "contexts", &found.contexts, ToString::to_string)?;
    line_of(out, "exceptions", &found.exceptions, |number| match (number.name(), number.interrupt()) {
        (Some(name), Some(interrupt)) => format!("{name} {interrupt}"),
        (Some(name), None) => name.to_string(),
        (None, _) => number.to_string(),
    })?;
    for (kind, name) in [("overflow", "overflow"), ("discard", "discard"), ("trace_on", "trace on")] {
        match found.count(kind) {
            0 => {}
            count => writeln!(out, "        {}", many(count, name))?,
        }
    }
    if found.unsynchronized_bytes > 0 {
        writeln!(out, "        {} could not be synchronized", many(found.unsynchronized_bytes, "byte"))?;
    }
    if found.malformed > 0 {
        let (ranges, bytes) = (many(found.malformed, "malformed range"), grouped(found.malformed_bytes));
        writeln!(out, "        {ranges}, {bytes} bytes skipped:")?;
    }
    found.errors.iter().try_for_each(|error| writeln!(out, "          {error}"))
}

/// Channels that software wrote to, the first few.
fn channels(found: &TraceOverview, out: &mut dyn Write) -> io::Result<()> {
    const MAX_LISTED: usize = 16;
    let name = |(master, channel): &(Option<u16>, Option<u16>)| {
        let channel = channel.map_or_else(|| "unknown".to_string(), |channel| channel.to_string());
        master.map_or_else(|| channel.clone(), |master| format!("{master:#x}:{channel}"))
    };
    let listed: BTreeMap<_, u64> = found.channels.iter().take(MAX_LISTED).map(|(key, count)| (*key, *count)).collect();
    line_of(out, "channels", &listed, name)?;
    match found.channels.len().saturating_sub(MAX_LISTED) {
        0 => Ok(()),
        more => writeln!(out, "        and {} more", many(more as u64, "channel")),
    }
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

/// Contents of the file, or its description if it was not read.
fn image(image: &Image, code: Option<&Code>, cores: &[&str], out: &mut dyn Write) -> io::Result<()> {
    if let Some(code) = code {
        return writeln!(out, "  {code}; {}", cores.join(" "));
    }
    let length = image.length.or(image.size.map(|size| size.saturating_sub(image.offset)));
    let position = match (image.address, length) {
        (Some(start), Some(length)) => format!("{start:#018x} to {:#018x}", start.wrapping_add(length)),
        (Some(start), None) => format!("{start:#018x}"),
        (None, _) => "at the addresses in the file".to_string(),
    };
    let space = image.space.as_ref().map_or_else(String::new, |space| format!(", space {space}"));
    let state = if image.size.is_some() { "" } else { " (missing)" };
    writeln!(out, "  {position}  {}{state}{space}, {}", image.file, cores.join(" "))
}
