//! The trace unit, packet by packet.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::exception::PE_RESET;
use crate::{Packets, Protocol, SubIsa};

fn texts(unit: &Unit) -> Vec<String> {
    let packets = Packets::new(&unit.config, unit.bytes());
    packets.map(|packet| packet.map_or_else(|error| error.to_string(), |packet| packet.value.to_string())).collect()
}

fn settings(protocol: Protocol, registers: &[(&str, u64)]) -> Settings {
    let mut settings = Settings::new(protocol);
    registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value), "{name}"));
    settings
}

fn at(address: u64, class: Class) -> Executed {
    Executed { address, isa: SubIsa::Is0, length: 4, class, taken: true, ..Executed::default() }
}

#[test]
fn call_and_return_depend_on_the_return_stack_and_broadcast() {
    let rows: &[(&str, u64, &[u8])] = &[
        // Atoms EE, the address of the return, an atom.
        ("no return stack", 0x1, &[0xdb, 0x95, 0x01, 0xf7]),
        // The return needs no address.
        ("return stack", 0x1001, &[0xff]),
        // Both targets are traced.
        ("branch broadcast", 0x9, &[0xf7, 0x95, 0x10, 0xf7, 0x95, 0x01, 0xf7]),
    ];
    for (name, configr, expected) in rows {
        let mut unit = Unit::new(&settings(Protocol::Ete, &[("TRCCONFIGR", *configr)]));
        unit.instruction(&Executed { link: true, ..at(0x1000, Class::Direct) });
        unit.instruction(&at(0x1040, Class::Indirect));
        unit.instruction(&at(0x1004, Class::Barrier));
        unit.finish();
        let texts = texts(&unit);
        assert!(texts.iter().take(3).count() == 3, "{name}: {texts:?}");
        assert!(unit.bytes().ends_with(expected), "{name}: {texts:?}");
    }
}

#[test]
fn halt_traces_the_rest_of_a_block() {
    let mut unit = Unit::new(&Settings::new(Protocol::Ete));
    unit.instruction(&at(0x1000, Class::Other));
    unit.halt(Target { address: 0x1004, isa: SubIsa::Is0 });
    assert!(unit.bytes().ends_with(&[0x06, 0x03, 0x95, 0x01]), "{:?}", texts(&unit));
}

#[test]
fn context_change_within_a_block_is_traced_after_it() {
    let mut unit = Unit::new(&settings(Protocol::Ete, &[("TRCCONFIGR", 0x41)]));
    let context =
        |id| Context { el: 0, aarch64: true, security: Security::NonSecure, vmid: None, context_id: Some(id) };
    unit.context(context(5));
    unit.instruction(&at(0x1000, Class::Other));
    unit.context(context(6));
    unit.instruction(&at(0x1004, Class::Other));
    unit.instruction(&at(0x1008, Class::Direct));
    let before = texts(&unit).len();
    unit.instruction(&at(0x1020, Class::Direct));
    unit.finish();
    // An atom, then the context.
    let texts = texts(&unit);
    assert!(texts[before + 1].starts_with("context") && texts[before + 1].ends_with("0x6"), "{before}: {texts:?}");
}

/// Two laps around 0x1000 to 0x100c. The context identifier is 5 in the first and 6 in the second, the virtual one is 9.
/// Returns each packet of this kind with the number of instructions executed before it.
fn laps(protocol: Protocol, registers: &[(&str, u64)], kind: &str) -> Vec<(usize, String)> {
    let mut unit = Unit::new(&settings(protocol, registers));
    let mut found = Vec::new();
    for lap in 0..2 {
        let (vmid, context_id) = (Some(9), Some(5 + lap));
        unit.context(Context { el: 0, aarch64: true, security: Security::NonSecure, vmid, context_id });
        for (number, class) in [Class::Other, Class::Other, Class::Other, Class::Direct].into_iter().enumerate() {
            let index = lap as usize * 4 + number;
            let before = texts(&unit).len();
            unit.time(100 + index as u64);
            unit.instruction(&at(0x1000 + 4 * number as u64, class));
            let new = texts(&unit).into_iter().skip(before);
            found.extend(new.filter(|text| text.starts_with(kind)).map(|text| (index, text)));
        }
    }
    unit.finish();
    found
}

