//! Elements of packets.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::any_packet::ete_packet;
use super::{ete, etm4, etm4_m};
use crate::etm4::packet::{Address, CycleCount, ExceptionAddress, FewAtoms, Packet, TraceInfo};
use crate::etm4::{Config, ElementDecoder, PacketItem};
use crate::{Context, DecodeElements as _, Element, ElementItem, Located, Malformed, PacketError, Security, SubIsa};

/// The elements of packets.
fn items(config: &Config, packets: &[PacketItem]) -> Vec<ElementItem> {
    let mut decoder = ElementDecoder::new(config);
    let mut items = vec![];
    packets.iter().for_each(|packet| decoder.push(*packet, &mut |item| items.push(item)));
    decoder.finish(&mut |item| items.push(item));
    items
}

fn at(offset: u64, value: Packet) -> PacketItem {
    Ok(Located { offset, length: 1, value })
}

fn texts(config: &Config, packets: &[Packet]) -> Vec<String> {
    let packets: Vec<PacketItem> = (0..).zip(packets).map(|(offset, packet)| at(offset, *packet)).collect();
    items(config, &packets).iter().map(text).collect()
}

fn text(item: &ElementItem) -> String {
    item.map_or_else(|error| error.to_string(), |element| element.value.to_string())
}

const INFO: Packet = Packet::TraceInfo(TraceInfo { info: None, key: None, speculation: None, cycle_threshold: None });

fn low(bits: u8, value: u64) -> Packet {
    Packet::Address(Address::low(SubIsa::Is0, bits, value))
}

#[test]
fn addresses_are_completed_from_the_last_three() {
    let packets = [
        INFO,
        Packet::Address(Address::full(SubIsa::Is0, 0xffff_8000_1234_5678)),
        low(9, 0x0fc),
        low(17, 0x1_0000),
        low(32, 0xdead_bee0),
        Packet::Address(Address::same_as(2)),
        Packet::Address(Address::same_as(0)),
        Packet::Address(Address::low(SubIsa::Is1, 8, 0x02)),
        Packet::SourceAddress(Address::same_as(1)),
        Packet::Address(Address::same_as(1)),
    ];
    let expected = [
        "trace info",
        "target address 0xffff800012345678 IS0",
        "target address 0xffff8000123456fc IS0",
        "target address 0xffff800012350000 IS0",
        "target address 0xffff8000deadbee0 IS0",
        "target address 0xffff8000123456fc IS0",
        "target address 0xffff8000123456fc IS0",
        "target address 0xffff800012345602 IS1",
        "source address 0xffff8000123456fc IS0",
        "target address 0xffff800012345602 IS1",
    ];
    assert_eq!(texts(&ete(), &packets), expected);
}

#[test]
fn trace_info_resets_the_state() {
    let context = Context { el: 1, aarch64: true, security: Security::NonSecure, vmid: Some(3), context_id: None };
    let packets = [
        INFO,
        low(32, 0x1000),
        Packet::Context(Some(context)),
        Packet::Timestamp { value: 0x7f, bits: 7, cycles: None },
        INFO,
        low(9, 4),
        Packet::Context(None),
        Packet::Timestamp { value: 1, bits: 7, cycles: None },
    ];
    let expected = [
        "trace info",
        "target address 0x0000000000001000 IS0",
        "context EL1 nonsecure AArch64 vmid 0x3",
        "timestamp 0x7f",
        "trace info",
        "target address 0x0000000000000004 IS0",
        "context EL0 secure AArch32",
        "timestamp 0x1",
    ];
    assert_eq!(texts(&ete(), &packets), expected);
}

