//! Instructions that are left out of a trace, since the source does not report their access.
//!
//! An emulator does nothing for a prefetch or for the maintenance of caches that it does not have, and it does not
//! always report the accesses of its helper functions (zeroed blocks, predicated vectors).

use unspool_isa::{Access, Operation};

/// Kind of instructions whose addresses an emulator may not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum UnrecordedAccess {
    /// PRFM and its variants.
    Prefetches,
    /// IC and DC at an address.
    CacheMaintenance,
    /// TLBI and AT at an address.
    TranslationMaintenance,
    /// DC ZVA and its variants.
    Zeroing,
    /// SVE and SME loads and stores, which a predicate may have kept from memory.
    Vectors,
}

/// Instructions of one kind that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// The kind.
    pub kind: UnrecordedAccess,
    /// Their number.
    pub count: u64,
    /// Address of the first.
    pub first: u64,
}

impl UnrecordedAccess {
    const ALL: [Self; 5] =
        [Self::Prefetches, Self::CacheMaintenance, Self::TranslationMaintenance, Self::Zeroing, Self::Vectors];

    /// Name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefetches => "prefetches",
            Self::CacheMaintenance => "operations on caches (DC, IC)",
            Self::TranslationMaintenance => "operations on translations (TLBI, AT)",
            Self::Zeroing => "blocks zeroed (DC ZVA)",
            Self::Vectors => "accesses of vectors",
        }
    }

    /// Kind of an instruction, if it is one of these.
    pub(super) fn of(access: &Access) -> Option<Self> {
        match access.operation {
            operation if access.vector => operation.is_memory_access().then_some(Self::Vectors),
            Operation::Prefetch => Some(Self::Prefetches),
            Operation::CacheMaintenance => Some(Self::CacheMaintenance),
            Operation::TlbInvalidate | Operation::TlbInvalidateRange | Operation::AddressTranslation => {
                Some(Self::TranslationMaintenance)
            }
            Operation::Zero | Operation::TagZero | Operation::TagAndDataZero => Some(Self::Zeroing),
            _ => None,
        }
    }
}

/// Count and first address of the instructions left out, by kind.
#[derive(Debug, Default)]
pub(super) struct Tally([Option<(u64, u64)>; UnrecordedAccess::ALL.len()]);

impl Tally {
    pub(super) fn add(&mut self, kind: UnrecordedAccess, address: u64) {
        if let Some(position) = self.0.get_mut(kind as usize) {
            *position = Some(position.map_or((1, address), |(count, first)| (count + 1, first)));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = LeftOut> {
        let all = UnrecordedAccess::ALL.into_iter().zip(&self.0);
        all.filter_map(|(kind, found)| found.map(|(count, first)| LeftOut { kind, count, first }))
    }
}
