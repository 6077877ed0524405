//! How long recording takes, against the same emulator with a plugin that is told everything and does nothing.
//!
//! `cargo build --release && cargo run --release -p unspool-cli --example record_speed -- PROGRAM [ARGUMENT...]`
//!
//! For programs of AArch64. Both run in turn, five times; the best of each counts.

#![allow(clippy::print_stdout, reason = "a measurement is for its reader")]

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TURNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let program: Vec<OsString> = std::env::args_os().skip(1).collect();
    if program.is_empty() {
        return Err("say which program to run".into());
    }
    let executable = std::env::current_exe()?;
    let folder = executable.parent().and_then(Path::parent).ok_or("there is no folder of programs")?;
    let place = tempfile::tempdir()?;
    let output = place.path().join("run.astf");
    let mut plugin = folder.join("libunspool_plugin.so").into_os_string();
    plugin.push(",idle=on");
    let (mut idle, mut recorded) = (Duration::MAX, Duration::MAX);
    for _ in 0..TURNS {
        idle = idle.min(time(Command::new("qemu-aarch64").arg("-plugin").arg(&plugin).args(&program))?);
        let mut record = Command::new(folder.join("unspool"));
        recorded = recorded.min(time(record.arg("record").arg("-o").arg(&output).arg("--").args(&program))?);
    }
    let bytes = std::fs::metadata(&output)?.len();
    println!("a plugin that does nothing  {:>8.2} s", idle.as_secs_f64());
    println!("recorded                    {:>8.2} s, {} MB", recorded.as_secs_f64(), bytes / 1_000_000);
    println!("ratio                       {:>8.2}", recorded.as_secs_f64() / idle.as_secs_f64());
    Ok(())
}

fn time(command: &mut Command) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    Ok(start.elapsed())
}
