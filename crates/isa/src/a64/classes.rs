//! Classes of A64: accesses, system instructions, and by encoding group the registers that are computed with.

use super::access;
use crate::access::Operation;
use crate::bits::{field, flag};
use crate::class::{Class, Classes};
use crate::control_flow::{ControlFlow, Decoded};

/// The classes of the word, those of its control flow aside.
pub(crate) fn classes(word: u32, decoded: &Decoded) -> Classes {
    let access = access(word);
    let operation = access.operation;
    let group = field(word, 25, 4);
    let is_system = word >> 22 == 0b11_0101_0100 || word >> 24 == 0b1101_0100;
    // DSB, DMB and SB. ISB is control flow, and CLREX is not a barrier.
    let is_barrier =
        word & 0xffff_f01f == 0xd503_301f && field(word, 5, 3) != 2 && decoded.flow == ControlFlow::FallThrough;
    let is_simd_access = group & 0b0101 == 0b0100 && flag(word, 26);
    Classes::which([
        (operation.reads(), Class::Load),
        (operation.writes(), Class::Store),
        (operation == Operation::LoadStore, Class::Atomic),
        (operation.touches_tags(), Class::Tag),
        (matches!(operation, Operation::Prefetch | Operation::VectorPrefetch), Class::Prefetch),
        (matches!(operation, Operation::CacheMaintenance | Operation::CacheMaintenanceAll), Class::Cache),
        (is_barrier, Class::Fence),
        (is_system, Class::System),
        (matches!(group, 0b1000 | 0b1001 | 0b0101 | 0b1101), Class::Int),
        (matches!(group, 0b0111 | 0b1111) || is_simd_access, Class::Simd),
        (access.vector, Class::Vector),
    ])
}
