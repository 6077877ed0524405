//! The words that are sent: chunks, each with records of one thread, or with blocks of code that threads execute.
//!
//! A stream starts with [`MAGIC`] and a line with the name of the target and with what else is told of what was asked for:
//! `registers`, `data`, `written`. A chunk is the number of a thread and a length,
//! both of 32 bits, and so many bytes; records do not go on in the next. All numbers have the lowest byte first.
//!
//! If the reader lends memory (`memory=PATH`), it is cut into buffers of [`CAPACITY`] words. A chunk may then be in one of
//! them: its length has [`IN_BUFFER`] set, and the number of the buffer, of 32 bits, is in the place of the bytes. The
//! reader sends that number back when it has read them.
//!
//! The chunk of [`BLOCKS`] tells code, once: `id:4 address:8 count:2`, and of each instruction its length and bytes.
//! Other chunks are words of 64 bits, so that a reader finds the next one without looking at this one:
//!
//! | bits 63 to 62 | below | what |
//! |---|---|---|
//! | 0 | 31 to 0: its number | a block is executed |
//! | 1 | 61 to 53: which instruction, 52: a store, 51 to 49: log2 of the size, 48: what is above 47 is ones, 47 to 0 | an access |
//! | 2 | 61 to 56: what, 31 to 0: a number | a rare one |
//!
//! | rare one | number | words behind it | what |
//! |---|---|---|---|
//! | 1 | index | | the block before was left: instructions before this one are complete |
//! | 2 | | number, three arguments | a system call |
//! | 3 | | number, result | its return |
//! | 4 | | | the thread starts |
//! | 5 | | | the thread ends |
//! | 6 | count | | so many instructions of the next block are not told |
//! | 7 | length | so many bytes, and zeros up to a whole word | what the emulator logged of exceptions |
//! | 8 | id | | accesses that follow are of this block, which is executed for a part of the block before |
//! | 9 | bits 63 to 48 | | of the address of the next access |
//! | 10 | 31 to 16: index, 15 to 0: register | what is in it | before this instruction, which has an address that only registers tell: X0 to X30, 31 for the stack pointer, 32 for TCR_EL1, 34 for DCZID_EL0 |
//! | 11 | count | one word or two | what the next access reads or writes |
//! | 12 | | address | the next block is executed there, and not where it was told to be: memory may be mapped in several places |
//! | 13 | 31: see below, 25 to 16: index, 15 to 0: register | what is in it | this instruction of the block wrote it; or, with bit 31, it holds before that instruction and nobody says who wrote it. X0 to X30 and the stack pointer, R0 to R14 or x1 to x31 by their numbers, 35 for CPSR |
//! | 14 | the same | two, the lower half first | likewise; V0 to V31, D0 to D31 or f0 to f31 from 64 on |

use crate::values::FLOAT;

/// How a stream starts.
pub(crate) const MAGIC: &[u8] = b"unspool record 2\n";

/// The thread that blocks of code are told under.
pub(crate) const BLOCKS: u32 = u32::MAX;

/// No record has more words.
pub(crate) const LONGEST: usize = 5;

/// Words of a chunk.
pub(crate) const CAPACITY: usize = 1 << 15;

/// What is set in the length of a chunk that is in a buffer.
pub(crate) const IN_BUFFER: u32 = 1 << 31;

/// A word, as it is sent.
pub(crate) type Word = [u8; 8];

const ACCESS: u64 = 1 << 62;
const RARE: u64 = 2 << 62;

/// Records of one thread that were not sent.
#[derive(Debug)]
pub(crate) struct Records {
    words: &'static mut [Word],
    length: usize,
    /// The number of the buffer that they are in, if it is one of the reader's.
    buffer: Option<u32>,
}

impl Records {
    /// In a buffer of our own.
    pub(crate) fn new() -> Self {
        Self { words: Box::leak(vec![[0; 8]; CAPACITY].into_boxed_slice()), length: 0, buffer: None }
    }

    /// In a buffer of the reader.
    pub(crate) fn lent(buffer: u32, words: &'static mut [Word]) -> Self {
        Self { words, length: 0, buffer: Some(buffer) }
    }

