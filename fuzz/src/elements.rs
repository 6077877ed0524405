//! Elements: none is invented, none leaves while it is speculative, and the number of waiting elements is bounded.
//!
//! Input: a configuration, a byte for the chunk sizes, a byte of which bit 0 puts an alignment synchronization and a trace
//! info in front of the stream, and the other bits, all set, repeat the stream until it fills every queue; then the stream.

use unspool_coresight::etm4::packet::TraceInfo;
use unspool_coresight::etm4::{Config, ElementDecoder, Packet, PacketItem, Speculation, p0_count, survives_cancel};
use unspool_coresight::{DecodeElements as _, Element, ElementItem, Packets, Transactions};

use crate::packets::in_chunks;
use crate::setup::{byte, config};

/// Maximum number of elements that `Speculation` holds: a queue and a transaction of 65,536 each.
const MAX_HELD: i64 = 2 * (1 << 16) + 2;
/// Length of a repeated stream: more than twice the length that fills a queue.
const LONG: usize = 150_000;
/// Flags that select a repeated stream.
const REPEAT: u8 = 0xfe;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let config = config(&mut data);
    let (cut, how) = (byte(&mut data), byte(&mut data));
    let stream = stream(&config, data, how);
    let packets: Vec<PacketItem> = Packets::new(&config, &stream).collect();
    let elements = elements(&config, &packets);
    check_order(&elements, stream.len() as u64);
    for mode in [Transactions::Resolve, Transactions::Show] {
        let committed = committed(&config, mode, &elements);
        check_committed(&config, mode, &elements, &committed);
    }
    if stream.len() < LONG {
        check_chunks(&config, &stream, cut, &elements);
        check_text(&elements);
    }
}

fn stream(config: &Config, data: &[u8], how: u8) -> Vec<u8> {
    let mut stream = Vec::new();
    if how & 1 == 1 {
        let info = TraceInfo { speculation: Some(u32::from(how >> 1)), ..TraceInfo::default() };
        for packet in [Packet::AlignmentSync, Packet::TraceInfo(info)] {
            assert_eq!(packet.encode(config, &mut stream), Ok(()));
        }
    }
    stream.extend_from_slice(data);
    while how & REPEAT == REPEAT && !data.is_empty() && stream.len() < LONG {
        stream.extend_from_slice(data);
    }
    stream
}

fn elements(config: &Config, packets: &[PacketItem]) -> Vec<ElementItem> {
    let mut decoder = ElementDecoder::new(config);
    let mut elements = Vec::new();
    let mut sink = |item| elements.push(item);
    packets.iter().for_each(|packet| decoder.push(*packet, &mut sink));
    decoder.finish(&mut sink);
    elements
}

/// Offsets never decrease, and are inside the stream.
fn check_order(elements: &[ElementItem], length: u64) {
    let mut last = 0;
    for item in elements {
        let (offset, end) = match item {
            Ok(element) => (element.offset, element.offset + element.length),
            Err(error) => (error.offset, error.offset + error.skipped),
        };
        assert!(offset >= last && end <= length, "{item:?} comes after {last:#x} in {length:#x} bytes");
        last = offset;
    }
}

/// The elements that leave speculation. Also checks that the number of waiting elements is bounded.
fn committed(config: &Config, mode: Transactions, elements: &[ElementItem]) -> Vec<ElementItem> {
    let mut speculation = Speculation::new(config, mode);
    let mut committed: Vec<ElementItem> = Vec::new();
    // Elements that entered and did not leave since elements were last dropped: a lower bound, since a run of atoms may
    // leave in two parts.
    let mut held = 0_i64;
    for item in elements {
        let before = committed.len();
        speculation.push(*item, &mut |item| committed.push(item));
        let left = committed[before..].iter().flatten().count() as i64;
        held = if may_drop(item) { 0 } else { (held + i64::from(enters(item)) - left).max(0) };
        assert!(held <= MAX_HELD, "{held} elements wait at {item:?}");
    }
    let outstanding = speculation.outstanding();
    assert_eq!(speculation.finish(&mut |item| committed.push(item)), outstanding);
    assert_eq!(speculation.outstanding(), 0, "something waits after the end");
    committed
}

fn may_drop(item: &ElementItem) -> bool {
    let drops = |element: &Element| {
        matches!(element, Element::Cancel(_) | Element::Discard | Element::Overflow | Element::TransactionFailure)
    };
    item.as_ref().map_or(true, |element| drops(&element.value))
}

fn enters(item: &ElementItem) -> bool {
    item.as_ref().is_ok_and(|element| !matches!(element.value, Element::Commit(_) | Element::Cancel(_)))
}

fn check_committed(config: &Config, mode: Transactions, elements: &[ElementItem], committed: &[ElementItem]) {
    let resolved = |item: &ElementItem| {
        item.as_ref().is_ok_and(|element| matches!(element.value, Element::Commit(_) | Element::Cancel(_)))
    };
    assert!(!committed.iter().any(resolved), "a commit or cancel left speculation");
    let rising = committed.iter().flatten().is_sorted_by_key(|element| element.offset);
    assert!(rising, "committed elements are out of order ({mode:?})");
    let p0 = |items: &[ElementItem]| items.iter().flatten().map(|e| u64::from(p0_count(&e.value, config))).sum::<u64>();
    assert!(p0(committed) <= p0(elements), "P0 elements were invented ({mode:?})");
    let survivors = |items: &[ElementItem]| items.iter().flatten().filter(|e| survives_cancel(&e.value)).count();
    assert_eq!(survivors(committed), survivors(elements), "what survives a cancel was lost or doubled ({mode:?})");
    if config.max_speculation == 0 && mode == Transactions::Show {
        let passed = elements.iter().flatten().filter(|element| enters(&Ok(**element)));
        assert!(passed.eq(committed.iter().flatten()), "without speculation all elements pass");
    }
}

/// Chunk sizes make no difference.
fn check_chunks(config: &Config, stream: &[u8], cut: u8, whole: &[ElementItem]) {
    let packets = in_chunks(config, stream, cut);
    assert_eq!(elements(config, &packets), whole, "chunks make a difference");
}

fn check_text(elements: &[ElementItem]) {
    for item in elements {
        let text = item.as_ref().map_or_else(ToString::to_string, |element| element.value.to_string());
        assert!(!text.is_empty(), "{item:?} has no text");
    }
}
