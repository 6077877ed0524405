//! Disassembled opcodes in a cache: programs run in loops, and disassembly is slow.
//!
//! (instruction set, address, opcode) ─▶ **text**
//!
//! For A64 the opcode alone is the key, for AArch32 the opcode and its address.

use unspool_isa::{Disassembler, Isa, OpcodeKey, RelativeText, TextCache};

use super::super::write::push_hex;

#[derive(Debug)]
pub(super) struct Opcodes {
    disassembler: Disassembler,
    cache: TextCache<Key, Box<RelativeText>>,
}

/// Key of a cached text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    isa: Isa,
    /// Zero for A64.
    address: u64,
    opcode: u32,
}

impl OpcodeKey for Key {
    #[inline]
    fn hash(&self) -> u32 {
        self.opcode.wrapping_add(((self.address >> 1) as u32).wrapping_mul(31)).hash()
    }
}

impl Opcodes {
    pub(super) fn new() -> Self {
        Self { disassembler: Disassembler::new(), cache: TextCache::new() }
    }

    /// Adds the text of an instruction.
    #[inline]
    pub(super) fn push(&mut self, isa: Isa, address: u64, opcode: u32, out: &mut Vec<u8>) {
        let Self { disassembler, cache } = self;
        let key = Key { isa, address: if isa == Isa::A64 { 0 } else { address }, opcode };
        let found = cache.get_or_insert_with(key, || Box::new(find(disassembler, isa, address, opcode)));
        out.extend_from_slice(found.text.as_bytes());
        if let Some(target) = found.target {
            out.extend_from_slice(b"0x");
            push_hex(out, target.at(address), 1);
        }
    }
}

#[cold]
fn find(disassembler: &mut Disassembler, isa: Isa, address: u64, opcode: u32) -> RelativeText {
    let relative = if isa == Isa::A64 { disassembler.relative_text(isa, address, opcode) } else { None };
    relative.unwrap_or_else(|| RelativeText { text: disassembler.text(isa, address, opcode), target: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_texts_are_right_at_any_address() {
        let mut opcodes = Opcodes::new();
        let mut disassembler = Disassembler::new();
        let mut random = 0x1234_5678_9abc_def1_u64;
        for _ in 0..2000 {
            random = random.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ random >> 29;
            let any = random as u32;
            for opcode in [any, any & 0x83ff_ffff | 0x1400_0000] {
                for (isa, mask) in [(Isa::A64, !3), (Isa::A32, 0xffff_fffc), (Isa::T32, 0xffff_fffe)] {
                    for address in [random & mask, random.swap_bytes() & mask, random & mask] {
                        let mut text = Vec::new();
                        opcodes.push(isa, address, opcode, &mut text);
                        assert_eq!(String::from_utf8_lossy(&text), disassembler.text(isa, address, opcode));
                    }
                }
            }
        }
    }
}