#[test]
fn events_happen_where_their_resources_start_to_hold() {
    // Addresses 0x1004 and 0x1008, context identifier 6, virtual context identifier 9.
    let usual: &[(&str, u64)] = &[
        ("TRCEVENTCTL0R", 2),
        ("TRCEVENTCTL1R", 1),
        ("TRCACVR0", 0x1004),
        ("TRCACVR1", 0x1008),
        ("TRCCIDCVR0", 6),
        ("TRCVMIDCVR1", 9),
    ];
    let (address, range, context, virtual_context) = (0x4_0001, 0x5_0001, 0x6_0001, 0x7_0002);
    let (shot, inverted, pair_inverted) = (0x3_0001, 1 << 20, 1 << 21);
    type Row<'r> = (&'r str, &'r [(&'r str, u64)], &'r [(usize, u8)]);
    let rows: &[Row<'_>] = &[
        ("nothing selected", &[], &[]),
        ("an address", &[("TRCRSCTLR2", address)], &[(1, 1), (5, 1)]),
        ("either address", &[("TRCRSCTLR2", 0x4_0003)], &[(1, 1), (5, 1)]),
        ("not enabled", &[("TRCRSCTLR2", address), ("TRCEVENTCTL1R", 0)], &[]),
        ("never", &[("TRCEVENTCTL0R", 0)], &[]),
        ("always", &[("TRCEVENTCTL0R", 1)], &[(0, 1)]),
        ("a range, once per lap", &[("TRCRSCTLR2", range)], &[(1, 1), (5, 1)]),
        ("outside of a range", &[("TRCRSCTLR2", range | inverted)], &[(0, 1), (3, 1), (7, 1)]),
        ("a context identifier", &[("TRCRSCTLR2", context)], &[(4, 1)]),
        ("any other", &[("TRCRSCTLR2", context | inverted)], &[(0, 1)]),
        ("no byte of it compared", &[("TRCRSCTLR2", context), ("TRCCIDCCTLR0", 0xff)], &[(0, 1)]),
        ("all but one byte", &[("TRCRSCTLR2", context), ("TRCCIDCVR0", 0xa05), ("TRCCIDCCTLR0", 0x2)], &[(0, 1)]),
        ("the other bytes", &[("TRCRSCTLR2", context), ("TRCCIDCVR0", 0xa05), ("TRCCIDCCTLR0", 0xd)], &[]),
        ("the mask of another", &[("TRCRSCTLR2", context), ("TRCCIDCCTLR0", 0xff00)], &[(4, 1)]),
        ("a virtual context identifier", &[("TRCRSCTLR2", virtual_context)], &[(0, 1)]),
        ("a virtual one that never is", &[("TRCRSCTLR2", 0x7_0001)], &[]),
        // TRCACATR.CONTEXTTYPE and CONTEXT.
        ("an address in a context", &[("TRCRSCTLR2", address), ("TRCACATR0", 0x4)], &[(5, 1)]),
        ("in another", &[("TRCRSCTLR2", address), ("TRCACATR0", 0x14)], &[]),
        ("in a virtual context", &[("TRCRSCTLR2", address), ("TRCACATR0", 0x18)], &[(1, 1), (5, 1)]),
        ("in both", &[("TRCRSCTLR2", address), ("TRCACATR0", 0xc), ("TRCVMIDCVR0", 9)], &[(5, 1)]),
        ("not at EL0", &[("TRCRSCTLR2", address), ("TRCACATR0", 0x1000)], &[]),
        // Both of a pair; selectors are inverted before they are combined, the pair after.
        ("A and B", &[("TRCEVENTCTL0R", 0x81), ("TRCRSCTLR2", address), ("TRCRSCTLR3", context)], &[(5, 1)]),
        (
            "not A and B",
            &[("TRCEVENTCTL0R", 0x81), ("TRCRSCTLR2", range | inverted), ("TRCRSCTLR3", context)],
            &[(4, 1), (7, 1)],
        ),
        (
            "neither",
            &[("TRCEVENTCTL0R", 0x81), ("TRCRSCTLR2", range | inverted), ("TRCRSCTLR3", context | inverted)],
            &[(0, 1), (3, 1)],
        ),
        (
            "not both",
            &[("TRCEVENTCTL0R", 0x81), ("TRCRSCTLR2", range | pair_inverted), ("TRCRSCTLR3", context)],
            &[(0, 1), (7, 1)],
        ),
        (
            "either",
            &[
                ("TRCEVENTCTL0R", 0x81),
                ("TRCRSCTLR2", range | inverted | pair_inverted),
                ("TRCRSCTLR3", context | inverted),
            ],
            &[(1, 1), (4, 1)],
        ),
        ("an address, once", &[("TRCRSCTLR2", shot), ("TRCSSCCR0", 1)], &[(1, 1)]),
        ("a range, once", &[("TRCRSCTLR2", shot), ("TRCSSCCR0", 0x1_0000)], &[(1, 1)]),
        ("an address, repeatedly", &[("TRCRSCTLR2", shot), ("TRCSSCCR0", 0x100_0001)], &[(1, 1), (5, 1)]),
        ("once, and it had matched before", &[("TRCRSCTLR2", shot), ("TRCSSCCR0", 1), ("TRCSSCSR0", 1 << 31)], &[]),
        (
            "several",
            &[("TRCRSCTLR2", address), ("TRCEVENTCTL0R", 0x0200_0101), ("TRCEVENTCTL1R", 0xb)],
            &[(0, 3), (1, 8), (5, 8)],
        ),
        // D4.6.9: counter 0 counts 0x1004, from 1; it is at zero from the next instruction on, and reloaded at 0x1008.
        (
            "a counter",
            &[
                ("TRCRSCTLR2", 0x2_0001),
                ("TRCRSCTLR3", address),
                ("TRCRSCTLR4", 0x4_0002),
                ("TRCCNTCTLR0", 0x403),
                ("TRCCNTRLDVR0", 1),
                ("TRCCNTVR0", 1),
            ],
            &[(2, 1), (6, 1)],
        ),
        (
            "a counter that reloads itself, every third instruction",
            &[("TRCRSCTLR2", 0x2_0001), ("TRCCNTCTLR0", 0x1_0001), ("TRCCNTRLDVR0", 2), ("TRCCNTVR0", 2)],
            &[(3, 1), (6, 1)],
        ),
        // D4.6.10: from state 0 to 1 at 0x1004, back at 0x1008.
        (
            "a state of the sequencer",
            &[("TRCRSCTLR2", 0x2_0020), ("TRCRSCTLR3", address), ("TRCRSCTLR4", 0x4_0002), ("TRCSEQEVR0", 0x403)],
            &[(2, 1), (6, 1)],
        ),
    ];
    for protocol in [Protocol::Ete, Protocol::Etm4] {
        for (name, registers, expected) in rows {
            let found = laps(protocol, &[usual, *registers].concat(), "event");
            let expected: Vec<_> =
                expected.iter().map(|(at, mask)| (*at, Packet::Event { mask: *mask }.to_string())).collect();
            assert_eq!(found, expected, "{protocol:?}: {name}");
        }
    }
}

