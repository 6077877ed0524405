//! The bytes that are sent: chunks, each with records of one thread, or with blocks of code that threads execute.
//!
//! A stream starts with [`MAGIC`] and a line with the name of the target. A chunk is the number of a thread and a length,
//! both of 32 bits, and so many bytes; records do not go on in the next. All numbers have the lowest byte first.
//!
//! The chunk of [`BLOCKS`] tells code, once: `id:4 address:8 count:2`, and of each instruction its length and bytes.
//! Of other chunks the low half of a record's first byte says what follows:
//!
//! | low half | high half | behind it | what |
//! |---|---|---|---|
//! | 0 to 8 | 8 of a store, log2 of the size | `index:1`, the change of the address in so many bytes | an access |
//! | 9 | bytes | the change of the number | a block is executed |
//! | 10 | 0 | `index:2` | the block before was left: instructions before this one are complete |
//! | 10 | 1 | | the index of the next access has 256 more |
//! | 11 | 0 | `number:8`, `arguments:8` three times | a system call |
//! | 11 | 1 | `length:2`, so many bytes | what the emulator logged of exceptions |
//! | 11 | 2 | `id:4` | accesses that follow are of this block, which is executed for a part of the block before |
//! | 12 | | `number:8 result:8` | its return |
//! | 13 | | | the thread starts |
//! | 14 | | | the thread ends |
//! | 15 | | `count:2` | so many instructions of the next block are not told |
//!
//! A change is that from the last access or block of the thread, with its sign in the lowest bit.

/// How a stream starts.
pub(crate) const MAGIC: &[u8] = b"unspool record 1\n";

/// The thread that blocks of code are told under.
pub(crate) const BLOCKS: u32 = u32::MAX;

/// No record has more bytes.
pub(crate) const LONGEST: usize = 40;

/// Bytes of a chunk, less the longest record.
const CAPACITY: usize = 1 << 17;

/// Records of one thread that were not sent.
#[derive(Debug)]
pub(crate) struct Records {
    bytes: Box<[u8]>,
    length: usize,
    address: u64,
    block: u64,
}

impl Records {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; CAPACITY].into_boxed_slice(), length: 0, address: 0, block: 0 }
    }

    /// There is no room for one more.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.length + LONGEST > CAPACITY
    }

    /// All of them.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// They were sent.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// `kind`: 8 for a store, and log2 of the size.
    #[inline(always)]
    pub(crate) fn access(&mut self, kind: u8, index: u16, address: u64) {
        if index > 0xff {
            self.put(&[0x1a]);
        }
        let change = zigzag(address.wrapping_sub(self.address));
        self.address = address;
        let length = bytes_of(change);
        let [b0, b1, b2, b3, b4, b5, b6, b7] = change.to_le_bytes();
        let [low, _] = index.to_le_bytes();
        self.put_first(&[kind << 4 | length, low, b0, b1, b2, b3, b4, b5, b6, b7], 2 + usize::from(length));
    }

    #[inline(always)]
    pub(crate) fn block(&mut self, id: u32) {
        let change = zigzag(u64::from(id).wrapping_sub(self.block));
        self.block = u64::from(id);
        let length = bytes_of(change);
        let [b0, b1, b2, b3, b4, b5, b6, b7] = change.to_le_bytes();
        self.put_first(&[length << 4 | 9, b0, b1, b2, b3, b4, b5, b6, b7], 1 + usize::from(length));
    }

    pub(crate) fn left(&mut self, index: u16) {
        let [low, high] = index.to_le_bytes();
        self.put(&[0x0a, low, high]);
    }

    pub(crate) fn call(&mut self, number: i64, arguments: [u64; 3]) {
        self.put(&[0x0b]);
        self.put(&number.to_le_bytes());
        arguments.iter().for_each(|argument| self.put(&argument.to_le_bytes()));
    }

    /// Is there no room for this text?
    pub(crate) fn is_too_full_for(&self, text: &str) -> bool {
        self.length + text.len() + LONGEST > CAPACITY
    }

    pub(crate) fn text(&mut self, text: &str) {
        let [low, high] = u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes();
        self.put(&[0x1b, low, high]);
        self.put(text.as_bytes());
    }

    pub(crate) fn within(&mut self, id: u32) {
        let [a, b, c, d] = id.to_le_bytes();
        self.put(&[0x2b, a, b, c, d]);
    }

    pub(crate) fn call_return(&mut self, number: i64, result: i64) {
        self.put(&[0x0c]);
        self.put(&number.to_le_bytes());
        self.put(&result.to_le_bytes());
    }

    pub(crate) fn start(&mut self) {
        (self.address, self.block) = (0, 0);
        self.put(&[0x0d]);
    }

    pub(crate) fn end(&mut self) {
        self.put(&[0x0e]);
    }

    pub(crate) fn part(&mut self, left_out: u16) {
        let [low, high] = left_out.to_le_bytes();
        self.put(&[0x0f, low, high]);
    }

    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        self.put_first(bytes, bytes.len());
    }

    /// The first so many of these bytes; the rest is written over by the next.
    #[inline(always)]
    fn put_first(&mut self, bytes: &[u8], count: usize) {
        if let Some(room) = self.bytes.get_mut(self.length..self.length + bytes.len()) {
            room.copy_from_slice(bytes);
            self.length += count;
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

#[inline(always)]
fn zigzag(change: u64) -> u64 {
    change << 1 ^ (change.cast_signed() >> 63).cast_unsigned()
}

/// How many bytes a number has; 0 has none.
#[inline(always)]
fn bytes_of(number: u64) -> u8 {
    ((71 - number.leading_zeros()) / 8) as u8
}
