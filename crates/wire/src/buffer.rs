//! A buffer of records on their way to the recorder.
//!
//! Block executions and accesses are nearly all records: each is one inlined store of a word.

use crate::record::{self, Record, Word};

/// Number of words of the longest record, except for text.
const LONGEST: usize = 5;

/// Records of one thread that were not sent.
#[derive(Debug)]
pub struct RecordBuffer<'b> {
    words: &'b mut [Word],
    length: usize,
}

impl<'b> RecordBuffer<'b> {
    /// Creates an empty buffer in this memory.
    pub fn new(words: &'b mut [Word]) -> Self {
        Self { words, length: 0 }
    }

    /// Returns the memory, and leaves a buffer without room.
    pub fn take_words(&mut self) -> &'b mut [Word] {
        self.length = 0;
        std::mem::take(&mut self.words)
    }

    /// There may be no room for one more record.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.length + LONGEST > self.words.len()
    }

    /// There may be no room for a record with this text.
    pub fn is_full_for(&self, text: &str) -> bool {
        self.length + text.len() / 8 + LONGEST > self.words.len()
    }

    /// All records.
    pub fn bytes(&self) -> &[u8] {
        self.words.get(..self.length).unwrap_or_default().as_flattened()
    }

    /// Drops all records: they were sent.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends the execution of a block.
    #[inline(always)]
    pub fn block(&mut self, id: u32) {
        self.put(id.into());
    }

    /// Appends an access of the [kind](crate::Access::kind), by an instruction of the block.
    #[inline(always)]
    pub fn access(&mut self, kind: u8, index: u16, address: u64) {
        record::encode_access(kind, index, address, &mut |word| self.put(word));
    }

    /// Appends any record.
    #[inline]
    pub fn push(&mut self, record: Record) {
        record.encode(&mut |word| self.put(word));
    }

    /// Appends a text.
    pub fn text(&mut self, text: &str) {
        self.push(Record::LogText { length: text.len() as u32 });
        for bytes in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            self.put(u64::from_le_bytes(word));
        }
    }

    #[inline(always)]
    fn put(&mut self, word: u64) {
        if let Some(room) = self.words.get_mut(self.length) {
            *room = word.to_le_bytes();
            self.length += 1;
        }
    }
}
