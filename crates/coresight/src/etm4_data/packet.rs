//! Packets of a data trace stream.
//!
//! The enum is the public table of headers. Packets without a known layout are their header alone; the bytes after it up to
//! the next alignment synchronization are one [`Packet::Undecoded`].

/// One packet, or bytes whose layout is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet {
    /// Marks a packet boundary that can be found without knowing any other.
    AlignmentSync,
    /// Tracing stopped.
    Discard,
    /// The trace unit overflowed: trace is missing here.
    Overflow,
    /// The header of a trace info.
    TraceInfo,
    /// A synchronization marker with a number, 0 to 7. The instruction stream has the same.
    NumberedMarker(u8),
    /// A synchronization marker without a number.
    UnnumberedMarker,
    /// The time. Only the low `bits` bits of `value` are new.
    Timestamp {
        /// The new low bits.
        value: u64,
        /// Number of new bits: a multiple of 7, or 64.
        bits: u8,
    },
    /// Transfers were not traced.
    Suppression,
    /// The header of an event.
    Event,
    /// The header of a P1 packet, which has the address of a transfer.
    P1 {
        /// Its format, 1 to 7.
        format: u8,
    },
    /// The header of a P2 packet, which has the value of a transfer.
    P2 {
        /// Its format, 1 to 6.
        format: u8,
    },
    /// Bytes after a header whose payload has no known layout.
    Undecoded,
}

/// The kinds of packet, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum PacketKind {
    AlignmentSync,
    Discard,
    Overflow,
    TraceInfo,
    NumberedMarker,
    UnnumberedMarker,
    Timestamp,
    Suppression,
    Event,
    P1,
    P2,
    Undecoded,
}

impl PacketKind {
    /// All kinds.
    pub const ALL: &[PacketKind] = &[
        PacketKind::AlignmentSync,
        PacketKind::Discard,
        PacketKind::Overflow,
        PacketKind::TraceInfo,
        PacketKind::NumberedMarker,
        PacketKind::UnnumberedMarker,
        PacketKind::Timestamp,
        PacketKind::Suppression,
        PacketKind::Event,
        PacketKind::P1,
        PacketKind::P2,
        PacketKind::Undecoded,
    ];

    /// The name that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            PacketKind::AlignmentSync => "alignment_sync",
            PacketKind::Discard => "discard",
            PacketKind::Overflow => "overflow",
            PacketKind::TraceInfo => "data_trace_info",
            PacketKind::NumberedMarker => "numbered_data_sync",
            PacketKind::UnnumberedMarker => "unnumbered_data_sync",
            PacketKind::Timestamp => "timestamp",
            PacketKind::Suppression => "suppression",
            PacketKind::Event => "data_event",
            PacketKind::P1 => "p1",
            PacketKind::P2 => "p2",
            PacketKind::Undecoded => "undecoded",
        }
    }
}

impl Packet {
    /// The kind of the packet.
    pub fn kind(&self) -> PacketKind {
        match self {
            Packet::AlignmentSync => PacketKind::AlignmentSync,
            Packet::Discard => PacketKind::Discard,
            Packet::Overflow => PacketKind::Overflow,
            Packet::TraceInfo => PacketKind::TraceInfo,
            Packet::NumberedMarker(_) => PacketKind::NumberedMarker,
            Packet::UnnumberedMarker => PacketKind::UnnumberedMarker,
            Packet::Timestamp { .. } => PacketKind::Timestamp,
            Packet::Suppression => PacketKind::Suppression,
            Packet::Event => PacketKind::Event,
            Packet::P1 { .. } => PacketKind::P1,
            Packet::P2 { .. } => PacketKind::P2,
            Packet::Undecoded => PacketKind::Undecoded,
        }
    }

    /// Is its payload, and with it the start of the next packet, not known?
    pub(super) fn hides_the_next(&self) -> bool {
        matches!(self, Packet::TraceInfo | Packet::Event | Packet::P1 { .. } | Packet::P2 { .. })
    }
}
