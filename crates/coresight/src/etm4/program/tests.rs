//! Values from the tables of the specification, and the consequences of registers.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::Protocol::{Ete, Etm4};
use crate::trace_buffer::FillMode;

fn value(values: &[Value], register: &str) -> Option<u64> {
    values.iter().find(|value| value.register == register).map(|value| value.value)
}

/// The tables for minimal, exclude and include programming.
#[test]
fn values_are_those_of_the_specification() {
    let minimal = Plan::new(Ete);
    let mut exclude = minimal.clone();
    exclude.exclude = vec![0x8000..=0x8ffc];
    let mut include = minimal.clone();
    include.include = vec![0x8000..=0x8ffc];
    for (plan, ranges, comparators) in [(minimal, 0, false), (exclude, 0x1_0000, true), (include, 1, true)] {
        let values = plan.values().unwrap();
        let rows = [
            ("TRCCONFIGR", 0x18c1),
            ("TRCEVENTCTL0R", 0),
            ("TRCEVENTCTL1R", 0),
            ("TRCSTALLCTLR", 0),
            ("TRCSYNCPR", 0xc),
            ("TRCTSCTLR", 0),
            ("TRCVICTLR", 0x6f_0201),
            ("TRCVIIECTLR", ranges),
            ("TRCVISSCTLR", 0),
        ];
        for (register, wanted) in rows {
            assert_eq!(value(&values, register), Some(wanted), "{register}");
        }
        assert_ne!(value(&values, "TRCTRACEIDR"), Some(0));
        let of_comparators = ["TRCACATR0", "TRCACVR0", "TRCACATR1", "TRCACVR1"].map(|name| value(&values, name));
        let wanted = [Some(0), Some(0x8000), Some(0), Some(0x8ffc)];
        assert_eq!(of_comparators, if comparators { wanted } else { [None; 4] });
    }
}

/// K10.5.9: TRCRSR is new in ETE. Nothing was traced before the trace unit is enabled.
#[test]
fn no_trace_is_active_before_an_ete_is_enabled() {
    for (protocol, wanted) in [(Ete, Some(0)), (Etm4, None)] {
        assert_eq!(value(&Plan::new(protocol).values().unwrap(), "TRCRSR"), wanted, "{protocol}");
    }
}

#[test]
fn options_have_their_bits() {
    let base = Plan { return_stack: false, timestamps: false, context_ids: false, ..Plan::new(Ete) };
    let all = Plan { levels: Levels::ALL, ..base.clone() };
    let secure = Plan { levels: Levels { secure: 0b1010, non_secure: 0, realm: 0b1 }, ..base.clone() };
    let rows: [(Plan, &str, u64); 10] = [
        (base.clone(), "TRCCONFIGR", 0x1),
        (Plan { return_stack: true, ..base.clone() }, "TRCCONFIGR", 0x1001),
        (Plan { timestamps: true, ..base.clone() }, "TRCCONFIGR", 0x801),
        (Plan { context_ids: true, ..base.clone() }, "TRCCONFIGR", 0xc1),
        (Plan { cycle_threshold: Some(0x100), ..base.clone() }, "TRCCCCTLR", 0x100),
        (Plan { branch_broadcast: true, ..base.clone() }, "TRCCONFIGR", 0x9),
        (Plan { sync_bytes: 1 << 20, ..base.clone() }, "TRCSYNCPR", 20),
        (all, "TRCVICTLR", 0x201),
        // Excludes Non-secure EL0 to EL2, and Realm EL1 and EL2.
        (secure, "TRCVICTLR", 0x0175_0201),
        (
            Plan { include: vec![0..=3], start: vec![8], stop: vec![16, 32], ..base },
            "TRCVISSCTLR",
            1 << 2 | 0b11000 << 16,
        ),
    ];
    for (plan, register, wanted) in rows {
        assert_eq!(value(&plan.values().unwrap(), register), Some(wanted), "{register}");
    }
}

