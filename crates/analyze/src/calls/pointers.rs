//! The stack pointer and the link register of a core, as far as steps contain register values.
//!
//! Each Exception level has a stack pointer of its own. A value is unknown from the moment that an instruction changes the
//! register without reporting its new contents. Of AArch32, only the registers of the current mode are known.

use unspool_isa::{Isa, destinations};
use unspool_model::{Context, Instruction, RegisterWrite, Step};

/// Number of stack pointers: one per Exception level, and one where the level is unknown.
const BANKS: usize = 5;
const ONLY: usize = 4;

/// Pointers of one core.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pointers {
    stack_pointers: [Option<u64>; BANKS],
    bank: usize,
    pub(super) lr: Option<u64>,
    /// Whether the link register was written since the previous instruction.
    pub(super) is_lr_written: bool,
}

impl Pointers {
    /// The current stack pointer.
    #[inline]
    pub(super) fn sp(&self) -> Option<u64> {
        self.stack_pointers.get(self.bank).copied().flatten()
    }

    /// Which stack pointer is current.
    #[inline]
    pub(super) fn bank(&self) -> u32 {
        self.bank as u32
    }

    /// Nothing is known after instructions that did not report registers.
    pub(super) fn forget(&mut self) {
        *self = Self { bank: self.bank, ..Self::default() };
    }

    /// Continues in another context.
    pub(super) fn enter(&mut self, context: &Context, is_riscv: bool) {
        let bank = match (context.level, context.is_handler) {
            _ if is_riscv => ONLY,
            (Some(0), _) | (_, Some(false)) => 0,
            (Some(level @ 1..4), _) => usize::from(level),
            _ => ONLY,
        };
        if bank != self.bank && context.is_aarch64 == Some(false) {
            // Modes of AArch32 with the same level have stack pointers of their own.
            self.forget();
        }
        self.bank = bank;
    }

    /// Applies the registers of a step.
    #[inline]
    pub(super) fn apply(&mut self, step: &Step, is_riscv: bool) {
        if let (Some(instruction), Some(_)) = (step.event.instruction(), self.sp()) {
            self.forget_changed(instruction);
        }
        if step.registers().len() > 0 {
            step.registers().for_each(|write| self.write(&write, is_riscv));
        }
    }

    /// Forgets the stack pointer if this instruction writes it. If it was reported, it is known again.
    fn forget_changed(&mut self, instruction: &Instruction) {
        let Some(opcode) = instruction.opcode else { return self.forget() };
        let number = match instruction.isa {
            Isa::A64 => 31,
            Isa::Rv32 | Isa::Rv64 => 2,
            Isa::A32 | Isa::T32 => return,
        };
        if destinations(instruction.isa, opcode).general >> number & 1 == 1 {
            self.set(self.bank, None);
        }
    }

    fn set(&mut self, bank: usize, value: Option<u64>) {
        if let Some(slot) = self.stack_pointers.get_mut(bank) {
            *slot = value;
        }
    }

    fn write(&mut self, write: &RegisterWrite<'_>, is_riscv: bool) {
        match (write.name, is_riscv) {
            ("sp" | "r13", false) | ("sp" | "x2", true) => self.set(self.bank, value(write)),
            ("sp_el0", false) => self.set(0, value(write)),
            ("sp_el1", false) => self.set(1, value(write)),
            ("sp_el2", false) => self.set(2, value(write)),
            ("sp_el3", false) => self.set(3, value(write)),
            ("x30" | "lr" | "r14", false) | ("ra" | "x1", true) => {
                self.lr = value(write);
                self.is_lr_written = true;
            }
            _ => {}
        }
    }
}

/// The value of a whole register, if all of it is known.
fn value(write: &RegisterWrite<'_>) -> Option<u64> {
    let is_whole = write.low == 0 && matches!(write.bytes.len(), 4 | 8);
    let is_known = write.bytes.iter().all(|(_, known)| *known == 0xff);
    (is_whole && is_known).then(|| write.bytes.iter().rev().fold(0, |value, (byte, _)| value << 8 | u64::from(*byte)))
}
