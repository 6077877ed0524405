//! Comparisons of two lists of steps.
//!
//! A program is a list of addresses; a test modifies a copy of it and expects certain findings.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_analyze::diff::{Differ, Ending, Finding, Options, SkipReason, Summary, comparable};
use unspool_model::{
    Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Pull, SourceError,
    Step,
};

use super::{Source, event};

fn source(steps: &[Step]) -> Source {
    Source { coverage: comparable(), steps: steps.to_vec(), failure: None }
}

fn diff_sources(options: Options, sources: [Source; 2]) -> (Vec<Finding>, Summary) {
    let mut findings = Vec::new();
    let pulls = sources.map(|source| Pull::new(source).unwrap());
    let summary = Differ::new(options)
        .run(pulls, &mut |finding| {
            findings.push(finding.clone());
            ControlFlow::Continue(())
        })
        .unwrap();
    (findings, summary)
}

fn diff(a: &[Step], b: &[Step]) -> (Vec<Finding>, Summary) {
    diff_sources(Options::default(), [source(a), source(b)])
}

fn diff_all(a: &[Step], b: &[Step]) -> (Vec<Finding>, Summary) {
    diff_sources(Options { all: true, ..Options::default() }, [source(a), source(b)])
}

fn instruction(address: u64) -> Step {
    let opcode = Some(0xd503_201f ^ address as u32);
    event(Event::Instruction(Instruction { address, opcode, length: 4, ..Instruction::default() }))
}

fn edit(step: &mut Step, edit: impl FnOnce(&mut Instruction)) {
    let Event::Instruction(instruction) = &mut step.event else { panic!("no instruction") };
    edit(instruction);
}

/// Consecutive instructions, each with its index as `position`.
fn line(count: u64) -> Vec<Step> {
    placed((0..count).map(|index| instruction(0x1000 + 4 * index)).collect())
}

/// Iterations of a loop of three instructions.
fn round(count: usize) -> Vec<Step> {
    [0x20, 0x24, 0x28].map(instruction).into_iter().cycle().take(count * 3).collect()
}

fn placed(mut steps: Vec<Step>) -> Vec<Step> {
    (0..).zip(&mut steps).for_each(|(position, step)| step.position = position);
    steps
}

fn skipped(findings: &[Finding]) -> Vec<(SkipReason, [u64; 2])> {
    let skipped = |finding: &Finding| match finding {
        Finding::Skipped { reason, skipped, .. } => Some((*reason, *skipped)),
        _ => None,
    };
    findings.iter().filter_map(skipped).collect()
}

fn facets(findings: &[Finding]) -> Vec<(&'static str, &str, [&str; 2])> {
    let differs = |finding| match finding {
        &Finding::Differs { facet, ref name, values: [ref a, ref b], .. } => {
            Some((facet.name(), name.as_str(), [a.as_str(), b.as_str()]))
        }
        _ => None,
    };
    findings.iter().filter_map(differs).collect()
}

fn apart(findings: &[Finding]) -> Vec<Option<[u64; 2]>> {
    let diverged = |finding: &Finding| match finding {
        Finding::Diverged { apart, .. } => Some(*apart),
        _ => None,
    };
    findings.iter().filter_map(diverged).collect()
}

#[test]
fn equal_sources() {
    let (findings, summary) = diff(&line(3000), &line(3000));
    assert!(findings.is_empty());
    assert!(summary.is_clean());
    assert_eq!((summary.common, summary.instructions, summary.ending), (3000, [3000; 2], Ending::Complete));
    assert_eq!(summary.tally(Facet::Opcodes).equal(), 3000);
    assert_eq!(summary.tally(Facet::Instructions).equal(), 3000);
}

#[test]
fn nothing_compared_is_not_clean() {
    assert!(!diff(&[], &[]).1.is_clean());
    assert!(!diff(&line(3), &[]).1.is_clean());
}

