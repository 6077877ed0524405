//! Text and mnemonics of RISC-V instructions.
//!
//! The text uses aliases: `ret`, and `ld` for `c.ldsp`. The mnemonic is that of the encoding, as the tools that came with
//! STF print it, so that a count of mnemonics can be compared with theirs.

use std::format;
use std::string::{String, ToString};

use disc_v::{Decoder, Extension, Instruction, decode};

use super::join;
use crate::{Isa, RiscvExtensions};

/// The text of `opcode` at `address`; `None` if it is not an instruction.
pub(super) fn text(extensions: RiscvExtensions, isa: Isa, address: u64, opcode: u32) -> Option<String> {
    if opcode == URET {
        return Some("uret".to_string());
    }
    let text = instruction(extensions, isa, address, opcode)?.to_string();
    let (mnemonic, operands) = text.split_once(' ').unwrap_or((&text, ""));
    Some(join(mnemonic, &operands.replace(',', ", ")))
}

/// The mnemonic of `opcode`; `None` if it is not an instruction.
pub(super) fn mnemonic(extensions: RiscvExtensions, isa: Isa, opcode: u32) -> Option<&'static str> {
    if opcode == URET {
        return Some("uret");
    }
    let instruction = instruction(extensions, isa, 0, opcode)?;
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

/// The return from a trap to user mode is from a draft that some traces use; the library does not have it.
const URET: u32 = 0x0020_0073;

/// The instruction. The library accepts some reserved encodings: rounding modes and groups of registers.
fn instruction(extensions: RiscvExtensions, isa: Isa, address: u64, opcode: u32) -> Option<Instruction> {
    let base = if isa == Isa::Rv32 { disc_v::Isa::Rv32 } else { disc_v::Isa::Rv64 };
    let encoding = u64::from(encoding(opcode));
    let instruction = if extensions.claims(opcode) {
        Decoder::with_only(base, [Extension::Zcmp, Extension::Zcmt]).ok()?.decode(address, encoding)
    } else {
        decode(base, address, encoding)
    };
    let is_reserved = extensions.classes(isa, opcode).is_empty();
    (!is_reserved && !instruction.is_illegal()).then_some(instruction)
}

/// The opcode without the bits above an instruction of two bytes.
fn encoding(opcode: u32) -> u32 {
    if Isa::Rv64.length(opcode as u16) == 2 { opcode & 0xffff } else { opcode }
}

/// The directive for an opcode that is not an instruction.
pub(super) fn unknown(opcode: u32) -> String {
    let digits = 2 * usize::from(Isa::Rv64.length(opcode as u16));
    format!(".insn 0x{:0digits$x}", encoding(opcode))
}
