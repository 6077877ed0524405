//! Ranges as JSON lines, formatted on several threads.
//!
//! Takes a part of the flow; produces the lines of its ranges, and the other items with their positions between the
//! lines. The printer writes both in order.

use unspool::Watch;
use unspool::coresight::frame::FrameError;
use unspool::flow::{FlowItem, FlowSink, Run};

use super::json::push_range;

#[derive(Default)]
pub(super) struct Part {
    /// Start of every line.
    start: String,
    pub(super) lines: String,
    /// Other items, and before which byte of the lines they belong.
    pub(super) items: Vec<(usize, FlowItem)>,
    pub(super) ranges: u64,
    pub(super) instructions: u64,
    pub(super) lost: Vec<FrameError>,
    pub(super) bytes: Option<u64>,
}

impl Part {
    pub(super) fn new(start: &str) -> Self {
        Self { start: start.to_string(), ..Self::default() }
    }
}

impl FlowSink for Part {
    fn run(&mut self, run: Run<'_>) {
        self.ranges += run.len() as u64;
        self.instructions += run.instructions();
        run.ranges().for_each(|range| push_range(&mut self.lines, &self.start, &range, ""));
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
