//! How opcodes read, remembered: programs run in loops, and disassembly is slow.
//!
//! What depends on the address in A64 is only the last operand, and only of some instructions, so that the opcode alone
//! finds its words; those of AArch32 are remembered with their address. The table has a fixed size; who comes to a place
//! in it that is taken, takes it over.

use unspool_isa::{Disassembler, Isa};

use super::super::write::push_hex;

/// Instructions that are remembered.
const PLACES: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Opcodes {
    disassembler: Disassembler,
    places: Vec<Words>,
}

/// How an instruction reads.
#[derive(Debug, Clone, Default)]
struct Words {
    /// What it is about; `None`: nothing yet.
    key: Option<(Isa, u64, u32)>,
    text: Box<str>,
    /// An address is the last operand: the bits of the instruction's own address that count, and what is added.
    target: Option<(u64, u64)>,
}

impl Opcodes {
    /// Remembers nothing yet.
    pub(super) fn new() -> Self {
        Self { disassembler: Disassembler::new(), places: vec![Words::default(); PLACES] }
    }

    /// Adds how an instruction reads.
    #[inline]
    pub(super) fn push(&mut self, isa: Isa, address: u64, opcode: u32, out: &mut Vec<u8>) {
        let key = (isa, if isa == Isa::A64 { 0 } else { address }, opcode);
        let place = slot(key.1, opcode);
        if self.places[place].key != Some(key) {
            self.places[place] = find(&mut self.disassembler, key, address);
        }
        let words = &self.places[place];
        out.extend_from_slice(words.text.as_bytes());
        if let Some((mask, offset)) = words.target {
            out.extend_from_slice(b"0x");
            push_hex(out, (address & mask).wrapping_add(offset), 1);
        }
    }
}

/// Opcodes differ in their middle; Fibonacci hashing brings that to the top.
#[inline]
fn slot(address: u64, opcode: u32) -> usize {
    let mixed = opcode.wrapping_add(((address >> 1) as u32).wrapping_mul(31)).wrapping_mul(0x9e37_79b9);
    (mixed >> (u32::BITS - PLACES.ilog2())) as usize
}

#[cold]
fn find(disassembler: &mut Disassembler, key: (Isa, u64, u32), address: u64) -> Words {
    let (isa, _, opcode) = key;
    let text = disassembler.text(isa, address, opcode);
    if isa == Isa::A64 {
        // Far enough for every operand that depends on the address to differ.
        let elsewhere = disassembler.text(isa, address ^ 1 << 40, opcode);
        if let Some((operands, target)) = relative(&text, address).filter(|_| text != elsewhere) {
            return Words { key: Some(key), text: operands.into(), target: Some(target) };
        }
    }
    Words { key: Some(key), text: text.into(), target: None }
}

/// What stands before the address that is the last operand, and how that is computed.
fn relative(text: &str, address: u64) -> Option<(&str, (u64, u64))> {
    let start = text.rfind("0x")?;
    let target = u64::from_str_radix(&text[start + 2..], 16).ok()?;
    let mask = if text.starts_with("adrp ") { !0xfff } else { u64::MAX };
    Some((&text[..start], (mask, target.wrapping_sub(address & mask))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that were found in one place are right in any other, whatever the instruction is.
    #[test]
    fn what_is_remembered_is_right() {
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