/// A timestamp that is requested within a block comes before the next block.
#[test]
fn timestamps_are_requested_by_resources() {
    let usual: &[(&str, u64)] = &[("TRCCONFIGR", 0x801), ("TRCACVR0", 0x1004), ("TRCRSCTLR2", 0x4_0001)];
    let rows: &[(&str, u64, &[usize])] =
        &[("never", 0, &[0]), ("always", 1, &[0, 4]), ("an address", 2, &[0, 4]), ("nothing selected", 3, &[0])];
    for (name, control, expected) in rows {
        let found = laps(Protocol::Ete, &[usual, &[("TRCTSCTLR", *control)]].concat(), "timestamp");
        let positions: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
        assert_eq!(positions, *expected, "{name}: {found:?}");
    }
}

#[test]
fn unmodeled_settings_are_reported() {
    let rows: &[(Protocol, &str, u64, &[&str])] = &[
        (Protocol::Ete, "TRCVICTLR", 0x201, &[]),
        (Protocol::Ete, "TRCVICTLR", 0xe01, &[]),
        (Protocol::Etm4, "TRFCR_EL1", 3, &["prohibited regions"]),
        (Protocol::Ete, "TRCRSCTLR2", 0, &[]),
        (Protocol::Ete, "TRCRSCTLR2", 0x4_0001, &[]),
        (Protocol::Ete, "TRCRSCTLR2", 0x1, &[]),
        (Protocol::Etm4, "TRCRSCTLR2", 0x1, &["external inputs"]),
        (Protocol::Ete, "TRCRSCTLR2", 0x1_0001, &["comparator inputs of the PE"]),
        (Protocol::Ete, "TRCRSCTLR31", 0x2_0010, &[]),
        (Protocol::Ete, "TRCEXTINSELR3", 0x8, &[]),
        (Protocol::Ete, "TRCEXTINSELR3", 0x2, &["external inputs of this PMU event"]),
        (Protocol::Etm4, "TRCEXTINSELR3", 0x8, &["external inputs"]),
        (Protocol::Ete, "TRCEVENTCTL1R", 0x80f, &["triggers on the trace bus"]),
        (Protocol::Ete, "TRCACATR15", 0x3, &[]),
        (Protocol::Etm4, "TRCACATR15", 0x3, &["addresses of loads and stores"]),
    ];
    for (protocol, name, value, expected) in rows {
        let found: Vec<_> = settings(*protocol, &[(name, *value)]).unmodeled().iter().map(|(_, what)| *what).collect();
        assert_eq!(found, *expected, "{name}={value:#x}");
    }
    let rows: &[(Protocol, u64, bool)] = &[
        (Protocol::Ete, 0x1fff, false),
        (Protocol::Etm4, 0x78d9, false),
        (Protocol::Etm4, 0x3, true),
        (Protocol::Etm4, 0x101, true),
        (Protocol::Etm4, 0x1_0001, true),
    ];
    for (protocol, value, is_refused) in rows {
        let refusal = settings(*protocol, &[("TRCCONFIGR", *value)]).refusal();
        assert_eq!(refusal.is_some(), *is_refused, "{protocol:?} {value:#x}");
    }
    let mut settings = Settings::new(Protocol::Ete);
    let unknown = ["TRCCNTCTLR4", "TRCSEQEVR3", "TRCRSCTLR1", "TRCRSCTLR32", "TRCACVR16", "TRCACVR01", "TRCACVR", "X"];
    unknown.iter().for_each(|name| assert!(!settings.set(name, 1), "{name}"));
}

