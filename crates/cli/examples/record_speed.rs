//! How long recording takes, against the same emulator with a plugin that is told everything and does nothing.
//!
//! `cargo build --release && cargo run --release -p unspool-cli --example record_speed -- PROGRAM [ARGUMENT...]`
//!
//! For programs of AArch64. Both run in turn, nine times, since a machine is not as fast at one time as at another: each
//! recording is compared with the runs before and behind it, and the median of these ratios counts.

#![allow(clippy::print_stdout, reason = "a measurement is for its reader")]

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const TURNS: usize = 9;

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
    let idle = || time(Command::new("qemu-aarch64").arg("-plugin").arg(&plugin).args(&program));
    let record = || {
        // What was there before would have to be given back first.
        if output.exists() {
            std::fs::remove_file(&output)?;
        }
        let mut record = Command::new(folder.join("unspool"));
        time(record.arg("record").arg("-o").arg(&output).arg("--").args(&program))
    };
    let (mut nothing, mut recorded, mut ratios) = (vec![idle()?], Vec::new(), Vec::new());
    for turn in 0..TURNS {
        recorded.push(record()?);
        nothing.push(idle()?);
        ratios.push(2.0 * recorded[turn] / (nothing[turn] + nothing[turn + 1]));
    }
    let bytes = std::fs::metadata(&output)?.len();
    println!("a plugin that does nothing  {:>8.2} s", median(&mut nothing));
    println!("recorded                    {:>8.2} s, {} MB", median(&mut recorded), bytes / 1_000_000);
    let middle = median(&mut ratios);
    println!("ratio                       {middle:>8.2}, from {:.2} to {:.2}", ratios[0], ratios[TURNS - 1]);
    Ok(())
}

fn time(command: &mut Command) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Sorts them; the one in the middle.
fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
