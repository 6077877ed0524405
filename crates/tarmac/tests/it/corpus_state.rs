//! State and steps of corpus logs against the reference tool: runs where `UNSPOOL_CORPUS` names the folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;

use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::index::{Fingerprint, Index, IndexOptions, Indexed, State, build};
use unspool_tarmac::lift::{Lifter, Step};
use unspool_tarmac::record::{Direction, Record};
use unspool_testing::corpus;

use crate::fixtures::each_line;

type Opened<'a> = Indexed<Cursor<&'a [u8]>, Cursor<Vec<u8>>>;

fn indexed(log: &[u8], big_endian: bool, segment_size: usize) -> Opened<'_> {
    let options = IndexOptions { big_endian, segment_size, threads: 2, ..IndexOptions::of(Dialect::detect(log)) };
    let mut input = Cursor::new(log);
    let fingerprint = Fingerprint::of(&mut input, 0).unwrap();
    let mut file = Cursor::new(Vec::new());
    build(&mut input, &mut file, fingerprint, &options, |_| {}).unwrap();
    Indexed::new(input, Index::open(file).unwrap())
}

/// The last line of the event of a line: the reference shows the state after the whole event.
fn end_of_event(log: &[u8], line: u64) -> u64 {
    let (mut last, mut is_over) = (line, false);
    each_line(log, |position, parsed| {
        let starts = match parsed.record {
            Record::Instruction(_) | Record::Asynchronous(_) => true,
            Record::Exception(exception) => exception.is_step,
            _ => false,
        };
        is_over |= starts && position.line > line;
        if !is_over {
            last = position.line.max(line);
        }
    });
    last
}

/// State in the reference: bytes by address, and bytes of registers by name, lowest first.
#[derive(Debug, Default)]
struct Reference {
    memory: BTreeMap<u64, u8>,
    registers: BTreeMap<String, Vec<Option<u8>>>,
}

impl Reference {
    fn of<'a>(text: impl Iterator<Item = &'a str>) -> Self {
        let mut reference = Self::default();
        for line in text {
            if let Some((name, rest)) = line.trim_start().split_once(", last modified at line ") {
                let bytes = rest.split_once(": ").unwrap().1.split(' ');
                let bytes = bytes.map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
                reference.registers.insert(name.to_string(), bytes);
            } else if !line.contains("last modified") && line.trim_start().len() > 16 {
                reference.row(line.trim_start());
            }
        }
        reference
    }

    /// Parses an address, followed by sixteen bytes or blanks.
    fn row(&mut self, row: &str) {
        let Ok(address) = u64::from_str_radix(&row[..16], 16) else { return };
        for at in 0..16 {
            let byte = row.get(17 + at * 3..19 + at * 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            byte.into_iter().for_each(|byte| {
                self.memory.insert(address + at as u64, byte);
            });
        }
    }

    fn compare(&self, state: &State, what: &str) {
        let core = &state.cores[0];
        let own: BTreeMap<u64, u8> =
            core.memory.addresses().into_iter().map(|at| (at, core.memory.byte(at).unwrap().value)).collect();
        for (address, byte) in &self.memory {
            assert_eq!(own.get(address), Some(byte), "{what}: {address:#x}");
        }
        for (address, byte) in &own {
            assert_eq!(self.memory.get(address), Some(byte), "{what}: {address:#x} is known only to us");
        }
        let is_a64 = core.registers.is_a64() == Some(true);
        let mut compared = 0;
        for (name, bytes) in &self.registers {
            let general =
                name.strip_prefix(if is_a64 { 'x' } else { 'r' }).and_then(|number| number.parse::<u8>().ok());
            let expected: Option<Vec<u8>> = bytes.iter().copied().collect();
            let (Some(_), Some(expected)) = (general, expected) else { continue };
            let expected = expected.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            let own = match name.as_str() {
                "r13" => core.registers.sp(),
                "r14" => core.registers.lr(),
                name => core.registers.find(name).and_then(|(slot, ..)| core.registers.get(slot)?.number()),
            };
            assert_eq!(own, Some(expected), "{what}: {name}");
            compared += 1;
        }
        assert!(compared > 0, "{what}: no register was compared");
    }
}

