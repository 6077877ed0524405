//! Packets both ways: one row a fact, decoded and encoded from the same line.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::any_packet::{ete_packet, etm4_packet};
use super::{ete, etm4};
use crate::etm4::packet::{Packet, PacketKind};
use crate::etm4::{Config, PacketDecoder, PacketItem};
use crate::{Atoms, DecodePackets as _, Malformed, PacketError, Packets, SubIsa};

const SYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];

/// name, bytes, kind, text
type Row = (&'static str, &'static [u8], PacketKind, &'static str);

/// What both architectures have.
const COMMON: &[Row] = &[
    ("alignment sync", &SYNC, PacketKind::AlignmentSync, "alignment sync"),
    ("discard", &[0x00, 0x03], PacketKind::Discard, "discard"),
    ("overflow", &[0x00, 0x05], PacketKind::Overflow, "overflow"),
    ("trace info, nothing", &[0x01, 0x00], PacketKind::TraceInfo, "trace info"),
    ("trace info, info", &[0x01, 0x01, 0x41], PacketKind::TraceInfo, "trace info info 0x41"),
    ("trace info, key", &[0x01, 0x02, 0x09], PacketKind::TraceInfo, "trace info key 9"),
    (
        "trace info, all",
        &[0x01, 0x0f, 0x01, 0x05, 0x83, 0x01, 0x20],
        PacketKind::TraceInfo,
        "trace info info 0x1 key 5 speculation 131 cycle threshold 32",
    ),
    ("timestamp, one byte", &[0x02, 0x7f], PacketKind::Timestamp, "timestamp 0x7f (7 bits)"),
    ("timestamp, three bytes", &[0x02, 0x81, 0x80, 0x01], PacketKind::Timestamp, "timestamp 0x4001 (21 bits)"),
    (
        "timestamp, nine bytes",
        &[0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80],
        PacketKind::Timestamp,
        "timestamp 0x80ffffffffffffff (64 bits)",
    ),
    (
        "timestamp with cycles",
        &[0x03, 0x05, 0x80, 0x80, 0x3f],
        PacketKind::Timestamp,
        "timestamp 0x5 (7 bits) after 1032192 cycles",
    ),
    ("trace on", &[0x04], PacketKind::TraceOn, "trace on"),
    ("exception", &[0x06, 0x1d], PacketKind::Exception, "exception 14, return address follows"),
    ("exception at a target", &[0x06, 0x58], PacketKind::Exception, "exception 12, target and return address follows"),
    (
        "exception with a second byte",
        &[0x06, 0x83, 0x21],
        PacketKind::Exception,
        "exception 33, return address follows, fault pending",
    ),
    (
        "exception with a second byte, nothing pending",
        &[0x06, 0x83, 0x00],
        PacketKind::Exception,
        "exception 1, return address follows",
    ),
    ("cycle count 2, few commits", &[0x0c, 0x37], PacketKind::CycleCountFormat2, "cycle count +7, commit field 3"),
    (
        "cycle count 2, many commits",
        &[0x0d, 0xef],
        PacketKind::CycleCountFormat2,
        "cycle count +15, commit field 14 below the maximum",
    ),
    ("cycle count 1", &[0x0e, 0x02, 0x81, 0x01], PacketKind::CycleCountFormat1, "cycle count +129, commit 2"),
    ("cycle count 1, unknown", &[0x0f, 0x05], PacketKind::CycleCountFormat1, "cycle count unknown, commit 5"),
    ("cycle count 3, least", &[0x10], PacketKind::CycleCountFormat3, "cycle count +0, commit field 0"),
    ("cycle count 3, most", &[0x1f], PacketKind::CycleCountFormat3, "cycle count +3, commit field 3"),
    ("commit", &[0x2d, 0x05], PacketKind::Commit, "commit 5"),
    ("commit, most", &[0x2d, 0xff, 0xff, 0xff, 0xff, 0x0f], PacketKind::Commit, "commit 4294967295"),
    ("cancel 1", &[0x2e, 0x81, 0x01], PacketKind::CancelFormat1, "cancel 129"),
    ("cancel 1, mispredict", &[0x2f, 0x01], PacketKind::CancelFormat1, "cancel 1, mispredict"),
    ("mispredict", &[0x30], PacketKind::Mispredict, "mispredict"),
    ("mispredict, E", &[0x31], PacketKind::Mispredict, "atoms E, mispredict"),
    ("mispredict, EE", &[0x32], PacketKind::Mispredict, "atoms EE, mispredict"),
    ("mispredict, N", &[0x33], PacketKind::Mispredict, "atoms N, mispredict"),
    ("cancel 2", &[0x34], PacketKind::CancelFormat2, "cancel 1, mispredict"),
    ("cancel 2, E", &[0x35], PacketKind::CancelFormat2, "atoms E, cancel 1, mispredict"),
    ("cancel 2, EE", &[0x36], PacketKind::CancelFormat2, "atoms EE, cancel 1, mispredict"),
    ("cancel 2, N", &[0x37], PacketKind::CancelFormat2, "atoms N, cancel 1, mispredict"),
    ("cancel 3, least", &[0x38], PacketKind::CancelFormat3, "cancel 2, mispredict"),
    ("cancel 3, most", &[0x3f], PacketKind::CancelFormat3, "atoms E, cancel 5, mispredict"),
    ("ignore", &[0x70], PacketKind::Ignore, "ignore"),
    ("event, one", &[0x71], PacketKind::Event, "event 0"),
    ("event, all", &[0x7f], PacketKind::Event, "event 0 1 2 3"),
    ("context as before", &[0x80], PacketKind::Context, "context as before"),
    ("context, secure EL3", &[0x81, 0x13], PacketKind::Context, "context EL3 secure AArch64"),
    ("context, non-secure AArch32", &[0x81, 0x21], PacketKind::Context, "context EL1 nonsecure AArch32"),
    ("context, root", &[0x81, 0x1b], PacketKind::Context, "context EL3 root AArch64"),
    ("context, realm", &[0x81, 0x3a], PacketKind::Context, "context EL2 realm AArch64"),
    (
        "context with both identifiers",
        &[0x81, 0xf1, 1, 0, 0, 0, 2, 0, 0, 0x80],
        PacketKind::Context,
        "context EL1 nonsecure AArch64 vmid 0x1 contextid 0x80000002",
    ),
    (
        "address with context, 32 bits, IS0",
        &[0x82, 0x21, 0x0a, 0x0c, 0x00, 0x11],
        PacketKind::AddressContext32Is0,
        "address ..000c1484 IS0, context EL1 secure AArch64",
    ),
    (
        "address with context, 32 bits, IS1",
        &[0x83, 0x01, 0x80, 0x00, 0x00, 0xa0, 7, 0, 0, 0],
        PacketKind::AddressContext32Is1,
        "address ..00008002 IS1, context EL0 nonsecure AArch32 contextid 0x7",
    ),
    (
        "address with context, 64 bits, IS0",
        &[0x85, 0x7f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x32],
        PacketKind::AddressContext64Is0,
        "address 0xfffffffffffffffc IS0, context EL2 nonsecure AArch64",
    ),
    (
        "address with context, 64 bits, IS1",
        &[0x86, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x60, 9, 0, 0, 0],
        PacketKind::AddressContext64Is1,
        "address 0xfffffffffffffffe IS1, context EL0 nonsecure AArch32 vmid 0x9",
    ),
    ("timestamp marker", &[0x88], PacketKind::TimestampMarker, "timestamp marker"),
    ("address match 0", &[0x90], PacketKind::AddressMatch, "address as 0 before"),
    ("address match 2", &[0x92], PacketKind::AddressMatch, "address as 2 before"),
    ("address short IS0, one byte", &[0x95, 0x4b], PacketKind::AddressShortIs0, "address ..12c IS0"),
    ("address short IS0, two bytes", &[0x95, 0x88, 0x7b], PacketKind::AddressShortIs0, "address ..0f620 IS0"),
    ("address short IS1, one byte", &[0x96, 0x7f], PacketKind::AddressShortIs1, "address ..fe IS1"),
    ("address short IS1, two bytes", &[0x96, 0xff, 0xff], PacketKind::AddressShortIs1, "address ..fffe IS1"),
    ("address 32 bits IS0", &[0x9a, 0x4e, 0x4a, 0x06, 0x00], PacketKind::Address32Is0, "address ..00069538 IS0"),
    ("address 32 bits IS1", &[0x9b, 0x01, 0xff, 0x06, 0x80], PacketKind::Address32Is1, "address ..8006ff02 IS1"),
    (
        "address 64 bits IS0",
        &[0x9d, 0x08, 0x5f, 0x4d, 0x00, 0xc0, 0xff, 0xff, 0xff],
        PacketKind::Address64Is0,
        "address 0xffffffc0004dbe20 IS0",
    ),
    (
        "address 64 bits IS1",
        &[0x9e, 0x08, 0xff, 0x4d, 0x00, 0xc0, 0xff, 0xff, 0x7f],
        PacketKind::Address64Is1,
        "address 0x7fffffc0004dff10 IS1",
    ),
    ("q, match", &[0xa1, 0x05], PacketKind::Q, "q 5 instructions, address as 1 before"),
    ("q, short IS0", &[0xa5, 0x4b, 0x81, 0x01], PacketKind::Q, "q 129 instructions, address ..12c IS0"),
    ("q, short IS1", &[0xa6, 0xff, 0x00, 0x01], PacketKind::Q, "q 1 instructions, address ..00fe IS1"),
    ("q, long IS0", &[0xaa, 0x01, 0x01, 0x01, 0x01, 0x02], PacketKind::Q, "q 2 instructions, address ..01010204 IS0"),
    ("q, long IS1", &[0xab, 0x01, 0x01, 0x01, 0x01, 0x02], PacketKind::Q, "q 2 instructions, address ..01010102 IS1"),
    ("q, count", &[0xac, 0x07], PacketKind::Q, "q 7 instructions"),
    ("q, nothing", &[0xaf], PacketKind::Q, "q"),
    ("atom 6, 4 E", &[0xc0], PacketKind::AtomFormat6, "atoms EEEE"),
    ("atom 6, 24 E", &[0xd4], PacketKind::AtomFormat6, "atoms EEEEEEEEEEEEEEEEEEEEEEEE"),
    ("atom 6, EEEN", &[0xe0], PacketKind::AtomFormat6, "atoms EEEN"),
    ("atom 6, 23 E and N", &[0xf4], PacketKind::AtomFormat6, "atoms EEEEEEEEEEEEEEEEEEEEEEEN"),
    ("atom 5, NNNNN", &[0xd5], PacketKind::AtomFormat5, "atoms NNNNN"),
    ("atom 5, NENEN", &[0xd6], PacketKind::AtomFormat5, "atoms NENEN"),
    ("atom 5, ENENE", &[0xd7], PacketKind::AtomFormat5, "atoms ENENE"),
    ("atom 5, NEEEE", &[0xf5], PacketKind::AtomFormat5, "atoms NEEEE"),
    ("atom 2, EN", &[0xd9], PacketKind::AtomFormat2, "atoms EN"),
    ("atom 4, NEEE", &[0xdc], PacketKind::AtomFormat4, "atoms NEEE"),
    ("atom 4, NNNN", &[0xdd], PacketKind::AtomFormat4, "atoms NNNN"),
    ("atom 4, NENE", &[0xde], PacketKind::AtomFormat4, "atoms NENE"),
    ("atom 4, ENEN", &[0xdf], PacketKind::AtomFormat4, "atoms ENEN"),
    ("atom 1, N", &[0xf6], PacketKind::AtomFormat1, "atoms N"),
    ("atom 1, E", &[0xf7], PacketKind::AtomFormat1, "atoms E"),
    ("atom 3, ENE", &[0xfd], PacketKind::AtomFormat3, "atoms ENE"),
];

/// What only ETE has.
const ETE: &[Row] = &[
    (
        "instrumentation",
        &[0x09, 0x01, 1, 2, 3, 4, 5, 6, 7, 8],
        PacketKind::Instrumentation,
        "instrumentation EL1 0x807060504030201",
    ),
    ("transaction start", &[0x0a], PacketKind::TransactionStart, "transaction start"),
    ("transaction commit", &[0x0b], PacketKind::TransactionCommit, "transaction commit"),
    ("source match", &[0xb2], PacketKind::SourceAddressMatch, "source address as 2 before"),
    ("source short IS0", &[0xb4, 0x4b], PacketKind::SourceAddressShortIs0, "source address ..12c IS0"),
    ("source short IS1", &[0xb5, 0xff, 0xff], PacketKind::SourceAddressShortIs1, "source address ..fffe IS1"),
    (
        "source 32 bits IS0",
        &[0xb6, 0x4e, 0x4a, 0x06, 0x00],
        PacketKind::SourceAddress32Is0,
        "source address ..00069538 IS0",
    ),
    (
        "source 32 bits IS1",
        &[0xb7, 0x01, 0xff, 0x06, 0x80],
        PacketKind::SourceAddress32Is1,
        "source address ..8006ff02 IS1",
    ),
    (
        "source 64 bits IS0",
        &[0xb8, 0x08, 0x5f, 0x4d, 0x00, 0xc0, 0xff, 0xff, 0xff],
        PacketKind::SourceAddress64Is0,
        "source address 0xffffffc0004dbe20 IS0",
    ),
    (
        "source 64 bits IS1",
        &[0xb9, 0x08, 0xff, 0x4d, 0x00, 0xc0, 0xff, 0xff, 0x7f],
        PacketKind::SourceAddress64Is1,
        "source address 0x7fffffc0004dff10 IS1",
    ),
];

/// What only ETMv4 has.
const ETM4: &[Row] = &[
    ("function return", &[0x05], PacketKind::FunctionReturn, "function return"),
    ("exception return", &[0x07], PacketKind::ExceptionReturn, "exception return"),
    ("numbered data sync", &[0x25], PacketKind::NumberedDataSync, "data sync marker 5"),
    ("unnumbered data sync", &[0x2c], PacketKind::UnnumberedDataSync, "unnumbered data sync marker 4"),
    (
        "conditional instruction 2",
        &[0x42],
        PacketKind::ConditionalInstructionFormat2,
        "conditional instruction, key step 2",
    ),
    ("conditional flush", &[0x43], PacketKind::ConditionalFlush, "conditional flush"),
    ("conditional result 4", &[0x46], PacketKind::ConditionalResultFormat4, "conditional result 2 for the last key"),
    ("conditional result 2", &[0x49], PacketKind::ConditionalResultFormat2, "conditional result 1"),
    (
        "conditional result 2, skip",
        &[0x4e],
        PacketKind::ConditionalResultFormat2,
        "conditional result 2, one key skipped",
    ),
    ("conditional result 3", &[0x5a, 0xbc], PacketKind::ConditionalResultFormat3, "conditional results 0xabc"),
    (
        "conditional result 1, two",
        &[0x6b, 0x7f, 0x93, 0x01],
        PacketKind::ConditionalResultFormat1,
        "conditional result key 7 is 0xf, key 9 is 0x3",
    ),
    (
        "conditional result 1, one",
        &[0x6e, 0x85, 0x02],
        PacketKind::ConditionalResultFormat1,
        "conditional result key 16 is 0x5",
    ),
    (
        "conditional instruction 1",
        &[0x6c, 0x81, 0x01],
        PacketKind::ConditionalInstructionFormat1,
        "conditional instruction, key 129",
    ),
    (
        "conditional instruction 3",
        &[0x6d, 0x07],
        PacketKind::ConditionalInstructionFormat3,
        "conditional instructions 3 and one more",
    ),
];

#[test]
fn every_packet_both_ways() {
    let tables: &[(&Config, &[&[Row]])] = &[(&ete(), &[COMMON, ETE]), (&etm4(), &[COMMON, ETM4])];
    for (config, tables) in tables {
        for (name, bytes, kind, text) in tables.iter().copied().flatten() {
            let stream = [&SYNC, *bytes].concat();
            let packets: Vec<Packet> = Packets::new(*config, &stream)
                .map(|item| item.unwrap_or_else(|e| panic!("{name}: {e}")).value)
                .collect();
            let [Packet::AlignmentSync, packet] = packets[..] else { panic!("{name}: {packets:?}") };
            assert_eq!((packet.kind(), packet.to_string().as_str()), (*kind, *text), "{name}");
            let mut encoded = vec![];
            packet.encode(config, &mut encoded).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(encoded, *bytes, "{name}");
        }
    }
}

#[test]
fn every_kind_has_a_row() {
    let rows: Vec<PacketKind> = [COMMON, ETE, ETM4].concat().iter().map(|row| row.2).collect();
    for kind in PacketKind::ALL {
        assert!(rows.contains(kind), "{kind:?}");
    }
}

#[test]
fn in_commit_mode_1_cycle_counts_carry_no_commit() {
    let config = Config { commit_mode_1: true, ..ete() };
    let rows: &[(&[u8], &str)] = &[
        (&[0x0e, 0x81, 0x01], "cycle count +129"),
        (&[0x0f], "cycle count unknown"),
        (&[0x0d, 0xf3], "cycle count +3, commit field 15 below the maximum"),
    ];
    for (bytes, text) in rows {
        assert_eq!(texts(&config, bytes), [*text]);
    }
}

#[test]
fn identifiers_have_the_size_that_the_registers_say() {
    let config = Config { vmid_bytes: 1, context_id_bytes: 2, ..etm4() };
    assert_eq!(
        texts(&config, &[0x81, 0xf1, 0x7f, 0x34, 0x12, 0xf7]),
        ["context EL1 nonsecure AArch64 vmid 0x7f contextid 0x1234", "atoms E"]
    );
    let none = Config { vmid_bytes: 0, context_id_bytes: 0, ..etm4() };
    assert_eq!(texts(&none, &[0x81, 0xf1, 0xf7])[1], "atoms E");
}

/// The texts of what follows an alignment sync.
fn texts(config: &Config, bytes: &[u8]) -> Vec<String> {
    let stream = [&SYNC, bytes].concat();
    let items = Packets::new(config, &stream).skip(1);
    items.map(|item| item.map_or_else(|error| error.to_string(), |packet| packet.value.to_string())).collect()
}

#[test]
fn damage_is_told_with_its_place_and_reading_goes_on() {
    let rows: &[(&str, &[u8], &[&str])] = &[
        ("reserved header", &[0x08], &["0xc: reserved packet header 0x08 (1 bytes skipped)"]),
        ("reserved Q type", &[0xa3, 0xf7], &["0xc: reserved packet header 0xa3 (2 bytes skipped)"]),
        ("reserved extension", &[0x00, 0x07], &["0xc: reserved extension packet 0x07 (2 bytes skipped)"]),
        ("too few zeros", &[0, 0, 0, 0x80], &["0xc: broken alignment synchronisation (4 bytes skipped)"]),
        ("reserved exception form", &[0x06, 0x00], &["0xc: reserved exception information 0x00 (2 bytes skipped)"]),
        (
            "not in this configuration",
            &[0x07],
            &["0xc: packet header 0x07, which this configuration of the trace unit cannot send (1 bytes skipped)"],
        ),
        (
            "reading goes on behind it",
            &[0x07, 0xf7],
            &[
                "0xc: packet header 0x07, which this configuration of the trace unit cannot send (1 bytes skipped)",
                "atoms E",
            ],
        ),
        ("cut address", &[0x9a, 0x01], &["0xc: stream ends inside a packet (2 bytes skipped)"]),
        ("cut zeros", &[0xf7, 0, 0], &["atoms E", "0xd: stream ends inside a packet (2 bytes skipped)"]),
        (
            "endless control field",
            &[0x01, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
            &["0xc: field without an end (7 bytes skipped)"],
        ),
        (
            "resynchronised",
            &[0x08, 0xf7, 0xf7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0xf6],
            &["0xc: reserved packet header 0x08 (3 bytes skipped)", "alignment sync", "atoms N"],
        ),
        (
            "a sync inside the broken packet",
            &[0x06, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0xf6],
            &["0xc: reserved exception information 0x00 (1 bytes skipped)", "alignment sync", "atoms N"],
        ),
    ];
    for (name, bytes, expected) in rows {
        assert_eq!(texts(&ete(), bytes), *expected, "{name}");
    }
}

#[test]
fn a_sync_may_have_more_zeros() {
    let stream = [&[0; 20][..], &SYNC, &[0; 5], &SYNC].concat();
    let items: Vec<_> =
        Packets::new(&ete(), &stream).map(|item| item.map(|packet| (packet.offset, packet.length))).collect();
    let error = PacketError { offset: 0, skipped: 20, kind: Malformed::NotSynchronized };
    assert_eq!(items, [Err(error), Ok((20, 12)), Ok((32, 17))]);
}

#[test]
fn resync_goes_to_the_next_sync() {
    let stream = [&SYNC[..], &[0xf7, 0xf7], &SYNC, &[0xf6]].concat();
    let config = ete();
    let mut packets = Packets::new(&config, &stream);
    packets.next();
    packets.resync();
    assert_eq!(packets.offset(), 12);
    let rest: Vec<String> = packets.map(|item| item.map_or_else(|e| e.to_string(), |p| p.value.to_string())).collect();
    assert_eq!(rest, ["0xc: not synchronised yet (2 bytes skipped)", "alignment sync", "atoms N"]);
}

#[test]
fn packets_that_no_bytes_say_are_refused() {
    use crate::etm4::packet::Address;
    let odd = Packet::Address(Address::full(SubIsa::Is0, 2));
    let wide = Packet::Q { count: Some(1), address: Some(Address::full(SubIsa::Is0, 0)) };
    let wild = Packet::Address(Address::low(SubIsa::Is0, 100, 4));
    let rows = [odd, wide, wild, Packet::Atoms(Atoms::new(0, 9)), Packet::Event { mask: 0 }, Packet::ExceptionReturn];
    for packet in rows {
        let mut out = vec![7];
        assert!(packet.encode(&ete(), &mut out).is_err(), "{packet}");
        assert_eq!(out, [7], "{packet}: nothing half written");
    }
}

/// All items of a stream that comes in pieces cut at `cuts`.
fn in_pieces(config: &Config, bytes: &[u8], cuts: &[usize]) -> Vec<PacketItem> {
    let mut items = vec![];
    let mut decoder = PacketDecoder::new(config);
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
    let piece = prop_oneof![
        4 => Just(SYNC.to_vec()),
        4 => prop::collection::vec(any::<u8>(), 1..20),
        4 => prop::collection::vec(0xc0..=0xff_u8, 1..20),
        1 => (1..40_usize).prop_map(|zeros| vec![0; zeros]),
        1 => prop::collection::vec(prop_oneof![Just(0_u8), Just(0x80), Just(1)], 1..20),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn encoding_then_decoding_is_identity_ete(packets in prop::collection::vec(ete_packet(&ete()), 0..40)) {
        round_trip(&ete(), &packets)?;
    }

    #[test]
    fn encoding_then_decoding_is_identity_ete_commit_mode_1(
        packets in prop::collection::vec(ete_packet(&Config { commit_mode_1: true, ..ete() }), 0..40)
    ) {
        round_trip(&Config { commit_mode_1: true, ..ete() }, &packets)?;
    }

    #[test]
    fn encoding_then_decoding_is_identity_etm4(packets in prop::collection::vec(etm4_packet(&etm4()), 0..40)) {
        round_trip(&etm4(), &packets)?;
    }

    #[test]
    fn packets_and_skipped_stretches_tile_any_bytes(bytes in trace_like()) {
        let items: Vec<PacketItem> = Packets::new(&etm4(), &bytes).collect();
        check_tiling(&items, bytes.len());
    }

    #[test]
    fn how_a_stream_is_cut_makes_no_difference(bytes in trace_like(), cuts in prop::collection::vec(0..400_usize, 0..8)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let whole = in_pieces(&ete(), &bytes, &[]);
        check_tiling(&whole, bytes.len());
        prop_assert_eq!(&in_pieces(&ete(), &bytes, &cuts), &whole);
        let every: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&in_pieces(&ete(), &bytes, &every), &whole);
        let pulled: Vec<PacketItem> = Packets::new(&ete(), &bytes).collect();
        prop_assert_eq!(&pulled, &whole);
    }
}

fn round_trip(config: &Config, packets: &[Packet]) -> Result<(), TestCaseError> {
    let mut bytes = SYNC.to_vec();
    for packet in packets {
        packet.encode(config, &mut bytes).map_err(|error| TestCaseError::fail(format!("{error}")))?;
    }
    let items: Result<Vec<Packet>, PacketError> =
        Packets::new(config, &bytes).skip(1).map(|item| item.map(|packet| packet.value)).collect();
    prop_assert_eq!(items, Ok(packets.to_vec()));
    Ok(())
}
