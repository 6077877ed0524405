//! How an instruction reads.
//!
//! (instruction set, address, opcode) ─▶ **text**
//!
//! Three libraries know the names; this room makes them speak alike: lower case, one blank behind the mnemonic, the
//! targets of branches as addresses, and `.inst` for what is no instruction. It knows no state: what follows an IT
//! instruction reads as if it stood alone.

use core::fmt;
use std::format;
use std::string::{String, ToString};

use capstone::Capstone;
use capstone::arch::arm::{ArchExtraMode, ArchMode, ArchSyntax};
use capstone::arch::{BuildsCapstone, BuildsCapstoneExtraMode, BuildsCapstoneSyntax};
use fARM64::format::{FmtFormatter, Formatter};
use fARM64::{Decoder, DecoderOptions};

use crate::{Isa, RiscvExtensions, Xlen, facts, t32_length};

mod riscv;

pub use riscv::riscv_mnemonic;

/// Writes instructions as text.
///
/// Holds what is expensive to set up, so one of them should serve many instructions.
pub struct Disassembler {
    a64: FmtFormatter,
    a32: Option<Capstone>,
    t32: Option<Capstone>,
}

impl Disassembler {
    /// Sets up the disassemblers. One that cannot be had, for want of memory, makes its instructions read `.inst`.
    pub fn new() -> Self {
        Self { a64: FmtFormatter::new(), a32: build(ArchMode::Arm), t32: build(ArchMode::Thumb) }
    }

    /// The text of `opcode` at `address`; the opcode is laid out as for [`facts`](crate::facts()).
    pub fn text(&mut self, isa: Isa, address: u64, opcode: u32) -> String {
        let text = match isa {
            Isa::A64 => self.a64(address, opcode),
            Isa::A32 => aarch32(self.a32.as_ref(), address, opcode, &opcode.to_le_bytes()),
            Isa::T32 => self.t32(address, opcode),
        };
        match text {
            Some(text) if isa != Isa::A64 && facts(isa, address, opcode).target.is_some() => text.replace('#', ""),
            Some(text) => text,
            None => unknown(isa, opcode),
        }
    }

    /// The text of the RISC-V instruction `opcode` at `address`; the opcode is laid out as for
    /// [`riscv_facts`](crate::riscv_facts()).
    pub fn riscv(&mut self, xlen: Xlen, address: u64, opcode: u32) -> String {
        riscv::text(RiscvExtensions::default(), xlen, address, opcode)
    }

    /// The same where there are extensions that give other meanings to opcodes.
    pub fn riscv_with(&mut self, extensions: RiscvExtensions, xlen: Xlen, address: u64, opcode: u32) -> String {
        riscv::text(extensions, xlen, address, opcode)
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
        if t32_length((opcode >> 16) as u16) == 2 {
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
    let Some(target) = facts(Isa::T32, address, word).target else { return Some(head) };
    let separator = if head == "le" { " " } else { ", " };
    Some(format!("{head}{separator}{:#x}", target.address))
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
        Isa::T32 if t32_length((opcode >> 16) as u16) == 2 => format!(".inst.n 0x{:04x}", opcode & 0xffff),
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

/// What is before, in and behind the number of a slice of a tile: only there a direction follows the number.
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
