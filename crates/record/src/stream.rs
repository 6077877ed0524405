//! The stream of the plugin, read: the records in its chunks.
//!
//! words of a chunk ─▶ **records**
//!
//! `crates/plugin/src/stream.rs` says what the bytes are. What does not fit is damage, and ends the stream.

use std::io;

use super::values::Value;

/// The thread that blocks of code are told under.
pub(super) const BLOCKS: u32 = u32::MAX;

/// A word, its lowest byte first.
pub(super) type Word = [u8; 8];

/// A record of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// An access.
    Access(Touch),
    /// A block is executed.
    Block { id: u32 },
    /// Instructions before this one are complete.
    Left { index: u16 },
    /// A call of the system.
    Call { number: i64 },
    /// Its return.
    Return { number: i64, result: i64 },
    /// The thread starts.
    Start,
    /// It ends.
    End,
    /// So many instructions of the next block are not told.
    Part { left_out: u16 },
    /// What the emulator logged, in so many bytes that follow: [`take_text`].
    Text { length: u32 },
    /// Accesses that follow are of this block, which is executed for a part of the block before.
    Within { id: u32 },
    /// What is in a register before an instruction of the block.
    Register(Operand),
    /// What the next access reads or writes, the lowest byte first.
    Data { words: [u64; 2] },
    /// What an instruction of the block wrote into a register, or what is in one.
    Value(Value),
    /// The next block is executed there.
    At { address: u64 },
}

/// What is in a register before an instruction whose address only registers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operand {
    /// Which instruction of the block.
    pub(super) index: u16,
    /// X0 to X30, and what the stream has for others.
    pub(super) register: u16,
    pub(super) value: u64,
}

/// An access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Touch {
    /// Which instruction of the block made it.
    pub(super) index: u16,
    /// Bytes.
    pub(super) size: u16,
    pub(super) is_write: bool,
    pub(super) address: u64,
}

/// Bits of an access that tell the address. The others are the same whenever the instruction does the same.
pub(super) const ADDRESS: u64 = (1 << 48) - 1;

impl Touch {
    /// What its word has but for the address; `None`: the address is too long for one word of a program.
    pub(super) fn kind(&self) -> Option<u64> {
        let size = u64::from(self.size.trailing_zeros());
        let kind = 1 << 62 | u64::from(self.index) << 53 | u64::from(self.is_write) << 52 | size << 49;
        (self.address & !ADDRESS == 0).then_some(kind)
    }
}

/// A block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Code<'a> {
    pub(super) id: u32,
    pub(super) address: u64,
    /// The bytes of each instruction.
    pub(super) instructions: Vec<&'a [u8]>,
}

pub(super) fn damage(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The words of a chunk.
pub(super) fn words(bytes: &[u8]) -> io::Result<&[Word]> {
    match bytes.as_chunks() {
        (words, []) => Ok(words),
        _ => Err(damage("a chunk has no whole words")),
    }
}

/// The block that this word says is executed, if it says that.
#[inline(always)]
pub(super) fn block_of(word: &Word) -> Option<usize> {
    let word = u64::from_le_bytes(*word);
    (word >> 62 == 0).then_some(word as u32 as usize)
}

/// Takes one record off the front; `None`: it is damaged.
#[inline]
pub(super) fn take_record(words: &mut &[Word]) -> Option<Record> {
    let word = take_word(words)?;
    match word >> 62 {
        0 => Some(Record::Block { id: word as u32 }),
        1 => Some(Record::Access(touch(word, if word >> 48 & 1 == 1 { 0xffff } else { 0 }))),
        2 => take_rare(word, words),
        _ => None,
    }
}

/// An access, with what its address has above bit 47.
fn touch(word: u64, top: u16) -> Touch {
    let (index, size) = (word >> 53 & 0x1ff, word >> 49 & 7);
    let address = u64::from(top) << 48 | word & ADDRESS;
    Touch { index: index as u16, size: 1 << size, is_write: word >> 52 & 1 == 1, address }
}

#[cold]
fn take_rare(word: u64, words: &mut &[Word]) -> Option<Record> {
    let number = word as u32;
    let signed = |words: &mut &[Word]| take_word(words).map(u64::cast_signed);
    Some(match word >> 56 & 0x3f {
        1 => Record::Left { index: number as u16 },
        2 => {
            let number = signed(words)?;
            *words = words.get(3..)?;
            Record::Call { number }
        }
        3 => Record::Return { number: signed(words)?, result: signed(words)? },
        4 => Record::Start,
        5 => Record::End,
        6 => Record::Part { left_out: number as u16 },
        7 => Record::Text { length: number },
        8 => Record::Within { id: number },
        10 => Record::Register(Operand {
            index: (number >> 16) as u16,
            register: number as u16,
            value: take_word(words)?,
        }),
        11 => {
            let low = take_word(words)?;
            let high = if number == 2 { take_word(words)? } else { 0 };
            Record::Data { words: [low, high] }
        }
        12 => Record::At { address: take_word(words)? },
        what @ (13 | 14) => {
            let low = take_word(words)?;
            let high = if what == 14 { take_word(words)? } else { 0 };
            Record::Value(value(number, [low, high]))
        }
        9 => Record::Access(touch(take_word(words).filter(|word| word >> 62 == 1)?, number as u16)),
        _ => return None,
    })
}

fn value(number: u32, words: [u64; 2]) -> Value {
    let index = (number >> 16 & 0x3ff) as u16;
    Value { index, is_before: number >> 31 != 0, register: number as u16, words }
}

/// Takes the bytes of a text off the front; `None`: it is damaged.
pub(super) fn take_text<'a>(words: &mut &'a [Word], length: u32) -> Option<&'a str> {
    let length = usize::try_from(length).ok()?;
    let (text, rest) = words.split_at_checked(length.div_ceil(8))?;
    *words = rest;
    std::str::from_utf8(text.as_flattened().get(..length)?).ok()
}

