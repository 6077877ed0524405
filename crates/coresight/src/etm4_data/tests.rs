//! Packets and elements of a data trace stream: one row per fact, and properties of any bytes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Config, ElementDecoder, Packet, PacketDecoder, PacketItem};
use crate::{DecodeElements as _, DecodePackets as _, Packets};

const SYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];

fn packets(bytes: &[u8]) -> Vec<PacketItem> {
    Packets::new(&Config::default(), bytes).collect()
}

fn texts(bytes: &[u8]) -> Vec<String> {
    let text = |item: &PacketItem| match item {
        Ok(packet) if packet.value == Packet::Undecoded => format!("{} {}", packet.length, packet.value),
        Ok(packet) => packet.value.to_string(),
        Err(error) => error.to_string(),
    };
    packets(&[&SYNC, bytes].concat()).iter().skip(1).map(text).collect()
}

#[test]
fn packets_with_a_known_layout() {
    let rows: &[(&[u8], Packet, &str)] = &[
        (&SYNC, Packet::AlignmentSync, "alignment sync"),
        (&[0x00, 0x03], Packet::Discard, "discard"),
        (&[0x00, 0x05], Packet::Overflow, "overflow"),
        (&[0x00, 0x11], Packet::NumberedMarker(0), "data sync marker 0"),
        (&[0x00, 0x17], Packet::NumberedMarker(3), "data sync marker 3"),
        (&[0x00, 0x1f], Packet::NumberedMarker(7), "data sync marker 7"),
        (&[0x01], Packet::UnnumberedMarker, "unnumbered data sync marker"),
        (&[0x02, 0x7f], Packet::Timestamp { value: 0x7f, bits: 7 }, "timestamp 0x7f (7 bits)"),
        (
            &[0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80],
            Packet::Timestamp { value: 0x80ff_ffff_ffff_ffff, bits: 64 },
            "timestamp 0x80ffffffffffffff (64 bits)",
        ),
        (&[0x03], Packet::Suppression, "suppression"),
    ];
    for (bytes, packet, text) in rows {
        assert_eq!(texts(bytes), [*text]);
        let mut encoded = vec![];
        packet.encode(&mut encoded).unwrap();
        assert_eq!(encoded, *bytes, "{text}");
    }
}

/// The public table of headers: what follows them is not read.
#[test]
fn bytes_without_a_known_layout_are_undecoded_up_to_the_next_synchronization() {
    let rows: &[(&[u8], &str)] = &[
        (&[0x00, 0x01], "data trace info"),
        (&[0x04], "data event"),
        (&[0x70], "P1 format 1"),
        (&[0xbf], "P1 format 2"),
        (&[0x14], "P1 format 3"),
        (&[0x6f], "P1 format 4"),
        (&[0xf8], "P1 format 5"),
        (&[0xf6], "P1 format 6"),
        (&[0xf5], "P1 format 7"),
        (&[0x2f], "P2 format 1"),
        (&[0x30], "P2 format 2"),
        (&[0x40], "P2 format 3"),
        (&[0x13], "P2 format 4"),
        (&[0x18], "P2 format 5"),
        (&[0x3f], "P2 format 6"),
    ];
    for (header, text) in rows {
        let bytes = [*header, &[0xde, 0x01, 0x00], &SYNC, &[0x01]].concat();
        let expected = [text, "3 undecoded bytes", "alignment sync", "unnumbered data sync marker"];
        assert_eq!(texts(&bytes), expected, "{text}");
        assert_eq!(texts(header), [*text], "{text}: nothing follows");
    }
    assert!(Packet::TraceInfo.encode(&mut vec![]).is_err() && Packet::Undecoded.encode(&mut vec![]).is_err());
}

#[test]
fn reserved_headers_are_errors() {
    for header in [0x05, 0x0f, 0xc0, 0xf4] {
        let found = texts(&[&[header, 0x01], &SYNC[..], &[0x03]].concat());
        let expected = format!("0xc: reserved packet header {header:#04x} (2 bytes skipped)");
        assert_eq!(found, [expected.as_str(), "alignment sync", "suppression"]);
    }
    assert_eq!(texts(&[0x00, 0x07])[0], "0xc: reserved extension packet 0x07 (2 bytes skipped)");
}

/// A flipped bit makes the timestamp one byte longer than it was.
#[test]
fn a_synchronization_is_found_after_a_packet_that_took_its_first_zero() {
    let found = packets(&[&SYNC[..], &[0x02, 0x85], &SYNC, &[0x02, 0x05]].concat());
    let found: Vec<(u64, String)> = found.iter().flatten().map(|it| (it.length, it.value.to_string())).collect();
    let rows =
        [(12, "alignment sync"), (3, "timestamp 0x5 (14 bits)"), (11, "alignment sync"), (2, "timestamp 0x5 (7 bits)")];
    assert_eq!(found, rows.map(|(length, text)| (length, text.to_string())));
}

#[test]
fn elements_complete_timestamps_only_from_known_bits() {
    let full = [0x02, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x09];
    let bytes = [
        &SYNC[..],
        &[0x02, 0x05],
        &full,
        &[0x02, 0x05, 0x01, 0x00, 0x13, 0x03, 0x70, 0xaa, 0xbb],
        &SYNC,
        &[0x02, 0x06, 0x00, 0x05],
    ]
    .concat();
    let (mut decoder, mut found) = (ElementDecoder::new(), vec![]);
    for item in packets(&bytes) {
        decoder.push(item, &mut |item: crate::ElementItem| found.push(item.unwrap().value.to_string()));
    }
    let value = (0..8).fold(0x09_u64 << 56, |value, group| value | (group + 1) << (7 * group));
    let expected = [
        &format!("timestamp {value:#x}"),
        &format!("timestamp {:#x}", value & !0x7f | 5),
        "unnumbered data sync marker",
        "data sync marker 1",
        "suppression",
        "2 undecoded bytes",
        "overflow",
    ];
    assert_eq!(found, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Packets and skipped bytes tile the stream, and chunks make no difference.
    #[test]
    fn any_bytes(
        parts in prop::collection::vec(prop_oneof![Just(SYNC.to_vec()), prop::collection::vec(any::<u8>(), 1..20)], 0..12),
        size in 1..40_usize,
    ) {
        let bytes = parts.concat();
        let whole = packets(&bytes);
        let mut next = 0;
        for item in &whole {
            let (offset, length) = item.map_or_else(|error| (error.offset, error.skipped), |it| (it.offset, it.length));
            prop_assert_eq!(offset, next);
            prop_assert!(length > 0);
            next = offset + length;
        }
        prop_assert_eq!(next, bytes.len() as u64);
        let (mut decoder, mut window, mut found) = (PacketDecoder::new(), vec![], vec![]);
        for chunk in bytes.chunks(size) {
            window.extend_from_slice(chunk);
            let read = decoder.decode(&window, false, |item| found.push(item));
            window.drain(..read);
        }
        decoder.decode(&window, true, |item| found.push(item));
        prop_assert_eq!(found, whole);
    }
}
