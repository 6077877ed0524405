//! RISC-V opcodes in terms of the rules.

use unspool_isa::{Access, ControlFlow, Isa, Operation, access, decode};

use super::super::header::Header;
use super::{Memory, Opcode};

pub(super) fn opcode(opcode: u32, length: u8, header: &Header) -> Opcode {
    let set = header.set();
    // Without a known register width, only the length is checked.
    let isa = set.unwrap_or(Isa::Rv64);
    let is_misfit = header.is_riscv() && isa.length(opcode as u16) != length;
    let is_claimed = header.riscv.claims(opcode);
    let (decoded, own_access) = (header.riscv.decode(isa, 0, opcode), header.riscv.access(isa, opcode));
    let exists = decoded.flow != ControlFlow::Unknown;
    let is_of_rv64 = set == Some(Isa::Rv32)
        && !exists
        && decode(Isa::Rv64, 0, opcode).flow != ControlFlow::Unknown
        // Zilsd and Zclsd have these in RV32.
        && !access(Isa::Rv64, opcode).is_memory_access();
    let is_ambiguous = header.is_unusual && !is_claimed && is_shared(opcode, length);
    let memory = memory(&own_access);
    // The specification does not define whether the table of a table jump is recorded as an access.
    let is_optional = memory.is_optional || is_claimed && decoded.flow.is_branch();
    Opcode {
        is_known: exists && set.is_some() && !is_misfit && !is_ambiguous,
        is_misfit,
        is_of_rv64,
        is_illegal: header.is_riscv() && matches!((opcode, length), (0, _) | (u32::MAX, 4)),
        flow: decoded.flow,
        conditional: decoded.conditional,
        offset: decoded.target_address(),
        memory: Memory { is_optional, ..memory },
        is_vector: own_access.vector,
        ..Opcode::unknown(set)
    }
}

fn memory(access: &Access) -> Memory {
    Memory {
        reads: access.reads(),
        writes: access.writes(),
        is_conditional: access.may_not_write,
        is_optional: matches!(access.operation, Operation::Prefetch | Operation::CacheMaintenance),
        bytes: access.bytes,
    }
}

/// Is it an opcode that Zcmp, Zcmt, Zclsd and Zfinx redefine, a compressed access of floating-point registers?
fn is_shared(opcode: u32, length: u8) -> bool {
    length == 2 && matches!((opcode & 3, opcode >> 13 & 7), (0 | 2, 1 | 3 | 5 | 7))
}
