//! Compressed streams, both ways: gzip, zlib, xz, lzma and zstd.
//!
//! ```text
//! file  ─▶ Input ─▶ Decompressor ─▶ bytes     (ReadAhead: in a thread of its own)
//! bytes ─▶ Compressor, CompressedWriter ─▶ file
//! ```
//!
//! Knows nothing of what is compressed. Everything before damage is delivered first; then comes the [`Fault`], with its
//! offset in the file. No input panics, and none takes more memory than [`MEMORY_LIMIT`].
//!
//! ```
//! use std::io::{Read, Write};
//! use unspool_container::{CompressOptions, CompressedWriter, Container, Decompressor, Input};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut writer = CompressedWriter::new(Vec::new(), Container::Xz, CompressOptions::default())?;
//! writer.write_all(b"a trace")?;
//! let file = writer.finish()?;
//! assert_eq!(Container::of(&file), Some(Container::Xz));
//! let mut bytes = Vec::new();
//! Decompressor::new(Input::new(&file[..]), Container::Xz, 1)?.read_to_end(&mut bytes)?;
//! assert_eq!(bytes, b"a trace");
//! # Ok(())
//! # }
//! ```

mod compress;
mod decompress;
mod error;
mod input;
mod kind;
mod read_ahead;
mod workers;
mod zstd_frames;

pub use compress::{CompressOptions, CompressedWriter, Compressor};
pub use decompress::{Decompressor, MEMORY_LIMIT};
pub use error::{Damage, Failure, Fault};
pub use input::{Input, MaybeSeek};
pub use kind::Container;
pub use read_ahead::{ReadAhead, ReadAheadBytes};
pub use workers::{OrderedWorkers, Workers};
pub use zstd_frames::{Progress, ZstdDecoder, is_zstd_frame, is_zstd_skippable_frame};