#[test]
fn start_points_stop_the_start_stop_logic() {
    let plan = Plan { start: vec![0x1000], ..Plan::new(Etm4) };
    let values = plan.values().unwrap();
    assert_eq!(value(&values, "TRCVICTLR"), Some(0x6f_0001));
    assert_eq!(value(&values, "TRCACVR0"), Some(0x1000));
}

#[test]
fn buffers_have_their_registers() {
    let buffer = Buffer { base: 0x10_0000, limit: 0x14_0000, mode: FillMode::Fill, watermark: None };
    let rows = [
        (buffer, 0x10_0000, 0, 0, 0x14_0019),
        (Buffer { mode: FillMode::Circular, ..buffer }, 0x10_0000, 0, 0, 0x14_001f),
        (Buffer { mode: FillMode::Wrap, watermark: Some(0x3000), ..buffer }, 0x13_d000, 0, 0, 0x14_001b),
        (Buffer { watermark: Some(0x3000), ..buffer }, 0x10_0000, 0x3000, 1 << 21, 0x14_0009),
    ];
    for (buffer, pointer, trigger, status, limit) in rows {
        let values = Plan { buffer: Some(buffer), ..Plan::new(Ete) }.values().unwrap();
        let of = |name| value(&values, name);
        assert_eq!(of("TRBBASER_EL1"), Some(0x10_0000));
        let got = [of("TRBPTR_EL1"), of("TRBTRG_EL1"), of("TRBSR_EL1"), of("TRBLIMITR_EL1")];
        assert_eq!(got, [Some(pointer), Some(trigger), Some(status), Some(limit)]);
    }
}

#[test]
fn invalid_plans_are_rejected() {
    let plan = Plan::new(Ete);
    let buffer = Buffer { base: 0x1000, limit: 0x3000, mode: FillMode::Fill, watermark: None };
    let range = |low: u64, high: u64| low..=high;
    let rows = [
        (Plan { trace_id: 0, ..plan.clone() }, Unprogrammable::TraceId(0)),
        (Plan { trace_id: 0x70, ..plan.clone() }, Unprogrammable::TraceId(0x70)),
        (Plan { include: vec![range(8, 4)], ..plan.clone() }, Unprogrammable::Range(8, 4)),
        (Plan { exclude: vec![range(0, 4); 8], stop: vec![0], ..plan.clone() }, Unprogrammable::Comparators(17)),
        (Plan { sync_bytes: 128, ..plan.clone() }, Unprogrammable::SyncBytes(128)),
        (Plan { sync_bytes: 5000, ..plan.clone() }, Unprogrammable::SyncBytes(5000)),
        (Plan { cycle_threshold: Some(0), ..plan.clone() }, Unprogrammable::CycleThreshold(0)),
        (Plan { cycle_threshold: Some(4096), ..plan.clone() }, Unprogrammable::CycleThreshold(4096)),
        (
            Plan { buffer: Some(Buffer { limit: 0x3800, ..buffer }), ..plan.clone() },
            Unprogrammable::Buffer(0x1000, 0x3800),
        ),
        (
            Plan { buffer: Some(Buffer { watermark: Some(0x2001), ..buffer }), ..plan.clone() },
            Unprogrammable::Watermark(0x2001),
        ),
        (Plan { buffer: Some(buffer), ..Plan::new(Etm4) }, Unprogrammable::NotInEtm4("trace buffer")),
        (Plan { levels: Levels::ALL, ..Plan::new(Etm4) }, Unprogrammable::NotInEtm4("Realm")),
        (Plan { only_context_ids: vec![1; 9], ..plan.clone() }, Unprogrammable::Identifiers(9)),
        (Plan { only_vmids: vec![1; 9], ..plan.clone() }, Unprogrammable::Identifiers(9)),
        (Plan { only_context_ids: vec![1; 3], only_vmids: vec![1; 3], ..plan.clone() }, Unprogrammable::Identifiers(9)),
        // An address takes a comparator in each of the processes.
        (Plan { only_context_ids: vec![1; 6], start: vec![0; 3], ..plan.clone() }, Unprogrammable::Comparators(18)),
        (Plan { timestamps_in: vec![range(8, 4)], ..plan.clone() }, Unprogrammable::Range(8, 4)),
        (Plan { timestamps_in: vec![range(4, 8); 9], ..plan.clone() }, Unprogrammable::Comparators(18)),
        (Plan { timestamps_in: vec![range(4, 8)], timestamps: false, ..plan.clone() }, Unprogrammable::TimestampsOff),
        (
            Plan { events: [None, Some(Event { at: At::Range(range(8, 4)), once: true }), None, None], ..plan.clone() },
            Unprogrammable::Range(8, 4),
        ),
    ];
    for (plan, wanted) in rows {
        assert_eq!(plan.values().unwrap_err(), wanted);
    }
}

