//! A file that the emulator writes to, mapped into memory.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::interface::{PROT_READ, map};

unsafe extern "C" {
    fn munmap(at: *mut c_void, length: usize) -> c_int;
    fn fallocate(file: c_int, mode: c_int, offset: i64, length: i64) -> c_int;
}

/// A part of a file, mapped into memory.
pub(super) struct Window {
    bytes: *const u8,
    offset: u64,
}

impl Window {
    const LENGTH: usize = 1 << 24;
    const PAGE: u64 = 1 << 16;
    const PUNCH_HOLE_KEEP_SIZE: c_int = 3;

    /// Maps the part with this offset near its start; the file is extended to its end.
    pub(super) fn new(file: &File, offset: u64) -> io::Result<Self> {
        let offset = offset & !(Self::PAGE - 1);
        file.set_len(offset + Self::LENGTH as u64)?;
        Ok(Self { bytes: map(file, offset, Self::LENGTH, PROT_READ)?.cast(), offset })
    }

    /// The byte at this offset of the file; `None`: it is outside.
    #[inline(always)]
    pub(super) fn byte(&self, offset: u64) -> Option<u8> {
        let at = usize::try_from(offset.wrapping_sub(self.offset)).ok().filter(|at| *at < Self::LENGTH)?;
        // SAFETY: it is inside the mapping, and the file is never truncated. The emulator writes to it by a system call on
        // this thread.
        Some(unsafe { self.bytes.add(at).read_volatile() })
    }

    /// Frees the disk space before this offset, if the system supports it.
    pub(super) fn free(&self, file: &File, offset: u64) {
        // SAFETY: it changes the file only.
        unsafe { fallocate(file.as_raw_fd(), Self::PUNCH_HOLE_KEEP_SIZE, 0, offset.cast_signed()) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and the address is not used elsewhere.
        unsafe { munmap(self.bytes.cast_mut().cast(), Self::LENGTH) };
    }
}
