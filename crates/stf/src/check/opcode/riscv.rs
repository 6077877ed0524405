//! RISC-V opcodes, as the rules see them.

use unspool_isa::{RiscvAccess, RiscvFlow, Xlen, riscv_facts, riscv_length};

use super::super::header::Header;
use super::{Course, Memory, Opcode, Set};

/// What is known of an opcode in a record of so many bytes. Without a width of registers, that is its length.
pub(super) fn opcode(opcode: u32, length: u8, header: &Header) -> Opcode {
    let set = header.set();
    let xlen = if let Set::Riscv(xlen) = set { Some(xlen) } else { None };
    let is_misfit = header.is_riscv() && riscv_length(opcode as u16) != length;
    let is_claimed = header.riscv.claims(opcode);
    let facts = header.riscv.facts(xlen.unwrap_or_default(), 0, opcode);
    let exists = !facts.classes.is_empty();
    let wide = riscv_facts(Xlen::Rv64, 0, opcode);
    let is_of_rv64 = xlen == Some(Xlen::Rv32)
        && !exists
        && !wide.classes.is_empty()
        // Zilsd and Zclsd have these in RV32.
        && !wide.access.is_memory_access();
    let is_ambiguous = header.is_unusual && !is_claimed && is_shared(opcode, length);
    let memory = memory(facts.access);
    // Whether the table of a jump by a table is told as an access, no text says.
    let is_open = memory.is_open || is_claimed && facts.flow != RiscvFlow::None;
    Opcode {
        is_known: exists && xlen.is_some() && !is_misfit && !is_ambiguous,
        is_misfit,
        is_of_rv64,
        is_illegal: header.is_riscv() && matches!((opcode, length), (0, _) | (u32::MAX, 4)),
        course: course(facts.flow),
        offset: facts.target,
        memory: Memory { bytes: facts.bytes, is_open, ..memory },
        is_vector: facts.vector,
        ..Opcode::unknown(set)
    }
}

fn course(flow: RiscvFlow) -> Course {
    match flow {
        RiscvFlow::None => Course::On,
        RiscvFlow::Branch => Course::Branch,
        RiscvFlow::Jump => Course::Jump,
        RiscvFlow::IndirectJump => Course::Indirect,
        RiscvFlow::TrapReturn => Course::TrapReturn,
        RiscvFlow::Ecall | RiscvFlow::Ebreak => Course::Call,
    }
}

fn memory(access: RiscvAccess) -> Memory {
    Memory {
        reads: access.reads(),
        writes: access.writes(),
        is_conditional: access == RiscvAccess::StoreConditional,
        is_open: matches!(access, RiscvAccess::Prefetch | RiscvAccess::CacheOperation),
        bytes: None,
    }
}

/// Opcodes that Zcmp, Zcmt, Zclsd and Zfinx have for themselves: compressed accesses of floating-point registers.
fn is_shared(opcode: u32, length: u8) -> bool {
    length == 2 && matches!((opcode & 3, opcode >> 13 & 7), (0 | 2, 1 | 3 | 5 | 7))
}
