//! How opcodes read, remembered: programs run in loops, and disassembly is slow.
//!
//! (instruction set, encoding mode, address, opcode) ─▶ **text**
//!
//! What depends on the address is only the last operand, and only of some instructions, so that the opcode alone finds
//! its words. The table has a fixed size; who comes to a place in it that is taken, takes it over.

use unspool_isa::{Disassembler, Isa, RiscvExtensions, Xlen};

use unspool_model::digits::push_short_hex;

/// Opcodes that are remembered.
const PLACES: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Opcodes {
    disassembler: Disassembler,
    /// What opcodes of RISC-V mean here.
    pub(super) extensions: RiscvExtensions,
    places: Vec<Option<Box<Words>>>,
}

/// Whose opcode it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Riscv(RiscvExtensions, Xlen),
    A64,
    /// One that nobody can disassemble here.
    Other,
}

impl Set {
    /// The format numbers instruction sets, and encoding modes of RISC-V.
    #[inline]
    fn new(isa: u16, iem: u16, extensions: RiscvExtensions) -> Self {
        match (isa, iem) {
            (2, _) => Self::A64,
            (3.., _) => Self::Other,
            (_, 1) => Self::Riscv(extensions, Xlen::Rv32),
            _ => Self::Riscv(extensions, Xlen::Rv64),
        }
    }
}

/// How an opcode reads.
#[derive(Debug)]
struct Words {
    set: Set,
    opcode: u32,
    /// Everything, or what is before the operand that depends on the address.
    text: String,
    target: Target,
}

/// The last operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// It does not depend on the address.
    None,
    /// The instruction's own address, of which these bits count, and an offset; these bits of it.
    Relative { mask: u64, offset: u64, bits: u64 },
    /// It depends on the address in another way.
    Odd,
}

impl Opcodes {
    /// Remembers nothing yet.
    pub(super) fn new() -> Self {
        let mut places = Vec::new();
        places.resize_with(PLACES, || None);
        Self { disassembler: Disassembler::new(), extensions: RiscvExtensions::default(), places }
    }

    /// Adds how the opcode reads.
    #[inline]
    pub(super) fn push(&mut self, isa: u16, iem: u16, pc: u64, opcode: u32, out: &mut String) {
        let set = Set::new(isa, iem, self.extensions);
        let place = slot(opcode);
        if self.places[place].as_deref().is_some_and(|words| words.opcode != opcode || words.set != set) {
            self.places[place] = None;
        }
        let Self { disassembler, places, .. } = self;
        let words = places[place].get_or_insert_with(|| Box::new(find(disassembler, set, pc, opcode)));
        match words.target {
            Target::None => out.push_str(&words.text),
            Target::Relative { mask, offset, bits } => {
                out.push_str(&words.text);
                push_short_hex(out, (pc & mask).wrapping_add(offset) & bits);
            }
            Target::Odd => out.push_str(&text(disassembler, set, pc, opcode)),
        }
    }
}

/// Opcodes differ in their middle; Fibonacci hashing brings that to the top.
fn slot(opcode: u32) -> usize {
    (opcode.wrapping_mul(0x9e37_79b9) >> (u32::BITS - PLACES.ilog2())) as usize
}

fn text(disassembler: &mut Disassembler, set: Set, pc: u64, opcode: u32) -> String {
    match set {
        Set::Riscv(extensions, xlen) => disassembler.riscv_with(extensions, xlen, pc, opcode),
        Set::A64 => disassembler.text(Isa::A64, pc, opcode),
        Set::Other => String::from("-"),
    }
}

fn find(disassembler: &mut Disassembler, set: Set, pc: u64, opcode: u32) -> Words {
    let here = text(disassembler, set, pc, opcode);
    // Far enough for every operand that depends on the address to differ, and near enough for 32 bits.
    let other = pc ^ 1 << 24;
    let there = text(disassembler, set, other, opcode);
    if here == there {
        return Words { set, opcode, text: here, target: Target::None };
    }
    match relative(set, &here, pc).filter(|found| relative(set, &there, other) == Some(*found)) {
        Some((operands, target)) => Words { set, opcode, text: operands.to_string(), target },
        None => Words { set, opcode, text: String::new(), target: Target::Odd },
    }
}

/// What stands before the address that is the last operand, and how that is computed.
fn relative(set: Set, text: &str, pc: u64) -> Option<(&str, Target)> {
    let start = text.rfind("0x")?;
    let address = u64::from_str_radix(&text[start + 2..], 16).ok()?;
    let mask = if text.starts_with("adrp ") { !0xfff } else { u64::MAX };
    let bits = if matches!(set, Set::Riscv(_, Xlen::Rv32)) { u64::from(u32::MAX) } else { u64::MAX };
    Some((&text[..start], Target::Relative { mask, offset: address.wrapping_sub(pc & mask) & bits, bits }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Words that were found in one place are right in any other, whatever the opcode is.
        #[test]
        fn the_opcode_is_enough(
            opcode: u32, shape in 0..4, isa in 0_u16..4, iem in 0_u16..3, first: u64, second: u64, zcmp: bool, zcmt: bool,
        ) {
            let opcode = match shape {
                // Branches, jumps, two bytes.
                0 => opcode & !0x7f | 0x63,
                1 => opcode & !0x7f | 0x6f,
                2 => opcode & 0xffff,
                _ => opcode,
            };
            let mut opcodes = Opcodes::new();
            opcodes.extensions = RiscvExtensions { zcmp, zcmt };
            let mut disassembler = Disassembler::new();
            for pc in [first & !1, second & !1, first & 0xffff_fffe, second & 0xffff_fffe] {
                let mut found = String::new();
                opcodes.push(isa, iem, pc, opcode, &mut found);
                let set = Set::new(isa, iem, opcodes.extensions);
                prop_assert_eq!(found, text(&mut disassembler, set, pc, opcode), "{:?} {:08x} {:x}", set, opcode, pc);
            }
        }
    }
}
