//! Pairs of instructions that processors may execute as one.
//!
//! two instructions ─▶ **the kind of pair**, if they are one
//!
//! The second instruction has to read what the first one writes. Which pairs a processor really fuses is its own: these are those
//! that public optimization guides and the RISC-V literature name. Facts: Arm Cortex and Neoverse software optimization guides,
//! "The Renewed Case for the Reduced Instruction Set Computer: Avoiding ISA Bloat with Macro-Op Fusion".

use unspool_isa::{Disassembler, Isa, OpcodeCache, Operands, Register};

/// Kind, first mnemonics, second mnemonics, and whether both write the same register.
type Rule = (&'static str, &'static [&'static str], &'static [&'static str], bool);

const A64: [Rule; 7] = [
    ("compare and branch", &["cmp", "cmn", "tst", "subs", "adds", "ands", "bics"], &["b."], false),
    (
        "compare and select",
        &["cmp", "cmn", "tst"],
        &["csel", "cset", "csinc", "csinv", "csneg", "csetm", "cinc"],
        false,
    ),
    ("address of a symbol", &["adrp"], &["add"], true),
    ("load from a page", &["adrp"], &["ldr", "ldrb", "ldrh", "ldrsw"], false),
    ("long constant", &["mov", "movz", "movn", "movk"], &["movk"], true),
    ("encryption round", &["aese"], &["aesmc"], true),
    ("decryption round", &["aesd"], &["aesimc"], true),
];

const AARCH32: [Rule; 2] = [
    ("compare and branch", &["cmp", "cmn", "tst", "teq"], &["b"], false),
    ("long constant", &["movw"], &["movt"], true),
];

const RISCV: [Rule; 7] = [
    ("long constant", &["lui", "c.lui"], &["addi", "addiw", "c.addi", "c.addiw"], true),
    ("address of a symbol", &["auipc"], &["addi", "c.addi"], true),
    ("call or jump far away", &["auipc", "lui"], &["jalr", "c.jr", "c.jalr"], false),
    (
        "load from far away",
        &["auipc", "lui", "c.lui"],
        &["lb", "lbu", "lh", "lhu", "lw", "lwu", "ld", "c.lw", "c.ld"],
        false,
    ),
    ("zero extension", &["slli", "c.slli"], &["srli", "c.srli"], true),
    ("indexed address", &["slli", "c.slli"], &["add", "c.add"], true),
    (
        "indexed load",
        &["add", "c.add", "sh1add", "sh2add", "sh3add"],
        &["lw", "ld", "c.lw", "c.ld", "lbu", "lhu"],
        false,
    ),
];

/// An instruction as the rules see it.
#[derive(Debug, Clone)]
struct Known {
    mnemonic: String,
    operands: Operands,
}

/// Recognizes pairs.
pub struct Fusion {
    disassembler: Disassembler,
    known: OpcodeCache<(Isa, u32), Known>,
}

impl Default for Fusion {
    fn default() -> Self {
        Self { disassembler: Disassembler::new(), known: OpcodeCache::new(14) }
    }
}

impl Fusion {
    /// The kind of pair that two opcodes are, executed one after the other.
    pub fn kind(&mut self, isa: Isa, first: u32, second: u32) -> Option<&'static str> {
        let first = self.known(isa, first).clone();
        let rules = match isa {
            Isa::A64 => &A64[..],
            Isa::A32 | Isa::T32 => &AARCH32,
            Isa::Rv32 | Isa::Rv64 => &RISCV,
        };
        if !rules.iter().any(|(_, firsts, ..)| firsts.contains(&first.mnemonic.as_str())) {
            return None;
        }
        let second = self.known(isa, second);
        let rule = rules.iter().find(|rule| fits(rule, &first, second))?;
        Some(rule.0)
    }

    fn known(&mut self, isa: Isa, opcode: u32) -> &Known {
        let Self { disassembler, known } = self;
        known.get_or_insert_with((isa, opcode), || {
            let text = disassembler.text(isa, 0, opcode);
            let mnemonic = disassembler.mnemonic(isa, opcode).map_or_else(String::new, Into::into);
            Known { mnemonic, operands: Operands::of(isa, opcode, &text) }
        })
    }
}

fn fits((_, firsts, seconds, is_same): &Rule, first: &Known, second: &Known) -> bool {
    // Conditional branches have the condition in their mnemonic, and name no flags.
    let is_branch = |name: &str| (name == "b." || name == "b") && is_conditional_branch(&second.mnemonic);
    let by_name = firsts.contains(&first.mnemonic.as_str())
        && seconds.iter().any(|name| second.mnemonic == *name && *name != "b" || is_branch(name));
    let written = &first.operands.destinations;
    let reads = |register: &Register| second.operands.sources.contains(register);
    let writes_same = || written.iter().all(|register| second.operands.destinations.contains(register));
    let keeps = |register: &Register| *is_same && second.operands.destinations.contains(register);
    let depends = written.iter().any(|register| reads(register) || keeps(register))
        || written.contains(&Register::Flags) && is_conditional_branch(&second.mnemonic);
    by_name && depends && (!is_same || writes_same())
}

fn is_conditional_branch(mnemonic: &str) -> bool {
    const CONDITIONS: [&str; 17] =
        ["eq", "ne", "hs", "lo", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", "al"];
    let rest = mnemonic.strip_prefix('b').map(|rest| rest.trim_start_matches('.').trim_end_matches(".w"));
    rest.is_some_and(|rest| CONDITIONS.contains(&rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_depend_on_each_other() {
        let rows: &[(Isa, u32, u32, Option<&str>)] = &[
            // cmp x0, #1; b.eq
            (Isa::A64, 0xf100_041f, 0x5400_0080, Some("compare and branch")),
            // adrp x0; add x0, x0, #8, and one to another register
            (Isa::A64, 0x9000_0000, 0x9100_2000, Some("address of a symbol")),
            (Isa::A64, 0x9000_0000, 0x9100_2021, None),
            // adrp x0; ldr x1, [x0, #8], and ldr x1, [x2]
            (Isa::A64, 0x9000_0000, 0xf940_0401, Some("load from a page")),
            (Isa::A64, 0x9000_0000, 0xf940_0041, None),
            // mov x0, #1; movk x0, #2, lsl #16; nop
            (Isa::A64, 0xd280_0020, 0xf2a0_0040, Some("long constant")),
            (Isa::A64, 0xd280_0020, 0xd503_201f, None),
            // movw r0, #1; movt r0, #2; cmp r0, #1; beq
            (Isa::A32, 0xe300_0001, 0xe340_0002, Some("long constant")),
            (Isa::A32, 0xe350_0001, 0x0a00_0000, Some("compare and branch")),
            // lui a0, 1; addi a0, a0, 1; auipc ra, 0; jalr ra; slli a0, a0, 32; srli a0, a0, 32
            (Isa::Rv64, 0x0000_1537, 0x0015_0513, Some("long constant")),
            (Isa::Rv64, 0x0000_0097, 0x0000_80e7, Some("call or jump far away")),
            (Isa::Rv64, 0x0205_1513, 0x0205_5513, Some("zero extension")),
            (Isa::Rv64, 0x0205_1513, 0x0205_d593, None),
        ];
        let mut fusion = Fusion::default();
        for (isa, first, second, expected) in rows {
            assert_eq!(fusion.kind(*isa, *first, *second), *expected, "{first:#x} {second:#x}");
        }
    }
}
