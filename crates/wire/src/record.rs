//! Records: the table of all of them, encoded and decoded from the same rows.
//!
//! ```text
//! bits 63:62   below
//! 0            31:0 number of the block                                                                a block is executed
//! 1            61:53 instruction, 52 write, 51:49 log2(size), 48 bits 63:48 are ones, 47:0 address     an access
//! 2            61:56 which row of the table, 31:0 its fields; words follow                             everything else
//! ```
//!
//! The length of a record follows from its first word. A chunk is decoded word by word: a decoder that looks for block
//! executions only needs [`block_of`].

use std::io;
use std::ops::Range;

use crate::damage;

/// A word of a chunk, little-endian.
pub type Word = [u8; 8];

/// Bits of the word of an access that hold the address. The others are the same whenever the instruction does the same.
pub const ADDRESS_BITS: u64 = (1 << 48) - 1;

const ACCESS: u64 = 1 << 62;
const RARE: u64 = 2 << 62;

/// The row of bits 63:48 of the next access, where they are neither all zeros nor all ones.
const HIGH_ADDRESS: u64 = 9;

/// Makes the enum, its encoder and its decoder from one row per record:
/// code, name, fields with their bits in the first word, words that follow.
macro_rules! record_table {
    ($(
        $(#[$doc:meta])*
        $code:literal $name:ident { $($field:ident: $kind:ty = $bits:expr),* } [$($word:ident: $words:ty),*]
    )*) => {
        /// A record of a thread or CPU.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the row documents its fields")]
        pub enum Record {
            /// The block with this number is executed.
            Block { id: u32 },
            /// An instruction of the block accesses memory.
            Access(Access),
            $($(#[$doc])* $name { $($field: $kind,)* $($word: $words,)* },)*
        }

        impl Record {
            /// Passes the words of the record to `put`.
            #[inline]
            pub fn encode(&self, put: &mut impl FnMut(u64)) {
                match *self {
                    Self::Block { id } => put(id.into()),
                    Self::Access(Access { index, size, is_write, address }) => {
                        encode_access(Access::kind(size.trailing_zeros(), is_write), index, address, put);
                    }
                    $(Self::$name { $($field,)* $($word,)* } => {
                        let number: u32 = 0 $(| to_bits($field.into(), $bits))*;
                        put(RARE | $code << 56 | u64::from(number));
                        $($word.encode(number, put);)*
                    })*
                }
            }
        }

        #[cold]
        fn decode_rare(head: u64, words: &mut &[Word]) -> Option<Record> {
            let number = head as u32;
            Some(match head >> 56 & 0x3f {
                $($code => Record::$name {
                    $($field: FromBits::from_bits(of_bits(number, $bits)),)*
                    $($word: Payload::decode(number, words)?,)*
                },)*
                HIGH_ADDRESS => {
                    let word = next_word(words).filter(|word| word >> 62 == 1)?;
                    Record::Access(decode_access(word, number as u16))
                }
                _ => return None,
            })
        }
    };
}

record_table! {
    /// The block before was left: its instructions before `completed` are complete.
    1 BlockLeft { completed: u16 = 0..16 } []
    /// A system call, and its first arguments.
    2 SystemCall {} [number: i64, arguments: [u64; 3]]
    /// The return of a system call.
    3 SystemCallReturn {} [number: i64, result: i64]
    /// The thread starts.
    4 ThreadStart {} []
    /// The thread ends.
    5 ThreadEnd {} []
    /// The first `skipped` instructions of the next block are not recorded.
    6 PartialBlock { skipped: u16 = 0..16 } []
    /// Log text of the emulator about exceptions, in `length` bytes of text, padded to whole words: see [`decode_text`].
    7 LogText { length: u32 = 0..32 } []
    /// Accesses that follow are of block `id`, which is executed in place of a part of the block before.
    8 WithinBlock { id: u32 = 0..32 } []
    /// The value of a register before an instruction whose address no access reports.
    10 Operand { register: u16 = 0..16, index: u16 = 16..32 } [value: u64]
    /// Data that the next access reads or writes, in `count` words.
    11 AccessData { count: u32 = 0..32 } [data: Data]
    /// The next block is executed at `address`, and not where it was translated: memory may be mapped more than once.
    12 BlockAddress {} [address: u64]
    /// The value of a register: the instruction wrote it, or, if `is_before`, it holds before the instruction, whatever wrote it.
    13 RegisterValue { register: u16 = 0..16, index: u16 = 16..26, is_before: bool = 31..32 } [value: u64]
    /// The value of a vector or floating-point register, likewise, lower half first.
    14 VectorValue { register: u16 = 0..16, index: u16 = 16..26, is_before: bool = 31..32 } [value: [u64; 2]]
    /// The thread was stopped without an end. Instructions of its last block before `mark` are complete, and all that may fail
    /// are if `mark` is `last_mark`. The recorder adds it to records that were not sent.
    15 Stopped { mark: u16 = 0..16, last_mark: u16 = 16..32 } []
    /// The thread reached the limit. Execution continues with block `next`, and is not recorded.
    16 LimitReached { next: u32 = 0..32 } []
    /// The time of the next block, in blocks that all CPUs have started.
    17 Time {} [ticks: u64]
}

impl Record {
    /// Decodes and removes the first record; `None`: it is damaged.
    #[inline]
    pub fn decode(words: &mut &[Word]) -> Option<Self> {
        let word = next_word(words)?;
        match word >> 62 {
            0 => Some(Self::Block { id: word as u32 }),
            1 => Some(Self::Access(decode_access(word, if word >> 48 & 1 == 1 { 0xffff } else { 0 }))),
            2 => decode_rare(word, words),
            _ => None,
        }
    }
}

/// A memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The instruction of the block that makes it, from 0 to 511.
    pub index: u16,
    /// Bytes: a power of two up to 128.
    pub size: u16,
    /// Whether it is a write.
    pub is_write: bool,
    /// The address.
    pub address: u64,
}

impl Access {
    /// Size and direction in one number: log2 of the size, and 8 for a write.
    #[inline(always)]
    pub fn kind(size_log2: u32, is_write: bool) -> u8 {
        (size_log2 & 7) as u8 | u8::from(is_write) << 3
    }

    /// The word of the access without its [address](ADDRESS_BITS); `None`: the address is too long for one word of a program.
    pub fn word_without_address(&self) -> Option<u64> {
        let word = access_word(Self::kind(self.size.trailing_zeros(), self.is_write), self.index, 0);
        (self.address & !ADDRESS_BITS == 0).then_some(word)
    }
}

#[inline(always)]
fn access_word(kind: u8, index: u16, address: u64) -> u64 {
    let (index, kind) = (u64::from(index & 0x1ff), u64::from(kind));
    ACCESS | index << 53 | kind << 49 | (address >> 48 & 1) << 48 | address & ADDRESS_BITS
}

#[inline(always)]
pub(crate) fn encode_access(kind: u8, index: u16, address: u64, put: &mut impl FnMut(u64)) {
    let high = address >> 48;
    if high != 0 && high != 0xffff {
        put(RARE | HIGH_ADDRESS << 56 | high);
    }
    put(access_word(kind, index, address));
}

#[inline]
fn decode_access(word: u64, high: u16) -> Access {
    let (index, size) = (word >> 53 & 0x1ff, word >> 49 & 7);
    let address = u64::from(high) << 48 | word & ADDRESS_BITS;
    Access { index: index as u16, size: 1 << size, is_write: word >> 52 & 1 == 1, address }
}

/// Data that an access reads or writes, the lowest byte first: one word, or two if the count of the record is 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Data(pub [u64; 2]);

/// A field in the first word of a record.
trait FromBits {
    fn from_bits(bits: u32) -> Self;
}

impl FromBits for u32 {
    fn from_bits(bits: u32) -> Self {
        bits
    }
}

impl FromBits for u16 {
    fn from_bits(bits: u32) -> Self {
        bits as Self
    }
}

impl FromBits for bool {
    fn from_bits(bits: u32) -> Self {
        bits != 0
    }
}

#[inline(always)]
fn to_bits(value: u32, bits: Range<u32>) -> u32 {
    of_bits(value, 0..bits.end - bits.start) << bits.start
}

#[inline(always)]
fn of_bits(number: u32, bits: Range<u32>) -> u32 {
    number >> bits.start & u32::MAX >> (32 - (bits.end - bits.start))
}

/// Words after the first of a record, whose fields are `number`.
trait Payload: Sized {
    fn encode(self, number: u32, put: &mut impl FnMut(u64));
    fn decode(number: u32, words: &mut &[Word]) -> Option<Self>;
}

impl Payload for u64 {
    fn encode(self, _: u32, put: &mut impl FnMut(u64)) {
        put(self);
    }

    fn decode(_: u32, words: &mut &[Word]) -> Option<Self> {
        next_word(words)
    }
}

impl Payload for i64 {
    fn encode(self, _: u32, put: &mut impl FnMut(u64)) {
        put(self.cast_unsigned());
    }

    fn decode(_: u32, words: &mut &[Word]) -> Option<Self> {
        next_word(words).map(u64::cast_signed)
    }
}

impl<const N: usize> Payload for [u64; N] {
    fn encode(self, _: u32, put: &mut impl FnMut(u64)) {
        self.into_iter().for_each(put);
    }

    fn decode(_: u32, words: &mut &[Word]) -> Option<Self> {
        let (first, rest) = words.split_first_chunk()?;
        *words = rest;
        Some(first.map(u64::from_le_bytes))
    }
}

impl Payload for Data {
    fn encode(self, count: u32, put: &mut impl FnMut(u64)) {
        put(self.0[0]);
        if count == 2 {
            put(self.0[1]);
        }
    }

    fn decode(count: u32, words: &mut &[Word]) -> Option<Self> {
        let low = next_word(words)?;
        Some(Self([low, if count == 2 { next_word(words)? } else { 0 }]))
    }
}

#[inline]
fn next_word(words: &mut &[Word]) -> Option<u64> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    Some(u64::from_le_bytes(*first))
}

/// The words of a chunk.
pub fn words_of(bytes: &[u8]) -> io::Result<&[Word]> {
    match bytes.as_chunks() {
        (words, []) => Ok(words),
        _ => Err(damage("a chunk ends inside a word")),
    }
}

/// The number of the block, if this word is its execution.
#[inline(always)]
pub fn block_of(word: &Word) -> Option<usize> {
    let word = u64::from_le_bytes(*word);
    (word >> 62 == 0).then_some(word as u32 as usize)
}

/// Decodes and removes a text of `length` bytes; `None`: it is damaged.
pub fn decode_text<'a>(words: &mut &'a [Word], length: u32) -> Option<&'a str> {
    let length = usize::try_from(length).ok()?;
    let (text, rest) = words.split_at_checked(length.div_ceil(8))?;
    *words = rest;
    std::str::from_utf8(text.as_flattened().get(..length)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{BufferState, RecordBuffer};

    fn words(record: &Record) -> Vec<u64> {
        let mut words = Vec::new();
        record.encode(&mut |word| words.push(word));
        words
    }

    fn decoded(words: &[u64]) -> Option<Record> {
        let words: Vec<Word> = words.iter().map(|word| word.to_le_bytes()).collect();
        let mut rest = &words[..];
        Record::decode(&mut rest).filter(|_| rest.is_empty())
    }

    #[test]
    fn words_of_each_record_are_stable() {
        let access = |index, size, is_write, address| Record::Access(Access { index, size, is_write, address });
        let rare = |code: u64, number: u64| 2 << 62 | code << 56 | number;
        let rows: &[(&str, &[u64], Record)] = &[
            ("a read of 8 bytes", &[0x40a6_0000_0000_1000], access(5, 8, false, 0x1000)),
            ("a write of 4", &[0x40b4_7fff_ffff_fff0], access(5, 4, true, 0x7fff_ffff_fff0)),
            ("of the kernel", &[0x4001_8000_0000_1000], access(0, 1, false, 0xffff_8000_0000_1000)),
            ("of a late instruction", &[0x7fe6_0000_0000_0008], access(511, 8, false, 8)),
            ("a tagged address", &[rare(9, 0x0a00), 0x4006_0000_0000_0008], access(0, 8, false, 0x0a00_0000_0000_0008)),
            ("a block", &[0x201], Record::Block { id: 0x201 }),
            ("left", &[rare(1, 257)], Record::BlockLeft { completed: 257 }),
            ("a call", &[rare(2, 0), 64, 1, 2, 3], Record::SystemCall { number: 64, arguments: [1, 2, 3] }),
            ("a return", &[rare(3, 0), 64, u64::MAX], Record::SystemCallReturn { number: 64, result: -1 }),
            ("start", &[rare(4, 0)], Record::ThreadStart {}),
            ("end", &[rare(5, 0)], Record::ThreadEnd {}),
            ("a part", &[rare(6, 3)], Record::PartialBlock { skipped: 3 }),
            ("a text", &[rare(7, 2)], Record::LogText { length: 2 }),
            ("in place of another", &[rare(8, 0x201)], Record::WithinBlock { id: 0x201 }),
            ("an operand", &[rare(10, 0x0007_001f), 0x1000], Record::Operand { index: 7, register: 31, value: 0x1000 }),
            ("data", &[rare(11, 1), 5], Record::AccessData { count: 1, data: Data([5, 0]) }),
            ("more data", &[rare(11, 2), 5, 6], Record::AccessData { count: 2, data: Data([5, 6]) }),
            ("elsewhere", &[rare(12, 0), 0x1000], Record::BlockAddress { address: 0x1000 }),
            (
                "a register",
                &[rare(13, 0x0007_001e), 5],
                Record::RegisterValue { index: 7, is_before: false, register: 30, value: 5 },
            ),
            (
                "a vector",
                &[rare(14, 0x8007_0041), 5, 6],
                Record::VectorValue { index: 7, is_before: true, register: 65, value: [5, 6] },
            ),
            ("stopped", &[rare(15, 0x0007_0002)], Record::Stopped { mark: 2, last_mark: 7 }),
            ("the limit", &[rare(16, 0x201)], Record::LimitReached { next: 0x201 }),
            ("a time", &[rare(17, 0), 9], Record::Time { ticks: 9 }),
        ];
        for (name, expected, record) in rows {
            assert_eq!(words(record), *expected, "{name}");
            assert_eq!(decoded(expected), Some(*record), "{name}");
            for cut in 0..expected.len() {
                assert_eq!(decoded(&expected[..cut]), None, "{name}, cut off");
            }
        }
    }

    #[test]
    fn other_words_are_damage() {
        let rows: &[(&str, &[u64])] = &[
            ("a tag without an access", &[2 << 62 | 9 << 56 | 0x0a00, 7]),
            ("row 0", &[2 << 62]),
            ("row 18", &[2 << 62 | 18 << 56]),
            ("bits that no record has", &[u64::MAX]),
        ];
        for (name, words) in rows {
            assert_eq!(decoded(words), None, "{name}");
        }
        assert!(words_of(&[0; 9]).is_err());
    }

    #[test]
    fn texts_are_padded() {
        let mut words = [[0xff; 8]; 8];
        let mut buffer = RecordBuffer::new(&mut words, STATE);
        buffer.text("exception");
        buffer.block(1);
        let mut rest = words_of(buffer.bytes()).unwrap_or_default();
        assert_eq!(Record::decode(&mut rest), Some(Record::LogText { length: 9 }));
        assert_eq!(rest, [*b"exceptio", *b"n\0\0\0\0\0\0\0", [1, 0, 0, 0, 0, 0, 0, 0]]);
        assert_eq!(decode_text(&mut rest, 9), Some("exception"));
        assert_eq!(decode_text(&mut rest, 9), None);
    }

    #[test]
    fn a_full_buffer_keeps_its_records() {
        let mut words = [[0; 8]; 7];
        let mut buffer = RecordBuffer::new(&mut words, STATE);
        assert!(!buffer.is_full());
        buffer.push(Record::SystemCall { number: 1, arguments: [2, 3, 4] });
        assert!(buffer.is_full() && buffer.is_full_for(""));
        assert_eq!(buffer.bytes().len(), 40);
        buffer.clear();
        assert!(buffer.bytes().is_empty() && !buffer.is_full());
        assert_eq!(buffer.take_words().len(), 7);
        buffer.block(1);
        assert!(buffer.bytes().is_empty());
    }

    fn record() -> impl Strategy<Value = Record> {
        let value = (any::<u16>(), 0..1024_u16, any::<bool>());
        prop_oneof![
            any::<u32>().prop_map(|id| Record::Block { id }),
            (0..512_u16, 0..8_u32, any::<bool>(), any::<u64>()).prop_map(|(index, size, is_write, address)| {
                Record::Access(Access { index, size: 1 << size, is_write, address })
            }),
            any::<u16>().prop_map(|completed| Record::BlockLeft { completed }),
            any::<(i64, [u64; 3])>().prop_map(|(number, arguments)| Record::SystemCall { number, arguments }),
            any::<(i64, i64)>().prop_map(|(number, result)| Record::SystemCallReturn { number, result }),
            Just(Record::ThreadStart {}),
            Just(Record::ThreadEnd {}),
            any::<u16>().prop_map(|skipped| Record::PartialBlock { skipped }),
            any::<u32>().prop_map(|length| Record::LogText { length }),
            any::<u32>().prop_map(|id| Record::WithinBlock { id }),
            any::<(u16, u16, u64)>().prop_map(|(register, index, value)| Record::Operand { register, index, value }),
            any::<u64>().prop_map(|low| Record::AccessData { count: 1, data: Data([low, 0]) }),
            any::<[u64; 2]>().prop_map(|words| Record::AccessData { count: 2, data: Data(words) }),
            any::<u64>().prop_map(|address| Record::BlockAddress { address }),
            (value.clone(), any::<u64>()).prop_map(|((register, index, is_before), value)| {
                Record::RegisterValue { register, index, is_before, value }
            }),
            (value, any::<[u64; 2]>()).prop_map(|((register, index, is_before), value)| {
                Record::VectorValue { register, index, is_before, value }
            }),
            any::<(u16, u16)>().prop_map(|(mark, last_mark)| Record::Stopped { mark, last_mark }),
            any::<u32>().prop_map(|next| Record::LimitReached { next }),
            any::<u64>().prop_map(|ticks| Record::Time { ticks }),
        ]
    }

    const STATE: BufferState = BufferState { thread: 0, mark: 0, last_mark: 0 };

    proptest! {
        #[test]
        fn records_are_decoded_as_encoded(records in prop::collection::vec(record(), 1..20)) {
            let mut memory = vec![[0; 8]; 100];
            let mut buffer = RecordBuffer::new(&mut memory, STATE);
            for record in &records {
                match *record {
                    Record::Access(Access { index, size, is_write, address }) => {
                        buffer.access(Access::kind(size.trailing_zeros(), is_write), index, address);
                    }
                    Record::Block { id } => buffer.block(id),
                    record => buffer.push(record),
                }
            }
            let all = records.iter().flat_map(words).flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
            prop_assert_eq!(buffer.bytes(), &all[..]);
            let mut rest = words_of(&all).unwrap_or_default();
            for record in &records {
                let is_block = matches!(record, Record::Block { .. });
                prop_assert_eq!(rest.first().and_then(block_of).is_some(), is_block);
                prop_assert_eq!(Record::decode(&mut rest), Some(*record));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_words_are_a_record_or_damage(first: u64, code in 0..64_u64, rest: [u64; 5]) {
            for first in [first, 2 << 62 | code << 56 | first & 0xffff_ffff] {
                let all: Vec<Word> = [first].iter().chain(&rest).map(|word| word.to_le_bytes()).collect();
                let Some(record) = Record::decode(&mut &all[..]) else { continue };
                // Bits without a meaning are not kept.
                prop_assert_eq!(decoded(&words(&record)), Some(record));
            }
        }

        #[test]
        fn accesses_of_an_instruction_differ_in_their_address(
            index in 0..512_u16, size in 0..8_u32, is_write: bool, address in 0..=ADDRESS_BITS,
        ) {
            let access = Access { index, size: 1 << size, is_write, address };
            let fixed = words(&Record::Access(access))[0] & !ADDRESS_BITS;
            prop_assert_eq!(access.word_without_address(), Some(fixed));
            prop_assert_eq!(Access { address: address | 1 << 48, ..access }.word_without_address(), None);
        }
    }
}
