//! A block of code: its instructions, and how it ended.
//!
//! code of the plugin ─▶ **block**; its accesses and where execution continues ─▶ how far it came

use unspool_isa::{ControlFlow, Decoded, access, decode};
use unspool_model::{Branch, Instruction, Isa};
use unspool_wire::Access;

use crate::atomics::Atomics;

#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) instructions: Vec<Instruction>,
    pub(super) atomics: Atomics,
    /// The control flow of the last instruction; an indirect branch of T32 counts as conditional.
    pub(super) last: Decoded,
    /// The address after the last instruction.
    pub(super) end: u64,
}

/// End of an execution of a block.
pub(super) struct Ended {
    /// The number of complete instructions.
    pub(super) count: usize,
    /// The outcome of the last instruction, if that is a branch.
    pub(super) branch: Option<Branch>,
    /// Execution continues as the code does, without the kernel.
    pub(super) is_straight: bool,
}

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGFPE: i32 = 8;

impl Block {
    pub(super) fn new(isa: Isa, address: u64, bytes: &[&[u8]]) -> Self {
        let mut address = address;
        let mut instructions = Vec::with_capacity(bytes.len());
        for bytes in bytes {
            let length = bytes.len() as u8;
            instructions.push(Instruction {
                address,
                opcode: opcode(isa, bytes),
                length,
                isa,
                ..Instruction::default()
            });
            address = address.wrapping_add(bytes.len() as u64);
        }
        let last = instructions.last().map_or(Decoded::FALL_THROUGH, last);
        Self { atomics: Atomics::of(&instructions), instructions, last, end: address }
    }

    /// The end of the block, if execution continues at `next`; if it was left, instructions before `left` are complete.
    pub(super) fn ended(&self, left: Option<u16>, next: Option<u64>, accesses: &[Access]) -> Ended {
        use ControlFlow::{Breakpoint, Direct, ExceptionReturn, Halt, Indirect, SupervisorCall, Undefined};
        let whole = self.instructions.len();
        if let Some(completed) = left {
            // The first instruction that may fail and is not complete has failed; what follows it was not executed.
            let failed = self.failed_after(usize::from(completed), accesses);
            return Ended { count: failed, branch: None, is_straight: false };
        }
        let Some(last) = self.instructions.last() else {
            return Ended { count: 0, branch: None, is_straight: true };
        };
        let after = last.address.wrapping_add(u64::from(last.length));
        let falls_through = next.is_none_or(|next| next == after);
        let not_taken = Some(Branch { taken: false, target: None });
        let taken = |target| Some(Branch { taken: true, target });
        let (conditional, target) = (self.last.conditional, self.last.target_address());
        let (count, branch, is_straight) = match (self.last.flow, next) {
            (Breakpoint | Halt | Undefined, _) => (whole - 1, None, false),
            (SupervisorCall, _) => (whole, None, falls_through),
            (Direct, Some(next)) if conditional && Some(next) == target && next != after => {
                (whole, taken(Some(next)), true)
            }
            (Direct, Some(_)) if conditional && falls_through => (whole, not_taken, true),
            // A signal arrived right after it, and its outcome is unknown.
            (Direct, next) if conditional => (whole, None, next.is_none()),
            (Direct, next) => (whole, taken(target), next.is_none_or(|next| Some(next) == target)),
            (Indirect | ExceptionReturn, Some(_)) if conditional && falls_through => (whole, not_taken, true),
            (Indirect | ExceptionReturn, next) => (whole, taken(next), true),
            (_, Some(next)) if next != after => {
                let has_failed =
                    next == last.address || !accesses.iter().any(|access| usize::from(access.index) + 1 == whole);
                (whole - usize::from(has_failed && may_fail(last)), None, next == last.address)
            }
            _ => (whole, None, falls_through),
        };
        Ended { count, branch, is_straight }
    }

    /// The instruction that a fatal signal stopped at; `None`: the block is complete.
    ///
    /// The emulator ends a block at an instruction that it refuses, and an access that fails is not reported.
    pub(super) fn stopped_by(&self, signal: i32, left: Option<u16>, accesses: &[Access]) -> Option<usize> {
        use ControlFlow::{Breakpoint, Halt, Undefined};
        if let Some(completed) = left {
            return Some(self.failed_after(usize::from(completed), accesses));
        }
        let (index, last) = self.instructions.iter().enumerate().next_back()?;
        let is_refused = matches!(signal, SIGILL | SIGTRAP | SIGFPE)
            || matches!(self.last.flow, Breakpoint | Halt | Undefined)
            || last.opcode.is_none();
        let has_access = || accesses.iter().any(|access| usize::from(access.index) == index);
        (is_refused || (is_access(last) && !has_access())).then_some(index)
    }

    /// The instruction that failed, if those before `completed` are complete.
    fn failed_after(&self, completed: usize, accesses: &[Access]) -> usize {
        let seen = accesses.iter().map(|access| usize::from(access.index)).max().unwrap_or(0).max(completed);
        let rest = self.instructions.iter().enumerate().skip(seen);
        rest.filter(|(_, instruction)| may_fail(instruction)).map(|(index, _)| index).next().unwrap_or(seen)
    }
}

