//! Points from which the steps of a capture can be read.
//!
//! ```text
//! buffers ─▶ flow with points (resume.rs) ─▶ **steps, and points between them**
//! point ─▶ flow from there on, muted up to its first run ─▶ state of the emitter there ─▶ **the same steps**
//! ```
//!
//! A point is the start of a buffer, or is before the first instruction after a place where decoding can start. Whatever
//! decides about later steps and is not in the trace after it belongs to the point.

use std::ops::ControlFlow;
use std::sync::Arc;

use unspool_coresight::frame::SavedFrames;
use unspool_coresight::{TraceConfig, Transactions};
use unspool_flow::{Around, FlowItem, FlowSink, Instructions, Range, Run};
use unspool_model::{BlockSink, SourceError, Step};

use super::{CaptureSteps, StepEmitter};
use crate::order::Owners;
use crate::resume::{PointSink, StreamPoint};
use crate::watch::forward_watch;
use crate::window::ChunkStart;
use crate::{Error, PresentIds, Program, Trace, Watch};

/// Point from which steps can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CapturePoint {
    /// Index among the traces of the source.
    pub(super) trace: usize,
    /// Return address of the last exception.
    pub(super) interrupted: Option<u64>,
    /// `None`: the start of the buffer.
    pub(super) inside: Option<Inside>,
}

/// Point inside a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) at: StreamPoint,
    /// Time of steps other than instructions.
    pub(super) time: Option<u64>,
    /// Timestamp and cycles of instructions.
    pub(crate) timestamp: Option<u64>,
    pub(crate) cycles: Option<u64>,
}

/// Greatest number of bytes that a deformatter holds back.
const MAX_HELD: u64 = 1 << 20;
/// Greatest offset or count in a point: no buffer has more bytes.
const MAX_OFFSET: u64 = 1 << 56;

/// Number of numbers of any point, of a point inside a buffer, and of one inside a buffer with frames.
const OF_ALL: usize = 3;
const OF_INSIDE: usize = 9;

impl CapturePoint {
    /// The place in the buffer. `None`: the point is the start of a buffer.
    pub(crate) fn inside(&self) -> Option<Inside> {
        self.inside
    }

    /// All of it as numbers.
    pub(crate) fn to_numbers(self) -> Vec<u64> {
        let mut numbers = vec![self.trace as u64];
        push_optional(&mut numbers, self.interrupted);
        if let Some(Inside { at: StreamPoint { chunk, skip }, time, timestamp, cycles }) = self.inside {
            [time, timestamp, cycles].into_iter().for_each(|number| push_optional(&mut numbers, number));
            numbers.extend([chunk.read, chunk.position, skip]);
            numbers.extend(chunk.frames.iter().flat_map(SavedFrames::to_numbers));
        }
        numbers
    }

    /// The point that the numbers are. `None`: they are no point.
    pub(crate) fn from_numbers(numbers: &[u64]) -> Option<Self> {
        let (&[trace, interrupted, has_interrupted], rest) = numbers.split_first_chunk::<OF_ALL>()?;
        let (trace, interrupted) = (usize::try_from(trace).ok()?, optional([interrupted, has_interrupted]));
        if rest.is_empty() {
            return Some(Self { trace, interrupted, inside: None });
        }
        let (&[time, has_time, timestamp, has_timestamp, cycles, has_cycles, read, position, skip], frames) =
            rest.split_first_chunk::<OF_INSIDE>()?;
        let frames = match frames {
            [] => None,
            frames => Some(SavedFrames::from_numbers(frames.try_into().ok()?)?),
        };
        let is_held = |frames: SavedFrames| read.checked_sub(frames.offset()).is_some_and(|held| held <= MAX_HELD);
        if [read, position, skip].iter().any(|offset| *offset > MAX_OFFSET) || !frames.is_none_or(is_held) {
            return None;
        }
        let at = StreamPoint { chunk: ChunkStart { read, position, frames }, skip };
        let [time, timestamp, cycles] =
            [[time, has_time], [timestamp, has_timestamp], [cycles, has_cycles]].map(optional);
        Some(Self { trace, interrupted, inside: Some(Inside { at, time, timestamp, cycles }) })
    }
}

