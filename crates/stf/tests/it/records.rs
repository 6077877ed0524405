//! Records: every descriptor with its bytes, parsed and encoded, and any bytes.

use proptest::prelude::*;
use unspool_stf::record::{Event, MemAccess, Register, Transaction};
use unspool_stf::{Layout, Malformed, Record};

use crate::check::fixtures::{info, mode};
use crate::fixtures::{bus_write, walk};

/// A file with these features, vector registers of 256 bits, and TileLink.
fn layout(features: u64) -> Layout {
    let mut layout = Layout::default();
    layout.follow(&Record::TraceInfoFeature(features));
    layout.follow(&Record::VlenConfig(256));
    layout.follow(&Record::ProtocolId(1));
    layout
}

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn every_record_is_read_and_written() {
    let v7: Vec<u8> = (0..32).collect();
    let entries: Vec<u8> = (0..32).collect();
    let rows: &[(&str, &str, Record<'_>)] = &[
        ("identifier", "01 535446", Record::Identifier(*b"STF")),
        ("version", "02 01000000 06000000", Record::Version { major: 1, minor: 6 }),
        ("comment", "03 03000000 616263", Record::Comment(b"abc")),
        ("empty comment", "03 00000000", Record::Comment(b"")),
        ("isa", "04 0100", Record::Isa(1)),
        ("encoding mode", "05 0200", Record::InstIem(2)),
        ("trace info", "06 06 010203 0500 67656e2041", info(6, b"gen A")),
        ("features", "07 2001080000000000", Record::TraceInfoFeature(0x80120)),
        ("process", "08 01000000 02000000 03000000", Record::ProcessIdExt([1, 2, 3])),
        ("force pc", "09 3412008000000000", Record::ForcePc(0x8000_1234)),
        ("vector length", "0a 00010000", Record::VlenConfig(256)),
        ("protocol", "0b 01", Record::ProtocolId(1)),
        ("clock", "0c 02 0300 636c6b", Record::ClockId { id: 2, name: b"clk" }),
        ("extensions", "0d 07000000 72763634676376", Record::IsaExtended(b"rv64gcv")),
        ("end of header", "13", Record::EndHeader),
        ("target", "1f 0010000040000000", Record::InstPcTarget(0x40_0000_1000)),
        (
            "integer register",
            "28 0500 11 0807060504030201",
            Record::InstReg(Register { number: 5, meta: 0x11, value: &[8, 7, 6, 5, 4, 3, 2, 1] }),
        ),
        (
            "vector register",
            "28 0700 33 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            Record::InstReg(Register { number: 7, meta: 0x33, value: &v7 }),
        ),
        ("ready register", "29 0a00", Record::InstReadyReg(10)),
        (
            "page table walk",
            "32 0010000040000000 0700000000000000 00100000 02
             000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            walk(7, &entries),
        ),
        (
            "access",
            "3c 0810000040000000 0800 efbe 01",
            Record::InstMemAccess(MemAccess { address: 0x40_0000_1008, size: 8, attributes: 0xbeef, kind: 1 }),
        ),
        ("content", "3d 0100000000000000", Record::InstMemContent(1)),
        ("bus access", "3e 7856341200000000 4000 03 02 0df0feca 02", bus_write(0x1234_5678, 64, 2, 0xcafe_f00d)),
        ("bus content", "3f 0100000000000000", Record::BusMasterContent(1)),
        ("change of mode", "64 0000000000000040 01 0300000000000000", mode(3)),
        (
            "change of mode, narrow",
            "64 00000040 01 0300000000000000",
            Record::Event(Event { raw: 1 << 30, is_wide: false, data: &[3, 0, 0, 0, 0, 0, 0, 0] }),
        ),
        ("event target", "65 0010000000000000", Record::EventPcTarget(0x1000)),
        ("micro-operation", "e6 04 3305a500", Record::InstMicroop { size: 4, encoding: 0x00a5_0533 }),
        ("opcode of four bytes", "f0 13000000", Record::InstOpcode32(0x13)),
        ("opcode of two bytes", "f1 0145", Record::InstOpcode16(0x4501)),
        (
            "transaction",
            "fa 0100000000000000 0200000000000000 03 0200 00 aa 03 0807060504030201
             01 04 00 03 0500000000000000 0200 beef 0010000000000000 0900 ff01",
            Record::Transaction(Transaction {
                id: 1,
                cycles: 2,
                clock: 3,
                count: 2,
                metadata: &[0, 0xaa, 3, 8, 7, 6, 5, 4, 3, 2, 1],
                data: &[1, 4, 0, 3, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0xbe, 0xef, 0, 16, 0, 0, 0, 0, 0, 0, 9, 0, 0xff, 1],
            }),
        ),
        (
            "dependency",
            "fb 0100000000000000 0200000000000000 03",
            Record::TransactionDependency { id: 1, cycles: 2, clock: 3 },
        ),
        ("end", "ff", Record::ReserveEnd),
    ];
    for (name, text, record) in rows {
        let is_narrow = matches!(record, Record::Event(Event { is_wide: false, .. }));
        let layout = layout(if is_narrow { 0 } else { 0x8_0000 });
        let bytes = bytes(text);
        assert_eq!(Record::parse(&bytes, &layout), Ok((*record, bytes.len())), "{name}, read");
        let mut written = Vec::new();
        record.encode(&mut written);
        assert_eq!(written, bytes, "{name}, written");
        for length in 0..bytes.len() {
            assert_eq!(Record::parse(&bytes[..length], &layout), Err(Malformed::Truncated), "{name}, cut at {length}");
        }
    }
}

#[test]
fn malformed_records_are_reported() {
    let rows: &[(&str, Layout, &str, Malformed)] = &[
        ("reserved", layout(0), "00", Malformed::UnknownDescriptor(0)),
        ("unknown", layout(0), "4d", Malformed::UnknownDescriptor(77)),
        ("no vector length", Layout::default(), "28 0700 33", Malformed::NoVectorLength),
        (
            "no protocol",
            Layout::default(),
            "fa 0100000000000000 0200000000000000 03 0000",
            Malformed::UnknownProtocol(None),
        ),
        ("metadata", layout(0), "fa 0100000000000000 0200000000000000 03 0100 07 ffff", Malformed::MetadataSize(7)),
        ("channel", layout(0), "fa 0100000000000000 0200000000000000 03 0000 09", Malformed::UnknownChannel(9)),
    ];
    for (name, layout, text, expected) in rows {
        assert_eq!(Record::parse(&bytes(text), layout), Err(*expected), "{name}");
    }
}

#[test]
fn event_numbers_have_flags() {
    let event = |raw, is_wide, data| Event { raw, is_wide, data };
    let page_fault = event(13, true, &[]);
    assert!(!page_fault.is_interrupt() && !page_fault.is_special());
    assert_eq!(page_fault.id(), 13);
    let timer = event(1 << 63 | 5, true, &[]);
    assert!(timer.is_interrupt());
    assert_eq!((timer.id(), timer.mode()), (5, None));
    assert_eq!(event(1 << 31 | 5, false, &[]).id(), 5);
    assert!(event(1 << 31 | 5, false, &[]).is_interrupt());
    assert_eq!(event(1 << 30, false, &[1, 0, 0, 0, 0, 0, 0, 0]).mode(), Some(1));
    assert_eq!(event(1 << 62, true, &[]).mode(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn any_record_survives(descriptor: u8, rest in prop::collection::vec(any::<u8>(), 0..80), features: u64) {
        let layout = layout(features);
        let bytes = [&[descriptor][..], &rest].concat();
        if let Ok((record, length)) = Record::parse(&bytes, &layout) {
            prop_assert!(length > 0 && length <= bytes.len());
            prop_assert_eq!(record.descriptor(), descriptor);
            let mut written = Vec::new();
            record.encode(&mut written);
            prop_assert_eq!(&written[..], &bytes[..length]);
        }
    }
}
