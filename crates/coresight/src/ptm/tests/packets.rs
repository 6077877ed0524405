//! Packets decoded and encoded: one row per packet.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::any_packet::packet;
use super::{cycle_accurate, first_version, plain};
use crate::ptm::packet::{Address, AddressIsa, Branch, BranchInfo, Packet, PacketKind as K};
use crate::ptm::{Config, PacketDecoder, PacketItem, next_start};
use crate::{Atoms, DecodePackets as _, Malformed, PacketError, Packets};

const SYNC: [u8; 6] = [0, 0, 0, 0, 0, 0x80];

/// bytes, kind, text
type Row = (&'static [u8], K, &'static str);

/// Packets of a trace without cycle counts.
const PLAIN: &[Row] = &[
    (&SYNC, K::AlignmentSync, "alignment sync"),
    (
        &[0x08, 0x01, 0x00, 0x00, 0x80, 0x29, 0x78, 0x56, 0x34, 0x12],
        K::InstructionSync,
        "instruction sync, trace enabled, 0x80000000 t32 nonsecure contextid 0x12345678",
    ),
    (
        &[0x08, 0x00, 0x10, 0x00, 0xc0, 0x01, 1, 0, 0, 0],
        K::InstructionSync,
        "instruction sync, periodic, 0xc0001000 a32 secure contextid 0x1",
    ),
    (
        &[0x08, 0x05, 0x10, 0x00, 0xc0, 0x4f, 0, 0, 0, 0],
        K::InstructionSync,
        "instruction sync, after overflow, 0xc0001004 t32 nonsecure Hyp AltIS contextid 0x0",
    ),
    (
        &[0x08, 0x04, 0x10, 0x00, 0xc0, 0x61, 0, 0, 0, 0],
        K::InstructionSync,
        "instruction sync, debug exit, 0xc0001004 a32 secure contextid 0x0",
    ),
    (&[0x84], K::Atoms, "atoms E"),
    (&[0x86], K::Atoms, "atoms N"),
    (&[0x88], K::Atoms, "atoms EE"),
    (&[0x8a], K::Atoms, "atoms EN"),
    (&[0x8c], K::Atoms, "atoms NE"),
    (&[0x94], K::Atoms, "atoms ENE"),
    (&[0x98], K::Atoms, "atoms NEE"),
    (&[0xa2], K::Atoms, "atoms EEEN"),
    (&[0xbe], K::Atoms, "atoms NNNN"),
    (&[0xc0], K::Atoms, "atoms EEEEE"),
    (&[0xe2], K::Atoms, "atoms NEEEN"),
    (&[0x2f], K::Branch, "branch ..0x17 (6 bits)"),
    (&[0xc5, 0x05], K::Branch, "branch ..0x162 (12 bits)"),
    (&[0xc5, 0xc5, 0x06], K::Branch, "branch ..0xd162 (19 bits)"),
    (&[0xff, 0xff, 0xff, 0x3f], K::Branch, "branch ..0x3ffffff (26 bits)"),
    (&[0xc5, 0xc5, 0x86, 0x80, 0x18], K::Branch, "branch 0x8001a2c4 t32"),
    (&[0x8d, 0x80, 0xfe, 0xff, 0x0f], K::Branch, "branch 0xffff0018 a32"),
    (&[0xff, 0xff, 0xff, 0xff, 0x3f], K::Branch, "branch 0xffffffff jazelle"),
    (&[0x8d, 0x80, 0xfe, 0xff, 0x4f, 0x1d], K::Branch, "branch 0xffff0018 a32 nonsecure, exception 14 (IRQ)"),
    (
        &[0x8d, 0x80, 0xfe, 0xff, 0x4f, 0x87, 0x20],
        K::Branch,
        "branch 0xffff0018 a32 nonsecure Hyp, exception 3 (Hyp entry)",
    ),
    (&[0x89, 0x80, 0x80, 0x80, 0x58, 0x81, 0x00], K::Branch, "branch 0x80000008 t32 nonsecure"),
    (&[0x9b, 0x52, 0x40], K::Branch, "branch ..0x48d (12 bits) secure AltIS"),
    (&[0x9b, 0xd2, 0x40, 0x80, 0x1f], K::Branch, "branch ..0x148d (19 bits) secure, exception 496"),
    (&[0x72, 0x2f], K::WaypointUpdate, "waypoint update ..0x17 (6 bits)"),
    (&[0x72, 0xc5, 0xc5, 0x86, 0x80, 0x18], K::WaypointUpdate, "waypoint update 0x8001a2c4 t32"),
    (&[0x0c], K::Trigger, "trigger"),
    (&[0x6e, 0x01, 0x00, 0x00, 0x80], K::ContextId, "contextid 0x80000001"),
    (&[0x3c, 0x09], K::Vmid, "vmid 0x9"),
    (&[0x42, 0x7f], K::Timestamp, "timestamp 0x7f (7 bits)"),
    (&[0x46, 0x81, 0x01], K::Timestamp, "timestamp 0x81 (14 bits), clock changed"),
    (
        &[0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80],
        K::Timestamp,
        "timestamp 0x80ffffffffffffff (64 bits)",
    ),
    (&[0x76], K::ExceptionReturn, "exception return"),
    (&[0x66], K::Ignore, "ignore"),
];

