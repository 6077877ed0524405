//! Value change dumps, judged by a reader that we did not write: the Python package vcdvcd.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use unspool_testing::{example, repository, skip};

use crate::run::{Folder, Run, log, text, unspool};

/// The dump of a trace as the judge reads it; `None`: it is missing.
fn judged(trace: &Path, options: &[&str]) -> Option<(Value, Run)> {
    let Some(python) = std::env::var_os("UNSPOOL_VCD_PYTHON") else {
        skip("UNSPOOL_VCD_PYTHON names no Python with the package vcdvcd");
        return None;
    };
    let folder = Folder::new();
    let path = folder.path("run.vcd");
    let written = unspool(&[&["export", "vcd", text(trace), "-o", text(&path)], options].concat());
    assert!(written.code < 2, "{written:#?}");
    let mut command = Command::new(python);
    command.arg(repository("crates/cli/tests/it/judges/vcd.py")).arg(&path);
    let run = Run::from(command.output().unwrap()).clean();
    Some((serde_json::from_str(&run.out).unwrap(), written))
}

/// Times and values of a signal, by the start of its name.
fn signal<'d>(dump: &'d Value, name: &str) -> &'d [Value] {
    let signals = dump["signals"].as_object().unwrap();
    let found = signals.iter().find(|(signal, _)| signal.split('[').next() == Some(name));
    found.unwrap_or_else(|| panic!("no {name} in {dump}")).1.as_array().unwrap()
}

const LOG: &str = "\
10 clk cpu0 IT (1) 00001000 d2800020 O EL1h_n : MOV      x0,#1
10 clk cpu0 R X0 0000000000000001
12 clk cpu0 IT (2) 00001004 d2800041 O EL1h_n : MOV      x1,#2
12 clk cpu0 R X1 0000000000000002
15 clk cpu0 IT (3) 00001008 8b000020 O EL1h_n : ADD      x0,x1,x0
15 clk cpu0 R X0 0000000000000003
";

/// By the lines of the log.
#[test]
fn registers_and_program_counter_over_time() {
    let (_folder, path) = log(LOG);
    let Some((dump, _)) = judged(&path, &[]) else { return };
    assert_eq!(
        signal(&dump, "core0.pc"),
        [json!([10, "1000000000000"]), json!([12, "1000000000100"]), json!([15, "1000000001000"])]
    );
    assert_eq!(signal(&dump, "core0.x0"), [json!([10, "1"]), json!([15, "11"])]);
    assert_eq!(signal(&dump, "core0.x1"), [json!([12, "10"])]);
    assert_eq!(signal(&dump, "core0.el"), [json!([10, "1"])]);
    assert_eq!(dump["end"], 16);
    let Some((dump, _)) = judged(&path, &["--clock", "instructions"]) else { return };
    assert_eq!(signal(&dump, "core0.x0"), [json!([0, "1"]), json!([2, "11"])]);
    let Some((dump, _)) = judged(&path, &["--time", "12..13"]) else { return };
    assert_eq!(signal(&dump, "core0.x1"), [json!([12, "10"])]);
}

/// Every instruction is in the dump, with the number that counts it; `dump` has the same addresses.
#[test]
fn a_capture_without_registers_has_its_program_counter() {
    let Some((dump, written)) = judged(&example("hello-ete"), &["--source", "0x10"]) else { return };
    let listed = unspool(&["decode", text(&example("hello-ete")), "--source", "0x10", "--json"]).expect(0, &[]).json();
    let addresses =
        listed.iter().filter(|line| line["kind"] == "instruction").map(|line| line["address"].as_str().unwrap());
    let mut expected: Vec<u64> =
        addresses.map(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()).collect();
    // An instruction that follows itself changes nothing.
    expected.dedup();
    let values = signal(&dump, "core0.pc").iter().map(|change| change[1].as_str().unwrap().to_string());
    let found: Vec<u64> = values.filter_map(|bits| u64::from_str_radix(&bits, 2).ok()).collect();
    assert_eq!(found, expected);
    assert!(written.err.contains("the trace has no registers"), "{}", written.err);
}

#[test]
fn what_makes_no_dump_is_refused() {
    let (folder, path) = log(LOG);
    let out = folder.path("out.vcd");
    let on = |options: &[&str]| unspool(&[&["export", "vcd", text(&path), "-o", text(&out)], options].concat());
    on(&[text(&path)]).expect(2, &["give one trace"]);
    on(&["--process", "1"]).expect(2, &["the trace has no processes"]);
    on(&[]).clean();
    on(&[]).expect(2, &["exists"]);
    on(&["--force"]).clean();
}

/// The shipped example with one source, and with one frame that cannot be read.
fn damaged() -> Folder {
    let folder = Folder::new();
    for entry in fs::read_dir(example("hello-ete")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        if path.ends_with("trace.bin") {
            bytes[0x98] = 0xff;
        }
        folder.file(path.file_name().unwrap().to_str().unwrap(), bytes);
    }
    folder
}

#[test]
fn values_are_unknown_after_a_gap() {
    // An overflow is in the example.
    let Some((dump, written)) = judged(&example("hello-ete"), &["--source", "0x10"]) else { return };
    assert!(written.err.contains("values after them are x"), "{}", written.err);
    let time = &signal(&dump, "core0.gap").first().unwrap()[0];
    let change = signal(&dump, "core0.pc").iter().find(|change| change[0] == *time).unwrap();
    assert_eq!(change[1], "x");
}

#[test]
fn every_profile_of_a_damaged_capture_counts_the_gaps() {
    let folder = damaged();
    for kind in ["callgrind", "afdo", "bolt"] {
        let out = folder.path(format!("{kind}.out"));
        let run = unspool(&["export", kind, text(folder.root()), "-o", text(&out)]);
        assert!(run.code < 2 && run.err.contains("gap"), "{kind}: {run:#?}");
        assert!(out.exists(), "{kind}");
    }
    let profile = fs::read_to_string(folder.path("callgrind.out")).unwrap();
    assert!(profile.contains("\ndesc: Gaps: ") && profile.contains("\ntotals: "), "{profile}");
}