#[test]
fn eight_ranges_fit() {
    let ranges: Vec<_> = (0..8_u64).map(|number| number << 12..=(number << 12) + 0xffc).collect();
    let values = Plan { include: ranges, ..Plan::new(Ete) }.values().unwrap();
    assert_eq!(value(&values, "TRCVIIECTLR"), Some(0xff));
    assert_eq!(value(&values, "TRCACVR15"), Some(0x7ffc));
}

fn remarks(registers: &[(&str, u64)]) -> Vec<String> {
    let remarks = audit(Ete, registers.iter().copied());
    remarks.iter().map(|remark| format!("{:?} {}: {}", remark.verdict, remark.register, remark.text)).collect()
}

#[test]
fn registers_of_a_plan_have_no_problems() {
    let plan = Plan { include: vec![0x8000..=0x8ffc], exclude: vec![0x8100..=0x81fc], ..Plan::new(Ete) };
    let values = plan.values().unwrap();
    let remarks = audit(Ete, values.iter().map(|value| (&*value.register, value.value)));
    assert!(remarks.iter().all(|remark| matches!(remark.verdict, Verdict::Traced | Verdict::NotTraced)), "{remarks:?}");
    let texts: Vec<&str> = remarks.iter().map(|remark| &*remark.text).collect();
    assert!(texts.contains(&"instructions at Non-secure EL0, Realm EL0"));
    assert!(texts.contains(&"only instructions in 0x8000 to 0x8ffc"));
    assert!(texts.contains(&"instructions in 0x8100 to 0x81fc"));
}

/// Every kind of filter and event at once, in a trace unit that has just enough of everything.
#[test]
fn a_plan_with_everything_has_no_problems() {
    let at = |at, once| Some(Event { at, once });
    let plan = Plan {
        include: vec![0x8000..=0x8fff],
        start: vec![0x8000],
        only_context_ids: vec![0x12],
        only_vmids: vec![3],
        timestamps_in: vec![0x8100..=0x81ff],
        events: [at(At::Address(0x8010), false), None, at(At::Address(0x8020), true), at(At::Range(4..=8), true)],
        ..Plan::new(Ete)
    };
    let values = plan.values().unwrap();
    let registers = values.iter().map(|value| (&*value.register, value.value));
    let remarks = audit(Ete, registers.chain([("TRCIDR4", 0x1122_0005)]));
    assert!(remarks.iter().all(|remark| matches!(remark.verdict, Verdict::Traced | Verdict::NotTraced)), "{remarks:?}");
    let context = "with context identifier 0x12 and virtual context identifier 0x3";
    let rows = [
        format!("only instructions in 0x8000 to 0x8fff {context}"),
        format!("from 0x8000 {context} on"),
        format!("timestamps while this holds: code from 0x8100 to 0x81ff executed {context}"),
        format!("event 0, when this starts to hold: address 0x8010 executed {context}"),
        format!("event 2, when this starts to hold: address 0x8020 executed {context} for the first time"),
        format!("event 3, when this starts to hold: code from 0x4 to 0x8 executed {context} for the first time"),
    ];
    for wanted in rows {
        assert!(remarks.iter().any(|remark| remark.text == wanted), "{wanted}: {remarks:#?}");
    }
    // One of each less is too few.
    for identification in [0x0122_0005, 0x1022_0005, 0x1112_0005, 0x1121_0005, 0x1122_0004] {
        let registers = values.iter().map(|value| (&*value.register, value.value));
        let remarks = audit(Ete, registers.chain([("TRCIDR4", identification)]));
        assert!(remarks.iter().any(|remark| remark.verdict == Verdict::Problem), "{identification:#x}");
    }
}

