//! The Huffman codes of a DEFLATE stream, and a writer of bits.
//!
//! literals, references ─▶ **codes** ─▶ bits ─▶ bytes
//!
//! All independent blocks of the stream use one table of codes, which is written at the start of each. Every literal
//! has nine bits, so that several are written at once; references have the shorter codes.
//! Specification: RFC 1951 (dynamic Huffman codes).

use std::io::{self, Write};

/// Shortest and longest match that a reference encodes.
pub(super) const SHORTEST: usize = 3;
pub(super) const LONGEST: usize = 258;

/// Number of literals that are written together with a reference.
pub(super) const FEW: u32 = 3;

/// Bytes of the buffer. It is a power of two.
const CAPACITY: usize = 64 << 10;

/// Bytes that are stored at a time, though not all of them are complete.
const AT_ONCE: usize = 8;

/// Bits of a literal.
pub(super) const LITERAL: u32 = 9;

/// Lengths of the codes of literals, of the end of a block and of match lengths. Two have one bit less, so that the
/// code is complete.
const SYMBOLS: [u8; 286] = {
    let mut lengths = [LITERAL as u8; 286];
    let mut symbol = END;
    while symbol < lengths.len() {
        // The gap between the addresses of two consecutive instructions.
        lengths[symbol] = if symbol == 271 || symbol == 272 { 5 } else { 6 };
        symbol += 1;
    }
    lengths
};

/// Lengths of the codes of match distances.
const DISTANCES: [u8; 30] = {
    let mut lengths = [5; 30];
    lengths[16] = 4;
    lengths[18] = 4;
    lengths
};

/// Symbol of the end of a block.
const END: usize = 256;

/// Bits of a code, lowest first, and their number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Code {
    pub(super) bits: u32,
    pub(super) count: u32,
}

type Buffer = [u8; CAPACITY + AT_ONCE];

/// Bytes that wait to be written, and the bits after them.
pub(super) struct BitBuffer {
    bytes: Box<Buffer>,
    position: Position,
}

/// Position of the next bit: after complete bytes, and fewer than eight bits of the next one.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    length: usize,
    waiting: u64,
    count: u32,
}

/// Appends bits, lowest first. It is a value of its own, so that a loop can keep all of it in registers.
pub(super) struct BitWriter<'b> {
    bytes: &'b mut Buffer,
    position: Position,
}

impl BitBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: Box::new([0; CAPACITY + AT_ONCE]), position: Position::default() }
    }

    /// Lends a writer.
    #[inline(always)]
    pub(super) fn write<'b>(&'b mut self, write: impl FnOnce(BitWriter<'b>) -> BitWriter<'b>) {
        let writer = write(BitWriter { bytes: &mut self.bytes, position: self.position });
        self.position = writer.position;
    }

    /// Whether there is room for the codes of this many bytes.
    #[inline]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        has_room(self.position.length, bytes)
    }

    /// Whether an empty buffer has room for this many bytes.
    #[inline(always)]
    pub(super) const fn may_have_room(bytes: usize) -> bool {
        has_room(0, bytes)
    }

    /// Writes the complete bytes.
    pub(super) fn flush(&mut self, output: &mut impl Write) -> io::Result<()> {
        output.write_all(self.bytes.get(..self.position.length).unwrap_or_default())?;
        self.position.length = 0;
        Ok(())
    }
}

/// A literal has nine bits, a reference fewer than nine for each of its bytes, and eight bytes are stored at a time. An
/// estimate that is quick to compute is enough.
#[inline(always)]
const fn has_room(length: usize, bytes: usize) -> bool {
    length + 2 * bytes + 16 <= CAPACITY
}

