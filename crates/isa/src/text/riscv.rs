//! How a RISC-V instruction reads, and what it is called.
//!
//! The text is what people write: `ret`, and `ld` for `c.ldsp`. The mnemonic is what was encoded, in the words of the
//! tools that came with STF, so that a count of mnemonics can be compared with theirs.

use std::format;
use std::string::{String, ToString};

use disc_v::{Decoder, Extension, Instruction, Isa, decode};

use super::join;
use crate::{RiscvExtensions, Xlen, riscv_length};

/// The text of `opcode` at `address`, or `.insn` and the opcode.
pub(super) fn text(extensions: RiscvExtensions, xlen: Xlen, address: u64, opcode: u32) -> String {
    if opcode == URET {
        return "uret".to_string();
    }
    let Some(instruction) = instruction(extensions, xlen, address, opcode) else { return unknown(opcode) };
    let text = instruction.to_string();
    let (mnemonic, operands) = text.split_once(' ').unwrap_or((&text, ""));
    join(mnemonic, &operands.replace(',', ", "))
}

/// What the instruction is called: `c.ldsp`, `addi`, `amoadd.w`. `None` if it is none.
///
/// Of the names that are only a manner of writing, those of hints are kept, and three more: `li`, `mv` and `nop`.
pub fn riscv_mnemonic(xlen: Xlen, opcode: u32) -> Option<&'static str> {
    RiscvExtensions::default().mnemonic(xlen, opcode)
}

impl RiscvExtensions {
    /// What the instruction is called where there are these extensions; else see [`riscv_mnemonic`].
    pub fn mnemonic(self, xlen: Xlen, opcode: u32) -> Option<&'static str> {
        mnemonic(self, xlen, opcode)
    }
}

fn mnemonic(extensions: RiscvExtensions, xlen: Xlen, opcode: u32) -> Option<&'static str> {
    if opcode == URET {
        return Some("uret");
    }
    let instruction = instruction(extensions, xlen, 0, opcode)?;
    let encoded = instruction.without_aliases().mnemonic();
    let is_zero = |low: u32, width: u32| opcode >> low & ((1 << width) - 1) == 0;
    Some(match (encoded, instruction.mnemonic()) {
        ("addi", _) if is_zero(7, 25) => "nop",
        ("addi", _) if is_zero(15, 5) => "li",
        ("addi", _) if is_zero(20, 12) => "mv",
        ("c.add", "ntl.p1") => "c.ntl.p1",
        ("c.add", "ntl.pall") => "c.ntl.pall",
        ("c.add", "ntl.s1") => "c.ntl.s1",
        ("c.add", "ntl.all") => "c.ntl.all",
        ("add", hint) if hint.starts_with("ntl.") => hint,
        ("ori", hint) if hint.starts_with("prefetch.") => hint,
        ("fence", "pause") => "pause",
        _ => encoded,
    })
}

/// The return from a trap to user mode was in a draft that some traces come from, and the library does not know it.
const URET: u32 = 0x0020_0073;

/// The instruction. The library takes some for one that are reserved: rounding modes and groups of registers.
fn instruction(extensions: RiscvExtensions, xlen: Xlen, address: u64, opcode: u32) -> Option<Instruction> {
    let isa = match xlen {
        Xlen::Rv32 => Isa::Rv32,
        Xlen::Rv64 => Isa::Rv64,
    };
    let encoding = u64::from(encoding(opcode));
    let instruction = if extensions.claims(opcode) {
        Decoder::with_only(isa, [Extension::Zcmp, Extension::Zcmt]).ok()?.decode(address, encoding)
    } else {
        decode(isa, address, encoding)
    };
    let is_reserved = extensions.facts(xlen, address, opcode).classes.is_empty();
    (!is_reserved && !instruction.is_illegal()).then_some(instruction)
}

/// The opcode without what stands above an instruction of two bytes.
fn encoding(opcode: u32) -> u32 {
    if riscv_length(opcode as u16) == 2 { opcode & 0xffff } else { opcode }
}

fn unknown(opcode: u32) -> String {
    let digits = 2 * usize::from(riscv_length(opcode as u16));
    format!(".insn 0x{:0digits$x}", encoding(opcode))
}