#[test]
fn an_opcode_differs() {
    let mut other = line(100);
    edit(&mut other[50], |instruction| instruction.opcode = Some(0x1234));
    let (findings, summary) = diff(&line(100), &other);
    let [Finding::Differs { facet: Facet::Opcodes, values, around, .. }] = &findings[..] else {
        panic!("{findings:?}")
    };
    assert_eq!(values, &["d50330d7", "00001234"].map(str::to_string));
    assert_eq!(around.before.iter().map(|pair| pair[0].position).collect::<Vec<_>>(), [45, 46, 47, 48, 49]);
    assert_eq!((around.here[0][0].position, around.here[1][0].position, around.here[0].len()), (50, 50, 5));
    assert_eq!((summary.ending, summary.differences), (Ending::Stopped, 1));
    assert!(!summary.is_clean());
}

#[test]
fn instructions_are_missing_or_inserted() {
    let rows: &[(&str, std::ops::Range<usize>, usize, [u64; 2])] = &[
        ("one is missing", 50..51, 0, [1, 0]),
        ("many are missing", 50..80, 0, [30, 0]),
        ("one is inserted", 50..50, 1, [0, 1]),
        ("three are replaced", 50..53, 3, [3, 3]),
        ("near the end", 97..98, 0, [1, 0]),
        ("among the first", 2..3, 0, [1, 0]),
    ];
    for (name, range, new, expected) in rows {
        let mut other = line(100);
        other.splice(range.clone(), (0..*new as u64).map(|index| instruction(0x9000 + 4 * index)));
        let (findings, _) = diff(&line(100), &other);
        assert_eq!(apart(&findings), [Some(*expected)], "{name}");
        let Finding::Diverged { around, .. } = &findings[0] else { panic!() };
        assert_eq!(around.here[0][0].position, range.start as u64, "{name}");
        assert_eq!(around.before.len(), range.start.min(5), "{name}");
        let (findings, summary) = diff_all(&line(100), &other);
        assert_eq!((findings.len(), summary.ending), (1, Ending::Complete), "{name}");
        assert_eq!(summary.tally(Facet::Instructions).only, *expected, "{name}");
        assert_eq!(summary.common, 100 - expected[0], "{name}");
    }
}

#[test]
fn a_loop_with_more_iterations() {
    let [a, b] = [10, 14].map(|times| [line(20), round(times), line(20)].concat());
    let (findings, summary) = diff_all(&a, &b);
    assert_eq!(apart(&findings), [Some([0, 12])]);
    assert_eq!((summary.common, summary.after), (70, [0; 2]));
}

#[test]
fn starts_and_ends_may_differ() {
    let all = line(5000);
    let (findings, summary) = diff(&all, &all[700..4000]);
    assert_eq!(skipped(&findings), [(SkipReason::Start, [700, 0]), (SkipReason::End, [1000, 0])]);
    assert_eq!((summary.common, summary.before, summary.after), (3300, [700, 0], [1000, 0]));
    assert!(summary.is_clean());
    let strict = Options { strict: true, all: true, ..Options::default() };
    let (findings, summary) = diff_sources(strict, [source(&all[700..]), source(&all)]);
    assert_eq!(apart(&findings), [Some([0, 700])]);
    assert!(!summary.is_clean());
}

#[test]
fn a_start_within_a_loop_finds_its_iteration() {
    // The end of the loop is within reach, or not.
    for (rounds, is_repeating) in [(500, false), (20_000, true)] {
        let all = [line(30), round(rounds), line(30)].concat();
        let (findings, summary) = diff(&all, &all[30 + 3 * 100..]);
        assert!(summary.is_clean(), "{findings:?}");
        assert_eq!((summary.before, summary.common), ([330, 0], all.len() as u64 - 330));
        assert_eq!(summary.in_loops > 0, is_repeating);
    }
}

/// A function that is called often looks like the start, until it ends.
#[test]
fn a_start_is_at_the_longest_match() {
    let from = |start: u64, count: u64| (0..count).map(|index| instruction(start + 4 * index)).collect::<Vec<_>>();
    let function = from(0x2000, 80);
    let parts = [from(0x1000, 1), function.clone(), from(0x3000, 3000), from(0x1100, 1), function, from(0x9000, 300)];
    let all = parts.concat();
    let late = &all[3082..];
    for (a, b, before) in [(&all[..], late, [3082, 0]), (late, &all[..], [0, 3082])] {
        let (findings, summary) = diff(a, b);
        assert!(summary.is_clean(), "{findings:?}");
        assert_eq!((summary.before, summary.common, summary.in_loops), (before, 380, 0));
    }
    let near = Options { window: 1000, ..Options::default() };
    assert!(!diff_sources(near, [source(&all), source(late)]).1.is_clean());
}

