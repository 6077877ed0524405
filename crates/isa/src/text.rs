//! Disassembly.
//!
//! (instruction set, address, opcode) ─▶ **text**, **mnemonic**
//!
//! Three libraries disassemble; this file makes their output uniform: lower case, one blank after the mnemonic, branch
//! targets as addresses, and `.inst` or `.insn` for what is not an instruction. It has no state: an instruction in an IT
//! block is disassembled as if it were alone.

use core::fmt;
use std::borrow::Cow;
use std::format;
use std::string::{String, ToString};

use capstone::Capstone;
use capstone::arch::arm::{ArchExtraMode, ArchMode, ArchSyntax};
use capstone::arch::{BuildsCapstone, BuildsCapstoneExtraMode, BuildsCapstoneSyntax};
use fARM64::format::{FmtFormatter, Formatter};
use fARM64::{Decoder, DecoderOptions};

use crate::{Isa, RiscvExtensions, decode};

mod operands;
mod relative;
mod riscv;

pub use operands::{Operands, Register};
pub use relative::{RelativeTarget, RelativeText};

/// Disassembles instructions. Expensive to create, so one of them should serve many instructions.
pub struct Disassembler {
    /// The RISC-V extensions that give other meanings to opcodes.
    pub extensions: RiscvExtensions,
    a64: FmtFormatter,
    a32: Option<Capstone>,
    t32: Option<Capstone>,
}

impl Disassembler {
    /// Sets up the disassemblers. If one is out of memory, its instructions are disassembled as `.inst`.
    pub fn new() -> Self {
        Self {
            extensions: RiscvExtensions::default(),
            a64: FmtFormatter::new(),
            a32: build(ArchMode::Arm),
            t32: build(ArchMode::Thumb),
        }
    }

    /// The text of `opcode` at `address`; the opcode has the layout that [`decode`](crate::decode()) takes.
    pub fn text(&mut self, isa: Isa, address: u64, opcode: u32) -> String {
        let text = match isa {
            Isa::A64 => self.a64(address, opcode),
            Isa::A32 => aarch32(self.a32.as_ref(), address, opcode, &opcode.to_le_bytes()),
            Isa::T32 => self.t32(address, opcode),
            Isa::Rv32 | Isa::Rv64 => riscv::text(self.extensions, isa, address, opcode),
        };
        match text {
            Some(text) if matches!(isa, Isa::A32 | Isa::T32) && decode(isa, address, opcode).target.is_some() => {
                text.replace('#', "")
            }
            Some(text) => text,
            None => unknown(isa, opcode),
        }
    }

    /// The mnemonic of `opcode`, or `None` if it is not an instruction.
    ///
    /// For RISC-V it is that of the encoding, as the tools that came with STF print it: `c.ldsp`, `addi`, `amoadd.w`.
    /// Aliases are not used, except for hints, `li`, `mv` and `nop`.
    pub fn mnemonic(&mut self, isa: Isa, opcode: u32) -> Option<Cow<'static, str>> {
        if isa.is_riscv() {
            return riscv::mnemonic(self.extensions, isa, opcode).map(Cow::Borrowed);
        }
        let text = self.text(isa, 0, opcode);
        let name = text.split_ascii_whitespace().next().filter(|name| !name.starts_with(".inst"));
        name.map(|name| Cow::Owned(name.to_string()))
    }

    fn a64(&self, address: u64, word: u32) -> Option<String> {
        let bytes = word.to_le_bytes();
        let instruction = Decoder::new(&bytes, address, DecoderOptions::new()).decode();
        if instruction.is_invalid() {
            return None;
        }
        let mut text = String::new();
        self.a64.format(&instruction, &mut text);
        let (mnemonic, operands) = text.split_once(' ').unwrap_or((&text, ""));
        Some(join(mnemonic, &with_tiles(word, mnemonic, operands.trim_start())))
    }

    fn t32(&self, address: u64, opcode: u32) -> Option<String> {
        let [first, second] = [opcode >> 16, opcode & 0xffff].map(|half| (half as u16).to_le_bytes());
        if Isa::T32.length((opcode >> 16) as u16) == 2 {
            return aarch32(self.t32.as_ref(), address, opcode, &second);
        }
        let bytes = [first, second];
        aarch32(self.t32.as_ref(), address, opcode, bytes.as_flattened()).or_else(|| low_overhead_loop(address, opcode))
    }
}

impl Default for Disassembler {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Disassembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disassembler").finish_non_exhaustive()
    }
}

fn build(mode: ArchMode) -> Option<Capstone> {
    let arm = Capstone::new().arm().mode(mode).extra_mode([ArchExtraMode::V8].into_iter());
    // Its own names for r9 to r12 (sb, sl, fp, ip) are those of a procedure call standard long gone.
    arm.syntax(ArchSyntax::NoRegName).build().ok()
}

