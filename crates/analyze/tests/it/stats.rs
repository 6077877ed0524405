//! Statistics of lists of steps.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use unspool_analyze::stats::{Outcomes, Report, Stats, Tally};
use unspool_model::{
    Branch, Context, Direction, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Security, Step,
};

use super::event;

fn nop(address: u64) -> Step {
    coded(address, Isa::A64, 0xd503_201f, None)
}

fn coded(address: u64, isa: Isa, opcode: u32, branch: Option<Branch>) -> Step {
    let instruction = Instruction { address, opcode: Some(opcode), length: 4, isa, branch, ..Instruction::default() };
    event(Event::Instruction(instruction))
}

fn with_access(mut step: Step, direction: Direction, address: u64, size: u64) -> Step {
    step.access(direction, address, size);
    step
}

fn at(mut step: Step, core: u32, time: u64) -> Step {
    (step.core, step.time) = (core, Some(time));
    step
}

fn context(level: u8, process: Option<u64>) -> Step {
    let security = Some(Security::NonSecure);
    event(Event::Context(Context { level: Some(level), security, process, ..Context::default() }))
}

fn count(steps: &[Step]) -> Report {
    let mut stats = Stats::new(|isa, opcode| format!("{}-{:x}", isa.name(), opcode >> 24));
    steps.iter().for_each(|step| stats.step(step));
    stats.finish()
}

#[test]
fn everything_is_counted_once() {
    let mut write = with_access(nop(0x1004), Direction::Both, 0x8000, 8);
    write.write_register("x0", 0, &[1; 8]);
    write.write_register("x1", 0, &[1; 8]);
    let skipped = Instruction { address: 0x1008, is_executed: Some(false), ..Instruction::default() };
    let interrupt = Exception { kind: ExceptionKind::Irq, ..Exception::default() };
    let mut state = event(Event::State);
    state.write_register("x2", 0, &[1; 8]);
    state.access(Direction::Write, 0xffff, 1);
    let mut note = Step::default();
    note.set_note("here");
    let report = count(&[
        state,
        note,
        at(with_access(nop(0x1000), Direction::Read, 0x8000, 16), 0, 70),
        at(write, 0, 50),
        with_access(event(Event::Instruction(skipped)), Direction::Neither, 0x9000, 4),
        event(Event::Exception(interrupt)),
        event(Event::ExceptionReturn { target: None }),
        event(Event::Gap(Gap::NoCode(4))),
        event(Event::Gap(Gap::Overflow)),
        event(Event::Gap(Gap::TransactionFailed)),
    ]);
    let expected = Tally {
        instructions: 3,
        skipped: 1,
        exceptions: 1,
        exception_returns: 1,
        gaps: 3,
        registers: 2,
        reads: 2,
        read_bytes: 24,
        writes: 1,
        written_bytes: 8,
        neither: 1,
        taken: 0,
    };
    assert_eq!(report.all(), expected);
    assert_eq!(report.exceptions, [("irq", 1)]);
    assert_eq!(report.gaps, [("overflow", 1), ("no-code", 1), ("transaction-failed", 1)]);
    assert_eq!((report.states, report.notes, report.contexts), (1, 1, 0));
    assert_eq!(report.times, Some((50, 70)));
    assert_eq!((report.mix.total, report.mix.unknown), (3, 1));
    // A state step is not an access.
    assert_eq!((report.data.lines, report.data.pages), (2, 2));
}

