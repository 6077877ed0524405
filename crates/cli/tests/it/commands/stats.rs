//! `stats` on every kind of source: totals, tables and JSON.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use unspool::astf::builder::{Builder, Process, State, Step};
use unspool::astf::example;
use unspool::astf::record::{Header, Level, Storage};
use unspool::stf;

use crate::run::{Folder, Run, assert_fields, on, text, unspool_with};

fn stats(path: &Path, options: &[&str]) -> Run {
    on("stats", path, options)
}

/// The rows of a kind.
fn rows<'j>(lines: &'j [Value], kind: &str) -> Vec<&'j Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// The row of a kind with this name.
fn row<'j>(lines: &'j [Value], kind: &str, name: &str) -> &'j Value {
    rows(lines, kind).into_iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The example of the specification, as it is when nothing is compressed.
fn example_astf(folder: &Folder) -> PathBuf {
    let header = example::header().stored(Storage::Raw).to_bytes();
    folder.file("example.astf", [&[header], &example::records()[1..]].concat().as_flattened())
}

/// Two processes that take turns.
fn processes(folder: &Folder) -> PathBuf {
    let mut trace = Builder::new(Vec::new(), &Header::new(Level::Basic, false, Storage::Raw)).unwrap();
    for turn in 0..6_u64 {
        let process = Some(Process { pid: 0x10 + turn % 3, tid: None });
        trace.context(&State { process, ..State::default() }).unwrap();
        for index in 0..=turn {
            trace.instruction(&Step::plain(0x1000 + 4 * index, 0xd503_201f)).unwrap();
        }
    }
    folder.file("processes.astf", trace.finish().as_flattened())
}

