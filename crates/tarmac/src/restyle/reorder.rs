//! Reordering for producers that print effects before their instruction.
//!
//! effects, then their instructions ─▶ **instruction, then its effects** ─▶ the other style
//!
//! A dual-issue core prints the effects of both instructions, then both instructions. They are separated as in lifting:
//! by the owner in the line, or by the first disassembly that names the register.

use super::super::lift::{names_register, owns};
use super::super::record::{InstructionSet, Line, Record, Stamp};
use super::held::Held;
use super::{Loss, Restyler};

/// Maximum number of bytes that wait for the next instruction of a core.
const MAX_WAITING: usize = 1 << 12;
/// Maximum number of instructions that issue at once.
const MAX_ISSUE: usize = 2;

impl Restyler {
    /// Takes a line of a producer that prints effects before their instruction.
    pub(super) fn hold_back(&mut self, core: usize, stamp: Stamp, line: &Line<'_>) {
        let set = if let Record::Instruction(instruction) = &line.record { instruction.set } else { None };
        let is_thumb = matches!(set, Some(InstructionSet::T | InstructionSet::E));
        let held = || Held { raw: line.raw.to_vec(), position: self.position, stamp, is_thumb };
        // Bounds the memory that overlong lines can take.
        let is_short = line.raw.len() <= MAX_WAITING;
        match line.record {
            Record::Instruction(_) if is_short => {
                let held = held();
                if self.cores[core].before.group.len() >= MAX_ISSUE {
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
                if before.length > MAX_WAITING {
                    self.release_effects(core);
                }
            }
            _ => {
                self.release(core);
                self.write_line(core, stamp, line);
            }
        }
    }

    /// Writes the waiting instructions, each followed by its own effects.
    pub(super) fn release(&mut self, core: usize) {
        let mut group = std::mem::take(&mut self.cores[core].before.group);
        if let [first, second] = group.as_mut_slice() {
            let (one, other) = (first.0.line(), second.0.line());
            let is_moved = |effect: &mut Held| is_of_second(&effect.line().record, &one.record, &other.record);
            second.1.extend(first.1.extract_if(.., is_moved));
        }
        for (instruction, effects) in &group {
            self.write_held(core, instruction.stamp, instruction);
            for effect in effects {
                self.write_held(core, instruction.stamp, effect);
            }
        }
    }

    /// Writes effects that no instruction follows.
    pub(super) fn release_effects(&mut self, core: usize) {
        self.cores[core].before.length = 0;
        for effect in std::mem::take(&mut self.cores[core].before.effects) {
            self.write_held(core, effect.stamp, &effect);
        }
    }

    fn write_held(&mut self, core: usize, stamp: Stamp, held: &Held) {
        let position = std::mem::replace(&mut self.position, held.position);
        if stamp != held.stamp {
            self.lose(Loss::EffectTime);
        }
        self.write_line(core, stamp, &held.line());
        self.position = position;
    }
}

/// Whether this is an effect of the second of two instructions.
fn is_of_second(effect: &Record<'_>, first: &Record<'_>, second: &Record<'_>) -> bool {
    let (Record::Instruction(first), Record::Instruction(second)) = (first, second) else { return false };
    match effect {
        Record::Register(register) => {
            !names_register(first.text, register.name) && names_register(second.text, register.name)
        }
        Record::Access(access) => {
            !owns(first.address, first.number, access.owner) && owns(second.address, second.number, access.owner)
        }
        _ => false,
    }
}
