//! The counter of instructions per cycle, of a source with timestamps and cycle counts.

use std::io;
use std::ops::Range;

use unspool::{CaptureSteps, CountedCycles, Meter};

use super::Writer;
use super::tracks::{Tracks, VALUES};

/// Adds the counter of a core, at these times.
pub(super) fn write(
    steps: &CaptureSteps,
    times: &Range<u64>,
    core: u32,
    tracks: &mut Tracks<'_>,
    writer: &mut Writer<'_>,
) -> anyhow::Result<()> {
    let (mut values, mut written) = (Values::new(times), Ok(()));
    let mut counter = None;
    let mut write = |sum: CountedCycles| -> io::Result<()> {
        let counter = match counter {
            Some(counter) => counter,
            None => {
                let above = tracks.of_core(core, writer)?;
                *counter.insert(writer.counter("IPC", "instructions/cycle", Some(above))?)
            }
        };
        writer.value(counter, sum.from, sum.instructions as f64 / sum.cycles as f64)
    };
    let mut take = |counted: CountedCycles| {
        let ready = values.add(&counted);
        if let (Some(sum), true) = (ready, written.is_ok()) {
            written = write(sum);
        }
    };
    steps.counted_cycles(&Meter::default(), &mut take)?;
    let rest = values.sum.take();
    if let (Some(sum), true) = (rest, written.is_ok()) {
        written = write(sum);
    }
    Ok(written?)
}

/// Sums of what was counted, each over some time.
struct Values<'t> {
    times: &'t Range<u64>,
    /// Minimum time of a sum.
    distance: u64,
    sum: Option<CountedCycles>,
}

impl<'t> Values<'t> {
    fn new(times: &'t Range<u64>) -> Self {
        Self { times, distance: (times.end.saturating_sub(times.start) / VALUES).max(1), sum: None }
    }

    /// The sum that is complete. What does not continue the sum ends it: there was a gap.
    fn add(&mut self, counted: &CountedCycles) -> Option<CountedCycles> {
        if !self.times.contains(&counted.from) {
            return None;
        }
        let ready = match &mut self.sum {
            Some(sum) if sum.to == counted.from && sum.to - sum.from < self.distance => {
                sum.to = counted.to;
                sum.instructions = sum.instructions.saturating_add(counted.instructions);
                sum.cycles = sum.cycles.saturating_add(counted.cycles);
                return None;
            }
            other => other.take(),
        };
        self.sum = Some(*counted);
        ready
    }
}
