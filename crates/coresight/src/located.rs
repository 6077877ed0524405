//! Items of a stream with the bytes that encode them, and the errors that replace items.
//!
//! Shared by all protocols and stages: a stage produces [`Located`] values, and a [`TraceError`] where it cannot. Items
//! and skipped bytes tile the stream.

use core::fmt;

use crate::Packet;

/// A value and the bytes of the stream that encode it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located<T> {
    /// The first byte, counted from the start of the stream.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The value.
    pub value: T,
}

impl<T> Located<T> {
    /// The same bytes with another value.
    #[inline(always)]
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Located<U> {
        Located { offset: self.offset, length: self.length, value: map(self.value) }
    }
}

/// A range of bytes of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first byte, counted from the start of the stream.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Extent {
    /// The bytes that encode a value.
    #[inline(always)]
    pub fn of<T>(located: &Located<T>) -> Self {
        Self { offset: located.offset, length: located.length }
    }

    /// A value that these bytes encode.
    #[inline(always)]
    pub fn locate<T>(self, value: T) -> Located<T> {
        Located { offset: self.offset, length: self.length, value }
    }
}

/// An error in place of an item: what is wrong at `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceError<K> {
    /// The first skipped byte, or the first byte of the packet that shows the error.
    pub offset: u64,
    /// Number of skipped bytes.
    pub skipped: u64,
    /// The kind of error.
    pub kind: K,
}

impl<K> core::error::Error for TraceError<K> where Self: fmt::Debug + fmt::Display {}

impl<K: fmt::Display> TraceError<K> {
    /// Writes the error with the number of skipped bytes.
    pub(crate) fn fmt_with_skipped(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}: {} ({} bytes skipped)", self.offset, self.kind, self.skipped)
    }
}

/// Bytes that are not a packet.
pub type PacketError = TraceError<Malformed>;

/// Elements that are missing or contradict each other.
pub type ElementError = TraceError<Broken>;

/// A packet, or bytes that are not one.
pub type PacketItem<P = Packet> = Result<Located<P>, PacketError>;

/// Kind of malformed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// No alignment synchronization has been seen yet. Ordinary at the start of a stream and after a break in it.
    #[error("not synchronized yet")]
    NotSynchronized,
    /// The following bytes do not continue those before: trace was lost or restarted here. Reported by the stage that
    /// knows of the break, with no byte skipped.
    #[error("trace does not continue here")]
    Discontinuity,
    /// There is no synchronization near the start: the first byte is presumed to start a packet. No byte is skipped.
    #[error("no synchronization: a packet is presumed to start here")]
    PresumedStart,
    /// Bits of the following packet are set that should be zero. The packet is read without them, and no byte is skipped.
    #[error("reserved bits are set in the packet with header {0:#04x}")]
    ReservedBits(u8),
    /// A synchronization starts inside the packet.
    #[error("packet cut by a synchronization")]
    CutBySync,
    /// The architecture reserves this header byte.
    #[error("reserved packet header {0:#04x}")]
    ReservedHeader(u8),
    /// The header exists, but a trace unit with this configuration cannot send it. After a packet of a single byte
    /// reading continues; a longer one is treated as damage.
    #[error("packet header {0:#04x}, which this configuration of the trace unit cannot send")]
    NotInConfiguration(u8),
    /// The architecture reserves this byte after an extension header.
    #[error("reserved extension packet {0:#04x}")]
    ReservedExtension(u8),
    /// Zeros that do not end as an alignment synchronization does.
    #[error("broken alignment synchronization")]
    BrokenSync,
    /// The architecture reserves this exception information byte.
    #[error("reserved exception information {0:#04x}")]
    ReservedException(u8),
    /// The architecture reserves this value of a byte inside a packet.
    #[error("reserved byte {0:#04x} in a packet")]
    ReservedByte(u8),
    /// The stop marker of a trace buffer: a set bit, then zeros up to the end. Ordinary at the end of a stream.
    #[error("stop marker of the trace buffer")]
    StopMarker,
    /// A field continues for more bytes than it can have.
    #[error("unterminated field")]
    EndlessField,
    /// The protocol reserves this opcode, written as its nibbles, or the length of its packet is not known.
    #[error("reserved opcode {0:#x}")]
    ReservedOpcode(u16),
    /// The protocol reserves this length of a timestamp.
    #[error("reserved length of a timestamp")]
    ReservedLength,
    /// A version of the protocol that does not exist.
    #[error("unknown protocol version {0:#x}")]
    UnknownVersion(u16),
    /// A packet between a synchronization and the version that has to follow it.
    #[error("packet before the protocol version")]
    NoVersion,
    /// The stream ends inside the packet.
    #[error("stream ends inside a packet")]
    Truncated,
}

impl Malformed {
    /// Does an undamaged trace contain this too, as the bytes before the first synchronization?
    pub fn is_ordinary(self) -> bool {
        use Malformed::{Discontinuity, NotSynchronized, PresumedStart, StopMarker};
        matches!(self, NotSynchronized | Discontinuity | PresumedStart | StopMarker) || self.is_note()
    }

    /// Is nothing missing: is this a note on the item that follows?
    pub fn is_note(self) -> bool {
        matches!(self, Malformed::ReservedBits(_))
    }
}

impl fmt::Display for TraceError<Malformed> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_with_skipped(f)
    }
}

/// Kind of error in a sequence of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// Bytes that are not a packet.
    #[error("{0}")]
    Packet(Malformed),
    /// Packets that have no meaning without a trace info before them.
    #[error("packets before the first trace info")]
    NoTraceInfo,
    /// Packets that have no meaning without an instruction synchronization before them (ETMv3). Ordinary after an alignment
    /// synchronization.
    #[error("packets before the first instruction synchronization")]
    NoInstructionSync,
    /// An exception packet whose address packet did not follow.
    #[error("exception without its address")]
    ExceptionWithoutAddress,
    /// More P0 elements were committed than there were. TRCIDR8 or TRCIDR0 may not be those of this trace unit.
    #[error("commit of {0} P0 elements that were never traced")]
    CommitOfNothing(u32),
    /// More P0 elements were canceled than there were. TRCIDR8 may not be that of this trace unit.
    #[error("cancel of {0} P0 elements that were never traced or are committed")]
    CancelOfNothing(u32),
    /// A transaction that never ends: its elements are released unresolved.
    #[error("transaction too long to resolve")]
    EndlessTransaction,
    /// Speculation that is never resolved: its oldest elements are released as if committed.
    #[error("too many unresolved elements")]
    EndlessSpeculation,
}

impl Broken {
    /// Is nothing missing: is this a note on the item that follows?
    pub fn is_note(self) -> bool {
        matches!(self, Broken::Packet(kind) if kind.is_note())
    }

    /// Does an undamaged trace contain this too?
    pub fn is_ordinary(self) -> bool {
        match self {
            Broken::Packet(kind) => kind.is_ordinary(),
            Broken::NoInstructionSync => true,
            _ => false,
        }
    }

    /// Is the position in the program lost: do the following elements not continue those before?
    pub fn breaks_flow(self) -> bool {
        match self {
            Broken::Packet(kind) => !kind.is_note(),
            Broken::NoTraceInfo | Broken::NoInstructionSync | Broken::ExceptionWithoutAddress => true,
            _ => false,
        }
    }
}

impl fmt::Display for TraceError<Broken> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}: {}", self.offset, self.kind)
    }
}

impl From<PacketError> for ElementError {
    fn from(error: PacketError) -> Self {
        Self { offset: error.offset, skipped: error.skipped, kind: Broken::Packet(error.kind) }
    }
}
