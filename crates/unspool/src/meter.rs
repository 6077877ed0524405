//! Count of the bytes read of an input, shared with a progress display.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Progress callback, called with the bytes read and the total, which is 0 if it is unknown.
pub type OnProgress<'p> = dyn FnMut(u64, u64) + Send + 'p;

/// Count of the bytes read of an input.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    /// Bytes read.
    pub read: Arc<AtomicU64>,
    /// Size of the input; `None` for a pipe.
    pub size: Option<u64>,
}

impl Meter {
    /// Meter at the start of an input.
    pub fn new(size: Option<u64>) -> Self {
        Self { size, ..Self::default() }
    }

    /// Bytes read.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Reports the progress.
    pub fn report(&self, progress: &mut OnProgress<'_>) {
        progress(self.bytes_read(), self.size.unwrap_or(0));
    }

    /// Counts an item, and reports progress once per `stride` items; `left` starts as `stride`.
    #[inline]
    pub(crate) fn tick(&self, left: &mut u64, stride: u64, progress: &mut OnProgress<'_>) {
        *left -= 1;
        if *left == 0 {
            *left = stride;
            self.report(progress);
        }
    }

    pub(crate) fn counted<R>(&self, input: R) -> Counted<R> {
        Counted { input, read: Arc::clone(&self.read) }
    }
}

pub(crate) struct Counted<R> {
    input: R,
    read: Arc<AtomicU64>,
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
