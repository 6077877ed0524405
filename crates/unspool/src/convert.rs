//! Conversion between formats: the plan for every pair, and the transfer of steps.
//!
//! steps of anything ─▶ **transfer** ─▶ a sink of a format
//!
//! Within a format, records stay as they are and never become steps. Between formats, steps carry what both can say; what
//! the target has no word for is counted, and what it could only say untruly is refused. [`plan`] says so beforehand, and
//! the table in the documents is made from it.

pub mod native;
pub mod report;
mod sink;

use std::fmt::Write as _;
use std::ops::ControlFlow;

use unspool_astf as astf;
use unspool_model::{Coverage, Facet, Loss, Losses, Pull, SinkError, SourceError, Step, StepSink};
use unspool_stf as stf;
use unspool_tarmac as tarmac;

pub use self::sink::{FileSink, OpenSinkError, SinkOptions};
use crate::OpenedSteps;

/// What steps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// ETE or ETMv4 trace with its program.
    Capture,
    /// An ASTF file.
    Astf,
    /// An STF file of Arm instructions.
    StfArm,
    /// An STF file of RISC-V instructions.
    StfRiscv,
    /// A Tarmac log.
    Tarmac,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// ASTF.
    Astf,
    /// STF.
    Stf,
    /// Tarmac.
    Tarmac,
}

/// How a trace is converted into a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversionPlan {
    /// Its records stay as they are.
    Native,
    /// As steps.
    Steps {
        /// What is carried over, if the trace tells it.
        carried: Coverage,
        /// What is counted as lost, if the trace tells it.
        losses: Vec<Loss>,
        /// What has to be there, or the trace is refused.
        needs: &'static [&'static str],
    },
    /// Not at all.
    Refused {
        /// Why.
        why: &'static str,
        /// What helps.
        unless: Option<&'static str>,
    },
}

impl Origin {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Capture, Self::Astf, Self::StfArm, Self::StfRiscv, Self::Tarmac];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capture => "ETE or ETMv4 capture",
            Self::Astf => "ASTF",
            Self::StfArm => "STF (Arm)",
            Self::StfRiscv => "STF (RISC-V)",
            Self::Tarmac => "Tarmac",
        }
    }

    /// What of such a trace no step tells.
    pub fn untold(self) -> &'static [Loss] {
        match self {
            Self::Capture => &[Loss::CycleCounts],
            Self::Astf => astf::steps::NOT_IN_STEPS,
            Self::StfArm | Self::StfRiscv => stf::steps::NOT_IN_STEPS,
            Self::Tarmac => tarmac::steps::NOT_IN_STEPS,
        }
    }

    /// What such a trace can tell at best.
    pub fn coverage(self) -> Coverage {
        match self {
            Self::Capture => Coverage::of(&[
                Facet::Instructions,
                Facet::Opcodes,
                Facet::Branches,
                Facet::Exceptions,
                Facet::Levels,
                Facet::Security,
                Facet::Processes,
                Facet::Times,
            ]),
            Self::Astf => astf::lower::coverage(),
            Self::StfArm => stf::lower::coverage(),
            Self::StfRiscv => Coverage::of(&[
                Facet::Instructions,
                Facet::Opcodes,
                Facet::Branches,
                Facet::Accesses,
                Facet::Data,
                Facet::Registers,
                Facet::Exceptions,
                Facet::Levels,
            ]),
            Self::Tarmac => tarmac::lower::coverage(),
        }
    }
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Astf, Self::Stf, Self::Tarmac];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Astf => "ASTF",
            Self::Stf => "STF",
            Self::Tarmac => "Tarmac",
        }
    }

    fn coverage(self) -> Coverage {
        match self {
            Self::Astf => astf::lower::coverage(),
            Self::Stf => stf::lower::coverage(),
            Self::Tarmac => tarmac::lower::coverage(),
        }
    }

    /// What it has no word for.
    pub fn losses(self) -> &'static [Loss] {
        match self {
            Self::Astf => astf::lower::LOSSES,
            Self::Stf => stf::lower::LOSSES,
            Self::Tarmac => tarmac::lower::LOSSES,
        }
    }

    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Astf => &[
                "instructions of AArch64",
                "the address of each access",
                "exception level, security state and stack pointer, told or given with --assume",
                "the class of each exception",
                "no gaps, unless the trace is Basic",
                "one core (--core)",
            ],
            Self::Stf => &["one core (--core)"],
            Self::Tarmac => &[],
        }
    }
}

