//! Shared memory: buffers for records in a file of the recorder, which reads them from there.
//!
//! The file is mapped with room for more buffers than it has: it grows when there are more threads.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use unspool_wire::{BUFFER_BYTES, BUFFER_WORDS, MAX_BUFFERS, Word};

use super::interface::{PROT_READ_WRITE, map, mmap};
use crate::output::SharedBuffers;

unsafe extern "C" {
    fn pthread_atfork(before: Option<Call>, parent: Option<Call>, child: Option<Call>) -> c_int;
}

type Call = extern "C" fn();

const MAP_PRIVATE_FIXED_ANONYMOUS: c_int = 0x32;

/// Bytes that are mapped.
const LENGTH: usize = MAX_BUFFERS * BUFFER_BYTES;

/// The mapping.
static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The file, and the device and number that it has as long as the program has not closed it.
static FILE: OnceLock<(File, (u64, u64))> = OnceLock::new();

/// Maps the buffers of a file; none without a file.
pub(super) fn buffers(path: Option<&str>, move_up: impl Fn(OwnedFd) -> OwnedFd) -> io::Result<SharedBuffers> {
    let Some(path) = path else { return Ok(SharedBuffers { buffers: Vec::new(), grow: |_| None }) };
    let file = File::from(move_up(File::options().read(true).write(true).open(path)?.into()));
    let about = file.metadata()?;
    let count = usize::try_from(about.len()).unwrap_or(0) / BUFFER_BYTES;
    ADDRESS.store(map(&file, 0, LENGTH, PROT_READ_WRITE)?, Ordering::Relaxed);
    // SAFETY: the function lives as long as the emulator.
    if unsafe { pthread_atfork(None, None, Some(detach)) } != 0 {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let _ = FILE.set((file, (about.dev(), about.ino())));
    Ok(SharedBuffers { buffers: (0..count.min(MAX_BUFFERS)).map(buffer).collect(), grow })
}

/// The words of a buffer that the file has. Each is made once.
fn buffer(index: usize) -> &'static mut [Word] {
    let first = ADDRESS.load(Ordering::Relaxed).cast::<Word>();
    // SAFETY: buffers do not overlap, are inside the mapping, and stay there; any bytes are words. The recorder reads only
    // buffers that were sent to it, or those of an emulator that has ended.
    unsafe { std::slice::from_raw_parts_mut(first.add(index * BUFFER_WORDS), BUFFER_WORDS) }
}

/// Adds a buffer at the end of the file. `None`: there is no more memory, or the program has closed the file.
fn grow(index: usize) -> Option<&'static mut [Word]> {
    let (file, is) = FILE.get().filter(|_| index < MAX_BUFFERS)?;
    let about = file.metadata().ok()?;
    if (about.dev(), about.ino()) != *is {
        return None;
    }
    // Memory is allocated now: a store to memory cannot report that there is no more.
    file.write_all_at(&vec![0; BUFFER_BYTES], (index * BUFFER_BYTES) as u64).ok()?;
    Some(buffer(index))
}

/// Replaces the mapping in a forked process by private memory: the process is not recorded.
extern "C" fn detach() {
    let address = ADDRESS.load(Ordering::Relaxed);
    // SAFETY: it replaces the mapping that was made above, and nothing else. The process has only this thread.
    unsafe { mmap(address, LENGTH, PROT_READ_WRITE, MAP_PRIVATE_FIXED_ANONYMOUS, -1, 0) };
}
