//! A file that the emulator writes to, mapped into memory.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

unsafe extern "C" {
    fn mmap(at: *mut c_void, length: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, length: usize) -> c_int;
    fn fallocate(file: c_int, mode: c_int, offset: i64, length: i64) -> c_int;
}

/// A part of a file, mapped into memory.
pub(crate) struct Window {
    bytes: *const u8,
    offset: u64,
}

impl Window {
    const LENGTH: usize = 1 << 24;
    const PAGE: u64 = 1 << 16;
    const PROT_READ: c_int = 1;
    const MAP_SHARED: c_int = 1;
    const PUNCH_HOLE_KEEP_SIZE: c_int = 3;

    /// Maps the part with this offset near its start; the file is extended to its end.
    pub(crate) fn new(file: &File, offset: u64) -> io::Result<Self> {
        let offset = offset & !(Self::PAGE - 1);
        file.set_len(offset + Self::LENGTH as u64)?;
        let (protection, flags) = (Self::PROT_READ, Self::MAP_SHARED);
        // SAFETY: a new mapping overlaps nothing.
        let bytes =
            unsafe { mmap(ptr::null_mut(), Self::LENGTH, protection, flags, file.as_raw_fd(), offset.cast_signed()) };
        if bytes.addr() == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { bytes: bytes.cast(), offset })
    }

    /// The byte at this offset of the file; `None`: it is outside.
    #[inline(always)]
    pub(crate) fn byte(&self, offset: u64) -> Option<u8> {
        let at = usize::try_from(offset.wrapping_sub(self.offset)).ok().filter(|at| *at < Self::LENGTH)?;
        // SAFETY: it is inside the mapping, and the file is never truncated. The emulator writes to it by a system call on
        // this thread.
        Some(unsafe { self.bytes.add(at).read_volatile() })
    }

    /// Gives back the disk space before this offset, if the system can.
    pub(crate) fn free(&self, file: &File, offset: u64) {
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
