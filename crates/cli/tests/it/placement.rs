//! Position-independent programs of a cross compiler, run under QEMU, and placed from their trace alone.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use unspool_testing::tool;

use crate::programs::{record, unspool};
use crate::run::{Run, text};

/// Builds a position-independent program of the tests; `None`: it cannot be built or run here.
fn pie(dir: &Path, name: &str, compiler: &str, emulator: &str) -> Option<PathBuf> {
    let package = compiler.strip_suffix("-gcc").map(|triple| format!("gcc-{triple}")).unwrap_or_default();
    let compiler = tool(compiler, &package)?;
    tool(emulator, "qemu-user")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/programs/{name}.c"));
    let program = dir.join(name);
    let mut build = Command::new(compiler);
    build.args(["-O1", "-static-pie", "-fPIE", "-pthread", "-o"]).arg(&program).arg(source);
    Run::from(build.output().unwrap()).expect(0, &[]);
    Some(program)
}

/// Start addresses of all ranges that `decode` lists.
fn starts(args: &[&str]) -> (Vec<u64>, String) {
    let run = unspool(&[&["decode", "--emit", "ranges", "--json"], args].concat());
    let json = run.json();
    let ranges = json.iter().filter(|line| line["kind"] == "range");
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    (ranges.map(|range| number(range["start"].as_str().unwrap())).collect(), run.err)
}

/// The capture contains the code that ran, as a memory image; the bare buffer has only the program. Both decode alike.
fn assert_placed(name: &str, compiler: &str, emulator: &str, extension: &str, options: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = pie(dir.path(), name, compiler, emulator) else { return };
    let (trace, capture) = (dir.path().join(format!("run.{extension}")), dir.path().join("capture"));
    record(&["-o", text(&trace), "--from", "main", "--limit", "25000"], &program, &[]);
    unspool(&[&["encode", text(&trace), "-o", text(&capture)], options].concat()).expect(0, &[]);
    let (expected, _) = starts(&[text(&capture)]);
    assert!(expected.len() > 1000, "{name}: {}", expected.len());
    // Only the buffer, with the registers of the capture.
    let buffer = capture.join("trace_0.bin");
    let unit = std::fs::read_to_string(capture.join("unit_0.ini")).unwrap();
    let registers = unit.lines().filter(|line| line.starts_with("TRC")).flat_map(|line| ["--register", line]);
    let protocol = if options.contains(&"etm4") { "etm4" } else { "ete" };
    let head = [text(&buffer), "--protocol", protocol, "--image", text(&program)];
    let args: Vec<&str> = head.into_iter().chain(registers).collect();
    let (found, messages) = starts(&args);
    assert!(messages.contains("position-independent; placed at 0x"), "{name}: {messages}");
    assert!(found == expected, "{name}: {} of {}: {messages}", found.len(), expected.len());
}

#[test]
fn programs_of_aarch64() {
    for name in ["sort", "json", "indirect", "calls"] {
        assert_placed(name, "aarch64-linux-gnu-gcc", "qemu-aarch64", "astf", &["--return-stack"]);
    }
    assert_placed("json", "aarch64-linux-gnu-gcc", "qemu-aarch64", "astf", &["--protocol", "etm4"]);
}
