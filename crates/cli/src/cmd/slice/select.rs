//! Which instructions are wanted, by what the user says.

use std::ops::Range;

use anyhow::bail;
use unspool::Program;
use unspool::analyze::calls::{Began, Code, Follower, Instruction, Site};
use unspool::model::selection::{Candidate, Choice, Select, Selection};

use super::Args;

/// From a time to another, as they were written; either may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    from: Option<String>,
    to: Option<String>,
}

/// Reads a span.
pub(super) fn span(text: &str) -> Result<Span, String> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && text != ".";
    let wrong = || format!("'{text}' is no span of time (100..200, 100.. or ..200)");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let side = |side: &str| (!side.is_empty()).then(|| side.to_string());
    if !is_number(from) || !is_number(to) || from.is_empty() && to.is_empty() {
        return Err(wrong());
    }
    Ok(Span { from: side(from), to: side(to) })
}

impl Span {
    /// In numbers of which so many digits stand behind the point.
    pub(super) fn counted(&self, decimals: u8) -> anyhow::Result<Range<u64>> {
        let from = self.from.as_deref().map_or(Ok(0), |text| counted(text, decimals))?;
        let to = self.to.as_deref().map_or(Ok(u64::MAX), |text| counted(text, decimals))?;
        if from >= to {
            bail!("--time: the first time is not before the second");
        }
        Ok(from..to)
    }
}

fn counted(text: &str, decimals: u8) -> anyhow::Result<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let missing = usize::from(decimals).checked_sub(part.len());
    let number = missing.and_then(|missing| format!("0{whole}{part}{}", "0".repeat(missing)).parse().ok());
    match number {
        Some(number) => Ok(number),
        None if missing.is_none() => bail!("--time {text}: times have {decimals} digits behind the point here"),
        None => bail!("--time {text}: no time is that large"),
    }
}

/// Chooses instructions.
pub(super) struct Wanted {
    selection: Selection,
    callees: Option<Callees>,
    /// How many pieces are wanted, if that is bounded; and how many there are.
    most: Option<u64>,
    pieces: u64,
    /// The last that was taken.
    last: Option<u64>,
    /// There were more pieces.
    pub(super) is_cut_short: bool,
}

impl Wanted {
    /// What the user asks for; `decimals` are those of times, and `rise` says that times never go back.
    pub(super) fn new(args: &Args, decimals: u8, rise: bool) -> anyhow::Result<Self> {
        let functions = functions(args)?;
        let mut addresses = args.address.clone();
        let callees = args.with_callees.then(|| Callees { functions: functions.clone(), cores: Vec::new() });
        if callees.is_none() {
            addresses.extend(functions);
        }
        let selection = Selection {
            skip: args.skip,
            limit: args.limit.unwrap_or(u64::MAX),
            time: args.time.as_ref().map(|span| span.counted(decimals)).transpose()?,
            times_rise: rise,
            addresses,
            core: None,
        };
        let most = args.split.then_some(args.pieces);
        Ok(Self { selection, callees, most, pieces: 0, last: None, is_cut_short: false })
    }

    /// Only the first of the pieces that are too many is met.
    fn count(&mut self, candidate: &Candidate) -> Choice {
        let choice = self.selection.count();
        if choice != Choice::Take {
            return choice;
        }
        let follows = self.last.replace(candidate.index).is_some_and(|last| last + 1 == candidate.index);
        self.pieces += u64::from(!follows);
        self.is_cut_short = self.most.is_some_and(|most| self.pieces > most);
        if self.is_cut_short { Choice::Stop } else { Choice::Take }
    }
}

impl Select for Wanted {
    #[inline]
    fn choose(&mut self, candidate: &Candidate) -> Choice {
        let is_inside = self.callees.as_mut().is_none_or(|callees| callees.is_inside(candidate));
        if is_inside && self.selection.matches(candidate) {
            return self.count(candidate);
        }
        if self.selection.is_over(candidate) { Choice::Stop } else { Choice::Leave }
    }

    fn wants_more(&self) -> bool {
        self.selection.wants_more() && !self.is_cut_short
    }

    fn wants_start(&self) -> bool {
        self.selection.wants_start() && self.callees.is_none()
    }
}

/// Where the functions are.
fn functions(args: &Args) -> anyhow::Result<Vec<Range<u64>>> {
    if args.function.is_empty() {
        return Ok(Vec::new());
    }
    let program = Program::new(args.images.load()?);
    let mut found = Vec::new();
    for name in &args.function {
        let before = found.len();
        found.extend(program.functions(name));
        if found.len() == before {
            bail!("no function '{name}' with a size in the symbols of --image");
        }
    }
    Ok(found)
}

/// Knows when functions are on the stack.
struct Callees {
    functions: Vec<Range<u64>>,
    cores: Vec<Stack>,
}

/// What a core has called.
#[derive(Default)]
struct Stack {
    follower: Follower,
    number: u64,
    /// How many calls deep one of the functions is.
    inside: Option<usize>,
}

impl Callees {
    fn is_inside(&mut self, candidate: &Candidate) -> bool {
        let core = candidate.core as usize;
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, Stack::default);
        }
        let Some(pc) = candidate.pc else { return self.cores[core].inside.is_some() };
        let is_function = self.functions.iter().any(|function| function.contains(&pc));
        let stack = &mut self.cores[core];
        let is_outermost_left = stack.step(candidate, pc);
        let depth = stack.follower.depth();
        let is_left = stack.inside.is_some_and(|inside| depth < inside || inside == 0 && is_outermost_left);
        if is_left {
            stack.inside = None;
        }
        if is_function && stack.inside.is_none() {
            stack.inside = Some(depth);
        }
        stack.inside.is_some()
    }
}

impl Stack {
    /// Follows an instruction. True: what the trace started in returned.
    fn step(&mut self, candidate: &Candidate, pc: u64) -> bool {
        let site = Site { line: candidate.index, time: candidate.time.unwrap_or(0), number: self.number, pc };
        self.number += 1;
        let code = candidate.code.map(|(isa, opcode)| Code { isa, opcode });
        let mut instruction = Instruction::new(site, candidate.length, code);
        instruction.is_executed = candidate.is_executed;
        instruction.is_interrupted = candidate.is_interrupted;
        let mut is_outermost_left = false;
        self.follower.step(&instruction, &mut |call| is_outermost_left |= call.began == Began::Before);
        is_outermost_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read() {
        let rows = [
            ("100..200", 0, Some(100..200)),
            ("100..", 0, Some(100..u64::MAX)),
            ("..200", 0, Some(0..200)),
            ("1.5..2", 3, Some(1500..2000)),
            (".5..2", 1, Some(5..20)),
            ("1.25..2", 1, None),
            ("2..2", 0, None),
            ("99999999999999999999..", 0, None),
        ];
        for (text, decimals, expected) in rows {
            assert_eq!(span(text).unwrap().counted(decimals).ok(), expected, "{text}");
        }
        for text in ["", "..", "5", "a..b", "1..2ms", "-1..2"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
