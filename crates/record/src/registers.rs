//! Register values: the names that steps have for the register numbers of the stream.
//!
//! numbers and values of the stream ─▶ **register writes of a step**

use unspool_model::{Event, Step};
use unspool_wire::register::{FLOAT, STATUS};

use crate::machine::Machine;

/// The value of a register after an instruction or before one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegisterValue {
    /// The instruction of the block.
    pub(crate) index: u16,
    /// Whether the value holds before the instruction, whatever wrote it. Otherwise the instruction wrote it.
    pub(crate) is_before: bool,
    /// The [number](unspool_wire::register) of the register.
    pub(crate) register: u16,
    /// The lower half first.
    pub(crate) words: [u64; 2],
}

pub(crate) struct RegisterNames {
    machine: Machine,
    general: Vec<String>,
    floats: Vec<String>,
}

impl RegisterNames {
    pub(crate) fn new(machine: Machine) -> Self {
        let (general, float, count) = match machine {
            Machine::Aarch64 => ("x", "v", 31),
            Machine::Arm => ("r", "d", 15),
            Machine::Riscv64 | Machine::Riscv32 => ("x", "f", 32),
        };
        let names = |letter: &str, count| (0..count).map(|number| format!("{letter}{number}")).collect();
        let mut general: Vec<String> = names(general, count);
        if machine == Machine::Aarch64 {
            general.push("sp".into());
        }
        Self { machine, general, floats: names(float, 32) }
    }

    /// Adds a register write to a step.
    pub(crate) fn put(&self, step: &mut Step, value: &RegisterValue) {
        let number = usize::from(value.register);
        let is_narrow = matches!(self.machine, Machine::Arm | Machine::Riscv32);
        let (name, length) = match self.general.get(number) {
            Some(name) => (name.as_str(), if is_narrow { 4 } else { 8 }),
            None if value.register == STATUS => ("cpsr", 4),
            None => match number.checked_sub(FLOAT.into()).and_then(|number| self.floats.get(number)) {
                Some(name) => (name.as_str(), if self.machine == Machine::Aarch64 { 16 } else { 8 }),
                None => return,
            },
        };
        let unknown = if value.register == STATUS { self.unknown(value.words[0]) } else { 0 };
        let known = (!unknown).to_le_bytes().into_iter().chain([0xff; 8]);
        let bytes = value.words.iter().flat_map(|word| word.to_le_bytes()).zip(known);
        step.write_register_known(name, 0, bytes.take(length));
    }

    /// Makes a step with values that hold, whatever wrote them. False: there are none.
    pub(crate) fn state<'v>(
        &self,
        step: &mut Step,
        (core, position): (u32, u64),
        values: impl Iterator<Item = &'v RegisterValue>,
    ) -> bool {
        step.clear();
        (step.core, step.position, step.event) = (core, position, Event::State);
        values.for_each(|value| self.put(step, value));
        step.registers().len() > 0
    }

    /// Bits of the CPSR in T32 state that hold the IT state: the emulator does not keep them.
    fn unknown(&self, status: u64) -> u64 {
        const THUMB: u64 = 1 << 5;
        if self.machine == Machine::Arm && status & THUMB != 0 { 0x0f00_ff00 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_the_names_of_their_machine() {
        let rows: &[(Machine, u16, &str)] = &[
            (Machine::Aarch64, 30, "x30 8807060504030201"),
            (Machine::Aarch64, 31, "sp 8807060504030201"),
            (Machine::Aarch64, STATUS, "cpsr 04030201"),
            (Machine::Aarch64, FLOAT + 1, "v1 00000000000000098807060504030201"),
            (Machine::Aarch64, 32, ""),
            (Machine::Arm, 13, "r13 04030201"),
            (Machine::Arm, 15, ""),
            (Machine::Arm, FLOAT + 31, "d31 8807060504030201"),
            (Machine::Riscv64, 31, "x31 8807060504030201"),
            (Machine::Riscv64, FLOAT, "f0 8807060504030201"),
            (Machine::Riscv64, FLOAT + 32, ""),
            (Machine::Riscv32, 1, "x1 04030201"),
        ];
        for (machine, register, expected) in rows {
            let mut step = Step::default();
            let value =
                RegisterValue { index: 0, is_before: false, register: *register, words: [0x8807_0605_0403_0201, 9] };
            RegisterNames::new(*machine).put(&mut step, &value);
            let text = |write: unspool_model::RegisterWrite<'_>| {
                let digits: String = write.bytes.iter().rev().map(|(byte, _)| format!("{byte:02x}")).collect();
                format!("{} {digits}", write.name)
            };
            assert_eq!(step.registers().map(text).collect::<String>(), *expected, "{machine:?} {register}");
        }
    }

    #[test]
    fn it_state_of_the_cpsr_is_unknown() {
        for (status, expected) in [(0x6000_0030, [0xff, 0, 0xff, 0xf0]), (0x6000_0010, [0xff; 4])] {
            let mut step = Step::default();
            let value = RegisterValue { index: 0, is_before: false, register: STATUS, words: [status, 0] };
            RegisterNames::new(Machine::Arm).put(&mut step, &value);
            let known: Vec<u8> = step.registers().flat_map(|write| write.bytes.to_vec()).map(|byte| byte.1).collect();
            assert_eq!(known, expected, "{status:#x}");
        }
    }
}
