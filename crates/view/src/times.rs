//! Times of instructions: exact in a short window, and those of calls in a long one.

use serde_json::{Value, json};

use crate::Refusal;
use crate::job::locked;
use crate::parameters::Parameters;
use crate::source::Source;

/// Limit of the buckets in an answer.
const MAX_BUCKETS: u64 = 4000;
/// Limit of the instructions that are read for an answer.
const MAX_READ: u64 = 1 << 14;
/// Limit of the times that are kept.
const MAX_TIMES: usize = 1 << 20;

/// Instructions with their times, in order.
#[derive(Debug)]
pub(crate) struct Times {
    times: Vec<(u64, u64)>,
    /// One of this number of them is kept.
    stride: u64,
    seen: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { times: Vec::new(), stride: 1, seen: 0 }
    }
}

impl Times {
    /// Adds an instruction.
    pub(crate) fn add(&mut self, number: u64, time: u64) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.stride) {
            return;
        }
        self.times.push((number, time));
        if self.times.len() > MAX_TIMES {
            self.stride *= 2;
            let mut index = 0_usize;
            self.times.retain(|_| {
                index += 1;
                index.is_multiple_of(2)
            });
        }
    }

    /// All instructions are added.
    pub(crate) fn sorted(mut self) -> Self {
        self.times.sort_unstable();
        self
    }

    /// The first time from one instruction up to another one.
    fn within(&self, from: u64, to: u64) -> Option<u64> {
        let first = self.times.partition_point(|(number, _)| *number < from);
        self.times.get(first).filter(|(number, _)| *number < to).map(|(_, time)| *time)
    }
}

/// Answers a request for the times of a window. In a long one, the time of a bucket is that of the first call in it that begins or
/// ends.
pub(crate) fn answer(source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let (from, to) = (parameters.instruction("from")?, parameters.instruction("to")?);
    let buckets = parameters.number("buckets", 1..=MAX_BUCKETS)?;
    let length = to.saturating_sub(from) + 1;
    let start = |bucket: u64| from + (u128::from(length) * u128::from(bucket) / u128::from(buckets)) as u64;
    let times: Vec<Option<u64>> = if length <= MAX_READ {
        let mut reader = locked(&source.reader);
        let time = |bucket| Ok(reader.row(start(bucket))?.and_then(|row| row.step.time));
        (0..buckets).map(time).collect::<Result<_, Refusal>>()?
    } else {
        let Some(calls) = source.calls.result() else { return Ok(json!({"times": []})) };
        (0..buckets).map(|bucket| calls.times.within(start(bucket), start(bucket + 1))).collect()
    };
    let times: Vec<Option<String>> = times.into_iter().map(|time| time.map(|time| time.to_string())).collect();
    Ok(json!({"times": times}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_thinned_and_found() {
        let mut times = Times::default();
        let count = 3 * MAX_TIMES as u64;
        (1..=count).for_each(|number| times.add(number, 10 * number));
        let times = times.sorted();
        assert!(times.times.len() <= MAX_TIMES);
        for from in [1, 1000, count - 8] {
            let found = times.within(from, from + 8).unwrap();
            assert!((from * 10..(from + 8) * 10).contains(&found), "{found}");
        }
        assert_eq!(times.within(count + 1, u64::MAX), None);
    }
}