fn opcode(isa: Isa, bytes: &[u8]) -> Option<u32> {
    match (isa, bytes) {
        (_, &[a, b]) => Some(u32::from_le_bytes([a, b, 0, 0])),
        // The first halfword is the high one.
        (Isa::T32, &[a, b, c, d]) => Some(u32::from_le_bytes([c, d, a, b])),
        (_, &[a, b, c, d]) => Some(u32::from_le_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Whether it may access memory.
fn may_fail(instruction: &Instruction) -> bool {
    let is_aarch32 = matches!(instruction.isa, Isa::A32 | Isa::T32);
    instruction.opcode.is_none_or(|opcode| is_aarch32 || access(instruction.isa, opcode).is_memory_access())
}

/// Whether it is a load or store, as far as the opcode shows it.
fn is_access(instruction: &Instruction) -> bool {
    let Some(opcode) = instruction.opcode else { return true };
    match (instruction.isa, instruction.length) {
        // Loads and stores of one or several registers.
        (Isa::A32, _) => matches!(opcode >> 25 & 7, 0b010..=0b100),
        // PUSH, POP, and loads and stores of one or several registers.
        (Isa::T32, 2) => matches!(opcode >> 12, 0x5..=0x9 | 0xc) || matches!(opcode >> 9, 0x5a | 0x5e),
        (Isa::T32, _) => matches!(opcode >> 25, 0x74 | 0x7c),
        (isa, _) => access(isa, opcode).is_memory_access(),
    }
}

/// The control flow of the last instruction of a block.
fn last(instruction: &Instruction) -> Decoded {
    let Some(opcode) = instruction.opcode else { return Decoded::FALL_THROUGH };
    let decoded = decode(instruction.isa, instruction.address, opcode);
    // The conditions of an IT block are not in the opcode.
    let may_be_in_it = instruction.isa == Isa::T32 && decoded.flow.is_indirect();
    Decoded { conditional: decoded.conditional || may_be_in_it, ..decoded }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOP: u32 = 0xd503_201f;
    const LDR: u32 = 0xf940_0020;
    const UDF: u32 = 0;

    fn read(index: u16) -> Access {
        Access { index, size: 8, is_write: false, address: 0x1000 }
    }

    /// Name, opcodes, signal, instructions that are complete if it was left, accesses, and the instruction that failed.
    type Row<'r> = (&'r str, &'r [u32], i32, Option<u16>, &'r [Access], Option<usize>);

    #[test]
    fn a_fatal_signal_stops_at_the_instruction_that_can_have_caused_it() {
        const SIGSEGV: i32 = 11;
        const SIGTERM: i32 = 15;
        let rows: &[Row] = &[
            ("the first access fails", &[NOP, LDR, NOP, LDR, NOP], SIGSEGV, Some(0), &[], Some(1)),
            ("the second one", &[NOP, LDR, NOP, LDR, NOP], SIGSEGV, Some(2), &[read(1)], Some(3)),
            ("the last one", &[NOP, LDR], SIGSEGV, None, &[], Some(1)),
            ("none, and execution continues elsewhere", &[NOP, LDR], SIGSEGV, None, &[read(1)], None),
            ("undefined", &[LDR, UDF], 4, None, &[read(0)], Some(1)),
            ("undefined for this processor", &[NOP, NOP], 4, None, &[], Some(1)),
            ("a signal from elsewhere", &[NOP, NOP], SIGTERM, None, &[], None),
        ];
        for (name, opcodes, signal, left, accesses, expected) in rows {
            let bytes: Vec<[u8; 4]> = opcodes.iter().map(|opcode| opcode.to_le_bytes()).collect();
            let bytes: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[..]).collect();
            let block = Block::new(Isa::A64, 0x1000, &bytes);
            assert_eq!(block.stopped_by(*signal, *left, accesses), *expected, "{name}");
        }
    }

    #[test]
    fn loads_and_stores_of_aarch32_are_recognized() {
        let rows: &[(&str, Isa, &[u8], bool)] = &[
            ("ldr r0, [r1]", Isa::A32, &[0x00, 0x00, 0x91, 0xe5], true),
            ("pop {r4, pc}", Isa::A32, &[0x10, 0x80, 0xbd, 0xe8], true),
            ("bx lr", Isa::A32, &[0x1e, 0xff, 0x2f, 0xe1], false),
            ("bl", Isa::A32, &[0x00, 0x00, 0x00, 0xeb], false),
            ("pop {pc}", Isa::T32, &[0x00, 0xbd], true),
            ("push {lr}", Isa::T32, &[0x00, 0xb5], true),
            ("str r0, [r1]", Isa::T32, &[0x08, 0x60], true),
            ("bx lr", Isa::T32, &[0x70, 0x47], false),
            ("ldr.w pc, [r0]", Isa::T32, &[0xd0, 0xf8, 0x00, 0xf0], true),
            ("ldmia.w sp!, {r4-r8, pc}", Isa::T32, &[0xbd, 0xe8, 0xf0, 0x81], true),
            ("bl", Isa::T32, &[0x00, 0xf0, 0x00, 0xf8], false),
        ];
        for (name, isa, bytes, expected) in rows {
            let block = Block::new(*isa, 0x1000, &[bytes]);
            assert_eq!(block.instructions.iter().all(is_access), *expected, "{name}");
        }
    }
}
