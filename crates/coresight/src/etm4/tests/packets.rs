//! Packets decoded and encoded: one row per packet.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::any_packet::{ete_packet, etm4_packet};
use super::{ete, etm4, etm4_m};
use crate::etm4::packet::{Address, Packet, PacketKind as K};
use crate::etm4::{Config, PacketDecoder, PacketItem};
use crate::{Atoms, DecodePackets as _, Malformed, PacketError, Packets, SubIsa};

const SYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];

/// bytes, kind, text
type Row = (&'static [u8], K, &'static str);

/// Packets of both architectures.
const COMMON: &[Row] = &[
    (&SYNC, K::AlignmentSync, "alignment sync"),
    (&[0x00, 0x03], K::Discard, "discard"),
    (&[0x00, 0x05], K::Overflow, "overflow"),
    (&[0x01, 0x00], K::TraceInfo, "trace info"),
    (&[0x01, 0x01, 0x41], K::TraceInfo, "trace info info 0x41"),
    (&[0x01, 0x02, 0x09], K::TraceInfo, "trace info key 9"),
    (
        &[0x01, 0x0f, 0x01, 0x05, 0x83, 0x01, 0x20],
        K::TraceInfo,
        "trace info info 0x1 key 5 speculation 131 cycle threshold 32",
    ),
    (&[0x02, 0x7f], K::Timestamp, "timestamp 0x7f (7 bits)"),
    (&[0x02, 0x81, 0x80, 0x01], K::Timestamp, "timestamp 0x4001 (21 bits)"),
    (
        &[0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80],
        K::Timestamp,
        "timestamp 0x80ffffffffffffff (64 bits)",
    ),
    (&[0x03, 0x05, 0x80, 0x80, 0x3f], K::Timestamp, "timestamp 0x5 (7 bits) after 1032192 cycles"),
    (&[0x04], K::TraceOn, "trace on"),
    (&[0x06, 0x1d], K::Exception, "exception 14, return address follows"),
    (&[0x06, 0x58], K::Exception, "exception 12, target and return address follows"),
    (&[0x06, 0x83, 0x21], K::Exception, "exception 33, return address follows, fault pending"),
    (&[0x06, 0x83, 0x00], K::Exception, "exception 1, return address follows"),
    (&[0x0c, 0x37], K::CycleCountFormat2, "cycle count +7, commit field 3"),
    (&[0x0d, 0xef], K::CycleCountFormat2, "cycle count +15, commit field 14 below the maximum"),
    (&[0x0e, 0x02, 0x81, 0x01], K::CycleCountFormat1, "cycle count +129, commit 2"),
    (&[0x0f, 0x05], K::CycleCountFormat1, "cycle count unknown, commit 5"),
    (&[0x10], K::CycleCountFormat3, "cycle count +0, commit field 0"),
    (&[0x1f], K::CycleCountFormat3, "cycle count +3, commit field 3"),
    (&[0x2d, 0x05], K::Commit, "commit 5"),
    (&[0x2d, 0xff, 0xff, 0xff, 0xff, 0x0f], K::Commit, "commit 4294967295"),
    (&[0x2e, 0x81, 0x01], K::CancelFormat1, "cancel 129"),
    (&[0x2f, 0x01], K::CancelFormat1, "cancel 1, mispredict"),
    (&[0x30], K::Mispredict, "mispredict"),
    (&[0x31], K::Mispredict, "atoms E, mispredict"),
    (&[0x32], K::Mispredict, "atoms EE, mispredict"),
    (&[0x33], K::Mispredict, "atoms N, mispredict"),
    (&[0x34], K::CancelFormat2, "cancel 1, mispredict"),
    (&[0x35], K::CancelFormat2, "atoms E, cancel 1, mispredict"),
    (&[0x36], K::CancelFormat2, "atoms EE, cancel 1, mispredict"),
    (&[0x37], K::CancelFormat2, "atoms N, cancel 1, mispredict"),
    (&[0x38], K::CancelFormat3, "cancel 2, mispredict"),
    (&[0x3f], K::CancelFormat3, "atoms E, cancel 5, mispredict"),
    (&[0x70], K::Ignore, "ignore"),
    (&[0x71], K::Event, "event 0"),
    (&[0x7f], K::Event, "event 0 1 2 3"),
    (&[0x80], K::Context, "context as before"),
    (&[0x81, 0x13], K::Context, "context EL3 secure AArch64"),
    (&[0x81, 0x21], K::Context, "context EL1 nonsecure AArch32"),
    (&[0x81, 0x1b], K::Context, "context EL3 root AArch64"),
    (&[0x81, 0x3a], K::Context, "context EL2 realm AArch64"),
    (
        &[0x81, 0xf1, 1, 0, 0, 0, 2, 0, 0, 0x80],
        K::Context,
        "context EL1 nonsecure AArch64 vmid 0x1 contextid 0x80000002",
    ),
    (
        &[0x82, 0x21, 0x0a, 0x0c, 0x00, 0x11],
        K::AddressContext32Is0,
        "address ..000c1484 IS0, context EL1 secure AArch64",
    ),
    (
        &[0x83, 0x01, 0x80, 0x00, 0x00, 0xa0, 7, 0, 0, 0],
        K::AddressContext32Is1,
        "address ..00008002 IS1, context EL0 nonsecure AArch32 contextid 0x7",
    ),
    (
        &[0x85, 0x7f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x32],
        K::AddressContext64Is0,
        "address 0xfffffffffffffffc IS0, context EL2 nonsecure AArch64",
    ),
    (
        &[0x86, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x60, 9, 0, 0, 0],
        K::AddressContext64Is1,
        "address 0xfffffffffffffffe IS1, context EL0 nonsecure AArch32 vmid 0x9",
    ),
    (&[0x88], K::TimestampMarker, "timestamp marker"),
    (&[0x90], K::AddressMatch, "address as 0 before"),
    (&[0x92], K::AddressMatch, "address as 2 before"),
    (&[0x95, 0x4b], K::AddressShortIs0, "address ..12c IS0"),
    (&[0x95, 0x88, 0x7b], K::AddressShortIs0, "address ..0f620 IS0"),
    (&[0x96, 0x7f], K::AddressShortIs1, "address ..fe IS1"),
    (&[0x96, 0xff, 0xff], K::AddressShortIs1, "address ..fffe IS1"),
    (&[0x9a, 0x4e, 0x4a, 0x06, 0x00], K::Address32Is0, "address ..00069538 IS0"),
    (&[0x9b, 0x01, 0xff, 0x06, 0x80], K::Address32Is1, "address ..8006ff02 IS1"),
    (&[0x9d, 0x08, 0x5f, 0x4d, 0x00, 0xc0, 0xff, 0xff, 0xff], K::Address64Is0, "address 0xffffffc0004dbe20 IS0"),
    (&[0x9e, 0x08, 0xff, 0x4d, 0x00, 0xc0, 0xff, 0xff, 0x7f], K::Address64Is1, "address 0x7fffffc0004dff10 IS1"),
    (&[0xa1, 0x05], K::Q, "q 5 instructions, address as 1 before"),
    (&[0xa5, 0x4b, 0x81, 0x01], K::Q, "q 129 instructions, address ..12c IS0"),
    (&[0xa6, 0xff, 0x00, 0x01], K::Q, "q 1 instructions, address ..00fe IS1"),
    (&[0xaa, 0x01, 0x01, 0x01, 0x01, 0x02], K::Q, "q 2 instructions, address ..01010204 IS0"),
    (&[0xab, 0x01, 0x01, 0x01, 0x01, 0x02], K::Q, "q 2 instructions, address ..01010102 IS1"),
    (&[0xac, 0x07], K::Q, "q 7 instructions"),
    (&[0xaf], K::Q, "q"),
    (&[0xc0], K::AtomFormat6, "atoms EEEE"),
    (&[0xd4], K::AtomFormat6, "atoms EEEEEEEEEEEEEEEEEEEEEEEE"),
    (&[0xe0], K::AtomFormat6, "atoms EEEN"),
    (&[0xf4], K::AtomFormat6, "atoms EEEEEEEEEEEEEEEEEEEEEEEN"),
    (&[0xd5], K::AtomFormat5, "atoms NNNNN"),
    (&[0xd6], K::AtomFormat5, "atoms NENEN"),
    (&[0xd7], K::AtomFormat5, "atoms ENENE"),
    (&[0xf5], K::AtomFormat5, "atoms NEEEE"),
    (&[0xd9], K::AtomFormat2, "atoms EN"),
    (&[0xdc], K::AtomFormat4, "atoms NEEE"),
    (&[0xdd], K::AtomFormat4, "atoms NNNN"),
    (&[0xde], K::AtomFormat4, "atoms NENE"),
    (&[0xdf], K::AtomFormat4, "atoms ENEN"),
    (&[0xf6], K::AtomFormat1, "atoms N"),
    (&[0xf7], K::AtomFormat1, "atoms E"),
    (&[0xfd], K::AtomFormat3, "atoms ENE"),
];