/// Packets of a trace with cycle counts.
const CYCLES: &[Row] = &[
    (
        &[0x08, 0x00, 0x00, 0x00, 0x80, 0x21, 0xcc, 0x03, 0x78, 0x56, 0x34, 0x12],
        K::InstructionSync,
        "instruction sync, trace enabled, 0x80000000 a32 secure contextid 0x12345678 after 51 cycles",
    ),
    (
        &[0x08, 0x00, 0x10, 0x00, 0xc0, 0x01, 1, 0, 0, 0],
        K::InstructionSync,
        "instruction sync, periodic, 0xc0001000 a32 secure contextid 0x1",
    ),
    (&[0x80], K::Atoms, "atoms E after 0 cycles"),
    (&[0x82], K::Atoms, "atoms N after 0 cycles"),
    (&[0xe8, 0x20], K::Atoms, "atoms E after 522 cycles"),
    (&[0x86], K::Atoms, "atoms N after 1 cycles"),
    (&[0xfe, 0xff, 0xff, 0xff, 0x7f], K::Atoms, "atoms N after 4294967295 cycles"),
    (&[0x2f, 0x68, 0x17], K::Branch, "branch ..0x17 (6 bits) after 378 cycles"),
    (&[0x9b, 0x52, 0x1c, 0x04], K::Branch, "branch ..0x48d (12 bits) secure, exception 14 (IRQ) after 1 cycles"),
    (&[0x72, 0x2f], K::WaypointUpdate, "waypoint update ..0x17 (6 bits)"),
    (
        &[0x42, 0xcc, 0x97, 0xc6, 0xce, 0xaf, 0x90, 0x80, 0x80, 0x00, 0x00],
        K::Timestamp,
        "timestamp 0x82f9d18bcc (64 bits) after 0 cycles",
    ),
    (&[0x46, 0x4e, 0x04], K::Timestamp, "timestamp 0x4e (7 bits) after 1 cycles, clock changed"),
];

/// Packets of version 1.0.
const FIRST: &[Row] = &[
    (
        &[0x08, 0x00, 0x10, 0x00, 0x80, 0x21],
        K::InstructionSync,
        "instruction sync, trace enabled, 0x80001000 a32 secure",
    ),
    (&[0x42, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x07], K::Timestamp, "timestamp 0x1c305080c101 (48 bits)"),
    (&[0x42, 0x81, 0x82, 0x83, 0x84, 0x85, 0x06], K::Timestamp, "timestamp 0x305080c101 (42 bits)"),
    (&[0x42, 0x2a], K::Timestamp, "timestamp 0x2a (7 bits)"),
    (&[0x9b, 0x52, 0x1c], K::Branch, "branch ..0x48d (12 bits) secure, exception 14 (IRQ)"),
];

#[test]
fn each_packet_is_decoded_and_encoded() {
    for (config, rows) in [(plain(), PLAIN), (cycle_accurate(), CYCLES), (first_version(), FIRST)] {
        for (bytes, kind, text) in rows {
            let stream = [&SYNC[..], bytes].concat();
            let items: Vec<PacketItem> = Packets::new(&config, &stream).skip(1).collect();
            let [Ok(packet)] = items[..] else { panic!("{text}: {items:?}") };
            assert_eq!((packet.value.to_string().as_str(), packet.value.kind()), (*text, *kind), "{bytes:02x?}");
            assert_eq!(packet.length, bytes.len() as u64, "{text}");
            let mut encoded = vec![];
            packet.value.encode(&config, &mut encoded).unwrap();
            assert_eq!(encoded, *bytes, "{text}");
        }
    }
}

