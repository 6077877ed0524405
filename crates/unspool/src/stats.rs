//! Statistics of the steps of a source.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::ControlFlow;

use unspool_analyze::stats::{Report, Stats};
use unspool_isa::Disassembler;
use unspool_model::{BlockSink, BlockTrace, SourceError, Step, StepSource, TimeUnit};

use crate::meter::{Meter, OnProgress};
use crate::{CaptureSteps, Parts};

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
    let mut counting = Counting { stats: step_statistics(), left: STRIDE, meter, progress };
    let ended = source.follow(&mut counting);
    Counted { report: counting.stats.finish(), unit: source.time_unit(), ended }
}

impl CaptureSteps {
    /// Counts all steps, on several threads.
    pub fn count(&mut self, parts: Parts) -> Counted {
        let (stats, ended) = match self.run_pass(parts, step_statistics) {
            Ok(stats) => (stats, Ok(())),
            Err(error) => (step_statistics(), Err(error)),
        };
        Counted { report: stats.finish(), unit: self.time_unit(), ended }
    }
}

thread_local! {
    /// It cannot be sent to another thread, as statistics can.
    static DISASSEMBLER: RefCell<Option<Disassembler>> = const { RefCell::new(None) };
}

/// Empty statistics, with the mnemonics of [`Disassembler`].
pub fn step_statistics() -> Stats<'static> {
    Stats::new(|isa, opcode| {
        DISASSEMBLER.with_borrow_mut(|disassembler| {
            let mnemonic = disassembler.get_or_insert_with(Disassembler::new).mnemonic(isa, opcode);
            mnemonic.map_or("unknown".to_string(), Cow::into_owned)
        })
    })
}

/// Counts, and reports progress.
struct Counting<'c, 'p> {
    stats: Stats<'static>,
    left: u64,
    meter: &'c Meter,
    progress: &'c mut OnProgress<'p>,
}

impl BlockSink for Counting<'_, '_> {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.stats.step(step);
        self.meter.tick(&mut self.left, STRIDE, self.progress);
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.meter.tick(&mut self.left, STRIDE, self.progress);
        self.stats.blocks(trace)
    }

    fn wants_accesses(&self) -> bool {
        self.stats.wants_accesses()
    }
}
