//! zlib streams of records, in blocks that several threads compress and decompress at a time.
//!
//! ```text
//! zlib header │ 2 empty DEFLATE blocks │ block 0, 2 empty │ block 1, 2 empty │ … │ rest, Adler-32
//! ```
//!
//! Any zlib reads such a stream. It starts with two DEFLATE blocks of no bytes, by which it is recognized, and each
//! independent block ends with the same two: none of its references reaches before it. What follows the last of them is
//! not an independent block, but may have records too.
//! Specification: RFC 1950, RFC 1951.

pub(super) mod bits;
pub(super) mod block_deflater;
pub(super) mod block_inflater;
pub(super) mod packer_thread;
pub(super) mod pattern;
pub(super) mod template;
pub(super) mod template_deflater;

/// Start of a stream of independent blocks, after the zlib header of two bytes.
const START: [u8; 10] = [0, 0, 0, 0xff, 0xff, 0, 0, 0, 0xff, 0xff];

/// The start of a zlib stream of independent blocks.
pub(crate) const ZLIB_START: [u8; 12] = [0x78, 0x9c, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0xff, 0xff];

/// End of an independent block. The bits that start the first of the two empty DEFLATE blocks are in the byte before,
/// with others. Where these bytes occur by chance, the rest of the stream is not read in independent blocks.
const MARK: [u8; 9] = [0, 0, 0xff, 0xff, 0, 0, 0, 0xff, 0xff];

/// Bytes of records of an independent block, about. They stay in the cache of a processor; with twice as many, a file
/// whose code does not fit into the window of 32 KiB would be 5 % smaller.
const BLOCK: usize = 512 << 10;

/// Maximum bytes of records of an independent block.
const LONGEST_BLOCK: usize = BLOCK + (32 << 10);