/// Both begin at the head of a loop, one of them some iterations later.
#[test]
fn equal_first_addresses_do_not_imply_equal_starts() {
    let all = [round(6), line(12)].concat();
    for (a, b, before) in [(&all[..], &all[9..], [9, 0]), (&all[9..], &all[..], [0, 9])] {
        let (findings, summary) = diff(a, b);
        assert!(summary.is_clean(), "{findings:?}");
        assert_eq!((skipped(&findings), summary.common), (vec![(SkipReason::Start, before)], 21));
    }
}

/// A difference after equal beginnings is not explained by another start that leaves more unmatched or fits as badly.
#[test]
fn a_difference_near_the_start_is_reported() {
    let all = [round(40), line(200)].concat();
    let one_less = [&all[..2], &all[3..]].concat();
    let (findings, summary) = diff_all(&all, &one_less);
    assert_eq!((apart(&findings), summary.before), (vec![Some([1, 0])], [0; 2]));
    let other = [&line(20)[..], &round(10)].concat();
    let third = [&line(20)[..], &[instruction(0x9000)], &line(30)[5..], &[instruction(0x9100)]].concat();
    let (findings, summary) = diff(&other, &third);
    assert_eq!((apart(&findings).len(), summary.before, summary.common), (1, [0; 2], 20), "{findings:?}");
}

/// A few instructions before a gap cannot be aligned.
#[test]
fn a_start_before_a_gap() {
    let (all, gap) = (line(12), [event(Event::Gap(Gap::NoCode(8)))]);
    let (findings, summary) = diff(&all, &[&all[5..6], &gap, &all[6..]].concat());
    assert!(summary.is_clean(), "{findings:?}");
    assert_eq!((summary.before, summary.common), ([5, 0], 7));
    let (findings, summary) = diff(&all, &[&all[2..3], &gap, &all[6..]].concat());
    assert!(summary.is_clean(), "{findings:?}");
    assert_eq!((summary.before, summary.islands, summary.common), ([6, 0], [0, 1], 6));
}

/// A few equal instructions, here those of a function, do not realign the sources.
#[test]
fn missing_instructions_are_one_divergence() {
    let function: Vec<Step> = (0..10).map(|index| instruction(0x5000 + 4 * index)).collect();
    let calls = |range: std::ops::Range<u64>| {
        range.flat_map(|call| {
            [&[instruction(0x1000 + 8 * call)], &function[..], &[instruction(0x8000 + 8 * call)]].concat()
        })
    };
    let all: Vec<Step> = calls(0..100).collect();
    for missing in [12, 201, 300] {
        let mut other = all.clone();
        other.drain(400..400 + missing);
        let (findings, summary) = diff_all(&all, &other);
        assert_eq!(apart(&findings), [Some([missing as u64, 0])]);
        assert_eq!(summary.common, other.len() as u64);
    }
}

#[test]
fn two_differences_near_each_other_are_two_findings() {
    let mut other = line(500);
    other.remove(130);
    other.remove(100);
    let (findings, _) = diff_all(&line(500), &other);
    assert_eq!(apart(&findings), [Some([1, 0]); 2]);
}

#[test]
fn sources_without_common_instructions() {
    let other: Vec<Step> = (0..100).map(|index| instruction(0x8_0000 + 4 * index)).collect();
    let (findings, summary) = diff_all(&line(100), &other);
    assert_eq!((apart(&findings), summary.ending), (vec![None], Ending::Diverged));
    assert!(!summary.is_clean());
}

#[test]
fn a_window_that_is_too_small_ends_the_comparison() {
    let mut other = line(5000);
    other.drain(1000..2000);
    let options = Options { all: true, window: 500, ..Options::default() };
    let (findings, summary) = diff_sources(options, [source(&line(5000)), source(&other)]);
    assert_eq!((apart(&findings), summary.ending, summary.common), (vec![None], Ending::Diverged, 1000));
    let (findings, summary) = diff_all(&line(5000), &other);
    assert_eq!((apart(&findings), summary.ending, summary.common), (vec![Some([1000, 0])], Ending::Complete, 4000));
}

