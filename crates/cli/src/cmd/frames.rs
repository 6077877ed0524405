//! `frames`: lists which bytes of a formatted buffer belong to which trace id, or extracts the bytes of one id.

use anyhow::bail;
use unspool::capture::{Buffer, Capture};
use unspool::coresight::Sink;
use unspool::coresight::frame::{FrameError, FrameSink, Mark, Span};
use unspool::model::digits::push_hex;
use unspool::model::json::Object;
use unspool::number::many;
use unspool::{Trace, Watch, read_frames};

use crate::args::{CaptureArgs, OutputArgs, RangeArgs, SourceArgs, source_id};
use crate::diagnostic;
use crate::json::write_summary;
use crate::listing::{Window, report_assumptions};
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// List which bytes of each formatted buffer belong to which trace id
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    sources: SourceArgs,

    /// Write the bytes of this source without frames, as binary. Read them with 'unspool packets FILE --protocol NAME --raw'
    #[arg(long, value_name = "ID|NAME", conflicts_with_all = ["json", "sources"])]
    stream: Option<String>,

    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool frames snapshot/ --limit 20
  unspool frames snapshot/ --source 0x10
  unspool frames snapshot/ --stream 0x10 -o etm0.bin
  unspool packets etm0.bin --protocol etm4 --raw

Each line has the offset in the buffer, the trace id, and the bytes. Lines without an id are marks: synchronization, \
barriers and triggers.
Exit code 1: some bytes belong to no frame.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let capture = args.capture.open()?;
    report_assumptions(&capture);
    let mut output = Output::open(&args.output, &capture)?;
    let verdict = match &args.stream {
        Some(source) => write_stream(&capture, source_id(&capture, source)?, &mut output)?,
        None => list_all(&capture, args, &mut output)?,
    };
    output.finish()?;
    Ok(verdict)
}

fn write_stream(capture: &Capture, id: u8, output: &mut Output) -> anyhow::Result<Verdict> {
    let traces: Vec<Trace<'_>> = Trace::all(capture).into_iter().filter(|t| t.source().id == Some(id)).collect();
    if traces.is_empty() {
        bail!("no source has the trace id {id:#04x}; 'unspool info' lists the sources");
    }
    let progress = Progress::new(output.on_terminal);
    let mut copy = Copy { output, progress, lost: 0 };
    for trace in traces {
        trace.bytes(&mut copy)?;
    }
    if copy.lost == 0 {
        return Ok(Verdict::Clean);
    }
    diagnostic::error(format_args!(
        "{} belong to no frame; some may have belonged to {id:#04x}",
        many(copy.lost, "byte")
    ));
    Ok(Verdict::Problems)
}

struct Copy<'o> {
    output: &'o mut Output,
    progress: Progress,
    /// Bytes that belong to no frame.
    lost: u64,
}

impl Sink<&[u8]> for Copy<'_> {
    fn item(&mut self, bytes: &[u8]) {
        self.output.write(|out| out.write_all(bytes));
    }
}

impl Watch for Copy<'_> {
    fn lost(&mut self, error: FrameError) {
        self.lost += error.skipped;
    }

    fn wants_more(&mut self) -> bool {
        self.output.is_open()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.progress.at(read, total);
    }
}

