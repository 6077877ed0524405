//! ETMv3 packets and their content.
//!
//! bytes ─▶ **packets** ─▶ elements ─▶ committed
//!
//! A packet holds the content of its own bytes and no more: the address of a branch is a few low bits, a timestamp the
//! bits that changed. `read.rs` finds packets in bytes, `encode.rs` writes them.
//! Specification: Arm IHI 0014.

use crate::Atoms;

/// One packet, named as in the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet {
    /// Marks a packet boundary that can be found without knowing any other.
    AlignmentSync,
    /// Cycles of the gap before the last synchronization that started trace; 0: the counter overflowed.
    CycleCount {
        /// Number of cycles.
        cycles: u32,
    },
    /// A complete state of the PE, where analysis may start.
    InstructionSync(InstructionSync),
    /// The trigger condition occurred.
    Trigger,
    /// The virtual machine identifier of the following instructions.
    Vmid(u8),
    /// The store-exclusive of the data packet before did not store.
    StoreFailed,
    /// The time. Only the low `bits` bits of `value` are new, and they may be Gray-coded.
    Timestamp {
        /// The new low bits.
        value: u64,
        /// Number of new bits: a multiple of 7, or 48 or 64.
        bits: u8,
        /// The frequency of the clock has changed.
        frequency_changed: bool,
    },
    /// Data packets are missing from here on, up to the next data instruction.
    DataSuppressed,
    /// No meaning.
    Ignore,
    /// The context identifier of the following instructions.
    ContextId(u32),
    /// The instruction of the atom before returns from an exception.
    ExceptionExit,
    /// Exception entry: following data are its automatic stack push (M-profile).
    ExceptionEntry,
    /// Outcomes of instructions, and cycles.
    PHeader(PHeader),
    /// The address where execution continues.
    Branch(Branch),
    /// A transfer of a data instruction.
    Data {
        /// It is the first of its instruction.
        first: bool,
        /// Its address; `None`: it follows from the transfer before, or addresses are not traced.
        address: Option<DataAddress>,
        /// Its value, if values are traced.
        value: Option<u32>,
    },
    /// A transfer whose value follows later.
    Placeholder {
        /// The tag of the value, 1 to 3.
        tag: u8,
        /// It is the first of its instruction.
        first: bool,
        /// Its address; `None`: it follows from the transfer before, or addresses are not traced.
        address: Option<DataAddress>,
    },
    /// The value of the oldest open placeholder with this tag.
    OutOfOrderData {
        /// The tag, 1 to 3.
        tag: u8,
        /// The value, if values are traced.
        value: Option<u32>,
    },
    /// A transfer whose value was filtered out.
    ValueNotTraced {
        /// It is the first of its instruction.
        first: bool,
        /// Its address; `None`: it follows from the transfer before, or addresses are not traced.
        address: Option<DataAddress>,
    },
}

/// An instruction synchronization packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionSync {
    /// The reason for the packet.
    pub reason: SyncReason,
    /// Cycles of the gap before it, in the form with a cycle count; 0: the counter overflowed.
    pub cycles: Option<u32>,
    /// The context identifier, if traced.
    pub context_id: Option<u32>,
    /// The PE is in Non-secure state.
    pub non_secure: bool,
    /// The PE is in Hyp mode.
    pub hyp: bool,
    /// The address and instruction set; `None` if only data are traced.
    pub target: Option<SyncTarget>,
    /// A load or store at the address is still in progress: it is executed, and execution continues at this address,
    /// which is relative to it.
    pub next: Option<Branch>,
}

/// The reason for an instruction synchronization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncReason {
    /// A regular interval: trace continues.
    Periodic,
    /// Tracing was enabled.
    Enabled,
    /// Tracing restarts after trace was lost.
    Overflow,
    /// The PE left Debug state.
    DebugExit,
}

/// The address of an instruction synchronization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncTarget {
    /// The address.
    pub address: u32,
    /// The instruction set.
    pub isa: InstructionSet,
}

/// An instruction set, as ETMv3 distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// Arm (A32).
    Arm,
    /// Thumb (T32).
    Thumb,
    /// ThumbEE.
    ThumbEe,
    /// Jazelle.
    Jazelle,
}

impl InstructionSet {
    /// Number of low address bits that a branch packet leaves out.
    pub const fn shift(self) -> u8 {
        match self {
            InstructionSet::Arm => 2,
            InstructionSet::Thumb | InstructionSet::ThumbEe => 1,
            InstructionSet::Jazelle => 0,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            InstructionSet::Arm => "Arm",
            InstructionSet::Thumb => "Thumb",
            InstructionSet::ThumbEe => "ThumbEE",
            InstructionSet::Jazelle => "Jazelle",
        }
    }
}

/// A P-header packet. With cycle counting, formats 1 and 2 contain cycles too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Nearly all packets are these: aligned, one is copied as a whole instead of byte by byte.
#[repr(align(4))]
pub enum PHeader {
    /// E atoms, then perhaps an N atom; with cycle counting, a cycle before each.
    Format1 {
        /// Number of E atoms: up to 15, or 7 with cycle counting.
        executed: u8,
        /// An N atom follows.
        failed: bool,
    },
    /// Two atoms, each E if set; with cycle counting, one cycle before both.
    Format2 {
        /// The first atom.
        first: bool,
        /// The second atom.
        second: bool,
    },
    /// Cycles, then perhaps an E atom (cycle counting only).
    Format3 {
        /// Number of cycles, 1 to 8.
        cycles: u8,
        /// An E atom follows.
        executed: bool,
    },
    /// An atom in the same cycle as the one before, E if set (cycle counting only).
    Format4 {
        /// The atom.
        executed: bool,
    },
}

