//! Semihosting: calls to the host that write memory without a line about it.
//!
//! The call is an instruction; its number is in register 0 and its parameters are where register 1 points to. What the
//! host wrote is not known until it is read.
//! Specification: Arm IHI 0106, "Semihosting operations".

use super::super::record::{Instruction, InstructionSet};

/// Is this how a program calls its host?
#[inline]
pub(super) fn is_semihosting(instruction: &Instruction<'_>) -> bool {
    let Some(opcode) = instruction.opcode else { return false };
    instruction.is_executed
        && match instruction.set {
            Some(InstructionSet::O) => opcode == 0xd45e_0000,
            Some(InstructionSet::A) => matches!(opcode & 0x0fff_ffff, 0x0f12_3456) || opcode == 0xe10f_0070,
            _ => instruction.length == 2 && matches!(opcode, 0xbeab | 0xdfab | 0xbabc | 0xbabf),
        }
}

/// What a call was given: registers 0 and 1, and how wide parameters are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) operation: u64,
    pub(super) block: u64,
    /// 4 or 8 bytes.
    pub(super) word: u64,
}

/// Memory that the host has written: from where, and how many bytes.
pub(super) type Change = (u64, u64);

/// No host writes more at once.
const MOST: u64 = 1 << 20;

const READ: u64 = 0x06;
const TMPNAM: u64 = 0x0d;
const GET_CMDLINE: u64 = 0x15;
const HEAPINFO: u64 = 0x16;
const ELAPSED: u64 = 0x30;

/// Which memory a call has written. `parameter` reads one of the parameters, the first is 0.
pub(super) fn changes(arguments: &Arguments, mut parameter: impl FnMut(u64) -> Option<u64>) -> [Option<Change>; 2] {
    let mut buffer = |address: u64, length: u64| Some((parameter(address)?, parameter(length)?.min(MOST)));
    match arguments.operation {
        READ => [buffer(1, 2), None],
        TMPNAM => [buffer(0, 2), None],
        // The length is written too.
        GET_CMDLINE => [buffer(0, 1), Some((arguments.block.wrapping_add(arguments.word), arguments.word))],
        HEAPINFO => [parameter(0).map(|address| (address, 4 * arguments.word)), None],
        ELAPSED => [Some((arguments.block, 8)), None],
        _ => [None, None],
    }
}