/// Bits without meaning are ignored, and longer forms are understood.
#[test]
fn other_spellings_are_read() {
    let rows: &[(Config, &[u8], &str)] = &[
        // The last byte of a timestamp of 48 bits has six.
        (first_version(), &[0x42, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x47], "timestamp 0x1c305080c101 (48 bits)"),
        (first_version(), &[0x42, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0xc7], "timestamp 0x1c305080c101 (48 bits)"),
        // Bits 7, 1 and 0 of the first byte of a count, and a count that is longer than necessary.
        (cycle_accurate(), &[0x2f, 0xeb, 0x17], "branch ..0x17 (6 bits) after 378 cycles"),
        (cycle_accurate(), &[0x2f, 0x44, 0x80, 0x00], "branch ..0x17 (6 bits) after 1 cycles"),
        (cycle_accurate(), &[0x2f, 0x7c, 0xff, 0xff, 0xff, 0xff], "branch ..0x17 (6 bits) after 4294967295 cycles"),
        // Information that the documents have no room for, and the bit that announces it where it has no meaning.
        (plain(), &[0x72, 0xc5, 0xc5, 0x86, 0x80, 0x58, 0x40], "waypoint update 0x8001a2c4 t32 AltIS"),
        (plain(), &[0x72, 0xc5, 0x45], "waypoint update ..0x162 (12 bits)"),
    ];
    for (config, bytes, expected) in rows {
        assert_eq!(texts(config, bytes), [*expected], "{bytes:02x?}");
    }
}

#[test]
fn every_kind_has_a_row() {
    for kind in K::ALL {
        assert!(PLAIN.iter().any(|row| row.1 == *kind), "{kind:?}");
    }
}

fn texts(config: &Config, bytes: &[u8]) -> Vec<String> {
    let stream = [&SYNC[..], bytes].concat();
    let items = Packets::new(config, &stream).skip(1);
    items.map(|item| item.map_or_else(|error| error.to_string(), |packet| packet.value.to_string())).collect()
}

#[test]
fn malformed_bytes_are_errors_and_decoding_resumes() {
    let rows: &[(&str, &[u8], &[&str])] = &[
        ("reserved header", &[0x10, 0x84], &["0x6: reserved packet header 0x10 (2 bytes skipped)"]),
        ("no atom", &[0x84, 0x80], &["atoms E", "0x7: reserved packet header 0x80 (1 bytes skipped)"]),
        ("no atom either", &[0x82], &["0x6: reserved packet header 0x82 (1 bytes skipped)"]),
        ("cut branch", &[0x85, 0x80], &["0x6: stream ends inside a packet (2 bytes skipped)"]),
        ("cut zeros", &[0x84, 0, 0], &["atoms E", "0x7: stream ends inside a packet (2 bytes skipped)"]),
        (
            "fifth address byte",
            &[0x85, 0x80, 0x80, 0x80, 0x07, 0x84],
            &["0x6: reserved byte 0x07 in a packet (6 bytes skipped)"],
        ),
        ("sixth address byte", &[0x85, 0x80, 0x80, 0x80, 0x88, 0x84], &["0x6: unterminated field (6 bytes skipped)"]),
        ("branch information", &[0x85, 0x40, 0x20], &["0x6: reserved byte 0x20 in a packet (3 bytes skipped)"]),
        ("more of it", &[0x85, 0x40, 0x80, 0x40], &["0x6: reserved byte 0x40 in a packet (4 bytes skipped)"]),
        (
            "synchronization information",
            &[0x08, 0, 0, 0, 0x80, 0x20, 0, 0, 0, 0],
            &["0x6: reserved byte 0x20 in a packet (10 bytes skipped)"],
        ),
        (
            "four zeros",
            &[0x84, 0, 0, 0, 0, 0x80, 0x84],
            &["atoms E", "0x7: broken alignment synchronization (6 bytes skipped)"],
        ),
        (
            "resynchronized",
            &[0x10, 0x84, 0, 0, 0, 0, 0, 0x80, 0x86],
            &["0x6: reserved packet header 0x10 (2 bytes skipped)", "alignment sync", "atoms N"],
        ),
        (
            "a sync inside the broken packet",
            &[0x08, 0, 0, 0, 0, 0, 0x80, 0x86],
            &["0x6: reserved byte 0x00 in a packet (1 bytes skipped)", "alignment sync", "atoms N"],
        ),
        (
            "a packet took a zero of the sync",
            &[0x42, 0, 0, 0, 0, 0, 0x80, 0x86],
            &["timestamp 0x0 (7 bits)", "alignment sync", "atoms N"],
        ),
        (
            "a packet took four zeros of the sync",
            &[0x6e, 0, 0, 0, 0, 0, 0x80, 0x86],
            &["contextid 0x0", "alignment sync", "atoms N"],
        ),
        (
            "packets took all zeros of the sync",
            &[0x3c, 0x00, 0x84, 0x6e, 0, 0, 0, 0, 0x3c, 0, 0x42, 0, 0, 0, 0, 0, 0, 0x80],
            &["vmid 0x0", "atoms E", "contextid 0x0", "vmid 0x0", "timestamp 0x0 (7 bits)", "alignment sync"],
        ),
    ];
    for (name, bytes, expected) in rows {
        assert_eq!(texts(&plain(), bytes), *expected, "{name}");
    }
}

