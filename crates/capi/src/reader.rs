//! Iterators of the library, read into arrays of C.

use std::mem::MaybeUninit;
use std::ptr;

use unspool::{Error, Items, Opened};

use crate::failure::{Failure, guard};
use crate::pointer::{array, borrow, borrow_mut, handle, output};
use crate::status::UnspoolStatus;
use crate::trace::UnspoolTrace;

/// Iterator, and an error that waits for the items before it to be handed over.
pub(crate) struct Reader<T> {
    items: Items<T>,
    error: Option<Error>,
}

impl<T> Reader<T> {
    pub(crate) fn new(items: Items<T>) -> Self {
        Self { items, error: None }
    }

    /// Writes the next items to the start of `out`. Returns their number; 0: there are no more.
    pub(crate) fn read<C>(
        &mut self,
        out: &mut [MaybeUninit<C>],
        mut convert: impl FnMut(T) -> C,
    ) -> Result<usize, Failure> {
        let mut count = 0;
        while count < out.len() && self.error.is_none() {
            match self.items.next() {
                Some(Ok(item)) => {
                    out[count].write(convert(item));
                    count += 1;
                }
                Some(Err(error)) => self.error = Some(error),
                None => break,
            }
        }
        match self.error.take_if(|_| count == 0) {
            Some(error) => Err(error.into()),
            None => Ok(count),
        }
    }
}

/// Opens an iterator over what a trace has, as a handle.
///
/// # Safety
/// The pointers are NULL or valid.
pub(crate) unsafe fn open<H>(
    trace: *const UnspoolTrace,
    iterator: *mut *mut H,
    iterate: impl FnOnce(&Opened) -> Result<H, Error>,
) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required.
        let iterator = unsafe { output(iterator, ptr::null_mut(), "memory for the iterator") }?;
        // SAFETY: as required.
        let trace = unsafe { borrow(trace, "trace") }?;
        *iterator = handle(iterate(&trace.opened)?);
        Ok(UnspoolStatus::Ok)
    })
}

/// Reads from an iterator into an array of C.
///
/// # Safety
/// The pointers are NULL or valid, and there is memory for this number of items.
pub(crate) unsafe fn read<H, C>(
    iterator: *mut H,
    items: *mut C,
    capacity: usize,
    count: *mut usize,
    fill: impl FnOnce(&mut H, &mut [MaybeUninit<C>]) -> Result<usize, Failure>,
) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required.
        let count = unsafe { output(count, 0, "count") }?;
        // SAFETY: as required.
        let items = unsafe { array(items, capacity, "items") }?;
        // SAFETY: as required.
        *count = fill(unsafe { borrow_mut(iterator, "iterator") }?, items)?;
        Ok(if *count == 0 { UnspoolStatus::End } else { UnspoolStatus::Ok })
    })
}
