//! Packets, in the words of the specification.
//!
//! A packet is what its bytes say: an address may be a part of one, and a branch may leave its context out. The element
//! decoder knows the rest.

use crate::{Atoms, OtherIsa, SubIsa};

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet {
    /// The point where packets can be found without anything that came before.
    AlignmentSync,
    /// The address, the context and the reason for them.
    InstructionSync(InstructionSync),
    /// The target of the next waypoint, which was taken, or of an exception.
    Branch(Branch),
    /// Outcomes of the next waypoints, oldest first.
    Atoms {
        /// One to five; exactly one if cycles are counted.
        atoms: Atoms,
        /// Cycles since the last count, in a cycle-accurate trace.
        cycles: Option<u32>,
    },
    /// All instructions up to and including the one at this address were executed.
    WaypointUpdate {
        /// The address.
        address: Address,
        /// The AltIS bit, if the packet has it.
        alternative: Option<bool>,
    },
    /// The trigger condition of the trace unit occurred.
    Trigger,
    /// The context identifier from here on.
    ContextId(u32),
    /// The virtual machine identifier from here on (version 1.1).
    Vmid(u8),
    /// The time. Bits that the packet leaves out are as before.
    Timestamp {
        /// The new low bits, as sent: they may be Gray-coded.
        value: u64,
        /// Number of new low bits.
        bits: u8,
        /// The clock rate may have changed since the last timestamp.
        clock_changed: bool,
        /// Cycles since the last count, in a cycle-accurate trace.
        cycles: Option<u32>,
    },
    /// The last waypoint returned from an exception.
    ExceptionReturn,
    /// No meaning.
    Ignore,
}

/// An instruction synchronization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionSync {
    /// The address of the next instruction.
    pub address: u32,
    /// T32 rather than A32.
    pub thumb: bool,
    /// The reason for the packet.
    pub reason: SyncReason,
    /// Non-secure state.
    pub nonsecure: bool,
    /// The AltIS bit: with T32, ThumbEE.
    pub alternative: bool,
    /// Hyp mode (version 1.1).
    pub hyp: bool,
    /// Cycles since the last count. A periodic synchronization has none.
    pub cycles: Option<u32>,
    /// The context identifier, if it is traced.
    pub context_id: Option<u32>,
}

/// The reason for an instruction synchronization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncReason {
    /// Sent from time to time; execution continues.
    Periodic,
    /// Tracing starts.
    TraceEnabled,
    /// Tracing continues after an overflow.
    AfterOverflow,
    /// The PE left Debug state.
    DebugExit,
}

impl SyncReason {
    /// The reason of a number, 0 to 3.
    pub(super) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => SyncReason::Periodic,
            1 => SyncReason::TraceEnabled,
            2 => SyncReason::AfterOverflow,
            _ => SyncReason::DebugExit,
        }
    }

    /// The word that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            SyncReason::Periodic => "periodic",
            SyncReason::TraceEnabled => "trace_enabled",
            SyncReason::AfterOverflow => "after_overflow",
            SyncReason::DebugExit => "debug_exit",
        }
    }
}

/// A branch address packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// The target.
    pub address: Address,
    /// The context and the exception, if the packet has them.
    pub info: Option<BranchInfo>,
    /// Cycles since the last count, in a cycle-accurate trace.
    pub cycles: Option<u32>,
}

/// The information bytes of a branch address packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BranchInfo {
    /// The type of the exception; 0: none, the packet is a taken branch.
    pub exception: u16,
    /// Non-secure state.
    pub nonsecure: bool,
    /// The AltIS bit: with T32, ThumbEE.
    pub alternative: bool,
    /// Hyp mode, which is in the second byte only.
    pub hyp: Option<bool>,
}

/// An address as a packet gives it: the last one that was sent, with its low bits replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The new low bits, without those that the instruction set leaves zero: a number of instruction steps.
    pub steps: u32,
    /// The number of bytes, 1 to 5.
    pub bytes: u8,
    /// The instruction set, which only an address of five bytes has.
    pub isa: Option<AddressIsa>,
}

impl Address {
    /// An address of one to four bytes: the instruction set is as before.
    pub const fn low(bytes: u8, steps: u32) -> Self {
        Self { steps, bytes, isa: None }
    }

    /// A whole address.
    pub const fn full(isa: AddressIsa, address: u32) -> Self {
        Self { steps: address >> isa.shift(), bytes: 5, isa: Some(isa) }
    }

    /// The number of new bits, without those that the instruction set leaves zero.
    pub const fn bits(self) -> u8 {
        match (self.bytes, self.isa) {
            (0 | 1, _) => 6,
            (bytes @ 2..=4, _) => 7 * bytes - 2,
            (_, Some(isa)) => 32 - isa.shift(),
            (_, None) => 27,
        }
    }
}

/// The instruction set of a whole address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressIsa {
    /// A32.
    Arm,
    /// T32 or ThumbEE.
    Thumb,
    /// Jazelle, which is never traced.
    Jazelle,
}

impl AddressIsa {
    /// Number of low address bits that are not sent, since they are always zero.
    pub const fn shift(self) -> u8 {
        match self {
            AddressIsa::Arm => 2,
            AddressIsa::Thumb => 1,
            AddressIsa::Jazelle => 0,
        }
    }

    /// The instruction set as elements have it; `alternative` is the AltIS bit.
    pub(super) const fn meaning(self, alternative: bool) -> Result<SubIsa, OtherIsa> {
        match (self, alternative) {
            (AddressIsa::Arm, _) => Ok(SubIsa::Is0),
            (AddressIsa::Thumb, false) => Ok(SubIsa::Is1),
            (AddressIsa::Thumb, true) => Err(OtherIsa::ThumbEe),
            (AddressIsa::Jazelle, _) => Err(OtherIsa::Jazelle),
        }
    }

    /// The word that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            AddressIsa::Arm => "a32",
            AddressIsa::Thumb => "t32",
            AddressIsa::Jazelle => "jazelle",
        }
    }
}

macro_rules! kinds {
    ($($kind:ident $name:literal)*) => {
        /// The kinds of packet. For counting.
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
    InstructionSync "instruction_sync"
    Branch "branch"
    Atoms "atoms"
    WaypointUpdate "waypoint_update"
    Trigger "trigger"
    ContextId "context_id"
    Vmid "vmid"
    Timestamp "timestamp"
    ExceptionReturn "exception_return"
    Ignore "ignore"
}

impl Packet {
    /// Does the packet leave bits of its address to earlier packets?
    pub fn has_partial_address(&self) -> bool {
        match self {
            Packet::Branch(Branch { address, .. }) | Packet::WaypointUpdate { address, .. } => address.bytes < 5,
            _ => false,
        }
    }

    /// The kind of the packet.
    pub fn kind(&self) -> PacketKind {
        match self {
            Packet::AlignmentSync => PacketKind::AlignmentSync,
            Packet::InstructionSync(_) => PacketKind::InstructionSync,
            Packet::Branch(_) => PacketKind::Branch,
            Packet::Atoms { .. } => PacketKind::Atoms,
            Packet::WaypointUpdate { .. } => PacketKind::WaypointUpdate,
            Packet::Trigger => PacketKind::Trigger,
            Packet::ContextId(_) => PacketKind::ContextId,
            Packet::Vmid(_) => PacketKind::Vmid,
            Packet::Timestamp { .. } => PacketKind::Timestamp,
            Packet::ExceptionReturn => PacketKind::ExceptionReturn,
            Packet::Ignore => PacketKind::Ignore,
        }
    }
}