#[test]
fn contexts_and_timestamps_keep_what_a_packet_leaves_out() {
    let context = |vmid, context_id| Context { el: 0, aarch64: true, security: Security::Realm, vmid, context_id };
    let packets = [
        INFO,
        Packet::Context(Some(context(Some(1), Some(2)))),
        Packet::Context(Some(context(None, Some(3)))),
        Packet::AddressContext { address: Address::full(SubIsa::Is0, 8), context: context(Some(4), None) },
        Packet::Timestamp { value: 0x1_2345, bits: 21, cycles: Some(9) },
        Packet::Timestamp { value: 0x01, bits: 7, cycles: None },
        Packet::Timestamp { value: 0xffff_0000_0000_0000, bits: 64, cycles: None },
    ];
    let expected = [
        "trace info",
        "context EL0 realm AArch64 vmid 0x1 contextid 0x2",
        "context EL0 realm AArch64 vmid 0x1 contextid 0x3",
        "context EL0 realm AArch64 vmid 0x4 contextid 0x3",
        "target address 0x0000000000000008 IS0",
        "timestamp 0x12345 after 9 cycles",
        "timestamp 0x12301",
        "timestamp 0xffff000000000000",
    ];
    assert_eq!(texts(&ete(), &packets), expected);
}

#[test]
fn identifiers_that_are_traced_start_at_zero() {
    let context = Context { el: 0, aarch64: true, security: Security::Secure, vmid: None, context_id: None };
    let config = Config { context_ids: true, ..ete() };
    assert_eq!(texts(&config, &[INFO, Packet::Context(Some(context))])[1], "context EL0 secure AArch64 contextid 0x0");
}

#[test]
fn cycle_counts_are_above_the_threshold_and_commit() {
    let info = Packet::TraceInfo(TraceInfo { info: Some(1), cycle_threshold: Some(256), ..TraceInfo::default() });
    let packets = [
        info,
        Packet::CycleCount(CycleCount::Format1 { commit: Some(2), cycles: Some(7) }),
        Packet::CycleCount(CycleCount::Format1 { commit: Some(0), cycles: None }),
        Packet::CycleCount(CycleCount::Format2 { near_maximum: false, commit: 3, cycles: 1 }),
        Packet::CycleCount(CycleCount::Format2 { near_maximum: true, commit: 13, cycles: 2 }),
        Packet::CycleCount(CycleCount::Format3 { commit: 0, cycles: 3 }),
    ];
    let config = Config { max_speculation: 6, ..ete() };
    let expected = [
        "trace info, cycle threshold 256",
        "commit 2",
        "cycle count 263",
        "cycle count unknown",
        "commit 4",
        "cycle count 257",
        "commit 4",
        "cycle count 258",
        "commit 1",
        "cycle count 259",
    ];
    assert_eq!(texts(&config, &packets), expected);
}

#[test]
fn in_commit_mode_1_only_format_2_commits() {
    let packets = [
        INFO,
        Packet::CycleCount(CycleCount::Format1 { commit: None, cycles: Some(7) }),
        Packet::CycleCount(CycleCount::Format3 { commit: 2, cycles: 3 }),
        Packet::CycleCount(CycleCount::Format2 { near_maximum: false, commit: 0, cycles: 1 }),
    ];
    let config = Config { commit_mode_1: true, max_speculation: 3, ..ete() };
    let few = [&packets[..1], &[Packet::Mispredict(FewAtoms::EE)], &packets[1..]].concat();
    let expected =
        ["trace info", "atoms EE", "mispredict", "cycle count 7", "cycle count 3", "commit 2", "cycle count 1"];
    assert_eq!(texts(&config, &few), expected);
}

#[test]
fn an_element_beyond_the_maximum_depth_commits_the_oldest() {
    let atoms = |text: &str| {
        let bits = text.bytes().rev().fold(0, |bits, atom| bits << 1 | u32::from(atom == b'E'));
        Packet::Atoms(crate::Atoms::new(bits, text.len() as u8))
    };
    let config = Config { max_speculation: 4, ..ete() };
    let packets = [
        Packet::TraceInfo(TraceInfo { speculation: Some(2), ..TraceInfo::default() }),
        atoms("EEN"),
        atoms("N"),
        Packet::Commit { count: 2 },
        atoms("EE"),
        Packet::CancelFormat1 { count: 3, mispredict: false },
        atoms("EEE"),
        Packet::Q { count: None, address: None },
    ];
    let expected = [
        "trace info, speculation depth 2",
        "atoms EEN",
        "commit 1",
        "atoms N",
        "commit 1",
        "commit 2",
        "atoms EE",
        "cancel 3",
        "atoms EEE",
        "q",
        "commit 1",
    ];
    assert_eq!(texts(&config, &packets), expected);
}

