//! The codes of a deflated stream, and bits that become bytes.
//!
//! bytes, references ─▶ **codes** ─▶ bits ─▶ bytes
//!
//! One table of codes is for all pieces of the stream, and told where each starts. A byte has nine bits, whatever it is, so that several are
//! put at once; references have what is left.
//! Specification: RFC 1951 (dynamic Huffman codes).

use std::io::{self, Write};

/// The shortest and the longest stretch that a reference is for.
pub(super) const SHORTEST: usize = 3;
pub(super) const LONGEST: usize = 258;

/// So many bytes and a reference are put at once.
pub(super) const FEW: u32 = 3;

/// More bytes than this are not kept back. It is a power of two.
const WAITING: usize = 64 << 10;

/// So many bytes are written at a time, though not all of them are complete.
const AT_ONCE: usize = 8;

/// The bits of a byte.
pub(super) const BYTE: u32 = 9;

/// Lengths of codes: those of bytes, of the end and of the lengths of references. Two have one bit less, so that there is a
/// meaning for all bits.
const SYMBOLS: [u8; 286] = {
    let mut lengths = [BYTE as u8; 286];
    let mut symbol = END;
    while symbol < lengths.len() {
        // A gap between the addresses of two instructions, one behind the other.
        lengths[symbol] = if symbol == 271 || symbol == 272 { 5 } else { 6 };
        symbol += 1;
    }
    lengths
};

/// Lengths of the codes of distances.
const DISTANCES: [u8; 30] = {
    let mut lengths = [5; 30];
    lengths[16] = 4;
    lengths[18] = 4;
    lengths
};

/// The symbol of the end.
const END: usize = 256;

/// A code, lowest bit first, and how many bits it has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Code {
    pub(super) bits: u32,
    pub(super) count: u32,
}

type Room = [u8; WAITING + AT_ONCE];

/// Bytes that wait to be written, and the bits behind them.
pub(super) struct Bits {
    bytes: Box<Room>,
    at: At,
}

/// Where the next bit comes: behind so many bytes that are complete, and bits of the next one, fewer than eight.
#[derive(Debug, Clone, Copy, Default)]
struct At {
    length: usize,
    waiting: u64,
    count: u32,
}

/// Puts bits behind those that are there, lowest first. It is by itself, so that a loop can have all of it in registers.
pub(super) struct Pen<'b> {
    bytes: &'b mut Room,
    at: At,
}

impl Bits {
    pub(super) fn new() -> Self {
        Self { bytes: Box::new([0; WAITING + AT_ONCE]), at: At::default() }
    }

    /// Lets a pen put bits.
    #[inline(always)]
    pub(super) fn write<'b>(&'b mut self, put: impl FnOnce(Pen<'b>) -> Pen<'b>) {
        let pen = put(Pen { bytes: &mut self.bytes, at: self.at });
        self.at = pen.at;
    }

    /// Is there room for what so many bytes become, at most?
    #[inline]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        has_room(self.at.length, bytes)
    }

    /// Is there ever room for so many bytes?
    #[inline(always)]
    pub(super) const fn may_have_room(bytes: usize) -> bool {
        has_room(0, bytes)
    }

    /// Writes what is complete.
    pub(super) fn give(&mut self, output: &mut impl Write) -> io::Result<()> {
        output.write_all(self.bytes.get(..self.at.length).unwrap_or_default())?;
        self.at.length = 0;
        Ok(())
    }
}

/// A byte has nine bits, a reference less than nine for each of its bytes, and eight bytes are written at a time. What is
/// quick to see is enough.
#[inline(always)]
const fn has_room(length: usize, bytes: usize) -> bool {
    length + 2 * bytes + 16 <= WAITING
}

