//! Text that is right at every address, so that the opcode alone can be the key of a cache.
//!
//! (instruction set, opcode) ─▶ **text** and the operand that depends on the address
//!
//! Only the last operand depends on the address, and only that of some instructions. It is found by disassembling at two
//! addresses. This does not hold for T32, where the alignment of the address matters.

use std::string::{String, ToString};

use super::Disassembler;
use crate::Isa;

/// The text of an opcode, for any address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativeText {
    /// The whole text, or the part before the operand that depends on the address.
    pub text: String,
    /// The last operand, if it depends on the address.
    pub target: Option<RelativeTarget>,
}

/// An operand that is an address relative to that of the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelativeTarget {
    /// The bits of the instruction's address that count.
    mask: u64,
    /// The distance from there.
    pub offset: u64,
    /// The bits of an address that exist.
    bits: u64,
}

impl RelativeTarget {
    /// The operand of the instruction at `address`.
    #[inline]
    pub const fn at(self, address: u64) -> u64 {
        (address & self.mask).wrapping_add(self.offset) & self.bits
    }
}

impl Disassembler {
    /// The text of `opcode` for any address, found at `address`. `None` if it depends on the address in another way.
    pub fn relative_text(&mut self, isa: Isa, address: u64, opcode: u32) -> Option<RelativeText> {
        // Far enough for every operand that depends on the address to differ, and near enough for 32 bits.
        let other = address ^ 1 << 24;
        let [here, there] = [address, other].map(|address| self.text(isa, address, opcode));
        if here == there {
            return Some(RelativeText { text: here, target: None });
        }
        let found = relative(isa, &here, address)?;
        (relative(isa, &there, other)? == found)
            .then(|| RelativeText { text: found.0.to_string(), target: Some(found.1) })
    }
}

/// The text before the address that is the last operand, and how that is computed.
fn relative(isa: Isa, text: &str, address: u64) -> Option<(&str, RelativeTarget)> {
    let start = text.rfind("0x")?;
    let target = u64::from_str_radix(&text[start + 2..], 16).ok()?;
    let mask = if text.starts_with("adrp ") { !0xfff } else { u64::MAX };
    let bits = isa.address_mask();
    Some((&text[..start], RelativeTarget { mask, offset: target.wrapping_sub(address & mask) & bits, bits }))
}
