//! System instructions: caches, translations and the guarded control stack.
//!
//! Four fields of the opcode select the instruction: op1, CRn, CRm and op2.
//! Specification: Arm DDI 0487, "System instructions".

use crate::access::{Access, Operation};
use crate::bits::{field, flag};
use Operation::{
    AddressTranslation, CacheMaintenance, CacheMaintenanceAll, Load, LoadStore, Store, TagAndDataZero, TagZero,
    TlbInvalidate, TlbInvalidateAll, TlbInvalidateRange, Zero,
};

/// The access of a word in the group of branches, exceptions and system instructions.
pub(super) fn access(word: u32) -> Access {
    match (word >> 24, field(word, 19, 5)) {
        (0xd5, 0b00001) => instruction(word),
        (0xd5, 0b00101) => instruction_with_result(word),
        (0xd5, 0b01001) => Access::of(instruction_of_pair(word)),
        _ => Access::NOTHING,
    }
}

/// SYS, under whatever name.
fn instruction(word: u32) -> Access {
    let name = Name::of(word);
    match (name.crn, name.op1, name.crm, name.op2) {
        // GCSPUSHM, and GCSSS1, which compares and swaps
        (7, 3, 7, 0) => Access::sized(Store, 8),
        (7, 3, 7, 2) => Access::sized(LoadStore, 8).conditionally(),
        // GCSPUSHX, and GCSPOPCX, GCSPOPX: records of four entries
        (7, 0, 7, 4) => Access::sized(Store, 32),
        (7, 0, 7, 5 | 6) => Access::sized(Load, 32),
        (7, ..) => Access::of(maintenance(name)),
        (8 | 9, ..) => Access::of(invalidation(name)),
        _ => Access::NOTHING,
    }
}

/// SYSL, under whatever name.
fn instruction_with_result(word: u32) -> Access {
    let name = Name::of(word);
    match (name.crn, name.op1, name.crm, name.op2) {
        // GCSPOPM
        (7, 3, 7, 1) => Access::sized(Load, 8),
        // GCSSS2 reads from the one stack and writes to the other.
        (7, 3, 7, 3) => Access::sized(LoadStore, 16),
        _ => Access::NOTHING,
    }
}

/// SYSP, which is TLBIP. It always takes an address, and never a physical one.
fn instruction_of_pair(word: u32) -> Operation {
    let name = Name::of(word);
    let is_pair = !flag(word, 0) || field(word, 0, 5) == 0b11111;
    let is_physical = (name.op1, name.crm) == (6, 4);
    match invalidation(name) {
        by_address @ (TlbInvalidate | TlbInvalidateRange) if matches!(name.crn, 8 | 9) && is_pair && !is_physical => {
            by_address
        }
        _ => Operation::None,
    }
}

/// The four fields that select a system instruction.
#[derive(Clone, Copy)]
struct Name {
    op1: u32,
    crn: u32,
    crm: u32,
    op2: u32,
}

impl Name {
    fn of(word: u32) -> Self {
        Self { op1: field(word, 16, 3), crn: field(word, 12, 4), crm: field(word, 8, 4), op2: field(word, 5, 3) }
    }
}

/// IC, DC and AT, which all have CRn 7.
fn maintenance(name: Name) -> Operation {
    match (name.op1, name.crm, name.op2) {
        // IC IALLUIS, IALLU, IVAU
        (0, 1 | 5, 0) => CacheMaintenanceAll,
        (3, 5, 1) => CacheMaintenance,
        // DC ISW, CSW, CISW, and with tags
        (0, 6 | 10 | 14, 2 | 4 | 6) => CacheMaintenanceAll,
        // DC IVAC, and with tags
        (0, 6, 1 | 3 | 5) => CacheMaintenance,
        // DC CIVAPS, CIGDVAPS
        (0, 15, 1 | 5) => CacheMaintenance,
        // DC CVAC, CVAP, CVADP, CIVAC, and with tags
        (3, 10 | 12 | 13 | 14, 1 | 3 | 5) => CacheMaintenance,
        // DC CVAU
        (3, 11, 1) => CacheMaintenance,
        // DC CVAOC, CIVAOC, and with tags
        (3, 11 | 15, 0 | 7) => CacheMaintenance,
        // DC CIPAE, CIPAPA, and with tags: by physical address
        (4, 14, 0 | 7) | (6, 14, 1 | 5) => CacheMaintenanceAll,
        // DC ZVA, GVA, GZVA, and ZGBVA, GBVA of Armv9.7
        (3, 4, 1) => Zero,
        (3, 4, 3 | 7) => TagZero,
        (3, 4, 4 | 5) => TagAndDataZero,
        // AT S1E1R to S1E0W, S1E1RP, S1E1WP, S1E1A
        (0, 8, 0..=3) | (0, 9, 0..=2) => AddressTranslation,
        // AT S1E2R, S1E2W, S12E1R to S12E0W, S1E3R, S1E3W, S1E2A, S1E3A
        (4, 8, 0 | 1 | 4..=7) | (6, 8, 0 | 1) | (4 | 6, 9, 2) => AddressTranslation,
        _ => Operation::None,
    }
}

/// TLBI, which has CRn 8, or 9 if it does not wait for accesses with the XS attribute.
fn invalidation(name: Name) -> Operation {
    match (name.op1, name.crm, name.op2) {
        // VAE1, VALE1, and of EL2 and EL3; VAAE1, VAALE1; outer shareable, inner shareable, not shareable
        (0 | 4 | 6, 1 | 3 | 7, 1 | 5) | (0, 1 | 3 | 7, 3 | 7) => TlbInvalidate,
        // IPAS2E1IS, IPAS2LE1IS, IPAS2E1, IPAS2LE1, IPAS2E1OS, IPAS2LE1OS
        (4, 0 | 4, 1 | 5) | (4, 4, 0 | 4) => TlbInvalidate,
        // RVAE1, RVALE1, and of EL2 and EL3; RVAAE1, RVAALE1
        (0 | 4 | 6, 2 | 5 | 6, 1 | 5) | (0, 2 | 5 | 6, 3 | 7) => TlbInvalidateRange,
        // RIPAS2E1IS, RIPAS2LE1IS, RIPAS2E1, RIPAS2LE1, RIPAS2E1OS, RIPAS2LE1OS, RPAOS, RPALOS
        (4, 0 | 4, 2 | 6) | (4 | 6, 4, 3 | 7) => TlbInvalidateRange,
        // VMALLE1, ASIDE1, ALLE2, ALLE3
        (0, 1 | 3 | 7, 0 | 2) | (4 | 6, 1 | 3 | 7, 0) => TlbInvalidateAll,
        // ALLE1, VMALLS12E1, PAALLOS, PAALL, VMALLWS2E1
        (4, 1 | 3 | 7, 4 | 6) | (6, 1 | 7, 4) | (4, 2 | 5 | 6, 2) => TlbInvalidateAll,
        _ => Operation::None,
    }
}
