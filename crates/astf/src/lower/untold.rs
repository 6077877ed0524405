//! Instructions that a trace is made without, since the source does not tell where they go.
//!
//! An emulator does nothing for a prefetch or for the maintenance of caches that it does not have, and what its helper
//! functions do with memory (blocks that are zeroed, vectors under a predicate) it does not always tell.

use unspool_isa::{Access, Operation};

/// A kind of instructions that an emulator may not tell the addresses of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Untold {
    /// PRFM and its kin.
    Prefetches,
    /// IC and DC at an address.
    CacheMaintenance,
    /// TLBI and AT at an address.
    TranslationMaintenance,
    /// DC ZVA and its kin.
    Zeroing,
    /// Loads and stores of SVE and SME, which may have been kept from memory by a predicate.
    Vectors,
}

/// Instructions of one kind that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// Which kind.
    pub kind: Untold,
    /// How many.
    pub count: u64,
    /// Where the first one is.
    pub first: u64,
}

impl Untold {
    const ALL: [Self; 5] =
        [Self::Prefetches, Self::CacheMaintenance, Self::TranslationMaintenance, Self::Zeroing, Self::Vectors];

    /// What it is, in the words of a report.
    pub fn words(self) -> &'static str {
        match self {
            Self::Prefetches => "prefetches",
            Self::CacheMaintenance => "operations on caches (DC, IC)",
            Self::TranslationMaintenance => "operations on translations (TLBI, AT)",
            Self::Zeroing => "blocks zeroed (DC ZVA)",
            Self::Vectors => "accesses of vectors",
        }
    }

    /// That of an instruction, if it is of such a kind.
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

/// How many instructions of each kind were left out, and where the first is.
#[derive(Debug, Default)]
pub(super) struct Tally([Option<(u64, u64)>; Untold::ALL.len()]);

impl Tally {
    pub(super) fn add(&mut self, kind: Untold, address: u64) {
        if let Some(position) = self.0.get_mut(kind as usize) {
            *position = Some(position.map_or((1, address), |(count, first)| (count + 1, first)));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = LeftOut> {
        let all = Untold::ALL.into_iter().zip(&self.0);
        all.filter_map(|(kind, found)| found.map(|(count, first)| LeftOut { kind, count, first }))
    }
}
