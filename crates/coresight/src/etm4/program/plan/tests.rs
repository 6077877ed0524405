//! Registers of process filters, events, single-shot comparators and timestamp ranges, written by hand from their layouts.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use alloc::{borrow::ToOwned as _, format};

use super::{At, Event, Plan};
use crate::Protocol::Ete;

/// The values that differ from those of the minimal programming (table K10-3).
fn differing(plan: &Plan) -> Vec<(String, u64)> {
    let minimal = Plan::new(Ete).values().unwrap();
    let values = plan.values().unwrap();
    let differs = values.iter().filter(|value| {
        let usual = minimal.iter().find(|usual| usual.register == value.register);
        usual.is_none_or(|usual| usual.value != value.value)
    });
    differs.map(|value| (value.register.clone().into_owned(), value.value)).collect()
}

/// What it shows, a plan, and the registers in which it differs from the minimal programming.
type Row = (&'static str, Plan, &'static [(&'static str, u64)]);

fn at(address: u64) -> Option<Event> {
    Some(Event { at: At::Address(address), once: false })
}

#[test]
fn processes_events_and_timestamps_have_their_registers() {
    let base = Plan::new(Ete);
    let rows: Vec<Row> = vec![
        (
            "a context identifier: an exact filter of all addresses with CONTEXTTYPE 1",
            Plan { only_context_ids: vec![0x12], ..base.clone() },
            &[
                ("TRCVIIECTLR", 1),
                ("TRCACATR0", 4),
                ("TRCACVR0", 0),
                ("TRCACATR1", 4),
                ("TRCACVR1", u64::MAX),
                ("TRCCIDCCTLR0", 0),
                ("TRCCIDCVR0", 0x12),
            ],
        ),
        (
            "five context identifiers: TRCVICTLR.EVENT is a selector of group 6; there are two mask registers",
            Plan { only_context_ids: vec![1, 2, 3, 4, 5], ..base.clone() },
            &[
                ("TRCVICTLR", 0x6f_0202),
                ("TRCRSCTLR2", 0x6_001f),
                ("TRCCIDCCTLR0", 0),
                ("TRCCIDCVR0", 1),
                ("TRCCIDCVR1", 2),
                ("TRCCIDCVR2", 3),
                ("TRCCIDCVR3", 4),
                ("TRCCIDCCTLR1", 0),
                ("TRCCIDCVR4", 5),
            ],
        ),
        (
            "two virtual context identifiers: group 7",
            Plan { only_vmids: vec![3, 4], ..base.clone() },
            &[
                ("TRCVICTLR", 0x6f_0202),
                ("TRCRSCTLR2", 0x7_0003),
                ("TRCVMIDCCTLR0", 0),
                ("TRCVMIDCVR0", 3),
                ("TRCVMIDCVR1", 4),
            ],
        ),
        (
            "one of each: CONTEXTTYPE 3",
            Plan { exclude: vec![4..=8], only_context_ids: vec![2], only_vmids: vec![3], ..base.clone() },
            &[
                ("TRCVIIECTLR", 0x2_0001),
                ("TRCACATR0", 0xc),
                ("TRCACVR0", 0),
                ("TRCACATR1", 0xc),
                ("TRCACVR1", u64::MAX),
                ("TRCACATR2", 0xc),
                ("TRCACVR2", 4),
                ("TRCACATR3", 0xc),
                ("TRCACVR3", 8),
                ("TRCCIDCCTLR0", 0),
                ("TRCCIDCVR0", 2),
                ("TRCVMIDCCTLR0", 0),
                ("TRCVMIDCVR0", 3),
            ],
        ),
        (
            "several of both: a pair of selectors, and all combinations",
            Plan { only_context_ids: vec![1, 2], only_vmids: vec![3], ..base.clone() },
            &[
                ("TRCVICTLR", 0x6f_0281),
                ("TRCRSCTLR2", 0x6_0003),
                ("TRCRSCTLR3", 0x7_0003),
                ("TRCCIDCCTLR0", 0),
                ("TRCCIDCVR0", 1),
                ("TRCVMIDCCTLR0", 0),
                ("TRCVMIDCVR0", 3),
                ("TRCCIDCVR1", 2),
                ("TRCVMIDCVR1", 3),
            ],
        ),
        (
            "a range of one process: its comparators require the context",
            Plan { include: vec![4..=8], only_context_ids: vec![0x12], ..base.clone() },
            &[
                ("TRCVIIECTLR", 1),
                ("TRCACATR0", 4),
                ("TRCACVR0", 4),
                ("TRCACATR1", 4),
                ("TRCACVR1", 8),
                ("TRCCIDCCTLR0", 0),
                ("TRCCIDCVR0", 0x12),
            ],
        ),
        (
            "a start point in two processes has two comparators; the range relies on TRCVICTLR.EVENT",
            Plan { include: vec![4..=8], start: vec![4], only_vmids: vec![1, 2], ..base.clone() },
            &[
                ("TRCVICTLR", 0x6f_0002),
                ("TRCVIIECTLR", 1),
                ("TRCVISSCTLR", 0b1100),
                ("TRCRSCTLR2", 0x7_0003),
                ("TRCACATR0", 0),
                ("TRCACVR0", 4),
                ("TRCACATR1", 0),
                ("TRCACVR1", 8),
                ("TRCACATR2", 0x8),
                ("TRCACVR2", 4),
                ("TRCACATR3", 0x18),
                ("TRCACVR3", 4),
                ("TRCVMIDCCTLR0", 0),
                ("TRCVMIDCVR0", 1),
                ("TRCVMIDCVR1", 2),
            ],
        ),
        (
            "events at addresses: group 4, one selector and one bit of INSTEN each",
            Plan { events: [at(0x40), None, None, at(0x80)], ..base.clone() },
            &[
                ("TRCEVENTCTL0R", 0x0300_0002),
                ("TRCEVENTCTL1R", 0b1001),
                ("TRCRSCTLR2", 0x4_0001),
                ("TRCRSCTLR3", 0x4_0002),
                ("TRCACATR0", 0),
                ("TRCACVR0", 0x40),
                ("TRCACATR1", 0),
                ("TRCACVR1", 0x80),
            ],
        ),
        (
            "an event of a range: group 5; the pair comes before the start point",
            Plan {
                start: vec![0x40],
                events: [None, Some(Event { at: At::Range(4..=8), once: false }), None, None],
                ..base.clone()
            },
            &[
                ("TRCEVENTCTL0R", 0x200),
                ("TRCEVENTCTL1R", 0b10),
                ("TRCVICTLR", 0x6f_0001),
                ("TRCVISSCTLR", 0b100),
                ("TRCRSCTLR2", 0x5_0001),
                ("TRCACATR0", 0),
                ("TRCACVR0", 4),
                ("TRCACATR1", 0),
                ("TRCACVR1", 8),
                ("TRCACATR2", 0),
                ("TRCACVR2", 0x40),
            ],
        ),
        (
            "single-shot: group 3; SAC for an address, ARC for a range, and no match yet",
            Plan {
                events: [
                    Some(Event { at: At::Address(0x40), once: true }),
                    Some(Event { at: At::Range(4..=8), once: true }),
                    None,
                    None,
                ],
                ..base.clone()
            },
            &[
                ("TRCEVENTCTL0R", 0x302),
                ("TRCEVENTCTL1R", 0b11),
                ("TRCRSCTLR2", 0x3_0001),
                ("TRCRSCTLR3", 0x3_0002),
                ("TRCSSCCR0", 0b100),
                ("TRCSSCSR0", 0),
                ("TRCSSCCR1", 0x1_0000),
                ("TRCSSCSR1", 0),
                ("TRCACATR0", 0),
                ("TRCACVR0", 4),
                ("TRCACATR1", 0),
                ("TRCACVR1", 8),
                ("TRCACATR2", 0),
                ("TRCACVR2", 0x40),
            ],
        ),
        (
            "timestamps of two ranges: TRCTSCTLR has a selector of both",
            Plan { exclude: vec![0..=3], timestamps_in: vec![4..=8, 0x10..=0x18], ..base },
            &[
                ("TRCTSCTLR", 2),
                ("TRCVIIECTLR", 0x1_0000),
                ("TRCRSCTLR2", 0x5_0006),
                ("TRCACATR0", 0),
                ("TRCACVR0", 0),
                ("TRCACATR1", 0),
                ("TRCACVR1", 3),
                ("TRCACATR2", 0),
                ("TRCACVR2", 4),
                ("TRCACATR3", 0),
                ("TRCACVR3", 8),
                ("TRCACATR4", 0),
                ("TRCACVR4", 0x10),
                ("TRCACATR5", 0),
                ("TRCACVR5", 0x18),
            ],
        ),
    ];
    for (name, plan, wanted) in rows {
        let wanted: Vec<(String, u64)> = wanted.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(differing(&plan), wanted, "{name}");
    }
}

/// Eight processes, and everything else that then still fits.
#[test]
fn the_limits_of_the_architecture_can_be_used() {
    let plan = Plan {
        only_context_ids: (0..8).collect(),
        start: vec![0x1000],
        events: [at(0x2000), None, None, None],
        ..Plan::new(Ete)
    };
    let values = plan.values().unwrap();
    let last = values.iter().rfind(|value| value.register.starts_with("TRCACVR")).unwrap();
    assert_eq!(format!("{} {:#x}", last.register, last.value), "TRCACVR15 0x2000");
}
