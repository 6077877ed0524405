//! Effects that are printed before their instructions.
//!
//! A core that executes two instructions at once prints what both did, and then both. Which did what is told by the lines
//! themselves where they name their instruction, and else by the disassembly: the first of both that names the register.

use super::step::{Effect, Step};

/// One or two instructions, and all that they did: the first has it until they are told apart.
#[derive(Debug, Default)]
pub(super) struct Group {
    steps: [Step; 2],
    length: usize,
}

impl Group {
    /// No core executes more at once.
    pub(super) fn is_full(&self) -> bool {
        self.length == self.steps.len()
    }

    /// Takes an instruction with what came before it, and gives room for the next.
    pub(super) fn push(&mut self, step: &mut Step) {
        let place = &mut self.steps[self.length];
        std::mem::swap(place, step);
        step.clear();
        step.core = place.core;
        self.length += 1;
    }

    /// Hands out the instructions, each with its own effects.
    pub(super) fn finish(&mut self, number: &mut u64, take: &mut impl FnMut(&Step)) {
        let [first, second] = &mut self.steps;
        if self.length == 2 {
            second.take_from(first, |second, first, effect| match effect {
                Effect::Register(name) => !names(first, name) && names(second, name),
                Effect::Access(access) => !is_own(first, access.owner) && is_own(second, access.owner),
            });
        }
        for step in &mut self.steps[..self.length] {
            step.count(number);
            take(step);
            step.clear();
        }
        self.length = 0;
    }
}

/// Does a line that names its instruction name this one? Yes, if it names none.
fn is_own(step: &Step, owner: Option<(u64, u64)>) -> bool {
    let Some((address, serial)) = owner else { return true };
    step.instruction()
        .is_some_and(|executed| executed.address == Some(address) && executed.serial.is_none_or(|own| own == serial))
}

/// Does the disassembly name a register?
fn names(step: &Step, name: &[u8]) -> bool {
    let Some(executed) = step.instruction() else { return false };
    let mut words = step.text(&executed.text).split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let is_it = |word: &[u8]| word.eq_ignore_ascii_case(name);
    words.any(|word| is_it(word) || alias(word).is_some_and(is_it))
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