#[test]
fn atoms_of_cancels_and_mispredicts_come_first() {
    let packets = [
        INFO,
        Packet::Mispredict(FewAtoms::EE),
        Packet::CancelFormat2(FewAtoms::N),
        Packet::CancelFormat3 { count: 4, atom: true },
        Packet::CancelFormat1 { count: 2, mispredict: true },
    ];
    let expected = [
        "trace info",
        "atoms EE",
        "mispredict",
        "atoms N",
        "cancel 1",
        "mispredict",
        "atoms E",
        "cancel 4",
        "mispredict",
        "cancel 2",
        "mispredict",
    ];
    assert_eq!(texts(&Config { max_speculation: 20, ..ete() }, &packets), expected);
}

fn exception(number: u16, address: ExceptionAddress) -> Packet {
    Packet::Exception { number, address, fault_pending: None }
}

#[test]
fn exceptions_take_their_address_from_the_next_packet() {
    let context = Context { el: 1, aarch64: true, security: Security::NonSecure, vmid: None, context_id: None };
    let with_context = Packet::AddressContext { address: Address::full(SubIsa::Is0, 0x4000), context };
    let rows: &[(&str, &[Packet], &[&str])] = &[
        (
            "return address",
            &[exception(14, ExceptionAddress::Return), low(32, 0x2014)],
            &["exception 14 (IRQ), return 0x0000000000002014"],
        ),
        (
            "target and return address",
            &[exception(14, ExceptionAddress::TargetAndReturn), low(32, 0x4000)],
            &["target address 0x0000000000004000 IS0", "exception 14 (IRQ), return 0x0000000000004000"],
        ),
        (
            "with context",
            &[exception(12, ExceptionAddress::TargetAndReturn), with_context],
            &[
                "context EL1 nonsecure AArch64",
                "target address 0x0000000000004000 IS0",
                "exception 12 (data fault), return 0x0000000000004000",
            ],
        ),
        (
            "unknown address",
            &[exception(14, ExceptionAddress::Return), Packet::Ignore],
            &["exception 14 (IRQ), return unknown"],
        ),
        (
            "reset has no return address",
            &[exception(0, ExceptionAddress::Return), low(32, 0x2014)],
            &["exception 0 (PE reset), return unknown"],
        ),
        ("failed transaction", &[exception(24, ExceptionAddress::Return), low(32, 0x2014)], &["transaction failure"]),
        (
            "reset in a transaction",
            &[Packet::TransactionStart, exception(0, ExceptionAddress::Return), low(32, 0)],
            &["transaction start", "transaction failure", "exception 0 (PE reset), return unknown"],
        ),
        (
            "no address",
            &[exception(14, ExceptionAddress::Return), Packet::TraceOn],
            &["0x1: exception without its address", "0x2: packets before the first trace info"],
        ),
        (
            "return address with context",
            &[exception(14, ExceptionAddress::Return), with_context],
            &["context EL1 nonsecure AArch64", "exception 14 (IRQ), return 0x0000000000004000"],
        ),
        ("end of the stream", &[exception(14, ExceptionAddress::Return)], &["0x1: exception without its address"]),
    ];
    for (name, packets, expected) in rows {
        let packets = [&[INFO], *packets].concat();
        assert_eq!(texts(&ete(), &packets)[1..], **expected, "{name}");
    }
}

#[test]
fn m_profile_exceptions_have_their_own_types() {
    let rows: &[(u16, u64, &str)] = &[
        (3, 0x1000, "exception 3 (HardFault), return 0x0000000000001000"),
        (14, 0x1000, "exception 14 (PendSV), return 0x0000000000001000"),
        (16, 0x1000, "exception 16 (external interrupt 0), return 0x0000000000001000"),
        (0x225, 0x1000, "exception 549 (external interrupt 37), return 0x0000000000001000"),
        (24, 0x1000, "exception 24 (debug halt), return 0x0000000000001000"),
        (25, 0x1000, "exception 25 (lazy floating-point state push), return 0x0000000000001000"),
        (0, 0x1000, "exception 0, return 0x0000000000001000"),
        (15, 0xffff_fffe, "exception 15 (SysTick), tail-chained"),
    ];
    for &(number, address, expected) in rows {
        let packets = [INFO, exception(number, ExceptionAddress::Return), low(32, address)];
        assert_eq!(texts(&etm4_m(), &packets)[1..], [expected]);
    }
}

