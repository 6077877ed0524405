//! Statistics of the steps of a source.

use std::borrow::Cow;
use std::ops::ControlFlow;

use unspool_analyze::stats::{Report, Stats};
use unspool_isa::Disassembler;
use unspool_model::{SourceError, StepSource, TimeUnit};

use crate::meter::{Meter, OnProgress};

/// Steps between two reports of progress.
const STRIDE: u64 = 1 << 16;

/// Statistics of the steps of a source.
#[derive(Debug)]
pub struct Counted {
    /// Statistics.
    pub report: Report,
    /// Unit of times.
    pub unit: TimeUnit,
    /// How reading ended.
    pub ended: Result<(), SourceError>,
}

/// Counts all steps of a source.
pub fn count_steps(source: &mut dyn StepSource, meter: &Meter, progress: &mut OnProgress<'_>) -> Counted {
    let mut disassembler = None;
    let mut stats = Stats::new(move |isa, opcode| {
        let mnemonic = disassembler.get_or_insert_with(Disassembler::new).mnemonic(isa, opcode);
        mnemonic.map_or("unknown".to_string(), Cow::into_owned)
    });
    let mut left = STRIDE;
    let ended = source.each(&mut |step| {
        stats.step(step);
        meter.tick(&mut left, STRIDE, progress);
        ControlFlow::Continue(())
    });
    Counted { report: stats.finish(), unit: source.time_unit(), ended }
}