/// With Q elements, every instruction has an atom or is counted.
#[test]
fn q_elements_count_their_instructions() {
    for (protocol, configuration, offered) in
        [(Protocol::Ete, 0x2001, 0x8000), (Protocol::Etm4, 0x2001, 0x8000), (Protocol::Ete, 0x6001, 0x1_8000)]
    {
        let registers = [("TRCCONFIGR", configuration), ("TRCIDR0", 0x2800_0ea1 | offered)];
        let mut settings = settings(protocol, &registers);
        settings.q_seed = Some(1);
        let mut unit = Unit::new(&settings);
        (0..1000).for_each(|number| {
            let class = if number % 4 == 3 { Class::Direct } else { Class::Other };
            unit.instruction(&at(0x1000 + 4 * (number % 4), class));
        });
        unit.finish();
        let (mut counted, mut silent, mut atoms) = (0, 0, 0);
        for packet in Packets::new(&unit.config, unit.bytes()) {
            match packet.map(|packet| packet.value) {
                Ok(Packet::Q { count: Some(count), .. }) => counted += count,
                Ok(Packet::Q { count: None, .. }) => silent += 1,
                Ok(Packet::Atoms(some)) => atoms += some.iter().count() as u32,
                _ => {}
            }
        }
        assert!(counted > 100 && counted % 4 == 0, "{counted}");
        assert_eq!(silent > 0, configuration == 0x6001);
        if silent == 0 {
            assert_eq!(counted + 4 * atoms, 1000);
        }
    }
}

