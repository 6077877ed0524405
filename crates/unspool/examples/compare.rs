//! Compares two traces of the same run, whatever their formats: `compare TRACE TRACE`.

use std::error::Error;
use std::io::{Write, stdout};
use std::ops::ControlFlow;

use unspool::analyze::diff::{Differ, Options};
use unspool::model::Pull;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, a, b] = &args[..] else { return Err("usage: compare TRACE TRACE".into()) };
    run(a, b, &mut stdout().lock())
}

pub(crate) fn run(a: &str, b: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let [a, b] = [unspool::open(a)?.open_steps()?, unspool::open(b)?.open_steps()?];
    let mut findings = 0;
    let summary = Differ::new(Options::default()).run([Pull::new(a)?, Pull::new(b)?], &mut |_finding| {
        findings += 1;
        ControlFlow::Continue(())
    })?;
    let verdict = if summary.is_clean() { "no difference" } else { "different" };
    writeln!(out, "{verdict}, {findings} findings, {} instructions in common", summary.common)?;
    Ok(())
}
