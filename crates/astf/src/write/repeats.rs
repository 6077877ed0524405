//! A zlib stream of records that come in patterns, made without looking for what repeats.
//!
//! patterns, records ─▶ references to where they were written last, and what is new ─▶ deflated bytes
//!
//! Who knows what repeats need not search: a pattern that is still in the window of 32 KiB is one reference from address to
//! address, one that is not is spelled in bits that are made once, and a record by itself refers to the one before it. The
//! stream is in pieces, so that several threads can read it.
//! Specification: RFC 1950, RFC 1951.

use std::io::{self, Write};
use std::num::NonZeroU64;

use unspool_model::BlockExecution;
use zlib_rs::adler32::adler32;

use super::super::layout::Bytes;
use super::super::pieces::{LONGEST_PIECE, PIECE};
use super::super::record::RECORD_BYTES;
use super::codes::{Bits, Code, FEW, LONGEST, Pen, SHORTEST, records_code};
use super::pattern::{NOWHERE, Passes, Pattern, Patterns, Slot, no_pattern};
use super::spelling::Before;

/// How far back a reference reaches.
const WINDOW: u64 = 1 << 15;

/// A piece ends behind the pattern with which it is long enough, and no pattern is longer than there may be room for.
const _: () = assert!(!Bits::may_have_room(LONGEST_PIECE - PIECE));

/// More bytes than are written between pieces.
const BETWEEN_PIECES: usize = 256;

/// Halves of an Adler-32 are counted modulo this.
const ADLER: u64 = 65_521;

/// Compresses into a zlib stream.
pub(super) struct Repeats {
    bits: Bits,
    course: Course,
    open: Open,
    /// Where this piece ends: with what comes behind it.
    end: u64,
    /// The record before, if it was none of a pattern.
    last: Option<Bytes>,
    /// The last address of a pattern that was spelled, and where it is.
    spelled: (u64, u64),
}

/// What changes with each pattern, by itself, so that a loop can have all of it in registers.
#[derive(Clone, Copy)]
struct Course {
    /// Both halves of the Adler-32. They are made small when they have to be.
    sums: (u64, u64),
    /// How many bytes of records there were, and between pieces so many that no reference reaches back.
    position: u64,
}

impl Repeats {
    pub(super) fn new() -> Self {
        let mut bits = Bits::new();
        bits.write(|mut pen| {
            // A window of 32 KiB, the fastest way.
            pen.put(0x0178, 16);
            start_piece(&mut pen);
            pen
        });
        let course = Course { sums: (1, 0), position: 0 };
        Self { bits, course, open: Open::default(), end: PIECE as u64, last: None, spelled: (0, NOWHERE) }
    }

    /// Takes records that are in no pattern.
    pub(super) fn write(&mut self, output: &mut impl Write, records: &[Bytes]) -> io::Result<()> {
        for record in records {
            self.make_room(RECORD_BYTES, output)?;
            self.record(record);
            self.end_piece(output)?;
        }
        Ok(())
    }

    /// Takes the patterns of passes.
    pub(super) fn patterns(
        &mut self,
        output: &mut impl Write,
        patterns: &mut Patterns,
        Passes { mut passes, mut addresses, .. }: Passes<'_>,
    ) -> io::Result<()> {
        while let Some(number) = passes.first().map(|pass| pass.index()) {
            let pattern = patterns.patterns.get(number).filter(|pattern| pattern.length > 0).ok_or_else(no_pattern)?;
            let length = pattern.length as usize;
            let (now, rest) = addresses.split_at_checked(patterns.slots(number)).ok_or_else(no_pattern)?;
            if !Bits::may_have_room(length + LONGEST) {
                self.write(output, patterns.fill(number, now))?;
                (passes, addresses) = (passes.get(1..).unwrap_or_default(), rest);
                continue;
            }
            self.make_room(length, output)?;
            self.last = None;
            let before = passes.len();
            self.refer(patterns, &mut passes, &mut addresses);
            if passes.len() == before {
                self.spell(patterns, number, now);
                (passes, addresses) = (passes.get(1..).unwrap_or_default(), rest);
            }
            self.end_piece(output)?;
        }
        Ok(())
    }

    /// Ends the piece if it is long enough.
    fn end_piece(&mut self, output: &mut impl Write) -> io::Result<()> {
        if self.course.position < self.end {
            return Ok(());
        }
        self.make_room(BETWEEN_PIECES, output)?;
        let mut open = std::mem::take(&mut self.open);
        self.bits.write(|pen| {
            let mut pen = open.close(pen);
            pen.end();
            start_piece(&mut pen);
            pen
        });
        self.course.position += WINDOW + 1;
        self.end = self.course.position + PIECE as u64;
        self.last = None;
        Ok(())
    }

