//! Basic-block vectors, branches and accesses of the STF files of the corpus, as stf_tools found them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::run::{Folder, on, text};

/// Every trace that has results with a name that starts like this, and the results.
fn each_result(name: &str, mut compare: impl FnMut(&str, &Path, &str)) {
    let Some(corpus) = unspool_testing::corpus("stf") else { return };
    let mut compared = 0;
    for folder in fs::read_dir(corpus.join("expected")).unwrap().map(|entry| entry.unwrap().path()) {
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let is_result = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().starts_with(name);
        let Some(result) = files.filter(is_result).min() else { continue };
        let trace = folder.file_name().unwrap().to_str().unwrap().replace("__", "/");
        compare(&trace, &corpus.join(&trace), &contents(&result));
        compared += 1;
    }
    assert!(compared >= 6, "{name}: only {compared} results");
}

fn contents(path: &Path) -> String {
    let (mut file, mut contents) = (File::open(path).unwrap(), String::new());
    match path.extension().is_some_and(|extension| extension == "gz") {
        true => flate2::read::GzDecoder::new(file).read_to_string(&mut contents),
        false => file.read_to_string(&mut contents),
    }
    .unwrap();
    contents
}

fn assert_same(name: &str, ours: &[String], theirs: &[String]) {
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours, theirs, "{name}: line {at}");
    }
    assert_eq!(ours.len(), theirs.len(), "{name}: the number of lines");
}

/// Counts of the blocks of an interval, in the order of the line.
fn counts(line: &str) -> Vec<(u64, u64)> {
    let pairs = line.strip_prefix('T').unwrap().split_whitespace();
    let pair = |text: &str| {
        let (block, count) = text.strip_prefix(':').unwrap().split_once(':').unwrap();
        (block.parse().unwrap(), count.parse().unwrap())
    };
    pairs.map(pair).collect()
}

/// All vectors are the same, but for the last block of a trace: stf_bbv leaves it out unless it ends in a taken branch.
#[test]
fn vectors() {
    each_result("bbv_w10000", |name, trace, expected| {
        let folder = Folder::new();
        let out = folder.path("out.bb");
        on("bbv", trace, &["--interval", "10000", "-o", text(&out)]).expect(0, &[]);
        let found = fs::read_to_string(&out).unwrap();
        let theirs: Vec<&str> = expected.lines().filter(|line| line.starts_with('T')).collect();
        let ours: Vec<&str> = found.lines().map(str::trim_end).collect();
        assert_eq!(ours.len(), theirs.len(), "{name}");
        let last = ours.len() - 1;
        for (ours, theirs) in ours.iter().zip(&theirs).take(last) {
            assert_eq!(*ours, theirs.trim_end(), "{name}");
        }
        let theirs: BTreeMap<u64, u64> = counts(theirs[last]).into_iter().collect();
        let more = |(block, count): &(u64, u64)| theirs.get(block) != Some(count);
        let different: Vec<(u64, u64)> = counts(ours[last]).into_iter().filter(more).collect();
        assert!(different.len() <= 1, "{name}: {different:?}");
        assert!(different.iter().all(|(block, count)| theirs.get(block).is_none_or(|known| known < count)), "{name}");
    });
}

/// Branches with outcome and target.
#[test]
fn branches() {
    let mut compared = 0;
    each_result("branch_dump", |name, trace, expected| {
        // The reference stops at a branch of this trace whose target is not the one of its opcode.
        if expected.contains("terminate called") {
            assert_eq!(name, "pegasus/kk_trace.zstf");
            return;
        }
        let run = on("branches", trace, &["--json", "--limit", "2000"]);
        let ours: Vec<String> = run.json().iter().filter(|line| line["kind"] == "branch").map(our_branch).collect();
        let theirs: Vec<String> = expected.lines().map(their_branch).collect();
        assert_same(name, &ours, &theirs);
        compared += ours.len();
    });
    assert!(unspool_testing::corpus("stf").is_none() || compared > 6000, "{compared}");
}

fn our_branch(line: &Value) -> String {
    let kind = match line["branch"].as_str().unwrap() {
        _ if line["conditional"] == true => "COND",
        "direct" => "JUMP",
        "call" => "CALL",
        "return" => "RETURN",
        "indirect" => "INDIRECT",
        other => other,
    };
    let is_taken = line["taken"].as_bool().unwrap();
    let target = if is_taken { line["target"].as_str().unwrap() } else { "-" };
    format!("{} {} {target} {kind}", line["address"].as_str().unwrap(), if is_taken { 'T' } else { 'N' })
}

fn their_branch(line: &str) -> String {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let hex = |text: &str| format!("{:#x}", u64::from_str_radix(text, 16).unwrap());
    let (target, kind) = if fields[4] == "T" { (hex(fields[5]), 6) } else { ("-".to_string(), 5) };
    format!("{} {} {target} {}", hex(fields[2]), fields[4], fields[kind..].join("-"))
}

/// Direction, address and data of each access. Sizes are not compared: some producers count bits, and the reference prints what
/// is there.
#[test]
fn accesses() {
    let mut compared = 0;
    each_result("ls_access", |name, trace, expected| {
        let count = expected.lines().skip(1).count().to_string();
        let run = on("accesses", trace, &["--json", "--limit", &count]);
        let ours: Vec<String> = run.json().iter().filter(|line| line["kind"] == "access").map(our_access).collect();
        let theirs: Vec<String> = expected.lines().skip(1).map(their_access).collect();
        assert_same(name, &ours, &theirs);
        compared += ours.len();
    });
    assert!(unspool_testing::corpus("stf").is_none() || compared > 4000, "{compared}");
}

fn our_access(line: &Value) -> String {
    let direction = if line["direction"] == "r" { "READ" } else { "WRITE" };
    let address = line["address"].as_str().unwrap();
    let data = line["data"].as_str().map(|data| data.trim_start_matches("0x").trim_start_matches('0'));
    format!("{direction} {address} {}", data.unwrap_or("none"))
}

fn their_access(line: &str) -> String {
    let fields: Vec<&str> = line.split(',').collect();
    let [_, direction, address, data, _] = fields[..] else { panic!("{line}") };
    let address = u64::from_str_radix(address, 16).unwrap();
    let data = data.trim_start_matches("0x").trim_start_matches('0');
    format!("{direction} {address:#x} {data}")
}

/// Reads and writes of each line of 64 bytes.
#[test]
fn totals() {
    each_result("address_map_a64", |name, trace, expected| {
        let run = on("accesses", trace, &["--json", "--totals"]);
        let lines = run.json();
        let ours: Vec<(u64, u64, u64)> = lines.iter().filter(|line| line["kind"] == "line").map(our_line).collect();
        let theirs: Vec<(u64, u64, u64)> = expected.lines().skip(1).map(their_line).collect();
        assert_eq!(ours, theirs, "{name}");
    });
}

fn our_line(line: &Value) -> (u64, u64, u64) {
    let address = line["address"].as_str().unwrap().trim_start_matches("0x");
    let number = |key: &str| line[key].as_u64().unwrap();
    (u64::from_str_radix(address, 16).unwrap(), number("reads"), number("writes"))
}

fn their_line(line: &str) -> (u64, u64, u64) {
    let fields: Vec<&str> = line.split_whitespace().collect();
    (u64::from_str_radix(fields[0], 16).unwrap(), fields[1].parse().unwrap(), fields[2].parse().unwrap())
}
