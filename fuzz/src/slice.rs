//! Slices of any file: they contain the selected instructions, and are as valid as the file.
//!
//! Input: the lowest bits of byte 0 select the format: ASTF, STF, or Tarmac; bit 2 that each range is a trace of its own. The
//! next four bytes are a mask that selects of every 32 instructions.
//!
//! Checked: slicing ends; a slice has the selected instructions, in order; it can be read, and breaks no rule of its format if
//! the file breaks none. For an STF file that breaks rules, only that slicing ends.

use std::io::Cursor;
use std::ops::ControlFlow;

use unspool_astf as astf;
use unspool_container::Container;
use unspool_model::selection::{Candidate, Choice, Select};
use unspool_stf as stf;
use unspool_stf::lift::Follower;
use unspool_tarmac as tarmac;
use unspool_tarmac::Record;
use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::read::{Position, lines};

/// Selects by a mask, and keeps the indexes.
struct Mask {
    wanted: u32,
    chosen: Vec<usize>,
}

impl Select for Mask {
    fn choose(&mut self, candidate: &Candidate) -> Choice {
        if self.wanted >> (candidate.index % 32) & 1 == 0 {
            return Choice::Leave;
        }
        self.chosen.push(candidate.index as usize);
        Choice::Take
    }
}

/// Checks all properties for these bytes.
pub fn check(data: &[u8]) {
    let Some((&[choice, a, b, c, d], file)) = data.split_first_chunk() else { return };
    let (split, mask) = (choice & 4 != 0, Mask { wanted: u32::from_le_bytes([a, b, c, d]), chosen: Vec::new() });
    match choice & 3 {
        0 => of_astf(file, split, mask),
        1 => of_stf(file, split, mask),
        _ => of_tarmac(file, split, mask),
    }
}

/// Slices contain the selected instructions, and break no rule if the file breaks none.
fn compare<I: PartialEq + std::fmt::Debug>(
    parts: &[Vec<u8>],
    chosen: &[usize],
    file: (Vec<I>, Vec<String>),
    read: impl Fn(&[u8]) -> (Vec<I>, Vec<String>),
) {
    let (all, errors) = file;
    let mut found = Vec::new();
    for part in parts {
        let (mut instructions, new) = read(part);
        found.append(&mut instructions);
        assert!(!errors.is_empty() || new.is_empty(), "{new:#?}");
    }
    let wanted: Vec<_> = chosen.iter().filter_map(|index| all.get(*index)).collect();
    assert!(found.iter().eq(wanted.iter().copied()), "{found:?} is not {wanted:?}");
}

fn of_astf(file: &[u8], split: bool, mut mask: Mask) {
    let Ok(mut reader) = astf::read::Reader::in_place(file) else { return };
    let (header, mut parts) = (reader.header().to_bytes(), Vec::<Vec<astf::Bytes>>::new());
    let sliced = astf::slice::slice(&mut reader, &mut mask, astf::slice::SliceOptions { split }, &mut parts);
    let Ok(sliced) = sliced else { return };
    assert_eq!(sliced.instructions, mask.chosen.len() as u64);
    assert!(split || parts.len() <= 1);
    let parts: Vec<Vec<u8>> = parts.iter().map(|part| [&header, part.as_flattened()].concat()).collect();
    compare(&parts, &mask.chosen, records_of_astf(file), records_of_astf);
}

/// The instructions, and the rules that are broken.
fn records_of_astf(file: &[u8]) -> (Vec<astf::Bytes>, Vec<String>) {
    let (mut checker, mut errors, mut instructions) = (astf::check::Checker::new(), Vec::new(), Vec::new());
    let mut keep = |finding: astf::check::Finding| {
        if finding.rule.severity == astf::check::Severity::Error {
            errors.push(format!("{finding:?}"));
        }
    };
    let mut reader = astf::read::Reader::in_place(file).expect("it was read before");
    checker.push(&reader.header().to_bytes(), &mut keep);
    while let Ok(records) = reader.next_records()
        && !records.is_empty()
    {
        for record in records {
            checker.push(record, &mut keep);
            if matches!(astf::record::View::new(record), astf::record::View::Instruction(_)) {
                instructions.push(*record);
            }
        }
    }
    checker.finish(&mut keep);
    (instructions, errors)
}