    /// Puts patterns that were there before, for as long as there are such, and room.
    fn refer(&mut self, patterns: &mut Patterns, all: &mut &[BlockExecution], all_addresses: &mut &[u64]) {
        let Self { bits, course: kept, open: kept_open, end, .. } = self;
        let (mut course, mut open, mut passes, mut addresses) = (*kept, *kept_open, *all, *all_addresses);
        bits.write(|mut pen| {
            while let Some((pass, later)) = passes.split_first() {
                let Some(pattern) = patterns.patterns.get_mut(pass.index()) else { break };
                let Some(slots) = patterns.slots.get_mut(pattern.slots()) else { break };
                let Some((now, behind)) = addresses.split_at_checked(slots.len()) else { break };
                let distance = course.position.wrapping_sub(pattern.at);
                if distance > WINDOW || course.position >= *end || !pen.has_room(pattern.length as usize + LONGEST) {
                    break;
                }
                pattern.at = course.position;
                if distance != open.distance {
                    pen = open.close(pen);
                    open.start(distance);
                }
                pen = refer(pen, &mut open, pattern, slots.iter_mut().zip(now));
                course.pass(pattern);
                (passes, addresses) = (later, behind);
            }
            pen
        });
        (*kept, *kept_open, *all, *all_addresses) = (course, open, passes, addresses);
    }

    /// Puts a pattern that was not there for long.
    #[inline(never)]
    fn spell(&mut self, patterns: &mut Patterns, number: usize, addresses: &[u64]) {
        let Self { bits, course, open, spelled, .. } = self;
        let Some(pattern) = patterns.patterns.get_mut(number) else { return };
        let slots = patterns.slots.get_mut(pattern.slots()).unwrap_or_default();
        slots.iter_mut().zip(addresses).for_each(|(slot, address)| slot.set(*address, pattern));
        let place = |slot: &Slot| course.position + slot.at() as u64;
        let before = slots.first().and_then(|first| {
            let distance = place(first).wrapping_sub(spelled.1);
            (distance <= WINDOW).then_some(Before { address: spelled.0, records: distance as usize / RECORD_BYTES })
        });
        if let Some(last) = slots.last() {
            *spelled = (last.address, place(last));
        }
        pattern.at = course.position;
        course.pass(pattern);
        let spelling = patterns.spelling(number);
        bits.write(|mut pen| {
            pen = open.close(pen);
            match spelling {
                Some(spelling) => spelling.put(pen, addresses, before),
                None => pen,
            }
        });
        *open = Open::default();
    }

    /// Writes what is complete.
    pub(super) fn give(&mut self, output: &mut impl Write) -> io::Result<()> {
        self.bits.give(output)
    }

    /// Ends the stream.
    pub(super) fn finish(mut self, output: &mut impl Write) -> io::Result<()> {
        self.make_room(RECORD_BYTES, output)?;
        let mut open = self.open;
        self.bits.write(|pen| {
            let mut pen = open.close(pen);
            pen.end();
            pen.last();
            pen
        });
        self.bits.give(output)?;
        self.course.reduce();
        output.write_all(&self.course.check().to_be_bytes())
    }

    /// Makes room for so many bytes, and the reference before them.
    #[inline]
    fn make_room(&mut self, bytes: usize, output: &mut impl Write) -> io::Result<()> {
        if self.bits.has_room(bytes + LONGEST) { Ok(()) } else { self.bits.give(output) }
    }

    /// A record, by what differs from the one before.
    fn record(&mut self, record: &Bytes) {
        let before = self.last.replace(*record);
        let distance = records_code(1);
        let Self { bits, open, .. } = self;
        bits.write(|pen| {
            let mut pen = open.close(pen);
            let mut at = 0;
            while let Some(byte) = record.get(at) {
                let before = before.iter().flatten().skip(at);
                let same = record.iter().skip(at).zip(before).take_while(|(one, other)| one == other).count();
                if same >= SHORTEST {
                    pen.refer(same, distance);
                    at += same;
                } else {
                    pen.literal(*byte);
                    at += 1;
                }
            }
            pen
        });
        self.course.reduce();
        let check = adler32(self.course.check(), record);
        self.course.sums = (u64::from(check & 0xffff), u64::from(check >> 16));
        self.course.position += RECORD_BYTES as u64;
    }
}

