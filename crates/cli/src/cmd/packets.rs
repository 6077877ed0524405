//! `packets`: print what the trace unit said, before anyone interprets it.

use unspool::capture::Capture;
use unspool::coresight::etm4::packet::{
    Address, ConditionalInstruction, ConditionalResult, Context, CycleCount, ExceptionAddress, Packet, SubIsa,
};
use unspool::coresight::etm4::{Element, ElementDecoder, ElementItem, Located, PacketError, PacketItem};
use unspool::coresight::frame::FrameError;
use unspool::{Error, Sink, Trace};

use super::{Problems, Window, each_trace, heading};
use crate::Verdict;
use crate::args::{CaptureArgs, OutputArgs, RangeArgs, SourceArgs};
use crate::json::Object;
use crate::output::Output;
use crate::progress::Progress;

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
    if !args.output.json {
        output.write(|out| heading(trace, out));
    }
    let mut printer = Printer {
        trace: *trace,
        json: args.output.json,
        progress: Progress::new(output.on_terminal),
        output,
        window: Window::new(&args.range),
        addresses: ElementDecoder::new(&config),
        line: String::new(),
        problems: Problems::new(),
    };
    trace.packets(&mut printer)?;
    let whole = printer.window.is_open();
    Ok(printer.problems.verdict(trace, whole))
}

struct Printer<'o, 'c> {
    trace: Trace<'c>,
    json: bool,
    output: &'o mut Output,
    window: Window,
    progress: Progress,
    /// Completes addresses, which packets give in part.
    addresses: ElementDecoder,
    line: String,
    problems: Problems,
}

impl Sink<PacketItem> for Printer<'_, '_> {
    fn item(&mut self, item: PacketItem) {
        // What a piece holds beyond the last item that was asked for is nobody's concern.
        if !self.window.is_open() {
            return;
        }
        let mut whole = None;
        self.addresses
            .push(item, &mut |element: ElementItem| whole = element.ok().and_then(|e| address_of(&e.value)).or(whole));
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
        match (self.json, item) {
            (false, Ok(packet)) => self.text(&packet, whole),
            (true, Ok(packet)) => self.json(&packet, whole),
            (_, Err(error)) => self.error(&error),
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
        self.output.write(|out| match whole.filter(|_| is_partial(&packet.value)) {
            Some(address) => writeln!(out, "{:#010x}  {} = {address:#018x}", packet.offset, packet.value),
            None => writeln!(out, "{:#010x}  {}", packet.offset, packet.value),
        });
    }

    fn json(&mut self, packet: &Located<Packet>, whole: Option<u64>) {
        let mut object = Object::new(&mut self.line);
        object.nullable("source", self.trace.source().id).plain("session", self.trace.session());
        object.string("kind", packet.value.kind().name());
        object.plain("offset", packet.offset).plain("length", packet.length);
        fields(&mut object, &packet.value);
        if let Some(address) = whole {
            object.hex("address", address);
        }
        self.output.write(|out| object.finish(out));
    }

    fn error(&mut self, error: &PacketError) {
        let PacketError { offset, skipped, kind } = error;
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
