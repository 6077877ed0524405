//! Converts a trace to the format that the name of the output ends with: `convert TRACE OUT.stf`.

use std::error::Error;
use std::io::{Write, stdout};
use std::ops::ControlFlow;
use std::path::Path;

use unspool::convert::{FileSink, Format, SinkOptions, transfer};
use unspool::model::StepSink;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, from, to] = &args[..] else { return Err("usage: convert TRACE OUT".into()) };
    run(from, to, &mut stdout().lock())
}

pub(crate) fn run(from: &str, to: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let format = Format::from_path(Path::new(to)).ok_or("name the output .astf, .stf or .tarmac")?;
    let steps = unspool::open(from)?.open_steps()?;
    let options = SinkOptions::for_path(format, Path::new(to));
    let mut sink = FileSink::open(Path::new(to), steps.coverage(), steps.time_unit(), &options)?;
    let done = transfer(steps, None, &mut sink, |_, _| ControlFlow::Continue(()))?;
    for (loss, lost) in sink.losses().iter() {
        writeln!(out, "not in {}: {} ({})", format.name(), loss.name(), lost.count)?;
    }
    sink.keep()?;
    writeln!(out, "{} instructions", done.instructions)?;
    Ok(())
}
