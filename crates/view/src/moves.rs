//! Moves from an instruction to another one of the same stack: over calls, and out of them.

use serde_json::{Value, json};

use crate::Refusal;
use crate::calls::Calls;
use crate::job::locked;
use crate::parameters::Parameters;
use crate::slices::Slice;
use crate::source::Source;

/// Where to go from an instruction.
#[derive(Debug, Clone, Copy)]
enum Move {
    /// The next instruction that is in no call from here.
    Over,
    OverBack,
    /// The instruction after the innermost call.
    Out,
    /// Its first instruction.
    OutBack,
}

impl Move {
    fn parse(name: &str) -> Result<Self, Refusal> {
        match name {
            "over" => Ok(Self::Over),
            "over_back" => Ok(Self::OverBack),
            "out" => Ok(Self::Out),
            "out_back" => Ok(Self::OutBack),
            _ => Err(Refusal::malformed("'move' is over, over_back, out or out_back")),
        }
    }
}

/// Answers a request for a move.
pub(crate) fn answer(source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let at = parameters.instruction("at")?;
    let wanted = Move::parse(&parameters.text("move").unwrap_or_default())?;
    let Some(row) = locked(&source.reader).row(at)? else { return Ok(json!({"n": null})) };
    let Some(calls) = source.calls.result() else { return Ok(source.calls.json()) };
    let stack = calls.stack_at(row.step.core, at);
    let around = calls.at(stack, at)?;
    let found = match wanted {
        Move::Over => over(&calls, stack, &around, at)?,
        Move::OverBack => over_back(&calls, stack, &around, at)?,
        Move::Out => innermost(&around).map(|call| call.end),
        Move::OutBack => innermost(&around).map(|call| call.start),
    };
    let found = found.filter(|number| *number > 0 && *number != at);
    let exists = found.map(|number| locked(&source.reader).row(number)).transpose()?.flatten().is_some();
    Ok(json!({"n": found.filter(|_| exists)}))
}

fn innermost(around: &[Slice]) -> Option<&Slice> {
    // The outermost one is the whole trace.
    around.last().filter(|call| call.depth > 0)
}

/// The call that an instruction is in and another one is not, if there is one.
fn entered<'a>(inside: &'a [Slice], around: &[Slice]) -> Option<&'a Slice> {
    let depth = around.last().map_or(0, |call| call.depth);
    inside.iter().find(|call| call.depth > depth)
}

fn over(calls: &Calls, stack: usize, around: &[Slice], at: u64) -> Result<Option<u64>, Refusal> {
    let next = calls.at(stack, at + 1)?;
    Ok(Some(entered(&next, around).map_or(at + 1, |call| call.end)))
}

fn over_back(calls: &Calls, stack: usize, around: &[Slice], at: u64) -> Result<Option<u64>, Refusal> {
    let Some(before) = at.checked_sub(1).filter(|number| *number > 0) else { return Ok(None) };
    let inside = calls.at(stack, before)?;
    Ok(entered(&inside, around).map_or(Some(before), |call| call.start.checked_sub(1)))
}
