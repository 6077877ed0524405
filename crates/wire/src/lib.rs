//! The stream between the QEMU plugin and the recorder: one table for both directions.
//!
//! plugin: callbacks ─▶ **header, code, records in chunks** ─▶ recorder: steps
//!
//! ```text
//! header                                    unspool record 3\n TARGET [registers] [data] [written]\n
//! chunk of code     thread = CODE, length   id:4 address:8 count:2, per instruction length:1 bytes
//! chunk of records  thread, length          words of 64 bits: see `Record`
//! shared chunk      thread, length | 1<<31  number of a buffer in shared memory, which holds the words
//! ```
//!
//! All numbers are little-endian. Code is sent once, when it is translated. A record never continues in the next chunk. The
//! recorder may provide shared memory (`memory=PATH`), which is divided into buffers of [`BUFFER_WORDS`] words; the plugin adds
//! buffers at its end if there are many threads. The recorder fills a buffer with zeros when it has read it, and sends its number
//! back. When the stream ends without the end of a thread, its last records are in the buffer that has its number
//! ([`BufferState`], [`complete_records`]): shared memory survives an emulator that is killed. Knows nothing of QEMU, of
//! instruction sets or of steps.
//!
//! ```
//! use unspool_wire::{BufferState, Record, RecordBuffer, words_of};
//!
//! let mut words = [[0; 8]; 16];
//! let mut buffer = RecordBuffer::new(&mut words, BufferState { thread: 0, mark: 0, last_mark: 0 });
//! buffer.push(Record::ThreadStart {});
//! buffer.block(7);
//! let mut rest = words_of(buffer.bytes())?;
//! assert_eq!(Record::decode(&mut rest), Some(Record::ThreadStart {}));
//! assert_eq!(Record::decode(&mut rest), Some(Record::Block { id: 7 }));
//! # Ok::<(), std::io::Error>(())
//! ```

mod buffer;
mod chunk;
mod code;
mod header;
mod record;
pub mod register;

pub use buffer::{BufferState, RecordBuffer, complete_records};
pub use chunk::{BUFFER_BYTES, BUFFER_WORDS, CODE, ChunkHead, MAX_BUFFERS};
pub use code::Code;
pub use header::{EmulatorCapabilities, Header};
pub use record::{ADDRESS_BITS, Access, Data, Record, Word, block_of, decode_text, words_of};

/// The error for bytes that are not what the format defines.
pub fn damage(text: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, text)
}
