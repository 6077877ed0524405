//! Checks of the corpus logs: the expected findings in each.
//!
//! Needs the corpus: `UNSPOOL_CORPUS` names its folder.

use std::collections::BTreeMap;

use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::restyle::{Restyler, Style};
use unspool_testing::corpus;

use crate::fixtures;

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
        let log = std::fs::read(folder.join(format!("{name}.tarmac"))).unwrap();
        let (mut counts, mut details) = (Counts::new(), Vec::new());
        for finding in fixtures::check(Dialect::detect(&log), &log) {
            *counts.entry(finding.rule.name).or_default() += 1;
            details.push(format!("  line {}: {}: {}", finding.position.line, finding.rule.name, finding.detail));
        }
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
    let (restyled, _) = fixtures::restyle(Restyler::new(Dialect::FastModels, Style::Rev3), &log);
    let mut rules = Counts::new();
    for finding in fixtures::check(Dialect::Rev3, &restyled) {
        *rules.entry(finding.rule.name).or_default() += 1;
    }
    // The registers at the start belong to no step, and have times.
    assert_eq!(rules, [("tarmac-step-first", 1), ("tarmac-time-in-step", 1)].into_iter().collect());
}
