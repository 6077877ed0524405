//! ETMv3: packets tile the stream and survive a round trip, cancels do not leave, and every range is one instruction.
//!
//! Input: a byte of which bit 0 selects the alternative branch encoding, bit 1 Gray-coded timestamps, bit 2 timestamps of
//! 48 bits, bit 3 the M profile and bit 4 a start of trace in front of the stream; ETMCR; a byte for the chunk sizes; two bytes
//! with the length of the code; then the code and the stream.

use std::fmt::Write;

use unspool_coresight::etm3::packet::{InstructionSet, InstructionSync, SyncReason, SyncTarget};
use unspool_coresight::etm3::{Config, Packet, PacketDecoder, PacketItem, Registers};
use unspool_coresight::{
    DecodeElements as _, DecodePackets as _, Decoders as _, Element, ElementItem, Packets, Profile, Transactions,
};
use unspool_flow::{Callback, FlowDecoder, FlowItem, FlowSink, Run, Space};

use crate::setup::{byte, chunks, word};

/// Maximum number of bytes that wait for more: a synchronization with all its fields.
const MAX_CARRIED: usize = 32;
/// Address of the code.
const BASE: u64 = 0x8000;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let (flags, cr, cut) = (byte(&mut data), word(&mut data), byte(&mut data));
    let config = config(flags, cr);
    let length = usize::from(u16::from_le_bytes([byte(&mut data), byte(&mut data)]));
    let (code, stream) = data.split_at(length.min(data.len()));
    let stream = [front(flags, &config), stream.to_vec()].concat();
    let whole: Vec<PacketItem> = Packets::new(&config, &stream).collect();
    check_tiles(&stream, &whole);
    assert_eq!(in_chunks(&config, &stream, cut), whole, "chunks make a difference");
    check_encoding(&config, &whole);
    check_elements(&config, &whole);
    check_flow(&config, code, &whole, stream.len() as u64);
}

/// The configuration that flags and ETMCR select.
pub fn config(flags: u8, cr: u32) -> Config {
    let bit = |bit: u8| u32::from(flags >> bit & 1);
    let profile = if bit(3) == 1 { Profile::Microcontroller } else { Profile::Application };
    let registers = Registers {
        cr: Some(cr),
        idr: Some(0x410c_f250 | bit(0) << 20),
        ccer: Some((1 - bit(1)) << 28 | (1 - bit(2)) << 29),
        traceidr: None,
    };
    Config::new(profile, &registers).0
}

/// A start of trace at the code.
fn front(flags: u8, config: &Config) -> Vec<u8> {
    let mut bytes = Vec::new();
    if flags & 0x10 == 0 {
        return bytes;
    }
    let isa = if flags & 8 == 0 { InstructionSet::Arm } else { InstructionSet::Thumb };
    let sync = InstructionSync {
        reason: SyncReason::Enabled,
        cycles: None,
        context_id: (config.context_id_bytes > 0).then_some(0),
        non_secure: false,
        hyp: false,
        target: (!config.data_only).then_some(SyncTarget { address: BASE as u32, isa }),
        next: None,
    };
    for packet in [Packet::AlignmentSync, Packet::InstructionSync(sync)] {
        assert_eq!(packet.encode(config, &mut bytes), Ok(()));
    }
    bytes
}

fn in_chunks(config: &Config, data: &[u8], cut: u8) -> Vec<PacketItem> {
    let mut decoder = PacketDecoder::new(config);
    let (mut carry, mut items) = (Vec::new(), Vec::new());
    for chunk in chunks(data, cut) {
        carry.extend_from_slice(chunk);
        let read = decoder.decode(&carry, false, |item| items.push(item));
        carry.drain(..read);
        assert!(carry.len() < MAX_CARRIED, "{} bytes wait for the end of a packet", carry.len());
    }
    let read = decoder.decode(&carry, true, |item| items.push(item));
    assert_eq!((read, decoder.offset()), (carry.len(), data.len() as u64), "the last bytes were not read");
    items
}