#[test]
fn remarks_of_registers() {
    let rows: &[(&[(&str, u64)], &str)] = &[
        (&[("TRCPRGCTLR", 0)], "NotTraced TRCPRGCTLR: anything: the trace unit is off"),
        (&[("trfcr_el1", 1)], "NotTraced TRFCR_EL1: EL1: the PE prohibits it"),
        (&[], "Unknown TRCVICTLR: which instructions are traced"),
        (&[], "Unknown TRCCONFIGR: which elements are traced"),
        (&[("TRCVICTLR", 0x200)], "NotTraced TRCVICTLR: anything: its event never occurs"),
        (&[("TRCVICTLR", 0x203)], "Traced TRCVICTLR: only while its event holds: resource selector 3"),
        (&[("TRCVICTLR", 0x203)], "Unknown TRCRSCTLR3: what resource selector 3 selects"),
        (
            &[("TRCVICTLR", 0x205), ("TRCIDR4", 0x1_0000)],
            "Problem TRCVICTLR: resource selector 5 is used, but there are only 4",
        ),
        (
            &[("TRCVICTLR", 0x202), ("TRCIDR4", 0)],
            "Problem TRCVICTLR: resource selector 2 is used, but none can be programmed",
        ),
        (
            &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x5_0002), ("TRCIDR4", 0x1_0001)],
            "Problem TRCRSCTLR2: address comparator 3 is used, but there are only 2",
        ),
        (
            &[
                ("TRCVICTLR", 0x281),
                ("TRCRSCTLR2", 0x14_0003),
                ("TRCRSCTLR3", 0x6_0001),
                ("TRCACVR0", 4),
                ("TRCACVR1", 8),
            ],
            "Traced TRCVICTLR: only while its event holds: not (address 0x4 executed or address 0x8 executed) and context identifier comparator 0 matches",
        ),
        (
            &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x5_0001), ("TRCACVR0", 4), ("TRCACVR1", 8)],
            "Traced TRCVICTLR: only while its event holds: code from 0x4 to 0x8 executed",
        ),
        (
            &[("TRCVICTLR", 0x281), ("TRCRSCTLR2", 0x34_0001), ("TRCRSCTLR3", 0x6_0004), ("TRCACVR0", 4)],
            "Traced TRCVICTLR: only while its event holds: not (not (address 0x4 executed) and context identifier comparator 2 matches)",
        ),
        (
            &[("TRCCONFIGR", 1), ("TRCEVENTCTL0R", 0x200), ("TRCEVENTCTL1R", 2), ("TRCRSCTLR2", 0x3_0001)],
            "Traced TRCEVENTCTL1R: event 1, when this starts to hold: single-shot comparator 0 fires",
        ),
        (
            &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x3_0002), ("TRCIDR4", 0x11_0001)],
            "Problem TRCRSCTLR2: single-shot comparator 1 is used, but there are only 1",
        ),
        (
            &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x3_0001), ("TRCSSCCR0", 4), ("TRCIDR4", 0x11_0001)],
            "Problem TRCSSCCR0: address comparator 2 is used, but there are only 2",
        ),
        (
            &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x6_0001), ("TRCIDR4", 0x1_0000)],
            "Problem TRCRSCTLR2: context identifier comparator 0 is used, but there are none",
        ),
        (
            &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x7_0002), ("TRCIDR4", 0x1001_0000)],
            "Problem TRCRSCTLR2: virtual context identifier comparator 1 is used, but there are only 1",
        ),
        (
            &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x6_0001)],
            "Unknown TRCCIDCVR0: what context identifier comparator 0 compares with",
        ),
        (
            &[("TRCVIIECTLR", 1), ("TRCACVR0", 4), ("TRCACVR1", 8), ("TRCACATR0", 4), ("TRCCIDCVR0", 0x12)],
            "Traced TRCVIIECTLR: only instructions in 0x4 to 0x8 with context identifier 0x12",
        ),
        (
            &[("TRCVIIECTLR", 1), ("TRCACVR0", 4), ("TRCACVR1", 8), ("TRCACATR1", 0x18), ("TRCIDR4", 0x1000_0001)],
            "Problem TRCACATR1: virtual context identifier comparator 1 is used, but there are only 1",
        ),
        (
            &[
                ("TRCCONFIGR", 0x801),
                ("TRCTSCTLR", 2),
                ("TRCRSCTLR2", 0x5_0001),
                ("TRCACVR0", 0x8000),
                ("TRCACVR1", 0x8fff),
            ],
            "Traced TRCTSCTLR: timestamps while this holds: code from 0x8000 to 0x8fff executed",
        ),
        (
            &[("TRCVIIECTLR", 1), ("TRCACVR0", 0), ("TRCACVR1", u64::MAX), ("TRCACATR0", 4), ("TRCCIDCVR0", 0x12)],
            "Traced TRCVIIECTLR: only instructions in all addresses with context identifier 0x12",
        ),
        (
            &[
                ("TRCVICTLR", 0x281),
                ("TRCRSCTLR2", 0x6_0001),
                ("TRCRSCTLR3", 0x7_0001),
                ("TRCCIDCVR0", 0x12),
                ("TRCVMIDCVR0", 3),
            ],
            "Traced TRCVICTLR: only while its event holds: context identifier is 0x12 and virtual context identifier is 0x3",
        ),
        (&[("TRCCONFIGR", 0x2001)], "NotTraced TRCCONFIGR: branches that Q elements replace"),
        (
            &[("TRCCONFIGR", 0x4001)],
            "Problem TRCCONFIGR: Q elements: 2 is reserved; 1 is with counts, 3 is with and without",
        ),
        (
            &[("TRCCONFIGR", 0x2001), ("TRCIDR0", 1)],
            "Problem TRCCONFIGR: Q elements: not supported according to TRCIDR0",
        ),
        (&[("TRCVICTLR", 0x7f_0201)], "Problem TRCVICTLR: every Exception level is left out"),
        (
            &[("TRCVICTLR", 0x6f_0201), ("TRCIDR3", 0x30_0000), ("TRCIDR6", 0)],
            "Traced TRCVICTLR: instructions at Non-secure EL0",
        ),
        (&[("TRCVICTLR", 0x1)], "Problem TRCVICTLR: start/stop logic is stopped, and nothing starts it"),
        (
            &[("TRCVICTLR", 0x1), ("TRCVISSCTLR", 1), ("TRCACVR0", 0x1000)],
            "NotTraced TRCVISSCTLR: anything before 0x1000",
        ),
        (
            &[("TRCVICTLR", 0x201), ("TRCVISSCTLR", 0x2_0000), ("TRCACVR1", 0x1000)],
            "NotTraced TRCVISSCTLR: anything after 0x1000",
        ),
        (&[("TRCVIIECTLR", 2)], "Unknown TRCACVR3: the address to compare with"),
        (
            &[("TRCVIIECTLR", 2), ("TRCIDR4", 1)],
            "Problem TRCVIIECTLR: address comparator 3 is used, but there are only 2",
        ),
        (
            &[("TRCVIIECTLR", 1), ("TRCACVR0", 8), ("TRCACVR1", 4)],
            "Problem TRCACVR0: the range 0x8..0x4 ends before it starts",
        ),
        (
            &[("TRCVIIECTLR", 1), ("TRCACVR0", 4), ("TRCACVR1", 8), ("TRCACATR0", 0x1000)],
            "Traced TRCVIIECTLR: only instructions in 0x4 to 0x8 (does not match at Non-secure EL0, does not match at Realm EL0)",
        ),
        (&[("TRCCONFIGR", 0)], "Problem TRCCONFIGR: bit 0 is reserved and must be one"),
        (
            &[("TRCCONFIGR", 0x11), ("TRCIDR0", 1)],
            "Problem TRCCONFIGR: cycle counts: not supported according to TRCIDR0",
        ),
        (
            &[("TRCCONFIGR", 0x11), ("TRCCCCTLR", 3), ("TRCIDR3", 4)],
            "Problem TRCCCCTLR: a threshold of 3 cycles, but the minimum is 4",
        ),
        (
            &[("TRCCONFIGR", 9), ("TRCBBCTLR", 0x100)],
            "Problem TRCBBCTLR: branches are broadcast in ranges only, but no range is selected",
        ),
        (
            &[("TRCCONFIGR", 9), ("TRCBBCTLR", 0x102), ("TRCIDR4", 1)],
            "Problem TRCBBCTLR: address comparator 3 is used, but there are only 2",
        ),
        (&[("TRCEVENTCTL1R", 2)], "Unknown TRCCONFIGR: which elements are traced"),
        (&[("TRCCONFIGR", 1), ("TRCEVENTCTL1R", 2)], "NotTraced TRCEVENTCTL1R: event 1, which never occurs"),
        (&[("TRCSYNCPR", 4)], "Problem TRCSYNCPR: period 4 is reserved: choose one from 8 to 20"),
        (&[("TRCTRACEIDR", 0)], "Problem TRCTRACEIDR: trace id 0x0 is reserved"),
    ];
    for (registers, wanted) in rows {
        let remarks = remarks(registers);
        assert!(remarks.iter().any(|remark| remark == wanted), "{wanted}: {remarks:#?}");
    }
}