/// Plans the conversion of a trace into a format.
pub fn plan(from: Origin, to: Format) -> ConversionPlan {
    match (from, to) {
        (Origin::Astf, Format::Astf)
        | (Origin::StfArm | Origin::StfRiscv, Format::Stf)
        | (Origin::Tarmac, Format::Tarmac) => ConversionPlan::Native,
        (Origin::Capture, Format::Astf) => ConversionPlan::Refused {
            why: "a trace unit does not tell the addresses of accesses, and ASTF has to",
            unless: Some("another trace of the same run supplies them: --accesses TRACE"),
        },
        (Origin::StfRiscv, Format::Astf) => ConversionPlan::Refused {
            why: "ASTF has instructions of AArch64 only, and these are of RISC-V",
            unless: None,
        },
        (Origin::StfRiscv, Format::Tarmac) => ConversionPlan::Refused {
            why: "Tarmac has instructions of Arm only, and these are of RISC-V",
            unless: None,
        },
        (from, to) => {
            let tells = from.coverage();
            let is_told = |loss: &Loss| loss.facet().is_none_or(|facet| tells.has(facet));
            let mut losses: Vec<Loss> =
                to.losses().iter().copied().filter(is_told).chain(from.untold().iter().copied()).collect();
            losses.sort_unstable();
            losses.dedup();
            ConversionPlan::Steps { carried: tells.and(to.coverage()), losses, needs: to.needs() }
        }
    }
}

/// All conversions as a table in Markdown.
pub fn table() -> String {
    let mut text = String::from("| from | to | carried over | counted as lost | refused |\n|---|---|---|---|---|\n");
    for (from, to) in Origin::ALL.into_iter().flat_map(|from| Format::ALL.map(|to| (from, to))) {
        let (carried, lost, refused) = match plan(from, to) {
            ConversionPlan::Native => ("every record, as it is".to_string(), String::new(), String::new()),
            ConversionPlan::Steps { carried, losses, needs } => {
                let names: Vec<&str> = losses.iter().map(|loss| loss.name()).collect();
                let needs = if needs.is_empty() { String::new() } else { format!("without: {}", needs.join("; ")) };
                (carried.to_string(), names.join(", "), needs)
            }
            ConversionPlan::Refused { why, unless } => {
                let unless = unless.map_or(String::new(), |unless| format!(", unless {unless}"));
                (String::new(), String::new(), format!("always: {why}{unless}"))
            }
        };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "| {} | {} | {carried} | {lost} | {refused} |", from.name(), to.name());
    }
    text
}

/// Why steps were not handed over.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// No more steps come, and it is not the trace that is damaged.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// They cannot be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// No step is of the core that was chosen.
    #[error("there is no core {core}; {}", known(*others))]
    NoCore {
        /// The core that was chosen.
        core: u32,
        /// The highest of those that there are, which are counted from 0; `None`: there are none.
        others: Option<u32>,
    },
}

/// Which cores there are, in words.
fn known(highest: Option<u32>) -> String {
    match highest {
        None => "the trace has no steps".to_string(),
        Some(0) => "the trace has one, which is core 0".to_string(),
        Some(highest) => format!("the trace has cores 0 to {highest}"),
    }
}

/// What was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transferred {
    /// How many instructions.
    pub instructions: u64,
    /// What of the trace was in no step, as far as it was read. Of a transfer that was stopped nobody knows.
    pub untold: Losses,
    /// Steps of other cores than the one that was chosen.
    pub other_cores: u64,
    /// The trace is damaged, and how; everything before was handed over. Then the sink is not finished: who wants to keep
    /// what it has finishes it.
    pub damage: Option<String>,
}

/// Hands all steps of a source to a sink, those of one core if it is chosen. `watch` sees each step, and may stop it.
///
/// The source is read on a thread of its own, so that the slower of both sets the pace.
pub fn transfer(
    source: OpenedSteps,
    core: Option<u32>,
    sink: &mut dyn StepSink,
    mut watch: impl FnMut(&Step, &dyn StepSink) -> ControlFlow<()>,
) -> Result<Transferred, TransferError> {
    let mut done = Transferred::default();
    let (mut is_met, mut others) = (core.is_none(), None);
    let mut steps = Pull::new(source).map_err(|error| SourceError { text: error.to_string(), is_damage: false })?;
    loop {
        let step = match steps.next_step() {
            Ok(Some(step)) => step,
            Ok(None) => break,
            Err(SourceError { text, is_damage: true }) => {
                done.damage = Some(text);
                break;
            }
            Err(error) => return Err(error.into()),
        };
        if core.is_some_and(|core| core != step.core) {
            done.other_cores += 1;
            others = others.max(Some(step.core));
            continue;
        }
        is_met = true;
        done.instructions += u64::from(step.event.instruction().is_some());
        sink.push(step)?;
        if watch(step, sink).is_break() {
            return Ok(done);
        }
    }
    done.untold = steps.losses().clone();
    if let Some(core) = core.filter(|core| !is_met && (*core > 0 || others.is_some())) {
        return Err(TransferError::NoCore { core, others });
    }
    if done.damage.is_none() {
        sink.finish()?;
    }
    Ok(done)
}