#[test]
fn trace_restarts_after_an_overflow() {
    for protocol in [Protocol::Ete, Protocol::Etm4] {
        let mut settings = settings(protocol, &[("TRCCONFIGR", 0x11)]);
        settings.overflow_seed = Some(1);
        let mut unit = Unit::new(&settings);
        for _ in 0..2000 {
            unit.cycles(5);
            unit.instruction(&at(0x1000, Class::Direct));
        }
        unit.finish();
        let texts = texts(&unit);
        let starts: Vec<usize> = (0..texts.len()).filter(|at| texts[*at].starts_with("overflow")).collect();
        let losses = unit.overflowed();
        assert!(starts.len() > 1 && losses.overflows == starts.len() as u64, "{losses:?}: {starts:?}");
        for (number, start) in starts.iter().enumerate() {
            let after = &texts[start + 1..starts.get(number + 1).copied().unwrap_or(texts.len())];
            let restart = ["alignment sync", "trace info", "trace on", "address"];
            let is_restarted = after.iter().zip(restart).all(|(text, wanted)| text.starts_with(wanted));
            assert!(after.is_empty() || is_restarted, "{protocol:?}: {after:?}");
            let mut counts = after.iter().filter(|text| text.starts_with("cycle"));
            let is_unknown = counts.next().is_none_or(|text| text.contains("unknown"));
            assert!(is_unknown && counts.all(|text| !text.contains("unknown")), "{protocol:?}: {after:?}");
        }
        let traced: usize =
            texts.iter().filter(|text| text.starts_with("atom")).map(|text| text.matches('E').count()).sum();
        assert_eq!(traced as u64 + losses.instructions, 2000, "{texts:?}");
    }
}

/// A context at this level.
fn level(el: u8) -> Context {
    Context { el, aarch64: true, security: Security::NonSecure, vmid: None, context_id: None }
}

/// The first word of each packet after the first trace on.
fn kinds(unit: &Unit) -> Vec<String> {
    let kinds = texts(unit).into_iter().skip_while(|text| text != "trace on");
    kinds.map(|text| text.split([' ', ',']).next().unwrap_or_default().to_string()).collect()
}

const IRQ: u16 = 14;

