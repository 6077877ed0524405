//! Registers that form an address which no access reports: a step before the instruction, or the block of zeros that it
//! writes.

use unspool_isa::{Isa, Operation, access};
use unspool_model::{Direction, Event, Instruction, Step};
use unspool_wire::register::{DCZID_EL0, SP};

/// The value of a register before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operand {
    /// The instruction of the block.
    pub(super) index: u16,
    /// The [number](unspool_wire::register) of the register.
    pub(super) register: u16,
    pub(super) value: u64,
}

const NAMES: [&str; 33] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
    "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "tcr_el1",
];

/// Removes and returns the operands of an instruction; those of earlier instructions are dropped.
pub(super) fn remove(operands: &mut Vec<Operand>, index: usize) -> Vec<Operand> {
    if operands.is_empty() {
        return Vec::new();
    }
    let of_it = operands.iter().filter(|operand| usize::from(operand.index) == index).copied().collect();
    operands.retain(|operand| usize::from(operand.index) > index);
    of_it
}

/// Makes the step with the operands before the instruction. False: there are none.
pub(super) fn state(operands: &[Operand], instruction: &Instruction, step: &mut Step) -> bool {
    if operands.is_empty() || is_zero(instruction) || is_write_of_state(instruction) {
        return false;
    }
    for operand in operands {
        if let Some(name) = NAMES.get(usize::from(operand.register)) {
            step.write_register(name, 0, &operand.value.to_le_bytes());
        }
    }
    step.event = Event::State;
    true
}

/// Adds the access of DC ZVA, which the emulator does not report.
pub(super) fn zeros(operands: &[Operand], instruction: &Instruction, has_data: bool, step: &mut Step) {
    if !is_zero(instruction) || step.accesses().len() > 0 {
        return;
    }
    let about = operands.iter().find(|operand| operand.register == DCZID_EL0);
    if let (Some(address), Some(about)) = (source(operands, instruction), about.map(|about| about.value)) {
        // The logarithm of the number of words of four bytes.
        let size = 4_u64 << (about & 0xf).min(9);
        let bytes = if has_data { size as usize } else { 0 };
        step.access_known(Direction::Write, address & !(size - 1), size, std::iter::repeat_n((0, 0xff), bytes));
    }
}

/// The value of the register that an instruction names, if it is known. Register 31 is zero.
pub(super) fn source(operands: &[Operand], instruction: &Instruction) -> Option<u64> {
    match instruction.opcode? as u16 & 0x1f {
        SP => Some(0),
        register => operands.iter().find(|operand| operand.register == register).map(|found| found.value),
    }
}

/// MSR: its operand is not an address.
fn is_write_of_state(instruction: &Instruction) -> bool {
    instruction.opcode.is_some_and(|opcode| opcode & 0xfff0_0000 == 0xd510_0000)
}

/// DC ZVA.
fn is_zero(instruction: &Instruction) -> bool {
    instruction.opcode.is_some_and(|opcode| access(Isa::A64, opcode).operation == Operation::Zero)
}

#[cfg(test)]
mod tests {
    use unspool_wire::register::TCR_EL1;

    use super::*;

    fn operand(index: u16, register: u16, value: u64) -> Operand {
        Operand { index, register, value }
    }

    #[test]
    fn blocks_of_zeros_are_accesses() {
        const ZVA_X3: u32 = 0xd50b_7423;
        const CIVAC_X3: u32 = 0xd50b_7e23;
        type Row<'a> = (&'a str, u32, &'a [Operand], &'a [(u64, u64)]);
        let rows: &[Row<'_>] = &[
            ("64 bytes", ZVA_X3, &[operand(0, 3, 0x1078), operand(0, DCZID_EL0, 4)], &[(0x1040, 64)]),
            ("2048 bytes", ZVA_X3, &[operand(0, 3, 0x1078), operand(0, DCZID_EL0, 9)], &[(0x1000, 2048)]),
            ("an unknown size", ZVA_X3, &[operand(0, 3, 0x1078)], &[]),
            ("an unknown address", ZVA_X3, &[operand(0, DCZID_EL0, 4)], &[]),
            ("another instruction", CIVAC_X3, &[operand(0, 3, 0x1078), operand(0, DCZID_EL0, 4)], &[]),
        ];
        for (name, opcode, operands, expected) in rows {
            let instruction = Instruction { opcode: Some(*opcode), ..Instruction::default() };
            let mut step = Step::default();
            zeros(operands, &instruction, true, &mut step);
            let found: Vec<(u64, u64)> = step.accesses().map(|access| (access.address, access.size)).collect();
            assert_eq!(found, *expected, "{name}");
        }
    }

    #[test]
    fn operands_come_before_their_instruction() {
        let mut operands = vec![operand(1, 5, 10), operand(2, SP, 20), operand(2, TCR_EL1, 30), operand(4, 0, 40)];
        let mut step = Step::default();
        let instruction = Instruction { opcode: Some(0xf980_03e0), ..Instruction::default() };
        let of_it = remove(&mut operands, 2);
        assert!(state(&of_it, &instruction, &mut step));
        let names: Vec<&str> = step.registers().map(|write| write.name).collect();
        assert_eq!(names, ["sp", "tcr_el1"]);
        assert_eq!(operands, [operand(4, 0, 40)]);
        assert!(!state(&[], &instruction, &mut step));
    }
}
