//! Real captures: `decode --emit ranges --json` compared with the reference decoder.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that contains `coresight/`. `crates/unspool/tests/corpus_flow.rs` compares all
//! captures; here a few are compared through the command line, with all JSON fields of a range.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use unspool_testing::corpus;

use crate::commands::assert_same_lines;
use crate::run::on;

const SNAPSHOTS: [&str; 6] = ["q_elem", "rme_test", "tme_test", "trace_file_cid_vmid", "v7m_svc", "v8m_svc"];

/// Captures with contradictions.
const CONTRADICTORY: [&str; 1] = ["q_elem"];

/// The reference uses a stale address as the target of a branch here: see `corpus_flow.rs`.
const FROM_A_STALE_ADDRESS: (&str, &str) = ("q_elem s1.1", "Q 6960c 695c8 1");

/// Our line in the notation of the reference.
fn our_line(line: &Value) -> Option<String> {
    let hex = |key: &str| line[key].as_str().map_or("-", |text| text.strip_prefix("0x").unwrap()).to_string();
    let is = |key: &str| line[key].as_bool().unwrap();
    match line["kind"].as_str().unwrap() {
        "range" => {
            let kind = match line["last"].as_str().unwrap() {
                "branch" => "BR",
                "indirect" => "iBR",
                "isb" => "ISB",
                "wfx" => "WFI.WFE",
                "tstart" => "TSTART",
                _ => "---",
            };
            let sub = match (is("link"), is("ret"), is("eret")) {
                (true, false, false) => "b+link",
                (false, true, false) => "A64:ret",
                (false, false, true) => "A64:eret",
                _ => "-",
            };
            let outcome = if is("taken") { "E" } else { "N" };
            let condition = if is("conditional") { "c" } else { "-" };
            let isa = line["isa"].as_str().unwrap().to_uppercase();
            let (start, end, count) = (hex("start"), hex("end"), &line["instructions"]);
            Some(format!("R {start} {end} {count} {isa} {outcome} {kind} {sub} {condition}"))
        }
        // The reference omits unknown addresses.
        "q" if line["start"].is_string() && line["next"].is_string() => {
            Some(format!("Q {} {} {}", hex("start"), hex("next"), line["instructions"]))
        }
        "exception" => Some(format!("EXCEPTION {:#04x} {}", line["number"].as_u64().unwrap(), hex("return"))),
        _ => None,
    }
}

fn their_line(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split('\t').collect();
    match fields[..] {
        ["R", start, end, count, _, isa, outcome, kind, sub, condition, ..] => {
            // A data barrier is not a P0 instruction, and we do not distinguish it.
            let kind = if kind == "DSB.DMB" { "---" } else { kind };
            // The reference guesses returns of T32 from the register.
            let sub = if sub == "V7:impl ret" { "A64:ret" } else { sub };
            Some(format!("R {start} {end} {count} {isa} {outcome} {kind} {sub} {condition}"))
        }
        ["Q", start, next, count] => Some(format!("Q {start} {next} {count}")),
        ["EXCEPTION", text] => {
            let number = text.split("excep num (").nth(1).unwrap().split(')').next().unwrap();
            let address = text.split("pref ret addr:0x").nth(1).map(|rest| rest.split([';', ' ']).next().unwrap());
            Some(format!("EXCEPTION {number} {}", address.unwrap_or("-")))
        }
        _ => None,
    }
}

#[test]
fn ranges_are_those_of_the_reference() {
    let Some(corpus) = corpus("coresight") else { return };
    let mut lines = 0;
    for name in SNAPSHOTS {
        lines += compare(&corpus.join(name), name);
    }
    println!("{lines} lines of {} captures are as expected", SNAPSHOTS.len());
    assert!(lines > 20_000, "the corpus is not all there");
}

#[test]
fn lines_of_runs_are_those_of_their_items() {
    let Some(corpus) = corpus("coresight") else { return };
    SNAPSHOTS.iter().for_each(|name| assert_same_lines(&corpus.join(name), &[]));
}

fn compare(path: &Path, name: &str) -> usize {
    let run = on("decode", path, &["--emit", "ranges", "--json"]);
    assert_eq!(run.code, i32::from(CONTRADICTORY.contains(&name)), "{name}: {}", run.err);
    let mut ours: BTreeMap<(u64, u64), Vec<String>> = BTreeMap::new();
    assert!(run.json_summary()["instructions"].as_u64().is_some_and(|count| count > 0), "{name}");
    for line in run.json() {
        let whose = ours.entry((line["source"].as_u64().unwrap(), line["session"].as_u64().unwrap())).or_default();
        whose.extend(our_line(&line));
    }
    let mut compared = 0;
    let files = fs::read_dir(path.join("expected")).unwrap().count();
    assert_eq!(files, ours.len(), "{name}: sources and sessions");
    for ((source, session), ours) in &ours {
        let several = path.join(format!("expected/s1.{source:x}.txt.gz")).exists();
        let stem = format!("s{}.{source:x}", if several { session + 1 } else { 0 });
        let file = File::open(path.join(format!("expected/{stem}.txt.gz"))).unwrap();
        let mut expected = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut expected).unwrap();
        let whose = format!("{name} {stem}");
        let mut theirs: Vec<String> = expected.lines().filter_map(their_line).collect();
        theirs.retain(|line| (whose.as_str(), line.as_str()) != FROM_A_STALE_ADDRESS);
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, theirs, "{whose}: line {at}");
        }
        assert_eq!(ours.len(), theirs.len(), "{whose}: the number of lines");
        compared += ours.len();
    }
    compared
}