#[test]
fn branches_are_counted_by_kind_and_outcome() {
    let taken = Some(Branch { taken: true, target: Some(0x2000) });
    let not_taken = Some(Branch { taken: false, target: None });
    // Name, instruction set, opcode, outcome and kinds.
    type Row = (&'static str, Isa, u32, Option<Branch>, &'static [&'static str]);
    let rows: &[Row] = &[
        ("b", Isa::A64, 0x1400_0001, taken, &["direct"]),
        ("bl", Isa::A64, 0x9400_0001, taken, &["direct", "calls"]),
        ("b.eq that is not taken", Isa::A64, 0x5400_0020, not_taken, &["direct", "conditional"]),
        ("cbz without a reported outcome", Isa::A64, 0xb400_0040, None, &["direct", "conditional"]),
        ("br", Isa::A64, 0xd61f_0000, taken, &["indirect"]),
        ("blr", Isa::A64, 0xd63f_0000, taken, &["indirect", "calls"]),
        ("ret", Isa::A64, 0xd65f_03c0, taken, &["indirect", "returns"]),
        ("eret", Isa::A64, 0xd69f_03e0, taken, &["indirect", "exception-returns"]),
        ("bx lr", Isa::T32, 0x4770, taken, &["indirect", "returns"]),
        ("beq of RISC-V", Isa::Rv64, 0x0000_0463, not_taken, &["direct", "conditional"]),
        ("jal ra", Isa::Rv64, 0x0000_00ef, taken, &["direct", "calls"]),
        ("ret of RISC-V", Isa::Rv64, 0x0000_8067, taken, &["indirect", "returns"]),
        ("mret", Isa::Rv64, 0x3020_0073, taken, &["indirect", "exception-returns"]),
    ];
    for (name, isa, opcode, branch, kinds) in rows {
        let report = count(&[coded(0x1000, *isa, *opcode, *branch)]);
        let expected = match branch.map(|branch| branch.taken) {
            Some(true) => Outcomes { taken: 1, ..Outcomes::default() },
            Some(false) => Outcomes { not_taken: 1, ..Outcomes::default() },
            None => Outcomes { unknown: 1, ..Outcomes::default() },
        };
        assert_eq!(report.branches.all(), expected, "{name}");
        let found: Vec<&str> =
            report.branches.kinds().iter().filter(|(_, found)| found.total() > 0).map(|(kind, _)| *kind).collect();
        assert_eq!(&found[..], *kinds, "{name}");
        assert_eq!(report.all().taken, expected.taken, "{name}");
    }
    assert_eq!(count(&[nop(0)]).branches.all().total(), 0);
}

fn instructions<K>(groups: BTreeMap<K, Tally>) -> Vec<(K, u64)> {
    groups.into_iter().map(|(key, tally)| (key, tally.instructions)).collect()
}

#[test]
fn groups_follow_contexts() {
    let steps = [
        nop(0x1000),
        context(0, Some(7)),
        nop(0x1004),
        nop(0x1008),
        // The context has no process, so the last one still holds.
        context(1, None),
        nop(0x100c),
        event(Event::Gap(Gap::Overflow)),
        nop(0x1010),
        at(nop(0x2000), 1, 0),
        at(context(2, Some(8)), 1, 0),
        at(nop(0x2004), 1, 0),
        context(0, Some(7)),
        nop(0x1014),
    ];
    let report = count(&steps);
    assert_eq!(instructions(report.by_level()), [(None, 3), (Some(0), 3), (Some(1), 1), (Some(2), 1)]);
    let processes = [((false, None), 3), ((false, Some(7)), 4), ((false, Some(8)), 1)];
    assert_eq!(instructions(report.by_process()), processes);
    assert_eq!(instructions(report.by_core()), [(0, 6), (1, 2)]);
    assert_eq!(instructions(report.by_security()), [(None, 3), (Some("nonsecure"), 5)]);
    assert_eq!((report.contexts, report.is_full), (4, false));
}

#[test]
fn the_number_of_processes_is_limited() {
    let steps: Vec<Step> = (0..20_000).flat_map(|process| [context(1, Some(process)), nop(0x1000)]).collect();
    let report = count(&steps);
    assert!(report.is_full);
    assert_eq!(report.all().instructions, 20_000);
    let processes = instructions(report.by_process());
    let rest = processes.iter().filter(|((is_rest, _), _)| *is_rest).map(|(_, count)| count).sum::<u64>();
    assert_eq!(rest, 20_000 - (1 << 14));
}

#[test]
fn opcodes_are_classified() {
    let rows: &[(&str, Isa, u32, &[&str])] = &[
        ("nop", Isa::A64, 0xd503_201f, &["system"]),
        ("add", Isa::A64, 0x9100_0400, &["int"]),
        ("ldr", Isa::A64, 0xf940_0000, &["load"]),
        ("ldr q0", Isa::A64, 0x3dc0_0000, &["load", "simd"]),
        ("ldadd", Isa::A64, 0xf820_0020, &["atomic", "load", "store"]),
        ("fadd", Isa::A64, 0x1e62_2820, &["simd"]),
        ("dsb sy", Isa::A64, 0xd503_3f9f, &["fence", "system"]),
        ("isb", Isa::A64, 0xd503_3fdf, &["fence", "system"]),
        ("clrex", Isa::A64, 0xd503_3f5f, &["system"]),
        ("svc", Isa::A64, 0xd400_0001, &["system", "system-call"]),
        ("ret", Isa::A64, 0xd65f_03c0, &["branch", "indirect", "return"]),
        ("b.eq", Isa::A64, 0x5400_0020, &["branch", "cond"]),
        ("prfm", Isa::A64, 0xf980_0000, &["prefetch"]),
        ("lw", Isa::Rv64, 0x0000_2503, &["int", "load"]),
    ];
    for (name, isa, opcode, classes) in rows {
        let mix = count(&[coded(0, *isa, *opcode, None)]).mix;
        let mut found: Vec<&str> = mix.by_class().iter().map(|(class, _)| *class).collect();
        found.sort_unstable();
        assert_eq!(&found[..], *classes, "{name}");
    }
}

#[test]
fn aarch32_is_classified_by_its_mnemonics() {
    let rows: &[(&str, &[&str])] = &[
        ("ldrb", &["load"]),
        ("pop", &["load"]),
        ("stmdb", &["store"]),
        ("vldr", &["load", "simd"]),
        ("vadd.f32", &["simd"]),
        ("dmb", &["fence"]),
        ("adds", &["int"]),
        ("umull", &["int"]),
        ("smc", &["system-call"]),
        ("nop", &[]),
    ];
    for (name, classes) in rows {
        let mut stats = Stats::new(|_, _| (*name).to_string());
        stats.step(&coded(0, Isa::T32, 0xbf00, None));
        let mix = stats.finish().mix;
        let mut found: Vec<&str> = mix.by_class().iter().map(|(class, _)| *class).collect();
        found.sort_unstable();
        assert_eq!(&found[..], *classes, "{name}");
        assert_eq!(mix.unclassified, u64::from(classes.is_empty()), "{name}");
        assert_eq!(mix.by_mnemonic(), [(*name, 1)]);
    }
}

#[test]
fn opcodes_that_share_a_table_slot_are_all_counted() {
    // Three rounds of more opcodes than there are slots.
    let steps: Vec<Step> = (0..3 * 40_000_u32).map(|number| coded(0, Isa::A64, (number % 40_000) << 4, None)).collect();
    let mix = count(&steps).mix;
    assert_eq!(mix.total, 120_000);
    assert_eq!(mix.by_isa(), [("a64", 120_000)]);
    assert_eq!(mix.by_mnemonic(), [("a64-0", 120_000)]);
}
