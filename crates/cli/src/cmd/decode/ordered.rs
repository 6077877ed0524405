//! Listing of many traces: decoded on several threads, in the order of the buffers, of time, of processes or of threads.
//!
//! traces ─▶ lanes ─▶ segments ─▶ **lines in one order**, the summary and the verdict
//!
//! In the order of time, a heading shows where the listing changes to another source, and which sources executed at the
//! same time as far as timestamps show. Processes and threads are collected in a temporary file first.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use unspool::analyze::step_selection::StepSelection;
use unspool::capture::Capture;
use unspool::coresight::Transactions;
use unspool::lines::Lines;
use unspool::order::{
    GroupFile, LaneReceiver, LaneSender, Merged, OpenLanes, OrderClock, Segment, TimeMerge, TimeWindow,
    have_same_clock, lanes_of, run_lanes,
};
use unspool::{PresentInBuffers, Trace};

use super::code::{CodeCache, Texts};
use super::form::Form;
use super::headings::{GroupKey, Headings, Place};
use super::segments::{Batch, Cuts, End, Lane, Listed, Options, Recorder};
use super::selection::Selection;
use super::software::SoftwareRecorder;
use super::software_lines::SoftwareStyle;
use super::summary::Summary;
use super::tagged::{Line, TaggedLines, write_lines};
use super::{Args, By, Emit, Session};
use crate::diagnostic;
use crate::listing::{Problems, Reading, heading};
use crate::output::Output;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Buffers up to this size are decoded ahead of the listing. The text of a larger one would not fit into a queue.
const SMALL: u64 = 256 << 10;

/// Total of the buffers that are decoded together, because a queue for each would cost more.
const VERY_SMALL: u64 = 16 << 10;

/// What is listed, and how it is decoded.
pub(super) struct Job<'j> {
    pub(super) args: &'j Args,
    pub(super) capture: &'j Capture,
    pub(super) traces: &'j [Trace<'j>],
    pub(super) programs: &'j Programs,
    pub(super) selection: &'j Selection,
    /// Addresses and levels that are listed.
    pub(super) within: &'j StepSelection,
    pub(super) style: SoftwareStyle<'j>,
    pub(super) lines: Option<&'j Lines>,
}

/// A job on several threads.
struct Work<'w> {
    job: &'w Job<'w>,
    /// Indices of traces.
    lanes: Vec<Vec<usize>>,
    /// Lanes are buffers, which are decoded before they are listed.
    is_ahead: bool,
    options: Options<'w>,
    present: PresentInBuffers,
    /// Sources whose timestamps cannot be compared with those of the others.
    untimed: BTreeSet<usize>,
}

thread_local! {
    /// Text of the code that the thread decoded last, and the core whose program it is of. A disassembler cannot change
    /// threads.
    static TEXTS: Cell<Option<(Option<usize>, Texts)>> = const { Cell::new(None) };
}

/// Lists traces in the order that was asked for.
pub(super) fn list(
    job: &Job<'_>,
    session: &mut Session<'_>,
    reading: &mut Reading,
    output: &mut Output,
) -> anyhow::Result<()> {
    // Without a selection, buffers have nothing to do with each other.
    let is_ahead = job.args.by == By::Core && job.selection.is_all();
    let is_merged = job.args.by != By::Core;
    let cuts = Cuts {
        at_timestamps: is_merged || job.selection.has_time(),
        at_owners: is_merged || job.selection.has_processes(),
    };
    if job.selection.has_processes() {
        note_left_out(job.traces);
    }
    let is_tagged = !job.args.listing.range.is_all();
    let (traces, selection) = (job.traces, job.selection);
    let within = job.within;
    let options = Options { traces, selection, within, cuts, is_tagged, bytes_read: AtomicU64::new(0) };
    let lanes = if is_ahead { buffers_of(traces) } else { lanes_of(traces) };
    let present = PresentInBuffers::new(job.capture);
    let untimed = if is_merged { other_clocks(job) } else { BTreeSet::new() };
    let work = Work { job, lanes, is_ahead, options, present, untimed };
    let open = if is_ahead { OpenLanes::InTurn } else { OpenLanes::All };
    let decode = |lane: usize, sender: &LaneSender<'_, Batch>| work.decode(lane, sender);
    run_lanes(work.lanes.len(), job.args.threads(), open, decode, |lanes| {
        let (tallies, noted) = (BTreeMap::new(), BTreeSet::new());
        let progress = Progress::new(output.on_terminal);
        let mut lister = Lister { work: &work, session, reading, output, tallies, progress, shown: None, noted };
        let listed = match job.args.by {
            By::Core if is_ahead => lister.by_buffer(lanes),
            By::Core => lister.by_trace(lanes),
            By::Time => lister.by_time(lanes),
            By::Process | By::Thread => lister.by_group(lanes),
        };
        lister.finish();
        if !selection.is_all() {
            // That nothing was executed by a process, or in a time, is an answer too.
            reading.add(Ok(Verdict::Clean));
        }
        listed
    })
}