/// A number, and whether there is one.
fn push_optional(numbers: &mut Vec<u64>, number: Option<u64>) {
    numbers.extend([number.unwrap_or(0), u64::from(number.is_some())]);
}

fn optional([number, is_there]: [u64; 2]) -> Option<u64> {
    (is_there != 0).then_some(number)
}

/// Step, or a point before the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StepOrPoint<'s> {
    Step(&'s Step),
    Point(&'s CapturePoint),
}

type Take<'t> = &'t mut dyn FnMut(StepOrPoint<'_>) -> ControlFlow<()>;

impl CaptureSteps {
    /// Passes on all steps, and points between them that are at least `distance` instructions apart.
    pub(crate) fn each_with_points(&mut self, distance: u64, take: Take<'_>) -> Result<(), SourceError> {
        self.read_points(None, PointTake { take, distance, instructions: 0, trace: 0, is_muted: false })
    }

    /// Passes on the steps from a point on.
    pub(crate) fn each_from(
        &mut self,
        point: &CapturePoint,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let mut take_step = |item: StepOrPoint<'_>| match item {
            StepOrPoint::Step(step) => take(step),
            StepOrPoint::Point(_) => ControlFlow::Continue(()),
        };
        let take: Take<'_> = &mut take_step;
        self.read_points(
            Some(point),
            PointTake { take, distance: u64::MAX, instructions: 0, trace: 0, is_muted: false },
        )
    }

    fn read_points(&mut self, from: Option<&CapturePoint>, sink: PointTake<'_>) -> Result<(), SourceError> {
        let all = Trace::all(&self.capture);
        let mut emitter = StepEmitter::new(self.time_unit, sink);
        (emitter.bytes_read, emitter.core) = (Some(Arc::clone(&self.bytes_read)), self.core);
        emitter.interrupted = from.and_then(|point| point.interrupted);
        let mut present = PresentIds::default();
        let traces = self.traces.iter().filter_map(|at| all.get(*at)).enumerate();
        for (index, trace) in traces.skip(from.map_or(0, |point| point.trace)) {
            let here = from.filter(|point| point.trace == index);
            if here.is_none() && !present.may_have(trace) {
                continue;
            }
            emitter.start_of_buffer(index);
            emitter.start(trace);
            let decoded = read_buffer(trace, &self.program, here, &mut emitter);
            emitter.end();
            decoded.map_err(SourceError::unreadable)?;
            if emitter.flow.is_break() {
                break;
            }
        }
        self.losses = emitter.losses;
        Ok(())
    }

    /// Why no step but the first can be read by itself; `None`: some can be.
    pub(crate) fn why_no_points(&self) -> Result<Option<&'static str>, Error> {
        let all = Trace::all(&self.capture);
        let [only] = self.traces[..] else { return Ok(None) };
        let Some(trace) = all.get(only) else { return Ok(None) };
        let (config, _) = trace.config()?;
        Ok(match () {
            () if config.features().max_speculation > 0 => Some(
                "the trace unit speculates, and what it traces may be revoked later: the trace is read from its beginning",
            ),
            () if matches!(config, TraceConfig::Etm3(_)) => {
                Some("a synchronization of ETMv3 depends on what comes before it: the trace is read from its beginning")
            }
            () if !self.program.moments(trace)?.is_one() => {
                Some("code changes within the buffer: the trace is read from its beginning")
            }
            () => None,
        })
    }
}

/// Reads one buffer, from a point in it if there is one.
fn read_buffer(
    trace: &Trace<'_>,
    program: &Program,
    from: Option<&CapturePoint>,
    emitter: &mut StepEmitter<PointTake<'_>>,
) -> Result<(), Error> {
    let moments = program.moments(trace)?;
    let inside = from.and_then(|point| Some((point.inside?, point.interrupted)));
    if inside.is_none() && (emitter.join.is_some() || !trace.can_have_points(&moments)?) {
        return trace.instructions_with_owners(Transactions::Show, program, emitter).map(drop);
    }
    emitter.sink.is_muted = inside.is_some();
    let instructions = Instructions::new(Owners::new(&moments, emitter));
    let mut steps = PointSteps { instructions, found: None, restored: inside };
    trace.flow_with_points(&moments, inside.as_ref().map(|(inside, _)| &inside.at), &mut steps)
}

