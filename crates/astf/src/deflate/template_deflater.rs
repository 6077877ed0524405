//! A DEFLATE writer that replaces match search by precoded templates.
//!
//! patterns, records ─▶ references and literals ─▶ zlib stream
//!
//! The caller knows what repeats, so nothing has to be searched for:
//!
//! ```text
//! pattern         r r A r r r A r       r: bytes of records, A: an address
//! in the window   ──▶ A ────▶ A ─▶      references to its last occurrence, and the bytes of addresses that differ
//! not in it       bbb A bbbbb A bb      its precoded template: bits that are computed once, and addresses
//! other records   the bytes that differ from the previous record
//! ```
//!
//! The Adler-32 is not computed from the bytes: each pattern knows what it adds to it. The stream is in independent
//! blocks, so that several threads can read it.
//! Specification: RFC 1950, RFC 1951.

use std::io::{self, Write};
use std::num::NonZeroU64;

use unspool_model::BlockExecution;
use zlib_rs::adler32::adler32;

use super::super::layout::Bytes;
use super::super::record::RECORD_BYTES;
use super::bits::{BitBuffer, BitWriter, Code, FEW, LONGEST, SHORTEST, records_code};
use super::pattern::{Executions, NOWHERE, Pattern, Patterns, Slot, no_pattern};
use super::template::Earlier;
use super::{BLOCK, LONGEST_BLOCK};

/// Maximum distance of a reference.
const WINDOW: u64 = 1 << 15;

/// An independent block ends after the pattern with which it is long enough, and no pattern is longer than there may be
/// room for.
const _: () = assert!(!BitBuffer::may_have_room(LONGEST_BLOCK - BLOCK));

/// More bytes than are written between independent blocks.
const BETWEEN_BLOCKS: usize = 256;

/// Modulus of the halves of an Adler-32.
const ADLER: u64 = 65_521;

/// Compresses into a zlib stream.
pub(crate) struct TemplateDeflater {
    bits: BitBuffer,
    running: RunningAdler,
    open: OpenReference,
    /// Position from which on this independent block ends.
    end: u64,
    /// The previous record, if it was not part of a pattern.
    last: Option<Bytes>,
    /// The last address that was written by a template, and its position.
    templated: (u64, u64),
}

/// The Adler-32 and the position. They change with each pattern, and are a value of their own, so that a loop can keep
/// all of it in registers.
#[derive(Clone, Copy)]
struct RunningAdler {
    /// Both halves of the Adler-32. They are reduced when they have to be.
    sums: (u64, u64),
    /// Bytes of records so far, with gaps between independent blocks that no reference reaches across.
    position: u64,
}

impl TemplateDeflater {
    pub(crate) fn new() -> Self {
        let mut bits = BitBuffer::new();
        bits.write(|mut writer| {
            // zlib header: a window of 32 KiB, the fastest level.
            writer.put(0x0178, 16);
            start_block(&mut writer);
            writer
        });
        let running = RunningAdler { sums: (1, 0), position: 0 };
        Self { bits, running, open: OpenReference::default(), end: BLOCK as u64, last: None, templated: (0, NOWHERE) }
    }

    /// Writes records that are in no pattern.
    pub(crate) fn write(&mut self, output: &mut impl Write, records: &[Bytes]) -> io::Result<()> {
        for record in records {
            self.make_room(RECORD_BYTES, output)?;
            self.record(record);
            self.end_block(output)?;
        }
        Ok(())
    }

    /// Writes the patterns of block executions.
    pub(crate) fn patterns(
        &mut self,
        output: &mut impl Write,
        patterns: &mut Patterns,
        Executions { mut executions, mut addresses, .. }: Executions<'_>,
    ) -> io::Result<()> {
        while let Some(index) = executions.first().map(|execution| execution.index()) {
            let pattern = patterns.patterns.get(index).filter(|pattern| pattern.length > 0).ok_or_else(no_pattern)?;
            let length = pattern.length as usize;
            let (now, rest) = addresses.split_at_checked(patterns.slot_count(index)).ok_or_else(no_pattern)?;
            if !BitBuffer::may_have_room(length + LONGEST) {
                self.write(output, patterns.fill(index, now))?;
                (executions, addresses) = (executions.get(1..).unwrap_or_default(), rest);
                continue;
            }
            self.make_room(length, output)?;
            self.last = None;
            let before = executions.len();
            self.refer(patterns, &mut executions, &mut addresses);
            if executions.len() == before {
                self.write_template(patterns, index, now);
                (executions, addresses) = (executions.get(1..).unwrap_or_default(), rest);
            }
            self.end_block(output)?;
        }
        Ok(())
    }