const TARMAC: &str = "\
1 clk cpu0 IT (1) 00010000 d2800020 O EL1h_n : MOV      x0,#1
1 clk cpu0 R X0 0000000000000001
2 clk cpu1 IT (1) 00020000 f81f0fe0 O EL3h_s : STR      x0,[sp,#-0x10]!
2 clk cpu1 MW8 0008fff0:00000008fff0_NS 00000000_00000001
3 clk cpu0 IT (2) 00010004 54000041 O EL1h_n : B.NE     {pc}+8 ; 0x1000c
4 clk cpu0 IT (3) 0001000c d65f03c0 O EL1h_n : RET
";

fn tarmac(folder: &Folder) -> PathBuf {
    folder.file("log.tarmac", TARMAC)
}

fn small_stf(folder: &Folder) -> PathBuf {
    let mut trace = stf::builder::Builder::new(Vec::new(), &stf::builder::Header::new(0x8000_0000)).unwrap();
    trace.instruction(&stf::builder::Step::plain(0x8000_0000, 0x13)).unwrap();
    trace.instruction(&stf::builder::Step::taken(0x8000_0004, 0xbff5, 0x8000_0000)).unwrap();
    trace.instruction(&stf::builder::Step::plain(0x8000_0000, 0x13)).unwrap();
    folder.file("small.stf", trace.finish().sink)
}

#[test]
fn each_source_of_a_capture_is_counted() {
    let run = stats(&super::example(), &[]).clean();
    for line in ["ETE_0: 42 instructions", "ETE_1: 21 instructions", "gaps         4 (2 start, 1 overflow, 1 discard)"]
    {
        assert!(run.out.contains(line), "no {line:?} in {}", run.out);
    }
    let lines = stats(&super::example(), &["--json", "--source", "0x10"]).clean().json();
    assert!(lines.iter().all(|line| line["source"] == 0x10), "{lines:?}");
    let steps = rows(&lines, "steps")[0];
    assert_eq!((&steps["source_name"], &steps["instructions"]), (&json!("ETE_0"), &json!(42)));
    assert_eq!(row(&lines, "branch", "all")["taken"], 17);
    assert_eq!(row(&lines, "level", "EL0")["count"], 39);
    assert_eq!(row(&lines, "process", "0x1234")["count"], 42);
    assert_eq!(row(&lines, "exception", "irq")["count"], 1);
    assert_eq!(row(&lines, "mnemonic", "b.ne")["count"], 5);
    assert_eq!(rows(&lines, "footprint")[0]["code_bytes"], 60);
    stats(&super::example(), &["--source", "missing"]).expect(2, &["no source 'missing'"]);
}

#[test]
fn astf_is_counted_from_files_and_pipes() {
    let folder = Folder::new();
    let path = example_astf(&folder);
    let lines = stats(&path, &["--json"]).clean().json();
    let steps = rows(&lines, "steps")[0];
    for (key, value) in [("instructions", 11), ("exceptions", 1), ("first_time", 100), ("last_time", 102)] {
        assert_eq!(steps[key], value, "{key}");
    }
    let kinds = ["steps", "footprint", "exception", "branch", "core", "level", "isa", "class", "mnemonic"];
    kinds.iter().for_each(|kind| assert!(!rows(&lines, kind).is_empty(), "{kind}"));
    let piped = unspool_with(&["stats", "-", "--json"], &fs::read(&path).unwrap()).clean().json();
    let without_name = |mut line: Value| {
        line.as_object_mut().unwrap().remove("file");
        line
    };
    let [piped, lines] = [piped, lines].map(|lines| lines.into_iter().map(without_name).collect::<Vec<_>>());
    assert_eq!(piped, lines);
    // Cut short in a record.
    fs::write(&path, &fs::read(&path).unwrap()[..32 * 9 + 5]).unwrap();
    let run = stats(&path, &["--json"]).expect(1, &["example.astf"]);
    assert!(rows(&run.json(), "steps")[0]["instructions"].as_u64().unwrap() > 0);
}

#[test]
fn processes_are_counted_separately() {
    let folder = Folder::new();
    let path = processes(&folder);
    let lines = stats(&path, &["--by", "process", "--json"]).clean().json();
    let counts: Vec<_> =
        rows(&lines, "process").iter().map(|row| (row["name"].clone(), row["count"].clone())).collect();
    assert_eq!(counts, [(json!("0x12"), json!(9)), (json!("0x11"), json!(7)), (json!("0x10"), json!(5))]);
    assert!(rows(&lines, "class").is_empty() && rows(&lines, "level").is_empty());
    let page = stats(&path, &["--by", "process"]).clean().out;
    assert!(page.contains("0x12                           9   42.86%"), "{page}");
    assert!(!page.contains("mnemonic"), "{page}");
}

/// Native lines of STF and Tarmac come first and last, counts of steps between them.
#[test]
fn native_counts_are_kept() {
    let folder = Folder::new();
    let path = tarmac(&folder);
    let lines = stats(&path, &["--json"]).clean().json();
    assert_fields(&lines[0], &json!({"kind": "counts", "lines": 6, "writes": 1}));
    assert_fields(row(&lines, "isa", "a64"), &json!({"kind": "isa", "name": "a64", "count": 4, "share": 1.0}));
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

    let path = small_stf(&folder);
    let lines = stats(&path, &["--json"]).clean().json();
    assert_eq!(lines[0]["kind"], "counts");
    assert_eq!(row(&lines, "class", "jal")["count"], 1);
    assert_eq!(row(&lines, "branch", "direct")["taken"], 1);
    assert_eq!(rows(&lines, "steps")[0]["instructions"], 3);
    assert_eq!(rows(&lines, "mnemonic").len(), 2);
}

#[test]
fn a_pipe_is_read_once_and_counted_twice() {
    let folder = Folder::new();
    for path in [tarmac(&folder), small_stf(&folder)] {
        let file = stats(&path, &["--json"]).clean().out.replace(text(&path), "standard input");
        assert_eq!(unspool_with(&["stats", "-", "--json"], &fs::read(&path).unwrap()).clean().out, file);
    }
    // More than fits into a pipe, and a reader that stops early.
    let long = TARMAC.repeat(20_000);
    let lines = unspool_with(&["stats", "-", "--json"], long.as_bytes()).clean().json();
    assert_eq!(lines[0]["instructions"], 80_000);
    let lines = unspool_with(&["stats", "-", "--json", "--by", "mnemonic"], long.as_bytes()).clean().json();
    assert_eq!((rows(&lines, "mnemonic").len(), rows(&lines, "steps").len()), (4, 0));
}

#[test]
fn by_selects_one_table() {
    let folder = Folder::new();
    let path = tarmac(&folder);
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
        let page = stats(&path, &["--by", by]).clean().out;
        let heads: Vec<&str> = page.lines().filter_map(|line| line.split(' ').next()).collect();
        let found: Vec<&&str> = tables.iter().filter(|table| heads.contains(*table)).collect();
        assert_eq!(found, [&expected], "{by}: {page}");
    }
    stats(&path, &["--by", "weather"]).expect(2, &["weather"]);
}
