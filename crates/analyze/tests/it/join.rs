//! Joining a source with few facets and one with more.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use unspool_analyze::diff::Options;
use unspool_analyze::join::Join;
use unspool_model::{
    Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Step, StepSource,
};

use super::{Source, event};

/// Consecutive instructions, of which every fourth reads.
fn run(count: u64, with_accesses: bool) -> Vec<Step> {
    (0..count)
        .map(|number| {
            let mut step = instruction(0x1000 + 4 * number, 0xd503_201f ^ number as u32);
            if with_accesses && number % 4 == 0 {
                step.access_known(Direction::Read, 0x8000 + number, 4, [(1, 0xff), (2, 0xff), (3, 0xff), (4, 0xff)]);
            }
            step
        })
        .collect()
}

fn instruction(address: u64, opcode: u32) -> Step {
    event(Event::Instruction(Instruction { address, opcode: Some(opcode), length: 4, ..Instruction::default() }))
}

fn few_facets() -> Coverage {
    Coverage::of(&[Facet::Instructions, Facet::Opcodes, Facet::Levels, Facet::Exceptions])
}

fn more_facets() -> Coverage {
    [Facet::Accesses, Facet::Data].into_iter().fold(few_facets(), Coverage::with)
}

fn joined(first: &[Step], second: &[Step]) -> Vec<Step> {
    let source = |coverage, steps: &[Step]| Box::new(Source { coverage, steps: steps.to_vec(), failure: None });
    let a = || source(few_facets(), first);
    let mut join = Join::new([a(), a()], source(more_facets(), second), Options::default());
    assert_eq!(join.coverage(), more_facets());
    let mut steps = Vec::new();
    join.each(&mut |step| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    })
    .unwrap();
    steps
}

#[test]
fn accesses_come_from_the_partner() {
    assert_eq!(joined(&run(100, false), &run(100, true)), run(100, true));
}

#[test]
fn instructions_without_a_partner_are_unchanged() {
    let whole = run(100, true);
    assert_eq!(joined(&run(100, false)[20..80], &whole), whole[20..80]);
    let mut expected = run(100, false);
    expected[20..80].clone_from_slice(&whole[20..80]);
    assert_eq!(joined(&run(100, false), &whole[20..80]), expected);
}

#[test]
fn partners_are_found_after_a_gap() {
    let (plain, whole) = (run(200, false), run(200, true));
    let gap = [event(Event::Gap(Gap::Overflow))];
    let first = [&plain[..50], &gap, &plain[120..]].concat();
    assert_eq!(joined(&first, &whole), [&whole[..50], &gap, &whole[120..]].concat());
}

#[test]
fn an_instruction_with_another_opcode_is_not_a_partner() {
    let mut first = run(100, false);
    first[40] = instruction(0x1000 + 160, 0x1234_5678);
    let mut expected = run(100, true);
    expected[40] = first[40].clone();
    assert_eq!(joined(&first, &run(100, true)), expected);
}

#[test]
fn exceptions_and_contexts_are_completed() {
    let context = |level, is_handler| event(Event::Context(Context { level, is_handler, ..Context::default() }));
    let raised =
        |class| event(Event::Exception(Exception { kind: ExceptionKind::Synchronous, class, ..Exception::default() }));
    let around = |class, is_handler: Option<bool>, accesses| {
        let steps = run(100, accesses);
        let start = [context(Some(0), is_handler.map(|_| false))];
        [&start[..], &steps[..30], &[raised(class), context(Some(1), is_handler)], &steps[30..]].concat()
    };
    assert_eq!(
        joined(&around(None, None, false), &around(Some(0x15), Some(true), true)),
        around(Some(0x15), Some(true), true)
    );
}
