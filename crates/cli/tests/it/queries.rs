//! Answers of `query`, which are those of the other verbs. Needs DuckDB.

#![cfg(feature = "tables")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use unspool_testing::{example, repository, skip};

use crate::run::{Run, text, unspool};

/// Files that we ship, each of another format.
const TRACES: [&str; 4] = ["hello-qemu", "hello-ete", "example.astf", "sum.tarmac"];

/// Copies a trace to where tables can be written beside it. `None`: there is no DuckDB, so the test is skipped.
fn copied(name: &str, folder: &Path) -> Option<PathBuf> {
    let in_path = std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|at| at.join("duckdb").is_file());
    if !in_path && std::env::var_os("UNSPOOL_DUCKDB").is_none() {
        skip("duckdb is not installed: 'pip install duckdb-cli'");
        return None;
    }
    let copy = folder.join(name);
    let from = example(name);
    if from.is_dir() {
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(&from).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    } else {
        fs::copy(&from, &copy).unwrap();
    }
    Some(copy)
}

fn ask(trace: &Path, sql: &str) -> Run {
    unspool(&["query", text(trace), sql, "--json"])
}

/// The values of each row.
fn rows(run: &Run) -> Vec<Value> {
    let lines = run.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut lines: Vec<Value> = lines.collect();
    let summary = lines.pop().unwrap();
    assert_eq!((&summary["kind"], &summary["verb"]), (&"summary".into(), &"query".into()), "{}", run.err);
    assert_eq!(summary["rows"], lines.len());
    lines.iter_mut().map(|line| line["values"].take()).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}

/// Lines of a kind that another verb prints.
fn lines_of(args: &[&str], kind: &str) -> Vec<Value> {
    let run = unspool(args);
    let lines = run.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["kind"] == kind).collect()
}

