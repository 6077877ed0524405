//! Blocks, expanded to instructions, are the steps of the trace.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use unspool::Opened;
use unspool::model::{Event, Gap, Step};
use unspool_tables::{Table, write_tables};
use unspool_testing::repository;

use super::written::Rows;

/// What both must agree on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Executions of each address and opcode.
    pub(crate) executed: BTreeMap<(u64, Option<u64>), u64>,
    accesses: u64,
    exceptions: u64,
    gaps: u64,
}

/// Compares the tables of a trace with its steps; returns the number of instructions.
pub(crate) fn assert_equal(name: &str, trace: &Opened) -> u64 {
    let (temporary, tables) = (tempfile::tempdir().unwrap(), Table::ALL);
    let folder = temporary.path().join("tables");
    write_tables(trace, &folder, &tables).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (steps, tables) = (of_steps(trace), of_tables(&folder));
    for (at, count) in &steps.executed {
        assert_eq!(tables.executed.get(at), Some(count), "{name}: {at:x?}");
    }
    assert_eq!(steps, tables, "{name}");
    assert_sequences(name, &folder);
    steps.executed.values().sum()
}

fn of_steps(trace: &Opened) -> Counts {
    let mut counts = Counts::default();
    for mut source in trace.step_sources().unwrap() {
        // What cannot be read is in neither.
        let _ = source.steps.each(&mut |step| {
            counts.add(step);
            ControlFlow::Continue(())
        });
    }
    counts
}

impl Counts {
    fn add(&mut self, step: &Step) {
        self.accesses += step.accesses().len() as u64;
        match &step.event {
            Event::Instruction(instruction) => {
                let opcode = instruction.opcode.map(u64::from);
                *self.executed.entry((instruction.address, opcode)).or_default() += 1;
            }
            Event::Exception(_) => self.exceptions += 1,
            Event::Gap(_) => self.gaps += 1,
            _ => {}
        }
    }
}

fn of_tables(folder: &Path) -> Counts {
    let [blocks, instructions, events, accesses] =
        [Table::Blocks, Table::Instructions, Table::Events, Table::Accesses].map(|table| Rows::read(folder, table));
    let [code, address, number, opcode] =
        ["code", "address", "number", "opcode"].map(|column| instructions.numbers(column));
    let mut first = BTreeMap::new();
    for row in 0..instructions.count() {
        assert_eq!(number[row], Some(row as u64), "instructions are numbered in their order");
        first.insert((code[row], address[row]), row);
    }
    let mut counts = Counts { accesses: accesses.count() as u64, ..Counts::default() };
    let [block_code, block_address, length] = ["code", "address", "instructions"].map(|column| blocks.numbers(column));
    let mut executions: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    for row in 0..blocks.count() {
        let first = first[&(block_code[row], block_address[row])];
        *executions.entry((first, length[row].unwrap())).or_default() += 1;
    }
    for ((first, length), count) in executions {
        for row in first..first + length as usize {
            *counts.executed.entry((address[row].unwrap(), opcode[row])).or_default() += count;
        }
    }
    for kind in events.texts("kind").iter().flatten() {
        counts.exceptions += u64::from(kind == "exception");
        counts.gaps += u64::from(kind == "gap");
    }
    counts
}

/// Blocks of a source are in order, and without a hole.
fn assert_sequences(name: &str, folder: &Path) {
    let (blocks, sources) = (Rows::read(folder, Table::Blocks), Rows::read(folder, Table::Sources));
    let [source, sequence, instructions] = ["source", "sequence", "instructions"].map(|column| blocks.numbers(column));
    let mut next: BTreeMap<Option<u64>, u64> = BTreeMap::new();
    for row in 0..blocks.count() {
        let next = next.entry(source[row]).or_default();
        assert_eq!(sequence[row], Some(*next), "{name}: row {row}");
        *next += instructions[row].unwrap();
    }
    for (source, count) in sources.numbers("source").into_iter().zip(sources.numbers("instructions")) {
        assert_eq!(next.get(&source).copied().unwrap_or_default(), count.unwrap(), "{name}: source {source:?}");
    }
}

#[test]
fn blocks_of_the_examples_are_their_steps() {
    for (name, expected) in
        [("hello-qemu", 133), ("hello-ete", 0), ("example.astf", 0), ("sum.tarmac", 0), ("hello.perf.data", 0)]
    {
        let mut trace = unspool::open(repository("examples").join(name)).unwrap();
        if name == "hello.perf.data" {
            trace = trace.with_image(repository("examples/hello-qemu/hello")).unwrap();
        }
        let instructions = assert_equal(name, &trace);
        assert!(instructions > 0, "{name}");
        assert!(expected == 0 || instructions == expected, "{name}: {instructions}");
    }
}

/// Code that is replaced, in the middle of which a branch leads, and at the end of the address space.
#[test]
fn blocks_of_changing_code_are_their_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changing.tarmac");
    let mut log = String::new();
    let lines = [
        ("0000000000001000", "d503201f"),
        ("0000000000001004", "17ffffff"),
        ("0000000000001000", "d65f03c0"),
        ("0000000000001000", "d503201f"),
        ("0000000000001004", "d65f03c0"),
        ("0000000000001002", "d503201f"),
        ("fffffffffffffff8", "d503201f"),
        ("fffffffffffffffc", "14000001"),
        ("0000000000001000", "d503201f"),
    ];
    for (time, (address, opcode)) in lines.iter().enumerate() {
        log += &format!("{time} clk IT ({time}) {address} {opcode} O EL1h_n : NOP\n");
    }
    std::fs::write(&path, log).unwrap();
    let trace = unspool::open(&path).unwrap();
    assert_eq!(assert_equal("changing code", &trace), lines.len() as u64);
}

/// A trace that ends in the middle of a record: what is before it is in the tables, and the problem is in `sources`.
#[test]
fn a_damaged_trace_gives_what_can_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(repository("examples/example.astf")).unwrap();
    let mut with_rows = 0;
    for length in (0..whole.len()).step_by(7) {
        let path = folder.path().join("cut.astf");
        std::fs::write(&path, &whole[..length]).unwrap();
        let Ok(trace) = unspool::open(&path) else { continue };
        let out = folder.path().join("tables");
        if write_tables(&trace, &out, &Table::ALL).is_ok() {
            let sources = Rows::read(&out, Table::Sources);
            with_rows += u64::from(sources.texts("problem").iter().any(Option::is_some));
        }
    }
    assert!(with_rows > 0);
}

/// Gaps have a name in the table.
#[test]
fn gaps_are_rows() {
    let temporary = tempfile::tempdir().unwrap();
    let trace = unspool::open(repository("examples/hello-ete")).unwrap();
    let out = temporary.path().join("tables");
    write_tables(&trace, &out, &[Table::Events]).unwrap();
    let events = Rows::read(&out, Table::Events);
    let names = events.texts("name");
    assert!(names.iter().flatten().any(|name| name == Gap::Start.name()), "{names:?}");
}
