//! `export folded` against `profile --folded`, and `export speedscope` against the published schema.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{LOG, calls, export, output, viewer};
use crate::run::{log, on, text};

#[test]
fn folded_stacks_are_those_of_the_profile() {
    let (folder, path) = log(LOG);
    for trace in [path, unspool_testing::example("hello-qemu")] {
        let (run, out) = export("folded", &trace, &[], &folder, "out");
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(fs::read_to_string(&out).unwrap(), on("profile", &trace, &["--folded"]).out);
    }
    let trace = unspool_testing::example("hello-qemu");
    let (run, out) = export("folded", &trace, &["--function", "ways"], &folder, "out");
    assert_eq!(run.code, 0, "{run:?}");
    let lines = fs::read_to_string(&out).unwrap();
    let all = on("profile", &trace, &["--folded"]).out;
    let is_inside = |line: &str| line.split([';', ' ']).any(|name| name == "ways");
    let weight = |lines: &str| -> u64 {
        let of_function = lines.lines().filter(|line| is_inside(line));
        of_function.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    assert!(lines.lines().all(|line| line.starts_with("ways")) && weight(&all) > 0, "{lines}");
    assert_eq!(weight(&lines), weight(&all));
    export("folded", &trace, &["--function", "nowhere"], &folder, "out").0.expect(2, &["no function 'nowhere'"]);
}

/// Whether events of every profile are nested and ordered, as the viewer demands, and their calls by name.
fn opened(file: &Value) -> BTreeMap<String, u64> {
    let mut opened = BTreeMap::new();
    for profile in file["profiles"].as_array().unwrap() {
        let (mut open, mut last) = (Vec::new(), profile["startValue"].as_f64().unwrap());
        for event in profile["events"].as_array().unwrap() {
            let (at, frame) = (event["at"].as_f64().unwrap(), event["frame"].as_u64().unwrap());
            assert!(at >= last, "{event}");
            last = at;
            if event["type"] == "O" {
                open.push(frame);
                let name = file["shared"]["frames"][frame as usize]["name"].as_str().unwrap();
                *opened.entry(name.to_string()).or_insert(0) += 1;
            } else {
                assert_eq!(open.pop(), Some(frame));
            }
        }
        assert!(open.is_empty() && profile["endValue"].as_f64().unwrap() == last, "{profile}");
    }
    opened
}

/// Number of calls by name, as the call tree has them.
fn called(trace: &Path) -> BTreeMap<String, u64> {
    let mut called = BTreeMap::new();
    for call in calls(trace, &[]) {
        *called.entry(call["name"].as_str().unwrap().to_string()).or_insert(0) += 1;
    }
    called
}

#[test]
fn speedscope_files_are_valid() {
    let (Some(python), Some(schema)) = (viewer("bin/python3"), viewer("speedscope/file-format-schema.json")) else {
        return;
    };
    let (folder, path) = log(LOG);
    for trace in [path, unspool_testing::example("hello-qemu"), unspool_testing::example("example.astf")] {
        let (run, out) = export("speedscope", &trace, &[], &folder, "out.json");
        assert_eq!(run.code, 0, "{run:?}");
        let validate = "import json, sys, jsonschema\n\
            jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))";
        output(Command::new(&python).args(["-c", validate, text(&out), text(&schema)]));
        let file: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
        assert_eq!(opened(&file), called(&trace), "{trace:?}");
    }
}

#[test]
fn speedscope_depth_and_time() {
    let (folder, path) = log(LOG);
    let read = |options: &[&str]| -> Value {
        let (run, out) = export("speedscope", &path, options, &folder, "out.json");
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap()
    };
    let file = read(&["--core", "cpu0"]);
    // The times of the lines in the log: 0xa020 runs from 3 to 5.
    let events = file["profiles"][0]["events"].as_array().unwrap();
    let at: Vec<f64> = events.iter().map(|event| event["at"].as_f64().unwrap()).collect();
    assert_eq!(at, [1.0, 2.0, 3.0, 5.0, 8.0, 8.0, 8.0, 8.0]);
    let file = read(&["--core", "cpu0", "--depth", "1", "--weight", "instructions"]);
    let events = file["profiles"][0]["events"].as_array().unwrap();
    let at: Vec<u64> = events.iter().map(|event| event["at"].as_u64().unwrap()).collect();
    assert_eq!(at, [0, 1, 6, 6]);
}

#[test]
fn nothing_is_overwritten() {
    let (folder, path) = log(LOG);
    let out = folder.file("out", "mine");
    for kind in ["folded", "speedscope", "flamegraph", "perfetto"] {
        on("export", Path::new(kind), &[text(&path), "-o", text(&out)]).expect(2, &["--force"]);
        on("export", Path::new(kind), &[text(&path), "-o", text(&path), "--force"]).expect(2, &["another one"]);
    }
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
}
