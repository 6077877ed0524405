//! Memory: what an A64 instruction does with it, told by the opcode alone.
//!
//! word ─▶ **access**: the operation, how many bytes, and what may keep it from happening
//!
//! Knows the instructions up to Armv9.6, and nothing of registers: where an instruction goes, and whether a predicate or
//! a comparison lets it, is for others to find out. What the hardware does on the side is not counted: walks of
//! translation tables, and the guarded control stack that calls and returns may use.
//! Specification: Arm DDI 0487, "A64 Instruction Set Encoding", and DDI 0616 for SME.

mod load_store;
mod simd;
mod sme;
mod sve;
mod system;

/// What an A64 instruction does with memory, and a few facts around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// What it does.
    pub operation: Operation,
    /// How many bytes of memory it touches at most; of an instruction that touches tags, the bytes they belong to.
    ///
    /// `None` where the opcode does not tell: they depend on the vector length, on registers, on the size of a block,
    /// or there are none.
    pub bytes: Option<u16>,
    /// How many bytes an element has in memory, in the loads, stores and prefetches of SVE and SME.
    pub element: Option<u8>,
    /// A predicate may keep it from touching memory at all.
    pub predicated: bool,
    /// A first-faulting or non-faulting load: what it cannot read it leaves out, and says so.
    pub suppresses_faults: bool,
    /// Part of SVE or SME, so that its effect depends on a vector length. Set for all of their instructions, with memory
    /// or without.
    pub vector: bool,
    /// It stores only if a condition holds that the opcode does not tell: an exclusive store, a compare and swap, a
    /// checked write of a translation table.
    pub may_not_write: bool,
    /// Computes from a register which slice of a ZA tile, or which vectors of the ZA array, it works on.
    pub sme_index: bool,
}

/// What kind of thing an instruction does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Operation {
    /// Touches no memory, and is none of those below.
    #[default]
    None,
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads, and writes what it makes of it: LDADD and STADD, SWP, CAS, RCWCAS and their kin.
    LoadStore,
    /// Announces an access: PRFM, PRFUM, RPRFM.
    Prefetch,
    /// Announces an access of vectors: PRFB, PRFH, PRFW, PRFD.
    VectorPrefetch,
    /// Reads allocation tags: LDG, LDGM.
    TagLoad,
    /// Writes allocation tags: STG, ST2G, STGM.
    TagStore,
    /// Writes allocation tags and the bytes they belong to: STZG, STZ2G, STZGM, STGP.
    TagAndDataStore,
    /// Maintains the caches at a virtual address: IC IVAU, DC CVAC and its kin.
    CacheMaintenance,
    /// Maintains the caches wherever no virtual address says: all of them, by set and way, or at a physical address.
    CacheMaintenanceAll,
    /// Zeroes a block: DC ZVA.
    Zero,
    /// Writes the allocation tags of a block: DC GVA.
    TagZero,
    /// Writes the allocation tags of a block and zeroes it: DC GZVA.
    TagAndDataZero,
    /// Invalidates translations of one address, virtual or intermediate physical.
    TlbInvalidate,
    /// Invalidates translations of a range of addresses.
    TlbInvalidateRange,
    /// Invalidates translations wherever no address says: all of them, or those of an address space.
    TlbInvalidateAll,
    /// Translates an address: AT.
    AddressTranslation,
    /// Fills a range: SETP, SETM, SETE and their kin.
    Set {
        /// Which of the three instructions.
        stage: Stage,
        /// Writes the allocation tags as well (SETG), or only them (SETGO, of Armv9.7).
        tagged: bool,
    },
    /// Copies a range: CPYP, CPYM, CPYE, CPYFP and their kin.
    Copy {
        /// Which of the three instructions.
        stage: Stage,
    },
    /// Calls the supervisor: SVC.
    SupervisorCall,
    /// Calls the hypervisor: HVC.
    HypervisorCall,
    /// Calls the secure monitor: SMC.
    SecureMonitorCall,
    /// A breakpoint: BRK.
    Breakpoint,
    /// Halts for a debugger: HLT.
    Halt,
    /// Changes to another exception level while halted: DCPS1, DCPS2, DCPS3.
    DebugCall,
    /// Undefined for ever: UDF.
    Undefined,
}

/// Fills and copies of ranges are three instructions in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Prepares, and may do a part.
    Prologue,
    /// Does what is done in whole blocks.
    Main,
    /// Does the rest.
    Epilogue,
}

impl Operation {
    /// Whether it may read bytes of memory. Tags are none.
    #[inline]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Load | Self::LoadStore | Self::Copy { .. })
    }

    /// Whether it may write bytes of memory. Tags are none.
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

/// What the A64 instruction does with memory.
///
/// Of what the architecture leaves unallocated little is claimed: most of it is [`Operation::None`].
///
/// ```
/// use unspool_isa::{Operation, a64_access};
///
/// // ldp x29, x30, [sp], #16
/// let access = a64_access(0xa8c1_7bfd);
/// assert_eq!(access.operation, Operation::Load);
/// assert_eq!(access.bytes, Some(16));
/// ```
#[inline]
pub fn a64_access(word: u32) -> Access {
    match field(word, 25, 4) {
        0b0100 | 0b0110 | 0b1100 | 0b1110 => load_store::access(word),
        0b1010 | 0b1011 => system::access(word),
        0b0010 => sve::access(word),
        0b0000 if flag(word, 31) => sme::access(word),
        0b0000 if word >> 16 == 0 => Access::of(Operation::Undefined),
        _ => Access::NOTHING,
    }
}

/// The number in the opcode of SVC, HVC, SMC, BRK, HLT and DCPS.
#[inline]
pub const fn call_number(word: u32) -> u16 {
    (word >> 5) as u16
}

impl Access {
    /// Nothing at all.
    const NOTHING: Self = Self::of(Operation::None);

    /// The operation, and nothing else to say.
    const fn of(operation: Operation) -> Self {
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

    /// The operation on so many bytes.
    const fn sized(operation: Operation, bytes: u16) -> Self {
        Self { bytes: Some(bytes), ..Self::of(operation) }
    }

    /// The same, but more than the opcode decides whether it writes.
    const fn conditionally(self) -> Self {
        Self { may_not_write: true, ..self }
    }
}

/// The `width` bits from bit `low` on.
#[inline]
const fn field(word: u32, low: u32, width: u32) -> u32 {
    word >> low & ((1 << width) - 1)
}

/// Whether bit `place` is set.
#[inline]
const fn flag(word: u32, place: u32) -> bool {
    word >> place & 1 != 0
}

/// Loads have the bit set, stores have not.
const fn direction(is_load: bool) -> Operation {
    if is_load { Operation::Load } else { Operation::Store }
}
