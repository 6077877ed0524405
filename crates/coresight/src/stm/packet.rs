//! STP packets and their content.
//!
//! bytes ─▶ **packets** ─▶ elements
//!
//! The enum is the table of opcodes. A packet holds the content of its own nibbles and no more: the low bits of a
//! channel, the nibbles of a timestamp that changed. `read.rs` finds packets in bytes, `encode.rs` writes them.
//! Specification: MIPI System Trace Protocol 2; Arm IHI 0054 (STM) and DDI 0528 (STM-500).

/// One packet, and where in its first byte it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// It starts in bits 7 to 4 of its first byte; the packet before has bits 3 to 0.
    pub high_half: bool,
    /// The content.
    pub body: Body,
}

/// The content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// Synchronization: a packet boundary that can be found without knowing any other.
    Async,
    /// Padding packets that follow one another.
    Null {
        /// Number of packets, each of one nibble.
        count: u64,
    },
    /// The version of the protocol and of its timestamps. Master and channel start anew.
    Version(Version),
    /// The master of the following packets. The channel becomes 0.
    Master {
        /// The number.
        value: u16,
        /// All 16 bits are given, otherwise bits 7 to 0.
        wide: bool,
    },
    /// The channel of the following packets.
    Channel {
        /// The number.
        value: u16,
        /// All 16 bits are given, otherwise bits 7 to 0.
        wide: bool,
    },
    /// The current master lost data.
    MasterError(u8),
    /// Masters that are not known lost data.
    GlobalError(u8),
    /// The current channel lost data (STP 2.4).
    ChannelError(u8),
    /// Data of the current channel.
    Data {
        /// The value.
        value: u64,
        /// Number of bits: 4, 8, 16, 32 or 64.
        bits: u8,
        /// It marks the boundary of a message.
        marked: bool,
        /// The time.
        timestamp: Option<Timestamp>,
    },
    /// A flag of the current channel.
    Flag(Option<Timestamp>),
    /// A time without anything else.
    NullTimestamp(Timestamp),
    /// A trigger.
    Trigger {
        /// Its number.
        value: u8,
        /// The time.
        timestamp: Option<Timestamp>,
    },
    /// The frequency of the timestamp counter.
    Frequency {
        /// Hertz.
        value: u64,
        /// 40 bits, otherwise 32.
        wide: bool,
        /// The time.
        timestamp: Option<Timestamp>,
    },
    /// A synchronization with other trace.
    CrossSync {
        /// Its number.
        value: u8,
        /// The time.
        timestamp: Option<Timestamp>,
    },
    /// Data whose meaning the implementation defines.
    User {
        /// The value.
        value: u64,
        /// Number of nibbles: 1 to 16.
        nibbles: u8,
        /// The time.
        timestamp: Option<Timestamp>,
    },
}

/// The nibbles of a timestamp that a packet has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp {
    /// The value.
    pub value: u64,
    /// Number of nibbles: 0 to 12, 14 or 16.
    pub nibbles: u8,
}

/// A version packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The format of timestamps.
    pub timestamps: TimestampFormat,
    /// The minor version, 2 to 4, and whether payloads start with their least significant nibble. `None`: STP 2.1 or
    /// earlier.
    pub extension: Option<(u8, bool)>,
}

impl Version {
    /// The version with this format of timestamps, as Arm units have it.
    pub const fn new(timestamps: TimestampFormat) -> Self {
        Self { timestamps, extension: None }
    }

    /// Do payloads start with their least significant nibble?
    #[inline]
    pub fn is_least_first(self) -> bool {
        matches!(self.extension, Some((_, true)))
    }
}

/// The format of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampFormat {
    /// Two nibbles, the depth of an export buffer (STP 1). The number of the version is 0 or 1.
    Legacy(u8),
    /// A difference to the time before.
    Delta,
    /// The low nibbles of the time.
    Natural,
    /// The low nibbles of the Gray-coded time.
    Gray,
}

impl TimestampFormat {
    /// The number in a version packet.
    pub fn number(self) -> u8 {
        match self {
            Self::Legacy(number) => number,
            Self::Delta => 2,
            Self::Natural => 3,
            Self::Gray => 4,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 | 1 => Self::Legacy(number),
            2 => Self::Delta,
            3 => Self::Natural,
            4 => Self::Gray,
            _ => return None,
        })
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
    Async "async"
    Null "null"
    Version "version"
    Master8 "master_8"
    Master16 "master_16"
    Channel8 "channel_8"
    Channel16 "channel_16"
    MasterError "master_error"
    GlobalError "global_error"
    ChannelError "channel_error"
    Data4 "data_4"
    Data8 "data_8"
    Data16 "data_16"
    Data32 "data_32"
    Data64 "data_64"
    Flag "flag"
    NullTimestamp "null_timestamp"
    Trigger "trigger"
    Frequency "frequency"
    CrossSync "cross_sync"
    User "user"
}

impl Packet {
    /// The kind of the packet.
    pub fn kind(&self) -> PacketKind {
        match self.body {
            Body::Async => PacketKind::Async,
            Body::Null { .. } => PacketKind::Null,
            Body::Version(_) => PacketKind::Version,
            Body::Master { wide: false, .. } => PacketKind::Master8,
            Body::Master { .. } => PacketKind::Master16,
            Body::Channel { wide: false, .. } => PacketKind::Channel8,
            Body::Channel { .. } => PacketKind::Channel16,
            Body::MasterError(_) => PacketKind::MasterError,
            Body::GlobalError(_) => PacketKind::GlobalError,
            Body::ChannelError(_) => PacketKind::ChannelError,
            Body::Data { bits: 4, .. } => PacketKind::Data4,
            Body::Data { bits: 8, .. } => PacketKind::Data8,
            Body::Data { bits: 16, .. } => PacketKind::Data16,
            Body::Data { bits: 32, .. } => PacketKind::Data32,
            Body::Data { .. } => PacketKind::Data64,
            Body::Flag(_) => PacketKind::Flag,
            Body::NullTimestamp(_) => PacketKind::NullTimestamp,
            Body::Trigger { .. } => PacketKind::Trigger,
            Body::Frequency { .. } => PacketKind::Frequency,
            Body::CrossSync { .. } => PacketKind::CrossSync,
            Body::User { .. } => PacketKind::User,
        }
    }
}
