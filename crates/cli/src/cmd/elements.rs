//! `elements`: lists the elements of each trace source; with `--committed`, only those that were architecturally executed.

use unspool::coresight::{Element, ElementItem, Located, Sink, Transactions};
use unspool::number::many;
use unspool::{Error, Trace};

use crate::args::ListingArgs;
use crate::diagnostic;
use crate::json::write_summary;
use crate::listing::{JsonFields, Listing, Window, each_trace, push_object, put_meanings};
use crate::output::Output;
use crate::verdict::Verdict;

/// List the elements of each trace source, one per line, with the offset of their packet
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    listing: ListingArgs,

    /// Only committed elements: canceled speculation and failed transactions are removed
    #[arg(long)]
    committed: bool,

    /// With --committed: also elements of failed transactions
    #[arg(long, requires = "committed")]
    show_failed: bool,
}

const EXAMPLES: &str = "\
Examples:
  unspool elements snapshot/ --source 0x10 --limit 40
  unspool elements snapshot/ --committed --json

Each packet is expanded into elements. The atoms of one packet share a line; a packet with an address and a context gives \
two lines. --skip and --limit count lines.
An event is listed with its meaning where the registers of the trace unit show it.
Without --committed, elements are listed in trace order, including those that are canceled later. \
Exit code 1: invalid bytes were found, or a source cannot be read.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let capture = args.listing.capture.open()?;
    let mut output = Output::open(&args.listing.output, &capture)?;
    let mut window = Window::new(&args.listing.range);
    let verdict = each_trace(&capture, &args.listing.sources, |trace| list(trace, args, &mut output, &mut window))?;
    if args.listing.output.json {
        write_summary(&mut output, "elements", verdict, |object| {
            object.plain("items", window.printed());
        });
    }
    output.finish()?;
    Ok(verdict)
}

fn list(trace: &Trace<'_>, args: &Args, output: &mut Output, window: &mut Window) -> Result<Verdict, Error> {
    trace.features()?;
    if !window.is_open() {
        return Ok(Verdict::Clean);
    }
    let mut listing = Listing::new(trace, &args.listing, output, window);
    if args.committed {
        let transactions = if args.show_failed { Transactions::Show } else { Transactions::Resolve };
        let open = trace.committed(transactions, &mut listing)?;
        if open > 0 && listing.window.is_open() {
            let name = &trace.source().name;
            diagnostic::warning(format_args!("{name}: {} still speculative at the end", many(open, "P0 element")));
        }
    } else {
        trace.elements(&mut listing)?;
    }
    Ok(listing.verdict())
}

impl Listing<'_, '_> {
    fn json(&mut self, Located { offset, value, .. }: &Located<Element>) {
        push_object(&mut self.line, &self.trace, value.name(), |object| {
            object.plain("offset", offset);
            value.fields(&mut JsonFields(object));
            if let Element::Event { mask } = *value {
                put_meanings(object, &self.events, mask);
            }
        });
        self.output.write(|out| out.write_all(self.line.as_bytes()));
    }
}

impl Sink<ElementItem> for Listing<'_, '_> {
    fn item(&mut self, item: ElementItem) {
        // Items of a chunk after the last one requested are not printed.
        if !self.window.is_open() {
            return;
        }
        self.note(item.as_ref().err());
        if !self.window.next() {
            return;
        }
        match item {
            Ok(element) if self.json => self.json(&element),
            Ok(Located { offset, value: Element::Event { mask }, .. }) => {
                let text = self.events.text(mask);
                self.output.write(|out| writeln!(out, "{offset:#010x}  {text}"));
            }
            Ok(element) => self.output.write(|out| writeln!(out, "{:#010x}  {}", element.offset, element.value)),
            Err(error) => self.error(&error),
        }
    }
}
