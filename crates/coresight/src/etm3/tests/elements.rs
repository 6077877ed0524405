//! Elements of packets, speculative and committed.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::any_packet::any_packet;
use super::{ARM_START, SYNC, THUMB_START, a7, hex, m3, texts_of};
use crate::decode::Plain;
use crate::etm3::Config;
use crate::{DecodeElements as _, Decoders as _, Element, ElementItem, Extent, Located, Transactions};

/// The elements after the context and address of the start of tracing.
fn elements(config: &Config, start: &[u8], bytes: &str) -> Vec<String> {
    let stream = [&SYNC[..], start, &hex(bytes)].concat();
    let texts = texts_of(config, config.elements(), &stream);
    assert_eq!(texts[0], "trace on");
    texts[3..].to_vec()
}

/// The committed elements after the context and address of the start of tracing.
fn committed(config: &Config, start: &[u8], bytes: &str) -> Vec<String> {
    let stream = [&SYNC[..], start, &hex(bytes)].concat();
    texts_of(config, config.committed(Transactions::Resolve), &stream)[3..].to_vec()
}

/// Name, configuration, start of tracing, bytes and elements of a row.
type StartRow<'r> = (&'r str, Config, &'r [u8], &'r str, &'r [&'r str]);

#[test]
fn branch_addresses_are_completed_from_the_last() {
    let rows: &[StartRow] = &[
        ("two bytes", a7(0), &ARM_START, "8d 01", &["target address 0x0000000000008118 IS0"]),
        ("six bits", a7(0), &ARM_START, "7f", &["target address 0x00000000000080fc IS0"]),
        ("to Thumb", a7(0), &ARM_START, "81 81 82 83 19", &["target address 0x0000000090608080 IS1"]),
        (
            "bits that are not sent stay",
            a7(0),
            &ARM_START,
            "84 81 81 82 83 19 84 03",
            &["atoms E", "target address 0x0000000090608080 IS1", "atoms E", "target address 0x0000000090608082 IS1"],
        ),
        ("alternative", m3(0), &THUMB_START, "c1 05", &["target address 0x00000000080082c0 IS1"]),
        ("to Jazelle", a7(0), &ARM_START, "83 80 80 80 21", &["other code 0x0000000008000001 jazelle"]),
        (
            "in Jazelle there is no shift",
            a7(0),
            &ARM_START,
            "84 83 80 80 80 21 84 05",
            &["atoms E", "other code 0x0000000008000001 jazelle", "atoms E", "other code 0x0000000008000002 jazelle"],
        ),
        (
            "ThumbEE by the alternative bit",
            a7(0),
            &ARM_START,
            "81 80 80 80 50 40 84 03",
            &["other code 0x0000000000000000 t32ee", "atoms E", "other code 0x0000000000000002 t32ee"],
        ),
        (
            "two in a row: the last one counts",
            a7(0),
            &ARM_START,
            "84 05 07",
            &[
                "atoms E",
                "target address 0x0000000000008008 IS0",
                "new address",
                "target address 0x000000000000800c IS0",
            ],
        ),
    ];
    for (name, config, start, bytes, expected) in rows {
        assert_eq!(elements(config, start, bytes), *expected, "{name}");
    }
}

