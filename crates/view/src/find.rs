//! Search for the next or previous instruction that something is true of, and places.
//!
//! Each request searches for a fraction of a second, and says where it stopped: the page asks again from there, unless the user stops it.

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use unspool::analyze::find::{Finder, OpcodePattern, Query, RegisterPattern};
use unspool::isa::Disassembler;
use unspool::model::{Direction, Event, Step};
use unspool::place::{Place, PlaceFinder};

use crate::Refusal;
use crate::job::locked;
use crate::parameters::{Parameters, address, shortened};
use crate::rows::{Reader, code};
use crate::source::Source;

/// How long a request searches.
const PATIENCE: Duration = Duration::from_millis(300);
/// Steps between two looks at the clock.
const STRIDE: u64 = 1 << 12;
/// Instructions that are searched at once, backward.
const BACK: u64 = 1 << 16;

/// What is searched for.
enum Condition {
    /// What `find` of the command line finds.
    Query(Box<Finder<'static>>),
    /// Part of the text of an instruction.
    Text(String),
    /// A kind of step.
    Event(&'static str),
}

impl Condition {
    fn matches(&mut self, step: &Step) -> bool {
        match self {
            Self::Query(finder) => finder.step(step),
            Self::Text(part) => match &step.event {
                Event::Instruction(instruction) => code(instruction).1.to_lowercase().contains(&*part),
                _ => false,
            },
            Self::Event(kind) => crate::rows::event(step).is_some_and(|(found, _)| found == *kind),
        }
    }
}

/// Answers a search.
pub(crate) fn answer(source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let from = parameters.instruction("from")?;
    let is_backward = match parameters.text("direction").as_deref() {
        None | Some("next") => false,
        Some("previous") => true,
        Some(_) => return Err(Refusal::malformed("'direction' is next or previous")),
    };
    if let Some(flag) = parameters.text("finding") {
        is_one(&flag)?;
        let found = source.findings.result().and_then(|findings| findings.next(from, is_backward));
        return Ok(json!({"n": found, "more": null}));
    }
    let wanted = Wanted::of(source, parameters)?;
    let mut reader = locked(&source.reader);
    if let (Some(address), true) = (wanted.only_address, reader.steps.has_index()) {
        let found = reader.steps.near(address, from, is_backward).map_err(Refusal::unreadable)?;
        return Ok(json!({"n": found, "more": null}));
    }
    if is_backward {
        search_back(&mut reader, wanted.condition, from)
    } else {
        search(&mut reader, wanted.condition, from)
    }
}

struct Wanted {
    condition: Condition,
    /// It is any instruction at this address.
    only_address: Option<u64>,
}

impl Wanted {
    /// Takes the one condition of a request.
    fn of(source: &Source, parameters: &mut Parameters) -> Result<Self, Refusal> {
        const NAMES: [&str; 10] = [
            "address",
            "function",
            "opcode",
            "text",
            "register",
            "memory_read",
            "memory_write",
            "exception",
            "gap",
            "context",
        ];
        let mut given = NAMES.iter().filter_map(|name| Some((*name, parameters.text(name)?)));
        let (Some((name, value)), None) = (given.next(), given.next()) else {
            return Err(Refusal::malformed("a search has one condition"));
        };
        let mut query = Query::default();
        let mut only_address = None;
        match name {
            "address" => {
                only_address = Some(address(&value)?);
                query.within.addresses = only_address.iter().map(|start| one(*start)).collect();
            }
            "function" => {
                query.within.addresses = source.program.functions(&value).map(|range| one(range.start)).collect();
                if query.within.addresses.is_empty() {
                    let name = shortened(&value);
                    return Err(Refusal::absent(format!("no function '{name}' in the symbols of the program")));
                }
                if let [only] = &query.within.addresses[..] {
                    only_address = Some(only.start);
                }
            }
            "opcode" => query.opcodes.push(opcode(&value)?),
            "text" => {
                return Ok(Self { condition: Condition::Text(value.to_lowercase()), only_address });
            }
            "register" => query.registers.push(register(&value)?),
            "memory_read" => (query.memory, query.direction) = (vec![range(&value)?], Some(Direction::Read)),
            "memory_write" => (query.memory, query.direction) = (vec![range(&value)?], Some(Direction::Write)),
            flag => {
                is_one(&value)?;
                let kinds = ["exception", "gap", "context"];
                let kind = kinds.into_iter().find(|kind| *kind == flag).unwrap_or("exception");
                return Ok(Self { condition: Condition::Event(kind), only_address });
            }
        }
        let mut disassembler = Disassembler::new();
        let name = move |isa, opcode| disassembler.mnemonic(isa, opcode).map_or_else(String::new, Into::into);
        Ok(Self { condition: Condition::Query(Box::new(Finder::new(query, name))), only_address })
    }
}

fn search(reader: &mut Reader, mut condition: Condition, from: u64) -> Result<Value, Refusal> {
    let (start, mut found, mut more, mut left) = (Instant::now(), None, None, STRIDE);
    let ended = reader.steps.each_from(from, &mut |number, step| {
        let matches = condition.matches(step);
        // What is between two instructions belongs to the second.
        let at = number + u64::from(step.event.instruction().is_none());
        if matches && at > from {
            found = Some(at);
            return ControlFlow::Break(());
        }
        left -= 1;
        if left == 0 {
            left = STRIDE;
            if number > from && start.elapsed() > PATIENCE {
                more = Some(number);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    ended.or_else(|error| if error.is_damage { Ok(()) } else { Err(Refusal::unreadable(error)) })?;
    Ok(json!({"n": found, "more": more}))
}

fn search_back(reader: &mut Reader, mut condition: Condition, from: u64) -> Result<Value, Refusal> {
    let (start, mut end) = (Instant::now(), from);
    while end > 1 {
        // Without an index, everything before is read anyway.
        let first = if reader.steps.instructions().is_some() { end.saturating_sub(BACK).max(1) } else { 1 };
        let mut found = None;
        let ended = reader.steps.each_from(first, &mut |number, step| {
            let at = number + u64::from(step.event.instruction().is_none());
            if number >= end {
                return ControlFlow::Break(());
            }
            if condition.matches(step) && at < end && at >= first {
                found = Some(at);
            }
            ControlFlow::Continue(())
        });
        ended.or_else(|error| if error.is_damage { Ok(()) } else { Err(Refusal::unreadable(error)) })?;
        if found.is_some() {
            return Ok(json!({"n": found, "more": null}));
        }
        end = first;
        if end > 1 && start.elapsed() > PATIENCE {
            return Ok(json!({"n": null, "more": end}));
        }
    }
    Ok(json!({"n": null, "more": null}))
}

/// Answers a request for a place.
pub(crate) fn locate(source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let place: Place = parameters
        .text("place")
        .ok_or_else(|| Refusal::malformed("'place' is missing"))
        .and_then(|text| text.parse().map_err(Refusal::malformed))?;
    let mut reader = locked(&source.reader);
    if let Place::Instruction(number) = place {
        let exists = reader.row(number)?.is_some();
        return Ok(json!({"n": exists.then_some(number)}));
    }
    let Some(start) = reader.steps.start_for(&place).map_err(Refusal::malformed)? else {
        return Ok(json!({"n": null}));
    };
    let mut finder = PlaceFinder::new(&place, None, source.time_unit, &source.program).map_err(Refusal::malformed)?;
    let mut last = 0;
    let ended = reader.steps.each_from(start, &mut |number, step| {
        if finder.is_after(step) {
            return ControlFlow::Break(());
        }
        last = number;
        ControlFlow::Continue(())
    });
    ended.or_else(|error| if error.is_damage { Ok(()) } else { Err(Refusal::unreadable(error)) })?;
    Ok(json!({"n": finder.is_found().then_some(last.max(1))}))
}

fn one(address: u64) -> Range<u64> {
    address..address.saturating_add(1)
}

fn is_one(value: &str) -> Result<(), Refusal> {
    if value == "1" { Ok(()) } else { Err(Refusal::malformed("the value of this condition is 1")) }
}

/// An address, or a range of them.
fn range(text: &str) -> Result<Range<u64>, Refusal> {
    let Some((start, end)) = text.split_once("..") else { return Ok(one(address(text)?)) };
    let (start, end) = (address(start)?, address(end)?);
    if start < end { Ok(start..end) } else { Err(Refusal::malformed("a range ends after its start")) }
}

/// The hexadecimal digits of an opcode, of which `x` is any.
fn opcode(text: &str) -> Result<OpcodePattern, Refusal> {
    let malformed = || Refusal::malformed("an opcode has up to eight hexadecimal digits, and x for any");
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 8 {
        return Err(malformed());
    }
    digits.chars().try_fold(
        OpcodePattern { value: 0, mask: if digits.len() < 8 { !0 } else { 0 } },
        |pattern, digit| {
            let (value, mask) = match digit {
                'x' | 'X' => (0, 0),
                digit => (digit.to_digit(16).ok_or_else(malformed)?, 0xf),
            };
            Ok(OpcodePattern { value: pattern.value << 4 | value, mask: pattern.mask << 4 | mask })
        },
    )
}

/// A register, perhaps with its value.
fn register(text: &str) -> Result<RegisterPattern, Refusal> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => {
            let number = if value.starts_with("0x") { address(value).ok() } else { value.parse().ok() };
            let number = number.ok_or_else(|| Refusal::malformed(format!("'{}' is no value", shortened(value))))?;
            (name, Some(number))
        }
        None => (text, None),
    };
    if name.is_empty() {
        return Err(Refusal::malformed("a register has a name"));
    }
    Ok(RegisterPattern { name: name.to_lowercase(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_have_any_digits() {
        let pattern = |text: &str| opcode(text).map(|pattern| (pattern.value, pattern.mask));
        assert_eq!(pattern("d65f03c0"), Ok((0xd65f_03c0, 0xffff_ffff)));
        assert_eq!(pattern("0xd65fxxx0"), Ok((0xd65f_0000, 0xffff_000f)));
        // A short one is a number.
        assert_eq!(pattern("4770"), Ok((0x4770, 0xffff_ffff)));
        assert!(["", "0x", "123456789", "12g4"].iter().all(|text| opcode(text).is_err()));
    }

    #[test]
    fn registers_have_values() {
        let pattern = |text: &str| register(text).map(|pattern| (pattern.name, pattern.value));
        assert_eq!(pattern("X0"), Ok(("x0".to_string(), None)));
        assert_eq!(pattern("sp=0x10"), Ok(("sp".to_string(), Some(16))));
        assert_eq!(pattern("r1=7"), Ok(("r1".to_string(), Some(7))));
        assert!(["", "=1", "x0=", "x0=y"].iter().all(|text| register(text).is_err()));
    }
}
