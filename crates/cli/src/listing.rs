//! Listings of the sources of a capture: frames, packets, elements, instructions.
//!
//! Takes traces; produces lines, and a verdict about what could not be read. Knows no verb.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::bail;
use unspool::capture::{Capture, Note, NoteKind, PackageFormat};
use unspool::coresight::ElementError;
use unspool::coresight::fields::{Fields, Value};
use unspool::coresight::frame::FrameError;
use unspool::model::json::{Object, quoted};
use unspool::number::{grouped, many};
use unspool::{Error, EventMeanings, PresentIds, Trace, Watch};

use crate::args::{ListingArgs, RangeArgs, SourceArgs};
use crate::diagnostic;
use crate::output::Output;
use crate::progress::Progress;
use crate::style::Palette;
use crate::verdict::Verdict;

/// Runs `list` on every selected trace, and reports unreadable ones. Fails if none can be read.
pub(crate) fn each_trace(
    capture: &Capture,
    sources: &SourceArgs,
    mut list: impl FnMut(&Trace<'_>) -> Result<Verdict, Error>,
) -> anyhow::Result<Verdict> {
    let (traces, mut reading) = Reading::start(capture, sources)?;
    let mut present = PresentIds::default();
    for trace in traces.iter().filter(|trace| present.may_have(trace)) {
        let started = Instant::now();
        let listed = list(trace);
        diagnostic::detail(format_args!("{}: {:.3} s", trace.source().name, started.elapsed().as_secs_f64()));
        reading.add(listed);
    }
    reading.finish(capture)
}

/// Reading of several traces: whether any could be read, and with which problems.
pub(crate) struct Reading {
    verdict: Verdict,
    /// Were the sources named? Others may be of any kind.
    are_named: bool,
    is_read: bool,
    /// Sources of one buffer fail for the same reason.
    reported: BTreeSet<String>,
}

impl Reading {
    /// The selected traces. Reports what is known of the capture; fails if it has no trace and nothing explains that.
    pub(crate) fn start<'c>(capture: &'c Capture, sources: &SourceArgs) -> anyhow::Result<(Vec<Trace<'c>>, Self)> {
        report_assumptions(capture);
        let traces = sources.select(capture)?;
        diagnostic::detail(format_args!("{}: {}", capture.path.display(), describe(capture)));
        // What is damaged or absent was reported.
        let is_incomplete = |note: &Note| matches!(note.kind, NoteKind::Damaged | NoteKind::TraceAbsent);
        let verdict = Verdict::of(capture.notes.iter().any(is_incomplete));
        if traces.is_empty() && verdict == Verdict::Clean {
            bail!("{}: no trace source has a buffer; 'unspool info' shows what is missing", capture.path.display());
        }
        let is_read = traces.is_empty();
        Ok((traces, Self { verdict, are_named: !sources.is_empty(), is_read, reported: BTreeSet::new() }))
    }

    /// Adds the result of a trace.
    pub(crate) fn add(&mut self, listed: Result<Verdict, Error>) {
        match listed {
            Ok(found) => {
                self.is_read = true;
                self.verdict = self.verdict.or(found);
            }
            Err(error) => {
                if self.are_named || !error.is_other_kind() {
                    self.verdict = Verdict::Problems;
                }
                if self.reported.insert(error.to_string()) {
                    diagnostic::error(error);
                }
            }
        }
    }

    pub(crate) fn finish(self, capture: &Capture) -> anyhow::Result<Verdict> {
        if !self.is_read {
            bail!(
                "{}: no trace source could be read; 'unspool info' shows what the capture contains",
                capture.path.display()
            );
        }
        Ok(self.verdict)
    }
}

