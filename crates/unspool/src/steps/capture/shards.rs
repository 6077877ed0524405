//! Shards of a source of a capture, each read by a process of its own.
//!
//! ```text
//! buffers ─▶ synchronizations, not decoded ─▶ CaptureShard: a start, and the starts of the next shards
//! shard ─▶ blocks from its start on ─▶ up to the next start where **both decoders arrive at the same state** ─▶ ShardEnd
//! ```
//!
//! A decoder that starts at a synchronization is muted up to the first block after it. The decoder of the shard before
//! continues up to that block, and ends there only if a decoder that starts at the synchronization arrives at the same entry
//! and in the same context. Otherwise it reads the next shard too, which is then read for nothing. What a shard cannot
//! know is the time at its start: it is [`Carried`] from the shards before.

use std::ops::ControlFlow;
use std::sync::Arc;

use unspool_coresight::TraceConfig;
use unspool_coresight::frame::FrameError;
use unspool_flow::{FlowItem, FlowSink, Run};
use unspool_model::{BlockSink, BlockTrace, SourceError, Step};

use super::passes::is_in_order;
use super::{BlockBatch, BlockEmitter, CapturePoint, CaptureSteps, Inside, StepEmitter};
use crate::resume::{Cuts, PointSink, StreamPoint};
use crate::{Error, PresentIds, Program, Trace, Watch};

/// Starts that are tried as the end of a shard. If all of them fail, it continues to the end of the source.
const ENDS: usize = 16;

/// Part of a source of a capture that is read by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureShard {
    start: CapturePoint,
    /// Starts of the next shards.
    ends: Vec<CapturePoint>,
}

/// Times at the start of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Time of steps other than instructions.
    pub time: Option<u64>,
    /// Time of instructions.
    pub timestamp: Option<u64>,
}

/// Where a shard ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardEnd {
    /// The number of shards that it consists of; `None`: it is the rest of the source.
    pub shards: Option<usize>,
    /// The times there, as far as the shard has any since the start of its last buffer.
    pub carried: Carried,
    /// Its end is in a buffer that started in the shard.
    pub is_other_buffer: bool,
}

impl ShardEnd {
    /// The times at its end, if these are the ones at its start.
    pub fn carry(&self, before: &Carried) -> Carried {
        let before = if self.is_other_buffer { Carried::default() } else { *before };
        Carried { time: self.carried.time.or(before.time), timestamp: self.carried.timestamp.or(before.timestamp) }
    }
}

impl CaptureShard {
    /// All of it as numbers: the start, and the starts of the next shards.
    pub fn to_numbers(&self) -> Vec<Vec<u64>> {
        [&self.start].into_iter().chain(&self.ends).map(|point| point.to_numbers()).collect()
    }

    /// The shard that the numbers are. `None`: they are no shard.
    pub fn from_numbers(numbers: &[Vec<u64>]) -> Option<Self> {
        let points = numbers.iter().map(|numbers| CapturePoint::from_numbers(numbers));
        let points: Vec<CapturePoint> = points.collect::<Option<_>>()?;
        let (start, ends) = points.split_first()?;
        Some(Self { start: *start, ends: ends.to_vec() })
    }
}

impl CaptureSteps {
    /// Splits the source into shards of about this many bytes, in order. `None`: it can only be read from its beginning.
    ///
    /// # Errors
    ///
    /// If a buffer cannot be read.
    pub fn shards(&self, bytes: u64) -> Result<Option<Vec<CaptureShard>>, Error> {
        let bytes = bytes.max(1);
        let (mut points, mut present, mut since) = (Vec::new(), PresentIds::default(), u64::MAX);
        for (index, trace) in self.all_traces().iter().enumerate().filter(|(_, trace)| present.may_have(trace)) {
            if !self.is_shardable(trace)? {
                return Ok(None);
            }
            if since >= bytes {
                points.push(CapturePoint { trace: index, interrupted: None, inside: None });
                since = 0;
            }
            let inside = |at| Some(Inside { at, time: None, timestamp: None, cycles: None });
            since = trace.synchronizations(since, bytes, &mut |at| {
                points.push(CapturePoint { trace: index, interrupted: None, inside: inside(at) });
            })?;
        }
        let shard = |first: usize| {
            let next = points.iter().skip(first + 1).take(ENDS);
            Some(CaptureShard { start: *points.get(first)?, ends: next.copied().collect() })
        };
        Ok((0..points.len()).map(shard).collect())
    }