#[test]
fn instructions_in_gaps_are_skipped() {
    let all = line(1000);
    let gap = || vec![event(Event::Gap(Gap::Overflow))];
    type Row<'r> = (&'r str, Vec<Step>, [u64; 2], [u64; 2], [u64; 2]);
    let rows: &[Row<'_>] = &[
        ("forty", [&all[..300], &gap(), &all[340..]].concat(), [0, 1], [40, 0], [0; 2]),
        ("none", [&all[..300], &gap(), &all[300..]].concat(), [0, 1], [0, 0], [0; 2]),
        ("twice", [&all[..300], &gap(), &all[340..600], &gap(), &all[700..]].concat(), [0, 2], [140, 0], [0; 2]),
        ("a few between", [&all[..300], &gap(), &all[340..343], &gap(), &all[350..]].concat(), [0, 2], [50, 0], [0, 3]),
        ("at the end", [&all[..300], &gap(), &all[997..]].concat(), [0, 1], [697, 0], [0; 2]),
        ("at the start", [&gap(), &all[..]].concat(), [0, 1], [0, 0], [0; 2]),
    ];
    for (name, other, gaps, in_gaps, islands) in rows {
        let (findings, summary) = diff(&all, other);
        assert!(summary.is_clean(), "{name}: {findings:?}");
        assert_eq!((summary.gaps, summary.in_gaps, summary.islands), (*gaps, *in_gaps, *islands), "{name}");
        let (_, summary) = diff(other, &all);
        assert!(summary.is_clean(), "{name}, swapped");
        assert_eq!(summary.in_gaps, [in_gaps[1], in_gaps[0]], "{name}, swapped");
    }
}

/// A trace that was switched on late, or that omits other Exception levels, has gaps of any size.
#[test]
fn gaps_may_be_larger_than_the_window() {
    let (whole, gap) = (line(5000), [event(Event::Gap(Gap::Start))]);
    let late = [&gap, &whole[3000..3500], &gap, &whole[4700..]].concat();
    for swapped in [false, true] {
        let sources = if swapped { [&whole, &late] } else { [&late, &whole] };
        let options = Options { all: true, window: 100, ..Options::default() };
        let (findings, summary) = diff_sources(options, sources.map(|steps| source(steps)));
        assert!(summary.is_clean(), "{findings:?}");
        let of_other = |count| if swapped { [count, 0] } else { [0, count] };
        assert_eq!((summary.common, summary.before), (800, of_other(3000)));
        assert_eq!(summary.in_gaps, of_other(1200));
        assert_eq!(
            skipped(&findings).iter().map(|(_, skipped)| *skipped).collect::<Vec<_>>(),
            [3000, 1200].map(of_other)
        );
    }
}

#[test]
fn a_search_beyond_the_window_may_fail() {
    let (whole, gap) = (line(5000), [event(Event::Gap(Gap::Start))]);
    let other: Vec<Step> = (0..100).map(|index| instruction(0x9_0000 + 4 * index)).collect();
    let options = Options { all: true, window: 100, ..Options::default() };
    let (findings, summary) = diff_sources(options, [source(&[&gap[..], &other].concat()), source(&whole)]);
    assert!(!summary.is_clean());
    assert_eq!((summary.common, apart(&findings).len()), (0, 1), "{findings:?}");
}

/// Without a context after an exception from EL0, the level of its handler is unknown: it is not EL0.
#[test]
fn the_level_after_an_exception_from_el0_is_unknown() {
    let level = |level| event(Event::Context(Context { level: Some(level), ..Context::default() }));
    let exception = event(Event::Exception(Exception { kind: ExceptionKind::SError, ..Exception::default() }));
    let steps = line(20);
    let silent = [&[level(0)], &steps[..5], std::slice::from_ref(&exception), &steps[5..]].concat();
    let reported = |after| [&[level(0)], &steps[..5], &[exception.clone(), level(after)], &steps[5..]].concat();
    assert!(diff(&silent, &reported(1)).1.is_clean());
    assert!(!diff(&reported(2), &reported(1)).1.is_clean());
}

