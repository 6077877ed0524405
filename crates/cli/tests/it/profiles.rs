//! Calls and profiles of recorded programs: the same from every format, and as the program counts them itself.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use unspool::{OpenSteps, open_steps};
use unspool_testing::tool;

use crate::programs::{Target, built_counted, record, unspool};
use crate::run::text;

/// A recorded program that counts its own calls.
struct Recorded {
    program: PathBuf,
    trace: PathBuf,
    /// Number of calls by the address of the function.
    counted: BTreeMap<u64, u64>,
}

fn recorded(dir: &Path, target: Target, out: &str) -> Option<Recorded> {
    let program = built_counted(dir, target)?;
    let trace = dir.join(out);
    // The C library may jump to main: then it is a part of what jumps.
    let run = record(&["-o", text(&trace), "--from", "main"], &program, &[]);
    let row = |line: &str| {
        let (address, calls) = line.split_once(' ')?;
        // The lowest bit is that of Thumb.
        let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()? & !1;
        Some((address, calls.parse().ok()?))
    };
    let counted: BTreeMap<u64, u64> = run.out.lines().filter_map(row).collect();
    assert!(counted.len() == 8 && counted.values().sum::<u64>() > 500, "{counted:?}");
    Some(Recorded { program, trace, counted })
}

/// The profile in instructions: calls, incomplete calls, own and total instructions by address.
fn profile(trace: &Path, options: &[&str]) -> BTreeMap<u64, [u64; 4]> {
    let run =
        unspool(&[&["profile", text(trace), "--json", "--weight", "instructions"], options].concat()).expect(0, &[]);
    let rows = lines(&run.out).into_iter().filter(|row| row["kind"] == "function");
    let row = |row: Value| {
        let numbers = ["calls", "incomplete", "self", "total"].map(|key| row[key].as_u64().unwrap());
        (hex(&row["address"]), numbers)
    };
    rows.map(row).collect()
}

/// Every call: depth, function, how it began and ended, its instructions.
fn calls(trace: &Path) -> Vec<Vec<Value>> {
    let run = unspool(&["calls", text(trace), "--json"]).expect(0, &[]);
    let rows = lines(&run.out).into_iter().filter(|row| row["kind"] == "call");
    let keys =
        ["depth", "address", "began", "ended", "instructions", "own_instructions", "call_address", "return_address"];
    rows.map(|row| keys.map(|key| row[key].clone()).to_vec()).collect()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

/// The same trace in other formats.
fn derived(recorded: &Recorded, dir: &Path, names: &[&str]) -> Vec<PathBuf> {
    let derive = |name: &&str| {
        let path = dir.join(name);
        let verb = if *name == "capture" { "encode" } else { "convert" };
        let ends: [&str; 2] = if verb == "encode" { ["-o", text(&path)] } else { [text(&path), "--force"] };
        unspool(&[&[verb, text(&recorded.trace)], &ends[..]].concat()).expect(0, &[]);
        path
    };
    names.iter().map(derive).collect()
}

fn assert_counts(recorded: &Recorded, rows: &BTreeMap<u64, [u64; 4]>) {
    let calls = |address: &u64| rows.get(address).map_or(0, |row| row[0]);
    let found: BTreeMap<u64, u64> = recorded.counted.keys().map(|address| (*address, calls(address))).collect();
    assert_eq!(found, recorded.counted, "{}", recorded.trace.display());
}

/// Address, size and name of the functions of a program.
fn functions(program: &Path) -> Option<Vec<(u64, u64, String)>> {
    tool("aarch64-linux-gnu-nm", "binutils-aarch64-linux-gnu")?;
    let output = Command::new("aarch64-linux-gnu-nm").arg("-S").arg(program).output().unwrap();
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        Some((number()?, number()?, words.nth(1)?.to_string()))
    };
    Some(String::from_utf8(output.stdout).unwrap().lines().filter_map(row).collect())
}

