//! `elements`: lists the elements of each trace source; with `--committed`, only those that were architecturally executed.

use std::fmt::Write as _;
use std::sync::Arc;

use unspool::coresight::frame::FrameError;
use unspool::coresight::{Element, ElementItem, Located, Sink, Transactions};
use unspool::number::many;
use unspool::{Error, EventMeanings, Trace, Watch};

use crate::args::{JobsArgs, ListingArgs};
use crate::diagnostic;
use crate::item_lines::ItemLines;
use crate::json::write_summary;
use crate::listing::{
    JsonFields, Listing, SourceKeys, Window, each_trace, error_text, push_error, push_object, put_meanings,
};
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

    #[command(flatten)]
    jobs: JobsArgs,
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
    let (json, palette, keys) = (args.listing.output.json, output.palette, SourceKeys::from(trace));
    let events = Arc::new(EventMeanings::new(trace));
    let push_line = move |item: &ElementItem, lines: &mut String| match item {
        Ok(element) if json => push_json(element, keys, &events, lines),
        Ok(element) => push_text(element, &events, lines),
        Err(error) if json => push_error(lines, keys, error),
        Err(error) => lines.push_str(&error_text(error, &palette)),
    };
    let lines = ItemLines::new(args.jobs.count(), push_line);
    let mut printer = Printer { listing: Listing::new(trace, &args.listing, output, window), lines };
    let open = if args.committed {
        let transactions = if args.show_failed { Transactions::Show } else { Transactions::Resolve };
        trace.committed(transactions, &mut printer)
    } else {
        trace.elements(&mut printer).map(|()| 0)
    };
    let Printer { listing, mut lines } = printer;
    lines.finish(listing.output);
    let open = open?;
    if open > 0 && listing.window.is_open() {
        let name = &trace.source().name;
        diagnostic::warning(format_args!("{name}: {} still speculative at the end", many(open, "P0 element")));
    }
    Ok(listing.verdict())
}

fn push_text(Located { offset, value, .. }: &Located<Element>, events: &EventMeanings, lines: &mut String) {
    let _ = match value {
        Element::Event { mask } => writeln!(lines, "{offset:#010x}  {}", events.text(*mask)),
        _ => writeln!(lines, "{offset:#010x}  {value}"),
    };
}

fn push_json(
    Located { offset, value, .. }: &Located<Element>,
    keys: SourceKeys,
    events: &EventMeanings,
    lines: &mut String,
) {
    push_object(lines, keys, value.name(), |object| {
        object.plain("offset", offset);
        value.fields(&mut JsonFields(object));
        if let Element::Event { mask } = *value {
            put_meanings(object, events, mask);
        }
    });
}

struct Printer<'o, 'c> {
    listing: Listing<'o, 'c>,
    lines: ItemLines<ElementItem>,
}

impl Sink<ElementItem> for Printer<'_, '_> {
    fn item(&mut self, item: ElementItem) {
        // Items of a chunk after the last one requested are not printed.
        if !self.listing.window.is_open() {
            return;
        }
        self.listing.note(item.as_ref().err());
        if self.listing.window.next() {
            self.lines.push(item, self.listing.output);
        }
    }
}

impl Watch for Printer<'_, '_> {
    fn lost(&mut self, error: FrameError) {
        self.listing.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.listing.wants_more()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.listing.progress(read, total);
    }
}