/// Packets of ETE only.
const ETE: &[Row] = &[
    (&[0x09, 0x01, 1, 2, 3, 4, 5, 6, 7, 8], K::Instrumentation, "instrumentation EL1 0x807060504030201"),
    (&[0x0a], K::TransactionStart, "transaction start"),
    (&[0x0b], K::TransactionCommit, "transaction commit"),
    (&[0xb2], K::SourceAddressMatch, "source address as 2 before"),
    (&[0xb4, 0x4b], K::SourceAddressShortIs0, "source address ..12c IS0"),
    (&[0xb5, 0xff, 0xff], K::SourceAddressShortIs1, "source address ..fffe IS1"),
    (&[0xb6, 0x4e, 0x4a, 0x06, 0x00], K::SourceAddress32Is0, "source address ..00069538 IS0"),
    (&[0xb7, 0x01, 0xff, 0x06, 0x80], K::SourceAddress32Is1, "source address ..8006ff02 IS1"),
    (
        &[0xb8, 0x08, 0x5f, 0x4d, 0x00, 0xc0, 0xff, 0xff, 0xff],
        K::SourceAddress64Is0,
        "source address 0xffffffc0004dbe20 IS0",
    ),
    (
        &[0xb9, 0x08, 0xff, 0x4d, 0x00, 0xc0, 0xff, 0xff, 0x7f],
        K::SourceAddress64Is1,
        "source address 0x7fffffc0004dff10 IS1",
    ),
];