/// Can a trace be read, and has it no instructions?
fn is_software(trace: &Trace<'_>) -> bool {
    !trace.has_instructions() && trace.features().is_ok()
}

/// Notes the sources that no process is known of.
fn note_left_out(traces: &[Trace<'_>]) {
    let software = traces.iter().filter(|trace| is_software(trace));
    let names: BTreeSet<&str> = software.map(|trace| trace.source().name.as_str()).collect();
    for name in names {
        diagnostic::note(format_args!("{name}: software trace belongs to no process: it is left out"));
    }
}

/// The sources whose timestamps count with another frequency than those of the first source with instructions. Reports
/// them.
fn other_clocks(job: &Job<'_>) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let first = job.traces.iter().find(|trace| trace.has_instructions()).or(job.traces.first());
    let Some(first) = first.filter(|_| job.selection.clock() == OrderClock::Trace) else { return found };
    for trace in job.traces.iter().filter(|trace| !have_same_clock(first, trace)) {
        if found.insert(trace.source_index()) {
            let [name, other] = [&trace.source().name, &first.source().name];
            diagnostic::warning(format_args!(
                "{name}: its timestamps are of another clock than those of {other}, so that its time is unknown"
            ));
        }
    }
    found
}

/// Indices of traces in lanes of one buffer, or of several that are very small.
fn buffers_of(traces: &[Trace<'_>]) -> Vec<Vec<usize>> {
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let (mut buffer, mut bytes) = (None, 0);
    for (index, trace) in traces.iter().enumerate() {
        let is_same = buffer.replace(trace.buffer_index()) == Some(trace.buffer_index());
        bytes += if is_same { 0 } else { trace.buffer().len() };
        match lanes.last_mut() {
            Some(lane) if is_same || bytes <= VERY_SMALL => lane.push(index),
            _ => {
                bytes = trace.buffer().len();
                lanes.push(vec![index]);
            }
        }
    }
    lanes
}

impl Work<'_> {
    /// Is a buffer decoded while it is listed?
    fn is_direct(&self, lane: usize) -> bool {
        let first = self.lanes.get(lane).and_then(|lane| self.job.traces.get(*lane.first()?));
        let is_large = first.is_some_and(|trace| trace.buffer().len() > SMALL);
        self.is_ahead && is_large
    }

    fn decode(&self, index: usize, sender: &LaneSender<'_, Batch>) {
        if self.is_direct(index) {
            return;
        }
        let mut lane = Lane::new(sender, &self.options);
        for index in self.lanes.get(index).into_iter().flatten().copied() {
            let Some(trace) = self.job.traces.get(index) else { continue };
            if !sender.is_wanted() {
                break;
            }
            if self.is_ahead {
                lane.start_over();
            }
            if !lane.has_ended() && self.may_be_listed(trace) {
                self.decode_trace(index, trace, &mut lane);
            } else if self.job.args.by == By::Core {
                lane.skip(index);
            }
        }
        lane.finish();
    }

    fn may_be_listed(&self, trace: &Trace<'_>) -> bool {
        let Job { selection, .. } = *self.job;
        let is_left_out = selection.has_processes() && is_software(trace);
        !is_left_out && selection.may_be_in(trace) && self.present.may_have(trace)
    }

    fn decode_software(&self, index: usize, trace: &Trace<'_>, lane: &mut Lane<'_>) {
        let clock = self.job.selection.clock();
        let is_comparable = !self.untimed.contains(&trace.source_index());
        let whole = if is_comparable { clock.window_of(trace) } else { TimeWindow::default() };
        let is_timed = is_comparable && clock == OrderClock::Trace;
        let mut recorder = SoftwareRecorder::new(lane, (index, *trace), self.job.style, whole, is_timed);
        let result = trace.elements(&mut recorder);
        recorder.finish(result);
    }

    fn decode_trace(&self, index: usize, trace: &Trace<'_>, lane: &mut Lane<'_>) {
        let Job { args, capture, programs, style, lines, .. } = *self.job;
        let palette = style.palette;
        let features = match trace.features() {
            Ok((features, _)) => features,
            Err(error) => return lane.fail(index, error),
        };
        if !trace.has_instructions() {
            return self.decode_software(index, trace, lane);
        }
        let core = Programs::core_of(capture, trace.source().core);
        let Some(program) = programs.loaded(capture, core) else { return };
        let mut texts = TEXTS.take().filter(|(of, _)| *of == core).map_or_else(Texts::new, |(_, texts)| texts);
        let json = args.listing.output.json;
        let cache = CodeCache::new(program, &mut texts, json, palette).with_lines(lines);
        let form = Form::new(json, trace, &features, cache, palette);
        let clock = self.job.selection.clock();
        let is_timed = !self.untimed.contains(&trace.source_index());
        let has_timestamps = features.timestamps && clock == OrderClock::Trace && is_timed;
        let whole = if is_timed { clock.window_of(trace) } else { TimeWindow::default() };
        let mut recorder = Recorder::new(lane, (index, *trace), form, whole, has_timestamps);
        let transactions = if args.hide_failed { Transactions::Resolve } else { Transactions::Show };
        let result = match args.emit {
            Emit::Instructions => trace.instructions_with_owners(transactions, program, &mut recorder),
            Emit::Ranges => trace.flow_with_owners(transactions, program, &mut recorder),
        };
        recorder.finish(result);
        TEXTS.set(Some((core, texts)));
    }
}

/// Counts of a trace whose segments are being listed.
#[derive(Debug, Default)]
struct Tally {
    summary: Summary,
    problems: Problems,
}

/// What was listed of a group.
#[derive(Debug, Default)]
struct Group {
    shown: Option<Place>,
    /// The last window of each lane.
    last: BTreeMap<usize, TimeWindow>,
}

impl Group {
    /// The lanes whose earlier segments in the group a segment overlaps.
    fn overlaps(&mut self, lane: usize, window: TimeWindow) -> Vec<usize> {
        let others = self.last.iter().filter(|(other, last)| **other != lane && last.overlaps(&window));
        let overlaps = others.map(|(other, _)| *other).collect();
        self.last.insert(lane, window);
        overlaps
    }
}

/// Consumer of the segments.
struct Lister<'l, 's> {
    work: &'l Work<'l>,
    session: &'l mut Session<'s>,
    reading: &'l mut Reading,
    output: &'l mut Output,
    /// Of the traces that have not ended.
    tallies: BTreeMap<usize, Tally>,
    progress: Progress,
    /// The last trace with a heading.
    shown: Option<usize>,
    /// Notes on traces that were reported. Buffers of one source have the same.
    noted: BTreeSet<String>,
}

impl Lister<'_, '_> {
    fn wants_more(&self) -> bool {
        self.output.is_open() && self.session.window.is_open()
    }

    /// Lists buffer after buffer.
    fn by_buffer(&mut self, lanes: Vec<LaneReceiver<Batch>>) -> anyhow::Result<()> {
        for (index, lane) in lanes.into_iter().enumerate() {
            if self.work.is_direct(index) {
                self.list_directly(index);
            }
            for Segment { contents, .. } in lane.flatten() {
                self.list(contents)?;
                if !self.wants_more() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Lists trace after trace, although those of one source are decoded together.
    fn by_trace(&mut self, lanes: Vec<LaneReceiver<Batch>>) -> anyhow::Result<()> {
        let mut lanes: Vec<_> = lanes.into_iter().map(Iterator::flatten).collect();
        let members = self.work.lanes.iter().enumerate();
        let lane_of: BTreeMap<usize, usize> =
            members.flat_map(|(lane, traces)| traces.iter().map(move |trace| (*trace, lane))).collect();
        for (trace, lane) in lane_of {
            for Segment { contents, .. } in lanes.get_mut(lane).into_iter().flatten() {
                let is_end = contents.trace == trace && contents.end.is_some();
                self.list(contents)?;
                if !self.wants_more() {
                    return Ok(());
                }
                if is_end {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Lists a segment, after a heading if it is the first of its trace.
    fn list(&mut self, contents: Listed) -> anyhow::Result<()> {
        let is_readable = !matches!(contents.end, Some(End::NotReadable(_) | End::Skipped));
        let is_listed = is_readable && (!contents.lines.is_empty() || self.work.is_ahead);
        if is_listed && self.shown.replace(contents.trace) != Some(contents.trace) {
            self.show_source(contents.trace);
        }
        self.write(&contents.lines)?;
        self.count(contents);
        Ok(())
    }

    /// Lists the traces of a large buffer while they are decoded.
    fn list_directly(&mut self, lane: usize) {
        let Job { capture, traces, programs, .. } = *self.work.job;
        for index in self.work.lanes.get(lane).into_iter().flatten() {
            let Some(trace) = traces.get(*index).filter(|trace| self.work.present.may_have(trace)) else { continue };
            let Some(program) = programs.loaded(capture, trace.source().core) else { continue };
            let core = Programs::core_of(capture, trace.source().core);
            self.reading.add(self.session.list(core, || program, trace, None, self.output));
        }
    }

    fn show_source(&mut self, trace: usize) {
        if let Some(trace) = self.work.job.traces.get(trace).filter(|_| !self.work.job.args.listing.output.json) {
            let palette = self.work.job.style.palette;
            self.output.write(|out| heading(trace, &palette, out));
        }
    }

    fn by_time(&mut self, lanes: Vec<LaneReceiver<Batch>>) -> anyhow::Result<()> {
        let names = self.lane_names();
        let headings = self.headings(&names);
        let mut shown = None;
        for Merged { lane, segment, overlaps } in merge(lanes) {
            let Segment { window, owner, contents } = segment;
            if !contents.lines.is_empty() {
                // A heading is no item; it is shown with the first line after it.
                let place = Place { trace: contents.trace, lane, owner, overlaps };
                let text = headings.segment(&mut shown, place, window);
                if self.session.window.shows() {
                    self.output.write(|out| out.write_all(text.as_bytes()));
                }
                self.write(&contents.lines)?;
            }
            self.count(contents);
            if !self.wants_more() {
                break;
            }
        }
        Ok(())
    }

    fn by_group(&mut self, lanes: Vec<LaneReceiver<Batch>>) -> anyhow::Result<()> {
        let by = self.work.job.args.by;
        let is_tagged = self.work.options.is_tagged;
        let names = self.lane_names();
        let headings = self.headings(&names);
        let mut groups: HashMap<GroupKey, Group> = HashMap::new();
        let mut file = GroupFile::new().context("cannot collect the lines of processes in a temporary file")?;
        for Merged { lane, segment, .. } in merge(lanes) {
            let Segment { window, owner, contents } = segment;
            if !contents.lines.is_empty() {
                let key = GroupKey::new(owner, by == By::Thread);
                let group = groups.entry(key).or_default();
                let place = Place { trace: contents.trace, lane, owner, overlaps: group.overlaps(lane, window) };
                let mut head = TaggedLines::new(is_tagged);
                head.push(Line::Mark, headings.segment(&mut group.shown, place, window).as_bytes());
                let written = file.append(key, head.bytes()).and_then(|()| file.append(key, contents.lines.bytes()));
                written.context("cannot write to a temporary file")?;
            }
            self.count(contents);
            if !self.output.is_open() {
                return Ok(());
            }
        }
        let (json, palette) = (self.work.job.args.listing.output.json, self.work.job.style.palette);
        file.each(|key, lines| {
            if self.session.window.shows() {
                let text = key.heading(json, &palette);
                self.output.write(|out| out.write_all(text.as_bytes()));
            }
            let written = write_lines(lines, is_tagged, &mut self.session.window, self.output);
            written.context("cannot read a temporary file")?;
            if !self.session.window.is_open() {
                self.session.summary.cut();
            }
            Ok(self.wants_more())
        })
    }

    /// Names of the sources of the lanes.
    fn lane_names(&self) -> Vec<String> {
        let Work { job, lanes, .. } = self.work;
        let name = |lane: &Vec<usize>| Some(job.traces.get(*lane.first()?)?.source().name.clone());
        lanes.iter().map(|lane| name(lane).unwrap_or_default()).collect()
    }

    fn headings<'h>(&self, names: &'h [String]) -> Headings<'h>
    where
        Self: 'h,
    {
        let Job { args, traces, selection, style: SoftwareStyle { palette, .. }, .. } = *self.work.job;
        Headings { traces, names, clock: selection.clock(), json: args.listing.output.json, palette }
    }

    fn write(&mut self, lines: &TaggedLines) -> anyhow::Result<()> {
        let is_tagged = self.work.options.is_tagged;
        if is_tagged {
            return Ok(write_lines(&mut lines.bytes(), is_tagged, &mut self.session.window, self.output)?);
        }
        self.output.write(|out| out.write_all(lines.bytes()));
        Ok(())
    }

    /// Counts what was listed.
    fn count(&mut self, listed: Listed) {
        self.progress.at(self.work.options.bytes_read.load(Ordering::Relaxed), 0);
        for note in listed.notes {
            if self.noted.insert(note.clone()) {
                diagnostic::note(note);
            }
        }
        let tally = self.tallies.entry(listed.trace).or_default();
        tally.summary.merge(&listed.summary);
        tally.problems.merge(listed.problems);
        if let Some(end) = listed.end {
            let tally = self.tallies.remove(&listed.trace).unwrap_or_default();
            self.end(listed.trace, &tally, end);
        }
    }

    fn end(&mut self, trace: usize, tally: &Tally, end: End) {
        let Some(trace) = self.work.job.traces.get(trace) else { return };
        let result = match end {
            End::NotReadable(error) => return self.reading.add(Err(error)),
            End::Skipped => return self.reading.add(Ok(Verdict::Clean)),
            End::Read(result) => result,
        };
        // A part of a trace need not be synchronized.
        let is_whole = self.session.window.is_open();
        let is_all = is_whole && self.work.job.selection.is_all();
        let speculative = result.as_ref().map_or(0, |speculative| *speculative);
        self.session.summary.add_trace(trace, &tally.summary, if is_all { speculative } else { 0 }, is_whole);
        self.reading.add(result.map(|_| {
            let verdict = tally.problems.verdict(trace, is_all);
            verdict.or(Verdict::of(tally.summary.findings() > 0))
        }));
    }

    /// Ends the traces of which not all was listed.
    fn finish(&mut self) {
        for (trace, tally) in std::mem::take(&mut self.tallies) {
            self.end(trace, &tally, End::Read(Ok(0)));
            self.session.summary.end_early();
        }
    }
}

fn merge(lanes: Vec<LaneReceiver<Batch>>) -> impl Iterator<Item = Merged<Listed>> {
    TimeMerge::new(lanes.into_iter().map(Iterator::flatten), |listed| listed.lines.is_empty())
}
