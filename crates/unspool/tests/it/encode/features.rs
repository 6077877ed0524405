//! The closed loop with resources, prohibited regions, triggers, transactions and instrumentation.
//!
//! What is expected follows from the steps and the architecture (DDI 0487, the Embedded Trace Extension); the reference decoder
//! has to find the same where it knows the packets.

use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::trace_buffer::{BufferSettings, FillMode, TriggerMode};
use unspool::coresight::{Packets, Protocol};
use unspool::encode::EncodeOptions;
use unspool::model::{Context, Event, Gap, Instruction, Isa, Security, Step};
use unspool_testing::tool;

use super::decoded::{Decoded, decode_capture};
use super::program::Program;
use super::reference::judge;
use super::{BASE, Executed, encode, encoded, options, shown};
use crate::fixtures::collect;

fn with(registers: &[(&str, u64)]) -> Settings {
    let mut settings = Settings::new(Protocol::Ete);
    registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value), "{name}"));
    settings
}

/// Numbers of the instructions that a counter, a state or an input selects, from all instructions and exceptions.
type Expected<'e> = &'e dyn Fn(&[Step]) -> usize;

fn instructions(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.event.instruction().is_some()).count()
}

/// D4.6.9, D4.6.10, D4.6.13: events of counters, of the sequencer and of external inputs.
#[test]
fn resources_make_events() {
    let has_reference = tool("trc_pkt_lister", "libopencsd-bin").is_some();
    let mut totals = [0; 4];
    for seed in 0..6 {
        let program = Program::new(Isa::A64, BASE, seed);
        let steps = program.run(2000, seed);
        let (first, second) = (program.span(1).0, program.span(3).0);
        let visits = |steps: &[Step], address: u64| {
            let at = |step: &&Step| step.event.instruction().is_some_and(|instruction| instruction.address == address);
            steps.iter().filter(at).count()
        };
        let exceptions = |steps: &[Step]| steps.iter().filter(|step| matches!(step.event, Event::Exception(_))).count();
        // From the first address to the second one, and back: the state changes as often as they take turns.
        let turns = |steps: &[Step]| {
            let (mut state, mut turns) = (0, 0);
            let last = steps.iter().rposition(|step| step.event.instruction().is_some()).unwrap_or(0);
            for step in &steps[..last] {
                match step.event.instruction().map(|instruction| instruction.address) {
                    Some(address) if address == first && state == 0 => (state, turns) = (1, turns + 1),
                    Some(address) if address == second && state == 1 => state = 0,
                    _ => {}
                }
            }
            turns
        };
        type Row<'r> = (&'r str, &'r [(&'r str, u64)], Expected<'r>);
        let rows: &[Row<'_>] = &[
            (
                "every 16 instructions",
                &[("TRCRSCTLR2", 0x2_0001), ("TRCCNTCTLR0", 0x1_0001), ("TRCCNTRLDVR0", 15), ("TRCCNTVR0", 15)],
                &|steps| (instructions(steps) - 1) / 16,
            ),
            (
                "every third visit",
                &[("TRCRSCTLR2", 0x2_0001), ("TRCCNTCTLR0", 0x1_0003), ("TRCCNTRLDVR0", 2), ("TRCCNTVR0", 2)],
                &|steps| visits(steps, first) / 3,
            ),
            ("the sequencer", &[("TRCRSCTLR2", 0x2_0020), ("TRCSEQEVR0", 0x403)], &turns),
            ("exceptions", &[("TRCRSCTLR2", 1), ("TRCEXTINSELR0", 0x9)], &exceptions),
        ];
        for ((name, registers, expected), total) in rows.iter().zip(&mut totals) {
            let events =
                [("TRCEVENTCTL0R", 2), ("TRCEVENTCTL1R", 1), ("TRCRSCTLR3", 0x4_0001), ("TRCRSCTLR4", 0x4_0002)];
            let addresses = [("TRCACVR0", first), ("TRCACVR1", second)];
            let settings = with(&[&events[..], &addresses, registers].concat());
            let decoded = match has_reference {
                true => judge(&format!("{name}, seed {seed}"), &program, &steps, &settings, false),
                false => decode_capture(encoded(&steps, &settings, false).path()),
            };
            let found = decoded.iter().filter(|decoded| matches!(decoded, Decoded::Event(_))).count();
            // An event may be due when the trace ends.
            let expected = expected(&steps);
            assert!(found <= expected && found + 1 >= expected, "{name}, {seed}: {found}, {expected}");
            *total += found;
        }
    }
    assert!(totals.iter().all(|total| *total > 5), "{totals:?}");
}

