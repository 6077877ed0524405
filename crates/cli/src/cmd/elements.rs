//! `elements`: print what the packets mean; with `--committed`, what of it really happened.

use unspool::coresight::etm4::element::{Context, Target, exception_name};
use unspool::coresight::etm4::packet::SubIsa;
use unspool::coresight::etm4::{Element, ElementItem, Located, Transactions};
use unspool::coresight::frame::FrameError;
use unspool::model::json::Object;
use unspool::{Error, Sink, Trace};

use super::packets::numbers;
use crate::args::{CaptureArgs, OutputArgs, RangeArgs, SourceArgs};
use crate::diagnostic::diagnostic as tell;
use crate::listing::{Listing, each_trace};
use crate::output::Output;
use crate::verdict::Verdict;

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
    let mut printer = Printer(Listing::new(trace, &args.output, &args.range, output));
    if args.committed {
        let transactions = if args.show_failed { Transactions::Show } else { Transactions::Resolve };
        let open = trace.committed(transactions, &mut printer)?;
        if open > 0 && printer.0.window.is_open() {
            tell(format_args!("{}: {open} P0 elements were still speculative at the end", trace.source().name));
        }
    } else {
        trace.elements(&mut printer)?;
    }
    Ok(printer.0.verdict())
}

struct Printer<'o, 'c>(Listing<'o, 'c>);

impl Sink<ElementItem> for Printer<'_, '_> {
    fn item(&mut self, item: ElementItem) {
        let listing = &mut self.0;
        // What a piece holds beyond the last item that was asked for is nobody's concern.
        if !listing.window.is_open() {
            return;
        }
        listing.note(item.as_ref().err());
        if !listing.window.next() {
            return;
        }
        match item {
            Ok(Located { offset, value, .. }) if listing.json => listing.object(value.name(), |object| {
                object.plain("offset", offset);
                fields(object, &value);
            }),
            Ok(element) => listing.output.write(|out| writeln!(out, "{:#010x}  {}", element.offset, element.value)),
            Err(error) => listing.error(&error),
        }
    }

    fn lost(&mut self, error: FrameError) {
        self.0.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.0.wants_more()
    }

    fn progress(&mut self, read: u64, all: u64) {
        self.0.progress.at(read, all);
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
            object.nullable_hex("return", *address);
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

pub(super) fn context(object: &mut Object<'_>, context: &Context) {
    object.plain("el", context.el).string("security", context.security.name()).plain("aarch64", context.aarch64);
    object.optional("contextid", context.context_id).optional("vmid", context.vmid);
}
