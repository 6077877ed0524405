//! Formatter frames: how the bytes of several trace sources share one buffer.
//!
//! buffer bytes ─▶ **frames** ─▶ (id, bytes) ─▶ packets
//!
//! [`Deformatter`] takes a buffer apart, [`Formatter`] puts one together, [`Stream`] collects the bytes of one
//! trace id and remembers where each came from. It knows ids and synchronization patterns, but not the
//! protocols of the sources. Lost alignment is a [`Mark`] at an offset, after which reading continues.
//! Specification: Arm IHI 0029 (CoreSight), formatter protocol.

use alloc::vec::Vec;
use core::fmt;

use crate::TraceError;

mod deformat;
mod evidence;
mod group;
mod look_ahead;
mod read;
mod realign;
mod saved;
mod stream;
mod write;

pub use deformat::{Deformatter, Layout};
pub use evidence::{Fit, SourceEvidence, UnknownSources};

pub use saved::SavedFrames;
pub use stream::{Offsets, Stream};
pub use write::Formatter;

/// Bytes in one frame: 15 of ids and data, then one of flags.
pub const FRAME_LENGTH: usize = 16;
/// Data bytes that a frame without an id change carries.
pub const FRAME_DATA: usize = FRAME_LENGTH - 1;
/// The full synchronization pattern that a trace port inserts between frames.
pub const FSYNC: [u8; 4] = [0xff, 0xff, 0xff, 0x7f];
/// The half synchronization pattern that a trace port inserts between byte pairs of a frame.
pub const HSYNC: [u8; 2] = [0xff, 0x7f];

/// Padding: the bytes of this id mean nothing.
pub const ID_NULL: u8 = 0x00;
/// The last id that a trace source may have.
pub const ID_LAST: u8 = 0x6f;
/// The trace sink finished a flush.
pub const ID_FLUSH: u8 = 0x7b;
/// The bytes of this id mark a trigger.
pub const ID_TRIGGER: u8 = 0x7d;

/// Contiguous bytes of one trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<'a> {
    /// The trace id, 0x01 to 0x6f.
    pub id: u8,
    /// The offset of the first byte in the formatted buffer.
    pub offset: u64,
    /// The bytes, with their lowest bits put back.
    pub bytes: &'a [u8],
}

/// Contents of a formatted buffer besides the bytes of its sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// A full synchronization pattern.
    FullSync {
        /// Its offset in the buffer.
        offset: u64,
    },
    /// A half synchronization pattern.
    HalfSync {
        /// Its offset in the buffer.
        offset: u64,
    },
    /// Four full synchronization patterns in a row: the following bytes do not continue the preceding ones.
    Barrier {
        /// The offset of the first of the four.
        offset: u64,
    },
    /// A trigger byte.
    Trigger {
        /// The offset of the byte in the buffer.
        offset: u64,
    },
    /// The trace sink has completed a flush.
    Flush {
        /// The offset of the byte in the buffer.
        offset: u64,
    },
    /// Bytes that belong to no frame. No source's bytes continue across them.
    Lost(FrameError),
}

/// Bytes that are not part of a frame.
pub type FrameError = TraceError<BadFrame>;

/// Kind of damage to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadFrame {
    /// An id byte that no source may have: the frame is damaged or does not start here.
    #[error("reserved trace id {0:#04x} in a frame")]
    ReservedId(u8),
    /// A full synchronization pattern is inside the frame, so the frame did not start here.
    #[error("frame cut short by a full synchronization")]
    CutShort,
    /// No full synchronization has been seen yet.
    #[error("no full synchronization yet")]
    NotSynchronized,
    /// The next frame is not a whole number of frames away: bytes are missing, or there are too many.
    #[error("no frame starts here: bytes are missing, or there are too many")]
    Shifted,
    /// The buffer ends inside a frame, so the flags that complete its bytes are missing.
    #[error("buffer ends inside a frame")]
    Truncated,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_with_skipped(f)
    }
}

/// Consumer of the spans and marks that a [`Deformatter`] finds, in buffer order.
pub trait FrameSink {
    /// Bytes of one source.
    fn span(&mut self, span: Span<'_>);

    /// Consecutive frames that are all data of one source. `offset` is that of the first.
    #[inline]
    fn whole(&mut self, id: u8, offset: u64, frames: WholeFrames<'_>) {
        frames.each(id, offset, |span| self.span(span));
    }

    /// Anything else.
    fn mark(&mut self, mark: Mark);
}

/// Frames that are all data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeFrames<'a>(&'a [[u8; FRAME_LENGTH]]);

impl WholeFrames<'_> {
    /// Number of data bytes in all of them.
    pub fn data_length(self) -> usize {
        self.0.len() * FRAME_DATA
    }

    /// Number of buffer bytes of all of them.
    pub fn length(self) -> usize {
        self.0.len() * FRAME_LENGTH
    }

    /// Passes the data of each frame to `take`, as bytes of this source. `offset` is that of the first frame.
    #[inline]
    pub fn each(self, id: u8, offset: u64, mut take: impl FnMut(Span<'_>)) {
        for (index, bytes) in (0_u64..).zip(self.data()) {
            take(Span { id, offset: offset + index * FRAME_LENGTH as u64, bytes: &bytes[..FRAME_DATA] });
        }
    }

    /// Appends the data bytes.
    #[inline]
    pub fn append_to(self, out: &mut Vec<u8>) {
        out.reserve(self.data_length() + 1);
        for bytes in self.data() {
            out.extend_from_slice(&bytes);
            out.pop();
        }
    }

    /// The bytes of each frame with their lowest bits put back; the last byte is not data.
    #[inline]
    fn data(&self) -> impl Iterator<Item = [u8; FRAME_LENGTH]> {
        self.0.iter().map(read::data_of)
    }
}

/// A set of trace ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ids(u128);

impl Ids {
    /// Adds one id; ids above 0x7f are ignored.
    pub fn insert(&mut self, id: u8) {
        self.0 |= 1_u128.checked_shl(u32::from(id)).unwrap_or(0);
    }

    /// Is the id in the set?
    pub fn contains(self, id: u8) -> bool {
        1_u128.checked_shl(u32::from(id)).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Is the set empty?
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Are all of these ids in another set?
    pub fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The ids, smallest first.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..0x80_u8).filter(move |&id| self.contains(id))
    }
}

impl FromIterator<u8> for Ids {
    fn from_iter<I: IntoIterator<Item = u8>>(ids: I) -> Self {
        let mut set = Ids::default();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

#[cfg(test)]
mod tests;
