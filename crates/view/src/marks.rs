//! What happens beside calls: exceptions, gaps, switches and notes, counted by the buckets of a window.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use unspool::CallMarks;
use unspool::analyze::marks::{Mark, MarkKind};

use crate::Refusal;
use crate::calls::SourceNumbers;
use crate::parameters::Parameters;
use crate::source::Source;

/// Limit of the marks that are kept.
const MAX_MARKS: usize = 1 << 22;
/// Limit of the texts that are kept.
const MAX_TEXTS: usize = 1 << 16;

/// Kinds, in the order of their numbers.
const KINDS: [&str; 6] = ["exception", "return", "gap", "context", "note", "finding"];
const FINDING: usize = 5;

/// The marks of a source, in its order.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: Vec<KeptMark>,
    texts: Vec<Arc<str>>,
    switches: Vec<Switch>,
    /// Further ones are not kept.
    left_out: u64,
}

#[derive(Debug)]
struct KeptMark {
    /// The instruction that it comes after.
    number: u64,
    kind: u8,
    text: u32,
}

/// A core executes another stack after an instruction.
#[derive(Debug)]
struct Switch {
    number: u64,
    core: u32,
    stack: usize,
}

impl Marks {
    /// Reads the marks of a source.
    pub(crate) fn of(marks: &mut CallMarks, numbers: &SourceNumbers) -> io::Result<Self> {
        let (mut all, mut known) = (Self::default(), HashMap::new());
        marks.each(|mark| {
            let number = match mark.at.number {
                0 => 0,
                number => numbers.of(mark.at.core, number),
            };
            if let (MarkKind::Switch, Some(stack)) = (mark.kind, mark.stack) {
                all.switches.push(Switch { number, core: mark.at.core, stack });
            }
            all.add(mark, number, &mut known);
            Ok(())
        })?;
        all.marks.sort_by_key(|mark| mark.number);
        all.switches.sort_by_key(|switch| switch.number);
        Ok(all)
    }

    fn add(&mut self, mark: &Mark, number: u64, known: &mut HashMap<Arc<str>, u32>) {
        if self.marks.len() >= MAX_MARKS {
            self.left_out += 1;
            return;
        }
        let kind = match mark.kind {
            MarkKind::Exception => 0,
            MarkKind::ExceptionReturn => 1,
            MarkKind::Gap => 2,
            MarkKind::Switch => 3,
            MarkKind::Note => 4,
        };
        let text: Arc<str> = mark.text.as_str().into();
        let text = known.get(&text).copied().unwrap_or_else(|| {
            let index = self.texts.len().min(MAX_TEXTS) as u32;
            if self.texts.len() < MAX_TEXTS {
                self.texts.push(Arc::clone(&text));
                known.insert(text, index);
            }
            index
        });
        self.marks.push(KeptMark { number, kind, text });
    }

    /// The stack that a core executes at an instruction, if that is known.
    pub(crate) fn stack_at(&self, core: u32, instruction: u64) -> Option<usize> {
        let end = self.switches.partition_point(|switch| switch.number < instruction);
        self.switches[..end].iter().rev().find(|switch| switch.core == core).map(|switch| switch.stack)
    }
}

/// Answers a request for the marks of a window.
pub(crate) fn answer(source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let (from, to) = (parameters.instruction("from")?, parameters.instruction("to")?);
    let buckets = parameters.number("buckets", 1..=4000_u64)?;
    let length = to.saturating_sub(from) + 1;
    // By bucket and kind: count, the first instruction, its text.
    let mut found: HashMap<(u64, usize), (u64, u64, String)> = HashMap::new();
    let mut add = |number: u64, kind: usize, text: &dyn Fn() -> String| {
        // The mark is at the instruction after it, or at the last one.
        let bucket = (u128::from(number - from) * u128::from(buckets) / u128::from(length)) as u64;
        let entry = found.entry((bucket.min(buckets - 1), kind)).or_insert_with(|| (0, number, text()));
        entry.0 += 1;
    };
    let mut left_out = 0;
    if let Some(calls) = source.calls.result() {
        let Marks { marks, texts, .. } = &calls.marks;
        left_out = calls.marks.left_out;
        let start = marks.partition_point(|mark| mark.number + 1 < from);
        for mark in marks[start..].iter().take_while(|mark| mark.number < to) {
            let text = || texts.get(mark.text as usize).map_or_else(String::new, ToString::to_string);
            add(mark.number + 1, usize::from(mark.kind), &text);
        }
    }
    if let Some(findings) = source.findings.result() {
        for (number, text) in findings.between(from, to) {
            add(number, FINDING, &|| text.to_string());
        }
    }
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by_key(|(place, _)| *place);
    let rows: Vec<Value> = rows
        .into_iter()
        .map(|((bucket, kind), (count, first, text))| json!([bucket, kind, count, first, text]))
        .collect();
    Ok(json!({"kinds": KINDS, "buckets": rows, "left_out": left_out}))
}
