//! Memory accesses: the operation, the number of bytes, and the conditions of the access.
//!
//! Holds no instruction encodings; the decoders of the instruction sets use these types. Nothing here depends on
//! register values: which address an instruction accesses, and whether a predicate or a comparison lets it, is for the
//! caller to determine. Side effects of the hardware are not included: translation table walks, and the guarded control
//! stack that calls and returns may use.

/// Memory access of an instruction, and a few more properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// The operation.
    pub operation: Operation,
    /// Maximum number of bytes that it accesses; for tags, the bytes they belong to.
    ///
    /// `None` where the opcode does not encode it: it depends on the vector length, on registers or on the size of a
    /// cache block, or there is no access.
    pub bytes: Option<u16>,
    /// Bytes of an element in memory, in the loads, stores and prefetches of SVE and SME.
    pub element: Option<u8>,
    /// A predicate or mask may disable it, or parts of it.
    pub predicated: bool,
    /// A first-faulting or non-faulting load: elements that it cannot read are left out and reported in a register.
    pub suppresses_faults: bool,
    /// Part of SVE, SME or RVV, so that its effect depends on a vector length. Set for all of their instructions, with
    /// or without a memory access.
    pub vector: bool,
    /// Stores only if a condition beyond the opcode holds: an exclusive or conditional store, a compare and swap of
    /// A64, a checked write of a translation table.
    pub may_not_write: bool,
    /// Computes from a register which slice of a ZA tile, or which vectors of the ZA array, it works on.
    pub sme_index: bool,
}

/// Directions of the data transfers of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Transfers {
    /// Loads from memory.
    pub loads: bool,
    /// Stores to memory.
    pub stores: bool,
}

impl Transfers {
    /// No transfer.
    pub const NONE: Self = Self { loads: false, stores: false };

    /// A load or a store.
    pub(crate) const fn one(is_load: bool) -> Self {
        Self { loads: is_load, stores: !is_load }
    }
}

/// The kind of a memory access, or of maintenance of caches and translations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Operation {
    /// No access, and none of the operations below.
    #[default]
    None,
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes as one: LDADD and STADD, SWP, CAS, RCWCAS and their kin, AMO of RISC-V.
    LoadStore,
    /// Announces an access: PRFM, PRFUM, RPRFM, PREFETCH of RISC-V.
    Prefetch,
    /// Announces an access of vectors: PRFB, PRFH, PRFW, PRFD.
    VectorPrefetch,
    /// Reads allocation tags: LDG, LDGM.
    TagLoad,
    /// Writes allocation tags: STG, ST2G, STGM.
    TagStore,
    /// Writes allocation tags and the bytes they belong to: STZG, STZ2G, STZGM, STGP.
    TagAndDataStore,
    /// Maintains the caches at a virtual address: IC IVAU, DC CVAC and its kin, CBO.CLEAN and its kin.
    CacheMaintenance,
    /// Maintains the caches without a virtual address: all of them, by set and way, or at a physical address.
    CacheMaintenanceAll,
    /// Zeroes a block: DC ZVA, CBO.ZERO.
    Zero,
    /// Writes the allocation tags of a block: DC GVA.
    TagZero,
    /// Writes the allocation tags of a block and zeroes it: DC GZVA.
    TagAndDataZero,
    /// Invalidates translations of one address, virtual or intermediate physical.
    TlbInvalidate,
    /// Invalidates translations of a range of addresses.
    TlbInvalidateRange,
    /// Invalidates translations without an address: all of them, or those of an address space.
    TlbInvalidateAll,
    /// Translates an address: AT.
    AddressTranslation,
    /// Fills a range: SETP, SETM, SETE and their kin.
    Set {
        /// The position among the three instructions.
        stage: Stage,
        /// Writes the allocation tags as well (SETG), or only them (SETGO, of Armv9.7).
        tagged: bool,
    },
    /// Copies a range: CPYP, CPYM, CPYE, CPYFP and their kin.
    Copy {
        /// The position among the three instructions.
        stage: Stage,
    },
    /// Orders accesses or translations: FENCE, SFENCE.VMA and their kin of RISC-V. Barriers of Arm are
    /// [`None`](Self::None).
    Fence,
    /// Not decoded: forms of AArch32 other than loads and stores of one register, a pair or a list, and what is not a
    /// known RISC-V instruction.
    Unknown,
}

/// The position in the three instructions that fill or copy a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Prepares, and may process a part.
    Prologue,
    /// Processes whole blocks.
    Main,
    /// Processes the rest.
    Epilogue,
}

impl Operation {
    /// Whether it may read bytes of memory. Tags do not count.
    #[inline]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Load | Self::LoadStore | Self::Copy { .. })
    }

    /// Whether it may write bytes of memory. Tags do not count.
    #[inline]
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Self::Store
                | Self::LoadStore
                | Self::TagAndDataStore
                | Self::Zero
                | Self::TagAndDataZero
                | Self::Set { .. }
                | Self::Copy { .. }
        )
    }

    /// Whether it may read or write allocation tags as its purpose, not as a check.
    #[inline]
    pub const fn touches_tags(self) -> bool {
        matches!(
            self,
            Self::TagLoad
                | Self::TagStore
                | Self::TagAndDataStore
                | Self::TagZero
                | Self::TagAndDataZero
                | Self::Set { tagged: true, .. }
        )
    }

    /// Whether it may read or write memory, bytes or tags. Prefetches and maintenance do not.
    #[inline]
    pub const fn is_memory_access(self) -> bool {
        self.reads() || self.writes() || self.touches_tags()
    }
}

impl Access {
    /// See [`Operation::reads`].
    #[inline]
    pub const fn reads(&self) -> bool {
        self.operation.reads()
    }

    /// See [`Operation::writes`].
    #[inline]
    pub const fn writes(&self) -> bool {
        self.operation.writes()
    }

    /// See [`Operation::is_memory_access`].
    #[inline]
    pub const fn is_memory_access(&self) -> bool {
        self.operation.is_memory_access()
    }
}

impl Access {
    pub(crate) const NOTHING: Self = Self::of(Operation::None);

    /// The operation, without further properties.
    pub(crate) const fn of(operation: Operation) -> Self {
        Self {
            operation,
            bytes: None,
            element: None,
            predicated: false,
            suppresses_faults: false,
            vector: false,
            may_not_write: false,
            sme_index: false,
        }
    }

    /// The operation on this number of bytes.
    pub(crate) const fn sized(operation: Operation, bytes: u16) -> Self {
        Self { bytes: Some(bytes), ..Self::of(operation) }
    }

    /// The same, but more than the opcode decides whether it writes.
    pub(crate) const fn conditionally(self) -> Self {
        Self { may_not_write: true, ..self }
    }
}

/// A load or a store.
pub(crate) const fn direction(is_load: bool) -> Operation {
    if is_load { Operation::Load } else { Operation::Store }
}