/// D4.5.7.6: nothing of a prohibited level is traced, and all of the others.
#[test]
fn prohibited_levels_are_not_traced() {
    let has_reference = tool("trc_pkt_lister", "libopencsd-bin").is_some();
    for seed in 0..8 {
        let program = Program::new(Isa::A64, BASE, seed);
        let steps = program.run(3000, seed);
        for (control, level) in [(1, 0), (2, 1)] {
            let settings = with(&[("TRFCR_EL1", control), ("TRCCONFIGR", 0x1801), ("TRCTSCTLR", 1)]);
            let folder = encoded(&steps, &settings, false);
            let found = Executed::read(folder.path(), "UNIT_0");
            assert_eq!(found.instructions, shown(&steps, |_, el, _| el == level), "EL{level}, seed {seed}");
            if has_reference {
                judge(&format!("EL{level}, seed {seed}"), &program, &steps, &settings, false);
            }
        }
    }
}

/// D6.5.3 and K10.5.11: all trigger modes, end to end.
#[test]
fn triggers_act_on_the_buffer() {
    let program = Program::new(Isa::A64, BASE, 3);
    let steps = program.run(40_000, 3);
    let all = Executed::of(&steps).instructions;
    // The trigger is one of many visits to an address.
    let trigger = 20_000;
    let (address, _) = all[trigger];
    let visits = all[..=trigger].iter().filter(|(at, _)| *at == address).count();
    let registers = [
        ("TRCSYNCPR", 8),
        ("TRCEVENTCTL0R", 2),
        ("TRCRSCTLR2", 0x2_0001),
        ("TRCRSCTLR3", 0x4_0001),
        ("TRCACVR0", address),
        ("TRCCNTCTLR0", 0x3),
        ("TRCCNTVR0", visits as u64),
    ];
    for (fill, mode, after) in [
        (FillMode::Fill, TriggerMode::Stop, 0),
        (FillMode::Circular, TriggerMode::Stop, 0),
        (FillMode::Circular, TriggerMode::Stop, 300),
        (FillMode::Wrap, TriggerMode::Stop, 100),
        (FillMode::Circular, TriggerMode::Interrupt, 10),
        (FillMode::Circular, TriggerMode::Ignore, 0),
    ] {
        let name = format!("{fill:?} {mode:?} {after}");
        let folder = tempfile::tempdir().unwrap();
        let size = if fill == FillMode::Fill { 1 << 16 } else { 4096 };
        let buffer =
            Some(BufferSettings { size, fill, trigger: mode, after_trigger: after, ..BufferSettings::default() });
        let encoded = encode(&steps, folder.path(), EncodeOptions { buffer, ..options(&with(&registers), false) });
        let found = Executed::read(folder.path(), "0x10").instructions;
        let stops = mode == TriggerMode::Stop;
        assert_eq!(encoded.trigger_stops, u64::from(stops), "{name}");
        let is_part = |end: usize| all[..end].ends_with(&found);
        let ends: Vec<usize> = (trigger.saturating_sub(200)..all.len()).filter(|end| is_part(*end)).collect();
        match (stops, ends.first()) {
            // The instructions after the last branch before the trigger are not in the trace yet.
            (true, Some(end)) if after == 0 => assert!(end.abs_diff(trigger) < 64, "{name}: {end}, {trigger}"),
            (true, Some(end)) => assert!((trigger..trigger + 4000).contains(end), "{name}: {end}, {trigger}"),
            (false, None) => assert!(all.ends_with(&found), "{name}"),
            (stops, end) => panic!("{name}: {stops} {end:?}, {} instructions", found.len()),
        }
        assert!(found.len() > 500, "{name}: {}", found.len());
    }
}

