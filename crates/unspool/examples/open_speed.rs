//! Speed of the iterators of `unspool::open` beside the sinks: `cargo run --release --features measure --example open_speed TRACE`.
//!
//! Reports the best of several runs, in million instructions (packets) per second.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Instant;

use unspool::coresight::Transactions;
use unspool::flow::{FlowItem, FlowSink, Run};
use unspool::{Opened, Program, Trace, Watch};

/// Runs of each row.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: open_speed TRACE")?;
    let trace = unspool::open(path)?;
    measure("steps, closure", || {
        let mut count = 0;
        trace.each_step(|step| {
            count += u64::from(step.event.instruction().is_some());
            ControlFlow::Continue(())
        })?;
        Ok(count)
    })?;
    measure("steps, iterator", || {
        Ok(trace.steps()?.flatten().filter(|step| step.event.instruction().is_some()).count() as u64)
    })?;
    measure("instructions, iterator", || Ok(trace.instructions()?.flatten().count() as u64))?;
    if trace.capture().is_some() {
        measure("ranges, sink", || ranges(&trace))?;
        measure("packets, sink", || packets(&trace))?;
        measure("packets, iterator", || Ok(trace.packets()?.flatten().count() as u64))?;
    }
    measure("blocks, iterator", || Ok(trace.blocks()?.flatten().map(|block| u64::from(block.instructions)).sum()))
}

fn measure(name: &str, mut run: impl FnMut() -> Result<u64, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let (mut best, mut count) = (f64::MAX, 0);
    for _ in 0..RUNS {
        let start = Instant::now();
        count = run()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name}: {count} in {best:.3} s, {:.1} million per second", count as f64 / best / 1e6);
    Ok(())
}

/// Instructions of all ranges.
struct Count(u64);

impl FlowSink for Count {
    fn run(&mut self, run: Run<'_>) {
        run.ranges().for_each(|range| self.0 += u64::from(range.instructions()));
    }

    fn item(&mut self, _item: FlowItem) {}
}

impl Watch for Count {}

fn ranges(trace: &Opened) -> Result<u64, Box<dyn Error>> {
    let mut count = Count(0);
    for source in trace.capture().iter().flat_map(|capture| Trace::all(capture)) {
        let program = trace.capture().map(|capture| Program::of(capture, source.source().core, &[]).0);
        source.flow(Transactions::Show, &program.unwrap_or_default(), &mut count)?;
    }
    Ok(count.0)
}

fn packets(trace: &Opened) -> Result<u64, Box<dyn Error>> {
    let mut count = 0;
    for source in trace.capture().iter().flat_map(|capture| Trace::all(capture)) {
        source.packets(&mut (|_| count += 1, ()))?;
    }
    Ok(count)
}