fn aarch32(capstone: Option<&Capstone>, address: u64, opcode: u32, bytes: &[u8]) -> Option<String> {
    let instructions = capstone?.disasm_count(bytes, address, 1).ok()?;
    let instruction = instructions.first().filter(|instruction| instruction.len() == bytes.len())?;
    let mnemonic = instruction.mnemonic()?;
    // capstone 0.14 prints a number where the register of RFE should be.
    match mnemonic.starts_with("rfe") {
        true => Some(join(mnemonic, &format!("{}{}", register(opcode), if opcode >> 21 & 1 == 1 { "!" } else { "" }))),
        false => Some(join(mnemonic, instruction.op_str().unwrap_or_default())),
    }
}

/// The loops of Armv8.1-M, which capstone 0.14 does not know.
fn low_overhead_loop(address: u64, word: u32) -> Option<String> {
    let branches = word & 0x2000 == 0;
    let size = 8 << (word >> 20 & 0b11);
    let head = match word >> 16 {
        _ if word & 0xff80_d001 != 0xf000_c001 => return None,
        0xf00f if branches => "le lr".to_string(),
        0xf01f if branches => "letp lr".to_string(),
        0xf02f if branches => "le".to_string(),
        0xf00f => "lctp".to_string(),
        0xf01f | 0xf02f | 0xf03f | 0xf04f => return None,
        0xf000..=0xf03e if branches => format!("wlstp.{size} lr, {}", register(word)),
        0xf000..=0xf03e => format!("dlstp.{size} lr, {}", register(word)),
        0xf040..=0xf04e if branches => format!("wls lr, {}", register(word)),
        0xf040..=0xf04e => format!("dls lr, {}", register(word)),
        _ => return None,
    };
    let Some(target) = decode(Isa::T32, address, word).target_address() else { return Some(head) };
    let separator = if head == "le" { " " } else { ", " };
    Some(format!("{head}{separator}{target:#x}"))
}

/// The name of the register in bits 16 to 19.
fn register(opcode: u32) -> String {
    match opcode >> 16 & 0xf {
        13 => "sp".to_string(),
        14 => "lr".to_string(),
        15 => "pc".to_string(),
        number => format!("r{number}"),
    }
}

fn join(mnemonic: &str, operands: &str) -> String {
    if operands.is_empty() { mnemonic.to_string() } else { format!("{mnemonic} {operands}") }
}

fn unknown(isa: Isa, opcode: u32) -> String {
    match isa {
        Isa::Rv32 | Isa::Rv64 => riscv::unknown(opcode),
        Isa::T32 if Isa::T32.length((opcode >> 16) as u16) == 2 => format!(".inst.n 0x{:04x}", opcode & 0xffff),
        _ => format!(".inst 0x{opcode:08x}"),
    }
}

/// Calls the tiles of the matrix ZA by their names: `fARM64` 0.1 takes them for vectors, and forgets the number of those
/// that are loaded or stored, the braces around them and the offset zero of the widest.
fn with_tiles(word: u32, mnemonic: &str, operands: &str) -> String {
    let is_outer_product = mnemonic.contains("mop") || matches!(mnemonic, "addha" | "addva");
    if let Some(tile) = operands.strip_prefix('z').filter(|tile| is_outer_product && !tile.starts_with('a')) {
        return format!("za{tile}");
    }
    let Some((before, number, after)) = slice(operands) else { return operands.to_string() };
    let after = if after.contains(".q[") && !after.contains(", #") {
        after.replacen(']', ", #0x0]", 1)
    } else {
        after.to_string()
    };
    if word >> 25 == 0xe0 >> 1 {
        return format!("{before}{{za{}{}", tile_accessed(word, &after), after.replacen(']', "]}", 1));
    }
    format!("{before}za{number}{after}")
}

/// The text before, in and after the number of a tile slice: only there a direction follows the number.
fn slice(operands: &str) -> Option<(&str, &str, &str)> {
    operands.match_indices('z').find_map(|(start, _)| {
        let rest = &operands[start + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        (digits > 0 && after.starts_with(['h', 'v'])).then_some((&operands[..start], number, after))
    })
}

/// The tile that a load or store names: the wider the elements, the more tiles and the fewer slices share four bits.
fn tile_accessed(word: u32, after: &str) -> u32 {
    let bits_of_tile = match after.as_bytes().get(2) {
        Some(b'h') => 1,
        Some(b's') => 2,
        Some(b'd') => 3,
        Some(b'q') => 4,
        _ => 0,
    };
    (word & 0xf) >> (4 - bits_of_tile)
}