/// D6.5.2: the trace unit sees that the write pointer wraps. An event marks each.
#[test]
fn wraps_are_events_of_the_trace_unit() {
    let program = Program::new(Isa::A64, BASE, 3);
    let steps = program.run(10_000, 3);
    let settings =
        with(&[("TRCEXTINSELR1", 0x400c), ("TRCRSCTLR2", 2), ("TRCEVENTCTL0R", 0x200), ("TRCEVENTCTL1R", 2)]);
    let folder = tempfile::tempdir().unwrap();
    let buffer = Some(BufferSettings { size: 512, fill: FillMode::Wrap, ..BufferSettings::default() });
    let encoded = encode(&steps, folder.path(), EncodeOptions { buffer, ..options(&settings, false) });
    assert!(encoded.interrupts > 2, "{encoded:?}");
    // What is left of the trace starts after an earlier wrap, and has at most one of them.
    let bytes = std::fs::read(folder.path().join("trace_0.bin")).unwrap();
    assert_eq!(bytes.len(), 512);
    let unlimited = tempfile::tempdir().unwrap();
    let buffer = Some(BufferSettings {
        size: 1 << 20,
        pointer: (1 << 20) - 512,
        fill: FillMode::Wrap,
        ..BufferSettings::default()
    });
    encode(&steps, unlimited.path(), EncodeOptions { buffer, ..options(&settings, false) });
    let decoded = decode_capture(unlimited.path());
    let events = decoded.iter().filter(|decoded| **decoded == Decoded::Event(2)).count();
    assert_eq!(events, 1);
}

fn at(address: u64, opcode: u32) -> Step {
    let mut step = Step::default();
    step.event = Event::Instruction(Instruction {
        address,
        opcode: Some(opcode),
        length: 4,
        isa: Isa::A64,
        ..Instruction::default()
    });
    step
}

/// D4.5.10.9 to D4.5.10.11: nested transactions, failures by gap and by address, filters and breaks inside.
#[test]
fn transactions_become_elements() {
    let (tstart, tcommit, tcancel, nop, b) = (0xd523_3060, 0xd503_307f, 0xd460_0000, 0xd503_201f, 0x1400_0001);
    let gap = || {
        let mut step = Step::default();
        step.event = Event::Gap(Gap::TransactionFailed);
        step
    };
    let run = |opcodes: &[u32]| -> Vec<Step> {
        (0..).zip(opcodes).map(|(index, opcode)| at(BASE + 4 * index, *opcode)).collect()
    };
    // A branch over two instructions: not taken at first, taken after the failure.
    let cbz = 0xb400_0060;
    let again = [at(BASE + 4, nop), at(BASE + 8, cbz), at(BASE + 20, b)];
    let rows: &[(&str, Vec<Step>, &[&str])] = &[
        (
            "nested",
            run(&[tstart, nop, tstart, b, tcommit, b, tcommit, b]),
            &["transaction start", "transaction commit"],
        ),
        ("TCANCEL", [&run(&[tstart, nop, cbz, tcancel])[..], &again].concat(), &["transaction start", "exception 24"]),
        (
            "a gap",
            [&run(&[tstart, nop, cbz, nop])[..], &[gap()], &again].concat(),
            &["transaction start", "exception 24"],
        ),
        (
            "a break",
            [run(&[tstart, nop, b, nop]), vec![at(BASE + 0x100, b)]].concat(),
            &["transaction start", "discard"],
        ),
        ("commit without a start", run(&[tcommit, b]), &[]),
    ];
    for (name, steps, expected) in rows {
        let settings = with(&[]);
        let folder = encoded(steps, &settings, false);
        let bytes = std::fs::read(folder.path().join("trace_0.bin")).unwrap();
        let config = settings.config();
        let packets = Packets::new(&config, &bytes).map(|packet| packet.unwrap().value.to_string());
        let marks = ["transaction", "discard", "exception 24"];
        let found: Vec<String> = packets.filter(|text| marks.iter().any(|mark| text.starts_with(mark))).collect();
        let is_expected = found.len() == expected.len() && found.iter().zip(*expected).all(|(a, b)| a.starts_with(b));
        assert!(is_expected, "{name}: {found:?}");
        let found = decode_capture(folder.path());
        assert!(!found.contains(&Decoded::Problem), "{name}: {found:x?}");
        // With failed transactions shown, all instructions are found again, except those after the last branch of one.
        let count = found.iter().filter(|decoded| matches!(decoded, Decoded::Instruction(..))).count();
        let all = instructions(steps);
        let lost = if expected.contains(&"exception 24") { 1 } else { 0 };
        assert_eq!(count + lost, all, "{name}: {found:x?}");
    }
}