/// Sink of steps and points.
struct PointTake<'t> {
    take: Take<'t>,
    distance: u64,
    /// Number of instructions since the last point.
    instructions: u64,
    /// Index of the trace that is read.
    trace: usize,
    /// What precedes a point is decoded again, and not passed on.
    is_muted: bool,
}

impl BlockSink for PointTake<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        if self.is_muted {
            return ControlFlow::Continue(());
        }
        self.instructions += u64::from(step.event.instruction().is_some());
        (self.take)(StepOrPoint::Step(step))
    }
}

impl PointTake<'_> {
    fn wants_point(&self) -> bool {
        !self.is_muted && self.instructions >= self.distance
    }

    fn point(&mut self, interrupted: Option<u64>, inside: Option<Inside>) -> ControlFlow<()> {
        self.instructions = 0;
        (self.take)(StepOrPoint::Point(&CapturePoint { trace: self.trace, interrupted, inside }))
    }
}

impl StepEmitter<PointTake<'_>> {
    /// Nothing but the return address of an exception survives the end of a buffer.
    fn start_of_buffer(&mut self, trace: usize) {
        (self.sink.trace, self.sink.is_muted) = (trace, false);
        if self.sink.wants_point() && self.flow.is_continue() {
            self.flow = self.sink.point(self.interrupted, None);
        }
    }

    /// Adds a point before the next instruction, if the state there is one that the trace after it shows again.
    fn cut(&mut self, at: StreamPoint, around: &Around) {
        let context = self.traced.map(|traced| self.context_of(&traced));
        let is_shown = context.is_some() && self.context == context && around.context == self.traced;
        if is_shown && self.flow.is_continue() {
            let Around { timestamp, cycles, .. } = *around;
            self.flow = self.sink.point(self.interrupted, Some(Inside { at, time: self.time, timestamp, cycles }));
        }
    }

    /// Continues before the first instruction after a point.
    fn restore(&mut self, inside: &Inside, interrupted: Option<u64>, position: u64) {
        if let Some(traced) = self.traced {
            self.context(position, &traced);
        }
        (self.time, self.interrupted) = (inside.time, interrupted);
        self.sink.is_muted = false;
    }
}

/// Steps of one buffer, with points between them, or from a point on.
struct PointSteps<'e, 'p, 't> {
    instructions: Instructions<Owners<'e, 'p, StepEmitter<PointTake<'t>>>>,
    /// A point was found: it is before the next run.
    found: Option<StreamPoint>,
    /// The point that reading starts from, up to its first run, with the return address of the last exception.
    restored: Option<(Inside, Option<u64>)>,
}

impl PointSteps<'_, '_, '_> {
    /// A run that follows a point. What waits for it precedes the point.
    #[inline(never)]
    fn first_run(&mut self, first: &Range<'_>, offset: u64) {
        let Self { instructions, found, restored } = self;
        instructions.settle(Some(first.start()));
        let around = *instructions.around();
        let steps = instructions.sink().sink();
        if steps.is_holding() {
            steps.continue_at(Some(first.start()));
        }
        if let Some((inside, interrupted)) = restored.take() {
            steps.restore(&inside, interrupted, offset);
            let Inside { timestamp, cycles, .. } = inside;
            instructions.set_around(Around { timestamp, cycles, ..around });
        } else if let Some(at) = found.take() {
            steps.cut(at, &around);
        }
    }
}

impl FlowSink for PointSteps<'_, '_, '_> {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        if (self.found.is_some() || self.restored.is_some())
            && let Some(first) = run.ranges().next().filter(|range| range.instructions() > 0)
        {
            self.first_run(&first, run.offset());
        }
        self.instructions.run(run);
    }

    fn item(&mut self, item: FlowItem) {
        self.instructions.item(item);
    }
}

impl PointSink for PointSteps<'_, '_, '_> {
    fn wants_point(&mut self) -> bool {
        self.found.is_none() && self.instructions.sink().sink().sink.wants_point()
    }

    fn point(&mut self, point: StreamPoint) {
        self.found = Some(point);
    }
}

impl Watch for PointSteps<'_, '_, '_> {
    forward_watch!(self => self.instructions);
}
