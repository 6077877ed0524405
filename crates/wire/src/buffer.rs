//! A buffer of records on their way to the recorder.
//!
//! ```text
//! word 0   the thread that writes here, and how far it came in its block: see `BufferState`
//! word 1…  records; after the last one zeros, which no record starts with
//! ```
//!
//! Block executions and accesses are nearly all records: each is one inlined store of a word. Every record is complete when its
//! first word is stored, and nothing else has to be stored with it: a buffer in shared memory can be read after its writer was
//! killed at any instruction.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::record::{self, Record, Word, decode_text};

/// Number of words of the longest record, except for text.
const LONGEST: usize = 5;

/// Words before the first record.
const STATE: usize = 1;

/// The state of the thread that writes a buffer, in its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferState {
    /// The number of the thread.
    pub thread: u32,
    /// Instructions of the last block before this one are complete.
    pub mark: u16,
    /// The last mark that the block has: if `mark` differs, the block is not complete.
    pub last_mark: u16,
}

impl BufferState {
    /// In place of the thread: records were dropped, since the recorder could not be reached.
    pub const LOST: u32 = u32::MAX - 1;

    /// The word of the state. Zero is the word of a buffer that no thread writes.
    fn to_word(self) -> Word {
        let Self { thread, mark, last_mark } = self;
        let marks = u64::from(mark) | u64::from(last_mark) << 16;
        (u64::from(thread.wrapping_add(1)) | marks << 32).to_le_bytes()
    }

    /// The state in this word; `None`: no thread writes the buffer.
    pub fn from_word(word: Word) -> Option<Self> {
        let word = u64::from_le_bytes(word);
        let thread = (word as u32).checked_sub(1)?;
        Some(Self { thread, mark: (word >> 32) as u16, last_mark: (word >> 48) as u16 })
    }
}

/// The complete records at the start of words that were not sent: a record that was being written is not among them.
pub fn complete_records(words: &[Word]) -> &[Word] {
    let mut rest = words;
    while rest.first().is_some_and(|first| *first != Word::default()) {
        let mut next = rest;
        let is_complete = match Record::decode(&mut next) {
            Some(Record::LogText { length }) => decode_text(&mut next, length).is_some(),
            record => record.is_some(),
        };
        if !is_complete {
            break;
        }
        rest = next;
    }
    words.get(..words.len() - rest.len()).unwrap_or_default()
}

/// Records of one thread that were not sent.
#[derive(Debug)]
pub struct RecordBuffer<'b> {
    words: &'b mut [Word],
    /// Words that are used, the state among them.
    length: usize,
}

impl<'b> RecordBuffer<'b> {
    /// Creates an empty buffer of a thread in this memory, whose words are zeros.
    pub fn new(words: &'b mut [Word], state: BufferState) -> Self {
        if let Some(word) = words.first_mut() {
            *word = state.to_word();
        }
        Self { words, length: STATE }
    }

