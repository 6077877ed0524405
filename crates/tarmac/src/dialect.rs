//! Dialects: detection of the producer of a log from its first lines, and its conventions.
//!
//! Lines that only one producer prints decide. The dialect determines only what lines leave open: whether effects
//! precede their instruction, and the instruction set where none is named.

use super::annotation::Annotation;
use super::lines::lines;
use super::parse::{ParseOptions, Parser};
use super::record::{Instruction, InstructionSet, Line, ProblemKind, Record, Tag};

/// Number of lines that are examined.
const LINES: usize = 1000;

/// The producer of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// Tarmac Text Rev 3: TarmacText plug-ins, Cycle Models, and the RTL of winner cores.
    Rev3,
    /// Fast Models and compatible producers.
    FastModels,
    /// gem5.
    Gem5,
    /// The RTL of Cortex-M0 and M0+.
    CortexM0,
    /// The RTL of Cortex-M3 and M4.
    CortexM3,
    /// The RTL of Cortex-R5.
    CortexR5,
    /// Unknown.
    #[default]
    Other,
}

/// Position of the effects of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effects {
    /// Before the instruction.
    Before,
    /// After the instruction.
    After,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 7] =
        [Self::Rev3, Self::FastModels, Self::Gem5, Self::CortexM0, Self::CortexM3, Self::CortexR5, Self::Other];

    /// Detects the dialect from the start of a log. An incomplete last line is ignored, unless it is the only one.
    pub fn detect(start: &[u8]) -> Self {
        if let Some(dialect) = Self::of_lowered(start) {
            return dialect;
        }
        let whole = memchr::memrchr(b'\n', start).map_or(start, |end| &start[..=end]);
        let mut parser = Parser::new(ParseOptions::default());
        let mut votes = [0_u32; Self::ALL.len()];
        let judged = lines(whole).map(|(_, raw)| {
            let line = parser.parse(raw);
            (of_line(&line), matches!(line.record, Record::Unknown(_)))
        });
        // A simulator may print a banner first.
        for (dialect, _) in judged.filter(|(dialect, is_unknown)| dialect.is_some() || !is_unknown).take(LINES) {
            if let Some(at) = Self::ALL.iter().position(|candidate| Some(*candidate) == dialect) {
                votes[at] += 1;
            }
        }
        // gem5 prints like Fast Models, and only some of its lines differ.
        if votes[Self::Gem5 as usize] > 0 && votes[Self::Gem5 as usize] * 4 >= votes[Self::FastModels as usize] {
            return Self::Gem5;
        }
        let winner = votes.iter().copied().max().unwrap_or(0);
        let first = Self::ALL.iter().zip(votes).find(|(_, votes)| *votes == winner && winner > 0);
        first.map_or(Self::Other, |(dialect, _)| *dialect)
    }

    /// The style of a lowered log, which its first annotation identifies; `None`: any other log.
    pub fn of_lowered(start: &[u8]) -> Option<Self> {
        let mut parser = Parser::new(ParseOptions::default());
        let mut dialect = Self::FastModels;
        for (_, raw) in lines(start).take(2) {
            match parser.parse(raw).record {
                Record::Header(_) => dialect = Self::Rev3,
                Record::Comment(text) if is_lowered(text) => return Some(dialect),
                _ => return None,
            }
        }
        None
    }

    /// Name of the dialect.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rev3 => "rev3",
            Self::FastModels => "fast-models",
            Self::Gem5 => "gem5",
            Self::CortexM0 => "cortex-m0",
            Self::CortexM3 => "cortex-m3",
            Self::CortexR5 => "cortex-r5",
            Self::Other => "other",
        }
    }

    /// The dialect of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Position of register and memory lines.
    pub fn effects(self) -> Effects {
        match self {
            Self::CortexM0 | Self::CortexR5 => Effects::Before,
            _ => Effects::After,
        }
    }

    /// Whether all instructions are Thumb although lines do not name the instruction set.
    pub fn has_implicit_thumb(self) -> bool {
        self == Self::CortexM0
    }
}

/// Whether a comment is the first annotation of a lowered log.
pub(super) fn is_lowered(comment: &[u8]) -> bool {
    matches!(Annotation::parse(comment), Some(Annotation::Covers(..)))
}

/// The dialect that prints such lines; `None`: several do.
fn of_line(line: &Line<'_>) -> Option<Dialect> {
    match &line.record {
        Record::Header(_) | Record::Picture(_) | Record::Exception(_) | Record::Branch(_) => Some(Dialect::Rev3),
        Record::Asynchronous(_) => Some(Dialect::Rev3),
        Record::Instruction(instruction) => of_instruction(instruction),
        Record::Access(access) => match access.tag {
            [b'M', b'S' | b'N', .., b'D' | b'I' | b'A'] => Some(Dialect::CortexM3),
            [b'M', b'S' | b'N', ..] => access.owner.map(|_| Dialect::CortexR5),
            [b'M', .., b'D' | b'I'] => Some(Dialect::CortexM0),
            [b'M', ..] => Some(Dialect::FastModels),
            _ => None,
        },
        Record::Bus(access) if matches!(access.tag, [_, b'S' | b'N', ..]) => Some(Dialect::CortexM3),
        Record::Transfer(_) => Some(Dialect::CortexR5),
        Record::Unknown(problem) if problem.kind == ProblemKind::NoInstructionSet => Some(Dialect::CortexM0),
        _ => None,
    }
}

fn of_instruction(instruction: &Instruction<'_>) -> Option<Dialect> {
    if instruction.tag == Tag::Es {
        return Some(Dialect::Rev3);
    }
    match (instruction.number, instruction.mode, instruction.set) {
        (Some(_), [], Some(InstructionSet::A)) => Some(Dialect::CortexR5),
        (Some(_), [], _) => Some(Dialect::CortexM3),
        // The example of the specification: IT with the opcode in the brackets.
        (None, [_, ..], _) if instruction.mode.is_ascii() && !instruction.mode.contains(&b'_') => Some(Dialect::Rev3),
        _ if is_gem5(instruction.text) => Some(Dialect::Gem5),
        _ => Some(Dialect::FastModels),
    }
}

/// Whether the operands are in capitals, which only gem5 prints.
fn is_gem5(text: &[u8]) -> bool {
    let mut words = text.splitn(2, |byte| *byte == b' ');
    let operands = words.nth(1).unwrap_or_default();
    operands.iter().any(u8::is_ascii_uppercase) && !operands.iter().any(u8::is_ascii_lowercase)
}
