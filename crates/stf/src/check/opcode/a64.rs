//! A64 opcodes in terms of the rules.
//!
//! The format has a number for Arm, but none for its instruction sets: words of four bytes are taken for A64 unless one
//! is not A64. An opcode that the decoder does not know may be a newer instruction, so it is checked only where the
//! encoding has no room for branches or accesses.

use unspool_isa::{Access, ControlFlow, Decoded, Isa, Operation, access, decode};

use super::{Memory, Opcode};

pub(super) fn opcode(word: u32) -> Opcode {
    let (decoded, access) = (decode(Isa::A64, 0, word), access(Isa::A64, word));
    Opcode {
        is_known: is_known(word, &decoded, &access),
        is_illegal: word == 0,
        flow: decoded.flow,
        conditional: decoded.conditional,
        offset: decoded.target_address(),
        memory: memory(word, &decoded, &access),
        is_vector: access.vector || is_simd(word),
        ..Opcode::unknown(Some(Isa::A64))
    }
}

/// The top-level encoding group.
fn group(word: u32) -> u32 {
    word >> 25 & 0xf
}

fn is_known(word: u32, decoded: &Decoded, access: &Access) -> bool {
    if access.operation != Operation::None || decoded.flow.is_branch() || decoded.flow.is_exception() {
        return true;
    }
    match group(word) {
        // Data processing: immediate, register, floating-point and vector.
        0b1000 | 0b1001 | 0b0101 | 0b1101 | 0b0111 | 0b1111 => true,
        // SVE: the accesses are in the upper half.
        0b0010 => word >> 31 == 0,
        // Hints, barriers and system registers. Some system instructions are implementation defined.
        0b1010 | 0b1011 => word >> 24 == 0xd5 && !is_system(word) && decoded.flow != ControlFlow::TransactionStart,
        _ => false,
    }
}

/// SYS, SYSL and SYSP.
fn is_system(word: u32) -> bool {
    matches!(word >> 19 & 0x1f, 0b00001 | 0b00101 | 0b01001)
}

fn is_simd(word: u32) -> bool {
    let is_access = matches!(group(word), 0b0100 | 0b0110 | 0b1100 | 0b1110);
    matches!(group(word), 0b0111 | 0b1111) || is_access && word >> 26 & 1 == 1
}

fn memory(word: u32, decoded: &Decoded, access: &Access) -> Memory {
    use Operation::{
        AddressTranslation, CacheMaintenance, CacheMaintenanceAll, Prefetch, TagAndDataStore, TagAndDataZero, TagLoad,
        TagStore, TagZero, VectorPrefetch,
    };
    let is_optional = match access.operation {
        Prefetch | VectorPrefetch | CacheMaintenance | CacheMaintenanceAll | AddressTranslation => true,
        // The specification does not define whether accesses to tags are recorded.
        TagLoad | TagStore | TagAndDataStore | TagZero | TagAndDataZero => true,
        // Calls, returns and exception returns may use a guarded control stack.
        _ => {
            let is_return = decoded.ret || decoded.flow == ControlFlow::ExceptionReturn;
            decoded.link || is_return || access.operation.touches_tags()
        }
    };
    // The size of a predicated access is a maximum, and that of an access to the guarded control stack covers both
    // stacks.
    let is_exact = !access.predicated && !access.suppresses_faults && !matches!(group(word), 0b1010 | 0b1011);
    Memory {
        reads: access.reads() && !is_optional,
        writes: access.writes() && !is_optional,
        is_conditional: access.may_not_write,
        is_optional,
        bytes: access.bytes.filter(|_| is_exact && !is_optional),
    }
}
