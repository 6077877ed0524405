//! `export perfetto`, as the trace processor of Perfetto reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use unspool_testing::tool;

use super::{LOG, calls, export, output, viewer};
use crate::programs::{Target, built, record};
use crate::run::{Folder, log, text};

const QUERY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/exports/query.mjs");

/// The trace processor: its folder.
pub(super) struct Engine {
    node: PathBuf,
    folder: PathBuf,
}

impl Engine {
    pub(super) fn new() -> Option<Self> {
        Some(Self { node: tool("node", "nodejs")?, folder: viewer("perfetto")? })
    }

    /// Rows of queries.
    pub(super) fn query(&self, trace: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
        let out = output(Command::new(&self.node).args([QUERY, text(&self.folder), text(trace)]).args(queries));
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub(super) const SLICES: &str = "select slice.ts, slice.dur, slice.depth, slice.name, track.name as track, slice.track_id \
    from slice join track on track.id = slice.track_id where category = 'call' order by slice.track_id, slice.id";
pub(super) const ERRORS: &str = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";
const MARKS: &str = "select ts, category, name from slice where category != 'call' order by ts, id";

/// Exports traces, `more` of which come after the first. Their slices are the calls of the traces with their depth, in the same
/// order, and there are no errors.
fn assert_calls(engine: &Engine, trace: &Path, more: &[&str], options: &[&str], code: i32) -> Vec<Vec<Value>> {
    let (folder, options) = (Folder::new(), &[more, options].concat());
    let (run, out) = export("perfetto", trace, options, &folder, "out.pftrace");
    assert_eq!(run.code, code, "{run:?}");
    let rows = engine.query(&out, &[SLICES, ERRORS, MARKS]);
    assert_eq!(rows[1], Vec::<Value>::new());
    let shape = |name: &Value, depth: &Value| (name.as_str().unwrap().to_string(), depth.as_u64().unwrap());
    let mut slices: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    for row in &rows[0] {
        slices.entry(row["track_id"].as_u64().unwrap()).or_default().push(shape(&row["name"], &row["depth"]));
    }
    let mut trees: Vec<Vec<(String, u64)>> = Vec::new();
    for call in calls(trace, more) {
        if call["depth"] == 0 {
            trees.push(Vec::new());
        }
        trees.last_mut().unwrap().push(shape(&call["name"], &call["depth"]));
    }
    // The trace processor numbers tracks by their first events.
    let mut slices: Vec<Vec<(String, u64)>> = slices.into_values().collect();
    slices.sort();
    trees.sort();
    assert_eq!(slices, trees, "{trace:?}");
    rows
}

#[test]
fn slices_are_calls() {
    let Some(engine) = Engine::new() else { return };
    for name in ["hello-qemu", "hello-ete", "example.astf", "sum.tarmac"] {
        let trace = unspool_testing::example(name);
        let code = crate::run::unspool(&["calls", text(&trace)]).code;
        assert_calls(&engine, &trace, &[], &[], code);
        assert_calls(&engine, &trace, &[], &["--clock", "instructions"], code);
    }
}

#[test]
fn slices_have_the_times_of_the_trace() {
    let Some(engine) = Engine::new() else { return };
    let (_folder, path) = log(LOG);
    let rows = assert_calls(&engine, &path, &[], &[], 0);
    let times = |rows: &[Value]| -> Vec<(u64, u64, String)> {
        let time = |row: &Value, key: &str| row[key].as_u64().unwrap();
        rows.iter().map(|row| (time(row, "ts"), time(row, "dur"), row["track"].as_str().unwrap().to_string())).collect()
    };
    let track = |times: &[(u64, u64)], name: &str| -> Vec<(u64, u64, String)> {
        times.iter().map(|(at, duration)| (*at, *duration, name.to_string())).collect()
    };
    let expected = [track(&[(1, 7), (2, 6), (3, 2), (8, 0)], "core cpu0"), track(&[(7, 0)], "core cpu1")].concat();
    assert_eq!(times(&rows[0]), expected);
    let rows = assert_calls(&engine, &path, &[], &["--clock", "instructions"], 0);
    let expected = [track(&[(0, 6), (1, 5), (2, 2), (5, 1)], "core cpu0"), track(&[(0, 1)], "core cpu1")].concat();
    assert_eq!(times(&rows[0]), expected);
}

#[test]
fn a_part_of_the_time() {
    let Some(engine) = Engine::new() else { return };
    let (folder, path) = log(LOG);
    let (run, out) = export("perfetto", &path, &["--core", "cpu0", "--time", "4..7"], &folder, "out.pftrace");
    assert_eq!(run.code, 0, "{run:?}");
    let rows = engine.query(&out, &[SLICES, ERRORS]);
    let times: Vec<(&Value, &Value)> = rows[0].iter().map(|row| (&row["ts"], &row["dur"])).collect();
    assert_eq!(times, [(&4.into(), &3.into()), (&4.into(), &3.into()), (&4.into(), &1.into())]);
    assert_eq!(rows[1], Vec::<Value>::new());
}

/// Recursion, signals and four threads, each of which has a trace of its own.
#[test]
fn recorded_programs() {
    let Some(engine) = Engine::new() else { return };
    for (name, threads) in [("threads", 4), ("signals", 1)] {
        let folder = Folder::new();
        let Some(program) = built(folder.root(), name, Target::A64) else { return };
        let trace = folder.path("run.astf");
        record(&["-o", text(&trace)], &program, &[]);
        let more: Vec<PathBuf> = (1..threads).map(|number| folder.path(format!("run.{number}.astf"))).collect();
        let more: Vec<&str> = more.iter().map(|path| text(path)).collect();
        let rows = assert_calls(&engine, &trace, &more, &[], 0);
        let tracks: BTreeSet<u64> = rows[0].iter().map(|row| row["track_id"].as_u64().unwrap()).collect();
        assert!(rows[0].len() > 100 && tracks.len() == threads, "{} {}", rows[0].len(), tracks.len());
    }
}

/// Gaps are marked, and everything that began has ended.
#[test]
fn gaps_are_marked() {
    let Some(engine) = Engine::new() else { return };
    let trace = unspool_testing::example("hello-ete");
    let folder = Folder::new();
    let (_, out) = export("perfetto", &trace, &[], &folder, "out.pftrace");
    let rows = engine.query(&out, &[MARKS, "select count(*) as open from slice where dur < 0"]);
    assert!(rows[0].iter().any(|row| row["category"] == "gap"), "{:?}", rows[0]);
    assert_eq!(rows[1][0]["open"], 0);
}
