//! Flow: ranges are in the code, and neither chunk sizes nor earlier code make a difference.
//!
//! Input: a configuration, a byte for the chunk sizes, a byte for the position of the code in memory and for the start of the
//! stream (see [`Setup`]), two bytes with the length of the code; then the code and the stream.

use unspool_coresight::etm4::packet::{Address, TraceInfo};
use unspool_coresight::etm4::{Config, ElementDecoder, Packet, PacketItem, Speculation};
use unspool_coresight::{
    Context, DecodeElements as _, InstructionDecoders as _, ElementItem, Malformed, PacketError, Packets, Security, Sink, SubIsa,
    Transactions,
};
use unspool_flow::{CodeMemory, FlowDecoder, FlowItem, FlowSink, Item, Range, Run, Space, Walker};
use unspool_isa::{ControlFlow, Decoded, Isa, Target, decode};

use crate::packets::in_chunks;
use crate::setup::{byte, config};

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let config = config(&mut data);
    let (cut, setup) = (byte(&mut data), Setup(byte(&mut data)));
    let length = usize::from(u16::from_le_bytes([byte(&mut data), byte(&mut data)]));
    let (code, stream) = data.split_at(length.min(data.len()));
    let code = Code { setup, bytes: code };
    let stream = [setup.front(&config), stream.to_vec()].concat();
    let packets: Vec<PacketItem> = Packets::new(&config, &stream).collect();
    let end = stream.len() as u64;
    let reported = fresh(&config, &code, &packets, end);
    check_order(&reported, end);
    assert_eq!(fresh(&config, &code, &in_chunks(&config, &stream, cut), end), reported, "chunks make a difference");
    assert_eq!(stage_by_stage(&config, &code, &packets, end), reported, "the joined decoders differ");
    check_again(&config, &code, &packets, &reported, end);
}

/// Bits 0 and 1: nothing in front of the stream, or a start in A64, A32 or T32. Bit 2: the code is at the top of memory and
/// continues at the bottom. Bit 3: code is read a few bytes at a time. Bit 4: transactions are resolved.
#[derive(Debug, Clone, Copy)]
struct Setup(u8);

impl Setup {
    fn context(self) -> Option<(Context, SubIsa)> {
        let context = |aarch64| Context { el: 0, aarch64, security: Security::Secure, vmid: None, context_id: None };
        match self.0 & 3 {
            0 => None,
            1 => Some((context(true), SubIsa::Is0)),
            2 => Some((context(false), SubIsa::Is0)),
            _ => Some((context(false), SubIsa::Is1)),
        }
    }

    /// An alignment synchronization, a trace info, and the address where the code starts.
    fn front(self, config: &Config) -> Vec<u8> {
        let Some((context, isa)) = self.context() else { return Vec::new() };
        let info = TraceInfo { speculation: Some(0), ..TraceInfo::default() };
        let address = Packet::AddressContext { address: Address::full(isa, self.base()), context };
        let mut bytes = Vec::new();
        for packet in [Packet::AlignmentSync, Packet::TraceInfo(info), address] {
            assert_eq!(packet.encode(config, &mut bytes), Ok(()));
        }
        bytes
    }

    fn base(self) -> u64 {
        match (self.0 & 4 != 0, self.0 & 2 != 0) {
            (false, _) => 0x8000,
            (true, true) => 0xffff_ffe0,
            (true, false) => u64::MAX - 0x1f,
        }
    }

    /// The highest address.
    fn top(self) -> u64 {
        if self.0 & 2 != 0 { u64::from(u32::MAX) } else { u64::MAX }
    }

    fn transactions(self) -> Transactions {
        if self.0 & 16 != 0 { Transactions::Resolve } else { Transactions::Show }
    }
}

/// The same code in every space.
#[derive(Debug, Clone, Copy)]
struct Code<'c> {
    setup: Setup,
    bytes: &'c [u8],
}

impl<'c> Code<'c> {
    fn from(&self, address: u64) -> &'c [u8] {
        let offset = address.wrapping_sub(self.setup.base()) & self.setup.top();
        let inside = usize::try_from(offset).ok().filter(|_| address <= self.setup.top());
        inside.and_then(|offset| self.bytes.get(offset..)).unwrap_or_default()
    }
}

