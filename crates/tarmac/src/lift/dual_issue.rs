//! Effects that are printed before their instructions.
//!
//! A dual-issue core prints the effects of both instructions, then both instructions. An effect belongs to the
//! instruction that its line names, or else to the first one whose disassembly names the register.

use super::step::{Effect, Step};

/// One or two instructions; the first holds the effects of both until they are separated.
#[derive(Debug, Default)]
pub(super) struct Group {
    steps: [Step; 2],
    length: usize,
}

impl Group {
    /// Whether the group has two instructions, the most that issue at once.
    pub(super) fn is_full(&self) -> bool {
        self.length == self.steps.len()
    }

    /// Adds an instruction with the effects before it, and leaves `step` empty for the next.
    pub(super) fn push(&mut self, step: &mut Step) {
        let slot = &mut self.steps[self.length];
        std::mem::swap(slot, step);
        step.clear();
        step.core = slot.core;
        self.length += 1;
    }

    /// Emits the instructions, each with its own effects.
    pub(super) fn finish(&mut self, number: &mut u64, sink: &mut impl FnMut(&Step)) {
        let [first, second] = &mut self.steps;
        if self.length == 2 {
            second.move_effects_from(first, |second, first, effect| match effect {
                Effect::Register(name) => !names(first, name) && names(second, name),
                Effect::Access(access) => !is_own(first, access.owner) && is_own(second, access.owner),
            });
        }
        for step in &mut self.steps[..self.length] {
            step.assign_number(number);
            sink(step);
            step.clear();
        }
        self.length = 0;
    }
}

fn is_own(step: &Step, owner: Option<(u64, u64)>) -> bool {
    step.instruction().map_or(owner.is_none(), |executed| owns(executed.address, executed.number, owner))
}

/// Whether an effect of this owner belongs to the instruction; an effect without an owner may belong to any.
pub(in super::super) fn owns(address: Option<u64>, number: Option<u64>, owner: Option<(u64, u64)>) -> bool {
    owner.is_none_or(|(owner, owner_number)| address == Some(owner) && number.is_none_or(|own| own == owner_number))
}

fn names(step: &Step, register: &[u8]) -> bool {
    step.instruction().is_some_and(|executed| names_register(step.text(&executed.text), register))
}

/// Whether the disassembly of an instruction names a register, or implies it.
pub(in super::super) fn names_register(disassembly: &[u8], register: &[u8]) -> bool {
    let mut words = disassembly.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let matches = |word: &[u8]| word.eq_ignore_ascii_case(register);
    words.any(|word| matches(word) || alias(word).is_some_and(matches))
}

/// The register that a mnemonic or an alias in the disassembly implies.
fn alias(word: &[u8]) -> Option<&'static [u8]> {
    match word.to_ascii_lowercase().as_slice() {
        b"sp" => Some(b"r13"),
        b"lr" | b"bl" | b"blx" => Some(b"r14"),
        b"pc" => Some(b"r15"),
        b"cmp" | b"cmn" | b"tst" | b"teq" => Some(b"cpsr"),
        _ => None,
    }
}
