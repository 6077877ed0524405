//! Zcmp and Zcmt: pushes and pops of several registers, moves of pairs, and jumps by a table.
//!
//! (width, halfword) ─▶ **facts**
//!
//! They have the place of `c.fsdsp`, so that only the list of extensions tells what a halfword there is. The table of
//! Zcmt is read as instructions are, and so is no access.
//! Specification: The RISC-V Instruction Set Manual, volume I, "Zc*".

use super::{
    ARITH, Class, Classes, LOAD, RiscvAccess, RiscvFacts, RiscvFlow, STORE, Xlen, field, jump_by_register, riscv_facts,
};

/// Which of the extensions there are that give other meanings to opcodes.
///
/// ```
/// use unspool_isa::{RiscvExtensions, Xlen};
///
/// let extensions = RiscvExtensions::of(b"rv32imac_zicsr_zcmp");
/// assert!(extensions.zcmp && !extensions.zcmt);
/// // cm.push {ra, s0}, -16
/// assert_eq!(extensions.facts(Xlen::Rv32, 0, 0xb852).bytes, Some(8));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RiscvExtensions {
    /// Pushes, pops, and moves of pairs.
    pub zcmp: bool,
    /// Jumps by a table.
    pub zcmt: bool,
}

impl RiscvExtensions {
    /// Those in a list such as `rv32imac_zcmp_zcmt1p0`, in letters of any case.
    ///
    /// With both C and D there is `c.fsdsp`, and so none of them: such a list contradicts itself if it has them.
    pub fn of(list: &[u8]) -> Self {
        let mut parts = list.split(|byte| *byte == b'_');
        let letters = parts.next().unwrap_or_default();
        let letters = letters.get(4..).unwrap_or_default();
        let has_letter = |letter: u8| letters.iter().any(|other| other.eq_ignore_ascii_case(&letter));
        let has = |name: &[u8]| parts.clone().any(|part| is_named(part, name));
        let has_double = (has_letter(b'd') || has_letter(b'g')) && has_letter(b'c') || has(b"zcd");
        Self { zcmp: !has_double && (has(b"zcmp") || has(b"zce")), zcmt: !has_double && (has(b"zcmt") || has(b"zce")) }
    }

    /// Is it an opcode that these extensions have for themselves?
    #[inline]
    pub const fn claims(self, opcode: u32) -> bool {
        (self.zcmp || self.zcmt) && opcode & 0xe003 == 0xa002
    }

    /// What `opcode` does at `address` where there are these extensions; else see [`riscv_facts`].
    #[inline]
    pub fn facts(self, xlen: Xlen, address: u64, opcode: u32) -> RiscvFacts {
        if self.claims(opcode) { claimed(self, xlen, opcode & 0xffff) } else { riscv_facts(xlen, address, opcode) }
    }
}

/// Is it the name, or the name and a version?
fn is_named(part: &[u8], name: &[u8]) -> bool {
    match part.split_at_checked(name.len()) {
        Some((start, rest)) => start.eq_ignore_ascii_case(name) && rest.first().is_none_or(u8::is_ascii_digit),
        None => false,
    }
}

fn claimed(extensions: RiscvExtensions, xlen: Xlen, half: u32) -> RiscvFacts {
    let facts = match (field(half, 8, 5), field(half, 5, 2)) {
        // cm.jt, cm.jalt
        (0b00000..=0b00011, _) if extensions.zcmt => jump_by_table(field(half, 2, 8)),
        _ if !extensions.zcmp => RiscvFacts::NOTHING,
        (0b11000, _) => stack(RiscvAccess::Store, xlen, half, STORE),
        (0b11010, _) => stack(RiscvAccess::Load, xlen, half, LOAD),
        // cm.popretz, cm.popret
        (0b11100 | 0b11110, _) => returning(stack(RiscvAccess::Load, xlen, half, LOAD)),
        // cm.mvsa01: two registers that differ
        (0b01100..=0b01111, 0b01) => RiscvFacts::computes(MOVE).when(field(half, 7, 3) != field(half, 2, 3)),
        // cm.mva01s
        (0b01100..=0b01111, 0b11) => RiscvFacts::computes(MOVE),
        _ => RiscvFacts::NOTHING,
    };
    RiscvFacts { length: 2, ..facts }
}

const MOVE: Classes = ARITH.with(Class::Move);

/// The registers of a list: `ra` alone, and with it one to ten saved registers, or all twelve.
const fn stack(access: RiscvAccess, xlen: Xlen, half: u32, classes: Classes) -> RiscvFacts {
    let count = match field(half, 4, 4) as u16 {
        15 => 13,
        list @ 4..=14 => list - 3,
        _ => return RiscvFacts::NOTHING,
    };
    let width = match xlen {
        Xlen::Rv32 => 4,
        Xlen::Rv64 => 8,
    };
    RiscvFacts::accesses(access, Some(count * width), classes)
}

/// These facts, and then returns.
const fn returning(facts: RiscvFacts) -> RiscvFacts {
    let classes = facts.classes.with(Class::Branch).with(Class::Jalr);
    let is_instruction = !facts.classes.is_empty();
    RiscvFacts { flow: RiscvFlow::IndirectJump, ret: true, classes, ..facts }.when(is_instruction)
}

/// The first 32 entries of the table are jumps, and the others calls.
const fn jump_by_table(index: u32) -> RiscvFacts {
    RiscvFacts { ret: false, ..jump_by_register(0, (index >= 32) as u32) }
}
