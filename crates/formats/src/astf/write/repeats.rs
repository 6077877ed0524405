//! A zlib stream of records that come in patterns, made without looking for what repeats.
//!
//! patterns, records ─▶ references to where they were written last, and what is new ─▶ deflated bytes
//!
//! Who knows what repeats need not search: a pattern that is still in the window of 32 KiB is one reference from address to
//! address, and a record by itself refers to the one before it. The codes are those that every reader knows beforehand.
//! Specification: RFC 1950, RFC 1951 (fixed Huffman codes).

use std::io::{self, Write};

use zlib_rs::adler32::adler32;

use super::super::layout::Bytes;
use super::super::record::RECORD_BYTES;
use super::Pattern;

/// How far back a reference reaches.
const WINDOW: u64 = 1 << 15;

/// The shortest and the longest stretch that a reference is for.
const SHORTEST: usize = 3;
const LONGEST: usize = 258;

/// More bytes than this are not kept back. A pattern in the window, and what it becomes, are less.
const WAITING: usize = 64 << 10;

/// Halves of an Adler-32 are counted modulo this.
const ADLER: u64 = 65_521;

/// Compresses into a zlib stream.
pub(super) struct Repeats {
    bits: Bits,
    /// Both halves of the Adler-32.
    sums: (u64, u64),
    /// How many bytes of records there were.
    position: u64,
    last: Bytes,
}

impl Repeats {
    pub(super) fn new() -> Self {
        let mut bits = Bits::new();
        // A window of 32 KiB, the fastest way; then the last block, with fixed codes.
        bits.put(0x0178, 16);
        bits.put(0b011, 3);
        Self { bits, sums: (1, 0), position: 0, last: [0; RECORD_BYTES] }
    }

    /// Takes records that are in no pattern.
    pub(super) fn write(&mut self, output: &mut impl Write, records: &[Bytes]) -> io::Result<()> {
        for record in records {
            self.make_room(RECORD_BYTES, output)?;
            self.record(record);
        }
        Ok(())
    }

    /// Takes a pattern with these addresses.
    #[inline]
    pub(super) fn pattern(
        &mut self,
        output: &mut impl Write,
        pattern: &mut Pattern,
        addresses: &[u64],
    ) -> io::Result<()> {
        let here = self.position;
        let distance = pattern.at.replace(here).map_or(u64::MAX, |at| here - at);
        if distance > WINDOW {
            pattern.fill(addresses);
            return self.write(output, pattern.records());
        }
        self.make_room(pattern.len(), output)?;
        self.refer(pattern, addresses, distance as usize);
        if let Some(last) = pattern.records().last() {
            self.last = *last;
        }
        Ok(())
    }

    /// Ends the stream.
    pub(super) fn finish(mut self, output: &mut impl Write) -> io::Result<()> {
        // The code for the end of the block, and the rest of a byte.
        self.make_room(RECORD_BYTES, output)?;
        self.bits.put(0, 7 + 7);
        self.bits.give(output)?;
        let check = self.check();
        output.write_all(&check.to_be_bytes())
    }

    fn check(&self) -> u32 {
        ((self.sums.1 % ADLER) << 16 | self.sums.0) as u32
    }

    #[inline]
    fn make_room(&mut self, bytes: usize, output: &mut impl Write) -> io::Result<()> {
        if self.bits.has_room(bytes) { Ok(()) } else { self.bits.give(output) }
    }

    /// A pattern, by what it was when it came last.
    #[inline]
    fn refer(&mut self, pattern: &mut Pattern, addresses: &[u64], distance: usize) {
        let length = pattern.len();
        let distance = distance_code(distance);
        let (mut sum, mut weighted) = pattern.sums;
        let mut done = 0;
        for (slot, address) in addresses.iter().enumerate() {
            let Some((at, before)) = pattern.slot(slot) else { break };
            let (bytes, places) = byte_sums(*address);
            sum += bytes;
            weighted += (length - at) as u64 * bytes - places;
            let changed = 8 - ((before ^ address).leading_zeros() / 8) as usize;
            if changed == 0 {
                continue;
            }
            self.bits.refer(at - done, distance);
            self.bits.literals(*address, changed);
            pattern.replace(slot, *address);
            done = at + changed;
        }
        self.bits.refer(length - done, distance);
        let (first, second) = self.sums;
        let second = second + length as u64 * first + weighted;
        // It is made small when it has to be.
        self.sums = ((first + sum) % ADLER, if second >> 60 == 0 { second } else { second % ADLER });
        self.position += length as u64;
    }