#[test]
fn exceptions_have_numbers_and_names_of_the_profile() {
    let rows: &[StartRow] = &[
        (
            "IRQ",
            a7(0),
            &ARM_START,
            "84 8d 80 80 80 48 1d",
            &[
                "atoms E",
                "exception 14 (IRQ), return unknown",
                "context EL? nonsecure AArch32",
                "target address 0x0000000000000018 IS0",
            ],
        ),
        (
            "SysTick",
            m3(0x980),
            &THUMB_START,
            "c1 45 1e",
            &["exception 15 (SysTick), return unknown", "target address 0x00000000080082c0 IS1"],
        ),
        (
            "BusFault",
            m3(0),
            &THUMB_START,
            "c1 40 8a 01",
            &["exception 21 (BusFault), return unknown", "target address 0x0000000008008040 IS1"],
        ),
        (
            "an interrupt",
            m3(0),
            &THUMB_START,
            "c1 40 96 01",
            &["exception 27 (external interrupt), return unknown", "target address 0x0000000008008040 IS1"],
        ),
        (
            "number 0 is a change of state",
            a7(0),
            &ARM_START,
            "84 81 80 81 80 48 01",
            &["atoms E", "context EL? nonsecure AArch32", "target address 0x0000000000008000 IS0"],
        ),
        (
            "Hyp entry",
            a7(0),
            &ARM_START,
            "81 80 80 80 48 87 20",
            &[
                "exception 3 (Hyp entry), return unknown",
                "context EL2 nonsecure AArch32",
                "target address 0x0000000000000000 IS0",
            ],
        ),
        (
            "deprecated IRQ",
            a7(0),
            &ARM_START,
            "84 8d 80 80 80 88",
            &["atoms E", "exception 14 (IRQ), return unknown", "target address 0x0000000000000018 IS0"],
        ),
    ];
    for (name, config, start, bytes, expected) in rows {
        assert_eq!(elements(config, start, bytes), *expected, "{name}");
    }
}

#[test]
fn cycles_come_before_their_atoms() {
    let rows: &[(&str, &str, &[&str])] = &[
        ("format 1", "c8", &["cycle count 1", "atoms E", "cycle count 1", "atoms E", "cycle count 1", "atoms N"]),
        ("format 2", "86", &["cycle count 1", "atoms EN"]),
        ("format 3", "e4 bc", &["cycle count 2", "atoms E", "cycle count 8"]),
        ("format 4", "92", &["atoms E"]),
        ("of the gap", "04 85 01 04 00", &["gap of 133 cycles", "gap of unknown cycles"]),
    ];
    for (name, bytes, expected) in rows {
        assert_eq!(elements(&a7(0x1000), &ARM_START, bytes), *expected, "{name}");
    }
}

#[test]
fn timestamps_keep_what_a_packet_leaves_out() {
    let gray = Config { timestamp_gray: true, timestamp_bits: 48, ..a7(0) };
    let rows: &[(&str, Config, &str, &[&str])] = &[
        ("binary", a7(0), "42 bf 01 42 05", &["timestamp 0xbf", "timestamp 0x85"]),
        ("64 bits", a7(0), "42 80 80 80 80 80 80 80 80 ff", &["timestamp 0xff00000000000000"]),
        // 0b1100_0000 is Gray for 0b1000_0000, and 0b1101_0000 for 0b1001_1111.
        ("Gray", gray, "42 c0 01 42 50", &["timestamp 0x80", "timestamp 0x9f"]),
        ("unknown", a7(0), "42 00", &[]),
        ("clock", a7(0), "46 01", &["clock frequency changed", "timestamp 0x1"]),
    ];
    for (name, config, bytes, expected) in rows {
        assert_eq!(elements(config, &ARM_START, bytes), *expected, "{name}");
    }
}

#[test]
fn synchronizations_start_continue_and_restart() {
    let rows: &[(&str, Config, &str, &[&str])] = &[
        (
            "periodic",
            a7(0),
            "84 08 01 04 80 00 00",
            &["atoms E", "context EL? secure AArch32", "target address 0x0000000000008004 IS0"],
        ),
        (
            "overflow",
            a7(0),
            "84 08 49 05 80 00 00",
            &["atoms E", "overflow", "context EL? nonsecure AArch32", "target address 0x0000000000008004 IS1"],
        ),
        (
            "debug",
            a7(0x1000),
            "70 05 61 00 80 00 00",
            &[
                "cycle count 5",
                "debug exit",
                "trace on",
                "context EL? secure AArch32",
                "target address 0x0000000000008000 IS0",
            ],
        ),
        (
            "the count after an overflow is void",
            a7(0x1000),
            "70 05 41 00 80 00 00",
            &["cycle count unknown", "overflow", "context EL? secure AArch32", "target address 0x0000000000008000 IS0"],
        ),
        (
            "in progress",
            a7(0),
            "08 a1 00 80 00 00 0d",
            &[
                "trace on",
                "context EL? secure AArch32",
                "target address 0x0000000000008000 IS0",
                "atoms E",
                "new address",
                "target address 0x0000000000008018 IS0",
            ],
        ),
        (
            "in progress at an interval",
            a7(0),
            "08 81 00 80 00 00 0d",
            &["context EL? secure AArch32", "new address", "target address 0x0000000000008018 IS0"],
        ),
    ];
    for (name, config, bytes, expected) in rows {
        assert_eq!(elements(config, &ARM_START, bytes), *expected, "{name}");
    }
}

