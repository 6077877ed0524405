//! Packets decoded and encoded: one row per packet. Nibbles are written in the order of the stream.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::stm::packet::{Body, PacketKind as K, Timestamp, TimestampFormat, Version};
use crate::stm::{Config, Encoder, PacketDecoder, PacketItem};
use crate::{DecodePackets as _, Malformed, PacketError, Packets};

/// An ASYNC and version 3.
pub(super) const START: &str = "fffffffffffffffffffff0 f003";
const ASYNC: &str = "fffffffffffffffffffff0";

/// Bytes of nibbles, filled up with a NULL.
pub(super) fn packed(nibbles: &str) -> Vec<u8> {
    let nibbles: Vec<u8> =
        nibbles.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap() as u8).collect();
    nibbles.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4).collect()
}

fn all_texts(bytes: &[u8]) -> Vec<String> {
    let items = Packets::new(&Config::default(), bytes);
    items.map(|item| item.map_or_else(|error| error.to_string(), |packet| packet.value.body.to_string())).collect()
}

/// The texts of what follows an ASYNC and a version.
fn texts(nibbles: &str) -> Vec<String> {
    all_texts(&[packed(START), packed(nibbles)].concat())[2..].to_vec()
}

/// nibbles, kind, text
type Row = (&'static str, K, &'static str);

const ROWS: &[Row] = &[
    ("f003", K::Version, "version 3, natural timestamps"),
    ("f004", K::Version, "version 4, gray timestamps"),
    ("1 40", K::Master8, "master 0x40"),
    ("2 12", K::MasterError, "master error 0x12"),
    ("3 02", K::Channel8, "channel 0x02"),
    ("4 ab", K::Data8, "data 8 bits 0xab"),
    ("5 abcd", K::Data16, "data 16 bits 0xabcd"),
    ("6 18e56cc0", K::Data32, "data 32 bits 0x18e56cc0"),
    ("7 0123456789abcdef", K::Data64, "data 64 bits 0x0123456789abcdef"),
    ("8 ab 2 3f", K::Data8, "data 8 bits 0xab, marked, timestamp 0x3f (2 nibbles)"),
    ("9 abcd 0", K::Data16, "data 16 bits 0xabcd, marked, timestamp 0x0 (0 nibbles)"),
    ("a 01021010 c 0123456789ab", K::Data32, "data 32 bits 0x01021010, marked, timestamp 0x123456789ab (12 nibbles)"),
    (
        "b ffffffffffffffff e ffffffffffffffff",
        K::Data64,
        "data 64 bits 0xffffffffffffffff, marked, timestamp 0xffffffffffffffff (16 nibbles)",
    ),
    ("c 7", K::Data4, "data 4 bits 0x7"),
    ("d 7 1 0", K::Data4, "data 4 bits 0x7, marked, timestamp 0x0 (1 nibble)"),
    ("e d 00000003aeb28c", K::Flag, "flag, timestamp 0x3aeb28c (14 nibbles)"),
    ("f1 1234", K::Master16, "master 0x1234"),
    ("f2 12", K::GlobalError, "global error 0x12"),
    ("f3 0480", K::Channel16, "channel 0x0480"),
    ("f4 ab 1 1", K::Data8, "data 8 bits 0xab, timestamp 0x1 (1 nibble)"),
    ("f5 abcd 1 1", K::Data16, "data 16 bits 0xabcd, timestamp 0x1 (1 nibble)"),
    ("f6 00000000 1 1", K::Data32, "data 32 bits 0x00000000, timestamp 0x1 (1 nibble)"),
    ("f7 0000000000000001 1 1", K::Data64, "data 64 bits 0x0000000000000001, timestamp 0x1 (1 nibble)"),
    ("f8 ab", K::Data8, "data 8 bits 0xab, marked"),
    ("f9 abcd", K::Data16, "data 16 bits 0xabcd, marked"),
    ("fa 01021010", K::Data32, "data 32 bits 0x01021010, marked"),
    ("fb 0123456789abcdef", K::Data64, "data 64 bits 0x0123456789abcdef, marked"),
    ("fc 7 1 5", K::Data4, "data 4 bits 0x7, timestamp 0x5 (1 nibble)"),
    ("fd 7", K::Data4, "data 4 bits 0x7, marked"),
    ("fe", K::Flag, "flag"),
    ("f01 2 12", K::NullTimestamp, "null, timestamp 0x12 (2 nibbles)"),
    ("f02 0 5", K::User, "user 0x5"),
    ("f03 f 0123456789abcdef 1 2", K::User, "user 0x0123456789abcdef, timestamp 0x2 (1 nibble)"),
    ("f06 a5", K::Trigger, "trigger 0xa5"),
    ("f07 a5 1 3", K::Trigger, "trigger 0xa5, timestamp 0x3 (1 nibble)"),
    ("f08 0124f800", K::Frequency, "frequency 19200000 Hz"),
    ("f09 0124f800 1 1", K::Frequency, "frequency 19200000 Hz, timestamp 0x1 (1 nibble)"),
    ("f0a 12", K::CrossSync, "cross sync 0x12"),
    ("f0b 12 1 4", K::CrossSync, "cross sync 0x12, timestamp 0x4 (1 nibble)"),
    ("f0f0 0123456789", K::Frequency, "frequency 4886718345 Hz"),
    ("f0f1 0123456789 1 1", K::Frequency, "frequency 4886718345 Hz, timestamp 0x1 (1 nibble)"),
    ("f0f3 12", K::ChannelError, "channel error 0x12"),
];

