//! Answers of the server: which request is answered where.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::differences::Differences;
use crate::job::{Job, locked};
use crate::parameters::Parameters;
use crate::source::Trace;
use crate::{
    Refusal, calls, differences, find, findings, marks, moves, packets, rows, source_file, state, times, tree,
};

/// What the server shows.
pub(crate) struct Shown {
    pub(crate) traces: Vec<Arc<Trace>>,
    pub(crate) differences: Job<Differences>,
}

impl Shown {
    /// Answers a request to the interface.
    pub(crate) fn answer(&self, name: &str, query: &str) -> Result<Value, Refusal> {
        let mut parameters = Parameters::parse(query)?;
        let answer = match name {
            "traces" => self.json(),
            "differences" => differences::answer(&self.differences, &mut parameters)?,
            _ => self.answer_of_source(name, &mut parameters)?,
        };
        parameters.finish()?;
        Ok(answer)
    }

    fn answer_of_source(&self, name: &str, parameters: &mut Parameters) -> Result<Value, Refusal> {
        const NAMES: [&str; 14] = [
            "progress",
            "instructions",
            "locate",
            "find",
            "step",
            "state",
            "stack",
            "calls",
            "marks",
            "times",
            "tree",
            "source",
            "packets",
            "findings",
        ];
        if !NAMES.contains(&name) {
            return Err(Refusal::absent("there is no such request"));
        }
        let number = parameters.number("t", 0..=usize::MAX)?;
        let trace = self.traces.get(number).ok_or_else(|| Refusal::absent(format!("there is no trace {number}")))?;
        let source = trace.source(parameters.number("s", 0..=usize::MAX)?)?;
        match name {
            "progress" => Ok(source.progress()),
            "instructions" => rows::answer(source, parameters),
            "locate" => find::locate(source, parameters),
            "find" => find::answer(source, parameters),
            "step" => moves::answer(source, parameters),
            "state" => state::answer(source, parameters),
            "stack" => {
                let at = parameters.instruction("at")?;
                let core = locked(&source.reader).row(at)?.map_or(0, |row| row.step.core);
                calls::answer_stack(source, core, at)
            }
            "calls" => calls::answer(source, parameters),
            "marks" => marks::answer(source, parameters),
            "times" => times::answer(source, parameters),
            "tree" => match source.calls.result() {
                Some(calls) => tree::answer(&calls, parameters),
                None => {
                    parameters.text("path");
                    Ok(json!({"nodes": [], "state": source.calls.json()["state"]}))
                }
            },
            "source" => source_file::answer(source, parameters),
            "packets" => packets::answer(trace, source, parameters),
            _ => Ok(findings::answer(source)),
        }
    }

    fn json(&self) -> Value {
        let traces: Vec<Value> = self.traces.iter().map(|trace| trace.json()).collect();
        json!({"version": 1, "unspool": env!("CARGO_PKG_VERSION"), "traces": traces})
    }
}
