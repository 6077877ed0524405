//! `packets`: lists the packets of each trace source, before they are interpreted.

use unspool::coresight::frame::FrameError;
use unspool::coresight::{ElementError, ElementItem, Located, Packet, PacketItem, Sink};
use unspool::{Error, Trace, Watch};

use crate::args::ListingArgs;
use crate::json::write_summary;
use crate::listing::{JsonFields, Listing, Window, each_trace};
use crate::output::Output;
use crate::verdict::Verdict;

/// List the packets of each trace source, one per line, with their offsets in the buffer
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    listing: ListingArgs,
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

pub(crate) fn run(Args { listing }: &Args) -> anyhow::Result<Verdict> {
    let capture = listing.capture.open()?;
    let mut output = Output::open(&listing.output, &capture)?;
    let mut window = Window::new(&listing.range);
    let verdict = each_trace(&capture, &listing.sources, |trace| list(trace, listing, &mut output, &mut window))?;
    if listing.output.json {
        write_summary(&mut output, "packets", verdict, |object| {
            object.plain("items", window.printed());
        });
    }
    output.finish()?;
    Ok(verdict)
}

fn list(trace: &Trace<'_>, args: &ListingArgs, output: &mut Output, window: &mut Window) -> Result<Verdict, Error> {
    trace.features()?;
    if !window.is_open() {
        return Ok(Verdict::Clean);
    }
    let mut printer = Printer { listing: Listing::new(trace, args, output, window), address: None };
    trace.packets_and_elements(&mut printer)?;
    Ok(printer.listing.verdict())
}

struct Printer<'o, 'c> {
    listing: Listing<'o, 'c>,
    /// The complete address of the next packet, which may contain only a part of it.
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
        let item = item.map_err(ElementError::from);
        self.listing.note(item.as_ref().err());
        if !self.listing.window.next() {
            return;
        }
        match item {
            Ok(packet) if self.listing.json => self.json(&packet, address),
            Ok(packet) => self.text(&packet, address),
            Err(error) => self.listing.error(&error),
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

impl Printer<'_, '_> {
    fn text(&mut self, packet: &Located<Packet>, address: Option<u64>) {
        self.listing.output.write(|out| match address.filter(|_| packet.value.has_partial_address()) {
            Some(address) => writeln!(out, "{:#010x}  {} = {address:#018x}", packet.offset, packet.value),
            None => writeln!(out, "{:#010x}  {}", packet.offset, packet.value),
        });
    }

    fn json(&mut self, packet: &Located<Packet>, address: Option<u64>) {
        self.listing.object(packet.value.kind().name(), |object| {
            object.plain("offset", packet.offset).plain("length", packet.length);
            packet.value.fields(&mut JsonFields(object));
            if let Some(address) = address {
                object.hex("address", address);
            }
        });
    }
}