/// The address and the information of this synchronization are zeros of another one, of which the end is left.
#[test]
fn the_end_of_a_sync_whose_zeros_are_gone_is_found() {
    let config = Config { context_id_bytes: 1, ..plain() };
    // A context identifier of one byte takes the fifth zero; 0x80 alone is no packet.
    let bytes = [0x08, 0, 0, 0, 0, 0x01, 0, 0x6e, 0, 0x3c, 0, 0, 0, 0, 0, 0x80, 0x86];
    let found = texts(&config, &bytes);
    let expected = [
        "instruction sync, periodic, 0x00000000 a32 secure contextid 0x0",
        "contextid 0x0",
        "vmid 0x0",
        "alignment sync",
        "atoms N",
    ];
    assert_eq!(found, expected);
}

#[test]
fn packets_of_other_configurations_are_named() {
    let rows: &[(Config, &[u8], &[&str])] = &[
        (
            first_version(),
            &[0x6e, 0x84],
            &[
                "0x6: packet header 0x6e, which this configuration of the trace unit cannot send (1 bytes skipped)",
                "atoms E",
            ],
        ),
        (
            first_version(),
            &[0x3c, 0x01, 0x84],
            &["0x6: packet header 0x3c, which this configuration of the trace unit cannot send (3 bytes skipped)"],
        ),
    ];
    for (config, bytes, expected) in rows {
        assert_eq!(texts(config, bytes), *expected);
    }
}

#[test]
fn a_sync_may_have_more_zeros() {
    let stream = [&[0; 20][..], &SYNC, &[0; 30], &SYNC].concat();
    let items: Vec<_> =
        Packets::new(&plain(), &stream).map(|item| item.map(|packet| (packet.offset, packet.length))).collect();
    let error = PacketError { offset: 0, skipped: 20, kind: Malformed::NotSynchronized };
    assert_eq!(items, [Err(error), Ok((20, 6)), Ok((26, 36))]);
}

#[test]
fn shards_start_at_a_sync_with_an_address() {
    let stream = [&[0x84][..], &SYNC, &[0x42, 0], &SYNC, &[0x08, 1]].concat();
    assert_eq!(next_start(&stream, 0), Some(9));
    assert_eq!(next_start(&stream, 10), None);
    assert_eq!(next_start(&stream, 99), None);
}

#[test]
fn resync_skips_to_the_next_sync() {
    let stream = [&SYNC[..], &[0x84, 0x84], &SYNC, &[0x86]].concat();
    let config = plain();
    let mut packets = Packets::new(&config, &stream);
    packets.next();
    packets.resync();
    assert_eq!(packets.offset(), 6);
    let rest: Vec<String> = packets.map(|item| item.map_or_else(|e| e.to_string(), |p| p.value.to_string())).collect();
    assert_eq!(rest, ["0x6: not synchronized yet (2 bytes skipped)", "alignment sync", "atoms N"]);
}

