//! The bytes of one source, with their offsets in the formatted buffer.
//!
//! Takes the spans of a [`Deformatter`](super::Deformatter). Produces a window of bytes that the packet decoder consumes,
//! so memory does not grow with the length of the trace.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{FRAME_DATA, FrameSink, Mark, Span, WholeFrames};

/// A window on the bytes of one trace id.
#[derive(Debug, Clone)]
pub struct Stream {
    id: u8,
    bytes: Vec<u8>,
    /// Stream position of the first of `bytes`.
    start: u64,
    segments: VecDeque<Segment>,
    /// Offset at which a whole frame would continue the last segment.
    follows: u64,
    breaks: VecDeque<u64>,
}

/// Stream bytes that are contiguous in the buffer, or that fill whole contiguous frames.
#[derive(Debug, Clone, Copy)]
struct Segment {
    /// The first stream byte of the segment.
    stream: u64,
    /// The offset of that byte in the buffer.
    offset: u64,
    /// The segment fills whole frames, each with a byte of flags at its end.
    whole: bool,
}

impl Stream {
    /// An empty window on the bytes of `id`.
    pub fn new(id: u8) -> Self {
        Self { id, bytes: Vec::new(), start: 0, segments: VecDeque::new(), follows: u64::MAX, breaks: VecDeque::new() }
    }

    /// The trace id.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// The bytes that have not been consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Stream position of the start of the window.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Stream position of the end of the window.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The first stream position within the window where the source's bytes do not continue.
    pub fn next_break(&self) -> Option<u64> {
        self.breaks.front().copied()
    }

    /// Removes the break at [`next_break`](Self::next_break).
    pub fn pass_break(&mut self) {
        self.breaks.pop_front();
    }

    /// Drops `count` bytes from the front of the window, and their offsets with them.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.bytes.len());
        self.bytes.drain(..count);
        self.start += count as u64;
        let start = self.start;
        self.split().1.forget_before(start);
    }

    /// Splits the window at a position within it, and returns the part from there on.
    #[must_use]
    pub fn split_off(&mut self, position: u64) -> Self {
        let index = (position.saturating_sub(self.start) as usize).min(self.bytes.len());
        let start = self.start + index as u64;
        let segments_here = self.segments.partition_point(|segment| segment.stream < start);
        let breaks_here = self.breaks.partition_point(|&here| here < start);
        let mut segments = self.segments.split_off(segments_here);
        if let Some(&cut) = self.segments.back()
            && segments.front().is_none_or(|first| first.stream > start)
        {
            // A segment across the split belongs to both.
            segments.push_front(cut);
        }
        let (bytes, breaks) = (self.bytes.split_off(index), self.breaks.split_off(breaks_here));
        Self { id: self.id, bytes, start, segments, follows: self.follows, breaks }
    }

    /// A copy of the window up to a position.
    #[must_use]
    pub fn until(&self, position: u64) -> Self {
        let index = (position.saturating_sub(self.start) as usize).min(self.bytes.len());
        let end = self.start + index as u64;
        Self {
            id: self.id,
            bytes: self.bytes[..index].to_vec(),
            start: self.start,
            segments: self.segments.iter().take_while(|segment| segment.stream < end).copied().collect(),
            follows: self.follows,
            breaks: self.breaks.iter().take_while(|&&here| here < end).copied().collect(),
        }
    }

    /// Adds a window that starts where this one ends.
    pub fn append(&mut self, next: &Self) {
        self.bytes.extend_from_slice(&next.bytes);
        self.segments.extend(&next.segments);
        self.breaks.extend(&next.breaks);
        self.follows = next.follows;
    }

    /// The offset in the buffer of byte `position` of the stream. Call it in rising order: earlier bytes are forgotten.
    pub fn buffer_offset(&mut self, position: u64) -> u64 {
        self.split().1.buffer_offset(position)
    }

    /// The window and, apart from it, the offsets of its bytes.
    pub fn split(&mut self) -> (&[u8], Offsets<'_>) {
        // The first segment is looked up on first use.
        (&self.bytes, Offsets { segments: &mut self.segments, current: NOWHERE, until: 0 })
    }
}

/// The offsets of a stream's bytes in the buffer.
#[derive(Debug)]
pub struct Offsets<'s> {
    segments: &'s mut VecDeque<Segment>,
    /// The last segment that was used, and the start of the next one.
    current: Segment,
    until: u64,
}

/// Without a segment, the offset in the buffer is the position in the stream.
const NOWHERE: Segment = Segment { stream: 0, offset: 0, whole: false };

impl Offsets<'_> {
    /// As [`Stream::buffer_offset`].
    #[inline]
    pub fn buffer_offset(&mut self, position: u64) -> u64 {
        if position >= self.until {
            self.advance(position);
        }
        self.current.buffer_offset(position)
    }

    #[inline(never)]
    fn advance(&mut self, position: u64) {
        self.forget_before(position);
        self.current = self.segments.front().copied().unwrap_or(NOWHERE);
        self.until = self.segments.get(1).map_or(u64::MAX, |next| next.stream);
    }

    fn forget_before(&mut self, position: u64) {
        while self.segments.get(1).is_some_and(|next| next.stream <= position) {
            self.segments.pop_front();
        }
    }
}

impl FrameSink for Stream {
    fn span(&mut self, span: Span<'_>) {
        if span.id == self.id {
            let stream = self.start + self.bytes.len() as u64;
            self.bytes.extend_from_slice(span.bytes);
            self.segments.push_back(Segment { stream, offset: span.offset, whole: false });
            self.follows = u64::MAX;
        }
    }

    #[inline]
    fn whole(&mut self, id: u8, offset: u64, frames: WholeFrames<'_>) {
        if id != self.id {
            return;
        }
        if offset != self.follows {
            let stream = self.start + self.bytes.len() as u64;
            self.segments.push_back(Segment { stream, offset, whole: true });
        }
        self.follows = offset + frames.length() as u64;
        frames.append_to(&mut self.bytes);
    }

    fn mark(&mut self, mark: Mark) {
        if matches!(mark, Mark::Barrier { .. } | Mark::Lost(_)) {
            let here = self.start + self.bytes.len() as u64;
            if self.breaks.back() != Some(&here) {
                self.breaks.push_back(here);
            }
        }
    }
}

impl Segment {
    #[inline]
    fn buffer_offset(&self, position: u64) -> u64 {
        let index = position.saturating_sub(self.stream);
        // Every whole frame before the byte has one byte of flags.
        let flags = if self.whole { index / FRAME_DATA as u64 } else { 0 };
        self.offset + index + flags
    }
}
