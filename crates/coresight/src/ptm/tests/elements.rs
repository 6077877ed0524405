//! Elements of packets.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::any_packet::packet;
use super::{cycle_accurate, first_version, plain};
use crate::ptm::{Config, ElementDecoder, Packet, PacketItem};
use crate::{DecodeElements as _, Element, ElementItem, Malformed, PacketError, Packets, Plain};

const SYNC: [u8; 6] = [0, 0, 0, 0, 0, 0x80];

fn items(config: &Config, packets: impl IntoIterator<Item = PacketItem>) -> Vec<ElementItem> {
    let mut decoder = ElementDecoder::new(config);
    let mut items = vec![];
    packets.into_iter().for_each(|packet| decoder.push(packet, &mut |item| items.push(item)));
    decoder.finish(&mut |item| items.push(item));
    items
}

/// The elements of each part of a stream, after an alignment synchronization.
fn texts(config: &Config, parts: &[&[u8]]) -> Vec<String> {
    let stream = [&SYNC[..], &parts.concat()].concat();
    items(config, Packets::new(config, &stream)).iter().map(text).collect()
}

fn text(item: &ElementItem) -> String {
    item.map_or_else(|error| error.to_string(), |element| element.value.to_string())
}

/// The rows of the fact sheet without cycle counts.
#[test]
fn addresses_and_contexts_are_completed() {
    let rows: &[(&[u8], &[&str])] = &[
        (
            &[0x08, 0x01, 0x00, 0x00, 0x80, 0x29, 0x78, 0x56, 0x34, 0x12],
            &[
                "trace info",
                "trace on",
                "context EL? nonsecure AArch32 contextid 0x12345678",
                "target address 0x0000000080000000 IS1",
            ],
        ),
        (&[0x94, 0xc0, 0x98], &["atoms ENE", "atoms EEEEE", "atoms NEE"]),
        (&[0x2f], &["atoms E", "target address 0x000000008000002e IS1"]),
        (&[0xc5, 0xc5, 0x06], &["atoms E", "target address 0x000000008001a2c4 IS1"]),
        (&[0x72, 0x2f], &["waypoint update 0x000000008001a2ae IS1"]),
        (&[0x72, 0xc5, 0xc5, 0x86, 0x80, 0x18], &["waypoint update 0x000000008001a2c4 IS1"]),
        (
            &[0x8d, 0x80, 0xfe, 0xff, 0x4f, 0x1d],
            &["exception 14 (IRQ), return unknown", "target address 0x00000000ffff0018 IS0"],
        ),
        (
            &[0x8d, 0x80, 0xfe, 0xff, 0x4f, 0x87, 0x20],
            &[
                "exception 3 (Hyp entry), return unknown",
                "context EL2 nonsecure AArch32 contextid 0x12345678",
                "target address 0x00000000ffff0018 IS0",
            ],
        ),
        (
            &[0x89, 0x80, 0x80, 0x80, 0x58, 0x81, 0x00],
            &["atoms E", "context EL? nonsecure AArch32 contextid 0x12345678", "target address 0x0000000080000008 IS1"],
        ),
        (&[0x76], &["exception return"]),
        (&[0x6e, 0x01, 0x00, 0x00, 0x00], &["context EL? nonsecure AArch32 contextid 0x1"]),
        (&[0x3c, 0x05], &["context EL? nonsecure AArch32 vmid 0x5 contextid 0x1"]),
        (&[0x0c, 0x66], &["trigger"]),
    ];
    let parts: Vec<&[u8]> = rows.iter().map(|row| row.0).collect();
    let expected: Vec<&str> = rows.iter().flat_map(|row| row.1).copied().collect();
    assert_eq!(texts(&plain(), &parts), expected);
}

