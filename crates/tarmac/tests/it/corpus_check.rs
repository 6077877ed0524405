//! Checks of the corpus logs: the expected findings in each.
//!
//! Needs the corpus: `UNSPOOL_CORPUS` names its folder.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;

use unspool_tarmac::check::Checker;
use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::read::{Position, ReadOptions, Reader, lines};
use unspool_tarmac::restyle::{Restyler, Style};
use unspool_testing::corpus;

type Counts = BTreeMap<&'static str, u64>;

/// The findings in each log: rule and count.
const ROWS: &[(&str, &[(&str, u64)])] = &[
    ("calculator-aarch32-es-ld-st-style", &[]),
    ("calculator-aarch64-es-ld-st-style", &[]),
    ("calculator-aarch64-fastmodel", &[]),
    ("quicksort", &[]),
    ("calltests/calltest32", &[]),
    ("calltests/calltest64", &[]),
    ("truncate/loop", &[]),
    ("truncate/nontruncate", &[]),
    ("truncate/crash32", &[]),
    ("truncate/crash32m", &[]),
    ("truncate/crash64", &[]),
    // Written by hand: all instructions have the same number.
    ("indextest", &[("tarmac-instruction-number", 3)]),
];

#[test]
fn findings_in_corpus_logs() {
    let Some(folder) = corpus("tarmac") else { return };
    let mut failures = String::new();
    for (name, expected) in ROWS {
        let file = File::open(folder.join(format!("{name}.tarmac"))).unwrap();
        let mut reader = Reader::new(file, ReadOptions::default()).unwrap();
        let mut checker = Checker::new(reader.dialect());
        let (mut counts, mut details) = (Counts::new(), Vec::new());
        let mut found = |finding: unspool_tarmac::check::Finding| {
            *counts.entry(finding.rule.name).or_default() += 1;
            details.push(format!("  line {}: {}: {}", finding.position.line, finding.rule.name, finding.detail));
        };
        let _ = reader.each(|position, line| {
            checker.push(position, line, &mut found);
            ControlFlow::Continue(())
        });
        checker.finish(&mut found);
        if counts != expected.iter().copied().collect::<Counts>() {
            details.truncate(10);
            failures += &format!("{name}: {counts:?}\n{}\n", details.join("\n"));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn restyled_logs_pass_the_rules() {
    let Some(folder) = corpus("tarmac") else { return };
    let log = std::fs::read(folder.join("calculator-aarch64-fastmodel.tarmac")).unwrap();
    let mut parser = Parser::new(ParseOptions::default());
    let mut restyler = Restyler::new(Dialect::FastModels, Style::Rev3);
    let mut out = Vec::new();
    for (index, (offset, raw)) in lines(&log).enumerate() {
        restyler.line(Position { line: index as u64 + 1, offset: offset as u64 }, &parser.parse(raw), &mut out);
    }
    restyler.finish(&mut out);
    let mut checker = Checker::new(Dialect::Rev3);
    let mut rules = Counts::new();
    for (index, (offset, raw)) in lines(&out).enumerate() {
        let position = Position { line: index as u64 + 1, offset: offset as u64 };
        checker.push(position, &parser.parse(raw), &mut |finding| *rules.entry(finding.rule.name).or_default() += 1);
    }
    checker.finish(&mut |finding| *rules.entry(finding.rule.name).or_default() += 1);
    // The registers at the start belong to no step, and have times.
    assert_eq!(rules, [("tarmac-step-first", 1), ("tarmac-time-in-step", 1)].into_iter().collect());
}