#[test]
fn returns_are_p0_elements_on_the_m_profile() {
    let rows: &[(&str, Config, Packet, Option<&str>)] = &[
        ("exception return", etm4_m(), Packet::ExceptionReturn, Some("commit 1")),
        ("function return", etm4_m(), Packet::FunctionReturn, Some("commit 1")),
        ("exception return elsewhere", etm4(), Packet::ExceptionReturn, None),
    ];
    for &(name, config, packet, commit) in rows {
        let config = Config { max_speculation: 1, ..config };
        let found = texts(&config, &[INFO, Packet::Atoms(crate::Atoms::new(1, 1)), packet]);
        assert_eq!(found.get(3).map(String::as_str), commit, "{name}");
    }
}

#[test]
fn a_note_changes_no_element() {
    let note = Err(PacketError { offset: 2, skipped: 0, kind: Malformed::ReservedBits(0x9a) });
    let packets = [at(0, INFO), at(1, exception(14, ExceptionAddress::Return)), note, at(2, low(32, 0x1000))];
    let found: Vec<String> = items(&ete(), &packets).iter().map(text).collect();
    let expected = [
        "trace info",
        "0x2: reserved bits are set in the packet with header 0x9a",
        "exception 14 (IRQ), return 0x0000000000001000",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_unknown_exception_address_enters_the_history_as_zero() {
    let packets = [INFO, low(32, 0x1234_5678), exception(14, ExceptionAddress::Return), Packet::Ignore, low(9, 4)];
    assert_eq!(texts(&ete(), &packets)[3], "target address 0x0000000000000004 IS0");
}

#[test]
fn etmv4_exception_24_is_an_exception() {
    let packets = [INFO, exception(24, ExceptionAddress::Return), low(32, 0x10)];
    assert!(texts(&etm4(), &packets)[1].starts_with("exception 24"));
}

#[test]
fn overflow_and_discard_end_speculation_and_transactions() {
    let packets = [INFO, Packet::TransactionStart, Packet::Overflow, Packet::Discard];
    let expected = ["trace info", "transaction start", "discard", "overflow", "transaction failure", "discard"];
    assert_eq!(texts(&ete(), &packets), expected);
}

#[test]
fn packets_before_a_trace_info_are_reported() {
    let error = PacketError { offset: 5, skipped: 3, kind: Malformed::ReservedHeader(8) };
    let packets = [
        at(0, Packet::AlignmentSync),
        at(1, Packet::Event { mask: 2 }),
        at(2, low(9, 4)),
        at(3, Packet::TraceOn),
        at(4, INFO),
        Err(error),
        at(8, Packet::AlignmentSync),
        at(9, low(9, 8)),
        at(10, INFO),
        at(11, low(9, 8)),
    ];
    let expected = [
        "event 1",
        "0x2: packets before the first trace info",
        "trace info",
        "0x5: reserved packet header 0x08",
        "0x9: packets before the first trace info",
        "trace info",
        "target address 0x0000000000000008 IS0",
    ];
    assert_eq!(items(&ete(), &packets).iter().map(text).collect::<Vec<_>>(), expected);
}

proptest! {
    #[test]
    fn any_packets_give_elements_in_order(packets in prop::collection::vec(ete_packet(&ete()), 0..60)) {
        let packets: Vec<PacketItem> = (0..).zip(packets).map(|(offset, packet)| at(offset, packet)).collect();
        let mut last = 0;
        for item in items(&ete(), &packets) {
            let offset = item.map_or_else(|error| error.offset, |element| element.offset);
            prop_assert!(offset >= last, "{item:?} after {last}");
            last = offset;
            let shallow = !matches!(item, Ok(Located { value: Element::Atoms(atoms), .. }) if atoms.is_empty());
            prop_assert!(shallow, "an empty run of atoms is no element");
        }
    }
}
