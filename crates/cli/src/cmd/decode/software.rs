//! Listing of software trace: lines on the output at once, or in segments for an order of time.
//!
//! elements of a source without instructions ─▶ `software_lines` ─▶ **output**, or **segments** of a lane

use unspool::coresight::frame::FrameError;
use unspool::coresight::stm::Kind;
use unspool::coresight::{Element, ElementItem, Sink};
use unspool::order::{Owner, Segment, TimeWindow};
use unspool::{Error, Trace, Watch};

use super::segments::{End, Lane, Listed};
use super::software_lines::{SoftwareLines, SoftwareStyle, Times};
use super::summary::Summary;
use super::tagged::Line;
use crate::listing::Listing;
use crate::verdict::Verdict;

/// Bytes of lines in a segment; after that, another one of the same time begins.
const SEGMENT: usize = 256 << 10;

/// Prints the elements of one source.
pub(super) struct SoftwarePrinter<'o, 'c, 'p> {
    listing: Listing<'o, 'c>,
    summary: &'p mut Summary,
    lines: SoftwareLines<'p>,
}

impl<'o, 'c: 'p, 'p> SoftwarePrinter<'o, 'c, 'p> {
    pub(super) fn new(listing: Listing<'o, 'c>, style: SoftwareStyle<'p>, summary: &'p mut Summary) -> Self {
        let lines = SoftwareLines::new(listing.trace, style, Times::Whole(TimeWindow::default()));
        Self { listing, summary, lines }
    }
}

impl SoftwarePrinter<'_, '_, '_> {
    /// Ends the source. Returns the verdict, and whether all of it was listed.
    pub(super) fn finish(mut self) -> (Verdict, bool) {
        self.lines.finish();
        self.write();
        (self.listing.verdict(), self.listing.window.is_open())
    }

    fn write(&mut self) {
        // Items of a chunk after the last one requested are not printed.
        while self.listing.window.is_open() {
            let Some(line) = self.lines.next_line() else { return };
            self.listing.note(line.error.as_ref());
            self.summary.software(&line.counts, line.error.as_ref());
            let is_shown = match line.kind {
                Line::Item => self.listing.window.next(),
                Line::Mark => self.listing.window.shows(),
            };
            if is_shown {
                self.listing.output.write(|out| out.write_all(line.text.as_bytes()));
            }
        }
    }
}

impl Sink<ElementItem> for SoftwarePrinter<'_, '_, '_> {
    fn item(&mut self, item: ElementItem) {
        self.lines.push(&item);
        self.write();
    }
}

impl Watch for SoftwarePrinter<'_, '_, '_> {
    fn lost(&mut self, error: FrameError) {
        self.summary.lost(&error);
        self.listing.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.listing.wants_more()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.listing.progress(read, total);
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.summary.bytes_read(bytes);
    }
}

/// Makes segments of the elements of one source.
pub(super) struct SoftwareRecorder<'r, 'l> {
    lane: &'r mut Lane<'l>,
    trace: Trace<'r>,
    index: usize,
    lines: SoftwareLines<'r>,
    /// Can its times be compared with those of other sources?
    is_timed: bool,
    window: TimeWindow,
    current: Listed,
    /// Bytes of the source, and of the buffer, that were read.
    bytes: u64,
    counted: u64,
}

impl<'r, 'l> SoftwareRecorder<'r, 'l> {
    /// `whole`: what is known of the time of the whole trace. `is_timed`: timestamps are those of other sources.
    pub(super) fn new(
        lane: &'r mut Lane<'l>,
        (index, trace): (usize, Trace<'r>),
        style: SoftwareStyle<'r>,
        whole: TimeWindow,
        is_timed: bool,
    ) -> Self {
        let times = if is_timed { Times::Since(lane.time().max(whole.from)) } else { Times::Whole(whole) };
        let lines = SoftwareLines::new(trace, style, times);
        let current = lane.listed(index);
        lane.settle(None);
        let window = TimeWindow::default();
        Self { lane, trace, index, lines, is_timed, window, current, bytes: 0, counted: 0 }
    }

    /// Ends the trace.
    pub(super) fn finish(mut self, result: Result<(), Error>) {
        self.lines.finish();
        self.write();
        if (!self.is_timed || self.lines.last_time().is_none()) && self.lane.compares_times() {
            let name = &self.trace.source().name;
            self.lane.note(format!(
                "{name}: its software trace has no time that other sources have too, so that its order is unknown"
            ));
        }
        self.cut();
        self.lane.advance(self.lines.last_time());
        self.lane.end(self.index, Owner::default(), End::Read(result.map(|()| 0)), self.bytes);
    }

    fn write(&mut self) {
        while let Some(line) = self.lines.next_line() {
            if line.window != self.window || self.current.lines.len() > SEGMENT {
                self.cut();
                self.window = line.window;
            }
            self.current.problems.note(&self.trace, line.error.as_ref());
            self.current.summary.software(&line.counts, line.error.as_ref());
            self.current.lines.push(line.kind, line.text.as_bytes());
            self.lane.stop_after(&self.trace, line.window.from);
        }
    }

    /// Sends the current segment.
    fn cut(&mut self) {
        let contents = std::mem::replace(&mut self.current, self.lane.listed(self.index));
        self.lane.send(Segment { window: self.window, owner: Owner::default(), contents });
    }

    /// A frequency that contradicts that of the source: its times are not those of the capture.
    fn check_frequency(&mut self, item: &ElementItem) {
        let Ok(Element::Stm(own)) = item.as_ref().map(|element| element.value) else { return };
        let Kind::Frequency(found @ 1..) = own.kind else { return };
        let known = self.trace.clock().frequency.filter(|known| !known.is_assumed && known.hertz != found);
        if let Some(known) = known.filter(|_| std::mem::take(&mut self.is_timed)) {
            self.lines.forget_time();
            let (name, known) = (&self.trace.source().name, known.hertz);
            self.lane.note(format!(
                "{name}: its timestamps count with {found} Hz, not with {known} Hz as the capture states: its times are unknown"
            ));
        }
    }
}

impl Sink<ElementItem> for SoftwareRecorder<'_, '_> {
    fn item(&mut self, item: ElementItem) {
        if !self.lane.has_ended() {
            self.check_frequency(&item);
            self.lines.push(&item);
            self.write();
        }
    }
}

impl Watch for SoftwareRecorder<'_, '_> {
    fn lost(&mut self, error: FrameError) {
        self.current.problems.lost(&self.trace, &error);
        self.current.summary.lost(&error);
    }

    fn wants_more(&mut self) -> bool {
        self.lane.wants_more()
    }

    fn progress(&mut self, read: u64, _total: u64) {
        self.lane.count_bytes(read.saturating_sub(self.counted));
        self.counted = read;
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.bytes = bytes;
    }
}
