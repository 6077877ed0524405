//! Packets decoded and encoded: one row per packet.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::itm::packet::{Extension, Hardware, Packet, PacketKind as K, Relation};
use crate::itm::{Config, PacketDecoder, PacketItem};
use crate::{DecodePackets as _, Malformed, PacketError, Packets};

pub(super) const SYNC: [u8; 6] = [0, 0, 0, 0, 0, 0x80];

/// bytes, kind, text
type Row = (&'static [u8], K, &'static str);

/// Packets in the form that the encoder writes.
const ROWS: &[Row] = &[
    (&SYNC, K::Sync, "synchronization"),
    (&[0x70], K::Overflow, "overflow"),
    (&[0x10], K::LocalTimestamp2, "local timestamp +1"),
    (&[0x60], K::LocalTimestamp2, "local timestamp +6"),
    (&[0xc0, 0x00], K::LocalTimestamp1, "local timestamp +0"),
    (&[0xd0, 0x0d], K::LocalTimestamp1, "local timestamp +13, timestamp delayed"),
    (&[0xe0, 0xc2, 0x26], K::LocalTimestamp1, "local timestamp +4930, event delayed"),
    (&[0xc0, 0x82, 0xc8, 0x04], K::LocalTimestamp1, "local timestamp +74754"),
    (&[0xf0, 0xde, 0xfe, 0xd0, 0x3a], K::LocalTimestamp1, "local timestamp +122961758, timestamp and event delayed"),
    (&[0xf0, 0xff, 0xff, 0xff, 0x7f], K::LocalTimestamp1, "local timestamp +268435455, timestamp and event delayed"),
    (&[0x94, 0x7a], K::GlobalTimestamp1, "global timestamp 0x7a (7 bits)"),
    (&[0x94, 0x92, 0x4e], K::GlobalTimestamp1, "global timestamp 0x2712 (14 bits)"),
    (&[0x94, 0x80, 0x80, 0x00], K::GlobalTimestamp1, "global timestamp 0x0 (21 bits)"),
    (&[0x94, 0xd6, 0xe8, 0xc8, 0x07], K::GlobalTimestamp1, "global timestamp 0xf23456 (26 bits)"),
    (&[0x94, 0x82, 0xcf, 0xfa, 0x77], K::GlobalTimestamp1, "global timestamp 0x2fea782 (26 bits), wrap, clock change"),
    (&[0x94, 0x80, 0x80, 0x80, 0x40], K::GlobalTimestamp1, "global timestamp 0x0 (26 bits), wrap"),
    (&[0x94, 0x80, 0x80, 0x80, 0x20], K::GlobalTimestamp1, "global timestamp 0x0 (26 bits), clock change"),
    (&[0xb4, 0x96, 0x9a, 0x92, 0x00], K::GlobalTimestamp2, "global timestamp 0x48d16 << 26 (4 bytes)"),
    (&[0xb4, 0x93, 0x98, 0xa0, 0xa0, 0x80, 0x00], K::GlobalTimestamp2, "global timestamp 0x4080c13 << 26 (6 bytes)"),
    (&[0xb4, 0xff, 0xff, 0xff, 0xff, 0xff, 0x07], K::GlobalTimestamp2, "global timestamp 0x3fffffffff << 26 (6 bytes)"),
    (&[0x08], K::Extension, "stimulus page 0"),
    (&[0x28], K::Extension, "stimulus page 2"),
    (&[0x7c], K::Extension, "hardware extension 0x7 (3 bits)"),
    (&[0x98, 0x7f], K::Extension, "software extension 0x3f9 (10 bits)"),
    (&[0x88, 0x80, 0x01], K::Extension, "software extension 0x400 (17 bits)"),
    (&[0x8c, 0x80, 0x80, 0x01], K::Extension, "hardware extension 0x20000 (24 bits)"),
    (&[0xf8, 0xff, 0xff, 0xff, 0xff], K::Extension, "software extension 0xffffffff (32 bits)"),
    (&[0x88, 0x80, 0x80, 0x80, 0x80], K::Extension, "software extension 0x80000000 (32 bits)"),
    (&[0x19, 0xbb], K::Software, "software port 3, 1 byte 0xbb"),
    (&[0x52, 0x45, 0x23], K::Software, "software port 10, 2 bytes 0x2345"),
    (&[0x0b, 0x23, 0x01, 0x89, 0x67], K::Software, "software port 1, 4 bytes 0x67890123"),
    (&[0xf9, 0x01], K::Software, "software port 31, 1 byte 0x01"),
    (&[0x05, 0x15], K::EventCounter, "event counters wrapped: CPI sleep fold"),
    (&[0x05, 0x3f], K::EventCounter, "event counters wrapped: CPI exception sleep LSU fold cycle"),
    (&[0x0e, 0x2c, 0x10], K::ExceptionTrace, "exception 44 (IRQ 28) entered"),
    (&[0x0e, 0x23, 0x21], K::ExceptionTrace, "exception 291 (IRQ 275) exited"),
    (&[0x0e, 0x00, 0x30], K::ExceptionTrace, "exception 0 (Thread) returned"),
    (&[0x0e, 0x0b, 0x10], K::ExceptionTrace, "exception 11 (SVCall) entered"),
    (&[0x0e, 0x0b, 0x01], K::Hardware, "hardware source 1, 2 bytes 0x10b"),
    (&[0x17, 0x18, 0x02, 0x00, 0x08], K::PcSample, "pc sample 0x08000218"),
    (&[0x15, 0x00], K::PcSample, "pc sample: asleep"),
    (&[0x15, 0xff], K::PcSample, "pc sample: prohibited"),
    (&[0x15, 0x01], K::Hardware, "hardware source 2, 1 byte 0x1"),
    (&[0x1d, 0x81], K::PmuOverflow, "pmu counters overflowed: 0 7"),
    (&[0x57, 0x8c, 0x02, 0x00, 0x08], K::DataTracePc, "comparator 1: pc 0x0800028c"),
    (&[0x75, 0x01], K::DataTraceMatch, "comparator 3: match"),
    (&[0x4e, 0x10, 0x10], K::DataTraceAddress, "comparator 0: address 0x....1010"),
    (&[0x8f, 0x00, 0x01, 0x00, 0x00], K::DataTraceValue, "comparator 0: write of 4 bytes, 0x00000100"),
    (&[0x85, 0x44], K::DataTraceValue, "comparator 0: read of 1 byte, 0x44"),
    (&[0xb6, 0x66, 0x55], K::DataTraceValue, "comparator 3: read of 2 bytes, 0x5566"),
    (&[0x37, 0x00, 0x20, 0x00, 0x00], K::Hardware, "hardware source 6, 4 bytes 0x2000"),
    (&[0xfd, 0x01], K::Hardware, "hardware source 31, 1 byte 0x1"),
];