#[test]
fn a_gap_within_a_loop() {
    let all = [line(30), round(1000), line(30)].concat();
    let gap = vec![event(Event::Gap(Gap::Overflow))];
    let other = [&all[..60], &gap, &all[60 + 3 * 40..]].concat();
    let (findings, summary) = diff(&all, &other);
    assert!(summary.is_clean(), "{findings:?}");
    assert_eq!((summary.in_gaps, summary.after), ([120, 0], [0; 2]));
}

#[test]
fn a_difference_after_a_gap_is_reported() {
    let mut other = line(1000);
    edit(&mut other[303], |instruction| instruction.opcode = Some(0));
    other.insert(300, event(Event::Gap(Gap::Damaged)));
    let (findings, _) = diff(&line(1000), &other);
    assert_eq!(facets(&findings), [("opcodes", "", ["d50334a3", "00000000"])]);
}

#[test]
fn facets_are_compared() {
    let branch = |taken, target| move |step: &mut Step| edit(step, |i| i.branch = Some(Branch { taken, target }));
    let held = |held| move |step: &mut Step| edit(step, |i| i.is_executed = Some(held));
    let memory = |direction, address, bytes: &'static [u8]| {
        move |step: &mut Step| {
            let known = bytes.iter().map(|byte| (*byte, 0xff));
            step.access_known(direction, address, bytes.len() as u64, known);
        }
    };
    let touch = |direction, parts: &'static [(u64, u64)]| {
        move |step: &mut Step| parts.iter().for_each(|(address, size)| step.access(direction, *address, *size))
    };
    let register = |name: &'static str, low, bytes: &'static [(u8, u8)]| {
        move |step: &mut Step| step.write_register_known(name, low, bytes.iter().copied())
    };
    let both = |one: fn(&mut Step), other: fn(&mut Step)| {
        move |step: &mut Step| {
            one(step);
            other(step);
        }
    };
    use Direction::{Both, Neither, Read, Write};
    let compare = |name, one: &dyn Fn(&mut Step), other: &dyn Fn(&mut Step), expected: &[(&str, &str, [&str; 2])]| {
        let [mut a, mut b] = [line(40), line(40)];
        one(&mut a[20]);
        other(&mut b[20]);
        assert_eq!(facets(&diff(&a, &b).0), expected, "{name}");
    };
    let nothing = |_: &mut Step| {};
    compare("taken or not", &branch(true, Some(8)), &branch(false, None), &[("branches", "", ["to 0x8", "not taken"])]);
    compare(
        "to another target",
        &branch(true, Some(8)),
        &branch(true, Some(12)),
        &[("branches", "", ["to 0x8", "to 0xc"])],
    );
    compare("one target unknown", &branch(true, Some(8)), &branch(true, None), &[]);
    compare("one not reported", &branch(true, Some(8)), &nothing, &[]);
    compare("conditions", &held(true), &held(false), &[("conditions", "", ["held", "failed"])]);
    compare("split", &touch(Read, &[(0x10, 8), (0x18, 8)]), &touch(Read, &[(0x10, 16)]), &[]);
    compare("split, the high one first", &touch(Write, &[(0x18, 8), (0x10, 8)]), &touch(Write, &[(0x10, 16)]), &[]);
    compare(
        "another size",
        &touch(Read, &[(0x10, 8)]),
        &touch(Read, &[(0x10, 4)]),
        &[("accesses", "reads", ["0x10+8", "0x10+4"])],
    );
    compare(
        "another address",
        &touch(Write, &[(0x10, 4)]),
        &touch(Write, &[(0x20, 4)]),
        &[("accesses", "writes", ["0x10+4", "0x20+4"])],
    );
    compare("no access", &touch(Write, &[(0x10, 4)]), &nothing, &[("accesses", "writes", ["0x10+4", "nothing"])]);
    compare("a prefetch is not compared", &touch(Neither, &[(0x10, 4)]), &nothing, &[]);
    compare(
        "read and write in one",
        &touch(Both, &[(0x10, 4)]),
        &both(|s| s.access(Read, 0x10, 4), |s| s.access(Write, 0x10, 4)),
        &[],
    );
    compare(
        "data",
        &memory(Read, 0x10, &[1, 2]),
        &memory(Read, 0x10, &[1, 3]),
        &[("data", "at 0x10", ["0102", "0103"])],
    );
    compare(
        "data, split",
        &both(|s| s.access_known(Read, 0x10, 1, [(1, 0xff)]), |s| s.access_known(Read, 0x11, 1, [(2, 0xff)])),
        &memory(Read, 0x10, &[1, 2]),
        &[],
    );
    compare("data, one not reported", &memory(Read, 0x10, &[1, 2]), &touch(Read, &[(0x10, 2)]), &[]);
    compare(
        "register",
        &register("x0", 0, &[(1, 0xff)]),
        &register("x0", 0, &[(2, 0xff)]),
        &[("registers", "x0", ["0x01", "0x02"])],
    );
    compare("unknown bits", &register("x0", 0, &[(0x71, 0x0f)]), &register("x0", 0, &[(0x21, 0xff)]), &[]);
    compare("a part of a register", &register("x0", 4, &[(1, 0x0f)]), &register("x0", 0, &[(0x13, 0xff)]), &[]);
    compare(
        "a different part of a register",
        &register("x0", 4, &[(1, 0x0f)]),
        &register("x0", 0, &[(0x23, 0xff)]),
        &[("registers", "x0", ["0x--1-", "0x23"])],
    );
    compare("another name", &register("x0", 0, &[(1, 0xff)]), &register("w0", 0, &[(2, 0xff)]), &[]);
}