/// What the tests of public decoders expect: stm-rs (stm-core) and Zephyr (mipi_stp_decoder).
const PUBLIC: &[Row] = &[
    ("f00 a 01", K::Version, "version 2, delta timestamps, STP 2.2"),
    ("f00 0", K::Version, "version 0, legacy timestamps"),
    ("f00 c 81", K::Version, "version 4, gray timestamps, STP 2.2, least significant nibble first"),
    ("c 1", K::Data4, "data 4 bits 0x1"),
    ("5 1234", K::Data16, "data 16 bits 0x1234"),
    ("7 123456789abcdef0", K::Data64, "data 64 bits 0x123456789abcdef0"),
    ("fd 1", K::Data4, "data 4 bits 0x1, marked"),
    ("f8 12", K::Data8, "data 8 bits 0x12, marked"),
    ("f9 1234", K::Data16, "data 16 bits 0x1234, marked"),
    ("fa 12345678", K::Data32, "data 32 bits 0x12345678, marked"),
    ("fb 123456789abcdef0", K::Data64, "data 64 bits 0x123456789abcdef0, marked"),
    ("fc 1 1 1", K::Data4, "data 4 bits 0x1, timestamp 0x1 (1 nibble)"),
    ("f4 12 2 12", K::Data8, "data 8 bits 0x12, timestamp 0x12 (2 nibbles)"),
    ("f5 1234 3 123", K::Data16, "data 16 bits 0x1234, timestamp 0x123 (3 nibbles)"),
    ("f6 12345678 4 1234", K::Data32, "data 32 bits 0x12345678, timestamp 0x1234 (4 nibbles)"),
    ("f7 123456789abcdef0 5 12345", K::Data64, "data 64 bits 0x123456789abcdef0, timestamp 0x12345 (5 nibbles)"),
    ("d 1 1 1", K::Data4, "data 4 bits 0x1, marked, timestamp 0x1 (1 nibble)"),
    ("8 12 2 12", K::Data8, "data 8 bits 0x12, marked, timestamp 0x12 (2 nibbles)"),
    ("9 1234 3 123", K::Data16, "data 16 bits 0x1234, marked, timestamp 0x123 (3 nibbles)"),
    ("a 12345678 4 1234", K::Data32, "data 32 bits 0x12345678, marked, timestamp 0x1234 (4 nibbles)"),
    ("b 123456789abcdef0 5 12345", K::Data64, "data 64 bits 0x123456789abcdef0, marked, timestamp 0x12345 (5 nibbles)"),
    ("1 ab", K::Master8, "master 0xab"),
    ("f1 4321", K::Master16, "master 0x4321"),
    ("f3 3644", K::Channel16, "channel 0x3644"),
    ("f4 ab d 11223344556677", K::Data8, "data 8 bits 0xab, timestamp 0x11223344556677 (14 nibbles)"),
    ("8 ab e 1122334455667788", K::Data8, "data 8 bits 0xab, marked, timestamp 0x1122334455667788 (16 nibbles)"),
    ("f08 11223344", K::Frequency, "frequency 287454020 Hz"),
    ("f09 11223344 2 21", K::Frequency, "frequency 287454020 Hz, timestamp 0x21 (2 nibbles)"),
    ("f08 004c4b40", K::Frequency, "frequency 5000000 Hz"),
];

