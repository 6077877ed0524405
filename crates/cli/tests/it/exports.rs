//! Files for viewers, each judged by a program or a schema of its viewer.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod flamegraph;
mod html;
mod page_tables;
mod perfetto;
mod selection;
mod software;
mod stacks;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use unspool_testing::skip;

use crate::run::{Folder, Run, text, unspool};

/// A file of the folder that `.ci/viewers` fills, which `UNSPOOL_VIEWERS` names; `None`: skipped.
#[track_caller]
fn viewer(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("UNSPOOL_VIEWERS") else {
        skip("UNSPOOL_VIEWERS is not set (.ci/viewers FOLDER)");
        return None;
    };
    let path = Path::new(&folder).join(name);
    assert!(path.exists(), "UNSPOOL_VIEWERS has no {name}");
    Some(path)
}

/// Exports a trace into a file of a folder.
#[track_caller]
fn export(kind: &str, trace: &Path, options: &[&str], folder: &Folder, name: &str) -> (Run, PathBuf) {
    let out = folder.path(name);
    let run = unspool(&[&["export", kind, text(trace), "-o", text(&out), "--force"], options].concat());
    (run, out)
}

/// The output of a program that succeeds.
#[track_caller]
fn output(program: &mut Command) -> String {
    Run::from(program.output().unwrap()).expect(0, &[]).out
}

/// Calls of a trace as `unspool calls` prints them.
fn calls(trace: &Path, options: &[&str]) -> Vec<Value> {
    let run = unspool(&[&["calls", text(trace), "--json"], options].concat());
    run.json().into_iter().filter(|line| line["kind"] == "call").collect()
}

/// A function that calls another, twice, and itself; the last two calls are unfinished. A core does something else.
const LOG: &str = "\
0 clk cpu0 R SP_EL1 0000000000001000
1 clk cpu0 IT (1) 0000a000 94000004 O EL1h_n : BL {pc}+0x10
1 clk cpu0 R X30 000000000000a004
2 clk cpu0 IT (2) 0000a010 94000004 O EL1h_n : BL {pc}+0x10
2 clk cpu0 R X30 000000000000a014
3 clk cpu0 IT (3) 0000a020 d503201f O EL1h_n : NOP
5 clk cpu0 IT (4) 0000a024 d65f03c0 O EL1h_n : RET
6 clk cpu0 IT (5) 0000a014 97ffffff O EL1h_n : BL {pc}-4
6 clk cpu0 R X30 000000000000a018
7 clk cpu1 IT (1) 0000b000 d503201f O EL1h_n : NOP
8 clk cpu0 IT (6) 0000a010 d503201f O EL1h_n : NOP
";