impl Pen<'_> {
    /// So many bits can be put at once.
    pub(super) const MOST: u32 = 56;

    /// Puts bits, at most [`MOST`](Self::MOST). There has to be [room](Self::has_room).
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        let At { length, waiting, count: before } = self.at;
        let (waiting, count) = (waiting | bits << before, before + count);
        // It is always less: that is said so that nobody has to look.
        let place = length % WAITING;
        self.bytes[place..place + AT_ONCE].copy_from_slice(&waiting.to_le_bytes());
        self.at = At { length: length + (count / 8) as usize, waiting: waiting >> (count & !7), count: count % 8 };
    }

    /// Is there room for what so many bytes become, at most?
    #[inline(always)]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        has_room(self.at.length, bytes)
    }

    /// The table of codes of a block that is not the last.
    pub(super) fn start(&mut self) {
        self.put(0b100, 3);
        // How many symbols and distances there are, and how many of the lengths below are told.
        self.put(286 - 257, 5);
        self.put(30 - 1, 5);
        self.put(12 - 4, 4);
        // Each of 4, 5, 6 and 9 is said by two bits, and no other length is used. They are told in the order 16, 17, 18,
        // 0, 8, 7, 9, 6, 10, 5, 11, 4.
        [0, 0, 0, 0, 0, 0, 2, 2, 0, 2, 0, 2].into_iter().for_each(|length| self.put(length, 3));
        for length in SYMBOLS.into_iter().chain(DISTANCES) {
            let code = [4, 5, 6].iter().position(|one| *one == length).unwrap_or(3);
            self.put(reversed(code as u32, 2).into(), 2);
        }
    }

    /// The end of a block.
    pub(super) fn end(&mut self) {
        let code = CODES[END];
        self.put(code.bits.into(), code.count);
    }

    /// A block of no bytes, which ends on a byte.
    pub(super) fn nothing(&mut self) {
        self.put(0, 3);
        self.put(0, (8 - self.at.count) % 8);
        self.put(0xffff_0000, 32);
    }

    /// The last block, which has no bytes, and the rest of a byte.
    pub(super) fn last(&mut self) {
        self.put(0b011, 3 + 7 + 7);
    }

    /// A byte.
    pub(super) fn literal(&mut self, byte: u8) {
        self.put(literals(byte.into(), 1), BYTE);
    }

    /// An address, by the bytes that differ from another one, so far back.
    #[inline(always)]
    pub(super) fn address(&mut self, address: u64, other: u64, distance: Code) {
        // The lowest ones, up to the last that differs.
        let changed = (71 - (address ^ other).leading_zeros()) / 8;
        if changed as usize > 8 - SHORTEST {
            return self.literals(address, 8);
        }
        let (first, rest) = (changed.min(FEW), changed.saturating_sub(FEW));
        self.put(literals(address, first), BYTE * first);
        let code = reference(8 - changed as usize, distance);
        self.put(literals(address >> 24, rest) | u64::from(code.bits) << (BYTE * rest), BYTE * rest + code.count);
    }

    /// A stretch that was there before, of at most [`LONGEST`] bytes, and behind it the lowest so many bytes of a word, at
    /// most [`FEW`].
    #[inline(always)]
    pub(super) fn refer_and_put(&mut self, length: usize, distance: Code, word: u64, count: u32) {
        let code = reference(length, distance);
        // A reference has at most 29 bits.
        self.put(u64::from(code.bits) | literals(word, count) << code.count, code.count + BYTE * count);
    }

    /// The lowest so many bytes of a word.
    #[inline(always)]
    pub(super) fn literals(&mut self, word: u64, count: u32) {
        let (first, rest) = (count.min(3), count.saturating_sub(3));
        self.put(literals(word, first), BYTE * first);
        let (second, rest) = (rest.min(3), rest.saturating_sub(3));
        self.put(literals(word >> 24, second), BYTE * second);
        if rest > 0 {
            self.put(literals(word >> 48, rest), BYTE * rest);
        }
    }

    /// A stretch of at least [`SHORTEST`] bytes that was there before, and at most [`LONGEST`].
    #[inline(always)]
    pub(super) fn refer(&mut self, length: usize, distance: Code) {
        let code = reference(length, distance);
        self.put(code.bits.into(), code.count);
    }

    /// The same for any number of bytes, until a reference is left, of so many.
    #[inline(always)]
    pub(super) fn shorten(mut self, mut length: usize, distance: Code) -> (Self, usize) {
        while length > LONGEST {
            // What is left must not be too short.
            let now = LONGEST.min(length - SHORTEST);
            self.refer(now, distance);
            length -= now;
        }
        (self, length)
    }
}

/// The codes of the lowest so many bytes of a word, at most [`FEW`].
#[inline(always)]
fn literals(word: u64, count: u32) -> u64 {
    let [a, b, c, ..] = word.to_le_bytes().map(|byte| u64::from(BYTES[usize::from(byte)]));
    (a | b << BYTE | c << (2 * BYTE)) & ((1 << (BYTE * count)) - 1)
}

/// The codes of bytes.
const BYTES: [u16; 256] = {
    let mut codes = [0; 256];
    let mut byte = 0;
    while byte < codes.len() {
        codes[byte] = CODES[byte].bits as u16;
        byte += 1;
    }
    codes
};

/// How far back a reference reaches, in records.
const RECORDS: usize = (1 << 15) / 32;

/// The code of a distance of so many records, with the bits behind it.
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

/// The code of a byte.
pub(super) fn literal_code(byte: u8) -> Code {
    CODES[usize::from(byte)]
}

/// The code of a stretch of at least [`SHORTEST`] bytes and at most [`LONGEST`].
#[inline(always)]
pub(super) fn reference(length: usize, distance: Code) -> Code {
    let code = LENGTHS[length];
    Code { bits: code.bits | distance.bits << code.count, count: code.count + distance.count }
}

/// The code of a distance, with the bits behind it.
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

/// Huffman codes have their highest bit first.
const fn reversed(code: u32, count: u32) -> u32 {
    code.reverse_bits() >> (32 - count)
}

/// The codes that follow from their lengths.
const fn codes<const N: usize>(lengths: &[u8; N]) -> [Code; N] {
    let mut codes = [Code { bits: 0, count: 0 }; N];
    let (mut next, mut count) = (0, 1);
    while count <= BYTE {
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

/// The codes of lengths, with the bits behind them.
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

/// The code of a length that is `from_shortest` longer than the shortest.
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
    fn bytes_have_their_codes() {
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
