//! How far an input was read, known to whoever shows progress.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Called on the way with the bytes that were read and the bytes that there are.
pub type OnProgress<'p> = dyn FnMut(u64, u64) + Send + 'p;

/// Count of the bytes that were read of an input.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    /// Bytes read.
    pub read: Arc<AtomicU64>,
    /// Size of the input; `None` for a pipe.
    pub size: Option<u64>,
}

impl Meter {
    /// A meter at the start of an input.
    pub fn new(size: Option<u64>) -> Self {
        Self { size, ..Self::default() }
    }

    /// Bytes read.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Reports how far the input was read, if its size is known.
    pub fn report(&self, progress: &mut OnProgress<'_>) {
        if let Some(size) = self.size {
            progress(self.bytes_read(), size);
        }
    }

    pub(crate) fn counted<R>(&self, input: R) -> Counted<R> {
        Counted { input, read: Arc::clone(&self.read) }
    }
}

/// Input that counts what is read of it.
pub(crate) struct Counted<R> {
    pub(crate) input: R,
    pub(crate) read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}