/// Packets of ETMv4 only.
const ETM4: &[Row] = &[
    (&[0x05], K::FunctionReturn, "function return"),
    (&[0x07], K::ExceptionReturn, "exception return"),
    (&[0x25], K::NumberedDataSync, "data sync marker 5"),
    (&[0x2c], K::UnnumberedDataSync, "unnumbered data sync marker 4"),
    (&[0x42], K::ConditionalInstructionFormat2, "conditional instruction, key step 2"),
    (&[0x43], K::ConditionalFlush, "conditional flush"),
    (&[0x46], K::ConditionalResultFormat4, "conditional result 2 for the last key"),
    (&[0x49], K::ConditionalResultFormat2, "conditional result 1"),
    (&[0x4e], K::ConditionalResultFormat2, "conditional result 2, one key skipped"),
    (&[0x5a, 0xbc], K::ConditionalResultFormat3, "conditional results 0xabc"),
    (&[0x6b, 0x7f, 0x93, 0x01], K::ConditionalResultFormat1, "conditional result key 7 is 0xf, key 9 is 0x3"),
    (&[0x6e, 0x85, 0x02], K::ConditionalResultFormat1, "conditional result key 16 is 0x5"),
    (&[0x6c, 0x81, 0x01], K::ConditionalInstructionFormat1, "conditional instruction, key 129"),
    (&[0x6d, 0x07], K::ConditionalInstructionFormat3, "conditional instructions 3 and one more"),
];

