//! Listings of the sources of a capture: frames, packets, elements, instructions.
//!
//! Takes traces; produces lines, and a verdict about what could not be read. Knows no verb.

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::bail;
use unspool::capture::{Capture, NoteKind};
use unspool::coresight::ElementError;
use unspool::coresight::frame::FrameError;
use unspool::model::json::Object;
use unspool::number::many;
use unspool::{Error, Trace};

use crate::args::{OutputArgs, RangeArgs, SourceArgs};
use crate::diagnostic::diagnostic;
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Runs `list` on every trace that was asked for. What cannot be read is told; if nothing can, that is a failure.
pub(crate) fn each_trace(
    capture: &Capture,
    sources: &SourceArgs,
    mut list: impl FnMut(&Trace<'_>) -> Result<Verdict, Error>,
) -> anyhow::Result<Verdict> {
    report_assumptions(capture);
    let traces = sources.select(capture)?;
    if traces.is_empty() {
        bail!("{}: no trace source has a buffer; 'unspool info' tells what is missing", capture.path.display());
    }
    let mut verdict = Verdict::Clean;
    let mut read = false;
    let mut reported = BTreeSet::new();
    for trace in &traces {
        match list(trace) {
            Ok(found) => {
                read = true;
                verdict = verdict.or(found);
            }
            Err(error) => {
                // Sources that nobody asked for by name may be of any kind.
                if !sources.is_empty() || !matches!(error, Error::NotReadable { .. }) {
                    verdict = Verdict::Problems;
                }
                // Sources of one buffer have the same to say.
                if reported.insert(error.to_string()) {
                    diagnostic(error);
                }
            }
        }
    }
    if !read {
        bail!("{}: no trace source could be read; 'unspool info' tells what is there", capture.path.display());
    }
    Ok(verdict)
}

/// What was guessed about the capture, or could not be true, changes what is printed, so it is said.
pub(crate) fn report_assumptions(capture: &Capture) {
    use NoteKind::{Assumed, BadValue, StartUnknown, UnknownFormat};
    let guessed = |kind| matches!(kind, Assumed | BadValue | StartUnknown | UnknownFormat);
    capture.notes.iter().filter(|note| guessed(note.kind)).for_each(diagnostic);
}

/// What every listing of a source needs: where it goes, which items are wanted, and what is wrong with the trace.
pub(crate) struct Listing<'o, 'c> {
    pub(crate) trace: Trace<'c>,
    pub(crate) json: bool,
    pub(crate) output: &'o mut Output,
    pub(crate) window: Window,
    pub(crate) progress: Progress,
    pub(crate) line: String,
    pub(crate) problems: Problems,
}

impl<'o, 'c> Listing<'o, 'c> {
    /// Starts a listing; in text, with a line that names the source.
    pub(crate) fn new(trace: &Trace<'c>, args: &OutputArgs, range: &RangeArgs, output: &'o mut Output) -> Self {
        if !args.json {
            output.write(|out| heading(trace, out));
        }
        Self {
            trace: *trace,
            json: args.json,
            progress: Progress::new(output.on_terminal),
            output,
            window: Window::new(range),
            line: String::new(),
            problems: Problems::new(),
        }
    }

    /// Keeps in mind what an item says about the trace as a whole.
    pub(crate) fn note(&mut self, error: Option<&ElementError>) {
        match error {
            None => self.problems.synchronised = true,
            Some(error) if error.kind.is_ordinary() => self.problems.unsynchronized_bytes += error.skipped,
            Some(error) => self.problems.add(&self.trace, error.offset, error.skipped, error.kind),
        }
    }

    /// Bytes of the buffer belong to no frame.
    pub(crate) fn lost(&mut self, error: FrameError) {
        if self.window.is_open() {
            self.problems.add(&self.trace, error.offset, error.skipped, error.kind);
        }
    }

    pub(crate) fn wants_more(&self) -> bool {
        self.output.is_open() && self.window.is_open()
    }

    /// Writes a JSON line: whose it is, its kind, and what `fields` adds.
    pub(crate) fn object(&mut self, kind: &str, fields: impl FnOnce(&mut Object<'_>)) {
        let mut object = Object::new(&mut self.line);
        object.nullable("source", self.trace.source().id).plain("session", self.trace.session()).string("kind", kind);
        fields(&mut object);
        self.output.write(|out| object.finish(out));
    }

    /// Writes what stands in the place of an item.
    pub(crate) fn error(&mut self, error: &ElementError) {
        let ElementError { offset, skipped, kind } = error;
        if !self.json {
            return self.output.write(|out| writeln!(out, "{offset:#010x}  ! {kind}, {skipped} bytes skipped"));
        }
        let name = if kind.is_ordinary() { "no_sync" } else { "error" };
        self.object(name, |object| {
            object.plain("offset", offset).plain("skipped", skipped).string("what", kind);
        });
    }

    /// Tells what there is to tell.
    pub(crate) fn verdict(&self) -> Verdict {
        self.problems.verdict(&self.trace, self.window.is_open())
    }
}

/// Which items of a source are printed.
pub(crate) struct Window {
    skip: u64,
    limit: Option<u64>,
    seen: u64,
}

impl Window {
    pub(crate) fn new(args: &RangeArgs) -> Self {
        Self { skip: args.skip, limit: args.limit, seen: 0 }
    }

    /// Is the next item to be printed?
    pub(crate) fn next(&mut self) -> bool {
        let index = self.seen;
        self.seen += 1;
        index >= self.skip && self.limit.is_none_or(|limit| index - self.skip < limit)
    }

    /// Is what stands between the last item and the next one to be printed?
    pub(crate) fn shows(&self) -> bool {
        self.seen >= self.skip && self.is_open()
    }

    /// Can another item be printed?
    pub(crate) fn is_open(&self) -> bool {
        self.limit.is_none_or(|limit| self.seen < self.skip.saturating_add(limit))
    }
}

/// The line that starts the listing of a source.
pub(crate) fn heading(trace: &Trace<'_>, out: &mut dyn Write) -> io::Result<()> {
    let source = trace.source();
    let id = source.id.map_or_else(|| "without id".to_string(), |id| format!("{id:#04x}"));
    write!(out, "# source {id} {} ({})", source.name, source.kind)?;
    writeln!(out, ", session {}, buffer {}", trace.session(), trace.buffer().name)
}

/// The file and the byte in it that an offset of the buffer means.
pub(crate) fn place_text(trace: &Trace<'_>, offset: u64) -> String {
    let buffer = trace.buffer();
    match buffer.file_offset(offset) {
        Some(position) => format!("{} at {:#x}", buffer.files[position.file].name, position.offset),
        None => format!("{} at {offset:#x}", buffer.name),
    }
}

/// How a listing of a source ends when it has problems.
pub(crate) struct Problems {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) first: Option<String>,
    pub(crate) synchronised: bool,
    pub(crate) unsynchronized_bytes: u64,
}

impl Problems {
    pub(crate) fn new() -> Self {
        Self { count: 0, bytes: 0, first: None, synchronised: false, unsynchronized_bytes: 0 }
    }

    pub(crate) fn add(&mut self, trace: &Trace<'_>, offset: u64, skipped: u64, what: impl std::fmt::Display) {
        self.count += 1;
        self.bytes += skipped;
        self.first.get_or_insert_with(|| format!("{}: {what}", place_text(trace, offset)));
    }

    /// Tells what there is to tell.
    pub(crate) fn verdict(&self, trace: &Trace<'_>, whole: bool) -> Verdict {
        let name = &trace.source().name;
        if !self.synchronised && whole && self.unsynchronized_bytes > 0 {
            diagnostic(format_args!(
                "{name}: no alignment synchronisation in {} bytes; is this the right protocol and layout (--formatted, --raw)?",
                self.unsynchronized_bytes
            ));
            return Verdict::Problems;
        }
        let Some(first) = &self.first else { return Verdict::Clean };
        let [problems, bytes] = [many(self.count, "problem"), many(self.bytes, "byte")];
        diagnostic(format_args!("{name}: {problems}, {bytes} skipped; the first: {first}"));
        Verdict::Problems
    }
}
