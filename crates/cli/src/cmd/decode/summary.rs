//! Summary of a decode: totals, missing code, contradictions.
//!
//! Takes the items of every source; produces a few lines for the user. Memory does not grow with the trace.

use std::collections::{BTreeMap, BTreeSet};

use unspool::Trace;
use unspool::capture::Clock;
use unspool::check::MissingCode;
use unspool::coresight::frame::FrameError;
use unspool::coresight::itm::OwnElement;
use unspool::coresight::{Element, ElementError, Protocol, Time, TimeQuality};
use unspool::flow::{Cause, FlowItem, Item};
use unspool::model::json::Object;
use unspool::number::{grouped, many};

use super::headings::seconds_text;
use crate::diagnostic;
use crate::listing::counted;

/// Counts over all sources.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) instructions: u64,
    pub(super) ranges: u64,
    software: SoftwareCounts,
    exceptions: u64,
    /// Number of Q elements, and of the instructions that they count.
    q: (u64, u64),
    sources: BTreeSet<String>,
    time: Option<(u64, u64)>,
    /// Clock of the timestamps; the inner `None`: they have several.
    clock: Option<Option<Clock>>,
    cycles: Option<u64>,
    bytes: u64,
    skipped: u64,
    /// Bytes of each buffer that belong to no frame, as reported by any of its sources.
    lost: BTreeMap<usize, u64>,
    missing: MissingCode,
    /// P0 elements that were dropped for other reasons.
    without_address: u64,
    disagreeing: u64,
    findings: BTreeMap<&'static str, u64>,
    speculative: u64,
    is_cut: bool,
    /// How much was read of a trace is not known, since its end was not reached.
    has_unknown_bytes: bool,
    /// State of the source that is being read.
    buffer: usize,
    buffer_lost: u64,
    source_bytes: u64,
}

/// Counts of software trace.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SoftwareCounts {
    /// Values that software wrote, and observations of a DWT.
    written: u64,
    /// The first and the last time.
    time: Option<(u64, u64)>,
    /// The first and the last of the times that count from an unknown start, or of which only low bits are known.
    relative: Option<(u64, u64)>,
}

impl SoftwareCounts {
    /// Those of one element.
    pub(super) fn of(protocol: Option<Protocol>, element: &Element) -> Self {
        let is_local = protocol == Some(Protocol::Itm);
        let counts = |written, time: Option<Time>| {
            let is_relative = |time: &Time| matches!(time.quality, TimeQuality::Partial | TimeQuality::Relative);
            let range = time.map(|time| (time.value, time.value));
            let (relative, time) = match time {
                Some(time) if is_local || is_relative(&time) => (range, None),
                _ => (None, range),
            };
            Self { written, time, relative }
        };
        match element {
            Element::Software(software) => counts(1, software.time),
            Element::Stm(own) => counts(1, own.time),
            Element::Itm(OwnElement::Event { time, .. }) => counts(1, *time),
            Element::Itm(OwnElement::LocalTimestamp { time, .. }) => {
                counts(0, Some(Time { value: *time, quality: TimeQuality::Relative }))
            }
            Element::Timestamp { value, .. } => Self { time: Some((*value, *value)), ..Self::default() },
            _ => counts(1, None),
        }
    }

    /// Adds others.
    pub(super) fn merge(&mut self, other: &Self) {
        self.written += other.written;
        self.time = joined(self.time, other.time);
        self.relative = joined(self.relative, other.relative);
    }
}