/// The rows of the fact sheet with cycle counts.
#[test]
fn cycles_follow_what_they_count() {
    let parts: &[&[u8]] = &[
        &[0x08, 0x00, 0x00, 0x00, 0x80, 0x21, 0xcc, 0x03, 0x78, 0x56, 0x34, 0x12],
        &[0xe8, 0x20],
        &[0x86],
        &[0x2f, 0x68, 0x17],
        &[0x42, 0xcc, 0x97, 0xc6, 0xce, 0xaf, 0x90, 0x80, 0x80, 0x00, 0x00],
        &[0x46, 0x4e, 0x04],
    ];
    let expected = [
        "trace info, cycle threshold 0",
        "trace on",
        "cycle count 51",
        "context EL? secure AArch32 contextid 0x12345678",
        "target address 0x0000000080000000 IS0",
        "atoms E",
        "cycle count 522",
        "atoms N",
        "cycle count 1",
        "atoms E",
        "cycle count 378",
        "target address 0x000000008000005c IS0",
        "cycle count 0",
        "timestamp 0x82f9d18bcc",
        "cycle count 1",
        "timestamp 0x82f9d18bce",
    ];
    assert_eq!(texts(&cycle_accurate(), parts), expected);
}

/// The rows of the fact sheet for version 1.0.
#[test]
fn gray_timestamps_are_compressed_as_sent() {
    let parts: &[&[u8]] = &[
        &[0x08, 0x00, 0x10, 0x00, 0x80, 0x21],
        &[0x42, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x47],
        &[0x42, 0x2a],
        &[0x9b, 0x52, 0x1c],
    ];
    let expected = [
        "trace info",
        "trace on",
        "context EL? secure AArch32",
        "target address 0x0000000080001000 IS0",
        "timestamp 0x17df9f0081fe",
        // Gray 0x1c305080c12a
        "timestamp 0x17df9f0081cc",
        "exception 14 (IRQ), return unknown",
        "target address 0x0000000080001234 IS0",
    ];
    assert_eq!(texts(&first_version(), parts), expected);
}

/// The definition: a counter in Gray code changes one bit at each step.
#[test]
fn gray_code_is_the_inverse_of_its_definition() {
    let config = first_version();
    for number in [0_u64, 1, 2, 3, 0x80, 0x1234_5678, (1 << 48) - 1] {
        let gray = number ^ number >> 1;
        let mut bytes = SYNC.to_vec();
        Packet::Timestamp { value: gray, bits: 48, clock_changed: false, cycles: None }
            .encode(&config, &mut bytes)
            .unwrap();
        let found = items(&config, Packets::new(&config, &bytes));
        let times: Vec<u64> = found
            .iter()
            .filter_map(|item| match item.as_ref().unwrap().value {
                Element::Timestamp { value, .. } => Some(value),
                _ => None,
            })
            .collect();
        assert_eq!(times, [number]);
    }
}

const START: &[u8] = &[0x08, 0x01, 0x10, 0x00, 0x80, 0x29, 0, 0, 0, 0];
const STARTED: [&str; 4] =
    ["trace info", "trace on", "context EL? nonsecure AArch32 contextid 0x0", "target address 0x0000000080001000 IS1"];

/// What happens, packets, and the elements.
type Story<'s> = (&'s str, &'s [&'s [u8]], &'s [&'s str]);

