//! Speed of converting a trace, compared with reading it alone and writing the result alone:
//! `cargo run --release --features measure --example convert_speed TRACE...`.
//!
//! Writes to a file in the temporary directory. To write alone, the first steps are kept in memory.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use unspool::convert::{ConversionPlan, FileSink, Format, Origin, SinkOptions, plan, transfer};
use unspool::model::{Step, StepSink, StepSource};
use unspool::{FileKind, OpenSteps, OpenedSteps, open_steps};

/// Steps that are kept.
const KEPT: usize = 300_000;

/// Runs, of which the best counts.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let path = Path::new(&path);
        let from = match FileKind::at(path)? {
            FileKind::Astf => Origin::Astf,
            FileKind::Stf => Origin::StfArm,
            FileKind::Tarmac => Origin::Tarmac,
            _ => Origin::Capture,
        };
        for to in Format::ALL.into_iter().filter(|to| matches!(plan(from, *to), ConversionPlan::Steps { .. })) {
            measure(path, from, to)?;
        }
    }
    Ok(())
}

fn measure(path: &Path, from: Origin, to: Format) -> Result<(), Box<dyn Error>> {
    let (kept, options) = (keep(path)?, SinkOptions::for_path(to, Path::new("")));
    // A sink that is not kept removes its temporary file beside this one.
    let out = std::env::temp_dir().join(format!("unspool-convert-speed-{}", std::process::id()));
    let (mut read, mut written, mut whole) = (f64::MAX, f64::MAX, f64::MAX);
    let mut all = 0;
    for _ in 0..RUNS {
        let start = Instant::now();
        let mut instructions = 0;
        open(path)?.each(&mut |step| {
            instructions += u64::from(step.event.instruction().is_some());
            ControlFlow::Continue(())
        })?;
        read = read.min(start.elapsed().as_secs_f64() / instructions as f64);

        let source = open(path)?;
        let (coverage, unit) = (source.coverage(), source.time_unit());
        let start = Instant::now();
        let mut sink = FileSink::open(&out, coverage, unit, &options)?;
        let mut instructions = 0;
        for step in &kept {
            instructions += u64::from(step.event.instruction().is_some());
            sink.push(step)?;
        }
        sink.finish()?;
        drop(sink);
        written = written.min(start.elapsed().as_secs_f64() / instructions as f64);

        let start = Instant::now();
        let mut sink = FileSink::open(&out, coverage, unit, &options)?;
        let done = transfer(source, None, &mut sink, |_, _| ControlFlow::Continue(()))?;
        if let Some(damage) = done.damage {
            return Err(damage.into());
        }
        drop(sink);
        whole = whole.min(start.elapsed().as_secs_f64() / done.instructions as f64);
        all = done.instructions;
    }
    let rate = |seconds: f64| 1e-6 / seconds;
    println!(
        "{} to {}: {all} instructions; millions per second: read alone {:.1}, written alone {:.1}, converted {:.1} ({:.0} % of the slower)",
        from.name(),
        to.name(),
        rate(read),
        rate(written),
        rate(whole),
        100.0 * read.max(written) / whole,
    );
    Ok(())
}

fn open(path: &Path) -> Result<OpenedSteps, unspool::Error> {
    open_steps(path, &OpenSteps::default())
}

/// First steps of a trace.
fn keep(path: &Path) -> Result<Vec<Step>, Box<dyn Error>> {
    let mut kept = Vec::with_capacity(KEPT);
    open(path)?.each(&mut |step| {
        kept.push(step.clone());
        if kept.len() < KEPT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(kept)
}