    /// Passes on the blocks and steps of a shard, from a start with these times on.
    ///
    /// # Errors
    ///
    /// If a buffer cannot be read.
    pub fn follow_shard(
        &mut self,
        shard: &CaptureShard,
        carried: &Carried,
        sink: &mut dyn BlockSink,
    ) -> Result<ShardEnd, SourceError> {
        let mut emitter = StepEmitter::new(self.time_unit, ShardSink { sink, is_muted: false });
        (emitter.bytes_read, emitter.core) = (Some(Arc::clone(&self.bytes_read)), self.core);
        let (mut batch, mut present, mut ended) = (BlockBatch::default(), PresentIds::default(), None);
        let mut end = ShardEnd::default();
        for (index, trace) in self.all_traces().iter().enumerate().skip(shard.start.trace) {
            let is_first = index == shard.start.trace;
            end.is_other_buffer |= !is_first || shard.start.inside.is_none();
            let is_next = |point: &CapturePoint| !is_first && point.trace == index && point.inside.is_none();
            if let Some(next) = shard.ends.iter().position(is_next) {
                end.shards = Some(next + 1);
                break;
            }
            if !is_first && !present.may_have(trace) {
                continue;
            }
            let here = shard.start.inside.filter(|_| is_first);
            let restored = here.map(|inside| Inside { time: carried.time, timestamp: carried.timestamp, ..inside });
            emitter.start(trace);
            emitter.sink.is_muted = restored.is_some();
            let ends = (0..).zip(&shard.ends).filter(|(_, point)| point.trace == index);
            let ends = ends.filter_map(|(at, point)| Some((at, point.inside?.at))).collect();
            let mut blocks = ShardBlocks {
                emitter: BlockEmitter { steps: &mut emitter, batch: &mut batch },
                restored,
                ends,
                found: None,
                ended: None,
            };
            let decoded = blocks.read(trace, &self.program, here.map(|inside| inside.at).as_ref());
            ended = ended.or(blocks.ended);
            if let Some(at) = ended {
                end.shards = Some(at + 1);
                end.carried = Carried { time: emitter.time, timestamp: batch.around.timestamp };
                break;
            }
            BlockEmitter { steps: &mut emitter, batch: &mut batch }.end();
            emitter.end();
            decoded.map_err(SourceError::unreadable)?;
            if emitter.flow.is_break() {
                break;
            }
        }
        self.losses.add_all(&emitter.losses);
        Ok(end)
    }

    fn all_traces(&self) -> Vec<Trace<'_>> {
        let all = Trace::all(&self.capture);
        self.traces.iter().filter_map(|at| all.get(*at).copied()).collect()
    }

    /// Whether reading can start inside a buffer, with nothing but the times of the trace before it.
    fn is_shardable(&self, trace: &Trace<'_>) -> Result<bool, Error> {
        let mut steps = StepEmitter::new(self.time_unit, |_: &Step| ControlFlow::Continue(()));
        steps.start(trace);
        // A synchronization of ETMv3 depends on what comes before it.
        let synchronizes = !matches!(trace.config()?.0, TraceConfig::Etm3(_));
        let can_be_sharded = trace.can_have_points(&self.program.moments(trace)?)?;
        Ok(synchronizes && can_be_sharded && !is_in_order(&self.program, &steps))
    }
}

/// Sink of a shard.
struct ShardSink<'s> {
    sink: &'s mut dyn BlockSink,
    /// What precedes the first block belongs to the shard before.
    is_muted: bool,
}

impl BlockSink for ShardSink<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        if self.is_muted { ControlFlow::Continue(()) } else { self.sink.step(step) }
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        if self.is_muted { ControlFlow::Continue(()) } else { self.sink.blocks(trace) }
    }
}

/// Blocks of one buffer, from the start of a shard to its end.
struct ShardBlocks<'e, 's> {
    emitter: BlockEmitter<'e, ShardSink<'s>>,
    /// The start, up to the first block after it.
    restored: Option<Inside>,
    /// Starts of next shards in this buffer, with their indices.
    ends: Vec<(usize, StreamPoint)>,
    /// A next shard starts before the next block, if that is in a context that is known.
    found: Option<usize>,
    /// The shard ended before the next one with this index.
    ended: Option<usize>,
}

impl ShardBlocks<'_, '_> {
    fn read(&mut self, trace: &Trace<'_>, program: &Program, from: Option<&StreamPoint>) -> Result<(), Error> {
        let ends: Vec<StreamPoint> = self.ends.iter().map(|(_, point)| *point).collect();
        trace.flow_with_cuts(&program.moments(trace)?, from, Cuts::At(&ends), self)
    }

    /// The first block after a start. What waits for it precedes the start.
    #[inline(never)]
    fn first_block(&mut self, address: u64, offset: u64) {
        self.emitter.settle(address);
        let BlockEmitter { steps, batch } = &mut self.emitter;
        if let Some(inside) = self.restored.take() {
            if let Some(traced) = steps.traced {
                steps.context(offset, &traced);
            }
            (steps.time, batch.around.timestamp) = (inside.time, inside.timestamp);
            steps.sink.is_muted = false;
        } else if let Some(next) = self.found.take() {
            let context = steps.traced.map(|traced| steps.context_of(&traced));
            let is_known = context.is_some() && steps.context == context && batch.around.context == steps.traced;
            self.ended = is_known.then_some(next);
        }
    }
}

impl FlowSink for ShardBlocks<'_, '_> {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        if (self.found.is_some() || self.restored.is_some())
            && let Some(first) = run.ranges().next().filter(|range| range.instructions() > 0)
        {
            self.first_block(first.start(), run.offset());
        }
        if self.ended.is_none() {
            self.emitter.run(run);
        }
    }

    fn item(&mut self, item: FlowItem) {
        if self.ended.is_none() {
            self.emitter.item(item);
        }
    }
}

impl PointSink for ShardBlocks<'_, '_> {
    fn wants_point(&mut self) -> bool {
        self.found.is_none() && self.restored.is_none() && self.ended.is_none()
    }

    fn point(&mut self, point: StreamPoint) {
        let is_it = |(_, end): &&(usize, StreamPoint)| (end.chunk.read, end.skip) == (point.chunk.read, point.skip);
        self.found = self.ends.iter().find(is_it).map(|(index, _)| *index);
    }
}

impl Watch for ShardBlocks<'_, '_> {
    fn lost(&mut self, error: FrameError) {
        if self.ended.is_none() {
            self.emitter.lost(error);
        }
    }

    fn wants_more(&mut self) -> bool {
        self.ended.is_none() && self.emitter.wants_more()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.emitter.progress(read, total);
    }
}
