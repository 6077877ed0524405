//! Tables that are written shard by shard are those that one process writes.

use std::fs;
use std::path::Path;

use arrow_schema::DataType;
use unspool::Opened;
use unspool_tables::shards::{Assembled, Counted, First, Output, Shard, Start, Text};
use unspool_tables::shards::{count, count_code, finish, merge_code, split, write, write_code};
use unspool_tables::{Table, write_tables};
use unspool_testing::{Random, corpus, example, note};

use super::corpus::find;
use super::written::Rows;

/// Writes traces shard by shard. Returns the number of shards that have rows, and of all shards.
fn distribute(traces: &[&Opened], target: &Path, bytes: u64) -> (usize, usize) {
    let folder = target.with_extension("unfinished");
    fs::create_dir(&folder).unwrap();
    let (mut first, mut all, mut read, mut split_into) = (First::default(), Vec::new(), 0, 0);
    for trace in traces {
        let shards = split(trace, bytes).unwrap();
        let shards: Vec<Shard> = shards.iter().map(|shard| Shard::from_text(&shard.to_text()).unwrap()).collect();
        let counted: Vec<_> = shards.iter().map(|shard| count(trace, shard, &Table::ALL).unwrap()).collect();
        let counts: Vec<Counted> = counted.iter().map(|(counted, _)| counted.clone()).collect();
        assert!(counts.iter().all(|counted| Counted::from_text(&counted.to_text()).unwrap() == *counted));
        let assembled = Assembled::of(&counts);
        assert_eq!(Assembled::from_text(&assembled.to_text()).unwrap(), assembled);
        let starts = assembled.starts();
        let code = merge_code(starts.iter().map(|start| counted[start.shard()].1.as_slice())).unwrap();
        let (versions, instructions) = count_code(trace, &code).unwrap();
        let record = (versions > 1).then_some(code.as_slice());
        // The order does not matter, and what is written twice is there once.
        for attempt in ["a", "b"] {
            let output = Output { folder: &folder, attempt };
            write_code(trace, &code, &first, &output).unwrap();
            for start in starts.iter().rev() {
                let start = Start::from_text(&start.to_text()).unwrap();
                write(trace, (&shards[start.shard()], &start), (&Table::ALL, record), &first, &output).unwrap();
            }
            for start in starts.iter().filter(|start| start.is_first()) {
                let Some(whole) = shards[start.shard()].whole() else { continue };
                write(trace, (&whole, start), (&[Table::Calls], None), &first, &output).unwrap();
            }
        }
        let sources = assembled.sources() as u32;
        first.source += sources;
        first.code += versions;
        first.instruction += instructions;
        (read, split_into) = (read + starts.len(), split_into + shards.len());
        all.push(assembled);
    }
    fs::create_dir(folder.join("0000-000000-unfinished")).unwrap();
    finish(&folder, target, &Table::ALL, &all).unwrap();
    assert!(!folder.exists());
    assert_eq!(fs::read_dir(target).unwrap().count(), 1 + Table::ALL.len());
    (read, split_into)
}

/// The rows of a table, sorted. The core of a source of a capture is left out.
pub(crate) fn sorted(folder: &Path, table: Table) -> Vec<Vec<Option<String>>> {
    let rows = Rows::read(folder, table);
    let columns = table.schema();
    let columns = columns.fields().iter().filter(|field| (table, field.name().as_str()) != (Table::Sources, "core"));
    let columns: Vec<Vec<Option<String>>> = columns
        .map(|field| match field.data_type() {
            DataType::Utf8 => rows.texts(field.name()),
            DataType::Binary => rows.bytes(field.name()),
            _ => rows.numbers(field.name()).iter().map(|number| number.map(|number| number.to_string())).collect(),
        })
        .collect();
    let mut sorted: Vec<Vec<Option<String>>> =
        (0..rows.count()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect();
    sorted.sort();
    sorted
}

/// Compares; returns the number of shards that have rows, and of all shards.
fn assert_same(name: &str, trace: &Opened, bytes: u64) -> (usize, usize) {
    let temporary = tempfile::tempdir().unwrap();
    let [one, many] = ["one", "many"].map(|name| temporary.path().join(name));
    write_tables(trace, &one, &Table::ALL).unwrap();
    let shards = distribute(&[trace], &many, bytes);
    for table in Table::ALL {
        let [one, many] = [&one, &many].map(|folder| sorted(folder, table));
        if let Some(row) = one.iter().zip(&many).position(|(one, many)| one != many) {
            panic!("{name} {}: row {row}\n one  {:?}\n many {:?}", table.name(), one[row], many[row]);
        }
        assert_eq!(one.len(), many.len(), "{name} {}", table.name());
    }
    shards
}

#[test]
fn examples() {
    for name in ["hello-qemu", "hello-ete", "example.astf", "hello.perf.data", "sum.tarmac"] {
        let trace = unspool::open(example(name)).unwrap();
        assert_same(name, &trace, 64);
    }
}

#[test]
fn several_traces_are_numbered_one_after_the_other() {
    let temporary = tempfile::tempdir().unwrap();
    let open = |name| unspool::open(example(name)).unwrap();
    let (first, second) = (open("hello-qemu"), open("hello-ete"));
    let many = temporary.path().join("many");
    distribute(&[&first, &second, &first], &many, 1 << 20);
    let sources = Rows::read(&many, Table::Sources);
    let count = sources.count();
    assert_eq!(sources.numbers("source"), (0..count as u64).map(Some).collect::<Vec<_>>());
    assert_eq!(sources.texts("name").first(), sources.texts("name").last());
    let instructions = Rows::read(&many, Table::Instructions);
    let numbers = instructions.numbers("number");
    assert_eq!(numbers, (0..numbers.len() as u64).map(Some).collect::<Vec<_>>());
    let total: u64 = sources.numbers("instructions").into_iter().flatten().sum();
    let blocks = Rows::read(&many, Table::Blocks);
    assert_eq!(blocks.numbers("instructions").into_iter().flatten().sum::<u64>(), total);
}

#[test]
fn corpus_captures() {
    let Some(folder) = corpus("coresight") else { return };
    let (mut paths, mut read, mut all, mut traces) = (Vec::new(), 0, 0, 0);
    find(&folder, &mut paths);
    for path in &paths {
        let Ok(trace) = unspool::open(path) else { continue };
        if trace.step_sources().is_err() {
            continue;
        }
        let (of_trace, split) = assert_same(&path.display().to_string(), &trace, 30_000);
        (read, all, traces) = (read + of_trace, all + split, traces + 1);
    }
    note(format_args!("{traces} captures in {read} shards, and {} that belong to the one before", all - read));
    assert!(read > traces);
}

#[test]
fn forged_text_is_an_error() {
    let trace = unspool::open(example("hello-qemu")).unwrap();
    let text = split(&trace, 64).unwrap()[0].to_text();
    let mut random = Random::new(3);
    for _ in 0..500 {
        let mut forged = text.clone().into_bytes();
        let at = random.below(forged.len() as u64) as usize;
        forged[at] = b' ' + random.below(90) as u8;
        let Ok(shard) = Shard::from_text(&String::from_utf8(forged).unwrap()) else { continue };
        // Whatever it describes, there is no panic.
        let _ = count(&trace, &shard, &Table::ALL);
    }
    assert!(Shard::from_text("{\"source\":9,\"points\":null}").is_ok_and(|shard| count(&trace, &shard, &[]).is_err()));
    assert!(Counted::from_text("[]").is_err());
}
