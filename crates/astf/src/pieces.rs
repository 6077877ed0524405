//! The pieces of a zlib stream that several threads pack and unpack at a time.
//!
//! Any zlib reads such a stream. It starts with two deflate blocks of no bytes, by which it is known, and each piece ends
//! with the same two: none of its references reaches before it. What comes behind the last of them is no piece, but may
//! have records too.
//! Specification: RFC 1950, RFC 1951.

/// How a stream in pieces starts, behind the two bytes that all have.
pub(super) const START: [u8; 10] = [0, 0, 0, 0xff, 0xff, 0, 0, 0, 0xff, 0xff];

/// How a piece ends. The bits that start the first of the two blocks are in the byte before, with others. Where these bytes
/// come by chance, from there on the stream is not read in pieces.
pub(super) const MARK: [u8; 9] = [0, 0, 0xff, 0xff, 0, 0, 0, 0xff, 0xff];

/// The bytes of records of a piece, about. They stay in the cache of a processor; with twice as many, a file whose code does
/// not fit into the window of 32 KiB would be a twentieth smaller.
pub(super) const PIECE: usize = 512 << 10;

/// A piece has no more bytes of records than this.
pub(super) const LONGEST_PIECE: usize = PIECE + (32 << 10);
