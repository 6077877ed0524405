//! Benchmark of reading a Tarmac log: `cargo run --release --features measure --example tarmac_speed FILE [WORD]`. With a word, only the
//! rows whose name contains it. `tarmac_log` generates large logs.
//!
//! The log is in memory, so that the disk is not measured.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Instant;

use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::read::{ReadOptions, Reader, lines};
use unspool_tarmac::record::Record;

/// Number of runs of each row; the best counts.
const TIMES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let log = std::fs::read(path)?;
    println!("{} bytes", log.len());
    best("lines", &log, || Ok(lines(&log).count() as u64))?;
    best("parse", &log, || {
        let mut parser = Parser::new(ParseOptions::default());
        Ok(lines(&log).map(|(_, raw)| weight(&parser.parse(raw).record)).sum())
    })?;
    best("read", &log, || {
        let mut sum = 0;
        Reader::new(&log[..], ReadOptions::default())?.each(|_, line| {
            sum += weight(&line.record);
            ControlFlow::Continue(())
        })?;
        Ok(sum)
    })?;
    best("copy", &log, || {
        let mut sum = 0;
        Reader::new(&log[..], ReadOptions::default())?.each_run(|_, run| {
            sum += run.len() as u64;
            ControlFlow::Continue(())
        })?;
        Ok(sum)
    })?;
    Ok(())
}

/// A number from each record, so that parsing is not optimized away.
fn weight(record: &Record<'_>) -> u64 {
    match record {
        Record::Instruction(instruction) => instruction.address.unwrap_or(0),
        Record::Register(register) => register.value.0.len() as u64,
        Record::Access(access) => access.address.unwrap_or(0),
        Record::Picture(picture) => picture.address,
        Record::Unknown(_) => 1 << 60,
        _ => 1,
    }
}

/// Prints the best of several runs.
fn best(name: &str, log: &[u8], mut run: impl FnMut() -> Result<u64, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(2).is_some_and(|word| !name.contains(&word)) {
        return Ok(());
    }
    let (mut best, mut result) = (f64::MAX, 0);
    for _ in 0..TIMES {
        let start = Instant::now();
        result = std::hint::black_box(run()?);
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name:>10} {:7.3} GB/s   ({result:x})", log.len() as f64 / best / 1e9);
    Ok(())
}
