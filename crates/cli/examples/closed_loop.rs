//! The closed loop over a trace of any size: `cargo run --release --example closed_loop -- TRACE... [SET-UP...]`.
//!
//! Make the trace with `unspool record -o TRACE -- PROGRAM ARGS`; the traces of its threads can be given together, and are
//! the cores of one capture then. A word is a trace if there is such a file. Each set-up of the trace unit is encoded,
//! decoded and compared instruction by instruction, with the times where timestamps are traced; its capture is removed then.

#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/it/closed_loop/loops.rs"]
mod loops;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::loops::{Positions, setups, turn};

fn main() -> ExitCode {
    let (traces, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| Path::new(word).exists());
    if traces.is_empty() {
        eprintln!("say which trace: closed_loop TRACE... [SET-UP...]");
        return ExitCode::from(2);
    }
    let traces: Vec<PathBuf> = traces.into_iter().map(PathBuf::from).collect();
    match run(&traces, &names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn run(traces: &[PathBuf], names: &[String]) -> Result<(), String> {
    let positions = Positions::of(traces)?;
    println!("{} instructions of {} cores", positions.instructions, positions.cores);
    let setups = setups(&positions);
    if let Some(unknown) = names.iter().find(|name| setups.iter().all(|setup| setup.name != *name)) {
        return Err(format!("{unknown} is neither a trace nor a set-up"));
    }
    for setup in setups.iter().filter(|setup| names.is_empty() || names.iter().any(|name| name == setup.name)) {
        let beside = traces.first().and_then(|trace| trace.parent()).filter(|folder| !folder.as_os_str().is_empty());
        let capture = tempfile::tempdir_in(beside.unwrap_or(Path::new("."))).map_err(|error| error.to_string())?;
        let outcome = turn(traces, setup, &positions, capture.path())?;
        let (encoding, decoding) = outcome.seconds;
        println!(
            "{:22} {:>12} the same, {:>11} bytes, {:>5} breaks, {} lost in {} overflows, {} times, encoded in \
             {encoding:.1} s, decoded and compared in {decoding:.1} s",
            setup.name, outcome.same, outcome.bytes, outcome.breaks, outcome.lost, outcome.overflows, outcome.times
        );
    }
    Ok(())
}