const CALCULATORS: [&str; 3] =
    ["calculator-aarch32-es-ld-st-style", "calculator-aarch64-es-ld-st-style", "calculator-aarch64-fastmodel"];

#[test]
fn memory_at_three_points() {
    let Some(corpus) = corpus("tarmac") else { return };
    for name in CALCULATORS {
        let log = fs::read(corpus.join(format!("{name}.tarmac"))).unwrap();
        // The reference does not count the header.
        let header = u64::from(log.starts_with(b"Tarmac Text"));
        for segment_size in [4 << 20, 20_000] {
            let mut indexed = indexed(&log, false, segment_size);
            for point in [1000, 5000, 11000] {
                let expected = fs::read_to_string(corpus.join(format!("expected/{name}.mem-at-{point}.txt"))).unwrap();
                let line = end_of_event(&log, point + header);
                let state = indexed.state(line, &[0..=u64::MAX]).unwrap();
                Reference::of(expected.lines()).compare(&state, &format!("{name} at {point}"));
            }
        }
    }
}

#[test]
fn every_node_of_the_index_test() {
    let Some(corpus) = corpus("tarmac") else { return };
    let log = fs::read(corpus.join("indextest.tarmac")).unwrap();
    for (reference, big_endian) in [("indextest-li.ref", false), ("indextest-bi.ref", true)] {
        let text = fs::read_to_string(corpus.join("expected").join(reference)).unwrap();
        let mut indexed = indexed(&log, big_endian, 150);
        let nodes: Vec<&str> = text.split("Node:\n").skip(1).collect();
        assert_eq!(nodes.len(), 4);
        for node in nodes {
            let range = node.lines().next().unwrap();
            let numbers: Vec<u64> =
                range.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
            let state = indexed.state(numbers[0] + numbers[1] - 1, &[0..=u64::MAX]).unwrap();
            let rows = node.lines().skip(5).filter(|line| !line.contains("internal_flags"));
            Reference::of(rows).compare(&state, &format!("{reference}, {range}"));
        }
    }
}

/// The part of a step that both producers print.
#[derive(Debug, PartialEq, Eq)]
struct Common {
    pc: u64,
    opcode: u32,
    is_executed: bool,
    registers: BTreeMap<String, u64>,
    accesses: BTreeMap<(bool, u64), u8>,
}

fn steps(path: &Path) -> Vec<Common> {
    let log = fs::read(path).unwrap();
    let mut lifter = Lifter::new(Dialect::detect(&log), false);
    let mut steps = Vec::new();
    let mut push = |step: &Step| {
        let Some(executed) = step.instruction() else { return };
        // One of them prints the stack pointer and the status by other names, and writes that change nothing.
        let registers = step.registers.iter().filter_map(|register| {
            let name = String::from_utf8(step.text(&register.name).to_ascii_lowercase()).unwrap();
            name.starts_with('x').then_some((name, step.value(register).number()?))
        });
        let mut accesses = BTreeMap::new();
        for access in &step.accesses {
            for (at, byte) in (0..).zip(step.data(access)) {
                accesses.insert((access.direction == Direction::Write, access.address.unwrap() + at), byte.unwrap());
            }
        }
        steps.push(Common {
            pc: executed.address.unwrap(),
            opcode: executed.opcode.unwrap(),
            is_executed: executed.is_executed,
            registers: registers.collect(),
            accesses,
        });
    };
    each_line(&log, |position, line| lifter.line(position, line, &mut push));
    lifter.finish(&mut push);
    steps
}

#[test]
fn two_dialects_give_the_same_steps() {
    let Some(corpus) = corpus("tarmac") else { return };
    let [es, fast] = [CALCULATORS[1], CALCULATORS[2]].map(|name| steps(&corpus.join(format!("{name}.tarmac"))));
    assert_eq!(es.len(), fast.len());
    for (number, (a, b)) in (1..).zip(es.iter().zip(&fast)) {
        assert_eq!((a.pc, a.opcode), (b.pc, b.opcode), "instruction {number}");
        assert_eq!(a.accesses, b.accesses, "instruction {number}");
        for (name, value) in &a.registers {
            assert!(b.registers.get(name).is_none_or(|other| other == value), "instruction {number}, {name}");
        }
    }
}
