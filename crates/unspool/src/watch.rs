//! Supervision of reading: progress, stopping, and the bytes that belong to no frame.

use unspool_coresight::frame::FrameError;
use unspool_flow::Instructions;

/// Watches how a buffer is read. Items go to a sink; what concerns the reading itself comes here. A pair of a sink and a
/// watch serves as both; `()` is a watch that does not care.
pub trait Watch {
    /// Bytes of the buffer belong to no frame, so their source is not known. Reported between chunks, so items from
    /// later in the buffer may come before.
    fn lost(&mut self, _error: FrameError) {}

    /// Should reading continue? Asked between chunks, so some items may still come after a no.
    fn wants_more(&mut self) -> bool {
        true
    }

    /// How many bytes of the buffer have been read, and the total.
    fn progress(&mut self, _read: u64, _total: u64) {}

    /// How many bytes of the source itself have been read so far. Reported before the progress in the buffer.
    fn bytes_read(&mut self, _bytes: u64) {}
}

impl Watch for () {}

/// Forwards each method to the watch at an expression of `self`.
macro_rules! forward_watch {
    ($self:ident => $watch:expr) => {
        fn lost(&mut $self, error: FrameError) {
            $watch.lost(error);
        }

        fn wants_more(&mut $self) -> bool {
            $watch.wants_more()
        }

        fn progress(&mut $self, read: u64, total: u64) {
            $watch.progress(read, total);
        }

        fn bytes_read(&mut $self, bytes: u64) {
            $watch.bytes_read(bytes);
        }
    };
}

impl<S, W: Watch> Watch for (S, W) {
    forward_watch!(self => self.1);
}

impl<W: Watch> Watch for &mut W {
    forward_watch!(self => (**self));
}

impl<S: unspool_flow::InstructionSink + Watch> Watch for Instructions<S> {
    forward_watch!(self => self.sink());
}
