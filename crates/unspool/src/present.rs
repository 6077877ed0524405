//! Which sources are in a buffer.
//!
//! The frames of a perf recording may have the trace of any processor, and most have that of one. Reading the frames once
//! shows which sources need not be looked for.

use std::sync::OnceLock;

use unspool_capture::Capture;
use unspool_coresight::frame::{FrameError, FrameSink, Mark, Span, WholeFrames};

use crate::{Trace, Watch, read_frames};

/// Trace IDs of all buffers of a capture, each read when it is first asked for, by any thread.
#[derive(Debug)]
pub struct PresentInBuffers(Vec<OnceLock<Box<PresentIds>>>);

impl PresentInBuffers {
    /// Starts with no buffer read.
    pub fn new(capture: &Capture) -> Self {
        Self(capture.buffers.iter().map(|_| OnceLock::new()).collect())
    }

    /// As [`PresentIds::may_have`].
    pub fn may_have(&self, trace: &Trace<'_>) -> bool {
        let Some(known) = self.0.get(trace.buffer_index()).filter(|_| !PresentIds::is_listed(trace)) else {
            return true;
        };
        let ids = known.get_or_init(|| {
            let mut ids = Box::<PresentIds>::default();
            ids.may_have(trace);
            ids
        });
        trace.source().id.is_none_or(|id| ids.ids[usize::from(id & 0x7f)])
    }
}

/// Trace IDs of the last buffer that was asked for.
#[derive(Debug)]
pub struct PresentIds {
    buffer: Option<usize>,
    ids: [bool; 128],
}

impl Default for PresentIds {
    fn default() -> Self {
        Self { buffer: None, ids: [false; 128] }
    }
}

impl PresentIds {
    /// Does the capture list the sources of the buffer?
    fn is_listed(trace: &Trace<'_>) -> bool {
        !trace.capture().has_sessions() || !trace.buffer().format.is_formatted()
    }

    /// Whether a buffer may have trace of this source. Of captures that list the sources of each buffer, it always may.
    pub fn may_have(&mut self, trace: &Trace<'_>) -> bool {
        let Some(id) = trace.source().id.filter(|_| !Self::is_listed(trace)) else { return true };
        if self.buffer != Some(trace.buffer_index()) {
            self.buffer = Some(trace.buffer_index());
            self.ids = [false; 128];
            if read_frames(trace.capture(), trace.buffer_index(), self).is_err() {
                // Reading the source reports why.
                self.ids = [true; 128];
            }
        }
        self.ids[usize::from(id & 0x7f)]
    }
}

impl FrameSink for PresentIds {
    fn span(&mut self, span: Span<'_>) {
        self.ids[usize::from(span.id & 0x7f)] = true;
    }

    #[inline]
    fn whole(&mut self, id: u8, _offset: u64, _frames: WholeFrames<'_>) {
        self.ids[usize::from(id & 0x7f)] = true;
    }

    fn mark(&mut self, _mark: Mark) {}
}

impl Watch for PresentIds {
    fn lost(&mut self, _error: FrameError) {}
}
