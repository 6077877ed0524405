//! Lines of producers that print what an instruction does before it, in the order of all others.
//!
//! effects, then their instructions ─▶ **instruction, then its effects** ─▶ the other style
//!
//! A core that executes two instructions at once prints what both did, and then both. Who did what is told as where steps
//! are made of lines: by the owner that a line names, or by the first disassembly that names the register.

use super::super::parse::{ParseOptions, Parser};
use super::super::read::Place;
use super::super::record::{Instruction, InstructionSet, Line, Record, Stamp};
use super::{Loss, Restyler};

/// So much waits for the next instruction of a core at most.
const WAITING: usize = 1 << 12;
/// No core executes more at once.
const AT_ONCE: usize = 2;

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// What the next instruction did.
    effects: Vec<Held>,
    /// How many bytes they have.
    length: usize,
    /// Instructions, each with the effects before it.
    group: Vec<(Held, Vec<Held>)>,
}

/// A line that is said later.
#[derive(Debug)]
struct Held {
    raw: Vec<u8>,
    place: Place,
    stamp: Stamp,
    is_thumb: bool,
}

impl Held {
    fn line(&self) -> Line<'_> {
        Parser::new(ParseOptions { implicit_thumb: self.is_thumb }).parse(&self.raw)
    }
}

impl Restyler {
    /// A line of a producer that prints effects before their instruction.
    pub(super) fn hold(&mut self, core: usize, stamp: Stamp, line: &Line<'_>) {
        let set = if let Record::Instruction(instruction) = &line.record { instruction.set } else { None };
        let is_thumb = matches!(set, Some(InstructionSet::T | InstructionSet::E));
        let held = || Held { raw: line.raw.to_vec(), place: self.place, stamp, is_thumb };
        // Whoever fills lines does not fill the memory.
        let is_short = line.raw.len() <= WAITING;
        match line.record {
            Record::Instruction(_) if is_short => {
                let held = held();
                if self.cores[core].before.group.len() >= AT_ONCE {
                    self.release(core);
                }
                let before = &mut self.cores[core].before;
                before.length = 0;
                before.group.push((held, std::mem::take(&mut before.effects)));
            }
            Record::Register(_) | Record::Operation(_) | Record::Access(_) | Record::Picture(_) if is_short => {
                let held = held();
                self.release(core);
                let before = &mut self.cores[core].before;
                before.length += held.raw.len();
                before.effects.push(held);
                if before.length > WAITING {
                    self.release_effects(core);
                }
            }
            _ => {
                self.release(core);
                self.say(core, stamp, line);
            }
        }
    }

    /// Says the instructions that wait, each with its own effects behind it.
    pub(super) fn release(&mut self, core: usize) {
        let mut group = std::mem::take(&mut self.cores[core].before.group);
        if let [first, second] = group.as_mut_slice() {
            let (one, other) = (first.0.line(), second.0.line());
            let moved =
                first.1.extract_if(.., |effect| is_of_second(&effect.line().record, &one.record, &other.record));
            let moved: Vec<Held> = moved.collect();
            second.1.extend(moved);
        }
        for (instruction, effects) in &group {
            self.say_held(core, instruction.stamp, instruction);
            for effect in effects {
                self.say_held(core, instruction.stamp, effect);
            }
        }
    }

    /// Says effects that no instruction follows.
    pub(super) fn release_effects(&mut self, core: usize) {
        self.cores[core].before.length = 0;
        for effect in std::mem::take(&mut self.cores[core].before.effects) {
            self.say_held(core, effect.stamp, &effect);
        }
    }

    fn say_held(&mut self, core: usize, stamp: Stamp, held: &Held) {
        let place = std::mem::replace(&mut self.place, held.place);
        if stamp != held.stamp {
            self.lose(Loss::EffectTime);
        }
        self.say(core, stamp, &held.line());
        self.place = place;
    }
}

/// Is this an effect of the second of two instructions?
fn is_of_second(effect: &Record<'_>, first: &Record<'_>, second: &Record<'_>) -> bool {
    let (Record::Instruction(first), Record::Instruction(second)) = (first, second) else { return false };
    match effect {
        Record::Register(register) => !names(first, register.name) && names(second, register.name),
        Record::Access(access) => !is_own(first, access.owner) && is_own(second, access.owner),
        _ => false,
    }
}

/// Does a line that names its instruction name this one? Yes, if it names none.
fn is_own(instruction: &Instruction<'_>, owner: Option<(u64, u64)>) -> bool {
    let Some((address, serial)) = owner else { return true };
    instruction.address == Some(address) && instruction.number.is_none_or(|number| number == serial)
}

/// Does the disassembly name a register?
fn names(instruction: &Instruction<'_>, name: &[u8]) -> bool {
    let mut words = instruction.text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    words.any(|word| {
        word.eq_ignore_ascii_case(name) || alias(word).is_some_and(|alias| alias.eq_ignore_ascii_case(name))
    })
}

/// The other name of a register.
fn alias(word: &[u8]) -> Option<&'static [u8]> {
    match word.to_ascii_lowercase().as_slice() {
        b"sp" => Some(b"r13"),
        b"lr" | b"bl" | b"blx" => Some(b"r14"),
        b"pc" => Some(b"r15"),
        b"cmp" | b"cmn" | b"tst" | b"teq" => Some(b"cpsr"),
        _ => None,
    }
}
