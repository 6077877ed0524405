//! Speed of analyses beside that of reading the same trace:
//! `cargo run --release --features measure --example analysis_speed TOOL TRACE...`.
//!
//! TOOL is the command-line tool of the same build. For each trace, reading it (records of a file, ranges of a capture) and the
//! verbs run in turns; the row of each is the best of all rounds, in seconds of the clock and of the processor, and as a
//! multiple of the processor time of reading. Traces that `generate` made have both kinds of data.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use unspool::file::{FileOptions, TraceFile};
use unspool::model::{BlockSink, BlockTrace, Step};
use unspool::{FileKind, OpenSteps, open_steps};

/// Rounds, of which the best counts.
const ROUNDS: usize = 3;

/// Verbs of files, and of captures.
const OF_FILES: &[&[&str]] = &[&["info"], &["stats"], &["check"], &["dump"], &["coverage"], &["profile"]];
const OF_CAPTURES: &[&[&str]] = &[&["stats"], &["check"], &["coverage"], &["profile"], &["decode", "--emit", "ranges"]];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let tool = args.next().ok_or("usage: analysis_speed TOOL TRACE...")?;
    let traces: Vec<String> = args.collect();
    for trace in &traces {
        let instructions = count(trace)?;
        println!("{trace}: {instructions} instructions");
        let verbs = if is_capture(trace)? { OF_CAPTURES } else { OF_FILES };
        let mut rows: Vec<(String, Time)> = vec![("read".into(), Time::MAX)];
        rows.extend(verbs.iter().map(|verb| (verb.join(" "), Time::MAX)));
        rows.extend(traces.iter().map(|other| (format!("diff {other}"), Time::MAX)));
        for _ in 0..ROUNDS {
            rows[0].1.improve(measure(|| read(trace))?);
            for (verb, row) in verbs.iter().zip(&mut rows[1..]) {
                row.1.improve(measure(|| run(&tool, verb, &[trace]))?);
            }
            for (other, row) in traces.iter().zip(&mut rows[1 + verbs.len()..]) {
                row.1.improve(measure(|| run(&tool, &["diff"], &[trace, other]))?);
            }
        }
        let reading = rows[0].1;
        for (name, time) in rows {
            let rate = instructions as f64 / 1e6 / time.wall;
            let (wall, cpu, times) = (time.wall, time.cpu, time.cpu / reading.cpu);
            println!("  {name:<40} {wall:8.2} s {cpu:8.2} s cpu {times:8.2} × read {rate:8.1} M/s");
        }
    }
    Ok(())
}

/// Seconds by the clock and of the processor.
#[derive(Clone, Copy)]
struct Time {
    wall: f64,
    cpu: f64,
}

impl Time {
    const MAX: Self = Self { wall: f64::MAX, cpu: f64::MAX };

    fn improve(&mut self, other: Self) {
        *self = Self { wall: self.wall.min(other.wall), cpu: self.cpu.min(other.cpu) };
    }
}

fn measure(action: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Time, Box<dyn Error>> {
    let (start, before) = (Instant::now(), processor_seconds()?);
    action()?;
    Ok(Time { wall: start.elapsed().as_secs_f64(), cpu: processor_seconds()? - before })
}

/// Processor time of this process and its children; the kernel counts in hundredths of a second.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Fields are counted after the program name, which may contain anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    Ok(fields.skip(11).take(4).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

/// Runs a verb, whose verdict does not matter.
fn run(tool: &str, verb: &[&str], traces: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(tool);
    let status = command.args(verb).args(traces).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(format!("{tool} {}: {status}", verb.join(" ")).into()),
    }
}

fn is_capture(trace: &str) -> Result<bool, Box<dyn Error>> {
    Ok(FileKind::at(Path::new(trace))? == FileKind::Capture)
}

/// Reads every record or line of a file, or every range of a capture, and uses a part of it.
fn read(trace: &str) -> Result<(), Box<dyn Error>> {
    let mut sum = 0;
    if is_capture(trace)? {
        sum = count(trace)?;
    } else {
        match TraceFile::open(Path::new(trace), &FileOptions::default())? {
            TraceFile::Astf(mut file) => {
                file.each(&mut |_, _| {}, |_, records| {
                    records.iter().for_each(|record| sum ^= u64::from(record[0]) ^ u64::from(record[8]));
                    true
                })?;
            }
            TraceFile::Stf(mut file) => {
                file.each(&mut |_, _| {}, |_, record| {
                    sum ^= u64::from(record.descriptor());
                    true
                })?;
            }
            TraceFile::Tarmac(mut file) => {
                file.each(&mut |_, _| {}, |position, _| {
                    sum ^= position.line;
                    true
                })?;
            }
        }
    }
    std::hint::black_box(sum);
    Ok(())
}

/// Counts instructions, blocks at once where the trace has them.
fn count(trace: &str) -> Result<u64, Box<dyn Error>> {
    let mut counter = Counter(0);
    open_steps(Path::new(trace), &OpenSteps::default())?.follow(&mut counter)?;
    Ok(counter.0)
}

struct Counter(u64);

impl BlockSink for Counter {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.0 += u64::from(step.event.instruction().is_some());
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.0 += trace.instructions() as u64;
        ControlFlow::Continue(())
    }
}