impl BitWriter<'_> {
    /// Number of bits that can be written at once.
    pub(super) const MAX_BITS: u32 = 56;

    /// Writes bits, at most [`MAX_BITS`](Self::MAX_BITS). There has to be [room](Self::has_room).
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        let Position { length, waiting, count: before } = self.position;
        let (waiting, count) = (waiting | bits << before, before + count);
        // It is always less: the remainder spares a bounds check.
        let start = length % CAPACITY;
        self.bytes[start..start + AT_ONCE].copy_from_slice(&waiting.to_le_bytes());
        self.position =
            Position { length: length + (count / 8) as usize, waiting: waiting >> (count & !7), count: count % 8 };
    }

    /// Whether there is room for the codes of this many bytes.
    #[inline(always)]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        has_room(self.position.length, bytes)
    }

    /// Starts a DEFLATE block, not the last, with its table of codes.
    pub(super) fn start(&mut self) {
        self.put(0b100, 3);
        // Number of symbols, of distances, and of the code lengths below.
        self.put(286 - 257, 5);
        self.put(30 - 1, 5);
        self.put(12 - 4, 4);
        // Each of the lengths 4, 5, 6 and 9 has a code of two bits, and no other length is used. The order is 16, 17,
        // 18, 0, 8, 7, 9, 6, 10, 5, 11, 4.
        [0, 0, 0, 0, 0, 0, 2, 2, 0, 2, 0, 2].into_iter().for_each(|length| self.put(length, 3));
        for length in SYMBOLS.into_iter().chain(DISTANCES) {
            let code = [4, 5, 6].iter().position(|one| *one == length).unwrap_or(3);
            self.put(reversed(code as u32, 2).into(), 2);
        }
    }

    /// Ends a DEFLATE block.
    pub(super) fn end(&mut self) {
        let code = CODES[END];
        self.put(code.bits.into(), code.count);
    }

    /// Writes a DEFLATE block of no bytes, which ends on a byte boundary.
    pub(super) fn empty_block(&mut self) {
        self.put(0, 3);
        self.put(0, (8 - self.position.count) % 8);
        self.put(0xffff_0000, 32);
    }

    /// Writes the last DEFLATE block, which has no bytes, and pads to a byte boundary.
    pub(super) fn last_block(&mut self) {
        self.put(0b011, 3 + 7 + 7);
    }

    /// Writes one literal.
    pub(super) fn literal(&mut self, byte: u8) {
        self.put(literals(byte.into(), 1), LITERAL);
    }

    /// Writes an address as the bytes that differ from another one, at this distance.
    #[inline(always)]
    pub(super) fn address(&mut self, address: u64, other: u64, distance: Code) {
        // The lowest ones, up to the last that differs.
        let changed = (71 - (address ^ other).leading_zeros()) / 8;
        if changed as usize > 8 - SHORTEST {
            return self.literals(address, 8);
        }
        let (first, rest) = (changed.min(FEW), changed.saturating_sub(FEW));
        self.put(literals(address, first), LITERAL * first);
        let code = reference(8 - changed as usize, distance);
        self.put(literals(address >> 24, rest) | u64::from(code.bits) << (LITERAL * rest), LITERAL * rest + code.count);
    }

    /// Writes a reference of at most [`LONGEST`] bytes, and after it the lowest `count` bytes of a word, at most
    /// [`FEW`].
    #[inline(always)]
    pub(super) fn refer_and_literals(&mut self, length: usize, distance: Code, word: u64, count: u32) {
        let code = reference(length, distance);
        // A reference has at most 29 bits.
        self.put(u64::from(code.bits) | literals(word, count) << code.count, code.count + LITERAL * count);
    }

    /// Writes the lowest `count` bytes of a word.
    #[inline(always)]
    pub(super) fn literals(&mut self, word: u64, count: u32) {
        let (first, rest) = (count.min(3), count.saturating_sub(3));
        self.put(literals(word, first), LITERAL * first);
        let (second, rest) = (rest.min(3), rest.saturating_sub(3));
        self.put(literals(word >> 24, second), LITERAL * second);
        if rest > 0 {
            self.put(literals(word >> 48, rest), LITERAL * rest);
        }
    }

    /// Writes a reference of at least [`SHORTEST`] bytes and at most [`LONGEST`].
    #[inline(always)]
    pub(super) fn refer(&mut self, length: usize, distance: Code) {
        let code = reference(length, distance);
        self.put(code.bits.into(), code.count);
    }

    /// Writes references for any number of bytes, all but the last, whose length is returned.
    #[inline(always)]
    pub(super) fn shorten(mut self, mut length: usize, distance: Code) -> (Self, usize) {
        while length > LONGEST {
            // The last must not be too short.
            let now = LONGEST.min(length - SHORTEST);
            self.refer(now, distance);
            length -= now;
        }
        (self, length)
    }
}

/// Codes of the lowest `count` bytes of a word, at most [`FEW`].
#[inline(always)]
fn literals(word: u64, count: u32) -> u64 {
    let [a, b, c, ..] = word.to_le_bytes().map(|byte| u64::from(LITERALS[usize::from(byte)]));
    (a | b << LITERAL | c << (2 * LITERAL)) & ((1 << (LITERAL * count)) - 1)
}