    /// Returns the memory, which no thread writes then, and leaves a buffer without room.
    pub fn take_words(&mut self) -> &'b mut [Word] {
        self.length = STATE;
        if let Some(word) = self.words.first_mut() {
            *word = Word::default();
        }
        std::mem::take(&mut self.words)
    }

    /// Returns memory that was sent: the recorder reads its state too.
    pub fn take_sent_words(&mut self) -> &'b mut [Word] {
        self.length = STATE;
        std::mem::take(&mut self.words)
    }

    /// The state of the thread; `None`: the buffer has no room.
    pub fn state(&self) -> Option<BufferState> {
        BufferState::from_word(*self.words.first()?)
    }

    /// Drops all records, and leaves a note of that for the recorder.
    pub fn lose(&mut self) {
        self.clear();
        if let (Some(state), Some(word)) = (self.state(), self.words.first_mut()) {
            *word = BufferState { thread: BufferState::LOST, ..state }.to_word();
        }
    }

    /// The last mark that was reached, and the one that the block ends with.
    #[inline(always)]
    pub fn marks(&self) -> (u16, u16) {
        match self.words.first() {
            Some(&[_, _, _, _, a, b, c, d]) => (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])),
            None => (0, 0),
        }
    }

    /// Marks instructions of the block before this one as complete.
    #[inline(always)]
    pub fn set_mark(&mut self, index: u16) {
        if let Some([_, _, _, _, low, high, _, _]) = self.words.first_mut() {
            [*low, *high] = index.to_le_bytes();
        }
    }

    /// Marks nothing of the next block, which has this last mark. Then the block may be appended.
    #[inline(always)]
    pub fn reset_marks(&mut self, last_mark: u16) {
        if let Some([_, _, _, _, a, b, c, d]) = self.words.first_mut() {
            [*a, *b, *c, *d] = (u32::from(last_mark) << 16).to_le_bytes();
        }
        compiler_fence(Ordering::Release);
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
        self.words.get(STATE..self.length).unwrap_or_default().as_flattened()
    }

    /// Drops all records: they were sent.
    pub fn clear(&mut self) {
        self.words.get_mut(STATE..self.length).unwrap_or_default().fill(Word::default());
        self.length = STATE;
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
        self.push_with(record, |_| ());
    }

    /// Appends a text.
    pub fn text(&mut self, text: &str) {
        self.push_with(Record::LogText { length: text.len() as u32 }, |buffer| {
            for bytes in text.as_bytes().chunks(8) {
                let mut word = [0; 8];
                word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                buffer.put(u64::from_le_bytes(word));
            }
        });
    }

    /// Appends a record and what follows it. Its first word is stored last.
    #[inline]
    fn push_with(&mut self, record: Record, and: impl FnOnce(&mut Self)) {
        let start = self.length;
        if start >= self.words.len() {
            return;
        }
        let mut first = None;
        record.encode(&mut |word| match first {
            None => {
                first = Some(word);
                self.length += 1;
            }
            Some(_) => self.put(word),
        });
        and(self);
        compiler_fence(Ordering::Release);
        if let (Some(first), Some(room)) = (first, self.words.get_mut(start)) {
            *room = first.to_le_bytes();
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

#[cfg(test)]
mod tests {
    use super::*;

    const STATE_OF_TWO: BufferState = BufferState { thread: 2, mark: 0, last_mark: 0 };

    fn words_of_two() -> [Word; 16] {
        let mut words = [Word::default(); 16];
        let mut buffer = RecordBuffer::new(&mut words, STATE_OF_TWO);
        buffer.reset_marks(5);
        buffer.block(7);
        buffer.set_mark(3);
        // Its last words are zeros.
        buffer.push(Record::SystemCall { number: 0, arguments: [0; 3] });
        buffer.text("fault");
        words
    }

    #[test]
    fn records_and_state_are_found_in_the_memory_of_a_killed_writer() {
        let words = words_of_two();
        assert_eq!(BufferState::from_word(words[0]), Some(BufferState { thread: 2, mark: 3, last_mark: 5 }));
        assert_eq!(complete_records(&words[1..]), &words[1..9]);
    }

    /// A writer that is killed before it has stored a word has stored those before it in the order of its program: the first
    /// word of a record comes last.
    #[test]
    fn a_record_that_was_being_written_is_dropped() {
        let ends = [0, 1, 6, 8];
        for (record, end) in ends.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>() {
            let mut words = words_of_two();
            words[1 + record] = Word::default();
            words[1 + end..].fill(Word::default());
            assert_eq!(complete_records(&words[1..]).len(), record);
        }
        // A high address whose access is missing, and records at the end of the buffer.
        let mut words = [Word::default(); 3];
        RecordBuffer::new(&mut words, STATE_OF_TWO).access(3, 0, 0x0a00_0000_0000_0008);
        assert_eq!(complete_records(&words[1..]).len(), 2);
        assert_eq!(complete_records(&words[1..2]).len(), 0);
    }

    #[test]
    fn memory_that_is_returned_belongs_to_no_thread() {
        let mut words = words_of_two();
        let mut buffer = RecordBuffer::new(&mut words, STATE_OF_TWO);
        assert_eq!(buffer.state(), Some(STATE_OF_TWO));
        let words = buffer.take_words();
        assert_eq!(BufferState::from_word(words[0]), None);
        assert_eq!(buffer.state(), None);
    }
}