#[test]
fn stories() {
    let rows: &[Story<'_>] = &[
        (
            "a periodic synchronization continues",
            &[&[0x08, 0x21, 0x10, 0x00, 0x80, 0x09, 0, 0, 0, 0]],
            &["trace info", "context EL? nonsecure AArch32 contextid 0x0", "target address 0x0000000080001020 IS1"],
        ),
        (
            "after an overflow nothing continues",
            &[&[0x08, 0x21, 0x10, 0x00, 0x80, 0x49, 0, 0, 0, 0]],
            &[
                "trace info",
                "overflow",
                "trace on",
                "context EL? nonsecure AArch32 contextid 0x0",
                "target address 0x0000000080001020 IS1",
            ],
        ),
        (
            "debug entry has no target, and does not change the base",
            &[&[0x81, 0x80, 0x80, 0x80, 0x48, 0x02], &[0x2f]],
            &["exception 1 (debug entry), return unknown", "atoms E", "target address 0x000000008000102e IS1"],
        ),
        (
            "an undefined instruction is the return address",
            &[&[0x72, 0x2f], &[0x91, 0x80, 0x80, 0x80, 0x48, 0x13]],
            &[
                "waypoint update 0x000000008000102e IS1",
                "exception 9 (undefined instruction), return 0x000000008000102e",
                "target address 0x0000000000000020 IS0",
            ],
        ),
        (
            "a call is not, nor is a waypoint before an atom",
            &[
                &[0x72, 0x2f],
                &[0x91, 0x80, 0x80, 0x80, 0x48, 0x15],
                &[0x72, 0x2f, 0x84],
                &[0x91, 0x80, 0x80, 0x80, 0x48, 0x13],
            ],
            &[
                "waypoint update 0x000000008000102e IS1",
                "exception 10 (SVC), return unknown",
                "target address 0x0000000000000020 IS0",
                "waypoint update 0x000000000000005c IS0",
                "atoms E",
                "exception 9 (undefined instruction), return unknown",
                "target address 0x0000000000000020 IS0",
            ],
        ),
        (
            "information without an exception is a taken branch into the other state",
            &[&[0xaf, 0x60, 0x00]],
            &["atoms E", "context EL? secure AArch32 contextid 0x0", "target address 0x000000008000102e IS1"],
        ),
        (
            "one information byte leaves Hyp mode as it is",
            &[&[0xaf, 0x60, 0x81, 0x20], &[0xb1, 0x60, 0x01], &[0xb3, 0x60, 0x81, 0x00]],
            &[
                "atoms E",
                "context EL2 nonsecure AArch32 contextid 0x0",
                "target address 0x000000008000102e IS1",
                "atoms E",
                "target address 0x0000000080001030 IS1",
                "atoms E",
                "context EL? nonsecure AArch32 contextid 0x0",
                "target address 0x0000000080001032 IS1",
            ],
        ),
        (
            "ThumbEE and Jazelle cannot be followed",
            &[&[0xaf, 0x60, 0x41], &[0x31], &[0x85, 0x80, 0x80, 0x80, 0x30], &[0x91, 0x80, 0x80, 0x80, 0x08]],
            &[
                "atoms E",
                "other code 0x000000008000102e t32ee",
                "atoms E",
                "other code 0x0000000080001030 t32ee",
                "atoms E",
                "other code 0x0000000080000002 jazelle",
                "atoms E",
                "target address 0x0000000000000020 IS0",
            ],
        ),
        (
            "AltIS of a synchronization holds, and an information byte ends it",
            &[&[0x08, 0x01, 0x10, 0x00, 0x80, 0x0d, 0, 0, 0, 0], &[0x2f], &[0xaf, 0x60, 0x01]],
            &[
                "trace info",
                "context EL? nonsecure AArch32 contextid 0x0",
                "other code 0x0000000080001000 t32ee",
                "atoms E",
                "other code 0x000000008000102e t32ee",
                "atoms E",
                "target address 0x000000008000102e IS1",
            ],
        ),
        (
            "the virtual machine is unknown after tracing stopped",
            &[&[0x3c, 7], &[0x08, 0x01, 0x10, 0x00, 0x80, 0x29, 0, 0, 0, 0]],
            &[
                "context EL? nonsecure AArch32 vmid 0x7 contextid 0x0",
                "trace info",
                "trace on",
                "context EL? nonsecure AArch32 contextid 0x0",
                "target address 0x0000000080001000 IS1",
            ],
        ),
        ("the high bits of the time are unknown", &[&[0x42, 0x01], &[0x84]], &["atoms E"]),
    ];
    for (name, parts, expected) in rows {
        let parts = [&[START], *parts].concat();
        assert_eq!(texts(&plain(), &parts), [&STARTED[..], expected].concat(), "{name}");
    }
}

