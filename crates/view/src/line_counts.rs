//! How often each source line was executed.
//!
//! blocks ─▶ executions by address ─▶ coverage of the images ─▶ **counts by file and line**

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use unspool::analyze::address_counts::AddressCounter;
use unspool::coverage::{ExecutedImages, Report};
use unspool::lines::Lines;
use unspool::model::StepSource as _;
use unspool::{Parts, SeekableSteps};

/// Counts by file and line; 0 for a line whose code was not executed.
#[derive(Debug, Default)]
pub(crate) struct LineCounts(BTreeMap<Arc<str>, BTreeMap<u32, u64>>);

impl LineCounts {
    /// Counts the executions of a source. Of a damaged one, those before the damage.
    pub(crate) fn of(steps: &SeekableSteps, lines: &Lines) -> Result<Self, String> {
        let counter = match steps.capture_steps().map_err(|error| error.to_string())? {
            Some(mut capture) => {
                capture.run_pass(Parts::on(1), AddressCounter::default).map_err(|error| error.to_string())?
            }
            None => {
                let mut counter = AddressCounter::default();
                match steps.open().map_err(|error| error.to_string())?.follow(&mut counter) {
                    Err(error) if !error.is_damage => return Err(error.to_string()),
                    _ => counter,
                }
            }
        };
        let mut executed = ExecutedImages::default();
        executed.add(&counter.finish(), &steps.program);
        let counts = |lines: BTreeMap<u32, unspool::coverage::LineCoverage>| {
            lines.into_iter().map(|(line, found)| (line, found.count)).collect()
        };
        let files = Report::new(&executed, lines).files;
        Ok(Self(files.into_iter().map(|(file, lines)| (file, counts(lines))).collect()))
    }

    /// The counts of a file.
    pub(crate) fn json(&self, file: &str) -> Value {
        let lines = self.0.get(file).into_iter().flatten();
        Value::Object(lines.map(|(line, count)| (line.to_string(), json!(count))).collect::<Map<_, _>>())
    }
}