/// Kind of a capture, and its size: `snapshot, 2 sources in 1 buffer`.
fn describe(capture: &Capture) -> String {
    let format = match capture.format {
        PackageFormat::Snapshot => "snapshot",
        PackageFormat::Package => "trace package",
        PackageFormat::Perf => "perf.data recording",
        _ => "bare buffer",
    };
    let [sources, buffers] = [(capture.sources.len(), "source"), (capture.buffers.len(), "buffer")];
    format!("{format}, {} in {}", many(sources.0 as u64, sources.1), many(buffers.0 as u64, buffers.1))
}

/// Reports what was assumed about the capture and what is missing from it, since that changes the output. Of what is
/// missing, the part after the tenth is counted, unless all was asked for.
pub(crate) fn report_assumptions(capture: &Capture) {
    use NoteKind::{Assumed, BadValue, Damaged, RecordsLost, StartUnknown, TraceAbsent, TraceLost, UnknownFormat};
    const MAX_LOST: usize = 10;
    let is_assumed = |kind| matches!(kind, Assumed | BadValue | StartUnknown | UnknownFormat);
    capture.notes.iter().filter(|note| is_assumed(note.kind)).for_each(diagnostic::warning);
    let limit = if diagnostic::is_verbose() { usize::MAX } else { MAX_LOST };
    let is_lost = |kind| matches!(kind, Damaged | RecordsLost | TraceAbsent | TraceLost);
    let lost: Vec<&Note> = capture.notes.iter().filter(|note| is_lost(note.kind)).collect();
    lost.iter().take(limit).for_each(diagnostic::warning);
    if lost.len() > limit {
        let more = lost.len() - limit;
        diagnostic::warning(format_args!("and {more} more notes on damaged or lost parts; -v shows all of them"));
    }
}

/// Reports notes on images: where position-independent ones were loaded, and problems. Those after the tenth are
/// counted, unless all were asked for.
pub(crate) fn report_images(notes: &[Note], reported: &mut BTreeSet<String>) {
    const MAX_NOTES: usize = 10;
    let limit = if diagnostic::is_verbose() { usize::MAX } else { MAX_NOTES };
    let is_new = |note: &&Note| reported.insert(note.to_string());
    let (placed, problems): (Vec<&Note>, Vec<&Note>) =
        notes.iter().filter(is_new).partition(|note| note.kind == NoteKind::Placed);
    placed.iter().for_each(diagnostic::note);
    problems.iter().take(limit).for_each(diagnostic::warning);
    if problems.len() > limit {
        let more = problems.len() - limit;
        diagnostic::warning(format_args!("and {more} more notes on images; -v shows all of them"));
    }
}

/// Listing of one source: output, window of items, and problems of the trace.
pub(crate) struct Listing<'o, 'c> {
    pub(crate) trace: Trace<'c>,
    pub(crate) output: &'o mut Output,
    pub(crate) window: &'o mut Window,
    pub(crate) progress: Progress,
    pub(crate) problems: Problems,
}

impl<'o, 'c> Listing<'o, 'c> {
    /// Starts a listing; in text, with a line that names the source.
    pub(crate) fn new(trace: &Trace<'c>, args: &ListingArgs, output: &'o mut Output, window: &'o mut Window) -> Self {
        if !args.output.json {
            let palette = output.palette;
            output.write(|out| heading(trace, &palette, out));
        }
        Self {
            trace: *trace,
            progress: Progress::new(output.on_terminal),
            output,
            window,
            problems: Problems::default(),
        }
    }

    /// Counts an item or an error.
    pub(crate) fn note(&mut self, error: Option<&ElementError>) {
        self.problems.note(&self.trace, error);
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.problems.verdict(&self.trace, self.window.is_open())
    }
}

impl Watch for Listing<'_, '_> {
    fn lost(&mut self, error: FrameError) {
        if self.window.is_open() {
            self.problems.lost(&self.trace, &error);
        }
    }

    fn wants_more(&mut self) -> bool {
        self.output.is_open() && self.window.is_open()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.progress.at(read, total);
    }
}

/// Keys that every JSON line of a source starts with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceKeys {
    source: Option<u8>,
    session: usize,
}

