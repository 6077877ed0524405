//! Conditions from register values, written by hand from the layouts of TRCEVENTCTL0R and TRCRSCTLR.

use alloc::format;
use alloc::string::String;

use super::event_meanings;
use crate::Protocol::{self, Ete, Etm4};

fn meaning(protocol: Protocol, event: u64, registers: &[(&str, u64)]) -> Option<String> {
    let names = |address| (address == 0x40_0580).then(|| String::from("main"));
    let registers = registers.iter().copied().chain([("trceventctl0r", event)]);
    let [meaning, ..] = event_meanings(protocol, registers, &names);
    meaning
}

/// Protocol, event, registers, and the meaning.
type Row = (Protocol, u64, &'static [(&'static str, u64)], &'static str);

/// K10.5.2.17 numbers events; TRCEVENTCTL0R and the resource selectors have their causes.
#[test]
fn meanings_of_events() {
    const ADDRESS: (&str, u64) = ("TRCACVR0", 0x40_0580);
    let rows: &[Row] = &[
        (Ete, 1, &[], "always"),
        (Ete, 2, &[("TRCRSCTLR2", 0x4_0001), ADDRESS], "address 0x400580 <main> executed"),
        (Ete, 2, &[("TRCRSCTLR2", 0x4_0001), ("TRCACVR0", 4)], "address 0x4 executed"),
        (Ete, 2, &[("TRCRSCTLR2", 0x4_0001)], "address comparator 0 matches"),
        (
            Ete,
            2,
            &[("TRCRSCTLR2", 0x4_0003), ("TRCACVR0", 4), ("TRCACVR1", 8)],
            "address 0x4 executed or address 0x8 executed",
        ),
        (Ete, 2, &[("TRCRSCTLR2", 0x14_0001), ("TRCACVR0", 4)], "not (address 0x4 executed)"),
        (Ete, 31, &[("TRCRSCTLR31", 0x5_0002), ("TRCACVR2", 4), ("TRCACVR3", 8)], "code from 0x4 to 0x8 executed"),
        (Ete, 2, &[("TRCRSCTLR2", 0x5_0002), ("TRCACVR2", 4)], "address range comparator 1 matches"),
        (
            Ete,
            2,
            &[("TRCRSCTLR2", 0x4_0001), ("TRCACVR0", 4), ("TRCACATR0", 0x1c), ("TRCCIDCVR1", 0x12)],
            "address 0x4 executed with context identifier 0x12 and virtual context identifier of comparator 1",
        ),
        (
            Ete,
            2,
            &[("TRCRSCTLR2", 0x4_0001), ("TRCACVR0", 4), ("TRCACATR0", 0x2000)],
            "address 0x4 executed (does not match at Non-secure EL1, does not match at Realm EL1)",
        ),
        (Etm4, 2, &[("TRCRSCTLR2", 0x4_0001), ("TRCACVR0", 4), ("TRCACATR0", 1)], "address 0x4 accessed (loads)"),
        (Ete, 2, &[("TRCRSCTLR2", 0x3_0001)], "single-shot comparator 0 fires"),
        (
            Ete,
            2,
            &[("TRCRSCTLR2", 0x3_0001), ("TRCSSCCR0", 1), ("TRCACVR0", 4)],
            "address 0x4 executed for the first time",
        ),
        (Ete, 2, &[("TRCRSCTLR2", 0x3_0001), ("TRCSSCCR0", 0x100_0001), ("TRCACVR0", 4)], "address 0x4 executed"),
        (
            Ete,
            2,
            &[("TRCRSCTLR2", 0x3_0001), ("TRCSSCCR0", 0x2_0001), ("TRCACVR0", 4), ("TRCSSPCICR0", 2)],
            "(address 0x4 executed or address range comparator 1 matches or PE comparator input 1 matches) \
             for the first time",
        ),
        (Ete, 2, &[("TRCRSCTLR2", 0x6_0001), ("TRCCIDCVR0", 0x12)], "context identifier is 0x12"),
        (
            Ete,
            2,
            &[("TRCRSCTLR2", 0x6_0020), ("TRCCIDCVR5", 0x12), ("TRCCIDCCTLR1", 0xc00)],
            "context identifier is 0x12 without bytes 2/3",
        ),
        (
            Ete,
            2,
            &[("TRCRSCTLR2", 0x7_0001), ("TRCVMIDCVR0", 3), ("TRCVMIDCCTLR0", 0xff)],
            "virtual context identifier is anything",
        ),
        (Ete, 2, &[("TRCRSCTLR2", 0x2_0002)], "counter 1 is zero"),
        (Ete, 2, &[("TRCRSCTLR2", 0x2_0080)], "the sequencer is in state 3"),
        (Ete, 2, &[("TRCRSCTLR2", 0x1_0004)], "PE comparator input 2 matches"),
        (Ete, 2, &[("TRCRSCTLR2", 0x2)], "external input selector 1 is active"),
        (Ete, 2, &[("TRCRSCTLR2", 0x2), ("TRCEXTINSELR1", 0x3c)], "PMU event 0x3c occurs"),
        (Ete, 2, &[("TRCRSCTLR2", 0x1), ("TRCEXTINSELR0", 0x400e)], "PMU event TRB_TRIG (0x400e) occurs"),
        (Etm4, 2, &[("TRCRSCTLR2", 0x2), ("TRCEXTINSELR", 0x500)], "external input 5 is active"),
        (Ete, 2, &[("TRCRSCTLR2", 0x9_0001)], "undefined resource 0 of group 9"),
        // Pairs: both, not both, either and neither.
        (
            Ete,
            0x81,
            &[("TRCRSCTLR2", 0x4_0001), ("TRCRSCTLR3", 0x2_0001), ("TRCACVR0", 4)],
            "address 0x4 executed and counter 0 is zero",
        ),
        (
            Ete,
            0x81,
            &[("TRCRSCTLR2", 0x24_0001), ("TRCRSCTLR3", 0x2_0001), ("TRCACVR0", 4)],
            "not (address 0x4 executed and counter 0 is zero)",
        ),
        (
            Ete,
            0x81,
            &[("TRCRSCTLR2", 0x34_0001), ("TRCRSCTLR3", 0x12_0001), ("TRCACVR0", 4)],
            "address 0x4 executed or counter 0 is zero",
        ),
        (
            Ete,
            0x81,
            &[("TRCRSCTLR2", 0x14_0001), ("TRCRSCTLR3", 0x12_0001), ("TRCACVR0", 4)],
            "not (address 0x4 executed or counter 0 is zero)",
        ),
        (
            Ete,
            0x82,
            &[("TRCRSCTLR4", 0x2_0003), ("TRCRSCTLR5", 0x14_0001), ("TRCACVR0", 4)],
            "(counter 0 is zero or counter 1 is zero) and not (address 0x4 executed)",
        ),
        (Ete, 0x81, &[("TRCRSCTLR2", 0x2_0001)], "counter 0 is zero and resource selector 3"),
    ];
    for &(protocol, event, registers, wanted) in rows {
        assert_eq!(meaning(protocol, event, registers).as_deref(), Some(wanted), "{event:#x} {registers:x?}");
    }
}

/// A number is all there is to show.
#[test]
fn unknown_events_have_no_meaning() {
    let rows: &[(u64, &[(&str, u64)])] =
        &[(0, &[]), (2, &[]), (0x81, &[]), (0x80, &[]), (2, &[("TRCRSCTLR2", 0x4_0000)])];
    for (event, registers) in rows {
        assert_eq!(meaning(Ete, *event, registers), None, "{event:#x} {registers:x?}");
    }
    assert_eq!(event_meanings(Ete, [("TRCRSCTLR2", 0x4_0001)], &|_| None), [const { None }; 4]);
}

#[test]
fn each_event_has_its_field() {
    let registers = [("TRCEVENTCTL0R", 0x0504_0302), ("TRCRSCTLR2", 0x2_0001), ("TRCRSCTLR4", 0x2_0004)];
    let meanings = event_meanings(Ete, registers, &|_| None);
    assert_eq!(format!("{meanings:?}"), r#"[Some("counter 0 is zero"), None, Some("counter 2 is zero"), None]"#);
}
