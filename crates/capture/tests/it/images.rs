//! Images made by compilers and linkers, and the memory of this process: what other tools say is what is expected.
#![allow(clippy::unwrap_used)]

mod jit;
mod modules;
mod programs;

use std::path::Path;
use std::process::Command;

use unspool_testing::tool;

/// Debian package of the cross compiler.
const PACKAGE: &str = "gcc-aarch64-linux-gnu";

/// Whether the cross compiler and its tools are installed; if not, the test is skipped.
#[track_caller]
fn has_tools() -> bool {
    let names = ["gcc", "ld", "objcopy", "nm", "readelf", "objdump", "strip"];
    names.iter().all(|name| tool(&format!("aarch64-linux-gnu-{name}"), PACKAGE).is_some())
}

/// Runs a cross tool in a folder and returns its output.
fn run(folder: &Path, name: &str, arguments: &str) -> String {
    let command = format!("aarch64-linux-gnu-{name}");
    let output = Command::new(&command).args(arguments.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{command} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}