    /// A record, by what differs from the one before.
    fn record(&mut self, record: &Bytes) {
        let is_first = self.position == 0;
        let before = std::mem::replace(&mut self.last, *record);
        let distance = distance_code(RECORD_BYTES);
        let mut at = 0;
        while let Some(byte) = record.get(at) {
            let same = record.iter().zip(&before).skip(at).take_while(|(one, other)| one == other).count();
            if same >= SHORTEST && !is_first {
                self.bits.refer(same, distance);
                at += same;
            } else {
                self.bits.literal(*byte);
                at += 1;
            }
        }
        let check = adler32(self.check(), record);
        self.sums = (u64::from(check & 0xffff), u64::from(check >> 16));
        self.position += RECORD_BYTES as u64;
    }
}

/// The sum of the bytes of a word, and the sum of each times its place.
#[inline]
fn byte_sums(word: u64) -> (u64, u64) {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    // The highest of four lanes becomes the sum of all, each times the number opposite to it.
    let lanes = |word: u64, weights: u64| (word & EVEN).wrapping_mul(weights) >> 48;
    let (even, odd) = (word, word >> 8);
    let ones = 0x0001_0001_0001_0001;
    let sum = lanes(even, ones) + lanes(odd, ones);
    (sum, lanes(even, 0x0000_0002_0004_0006) + lanes(odd, 0x0001_0003_0005_0007))
}

/// A code, lowest bit first, and how many bits it has.
#[derive(Debug, Clone, Copy)]
struct Code {
    bits: u32,
    count: u32,
}

/// Bits that become bytes, lowest first.
struct Bits {
    /// As many of them as `length` are complete.
    bytes: Box<[u8]>,
    length: usize,
    /// Fewer than eight.
    waiting: u64,
    count: u32,
}

impl Bits {
    fn new() -> Self {
        Self { bytes: vec![0; WAITING].into_boxed_slice(), length: 0, waiting: 0, count: 0 }
    }

    /// Puts bits, at most 56, behind those that are there. There has to be [room](Self::has_room).
    #[inline]
    fn put(&mut self, bits: u64, count: u32) {
        self.waiting |= bits << self.count;
        self.count += count;
        if let Some(room) = self.bytes.get_mut(self.length..self.length + 8) {
            room.copy_from_slice(&self.waiting.to_le_bytes());
        }
        let whole = self.count / 8;
        self.length += whole as usize;
        self.waiting >>= 8 * whole;
        self.count %= 8;
    }

    /// Is there room for what so many bytes of records become, at most?
    #[inline]
    fn has_room(&self, bytes: usize) -> bool {
        // A literal has nine bits, a reference less than one for each of its bytes, and eight are written at a time.
        self.length + bytes + bytes / 8 + 16 <= self.bytes.len()
    }

    fn give(&mut self, output: &mut impl Write) -> io::Result<()> {
        output.write_all(self.bytes.get(..self.length).unwrap_or_default())?;
        self.length = 0;
        Ok(())
    }

    #[inline]
    fn literal(&mut self, byte: u8) {
        let code = LITERALS[usize::from(byte)];
        self.put(code.bits.into(), code.count);
    }

    /// The lowest so many bytes of a word.
    #[inline]
    fn literals(&mut self, word: u64, count: usize) {
        let bytes = word.to_le_bytes();
        for bytes in bytes.get(..count).unwrap_or_default().chunks(4) {
            let (mut bits, mut length) = (0, 0);
            for byte in bytes {
                let code = LITERALS[usize::from(*byte)];
                bits |= u64::from(code.bits) << length;
                length += code.count;
            }
            self.put(bits, length);
        }
    }

    /// A stretch of at least [`SHORTEST`] bytes that was there before.
    #[inline]
    fn refer(&mut self, mut length: usize, distance: Code) {
        while length > LONGEST {
            // What is left must not be too short.
            let now = LONGEST.min(length - SHORTEST);
            self.refer_once(now, distance);
            length -= now;
        }
        self.refer_once(length, distance);
    }

    #[inline]
    fn refer_once(&mut self, length: usize, distance: Code) {
        let code = LENGTHS[length];
        self.put(u64::from(code.bits) | u64::from(distance.bits) << code.count, code.count + distance.count);
    }
}

/// The code of a distance, with the bits behind it.
#[inline]
fn distance_code(distance: usize) -> Code {
    let from_zero = distance as u32 - 1;
    if from_zero < 4 {
        return Code { bits: DISTANCES[from_zero as usize], count: 5 };
    }
    let top = 31 - from_zero.leading_zeros();
    let symbol = 2 * top + (from_zero >> (top - 1) & 1);
    let extra = from_zero & ((1 << (top - 1)) - 1);
    Code { bits: DISTANCES[symbol as usize] | extra << 5, count: 5 + top - 1 }
}

/// The codes of distances, without the bits behind them.
const DISTANCES: [u32; 30] = {
    let mut codes = [0; 30];
    let mut symbol = 0;
    while symbol < codes.len() {
        codes[symbol] = reversed(symbol as u32, 5);
        symbol += 1;
    }
    codes
};

/// Huffman codes have their highest bit first.
const fn reversed(code: u32, count: u32) -> u32 {
    code.reverse_bits() >> (32 - count)
}

