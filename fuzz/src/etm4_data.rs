//! The data stream of ETMv4: packets and undecoded bytes tile the stream whatever its chunks are, no synchronization is
//! missed, every packet with a known layout is written as it was read, and errors reach the elements.
//!
//! Input: a byte for the chunk sizes, the stream.

use unspool_coresight::etm4_data::{Config, ElementDecoder, Packet, PacketDecoder, PacketItem};
use unspool_coresight::{DecodeElements as _, DecodePackets as _, ElementItem, Packets};

use crate::setup::{byte, chunks};

/// Maximum number of bytes that wait for more: a timestamp.
const MAX_CARRIED: usize = 10;
const SYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let cut = byte(&mut data);
    let whole: Vec<PacketItem> = Packets::new(&Config::default(), data).collect();
    check_tiles(data, &whole);
    assert_eq!(in_chunks(data, cut), whole, "chunks make a difference");
    check_encoding(data, &whole);
    check_elements(&whole);
}

fn in_chunks(data: &[u8], cut: u8) -> Vec<PacketItem> {
    let mut decoder = PacketDecoder::new();
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
        end += length;
    }
    assert_eq!(end, data.len() as u64, "the items do not cover the stream");
    let syncs = data.windows(SYNC.len()).filter(|window| **window == SYNC).count();
    let found = items.iter().flatten().filter(|packet| packet.value == Packet::AlignmentSync).count();
    assert_eq!(found, syncs, "synchronizations");
}

/// A synchronization is written with the least number of zeros. Packets that are known by their headers alone are refused.
fn check_encoding(data: &[u8], items: &[PacketItem]) {
    for packet in items.iter().flatten() {
        let (mut bytes, offset) = (Vec::new(), packet.offset as usize);
        let read = match packet.value {
            Packet::AlignmentSync => &SYNC[..],
            _ => &data[offset..offset + packet.length as usize],
        };
        let is_written = packet.value.encode(&mut bytes).is_ok();
        assert!(!is_written || bytes == read, "{packet:?} was written as {bytes:02x?}");
        let is_header =
            matches!(packet.value, Packet::TraceInfo | Packet::Event | Packet::P1 { .. } | Packet::P2 { .. });
        assert_eq!(is_written, !is_header && packet.value != Packet::Undecoded, "{packet:?}");
    }
}

/// Errors are passed on, offsets never decrease, and everything has text.
fn check_elements(items: &[PacketItem]) {
    let mut decoder = ElementDecoder::new();
    let (mut last, mut errors) = (0, 0);
    let mut sink = |item: ElementItem| {
        let offset = match item {
            Ok(element) => {
                assert!(!element.value.to_string().is_empty());
                element.offset
            }
            Err(error) => {
                errors += 1;
                error.offset
            }
        };
        assert!(offset >= last, "{offset:#x} after {last:#x}");
        last = offset;
    };
    items.iter().for_each(|item| decoder.push(*item, &mut sink));
    decoder.finish(&mut sink);
    assert_eq!(errors, items.iter().filter(|item| item.is_err()).count(), "errors are missing");
}
