//! `packets`: lists the packets of each trace source, before they are interpreted.

use std::fmt::Write as _;

use unspool::coresight::frame::FrameError;
use unspool::coresight::{ElementError, ElementItem, Located, Packet, PacketItem, Sink};
use unspool::{Error, Trace, Watch};

use crate::args::{JobsArgs, ListingArgs};
use crate::item_lines::ItemLines;
use crate::json::write_summary;
use crate::listing::{JsonFields, Listing, SourceKeys, Window, each_trace, error_text, push_error, push_object};
use crate::output::Output;
use crate::verdict::Verdict;

/// List the packets of each trace source, one per line, with their offsets in the buffer
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    listing: ListingArgs,

    #[command(flatten)]
    jobs: JobsArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool packets snapshot/
  unspool packets snapshot/ --source 0x10 --limit 40
  unspool packets capture.zip --json | jq -r .kind | sort | uniq -c
  unspool packets trbe.bin --protocol ete --raw --register TRCIDR2=0xc0001088

Each line has the offset of the packet in the buffer, and the packet. ' = 0x..' is the complete address where a packet has \
only a part of it. '!' marks bytes that are not a valid packet.
Exit code 1: invalid bytes were found, or a source cannot be read.";

pub(crate) fn run(Args { listing, jobs }: &Args) -> anyhow::Result<Verdict> {
    let capture = listing.capture.open()?;
    let mut output = Output::open(&listing.output, &capture)?;
    let mut window = Window::new(&listing.range);
    let verdict =
        each_trace(&capture, &listing.sources, |trace| list(trace, listing, jobs.count(), &mut output, &mut window))?;
    if listing.output.json {
        write_summary(&mut output, "packets", verdict, |object| {
            object.plain("items", window.printed());
        });
    }
    output.finish()?;
    Ok(verdict)
}

fn list(
    trace: &Trace<'_>,
    args: &ListingArgs,
    threads: usize,
    output: &mut Output,
    window: &mut Window,
) -> Result<Verdict, Error> {
    trace.features()?;
    if !window.is_open() {
        return Ok(Verdict::Clean);
    }
    let (json, palette, keys) = (args.output.json, output.palette, SourceKeys::from(trace));
    let push_line = move |Item { packet, address }: &Item, lines: &mut String| match packet {
        Ok(packet) if json => push_json(packet, *address, keys, lines),
        Ok(packet) => push_text(packet, *address, lines),
        Err(error) if json => push_error(lines, keys, error),
        Err(error) => lines.push_str(&error_text(error, &palette)),
    };
    let listing = Listing::new(trace, args, output, window);
    let mut printer = Printer { listing, lines: ItemLines::new(threads, push_line), address: None };
    let read = trace.packets_and_elements(&mut printer);
    printer.lines.finish(printer.listing.output);
    read?;
    Ok(printer.listing.verdict())
}

/// A packet or an error.
struct Item {
    packet: Result<Located<Packet>, ElementError>,
    /// The complete address of the packet, which may contain only a part of it.
    address: Option<u64>,
}

struct Printer<'o, 'c> {
    listing: Listing<'o, 'c>,
    lines: ItemLines<Item>,
    /// The complete address of the next packet.
    address: Option<u64>,
}

impl Sink<ElementItem> for Printer<'_, '_> {
    fn item(&mut self, item: ElementItem) {
        self.address = item.ok().and_then(|element| element.value.address()).or(self.address);
    }
}

impl Sink<PacketItem> for Printer<'_, '_> {
    fn item(&mut self, item: PacketItem) {
        let address = self.address.take();
        // Items of a chunk after the last one requested are not printed.
        if !self.listing.window.is_open() {
            return;
        }
        let packet = item.map_err(ElementError::from);
        self.listing.note(packet.as_ref().err());
        if self.listing.window.next() {
            self.lines.push(Item { packet, address }, self.listing.output);
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

fn push_text(packet: &Located<Packet>, address: Option<u64>, lines: &mut String) {
    let _ = match address.filter(|_| packet.value.has_partial_address()) {
        Some(address) => writeln!(lines, "{:#010x}  {} = {address:#018x}", packet.offset, packet.value),
        None => writeln!(lines, "{:#010x}  {}", packet.offset, packet.value),
    };
}

fn push_json(packet: &Located<Packet>, address: Option<u64>, keys: SourceKeys, lines: &mut String) {
    push_object(lines, keys, packet.value.kind().name(), |object| {
        object.plain("offset", packet.offset).plain("length", packet.length);
        packet.value.fields(&mut JsonFields(object));
        if let Some(address) = address {
            object.hex("address", address);
        }
    });
}
