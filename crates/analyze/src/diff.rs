//! What two sources tell differently of one run.
//!
//! steps of A ─▶ instructions ─┐
//!                             ├─▶ **differ** ─▶ findings, a summary
//! steps of B ─▶ instructions ─┘
//!
//! Instructions are paired by where they are, and what both sources can tell of a pair is compared, facet by facet. What
//! only one of them can tell is no difference, and neither are other starts, other ends and gaps: they are passed over,
//! and told. Times are never compared. Memory is bounded by the window in which the sources are looked for in each other.
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

/// How to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which core of each source.
    pub cores: [u32; 2],
    /// Go on behind the first difference.
    pub all: bool,
    /// This many differences are told; the others are only counted.
    pub limit: u64,
    /// This many instructions are shown before and behind a difference.
    pub context: usize,
    /// What is compared, if both tell it.
    pub facets: Coverage,
    /// Instructions in a row that have to be equal, for the sources to be together again.
    pub row: usize,
    /// How many instructions ahead they are looked for.
    pub window: usize,
    /// Other starts and ends are differences.
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
            row: 8,
            window: 1 << 18,
            strict: false,
        }
    }
}

/// All that can be compared: two clocks are never the same.
pub fn comparable() -> Coverage {
    let facets: Vec<Facet> = Facet::ALL.into_iter().filter(|facet| *facet != Facet::Times).collect();
    Coverage::of(&facets)
}

/// An instruction of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// How many instructions of its core came before it.
    pub number: u64,
    /// Where the source says so, as it counts.
    pub place: u64,
    /// The instruction.
    pub instruction: Instruction,
}

/// What is around a difference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Around {
    /// The last instructions that both had, the oldest first.
    pub before: Vec<[Site; 2]>,
    /// The next ones of each, from the difference on.
    pub here: [Vec<Site>; 2],
}

/// Why instructions are passed over without being a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// One source starts earlier.
    Start,
    /// One source goes on longer.
    End,
    /// There is a gap in these sources.
    Gap([bool; 2]),
    /// There are gaps before and behind, and too few instructions between them to tell where they belong.
    Island,
    /// It was tried, and an exception came of it; the other source tells of the exception only.
    Tried,
}

/// What was found, as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Instructions of one source were passed over.
    Passed {
        /// The reason.
        why: Why,
        /// How many of each.
        passed: [u64; 2],
        /// The first of them, or the next instruction where none was; `None`: the source has ended.
        at: [Option<Site>; 2],
    },
    /// Here the sources have other instructions.
    Diverged {
        /// What is around it.
        around: Around,
        /// How many instructions of each, until they are together again. `None`: not within the window.
        apart: Option<[u64; 2]>,
    },
    /// Both have the instruction, and tell different things of it.
    Differs {
        /// What kind of thing.
        facet: Facet,
        /// Which one of them: a register, an address; empty if there is only one.
        what: String,
        /// What each says.
        values: [String; 2],
        /// What is around it.
        around: Around,
    },
}

/// An instruction that both sources have, as the second one tells it.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'p> {
    /// How many instructions of its core came before it in the first source.
    pub number: u64,
    /// The step of the second source.
    pub step: &'p Step,
    /// The state in which it is executed, as far as the second source told it.
    pub context: &'p Context,
    /// Exceptions since the instruction before, in the second source.
    pub exceptions: &'p [Exception],
}

/// Takes pairs.
type Paired<'t> = dyn FnMut(&Pair<'_>) -> ControlFlow<()> + 't;

/// Takes what is found.
type Tell<'t> = dyn FnMut(&Finding) -> ControlFlow<()> + 't;

/// How often a facet was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Both told it of an instruction.
    pub compared: u64,
    /// They were different.
    pub different: u64,
    /// Only this one told it, though both could.
    pub only: [u64; 2],
}

impl Tally {
    /// How often both told the same.
    pub fn equal(&self) -> u64 {
        self.compared - self.different
    }
}

/// Why comparing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ending {
    /// A source has no more instructions.
    #[default]
    Complete,
    /// A difference was found, and one was enough; or nobody wants to know more.
    Stopped,
    /// The sources were not found in each other again, within the window.
    Apart,
}

/// What it comes to.
#[derive(Debug, Default)]
pub struct Summary {
    /// What was compared: what both sources can tell, and was asked for.
    pub facets: Coverage,
    /// What each source can tell.
    pub coverage: [Coverage; 2],
    /// Instructions of each, as far as it was compared.
    pub instructions: [u64; 2],
    /// Instructions that both have.
    pub common: u64,
    /// Those of them of which only the code was compared: a loop, and which time round it is cannot be told.
    pub loose: u64,
    /// Instructions of each before the other one starts.
    pub before: [u64; 2],
    /// Instructions of each after the other one has ended.
    pub after: [u64; 2],
    /// How many gaps each has.
    pub gaps: [u64; 2],
    /// Instructions of each that are in gaps of the other one.
    pub in_gaps: [u64; 2],
    /// Instructions of each between gaps, too few to compare.
    pub islands: [u64; 2],
    /// Instructions of each that were tried, where the other one tells of the exception only.
    pub tried: [u64; 2],
    /// Steps of each that belong to other cores.
    pub other_cores: [u64; 2],
    /// How many differences there are.
    pub differences: u64,
    /// Why it ended.
    pub ending: Ending,
    /// What of each source was in no step, if it was read to its end.
    pub untold: [Losses; 2],
    /// Each source may end because it is damaged.
    pub damage: [Option<SourceError>; 2],
    tallies: [Tally; Facet::ALL.len()],
}

impl Summary {
    /// How often a facet was compared.
    pub fn tally(&self, facet: Facet) -> Tally {
        self.tallies[facet as usize]
    }

    /// Something was compared, and nothing is different or damaged.
    pub fn is_clean(&self) -> bool {
        self.differences == 0 && self.common > 0 && self.damage.iter().all(Option::is_none)
    }
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Error {
    /// Which source.
    pub source_index: usize,
    /// What is wrong with it.
    pub error: SourceError,
}

/// Compares two sources.
#[derive(Debug, Clone, Default)]
pub struct Differ {
    options: Options,
}

impl Differ {
    /// Compares like this.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Hands out what is found, in the order of the sources, until `tell` breaks; and what it comes to.
    pub fn run(&self, sources: [Pull; 2], tell: &mut Tell<'_>) -> Result<Summary, Error> {
        run::Run::new(&self.options, sources, tell, None).run()
    }

    /// Hands out the instructions that both have, in their order, until `paired` breaks. Those that may belong to another
    /// time round a loop, and those whose opcodes differ, are not among them.
    pub fn pairs(&self, sources: [Pull; 2], paired: &mut Paired<'_>) -> Result<Summary, Error> {
        let options =
            Options { all: true, facets: Coverage::of(&[Facet::Opcodes]), context: 0, ..self.options.clone() };
        run::Run::new(&options, sources, &mut |_| ControlFlow::Continue(()), Some(paired)).run()
    }
}