/// DDI 0487, Trace Prohibited Regions: R_THBVD (the exception into a region), R_FFVYM (those inside, and out of it), R_RXMJF
/// (a trace on after it), K10.5.7.1 and K10.5.10 for the use of TRFCR_EL1.
#[test]
fn nothing_is_traced_in_prohibited_regions() {
    for whole_blocks in [false, true] {
        let mut unit = Unit::new(&settings(Protocol::Ete, &[("TRFCR_EL1", 1), ("TRCCONFIGR", 0x11)]));
        let run = |unit: &mut Unit, address: u64| match whole_blocks {
            false => {
                unit.cycles(1);
                unit.instruction(&at(address, Class::Direct));
            }
            true => {
                let blocks: Vec<Block> = unit.blocks(address, at(address, Class::Direct)).collect();
                blocks.iter().for_each(|block| unit.block(block, true, 1));
            }
        };
        let target = |address| Target { address, isa: SubIsa::Is0 };
        unit.context(level(0));
        run(&mut unit, 0x1000);
        unit.exception(2, target(0x1004));
        let before = unit.bytes().len();
        unit.context(level(1));
        (0..9).for_each(|n| run(&mut unit, 0x8000 + 4 * n));
        unit.exception(IRQ, target(0x8004));
        unit.instruction(&at(0x9000, Class::ExceptionReturn));
        assert_eq!(unit.bytes().len(), before, "{:?}", texts(&unit));
        unit.context(level(0));
        run(&mut unit, 0x1004);
        unit.finish();
        let expected = ["trace", "address", "atoms", "exception", "address", "trace", "address", "atoms", "cycle"];
        assert_eq!(kinds(&unit), expected, "{:?}", texts(&unit));
        // R_SZRZR: the 9 cycles of the region are in the count of 11, which is above the threshold of 4.
        assert!(texts(&unit).iter().any(|text| text.starts_with("cycle count +7")), "{:?}", texts(&unit));
    }
}

/// DDI 0487, R_JLLVN and R_YWQNQ: resources pause in prohibited regions (K10.5.9).
#[test]
fn resources_pause_in_prohibited_regions() {
    // A single-shot comparator at 0x8000, a stop point at 0x8004: neither is seen at EL1.
    let registers = [
        ("TRFCR_EL1", 1),
        ("TRCACVR0", 0x8000),
        ("TRCACVR1", 0x8004),
        ("TRCSSCCR0", 1),
        ("TRCRSCTLR2", 0x3_0001),
        ("TRCEVENTCTL0R", 2),
        ("TRCEVENTCTL1R", 1),
        ("TRCVISSCTLR", 0x2_0000),
    ];
    let mut unit = Unit::new(&settings(Protocol::Ete, &registers));
    for el in [1, 0] {
        unit.context(level(el));
        [0x8000, 0x8004, 0x8008].into_iter().for_each(|address| unit.instruction(&at(address, Class::Direct)));
    }
    unit.finish();
    let expected = ["trace", "address", "event", "atoms"];
    assert_eq!(kinds(&unit), expected, "{:?}", texts(&unit));
    assert!(texts(&unit).ends_with(&["atoms EE".to_string()]), "{:?}", texts(&unit));
}

/// DDI 0487, R_BFSWZ, R_MLTTK, R_DPMBQ, R_BJQDP: TRCRSR.TA decides whether an exception is traced (K10.5.9).
#[test]
fn exceptions_are_traced_where_tracing_is_active() {
    // What happens before the exception: instructions at EL0 (traced), EL1 (filtered), EL2 (prohibited).
    let traced = ["trace", "address", "atoms", "exception", "address"];
    let rows: &[(&str, u64, &[u8], &[&str])] = &[
        ("nothing, and TA is 0", 0, &[], &[]),
        ("nothing, and TA is 1", 1 << 12, &[], &["trace", "exception", "address"]),
        ("a traced instruction", 0, &[0], &traced),
        ("an instruction that the filter hides", 1 << 12, &[1], &[]),
        ("one of a prohibited region: TA is as before", 1 << 12, &[2], &["trace", "exception", "address"]),
        ("the same, and TA was 0", 0, &[2], &[]),
        (
            "the same after a traced instruction",
            0,
            &[0, 2],
            &["trace", "address", "atoms", "trace", "exception", "address"],
        ),
        ("the same after a hidden one", 0, &[0, 1, 2], &["trace", "address", "atoms"]),
    ];
    for (name, status, before, expected) in rows {
        let registers = [("TRCRSR", *status), ("TRCVICTLR", 0x20_0201), ("TRFCR_EL1", 3)];
        let mut unit = Unit::new(&settings(Protocol::Ete, &registers));
        unit.context(level(0));
        for (number, el) in (0..).zip(*before) {
            unit.context(level(*el));
            unit.instruction(&at(0x1000 + 4 * number, Class::Direct));
        }
        unit.context(level(0));
        unit.exception(IRQ, Target { address: 0x1000, isa: SubIsa::Is0 });
        unit.finish();
        assert_eq!(kinds(&unit), *expected, "{name}: {:?}", texts(&unit));
    }
}

