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
        // Programs that measure, and the one that makes what they read, are no examples.
        if !name.ends_with("_speed.rs") && name != "generate.rs" {
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
    let expected = "_start: 18 instructions\nways: 80 instructions\nsay: 32 instructions\nway: 3 instructions\n";
    assert_eq!(listing, expected);
}

#[test]
fn branches_counts_branches() {
    let listing = output(|out| branches::run(&shipped("hello-qemu"), out));
    // Of the nine calls of `ways`, four have two stairs or more.
    assert_eq!(listing, "33 branches at 11 addresses\n0x400124: 4 taken, 5 not taken\n");
}

#[test]
fn packets_counts_packets() {
    let listing = output(|out| packets::run(&shipped("hello-ete"), out));
    // Packet by packet in `hello.rs`: 28 of one source, 16 of the other.
    let expected = "ETE_0: 4 address_context_64_is0\nETE_0: 2 address_short_is0\nETE_0: 2 alignment_sync\n\
                    ETE_0: 2 atom_format_1\nETE_0: 2 atom_format_2\nETE_0: 5 atom_format_3\nETE_0: 1 event\n\
                    ETE_0: 2 exception\nETE_0: 1 overflow\nETE_0: 3 timestamp\nETE_0: 2 trace_info\nETE_0: 2 trace_on\n\
                    ETE_1: 1 address_context_64_is0\nETE_1: 1 address_short_is0\nETE_1: 1 alignment_sync\n\
                    ETE_1: 1 atom_format_1\nETE_1: 3 atom_format_3\nETE_1: 1 cancel_format_1\nETE_1: 4 commit\n\
                    ETE_1: 1 exception\nETE_1: 1 mispredict\nETE_1: 1 trace_info\nETE_1: 1 trace_on\n";
    assert_eq!(listing, expected);
}

#[test]
fn find_address_finds_calls() {
    // `way` is called once; `ways` once by `_start` and eight times by itself.
    let listing = output(|out| find_address::run(&shipped("hello-qemu"), 0x40_0164, out));
    assert!(listing.starts_with("instruction 109, offset 0x") && listing.ends_with(", from _start\n"), "{listing}");
    let listing = output(|out| find_address::run(&shipped("hello-qemu"), 0x40_0120, out));
    let callers: Vec<&str> = listing.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(callers, ["_start", "ways", "ways", "ways", "ways", "ways", "ways", "ways", "ways"]);
}

#[test]
fn profile_shows_the_hottest_blocks() {
    let listing = output(|out| profile::run(&shipped("hello-qemu"), out));
    // Of 133 instructions: 2 x 14, 4 x 6, 9 x 2, 4 x 4 and 4 x 3.
    let expected = " 21.1% 0x400170..0x4001a8 say\n 18.0% 0x400130..0x400148 ways\n 13.5% 0x400120..0x400128 ways\n \
                    12.0% 0x400154..0x400164 ways\n  9.0% 0x400148..0x400154 ways\n";
    assert_eq!(listing, expected);
}

#[test]
fn accesses_lists_accesses() {
    let listing = output(|out| accesses::run(&shipped("example.astf"), out));
    // As `unspool dump` lists them: LDP of two registers, the parts of a memory set, LDP across a page, an STP that trapped
    // and so wrote nothing, and a vector of 512 bits.
    let expected = "0x836e130: Read 16 bytes at 0xffffe7624250\n0x836e134: Write 16 bytes at 0xa4330b765010\n\
                    0x836e138: Write 96 bytes at 0xa4330b765020\n0x836e13c: Write 0 bytes at 0xa4330b765080\n\
                    0xffff83ffb2f0: Read 4 bytes at 0xa4330b765ffc\n0xffff83ffb2f0: Read 4 bytes at 0xa4330b766000\n\
                    0xffff83ffb2f4: Neither 16 bytes at 0xffff95ceb000\n\
                    0xffff7dfffe7fc404: Read 64 bytes at 0xffff8000053bd500\n";
    assert_eq!(listing, expected);
}

#[test]
fn convert_compare_and_encode_agree() {
    let folder = tempfile::tempdir().unwrap();
    let [log, capture] = ["hello.tarmac", "capture"].map(|name| folder.path().join(name).to_str().unwrap().to_string());
    let hello = shipped("hello-qemu");
    let same = "no difference, 0 findings, 133 instructions in common\n";
    assert_eq!(output(|out| convert::run(&hello, &log, out)), "133 instructions\n");
    assert_eq!(output(|out| compare::run(&hello, &log, out)), same);
    let encoded = "133 instructions in 76 bytes of trace\n133 instructions decoded from it\n";
    assert_eq!(output(|out| encode::run(&log, &capture, out)), encoded);
    assert_eq!(output(|out| compare::run(&hello, &capture, out)), same);
    let different = output(|out| compare::run(&hello, &shipped("example.astf"), out));
    assert!(different.starts_with("different, "), "{different}");
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
