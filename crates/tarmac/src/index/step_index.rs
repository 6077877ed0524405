//! Index of the steps of any trace: the same file as that of a log, with instructions in place of lines.
//!
//! ```text
//! steps, cut where their reader can continue ─▶ records ─▶ summaries ─▶ checkpoints, tree of tables ─▶ file
//! file, a reader that continues at a checkpoint ─▶ the queries of an indexed log
//! ```
//!
//! The first segment starts with the trace, and each other one with an instruction, or with what precedes it. How a reader continues there is a few
//! bytes that only it understands. The summaries are made in order, each with the state before it. Knows no format.

use std::io::{Read, Seek, Write};
use std::ops::{ControlFlow, Range};

use unspool_model::{Event, Gap, SourceError, Step, TimeUnit};

use super::builder::Merge;
use super::checkpoint::Checkpoint;
use super::directory::{Directory, Segment, finish, start};
use super::query::{Before, Indexed, SegmentAt, Segments, segment_at};
use super::segment::Work;
use super::tree::Tree;
use super::{Fingerprint, Index, IndexError, IndexOptions, IndexResult, Totals};
use crate::dialect::Dialect;
use crate::lower::records::StepRecords;
use crate::record::Line;

/// The number of a step: that of the instruction, or of the next one. The state at an instruction includes no step after it.
pub(super) fn number_of(instructions: u64, is_instruction: bool) -> u64 {
    instructions + u64::from(!is_instruction)
}

/// Builds the index of steps.
pub struct StepIndexer<'f, S> {
    merge: Merge<'f, S>,
    options: IndexOptions,
    records: StepRecords,
    /// The current segment, and the number of its instructions.
    segment: Segment,
    work: Work,
    instructions: u32,
}

impl<'f, S: Read + Write + Seek> StepIndexer<'f, S> {
    /// Starts an index of steps with this unit of time.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn new(file: &'f mut S, fingerprint: Fingerprint, unit: TimeUnit) -> IndexResult<Self> {
        let end = start(file)?;
        let options = IndexOptions::of(Dialect::Other);
        let (totals, cores, segments, tree) = (Totals::default(), Vec::new(), Vec::new(), Tree::default());
        let directory = Directory { fingerprint, options, is_of_steps: true, totals, cores, segments, tree };
        let merge = Merge { file, end, directory, now: Checkpoint::default(), offset: 0 };
        let (records, work) = (StepRecords::new(unit), Work::new(merge.machine()));
        Ok(Self { merge, options, records, segment: Segment::default(), work, instructions: 0 })
    }

    /// Starts a segment with the next step, unless the current one has no instruction yet. `offset` is where it is in the
    /// trace, and `resume` is for the reader that continues there.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn cut(&mut self, offset: u64, resume: Vec<u8>) -> IndexResult<()> {
        if self.instructions == 0 {
            return Ok(());
        }
        self.end_segment()?;
        self.segment = Segment { offset, resume, contexts: self.records.contexts(), ..Segment::default() };
        self.work = Work::new(self.merge.machine());
        Ok(())
    }

    /// Takes the next step.
    ///
    /// # Errors
    ///
    /// If the file cannot be read: a call of the host may have its parameters in an earlier segment.
    pub fn step(&mut self, step: &Step) -> IndexResult<()> {
        let is_instruction = step.event.instruction().is_some();
        self.instructions = self.instructions.saturating_add(u32::from(is_instruction));
        self.segment.steps += 1;
        let number = number_of(self.instructions.into(), is_instruction) as u32;
        let Self { merge: Merge { file, directory, .. }, options, records, work, .. } = self;
        let mut before = Before::new(&mut **file, directory, directory.segments.len());
        records.each(step, |line| work.line(number, line, options, &mut before));
        before.failed.map_or(Ok(()), Err)
    }

    fn end_segment(&mut self) -> IndexResult<()> {
        let (segment, mut work) = (std::mem::take(&mut self.segment), std::mem::take(&mut self.work));
        work.set_lines(std::mem::take(&mut self.instructions));
        let mut summary = work.finish();
        summary.cores.iter_mut().for_each(|core| core.is_seeded = true);
        self.merge.push_summary(segment, summary)
    }

    /// Completes the index.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn finish(mut self) -> IndexResult<Totals> {
        if self.segment.steps > 0 {
            self.end_segment()?;
        }
        finish(self.merge.file, self.merge.end, &self.merge.directory)?;
        Ok(self.merge.directory.totals)
    }
}