#[test]
fn sums_are_those_of_stats_and_profile() {
    for name in TRACES {
        let folder = TempDir::new().unwrap();
        let Some(trace) = copied(name, folder.path()) else { return };
        let answer = rows(&ask(&trace, "SELECT sum(instructions) AS n FROM blocks"));
        let sources = lines_of(&["stats", text(&trace), "--json"], "steps");
        let instructions: u64 = sources.iter().map(|line| number(&line["instructions"])).sum();
        assert!(instructions > 0);
        assert_eq!(number(&answer[0]["n"]), instructions, "{name}");

        let answer = rows(&ask(&trace, "SELECT count(*) AS n FROM steps"));
        assert_eq!(number(&answer[0]["n"]), instructions, "{name}: steps");

        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for line in lines_of(&["profile", text(&trace), "--weight", "instructions", "--json"], "function") {
            let function = line["name"].as_str().unwrap().split('+').next().unwrap().to_string();
            *expected.entry(function).or_default() += number(&line["self"]);
        }
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows(&ask(&trace, "SELECT * FROM hot_functions")) {
            let Some(function) = row["function"].as_str() else { continue };
            *found.entry(function.to_string()).or_default() += number(&row["instructions"]);
        }
        // A function that another one jumps to is a part of that one in a profile, and here it is not.
        assert_eq!(found.values().sum::<u64>() > 0, expected.keys().any(|name| !name.starts_with("0x")), "{name}");
        if name == "hello-qemu" {
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn executed_instructions_are_those_of_coverage() {
    let folder = TempDir::new().unwrap();
    let Some(trace) = copied("hello-qemu", folder.path()) else { return };
    let found = rows(&ask(&trace, "SELECT count(*) AS n FROM instructions"));
    let totals = lines_of(&["coverage", text(&trace), "--json"], "total");
    let expected = totals.iter().find(|line| line["name"] == "instructions").unwrap();
    assert_eq!(number(&found[0]["n"]), number(&expected["covered"]));
}

#[test]
fn tables_are_written_once() {
    let folder = TempDir::new().unwrap();
    let Some(trace) = copied("example.astf", folder.path()) else { return };
    let sql = "SELECT sum(instructions) AS n FROM blocks";
    let is_written = |run: &Run| run.err.contains("writing tables to");
    assert!(is_written(&ask(&trace, sql)));
    assert!(!is_written(&ask(&trace, sql)));
    let more = ask(&trace, "SELECT count(*) AS n FROM calls");
    assert!(is_written(&more), "another table");
    assert!(!is_written(&ask(&trace, sql)), "the first one is still there");
    assert!(is_written(&unspool(&["query", text(&trace), sql, "--rebuild"])));
    let mut changed = fs::read(&trace).unwrap();
    changed.pop();
    fs::write(&trace, changed).unwrap();
    assert!(is_written(&ask(&trace, sql)), "the trace has changed");
}

#[test]
fn a_damaged_trace_is_a_problem_every_time() {
    let folder = TempDir::new().unwrap();
    let Some(trace) = copied("example.astf", folder.path()) else { return };
    let whole = fs::read(&trace).unwrap();
    fs::write(&trace, &whole[..whole.len() - 5]).unwrap();
    let sql = "SELECT sum(instructions) AS n FROM blocks";
    let runs = [ask(&trace, sql), ask(&trace, sql)];
    assert_eq!(runs.each_ref().map(|run| run.code), [1, 1], "{}", runs[0].err);
    assert_eq!(rows(&runs[0]), rows(&runs[1]));
    assert!(number(&rows(&runs[0])[0]["n"]) > 0);
    let problems = rows(&ask(&trace, "SELECT problem FROM sources"));
    assert!(problems[0]["problem"].is_string());
}

#[test]
fn what_cannot_be_answered_fails_with_a_reason() {
    let folder = TempDir::new().unwrap();
    let Some(trace) = copied("example.astf", folder.path()) else { return };
    let run = unspool(&["query", text(&trace), "SELECT nonsense FROM nowhere"]);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains("nowhere") && run.err.contains("docs/queries.md"), "{}", run.err);
    let run = unspool(&["query", text(&folder.path().join("none.astf")), "SELECT 1"]);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains("none.astf"), "{}", run.err);
}

/// Addresses above 2^63, in every form of an answer.
#[test]
fn large_addresses_are_exact() {
    let folder = TempDir::new().unwrap();
    let Some(_) = copied("example.astf", folder.path()) else { return };
    let trace = folder.path().join("high.tarmac");
    fs::write(&trace, "1 clk IT (1) ffffffc0080102fc d503201f O EL1h_n : NOP\n").unwrap();
    let sql = "SELECT address FROM blocks";
    assert_eq!(rows(&ask(&trace, sql))[0]["address"], "18446743798965928700");
    let run = unspool(&["query", text(&trace), sql, "--csv"]);
    assert_eq!(run.out, "address\n18446743798965928700\n");
    assert!(unspool(&["query", text(&trace), sql]).out.contains("18446743798965928700"));
}

/// Every view answers, on a trace and on an empty one.
#[test]
fn every_view_answers() {
    let page = fs::read_to_string(repository("docs/queries.md")).unwrap();
    let (_, views) = page.split_once("| view | rows |").unwrap();
    let names = views.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_string()));
    let names: Vec<String> = names.collect();
    assert!(names.len() > 20);
    for trace in ["hello-qemu", "sum.tarmac"] {
        let folder = TempDir::new().unwrap();
        let Some(trace) = copied(trace, folder.path()) else { return };
        for name in &names {
            let (view, parameters) = name.split_once('(').unwrap_or((name, ""));
            let arguments: Vec<&str> =
                parameters.split(',').map(|_| if view.ends_with("time") { "5" } else { "'f'" }).collect();
            let from =
                if parameters.is_empty() { view.to_string() } else { format!("{view}({})", arguments.join(", ")) };
            let run = ask(&trace, &format!("FROM {from}"));
            assert_eq!(run.code, 0, "{from}: {}", run.err);
        }
    }
}