/// The end of the piece before, or the start of the stream, and the codes of this piece.
fn start_piece(pen: &mut Pen<'_>) {
    pen.nothing();
    pen.nothing();
    pen.start();
}

impl Course {
    /// The Adler-32 of what was, if its halves are small.
    fn check(&self) -> u32 {
        (self.sums.1 << 16 | self.sums.0) as u32
    }

    fn reduce(&mut self) {
        self.sums = (self.sums.0 % ADLER, self.sums.1 % ADLER);
    }

    /// The bytes of this pattern come next.
    #[inline(always)]
    fn pass(&mut self, pattern: &Pattern) {
        let (first, second) = self.sums;
        let length = u64::from(pattern.length);
        self.sums = (first + u64::from(pattern.sum), second + length * first + pattern.weighted);
        self.position += length;
        // With each byte the second half grows by the first one, so that it has 60 bits long before that has 40. A pattern
        // has fewer than 2^15 bytes.
        if self.sums.1 >> 60 != 0 {
            self.reduce();
        }
    }
}

/// A reference that may go on with the next pattern: if that was behind this one before, too. It stays open whenever bytes
/// are written, so that they are the same bytes however many are written at a time.
#[derive(Clone, Copy, Default)]
struct Open {
    /// Bytes.
    length: usize,
    distance: u64,
    code: Code,
}

impl Open {
    /// What comes next was so far back.
    #[inline(always)]
    fn start(&mut self, distance: u64) {
        (self.distance, self.code) = (distance, records_code(distance as usize / RECORD_BYTES));
    }

    /// Puts it, if there is one.
    #[inline(always)]
    fn close<'b>(&mut self, mut pen: Pen<'b>) -> Pen<'b> {
        if self.length > 0 {
            pen.refer(self.length, self.code);
        }
        self.length = 0;
        pen
    }
}