#[test]
fn counts_after_overflow_and_debug_state_are_unknown_from_version_1_1_on() {
    let sync = |reason: u8| [0x08, 0x00, 0x10, 0x00, 0x80, 0x01 | reason << 5, 0x04, 0, 0, 0, 0];
    let old = Config { version: crate::ptm::Version { minor: 0 }, ..cycle_accurate() };
    for (config, reason, expected) in [
        (cycle_accurate(), 1, "cycle count 1"),
        (cycle_accurate(), 2, "cycle count unknown"),
        (cycle_accurate(), 3, "cycle count unknown"),
        (old, 2, "cycle count 1"),
        (old, 3, "cycle count 1"),
    ] {
        let found = texts(&config, &[&sync(reason)]);
        assert!(found.iter().any(|line| line == expected), "{reason}: {found:?}");
    }
}

#[test]
fn packets_before_the_first_synchronization_are_reported() {
    let parts: &[&[u8]] = &[
        &[0x42, 1],
        &[0x42, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
        &[0x6e, 3, 0, 0, 0],
        &[0x84, 0x2f, 0x76],
        &[0x0c],
        START,
    ];
    let expected = [
        "timestamp 0x100000000000001",
        "0x17: packets before the first instruction synchronization",
        "trigger",
        "trace info",
        "trace on",
        "context EL? nonsecure AArch32 contextid 0x0",
        "target address 0x0000000080001000 IS1",
    ];
    assert_eq!(texts(&plain(), parts), expected);
}

#[test]
fn nothing_is_trusted_after_damage() {
    let error = PacketError { offset: 50, skipped: 3, kind: Malformed::ReservedHeader(0x10) };
    let stream = [&SYNC[..], START, &[0x3c, 1]].concat();
    let after = [&SYNC[..], &[0x84], &[0x08, 0x01, 0x10, 0x00, 0x80, 0x09, 9, 0, 0, 0]].concat();
    let config = plain();
    let packets = Packets::new(&config, &stream).chain([Err(error)]).chain(Packets::new(&config, &after));
    let found: Vec<String> = items(&config, packets).iter().map(text).collect();
    let expected = [
        "0x32: reserved packet header 0x10",
        "0x6: packets before the first instruction synchronization",
        "trace info",
        "trace on",
        "context EL? nonsecure AArch32 contextid 0x9",
        "target address 0x0000000080001000 IS1",
    ];
    assert_eq!(found[5..], expected);
}

proptest! {
    /// The short way gives what the long way does.
    #[test]
    fn plain_packets_have_no_other_effect(packets in prop::collection::vec(packet(&plain()), 0..40)) {
        let mut decoder = ElementDecoder::new(&plain());
        for value in packets {
            let item = Ok(crate::Located { offset: 0, length: 1, value });
            let mut pushed = decoder.clone();
            let mut elements: Vec<Element> = vec![];
            pushed.push(item, &mut |item: ElementItem| elements.extend(item.ok().map(|element| element.value)));
            let extent = crate::Extent { offset: 0, length: 1 };
            let mut found: Vec<Element> = vec![];
            let mut sink = |plain: crate::Located<Plain>| match plain.value {
                Plain::Atoms(atoms) => found.push(Element::Atoms(atoms)),
                Plain::Branch(target) => {
                    found.extend([Element::Atoms(crate::Atoms::new(1, 1)), Element::TargetAddress(target)]);
                }
                other => panic!("no packet of PTM means {other:?}"),
            };
            if decoder.is_plain() && decoder.plain(extent, &value, &mut sink) {
                prop_assert_eq!(found, elements);
                prop_assert_eq!(&decoder, &pushed);
            } else {
                decoder = pushed;
            }
        }
    }
}