impl From<&Trace<'_>> for SourceKeys {
    fn from(trace: &Trace<'_>) -> Self {
        Self { source: trace.source().id, session: trace.session() }
    }
}

/// Adds a JSON line: source, kind, and what `fields` adds.
pub(crate) fn push_object(
    line: &mut String,
    keys: impl Into<SourceKeys>,
    kind: &str,
    fields: impl FnOnce(&mut Object<'_>),
) {
    let SourceKeys { source, session } = keys.into();
    let mut object = Object::nested(line);
    object.nullable("source", source).plain("session", session).string("kind", kind);
    fields(&mut object);
    object.end_line();
}

/// Adds what the events of a packet mean, as far as it is known.
pub(crate) fn put_meanings(object: &mut Object<'_>, events: &EventMeanings, mask: u8) {
    let meanings = events.of(mask);
    if !meanings.is_empty() {
        object.list("meanings", meanings, |text, meaning| match meaning {
            Some(meaning) => quoted(text, meaning),
            None => text.push_str("null"),
        });
    }
}

/// The line of an error as text.
pub(crate) fn error_text(error: &ElementError, palette: &Palette) -> String {
    let ElementError { offset, skipped, kind } = error;
    let Palette { problem, reset, .. } = palette;
    let skipped = if *skipped > 0 { format!(", {} skipped", many(*skipped, "byte")) } else { String::new() };
    format!("{offset:#010x}  {problem}! {kind}{skipped}{reset}\n")
}

/// Adds the JSON line of an error.
pub(crate) fn push_error(line: &mut String, keys: impl Into<SourceKeys>, error: &ElementError) {
    let name = match error.kind {
        kind if kind.is_note() => "note",
        kind if kind.is_ordinary() => "no_sync",
        _ => "error",
    };
    push_object(line, keys, name, |object| {
        object.plain("offset", error.offset).plain("skipped", error.skipped).string("what", error.kind);
    });
}

/// Counts with their names: `3 load, 1 store`.
pub(crate) fn counted(rows: impl IntoIterator<Item = (impl Display, u64)>) -> String {
    let rows: Vec<String> = rows.into_iter().map(|(name, count)| format!("{} {name}", grouped(count))).collect();
    rows.join(", ")
}

/// Items that are printed, counted over all sources.
pub(crate) struct Window {
    skip: u64,
    limit: Option<u64>,
    seen: u64,
}

impl Window {
    pub(crate) fn new(args: &RangeArgs) -> Self {
        Self { skip: args.skip, limit: args.limit, seen: 0 }
    }

    /// Counts an item: is it printed?
    pub(crate) fn next(&mut self) -> bool {
        let index = self.seen;
        self.seen += 1;
        index >= self.skip && self.limit.is_none_or(|limit| index - self.skip < limit)
    }

    /// Number of items that were printed.
    pub(crate) fn printed(&self) -> u64 {
        self.seen.saturating_sub(self.skip).min(self.limit.unwrap_or(u64::MAX))
    }

    /// Is what comes between the last item and the next one printed?
    pub(crate) fn shows(&self) -> bool {
        self.seen >= self.skip && self.is_open()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.limit.is_none_or(|limit| self.seen < self.skip.saturating_add(limit))
    }
}

pub(crate) fn heading(trace: &Trace<'_>, palette: &Palette, out: &mut dyn Write) -> io::Result<()> {
    let source = trace.source();
    let id = source.id.map_or_else(|| "without id".to_string(), |id| format!("{id:#04x}"));
    write!(out, "{}# source {id} {} ({})", palette.heading, source.name, source.kind)?;
    writeln!(out, ", session {}, buffer {}{}", trace.session(), trace.buffer().name, palette.reset)
}

/// File and offset in it of an offset in the buffer.
fn position_text(trace: &Trace<'_>, offset: u64) -> String {
    let buffer = trace.buffer();
    match buffer.file_offset(offset) {
        Some(position) => format!("{} at {:#x}", buffer.files[position.file].name, position.offset),
        None => format!("{} at {offset:#x}", buffer.name),
    }
}

/// Problems of a source, and of the frames of its buffer.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    packets: Tally,
    frames: Tally,
    is_synchronized: bool,
    unsynchronized_bytes: u64,
}

