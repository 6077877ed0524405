//! `stats` on every kind of source: what is counted, by what, and what stays as scripts know it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use unspool::astf::builder::{Builder, Process, State, Step};
use unspool::astf::record::{Header, Level, Storage};
use unspool::astf::{Bytes, example};
use unspool::stf;

use super::{Run, text, unspool, unspool_with};

fn on(path: &Path, options: &[&str]) -> Run {
    unspool(&[&["stats", text(path)], options].concat())
}

/// The rows of a kind.
fn rows<'j>(lines: &'j [Value], kind: &str) -> Vec<&'j Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// The row of a kind with this name.
fn row<'j>(lines: &'j [Value], kind: &str, name: &str) -> &'j Value {
    rows(lines, kind).into_iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn astf(dir: &TempDir, name: &str, records: &[Bytes]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, records.as_flattened()).unwrap();
    path
}

/// The example of the specification, as it is when nothing is compressed.
fn example_astf(dir: &TempDir) -> PathBuf {
    let header = example::header().stored(Storage::Raw).to_bytes();
    astf(dir, "example.astf", &[&[header], &example::records()[1..]].concat())
}

/// Two processes that take turns.
fn processes(dir: &TempDir) -> PathBuf {
    let mut trace = Builder::new(Vec::new(), &Header::new(Level::Basic, false, Storage::Raw)).unwrap();
    for turn in 0..6_u64 {
        let process = Some(Process { pid: 0x10 + turn % 3, tid: None });
        trace.context(&State { process, ..State::default() }).unwrap();
        for index in 0..=turn {
            trace.instruction(&Step::plain(0x1000 + 4 * index, 0xd503_201f)).unwrap();
        }
    }
    astf(dir, "processes.astf", &trace.finish())
}

const TARMAC: &str = "\
1 clk cpu0 IT (1) 00010000 d2800020 O EL1h_n : MOV      x0,#1
1 clk cpu0 R X0 0000000000000001
2 clk cpu1 IT (1) 00020000 f81f0fe0 O EL3h_s : STR      x0,[sp,#-0x10]!
2 clk cpu1 MW8 0008fff0:00000008fff0_NS 00000000_00000001
3 clk cpu0 IT (2) 00010004 54000041 O EL1h_n : B.NE     {pc}+8 ; 0x1000c
4 clk cpu0 IT (3) 0001000c d65f03c0 O EL1h_n : RET
";

fn tarmac(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("log.tarmac");
    fs::write(&path, TARMAC).unwrap();
    path
}

fn small_stf(dir: &TempDir) -> PathBuf {
    let mut trace = stf::builder::Builder::new(Vec::new(), &stf::builder::Header::new(0x8000_0000)).unwrap();
    trace.instruction(&stf::builder::Step::plain(0x8000_0000, 0x13)).unwrap();
    trace.instruction(&stf::builder::Step::taken(0x8000_0004, 0xbff5, 0x8000_0000)).unwrap();
    trace.instruction(&stf::builder::Step::plain(0x8000_0000, 0x13)).unwrap();
    let path = dir.path().join("small.stf");
    fs::write(&path, trace.finish().sink).unwrap();
    path
}

#[test]
fn every_source_of_a_capture_is_a_block() {
    let run = on(&super::example(), &[]).clean();
    for line in ["ETE_0: 42 instructions", "ETE_1: 21 instructions", "gaps         4 (2 start, 1 overflow, 1 discard)"]
    {
        assert!(run.out.contains(line), "no {line:?} in {}", run.out);
    }
    let lines = on(&super::example(), &["--json", "--source", "0x10"]).clean().json();
    assert!(lines.iter().all(|line| line["source"] == 0x10), "{lines:?}");
    let steps = rows(&lines, "steps")[0];
    assert_eq!((&steps["source_name"], &steps["instructions"]), (&json!("ETE_0"), &json!(42)));
    assert_eq!(row(&lines, "branch", "all")["taken"], 17);
    assert_eq!(row(&lines, "level", "EL0")["count"], 39);
    assert_eq!(row(&lines, "process", "0x1234")["count"], 42);
    assert_eq!(row(&lines, "exception", "irq")["count"], 1);
    assert_eq!(row(&lines, "mnemonic", "b.ne")["count"], 5);
    assert_eq!(rows(&lines, "footprint")[0]["code_bytes"], 60);
    on(&super::example(), &["--source", "nobody"]).expect(2, &["no source 'nobody'"]);
}

#[test]
fn astf_is_counted_also_from_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let path = example_astf(&dir);
    let lines = on(&path, &["--json"]).clean().json();
    let steps = rows(&lines, "steps")[0];
    for (key, value) in [("instructions", 11), ("exceptions", 1), ("first_time", 100), ("last_time", 102)] {
        assert_eq!(steps[key], value, "{key}");
    }
    let kinds = ["steps", "footprint", "exception", "branch", "core", "level", "isa", "class", "mnemonic"];
    kinds.iter().for_each(|kind| assert!(!rows(&lines, kind).is_empty(), "{kind}"));
    let piped = unspool_with(&["stats", "-", "--json"], &fs::read(&path).unwrap()).clean().json();
    assert_eq!(piped, lines);
    // Cut short in a record.
    fs::write(&path, &fs::read(&path).unwrap()[..32 * 9 + 5]).unwrap();
    let run = on(&path, &["--json"]).expect(1, &["example.astf"]);
    assert!(rows(&run.json(), "steps")[0]["instructions"].as_u64().unwrap() > 0);
}