    /// Ends the independent block if it is long enough.
    fn end_block(&mut self, output: &mut impl Write) -> io::Result<()> {
        if self.running.position < self.end {
            return Ok(());
        }
        self.make_room(BETWEEN_BLOCKS, output)?;
        let mut open = std::mem::take(&mut self.open);
        self.bits.write(|writer| {
            let mut writer = open.close(writer);
            writer.end();
            start_block(&mut writer);
            writer
        });
        self.running.position += WINDOW + 1;
        self.end = self.running.position + BLOCK as u64;
        self.last = None;
        Ok(())
    }

    /// Writes patterns that are in the window, as long as there are such, and room.
    fn refer(&mut self, patterns: &mut Patterns, all: &mut &[BlockExecution], all_addresses: &mut &[u64]) {
        let Self { bits, running: kept, open: kept_open, end, .. } = self;
        let (mut running, mut open, mut executions, mut addresses) = (*kept, *kept_open, *all, *all_addresses);
        bits.write(|mut writer| {
            while let Some((execution, later)) = executions.split_first() {
                let Some(pattern) = patterns.patterns.get_mut(execution.index()) else { break };
                let Some(slots) = patterns.slots.get_mut(pattern.slot_range()) else { break };
                let Some((now, rest)) = addresses.split_at_checked(slots.len()) else { break };
                let distance = running.position.wrapping_sub(pattern.last_position);
                if distance > WINDOW || running.position >= *end || !writer.has_room(pattern.length as usize + LONGEST)
                {
                    break;
                }
                pattern.last_position = running.position;
                if distance != open.distance {
                    writer = open.close(writer);
                    open.start(distance);
                }
                writer = refer(writer, &mut open, pattern, slots.iter_mut().zip(now));
                running.advance(pattern);
                (executions, addresses) = (later, rest);
            }
            writer
        });
        (*kept, *kept_open, *all, *all_addresses) = (running, open, executions, addresses);
    }

    /// Writes a pattern that is not in the window.
    #[inline(never)]
    fn write_template(&mut self, patterns: &mut Patterns, index: usize, addresses: &[u64]) {
        let Self { bits, running, open, templated, .. } = self;
        let Some(pattern) = patterns.patterns.get_mut(index) else { return };
        let slots = patterns.slots.get_mut(pattern.slot_range()).unwrap_or_default();
        slots.iter_mut().zip(addresses).for_each(|(slot, address)| slot.set_address(*address, pattern));
        let position = |slot: &Slot| running.position + slot.offset() as u64;
        let earlier = slots.first().and_then(|first| {
            let distance = position(first).wrapping_sub(templated.1);
            (distance <= WINDOW).then_some(Earlier { address: templated.0, records: distance as usize / RECORD_BYTES })
        });
        if let Some(last) = slots.last() {
            *templated = (last.address, position(last));
        }
        pattern.last_position = running.position;
        running.advance(pattern);
        let template = patterns.template(index);
        bits.write(|mut writer| {
            writer = open.close(writer);
            match template {
                Some(template) => template.write(writer, addresses, earlier),
                None => writer,
            }
        });
        *open = OpenReference::default();
    }

    /// Writes the complete bytes.
    pub(super) fn flush(&mut self, output: &mut impl Write) -> io::Result<()> {
        self.bits.flush(output)
    }

    /// Ends the stream.
    pub(crate) fn finish(mut self, output: &mut impl Write) -> io::Result<()> {
        self.make_room(RECORD_BYTES, output)?;
        let mut open = self.open;
        self.bits.write(|writer| {
            let mut writer = open.close(writer);
            writer.end();
            writer.last_block();
            writer
        });
        self.bits.flush(output)?;
        self.running.reduce();
        output.write_all(&self.running.check().to_be_bytes())
    }

    /// Makes room for this many bytes, and the reference before them.
    #[inline]
    fn make_room(&mut self, bytes: usize, output: &mut impl Write) -> io::Result<()> {
        if self.bits.has_room(bytes + LONGEST) { Ok(()) } else { self.bits.flush(output) }
    }

    /// Writes a record as the bytes that differ from the previous one.
    fn record(&mut self, record: &Bytes) {
        let previous = self.last.replace(*record);
        let distance = records_code(1);
        let Self { bits, open, .. } = self;
        bits.write(|writer| {
            let mut writer = open.close(writer);
            let mut at = 0;
            while let Some(byte) = record.get(at) {
                let previous = previous.iter().flatten().skip(at);
                let same = record.iter().skip(at).zip(previous).take_while(|(one, other)| one == other).count();
                if same >= SHORTEST {
                    writer.refer(same, distance);
                    at += same;
                } else {
                    writer.literal(*byte);
                    at += 1;
                }
            }
            writer
        });
        self.running.reduce();
        let check = adler32(self.running.check(), record);
        self.running.sums = (u64::from(check & 0xffff), u64::from(check >> 16));
        self.running.position += RECORD_BYTES as u64;
    }
}

