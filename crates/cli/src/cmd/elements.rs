//! `elements`: print what the packets mean; with `--committed`, what of it really happened.

use unspool::coresight::etm4::element::{Context, Target, exception_name};
use unspool::coresight::etm4::packet::SubIsa;
use unspool::coresight::etm4::{Element, ElementError, ElementItem, Located, Transactions};
use unspool::coresight::frame::FrameError;
use unspool::{Error, Sink, Trace};

use super::packets::numbers;
use super::{Problems, Window, each_trace, heading};
use crate::Verdict;
use crate::args::{CaptureArgs, OutputArgs, RangeArgs, SourceArgs, tell};
use crate::json::Object;
use crate::output::Output;
use crate::progress::Progress;

/// Print the elements of each trace source, one a line, with the offset of the packet that brought them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    sources: SourceArgs,

    /// Only what really happened: speculation and transactions are resolved
    #[arg(long)]
    committed: bool,

    /// With --committed: also what failed transactions did
    #[arg(long, requires = "committed")]
    show_failed: bool,

    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool elements snapshot/ --source 0x10 --limit 40
  unspool elements snapshot/ --committed --json";

/// Prints elements.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let capture = args.capture.open()?;
    let mut output = Output::open(&args.output, &capture)?;
    let verdict = each_trace(&capture, &args.sources, |trace| list(trace, args, &mut output))?;
    output.finish()?;
    Ok(verdict)
}

fn list(trace: &Trace<'_>, args: &Args, output: &mut Output) -> Result<Verdict, Error> {
    trace.config()?;
    if !args.output.json {
        output.write(|out| heading(trace, out));
    }
    let mut printer = Printer {
        trace: *trace,
        json: args.output.json,
        progress: Progress::new(output.on_terminal),
        output,
        window: Window::new(&args.range),
        line: String::new(),
        problems: Problems::new(),
    };
    if args.committed {
        let transactions = if args.show_failed { Transactions::Show } else { Transactions::Resolve };
        let open = trace.committed(transactions, &mut printer)?;
        if open > 0 && printer.window.is_open() {
            tell(format_args!("{}: {open} P0 elements were still speculative at the end", trace.source().name));
        }
    } else {
        trace.elements(&mut printer)?;
    }
    let whole = printer.window.is_open();
    Ok(printer.problems.verdict(trace, whole))
}

struct Printer<'o, 'c> {
    trace: Trace<'c>,
    json: bool,
    output: &'o mut Output,
    window: Window,
    progress: Progress,
    line: String,
    problems: Problems,
}

impl Sink<ElementItem> for Printer<'_, '_> {
    fn item(&mut self, item: ElementItem) {
        // What a piece holds beyond the last item that was asked for is nobody's concern.
        if !self.window.is_open() {
            return;
        }
        match &item {
            Ok(_) => self.problems.synchronised = true,
            Err(error) if !error.kind.is_ordinary() => {
                self.problems.add(&self.trace, error.offset, error.skipped, error.kind);
            }
            Err(error) => self.problems.unsynchronised_bytes += error.skipped,
        }
        if !self.window.next() {
            return;
        }
        match item {
            Ok(element) if self.json => self.json(&element),
            Ok(element) => self.output.write(|out| writeln!(out, "{:#010x}  {}", element.offset, element.value)),
            Err(error) => self.error(&error),
        }
    }

    fn lost(&mut self, error: FrameError) {
        if self.window.is_open() {
            self.problems.add(&self.trace, error.offset, error.skipped, error.kind);
        }
    }

    fn wants_more(&mut self) -> bool {
        self.output.is_open() && self.window.is_open()
    }

    fn progress(&mut self, read: u64, all: u64) {
        self.progress.at(read, all);
    }
}

impl Printer<'_, '_> {
    fn json(&mut self, element: &Located<Element>) {
        let mut object = Object::new(&mut self.line);
        object.nullable("source", self.trace.source().id).plain("session", self.trace.session());
        object.string("kind", element.value.name()).plain("offset", element.offset);
        fields(&mut object, &element.value);
        self.output.write(|out| object.finish(out));
    }

    fn error(&mut self, error: &ElementError) {
        let ElementError { offset, skipped, kind } = error;
        if !self.json {
            self.output.write(|out| writeln!(out, "{offset:#010x}  ! {kind}, {skipped} bytes skipped"));
            return;
        }
        let mut object = Object::new(&mut self.line);
        object.nullable("source", self.trace.source().id).plain("session", self.trace.session());
        let name = if !kind.is_ordinary() { "error" } else { "no_sync" };
        object.string("kind", name).plain("offset", offset).plain("skipped", skipped).string("what", kind);
        self.output.write(|out| object.finish(out));
    }
}

/// What the element says, key by key; keys that `decode` has too are the same there.
fn fields(object: &mut Object<'_>, element: &Element) {
    match element {
        Element::TraceInfo { cycle_counting, cycle_threshold, speculation, in_transaction } => {
            object.plain("cycle_counting", cycle_counting).plain("cycle_threshold", cycle_threshold);
            object.plain("speculation", speculation).plain("in_transaction", in_transaction);
        }
        Element::Commit(count) | Element::Cancel(count) => {
            object.plain("count", count);
        }
        Element::Atoms(atoms) => {
            object.string("atoms", atoms);
        }
        Element::Q { count } => {
            object.nullable("instructions", *count);
        }
        Element::Exception { number, address } => {
            object.plain("number", number).string("name", exception_name(*number).unwrap_or("unknown"));
            match address {
                Some(address) => object.hex("return", *address),
                None => object.plain("return", "null"),
            };
        }
        Element::SourceAddress(address) | Element::TargetAddress(address) => target(object, address),
        Element::Context(new) => context(object, new),
        Element::TransactionStart => state(object, "start"),
        Element::TransactionCommit => state(object, "commit"),
        Element::TransactionFailure => state(object, "failure"),
        Element::Timestamp { value, cycles } => {
            object.plain("value", value).optional("cycles", *cycles);
        }
        Element::CycleCount(cycles) => {
            object.nullable("cycles", *cycles);
        }
        Element::Event { mask } => {
            object.plain("numbers", numbers(*mask));
        }
        Element::Instrumentation { el, value } => {
            object.plain("el", el).hex("value", *value);
        }
        Element::NumberedDataSync(value) | Element::UnnumberedDataSync(value) => {
            object.plain("value", value);
        }
        Element::ConditionalInstruction(instruction) => {
            object.string("what", instruction);
        }
        Element::ConditionalResult(result) => {
            object.string("what", result);
        }
        _ => {}
    }
}

fn state(object: &mut Object<'_>, state: &str) {
    object.string("state", state);
}

fn target(object: &mut Object<'_>, target: &Target) {
    object.hex("address", target.address).plain("is", u8::from(target.isa == SubIsa::Is1));
}

fn context(object: &mut Object<'_>, context: &Context) {
    object.plain("el", context.el).string("security", context.security.name()).plain("aarch64", context.aarch64);
    object.optional("contextid", context.context_id).optional("vmid", context.vmid);
}