#[test]
fn unencodable_packets_are_refused() {
    let branch = |address, info| Packet::Branch(Branch { address, info, cycles: None });
    let full = Address::full(AddressIsa::Arm, 0x8000);
    let far = BranchInfo { exception: 16, ..BranchInfo::default() };
    let wide = BranchInfo { exception: 512, hyp: Some(false), ..BranchInfo::default() };
    let rows = [
        Packet::Atoms { atoms: Atoms::new(0, 6), cycles: None },
        Packet::Atoms { atoms: Atoms::new(0, 0), cycles: None },
        Packet::Atoms { atoms: Atoms::new(0, 1), cycles: Some(1) },
        branch(Address::low(1, 1), Some(BranchInfo::default())),
        branch(Address::low(1, 64), None),
        branch(Address::low(0, 0), None),
        branch(Address::low(5, 0), None),
        branch(Address { bytes: 4, ..full }, None),
        branch(full, Some(far)),
        branch(full, Some(wide)),
        Packet::Branch(Branch { address: full, info: None, cycles: Some(1) }),
        Packet::WaypointUpdate { address: full, alternative: Some(false) },
        Packet::Timestamp { value: 1, bits: 8, clock_changed: false, cycles: None },
        Packet::Timestamp { value: 128, bits: 7, clock_changed: false, cycles: None },
        Packet::Timestamp { value: 0, bits: 63, clock_changed: false, cycles: None },
    ];
    for packet in rows {
        let mut out = vec![7];
        assert!(packet.encode(&plain(), &mut out).is_err(), "{packet:?}");
        assert_eq!(out, [7], "{packet:?}: nothing half written");
    }
    for packet in [Packet::Vmid(1), Packet::ContextId(1)] {
        assert!(packet.encode(&first_version(), &mut vec![]).is_err(), "{packet:?}");
    }
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
        decoder.uncommon(bytes, at, true)
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

/// Bytes that look like trace often enough to get deep into the parser.
fn trace_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => Just(SYNC.to_vec()),
        4 => prop::collection::vec(any::<u8>(), 1..20),
        4 => prop::collection::vec(0x84..=0xff_u8, 1..20),
        2 => prop::collection::vec(packet(&plain()), 1..8).prop_map(|packets| encoded(&plain(), &packets)),
        1 => prop::collection::vec(prop_oneof![Just(0x81_u8), Just(0x80), Just(0x0f), 0..0x40_u8], 1..20),
        1 => (1..40_usize).prop_map(|zeros| vec![0; zeros]),
        1 => prop::collection::vec(prop_oneof![Just(0_u8), Just(0x80), Just(8), Just(0x6e), Just(0x42)], 1..20),
    ];
    prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
}

fn any_config() -> impl Strategy<Value = Config> {
    prop_oneof![Just(plain()), Just(cycle_accurate()), Just(first_version())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn encoding_then_decoding_is_identity(
        (config, packets) in any_config().prop_flat_map(|config| (Just(config), prop::collection::vec(packet(&config), 0..40)))
    ) {
        let bytes = [&SYNC[..], &encoded(&config, &packets)].concat();
        let items: Result<Vec<Packet>, PacketError> =
            Packets::new(&config, &bytes).skip(1).map(|item| item.map(|packet| packet.value)).collect();
        prop_assert_eq!(items, Ok(packets));
    }

    #[test]
    fn packets_and_skipped_bytes_tile_any_bytes(config in any_config(), bytes in trace_like()) {
        let items: Vec<PacketItem> = Packets::new(&config, &bytes).collect();
        check_tiling(&items, bytes.len());
    }

    /// However damaged the trace before it is, a synchronization is found.
    #[test]
    fn every_sync_after_damage_is_found(config in any_config(), damage in trace_like()) {
        // The damaged packet may take some of the zeros; the rest is still a synchronization.
        let stream = [&SYNC[..], &damage, &[0; 40], &SYNC, &[0x76]].concat();
        let items: Vec<PacketItem> = Packets::new(&config, &stream).collect();
        let Some([Ok(sync), Ok(last)]) = items.last_chunk() else {
            return Err(TestCaseError::fail(format!("{items:?}")));
        };
        prop_assert_eq!((sync.value, last.value), (Packet::AlignmentSync, Packet::ExceptionReturn));
    }

    #[test]
    fn frequent_packets_are_read_as_on_the_general_path(config in any_config(), bytes in trace_like()) {
        prop_assert_eq!(in_chunks(&config, &bytes, &[]), on_the_general_path(&config, &bytes));
    }

    #[test]
    fn chunk_boundaries_make_no_difference(
        config in any_config(),
        bytes in trace_like(),
        cuts in prop::collection::vec(0..400_usize, 0..8)
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let whole = in_chunks(&config, &bytes, &[]);
        check_tiling(&whole, bytes.len());
        prop_assert_eq!(&in_chunks(&config, &bytes, &cuts), &whole);
        let every: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&in_chunks(&config, &bytes, &every), &whole);
        let pulled: Vec<PacketItem> = Packets::new(&config, &bytes).collect();
        prop_assert_eq!(&pulled, &whole);
    }
}

fn encoded(config: &Config, packets: &[Packet]) -> Vec<u8> {
    let mut bytes = vec![];
    packets.iter().for_each(|packet| packet.encode(config, &mut bytes).unwrap());
    bytes
}
