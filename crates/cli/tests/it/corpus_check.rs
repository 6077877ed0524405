//! Real captures: `check` finds what `decode` reports. Real files: verbs agree on what an instruction is.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that contains `coresight/`, `stf/` and `tarmac/`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use unspool_testing::corpus;

use crate::run::{Folder, on, text};

/// Names of contradictions in `decode`, and the rules of `check`.
const CONTRADICTIONS: [(&str, &str); 7] = [
    ("not_taken", "capture-branch-not-taken"),
    ("unreachable", "capture-unreachable-address"),
    ("runaway", "capture-runaway"),
    ("return_address", "capture-return-address"),
    ("source_address", "capture-source-address"),
    ("no_target", "capture-target-address"),
    ("mispredict", "capture-mispredict"),
];

/// Rules about bytes without synchronization, or about frames; `decode` prints no JSON line for frames.
const NOT_ERRORS: [&str; 2] = ["capture-unsynchronized", "capture-never-synchronized"];

type Counts = BTreeMap<String, u64>;

fn add(counts: &mut Counts, key: &str) {
    *counts.entry(key.to_string()).or_default() += 1;
}

fn hex(text: &str) -> u128 {
    u128::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

/// What `decode` reports, in the rules of `check`; and the addresses without code, by source and session.
fn reported(lines: &[Value]) -> (Counts, Vec<(Value, Value, u64)>) {
    let (mut counts, mut missing) = (Counts::new(), Vec::new());
    for line in lines {
        match line["kind"].as_str().unwrap() {
            "finding" => {
                let name = line["name"].as_str().unwrap();
                add(&mut counts, CONTRADICTIONS.iter().find(|row| row.0 == name).unwrap().1);
            }
            "error" => add(&mut counts, "error"),
            "no_sync" if line["skipped"].as_u64().unwrap() > 0 => add(&mut counts, "unsynchronized"),
            "overflow" => add(&mut counts, "capture-overflow"),
            "no_code" => {
                let address = hex(line["address"].as_str().unwrap()) as u64;
                missing.push((line["source"].clone(), line["session"].clone(), address));
            }
            _ => {}
        }
    }
    (counts, missing)
}

/// What `check` found, in the same form; and the regions without code.
fn found(lines: &[Value]) -> (Counts, Vec<(Value, Value, u64, u64)>) {
    let (mut counts, mut regions) = (Counts::new(), Vec::new());
    for line in lines.iter().filter(|line| line["kind"] == "finding") {
        let (rule, section) = (line["rule"].as_str().unwrap(), line["section"].as_str().unwrap());
        match section {
            "code" => {
                let range = line["what"].as_str().unwrap().split(' ').nth(3).unwrap();
                let (first, end) = range.split_once("..").unwrap();
                // The end may be beyond the last address.
                let last = (hex(end) - 1) as u64;
                regions.push((line["source"].clone(), line["session"].clone(), hex(first) as u64, last));
            }
            "packets" if NOT_ERRORS.contains(&rule) => add(&mut counts, "unsynchronized"),
            _ if rule == "capture-overflow" || CONTRADICTIONS.iter().any(|row| row.1 == rule) => add(&mut counts, rule),
            "packets" | "elements" if line["severity"] == "error" => add(&mut counts, "error"),
            _ => {}
        }
    }
    (counts, regions)
}

#[test]
fn check_finds_what_decode_reports() {
    let Some(folder) = corpus("coresight") else { return };
    let mut captures: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    captures.retain(|path| path.join("snapshot.ini").is_file());
    captures.sort();
    let (mut compared, mut problems) = (0, 0);
    for path in &captures {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let decoded = on("decode", path, &["--emit", "ranges", "--json"]);
        let checked = on("check", path, &["--json"]);
        if decoded.code == 2 {
            assert_eq!(checked.code, 2, "{name}: {}", checked.err);
            continue;
        }
        // Nearly all lines are ranges, which are of no interest here.
        let others = decoded.out.lines().filter(|line| !line.contains("\"kind\":\"range\""));
        let others: Vec<Value> = others.map(|line| serde_json::from_str(line).unwrap()).collect();
        let ((reported, addresses), (found, regions)) = (reported(&others), found(&checked.json()));
        assert_eq!(reported, found, "{name}");
        for (source, session, address) in &addresses {
            let holds = |region: &&(Value, Value, u64, u64)| {
                region.0 == *source && region.1 == *session && (region.2..=region.3).contains(address)
            };
            assert!(regions.iter().any(|region| holds(&region)), "{name}: no finding for {address:#x}");
        }
        for region in &regions {
            let is_needed = addresses.iter().any(|(source, session, address)| {
                (source, session) == (&region.0, &region.1) && (region.2..=region.3).contains(address)
            });
            assert!(is_needed, "{name}: nothing needs {:#x} to {:#x}", region.2, region.3);
        }
        // A problem for one is a problem for the other; rules of steps find more.
        assert!(checked.code >= decoded.code, "{name}: exit codes {} and {}", decoded.code, checked.code);
        let summary = checked.json_summary();
        assert_eq!(checked.code, i32::from(summary["errors"].as_u64().unwrap() > 0), "{name}: {summary}");
        compared += 1;
        problems += reported.values().sum::<u64>();
    }
    println!("{problems} problems in {compared} captures");
    assert!(compared > 20 && problems > 100, "the corpus is not all there");
}

/// Instructions, executed ones and those that faulted or were skipped, of `info`, `stats` and `dump`.
fn numbers(path: &Path) -> [Vec<u64>; 3] {
    let count = |value: &Value, key: &str| value[key].as_u64();
    let page = on("info", path, &["--json"]).json().remove(0);
    let lines = on("stats", path, &["--json"]).json();
    let stats =
        lines.iter().find(|line| line["kind"] == "counts").or(lines.iter().find(|line| line["kind"] == "steps"));
    let stats = stats.unwrap();
    let steps = lines.iter().find(|line| line["kind"] == "steps");
    let dump = on("dump", path, &["--json"]).json();
    let is_instruction = |line: &&Value| line["kind"] == "instruction";
    let dumped = dump.iter().filter(is_instruction).count() as u64;
    let of = |value: &Value| {
        let keys = ["instructions", "executed", "faulted", "skipped"];
        keys.iter().filter_map(|key| count(value, key)).collect::<Vec<_>>()
    };
    if let Some(steps) = steps {
        assert_eq!(count(steps, "instructions"), Some(dumped), "{}: steps", path.display());
    }
    [of(&page), of(stats), vec![dumped]]
}

fn assert_agreement(path: &Path) {
    let [info, stats, dump] = numbers(path);
    assert_eq!(info.first(), dump.first(), "{}: info and dump", path.display());
    assert_eq!(stats.first(), dump.first(), "{}: stats and dump", path.display());
    let shared = info.len().min(stats.len());
    assert_eq!(info[..shared], stats[..shared], "{}: info and stats", path.display());
}

#[test]
fn corpus_files_have_one_number_of_instructions() {
    let (Some(stf), Some(tarmac)) = (corpus("stf"), corpus("tarmac")) else { return };
    let mut count = 0;
    for folder in ["dromajo", "olympia", "pegasus", "stf_lib"].map(|name| stf.join(name)).into_iter().chain([tarmac]) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let path = entry.path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_trace = ["stf", "zstf", "tarmac"].iter().any(|kind| name.ends_with(&format!(".{kind}")));
            // The whole listing is compared.
            if is_trace && entry.metadata().unwrap().len() < 1 << 16 {
                assert_agreement(&path);
                count += 1;
            }
        }
    }
    println!("{count} files");
    assert!(count > 5, "the corpus is not all there: {count}");
}

#[test]
fn fixtures_have_one_number_of_instructions() {
    let folder = Folder::new();
    let log = folder.file(
        "skips.tarmac",
        "\
0 clk cpu0 IT (0) 00008000 e3a00001 A svc_s : MOV r0,#1
1 clk cpu0 IS (1) 00008004 03a00002 A svc_s : MOVEQ r0,#2
2 clk cpu0 IT (2) 00008008 e3a00003 A svc_s : MOV r0,#3
",
    );
    assert_agreement(&log);
    assert_eq!(numbers(&log)[0], [3, 1]);
    let line = |at: u64| format!("{at} clk cpu0 IT ({at}) {:016x} d503201f O EL1h_n : NOP\n", 0x1000 + 4 * at);
    let log = folder.file("nops.tarmac", (0..5).map(line).collect::<String>());
    for name in ["run.astf", "run.stf"] {
        let out = folder.path(name);
        let converted = on("convert", &log, &[text(&out)]);
        assert!(out.exists(), "{converted:?}");
        assert_agreement(&out);
        assert_eq!(numbers(&out)[2], [5]);
    }
}
