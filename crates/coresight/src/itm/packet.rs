//! ITM and DWT packets and their content.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! The enum is the specification's table. A packet holds the content of its own bytes and no more: a port without its
//! page, a global timestamp without the bits of others. `read.rs` finds packets in bytes, `encode.rs` writes them.
//! Specification: Armv7-M (DDI 0403) and Armv8-M (DDI 0553) architecture, ITM and DWT packet protocol.

/// One packet, named as in the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet {
    /// Marks a packet boundary that can be found without knowing any other.
    Sync,
    /// Packets were dropped since the last one, or the local timestamp counter wrapped.
    Overflow,
    /// Ticks since the last local timestamp, with their relation to the packets before it.
    LocalTimestamp1 {
        /// Number of ticks, 28 bits.
        ticks: u32,
        /// What was delayed.
        relation: Relation,
    },
    /// Ticks since the last local timestamp: 1 to 6. Nothing was delayed.
    LocalTimestamp2 {
        /// Number of ticks.
        ticks: u8,
    },
    /// Low bits of the global timestamp.
    GlobalTimestamp1 {
        /// The new low bits.
        value: u32,
        /// Number of new bits: 7, 14, 21 or 26.
        bits: u8,
        /// Bits 26 and up changed too. Only a packet of 26 bits has this.
        wrap: bool,
        /// The clock ratio changed since the last global timestamp. Only a packet of 26 bits has this.
        clock_change: bool,
    },
    /// Bits of the global timestamp from bit 26 up.
    GlobalTimestamp2 {
        /// The bits, shifted right by 26.
        value: u64,
        /// Number of payload bytes: 4 of a 48-bit counter, 6 of a 64-bit one.
        bytes: u8,
    },
    /// An extension of the packets that follow.
    Extension(Extension),
    /// A value that software wrote to a stimulus port.
    Software {
        /// The port within its page, 0 to 31.
        port: u8,
        /// Number of bytes: 1, 2 or 4.
        size: u8,
        /// The value.
        value: u32,
    },
    /// A packet of the DWT.
    Hardware(Hardware),
}

/// An extension packet. Only one meaning is defined: the page of the stimulus ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// It extends hardware source packets, otherwise software source packets.
    pub hardware: bool,
    /// Number of bits of the value: 3, 10, 17, 24 or 32.
    pub bits: u8,
    /// The value.
    pub value: u32,
}

impl Extension {
    /// The page of stimulus ports that follows, if that is the meaning.
    pub fn page(self) -> Option<u8> {
        (!self.hardware && self.bits == 3).then_some((self.value & 7) as u8)
    }
}

/// A hardware source packet: its meaning depends on the discriminator and the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hardware {
    /// The discriminator, 0 to 31.
    pub discriminator: u8,
    /// Number of bytes: 1, 2 or 4.
    pub size: u8,
    /// The value.
    pub value: u32,
}

/// Relation of a local timestamp to the packets before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Relation {
    /// Timestamp and packets are of the same moment.
    Synchronous,
    /// The timestamp was delayed: the packets are older.
    TimestampDelayed,
    /// The packets were delayed after their event: the timestamp is that of the packets.
    EventDelayed,
    /// Both were delayed.
    BothDelayed,
}

impl Relation {
    /// All, in the order of their encoding.
    pub const ALL: [Self; 4] = [Self::Synchronous, Self::TimestampDelayed, Self::EventDelayed, Self::BothDelayed];

    /// The relation of two bits.
    pub(super) fn from_bits(bits: u8) -> Self {
        Self::ALL[usize::from(bits & 3)]
    }

    /// The name that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Synchronous => "synchronous",
            Self::TimestampDelayed => "timestamp_delayed",
            Self::EventDelayed => "event_delayed",
            Self::BothDelayed => "both_delayed",
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
    Sync "synchronization"
    Overflow "overflow"
    LocalTimestamp1 "local_timestamp_1"
    LocalTimestamp2 "local_timestamp_2"
    GlobalTimestamp1 "global_timestamp_1"
    GlobalTimestamp2 "global_timestamp_2"
    Extension "extension"
    Software "software"
    EventCounter "event_counter"
    ExceptionTrace "exception_trace"
    PcSample "pc_sample"
    PmuOverflow "pmu_overflow"
    DataTracePc "data_trace_pc"
    DataTraceMatch "data_trace_match"
    DataTraceAddress "data_trace_address"
    DataTraceValue "data_trace_value"
    Hardware "hardware"
}

impl Packet {
    /// The kind of the packet.
    pub fn kind(&self) -> PacketKind {
        match self {
            Packet::Sync => PacketKind::Sync,
            Packet::Overflow => PacketKind::Overflow,
            Packet::LocalTimestamp1 { .. } => PacketKind::LocalTimestamp1,
            Packet::LocalTimestamp2 { .. } => PacketKind::LocalTimestamp2,
            Packet::GlobalTimestamp1 { .. } => PacketKind::GlobalTimestamp1,
            Packet::GlobalTimestamp2 { .. } => PacketKind::GlobalTimestamp2,
            Packet::Extension(_) => PacketKind::Extension,
            Packet::Software { .. } => PacketKind::Software,
            Packet::Hardware(hardware) => hardware.event().kind(),
        }
    }
}
