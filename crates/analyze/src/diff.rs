//! Differences between two sources of one run.
//!
//! steps of A ─▶ instructions ─┐
//!                             ├─▶ **differ** ─▶ findings, a summary
//! steps of B ─▶ instructions ─┘
//!
//! Instructions are paired by address, and the facets that both sources can report are compared. Facets of only one
//! source are not differences, and neither are different starts, different ends and gaps: those are skipped and
//! reported. Times are never compared. Memory use is bounded by the window in which the sources are realigned.
//!
//! ```
//! use std::ops::ControlFlow;
//! use unspool_analyze::diff::{Differ, Finding, Options};
//! use unspool_model::{Coverage, Event, Facet, Instruction, Pull, SourceError, Step, StepSource};
//!
//! struct Run(Vec<u64>);
//! impl StepSource for Run {
//!     fn coverage(&self) -> Coverage {
//!         Coverage::of(&[Facet::Instructions])
//!     }
//!     fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
//!         let mut step = Step::default();
//!         for address in &self.0 {
//!             step.event = Event::Instruction(Instruction { address: *address, ..Instruction::default() });
//!             let _ = take(&step);
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let [a, b] = [Pull::new(Run(vec![0, 4, 8, 12]))?, Pull::new(Run(vec![0, 4, 12]))?];
//! let mut findings = Vec::new();
//! let summary = Differ::new(Options::default()).run([a, b], &mut |finding| {
//!     findings.push(finding.clone());
//!     ControlFlow::Continue(())
//! })?;
//! assert!(matches!(&findings[..], [Finding::Diverged { apart: Some([1, 0]), .. }]));
//! assert!(!summary.is_clean());
//! # Ok(())
//! # }
//! ```

mod align;
mod compare;
pub mod json;
mod run;
mod side;

use std::ops::ControlFlow;

use unspool_model::{Context, Coverage, Exception, Facet, Instruction, Losses, Pull, SourceError, Step};

/// Options of a comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// The core of each source.
    pub cores: [u32; 2],
    /// Continue after the first difference.
    pub all: bool,
    /// Maximum number of differences to report; further ones are only counted.
    pub limit: u64,
    /// Number of instructions to show before and after a difference.
    pub context: usize,
    /// Facets to compare, if both sources report them.
    pub facets: Coverage,
    /// Minimum number of equal consecutive instructions for the sources to be realigned.
    pub min_match: usize,
    /// Number of instructions ahead in which to search for a realignment.
    pub window: usize,
    /// Different starts and ends are differences.
    pub strict: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cores: [0; 2],
            all: false,
            limit: u64::MAX,
            context: 5,
            facets: comparable(),
            min_match: 8,
            window: 1 << 18,
            strict: false,
        }
    }
}

/// All facets that can be compared: all but times, since two clocks never agree.
pub fn comparable() -> Coverage {
    let facets: Vec<Facet> = Facet::ALL.into_iter().filter(|facet| *facet != Facet::Times).collect();
    Coverage::of(&facets)
}

/// An instruction of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// Number of instructions of its core before it.
    pub number: u64,
    /// Position in the source, in its own unit.
    pub position: u64,
    /// The instruction.
    pub instruction: Instruction,
}

/// Instructions around a difference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Around {
    /// The last common instructions, the oldest first.
    pub before: Vec<[Site; 2]>,
    /// The next instructions of each source, from the difference on.
    pub here: [Vec<Site>; 2],
}

/// Reason why instructions are skipped without being a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// One source starts earlier.
    Start,
    /// One source ends later.
    End,
    /// A gap in these sources.
    Gap([bool; 2]),
    /// Too few instructions between two gaps to align them.
    Island,
    /// An attempted instruction that raised an exception; the other source reports only the exception.
    Attempted,
}

/// A result of the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Instructions were skipped.
    Skipped {
        /// The reason.
        reason: SkipReason,
        /// Number of skipped instructions of each source.
        skipped: [u64; 2],
        /// The first skipped instruction, or the next one if none was skipped; `None` if the source has ended.
        at: [Option<Site>; 2],
    },
    /// The sources have different instructions.
    Diverged {
        /// The instructions around it.
        around: Around,
        /// Number of instructions of each source until they are realigned; `None` if not within the window.
        apart: Option<[u64; 2]>,
    },
    /// Both sources have the instruction, but its values differ.
    Differs {
        /// The facet.
        facet: Facet,
        /// The register or address; empty if the facet has a single value.
        name: String,
        /// The value of each source.
        values: [String; 2],
        /// The instructions around it.
        around: Around,
    },
}