#[test]
fn only_implemented_registers_are_saved() {
    let of = |register: &'static str, value| Value { register: register.into(), value, why: String::new() };
    let values = [of("TRCIDR4", 0x0512_0001), of("TRCIDR5", 0), of("TRCIDR0", 0), of("TRCIDR3", 0)];
    let text = listing(Listing::Save, &values, false);
    let has = |register: &str| text.contains(&format!("mrs x1, {register}\n"));
    let rows =
        [("trcacvr1", true), ("trcacvr2", false), ("trcrsctlr1", false), ("trcrsctlr5", true), ("trcrsctlr6", false)];
    for (register, is_saved) in rows {
        assert_eq!(has(register), is_saved, "{register}");
    }
    assert!(!has("trccntvr0") && !has("trcseqevr0") && !has("trblimitr_el1"));
    assert!(has("trcssccr0") && !has("trcssccr1") && !has("trcsspcicr0") && !has("trcvipcssctlr"));
    assert!(has("trccidcvr4") && has("trccidcctlr1") && !has("trcvmidcvr0") && !has("trcvmidcctlr0"));
    assert!(!has("trcqctlr") && !has("trcstallctlr") && !has("trcseqstr") && has("trcprgctlr"));
}

/// The list of K10.5.7.6: all of its registers are saved if no identification register shows that they are missing.
#[test]
fn all_registers_of_the_list_are_saved() {
    let text = listing(Listing::Save, &[], false);
    let count = |number: u32| if number == 0 { 1 } else { number as usize };
    // The first two resource selectors are constants.
    let wanted = SAVED.iter().map(|(_, number)| count(*number)).sum::<usize>() - 2;
    assert_eq!(text.matches("    str x1, [x2, #").count(), wanted);
    assert_eq!(SAVED.len(), 35);
}

/// Registers of a capture that only identify the trace unit are not written.
#[test]
fn identification_registers_are_not_written() {
    let of = |register: &'static str, value| Value { register: register.into(), value, why: String::new() };
    let values = [of("TRCIDR4", 1), of("TRCPRGCTLR", 1), of("TRCDEVARCH", 1), of("TRCCONFIGR", 1), of("TRCACVR3", 1)];
    let text = listing(Listing::Enable, &values, false);
    let written: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("msr ")).collect();
    let written: Vec<&str> = written.iter().filter_map(|line| line.split(',').next()).collect();
    assert_eq!(written, ["trcconfigr", "trcacvr3", "trcprgctlr"]);
}
