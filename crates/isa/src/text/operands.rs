//! The registers that an instruction reads and writes, as its disassembly names them.
//!
//! text, destinations ─▶ **registers**
//!
//! Decoders know what A64 and RISC-V instructions write; everything else comes from the operands. A register is read wherever it is named,
//! except where it is named first as a destination, outside of an address. Registers that no operand names are missing, such as the
//! old value that `movk` keeps. Meant for models of dependencies.

use std::vec::Vec;

use crate::{Destinations, Isa, decode, destinations};

/// A register of a model: general, floating-point or vector, or the condition flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Register {
    /// A general register, by its number; zero registers and the PC are none.
    General(u8),
    /// The stack pointer.
    Stack,
    /// A floating-point or vector register, by its number.
    Float(u8),
    /// The condition flags.
    Flags,
}

/// Registers of an instruction, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operands {
    /// Registers that it reads.
    pub sources: Vec<Register>,
    /// Registers that it writes.
    pub destinations: Vec<Register>,
}

impl Operands {
    /// The operands of an instruction with this text.
    pub fn of(isa: Isa, opcode: u32, text: &str) -> Self {
        let (mnemonic, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mentions = mentions(isa, rest);
        let mut operands = Self { sources: Vec::new(), destinations: written(isa, opcode, mnemonic, &mentions) };
        // The text of a jump leaves its destination out.
        let is_jump = isa.is_riscv() && decode(isa, 0, opcode).flow.is_branch();
        let mut seen = Vec::new();
        for mention in mentions {
            let is_result = !is_jump
                && operands.destinations.contains(&mention.register)
                && !mention.is_address
                && !seen.contains(&mention.register);
            seen.push(mention.register);
            if !is_result {
                push(&mut operands.sources, mention.register);
            }
        }
        if reads_flags(isa, opcode, mnemonic) {
            push(&mut operands.sources, Register::Flags);
        }
        operands
    }
}

/// A register in the text of an operand.
#[derive(Debug, Clone, Copy)]
struct Mention {
    register: Register,
    /// Within the brackets or parentheses of an address.
    is_address: bool,
    /// Within the braces of a list.
    is_list: bool,
}

fn push(list: &mut Vec<Register>, register: Register) {
    if !list.contains(&register) {
        list.push(register);
    }
}

fn mentions(isa: Isa, operands: &str) -> Vec<Mention> {
    let (mut found, mut word_start) = (Vec::new(), None);
    let (mut is_address, mut is_list) = (false, false);
    let end = operands.len();
    for (at, letter) in operands.char_indices().chain([(end, ' ')]) {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            word_start.get_or_insert(at);
            continue;
        }
        if let Some(start) = word_start.take()
            && let Some(register) = operands.get(start..at).and_then(|word| register(isa, word))
        {
            found.push(Mention { register, is_address, is_list });
        }
        match letter {
            '[' | '(' => is_address = true,
            ']' | ')' => is_address = false,
            '{' => is_list = true,
            '}' => is_list = false,
            _ => {}
        }
    }
    found
}

/// The registers that are written: decoded, or the first operand in AArch32.
fn written(isa: Isa, opcode: u32, mnemonic: &str, mentions: &[Mention]) -> Vec<Register> {
    let mut all = Vec::new();
    if !matches!(isa, Isa::A32 | Isa::T32) {
        let Destinations { general, float, status } = destinations(isa, opcode);
        let numbers = |bits: u32| (0..32_u8).filter(move |number| bits >> number & 1 == 1);
        all.extend(numbers(general).filter_map(|number| general_register(isa, number)));
        all.extend(numbers(float).map(Register::Float));
        all.extend(status.then_some(Register::Flags));
        return all;
    }
    let starts = |names: &[&str]| names.iter().any(|name| mnemonic.starts_with(name));
    let is_list_load = starts(&["ldm", "pop", "vldm", "vpop", "vld"]);
    match () {
        () if starts(&["cmp", "cmn", "tst", "teq", "vcmp"]) => all.push(Register::Flags),
        () if starts(&["st", "push", "vst", "vpush", "pld", "b"]) && !starts(&["bic", "bf"]) => {}
        () if is_list_load => {
            mentions.iter().filter(|mention| mention.is_list).for_each(|mention| push(&mut all, mention.register));
        }
        () => {
            let count = if starts(&["ldrd", "ldrexd", "smull", "umull", "smlal", "umlal"]) { 2 } else { 1 };
            mentions.iter().take(count).for_each(|mention| push(&mut all, mention.register));
        }
    }
    all
}

/// Whether the result depends on the flags.
fn reads_flags(isa: Isa, opcode: u32, mnemonic: &str) -> bool {
    const NAMES: [&str; 16] = [
        "csel", "csinc", "csinv", "csneg", "cset", "csetm", "cinc", "cinv", "cneg", "ccmp", "ccmn", "adc", "adcs",
        "sbc", "sbcs", "fcsel",
    ];
    let by_name = matches!(isa, Isa::A64 | Isa::A32 | Isa::T32) && NAMES.contains(&mnemonic);
    by_name || matches!(isa, Isa::A32) && decode(isa, 0, opcode).conditional
}