impl CodeMemory for Code<'_> {
    fn read<'b>(&'b self, address: u64, _space: Space, buffer: &'b mut [u8]) -> &'b [u8] {
        // Whether the bottom of memory follows the top depends on the reader, so that no read returns both.
        let left =
            usize::try_from(self.setup.top().saturating_sub(address)).map_or(usize::MAX, |left| left.saturating_add(1));
        let all = self.from(address);
        let all = &all[..all.len().min(left)];
        if self.setup.0 & 8 == 0 {
            return all;
        }
        let count = (1 + address as usize % 7).min(all.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&all[..count]);
        &buffer[..count]
    }
}

/// A range or an item, each with its offset in the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reported {
    Range { offset: u64, start: u64, end: u64, isa: Isa, instructions: u32, taken: bool },
    Item(FlowItem),
}

/// Checks ranges, and keeps all.
struct Collector<'c> {
    code: Code<'c>,
    wfx_is_p0: bool,
    reported: Vec<Reported>,
}

impl FlowSink for Collector<'_> {
    fn run(&mut self, run: Run<'_>) {
        assert!(!run.is_empty() && run.len() == run.ranges().len(), "a run without ranges");
        let sum = run.ranges().map(|range| u64::from(range.instructions())).sum::<u64>();
        assert_eq!(run.instructions(), sum, "instructions of {run:?}");
        for range in run.ranges() {
            check_range(&self.code, &range, self.wfx_is_p0);
            self.reported.push(Reported::Range {
                offset: run.offset(),
                start: range.start(),
                end: range.end(),
                isa: range.isa(),
                instructions: range.instructions(),
                taken: range.taken(),
            });
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.reported.push(Reported::Item(item));
    }
}

/// The opcodes of a range are in the code, and its last instruction is decoded correctly.
fn check_range(code: &Code<'_>, range: &Range<'_>, wfx_is_p0: bool) {
    assert!(range.instructions() > 0, "{range:?} is empty");
    assert_eq!(range.opcodes().len(), range.instructions() as usize, "{range:?}");
    let isa = range.isa();
    let top = if isa == Isa::A64 { u64::MAX } else { u64::from(u32::MAX) };
    let (mut at, mut last) = (range.start(), None);
    for &opcode in range.opcodes() {
        let (there, length) = opcode_at(code, isa, at, top);
        assert_eq!(Some(opcode), there, "at {at:#x} in {range:?}");
        last = Some(decode(isa, at, opcode));
        at = at.wrapping_add(length) & top;
    }
    assert_eq!(at, range.end(), "the end of {range:?}");
    // Only the walk knows which instructions of a range an IT instruction made conditional.
    // Instructions that are not branches are not decoded there, so that UDF is like the others.
    let flow = |flow: ControlFlow| if flow == ControlFlow::Undefined { ControlFlow::FallThrough } else { flow };
    let conditional = range.last().conditional;
    let same = last.map(|facts| Decoded { conditional, flow: flow(facts.flow), ..facts });
    assert_eq!(Some(*range.last()), same, "{range:?}");
    assert!(last.is_none_or(|facts| !facts.conditional || range.last().conditional), "{range:?} is conditional");
    let is_p0 = range.last().flow.is_p0() && (range.last().flow != ControlFlow::Wfx || wfx_is_p0);
    assert!(range.taken() || is_p0, "{range:?} is not taken, and ends without a branch");
    let direct = range.last().target.map(|Target { address, .. }| address);
    let next = match (range.last().flow, range.taken()) {
        (ControlFlow::Indirect | ControlFlow::ExceptionReturn, true) => None,
        (ControlFlow::Direct, true) => direct,
        _ => Some(range.end()),
    };
    assert_eq!(range.next(), next, "what follows {range:?}");
}

/// The opcode and the length of an instruction, which may continue at the bottom of memory.
fn opcode_at(code: &Code<'_>, isa: Isa, at: u64, top: u64) -> (Option<u32>, u64) {
    let half = |at: u64| {
        let byte = |at: u64| code.from(at & top).first().copied();
        Some(u32::from(byte(at)?) | u32::from(byte(at.wrapping_add(1))?) << 8)
    };
    let (first, second) = (half(at), half(at.wrapping_add(2)));
    match (isa, first) {
        (Isa::T32, Some(first)) if Isa::T32.length(first as u16) == 2 => (Some(first), 2),
        (Isa::T32, _) => (first.zip(second).map(|(first, second)| first << 16 | second), 4),
        _ => (first.zip(second).map(|(first, second)| first | second << 16), 4),
    }
}

