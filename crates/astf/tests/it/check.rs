//! The checker: every rule is broken by some row, and valid traces are accepted.

mod accepted;
mod broken;
mod broken_memory;
mod fixtures;

use std::fmt::Write;

use fixtures::*;
use proptest::prelude::*;
use unspool_astf::check::{Checker, RULES};
use unspool_astf::{Bytes, Value};
use unspool_isa::{ControlFlow, Isa, Operation, access, decode};

use crate::support::findings;

fn bytes(records: &[Record]) -> Vec<Bytes> {
    records.iter().map(Record::to_bytes).collect()
}

#[test]
fn one_mistake_is_one_finding() {
    let mut failures = String::new();
    for (rule, name, record, records) in broken::rows() {
        let findings = findings(&bytes(&records));
        let is_right = matches!(&findings[..], [finding] if finding.rule.name == rule
            && finding.record == record
            && finding.offset == (record - 1) * 32
            && !finding.detail.is_empty());
        if !is_right {
            writeln!(failures, "{rule}, {name}, record {record}: {findings:#?}").unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn valid_traces_are_accepted() {
    let mut failures = String::new();
    for (name, records) in accepted::rows() {
        let findings = findings(&bytes(&records));
        if !findings.is_empty() {
            writeln!(failures, "{name}: {findings:#?}").unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn every_rule_has_a_row_that_breaks_it() {
    let rows = broken::rows();
    for rule in RULES {
        assert!(rows.iter().any(|row| row.0 == rule.name), "no row breaks {}", rule.name);
        assert_eq!(RULES.iter().filter(|other| other.name == rule.name).count(), 1, "{}", rule.name);
        assert!(rule.name.starts_with("astf-") && rule.summary.ends_with('.'), "{}", rule.name);
    }
    for (index, row) in rows.iter().enumerate() {
        assert!(RULES.iter().any(|rule| rule.name == row.0), "no rule is called {}", row.0);
        assert!(!rows[..index].iter().any(|other| (other.0, other.1) == (row.0, row.1)), "{}, {} twice", row.0, row.1);
    }
}

/// Names of the fields that are not zero.
fn fields_set(record: &Record) -> Vec<&'static str> {
    let mut names = Vec::new();
    record.each_field(|name, value| {
        let is_set = match value {
            Value::Flag(flag) => flag,
            Value::Number(number) => number != 0,
            Value::Bytes(bytes) => bytes.iter().any(|byte| *byte != 0),
        };
        names.extend(is_set.then_some(name));
    });
    names
}

#[test]
fn every_reserved_bit_is_known() {
    // This Extra EA has a second access, so that its second half is not reserved.
    let extra = ExtraEa { mem1_valid: true, ..ExtraEa::default() };
    let records = records![
        extra,
        Header::default(),
        Instruction::default(),
        Trap::default(),
        Context::default(),
        StringStart::default(),
        StringContinuation::default(),
        Timestamp::default(),
    ];
    for record in records {
        for bit in 8..8 * RECORD_BYTES {
            let mut bytes = record.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let changed = Record::from_bytes(&bytes);
            // The second value of a Timestamp is reserved too.
            let is_reserved = fields_set(&changed).iter().any(|name| name.contains("reserved") || *name == "value1");
            let is_found = findings(&[bytes]).iter().any(|finding| finding.rule.name == "astf-reserved-zero");
            assert_eq!(is_found, is_reserved, "bit {bit} of {changed:?}");
        }
    }
}

#[test]
fn a_clone_is_independent() {
    let start = bytes(&plus![add(PC)]);
    let mut checker = Checker::new();
    start.iter().for_each(|record| checker.push(record, &mut |finding| panic!("{finding:?}")));
    let (mut good, mut bad) = (checker.clone(), checker);
    let mut findings = Vec::new();
    bad.push(&op(PC + 8, LDR).to_bytes(), &mut |finding| findings.push(finding.rule.name));
    assert_eq!(findings, ["astf-pc-continuity", "astf-memory-ea-valid"]);
    good.push(&read(PC + 4, LDR, 8).to_bytes(), &mut |finding| panic!("{finding:?}"));
    assert!(format!("{good:?}").len() < 2000);
}

/// The table of rules in the documentation.
fn document() -> String {
    let mut text = String::from(
        "# The rules of ASTF\n\n\
        Rules that the checker applies to a trace. The numbers are sections of the Arm Architectural Structured Trace \
        Format, issue 0.11; all words are ours. An error is something that the format forbids; a warning is something \
        that it advises against, or that cannot be intended. Where the format leaves room, and for unknown opcodes, \
        nothing is reported.\n\n\
        The rows in the last column test the rule, in `crates/astf/tests/it/check/broken.rs` and `broken_memory.rs`. \
        The tests write this text: `UPDATE=1 cargo test -p unspool-astf --test it check`.\n\n\
        | rule | severity | section | requirement | tested by |\n|---|---|---|---|---|\n",
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
fn the_documentation_lists_the_rules() {
    let how = "cargo test -p unspool-astf --test it check";
    unspool_testing::assert_document("docs/astf-rules.md", &document(), how);
}

/// Any bytes, most of them of a type that means something and some of them with few bits set.
fn any_record() -> impl Strategy<Value = Bytes> {
    let types = prop::sample::select(vec![1_u8, 1, 1, 5, 7, 7, 8, 0x41, 0x43, 0x44, 0x45, 0x77]);
    (any::<Bytes>(), any::<Bytes>(), types, any::<bool>()).prop_map(|(mut bytes, mask, kind, is_sparse)| {
        if is_sparse {
            bytes.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask & mask.rotate_left(3));
        }
        bytes[0] = kind;
        bytes
    })
}

/// Words of the groups where memory is accessed and where new instructions appear: reserved, SME, SVE, system, and
/// loads and stores.
fn any_unknown_word() -> impl Strategy<Value = u32> {
    let groups = prop::sample::select(vec![0_u32, 1, 2, 3, 0b1010, 0b1011, 4, 6, 12, 14]);
    (any::<u32>(), groups).prop_map(|(word, group)| word & !(0b1111 << 25) | group << 25).prop_filter("known", |word| {
        let (access, facts) = (access(Isa::A64, *word), decode(Isa::A64, 0, *word));
        let is_unknown =
            access.operation == Operation::None && !access.sme_index && facts.flow == ControlFlow::FallThrough;
        is_unknown && !is_of_registers(*word)
    })
}

/// Vectors, ZA, hints, barriers, and registers of the system: no memory there.
fn is_of_registers(word: u32) -> bool {
    match word >> 24 {
        0x04 | 0x05 | 0x24 | 0x25 | 0x44 | 0x45 | 0x64 | 0x65 => true,
        0x80 | 0x81 | 0xc0 | 0xc1 => true,
        0xa0 | 0xa1 => word >> 23 & 1 != 0,
        0xd5 => word >> 19 & 0b11 != 0b01,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn unknown_opcodes_break_no_rule(word in any_unknown_word(), flags: u8, ea_size: u8, size: u64, trap: bool) {
        let is_set = |bit: u8| flags >> bit & 1 != 0;
        let access = Instruction { is_read: is_set(0), is_write: is_set(1), ea_tagged: is_set(2), ..op(PC, word) };
        let access = Instruction { ea_valid: is_set(3), ea: MEM, ea_size, trap, ..access };
        let range = ranged(Instruction { is_read: false, ..access }, size);
        let record = if is_set(4) { range } else { access };
        let after = if trap { exception(0) } else { irq() };
        let next = add(after.target_pc);
        let findings = findings(&bytes(&plus![record, after, next]));
        prop_assert!(findings.is_empty(), "{findings:#?}");
    }

    #[test]
    fn any_records_can_be_checked(records in prop::collection::vec(any_record(), 0..24), has_header: bool, flags: u8) {
        let mut records = records;
        if has_header {
            let mut header = [0; 32];
            header[..6].copy_from_slice(b"ASTF\x00\x0b");
            header[16] = flags & 0x60;
            records.insert(0, header);
        }
        let findings = findings(&records);
        prop_assert!(findings.len() <= 8 * records.len() + 4, "{} findings", findings.len());
        for finding in findings {
            prop_assert!((1..=records.len().max(1) as u64).contains(&finding.record));
            prop_assert_eq!(finding.offset, (finding.record - 1) * 32);
        }
    }
}
