//! Steps that no processor makes, and steps that some do.
//!
//! Each rule is broken in the rows of `check/broken.rs`; nothing is found in those of `check/accepted.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod accepted;
mod broken;
mod words;

use proptest::prelude::*;
use unspool_analyze::check::{Checker, Finding, RULES};
use unspool_model::{
    Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Security, Step,
};

fn check_as(coverage: Coverage, steps: &[Step]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut checker = Checker::new(coverage);
    for (place, step) in (0..).zip(steps) {
        let mut step = step.clone();
        step.place = place;
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
        assert!(rule.name.starts_with("step-") && rule.says.ends_with('.'), "{}", rule.name);
        assert!(RULES[..index].iter().all(|other| other.name != rule.name), "{}", rule.name);
    }
}

#[test]
fn what_processors_do_is_fine() {
    for (name, steps) in accepted::rows() {
        assert_eq!(check(&steps), [], "{name}");
    }
}

#[test]
fn what_is_not_told_is_not_judged() {
    for (facet, steps) in accepted::untold() {
        assert_eq!(check_as(accepted::all_but(facet), &steps), [], "without {}", facet.name());
        assert_eq!(check(&steps).len(), if facet == Facet::Exceptions { 2 } else { 1 }, "with {}", facet.name());
    }
}

#[test]
fn a_finding_says_where_and_what() {
    use words::{PC, nop, on};
    let steps = [nop(PC), on(nop(0x9000), 7), on(nop(0x9008), 7)];
    let findings = check(&steps);
    assert_eq!((findings[0].core, findings[0].place), (7, 2));
    assert_eq!(findings[0].detail, "at 0x9008, and 0x9000 leads to 0x9004");
}

#[test]
fn the_same_is_told_once_and_counted() {
    use words::{ADD, PC, op, reads, taken};
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

/// However many others are found between two of the same cause.
#[test]
fn many_causes_do_not_push_each_other_out() {
    use words::{ADD, op, reads};
    let mut checker = Checker::new(accepted::all_but(Facet::Instructions));
    let mut found = 0;
    for address in (0..5000).map(|index| 0x1_0000 + 4 * index).cycle().take(15_000) {
        checker.step(&reads(op(address, ADD), 8), &mut |_| found += 1);
    }
    checker.finish(&mut |_| found += 1);
    assert_eq!((found, checker.repeats()), (5000, 10_000));
    assert_eq!(checker.counts().map(|(_, count)| count).sum::<u64>(), 15_000);
}

/// The table of rules, as it stands in the documentation.
fn document() -> String {
    let mut text = String::from(
        "# The rules of steps\n\n\
        What the steps of any source are held to, whatever its format: captures, ASTF, STF and Tarmac. What the rules say is \
        what the architectures say (Arm DDI 0487, and The RISC-V Instruction Set Manual); the words are ours. An error is \
        something that no processor does; a warning is something that is not expected, for which a source may have its \
        reasons. What a source cannot tell is not judged, and neither is what is behind a gap. Nothing is claimed of \
        opcodes that are unknown, of vectors whose length is not known, and of M-profile's exceptions.\n\n\
        Each rule is tested by the rows named in the last column, in `crates/analyze/tests/check/broken.rs`. \
        This text is written by the tests: `UPDATE=1 cargo test -p unspool-analyze --test check`.\n\n\
        | rule | severity | about | what it says | tested by |\n|---|---|---|---|---|\n",
    );
    let rows = broken::rows();
    for rule in RULES {
        let names: Vec<&str> = rows.iter().filter(|row| row.0 == rule.name).map(|row| row.1).collect();
        let names = names.join("; ");
        text += &format!("| `{}` | {} | {} | {} | {names} |\n", rule.name, rule.severity, rule.section, rule.says);
    }
    text
}

#[test]
fn the_document_lists_the_rules() {
    let how = "cargo test -p unspool-analyze --test it check";
    unspool_testing::assert_document("docs/step-rules.md", &document(), how);
}

fn any_isa() -> impl Strategy<Value = Isa> {
    prop::sample::select(vec![Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64])
}

fn any_address() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0_u64..64, Just(u64::MAX - 3)]
}

fn any_instruction() -> impl Strategy<Value = Event> {
    let branch = prop::option::of((any::<bool>(), prop::option::of(any_address())));
    let opcode = prop::option::of(prop_oneof![any::<u32>(), 0_u32..0x1_0000]);
    (any_address(), opcode, any::<u8>(), any_isa(), prop::option::of(any::<bool>()), branch).prop_map(
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
    fn no_steps_are_too_odd(steps in prop::collection::vec(any_step(), 0..60), facets in 0_u32..1 << 12) {
        let told: Vec<Facet> = Facet::ALL.into_iter().filter(|facet| facets >> *facet as u32 & 1 == 1).collect();
        let few = check_as(Coverage::of(&told), &steps);
        prop_assert!(few.len() <= 8 * steps.len() + 8);
        check(&steps);
    }
}
