//! Several traces as one source with all of their cores, as for threads that were recorded into a file each.
//!
//! steps of each trace ─▶ **side by side** ─▶ batches of steps of each trace in turn, with new core numbers
//!
//! The order between threads is unknown, so they take turns. Within a core, steps stay in order.

use std::ops::ControlFlow;

use unspool::model::{Coverage, Losses, Pull, SourceError, Step, StepSource, TimeUnit};

/// Steps per turn.
const TURN: usize = 1000;

/// Steps of several sources. Cores are numbered in order of appearance.
#[derive(Debug)]
pub(crate) struct SideBySide {
    sources: Vec<Pull>,
    coverage: Coverage,
    time_unit: TimeUnit,
    /// Source and its core, for each core.
    cores: Vec<(usize, u32)>,
}

impl SideBySide {
    /// The sources must have the same unit of time.
    pub(crate) fn new(sources: Vec<Box<dyn StepSource + Send>>) -> Result<Self, SourceError> {
        let error = |text: String| SourceError { text, is_damage: false };
        let time_unit = sources.first().map_or(TimeUnit::Unknown, StepSource::time_unit);
        if sources.iter().any(|source| source.time_unit() != time_unit) {
            return Err(error("the traces have different units of time".into()));
        }
        let coverage = sources.iter().map(StepSource::coverage).reduce(Coverage::and).unwrap_or_default();
        let pulls: Result<Vec<Pull>, _> = sources.into_iter().map(Pull::new).collect();
        let sources = pulls.map_err(|cause| error(cause.to_string()))?;
        Ok(Self { sources, coverage, time_unit, cores: Vec::new() })
    }

    /// Emits a batch of one source. False: it has no more steps.
    fn turn(
        &mut self,
        source: usize,
        push: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<ControlFlow<(), bool>, SourceError> {
        let mut renamed = Step::default();
        for _ in 0..TURN {
            let Some(step) = self.sources[source].next_step()? else { return Ok(ControlFlow::Continue(false)) };
            renamed.clone_from(step);
            renamed.core = core(&mut self.cores, (source, step.core));
            if push(&renamed).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(true))
    }
}

/// Number of a core of a source.
fn core(cores: &mut Vec<(usize, u32)>, of: (usize, u32)) -> u32 {
    let known = cores.iter().position(|core| *core == of);
    known.unwrap_or_else(|| {
        cores.push(of);
        cores.len() - 1
    }) as u32
}

impl StepSource for SideBySide {
    fn coverage(&self) -> Coverage {
        self.coverage
    }

    fn time_unit(&self) -> TimeUnit {
        self.time_unit
    }

    fn each(&mut self, push: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let mut left: Vec<usize> = (0..self.sources.len()).collect();
        while !left.is_empty() {
            for source in std::mem::take(&mut left) {
                match self.turn(source, push)? {
                    ControlFlow::Break(()) => return Ok(()),
                    ControlFlow::Continue(true) => left.push(source),
                    ControlFlow::Continue(false) => {}
                }
            }
        }
        Ok(())
    }

    fn losses(&self) -> Losses {
        let mut all = Losses::default();
        self.sources.iter().for_each(|source| all.add_all(source.losses()));
        all
    }
}
