//! `packets`: print what the trace unit said, before anyone interprets it.

use unspool::capture::Capture;
use unspool::coresight::etm4::packet::{
    Address, ConditionalInstruction, ConditionalResult, Context, CycleCount, ExceptionAddress, Packet, SubIsa,
};
use unspool::coresight::etm4::{Element, ElementDecoder, ElementError, ElementItem, Located, PacketItem};
use unspool::coresight::frame::FrameError;
use unspool::model::json::Object;
use unspool::{Error, Sink, Trace};

use crate::args::{CaptureArgs, OutputArgs, RangeArgs, SourceArgs};
use crate::listing::{Listing, each_trace};
use crate::output::Output;
use crate::verdict::Verdict;

/// Print the packets of each trace source, one a line, with their offsets in the buffer
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool packets snapshot/ --source 0x10
  unspool packets capture.zip --json | jq -r .kind | sort | uniq -c
  unspool packets trbe.bin --protocol ete --raw --reg TRCIDR2=0xc0001088";

/// Prints packets.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let capture: Capture = args.capture.open()?;
    let mut output = Output::open(&args.output, &capture)?;
    let verdict = each_trace(&capture, &args.sources, |trace| list(trace, args, &mut output))?;
    output.finish()?;
    Ok(verdict)
}

fn list(trace: &Trace<'_>, args: &Args, output: &mut Output) -> Result<Verdict, Error> {
    let (config, _) = trace.config()?;
    let listing = Listing::new(trace, &args.output, &args.range, output);
    let mut printer = Printer { listing, addresses: ElementDecoder::new(&config) };
    trace.packets(&mut printer)?;
    Ok(printer.listing.verdict())
}

struct Printer<'o, 'c> {
    listing: Listing<'o, 'c>,
    /// Completes addresses, which packets give in part.
    addresses: ElementDecoder,
}

impl Sink<PacketItem> for Printer<'_, '_> {
    fn item(&mut self, item: PacketItem) {
        // What a piece holds beyond the last item that was asked for is nobody's concern.
        if !self.listing.window.is_open() {
            return;
        }
        let mut whole = None;
        self.addresses
            .push(item, &mut |element: ElementItem| whole = element.ok().and_then(|e| address_of(&e.value)).or(whole));
        let item = item.map_err(ElementError::from);
        self.listing.note(item.as_ref().err());
        if !self.listing.window.next() {
            return;
        }
        match item {
            Ok(packet) if self.listing.json => self.json(&packet, whole),
            Ok(packet) => self.text(&packet, whole),
            Err(error) => self.listing.error(&error),
        }
    }

    fn lost(&mut self, error: FrameError) {
        self.listing.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.listing.wants_more()
    }

    fn progress(&mut self, read: u64, all: u64) {
        self.listing.progress.at(read, all);
    }
}

fn address_of(element: &Element) -> Option<u64> {
    match element {
        Element::TargetAddress(target) | Element::SourceAddress(target) => Some(target.address),
        Element::Exception { address, .. } => *address,
        _ => None,
    }
}

/// Does the packet leave bits of its address to earlier packets?
fn is_partial(packet: &Packet) -> bool {
    match packet {
        Packet::Address(address) | Packet::SourceAddress(address) => address.bits < 64,
        Packet::AddressContext { address, .. } | Packet::Q { address: Some(address), .. } => address.bits < 64,
        _ => false,
    }
}

impl Printer<'_, '_> {
    fn text(&mut self, packet: &Located<Packet>, whole: Option<u64>) {
        self.listing.output.write(|out| match whole.filter(|_| is_partial(&packet.value)) {
            Some(address) => writeln!(out, "{:#010x}  {} = {address:#018x}", packet.offset, packet.value),
            None => writeln!(out, "{:#010x}  {}", packet.offset, packet.value),
        });
    }

    fn json(&mut self, packet: &Located<Packet>, whole: Option<u64>) {
        self.listing.object(packet.value.kind().name(), |object| {
            object.plain("offset", packet.offset).plain("length", packet.length);
            fields(object, &packet.value);
            if let Some(address) = whole {
                object.hex("address", address);
            }
        });
    }
}