/// A pattern, by what it was when it came last.
#[inline(always)]
fn refer<'b, 's>(
    mut pen: Pen<'b>,
    open: &mut Open,
    pattern: &mut Pattern,
    slots: impl Iterator<Item = (&'s mut Slot, &'s u64)>,
) -> Pen<'b> {
    // Bytes of the pattern that were put, less those of the reference before.
    let mut done = open.length.wrapping_neg();
    for (slot, address) in slots {
        let Some(differs) = NonZeroU64::new(slot.address ^ address) else { continue };
        let changed = differs.ilog2() / 8 + 1;
        let length;
        (pen, length) = pen.shorten(slot.at().wrapping_sub(done), open.code);
        if changed <= FEW {
            slot.set_low(*address, pattern);
            pen.refer_and_put(length, open.code, *address, changed);
        } else {
            slot.set(*address, pattern);
            pen.refer(length, open.code);
            pen.literals(*address, changed);
        }
        done = slot.at() + changed as usize;
    }
    (pen, open.length) = pen.shorten((pattern.length as usize).wrapping_sub(done), open.code);
    pen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::pieces::MARK;
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

    fn pass(number: usize) -> BlockExecution {
        BlockExecution::new(number as u32 >> 1, number & 1 == 1)
    }

    fn told_as<'p>(passes: &'p [BlockExecution], addresses: &'p [u64]) -> Passes<'p> {
        Passes { passes, addresses, records: 0 }
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
            // The last ones of them are longer than the window, and than what is kept back.
            9 => (0..5_usize, any::<u64>(), 0..64_u32).prop_map(|(which, a, s)| Told::Pattern(which, a >> s)),
        ], 0..60)) {
            let patterns: [(u64, &[usize]); 5] =
                [(1, &[0]), (7, &[1, 2, 6]), (19, &[]), (1100, &[3, 1000]), (3000, &[0, 2999])];
            let (mut known, mut other) = (Patterns::default(), Patterns::default());
            for (number, (count, slots)) in patterns.into_iter().enumerate() {
                let records: Vec<Bytes> = (0..count).map(record).collect();
                known.set(number, &records, slots);
                other.set(number, &records, slots);
            }
            let (mut repeats, mut packed, mut expected) = (Repeats::new(), Vec::new(), Vec::new());
            let (mut passes, mut all) = (Vec::new(), Vec::new());
            for one in &told {
                if let Told::Pattern(which, address) = one {
                    let addresses: Vec<u64> = (0..known.slots(*which) as u64).map(|at| address ^ at << 9).collect();
                    expected.extend_from_slice(other.fill(*which, &addresses).as_flattened());
                    passes.push(pass(*which));
                    all.extend(addresses);
                }
                if matches!(one, Told::Record(_)) || passes.len() > 5 {
                    repeats.patterns(&mut packed, &mut known, told_as(&std::mem::take(&mut passes), &std::mem::take(&mut all)))?;
                }
                if let Told::Record(seed) = one {
                    repeats.write(&mut packed, &[record(*seed)])?;
                    expected.extend_from_slice(&record(*seed));
                }
            }
            repeats.patterns(&mut packed, &mut known, told_as(&passes, &all))?;
            repeats.finish(&mut packed)?;
            prop_assert_eq!(inflated(&packed), expected);
        }
    }

    #[test]
    fn sums_stay_small_however_long_it_is() {
        // Short and long, and nothing in them weighs more.
        for count in [20, 1000] {
            let mut patterns = Patterns::default();
            patterns.set(0, &vec![[0xff; RECORD_BYTES]; count], &[]);
            let pattern = patterns.patterns[0];
            let (length, sum) = (u64::from(pattern.length), u64::from(pattern.sum));
            let (mut course, mut first, mut second) = (Course { sums: (1, 0), position: 0 }, 1, 0);
            for turn in 0..20_000_000 / count {
                course.pass(&pattern);
                second = (second + length * first + pattern.weighted) % ADLER;
                first = (first + sum) % ADLER;
                assert_eq!((course.sums.0 % ADLER, course.sums.1 % ADLER), (first, second), "{count}, {turn}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_an_error() {
        let mut patterns = Patterns::default();
        patterns.set(0, &[record(1)], &[0]);
        let mut write = |passes: &[BlockExecution], addresses: &[u64]| {
            let in_patterns = Repeats::new().patterns(&mut Vec::new(), &mut patterns, told_as(passes, addresses));
            (in_patterns.is_ok(), patterns.each(told_as(passes, addresses), |_| Ok(())).is_ok())
        };
        assert_eq!(write(&[pass(0)], &[8]), (true, true));
        assert_eq!(write(&[pass(0), pass(0)], &[8]), (false, false), "an address");
        assert_eq!(write(&[pass(0), pass(1)], &[8, 8]), (false, false), "a pattern");
    }

    #[test]
    fn a_loop_takes_few_bytes() {
        let mut patterns = Patterns::default();
        let records: Vec<Bytes> = (0..8).map(record).collect();
        patterns.set(0, &records, &[2]);
        let (mut repeats, mut packed) = (Repeats::new(), Vec::new());
        let addresses: Vec<u64> = (0..1000).map(|at| 0x7f00_0000 + 8 * at).collect();
        let written = repeats.patterns(&mut packed, &mut patterns, told_as(&[pass(0); 1000], &addresses));
        assert!(written.and_then(|()| repeats.finish(&mut packed)).is_ok());
        // Two references and a byte or two, for 256 bytes.
        assert!(packed.len() < 12_000, "{}", packed.len());
    }

    #[test]
    fn a_piece_ends_however_much_is_told_at_once() {
        let mut patterns = Patterns::default();
        let records: Vec<Bytes> = (0..8).map(record).collect();
        patterns.set(0, &records, &[]);
        let (mut repeats, mut packed) = (Repeats::new(), Vec::new());
        let written = repeats.patterns(&mut packed, &mut patterns, told_as(&[pass(0); 20_000], &[]));
        assert!(written.and_then(|()| repeats.finish(&mut packed)).is_ok());
        let bytes = inflated(&packed).len();
        let pieces = memchr::memmem::find_iter(&packed, &MARK).count();
        assert_eq!(bytes, 20_000 * 256);
        assert!(pieces >= bytes / LONGEST_PIECE, "{pieces}");
    }

    #[test]
    fn addresses_that_are_near_take_few_bytes() {
        let slots: Vec<usize> = (0..100).collect();
        let size = |step: u64| {
            let mut patterns = Patterns::default();
            patterns.set(0, &[record(1); 100], &slots);
            let addresses: Vec<u64> = (0..100).map(|at| 0x7f00_0000_0000 + step * at).collect();
            let (mut repeats, mut packed) = (Repeats::new(), Vec::new());
            let written = repeats.patterns(&mut packed, &mut patterns, told_as(&[pass(0)], &addresses));
            assert!(written.and_then(|()| repeats.finish(&mut packed)).is_ok());
            assert_eq!(inflated(&packed), patterns.fill(0, &addresses).as_flattened());
            packed.len()
        };
        // Of each the low byte is new, or two, and not eight.
        let (near, far) = (size(2), size(0x0101_0101_0101_0101));
        assert!(near + 500 < far, "{near} {far}");
    }
}
