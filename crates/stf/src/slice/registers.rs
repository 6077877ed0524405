//! Registers whose values are known, as records of the state before an instruction.
//!
//! groups in order ─▶ **values** ─▶ records of the state
//!
//! Known are the registers that an instruction wrote, and those of a recorded state, as in the steps of a trace. A gap makes
//! them unknown.

use std::collections::BTreeMap;

use super::super::lift::Instruction;
use super::super::lower::annotation::{self, Annotation};
use super::super::record::{Record, Register};

/// Values by type and number of the register.
#[derive(Debug, Default)]
pub(super) struct KnownRegisters {
    values: BTreeMap<(u8, u16), Vec<u8>>,
}

impl KnownRegisters {
    /// Takes the values of a group.
    pub(super) fn follow(&mut self, instruction: &Instruction<'_>) {
        if instruction.records == 1 {
            return;
        }
        // A recorded state is that before the instruction.
        for operand in [Register::STATE, Register::DESTINATION] {
            for record in instruction.group() {
                match record {
                    Record::InstReg(register) if register.operand() == operand => self.register(&register),
                    Record::Comment(text) if operand == Register::STATE => self.comment(text),
                    _ => {}
                }
            }
        }
    }

    fn comment(&mut self, text: &[u8]) {
        if matches!(annotation::parse(text), Some((_, Annotation::Gap(_)))) {
            self.values.clear();
        }
    }

    fn register(&mut self, register: &Register<'_>) {
        // A program counter is that of one instruction.
        let is_pc = register.kind() == Register::INTEGER && register.number == Register::PC;
        if !is_pc && register.max_number().is_some_and(|max| register.number <= max) {
            let value = self.values.entry((register.kind(), register.number)).or_default();
            value.clear();
            value.extend_from_slice(register.value);
        }
    }

    /// Writes the values before an instruction, except those that its group has itself.
    pub(super) fn write(&self, instruction: &Instruction<'_>, bytes: &mut Vec<u8>) {
        let mut own: Vec<(u8, u16)> = Vec::new();
        for record in instruction.group() {
            if let Record::InstReg(register) = record
                && register.operand() == Register::STATE
            {
                own.push((register.kind(), register.number));
            }
        }
        for ((kind, number), value) in self.values.iter().filter(|(key, _)| !own.contains(key)) {
            let meta = Register::STATE << 4 | kind;
            Record::InstReg(Register { number: *number, meta, value }).encode(bytes);
        }
    }
}
