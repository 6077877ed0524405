//! The closed loop: recorded programs are encoded with every option in turn, decoded, and compared.
//!
//! Builds small programs in C with the cross compilers of Debian. Without a compiler or the emulator, a test is skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod armv7;
mod loops;
mod reference;

use std::path::{Path, PathBuf};

use unspool::coresight::Protocol;

use self::armv7::armv7_setups;
use self::loops::{Positions, Setup, round_trip, setups};
use crate::programs::{Target, assert_data_comes_back, built, record, unspool};
use crate::run::text;

/// Records a part of a program.
fn recorded(dir: &Path, name: &str, target: Target, out: &str) -> Option<PathBuf> {
    let program = built(dir, name, target)?;
    let out = dir.join(out);
    record(&["-o", text(&out), "--from", "main", "--limit", "25000"], &program, &[]);
    Some(out)
}

fn assert_closed(traces: &[PathBuf], name: &str) {
    let positions = Positions::of(traces).unwrap();
    assert_closed_with(traces, name, setups(&positions));
}

fn assert_closed_with(traces: &[PathBuf], name: &str, setups: Vec<Setup>) {
    let positions = Positions::of(traces).unwrap();
    let mut shown = Vec::new();
    for setup in setups {
        let dir = tempfile::tempdir().unwrap();
        let outcome = round_trip(traces, &setup, &positions, dir.path());
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        // An ETMv3 may have a timestamp for each instruction.
        let most_bytes = if setup.settings.protocol() == Protocol::Etm3 { 4 } else { 2 };
        let is_short = outcome.bytes < most_bytes * positions.instructions && outcome.breaks < 200;
        assert!(is_short, "{name}, {}: {outcome:?}", setup.name);
        let (overflows, times) = (setup.settings.has_overflows(), setup.settings.has_timestamps());
        assert_eq!(outcome.overflows > 0, overflows, "{name}, {}: {outcome:?}", setup.name);
        assert_eq!(outcome.times > 0, times, "{name}, {}: {outcome:?}", setup.name);
        shown.push((setup.name, outcome.same));
    }
    let all = shown[0].1;
    assert!(all > 1000 && all == positions.instructions, "{name}: {all} of {}", positions.instructions);
    for (setup, same) in shown {
        let is_filtered = ["include", "exclude", "start and stop"].contains(&setup);
        assert!(!is_filtered || (same > 0 && same < all), "{name}, {setup}: {same} of {all}");
    }
}

#[test]
fn programs_of_aarch64() {
    for name in ["sort", "json", "indirect", "calls", "signals"] {
        let dir = tempfile::tempdir().unwrap();
        let Some(trace) = recorded(dir.path(), name, Target::A64, "out.astf") else { return };
        assert_closed(&[trace], name);
    }
}

#[test]
fn threads_each_have_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let Some(trace) = recorded(dir.path(), "threads", Target::A64, "out.astf") else { return };
    for name in ["out.astf", "out.1.astf", "out.2.astf", "out.3.astf"] {
        assert_closed(&[trace.with_file_name(name)], name);
    }
}

#[test]
fn traces_of_threads_become_cores_of_one_capture() {
    let dir = tempfile::tempdir().unwrap();
    let Some(trace) = recorded(dir.path(), "threads", Target::A64, "out.astf") else { return };
    let traces = ["out.astf", "out.1.astf", "out.2.astf", "out.3.astf"].map(|name| trace.with_file_name(name));
    assert_eq!(Positions::of(&traces).unwrap().cores, 4);
    assert_closed(&traces, "threads side by side");
    let capture = dir.path().join("capture");
    let [capture, traces @ ..] = [&capture, &traces[0], &traces[1], &traces[2]].map(|path| text(path));
    unspool(&[&["encode", "-o", capture, "--formatted"], &traces[..]].concat()).expect(0, &[]);
    for (trace, unit) in traces.iter().zip(["UNIT_0", "UNIT_1", "UNIT_2"]) {
        unspool(&["diff", capture, trace, "--source-a", unit]).expect(0, &[]);
    }
}

#[test]
fn threads_share_a_log_as_cores() {
    let dir = tempfile::tempdir().unwrap();
    let Some(trace) = recorded(dir.path(), "threads", Target::A64, "out.tarmac") else { return };
    assert_eq!(Positions::of(std::slice::from_ref(&trace)).unwrap().cores, 4);
    assert_closed(&[trace], "threads as cores");
}

#[test]
fn programs_of_aarch32() {
    for (name, target) in
        [("sort", Target::A32), ("json", Target::T32), ("indirect", Target::A32), ("calls", Target::T32)]
    {
        let dir = tempfile::tempdir().unwrap();
        let Some(trace) = recorded(dir.path(), name, target, "out.tarmac") else { return };
        let traces = [trace];
        assert_closed(&traces, name);
        assert_closed_with(&traces, name, armv7_setups());
    }
}

/// Addresses and sizes. `record_registers` compares the values too, with an emulator that reports them.
#[test]
fn accesses_come_back_from_the_data_trace_of_an_etmv3() {
    for (name, target) in [("sort", Target::A32), ("json", Target::T32)] {
        let dir = tempfile::tempdir().unwrap();
        let Some(trace) = recorded(dir.path(), name, target, "out.tarmac") else { return };
        let rows: [&[&str]; 3] = [&[], &["--cycle-counts"], &["--branch-broadcast", "--formatted"]];
        rows.iter().for_each(|options| assert_data_comes_back(&trace, options, &["instructions", "accesses"]));
    }
}

#[test]
fn encode_and_diff_close_the_loop() {
    let dir = tempfile::tempdir().unwrap();
    let Some(trace) = recorded(dir.path(), "json", Target::A64, "out.astf") else { return };
    let rows: &[&[&str]] = &[
        &[],
        &["--return-stack", "--timestamps", "--cycle-counts", "--context-ids"],
        &["--protocol", "etm4", "--formatted", "--branch-broadcast"],
        &["--source-addresses", "--register", "TRCSYNCPR=8"],
        &["--register", "TRCIDR8=5", "--register", "TRCIDR0=0x280000ea1", "--guess", "3"],
    ];
    for (at, options) in rows.iter().enumerate() {
        let capture = dir.path().join(format!("capture{at}"));
        unspool(&[&["encode", text(&trace), "-o", text(&capture)], *options].concat()).expect(0, &[]);
        unspool(&["diff", text(&capture), text(&trace)]).expect(0, &[]);
    }
}
