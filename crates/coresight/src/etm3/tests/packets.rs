//! Packets: one row per encoding, read and written from the same line, and properties of any bytes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::any_packet::any_packet;
use super::{ARM_START, SYNC, THUMB_START, a7, hex, m3, packet_texts};
use crate::etm3::packet::{Branch, DataAddress, InstructionSet, PHeader, Packet};
use crate::etm3::{Config, PacketDecoder, PacketItem};
use crate::{DecodePackets as _, Malformed, PacketError, Packets};

/// Rows that were checked with the reference's packet lister, or that follow Arm IHI 0014 where the lister differs.
#[test]
fn packets_have_their_encodings() {
    let gray = Config { timestamp_gray: true, timestamp_bits: 48, ..a7(0) };
    let rows: &[(&str, Config, &str, &str)] = &[
        (
            "synchronization with cycles and context",
            a7(0x9000),
            "70 85 01 0a 00 21 01 80 00 00",
            "instruction sync, tracing enabled, 133 cycles, 0x00008000 Thumb, contextid 0xa",
        ),
        ("format 1", a7(0), "c8", "atoms EEN"),
        ("format 2", a7(0), "8a", "atoms NE"),
        ("format 1, most", a7(0), "fc", "atoms EEEEEEEEEEEEEEEN"),
        ("format 1, none", a7(0), "80", "atoms "),
        ("format 3 with an atom", a7(0x1000), "e4", "cycles 2, atoms E"),
        ("format 3 without", a7(0x1000), "bc", "cycles 8"),
        ("format 2 with a cycle", a7(0x1000), "86", "atoms EN"),
        ("format 4", a7(0x1000), "92", "atoms E in the same cycle"),
        ("format 4, failed", a7(0x1000), "96", "atoms N in the same cycle"),
        ("format 1 with cycles", a7(0x1000), "dc", "atoms EEEEEEEN"),
        ("two bytes", a7(0), "8d 01", "branch ..0x46 (13 bits)"),
        (
            "five bytes with an exception",
            a7(0),
            "8d 80 80 80 48 3d",
            "branch 0x00000018 Arm, exception 14, canceled, nonsecure",
        ),
        ("to Thumb", a7(0), "81 81 82 83 19", "branch 0x90608080 Thumb"),
        ("to Jazelle", a7(0), "81 80 80 80 3f", "branch 0xf8000000 Jazelle"),
        ("one byte", a7(0), "03", "branch ..0x1 (6 bits)"),
        ("four bytes", a7(0), "81 80 80 7f", "branch ..0x7f00000 (27 bits)"),
        ("deprecated exception", a7(0), "81 80 80 80 c9", "branch 0x20000000 Arm, deprecated exception 1, canceled"),
        ("alternative, SysTick", m3(0x980), "c1 45 1e", "branch ..0x160 (12 bits), exception 15, secure"),
        (
            "alternative, resume",
            m3(0x980),
            "c1 40 b6 45",
            "branch ..0x20 (12 bits), exception 11, canceled, secure, resume 5",
        ),
        ("alternative, long number", m3(0x980), "c1 40 96 01", "branch ..0x20 (12 bits), exception 27, secure"),
        (
            "alternative, all exception bytes",
            m3(0x980),
            "c1 40 f7 bf 4f",
            "branch ..0x20 (12 bits), exception 507, canceled, nonsecure, alternative instruction set, Hyp, resume 15",
        ),
        ("alternative, three bytes", m3(0x980), "81 80 3f", "branch ..0x7e000 (19 bits)"),
        ("alternative, four bytes", m3(0x980), "81 80 80 3f", "branch ..0x3f00000 (26 bits)"),
        ("timestamp", a7(0), "42 bf 01", "timestamp 0xbf (14 bits)"),
        ("short timestamp", a7(0), "42 05", "timestamp 0x5 (7 bits)"),
        ("all of 64 bits", a7(0), "42 ff ff ff ff ff ff ff ff ff", "timestamp 0xffffffffffffffff (64 bits)"),
        (
            "all of 48 bits",
            gray,
            "46 ff ff ff ff ff ff 3f",
            "timestamp 0xffffffffffff (48 bits), clock frequency changed",
        ),
        ("value", a7(0xc), "0e 78 56 34 12", "data value 0x12345678"),
        ("placeholder", a7(0xc), "7c 10", "first placeholder address ..10 tag 3"),
        ("out-of-order value", a7(0xc), "6c 01 02 03 04", "out-of-order data tag 3 value 0x4030201"),
        ("values only", a7(0x4), "26 5a", "first data value 0x5a"),
        ("placeholder without address", a7(0xc), "58", "placeholder tag 2"),
        ("out-of-order zero", a7(0xc), "40", "out-of-order data tag 2 value 0x0"),
        ("addresses only", a7(0x8), "22 90 01", "first data address ..0090"),
        ("only data", a7(0x10_000c), "08 21", "instruction sync, tracing enabled"),
        // The reference reads the next five differently.
        (
            "big-endian",
            a7(0xc),
            "2e 90 a0 80 80 12 78 56 34 12",
            "first data address 0x20001010 big-endian value 0x12345678",
        ),
        ("a value of zero", a7(0xc), "22 10", "first data address ..10 value 0x0"),
        ("not traced, no address", a7(0xc), "6a", "value not traced"),
        ("not traced", a7(0xc), "7a 10", "first value not traced address ..10"),
        (
            "in progress",
            a7(0),
            "08 a1 00 80 00 00 0d",
            "instruction sync, tracing enabled, 0x00008000 Arm, load or store in progress, next ..0x6 (6 bits)",
        ),
        ("cycle count", a7(0x1000), "04 ff ff ff ff 0f", "cycle count 4294967295"),
        ("context", a7(0xc000), "6e 78 56 34 12", "context id 0x12345678"),
        ("short context", a7(0x4000), "6e 78", "context id 0x78"),
        ("vmid", a7(0), "3c 07", "vmid 0x7"),
        ("trigger", a7(0), "0c", "trigger"),
        ("ignore", a7(0), "66", "ignore"),
        ("exit", a7(0), "76", "exception exit"),
        ("entry", a7(0), "7e", "exception entry"),
        ("suppressed", a7(0), "62", "data suppressed"),
        ("failed", a7(0xc), "50", "store failed"),
        ("Jazelle keeps the low bit", a7(0), "08 71 03 00 00 00", "instruction sync, debug exit, 0x00000003 Jazelle"),
        (
            "ThumbEE in Hyp",
            a7(0),
            "08 4f 03 00 00 80",
            "instruction sync, overflow, 0x80000002 ThumbEE, nonsecure, Hyp",
        ),
        ("periodic", a7(0), "08 01 00 80 00 00", "instruction sync, periodic, 0x00008000 Arm"),
    ];
    for (name, config, bytes, text) in rows {
        let bytes = hex(bytes);
        assert_eq!(packet_texts(config, &bytes), [*text], "{name}");
        let stream = [&SYNC[..], &bytes].concat();
        let mut written = vec![];
        for packet in Packets::new(config, &stream).skip(1) {
            packet.unwrap().value.encode(config, &mut written).unwrap();
        }
        assert_eq!(written, bytes, "{name}: written");
    }
}