fn check_tiles(data: &[u8], items: &[PacketItem]) {
    let (mut end, mut text) = (0, String::new());
    for item in items {
        let (offset, length) = match item {
            Ok(packet) => (packet.offset, packet.length),
            Err(error) => (error.offset, error.skipped),
        };
        assert!(offset == end && length > 0, "{item:?} does not start at {end:#x}");
        end += length;
        text.clear();
        let written = match item {
            Ok(packet) => write!(text, "{} {}", packet.value, packet.value.kind().name()),
            Err(error) => write!(text, "{error}"),
        };
        assert!(written.is_ok() && !text.is_empty(), "{item:?} has no text");
    }
    assert_eq!(end, data.len() as u64, "the items do not cover the stream");
    let sync = [0, 0, 0, 0, 0, 0x80];
    let syncs = data.windows(sync.len()).filter(|window| **window == sync).count();
    let found = items.iter().flatten().filter(|packet| packet.value == Packet::AlignmentSync).count();
    assert_eq!(found, syncs, "synchronizations");
}

/// Packets that are written and read again are the same; our encodings are never longer.
fn check_encoding(config: &Config, items: &[PacketItem]) {
    let (mut bytes, mut written) = (Vec::new(), vec![Packet::AlignmentSync]);
    assert_eq!(Packet::AlignmentSync.encode(config, &mut bytes), Ok(()));
    for packet in items.iter().flatten() {
        let start = bytes.len();
        if let Err(error) = packet.value.encode(config, &mut bytes) {
            panic!("{error}, but {packet:?} was read");
        }
        let is_longer = (bytes.len() - start) as u64 > packet.length;
        // The packet before may have swallowed a part of a synchronization.
        assert!(!is_longer || packet.value == Packet::AlignmentSync, "{packet:?} was written as {:02x?}", &bytes[start..]);
        written.push(packet.value);
    }
    // Otherwise a last branch might be a stop marker.
    assert_eq!(Packet::Ignore.encode(config, &mut bytes), Ok(()));
    written.push(Packet::Ignore);
    let read: Vec<Packet> = Packets::new(config, &bytes).map(|item| item.expect("our own packet").value).collect();
    assert_eq!(read, written, "written and read again, packets differ");
}

/// No cancel is committed, and no more atoms than there were.
fn check_elements(config: &Config, packets: &[PacketItem]) {
    let (mut elements, mut committed) = (config.elements(), config.committed(Transactions::Resolve));
    let (mut atoms, mut canceled, mut left) = (0, 0, 0);
    let mut count = |item: ElementItem| match item.map(|element| element.value) {
        Ok(Element::Atoms(found)) => atoms += found.count(),
        Ok(Element::Cancel(found)) => canceled += found,
        _ => {}
    };
    packets.iter().for_each(|packet| elements.push(*packet, &mut count));
    elements.finish(&mut count);
    let mut count = |item: ElementItem| match item.map(|element| element.value) {
        Ok(Element::Atoms(found)) => left += found.count(),
        Ok(Element::Cancel(_)) => panic!("a cancel was committed"),
        _ => {}
    };
    packets.iter().for_each(|packet| committed.push(*packet, &mut count));
    committed.finish(&mut count);
    assert!(left <= atoms && left + canceled >= atoms, "{left} of {atoms} atoms, {canceled} canceled");
}

/// Counts instructions, which are inside the code.
#[derive(Default)]
struct Ranges {
    code: u64,
    count: u64,
    text: String,
}

impl FlowSink for Ranges {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            assert_eq!((range.instructions(), range.opcodes().len()), (1, 1));
            assert!(range.start() >= BASE && range.end() <= BASE + self.code, "{range:?} is not in the code");
            self.count += 1;
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.text.clear();
        assert!(write!(self.text, "{item:?}").is_ok());
    }
}

fn check_flow(config: &Config, code: &[u8], packets: &[PacketItem], end: u64) {
    let memory = Callback(|address: u64, _: Space, buffer: &mut [u8]| {
        let start = usize::try_from(address.wrapping_sub(BASE)).unwrap_or(usize::MAX);
        let rest = code.get(start..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    });
    let mut ranges = Ranges { code: code.len() as u64, ..Ranges::default() };
    let mut decoder = FlowDecoder::new(config, Transactions::Resolve, memory);
    packets.iter().for_each(|packet| decoder.push(*packet, &mut ranges));
    decoder.finish(end, &mut ranges);
}
