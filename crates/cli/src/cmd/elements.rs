//! `elements`: print what the packets mean; with `--committed`, what of it really happened.

use unspool::coresight::frame::FrameError;
use unspool::coresight::{ElementItem, Located, Sink, Transactions};
use unspool::{Error, Trace, Watch};

use super::packets::JsonFields;
use crate::args::{CaptureArgs, OutputArgs, RangeArgs, SourceArgs};
use crate::diagnostic::diagnostic;
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
    trace.features()?;
    let mut printer = Printer(Listing::new(trace, &args.output, &args.range, output));
    if args.committed {
        let transactions = if args.show_failed { Transactions::Show } else { Transactions::Resolve };
        let open = trace.committed(transactions, &mut printer)?;
        if open > 0 && printer.0.window.is_open() {
            diagnostic(format_args!("{}: {open} P0 elements were still speculative at the end", trace.source().name));
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
        // Items of a chunk after the last one requested are not printed.
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
                value.fields(&mut JsonFields(object));
            }),
            Ok(element) => listing.output.write(|out| writeln!(out, "{:#010x}  {}", element.offset, element.value)),
            Err(error) => listing.error(&error),
        }
    }
}

impl Watch for Printer<'_, '_> {
    fn lost(&mut self, error: FrameError) {
        self.0.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.0.wants_more()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.0.progress.at(read, total);
    }
}