#[test]
fn packets_are_decoded_and_encoded() {
    for (nibbles, kind, text) in ROWS.iter().chain(PUBLIC) {
        // At both halves of a byte, with a packet after it that shows where it ends.
        for pad in ["", "0"] {
            let stream = packed(&[START, pad, nibbles, "fe"].concat());
            let items: Vec<PacketItem> = Packets::new(&Config::default(), &stream).collect();
            let at = 2 + pad.len();
            let (Ok(packet), Ok(next)) = (items[at], items[at + 1]) else { panic!("{text}: {items:?}") };
            assert_eq!((packet.value.body.to_string().as_str(), packet.value.kind()), (*text, *kind), "{nibbles}");
            assert_eq!((packet.offset, packet.value.high_half), (13, !pad.is_empty()), "{nibbles}");
            assert_eq!(next.value.body, Body::Flag(None), "{nibbles}");
        }
        let mut encoder = Encoder::new();
        let stream = packed(&[START, nibbles].concat());
        for item in Packets::new(&Config::default(), &stream).take(3) {
            encoder.push(&item.unwrap().value.body).unwrap();
        }
        assert_eq!(encoder.finish(), stream, "{nibbles}");
    }
}

#[test]
fn the_rows_of_bytes() {
    let start: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x0f, 0x30];
    assert_eq!(all_texts(start), ["async", "version 3, natural timestamps"]);
    let rows: &[(&[u8], &[&str])] = &[
        (&[0x0f, 0x08, 0x21, 0xf4, 0x08, 0x10, 0x04], &["frequency 19200000 Hz", "master 0x40"]),
        (&[0x3f, 0x40, 0x08, 0x03, 0x02], &["channel 0x0480", "channel 0x02", "null"]),
        (&[0xaf, 0x10, 0x20, 0x01, 0x01], &["data 32 bits 0x01021010, marked"]),
        (
            &[0xee, 0x00, 0x00, 0x00, 0x30, 0xea, 0x2b, 0x48, 0x9c, 0x2e, 0x6d],
            &["flag, timestamp 0x3aeb284c9 (16 nibbles)", "flag, timestamp 0xd6 (2 nibbles)"],
        ),
        (&[0x07, 0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f], &["data 64 bits 0x0123456789abcdef", "null"]),
        (&[0x12, 0xf2, 0x12, 0x02], &["master error 0x12", "global error 0x12", "null"]),
        (&[0x0f, 0xa6, 0x05, 0x7c], &["trigger 0xa5", "null", "data 4 bits 0x7"]),
        (
            &[0xaf, 0x01, 0, 0, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f],
            &["data 32 bits 0x1000000f, marked", "async"],
        ),
        (&[0x4f, 0xba, 0xff], &["0xd: reserved length of a timestamp (3 bytes skipped)"]),
    ];
    for (bytes, expected) in rows {
        assert_eq!(all_texts(&[start, bytes].concat())[2..], **expected, "{bytes:x?}");
    }
    let null_async_null: &[u8] = &[0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00];
    assert_eq!(all_texts(&[start, null_async_null].concat())[2..], ["null", "async", "null"]);
}

#[test]
fn least_significant_nibbles_may_come_first() {
    // From the tests of stm-rs.
    let stream = packed(&[ASYNC, "f00c81", "c1", "7123456789abcdef0", "f412212"].concat());
    let expected =
        ["data 4 bits 0x1", "data 64 bits 0x0fedcba987654321", "data 8 bits 0x21, timestamp 0x21 (2 nibbles)"];
    assert_eq!(all_texts(&stream)[2..5], expected);
}

