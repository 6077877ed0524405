//! Memory that is lent to us: a file in memory, which the one who reads the stream reads from.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::stream::{CAPACITY, Word};

unsafe extern "C" {
    fn mmap(at: *mut c_void, length: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn pthread_atfork(before: Option<Call>, parent: Option<Call>, child: Option<Call>) -> c_int;
}

type Call = extern "C" fn();

const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE_FIXED_ANONYMOUS: c_int = 0x32;

/// Where it is, for processes that are forked.
static PLACE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// The buffers of this file, each with room for the words of a chunk.
pub(super) fn buffers(path: &str) -> io::Result<Vec<&'static mut [Word]>> {
    let file = File::options().read(true).write(true).open(path)?;
    let size = size_of::<Word>() * CAPACITY;
    let count = usize::try_from(file.metadata()?.len()).unwrap_or(0) / size;
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: a new mapping is in nobody's way.
    let bytes = unsafe { mmap(ptr::null_mut(), count * size, PROT_READ_WRITE, MAP_SHARED, file.as_raw_fd(), 0) };
    if bytes.addr() == usize::MAX {
        return Err(io::Error::last_os_error());
    }
    PLACE.store(bytes, Ordering::Relaxed);
    LENGTH.store(count * size, Ordering::Relaxed);
    // SAFETY: the function is there as long as the emulator.
    if unsafe { pthread_atfork(None, None, Some(keep_away)) } != 0 {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let (first, buffers) = (bytes.cast::<Word>(), 0..count);
    // SAFETY: buffers do not overlap, are all inside of the mapping, and stay there; any bytes are words. The reader has the
    // file at the other end, and leaves those alone that it was not told to read.
    Ok(buffers.map(|index| unsafe { std::slice::from_raw_parts_mut(first.add(index * CAPACITY), CAPACITY) }).collect())
}

/// A process that was forked has memory of its own there: what it does is not recorded.
extern "C" fn keep_away() {
    let (place, length) = (PLACE.load(Ordering::Relaxed), LENGTH.load(Ordering::Relaxed));
    // SAFETY: it takes the place of the mapping that was made above, and of nothing else. Only this thread is in the process.
    unsafe { mmap(place, length, PROT_READ_WRITE, MAP_PRIVATE_FIXED_ANONYMOUS, -1, 0) };
}
