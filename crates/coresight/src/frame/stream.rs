//! The bytes of one source, and where each of them stood in the formatted buffer.
//!
//! Comes in: what a [`Deformatter`](super::Deformatter) finds. Goes out: a growing window of bytes that the packet
//! room reads from and gives back, so that memory stays small however long the trace is.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{FRAME_DATA, FRAME_LENGTH, FrameData, Mark, Receive, Span};

/// A window on the bytes of one trace id.
#[derive(Debug, Clone)]
pub struct Stream {
    id: u8,
    bytes: Vec<u8>,
    /// Which byte of the stream `bytes` starts with.
    start: u64,
    pieces: VecDeque<Piece>,
    /// Where a whole frame would continue the last piece.
    follows: u64,
    breaks: VecDeque<u64>,
}

/// Stream bytes that stand side by side in the buffer, or that fill whole frames which do.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// The first stream byte of the piece.
    stream: u64,
    /// Where that byte stands in the buffer.
    offset: u64,
    /// The piece fills whole frames, each with a byte of flags at its end.
    whole: bool,
}

impl Stream {
    /// An empty window on the bytes of `id`.
    pub fn new(id: u8) -> Self {
        Self { id, bytes: Vec::new(), start: 0, pieces: VecDeque::new(), follows: u64::MAX, breaks: VecDeque::new() }
    }

    /// The bytes that have come and have not been dropped.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Which byte of the stream the window starts with.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The stream position of the first place within the window where the source's bytes do not continue.
    pub fn next_break(&self) -> Option<u64> {
        self.breaks.front().copied()
    }

    /// Forgets the break at [`next_break`](Self::next_break).
    pub fn pass_break(&mut self) {
        self.breaks.pop_front();
    }

    /// Drops `count` bytes from the front of the window, and their places with them.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.bytes.len());
        self.bytes.drain(..count);
        self.start += count as u64;
        let start = self.start;
        self.split().1.forget_before(start);
    }

    /// Where byte `position` of the stream stands in the buffer. Ask in rising order: what lies before is forgotten.
    pub fn place(&mut self, position: u64) -> u64 {
        self.split().1.place(position)
    }

    /// The window and, apart from it, the places of its bytes.
    pub fn split(&mut self) -> (&[u8], Places<'_>) {
        (&self.bytes, Places { pieces: &mut self.pieces })
    }
}

/// Where the bytes of a stream stand in the buffer.
#[derive(Debug)]
pub struct Places<'s> {
    pieces: &'s mut VecDeque<Piece>,
}

impl Places<'_> {
    /// As [`Stream::place`].
    #[inline]
    pub fn place(&mut self, position: u64) -> u64 {
        self.forget_before(position);
        self.pieces.front().map_or(position, |piece| piece.place(position))
    }

    #[inline]
    fn forget_before(&mut self, position: u64) {
        while self.pieces.get(1).is_some_and(|next| next.stream <= position) {
            self.pieces.pop_front();
        }
    }
}

impl Receive for Stream {
    fn span(&mut self, span: Span<'_>) {
        if span.id == self.id {
            let stream = self.start + self.bytes.len() as u64;
            self.bytes.extend_from_slice(span.bytes);
            self.pieces.push_back(Piece { stream, offset: span.offset, whole: false });
            self.follows = u64::MAX;
        }
    }

    #[inline]
    fn whole(&mut self, id: u8, offset: u64, data: FrameData) {
        if id != self.id {
            return;
        }
        if offset != self.follows {
            let stream = self.start + self.bytes.len() as u64;
            self.pieces.push_back(Piece { stream, offset, whole: true });
        }
        self.follows = offset + FRAME_LENGTH as u64;
        data.append_to(&mut self.bytes);
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

impl Piece {
    #[inline]
    fn place(&self, position: u64) -> u64 {
        let index = position.saturating_sub(self.stream);
        // Every whole frame before the byte has one byte of flags.
        let flags = if self.whole { index / FRAME_DATA as u64 } else { 0 };
        self.offset + index + flags
    }
}
