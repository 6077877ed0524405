//! Text for C: a pointer and a length, since names may contain anything.

use std::ffi::c_char;
use std::ptr;

/// Text that belongs to a handle. Print it with "%.*s", (int)text.length, text.data.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolText {
    /// UTF-8 without a NUL at its end; NULL: there is none.
    pub data: *const c_char,
    /// Number of bytes.
    pub length: usize,
}

impl UnspoolText {
    /// No text, which is not the same as an empty one.
    pub(crate) const ABSENT: Self = Self { data: ptr::null(), length: 0 };

    pub(crate) fn new(text: &str) -> Self {
        Self { data: text.as_ptr().cast(), length: text.len() }
    }
}
