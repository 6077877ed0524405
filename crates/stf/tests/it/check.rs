//! The checker: every rule is broken by a row, and allowed traces have no findings.

mod a64;
mod accepted;
mod broken;
pub(crate) mod fixtures;

use std::fmt::Write;

use self::fixtures::*;
use proptest::prelude::*;
use unspool_stf::Layout;
use unspool_stf::check::{Checker, Finding, RULES};
use unspool_stf::read::Position;

/// Position of each record.
fn positions(records: &[Record<'_>]) -> Vec<Position> {
    let mut bytes = Vec::new();
    let position = |(record, one): (usize, &Record<'_>)| {
        let position = Position { record: record as u64, offset: bytes.len() as u64 };
        one.encode(&mut bytes);
        position
    };
    records.iter().enumerate().map(position).collect()
}

fn check(records: &[Record<'_>]) -> Vec<Finding> {
    let mut checker = Checker::new();
    let mut findings = Vec::new();
    for (position, record) in positions(records).into_iter().zip(records) {
        checker.push(position, record, &mut |finding| findings.push(finding));
    }
    checker.finish(&mut |finding| findings.push(finding));
    findings
}

/// The number of the instruction that a record belongs to.
fn instruction(records: &[Record<'_>], record: u64) -> u64 {
    let is_opcode = |record: &&Record<'_>| matches!(record, Record::InstOpcode32(_) | Record::InstOpcode16(_));
    let end = records.iter().position(|record| *record == Record::EndHeader).unwrap_or(records.len()) as u64;
    if record <= end { 0 } else { 1 + records[..record as usize].iter().filter(is_opcode).count() as u64 }
}

#[test]
fn one_mistake_is_one_finding() {
    let mut failures = String::new();
    for (rule, name, record, records) in broken::rows() {
        let findings = check(&records);
        let offset = positions(&records).get(record as usize).map_or(0, |position| position.offset);
        let is_right = matches!(&findings[..], [finding] if finding.rule.name == rule
            && finding.position == Position { record, offset }
            && finding.instruction == instruction(&records, record)
            && !finding.detail.is_empty());
        if !is_right {
            writeln!(failures, "{rule}, {name}, record {record}: {findings:#?}").unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn allowed_traces_have_no_findings() {
    let mut failures = String::new();
    for (name, records) in accepted::rows() {
        let findings = check(&records);
        if !findings.is_empty() {
            writeln!(failures, "{name}: {findings:#?}").unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn sizes_in_bits_are_reported_once() {
    let loads = vec![read(64), word(u64::MAX), op(LD), read(8), word(0xff), op(LB)];
    // The atomics of such traces are in bytes.
    let atomic = vec![read(8), word(0), write(8), word(0), op(AMOADD_D)];
    let findings = check(&trace([loads, atomic, vec![write(64), word(0), op(SD)]].concat()));
    let names: Vec<&str> = findings.iter().map(|finding| finding.rule.name).collect();
    assert_eq!(names, ["stf-access-bits"]);
}

#[test]
fn header_without_an_end_ends_at_the_first_instruction() {
    let mut records = header();
    records.pop();
    records.extend([op(NOP), to(MEM), op(NOP)]);
    let names: Vec<&str> = check(&records).iter().map(|finding| finding.rule.name).collect();
    assert_eq!(names, ["stf-end-header", "stf-mode-start", "stf-target-no-branch"]);
}

#[test]
fn every_rule_is_tested() {
    let rows = broken::rows();
    for rule in RULES {
        assert!(rows.iter().any(|row| row.0 == rule.name), "no row for {}", rule.name);
        assert_eq!(RULES.iter().filter(|other| other.name == rule.name).count(), 1, "{}", rule.name);
        assert!(rule.name.starts_with("stf-") && rule.summary.ends_with('.'), "{}", rule.name);
    }
    for (index, row) in rows.iter().enumerate() {
        assert!(RULES.iter().any(|rule| rule.name == row.0), "no rule {}", row.0);
        assert!(!rows[..index].iter().any(|other| (other.0, other.1) == (row.0, row.1)), "{}, {} twice", row.0, row.1);
    }
}

/// The table of rules for the documentation.
fn document() -> String {
    let mut text = String::from(
        "# Rules for STF\n\n\
        Rules of the checker. The sections are the records and headings of the STF specification, version 1.3; \
        *reference writer* is the additional practice of the public library and its tools. The words are ours. An error \
        misleads readers; a warning is an unlikely value, or something that the specification demands and many producers \
        omit. Unknown opcodes, instructions with micro-operations, and those with an exception or interrupt are not \
        checked against their opcode.\n\n\
        Each rule is tested by the rows named in the last column, in `crates/stf/tests/it/check/broken.rs` and \
        `a64.rs`. \
        This file is written by the tests: `UPDATE=1 cargo test -p unspool-stf --test it check`.\n\n\
        | rule | severity | section | summary | tested by |\n|---|---|---|---|---|\n",
    );
    let rows = broken::rows();
    for rule in RULES {
        let severity = rule.severity;
        let names: Vec<&str> = rows.iter().filter(|row| row.0 == rule.name).map(|row| row.1).collect();
        let (name, section, summary, names) = (rule.name, rule.section, rule.summary, names.join("; "));
        text += &format!("| `{name}` | {severity} | {section} | {summary} | {names} |\n");
    }
    text
}

#[test]
fn document_lists_the_rules() {
    let how = "cargo test -p unspool-stf --test it check";
    unspool_testing::assert_document("docs/stf-rules.md", &document(), how);
}

/// The bytes of any record: a known descriptor, and any data.
fn any_record() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<u8> =
        (1..=13).chain([19, 31, 40, 41, 50, 60, 60, 61, 61, 62, 63, 100, 101, 230, 250, 251, 255]).collect();
    let known = [known, vec![240; 8], vec![241; 6]].concat();
    let opcodes = [NOP, JAL, BEQ, RET, MRET, ECALL, LB, LD, SD, AMOADD_D, SC_D, VLE64, ADDIW, UNKNOWN, 0, u32::MAX];
    let rest = (prop::collection::vec(any::<u8>(), 48), any::<[u8; 8]>(), prop::sample::select(opcodes.to_vec()));
    (prop::sample::select(known), rest).prop_map(|(descriptor, (mut rest, mask, opcode))| {
        // Few bits, so that lengths are short and numbers are meaningful.
        rest.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte &= mask & mask.rotate_left(3));
        if descriptor == 240 {
            rest[..4].copy_from_slice(&opcode.to_le_bytes());
        }
        [vec![descriptor], rest].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_records_can_be_checked(parts in prop::collection::vec(any_record(), 0..24), has_header: bool) {
        let mut layout = Layout::default();
        layout.follow(&Record::VlenConfig(128));
        layout.follow(&Record::ProtocolId(1));
        let mut records = if has_header { header() } else { vec![] };
        records.extend(parts.iter().filter_map(|part| Record::parse(part, &layout).ok()).map(|(record, _)| record));
        let findings = check(&records);
        prop_assert!(findings.len() <= 8 * records.len() + 16, "{} findings", findings.len());
        for finding in findings {
            prop_assert!(finding.position.record < records.len().max(1) as u64);
        }
    }
}
