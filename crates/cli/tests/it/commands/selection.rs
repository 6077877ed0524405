//! The options that select a part of the execution: what every verb shows with them is what it shows without them, filtered.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;
use unspool_testing::repository;

use crate::run::{Folder, log, on, text, unspool};

/// Two cores in two levels, with times.
const LOG: &str = "\
10 clk cpu0 IT (1) 00001000 d2800020 O EL0t_n : MOV      x0,#1
10 clk cpu0 R X0 0000000000000001
11 clk cpu1 IT (1) 00001004 d2800020 O EL1h_n : MOV      x0,#1
11 clk cpu1 R X0 0000000000000001
12 clk cpu0 IT (2) 00001004 d4000001 O EL0t_n : SVC      #0
12 clk cpu0 IT (3) 00002000 d503201f O EL1h_n : NOP
13 clk cpu1 R X1 0000000000000002
13 clk cpu0 IT (4) 00002004 d69f03e0 O EL1h_n : ERET
14 clk cpu0 IT (5) 00001008 d503201f O EL0t_n : NOP
";

fn data(name: &str) -> PathBuf {
    repository("testdata/lines").join(name)
}

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

/// Numbers of the lines that are dumped.
fn dumped(path: &Path, options: &[&str]) -> Vec<u64> {
    let run = on("dump", path, &[options, &["--json"]].concat()).clean();
    run.json().iter().filter(|line| line["kind"] != "summary").map(|line| line["line"].as_u64().unwrap()).collect()
}

#[test]
fn lines_of_a_log_are_dumped_with_their_instruction() {
    let (_folder, path) = log(LOG);
    let all: Vec<u64> = (1..=9).collect();
    let rows: &[(&[&str], &[u64])] = &[
        (&[], &all),
        (&["--address", "0x1004"], &[3, 4, 5, 7]),
        (&["--address", "0x1000..0x1008"], &[1, 2, 3, 4, 5, 7]),
        (&["--address", "0x1000", "--address", "0x1008"], &[1, 2, 9]),
        (&["--level", "0"], &[1, 2, 5, 9]),
        (&["--mode", "user"], &[1, 2, 5, 9]),
        (&["--mode", "kernel"], &[3, 4, 6, 7, 8]),
        (&["--level", "EL1", "--address", "0x2000..0x3000"], &[6, 8]),
        (&["--time", "11..13"], &[3, 4, 5, 6, 7]),
        (&["--time", "13.."], &[8, 9]),
        (&["--mode", "user", "--skip", "1", "--limit", "2"], &[2, 5]),
        (&["--level", "3"], &[]),
    ];
    for (options, expected) in rows {
        assert_eq!(dumped(&path, options), *expected, "{options:?}");
    }
}

/// The addresses of the instructions of a Tarmac log.
fn addresses(log: &Path) -> Vec<u64> {
    let text = fs::read_to_string(log).unwrap();
    let address = |line: &str| u64::from_str_radix(line.split_once("ES  (")?.1.split(':').next()?, 16).ok();
    text.lines().filter_map(address).collect()
}

/// A program in every format, the addresses that it executed, and a range with the half of them.
fn formats(folder: &Folder) -> (Vec<PathBuf>, Vec<u64>, Range<u64>) {
    let astf = data("shapes.astf");
    let (capture, stf, tarmac) = (folder.path("capture"), folder.path("run.stf"), folder.path("run.tarmac"));
    unspool(&["encode", text(&astf), "-o", text(&capture)]).expect(0, &[]);
    unspool(&["convert", text(&astf), text(&stf)]).expect(0, &[]);
    unspool(&["convert", text(&astf), text(&tarmac)]).expect(0, &[]);
    let executed = addresses(&tarmac);
    let distinct: Vec<u64> = executed.iter().copied().collect::<BTreeSet<u64>>().into_iter().collect();
    // In the middle of blocks.
    let range = distinct[distinct.len() / 4]..distinct[distinct.len() * 3 / 4];
    let selected = executed.iter().filter(|address| range.contains(address)).count();
    assert!(selected > 20 && selected < executed.len());
    (vec![astf, capture, stf, tarmac], executed, range)
}

#[test]
fn selected_instructions_are_counted_and_found_in_every_format() {
    let folder = Folder::new();
    let (paths, executed, range) = formats(&folder);
    let selected: Vec<u64> = executed.iter().copied().filter(|address| range.contains(address)).collect();
    let range = format!("{:#x}..{:#x}", range.start, range.end);
    let program = data("shapes");
    for path in &paths {
        let image = ["--image", text(&program)];
        let options = [&["--address", &range, "--json"][..], &image].concat();
        let counted = on("stats", path, &options).clean().json();
        let total: u64 =
            counted.iter().filter(|line| line["kind"] == "mnemonic").map(|line| line["count"].as_u64().unwrap()).sum();
        assert_eq!(total, selected.len() as u64, "{path:?}");
        let found = on("find", path, &options).clean().json();
        let found: Vec<u64> =
            found.iter().filter(|line| line["kind"] == "found").map(|line| hex(&line["address"])).collect();
        assert_eq!(found, selected, "{path:?}");
        let profile = on("profile", path, &[&options[..], &["--by", "module"]].concat());
        assert_eq!(profile.json_summary()["total"], selected.len(), "{path:?}");
        let branches = |options: &[&str]| {
            let rows = on("branches", path, &[options, &["--json"]].concat()).json();
            let rows = rows.iter().filter(|row| row["kind"] == "branch");
            rows.map(|row| (hex(&row["address"]), row["taken"].clone(), row["target"].clone())).collect::<Vec<_>>()
        };
        let expected: Vec<_> =
            branches(&image).into_iter().filter(|(address, ..)| selected.contains(address)).collect();
        assert_eq!(branches(&[&["--address", range.as_str()][..], &image].concat()), expected, "{path:?}");
    }
}