/// DDI 0487, R_LTLBB, R_GPKSH, R_BBBBT, R_SJXYS, R_NCXJN: TRCVICTLR.TRCERR and TRCRESET.
#[test]
fn resets_and_system_errors_are_traced_on_demand() {
    let forced: &[&str] = &["trace", "exception", "address"];
    // TRCVICTLR excludes EL1; EL2 is prohibited.
    let rows: &[(u64, u8, u16, &[&str])] = &[
        (0x20_0201, 1, 4, &[]),
        (0x20_0a01, 1, 4, forced),
        (0x20_0a01, 1, PE_RESET, &[]),
        (0x20_0601, 1, PE_RESET, forced),
        (0x20_0601, 1, 4, &[]),
        (0x20_0e01, 1, IRQ, &[]),
        (0x20_0e01, 2, 4, &[]),
        (0x20_0e01, 2, PE_RESET, &[]),
    ];
    for protocol in [Protocol::Ete, Protocol::Etm4] {
        for (control, el, number, expected) in rows {
            let registers = [("TRCVICTLR", *control), ("TRFCR_EL1", 3)];
            let mut unit = Unit::new(&settings(protocol, &registers));
            unit.context(level(*el));
            unit.instruction(&at(0x1000, Class::Direct));
            unit.exception(*number, Target { address: 0x1004, isa: SubIsa::Is0 });
            unit.finish();
            let is_prohibited = *el == 2;
            // The address of a reset is unknown to an ETE.
            let reset: &[&str] = &["trace", "address", "exception", "ignore"];
            let is_reset = *number == PE_RESET && protocol == Protocol::Ete && !expected.is_empty();
            let expected = if is_reset { reset } else { expected };
            if protocol == Protocol::Ete || !is_prohibited {
                assert_eq!(kinds(&unit), expected, "{protocol:?}, {control:#x}, {number}: {:?}", texts(&unit));
            }
        }
    }
}

/// DDI 0487, External inputs (D4.6.13): PMU events that follow from execution and from the trace buffer.
#[test]
fn external_inputs_are_events_of_the_pe() {
    // Instructions 0 to 7, an exception before 4, a wrapped buffer before 5, a trigger before 6.
    let classes = [
        (Class::Other, true),
        (Class::Direct, false),
        (Class::Direct, true),
        (Class::ExceptionReturn, true),
        (Class::Other, true),
        (Class::Indirect, true),
        (Class::Other, true),
        (Class::Other, true),
    ];
    let rows: &[(&str, u64, u64, &[usize])] = &[
        ("INST_RETIRED", 0x08, 0, &[0]),
        ("CPU_CYCLES", 0x11, 0, &[0]),
        ("EXC_TAKEN", 0x09, 0, &[4]),
        ("EXC_RETURN", 0x0a, 0, &[3]),
        ("PC_WRITE_RETIRED", 0x0c, 0, &[2, 5]),
        ("BR_RETIRED", 0x21, 0, &[1, 5]),
        ("TRB_WRAP", 0x400c, 0, &[5]),
        ("TRB_TRIG", 0x400e, 0, &[6]),
        ("TRCRSR.EXTIN, active for a cycle", 0x400e, 1, &[0, 6]),
        ("nothing that is modeled", 0x2, 0, &[]),
    ];
    for (name, event, status, expected) in rows {
        let registers = [
            ("TRCEXTINSELR0", *event),
            ("TRCRSR", *status),
            ("TRCRSCTLR2", 1),
            ("TRCEVENTCTL0R", 2),
            ("TRCEVENTCTL1R", 1),
        ];
        let mut unit = Unit::new(&settings(Protocol::Ete, &registers));
        let mut found = Vec::new();
        for (index, (class, taken)) in classes.into_iter().enumerate() {
            match index {
                4 => unit.exception(IRQ, Target { address: 0x1010, isa: SubIsa::Is0 }),
                5 | 6 => unit.buffer_events(index == 5, index == 6),
                _ => {}
            }
            let before = texts(&unit).len();
            unit.instruction(&Executed { taken, ..at(0x1000 + 4 * index as u64, class) });
            found.extend(texts(&unit).iter().skip(before).any(|text| text.starts_with("event")).then_some(index));
        }
        assert_eq!(found, *expected, "{name}: {:?}", texts(&unit));
    }
}