#[test]
fn legacy_timestamps_have_two_nibbles() {
    let stream = packed(&[ASYNC, "f001", "f4 ab 12", "fe"].concat());
    assert_eq!(all_texts(&stream)[2..4], ["data 8 bits 0xab, timestamp 0x12 (2 nibbles)", "flag"]);
}

#[test]
fn malformed_nibbles_are_reported_and_reading_resumes() {
    let resume = "async|version 3, natural timestamps|flag";
    let rows: &[(&str, &str, &str)] = &[
        ("reserved opcode", "f0c 1", "0xd: reserved opcode 0xf0c"),
        ("TIME, whose length is not public", "f04 11", "0xd: reserved opcode 0xf04"),
        ("DIP, whose length is not public", "f0f2 11", "0xd: reserved opcode 0xf0f2"),
        ("an opcode of STP 2.4", "ff1 1", "0xd: reserved opcode 0xff1"),
        ("reserved length", "e f 00", "0xd: reserved length of a timestamp"),
        ("unknown version", "f005", "0xd: unknown protocol version 0x5"),
        ("unknown minor version", "f00c82 0 f00c84", "0x10: unknown protocol version 0xc84"),
        ("broken ASYNC", "fffffffffffffffffffff1", "0xd: broken alignment synchronization"),
        ("a packet before the version", "fffffffffffffffffffff0 0 fe", "0x18: packet before the protocol version"),
        ("a packet cut by an ASYNC", "6 1", "0xd: packet cut by a synchronization"),
        ("an opcode cut by an ASYNC", "f0", "0xd: packet cut by a synchronization"),
    ];
    for (name, nibbles, expected) in rows {
        let texts = texts(&[nibbles, START, "fe"].concat());
        let joined = texts.join("|");
        let at = joined.find(expected).unwrap_or_else(|| panic!("{name}: {joined}"));
        let rest = joined[at..].split_once('|').unwrap().1;
        // A NULL may fill up the last byte.
        assert_eq!(rest.trim_end_matches("|null"), resume, "{name}: {joined}");
    }
}

#[test]
fn a_stream_starts_at_an_async() {
    let rows: &[(&str, &[&str])] = &[
        ("1111", &["0x0: not synchronized yet (2 bytes skipped)"]),
        ("1 fffffffffffffffffffff0 0", &["0x0: not synchronized yet (1 bytes skipped)", "async", "null"]),
        // More than 21 F: the last are the ASYNC.
        ("fffffffffffffffffffffff0", &["0x0: not synchronized yet (1 bytes skipped)", "async"]),
        ("fffffffffffffffffffff1", &["0x0: not synchronized yet (11 bytes skipped)"]),
        ("ffffffffffffffffffff00", &["0x0: not synchronized yet (11 bytes skipped)"]),
        ("", &[]),
    ];
    for (nibbles, expected) in rows {
        assert_eq!(all_texts(&packed(nibbles)), *expected, "{nibbles}");
    }
}

#[test]
fn an_unfinished_packet_at_the_end_is_reported() {
    for nibbles in ["6 12", "f00", "fff", "f4 ab 3"] {
        let texts = texts(&["0", nibbles].concat());
        let last = texts.last().unwrap();
        assert!(last.contains("stream ends inside a packet"), "{nibbles}: {texts:?}");
    }
}

#[test]
fn unencodable_packets_are_refused() {
    let stamp = |value, nibbles| Some(Timestamp { value, nibbles });
    let rows = [
        Body::Null { count: 0 },
        Body::Master { value: 0x100, wide: false },
        Body::Data { value: 16, bits: 4, marked: false, timestamp: None },
        Body::Data { value: 1, bits: 12, marked: false, timestamp: None },
        Body::Data { value: 1, bits: 8, marked: false, timestamp: stamp(0, 13) },
        Body::Flag(stamp(0x10, 1)),
        Body::User { value: 0, nibbles: 17, timestamp: None },
        Body::User { value: 0, nibbles: 0, timestamp: None },
        Body::Frequency { value: 1 << 32, wide: false, timestamp: None },
        Body::Version(Version { timestamps: TimestampFormat::Natural, extension: Some((5, false)) }),
        Body::Version(Version::new(TimestampFormat::Legacy(2))),
    ];
    for body in rows {
        let mut encoder = Encoder::new();
        assert!(encoder.push(&Body::Flag(None)).is_err(), "a version comes first");
        encoder.push(&Body::Async).unwrap();
        encoder.push(&Body::Version(Version::new(TimestampFormat::Natural))).unwrap();
        encoder.push(&Body::Null { count: 1 }).unwrap();
        assert!(encoder.push(&body).is_err(), "{body}");
        encoder.push(&Body::Flag(None)).unwrap();
        assert_eq!(encoder.finish(), packed(&[START, "0", "fe"].concat()), "{body}: nothing half written");
    }
}