#[test]
fn packets_are_decoded_and_encoded() {
    let tables: &[(&Config, &[&[Row]])] = &[(&ete(), &[COMMON, ETE]), (&etm4(), &[COMMON, ETM4])];
    for (config, tables) in tables {
        for (bytes, kind, text) in tables.iter().copied().flatten() {
            let stream = [&SYNC, *bytes].concat();
            let packets: Vec<_> = Packets::new(*config, &stream).collect();
            let [Ok(_), Ok(packet)] = packets[..] else { panic!("{text}: {packets:?}") };
            assert_eq!((packet.value.kind(), packet.value.to_string().as_str()), (*kind, *text));
            let mut encoded = vec![];
            packet.value.encode(config, &mut encoded).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(encoded, *bytes, "{text}");
        }
    }
}

#[test]
fn every_kind_has_a_row() {
    let rows: Vec<K> = [COMMON, ETE, ETM4].concat().iter().map(|row| row.1).collect();
    for kind in K::ALL {
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
fn registers_define_the_size_of_identifiers() {
    let config = Config { vmid_bytes: 1, context_id_bytes: 2, ..etm4() };
    assert_eq!(
        texts(&config, &[0x81, 0xf1, 0x7f, 0x34, 0x12, 0xf7]),
        ["context EL1 nonsecure AArch64 vmid 0x7f contextid 0x1234", "atoms E"]
    );
    let none = Config { vmid_bytes: 0, context_id_bytes: 0, ..etm4() };
    assert_eq!(texts(&none, &[0x81, 0xf1, 0xf7])[1], "atoms E");
}

#[test]
fn contexts_of_the_m_profile_have_modes() {
    let rows: &[(u8, &str)] = &[
        (0x00, "context Thread secure AArch32"),
        (0x23, "context Handler nonsecure AArch32"),
        (0x01, "context EL1 secure AArch32"),
    ];
    for &(byte, text) in rows {
        assert_eq!(texts(&etm4_m(), &[0x81, byte]), [text]);
        let stream = [&SYNC[..], &[0x81, byte]].concat();
        let packet = Packets::new(&etm4_m(), &stream).nth(1).unwrap().unwrap().value;
        let mut bytes = vec![];
        packet.encode(&etm4_m(), &mut bytes).unwrap();
        assert_eq!(bytes, [0x81, byte], "{text}");
        let has_level = byte & 3 == 1;
        assert_eq!(packet.encode(&etm4(), &mut bytes).is_ok(), has_level, "{text}: other profiles have no modes");
    }
}

/// The texts of what follows an alignment sync.
fn texts(config: &Config, bytes: &[u8]) -> Vec<String> {
    let stream = [&SYNC, bytes].concat();
    let items = Packets::new(config, &stream).skip(1);
    items.map(|item| item.map_or_else(|error| error.to_string(), |packet| packet.value.to_string())).collect()
}

#[test]
fn malformed_bytes_are_reported_and_reading_resumes() {
    let rows: &[(&str, &[u8], &[&str])] = &[
        ("reserved header", &[0x08], &["0xc: reserved packet header 0x08 (1 bytes skipped)"]),
        ("reserved Q type", &[0xa3, 0xf7], &["0xc: reserved packet header 0xa3 (2 bytes skipped)"]),
        ("reserved extension", &[0x00, 0x07], &["0xc: reserved extension packet 0x07 (2 bytes skipped)"]),
        ("too few zeros", &[0, 0, 0, 0x80], &["0xc: broken alignment synchronization (4 bytes skipped)"]),
        ("reserved exception form", &[0x06, 0x00], &["0xc: reserved exception information 0x00 (2 bytes skipped)"]),
        (
            "not in this configuration",
            &[0x07],
            &["0xc: packet header 0x07, which this configuration of the trace unit cannot send (1 bytes skipped)"],
        ),
        (
            "reading resumes after it",
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
            &["0xc: unterminated field (7 bytes skipped)"],
        ),
        (
            "resynchronized",
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

/// Each row: a packet with bits that should be zero, and the bytes that have one (DDI 0487: long addresses, contexts).
#[test]
fn reserved_bits_are_a_note_on_a_packet() {
    let rows: &[(&[u8], &[(usize, u8)])] = &[
        (&[0x9a, 1, 2, 3, 4], &[(1, 0x80), (2, 0x80)]),
        (&[0x9b, 1, 2, 3, 4], &[(1, 0x80)]),
        (&[0x9d, 1, 2, 3, 4, 5, 6, 7, 8], &[(1, 0x80), (2, 0x80)]),
        (&[0x9e, 1, 2, 3, 4, 5, 6, 7, 8], &[(1, 0x80)]),
        (&[0x81, 0x13], &[(1, 0x04)]),
        (&[0x82, 1, 2, 3, 4, 0x13], &[(1, 0x80), (2, 0x80), (5, 0x04)]),
        (&[0x83, 1, 2, 3, 4, 0x13], &[(1, 0x80), (5, 0x04)]),
        (&[0x85, 1, 2, 3, 4, 5, 6, 7, 8, 0x13], &[(2, 0x80), (9, 0x04)]),
        (&[0x86, 1, 2, 3, 4, 5, 6, 7, 8, 0x13], &[(1, 0x80), (9, 0x04)]),
        (&[0xaa, 1, 2, 3, 4, 5], &[(1, 0x80), (2, 0x80)]),
        (&[0xb6, 1, 2, 3, 4], &[(1, 0x80), (2, 0x80)]),
        (&[0xb9, 1, 2, 3, 4, 5, 6, 7, 8], &[(1, 0x80)]),
    ];
    let read = |packet: &[u8]| -> Vec<PacketItem> {
        let bytes = [&SYNC[..], packet, &[0xf7; 9]].concat();
        Packets::new(&ete(), &bytes).collect()
    };
    for (packet, bits) in rows {
        let plain = read(packet);
        assert_eq!(plain.len(), 11, "{packet:02x?}");
        for &(index, bit) in *bits {
            let mut marked = packet.to_vec();
            marked[index] |= bit;
            let mut items = read(&marked);
            let kind = Malformed::ReservedBits(packet[0]);
            assert_eq!(items.remove(1), Err(PacketError { offset: 12, skipped: 0, kind }), "{marked:02x?}");
            assert_eq!(items, plain, "{marked:02x?}");
        }
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
fn resync_skips_to_the_next_sync() {
    let stream = [&SYNC[..], &[0xf7, 0xf7], &SYNC, &[0xf6]].concat();
    let config = ete();
    let mut packets = Packets::new(&config, &stream);
    packets.next();
    packets.resync();
    assert_eq!(packets.offset(), 12);
    let rest: Vec<String> = packets.map(|item| item.map_or_else(|e| e.to_string(), |p| p.value.to_string())).collect();
    assert_eq!(rest, ["0xc: not synchronized yet (2 bytes skipped)", "alignment sync", "atoms N"]);
}

#[test]
fn unencodable_packets_are_refused() {
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
        let is_note = item.is_err_and(|error| error.kind.is_note());
        assert!(length > 0 || is_note, "{item:?}");
        next = offset + length;
    }
    assert_eq!(next, length as u64);
}

/// Bytes that look like trace often enough to get deep into the parser.
fn trace_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => Just(SYNC.to_vec()),
        4 => prop::collection::vec(any::<u8>(), 1..20),
        4 => prop::collection::vec(0xc0..=0xff_u8, 1..20),
        1 => (1..40_usize).prop_map(|zeros| vec![0; zeros]),
        1 => prop::collection::vec(prop_oneof![Just(0_u8), Just(0x80), Just(1)], 1..20),
    ];
    prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
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
    fn packets_and_skipped_bytes_tile_any_bytes(bytes in trace_like()) {
        let items: Vec<PacketItem> = Packets::new(&etm4(), &bytes).collect();
        check_tiling(&items, bytes.len());
    }

    #[test]
    fn chunk_boundaries_make_no_difference(bytes in trace_like(), cuts in prop::collection::vec(0..400_usize, 0..8)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let whole = in_chunks(&ete(), &bytes, &[]);
        check_tiling(&whole, bytes.len());
        prop_assert_eq!(&in_chunks(&ete(), &bytes, &cuts), &whole);
        let every: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&in_chunks(&ete(), &bytes, &every), &whole);
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
