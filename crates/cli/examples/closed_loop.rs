//! The closed loop over a trace of any size: `cargo run --release --example closed_loop -- TRACE [SET-UP...]`.
//!
//! Make the trace with `unspool record -o TRACE -- PROGRAM ARGS`. Each set-up of the trace unit is encoded, decoded and
//! compared instruction by instruction; its capture is removed then.

#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/closed_loop/loops.rs"]
mod loops;

use std::path::Path;
use std::process::ExitCode;

use self::loops::{Places, setups, turn};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((trace, names)) = words.split_first() else {
        eprintln!("say which trace: closed_loop TRACE [SET-UP...]");
        return ExitCode::from(2);
    };
    match run(Path::new(trace), names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn run(trace: &Path, names: &[String]) -> Result<(), String> {
    let places = Places::of(trace)?;
    println!("{} instructions of {} cores", places.instructions, places.cores);
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    for setup in setups(&places).iter().filter(|setup| is_wanted(setup.name)) {
        let beside = trace.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let capture = tempfile::tempdir_in(beside).map_err(|error| error.to_string())?;
        let outcome = turn(trace, setup, &places, capture.path())?;
        let (encoding, decoding) = outcome.seconds;
        println!(
            "{:22} {:>12} the same, {:>11} bytes, {:>5} breaks, encoded in {encoding:.1} s, decoded and compared in \
             {decoding:.1} s",
            setup.name, outcome.same, outcome.bytes, outcome.breaks
        );
    }
    Ok(())
}
