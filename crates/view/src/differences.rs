//! Differences between two traces, which the page aligns by.

use std::ops::ControlFlow;

use serde_json::{Value, json};
use unspool::analyze::diff::{Differ, Ending, Finding, Options, Site, SkipReason};
use unspool::model::Pull;
use unspool::number::many;

use crate::Refusal;
use crate::job::Job;
use crate::parameters::Parameters;
use crate::source::Trace;

/// Differences that are kept.
const KEPT: usize = 10_000;

/// Result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    items: Vec<Value>,
    more: u64,
    is_equal: bool,
    why: Option<String>,
}

impl Differences {
    /// Compares the first sources of two traces.
    pub(crate) fn of(traces: [&Trace; 2]) -> Result<Self, String> {
        let pull = |trace: &Trace| {
            let all = trace.opened.seekable_steps().map_err(|error| error.to_string())?;
            let first = all.into_iter().next().ok_or("the trace has no source with instructions")?;
            let steps = first.open().map_err(|error| error.to_string())?;
            Pull::new(steps).map_err(|error| error.to_string())
        };
        let (mut found, options) = (Self::default(), Options { all: true, context: 0, ..Options::default() });
        let summary = Differ::new(options).run([pull(traces[0])?, pull(traces[1])?], &mut |finding| {
            found.add(finding);
            ControlFlow::Continue(())
        });
        let summary = summary.map_err(|error| error.to_string())?;
        found.end_at(summary.instructions);
        found.is_equal = summary.differences == 0 && summary.common > 0;
        found.why = (summary.ending == Ending::Diverged).then(|| "the traces stay different from there on".to_string());
        Ok(found)
    }

    /// Where a source has ended, the difference is after its last instruction.
    fn end_at(&mut self, instructions: [u64; 2]) {
        for item in &mut self.items {
            for (name, count) in ["a", "b"].into_iter().zip(instructions) {
                if item[name].is_null() {
                    item[name] = json!(count + 1);
                }
            }
        }
    }

    fn add(&mut self, finding: &Finding) {
        let number = |site: Option<&Site>| site.map(|site| site.number + 1);
        let (at, counts, text) = match finding {
            Finding::Skipped { reason, skipped, at } => {
                let text = format!("{}: {}", reason_text(*reason), apart_text(*skipped));
                ([number(at[0].as_ref()), number(at[1].as_ref())], *skipped, text)
            }
            Finding::Diverged { around, apart } => {
                let counts = apart.unwrap_or_default();
                let text = match apart {
                    Some(counts) => apart_text(*counts),
                    None => "different from here on".to_string(),
                };
                ([number(around.here[0].first()), number(around.here[1].first())], counts, text)
            }
            Finding::Differs { facet, name, values, around } => {
                let [first, second] = values;
                let text = format!("{} {name}: {first} and {second}", facet.name());
                ([number(around.here[0].first()), number(around.here[1].first())], [0, 0], text)
            }
        };
        if self.items.len() >= KEPT {
            self.more += 1;
            return;
        }
        let [a, b] = at;
        self.items.push(json!({"a": a, "a_count": counts[0], "b": b, "b_count": counts[1], "text": text}));
    }
}

fn apart_text([first, second]: [u64; 2]) -> String {
    let texts = [(first, "first"), (second, "second")].into_iter().filter(|(count, _)| *count > 0);
    let texts: Vec<String> =
        texts.map(|(count, which)| format!("{} only in the {which}", many(count, "instruction"))).collect();
    if texts.is_empty() { "nothing is left out".to_string() } else { texts.join(", ") }
}

/// Why instructions that only one trace has are no difference.
fn reason_text(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Start => "before the other one starts",
        SkipReason::End => "after the other one has ended",
        SkipReason::Gap(_) => "in a gap",
        SkipReason::Island => "between two gaps, too few to compare",
        SkipReason::Attempted => "attempted, and the other one has only the exception",
    }
}

/// Answers a request for the differences between a source of each trace.
pub(crate) fn answer(job: &Job<Differences>, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let mut source = |name| match parameters.has(name) {
        true => parameters.number(name, 0..=usize::MAX),
        false => Ok(0),
    };
    if [source("s0")?, source("s1")?] != [0, 0] {
        let why = "only the first sources of two traces are compared";
        return Ok(json!({"items": [], "more": 0, "equal": false, "state": "none", "why": why}));
    }
    let state = job.json();
    let Some(found) = job.result() else {
        return Ok(json!({"items": [], "more": 0, "equal": false, "state": state["state"], "why": state["why"]}));
    };
    Ok(json!({"items": found.items, "more": found.more, "equal": found.is_equal, "state": "done", "why": found.why}))
}
