//! Packets: they tile the stream whatever its chunks are, and every packet survives a round trip.
//!
//! Input: a configuration (see [`setup::config`](crate::setup::config)), a byte for the chunk sizes, the stream.

use std::fmt::Write;

use unspool_coresight::etm4::{Config, Packet, PacketDecoder, PacketItem};
use unspool_coresight::{DecodePackets as _, Packets};

use crate::setup::{byte, chunks, config};

/// Maximum number of bytes that wait for more. The longest packet is a trace info with all its fields; zeros and skipped bytes
/// need no memory.
const MAX_CARRIED: usize = 64;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let config = config(&mut data);
    let cut = byte(&mut data);
    let whole: Vec<PacketItem> = Packets::new(&config, data).collect();
    check_tiles(data, 0, &whole);
    assert_eq!(in_chunks(&config, data, cut), whole, "chunks make a difference");
    check_text(&whole);
    check_encoding(&config, &whole);
    check_resync(&config, data, &whole, usize::from(cut));
}

/// All items of a stream that is pushed in chunks.
pub fn in_chunks(config: &Config, data: &[u8], cut: u8) -> Vec<PacketItem> {
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

fn check_tiles(data: &[u8], start: u64, items: &[PacketItem]) {
    let mut end = start;
    for item in items {
        let (offset, length) = match item {
            Ok(packet) => (packet.offset, packet.length),
            Err(error) => (error.offset, error.skipped),
        };
        assert!(offset == end && length > 0, "{item:?} does not start at {end:#x}");
        end += length;
    }
    assert_eq!(end, data.len() as u64, "the items do not cover the stream");
}

fn check_text(items: &[PacketItem]) {
    let mut text = String::new();
    for item in items {
        text.clear();
        let written = match item {
            Ok(packet) => write!(text, "{} {}", packet.value, packet.value.kind().name()),
            Err(error) => write!(text, "{error}"),
        };
        assert!(written.is_ok() && !text.is_empty(), "{item:?} has no text");
    }
}

/// Packets that are written and read again are the same; our encodings are never longer.
fn check_encoding(config: &Config, items: &[PacketItem]) {
    let mut bytes = Vec::new();
    let sync = Packet::AlignmentSync.encode(config, &mut bytes);
    assert_eq!(sync, Ok(()));
    let mut written = vec![Packet::AlignmentSync];
    for packet in items.iter().flatten() {
        let start = bytes.len();
        if let Err(error) = packet.value.encode(config, &mut bytes) {
            panic!("{error}, but {packet:?} was read");
        }
        assert!((bytes.len() - start) as u64 <= packet.length, "{packet:?} was written as {:02x?}", &bytes[start..]);
        written.push(packet.value);
    }
    let read: Vec<Packet> = Packets::new(config, &bytes).map(|item| item.expect("our own packet").value).collect();
    assert_eq!(read, written, "written and read again, packets differ");
}

/// After a request to resynchronize, the decoder returns the rest of the stream, starting with an alignment synchronization.
fn check_resync(config: &Config, data: &[u8], whole: &[PacketItem], after: usize) {
    let mut packets = Packets::new(config, data);
    let passed = packets.by_ref().take(after).count();
    let start = packets.offset();
    packets.resync();
    let rest: Vec<PacketItem> = packets.collect();
    if passed == after {
        check_tiles(data, start, &rest);
        let first = rest.iter().flatten().next();
        assert!(first.is_none_or(|packet| packet.value == Packet::AlignmentSync), "{first:?} came first");
    } else {
        assert!(rest.is_empty() && passed == whole.len(), "something follows the end");
    }
}