/// Number of instructions that the recording has in each of these address ranges, and the indices of the first and the last.
fn executed(trace: &Path, ranges: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
    let mut counts = vec![(0, u64::MAX, 0); ranges.len()];
    let mut index = 0;
    let mut steps = open_steps(trace, &OpenSteps::default()).unwrap();
    let each = steps.each(&mut |step| {
        let Some(instruction) = step.event.instruction() else { return ControlFlow::Continue(()) };
        for ((start, size), (count, first, last)) in ranges.iter().zip(&mut counts) {
            if (*start..start + size).contains(&instruction.address) {
                (*count, *first, *last) = (*count + 1, index.min(*first), index);
            }
        }
        index += 1;
        ControlFlow::Continue(())
    });
    each.unwrap();
    counts
}

#[test]
fn every_format_has_the_calls_that_the_program_counts() {
    let dir = tempfile::tempdir().unwrap();
    let Some(recorded) = recorded(dir.path(), Target::A64, "out.astf") else { return };
    let rows = profile(&recorded.trace, &[]);
    assert_counts(&recorded, &rows);
    let tree = calls(&recorded.trace);
    assert!(tree.len() > 1000, "{}", tree.len());
    for path in derived(&recorded, dir.path(), &["capture", "out.stf", "out.tarmac"]) {
        assert_eq!(profile(&path, &[]), rows, "{}", path.display());
        assert_eq!(calls(&path), tree, "{}", path.display());
    }
    // Several traces at once, on one thread or more.
    let [one, two] = ["1", "2"].map(|threads| {
        let capture = dir.path().join("capture");
        let files = [text(&recorded.trace), text(&capture)];
        unspool(&[&["profile", "-j", threads], &files[..]].concat()).expect(0, &[]).out
    });
    assert_eq!(one, two);
    assert_eq!(one.matches("instructions, ").count(), 2, "{one}");
    // Own instructions are those in the address range of the function.
    let Some(functions) = functions(&recorded.program) else { return };
    let names = ["main", "leaf", "even", "odd", "fib", "jump", "tries"];
    let found = names.map(|name| functions.iter().find(|row| row.2 == name).unwrap_or_else(|| panic!("{name}")));
    let executed = executed(&recorded.trace, &found.map(|(start, size, _)| (*start, *size)));
    for ((address, _, name), (count, first, last)) in found.iter().zip(executed) {
        let row = rows[address];
        assert_eq!(row[2], count, "own instructions of {name}");
        if name == "main" {
            // It returns once.
            assert_eq!(row[3], last - first + 1, "instructions from the first to the last of {name}");
        }
    }
}

#[test]
fn other_instruction_sets_have_the_calls_that_the_program_counts() {
    for (target, out, derives) in [
        (Target::A32, "out.tarmac", &["capture"][..]),
        (Target::T32, "out.tarmac", &["capture"]),
        (Target::Riscv64, "out.stf", &[]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let Some(recorded) = recorded(dir.path(), target, out) else { return };
        let rows = profile(&recorded.trace, &[]);
        assert_counts(&recorded, &rows);
        for path in derived(&recorded, dir.path(), derives) {
            assert_eq!(profile(&path, &[]), rows, "{}", path.display());
        }
    }
}

/// A gap in a capture: no call is added, and what ended in the gap is marked.
#[test]
fn damage_invents_no_calls() {
    let dir = tempfile::tempdir().unwrap();
    let Some(recorded) = recorded(dir.path(), Target::A64, "out.astf") else { return };
    let whole = profile(&recorded.trace, &[]);
    let [capture] = &derived(&recorded, dir.path(), &["capture"])[..] else { panic!() };
    let buffer = capture.join("trace_0.bin");
    let mut bytes = fs::read(&buffer).unwrap();
    for at in [3, 5, 7] {
        let at = bytes.len() * at / 8;
        bytes[at..at + 64].fill(0x08);
    }
    fs::write(&buffer, bytes).unwrap();
    let run = unspool(&["profile", text(capture), "--json"]);
    let rows = lines(&run.out).into_iter().filter(|row| row["kind"] == "function");
    let mut calls = 0;
    for row in rows {
        let (address, count) = (hex(&row["address"]), row["calls"].as_u64().unwrap());
        assert!(count <= whole.get(&address).map_or(0, |row| row[0]), "{row}");
        calls += count;
    }
    assert!(calls > 100, "{calls}");
}