fn list_all(capture: &Capture, args: &Args, output: &mut Output) -> anyhow::Result<Verdict> {
    let formatted: Vec<usize> =
        (0..capture.buffers.len()).filter(|&index| capture.buffers[index].format.is_formatted()).collect();
    if formatted.is_empty() {
        bail!("{}: no buffer has formatter frames; see 'unspool packets'", capture.path.display());
    }
    let ids = args.sources.ids(capture)?;
    let mut window = Window::new(&args.range);
    let mut verdict = Verdict::Clean;
    let mut read = 0;
    let mut printed = 0;
    for &index in &formatted {
        if !window.is_open() {
            break;
        }
        let wanted = Wanted { ids: &ids, window: &mut window, json: args.output.json };
        match list(capture, index, wanted, &mut printed, output) {
            Ok(found) => {
                read += 1;
                verdict = verdict.or(found);
            }
            Err(error) if formatted.len() > 1 => {
                diagnostic::error(&error);
                verdict = Verdict::Problems;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if read == 0 && window.is_open() {
        bail!("none of the buffers could be read");
    }
    if printed == 0 && !ids.is_empty() && args.range.is_all() {
        bail!("no bytes of the selected trace ids; 'unspool info' lists the sources");
    }
    if args.output.json {
        write_summary(output, "frames", verdict, |object| {
            object.plain("items", window.printed());
        });
    }
    Ok(verdict)
}

/// Which items are printed, and how.
struct Wanted<'a> {
    ids: &'a [u8],
    window: &'a mut Window,
    json: bool,
}

fn list(
    capture: &Capture,
    index: usize,
    wanted: Wanted<'_>,
    printed: &mut u64,
    output: &mut Output,
) -> Result<Verdict, unspool::Error> {
    let buffer = &capture.buffers[index];
    let Wanted { ids, window, json } = wanted;
    if !json {
        output.write(|out| writeln!(out, "# buffer {}", buffer.name));
    }
    let mut printer = Printer {
        buffer,
        index,
        json,
        ids,
        progress: Progress::new(output.on_terminal),
        output,
        window,
        line: String::new(),
        hex: String::new(),
        spans: 0,
        lost: 0,
        lost_bytes: 0,
    };
    read_frames(capture, index, &mut printer)?;
    *printed += printer.spans;
    Ok(printer.verdict())
}

struct Printer<'o, 'a> {
    buffer: &'a Buffer,
    index: usize,
    json: bool,
    ids: &'a [u8],
    output: &'o mut Output,
    window: &'a mut Window,
    progress: Progress,
    line: String,
    hex: String,
    spans: u64,
    lost: u64,
    lost_bytes: u64,
}

impl Printer<'_, '_> {
    fn verdict(&self) -> Verdict {
        if self.lost == 0 {
            return Verdict::Clean;
        }
        let (bytes, ranges) = (many(self.lost_bytes, "byte"), many(self.lost, "range"));
        diagnostic::error(format_args!("{}: {bytes} in {ranges} belong to no frame", self.buffer.name));
        Verdict::Problems
    }

    fn print_mark(&mut self, offset: u64, name: &str, what: Option<(u64, String)>) {
        if !self.window.next() {
            return;
        }
        if !self.json {
            let text = what.map_or_else(|| name.replace('_', " "), |(_, what)| format!("! {what}"));
            self.output.write(|out| writeln!(out, "{offset:#010x}  {text}"));
            return;
        }
        let mut object = Object::new(&mut self.line);
        object.plain("buffer", self.index).string("kind", name).plain("offset", offset);
        if let Some((skipped, what)) = what {
            object.plain("skipped", skipped).string("what", what);
        }
        self.output.write(|out| object.write_line(out));
    }
}

impl FrameSink for Printer<'_, '_> {
    fn span(&mut self, span: Span<'_>) {
        if !self.ids.is_empty() && !self.ids.contains(&span.id) || !self.window.next() {
            return;
        }
        self.spans += 1;
        if !self.json {
            self.hex.clear();
            push_hex(&mut self.hex, span.bytes);
            let hex = &self.hex;
            self.output.write(|out| writeln!(out, "{:#010x}  id {:#04x}  {hex}", span.offset, span.id));
            return;
        }
        let mut object = Object::new(&mut self.line);
        object.plain("buffer", self.index).string("kind", "bytes").plain("offset", span.offset);
        object.plain("source", span.id).bytes("bytes", span.bytes);
        self.output.write(|out| object.write_line(out));
    }

    fn mark(&mut self, mark: Mark) {
        // Items of a chunk after the last one requested are not printed.
        if !self.window.is_open() {
            return;
        }
        match mark {
            Mark::FullSync { offset } => self.print_mark(offset, "full_sync", None),
            Mark::HalfSync { offset } => self.print_mark(offset, "half_sync", None),
            Mark::Barrier { offset } => self.print_mark(offset, "barrier", None),
            Mark::Trigger { offset } => self.print_mark(offset, "trigger", None),
            Mark::Flush { offset } => self.print_mark(offset, "flush", None),
            Mark::Lost(error) => {
                self.lost += 1;
                self.lost_bytes += error.skipped;
                let what = format!("{}, {} skipped", error.kind, many(error.skipped, "byte"));
                self.print_mark(error.offset, "error", Some((error.skipped, what)));
            }
            _ => {}
        }
    }
}

impl Watch for Printer<'_, '_> {
    fn wants_more(&mut self) -> bool {
        self.output.is_open() && self.window.is_open()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.progress.at(read, total);
    }
}