/// The same packets as the tests of the public crate `itm` expect them.
const PUBLIC: &[Row] = &[
    (&[0xc0, 0xc9, 0x01], K::LocalTimestamp1, "local timestamp +201"),
    (&[0x50], K::LocalTimestamp2, "local timestamp +5"),
    (&[0x94, 0x80, 0xa0, 0x84, 0x60], K::GlobalTimestamp1, "global timestamp 0x11000 (26 bits), wrap, clock change"),
    (&[0xb4, 0xbd, 0xf4, 0x91, 0x01], K::GlobalTimestamp2, "global timestamp 0x247a3d << 26 (4 bytes)"),
    (&[0xb4, 0xbd, 0xf4, 0x91, 0x81, 0xf4, 0x07], K::GlobalTimestamp2, "global timestamp 0x3f40247a3d << 26 (6 bytes)"),
    (&[0x78], K::Extension, "stimulus page 7"),
    (&[0x8b, 0x03, 0x0f, 0x3f, 0xff], K::Software, "software port 17, 4 bytes 0xff3f0f03"),
    (&[0x05, 0x2a], K::EventCounter, "event counters wrapped: exception LSU cycle"),
    (&[0x0e, 0x20, 0x30], K::ExceptionTrace, "exception 32 (IRQ 16) returned"),
    (&[0x17, 0x03, 0x0f, 0x3f, 0xff], K::PcSample, "pc sample 0xff3f0f03"),
    (&[0x15, 0x00], K::PcSample, "pc sample: asleep"),
    (&[0x77, 0x03, 0x0f, 0x3f, 0xff], K::DataTracePc, "comparator 3: pc 0xff3f0f03"),
    (&[0x6e, 0x03, 0x0f], K::DataTraceAddress, "comparator 2: address 0x....0f03"),
    (&[0xaf, 0x03, 0x0f, 0x3f, 0xff], K::DataTraceValue, "comparator 2: write of 4 bytes, 0xff3f0f03"),
    (&[0xae, 0x03, 0x0f], K::DataTraceValue, "comparator 2: write of 2 bytes, 0x0f03"),
    (&[0xad, 0x03], K::DataTraceValue, "comparator 2: write of 1 byte, 0x03"),
];

