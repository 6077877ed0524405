//! The plan for every pair of formats: which facts are carried over, lost or refused.
//!
//! Knows formats by what they can express, and reads no files. The table in `docs/conversions.md` is made from it.

use std::fmt::Write as _;
use std::path::Path;

use unspool_astf as astf;
use unspool_model::{Coverage, Facet, Loss};
use unspool_stf as stf;
use unspool_tarmac as tarmac;

use crate::steps::coverage_of_captures;
use crate::target::extension;

/// Kind of trace that is converted.
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

/// Format that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// ASTF.
    Astf,
    /// STF.
    Stf,
    /// Tarmac.
    Tarmac,
}

/// Plan for converting a kind of trace into a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversionPlan {
    /// Records are copied unchanged.
    Native,
    /// Records become steps, and steps become records of the format.
    Steps {
        /// Facts that are carried over, if the trace has them.
        carried: Coverage,
        /// Facts that are counted as lost, if the trace has them.
        losses: Vec<Loss>,
        /// Requirements without which the trace is refused.
        needs: &'static [&'static str],
    },
    /// No conversion.
    Refused {
        /// Reason.
        why: &'static str,
        /// Remedy.
        unless: Option<&'static str>,
    },
}

impl Origin {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Capture, Self::Astf, Self::StfArm, Self::StfRiscv, Self::Tarmac];

    /// Name in messages and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capture => "ETE or ETMv4 capture",
            Self::Astf => "ASTF",
            Self::StfArm => "STF (Arm)",
            Self::StfRiscv => "STF (RISC-V)",
            Self::Tarmac => "Tarmac",
        }
    }

    /// Facts of such a trace that steps do not carry.
    pub fn not_in_steps(self) -> &'static [Loss] {
        match self {
            Self::Capture => &[Loss::CycleCounts],
            Self::Astf => astf::steps::NOT_IN_STEPS,
            Self::StfArm | Self::StfRiscv => stf::steps::NOT_IN_STEPS,
            Self::Tarmac => tarmac::steps::NOT_IN_STEPS,
        }
    }

    /// Facets that such a trace can have at most.
    pub fn coverage(self) -> Coverage {
        match self {
            Self::Capture => coverage_of_captures().with(Facet::Processes).with(Facet::Times),
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
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Astf, Self::Stf, Self::Tarmac];

    /// Name in messages and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Astf => "ASTF",
            Self::Stf => "STF",
            Self::Tarmac => "Tarmac",
        }
    }

    /// The usual extension of its files, with the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Astf => ".astf",
            Self::Stf => ".stf",
            Self::Tarmac => ".tarmac",
        }
    }

    /// Format that the last extension names, or the one before it if the last names a compressor or nothing known.
    pub fn from_path(path: &Path) -> Option<Self> {
        let named = |path: &Path| match extension(path)?.as_str() {
            "astf" | "raw" => Some(Self::Astf),
            "stf" | "zstf" => Some(Self::Stf),
            "tarmac" | "log" => Some(Self::Tarmac),
            _ => None,
        };
        named(path).or_else(|| named(Path::new(path.file_stem()?)))
    }

    fn coverage(self) -> Coverage {
        match self {
            Self::Astf => astf::lower::coverage(),
            Self::Stf => stf::lower::coverage(),
            Self::Tarmac => tarmac::lower::coverage(),
        }
    }

    /// Facts that it has no field for.
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
                "AArch64 instructions",
                "the address of each access",
                "exception level, security state and stack pointer, recorded or given with --assume",
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
            why: "a trace unit does not trace the addresses of accesses, and ASTF requires them",
            unless: Some("another trace of the same run supplies them: --accesses TRACE"),
        },
        (Origin::StfRiscv, Format::Astf) => {
            ConversionPlan::Refused { why: "ASTF has AArch64 instructions only, and these are RISC-V", unless: None }
        }
        (Origin::StfRiscv, Format::Tarmac) => {
            ConversionPlan::Refused { why: "Tarmac has Arm instructions only, and these are RISC-V", unless: None }
        }
        (from, to) => {
            let coverage = from.coverage();
            let is_present = |loss: &&Loss| loss.facet().is_none_or(|facet| coverage.has(facet));
            let not_in_target = to.losses().iter().filter(is_present);
            let mut losses: Vec<Loss> = not_in_target.chain(from.not_in_steps()).copied().collect();
            losses.sort_unstable();
            losses.dedup();
            let carried = if to == Format::Stf { stf::lower::carried(coverage) } else { coverage.and(to.coverage()) };
            ConversionPlan::Steps { carried, losses, needs: to.needs() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_of_stf_files() {
        let rows = [
            ("a.stf", Some(stf::Storage::PLAIN), Some(Format::Stf)),
            ("a.zstf", Some(stf::Storage::Zstf), Some(Format::Stf)),
            ("a.stf.gz", Some(stf::Storage::GZIP), Some(Format::Stf)),
            ("a.STF.XZ", Some(stf::Storage::XZ), Some(Format::Stf)),
            ("a.stf.zst", Some(stf::Storage::ZSTD), Some(Format::Stf)),
            ("a.gz", Some(stf::Storage::GZIP), None),
            ("a.astf", None, Some(Format::Astf)),
            ("a.stf.tarmac", None, Some(Format::Tarmac)),
            ("a.astf.tarmac", None, Some(Format::Tarmac)),
            ("a.astf.stf", Some(stf::Storage::PLAIN), Some(Format::Stf)),
            ("a.stf.astf.xz", Some(stf::Storage::XZ), Some(Format::Astf)),
            ("a.tarmac.stf.gz", Some(stf::Storage::GZIP), Some(Format::Stf)),
            ("a.stf.1", None, Some(Format::Stf)),
            ("dir.stf/a.astf.gz", Some(stf::Storage::GZIP), Some(Format::Astf)),
            ("-", None, None),
        ];
        for (name, expected, format) in rows {
            assert_eq!(stf::Storage::from_path(Path::new(name)), expected, "{name}");
            assert_eq!(Format::from_path(Path::new(name)), format, "{name}");
        }
    }
}
