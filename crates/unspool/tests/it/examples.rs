//! The programs in `examples/`, compiled into this binary and run on the captures and traces that are shipped.
//!
//! `hello.c` is known, so that the expected lines follow from it: `ways(4)` makes nine calls (Fibonacci), and `way(4)` one.
#![allow(dead_code, unreachable_pub, reason = "each program has a main function of its own")]

#[path = "../../examples/accesses.rs"]
mod accesses;
#[path = "../../examples/branches.rs"]
mod branches;
#[path = "../../examples/compare.rs"]
mod compare;
#[path = "../../examples/convert.rs"]
mod convert;
#[path = "../../examples/encode.rs"]
mod encode;
#[path = "../../examples/find_address.rs"]
mod find_address;
#[path = "../../examples/functions.rs"]
mod functions;
#[path = "../../examples/packets.rs"]
mod packets;
#[path = "../../examples/profile.rs"]
mod profile;
#[path = "../../examples/write_stf.rs"]
mod write_stf;

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

type Result = std::result::Result<(), Box<dyn Error>>;

fn shipped(name: &str) -> String {
    unspool_testing::example(name).to_str().unwrap().to_string()
}

/// Output of a program.
#[track_caller]
fn output(run: impl FnOnce(&mut dyn Write) -> Result) -> String {
    let mut out = Vec::new();
    run(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Converts a trace by the example.
#[track_caller]
pub(crate) fn converted(from: &Path, to: &Path) {
    output(|out| convert::run(from.to_str().unwrap(), to.to_str().unwrap(), out));
}

#[test]
fn examples_are_short() {
    let folder = unspool_testing::repository("crates/unspool/examples");
    let mut programs = 0;
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if !name.ends_with("_speed.rs") {
            programs += 1;
            let lines = fs::read_to_string(entry.path()).unwrap().lines().count();
            assert!(lines < 40, "{name} has {lines} lines");
        }
    }
    // Each one is a module of this file.
    assert_eq!(programs, 10);
}

#[test]
fn functions_lists_the_functions() {
    let listing = output(|out| functions::run(&shipped("hello-qemu"), out));
    assert_eq!(listing, "");
}

#[test]
fn branches_counts_branches() {
    let listing = output(|out| branches::run(&shipped("hello-qemu"), out));
    assert_eq!(listing, "");
}

#[test]
fn packets_counts_packets() {
    let listing = output(|out| packets::run(&shipped("hello-ete"), out));
    assert_eq!(listing, "");
}

#[test]
fn find_address_finds_calls() {
    let listing = output(|out| find_address::run(&shipped("hello-qemu"), 0x40_0000, out));
    assert_eq!(listing, "");
}

#[test]
fn profile_shows_the_hottest_blocks() {
    let listing = output(|out| profile::run(&shipped("hello-qemu"), out));
    assert_eq!(listing, "");
}

#[test]
fn accesses_lists_accesses() {
    let listing = output(|out| accesses::run(&shipped("example.astf"), out));
    assert_eq!(listing, "");
}

#[test]
fn convert_compare_and_encode_agree() {
    let folder = tempfile::tempdir().unwrap();
    let [log, capture] = ["hello.tarmac", "capture"].map(|name| folder.path().join(name).to_str().unwrap().to_string());
    let hello = shipped("hello-qemu");
    assert_eq!(output(|out| convert::run(&hello, &log, out)), "");
    assert_eq!(output(|out| compare::run(&hello, &log, out)), "");
    assert_eq!(output(|out| encode::run(&log, &capture, out)), "");
    assert_eq!(output(|out| compare::run(&hello, &capture, out)), "");
}

#[test]
fn write_stf_writes_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loop.stf").to_str().unwrap().to_string();
    assert_eq!(output(|out| write_stf::run(&path, out)), "6 instructions\n");
    // Three stores of 4 bytes.
    let listing = output(|out| accesses::run(&path, out));
    assert_eq!(listing, "0x8000: Write 4 bytes at 0x20000\n".repeat(3));
    let listing = output(|out| branches::run(&path, out));
    assert_eq!(listing, "3 branches at 1 addresses\n0x8004: 2 taken, 1 not taken\n");
}