#[test]
fn packets_are_decoded_and_encoded() {
    for (bytes, kind, text) in ROWS.iter().chain(PUBLIC) {
        // A packet after it shows where it ends.
        let stream = [&SYNC[..], bytes, &[0x70]].concat();
        let items: Vec<PacketItem> = Packets::new(&Config::default(), &stream).skip(1).collect();
        let [Ok(packet), Ok(next)] = items[..] else { panic!("{text}: {items:?}") };
        assert_eq!((packet.value.to_string().as_str(), packet.value.kind()), (*text, *kind), "{bytes:x?}");
        assert_eq!((packet.length as usize, next.value), (bytes.len(), Packet::Overflow), "{text}");
        let mut out = vec![];
        packet.value.encode(&mut out).unwrap();
        assert_eq!(out, *bytes, "{text}");
    }
}

#[test]
fn longer_forms_are_accepted() {
    let rows: &[(&[u8], &str)] = &[
        (&[0xc0, 0x83, 0x00], "local timestamp +3"),
        (&[0xb4, 0x81, 0x00], "global timestamp 0x1 << 26 (2 bytes)"),
        (&[0xb4, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "global timestamp 0x3fffffffff << 26 (6 bytes)"),
    ];
    for (bytes, text) in rows {
        assert_eq!(texts(bytes), [*text]);
    }
}

/// The texts of what follows a synchronization.
fn texts(bytes: &[u8]) -> Vec<String> {
    let stream = [&SYNC, bytes].concat();
    all_texts(&stream)[1..].to_vec()
}

fn all_texts(stream: &[u8]) -> Vec<String> {
    let items = Packets::new(&Config::default(), stream);
    items.map(|item| item.map_or_else(|error| error.to_string(), |packet| packet.value.to_string())).collect()
}

#[test]
fn malformed_bytes_are_reported_and_reading_resumes() {
    let rows: &[(&str, &[u8], &[&str])] = &[
        ("reserved header", &[0x80], &["0x6: reserved packet header 0x80 (1 bytes skipped)"]),
        ("reserved header in LTS1", &[0xb0, 0x01], &["0x6: reserved packet header 0xb0 (2 bytes skipped)"]),
        ("reserved header in GTS", &[0x84], &["0x6: reserved packet header 0x84 (1 bytes skipped)"]),
        (
            "after a packet",
            &[0x57, 0x8c, 0x02, 0x00, 0x08, 0x80],
            &["comparator 1: pc 0x0800028c", "0xb: reserved packet header 0x80 (1 bytes skipped)"],
        ),
        ("endless LTS1", &[0xc0, 0x80, 0x80, 0x80, 0x80, 0], &["0x6: unterminated field (6 bytes skipped)"]),
        ("endless GTS1", &[0x94, 0x80, 0x80, 0x80, 0x80], &["0x6: unterminated field (5 bytes skipped)"]),
        ("endless GTS2", &[0xb4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80], &["0x6: unterminated field (7 bytes skipped)"]),
        ("lone zero", &[0x00, 0x70], &["0x6: broken alignment synchronization (2 bytes skipped)"]),
        ("too few zeros", &[0, 0, 0, 0, 0x80], &["0x6: broken alignment synchronization (5 bytes skipped)"]),
        ("cut payload", &[0x0b, 0x01], &["0x6: stream ends inside a packet (2 bytes skipped)"]),
        ("cut timestamp", &[0xc0, 0x81], &["0x6: stream ends inside a packet (2 bytes skipped)"]),
        ("cut zeros", &[0x70, 0, 0, 0], &["overflow", "0x7: stream ends inside a packet (3 bytes skipped)"]),
        (
            "resumes at a synchronization",
            &[0x80, 0x19, 0xbb, 0, 0, 0, 0, 0, 0x80, 0x70],
            &["0x6: reserved packet header 0x80 (3 bytes skipped)", "synchronization", "overflow"],
        ),
        (
            "a synchronization inside of a packet",
            &[0x0b, 0x41, 0, 0, 0, 0, 0, 0x80, 0x70],
            &["0x6: packet cut by a synchronization (2 bytes skipped)", "synchronization", "overflow"],
        ),
        (
            "zeros of a payload before a synchronization",
            &[0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x70],
            &["software port 1, 4 bytes 0x00000000", "synchronization", "overflow"],
        ),
        (
            "a synchronization that starts in the last byte of a timestamp",
            &[0xc0, 0x80, 0, 0, 0, 0, 0, 0x80, 0x70],
            &["0x6: packet cut by a synchronization (2 bytes skipped)", "synchronization", "overflow"],
        ),
    ];
    for (name, bytes, expected) in rows {
        assert_eq!(texts(bytes), *expected, "{name}");
    }
}

#[test]
fn a_stream_starts_at_a_synchronization_if_there_is_one() {
    let rows: &[(&str, &[u8], &[&str])] = &[
        ("at once", &[0, 0, 0, 0, 0, 0x80, 0x70], &["synchronization", "overflow"]),
        ("longer", &[0, 0, 0, 0, 0, 0, 0, 0x80, 0x70], &["synchronization", "overflow"]),
        (
            "later",
            &[0x70, 0x70, 0, 0, 0, 0, 0, 0x80, 0x70],
            &["0x0: not synchronized yet (2 bytes skipped)", "synchronization", "overflow"],
        ),
        (
            "none",
            &[0x70, 0x19, 0xbb],
            &[
                "0x0: no synchronization: a packet is presumed to start here (0 bytes skipped)",
                "overflow",
                "software port 3, 1 byte 0xbb",
            ],
        ),
        (
            "none, with damage",
            &[0x80, 0x70, 0, 0, 0x70, 0x19, 0xbb],
            &[
                "0x0: no synchronization: a packet is presumed to start here (0 bytes skipped)",
                "0x0: reserved packet header 0x80 (1 bytes skipped)",
                "overflow",
                "0x2: broken alignment synchronization (2 bytes skipped)",
                "overflow",
                "software port 3, 1 byte 0xbb",
            ],
        ),
        ("empty", &[], &[]),
    ];
    for (name, bytes, expected) in rows {
        assert_eq!(all_texts(bytes), *expected, "{name}");
    }
}

#[test]
fn a_distant_synchronization_is_found_after_a_presumed_start() {
    let stream = [&[0x70; 70_000][..], &[0x0b, 1, 0], &SYNC, &[0x80, 0x10], &SYNC].concat();
    let items: Vec<PacketItem> = Packets::new(&Config::default(), &stream).collect();
    check_tiling(&items, stream.len());
    assert_eq!(items[0].unwrap_err().kind, Malformed::PresumedStart);
    let ends: Vec<PacketItem> = items[70_001..].to_vec();
    let [Err(cut), Ok(sync), Err(bad), Ok(_)] = ends[..] else { panic!("{ends:?}") };
    assert_eq!((cut.kind, sync.value), (Malformed::CutBySync, Packet::Sync));
    assert_eq!((bad.kind, bad.skipped), (Malformed::ReservedHeader(0x80), 2));
}

#[test]
fn unencodable_packets_are_refused() {
    let rows = [
        Packet::LocalTimestamp2 { ticks: 0 },
        Packet::LocalTimestamp2 { ticks: 7 },
        Packet::LocalTimestamp1 { ticks: 1 << 28, relation: Relation::Synchronous },
        Packet::GlobalTimestamp1 { value: 0x80, bits: 7, wrap: false, clock_change: false },
        Packet::GlobalTimestamp1 { value: 0, bits: 7, wrap: true, clock_change: false },
        Packet::GlobalTimestamp2 { value: 1 << 22, bytes: 4 },
        Packet::GlobalTimestamp2 { value: 0, bytes: 5 },
        Packet::Extension(Extension { hardware: false, bits: 3, value: 8 }),
        Packet::Software { port: 32, size: 1, value: 0 },
        Packet::Software { port: 0, size: 3, value: 0 },
        Packet::Hardware(Hardware { discriminator: 0, size: 1, value: 256 }),
    ];
    for packet in rows {
        let mut out = vec![7];
        assert!(packet.encode(&mut out).is_err(), "{packet}");
        assert_eq!(out, [7], "{packet}: nothing half written");
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
    }
    window.extend_from_slice(&bytes[from..]);
    let read = decoder.decode(&window, true, |item| items.push(item));
    assert_eq!(read, window.len());
    items
}

fn check_tiling(items: &[PacketItem], length: usize) {
    let mut next = 0;
    for item in items {
        let (offset, length) = item.map_or_else(|e| (e.offset, e.skipped), |p| (p.offset, p.length));
        assert_eq!(offset, next, "{item:?}");
        let presumed = matches!(item, Err(PacketError { kind: Malformed::PresumedStart, .. }));
        assert!(length > 0 || presumed, "{item:?}");
        next = offset + length;
    }
    assert_eq!(next, length as u64);
}

/// Bytes that look like trace often enough to get deep into the parser.
fn trace_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        2 => Just(SYNC.to_vec()),
        4 => prop::collection::vec(any::<u8>(), 1..20),
        4 => prop::collection::vec(any_packet(), 1..9).prop_map(|packets| encoded(&packets)),
        1 => (1..20_usize).prop_map(|zeros| vec![0; zeros]),
        1 => prop::collection::vec(prop_oneof![Just(0_u8), Just(0x80), Just(3)], 1..20),
    ];
    prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
}

