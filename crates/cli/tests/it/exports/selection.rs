//! The part of a trace that is exported: instructions, times, functions and addresses.

use std::fs;

use serde_json::Value;
use unspool_testing::tool;

use super::perfetto::{Engine, SLICES};
use super::{LOG, export};
use crate::run::{Folder, log, text, unspool};

/// Instructions 2, 3 and 4 of the first core are at 0xa020, 0xa024 and 0xa014, at 3, 5 and 6.
const PART: [&str; 4] = ["--core", "cpu0", "--instructions", "2..5"];

#[test]
fn instructions_on_the_timeline() {
    let Some(engine) = Engine::new() else { return };
    let (folder, path) = log(LOG);
    let rows = [(&["--clock", "instructions"][..], [(2, 3), (2, 3), (2, 2)]), (&[], [(3, 3), (3, 3), (3, 2)])];
    for (options, expected) in rows {
        let (run, out) = export("perfetto", &path, &[&PART[..], options].concat(), &folder, "out.pftrace");
        assert_eq!(run.code, 0, "{run:?}");
        let rows = engine.query(&out, &[SLICES]);
        let found: Vec<(u64, u64)> =
            rows[0].iter().map(|row| (row["ts"].as_u64().unwrap(), row["dur"].as_u64().unwrap())).collect();
        assert_eq!(found, expected, "{options:?}");
    }
}

/// Stacks without costs of zero.
fn stacks(options: &[&str]) -> Vec<String> {
    let (folder, path) = log(LOG);
    let (run, out) = export("folded", &path, options, &folder, "out");
    assert_eq!(run.code, 0, "{run:?}");
    let lines = fs::read_to_string(out).unwrap();
    lines.lines().filter(|line| !line.ends_with(" 0")).map(str::to_string).collect()
}

#[test]
fn own_costs_of_a_part() {
    let weight = ["--weight", "instructions"];
    let of = |options: &[&str]| stacks(&[options, &weight].concat());
    // The fourth call of the log, an unfinished one, is of the same function as the second.
    assert_eq!(of(&PART), ["cpu0;0xa000;0xa010 1", "cpu0;0xa000;0xa010;0xa020 2"]);
    assert_eq!(of(&["--core", "cpu0", "--time", "5..7"]), ["cpu0;0xa000;0xa010 1", "cpu0;0xa000;0xa010;0xa020 1"]);
    assert_eq!(of(&["--instructions", "..1"]), ["cpu0;0xa000 1", "cpu1;0xb000 1"]);
    let all = [&PART[..2], &["--instructions", "0.."]].concat();
    assert_eq!(of(&all), of(&PART[..2]));
    // From 3 to 5 in the innermost function, from 5 to 6 in its caller.
    assert_eq!(stacks(&PART), ["cpu0;0xa000;0xa010 1", "cpu0;0xa000;0xa010;0xa020 2"]);
}

#[test]
fn calls_of_functions_at_an_address() {
    let weight = ["--core", "cpu0", "--weight", "instructions"];
    let of = |options: &[&str]| stacks(&[options, &weight].concat());
    assert_eq!(of(&["--address", "0xa020"]), ["cpu0;0xa020 2"]);
    let both = of(&["--address", "0xa010..0xa021"]);
    assert!(both.iter().all(|line| line.starts_with("cpu0;0xa010")), "{both:?}");
}

#[test]
fn speedscope_has_the_part() {
    let (folder, path) = log(LOG);
    let options = [&PART[..], &["--weight", "instructions"]].concat();
    let (run, out) = export("speedscope", &path, &options, &folder, "out.json");
    assert_eq!(run.code, 0, "{run:?}");
    let file: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    let profile = &file["profiles"][0];
    let at: Vec<u64> =
        profile["events"].as_array().unwrap().iter().map(|event| event["at"].as_u64().unwrap()).collect();
    assert_eq!((profile["startValue"].as_u64(), at), (Some(2), vec![2, 2, 2, 4, 5, 5]));
}

/// 64 bytes for each instruction.
#[test]
fn other_kinds_have_the_part() {
    let (folder, path) = log(LOG);
    let out = folder.path("out");
    let args =
        |kind: &'static str| ["export", kind, text(&path), "-o", text(&out), "--force", "--instructions", "2..5"];
    let run = unspool(&args("champsim"));
    // Of both cores: the second executes one instruction.
    assert_eq!((run.code, fs::read(&out).unwrap().len()), (0, 3 * 64), "{run:?}");
    unspool(&args("vcd")).expect(0, &["3 instructions"]);
    unspool(&args("callgrind")).expect(0, &["3 instructions"]);
}

#[test]
fn callgrind_annotate_has_the_part() {
    let Some(judge) = tool("callgrind_annotate", "valgrind") else { return };
    let (folder, path) = log(LOG);
    let out = folder.path("callgrind.out");
    unspool(&["export", "callgrind", text(&path), "-o", text(&out), "--instructions", "1..4"]).expect(0, &[]);
    let run = std::process::Command::new(judge).arg(&out).current_dir(folder.root()).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    let total = text.lines().find(|line| line.contains("PROGRAM TOTALS")).unwrap();
    assert!(total.trim_start().starts_with("3 "), "{text}");
}

#[test]
fn what_has_no_instructions_is_reported() {
    let (folder, empty) = log("0 clk cpu0 R X0 0000000000000001\n1 clk cpu0 R X1 0000000000000001\n");
    let out = folder.path("out");
    for kind in ["perfetto", "html", "flamegraph", "folded", "speedscope", "callgrind", "champsim", "vcd"] {
        let args = |trace, options: &[&'static str]| {
            unspool(&[&["export", kind, text(trace), "-o", text(&out), "--force"], options].concat())
        };
        args(&empty, &[]).expect(0, &["nothing was executed"]);
        let (_folder, path) = log(LOG);
        args(&path, &["--instructions", "100..200"]).expect(0, &["no instruction is selected"]);
        let run = args(&path, &[]).expect(0, &[]);
        assert!(!run.err.contains("nothing was executed"), "{run:?}");
    }
}

#[test]
fn ranges_are_ranges() {
    let folder = Folder::new();
    let out = folder.path("out");
    let trace = unspool_testing::example("sum.tarmac");
    for (range, message) in [("5", "is not a range"), ("9..5", "is empty"), ("..", "is not a range")] {
        unspool(&["export", "folded", text(&trace), "-o", text(&out), "--instructions", range]).expect(2, &[message]);
    }
    let trace = unspool_testing::example("hello-qemu");
    for kind in ["folded", "perfetto", "html", "speedscope", "flamegraph"] {
        export(kind, &trace, &["--time", "1..2"], &folder, "out").0.expect(2, &["the trace has no times"]);
    }
}