/// Reader of steps that can continue at a checkpoint.
pub trait ResumeSteps {
    /// Passes on the steps from a segment on, until `take` breaks. A segment without bytes to continue with starts with the
    /// trace.
    ///
    /// # Errors
    ///
    /// If the steps cannot be read, or the checkpoint is not one of this trace.
    fn each_from(
        &mut self,
        at: &SegmentAt<'_>,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError>;
}

/// Segments of steps, as an indexed trace reads them.
#[derive(Debug)]
pub struct StepSegments<P> {
    reader: P,
    unit: TimeUnit,
}

impl<P: ResumeSteps> StepSegments<P> {
    /// Segments of the steps of a reader, which have this unit of time.
    pub fn new(reader: P, unit: TimeUnit) -> Self {
        Self { reader, unit }
    }
}

impl<P: ResumeSteps> Segments for StepSegments<P> {
    fn each_line(&mut self, at: &SegmentAt<'_>, sink: &mut dyn FnMut(u32, &Line<'_>) -> bool) -> IndexResult<()> {
        let mut records = StepRecords::new(self.unit);
        records.restore(at.contexts);
        let (mut count, mut left, mut wants_more) = (0_u32, at.steps, true);
        if left == 0 {
            return Ok(());
        }
        let read = self.reader.each_from(at, &mut |step| {
            let is_instruction = step.event.instruction().is_some();
            count = count.saturating_add(u32::from(is_instruction));
            let number = number_of(count.into(), is_instruction) as u32;
            records.each(step, |line| wants_more = wants_more && sink(number, line));
            left -= 1;
            if wants_more && left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match read {
            // Damage was there when the index was made, and ends the last segment.
            Err(error) if !error.is_damage => Err(IndexError::Log(std::io::Error::other(error))),
            _ => Ok(()),
        }
    }
}

/// Of this many segments, one is read in the time in which all are if they are read from the start.
const READ_AT_ONCE: usize = 32;

impl<S: Read + Seek> Index<S> {
    /// Whether so few segments have an instruction at one of these addresses that reading only them is faster than reading
    /// all.
    ///
    /// # Errors
    ///
    /// If the index cannot be read.
    pub fn has_few_near(&mut self, addresses: &[Range<u64>]) -> IndexResult<bool> {
        let count = self.directory.segments.len();
        Ok(self.segments_with(addresses, 0..count)?.len() <= count / READ_AT_ONCE)
    }
}

impl<P: ResumeSteps, S: Read + Seek> Indexed<StepSegments<P>, S> {
    /// Passes on the steps of the segments that have an instruction at one of these addresses, until `take` breaks, and those
    /// of the last segment, since damage of the trace shows only there. Where segments are left out, there is a gap, and then the
    /// context of each core.
    ///
    /// # Errors
    ///
    /// If the trace is damaged, or it or the index cannot be read.
    pub fn each_step_near(
        &mut self,
        addresses: &[Range<u64>],
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let Some(last) = self.index.directory.segments.len().checked_sub(1) else { return Ok(()) };
        let of_index = |error: IndexError| SourceError::unreadable(error);
        let mut segments = self.index.segments_with(addresses, 0..last).map_err(of_index)?;
        segments.push(last);
        for run in segments.chunk_by(|one, next| one + 1 == *next) {
            if self.each_step_of(run, last, take)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Passes on the steps from the start of the segment that has an instruction, until `take` breaks, each with the number of
    /// instructions up to and including it. The contexts of the cores at the start come first.
    ///
    /// # Errors
    ///
    /// If the trace is damaged, or it or the index cannot be read.
    pub fn each_step_from(
        &mut self,
        instruction: u64,
        take: &mut dyn FnMut(u64, &Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let Some(segment) = self.index.segment_of_line(instruction.max(1)) else { return Ok(()) };
        let Self { log: StepSegments { reader, .. }, index: Index { directory, .. } } = self;
        let mut count = directory.tree.node((0, segment)).map_or(0, |node| node.base);
        let at = segment_at(directory, segment);
        let mut step = Step::default();
        for (core, context) in (0..).zip(at.contexts) {
            (step.core, step.event) = (core, Event::Context(*context));
            if take(count, &step).is_break() {
                return Ok(());
            }
        }
        reader.each_from(&at, &mut |step| {
            count += u64::from(step.event.instruction().is_some());
            take(count, step)
        })
    }

    /// Passes on the steps of consecutive segments.
    fn each_step_of(
        &mut self,
        run: &[usize],
        last: usize,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, SourceError> {
        let Self { log: StepSegments { reader, .. }, index: Index { directory, .. } } = self;
        let Some(first) = run.first() else { return Ok(ControlFlow::Continue(())) };
        let at = segment_at(directory, *first);
        let mut flow = contexts_at(&at, take);
        let mut left = match run.contains(&last) {
            true => u64::MAX,
            false => run.iter().map(|segment| directory.segments[*segment].steps).sum(),
        };
        if left > 0 && flow.is_continue() {
            reader.each_from(&at, &mut |step| {
                flow = take(step);
                left -= 1;
                if left > 0 { flow } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(flow)
    }
}

/// Passes on the contexts of the cores at the start of a segment.
fn contexts_at(at: &SegmentAt<'_>, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> ControlFlow<()> {
    let mut step = Step::default();
    for (core, context) in (0..).zip(at.contexts) {
        step.core = core;
        for event in [Event::Gap(Gap::Start), Event::Context(*context)] {
            step.event = event;
            take(&step)?;
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::index::Index;

    #[test]
    fn the_index_of_a_log_is_not_one_of_steps() {
        let mut file = Cursor::new(Vec::new());
        let fingerprint = Fingerprint { length: 8, modified: 0, sum: 0 };
        StepIndexer::new(&mut file, fingerprint, TimeUnit::Unknown).unwrap().finish().unwrap();
        let index = Index::open(file).unwrap();
        assert!(index.is_of_steps(&fingerprint) && !index.is_of(&fingerprint, &IndexOptions::of(Dialect::Other)));
        assert!(!index.is_of_steps(&Fingerprint { sum: 1, ..fingerprint }));
    }
}