fn of_stf(file: &[u8], split: bool, mut mask: Mask) {
    let open = |file: &[u8]| stf::read::Reader::new(Cursor::new(file.to_vec()), stf::read::ReadOptions { threads: 1 });
    let Ok(mut reader) = open(file) else { return };
    let (options, mut parts) = (stf::slice::SliceOptions { sign: false, split, registers: true }, Vec::<Vec<u8>>::new());
    let Ok(sliced) = stf::slice::slice_by(&mut reader, &mut mask, options, &mut parts) else { return };
    assert_eq!(sliced.instructions, mask.chosen.len() as u64);
    assert!(split || parts.len() <= 1);
    let groups = groups_of_stf(file);
    // Records of the header must not follow it: they change what others mean.
    if groups.1.is_empty() {
        compare(&parts, &mask.chosen, groups, groups_of_stf);
    }
}

fn groups_of_stf(file: &[u8]) -> (Vec<(u64, u32)>, Vec<String>) {
    let open = || stf::read::Reader::new(Cursor::new(file.to_vec()), stf::read::ReadOptions { threads: 1 });
    let mut instructions = Vec::new();
    let read = open().expect("it was read before").each_instruction(&mut Follower::default(), |instruction| {
        instructions.push((instruction.pc, instruction.opcode));
        ControlFlow::Continue(())
    });
    read.expect("it was read before");
    let (mut checker, mut errors) = (stf::check::Checker::new(), Vec::new());
    let mut keep = |finding: stf::check::Finding| {
        if finding.rule.severity == stf::check::Severity::Error {
            errors.push(format!("{finding:?}"));
        }
    };
    let read = open().expect("it was read before").each(|position, record| {
        checker.push(position, record, &mut keep);
        ControlFlow::Continue(())
    });
    read.expect("it was read before");
    checker.finish(&mut keep);
    (instructions, errors)
}

fn of_tarmac(file: &[u8], split: bool, mut mask: Mask) {
    let Ok(mut reader) = tarmac::read::Reader::new(file, tarmac::read::ReadOptions::default()) else { return };
    if reader.container() != Container::Plain {
        return;
    }
    let dialect = reader.dialect();
    let options = tarmac::slice::SliceOptions { split, dialect: Some(dialect), ..tarmac::slice::SliceOptions::default() };
    let mut parts = Vec::<Vec<u8>>::new();
    let Ok(sliced) = tarmac::slice::slice(&mut reader, &mut mask, options, &mut parts, |_, _| {}) else { return };
    assert_eq!(sliced.instructions, mask.chosen.len() as u64);
    let read = |file: &[u8]| lines_of_tarmac(file, dialect);
    compare(&parts, &mask.chosen, read(file), read);
}

/// A line of a log. The first line of a range gets the current time and core, if it has none.
#[derive(Debug)]
struct Text(String);

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|line| line.0.trim_start());
        one.ends_with(other) || other.ends_with(one)
    }
}

fn lines_of_tarmac(file: &[u8], dialect: tarmac::dialect::Dialect) -> (Vec<Text>, Vec<String>) {
    let (mut checker, mut errors, mut instructions) = (tarmac::check::Checker::new(dialect), Vec::new(), Vec::new());
    let mut keep = |finding: tarmac::check::Finding| {
        if finding.rule.severity == tarmac::check::Severity::Error {
            errors.push(format!("{finding:?}"));
        }
    };
    // Lines are parsed in the dialect of the file, whatever a range alone looks like.
    let mut parser = Parser::new(ParseOptions { implicit_thumb: dialect.has_implicit_thumb() });
    for (number, (offset, raw)) in (1..).zip(lines(file)) {
        let line = parser.parse(raw);
        checker.push(Position { line: number, offset: offset as u64 }, &line, &mut keep);
        if matches!(line.record, Record::Instruction(_)) {
            instructions.push(Text(String::from_utf8_lossy(raw).into_owned()));
        }
    }
    checker.finish(&mut keep);
    (instructions, errors)
}
