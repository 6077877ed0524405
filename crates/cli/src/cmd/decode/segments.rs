//! Lines of a trace in segments: between two timestamps, and of one process and thread.
//!
//! flow of a trace ─▶ lines ─▶ **segments** ─▶ queue of a lane
//!
//! The end of a segment in time is the next timestamp, so segments wait for it. If they grow too large they do not wait, and
//! their end is unknown. Segments that were not asked for are dropped.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool::analyze::step_selection::StepSelection;
use unspool::coresight::frame::FrameError;
use unspool::flow::{Around, FlowItem, FlowSink, Instruction, InstructionSink, Item, Run};
use unspool::order::{LaneSender, Owner, OwnerSink, Segment, TimeWindow};
use unspool::{Error, Trace, Watch};

use super::filter::CodeFilter;
use super::form::Form;
use super::selection::Selection;
use super::summary::Summary;
use super::tagged::{Line, TaggedLines};
use crate::listing::Problems;

/// Bytes of lines in a segment; after that, another one of the same time begins.
const SEGMENT: usize = 256 << 10;
/// Bytes of lines that wait for a timestamp.
const WAITING: usize = 4 << 20;
/// Segments that wait for a timestamp.
const MAX_WAITING: usize = 4096;
/// Bytes of lines that are sent at once.
const BATCH: usize = 256 << 10;

/// Segments that are sent at once.
pub(super) type Batch = Vec<Segment<Listed>>;

/// Lines of a segment, with what they contain in numbers.
#[derive(Debug)]
pub(super) struct Listed {
    /// Index of the trace among those that are listed.
    pub(super) trace: usize,
    pub(super) lines: TaggedLines,
    pub(super) summary: Summary,
    pub(super) problems: Problems,
    /// The trace has ended.
    pub(super) end: Option<End>,
    /// Notes on the trace.
    pub(super) notes: Vec<String>,
}

/// End of a trace.
#[derive(Debug)]
pub(super) enum End {
    /// It has nothing that is listed.
    Skipped,
    /// It cannot be decoded.
    NotReadable(Error),
    /// It was read: the number of P0 elements that were still speculative, or why reading stopped.
    Read(Result<u64, Error>),
}

impl Listed {
    fn new(trace: usize, is_tagged: bool) -> Self {
        let (summary, problems) = (Summary::default(), Problems::default());
        Self { trace, lines: TaggedLines::new(is_tagged), summary, problems, end: None, notes: Vec::new() }
    }
}

/// Where segments are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cuts {
    pub(super) at_timestamps: bool,
    pub(super) at_owners: bool,
}

/// What all lanes share.
pub(super) struct Options<'o> {
    pub(super) traces: &'o [Trace<'o>],
    pub(super) selection: &'o Selection,
    /// Addresses and levels that are listed.
    pub(super) within: &'o StepSelection,
    pub(super) cuts: Cuts,
    pub(super) is_tagged: bool,
    /// Bytes that were read.
    pub(super) bytes_read: AtomicU64,
}

/// What the traces of a lane share.
pub(super) struct Lane<'l> {
    sender: &'l LaneSender<'l, Batch>,
    options: &'l Options<'l>,
    /// The last time of the lane.
    time: Option<u64>,
    /// Nothing later is wanted.
    has_ended: bool,
    /// Has the lane segments whose end is after its last time?
    is_open: bool,
    /// Segments whose end is not known yet.
    waiting: Batch,
    waiting_bytes: usize,
    batch: Batch,
    batch_bytes: usize,
    /// Notes on the trace that is decoded.
    notes: Vec<String>,
}

impl<'l> Lane<'l> {
    pub(super) fn new(sender: &'l LaneSender<'l, Batch>, options: &'l Options<'l>) -> Self {
        let (waiting, batch) = (Vec::new(), Vec::new());
        Self {
            sender,
            options,
            time: None,
            has_ended: false,
            is_open: false,
            waiting,
            waiting_bytes: 0,
            batch,
            batch_bytes: 0,
            notes: Vec::new(),
        }
    }

    /// The last time of the lane.
    pub(super) fn time(&self) -> Option<u64> {
        self.time
    }

    /// Notes a time that the lane has reached, if any.
    pub(super) fn advance(&mut self, time: Option<u64>) {
        self.time = self.time.max(time);
    }

    /// Adds a note on the trace that is decoded.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Lines of a trace, without any.
    pub(super) fn listed(&self, trace: usize) -> Listed {
        Listed::new(trace, self.options.is_tagged)
    }

