//! Pointers from C: NULL is a failure, and everything else is what the caller promises.
//!
//! What these functions require is what the public functions require of their callers, in the section on safety of each.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::path::Path;
use std::slice;

use crate::failure::{Failure, guard};
use crate::status::UnspoolStatus;

fn null(name: &str) -> Failure {
    Failure::new(UnspoolStatus::NullArgument, format!("{name} is NULL"))
}

/// What a handle refers to.
///
/// # Safety
/// The pointer is NULL or valid, and nothing changes what it points to.
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: as required.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// What a handle refers to, to be changed.
///
/// # Safety
/// The pointer is NULL or valid, and nothing else uses what it points to.
pub(crate) unsafe fn borrow_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: as required.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// Memory for a result. It may be uninitialized, and has this value unless the function succeeds.
///
/// # Safety
/// The pointer is NULL, or valid for writing.
pub(crate) unsafe fn output<'a, T: Copy>(pointer: *mut T, initial: T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: as required; the type has no destructor, and memory need not be initialized for this type.
    let memory = unsafe { pointer.cast::<MaybeUninit<T>>().as_mut() };
    memory.map(|memory| memory.write(initial)).ok_or_else(|| null(name))
}

/// Memory for an array of results.
///
/// # Safety
/// The pointer is NULL, or valid for writing this number of items.
pub(crate) unsafe fn array<'a, T>(
    pointer: *mut T,
    capacity: usize,
    name: &str,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    if capacity == 0 || capacity > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::new(UnspoolStatus::InvalidArgument, format!("{name} cannot have {capacity} items")));
    }
    // SAFETY: as required; not NULL, not longer than memory, and memory need not be initialized for this type.
    Ok(unsafe { slice::from_raw_parts_mut(pointer.cast(), capacity) })
}

/// Bytes of a text without its NUL.
///
/// # Safety
/// The pointer is NULL or a text that ends with NUL, which does not change.
unsafe fn bytes<'a>(pointer: *const c_char, name: &str) -> Result<&'a [u8], Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: as required; not NULL.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// A text.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: as required.
    utf8(unsafe { bytes(pointer, name) }?, name)
}

/// A path: any bytes where paths are bytes, and UTF-8 elsewhere.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path, Failure> {
    // SAFETY: as required.
    let bytes = unsafe { bytes(pointer, name) }?;
    #[cfg(unix)]
    return Ok(Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes)));
    #[cfg(not(unix))]
    utf8(bytes, name).map(Path::new)
}

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str, Failure> {
    str::from_utf8(bytes)
        .map_err(|error| Failure::new(UnspoolStatus::InvalidText, format!("{name} is not UTF-8: {error}")))
}

/// A new handle.
pub(crate) fn handle<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Frees a handle. A panic ends here.
///
/// # Safety
/// The pointer is NULL or a handle that was not freed, and nothing uses it any more.
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    guard(|| {
        if !pointer.is_null() {
            // SAFETY: as required: every handle comes from `handle`.
            drop(unsafe { Box::from_raw(pointer) });
        }
        Ok(UnspoolStatus::Ok)
    });
}
