//! Architectural checks of steps.
//!
//! Each row of `check/broken.rs` violates one rule; the rows of `check/accepted.rs` violate none.
#![allow(clippy::unwrap_used, clippy::panic)]

mod accepted;
mod blocks;
mod broken;
mod builders;

use proptest::prelude::*;
use unspool_analyze::check::{Checker, Finding, RULES};
use unspool_model::{
    Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Security, Step,
};

fn check_as(coverage: Coverage, steps: &[Step]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut checker = Checker::new(coverage);
    for (position, step) in (0..).zip(steps) {
        let mut step = step.clone();
        step.position = position;
        checker.step(&step, &mut |finding| findings.push(finding));
    }
    checker.finish(&mut |finding| findings.push(finding));
    findings
}

fn check(steps: &[Step]) -> Vec<Finding> {
    check_as(Coverage::of(&Facet::ALL), steps)
}

#[test]
fn each_rule_is_broken_alone() {
    for (rule, name, steps) in broken::rows() {
        let findings = check(&steps);
        let names: Vec<&str> = findings.iter().map(|finding| finding.rule.name).collect();
        assert_eq!(names, [rule], "{name}: {findings:?}");
        assert_eq!(findings[0].severity, findings[0].rule.severity);
    }
}

#[test]
fn each_rule_has_a_row_and_a_name_of_its_own() {
    let rows = broken::rows();
    for (index, rule) in RULES.iter().enumerate() {
        assert!(rows.iter().any(|row| row.0 == rule.name), "{} is never broken", rule.name);
        assert!(rule.name.starts_with("step-") && rule.summary.ends_with('.'), "{}", rule.name);
        assert!(RULES[..index].iter().all(|other| other.name != rule.name), "{}", rule.name);
    }
}

#[test]
fn valid_steps_are_accepted() {
    for (name, steps) in accepted::rows() {
        assert_eq!(check(&steps), [], "{name}");
    }
}

#[test]
fn facets_that_are_not_covered_are_not_checked() {
    for (facet, steps) in accepted::without_facet() {
        assert_eq!(check_as(accepted::all_but(facet), &steps), [], "without {}", facet.name());
        assert_eq!(check(&steps).len(), if facet == Facet::Exceptions { 2 } else { 1 }, "with {}", facet.name());
    }
}

#[test]
fn a_finding_has_a_position_and_a_message() {
    use builders::{PC, nop, on};
    let steps = [nop(PC), on(nop(0x9000), 7), on(nop(0x9008), 7)];
    let findings = check(&steps);
    assert_eq!((findings[0].core, findings[0].position), (7, 2));
    assert_eq!(findings[0].detail, "at 0x9008, but 0x9000 leads to 0x9004");
}

#[test]
fn repeated_findings_are_reported_once_and_counted() {
    use builders::{ADD, PC, op, reads, taken};
    let round = [reads(op(PC, ADD), 8), taken(op(PC + 4, 0x17ff_ffff), PC)];
    let mut checker = Checker::new(Coverage::of(&Facet::ALL));
    let mut found = 0;
    for step in round.iter().cycle().take(200) {
        checker.step(step, &mut |_| found += 1);
    }
    checker.finish(&mut |_| found += 1);
    assert_eq!((found, checker.repeats()), (1, 99));
    assert_eq!(
        checker.counts().map(|(rule, count)| (rule.name, count)).collect::<Vec<_>>(),
        [("step-access-kind", 100)]
    );
}

/// A cause is remembered, however many others come between its findings.
#[test]
fn many_causes_are_remembered() {
    use builders::{ADD, op, reads};
    let mut checker = Checker::new(accepted::all_but(Facet::Instructions));
    let mut found = 0;
    for address in (0..5000).map(|index| 0x1_0000 + 4 * index).cycle().take(15_000) {
        checker.step(&reads(op(address, ADD), 8), &mut |_| found += 1);
    }
    checker.finish(&mut |_| found += 1);
    assert_eq!((found, checker.repeats()), (5000, 10_000));
    assert_eq!(checker.counts().map(|(_, count)| count).sum::<u64>(), 15_000);
}