    /// Nothing more is recorded: the buffer, if it is one of the reader's.
    pub(crate) fn give_back(&mut self) -> Option<(u32, &'static mut [Word])> {
        let buffer = self.buffer.take()?;
        self.length = 0;
        Some((buffer, std::mem::take(&mut self.words)))
    }

    /// The number of the buffer that they are in, if it is one of the reader's.
    pub(crate) fn buffer(&self) -> Option<u32> {
        self.buffer
    }

    /// There is no room for one more.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.length + LONGEST > self.words.len()
    }

    /// All of them.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.words.get(..self.length).unwrap_or_default().as_flattened()
    }

    /// They were sent.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// `kind`: 8 for a store, and log2 of the size.
    #[inline(always)]
    pub(crate) fn access(&mut self, kind: u8, index: u16, address: u64) {
        let top = address >> 48;
        if top != 0 && top != 0xffff {
            self.rare(9, top as u32);
        }
        let (index, kind) = (u64::from(index & 0x1ff), u64::from(kind));
        self.put(ACCESS | index << 53 | kind << 49 | (top & 1) << 48 | address & ((1 << 48) - 1));
    }

    #[inline(always)]
    pub(crate) fn block(&mut self, id: u32) {
        self.put(id.into());
    }

    pub(crate) fn left(&mut self, index: u16) {
        self.rare(1, index.into());
    }

    pub(crate) fn call(&mut self, number: i64, arguments: [u64; 3]) {
        self.rare(2, 0);
        self.put(number.cast_unsigned());
        arguments.iter().for_each(|argument| self.put(*argument));
    }

    pub(crate) fn call_return(&mut self, number: i64, result: i64) {
        self.rare(3, 0);
        self.put(number.cast_unsigned());
        self.put(result.cast_unsigned());
    }

    pub(crate) fn start(&mut self) {
        self.rare(4, 0);
    }

    pub(crate) fn end(&mut self) {
        self.rare(5, 0);
    }

    pub(crate) fn part(&mut self, left_out: u16) {
        self.rare(6, left_out.into());
    }

    /// Is there no room for this text?
    pub(crate) fn is_too_full_for(&self, text: &str) -> bool {
        self.length + text.len() / 8 + LONGEST > self.words.len()
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.rare(7, text.len() as u32);
        for bytes in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            self.put(u64::from_le_bytes(word));
        }
    }

    pub(crate) fn within(&mut self, id: u32) {
        self.rare(8, id);
    }

    pub(crate) fn register(&mut self, index: u16, register: u8, value: u64) {
        self.rare(10, u32::from(index) << 16 | u32::from(register));
        self.put(value);
    }

    /// `is_before`: it holds before the instruction, and nobody says who wrote it.
    pub(crate) fn value(&mut self, is_before: bool, index: u16, register: u8, [low, high]: [u64; 2]) {
        let number = u32::from(is_before) << 31 | u32::from(index & 0x3ff) << 16 | u32::from(register);
        if register < FLOAT {
            self.rare(13, number);
            self.put(low);
        } else {
            self.rare(14, number);
            self.put(low);
            self.put(high);
        }
    }

    pub(crate) fn at(&mut self, address: u64) {
        self.rare(12, 0);
        self.put(address);
    }

    pub(crate) fn data(&mut self, words: &[u64]) {
        self.rare(11, words.len() as u32);
        words.iter().for_each(|word| self.put(*word));
    }

    #[inline(always)]
    fn rare(&mut self, what: u64, number: u32) {
        self.put(RARE | what << 56 | u64::from(number));
    }

    #[inline(always)]
    fn put(&mut self, word: u64) {
        if let Some(room) = self.words.get_mut(self.length) {
            *room = word.to_le_bytes();
            self.length += 1;
        }
    }
}

/// A block of code.
pub(crate) fn put_block<'a>(
    out: &mut Vec<u8>,
    id: u32,
    address: u64,
    instructions: impl ExactSizeIterator<Item = &'a [u8]>,
) {
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&address.to_le_bytes());
    out.extend_from_slice(&u16::try_from(instructions.len()).unwrap_or(u16::MAX).to_le_bytes());
    for bytes in instructions {
        out.push(u8::try_from(bytes.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(bytes);
    }
}