#[inline]
fn take_word(words: &mut &[Word]) -> Option<u64> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    Some(u64::from_le_bytes(*first))
}

/// Takes one block of code off the front; `None`: it is damaged.
pub(super) fn take_code<'a>(bytes: &mut &'a [u8]) -> Option<Code<'a>> {
    let (id, rest) = bytes.split_first_chunk()?;
    let (address, rest) = rest.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let count = u16::from_le_bytes(*count);
    *bytes = rest;
    let instructions = (0..count).map(|_| {
        let length = usize::from(take_byte(bytes)?);
        let (instruction, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(instruction)
    });
    let instructions: Vec<&[u8]> = instructions.collect::<Option<_>>()?;
    Some(Code { id: u32::from_le_bytes(*id), address: u64::from_le_bytes(*address), instructions })
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let access = |index, size, is_write, address| Record::Access(Touch { index, size, is_write, address });
        let rare = |what: u64, number: u64| 2 << 62 | what << 56 | number;
        let rows: &[(&str, &[u64], Option<Record>)] = &[
            ("a read of 8 bytes", &[0x40a6_0000_0000_1000], Some(access(5, 8, false, 0x1000))),
            ("a write of 4", &[0x40b4_7fff_ffff_fff0], Some(access(5, 4, true, 0x7fff_ffff_fff0))),
            ("of the kernel", &[0x4001_8000_0000_1000], Some(access(0, 1, false, 0xffff_8000_0000_1000))),
            ("of a late instruction", &[0x7fe6_0000_0000_0008], Some(access(511, 8, false, 8))),
            (
                "a tagged address",
                &[rare(9, 0x0a00), 0x4006_0000_0000_0008],
                Some(access(0, 8, false, 0x0a00_0000_0000_0008)),
            ),
            ("a tag, and no access", &[rare(9, 0x0a00), 7], None),
            ("a block", &[0x201], Some(Record::Block { id: 0x201 })),
            ("left", &[rare(1, 257)], Some(Record::Left { index: 257 })),
            ("a call", &[rare(2, 0), 64, 1, 2, 3], Some(Record::Call { number: 64 })),
            ("a call, cut off", &[rare(2, 0), 64, 1, 2], None),
            ("a return", &[rare(3, 0), 64, u64::MAX], Some(Record::Return { number: 64, result: -1 })),
            ("start", &[rare(4, 0)], Some(Record::Start)),
            ("end", &[rare(5, 0)], Some(Record::End)),
            ("a part", &[rare(6, 3)], Some(Record::Part { left_out: 3 })),
            ("a text", &[rare(7, 2)], Some(Record::Text { length: 2 })),
            ("on behalf of another", &[rare(8, 0x201)], Some(Record::Within { id: 0x201 })),
            (
                "a register",
                &[rare(10, 0x0007_001f), 0x1000],
                Some(Record::Register(Operand { index: 7, register: 31, value: 0x1000 })),
            ),
            ("a register, cut off", &[rare(10, 0)], None),
            ("data", &[rare(11, 1), 5], Some(Record::Data { words: [5, 0] })),
            ("much data", &[rare(11, 2), 5, 6], Some(Record::Data { words: [5, 6] })),
            ("data, cut off", &[rare(11, 2), 5], None),
            ("elsewhere", &[rare(12, 0), 0x1000], Some(Record::At { address: 0x1000 })),
            (
                "a register that is written",
                &[rare(13, 0x0007_001e), 5],
                Some(Record::Value(Value { index: 7, is_before: false, register: 30, words: [5, 0] })),
            ),
            (
                "a vector, by nobody",
                &[rare(14, 0x8007_0041), 5, 6],
                Some(Record::Value(Value { index: 7, is_before: true, register: 65, words: [5, 6] })),
            ),
            ("a vector, cut off", &[rare(14, 0x40), 5], None),
            ("no such record", &[rare(15, 0)], None),
            ("nothing of the kind", &[u64::MAX], None),
            ("nothing", &[], None),
        ];
        for (name, words, expected) in rows {
            let words: Vec<Word> = words.iter().map(|word| word.to_le_bytes()).collect();
            let mut rest = &words[..];
            assert_eq!(take_record(&mut rest), *expected, "{name}");
            assert!(expected.is_none() || rest.is_empty(), "{name}: {rest:?}");
        }
    }

    #[test]
    fn texts_are_read() {
        let words = [*b"exceptio", *b"n\0\0\0\0\0\0\0", [1; 8]];
        let mut rest = &words[..];
        assert_eq!(take_text(&mut rest, 9), Some("exception"));
        assert_eq!(rest, [[1; 8]]);
        assert_eq!(take_text(&mut rest, 9), None);
    }
}
