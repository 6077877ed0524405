//! Several traces as one: each has cores of its own, as threads have that were recorded into a file each.
//!
//! steps of each trace ─▶ **side by side** ─▶ some steps of the first, some of the second, … with other numbers of cores
//!
//! Nobody knows which of two threads was first, so they take turns. Within a core, steps stay in order.

use std::ops::ControlFlow;

use unspool::model::{Coverage, Losses, Pull, SourceError, Step, StepSource, TimeUnit};

/// Steps of a turn.
const TURN: usize = 1000;

/// Hands out the steps of several sources. Cores are counted in the order in which they are met.
#[derive(Debug)]
pub(crate) struct SideBySide {
    sources: Vec<Pull>,
    coverage: Coverage,
    time_unit: TimeUnit,
    /// Which source and which core of it, for each core.
    cores: Vec<(usize, u32)>,
}

impl SideBySide {
    /// Several sources, which have to count their times in the same unit.
    pub(crate) fn new(sources: Vec<Box<dyn StepSource + Send>>) -> Result<Self, SourceError> {
        let refuse = |text: String| SourceError { text, is_damage: false };
        let time_unit = sources.first().map_or(TimeUnit::Unknown, StepSource::time_unit);
        if sources.iter().any(|source| source.time_unit() != time_unit) {
            return Err(refuse("the traces count their times in different units".into()));
        }
        let coverage = sources.iter().map(StepSource::coverage).reduce(Coverage::and).unwrap_or_default();
        let pulls: Result<Vec<Pull>, _> = sources.into_iter().map(Pull::new).collect();
        let sources = pulls.map_err(|error| refuse(error.to_string()))?;
        Ok(Self { sources, coverage, time_unit, cores: Vec::new() })
    }

    /// A turn of one source. False: it has no more steps.
    fn turn(
        &mut self,
        source: usize,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<ControlFlow<(), bool>, SourceError> {
        let mut renamed = Step::default();
        for _ in 0..TURN {
            let Some(step) = self.sources[source].next_step()? else { return Ok(ControlFlow::Continue(false)) };
            renamed.clone_from(step);
            renamed.core = core(&mut self.cores, (source, step.core));
            if take(&renamed).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(true))
    }
}

/// The number of a core of a source.
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

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let mut left: Vec<usize> = (0..self.sources.len()).collect();
        while !left.is_empty() {
            for source in std::mem::take(&mut left) {
                match self.turn(source, take)? {
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
