//! How fast a trace becomes another one, beside how fast it is read alone and how fast the other one is written alone:
//! `cargo run --release --example convert_speed TRACE...`.
//!
//! What is written goes into a file in the temporary directory. To write alone, the first steps are kept in memory.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use unspool::container::{CompressOptions, CompressedWriter, Container};
use unspool::convert::{ConversionPlan, Format, Origin, plan, transfer};
use unspool::model::{Coverage, Step, StepSink, StepSource, TimeUnit};
use unspool::tarmac::write::Style;
use unspool::{FileKind, OpenSteps, OpenedSteps, open_steps};
use unspool::{astf, stf, tarmac};

/// Steps that are kept.
const KEPT: usize = 300_000;

/// Best of so many.
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
    let kept = keep(path)?;
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

        let (source, out) = (open(path)?, File::create(out())?);
        let (coverage, unit) = (source.coverage(), source.time_unit());
        let start = Instant::now();
        let mut sink = sink(out, to, coverage, unit)?;
        let mut instructions = 0;
        for step in &kept {
            instructions += u64::from(step.event.instruction().is_some());
            sink.push(step)?;
        }
        sink.finish()?;
        drop(sink);
        written = written.min(start.elapsed().as_secs_f64() / instructions as f64);

        let out = File::create(self::out())?;
        let start = Instant::now();
        let mut sink = self::sink(out, to, coverage, unit)?;
        let done = transfer(source, None, &mut *sink, |_, _| ControlFlow::Continue(()))?;
        if let Some(damage) = done.damage {
            return Err(damage.into());
        }
        drop(sink);
        whole = whole.min(start.elapsed().as_secs_f64() / done.instructions as f64);
        all = done.instructions;
    }
    std::fs::remove_file(out())?;
    let rate = |seconds: f64| 1e-6 / seconds;
    println!(
        "{} to {}: {all} instructions; million a second: read alone {:.1}, written alone {:.1}, converted {:.1} ({:.0} % of the slower)",
        from.name(),
        to.name(),
        rate(read),
        rate(written),
        rate(whole),
        100.0 * read.max(written) / whole,
    );
    Ok(())
}

fn out() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("unspool-convert-speed-{}", std::process::id()))
}

fn open(path: &Path) -> Result<OpenedSteps, unspool::Error> {
    open_steps(path, &OpenSteps::default())
}

/// The first steps, and those up to the end of an instruction.
fn keep(path: &Path) -> Result<Vec<Step>, Box<dyn Error>> {
    let mut kept = Vec::with_capacity(KEPT);
    open(path)?.each(&mut |step| {
        kept.push(step.clone());
        if kept.len() < KEPT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(kept)
}

fn sink(out: File, to: Format, coverage: Coverage, unit: TimeUnit) -> Result<Box<dyn StepSink>, Box<dyn Error>> {
    Ok(match to {
        Format::Astf => {
            let options = astf::lower::LowerOptions::default();
            let header = astf::lower::header(coverage, unit, &options)?;
            let writer = astf::write::Writer::new(out, &header, astf::write::WriteOptions::default())?;
            Box::new(astf::lower::Lowerer::new(writer, &header, coverage, unit, &options)?)
        }
        Format::Stf => {
            let writer = stf::write::Writer::new(out, Container::Plain, stf::write::WriteOptions::default())?;
            Box::new(stf::lower::Lowerer::new(writer, coverage, unit, &stf::lower::LowerOptions::default())?)
        }
        Format::Tarmac => {
            let options = tarmac::lower::LowerOptions { style: Style::Rev3, disassemble: true };
            let writer = CompressedWriter::new(out, Container::Plain, CompressOptions::default())?;
            Box::new(tarmac::lower::Lowerer::new(writer, coverage, unit, &options)?)
        }
    })
}
