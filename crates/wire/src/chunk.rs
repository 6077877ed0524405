//! Chunks: the heads that divide a stream, and the buffers in shared memory that a chunk may be in.

use std::io::{self, Read};

use crate::Word;

/// The thread number of chunks with code.
pub const CODE: u32 = u32::MAX;

/// Words of a buffer in shared memory: its state, and the longest chunk of records.
pub const BUFFER_WORDS: usize = 1 << 15;

/// Bytes of a buffer in shared memory.
pub const BUFFER_BYTES: usize = BUFFER_WORDS * size_of::<Word>();

/// Maximum number of buffers in shared memory. Their numbers fit into the connection, so that the recorder never waits.
pub const MAX_BUFFERS: usize = 256;

/// Set in the length of a chunk that is in shared memory.
const SHARED: u32 = 1 << 31;

/// The head of a chunk. The bytes follow, or the number of the buffer that holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHead {
    /// The thread or CPU of its records, or [`CODE`].
    pub thread: u32,
    /// Bytes of the chunk.
    pub length: u32,
    /// Whether the bytes are in shared memory.
    pub is_shared: bool,
}

impl ChunkHead {
    /// The head of a chunk whose bytes follow.
    pub fn to_bytes(thread: u32, length: u32) -> [u8; 8] {
        join(thread, length)
    }

    /// The head of a chunk in shared memory, and the number of its buffer.
    pub fn to_shared_bytes(thread: u32, length: u32, buffer: u32) -> [u8; 12] {
        let ([a, b, c, d, e, f, g, h], [i, j, k, l]) = (join(thread, length | SHARED), buffer.to_le_bytes());
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// Reads the head, and not the number of a buffer. `None`: the stream ends here.
    pub fn read(input: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; 8];
        let first = loop {
            match input.read(&mut head) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if first == 0 {
            return Ok(None);
        }
        if let Some(rest) = head.get_mut(first..) {
            input.read_exact(rest)?;
        }
        let [a, b, c, d, e, f, g, h] = head;
        let (thread, length) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        Ok(Some(Self { thread, length: length & !SHARED, is_shared: length & SHARED != 0 }))
    }
}

fn join(thread: u32, length: u32) -> [u8; 8] {
    (u64::from(length) << 32 | u64::from(thread)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_of_a_head_are_stable() {
        assert_eq!(ChunkHead::to_bytes(CODE, 0x0102), [0xff, 0xff, 0xff, 0xff, 2, 1, 0, 0]);
        assert_eq!(ChunkHead::to_shared_bytes(3, 8, 31), [3, 0, 0, 0, 8, 0, 0, 0x80, 31, 0, 0, 0]);
    }

    #[test]
    fn a_missing_head_is_the_end_and_a_truncated_one_an_error() {
        assert_eq!(ChunkHead::read(&mut &[][..]).ok(), Some(None));
        let cut = ChunkHead::read(&mut &[0; 7][..]);
        assert_eq!(cut.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
    }

    proptest! {
        #[test]
        fn heads_are_read_as_written(thread: u32, length in 0..SHARED, buffer: u32) {
            let plain = ChunkHead { thread, length, is_shared: false };
            prop_assert_eq!(ChunkHead::read(&mut &ChunkHead::to_bytes(thread, length)[..]).ok(), Some(Some(plain)));
            let bytes = ChunkHead::to_shared_bytes(thread, length, buffer);
            let mut rest = &bytes[..];
            prop_assert_eq!(ChunkHead::read(&mut rest).ok(), Some(Some(ChunkHead { is_shared: true, ..plain })));
            prop_assert_eq!(rest, buffer.to_le_bytes());
        }
    }
}