/// The register with this name, if it is one.
fn register(isa: Isa, word: &str) -> Option<Register> {
    let split = word.find(|letter: char| letter.is_ascii_digit()).unwrap_or(word.len());
    let (letters, digits) = word.split_at(split);
    let number: Option<u8> = digits.parse().ok().filter(|number| *number < 32);
    match isa {
        Isa::A64 => match (letters, number) {
            ("sp" | "wsp", None) => Some(Register::Stack),
            ("x" | "w", Some(number)) => general_register(isa, number).filter(|_| number < 31),
            ("v" | "q" | "d" | "s" | "h" | "b" | "z", Some(number)) => Some(Register::Float(number)),
            _ => None,
        },
        Isa::A32 | Isa::T32 => match (letters, number) {
            ("r", Some(number)) => general_register(isa, number),
            ("d" | "q" | "s", Some(number)) => Some(Register::Float(number)),
            _ => {
                let names = [("sb", 9), ("sl", 10), ("fp", 11), ("ip", 12), ("sp", 13), ("lr", 14)];
                let found = names.iter().find(|(name, _)| *name == word)?;
                general_register(isa, found.1)
            }
        },
        Isa::Rv32 | Isa::Rv64 => riscv_register(isa, word, letters, number),
    }
}

fn riscv_register(isa: Isa, word: &str, letters: &str, number: Option<u8>) -> Option<Register> {
    let general = |number| general_register(isa, number);
    match (letters, number) {
        ("ra", None) => general(1),
        ("sp", None) => Some(Register::Stack),
        ("gp", None) => general(3),
        ("tp", None) => general(4),
        ("x", Some(number)) => general(number),
        ("t", Some(number @ 0..=2)) => general(5 + number),
        ("t", Some(number @ 3..=6)) => general(25 + number),
        ("s", Some(number @ 0..=1)) => general(8 + number),
        ("s", Some(number @ 2..=11)) => general(16 + number),
        ("a", Some(number @ 0..=7)) => general(10 + number),
        ("ft", Some(number @ 0..=7)) => Some(Register::Float(number)),
        ("ft", Some(number @ 8..=11)) => Some(Register::Float(20 + number)),
        ("fs", Some(number @ 0..=1)) => Some(Register::Float(8 + number)),
        ("fs", Some(number @ 2..=11)) => Some(Register::Float(16 + number)),
        ("fa", Some(number @ 0..=7)) => Some(Register::Float(10 + number)),
        ("f" | "v", Some(number)) => Some(Register::Float(number)),
        _ if word == "fp" => general(8),
        _ => None,
    }
}

fn general_register(isa: Isa, number: u8) -> Option<Register> {
    match (isa, number) {
        (Isa::A64, 31) | (Isa::A32 | Isa::T32, 13) | (Isa::Rv32 | Isa::Rv64, 2) => Some(Register::Stack),
        (Isa::A32 | Isa::T32, 15..) | (Isa::Rv32 | Isa::Rv64, 0) => None,
        _ => Some(Register::General(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disassembler;

    #[test]
    fn operands_are_read_and_written() {
        use Register::{Flags, Float, General, Stack};
        type Row<'r> = (Isa, u32, &'r [Register], &'r [Register]);
        let rows: &[Row<'_>] = &[
            // add x0, x0, x1; ldp x29, x30, [sp], #16; str x0, [x1, #8]!; cmp x0, #1; csel x0, x1, x2, eq
            (Isa::A64, 0x8b01_0000, &[General(0), General(1)], &[General(0)]),
            (Isa::A64, 0xa8c1_7bfd, &[Stack], &[General(29), General(30), Stack]),
            (Isa::A64, 0xf800_8c20, &[General(0), General(1)], &[General(1)]),
            (Isa::A64, 0xf100_041f, &[General(0)], &[Flags]),
            (Isa::A64, 0x9a82_0020, &[General(1), General(2), Flags], &[General(0)]),
            // fadd d0, d1, d2
            (Isa::A64, 0x1e62_2820, &[Float(1), Float(2)], &[Float(0)]),
            // ldr r0, [r1, r2]; pop {r4, pc}; stmdb sp!, {r4, lr}
            (Isa::A32, 0xe791_0002, &[General(1), General(2)], &[General(0)]),
            (Isa::T32, 0xbd10, &[], &[General(4)]),
            (Isa::A32, 0xe92d_4010, &[General(4), General(14)], &[]),
            // c.ldsp ra, 8(sp); addi a0, a1, 1; fadd.d fa0, fa1, fa2
            (Isa::Rv64, 0x60a2, &[Stack], &[General(1)]),
            (Isa::Rv64, 0x0015_8513, &[General(11)], &[General(10)]),
            (Isa::Rv64, 0x02c5_f553, &[Float(11), Float(12)], &[Float(10)]),
            // jalr ra; c.addi a0, 1; c.slli a0, 32; c.add a0, a1; c.mv a0, a1
            (Isa::Rv64, 0x0000_80e7, &[General(1)], &[General(1)]),
            (Isa::Rv64, 0x0505, &[General(10)], &[General(10)]),
            (Isa::Rv64, 0x1502, &[General(10)], &[General(10)]),
            (Isa::Rv64, 0x952e, &[General(10), General(11)], &[General(10)]),
            (Isa::Rv64, 0x852e, &[General(11)], &[General(10)]),
        ];
        let mut disassembler = Disassembler::new();
        for (isa, opcode, sources, destinations) in rows {
            let text = disassembler.text(*isa, 0, *opcode);
            let found = Operands::of(*isa, *opcode, &text);
            let mut expected = Operands { sources: sources.to_vec(), destinations: destinations.to_vec() };
            expected.destinations.sort();
            let mut sorted = found.clone();
            sorted.destinations.sort();
            assert_eq!(sorted, expected, "{text}");
        }
    }
}
