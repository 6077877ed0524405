//! What stands behind a room and takes what comes out of it.

/// Takes items one by one. Every `FnMut(T)` does; a type of its own can ask to be inlined, which matters where rooms
/// stand one behind the other.
pub trait Take<T> {
    /// The next item.
    fn take(&mut self, item: T);
}

impl<T, F: FnMut(T)> Take<T> for F {
    #[inline(always)]
    fn take(&mut self, item: T) {
        self(item);
    }
}