impl PHeader {
    /// The atoms.
    #[inline]
    pub fn atoms(self) -> Atoms {
        match self {
            PHeader::Format1 { executed, failed } => {
                Atoms::new((1 << executed.min(31)) - 1, executed.saturating_add(u8::from(failed)))
            }
            PHeader::Format2 { first, second } => Atoms::new(u32::from(first) | u32::from(second) << 1, 2),
            PHeader::Format3 { executed, .. } => Atoms::new(1, u8::from(executed)),
            PHeader::Format4 { executed } => Atoms::new(u32::from(executed), 1),
        }
    }
}

/// A branch address packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// The new address bits, which start at the lowest bit that the instruction set has.
    pub value: u32,
    /// Number of new bits.
    pub bits: u8,
    /// The instruction set, in a packet of five bytes. Thumb stands for ThumbEE too. `None`: as before.
    pub isa: Option<InstructionSet>,
    /// The exception, or other changes of state.
    pub exception: Option<BranchException>,
}

/// Exception information of a branch packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchException {
    /// Exception bytes after the address.
    Information(ExceptionInformation),
    /// The form of ETMv3.0, in the fifth address byte.
    Deprecated {
        /// The exception code, 0 to 7.
        code: u8,
        /// The instruction before was canceled.
        canceled: bool,
    },
}

/// The exception bytes of a branch packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExceptionInformation {
    /// The exception number; 0: none.
    pub number: u16,
    /// The instruction before was canceled.
    pub canceled: bool,
    /// The PE is in Non-secure state.
    pub non_secure: bool,
    /// The alternative instruction set: Thumb is ThumbEE.
    pub alternative_isa: bool,
    /// The PE is in Hyp mode, if the byte with this field is present.
    pub hyp: Option<bool>,
    /// Where an interrupted instruction resumes, if present (M-profile).
    pub resume: Option<u8>,
}

/// The address of a data transfer: the last one with its low bits replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataAddress {
    /// The new low bits.
    pub value: u32,
    /// Number of new bits: 7, 14, 21, 28 or 32.
    pub bits: u8,
    /// The access is big-endian (BE-8), in an address of five bytes.
    pub big_endian: Option<bool>,
}

macro_rules! kinds {
    ($($kind:ident $name:literal)*) => {
        /// The kinds of packet, as far as headers distinguish them. For counting.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names are the specification's")]
        pub enum PacketKind { $($kind),* }

        impl PacketKind {
            /// All kinds.
            pub const ALL: &[PacketKind] = &[$(PacketKind::$kind),*];

            /// The name that the command line and JSON use.
            pub fn name(self) -> &'static str {
                match self { $(PacketKind::$kind => $name),* }
            }
        }
    };
}

kinds! {
    AlignmentSync "alignment_sync"
    CycleCount "cycle_count"
    InstructionSync "instruction_sync"
    InstructionSyncWithCycles "instruction_sync_with_cycles"
    Trigger "trigger"
    Vmid "vmid"
    StoreFailed "store_failed"
    Timestamp "timestamp"
    DataSuppressed "data_suppressed"
    Ignore "ignore"
    ContextId "context_id"
    ExceptionExit "exception_exit"
    ExceptionEntry "exception_entry"
    PHeaderFormat1 "p_header_format_1"
    PHeaderFormat2 "p_header_format_2"
    PHeaderFormat3 "p_header_format_3"
    PHeaderFormat4 "p_header_format_4"
    Branch "branch"
    Data "data"
    Placeholder "placeholder"
    OutOfOrderData "out_of_order_data"
    ValueNotTraced "value_not_traced"
}

impl Packet {
    /// Does the packet leave bits of its address to earlier packets?
    pub fn has_partial_address(&self) -> bool {
        matches!(self, Packet::Branch(Branch { isa: None, .. }))
    }

    /// The kind of the packet.
    pub fn kind(&self) -> PacketKind {
        use PacketKind as K;
        match self {
            Packet::AlignmentSync => K::AlignmentSync,
            Packet::CycleCount { .. } => K::CycleCount,
            Packet::InstructionSync(InstructionSync { cycles: None, .. }) => K::InstructionSync,
            Packet::InstructionSync(_) => K::InstructionSyncWithCycles,
            Packet::Trigger => K::Trigger,
            Packet::Vmid(_) => K::Vmid,
            Packet::StoreFailed => K::StoreFailed,
            Packet::Timestamp { .. } => K::Timestamp,
            Packet::DataSuppressed => K::DataSuppressed,
            Packet::Ignore => K::Ignore,
            Packet::ContextId(_) => K::ContextId,
            Packet::ExceptionExit => K::ExceptionExit,
            Packet::ExceptionEntry => K::ExceptionEntry,
            Packet::PHeader(PHeader::Format1 { .. }) => K::PHeaderFormat1,
            Packet::PHeader(PHeader::Format2 { .. }) => K::PHeaderFormat2,
            Packet::PHeader(PHeader::Format3 { .. }) => K::PHeaderFormat3,
            Packet::PHeader(PHeader::Format4 { .. }) => K::PHeaderFormat4,
            Packet::Branch(_) => K::Branch,
            Packet::Data { .. } => K::Data,
            Packet::Placeholder { .. } => K::Placeholder,
            Packet::OutOfOrderData { .. } => K::OutOfOrderData,
            Packet::ValueNotTraced { .. } => K::ValueNotTraced,
        }
    }
}