#[test]
fn facets_of_only_one_source_are_not_compared() {
    let mut b = line(40);
    edit(&mut b[20], |instruction| instruction.opcode = Some(1));
    b[21].write_register("x0", 0, &[1]);
    let coverage = Coverage::of(&[Facet::Instructions, Facet::Times]);
    let (_, summary) = diff_sources(Options::default(), [Source { coverage, ..source(&line(40)) }, source(&b)]);
    assert!(summary.is_clean());
    assert_eq!(summary.facets, Coverage::of(&[Facet::Instructions]));
    let facets = Coverage::of(&[Facet::Instructions, Facet::Registers]);
    let (_, summary) = diff_sources(Options { facets, ..Options::default() }, [source(&line(40)), source(&b)]);
    assert!(summary.is_clean());
    assert_eq!(summary.tally(Facet::Registers).only, [0, 1]);
}

fn with(at: usize, events: &[Event]) -> Vec<Step> {
    let mut steps = line(40);
    steps.splice(at..at, events.iter().map(|inserted| event(*inserted)));
    steps
}

#[test]
fn exceptions_and_contexts_are_compared() {
    let exception = |kind, return_address| Event::Exception(Exception { kind, return_address, ..Exception::default() });
    let level = |level| Event::Context(Context { level: Some(level), ..Context::default() });
    let irq = exception(ExceptionKind::Irq, Some(0x1050));
    type Row<'r> = (&'r str, Vec<Event>, Vec<Event>, &'r [(&'r str, &'r str, [&'r str; 2])]);
    let rows: Vec<Row<'_>> = vec![
        ("the same", vec![irq], vec![irq], &[]),
        ("one unknown", vec![irq], vec![exception(ExceptionKind::Unknown, None)], &[]),
        (
            "different kinds",
            vec![irq],
            vec![exception(ExceptionKind::Fiq, None)],
            &[("exceptions", "before it", ["irq (return to 0x1050)", "fiq"])],
        ),
        ("only one", vec![irq], vec![], &[("exceptions", "before it", ["irq (return to 0x1050)", "none"])]),
        ("one context", vec![level(1)], vec![], &[]),
        ("different levels, reported once", vec![level(1)], vec![level(2)], &[("levels", "", ["1", "2"])]),
    ];
    for (name, one, other, expected) in rows {
        let (findings, _) = diff_all(&with(20, &one), &with(20, &other));
        assert_eq!(facets(&findings), expected, "{name}");
    }
}

#[test]
fn an_attempted_instruction() {
    let fault = [Event::Exception(Exception {
        kind: ExceptionKind::Synchronous,
        return_address: Some(0x104c),
        ..Exception::default()
    })];
    let a = with(20, &fault);
    let mut b = with(20, &fault);
    b.remove(19);
    let (findings, summary) = diff(&a, &b);
    assert_eq!(skipped(&findings), [(SkipReason::Attempted, [1, 0])]);
    assert!(summary.is_clean());
    let mut silent = line(40);
    silent.remove(19);
    assert_eq!(facets(&diff(&a, &silent).0), [("exceptions", "before it", ["synchronous (return to 0x104c)", "none"])]);
}