#[test]
fn identifiers_are_part_of_the_context() {
    let start = hex("08 0a 00 00 00 21 00 80 00 00");
    let expected = ["context EL? secure AArch32 contextid 0x7", "context EL? secure AArch32 vmid 0x3 contextid 0x7"];
    assert_eq!(elements(&a7(0xc000), &start, "6e 07 00 00 00 3c 03"), expected);
}

#[test]
fn transfers_have_whole_addresses() {
    let rows: &[(&str, Config, &str, &[&str])] = &[
        (
            "normal",
            a7(0xc),
            "2e 90 a0 80 80 12 78 56 34 12 0a 01 02 26 20 05",
            &[
                "first transfer address 0x20001010 big-endian value 0x12345678",
                "transfer big-endian value 0x201",
                "first transfer address 0x20001020 big-endian value 0x5",
            ],
        ),
        ("before a whole address", a7(0xc), "26 20 05", &["first transfer value 0x5"]),
        (
            "late",
            a7(0xc),
            "7c 90 a0 80 80 02 6c 01 02 03 04",
            &["first transfer address 0x20001010 value follows with tag 3", "late value tag 3 0x4030201"],
        ),
        ("not traced", a7(0xc), "6a 50 62", &["transfer value not traced", "store failed", "data suppressed"]),
        ("addresses only", a7(0x8), "22 90 a0 80 80 02", &["first transfer address 0x20001010 value not traced"]),
    ];
    for (name, config, bytes, expected) in rows {
        assert_eq!(elements(config, &ARM_START, bytes), *expected, "{name}");
    }
}

#[test]
fn without_an_instruction_synchronization_only_times_are_understood() {
    let bytes = [&SYNC[..], &hex("bc 42 05 88 03 e4"), &ARM_START, &hex("84")].concat();
    let expected = [
        "cycle count 8",
        "timestamp 0x5",
        "cycle count 2",
        "cycle count 2",
        "0x9: packets before the first instruction synchronization",
        "trace on",
        "context EL? secure AArch32",
        "target address 0x0000000000008000 IS0",
        "cycle count 1",
        "atoms E",
    ];
    assert_eq!(texts_of(&a7(0x1000), a7(0x1000).elements(), &bytes), expected);
}

#[test]
fn damage_ends_all_state() {
    let sync = hex("00 00 00 00 00 80");
    let bytes = [&SYNC[..], &ARM_START, &hex("42 ff 01 84 10"), &sync, &hex("84 42 05 08 01 00 90 00 00 84")].concat();
    let expected = [
        "trace on",
        "context EL? secure AArch32",
        "target address 0x0000000000008000 IS0",
        "timestamp 0xff",
        "atoms E",
        "0x10: reserved packet header 0x10",
        "0x17: packets before the first instruction synchronization",
        "trace on",
        "context EL? secure AArch32",
        "target address 0x0000000000009000 IS0",
        "atoms E",
    ];
    assert_eq!(texts_of(&a7(0), a7(0).elements(), &bytes), expected);
    // The packet swallowed the start of a synchronization, so it is damaged itself.
    let bytes = [&SYNC[..], &hex("08 00 00 00 00 21 00 80 00 00 6e 11 00 00 00 00 00 80 84")].concat();
    let texts = texts_of(&a7(0xc000), a7(0xc000).elements(), &bytes);
    assert_eq!(texts[texts.len() - 1], "0x18: packets before the first instruction synchronization");
}