/// The classes of all even headers below 0x80, as the reference's packet lister has them.
#[test]
fn headers_are_complete() {
    let config = a7(0xc00c);
    let payload = [0x01; 24];
    let mut reserved: Vec<u8> = vec![];
    for header in (0x02..0x80_u8).step_by(2) {
        let stream = [&SYNC[..], &[header], &payload].concat();
        let first = Packets::new(&config, &stream).nth(1);
        if let Some(Err(PacketError { kind: Malformed::ReservedHeader(found), .. })) = first {
            reserved.push(found);
        } else {
            assert!(matches!(first, Some(Ok(_))), "{header:#x}: {first:?}");
        }
    }
    let expected = "10 12 14 16 18 1a 1c 1e 30 32 34 36 38 3a 3e 4a 4e 52 56 5a 5e 72";
    assert_eq!(reserved, hex(expected));
}

#[test]
fn reserved_p_headers_are_malformed() {
    for (config, accepted) in [(a7(0), 0x80..=0x8e_u8), (a7(0x1000), 0x80..=0x96)] {
        for header in (0x82..=0xfe_u8).step_by(4) {
            let is_packet = Packets::new(&config, &[&SYNC[..], &[header]].concat()).nth(1).unwrap().is_ok();
            assert_eq!(is_packet, accepted.contains(&header), "{header:#x}");
        }
    }
}