/// The table of rules in the documentation.
fn document() -> String {
    let mut text = String::from(
        "# Step rules\n\n\
        Rules for the steps of any source: captures, ASTF, STF and Tarmac. They follow from the architectures (Arm DDI \
        0487, and The RISC-V Instruction Set Manual) and are stated in our own words. An error is something that no \
        processor does. A warning is unexpected, but the source may have a valid reason. Facets that a source cannot \
        report are not checked, and a gap resets all expectations. Unknown opcodes, vectors of unknown length and \
        exceptions of M-profile are not checked. `unspool check` gives a violation the severity that the rules of the \
        format have for it: a missing access is an error in ASTF and STF, a change of level a warning in STF.\n\n\
        The last column names the test rows of each rule, in `crates/analyze/tests/it/check/broken.rs`. \
        The tests generate this document: `UPDATE=1 cargo test -p unspool-analyze --test it check`.\n\n\
        | rule | severity | topic | text | tested by |\n|---|---|---|---|---|\n",
    );
    let rows = broken::rows();
    for rule in RULES {
        let names: Vec<&str> = rows.iter().filter(|row| row.0 == rule.name).map(|row| row.1).collect();
        let names = names.join("; ");
        text += &format!("| `{}` | {} | {} | {} | {names} |\n", rule.name, rule.severity, rule.section, rule.summary);
    }
    text
}

#[test]
fn the_document_lists_the_rules() {
    let how = "cargo test -p unspool-analyze --test it check";
    unspool_testing::assert_document("docs/step-rules.md", &document(), how);
}

fn any_address() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0_u64..64, Just(u64::MAX - 3)]
}

fn any_instruction() -> impl Strategy<Value = Event> {
    let branch = prop::option::of((any::<bool>(), prop::option::of(any_address())));
    let opcode = prop::option::of(prop_oneof![any::<u32>(), 0_u32..0x1_0000]);
    let isa = prop::sample::select(vec![Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64]);
    (any_address(), opcode, any::<u8>(), isa, prop::option::of(any::<bool>()), branch).prop_map(
        |(address, opcode, length, isa, is_executed, branch)| {
            let branch = branch.map(|(taken, target)| Branch { taken, target });
            let length = if length < 200 { 2 + (length & 2) } else { length };
            Event::Instruction(Instruction { address, opcode, length, isa, is_executed, branch, za_index: None })
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    use ExceptionKind::{Debug, Fiq, Irq, Reset, SError, Synchronous, Unknown};
    let kind = prop::sample::select(vec![Debug, Fiq, Irq, Reset, SError, Synchronous, Unknown]);
    let address = || prop::option::of(any_address());
    let exception = (kind, prop::option::of(any::<u8>()), address(), address()).prop_map(
        |(kind, class, target, return_address)| {
            Event::Exception(Exception { kind, class, target, return_address, ..Exception::default() })
        },
    );
    let securities = vec![Security::Secure, Security::NonSecure, Security::Root, Security::Realm];
    let security = prop::option::of(prop::sample::select(securities));
    let flag = || prop::option::of(any::<bool>());
    let context = (prop::option::of(any::<u8>()), security, flag(), flag()).prop_map(
        |(level, security, is_aarch64, is_handler)| {
            Event::Context(Context { level, security, is_aarch64, is_handler, ..Context::default() })
        },
    );
    prop_oneof![
        6 => any_instruction(),
        2 => exception,
        2 => context,
        1 => address().prop_map(|target| Event::ExceptionReturn { target }),
        1 => prop::sample::select(vec![Event::State, Event::Note, Event::Gap(Gap::Start), Event::Gap(Gap::Discard)]),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let directions = vec![Direction::Read, Direction::Write, Direction::Both, Direction::Neither];
    let access = prop::collection::vec((prop::sample::select(directions), any_address(), any_address()), 0..3);
    let base = prop::collection::vec(any::<u8>(), 0..10);
    let core = prop_oneof![0_u32..3, any::<u32>()];
    (any_event(), core, prop::option::of(any::<u64>()), access, base).prop_map(|(event, core, time, accesses, base)| {
        let mut step = Step::default();
        (step.event, step.core, step.time) = (event, core, time);
        accesses.into_iter().for_each(|(direction, address, size)| step.access(direction, address, size));
        step.write_register("VBAR_EL1", 0, &base);
        step
    })
}

proptest! {
    #[test]
    fn any_steps_can_be_checked(steps in prop::collection::vec(any_step(), 0..60), facets in 0_u32..1 << 12) {
        let covered: Vec<Facet> = Facet::ALL.into_iter().filter(|facet| facets >> *facet as u32 & 1 == 1).collect();
        let few = check_as(Coverage::of(&covered), &steps);
        prop_assert!(few.len() <= 8 * steps.len() + 8);
        check(&steps);
    }
}