    /// Ends the lane if nothing of a trace is wanted from this time on.
    pub(super) fn stop_after(&mut self, trace: &Trace<'_>, time: Option<u64>) {
        self.has_ended |= self.options.selection.is_after(trace, time);
    }

    /// Is anything later wanted?
    pub(super) fn wants_more(&self) -> bool {
        !self.has_ended && self.sender.is_wanted()
    }

    /// Are times compared: with those of another source, or with a range?
    pub(super) fn compares_times(&self) -> bool {
        let mut sources = self.options.traces.iter().map(Trace::source_index);
        let first = sources.next();
        self.options.selection.has_time() || sources.any(|source| Some(source) != first)
    }

    /// Counts bytes that were read.
    pub(super) fn count_bytes(&self, bytes: u64) {
        self.options.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Continues with a trace that has nothing to do with those before it.
    pub(super) fn start_over(&mut self) {
        self.settle(None);
        (self.time, self.has_ended, self.is_open) = (None, false, false);
    }

    /// Is nothing later wanted?
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Reports a trace that is not decoded.
    pub(super) fn skip(&mut self, trace: usize) {
        self.end(trace, Owner::default(), End::Skipped, 0);
    }

    /// Reports a trace that cannot be decoded.
    pub(super) fn fail(&mut self, trace: usize, error: Error) {
        self.end(trace, Owner::default(), End::NotReadable(error), 0);
    }

    /// Ends a trace, of which this number of bytes was read.
    pub(super) fn end(&mut self, trace: usize, owner: Owner, end: End, bytes: u64) {
        let notes = std::mem::take(&mut self.notes);
        let mut contents = Listed { end: Some(end), notes, ..self.listed(trace) };
        contents.summary.bytes_read(bytes);
        let to = self.time.filter(|_| !self.is_open);
        self.wait(Segment { window: TimeWindow { from: self.time, to }, owner, contents });
    }

    /// Adds a segment whose end is the next time of the lane.
    fn wait(&mut self, segment: Segment<Listed>) {
        self.is_open |= segment.window.to.is_none();
        self.waiting_bytes += segment.contents.lines.len();
        self.waiting.push(segment);
        if self.waiting_bytes > WAITING || self.waiting.len() > MAX_WAITING {
            self.settle(None);
        }
    }

    /// Ends the segments that wait, at this time or at an unknown one.
    pub(super) fn settle(&mut self, to: Option<u64>) {
        self.waiting_bytes = 0;
        self.is_open &= to.is_none();
        for mut segment in std::mem::take(&mut self.waiting) {
            segment.window.to = segment.window.to.or(to);
            self.send(segment);
        }
    }

    /// Sends a segment, if it is listed.
    pub(super) fn send(&mut self, segment: Segment<Listed>) {
        let Segment { window, owner, contents } = &segment;
        let trace = self.options.traces.get(contents.trace);
        let is_listed = trace.is_some_and(|trace| self.options.selection.has(trace, *window, *owner));
        if !is_listed && contents.end.is_none() {
            return;
        }
        self.batch_bytes += segment.contents.lines.len();
        self.batch.push(segment);
        if self.batch_bytes > BATCH || self.batch.len() > MAX_WAITING {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.batch_bytes = 0;
        self.has_ended |= !self.sender.send(std::mem::take(&mut self.batch));
    }

    /// Sends what is left.
    pub(super) fn finish(mut self) {
        self.settle(None);
        self.flush();
    }
}

/// Sink of one trace.
pub(super) struct Recorder<'r, 'l, 'p> {
    lane: &'r mut Lane<'l>,
    trace: Trace<'r>,
    index: usize,
    form: Form<'p>,
    /// The state around a range; instructions come with theirs.
    around: Around,
    filter: CodeFilter<'r>,
    /// What is known of the time of the whole trace.
    whole: TimeWindow,
    has_timestamps: bool,
    from: Option<u64>,
    owner: Owner,
    current: Listed,
    /// Has the current segment more than timestamps? Has it instructions?
    has_items: bool,
    has_instructions: bool,
    /// Bytes of the source, and of the buffer, that were read.
    bytes: u64,
    counted: u64,
}

impl<'r, 'l, 'p> Recorder<'r, 'l, 'p> {
    pub(super) fn new(
        lane: &'r mut Lane<'l>,
        (index, trace): (usize, Trace<'r>),
        form: Form<'p>,
        whole: TimeWindow,
        has_timestamps: bool,
    ) -> Self {
        let from = lane.time.max(whole.from);
        let current = Listed::new(index, lane.options.is_tagged);
        let (around, owner) = (Around::default(), Owner::default());
        let filter = CodeFilter::new(lane.options.within);
        let (has_items, has_instructions) = (false, false);
        let mut recorder = Self {
            lane,
            trace,
            index,
            form,
            around,
            filter,
            whole,
            has_timestamps,
            from,
            owner,
            current,
            has_items,
            has_instructions,
            bytes: 0,
            counted: 0,
        };
        if let Some(from) = whole.from {
            recorder.reach(from);
        }
        recorder
    }

    /// Ends the trace.
    pub(super) fn finish(mut self, result: Result<u64, Error>) {
        self.cut();
        if let Some(to) = self.whole.to {
            self.reach(to);
        }
        if !self.has_timestamps || !self.lane.options.cuts.at_timestamps {
            self.lane.settle(None);
        }
        self.lane.end(self.index, self.owner, End::Read(result), self.bytes);
    }

    /// A time that the lane has reached: what waits was executed before it.
    fn reach(&mut self, time: u64) {
        let time = time.max(self.lane.time.unwrap_or(0));
        self.lane.time = Some(time);
        self.lane.settle(Some(time));
    }

    fn timestamp(&mut self, value: u64) {
        // Zero: the time is not known.
        if !self.lane.options.cuts.at_timestamps || value == 0 {
            return;
        }
        if self.has_items {
            self.cut();
            self.form.restart();
        }
        self.reach(value);
        self.from = self.lane.time;
        self.lane.stop_after(&self.trace, self.from);
    }

    /// Ends the current segment. It waits for the time at which it ended.
    fn cut(&mut self) {
        let contents = std::mem::replace(&mut self.current, Listed::new(self.index, self.lane.options.is_tagged));
        (self.has_items, self.has_instructions) = (false, false);
        let to = self.whole.to.filter(|_| !self.has_timestamps);
        let segment = Segment { window: TimeWindow { from: self.from, to }, owner: self.owner, contents };
        self.lane.wait(segment);
        if !self.has_timestamps || !self.lane.options.cuts.at_timestamps {
            self.lane.settle(None);
        }
    }

    fn add(&mut self, kind: Line, line: impl for<'f> FnOnce(&'f mut Form<'p>) -> &'f [u8]) {
        self.current.lines.push(kind, line(&mut self.form));
        self.has_items = true;
        if self.current.lines.len() > SEGMENT {
            self.cut();
        }
    }

    fn other_item(&mut self, item: &FlowItem) {
        if self.lane.has_ended {
            return;
        }
        let time = item.as_ref().ok().and_then(|item| match item.value {
            Item::Timestamp { value, .. } => Some(value),
            _ => None,
        });
        if let Some(value) = time {
            self.timestamp(value);
        }
        let had_items = self.has_items;
        self.current.problems.note(&self.trace, item.as_ref().err());
        self.current.summary.item(item);
        let trace = self.trace;
        match self.filter.item(item) {
            true => self.add(Line::Mark, |form| form.item(&trace, item)),
            false => self.form.follow(item),
        }
        if time.is_some() {
            self.has_items = had_items;
        }
    }
}

impl OwnerSink for Recorder<'_, '_, '_> {
    fn owner(&mut self, owner: Owner) {
        // What comes before the first instruction of a segment belongs to the owner of that instruction.
        if self.lane.options.cuts.at_owners && self.has_instructions {
            self.cut();
            self.form.restart();
        }
        self.owner = owner;
    }
}

impl InstructionSink for Recorder<'_, '_, '_> {
    fn instruction(&mut self, instruction: &Instruction, around: &Around) {
        if self.lane.has_ended || !self.filter.instruction(instruction, around) {
            return;
        }
        self.current.summary.instructions += 1;
        self.current.summary.ranges += u64::from(instruction.ends_range);
        self.has_instructions = true;
        self.add(Line::Item, |form| form.instruction(instruction, around));
    }

    fn item(&mut self, item: FlowItem) {
        self.other_item(&item);
    }
}

impl FlowSink for Recorder<'_, '_, '_> {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            if self.lane.has_ended {
                return;
            }
            if !self.filter.range(&range, &self.around) {
                continue;
            }
            self.current.summary.ranges += 1;
            self.current.summary.instructions += u64::from(range.instructions());
            self.has_instructions = true;
            let around = self.around;
            self.add(Line::Item, |form| form.range(&range, &around));
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.around.update(&item);
        self.other_item(&item);
    }
}

impl Watch for Recorder<'_, '_, '_> {
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