#[test]
fn malformed_bytes_are_reported_and_reading_resumes() {
    let rows: &[(&str, Config, &str, &[&str])] = &[
        ("reserved header", a7(0), "10 84", &["0x6: reserved packet header 0x10 (2 bytes skipped)"]),
        ("reserved fifth byte", a7(0), "81 80 80 80 07", &["0x6: reserved byte 0x07 in a packet (5 bytes skipped)"]),
        ("alternative, fifth byte continued", m3(0), "81 80 80 80 88", &["0x6: unterminated field (5 bytes skipped)"]),
        (
            "reserved endian byte",
            a7(0xc),
            "22 80 80 80 80 20",
            &["0x6: reserved byte 0x20 in a packet (6 bytes skipped)"],
        ),
        (
            "information without its bit",
            a7(0),
            "08 20 00 80 00 00",
            &["0x6: reserved byte 0x20 in a packet (6 bytes skipped)"],
        ),
        ("endless cycle count", a7(0), "04 80 80 80 80 80", &["0x6: unterminated field (6 bytes skipped)"]),
        ("endless timestamp", m3(0), "42 80 80 80 80 80 80 80", &["0x6: unterminated field (8 bytes skipped)"]),
        ("third exception byte continued", m3(0), "c1 40 b6 c5 00", &["0x6: unterminated field (5 bytes skipped)"]),
        (
            "two second exception bytes",
            m3(0),
            "c1 40 b6 80 00",
            &["0x6: reserved exception information 0x00 (5 bytes skipped)"],
        ),
        ("too few zeros", a7(0), "00 00 80 84", &["0x6: broken alignment synchronization (4 bytes skipped)"]),
        ("cut branch", a7(0), "84 81 80", &["atoms E", "0x7: stream ends inside a packet (2 bytes skipped)"]),
        ("cut zeros", a7(0), "84 00 00", &["atoms E", "0x7: stream ends inside a packet (2 bytes skipped)"]),
        (
            "data without data trace",
            a7(0),
            "0e 84",
            &["0x6: packet header 0x0e, which this configuration of the trace unit cannot send (2 bytes skipped)"],
        ),
        (
            "a single byte",
            a7(0),
            "50 84",
            &[
                "0x6: packet header 0x50, which this configuration of the trace unit cannot send (1 bytes skipped)",
                "atoms E",
            ],
        ),
        (
            "a context identifier without a size",
            a7(0),
            "6e 84",
            &["0x6: packet header 0x6e, which this configuration of the trace unit cannot send (2 bytes skipped)"],
        ),
        (
            "instructions where only data are traced",
            a7(0x10_000c),
            "84 0c",
            &[
                "0x6: packet header 0x84, which this configuration of the trace unit cannot send (1 bytes skipped)",
                "trigger",
            ],
        ),
        (
            "a branch of one byte, likewise",
            a7(0x10_000c),
            "01 0c",
            &[
                "0x6: packet header 0x01, which this configuration of the trace unit cannot send (1 bytes skipped)",
                "trigger",
            ],
        ),
        (
            "resynchronized",
            a7(0),
            "10 84 84 00 00 00 00 00 80 84",
            &["0x6: reserved packet header 0x10 (3 bytes skipped)", "alignment sync", "atoms E"],
        ),
        (
            "a synchronization inside the broken packet",
            a7(0x4000),
            "70 85 00 00 00 00 00 80 84",
            &["0x6: reserved byte 0x00 in a packet (2 bytes skipped)", "alignment sync", "atoms E"],
        ),
        (
            "a synchronization that starts inside a packet",
            a7(0xc000),
            "6e 11 00 00 00 00 00 80 84",
            &[
                "context id 0x11",
                "0xb: broken alignment synchronization (2 bytes skipped)",
                "alignment sync",
                "atoms E",
            ],
        ),
        (
            "a synchronization whose zeros are inside a packet",
            a7(0xc),
            "2e 00 00 00 00 00 80 84",
            &["first data address ..00 value 0x0", "alignment sync", "atoms E"],
        ),
        ("more zeros", a7(0), "84 00 00 00 00 00 00 00 80 84", &["atoms E", "alignment sync", "atoms E"]),
    ];
    for (name, config, bytes, expected) in rows {
        assert_eq!(packet_texts(config, &hex(bytes)), *expected, "{name}");
    }
}