#[test]
fn processes_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = processes(&dir);
    let lines = on(&path, &["--by", "process", "--json"]).clean().json();
    let counts: Vec<_> =
        rows(&lines, "process").iter().map(|row| (row["name"].clone(), row["count"].clone())).collect();
    assert_eq!(counts, [(json!("0x12"), json!(9)), (json!("0x11"), json!(7)), (json!("0x10"), json!(5))]);
    assert!(rows(&lines, "class").is_empty() && rows(&lines, "level").is_empty());
    let page = on(&path, &["--by", "process"]).clean().out;
    assert!(page.contains("0x12                           9   42.86%"), "{page}");
    assert!(!page.contains("mnemonic"), "{page}");
}

/// What scripts read of STF and Tarmac stays, and the rest comes between.
#[test]
fn formats_keep_what_they_count_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let path = tarmac(&dir);
    let lines = on(&path, &["--json"]).clean().json();
    assert_eq!(lines[0]["kind"], "counts");
    assert_eq!((&lines[0]["lines"], &lines[0]["writes"]), (&json!(6), &json!(1)));
    assert_eq!(row(&lines, "isa", "a64"), &json!({"kind": "isa", "name": "a64", "count": 4, "share": 1.0}));
    assert_eq!(row(&lines, "mode", "EL1h_n")["count"], 3);
    assert_eq!(row(&lines, "mnemonic", "b.ne")["count"], 1);
    assert_eq!(row(&lines, "core", "1")["written_bytes"], 8);
    assert_eq!(row(&lines, "level", "EL3")["count"], 1);
    assert_eq!(row(&lines, "security", "secure")["count"], 1);
    assert_eq!(row(&lines, "class", "store")["count"], 1);
    assert_eq!(row(&lines, "branch", "conditional")["taken"], 1);
    // Where the last one goes is not in the log.
    assert_eq!(row(&lines, "branch", "returns")["unknown"], 1);
    assert_eq!(rows(&lines, "footprint")[0]["data_lines"], 1);

    let path = small_stf(&dir);
    let lines = on(&path, &["--json"]).clean().json();
    assert_eq!(lines[0]["kind"], "counts");
    assert_eq!(row(&lines, "class", "jal")["count"], 1);
    assert_eq!(row(&lines, "branch", "direct")["taken"], 1);
    assert_eq!(rows(&lines, "steps")[0]["instructions"], 3);
    assert_eq!(rows(&lines, "mnemonic").len(), 2);
}

#[test]
fn a_pipe_is_read_once_and_counted_twice() {
    let dir = tempfile::tempdir().unwrap();
    for path in [tarmac(&dir), small_stf(&dir)] {
        let file = on(&path, &["--json"]).clean().out;
        assert_eq!(unspool_with(&["stats", "-", "--json"], &fs::read(&path).unwrap()).clean().out, file);
    }
    // Longer than what may wait in the pipe, and one who stops early.
    let long = TARMAC.repeat(20_000);
    let lines = unspool_with(&["stats", "-", "--json"], long.as_bytes()).clean().json();
    assert_eq!(lines[0]["instructions"], 80_000);
    let lines = unspool_with(&["stats", "-", "--json", "--by", "mnemonic"], long.as_bytes()).clean().json();
    assert_eq!((rows(&lines, "mnemonic").len(), rows(&lines, "steps").len()), (4, 0));
}

#[test]
fn one_table_is_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = tarmac(&dir);
    let tables = ["class", "mnemonic", "level", "security", "core", "branches", "exception", "process"];
    let rows = [
        ("class", "class"),
        ("mnemonic", "mnemonic"),
        ("level", "level"),
        ("security", "security"),
        ("core", "core"),
        ("branch", "branches"),
        ("exception", "exception"),
        ("process", "process"),
    ];
    for (by, expected) in rows {
        let page = on(&path, &["--by", by]).clean().out;
        let heads: Vec<&str> = page.lines().filter_map(|line| line.split(' ').next()).collect();
        let found: Vec<&&str> = tables.iter().filter(|table| heads.contains(*table)).collect();
        assert_eq!(found, [&expected], "{by}: {page}");
    }
    on(&path, &["--by", "weather"]).expect(2, &["weather"]);
}