fn encoded(packets: &[Packet]) -> Vec<u8> {
    let mut bytes = vec![];
    packets.iter().for_each(|packet| packet.encode(&mut bytes).unwrap());
    bytes
}

/// A number and a size of a source packet.
fn source() -> impl Strategy<Value = (u8, u8, u32)> {
    (0..32_u8, prop_oneof![Just(1_u8), Just(2), Just(4)], any::<u32>())
        .prop_map(|(number, size, value)| (number, size, value & u32::MAX >> (32 - 8 * u32::from(size))))
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let ticks = prop_oneof![0..200_u32, 0..1_u32 << 28];
    let bits = prop_oneof![Just(7_u8), Just(14), Just(21), Just(26)];
    let extension = prop_oneof![Just(3_u8), Just(10), Just(17), Just(24), Just(32)];
    prop_oneof![
        1 => Just(Packet::Sync),
        1 => Just(Packet::Overflow),
        2 => (ticks, 0..4_usize)
            .prop_map(|(ticks, relation)| Packet::LocalTimestamp1 { ticks, relation: Relation::ALL[relation] }),
        2 => (1..7_u8).prop_map(|ticks| Packet::LocalTimestamp2 { ticks }),
        2 => (any::<u32>(), bits, any::<bool>(), any::<bool>()).prop_map(|(value, bits, wrap, clock_change)| {
            let full = bits == 26;
            Packet::GlobalTimestamp1 {
                value: value & ((1 << bits) - 1),
                bits,
                wrap: wrap && full,
                clock_change: clock_change && full,
            }
        }),
        1 => (0..1_u64 << 22).prop_map(|value| Packet::GlobalTimestamp2 { value, bytes: 4 }),
        1 => (0..1_u64 << 38).prop_map(|value| Packet::GlobalTimestamp2 { value, bytes: 6 }),
        1 => (any::<bool>(), extension, any::<u32>()).prop_map(|(hardware, bits, value)| {
            Packet::Extension(Extension { hardware, bits, value: value & u32::MAX >> (32 - bits) })
        }),
        4 => source().prop_map(|(port, size, value)| Packet::Software { port, size, value }),
        4 => source().prop_map(|(discriminator, size, value)| {
            Packet::Hardware(Hardware { discriminator, size, value })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn encoding_then_decoding_is_identity(packets in prop::collection::vec(any_packet(), 0..40)) {
        let bytes = [&SYNC[..], &encoded(&packets)].concat();
        let items: Result<Vec<Packet>, PacketError> =
            Packets::new(&Config::default(), &bytes).skip(1).map(|item| item.map(|packet| packet.value)).collect();
        prop_assert_eq!(items, Ok(packets));
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
    fn every_synchronization_is_found(
        before in prop::collection::vec(any::<u8>(), 0..40),
        packets in prop::collection::vec(any_packet(), 0..20),
    ) {
        // Whatever comes before, the packets after a synchronization are right.
        let bytes = [&SYNC[..], &before, &SYNC, &encoded(&packets)].concat();
        let items: Vec<PacketItem> = Packets::new(&Config::default(), &bytes).collect();
        let tail: Result<Vec<Packet>, PacketError> =
            items[items.len() - packets.len() - 1..].iter().map(|item| item.map(|packet| packet.value)).collect();
        prop_assert_eq!(tail, Ok([&[Packet::Sync][..], &packets].concat()));
    }
}