/// A trace buffer without a formatter ends with one set bit and zeros, which would be a branch.
#[test]
fn a_stop_marker_is_not_a_branch() {
    let stop = |skipped| format!("0x7: stop marker of the trace buffer ({skipped} bytes skipped)");
    let rows: &[(&str, Vec<String>)] = &[
        ("84 01", vec!["atoms E".into(), stop(1)]),
        ("84 01 00 00 00", vec!["atoms E".into(), stop(4)]),
        ("84 01 00 00 00 00 00 00 00 00", vec!["atoms E".into(), stop(9)]),
        ("84 01 84", vec!["atoms E".into(), "branch ..0x0 (6 bits)".into(), "atoms E".into()]),
        ("84 01 00 00 00 00 00 80", vec!["atoms E".into(), "branch ..0x0 (6 bits)".into(), "alignment sync".into()]),
        (
            "84 01 00 84",
            vec![
                "atoms E".into(),
                "branch ..0x0 (6 bits)".into(),
                "0x8: broken alignment synchronization (2 bytes skipped)".into(),
            ],
        ),
    ];
    for (bytes, expected) in rows {
        assert_eq!(packet_texts(&a7(0), &hex(bytes)), *expected, "{bytes}");
    }
}

#[test]
fn unencodable_packets_are_refused() {
    let branch = |bits, isa| Packet::Branch(Branch { value: 0, bits, isa, exception: None });
    let address = |bits| Some(DataAddress { value: 0, bits, big_endian: None });
    let rows = [
        branch(12, None),
        branch(32, None),
        branch(27, Some(InstructionSet::Arm)),
        branch(31, Some(InstructionSet::ThumbEe)),
        Packet::Branch(Branch { value: 64, bits: 6, isa: None, exception: None }),
        Packet::PHeader(PHeader::Format4 { executed: true }),
        Packet::PHeader(PHeader::Format1 { executed: 16, failed: false }),
        Packet::Timestamp { value: 0, bits: 48, frequency_changed: false },
        Packet::Timestamp { value: 0x80, bits: 7, frequency_changed: false },
        Packet::ContextId(1),
        Packet::Data { first: true, address: address(8), value: Some(0) },
        Packet::Data { first: false, address: address(7), value: Some(0) },
        Packet::Data { first: false, address: None, value: None },
        Packet::Placeholder { tag: 0, first: false, address: None },
        Packet::OutOfOrderData { tag: 4, value: Some(0) },
    ];
    for packet in rows {
        let mut out = vec![7];
        assert!(packet.encode(&a7(0xc), &mut out).is_err(), "{packet}");
        assert_eq!(out, [7], "{packet}: nothing half written");
    }
}

#[test]
fn prefixes_are_two_packets() {
    assert_eq!(packet_texts(&a7(0), &ARM_START), ["instruction sync, tracing enabled, 0x00008000 Arm"]);
    assert_eq!(packet_texts(&m3(0), &THUMB_START), ["instruction sync, tracing enabled, 0x08008000 Thumb"]);
}

/// All items of a stream that arrives in chunks cut at `cuts`.
fn in_chunks(config: &Config, bytes: &[u8], cuts: &[usize]) -> Vec<PacketItem> {
    let mut items = vec![];
    let mut decoder = PacketDecoder::new(config);
    let mut window: Vec<u8> = vec![];
    let mut from = 0;
    for &cut in cuts {
        window.extend_from_slice(&bytes[from..cut.max(from)]);
        from = cut.max(from);
        let read = decoder.decode(&window, false, |item| items.push(item));
        window.drain(..read);
        assert!(window.len() < 32, "a packet is never longer: {} bytes wait", window.len());
    }
    window.extend_from_slice(&bytes[from..]);
    let read = decoder.decode(&window, true, |item| items.push(item));
    assert_eq!(read, window.len());
    items
}