/// Ends the previous independent block, or starts the stream, and writes the codes of the next.
fn start_block(writer: &mut BitWriter<'_>) {
    writer.empty_block();
    writer.empty_block();
    writer.start();
}

impl RunningAdler {
    /// The Adler-32, if its halves are reduced.
    fn check(&self) -> u32 {
        (self.sums.1 << 16 | self.sums.0) as u32
    }

    fn reduce(&mut self) {
        self.sums = (self.sums.0 % ADLER, self.sums.1 % ADLER);
    }

    /// Advances over the bytes of a pattern.
    #[inline(always)]
    fn advance(&mut self, pattern: &Pattern) {
        let (first, second) = self.sums;
        let length = u64::from(pattern.length);
        self.sums = (first + u64::from(pattern.sum), second + length * first + pattern.weighted);
        self.position += length;
        // With each byte the second half grows by the first one, so that it has 60 bits long before that has 40. A
        // pattern has fewer than 2^15 bytes.
        if self.sums.1 >> 60 != 0 {
            self.reduce();
        }
    }
}

/// A reference that may continue with the next pattern, if that followed this one the last time, too. It stays open
/// whenever bytes are flushed, so that the output does not depend on how often they are.
#[derive(Clone, Copy, Default)]
struct OpenReference {
    /// In bytes.
    length: usize,
    distance: u64,
    code: Code,
}

impl OpenReference {
    /// Starts a reference of this distance.
    #[inline(always)]
    fn start(&mut self, distance: u64) {
        (self.distance, self.code) = (distance, records_code(distance as usize / RECORD_BYTES));
    }

    /// Writes it, if there is one.
    #[inline(always)]
    fn close<'b>(&mut self, mut writer: BitWriter<'b>) -> BitWriter<'b> {
        if self.length > 0 {
            writer.refer(self.length, self.code);
        }
        self.length = 0;
        writer
    }
}