/// All items of a stream that arrives in chunks cut at `cuts`.
fn in_chunks(bytes: &[u8], cuts: &[usize]) -> Vec<PacketItem> {
    let mut items = vec![];
    let mut decoder = PacketDecoder::new();
    let mut window: Vec<u8> = vec![];
    let mut from = 0;
    for &cut in cuts {
        window.extend_from_slice(&bytes[from..cut.max(from)]);
        from = cut.max(from);
        let read = decoder.decode(&window, false, |item| items.push(item));
        window.drain(..read);
        assert!(window.len() < 64, "a packet is never longer: {} bytes wait", window.len());
    }
    window.extend_from_slice(&bytes[from..]);
    let read = decoder.decode(&window, true, |item| items.push(item));
    assert_eq!(read, window.len());
    items
}

/// Lengths add up, and an item starts in the byte where the one before ends, or in the next.
fn check_tiling(items: &[PacketItem], length: usize) {
    let mut next = 0;
    for item in items {
        let (offset, length) = item.map_or_else(|e| (e.offset, e.skipped), |p| (p.offset, p.length));
        assert!(offset == next || offset + 1 == next, "{item:?} after {next:#x}");
        next += length;
    }
    assert_eq!(next, length as u64);
}

/// Bytes that look like trace often enough to get deep into the parser.
fn trace_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => Just(START.to_string()),
        1 => Just(ASYNC.to_string()),
        4 => "[0-9a-f]{1,20}",
        6 => prop::collection::vec(any_body(), 1..9).prop_map(|bodies| {
            // Without the ASYNC and the version at the start.
            unpacked(&encoded(Version::new(TimestampFormat::Natural), &bodies))[26..].to_string()
        }),
        1 => "0{1,40}",
        1 => "f{1,60}",
        1 => "[0f]{1,60}",
    ];
    prop::collection::vec(part, 0..20).prop_map(|parts| packed(&parts.concat()))
}

fn unpacked(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte & 0xf, byte >> 4]).map(|it| char::from_digit(it.into(), 16).unwrap()).collect()
}

fn encoded(version: Version, bodies: &[Body]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.push(&Body::Async).unwrap();
    encoder.push(&Body::Version(version)).unwrap();
    bodies.iter().for_each(|body| encoder.push(body).unwrap());
    encoder.finish()
}

fn low(value: u64, nibbles: u8) -> u64 {
    if nibbles == 0 { 0 } else { value >> (64 - 4 * nibbles) }
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    let nibbles = prop_oneof![0..=12_u8, Just(14), Just(16)];
    (interesting(), nibbles).prop_map(|(value, nibbles)| Timestamp { value: low(value, nibbles), nibbles })
}

fn interesting() -> impl Strategy<Value = u64> {
    prop_oneof![3 => any::<u64>(), 1 => Just(u64::MAX), 1 => Just(0)]
}

