//! Profiles of recorded programs by source line, compared with executions that `dump` lists and lines that `addr2line` finds.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use unspool_testing::tool;

use crate::programs::{Target, built_for_debugging, built_optimized, record, unspool};
use crate::run::text;

fn json(run: &str) -> Vec<Value> {
    run.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Executions by address, from the records of the trace.
fn executions(trace: &Path) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for line in json(&unspool(&["dump", text(trace), "--json"]).expect(0, &[]).out) {
        if line["kind"] == "instruction" {
            let address = line["address"].as_str().unwrap().strip_prefix("0x").unwrap();
            *counts.entry(u64::from_str_radix(address, 16).unwrap()).or_insert(0) += 1;
        }
    }
    counts
}

/// The line of each address, innermost if code was inlined; `None` where there is none.
fn lines(program: &Path, addresses: &[u64]) -> Option<Vec<Option<(String, u64)>>> {
    let finder = tool("aarch64-linux-gnu-addr2line", "binutils-aarch64-linux-gnu")?;
    let mut command = Command::new(finder);
    let mut child = command.arg("-e").arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let list: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    // It answers while it reads.
    let writer = std::thread::spawn(move || input.write_all(list.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let line = |line: &str| {
        let line = line.split(" (discriminator").next()?;
        let (file, line) = line.rsplit_once(':')?;
        Some((file.to_string(), line.parse().ok().filter(|line| *line > 0)?))
    };
    Some(String::from_utf8(output.stdout).unwrap().lines().map(line).collect())
}

#[test]
fn lines_are_counted_as_addr2line_finds_them() {
    for optimized in [false, true] {
        let dir = TempDir::new().unwrap();
        let build = if optimized { built_optimized } else { built_for_debugging };
        let Some(program) = build(dir.path(), "covered", Target::A64) else { return };
        let trace = dir.path().join("run.astf");
        record(&["-o", text(&trace)], &program, &[]);
        let executed = executions(&trace);
        let addresses: Vec<u64> = executed.keys().copied().collect();
        let Some(found) = lines(&program, &addresses) else { return };
        let (mut expected, mut unknown) = (BTreeMap::new(), 0);
        for (count, line) in executed.values().zip(found) {
            match line {
                Some(line) => *expected.entry(line).or_insert(0) += count,
                None => unknown += count,
            }
        }
        assert!(expected.len() > 10 && unknown > 0, "{}", expected.len());
        let run = unspool(&["profile", text(&trace), "--image", text(&program), "--by", "line", "--json"]);
        let rows = json(&run.expect(0, &[]).out);
        let total: u64 = executed.values().sum();
        assert_eq!(rows.last().unwrap()["total"], total);
        let rows = rows.iter().filter(|row| row["kind"] == "line");
        let (known, others): (Vec<&Value>, Vec<&Value>) = rows.partition(|row| row["file"].is_string());
        let count = |row: &Value| row["self"].as_u64().unwrap();
        let row =
            |row: &&Value| ((row["file"].as_str().unwrap().to_string(), row["line"].as_u64().unwrap()), count(row));
        assert_eq!(known.iter().map(row).collect::<BTreeMap<_, _>>(), expected, "optimized: {optimized}");
        assert_eq!(others.iter().map(|row| count(row)).sum::<u64>(), unknown, "optimized: {optimized}");
    }
}
