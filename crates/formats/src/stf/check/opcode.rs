//! Opcodes: what the rules ask of them, remembered for those seen lately.
//!
//! Of opcodes that are unknown here, or may mean something else in this trace, nothing is asked.

use unspool_isa::{RiscvAccess, RiscvFlow, Xlen, riscv_facts, riscv_length};

use super::header::Header;

/// What is known of an opcode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opcode {
    /// The rules below can be asked of it.
    pub(super) is_known: bool,
    /// Something has to be looked at, even if no record belongs to it.
    pub(super) is_special: bool,
    /// How many bytes its record has.
    pub(super) length: u8,
    /// The record has another length than the opcode.
    pub(super) is_misfit: bool,
    /// Only RV64 has it, and this is RV32.
    pub(super) is_of_rv64: bool,
    /// It can never be an instruction.
    pub(super) is_illegal: bool,
    /// The width of the registers, if that is known.
    pub(super) xlen: Option<Xlen>,
    pub(super) flow: RiscvFlow,
    /// From a direct branch to its target.
    offset: Option<u64>,
    pub(super) access: RiscvAccess,
    /// How many bytes it accesses.
    pub(super) bytes: Option<u16>,
    pub(super) is_vector: bool,
}

impl Opcode {
    fn new(opcode: u32, length: u8, header: &Header) -> Self {
        let xlen = header.xlen();
        let is_misfit = header.is_riscv() && riscv_length(opcode as u16) != length;
        let facts = riscv_facts(xlen.unwrap_or_default(), 0, opcode);
        let exists = !facts.classes.is_empty();
        let wide = riscv_facts(Xlen::Rv64, 0, opcode);
        let is_of_rv64 = xlen == Some(Xlen::Rv32)
            && !exists
            && !wide.classes.is_empty()
            // Zilsd and Zclsd have these in RV32.
            && !wide.access.is_memory_access();
        let is_illegal = header.is_riscv() && matches!((opcode, length), (0, _) | (u32::MAX, 4));
        let is_known = exists && xlen.is_some() && !is_misfit && !(header.is_unusual && is_shared(opcode, length));
        let none = !is_known;
        let flow = if none { RiscvFlow::None } else { facts.flow };
        let access = if none { RiscvAccess::None } else { facts.access };
        Self {
            is_known,
            is_special: is_misfit || is_of_rv64 || is_illegal || flow != RiscvFlow::None || access.is_memory_access(),
            length,
            is_misfit,
            is_of_rv64,
            is_illegal,
            xlen,
            flow,
            offset: facts.target,
            access,
            bytes: facts.bytes,
            is_vector: facts.vector,
        }
    }

    /// Where a direct branch leads.
    pub(super) fn target(&self, pc: u64) -> Option<u64> {
        self.offset.map(|offset| self.address(pc.wrapping_add(offset)))
    }

    /// The address behind the instruction.
    pub(super) fn behind(&self, pc: u64) -> u64 {
        self.address(pc.wrapping_add(u64::from(self.length)))
    }

    /// The part of an address that counts.
    pub(super) fn address(&self, address: u64) -> u64 {
        if self.xlen == Some(Xlen::Rv32) { address & 0xffff_ffff } else { address }
    }

    /// It goes elsewhere than behind itself, whatever happens.
    pub(super) fn always_diverts(&self) -> bool {
        matches!(self.flow, RiscvFlow::Jump | RiscvFlow::IndirectJump | RiscvFlow::TrapReturn)
    }
}

/// Opcodes that Zcmp, Zcmt, Zclsd and Zfinx have for themselves: compressed accesses of floating-point registers.
fn is_shared(opcode: u32, length: u8) -> bool {
    length == 2 && matches!((opcode & 3, opcode >> 13 & 7), (0 | 2, 1 | 3 | 5 | 7))
}

/// Enough for the loops of most programs.
const ENTRIES: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 10;

/// The opcodes seen lately.
#[derive(Debug)]
pub(super) struct Opcodes {
    entries: Vec<Option<(u64, Opcode)>>,
}

impl Opcodes {
    pub(super) fn new() -> Self {
        Self { entries: vec![None; ENTRIES] }
    }

    /// What is known of the opcode of a record with so many bytes.
    #[inline]
    pub(super) fn look_up(&mut self, opcode: u32, length: u8, header: &Header) -> Opcode {
        let width = match header.xlen() {
            None => 0,
            Some(Xlen::Rv32) => 1,
            Some(Xlen::Rv64) => 2,
        };
        let key = u64::from(opcode) | u64::from(length) << 32 | width << 40;
        let entry = &mut self.entries[(opcode.wrapping_mul(0x9e37_79b1) >> (32 - INDEX_BITS)) as usize];
        match entry {
            Some((known, opcode)) if *known == key => *opcode,
            _ => entry.insert((key, Opcode::new(opcode, length, header))).1,
        }
    }
}
