//! Bytes to frames: the inverse of the deformatter.
//!
//! Takes (id, bytes) in the order in which the sources sent them. Produces whole frames. The last one is padded with the
//! null id. Full synchronizations of a trace port can be inserted between frames.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{FRAME_DATA, FRAME_LENGTH, FSYNC, ID_NULL};

/// Puts bytes of several sources into frames.
///
/// ```
/// use unspool_coresight::frame::Formatter;
/// let mut formatter = Formatter::new();
/// formatter.push(0x10, &[1, 2, 3]);
/// let frames = formatter.finish();
/// assert_eq!(frames.len(), 16);
/// assert_eq!(frames[0], 0x10 << 1 | 1); // the id, then the bytes
/// ```
#[derive(Debug, Clone, Default)]
pub struct Formatter {
    id: u8,
    pending: VecDeque<(u8, u8)>,
    frames: Vec<u8>,
    full_sync_every: Option<usize>,
    since_sync: usize,
    id_every: Option<usize>,
    since_id: usize,
}

impl Formatter {
    /// A formatter without synchronization patterns, as in front of a trace buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// A formatter that puts a full synchronization before every `frames` frames, as a trace port does.
    pub fn with_full_sync(frames: usize) -> Self {
        Self { full_sync_every: Some(frames.max(1)), ..Self::default() }
    }

    /// A formatter that repeats the id every `frames` frames: a buffer that wrapped has lost its first ids.
    pub fn with_ids_every(frames: usize) -> Self {
        Self { id_every: Some(frames.max(1)), ..Self::default() }
    }

    /// Adds bytes of one source.
    pub fn push(&mut self, id: u8, bytes: &[u8]) {
        self.pending.extend(bytes.iter().map(|&byte| (id & 0x7f, byte)));
        // A frame holds at most 15 bytes, and one more must be known to choose how to switch ids.
        while self.pending.len() > FRAME_DATA + 1 {
            self.write_frame();
        }
    }

    /// Removes and returns the frames that are complete.
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.frames)
    }

    /// Pads the last frame and returns the frames that have not been taken.
    pub fn finish(mut self) -> Vec<u8> {
        while !self.pending.is_empty() {
            self.write_frame();
        }
        self.frames
    }

    /// Pads the current frame and inserts four full synchronizations: a decoder restarts after them.
    pub fn barrier(&mut self) {
        while !self.pending.is_empty() {
            self.write_frame();
        }
        (0..4).for_each(|_| self.frames.extend_from_slice(&FSYNC));
        self.id = ID_NULL;
    }

    fn write_frame(&mut self) {
        self.write_full_sync();
        self.forget_id();
        let mut frame = [0; FRAME_LENGTH];
        for pair in 0..FRAME_LENGTH / 2 {
            let (even, odd, flag) = self.next_pair(pair == FRAME_LENGTH / 2 - 1);
            frame[2 * pair] = even;
            if 2 * pair + 1 < FRAME_DATA {
                frame[2 * pair + 1] = odd;
            }
            frame[FRAME_DATA] |= flag << pair;
        }
        self.frames.extend_from_slice(&frame);
    }

    fn write_full_sync(&mut self) {
        let Some(every) = self.full_sync_every else { return };
        if self.since_sync.is_multiple_of(every) {
            self.frames.extend_from_slice(&FSYNC);
        }
        self.since_sync += 1;
    }

    fn forget_id(&mut self) {
        let Some(every) = self.id_every else { return };
        if self.since_id.is_multiple_of(every) {
            self.id = ID_NULL;
        }
        self.since_id += 1;
    }

    /// An even byte, the odd byte after it and its flag. The last pair of a frame has no odd byte.
    fn next_pair(&mut self, last: bool) -> (u8, u8, u8) {
        let (id, byte) = self.pending.front().copied().unwrap_or((ID_NULL, 0));
        if id != self.id {
            self.id = id;
            let odd = if last { 0 } else { self.next_byte() };
            return (id << 1 | 1, odd, 0);
        }
        self.pending.pop_front();
        if last {
            return (byte & !1, 0, byte & 1);
        }
        let next_id = self.pending.front().map_or(ID_NULL, |&(id, _)| id);
        if next_id != self.id {
            self.id = next_id;
            return (next_id << 1 | 1, byte, 1);
        }
        (byte & !1, self.next_byte(), byte & 1)
    }

    fn next_byte(&mut self) -> u8 {
        self.pending.pop_front().map_or(0, |(_, byte)| byte)
    }
}