/// K10.5.9: the execution of a TSB CSYNC requests a timestamp. DDI 0487, R_XMJGY: that of a prohibited region follows it.
#[test]
fn trace_synchronization_requests_a_timestamp() {
    for (el, control) in [(0, 0x201), (1, 0x201), (0, 0x10_0201), (1, 0x20_0201)] {
        // EL1 is prohibited, or filtered.
        let permitted = if control == 0x201 { 1 } else { 3 };
        let registers = [("TRCCONFIGR", 0x801), ("TRFCR_EL1", permitted), ("TRCVICTLR", control)];
        let mut unit = Unit::new(&settings(Protocol::Ete, &registers));
        let run = |unit: &mut Unit, el, time, class| {
            unit.context(level(el));
            unit.time(time);
            unit.instruction(&at(0x1000, class));
        };
        // Traced or not: the level of the others is one that is.
        let other = u8::from(control == 0x10_0201);
        (1..4).for_each(|time| run(&mut unit, other, time, Class::Direct));
        run(&mut unit, el, 4, Class::TraceSync);
        (5..9).for_each(|time| run(&mut unit, other, time, Class::Direct));
        unit.finish();
        let times: Vec<String> = texts(&unit).into_iter().filter(|text| text.starts_with("timestamp")).collect();
        // The second one comes with the first block after the request, and its time.
        assert_eq!(times.len(), 2, "EL{el} {control:#x}: {:?}", texts(&unit));
        assert!(times[0].starts_with("timestamp 0x1 "), "{times:?}");
        let second = if el == other { "timestamp 0x6 " } else { "timestamp 0x5 " };
        assert!(times[1].starts_with(second), "EL{el} {control:#x}: {times:?}");
    }
}

/// DDI 0487, I_YRQCN: event 0 of an ETE is the trigger condition. That of an ETMv4 is one on the trace bus, on demand.
#[test]
fn event_0_is_a_trigger() {
    let rows = [
        (Protocol::Ete, true, 0, true),
        (Protocol::Ete, false, 0, false),
        (Protocol::Ete, true, 1, true),
        (Protocol::Etm4, true, 0, false),
        (Protocol::Etm4, true, 1 << 11, true),
    ];
    for (protocol, signals, control, is_triggered) in rows {
        let registers =
            [("TRCEVENTCTL0R", 2), ("TRCEVENTCTL1R", control), ("TRCRSCTLR2", 0x4_0001), ("TRCACVR0", 0x1004)];
        let mut settings = settings(protocol, &registers);
        settings.signals_triggers = signals;
        let mut unit = Unit::new(&settings);
        let mut found = Vec::new();
        for index in 0..3 {
            unit.instruction(&at(0x1000 + 4 * index, Class::Direct));
            found.push(unit.take_trigger());
        }
        assert_eq!(found, [false, is_triggered, false], "{protocol:?} {control:#x}");
        let is_traced = texts(&unit).iter().any(|text| text.starts_with("event"));
        assert_eq!(is_traced, control & 1 == 1, "{protocol:?} {control:#x}");
    }
}
