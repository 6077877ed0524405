//! Cache of disassembled opcodes: programs run in loops, and disassembly is slow.
//!
//! (instruction set, encoding mode, address, opcode) ─▶ **text**

use unspool_isa::{Disassembler, Isa, RelativeText, RiscvExtensions, TextCache};

use unspool_model::digits::push_short_hex;

#[derive(Debug)]
pub(super) struct Opcodes {
    disassembler: Disassembler,
    /// `None`: the text depends on the address in a way that cannot be cached.
    cache: TextCache<(Isa, u32), Option<Box<RelativeText>>>,
}

impl Opcodes {
    pub(super) fn new() -> Self {
        Self { disassembler: Disassembler::new(), cache: TextCache::new() }
    }

    /// Changes the extensions, and so the meaning of RISC-V opcodes.
    pub(super) fn set_extensions(&mut self, extensions: RiscvExtensions) {
        if self.disassembler.extensions != extensions {
            self.disassembler.extensions = extensions;
            self.cache = TextCache::new();
        }
    }

    /// Appends the text of the opcode.
    #[inline]
    pub(super) fn push(&mut self, isa: u16, iem: u16, pc: u64, opcode: u32, out: &mut String) {
        let Some(isa) = set(isa, iem) else { return out.push('-') };
        let Self { disassembler, cache } = self;
        let found =
            cache.get_or_insert_with((isa, opcode), || disassembler.relative_text(isa, pc, opcode).map(Box::new));
        let Some(found) = found else { return out.push_str(&disassembler.text(isa, pc, opcode)) };
        out.push_str(&found.text);
        if let Some(target) = found.target {
            push_short_hex(out, target.at(pc));
        }
    }
}

/// The instruction set of a number and an encoding mode; `None`: there is no disassembler for it.
#[inline]
fn set(isa: u16, iem: u16) -> Option<Isa> {
    match (isa, iem) {
        (2, _) => Some(Isa::A64),
        (3.., _) => None,
        (_, 1) => Some(Isa::Rv32),
        _ => Some(Isa::Rv64),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Text cached at one address is right at any other, for every opcode.
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
            opcodes.set_extensions(RiscvExtensions { zcmp, zcmt });
            let mut disassembler = Disassembler::new();
            disassembler.extensions = RiscvExtensions { zcmp, zcmt };
            for pc in [first & !1, second & !1, first & 0xffff_fffe, second & 0xffff_fffe] {
                let mut found = String::new();
                opcodes.push(isa, iem, pc, opcode, &mut found);
                let set = set(isa, iem);
                let expected = set.map_or("-".to_string(), |set| disassembler.text(set, pc, opcode));
                prop_assert_eq!(found, expected, "{:?} {:08x} {:x}", set, opcode, pc);
            }
        }
    }
}