/// "Canc" of a branch packet: the instruction of the last atom did not complete.
#[test]
fn canceled_atoms_are_not_committed() {
    let irq = ["exception 14 (IRQ), return unknown", "target address 0x0000000000000018 IS0"];
    let with = |before: &[&str]| [before, &irq].concat().iter().map(|text| (*text).into()).collect::<Vec<String>>();
    let target = "target address 0x0000000000008008 IS0";
    let rows: &[(&str, u32, &str, Vec<String>)] = &[
        ("not canceled", 0, "88 8d 80 80 80 48 1c", with(&["atoms EE"])),
        ("the last of two", 0, "88 8d 80 80 80 48 3c", with(&["atoms E"])),
        ("the only one", 0, "84 8d 80 80 80 48 3c", with(&[])),
        ("with its target", 0, "84 05 8d 80 80 80 48 3c", with(&[])),
        ("not the one before", 0, "84 05 84 8d 80 80 80 48 3c", with(&["atoms E", target])),
        ("times stay", 0, "84 42 05 8d 80 80 80 48 3c", with(&["timestamp 0x5"])),
        ("cycles stay", 0x1000, "84 bc 8d 80 80 80 48 3c", with(&["cycle count 1", "cycle count 8"])),
        ("data go", 0xc, "84 06 05 8d 80 80 80 48 3c", with(&[])),
        ("the exit goes too", 0, "84 76 8d 80 80 80 48 3c", with(&[])),
        (
            "nothing to cancel",
            0,
            "8d 80 80 80 48 3c",
            with(&["0xc: cancel of 1 P0 elements that were never traced or are committed"]),
        ),
    ];
    for (name, cr, bytes, expected) in rows {
        assert_eq!(committed(&a7(*cr), &ARM_START, bytes), *expected, "{name}");
    }
    let m = ["atoms E", "exception 11 (SVC), return unknown", "target address 0x0000000008008040 IS1"];
    assert_eq!(committed(&m3(0), &THUMB_START, "84 76 c1 40 36"), m, "the M profile cancels only the exit");
}

#[test]
fn waiting_elements_are_bounded() {
    let bytes = [&SYNC[..], &ARM_START, &[0x84], &[0x0c; 10_000]].concat();
    let mut decoder = a7(0).committed(Transactions::Resolve);
    let mut released = 0;
    crate::Packets::new(&a7(0), &bytes).for_each(|packet| decoder.push(packet, &mut |_: ElementItem| released += 1));
    assert!(released > 9_000, "{released}");
}

proptest! {
    #[test]
    fn elements_are_in_the_order_of_their_offsets(
        packets in prop::collection::vec(any_packet(&a7(0xd00c)), 0..60),
    ) {
        let mut decoder = a7(0xd00c).committed(Transactions::Resolve);
        let mut offsets = vec![];
        let mut sink = |item: ElementItem| offsets.extend(item.map(|element| element.offset));
        for (offset, value) in (0..).zip(packets) {
            decoder.push(Ok(Located { offset, length: 1, value }), &mut sink);
        }
        decoder.finish(&mut sink);
        prop_assert!(offsets.is_sorted(), "{:?}", offsets);
    }

    /// The short way gives what the long way does, with cycle counts and without.
    #[test]
    fn plain_packets_have_no_other_effect(
        (config, packets) in prop_oneof![Just(a7(0xd00c)), Just(a7(0xc00c))]
            .prop_flat_map(|config| (Just(config), prop::collection::vec(any_packet(&config), 0..60))),
    ) {
        let mut long = config.committed(Transactions::Resolve);
        let mut short = long.clone();
        for (offset, value) in (0..).zip(packets) {
            let (extent, mut expected, mut found) = (Extent { offset, length: 1 }, vec![], vec![]);
            long.push(Ok(extent.locate(value)), &mut |item: ElementItem| expected.push(item));
            let mut sink = |plain: Located<Plain>| {
                found.push(Ok(plain.map(|plain| match plain {
                    Plain::Atoms(atoms) => Element::Atoms(atoms),
                    Plain::Cycles(cycles) => Element::CycleCount(cycles),
                    other => panic!("no packet of ETMv3 means {other:?}"),
                })));
            };
            if !short.plain(extent, &value, &mut sink) {
                short.push(Ok(extent.locate(value)), &mut |item: ElementItem| found.push(item));
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(&short, &long);
        }
    }
}
