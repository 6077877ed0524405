//! Supervision of reading: progress, stopping, and the bytes that belong to no frame.

use unspool_coresight::frame::FrameError;
use unspool_flow::Instructions;

/// Observer of the reading of a buffer. Items go to a sink; progress and lost frames come here. A pair of a sink and a
/// watch serves as both; `()` is a watch that ignores everything.
pub trait Watch {
    /// Called for bytes of the buffer that belong to no frame, so that their source is unknown. Called between chunks:
    /// items from later in the buffer may come first.
    fn lost(&mut self, _error: FrameError) {}

    /// Returns whether reading should continue. Called between chunks: items may still come after false.
    fn wants_more(&mut self) -> bool {
        true
    }

    /// Called with the bytes of the buffer read so far, and the total.
    fn progress(&mut self, _read: u64, _total: u64) {}

    /// Called with the bytes of the source itself read so far, before the progress in the buffer.
    fn bytes_read(&mut self, _bytes: u64) {}
}

impl Watch for () {}

/// Forwards each method to the watch at an expression of `self`.
macro_rules! forward_watch {
    ($self:ident => $watch:expr) => {
        fn lost(&mut $self, error: unspool_coresight::frame::FrameError) {
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

pub(crate) use forward_watch;

impl<S, W: Watch> Watch for (S, W) {
    forward_watch!(self => self.1);
}

impl<W: Watch> Watch for &mut W {
    forward_watch!(self => (**self));
}

impl<S: unspool_flow::InstructionSink + Watch> Watch for Instructions<S> {
    forward_watch!(self => self.sink());
}
