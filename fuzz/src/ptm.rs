//! PTM: packets tile the stream whatever its chunks are and survive a round trip; elements and flow are in order and do not
//! depend on code that is already known.
//!
//! Input: ETMCR, ETMIDR and ETMCCER (four bytes each), a byte for the chunk sizes, two bytes with the length of the code; then
//! the code, which is at 0x8000, and the stream.

use unspool_coresight::ptm::{Config, ElementDecoder, Packet, PacketDecoder, PacketItem};
use unspool_coresight::{DecodeElements as _, DecodePackets as _, ElementItem, Packets, Transactions};
use unspool_flow::{Callback, FlowDecoder, FlowItem, FlowSink, Run, Space};

use crate::setup::{byte, chunks, word};

/// Maximum number of bytes that wait for more: those of the longest packet, a timestamp with a cycle count.
const MAX_CARRIED: usize = 16;

/// The address of the code.
const BASE: u64 = 0x8000;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let config = config(&mut data);
    let cut = byte(&mut data);
    let length = usize::from(u16::from_le_bytes([byte(&mut data), byte(&mut data)]));
    let (code, stream) = data.split_at(length.min(data.len()));
    let whole: Vec<PacketItem> = Packets::new(&config, stream).collect();
    check_tiles(stream, &whole);
    assert_eq!(in_chunks(&config, stream, cut), whole, "chunks make a difference");
    check_encoding(&config, &whole);
    check_elements(&config, &whole, stream.len() as u64);
    check_flow(&config, code, &whole, stream.len() as u64);
}

/// The configuration at the start of an input.
pub fn config(data: &mut &[u8]) -> Config {
    let registers = ["ETMCR", "ETMIDR", "ETMCCER"].map(|name| (name, u64::from(word(data))));
    Config::described(registers, []).0
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
    let mut end = 0;
    for item in items {
        let (offset, length) = match item {
            Ok(packet) => (packet.offset, packet.length),
            Err(error) => (error.offset, error.skipped),
        };
        assert!(offset == end && length > 0, "{item:?} does not start at {end:#x}");
        let text = item.map_or_else(|error| error.to_string(), |packet| packet.value.to_string());
        assert!(!text.is_empty(), "{item:?} has no text");
        end += length;
    }
    assert_eq!(end, data.len() as u64, "the items do not cover the stream");
}

/// Packets that are written and read again are the same.
fn check_encoding(config: &Config, items: &[PacketItem]) {
    let mut bytes = Vec::new();
    assert_eq!(Packet::AlignmentSync.encode(config, &mut bytes), Ok(()));
    let mut written = vec![Packet::AlignmentSync];
    for packet in items.iter().flatten() {
        // The documents have no room for this byte: it is read, and never written.
        let is_undocumented = matches!(packet.value, Packet::WaypointUpdate { alternative: Some(_), .. });
        match packet.value.encode(config, &mut bytes) {
            Ok(()) => written.push(packet.value),
            Err(_) if is_undocumented => {}
            Err(error) => panic!("{error}, but {packet:?} was read"),
        }
    }
    let read: Vec<Packet> = Packets::new(config, &bytes).map(|item| item.expect("our own packet").value).collect();
    assert_eq!(read, written, "written and read again, packets differ");
}

/// Offsets never decrease, and are inside the stream.
fn check_elements(config: &Config, packets: &[PacketItem], length: u64) {
    let mut decoder = ElementDecoder::new(config);
    let mut elements: Vec<ElementItem> = Vec::new();
    packets.iter().for_each(|packet| decoder.push(*packet, &mut |item| elements.push(item)));
    decoder.finish(&mut |item| elements.push(item));
    let mut last = 0;
    for item in &elements {
        let (offset, end) = match item {
            Ok(element) => (element.offset, element.offset + element.length),
            Err(error) => (error.offset, error.offset + error.skipped),
        };
        assert!(offset >= last && end <= length, "{item:?} comes after {last:#x} in {length:#x} bytes");
        last = offset;
        let text = item.as_ref().map_or_else(ToString::to_string, |element| element.value.to_string());
        assert!(!text.is_empty(), "{item:?} has no text");
    }
}

/// Ranges and items, as text.
#[derive(Default)]
struct Lines(Vec<String>);

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        let offset = run.offset();
        for range in run.ranges() {
            assert_eq!(range.opcodes().len(), range.instructions() as usize, "{range:?}");
            assert!(range.taken() || range.has_outcome(), "{range:?} is not taken, and ends without a waypoint");
            self.0.push(format!("{offset:#x} {range:?}"));
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.0.push(format!("{item:?}"));
    }
}

/// A decoder that knows the code from the first time makes the same flow.
fn check_flow(config: &Config, code: &[u8], packets: &[PacketItem], end: u64) {
    let memory = Callback(|address: u64, _: Space, buffer: &mut [u8]| {
        let offset = address.checked_sub(BASE).and_then(|offset| usize::try_from(offset).ok());
        let rest = offset.and_then(|offset| code.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    });
    let mut decoder = FlowDecoder::new(config, Transactions::Resolve, memory);
    let mut flows = [Lines::default(), Lines::default()];
    for lines in &mut flows {
        decoder.restart();
        packets.iter().for_each(|packet| decoder.push(*packet, lines));
        decoder.finish(end, lines);
    }
    assert_eq!(flows[0].0, flows[1].0, "known code makes a difference");
}
