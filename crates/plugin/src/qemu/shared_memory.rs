//! Shared memory: buffers for records in a file of the recorder, which reads them from there.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use unspool_wire::{BUFFER_BYTES, BUFFER_WORDS, Word};

use super::interface::{PROT_READ_WRITE, map, mmap};

unsafe extern "C" {
    fn pthread_atfork(before: Option<Call>, parent: Option<Call>, child: Option<Call>) -> c_int;
}

type Call = extern "C" fn();

const MAP_PRIVATE_FIXED_ANONYMOUS: c_int = 0x32;

/// The mapping, for forked processes.
static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

pub(super) fn buffers(path: &str) -> io::Result<Vec<&'static mut [Word]>> {
    let file = File::options().read(true).write(true).open(path)?;
    let count = usize::try_from(file.metadata()?.len()).unwrap_or(0) / BUFFER_BYTES;
    if count == 0 {
        return Ok(Vec::new());
    }
    let length = count * BUFFER_BYTES;
    let bytes = map(&file, 0, length, PROT_READ_WRITE)?;
    ADDRESS.store(bytes, Ordering::Relaxed);
    LENGTH.store(length, Ordering::Relaxed);
    // SAFETY: the function lives as long as the emulator.
    if unsafe { pthread_atfork(None, None, Some(detach)) } != 0 {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let (first, buffers) = (bytes.cast::<Word>(), 0..count);
    // SAFETY: buffers do not overlap, are inside the mapping, and stay there; any bytes are words. The recorder reads only
    // buffers that were sent to it.
    let buffer = |index| unsafe { std::slice::from_raw_parts_mut(first.add(index * BUFFER_WORDS), BUFFER_WORDS) };
    Ok(buffers.map(buffer).collect())
}

/// Replaces the mapping in a forked process by private memory: the process is not recorded.
extern "C" fn detach() {
    let (address, length) = (ADDRESS.load(Ordering::Relaxed), LENGTH.load(Ordering::Relaxed));
    // SAFETY: it replaces the mapping that was made above, and nothing else. The process has only this thread.
    unsafe { mmap(address, length, PROT_READ_WRITE, MAP_PRIVATE_FIXED_ANONYMOUS, -1, 0) };
}