/// All items of a stream, without the path of frequent packets.
fn on_the_general_path(config: &Config, bytes: &[u8]) -> Vec<PacketItem> {
    let mut decoder = PacketDecoder::new(config);
    core::iter::from_fn(|| {
        let at = decoder.offset() as usize;
        decoder.uncommon(&bytes[at..], true)
    })
    .collect()
}

fn check_tiling(items: &[PacketItem], length: usize) {
    let mut next = 0;
    for item in items {
        let (offset, length) = item.map_or_else(|e| (e.offset, e.skipped), |p| (p.offset, p.length));
        assert_eq!(offset, next, "{item:?}");
        assert!(length > 0, "{item:?}");
        next = offset + length;
    }
    assert_eq!(next, length as u64);
}

/// Offsets of the last byte of every alignment synchronization, found without a decoder.
fn sync_ends(bytes: &[u8]) -> Vec<u64> {
    let ends = bytes.windows(SYNC.len()).enumerate().filter(|(_, window)| **window == SYNC);
    ends.map(|(start, _)| (start + SYNC.len() - 1) as u64).collect()
}

/// Bytes that look like trace often enough to get deep into the parser.
fn trace_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => Just(SYNC.to_vec()),
        2 => Just(ARM_START.to_vec()),
        4 => prop::collection::vec(any::<u8>(), 1..20),
        4 => prop::collection::vec(0x80..=0xff_u8, 1..20),
        1 => (1..40_usize).prop_map(|zeros| vec![0; zeros]),
        2 => prop::collection::vec(prop_oneof![Just(0_u8), Just(0x80), Just(1)], 1..20),
    ];
    prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
}

fn configs() -> Vec<Config> {
    let mut configs: Vec<Config> = [0, 0x1000, 0xc00c, 0x5004, 0x8008, 0x10_000c].map(a7).to_vec();
    configs.push(m3(0x980));
    configs.push(Config { timestamp_bits: 48, alternative_branches: true, ..a7(0xd00c) });
    configs
}

fn config() -> impl Strategy<Value = Config> {
    prop::sample::select(configs())
}

fn config_and_packets() -> impl Strategy<Value = (Config, Vec<Packet>)> {
    config().prop_flat_map(|config| (Just(config), prop::collection::vec(any_packet(&config), 0..40)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn encoding_then_decoding_is_identity((config, packets) in config_and_packets()) {
        let mut bytes = SYNC.to_vec();
        for packet in &packets {
            packet.encode(&config, &mut bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
        // A last branch to the same address is no stop marker then.
        bytes.push(0x66);
        let items: Result<Vec<Packet>, PacketError> =
            Packets::new(&config, &bytes).skip(1).map(|item| item.map(|packet| packet.value)).collect();
        let expected: Vec<Packet> = packets.into_iter().chain([Packet::Ignore]).collect();
        prop_assert_eq!(items, Ok(expected));
    }

    #[test]
    fn packets_and_skipped_bytes_tile_any_bytes(config in config(), bytes in trace_like()) {
        let items: Vec<PacketItem> = Packets::new(&config, &bytes).collect();
        check_tiling(&items, bytes.len());
    }

    #[test]
    fn no_synchronization_is_missed(config in config(), bytes in trace_like()) {
        let syncs = Packets::new(&config, &bytes).flatten().filter(|packet| packet.value == Packet::AlignmentSync);
        let found: Vec<u64> = syncs.map(|packet| packet.offset + packet.length - 1).collect();
        prop_assert_eq!(found, sync_ends(&bytes));
    }

    #[test]
    fn frequent_packets_are_read_as_on_the_general_path(config in config(), bytes in trace_like()) {
        prop_assert_eq!(in_chunks(&config, &bytes, &[]), on_the_general_path(&config, &bytes));
    }

    #[test]
    fn chunk_boundaries_make_no_difference(
        config in config(),
        bytes in trace_like(),
        cuts in prop::collection::vec(0..400_usize, 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let whole = in_chunks(&config, &bytes, &[]);
        prop_assert_eq!(&in_chunks(&config, &bytes, &cuts), &whole);
        let every: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&in_chunks(&config, &bytes, &every), &whole);
        let pulled: Vec<PacketItem> = Packets::new(&config, &bytes).collect();
        prop_assert_eq!(&pulled, &whole);
    }
}
