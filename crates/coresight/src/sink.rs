//! The consumer of items, which follows every stage of a pipeline.

/// Consumer of items. Every `FnMut(T)` is a sink; a type of its own can ask to be inlined, which matters where
/// stages follow one another in the hot path.
pub trait Sink<T> {
    /// Takes the next item.
    fn item(&mut self, item: T);
}

impl<T, F: FnMut(T)> Sink<T> for F {
    #[inline(always)]
    fn item(&mut self, item: T) {
        self(item);
    }
}

/// A sink paired with anything else, such as an observer of progress.
impl<T, S: Sink<T>, W> Sink<T> for (S, W) {
    #[inline(always)]
    fn item(&mut self, item: T) {
        self.0.item(item);
    }
}