#[test]
fn selected_instructions_are_converted_with_gaps_between_them() {
    let folder = Folder::new();
    let (paths, executed, range) = formats(&folder);
    let selected: Vec<u64> = executed.iter().copied().filter(|address| range.contains(address)).collect();
    let range = format!("{:#x}..{:#x}", range.start, range.end);
    let out = folder.path("part.tarmac");
    for path in &paths {
        let run = on("convert", path, &[text(&out), "--address", &range]);
        run.expect(0, &[]);
        assert_eq!(addresses(&out), selected, "{path:?}");
    }
    // Within a format too.
    let stf = folder.path("part.stf");
    on("convert", &paths[2], &[text(&stf), "--function", "sum", "--image", text(&data("shapes"))]).expect(0, &[]);
    on("convert", &stf, &[text(&out)]).expect(0, &[]);
    let found = on("find", &paths[2], &["--function", "sum", "--image", text(&data("shapes")), "--count", "--json"]);
    assert_eq!(found.json_summary()["found"], addresses(&out).len());
}

#[test]
fn records_are_dumped_with_their_instruction() {
    let folder = Folder::new();
    let (paths, executed, range) = formats(&folder);
    let selected = executed.iter().filter(|address| range.contains(address)).count();
    let options = format!("{:#x}..{:#x}", range.start, range.end);
    let numbers = |path: &Path, options: &[&str], key: &str| -> Vec<Value> {
        let lines = on("dump", path, &[options, &["--json"]].concat()).clean().json();
        lines.into_iter().filter(|line| line["kind"] != "summary" && !line[key].is_null()).collect()
    };
    // STF: its instructions, filtered by address.
    let all = numbers(&paths[2], &[], "address");
    let expected: Vec<&Value> = all.iter().filter(|line| range.contains(&hex(&line["address"]))).collect();
    let found = numbers(&paths[2], &["--address", &options], "address");
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    assert_eq!(found.len(), selected);
    // ASTF: each record with the instruction before it.
    let mut is_selected = false;
    let all = numbers(&paths[0], &[], "kind");
    let expected: Vec<&Value> = all
        .iter()
        .filter(|line| {
            if let Some(address) = line.get("address").filter(|_| line["kind"] == "instruction") {
                is_selected = range.contains(&hex(address));
            }
            is_selected
        })
        .collect();
    let found = numbers(&paths[0], &["--address", &options], "kind");
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    assert_eq!(found.iter().filter(|line| line["kind"] == "instruction").count(), selected);
}

#[test]
fn decoded_lines_are_filtered() {
    let folder = Folder::new();
    let (paths, _, range) = formats(&folder);
    let (program, address) = (data("shapes"), format!("{:#x}..{:#x}", range.start, range.end));
    let decode = |options: &[&str]| {
        let lines = on("decode", &paths[1], &[&["--image", text(&program), "--json"], options].concat()).clean().json();
        // Headings of segments are shown with the first line after them.
        lines.into_iter().filter(|line| line["kind"] != "summary" && line["kind"] != "segment").collect::<Vec<_>>()
    };
    // In the order of time, decoding is done by other code.
    for order in [&[][..], &["--by", "time"]] {
        let mut is_listed = false;
        let mut expected = decode(order);
        expected.retain(|line| {
            if line["kind"] == "instruction" {
                is_listed = range.contains(&hex(&line["address"]));
            }
            is_listed
        });
        assert!(expected.len() > 20);
        let found = decode(&[order, &["--address", &address]].concat());
        assert_eq!(found, expected, "{order:?}");
        let mut expected = decode(&[order, &["--emit", "ranges"]].concat());
        expected.retain(|line| {
            if line["kind"] == "range" {
                is_listed = hex(&line["start"]) < range.end && hex(&line["end"]) > range.start;
            }
            is_listed
        });
        assert_eq!(decode(&[order, &["--emit", "ranges", "--address", &address]].concat()), expected, "{order:?}");
    }
    let found = decode(&["--function", "sum", "--level", "0"]);
    let instructions = found.iter().filter(|line| line["kind"] == "instruction");
    assert!(instructions.clone().count() > 4);
    assert!(instructions.clone().all(|line| line["symbol"].as_str().unwrap().starts_with("sum")), "{found:?}");
    assert!(!decode(&["--mode", "kernel"]).iter().any(|line| line["kind"] == "instruction"));
}