fn collector<'c>(config: &Config, code: &Code<'c>) -> Collector<'c> {
    Collector { code: *code, wfx_is_p0: config.wfx_is_p0, reported: Vec::new() }
}

/// Output of a new decoder.
fn fresh(config: &Config, code: &Code<'_>, packets: &[PacketItem], end: u64) -> Vec<Reported> {
    let mut sink = collector(config, code);
    let mut decoder = FlowDecoder::new(config, code.setup.transactions(), code);
    packets.iter().for_each(|packet| decoder.push(*packet, &mut sink));
    decoder.finish(end, &mut sink);
    sink.reported
}

/// The same stream twice, with a discontinuity between: earlier code makes no difference.
fn check_again(config: &Config, code: &Code<'_>, packets: &[PacketItem], reported: &[Reported], end: u64) {
    let mut sink = collector(config, code);
    let mut decoder = FlowDecoder::new(config, code.setup.transactions(), code);
    packets.iter().for_each(|packet| decoder.push(*packet, &mut sink));
    decoder.push(Err(PacketError { offset: end, skipped: 0, kind: Malformed::Discontinuity }), &mut sink);
    sink.reported.clear();
    packets.iter().for_each(|packet| decoder.push(*packet, &mut sink));
    decoder.finish(end, &mut sink);
    assert_eq!(sink.reported, reported, "the second time, the output differs");
}

/// Output of the separate decoders, without the short cuts between them.
fn stage_by_stage(config: &Config, code: &Code<'_>, packets: &[PacketItem], end: u64) -> Vec<Reported> {
    struct Stage<'r>(&'r mut Speculation, &'r mut Vec<ElementItem>);
    impl Sink<ElementItem> for Stage<'_> {
        fn item(&mut self, item: ElementItem) {
            self.0.push(item, &mut |item| self.1.push(item));
        }
    }
    let mut elements = ElementDecoder::new(config);
    let mut speculation = Speculation::new(config, code.setup.transactions());
    let mut committed = Vec::new();
    packets.iter().for_each(|packet| elements.push(*packet, &mut Stage(&mut speculation, &mut committed)));
    elements.finish(&mut Stage(&mut speculation, &mut committed));
    speculation.finish(&mut |item| committed.push(item));
    let mut sink = collector(config, code);
    let mut walker = Walker::new(config.flow_rules(), code);
    committed.into_iter().for_each(|item| walker.push(item, &mut sink));
    walker.finish(end, &mut sink);
    sink.reported
}

/// Offsets never decrease: neither those of ranges and Q elements, which wait for the address that follows, nor those of other
/// items. A loss is reported when it ends, at the offset where it began, and errors do not wait for uncertain elements. The
/// end is last, and occurs once.
fn check_order(all: &[Reported], end: u64) {
    let (mut executed, mut happened) = (0, 0);
    for item in all {
        let (offset, length, last) = match item {
            Reported::Range { offset, .. } => (*offset, 0, Some(&mut executed)),
            Reported::Item(Ok(item)) => match item.value {
                Item::Lost { .. } => (item.offset, item.length, None),
                Item::Q { .. } => (item.offset, item.length, Some(&mut executed)),
                _ => (item.offset, item.length, Some(&mut happened)),
            },
            Reported::Item(Err(error)) => (error.offset, error.skipped, None),
        };
        assert!(offset + length <= end, "{item:?} is after the end, {end:#x}");
        if let Some(last) = last {
            assert!(offset >= *last, "{item:?} comes after {last:#x}");
            *last = offset;
        }
    }
    let is_end = |item: &&Reported| matches!(item, Reported::Item(Ok(item)) if item.value == Item::End);
    assert!(
        all.iter().filter(is_end).count() == 1 && all.last().as_ref().is_some_and(is_end),
        "the end is not last, or occurs twice"
    );
}