/// An instruction that both sources have, as the second one reports it.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'p> {
    /// Number of instructions of its core before it in the first source.
    pub number: u64,
    /// The step of the second source.
    pub step: &'p Step,
    /// The context in which it is executed, as far as the second source reported it.
    pub context: &'p Context,
    /// Exceptions since the previous instruction, in the second source.
    pub exceptions: &'p [Exception],
}

type PairSink<'t> = dyn FnMut(&Pair<'_>) -> ControlFlow<()> + 't;

type FindingSink<'t> = dyn FnMut(&Finding) -> ControlFlow<()> + 't;

/// Comparison counts of a facet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Values that both sources reported.
    pub compared: u64,
    /// Values that differ.
    pub different: u64,
    /// Values that only this source reported, though both could.
    pub only: [u64; 2],
}

impl Tally {
    /// Number of equal values.
    pub fn equal(&self) -> u64 {
        self.compared - self.different
    }
}

/// Reason why the comparison ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ending {
    /// A source has no more instructions.
    #[default]
    Complete,
    /// A difference was found and one was enough, or the caller stopped it.
    Stopped,
    /// The sources could not be realigned within the window.
    Diverged,
}

/// Summary of a comparison.
#[derive(Debug, Default)]
pub struct Summary {
    /// Compared facets: those that both sources can report and that were requested.
    pub facets: Coverage,
    /// Facets that each source can report.
    pub coverage: [Coverage; 2],
    /// Compared instructions of each source.
    pub instructions: [u64; 2],
    /// Instructions that both sources have.
    pub common: u64,
    /// Common instructions of which only the code was compared: in a loop, with the iteration unknown.
    pub in_loops: u64,
    /// Instructions of each source before the other one starts.
    pub before: [u64; 2],
    /// Instructions of each source after the other one has ended.
    pub after: [u64; 2],
    /// Number of gaps of each source.
    pub gaps: [u64; 2],
    /// Instructions of each source in gaps of the other one.
    pub in_gaps: [u64; 2],
    /// Instructions of each source between gaps, too few to align.
    pub islands: [u64; 2],
    /// Attempted instructions of each source for which the other one reports only the exception.
    pub attempted: [u64; 2],
    /// Steps of each source that belong to other cores.
    pub other_cores: [u64; 2],
    /// Number of differences.
    pub differences: u64,
    /// Reason why it ended.
    pub ending: Ending,
    /// Data of each source that its steps do not carry, if it was read to its end.
    pub not_in_steps: [Losses; 2],
    /// Damage that ended each source.
    pub damage: [Option<SourceError>; 2],
    tallies: [Tally; Facet::ALL.len()],
}

impl Summary {
    /// Comparison counts of a facet.
    pub fn tally(&self, facet: Facet) -> Tally {
        self.tallies[facet as usize]
    }

    /// Whether something was compared and nothing is different or damaged.
    pub fn is_clean(&self) -> bool {
        self.differences == 0 && self.common > 0 && self.damage.iter().all(Option::is_none)
    }
}

/// A source that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Error {
    /// Index of the source.
    pub source_index: usize,
    /// Its error.
    pub error: SourceError,
}

/// Comparison of two sources.
#[derive(Debug, Clone, Default)]
pub struct Differ {
    options: Options,
}

impl Differ {
    /// A comparison with these options.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Passes the findings, in the order of the sources, to `report` until it breaks; returns the summary.
    pub fn run(&self, sources: [Pull; 2], report: &mut FindingSink<'_>) -> Result<Summary, Error> {
        run::Run::new(&self.options, sources, report, None).run()
    }

    /// Passes the instructions that both sources have, in order, to `paired` until it breaks. Instructions that may
    /// belong to another iteration of a loop, and those whose opcodes differ, are not included.
    pub fn pairs(&self, sources: [Pull; 2], paired: &mut PairSink<'_>) -> Result<Summary, Error> {
        let options =
            Options { all: true, facets: Coverage::of(&[Facet::Opcodes]), context: 0, ..self.options.clone() };
        run::Run::new(&options, sources, &mut |_| ControlFlow::Continue(()), Some(paired)).run()
    }
}
