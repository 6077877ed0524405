//! ITM: packets tile the stream whatever its chunks are, every packet survives a round trip, and elements are the same.
//!
//! Input: a byte for the chunk sizes, the stream.

use unspool_coresight::itm::{Config, ElementDecoder, Packet, PacketDecoder, PacketItem};
use unspool_coresight::{DecodeElements as _, DecodePackets as _, ElementItem, Malformed, Packets};

use crate::setup::{byte, chunks};

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
        let is_presumed = item.is_err_and(|error| error.kind == Malformed::PresumedStart);
        assert!(offset == end && (length > 0 || is_presumed), "{item:?} does not start at {end:#x}");
        end += length;
    }
    assert_eq!(end, data.len() as u64, "the items do not cover the stream");
}

/// Packets that are written and read again are the same; our encodings are never longer. Only lengths of a global
/// timestamp that no unit sends are refused.
fn check_encoding(config: &Config, items: &[PacketItem]) {
    let mut bytes = Vec::new();
    assert_eq!(Packet::Sync.encode(&mut bytes), Ok(()));
    let mut written = vec![Packet::Sync];
    for packet in items.iter().flatten() {
        let start = bytes.len();
        match packet.value.encode(&mut bytes) {
            Ok(()) => {
                let length = (bytes.len() - start) as u64;
                assert!(length <= packet.length, "{packet:?} was written as {:02x?}", &bytes[start..]);
                written.push(packet.value);
            }
            Err(error) => assert!(matches!(packet.value, Packet::GlobalTimestamp2 { .. }), "{error}"),
        }
    }
    let read: Vec<Packet> = Packets::new(config, &bytes).map(|item| item.expect("our own packet").value).collect();
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