/// A capture of transactions is encoded again, with the same packets: the steps have what the encoder needs.
#[test]
fn transactions_survive_a_second_encoding() {
    let steps: Vec<Step> = [0xd523_3060, 0xd503_201f, 0x1400_0001, 0xd503_307f, 0x1400_0001]
        .iter()
        .zip(0..)
        .map(|(opcode, index)| at(BASE + 4 * index, *opcode))
        .collect();
    let once = encoded(&steps, &with(&[]), false);
    let again = unspool::CaptureSteps::new(unspool::capture::Capture::open(once.path()).unwrap(), Some("UNIT_0"), &[]);
    let twice = encoded(&collect(again.unwrap()), &with(&[]), false);
    let bytes = |folder: &tempfile::TempDir| std::fs::read(folder.path().join("trace_0.bin")).unwrap();
    assert_eq!(bytes(&once), bytes(&twice));
}

/// D4.5.5: TRCIT writes the value of a register, if it is known and permitted.
#[test]
fn instrumentation_has_the_values_of_registers() {
    let context = |level| {
        let mut step = Step::default();
        let security = Some(Security::NonSecure);
        step.event = Event::Context(Context { level: Some(level), security, ..Context::default() });
        step
    };
    let mut mov = at(BASE, 0xd280_0020);
    mov.write_register("x0", 0, &0x1122_3344_5566_7788_u64.to_le_bytes());
    let mut low = at(BASE + 4, 0x5280_0021);
    low.write_register("w1", 0, &7_u32.to_le_bytes());
    let steps = [
        context(1),
        mov,
        low,
        at(BASE + 8, 0xd50b_72e0),  // trcit x0
        at(BASE + 12, 0xd50b_72e1), // trcit x1
        at(BASE + 16, 0xd50b_72ff), // trcit xzr
        at(BASE + 20, 0xd50b_72e2), // trcit x2, which is unknown
        at(BASE + 24, 0x1400_0001),
    ];
    for (control, expected) in [(2, &[0x1122_3344_5566_7788, 7, 0][..]), (1, &[])] {
        let settings = with(&[("TRFCR_EL1", 3), ("TRCITECR_EL1", control)]);
        let folder = tempfile::tempdir().unwrap();
        let totals = encode(&steps, folder.path(), options(&settings, false));
        assert_eq!(totals.unknown_values, 1);
        let bytes = std::fs::read(folder.path().join("trace_0.bin")).unwrap();
        let config = settings.config();
        let packets = Packets::new(&config, &bytes).map(|packet| packet.unwrap().value.to_string());
        let found: Vec<String> = packets.filter(|text| text.starts_with("instrumentation")).collect();
        let expected: Vec<String> =
            expected.iter().map(|value: &u64| format!("instrumentation EL1 {value:#x}")).collect();
        assert_eq!(found, expected);
        assert_eq!(Executed::read(folder.path(), "UNIT_0").instructions, Executed::of(&steps).instructions);
    }
}
