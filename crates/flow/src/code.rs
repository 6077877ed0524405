//! Sequential code.
//!
//! Takes a [`CodeMemory`] and a start address. Produces opcodes with their control flow, until code is missing. Addresses
//! of AArch32 stay within 32 bits.

use unspool_isa::{ControlFlow, Decoded, Isa, decode, is_a64_branch_or_system};

use crate::memory::{CodeMemory, Space};

/// Greatest number of instructions that are read at once.
const MAX_AT_ONCE: usize = 64;

/// Consecutive instructions.
pub(crate) struct Code<'m, M> {
    memory: &'m M,
    space: Space,
    isa: Isa,
    /// The address of the next instruction.
    pub(crate) address: u64,
    /// Number of following instructions that an IT instruction made conditional.
    it: u8,
}

impl<'m, M: CodeMemory> Code<'m, M> {
    pub(crate) fn new(memory: &'m M, space: Space, isa: Isa, address: u64) -> Self {
        Self { memory, space, isa, address: within(isa, address), it: 0 }
    }

    /// Reads a bounded number of the next A64 instructions, up to the first branch or system instruction.
    #[inline(always)]
    pub(crate) fn push_fall_through(&mut self, opcodes: &mut Vec<u32>) {
        if self.isa != Isa::A64 {
            return;
        }
        let mut buffer = [0; 64];
        let bytes = self.memory.read(self.address, self.space, &mut buffer);
        let (words, _) = bytes[..bytes.len().min(MAX_AT_ONCE * 4)].as_chunks::<4>();
        let is_special = |word: &[u8; 4]| is_a64_branch_or_system(u32::from_le_bytes(*word));
        let count = words.iter().position(is_special).unwrap_or(words.len());
        opcodes.extend(words[..count].iter().map(|&word| u32::from_le_bytes(word)));
        self.address = self.address.wrapping_add(4 * count as u64);
    }

    /// Decodes instructions while the callback, which gets the next address, the opcode and its control flow, returns
    /// true. Returns the last one, and whether the code was known to the end.
    #[inline(always)]
    pub(crate) fn decode_while(
        &mut self,
        mut wants_more: impl FnMut(u64, u32, ControlFlow) -> bool,
    ) -> (Decoded, bool) {
        let mut buffer = [0; 64];
        let mut last = None;
        loop {
            let mut bytes = self.memory.read(self.address, self.space, &mut buffer);
            let mut joined = [0; 4];
            if bytes.len() < 4 {
                // An instruction may cross the end of a region.
                let length = self.join(bytes, &mut joined);
                bytes = &joined[..length];
            }
            let start = self.address;
            while let Some((opcode, length)) = opcode(self.isa, bytes) {
                let at = self.address;
                self.address = within(self.isa, at.wrapping_add(length as u64));
                // Most instructions of A64 need no decoding.
                let flow = if self.isa == Isa::A64 && !is_a64_branch_or_system(opcode) {
                    last = None;
                    ControlFlow::FallThrough
                } else {
                    last.insert(self.decode(at, opcode)).flow
                };
                if !wants_more(self.address, opcode, flow) {
                    return (last.unwrap_or(Decoded::FALL_THROUGH), true);
                }
                bytes = &bytes[length..];
            }
            if self.address == start {
                return (last.unwrap_or(Decoded::FALL_THROUGH), false);
            }
        }
    }

    fn decode(&mut self, address: u64, opcode: u32) -> Decoded {
        let mut decoded = decode(self.isa, address, opcode);
        decoded.conditional |= self.it > 0;
        self.it = if decoded.it > 0 { decoded.it } else { self.it.saturating_sub(1) };
        decoded
    }

    /// Up to four bytes from more than one region.
    fn join(&self, first: &[u8], joined: &mut [u8; 4]) -> usize {
        let mut length = first.len();
        joined[..length].copy_from_slice(first);
        while (1..4).contains(&length) {
            let mut buffer = [0; 4];
            let next = within(self.isa, self.address.wrapping_add(length as u64));
            let more = self.memory.read(next, self.space, &mut buffer);
            let fits = more.len().min(4 - length);
            if fits == 0 {
                break;
            }
            joined[length..length + fits].copy_from_slice(&more[..fits]);
            length += fits;
        }
        length
    }
}

/// The first opcode and its length, if it is complete.
fn opcode(isa: Isa, bytes: &[u8]) -> Option<(u32, usize)> {
    if isa != Isa::T32 {
        return bytes.first_chunk().map(|&word| (u32::from_le_bytes(word), 4));
    }
    let first = u16::from_le_bytes(*bytes.first_chunk()?);
    if Isa::T32.length(first) == 2 {
        return Some((u32::from(first), 2));
    }
    let second = u16::from_le_bytes(*bytes[2..].first_chunk()?);
    Some((u32::from(first) << 16 | u32::from(second), 4))
}

/// The address, truncated to the width of the instruction set.
#[inline]
pub(crate) fn within(isa: Isa, address: u64) -> u64 {
    address & isa.address_mask()
}
