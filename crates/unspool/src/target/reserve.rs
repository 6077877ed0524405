//! Disk space that is kept free until the disk is full: then there is room to complete the files that are being written.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::is_stream;
use super::unfinished::TemporaryPath;

/// Bytes that are reserved: more than writers hold back. On a small disk it is less, down to the minimum.
const MAX_BYTES: usize = 8 << 20;
const MIN_BYTES: usize = 64 << 10;

/// Disk space for the ends of files. Outputs that share it are released together.
#[derive(Debug)]
pub struct Reserve {
    file: Mutex<Option<TemporaryPath>>,
    is_released: AtomicBool,
}

impl Reserve {
    /// Reserves space on the disk of a file. Without any space, nothing is reserved.
    pub fn beside(target: &Path) -> Self {
        let file = TemporaryPath::named(target, "reserve.part");
        let sizes = std::iter::successors(Some(MAX_BYTES), |size| (size / 2 >= MIN_BYTES).then_some(size / 2));
        let has_space = !is_stream(target) && sizes.into_iter().any(|size| reserve(file.path(), size).is_ok());
        Self { file: Mutex::new(has_space.then_some(file)), is_released: AtomicBool::new(false) }
    }

    /// Whether the disk was full.
    #[inline]
    pub fn is_released(&self) -> bool {
        self.is_released.load(Ordering::Relaxed)
    }

    /// Frees the space after this error. True: there was some, and writing can be tried again.
    pub(super) fn release(&self, error: &io::Error) -> bool {
        if !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            return false;
        }
        self.is_released.store(true, Ordering::Relaxed);
        self.file.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

/// Reserves space, if the disk has as much again for the content of files.
fn reserve(path: &Path, size: usize) -> io::Result<()> {
    let mut file = File::create(path)?;
    // Not sparse.
    let zeros = vec![0; MIN_BYTES];
    (0..2 * size / MIN_BYTES).try_for_each(|_| file.write_all(&zeros))?;
    file.set_len(size as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_freed_once_and_only_if_the_disk_is_full() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let reserve = Reserve::beside(&folder.path().join("out.astf"));
        let files = || Ok::<_, io::Error>(std::fs::read_dir(folder.path())?.count());
        assert!(!reserve.release(&ErrorKind::PermissionDenied.into()) && !reserve.is_released());
        assert_eq!(files()?, 1);
        assert!(reserve.release(&ErrorKind::StorageFull.into()) && reserve.is_released());
        assert_eq!(files()?, 0);
        assert!(!reserve.release(&ErrorKind::StorageFull.into()));
        Ok(())
    }
}