#[test]
fn all_differences_are_found() {
    let mut other = line(1000);
    edit(&mut other[100], |instruction| instruction.opcode = Some(1));
    other.remove(300);
    other.insert(500, instruction(0x9000));
    edit(&mut other[700], |instruction| instruction.address = 0x9004);
    let (findings, summary) = diff_all(&line(1000), &other);
    assert_eq!(apart(&findings), [Some([1, 0]), Some([0, 1]), Some([1, 1])]);
    assert_eq!((facets(&findings).len(), summary.differences, summary.ending), (1, 4, Ending::Complete));
    assert_eq!(summary.tally(Facet::Instructions).only, [2, 2]);
    let options = Options { all: true, limit: 2, ..Options::default() };
    let (findings, summary) = diff_sources(options, [source(&line(1000)), source(&other)]);
    assert_eq!((findings.len(), summary.differences), (2, 4));
}

#[test]
fn one_core_of_each_source() {
    let mut other: Vec<Step> = line(200);
    other.iter_mut().skip(1).step_by(2).for_each(|step| step.core = 1);
    let even: Vec<Step> = line(200).into_iter().step_by(2).collect();
    let odd: Vec<Step> = line(200).into_iter().skip(1).step_by(2).collect();
    let (_, summary) = diff(&even, &other);
    assert!(summary.is_clean());
    assert_eq!(summary.other_cores, [0, 100]);
    let options = Options { cores: [0, 1], ..Options::default() };
    assert!(diff_sources(options, [source(&odd), source(&other)]).1.is_clean());
}

#[test]
fn sources_that_fail() {
    let failing = |is_damage| Source {
        failure: Some(SourceError { text: "broken".into(), is_damage, position: None }),
        ..source(&line(50))
    };
    let (_, summary) = diff_sources(Options::default(), [source(&line(50)), failing(true)]);
    assert!(!summary.is_clean() && summary.damage[1].is_some() && summary.common == 50);
    let pulls = [failing(false), source(&line(50))].map(|source| Pull::new(source).unwrap());
    let error = Differ::new(Options::default()).run(pulls, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!((error.source_index, error.to_string().as_str()), (0, "broken"));
}

/// Steps of a program with loops, data and exceptions.
fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0_u64..32, 0_u8..8, any::<u8>()), 2..400).prop_map(|items| {
        let step = |(address, kind, value): (u64, u8, u8)| {
            let mut step = instruction(0x1000 + 4 * address);
            match kind {
                0 => step.write_register("x0", 0, &[value]),
                1 => step.access_known(Direction::Read, u64::from(value), 1, [(value, 0xff)]),
                2 => step = event(Event::Gap(Gap::Overflow)),
                3 => step = event(Event::Exception(Exception::default())),
                _ => {}
            }
            step
        };
        let first = instruction(0x800);
        std::iter::once(first).chain(items.into_iter().map(step)).collect()
    })
}

proptest! {
    #[test]
    fn a_source_equals_itself(steps in any_steps()) {
        let (findings, summary) = diff_all(&steps, &steps);
        prop_assert!(summary.is_clean(), "{findings:?}");
        prop_assert_eq!(summary.differences, 0);
    }

    #[test]
    fn any_change_is_found(count in 2_u64..300, at in 1_u64..300, kind in 0..5) {
        let (steps, at) = (line(count), (at % count) as usize);
        prop_assume!(at > 0);
        let mut other = steps.clone();
        match kind {
            0 => edit(&mut other[at], |instruction| instruction.opcode = Some(0)),
            1 => edit(&mut other[at], |instruction| instruction.address = 0x9000),
            2 => other.insert(at, instruction(0x9000)),
            3 if at + 1 < count as usize => drop(other.remove(at)),
            _ => other[at].access(Direction::Write, 0x10, 1),
        }
        let (_, summary) = diff(&steps, &other);
        prop_assert!(!summary.is_clean());
        let (_, summary) = diff_all(&other, &steps);
        prop_assert_eq!(summary.differences, 1);
    }
}
