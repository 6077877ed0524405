//! Ranges as JSON lines, put together on several cores.
//!
//! Comes in: a part of what was executed. Goes out: the lines of its ranges, and the other items with their places
//! between them: those are told in order by the printer, which keeps the summary.

use unspool::Watch;
use unspool::coresight::frame::FrameError;
use unspool::flow::{FlowItem, FlowSink, Run};

use super::json::push_range;

/// One part.
pub(super) struct Part {
    /// How every line starts.
    start: String,
    pub(super) lines: String,
    /// What else there is, and before which byte of the lines it belongs.
    pub(super) items: Vec<(usize, FlowItem)>,
    pub(super) ranges: u64,
    pub(super) instructions: u64,
    pub(super) lost: Vec<FrameError>,
    pub(super) bytes: Option<u64>,
}

impl Part {
    /// An empty part of a source whose lines start like this.
    pub(super) fn new(start: &str) -> Self {
        Self {
            start: start.to_string(),
            lines: String::new(),
            items: vec![],
            ranges: 0,
            instructions: 0,
            lost: vec![],
            bytes: None,
        }
    }
}

impl FlowSink for Part {
    fn run(&mut self, run: Run<'_>) {
        self.ranges += run.len() as u64;
        self.instructions += run.instructions();
        run.ranges().for_each(|range| push_range(&mut self.lines, &self.start, &range));
    }

    fn item(&mut self, item: FlowItem) {
        self.items.push((self.lines.len(), item));
    }
}

impl Watch for Part {
    fn lost(&mut self, error: FrameError) {
        self.lost.push(error);
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.bytes = Some(bytes);
    }
}
