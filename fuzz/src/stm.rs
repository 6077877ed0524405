//! STM: packets tile the stream whatever its chunks are, every packet survives a round trip, and errors reach the elements.
//!
//! Input: a byte for the chunk sizes, the stream.

use unspool_coresight::stm::{Body, Config, ElementDecoder, Encoder, PacketDecoder, PacketItem};
use unspool_coresight::{DecodeElements as _, DecodePackets as _, ElementItem, Packets};

use crate::setup::{byte, chunks};

/// Maximum number of bytes that wait for more: the longest packet, and an ASYNC that may start in it.
const MAX_CARRIED: usize = 64;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let cut = byte(&mut data);
    let config = Config::default();
    let whole: Vec<PacketItem> = Packets::new(&config, data).collect();
    check_tiles(data, &whole);
    assert_eq!(in_chunks(data, cut), whole, "chunks make a difference");
    check_encoding(&config, &whole);
    check_elements(&config, &whole);
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

/// Lengths add up, and an item starts in the byte where the one before ends, or in the next.
fn check_tiles(data: &[u8], items: &[PacketItem]) {
    let mut end = 0;
    for item in items {
        let (offset, length) = match item {
            Ok(packet) => (packet.offset, packet.length),
            Err(error) => (error.offset, error.skipped),
        };
        assert!(offset == end || offset + 1 == end, "{item:?} does not start at {end:#x}");
        end += length;
    }
    assert_eq!(end, data.len() as u64, "the items do not cover the stream");
}

/// Packets that are written and read again are the same. A packet that an error separates from its version is not written.
fn check_encoding(config: &Config, items: &[PacketItem]) {
    let mut encoder = Encoder::new();
    let mut written: Vec<Body> = Vec::new();
    for item in items {
        let Ok(packet) = item else { continue };
        // NULL packets that an error separated are joined, and a run of them is not repeated here.
        let body = match packet.value.body {
            Body::Null { .. } => continue,
            body => body,
        };
        if let Err(error) = encoder.push(&body) {
            panic!("{error}, but {packet:?} was read");
        }
        written.push(body);
    }
    let bytes = encoder.finish();
    let read = Packets::new(config, &bytes).map(|item| item.expect("our own packet").value.body);
    let read: Vec<Body> = read.filter(|body| !matches!(body, Body::Null { .. })).collect();
    assert_eq!(read, written, "written and read again, packets differ");
}

/// Errors are passed on, offsets never decrease, and everything has text.
fn check_elements(config: &Config, items: &[PacketItem]) {
    let mut decoder = ElementDecoder::new(config);
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