fn any_body() -> impl Strategy<Value = Body> {
    let time = || prop::option::of(timestamp());
    let bits = prop_oneof![Just(4_u8), Just(8), Just(16), Just(32), Just(64)];
    prop_oneof![
        2 => (any::<u16>(), any::<bool>())
            .prop_map(|(value, wide)| Body::Master { value: if wide { value } else { value & 0xff }, wide }),
        2 => (any::<u16>(), any::<bool>())
            .prop_map(|(value, wide)| Body::Channel { value: if wide { value } else { value & 0xff }, wide }),
        8 => (interesting(), bits, any::<bool>(), time()).prop_map(|(value, bits, marked, timestamp)| {
            Body::Data { value: low(value, bits / 4), bits, marked, timestamp }
        }),
        2 => time().prop_map(Body::Flag),
        1 => any::<u8>().prop_map(Body::MasterError),
        1 => any::<u8>().prop_map(Body::GlobalError),
        1 => any::<u8>().prop_map(Body::ChannelError),
        1 => timestamp().prop_map(Body::NullTimestamp),
        1 => (any::<u8>(), time()).prop_map(|(value, timestamp)| Body::Trigger { value, timestamp }),
        1 => (any::<u8>(), time()).prop_map(|(value, timestamp)| Body::CrossSync { value, timestamp }),
        1 => (interesting(), any::<bool>(), time()).prop_map(|(value, wide, timestamp)| {
            Body::Frequency { value: low(value, if wide { 10 } else { 8 }), wide, timestamp }
        }),
        1 => (interesting(), 1..=16_u8, time())
            .prop_map(|(value, nibbles, timestamp)| Body::User { value: low(value, nibbles), nibbles, timestamp }),
    ]
}

/// Without the last, if that is the NULL that fills up the last byte.
fn without_filling(mut bodies: Vec<Body>, wanted: usize) -> Vec<Body> {
    if bodies.len() == wanted + 1 && bodies.last() == Some(&Body::Null { count: 1 }) {
        bodies.pop();
    }
    bodies
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn encoding_then_decoding_is_identity(
        bodies in prop::collection::vec(any_body(), 0..40),
        extension in prop::option::of((2..=4_u8, any::<bool>())),
        delta in any::<bool>(),
    ) {
        let timestamps = if delta { TimestampFormat::Delta } else { TimestampFormat::Gray };
        let bytes = encoded(Version { timestamps, extension }, &bodies);
        let items: Result<Vec<Body>, PacketError> =
            Packets::new(&Config::default(), &bytes).skip(2).map(|item| item.map(|packet| packet.value.body)).collect();
        prop_assert_eq!(items.map(|found| without_filling(found, bodies.len())), Ok(bodies));
    }

    #[test]
    fn packets_and_skipped_bytes_tile_any_bytes(bytes in trace_like()) {
        let items: Vec<PacketItem> = Packets::new(&Config::default(), &bytes).collect();
        check_tiling(&items, bytes.len());
    }

    #[test]
    fn chunk_boundaries_make_no_difference(bytes in trace_like(), cuts in prop::collection::vec(0..400_usize, 0..8)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let whole = in_chunks(&bytes, &[]);
        check_tiling(&whole, bytes.len());
        prop_assert_eq!(&in_chunks(&bytes, &cuts), &whole);
        let every: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&in_chunks(&bytes, &every), &whole);
        let pulled: Vec<PacketItem> = Packets::new(&Config::default(), &bytes).collect();
        prop_assert_eq!(&pulled, &whole);
    }

    #[test]
    fn every_async_is_found(before in "[0-9a-f]{0,60}", bodies in prop::collection::vec(any_body(), 0..20)) {
        // Whatever comes before, the packets after an ASYNC are right.
        let tail = unpacked(&encoded(Version::new(TimestampFormat::Natural), &bodies));
        let bytes = packed(&[START, &before, &tail].concat());
        let items: Vec<Body> = Packets::new(&Config::default(), &bytes).flatten().map(|it| it.value.body).collect();
        let last = items.iter().rposition(|body| *body == Body::Async).unwrap();
        let nulls = |body: &Body| matches!(body, Body::Null { .. });
        let found: Vec<Body> = items[last + 2..].iter().filter(|body| !nulls(body)).copied().collect();
        prop_assert_eq!(found, bodies);
    }
}

#[test]
fn a_broken_async_is_not_an_opcode() {
    let rows = [("f", Malformed::BrokenSync), ("", Malformed::BrokenSync)];
    for (extra, kind) in rows {
        let stream = packed(&[START, extra, "fffffffffffffffffffff1", ASYNC].concat());
        let items: Vec<PacketItem> = Packets::new(&Config::default(), &stream).collect();
        assert_eq!(items[2].unwrap_err().kind, kind, "{items:?}");
        assert_eq!(items[3].unwrap().value.body, Body::Async);
    }
}