/// Writes a pattern as references to its last occurrence, and what differs.
#[inline(always)]
fn refer<'b, 's>(
    mut writer: BitWriter<'b>,
    open: &mut OpenReference,
    pattern: &mut Pattern,
    slots: impl Iterator<Item = (&'s mut Slot, &'s u64)>,
) -> BitWriter<'b> {
    // Bytes of the pattern that were written, less those of the open reference.
    let mut done = open.length.wrapping_neg();
    for (slot, address) in slots {
        let Some(differs) = NonZeroU64::new(slot.address ^ address) else { continue };
        let changed = differs.ilog2() / 8 + 1;
        let length;
        (writer, length) = writer.shorten(slot.offset().wrapping_sub(done), open.code);
        if changed <= FEW {
            slot.set_address_low3(*address, pattern);
            writer.refer_and_literals(length, open.code, *address, changed);
        } else {
            slot.set_address(*address, pattern);
            writer.refer(length, open.code);
            writer.literals(*address, changed);
        }
        done = slot.offset() + changed as usize;
    }
    (writer, open.length) = writer.shorten((pattern.length as usize).wrapping_sub(done), open.code);
    writer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::MARK;
    use super::*;

    /// Decompresses with another implementation.
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

    fn execution(index: usize) -> BlockExecution {
        BlockExecution::new(index as u32 >> 1, index & 1 == 1)
    }

    fn with_addresses<'p>(executions: &'p [BlockExecution], addresses: &'p [u64]) -> Executions<'p> {
        Executions { executions, addresses, record_count: 0 }
    }

    fn packed(patterns: &mut Patterns, executions: &[BlockExecution], addresses: &[u64]) -> Vec<u8> {
        let (mut deflater, mut packed) = (TemplateDeflater::new(), Vec::new());
        let written = deflater.patterns(&mut packed, patterns, with_addresses(executions, addresses));
        assert!(written.and_then(|()| deflater.finish(&mut packed)).is_ok());
        packed
    }

    #[derive(Debug, Clone)]
    enum Item {
        Record(u64),
        Pattern(usize, u64),
    }

    proptest! {
        #[test]
        fn written_records_are_read_back(items in prop::collection::vec(prop_oneof![
            1 => any::<u64>().prop_map(Item::Record),
            // The last two are longer than the window, and than the buffer.
            9 => (0..5_usize, any::<u64>(), 0..64_u32).prop_map(|(which, a, s)| Item::Pattern(which, a >> s)),
        ], 0..60)) {
            let patterns: [(u64, &[usize]); 5] =
                [(1, &[0]), (7, &[1, 2, 6]), (19, &[]), (1100, &[3, 1000]), (3000, &[0, 2999])];
            let (mut known, mut other) = (Patterns::default(), Patterns::default());
            for (index, (count, slot_records)) in patterns.into_iter().enumerate() {
                let records: Vec<Bytes> = (0..count).map(record).collect();
                known.set(index, &records, slot_records);
                other.set(index, &records, slot_records);
            }
            let (mut deflater, mut packed, mut expected) = (TemplateDeflater::new(), Vec::new(), Vec::new());
            let (mut executions, mut all) = (Vec::new(), Vec::new());
            for one in &items {
                if let Item::Pattern(which, address) = one {
                    let addresses: Vec<u64> = (0..known.slot_count(*which) as u64).map(|at| address ^ at << 9).collect();
                    expected.extend_from_slice(other.fill(*which, &addresses).as_flattened());
                    executions.push(execution(*which));
                    all.extend(addresses);
                }
                if matches!(one, Item::Record(_)) || executions.len() > 5 {
                    deflater.patterns(&mut packed, &mut known, with_addresses(&std::mem::take(&mut executions), &std::mem::take(&mut all)))?;
                }
                if let Item::Record(seed) = one {
                    deflater.write(&mut packed, &[record(*seed)])?;
                    expected.extend_from_slice(&record(*seed));
                }
            }
            deflater.patterns(&mut packed, &mut known, with_addresses(&executions, &all))?;
            deflater.finish(&mut packed)?;
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
            let (mut running, mut first, mut second) = (RunningAdler { sums: (1, 0), position: 0 }, 1, 0);
            for turn in 0..20_000_000 / count {
                running.advance(&pattern);
                second = (second + length * first + pattern.weighted) % ADLER;
                first = (first + sum) % ADLER;
                assert_eq!((running.sums.0 % ADLER, running.sums.1 % ADLER), (first, second), "{count}, {turn}");
            }
        }
    }

    #[test]
    fn missing_patterns_and_addresses_are_errors() {
        let mut patterns = Patterns::default();
        patterns.set(0, &[record(1)], &[0]);
        let mut write = |executions: &[BlockExecution], addresses: &[u64]| {
            let in_patterns =
                TemplateDeflater::new().patterns(&mut Vec::new(), &mut patterns, with_addresses(executions, addresses));
            (in_patterns.is_ok(), patterns.each(with_addresses(executions, addresses), |_| Ok(())).is_ok())
        };
        assert_eq!(write(&[execution(0)], &[8]), (true, true));
        assert_eq!(write(&[execution(0), execution(0)], &[8]), (false, false), "an address");
        assert_eq!(write(&[execution(0), execution(1)], &[8, 8]), (false, false), "a pattern");
    }

    #[test]
    fn a_loop_takes_few_bytes() {
        let mut patterns = Patterns::default();
        let records: Vec<Bytes> = (0..8).map(record).collect();
        patterns.set(0, &records, &[2]);
        let addresses: Vec<u64> = (0..1000).map(|at| 0x7f00_0000 + 8 * at).collect();
        let packed = packed(&mut patterns, &[execution(0); 1000], &addresses);
        // Two references and a byte or two, for 256 bytes.
        assert!(packed.len() < 12_000, "{}", packed.len());
    }

    #[test]
    fn blocks_end_however_much_is_written_at_once() {
        let mut patterns = Patterns::default();
        let records: Vec<Bytes> = (0..8).map(record).collect();
        patterns.set(0, &records, &[]);
        let packed = packed(&mut patterns, &[execution(0); 20_000], &[]);
        let bytes = inflated(&packed).len();
        let blocks = memchr::memmem::find_iter(&packed, &MARK).count();
        assert_eq!(bytes, 20_000 * 256);
        assert!(blocks >= bytes / LONGEST_BLOCK, "{blocks}");
    }

    #[test]
    fn addresses_that_are_near_take_few_bytes() {
        let slot_records: Vec<usize> = (0..100).collect();
        let size = |step: u64| {
            let mut patterns = Patterns::default();
            patterns.set(0, &[record(1); 100], &slot_records);
            let addresses: Vec<u64> = (0..100).map(|at| 0x7f00_0000_0000 + step * at).collect();
            let packed = packed(&mut patterns, &[execution(0)], &addresses);
            assert_eq!(inflated(&packed), patterns.fill(0, &addresses).as_flattened());
            packed.len()
        };
        // Of each the low byte is new, or two, and not eight.
        let (near, far) = (size(2), size(0x0101_0101_0101_0101));
        assert!(near + 500 < far, "{near} {far}");
    }
}
