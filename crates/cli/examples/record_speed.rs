//! Time of a recording, compared with the same emulator and a plugin that receives every event and does nothing.
//!
//! `cargo build --release && cargo run --release -p unspool-cli --features measure --example record_speed -- PROGRAM [ARGUMENT...]`
//!
//! For AArch64 programs. Both run alternately, nine times, since the speed of a machine varies: each recording is compared
//! with the runs before and after it, and the median of these ratios is the result. Stolen time of a virtual machine is
//! printed, since it costs two processors more than one.

#![allow(clippy::print_stdout, reason = "the measurement is printed")]

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const TURNS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let program: Vec<OsString> = std::env::args_os().skip(1).collect();
    if program.is_empty() {
        return Err("usage: record_speed PROGRAM [ARGUMENT...]".into());
    }
    let executable = std::env::current_exe()?;
    let folder = executable.parent().and_then(Path::parent).ok_or("the executable is not in a target directory")?;
    let directory = tempfile::tempdir()?;
    let output = directory.path().join("run.astf");
    let mut plugin = folder.join("libunspool_plugin.so").into_os_string();
    plugin.push(",idle=on");
    let code = quiet(Command::new("qemu-aarch64").args(&program)).status()?.code();
    let idle = || time(Command::new("qemu-aarch64").arg("-plugin").arg(&plugin).args(&program), code);
    let record = || {
        // Freeing the blocks of an existing file would take time.
        if output.exists() {
            std::fs::remove_file(&output)?;
        }
        let mut record = Command::new(folder.join("unspool"));
        time(record.arg("record").arg("-o").arg(&output).arg("--").args(&program), Some(0))
    };
    let (start, stolen) = (Instant::now(), stolen_seconds());
    let (mut nothing, mut recorded, mut ratios) = (vec![idle()?], Vec::new(), Vec::new());
    for turn in 0..TURNS {
        recorded.push(record()?);
        nothing.push(idle()?);
        ratios.push(2.0 * recorded[turn] / (nothing[turn] + nothing[turn + 1]));
    }
    let (seconds, stolen) = (start.elapsed().as_secs_f64(), stolen_seconds() - stolen);
    let bytes = std::fs::metadata(&output)?.len();
    println!("a plugin that does nothing  {:>8.2} s", median(&mut nothing));
    println!("recorded                    {:>8.2} s, {} MB", median(&mut recorded), bytes / 1_000_000);
    let middle = median(&mut ratios);
    println!("ratio                       {middle:>8.2}, from {:.2} to {:.2}", ratios[0], ratios[TURNS - 1]);
    println!("stolen                      {stolen:>8.2} s of {seconds:.0}");
    Ok(())
}

/// Seconds of a command, which must end with this exit code.
fn time(command: &mut Command, code: Option<i32>) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    let status = quiet(command).status()?;
    if status.code() != code {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(start.elapsed().as_secs_f64())
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::null())
}

/// Seconds of all processors that the host gave to others, where the system reports them.
fn stolen_seconds() -> f64 {
    let all = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = all.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok());
    stolen.unwrap_or(0.0) / 100.0
}

/// Sorts the numbers, and returns the median.
fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
