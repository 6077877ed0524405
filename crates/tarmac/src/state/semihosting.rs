//! Semihosting: calls to the host that write memory without a memory line.
//!
//! The call is an instruction; register 0 has the operation number and register 1 points to the parameters. The data
//! that the host writes is unknown until it is read.
//! Specification: Arm IHI 0106, "Semihosting operations".

use super::super::record::{Instruction, InstructionSet};

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

/// Arguments of a call: registers 0 and 1, and the size of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) operation: u64,
    pub(super) block: u64,
    /// 4 or 8 bytes.
    pub(super) word: u64,
}

/// Memory that the host writes: address and length.
pub(super) type Change = (u64, u64);

/// Maximum length of one write by the host.
const MAX_LENGTH: u64 = 1 << 20;

const READ: u64 = 0x06;
const TMPNAM: u64 = 0x0d;
const GET_CMDLINE: u64 = 0x15;
const HEAPINFO: u64 = 0x16;
const ELAPSED: u64 = 0x30;

/// Memory that a call writes. `parameter` reads a parameter by index.
pub(super) fn changes(arguments: &Arguments, mut parameter: impl FnMut(u64) -> Option<u64>) -> [Option<Change>; 2] {
    let mut buffer = |address: u64, length: u64| Some((parameter(address)?, parameter(length)?.min(MAX_LENGTH)));
    match arguments.operation {
        READ => [buffer(1, 2), None],
        TMPNAM => [buffer(0, 2), None],
        // The length is written back.
        GET_CMDLINE => [buffer(0, 1), Some((arguments.block.wrapping_add(arguments.word), arguments.word))],
        HEAPINFO => [parameter(0).map(|address| (address, 4 * arguments.word)), None],
        ELAPSED => [Some((arguments.block, 8)), None],
        _ => [None, None],
    }
}