/// Codes of literals.
const LITERALS: [u16; 256] = {
    let mut codes = [0; 256];
    let mut byte = 0;
    while byte < codes.len() {
        codes[byte] = CODES[byte].bits as u16;
        byte += 1;
    }
    codes
};

/// Maximum distance of a reference, in records.
const RECORDS: usize = (1 << 15) / 32;

/// Code of a distance in records, with its extra bits.
#[inline(always)]
pub(super) fn records_code(records: usize) -> Code {
    RECORD_CODES[records.min(RECORDS)]
}

static RECORD_CODES: [Code; RECORDS + 1] = {
    let mut codes = [Code { bits: 0, count: 0 }; RECORDS + 1];
    let mut records = 1;
    while records <= RECORDS {
        codes[records] = distance_code(32 * records);
        records += 1;
    }
    codes
};

/// Code of a literal.
pub(super) fn literal_code(byte: u8) -> Code {
    CODES[usize::from(byte)]
}

/// Code of a reference of at least [`SHORTEST`] bytes and at most [`LONGEST`].
#[inline(always)]
pub(super) fn reference(length: usize, distance: Code) -> Code {
    let code = LENGTHS[length];
    Code { bits: code.bits | distance.bits << code.count, count: code.count + distance.count }
}

/// Code of a distance, with its extra bits.
pub(super) const fn distance_code(distance: usize) -> Code {
    let from_zero = distance as u32 - 1;
    if from_zero < 4 {
        return DISTANCE_CODES[from_zero as usize];
    }
    let top = 31 - from_zero.leading_zeros();
    let symbol = 2 * top + (from_zero >> (top - 1) & 1);
    let extra = from_zero & ((1 << (top - 1)) - 1);
    let code = DISTANCE_CODES[symbol as usize];
    Code { bits: code.bits | extra << code.count, count: code.count + top - 1 }
}

/// Huffman codes are stored with their highest bit first.
const fn reversed(code: u32, count: u32) -> u32 {
    code.reverse_bits() >> (32 - count)
}

/// Canonical codes of these lengths.
const fn codes<const N: usize>(lengths: &[u8; N]) -> [Code; N] {
    let mut codes = [Code { bits: 0, count: 0 }; N];
    let (mut next, mut count) = (0, 1);
    while count <= LITERAL {
        let mut symbol = 0;
        while symbol < N {
            if lengths[symbol] as u32 == count {
                codes[symbol] = Code { bits: reversed(next, count), count };
                next += 1;
            }
            symbol += 1;
        }
        next <<= 1;
        count += 1;
    }
    codes
}

const CODES: [Code; 286] = codes(&SYMBOLS);

const DISTANCE_CODES: [Code; 30] = codes(&DISTANCES);

/// Codes of match lengths, with their extra bits.
const LENGTHS: [Code; LONGEST + 1] = {
    let mut codes = [Code { bits: 0, count: 0 }; LONGEST + 1];
    let mut length = SHORTEST;
    while length < LONGEST {
        codes[length] = length_code((length - SHORTEST) as u32);
        length += 1;
    }
    codes[LONGEST] = CODES[285];
    codes
};

/// Code of a match length that is `from_shortest` longer than the shortest.
const fn length_code(from_shortest: u32) -> Code {
    if from_shortest < 8 {
        return CODES[257 + from_shortest as usize];
    }
    let top = 31 - from_shortest.leading_zeros();
    let extra_bits = top - 2;
    let code = CODES[(257 + 4 * (top - 1) + (from_shortest >> extra_bits & 3)) as usize];
    let extra = from_shortest & ((1 << extra_bits) - 1);
    Code { bits: code.bits | extra << code.count, count: code.count + extra_bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_their_codes() {
        for word in [0, 0xffff_ffff, 0x0123_4567, 0x89ab_cdef, 0x8000_0001_u64] {
            let expected = (0..4).fold(0, |bits, at| {
                let code = CODES[(word >> (8 * at) & 0xff) as usize];
                bits | u64::from(code.bits) << (9 * at)
            });
            for count in 0..=3 {
                assert_eq!(literals(word, count), expected & ((1 << (9 * count)) - 1), "{word:#x} {count}");
            }
        }
    }
}
