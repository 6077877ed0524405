//! The words: instruction sets, kinds of instructions, and what is known of one of them.

use crate::{a32, a64, t32};

/// An instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isa {
    /// The instructions of AArch64.
    #[default]
    A64,
    /// The 32-bit instructions of AArch32.
    A32,
    /// The 16-bit and 32-bit instructions of AArch32 (Thumb).
    T32,
}

/// What kind of instruction it is, in the eyes of a trace unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// None of those below: execution goes on behind it.
    #[default]
    Other,
    /// A branch whose target the opcode tells.
    Direct,
    /// A branch whose target the opcode does not tell, an exception return among them.
    Indirect,
    /// An instruction synchronisation barrier.
    Isb,
    /// Waits for an interrupt or event: WFI, WFE, WFIT, WFET. A P0 instruction on some trace units.
    Wfx,
    /// Starts a transaction (TSTART). A P0 instruction where transactions are traced.
    TransactionStart,
}

/// Where a direct branch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// The address.
    pub address: u64,
    /// The instruction set there.
    pub isa: Isa,
}

/// What is known of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Its kind.
    pub kind: Kind,
    /// How many bytes it has.
    pub length: u8,
    /// It may also do nothing: its condition can fail. What an IT block makes conditional is not counted here.
    pub conditional: bool,
    /// Writes a return address into the link register.
    pub link: bool,
    /// Returns from a function.
    pub ret: bool,
    /// Returns from an exception.
    pub eret: bool,
    /// Where it goes; `None` if it is no direct branch.
    pub target: Option<Target>,
    /// How many instructions behind it an IT instruction makes conditional.
    pub it: u8,
}

/// What `opcode` does at `address`.
///
/// A T32 opcode of four bytes has its first halfword in the high half; one of two bytes has zeros there. Of what the
/// architecture calls unpredictable or unallocated nothing is claimed: it is [`Kind::Other`].
#[inline]
pub fn facts(isa: Isa, address: u64, opcode: u32) -> Facts {
    match isa {
        Isa::A64 => a64::facts(address, opcode),
        Isa::A32 => a32::facts(address, opcode),
        Isa::T32 => match t32_length((opcode >> 16) as u16) {
            4 => t32::wide(address, opcode),
            _ => t32::narrow(address, opcode as u16),
        },
    }
}

/// How many bytes the T32 instruction has that starts with this halfword.
#[inline]
pub fn t32_length(first: u16) -> u8 {
    if first >> 11 >= 0b11101 { 4 } else { 2 }
}

/// One line of a table: an opcode that has these `bits` under this `mask` has these facts.
pub(crate) struct Row {
    pub(crate) mask: u32,
    pub(crate) bits: u32,
    pub(crate) facts: Facts,
}

/// Spells a line of a table.
pub(crate) const fn row(mask: u32, bits: u32, facts: Facts) -> Row {
    Row { mask, bits, facts }
}

/// The facts of the first line that fits.
#[inline]
pub(crate) fn look_up(table: &[Row], opcode: u32) -> Facts {
    table.iter().find(|row| opcode & row.mask == row.bits).map_or(OTHER, |row| row.facts)
}

/// Goes on behind itself.
pub(crate) const OTHER: Facts = Facts {
    kind: Kind::Other,
    length: 4,
    conditional: false,
    link: false,
    ret: false,
    eret: false,
    target: None,
    it: 0,
};
/// Goes where a register or the memory says.
pub(crate) const INDIRECT: Facts = Facts { kind: Kind::Indirect, ..OTHER };
/// Calls what a register points at.
pub(crate) const CALL: Facts = Facts { link: true, ..INDIRECT };
/// Returns from a function.
pub(crate) const RETURN: Facts = Facts { ret: true, ..INDIRECT };
/// Returns from an exception.
pub(crate) const EXCEPTION_RETURN: Facts = Facts { eret: true, ..INDIRECT };
/// Synchronises instructions.
pub(crate) const ISB: Facts = Facts { kind: Kind::Isb, ..OTHER };
/// Waits for an interrupt or event.
pub(crate) const WFX: Facts = Facts { kind: Kind::Wfx, ..OTHER };

/// Goes to `address`, in the instruction set `isa`.
pub(crate) const fn direct(address: u64, isa: Isa) -> Facts {
    Facts { kind: Kind::Direct, target: Some(Target { address, isa }), ..OTHER }
}

/// Takes the lowest `width` bits as a signed number.
pub(crate) const fn signed(bits: u32, width: u32) -> i64 {
    let unused = 32 - width;
    (((bits << unused) as i32) >> unused) as i64
}