#[test]
fn what_a_trace_does_not_have_cannot_be_selected() {
    let folder = Folder::new();
    let (paths, ..) = formats(&folder);
    let (log_folder, several) = log(LOG);
    let plain = folder.path("plain.stf");
    on("convert", &several, &[text(&plain), "--core", "0"]).expect(0, &[]);
    let _ = log_folder;
    let rows: &[(&str, &Path, &[&str], &str)] = &[
        ("stats", &paths[0], &["--time", "1..2"], "--time: the trace has no times"),
        ("find", &paths[0], &["--time", "1..2"], "--time: the trace has no times"),
        ("dump", &paths[0], &["--time", "1..2"], "--time: the trace has no times"),
        ("coverage", &several, &["--process", "7"], "--process: the trace has no processes"),
        ("dump", &several, &["--process", "7"], "--process: the lines of a log name no processes"),
        ("stats", &several, &["--process", "sh"], "--process: no process 'sh' in the trace"),
        ("stats", &several, &["--time", "1us..2us"], "--time: the unit of its times is not known"),
        ("stats", &several, &["--level", "4"], "'4' is not an Exception level"),
        ("stats", &several, &["--level", "0", "--mode", "user"], "cannot be used with"),
        ("stats", &several, &["--function", "main"], "no function 'main'"),
        ("branches", &several, &["--address", "8..4"], "is empty"),
        ("decode", &paths[1], &["--time", "1..2"], "--time: the trace has no timestamps"),
        ("profile", &several, &["--mode", "user"], "--mode needs --by line, file or module"),
        ("profile", &several, &["--by", "line", "--folded"], "--folded applies to --by function"),
    ];
    for (verb, path, options, message) in rows {
        on(verb, path, options).expect(2, &[message]);
    }
    on("convert", &several, &[text(&plain), "--process", "1"]).expect(2, &["--process: the trace has no processes"]);
}

#[test]
fn user_mode_alone_is_counted() {
    let (_folder, path) = log(LOG);
    let instructions = |options: &[&str]| {
        let rows = on("stats", &path, &[options, &["--by", "level", "--json"]].concat()).clean().json();
        let rows = rows.iter().filter(|row| row["kind"] == "level");
        rows.map(|row| (row["name"].as_str().unwrap_or_default().to_string(), row["count"].as_u64()))
            .collect::<Vec<_>>()
    };
    let all = instructions(&[]);
    assert_eq!(all.len(), 2, "{all:?}");
    for (mode, level) in [("user", &all[0]), ("kernel", &all[1])] {
        assert_eq!(instructions(&["--mode", mode]), std::slice::from_ref(level));
    }
}

/// What a process covers in a table of all processes is what its part of the trace covers by itself.
#[test]
fn processes_are_counted_and_covered_by_themselves() {
    let folder = Folder::new();
    let (paths, executed, _) = formats(&folder);
    // The first 40 instructions are executed by process 5, the others by process 6.
    let log = fs::read_to_string(&paths[3]).unwrap();
    let context = log.lines().find(|line| line.starts_with("# unspool context")).unwrap();
    let mut instructions = 0;
    let changed: String = log
        .lines()
        .map(|line| {
            instructions += u64::from(line.contains("ES  ("));
            let is_start = instructions == 41 && line.contains("ES  (");
            let before = if is_start { format!("{context} process=6\n") } else { String::new() };
            let process = if line == context { " process=5" } else { "" };
            format!("{before}{line}{process}\n")
        })
        .collect();
    let path = folder.path("processes.tarmac");
    fs::write(&path, changed).unwrap();
    let program = data("shapes");
    let rows = on("coverage", &path, &["--image", text(&program), "--by", "process", "--json"]).json();
    let rows: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "process").collect();
    assert_eq!(rows.iter().map(|row| row["process"].as_u64()).collect::<Vec<_>>(), [Some(5), Some(6)]);
    for (row, count) in rows.iter().zip([40, executed.len() as u64 - 40]) {
        let process = row["process"].to_string();
        let options = ["--process", &process, "--json", "--image", text(&program)];
        let alone = on("coverage", &path, &options);
        assert_eq!(row["instructions"], count);
        let totals = alone.json();
        let of = |name: &str| totals.iter().find(|line| line["kind"] == "total" && line["name"] == name).unwrap();
        for (name, covered, total) in [
            ("instructions", "covered", "total"),
            ("lines", "covered_lines", "lines"),
            ("functions", "covered_functions", "functions"),
        ] {
            assert_eq!((&of(name)["covered"], &of(name)["total"]), (&row[covered], &row[total]), "{name}");
        }
        assert_eq!(on("find", &path, &["--process", &process, "--count", "--json"]).json_summary()["found"], count);
        let profile = on("profile", &path, &[&options[..], &["--by", "file"]].concat());
        assert_eq!(profile.json_summary()["total"], count);
    }
}