/// The range of both.
fn joined(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

impl Summary {
    pub(super) fn start(&mut self, trace: &Trace<'_>) {
        // A recording that was stopped and restarted may describe the same source under two names.
        let source = trace.source();
        self.sources.insert(source.id.map_or_else(|| source.name.clone(), |id| id.to_string()));
        self.buffer = trace.buffer_index();
        let clock = trace.clock();
        self.clock = Some(self.clock.unwrap_or(Some(clock)).filter(|known| *known == clock));
        (self.buffer_lost, self.source_bytes) = (0, 0);
    }

    /// Ends a source, with the number of P0 elements that are still speculative.
    pub(super) fn end(&mut self, speculative: u64, is_whole: bool) {
        self.bytes += self.source_bytes;
        let lost = self.lost.entry(self.buffer).or_default();
        *lost = self.buffer_lost.max(*lost);
        self.is_cut |= !is_whole;
        self.speculative += if is_whole { speculative } else { 0 };
    }

    /// Notes that --limit ended the listing.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Notes that the end of a trace, which reports its bytes, was not reached.
    pub(super) fn end_early(&mut self) {
        self.has_unknown_bytes = true;
    }

    /// Adds the counts of a whole trace.
    pub(super) fn add_trace(&mut self, trace: &Trace<'_>, counts: &Self, speculative: u64, is_whole: bool) {
        self.start(trace);
        self.merge(counts);
        self.end(speculative, is_whole);
    }

    /// Adds counts of later items.
    pub(super) fn merge(&mut self, later: &Self) {
        self.instructions += later.instructions;
        self.ranges += later.ranges;
        self.software.merge(&later.software);
        self.exceptions += later.exceptions;
        self.q = (self.q.0 + later.q.0, self.q.1 + later.q.1);
        self.time = joined(self.time, later.time);
        self.cycles = later.cycles.map(|cycles| self.cycles.unwrap_or(0) + cycles).or(self.cycles);
        self.skipped += later.skipped;
        self.missing.merge(&later.missing);
        self.without_address += later.without_address;
        self.disagreeing += later.disagreeing;
        later.findings.iter().for_each(|(name, count)| *self.findings.entry(name).or_default() += count);
        self.buffer_lost += later.buffer_lost;
        self.source_bytes = self.source_bytes.max(later.source_bytes);
    }

    fn add_time(&mut self, value: u64) {
        self.time = joined(self.time, Some((value, value)));
    }

    /// The first and the last time. Times of unknown start count only if there are no others.
    fn times(&self) -> Option<(u64, u64)> {
        joined(self.time, self.software.time).or(self.software.relative)
    }

    pub(super) fn item(&mut self, item: &FlowItem) {
        self.missing.add(item);
        match item.map(|item| item.value) {
            Ok(Item::Exception { .. }) => self.exceptions += 1,
            Ok(Item::Q { instructions, .. }) => {
                self.q.0 += 1;
                self.q.1 += u64::from(instructions.unwrap_or(0));
            }
            Ok(Item::Timestamp { value, .. }) => self.add_time(value),
            Ok(Item::CycleCount(Some(cycles))) => self.cycles = Some(self.cycles.unwrap_or(0) + u64::from(cycles)),
            Ok(Item::Lost { elements, cause: Cause::NoAddress }) => self.without_address += elements,
            Ok(Item::Lost { elements, cause: Cause::Disagreement }) => self.disagreeing += elements,
            Ok(Item::Finding(finding)) => *self.findings.entry(finding.name()).or_default() += 1,
            Ok(_) => {}
            Err(error) => self.skipped += error.skipped,
        }
    }

    /// A line of software trace.
    pub(super) fn software(&mut self, counts: &SoftwareCounts, error: Option<&ElementError>) {
        self.software.merge(counts);
        self.skipped += error.map_or(0, |error| error.skipped);
    }

    pub(super) fn lost(&mut self, error: &FrameError) {
        self.buffer_lost += error.skipped;
    }

    pub(super) fn bytes_read(&mut self, bytes: u64) {
        self.source_bytes = bytes;
    }

    /// Number of contradictions between trace and code.
    pub(super) fn findings(&self) -> u64 {
        self.findings.values().sum()
    }

    /// Adds the totals to the last line of JSON.
    pub(super) fn put_totals(&self, object: &mut Object<'_>) {
        object.plain("sources", self.sources.len()).plain("instructions", self.instructions);
        object.plain("ranges", self.ranges).plain("exceptions", self.exceptions);
        object.plain("q_elements", self.q.0).plain("q_instructions", self.q.1);
        if self.software.written > 0 {
            object.plain("written", self.software.written);
        }
        object.nullable("first_time", self.times().map(|(first, _)| first));
        object.nullable("last_time", self.times().map(|(_, last)| last));
        object.nullable("cycles", self.cycles);
        object.plain("bytes", self.bytes.saturating_sub(self.skipped)).plain("skipped", self.skipped);
        object.plain("lost", self.lost.values().sum::<u64>()).plain("findings", self.findings());
        object.plain("without_code", self.missing.elements()).plain("without_address", self.without_address);
        object.plain("after_mismatch", self.disagreeing).plain("speculative", self.speculative);
        object.flag("cut", self.is_cut);
    }

    pub(super) fn print(&self) {
        self.totals().iter().for_each(diagnostic::note);
        self.gaps().iter().for_each(diagnostic::warning);
        if !self.findings.is_empty() {
            let kinds = counted(self.findings.iter().map(|(name, count)| (name, *count)));
            let findings = many(self.findings(), "finding");
            diagnostic::error(format_args!("{findings} where the trace contradicts the code: {kinds}"));
        }
    }

    fn totals(&self) -> Vec<String> {
        let mut lines = vec![self.executed()];
        lines.extend(self.clock());
        lines.extend((!self.has_unknown_bytes).then(|| self.read()));
        lines
    }

    /// Parts of the execution that could not be decoded.
    fn gaps(&self) -> Vec<String> {
        let mut lines = self.missing.lines();
        let dropped = [
            (self.without_address, "dropped without a known address"),
            (self.disagreeing, "dropped after a trace/code mismatch"),
            (self.speculative, "still speculative at the end"),
        ];
        let dropped = dropped.iter().filter(|(elements, _)| *elements > 0);
        lines.extend(dropped.map(|(elements, why)| format!("{} {why}", many(*elements, "P0 element"))));
        lines
    }

    fn executed(&self) -> String {
        let software = match self.software.written {
            0 => String::new(),
            written if self.instructions == 0 => {
                let cut = if self.is_cut { "; stopped by --limit" } else { "" };
                let sources = many(self.sources.len() as u64, "source");
                return format!("{} of software trace, of {sources}{cut}", many(written, "element"));
            }
            written => format!(", {} of software trace", many(written, "element")),
        };
        let [instructions, ranges] = [many(self.instructions, "instruction"), many(self.ranges, "range")];
        let [exceptions, sources] = [many(self.exceptions, "exception"), many(self.sources.len() as u64, "source")];
        let q = match self.q {
            (0, _) => String::new(),
            (count, inside) => format!(", {} with {}", many(count, "Q element"), many(inside, "instruction")),
        };
        let cut = if self.is_cut { "; stopped by --limit" } else { "" };
        format!("{instructions} in {ranges}{q}, {exceptions}{software}, of {sources}{cut}")
    }

    fn clock(&self) -> Option<String> {
        let time = self.times().map(|(first, last)| {
            let nanoseconds = |time| self.clock.flatten()?.nanoseconds(time);
            let length = nanoseconds(last).zip(nanoseconds(first)).map(|(last, first)| last.saturating_sub(first));
            let seconds = length.map(|length| format!(", {}", seconds_text(length))).unwrap_or_default();
            format!("timestamps {first:#x} to {last:#x} ({} ticks{seconds})", grouped(last.wrapping_sub(first)))
        });
        let cycles = self.cycles.map(|cycles| format!("{} counted", many(cycles, "cycle")));
        let parts: Vec<String> = time.into_iter().chain(cycles).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn read(&self) -> String {
        // Bytes are read in chunks, of which a limit may need only a part.
        let done = if self.is_cut { "read" } else { "decoded" };
        let bytes = many(self.bytes.saturating_sub(self.skipped), "byte");
        let lost = self.lost.values().sum();
        format!("{bytes} {done}, {} skipped, {} lost", grouped(self.skipped), grouped(lost))
    }
}