/// Number of problems and of skipped bytes, and the first problem.
#[derive(Debug, Default)]
struct Tally {
    count: u64,
    bytes: u64,
    first: Option<String>,
}

impl Tally {
    fn add(&mut self, trace: &Trace<'_>, offset: u64, skipped: u64, what: impl Display) {
        self.count += 1;
        self.bytes += skipped;
        self.first.get_or_insert_with(|| format!("{}: {what}", position_text(trace, offset)));
    }

    fn merge(&mut self, later: Self) {
        self.count += later.count;
        self.bytes += later.bytes;
        self.first = self.first.take().or(later.first);
    }

    /// `1 problem, 16 bytes skipped; the first: trace.bin at 0x90: ...`, if there is one.
    fn text(&self) -> Option<String> {
        let [problems, bytes] = [many(self.count, "problem"), many(self.bytes, "byte")];
        self.first.as_ref().map(|first| format!("{problems}, {bytes} skipped; the first: {first}"))
    }
}

impl Problems {
    /// Counts an item or an error.
    pub(crate) fn note(&mut self, trace: &Trace<'_>, error: Option<&ElementError>) {
        match error {
            None => self.is_synchronized = true,
            Some(error) if error.kind.is_ordinary() => self.unsynchronized_bytes += error.skipped,
            Some(error) => self.packets.add(trace, error.offset, error.skipped, error.kind),
        }
    }

    /// Counts bytes that belong to no frame.
    pub(crate) fn lost(&mut self, trace: &Trace<'_>, error: &FrameError) {
        self.frames.add(trace, error.offset, error.skipped, error.kind);
    }

    /// Adds problems from later in the same source.
    pub(crate) fn merge(&mut self, later: Self) {
        self.packets.merge(later.packets);
        self.frames.merge(later.frames);
        self.is_synchronized |= later.is_synchronized;
        self.unsynchronized_bytes += later.unsynchronized_bytes;
    }

    pub(crate) fn verdict(&self, trace: &Trace<'_>, is_whole: bool) -> Verdict {
        let (name, bytes) = (&trace.source().name, self.unsynchronized_bytes);
        // All sources of a buffer have the same frames.
        let frames = self.frames.text();
        if let Some(text) = &frames {
            diagnostic::error_once(format!("frames of {}: {text}", trace.buffer().name));
        }
        if !self.is_synchronized && is_whole && bytes > 0 {
            diagnostic::error(format_args!(
                "{name}: no alignment synchronization in {}; check --protocol, --formatted and --raw",
                many(bytes, "byte")
            ));
            return Verdict::Problems;
        }
        let packets = self.packets.text();
        if let Some(text) = &packets {
            diagnostic::error(format_args!("{name}: {text}"));
        }
        Verdict::of(packets.is_some() || frames.is_some())
    }
}

pub(crate) struct JsonFields<'o, 'b>(pub(crate) &'o mut Object<'b>);

impl Fields for JsonFields<'_, '_> {
    fn field(&mut self, name: &'static str, value: Value<'_>) {
        match value {
            Value::Number(number) => self.0.number(name, number),
            Value::Flag(flag) => self.0.flag(name, flag),
            Value::Hex(number) => self.0.hex(name, number),
            Value::Text(text) => self.0.string(name, text),
            Value::Bits(bits) => {
                let set = (0..8).filter(|bit| bits >> bit & 1 == 1);
                self.0.list(name, set, |text, bit| text.push_str(&bit.to_string()))
            }
            Value::Unknown => self.0.null(name),
        };
    }
}
