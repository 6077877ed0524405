//! Progress of a recording: the number of instructions so far.

use crate::progress::Progress;

/// Instructions between two updates of the line.
const STRIDE: u64 = 1 << 16;

/// Count of instructions that were recorded. A step without an instruction counts as well.
pub(super) struct RecordingProgress {
    /// `None` once the recording has ended.
    line: Option<Progress>,
    count: u64,
    /// Count of the next update.
    next: u64,
}

impl RecordingProgress {
    pub(super) fn new() -> Self {
        Self { line: Some(Progress::of_recording()), count: 0, next: STRIDE }
    }

    #[inline]
    pub(super) fn add(&mut self, instructions: u64) {
        self.count += instructions;
        if self.count >= self.next {
            self.update();
        }
    }

    #[cold]
    fn update(&mut self) {
        self.next = self.count + STRIDE;
        if let Some(line) = &mut self.line {
            line.at(self.count, 0);
        }
    }

    /// Removes the line.
    pub(super) fn end(&mut self) {
        self.line = None;
    }
}