/// What the packet says, key by key.
fn fields(object: &mut Object<'_>, packet: &Packet) {
    match packet {
        Packet::TraceInfo(info) => {
            object.optional("info", info.info).optional("key", info.key);
            object.optional("speculation", info.speculation).optional("cycle_threshold", info.cycle_threshold);
        }
        Packet::Timestamp { value, bits, cycles } => {
            object.plain("value", value).plain("bits", bits).optional("cycles", *cycles);
        }
        Packet::Exception { number, address, fault_pending } => {
            let also_target = *address == ExceptionAddress::TargetAndReturn;
            object.plain("number", number).plain("target_too", also_target);
            object.optional("fault_pending", *fault_pending);
        }
        Packet::Instrumentation { el, value } => {
            object.plain("el", el).hex("value", *value);
        }
        Packet::CycleCount(count) => cycle_count(object, count),
        Packet::NumberedDataSync(value) | Packet::UnnumberedDataSync(value) => {
            object.plain("value", value);
        }
        Packet::Commit { count } => {
            object.plain("count", count);
        }
        Packet::CancelFormat1 { count, mispredict } => {
            object.plain("count", count).plain("mispredict", mispredict);
        }
        Packet::CancelFormat2(atoms) => {
            object.string("atoms", atoms.atoms()).plain("count", 1).plain("mispredict", true);
        }
        Packet::CancelFormat3 { count, atom } => {
            object.string("atoms", if *atom { "E" } else { "" }).plain("count", count).plain("mispredict", true);
        }
        Packet::Mispredict(atoms) => {
            object.string("atoms", atoms.atoms());
        }
        Packet::ConditionalInstruction(instruction) => conditional_instruction(object, instruction),
        Packet::ConditionalResult(result) => conditional_result(object, result),
        Packet::Event { mask } => {
            object.plain("numbers", numbers(*mask));
        }
        Packet::Context(Some(new)) => context(object, new),
        Packet::AddressContext { address: partial, context: new } => {
            address(object, partial);
            context(object, new);
        }
        Packet::Address(partial) | Packet::SourceAddress(partial) => address(object, partial),
        Packet::Q { count, address: partial } => {
            object.optional("instructions", *count);
            if let Some(partial) = partial {
                address(object, partial);
            }
        }
        Packet::Atoms(atoms) => {
            object.string("atoms", atoms);
        }
        _ => {}
    }
}

/// The events of a mask as a JSON list.
pub(super) fn numbers(mask: u8) -> String {
    let list: Vec<String> = (0..4).filter(|bit| mask >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
    format!("[{}]", list.join(","))
}

fn cycle_count(object: &mut Object<'_>, count: &CycleCount) {
    match count {
        CycleCount::Format1 { commit, cycles } => object.optional("commit", *commit).nullable("cycles", *cycles),
        CycleCount::Format2 { near_maximum, commit, cycles } => {
            object.plain("commit_field", commit).plain("near_maximum", near_maximum).plain("cycles", cycles)
        }
        CycleCount::Format3 { commit, cycles } => object.plain("commit_field", commit).plain("cycles", cycles),
    };
}

fn conditional_instruction(object: &mut Object<'_>, instruction: &ConditionalInstruction) {
    match instruction {
        ConditionalInstruction::Format1 { key } => object.plain("key", key),
        ConditionalInstruction::Format2 { step } => object.plain("step", step),
        ConditionalInstruction::Format3 { count, last } => object.plain("count", count).plain("last", last),
    };
}

fn conditional_result(object: &mut Object<'_>, result: &ConditionalResult) {
    match result {
        ConditionalResult::Format1 { first, second } => {
            object.plain("key", first.key).plain("result", first.result);
            object.optional("key2", second.map(|it| it.key)).optional("result2", second.map(|it| it.result))
        }
        ConditionalResult::Format2 { skip, token } => object.plain("skip", skip).plain("token", token),
        ConditionalResult::Format3 { tokens } => object.plain("tokens", tokens),
        ConditionalResult::Format4 { token } => object.plain("token", token),
    };
}

fn context(object: &mut Object<'_>, context: &Context) {
    object.plain("el", context.el).string("security", context.security.name()).plain("aarch64", context.aarch64);
    object.optional("contextid", context.context_id).optional("vmid", context.vmid);
}

fn address(object: &mut Object<'_>, address: &Address) {
    object.plain("bits", address.bits);
    if address.bits == 0 {
        object.plain("entry", address.entry);
    } else {
        object.plain("is", u8::from(address.isa == SubIsa::Is1)).hex("value", address.value);
    }
}
