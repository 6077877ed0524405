//! Which sources are in a buffer.
//!
//! The frames of a perf recording may have the trace of any processor, and most have that of one. Reading the frames once
//! shows which sources need not be looked for.

use unspool_coresight::frame::{FrameData, FrameError, FrameSink, Mark, Span};

use crate::{Trace, Watch, read_frames};

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
    /// Whether a buffer may have trace of this source. Of captures that list the sources of each buffer, it always may.
    pub fn may_have(&mut self, trace: &Trace<'_>) -> bool {
        let is_listed = !trace.capture().has_sessions() || !trace.buffer().format.is_formatted();
        let Some(id) = trace.source().id.filter(|_| !is_listed) else { return true };
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
    fn whole(&mut self, id: u8, _offset: u64, _data: FrameData) {
        self.ids[usize::from(id & 0x7f)] = true;
    }

    fn mark(&mut self, _mark: Mark) {}
}

impl Watch for PresentIds {
    fn lost(&mut self, _error: FrameError) {}
}
