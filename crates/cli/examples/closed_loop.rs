//! The closed loop over a trace of any size: `cargo run --release --features measure --example closed_loop -- TRACE... [SETUP...]`.
//!
//! Record the trace with `unspool record -o TRACE -- PROGRAM ARGS`; several traces of one core each become one capture. An
//! argument is a trace if such a file exists. For each setup of the trace unit, the trace is encoded, decoded and compared
//! instruction by instruction, with times where timestamps are traced; the capture is removed afterwards.

#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/it/closed_loop/loops.rs"]
mod loops;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::loops::{Positions, round_trip, setups};

fn main() -> ExitCode {
    let (traces, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| Path::new(argument).exists());
    if traces.is_empty() {
        eprintln!("usage: closed_loop TRACE... [SETUP...]");
        return ExitCode::from(2);
    }
    let traces: Vec<PathBuf> = traces.into_iter().map(PathBuf::from).collect();
    match run(&traces, &names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(traces: &[PathBuf], names: &[String]) -> Result<(), String> {
    let positions = Positions::of(traces)?;
    println!("{} instructions of {} cores", positions.instructions, positions.cores);
    let setups = setups(&positions);
    if let Some(unknown) = names.iter().find(|name| setups.iter().all(|setup| setup.name != *name)) {
        return Err(format!("{unknown} is neither a trace nor a setup"));
    }
    for setup in setups.iter().filter(|setup| names.is_empty() || names.iter().any(|name| name == setup.name)) {
        let beside = traces.first().and_then(|trace| trace.parent()).filter(|folder| !folder.as_os_str().is_empty());
        let capture = tempfile::tempdir_in(beside.unwrap_or(Path::new("."))).map_err(|error| error.to_string())?;
        let outcome = round_trip(traces, setup, &positions, capture.path())?;
        let (encoding, decoding) = outcome.seconds;
        println!(
            "{:22} {:>12} equal, {:>11} bytes, {:>5} breaks, {} lost in {} overflows, {} times, encoded in \
             {encoding:.1} s, decoded and compared in {decoding:.1} s",
            setup.name, outcome.same, outcome.bytes, outcome.breaks, outcome.lost, outcome.overflows, outcome.times
        );
    }
    Ok(())
}