/// The fixed code of a symbol.
const fn fixed(symbol: u32) -> Code {
    match symbol {
        0..=143 => Code { bits: reversed(0x30 + symbol, 8), count: 8 },
        144..=255 => Code { bits: reversed(0x190 + symbol - 144, 9), count: 9 },
        256..=279 => Code { bits: reversed(symbol - 256, 7), count: 7 },
        _ => Code { bits: reversed(0xc0 + symbol - 280, 8), count: 8 },
    }
}

const LITERALS: [Code; 256] = {
    let mut codes = [Code { bits: 0, count: 0 }; 256];
    let mut byte = 0;
    while byte < codes.len() {
        codes[byte] = fixed(byte as u32);
        byte += 1;
    }
    codes
};

/// The codes of lengths, with the bits behind them.
const LENGTHS: [Code; LONGEST + 1] = {
    let mut codes = [Code { bits: 0, count: 0 }; LONGEST + 1];
    let mut length = SHORTEST;
    while length < LONGEST {
        codes[length] = length_code((length - SHORTEST) as u32);
        length += 1;
    }
    codes[LONGEST] = fixed(285);
    codes
};

/// The code of a length that is `from_shortest` longer than the shortest.
const fn length_code(from_shortest: u32) -> Code {
    if from_shortest < 8 {
        return fixed(257 + from_shortest);
    }
    let top = 31 - from_shortest.leading_zeros();
    let extra_bits = top - 2;
    let code = fixed(257 + 4 * (top - 1) + (from_shortest >> extra_bits & 3));
    let extra = from_shortest & ((1 << extra_bits) - 1);
    Code { bits: code.bits | extra << code.count, count: code.count + extra_bits }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a known compressor's other half makes of it.
    fn inflated(packed: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(packed), &mut bytes);
        assert!(read.is_ok(), "{read:?}");
        bytes
    }

    fn record(seed: u64) -> Bytes {
        let mut record = [0; RECORD_BYTES];
        let words = [seed & 0xff_00ff, seed >> 8, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0];
        record.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        record
    }

    #[derive(Debug, Clone)]
    enum Told {
        Record(u64),
        Pattern(usize, u64),
    }

    proptest! {
        #[test]
        fn what_is_told_is_read(told in prop::collection::vec(prop_oneof![
            1 => any::<u64>().prop_map(Told::Record),
            // The last one of them is longer than the window.
            9 => (0..4_usize, any::<u64>(), 0..64_u32).prop_map(|(which, a, s)| Told::Pattern(which, a >> s)),
        ], 0..60)) {
            let patterns: [(u64, &[usize]); 4] = [(1, &[0]), (7, &[1, 2, 6]), (19, &[]), (1100, &[3, 1000])];
            let mut patterns =
                patterns.map(|(count, slots)| Pattern::new((0..count).map(record).collect(), slots.to_vec()));
            let (mut repeats, mut packed, mut expected) = (Repeats::new(), Vec::new(), Vec::new());
            for one in &told {
                match one {
                    Told::Record(seed) => {
                        repeats.write(&mut packed, &[record(*seed)])?;
                        expected.extend_from_slice(&record(*seed));
                    }
                    Told::Pattern(which, address) => {
                        let pattern = &mut patterns[*which];
                        let addresses: Vec<u64> = (0..pattern.slots() as u64).map(|at| address ^ at << 9).collect();
                        let mut alone = pattern.clone();
                        alone.fill(&addresses);
                        expected.extend_from_slice(alone.records().as_flattened());
                        repeats.pattern(&mut packed, pattern, &addresses)?;
                        prop_assert_eq!(pattern.records(), alone.records());
                    }
                }
            }
            repeats.finish(&mut packed)?;
            prop_assert_eq!(inflated(&packed), expected);
        }
    }

    #[test]
    fn sums_of_bytes() {
        for word in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef, 0xff00_0000_0000_0000, 0x8000_0000] {
            let bytes = word.to_le_bytes();
            let sum = bytes.iter().map(|byte| u64::from(*byte)).sum();
            let places = (0_u64..).zip(bytes).map(|(place, byte)| place * u64::from(byte)).sum();
            assert_eq!(byte_sums(word), (sum, places), "{word:#x}");
        }
    }

    #[test]
    fn a_loop_takes_few_bytes() {
        let mut pattern = Pattern::new((0..8).map(record).collect(), vec![2]);
        let (mut repeats, mut packed) = (Repeats::new(), Vec::new());
        let written =
            (0..1000_u64).try_for_each(|at| repeats.pattern(&mut packed, &mut pattern, &[0x7f00_0000 + 8 * at]));
        assert!(written.and_then(|()| repeats.finish(&mut packed)).is_ok());
        // Two references and a byte or two, for 256 bytes.
        assert!(packed.len() < 12_000, "{}", packed.len());
    }
}
