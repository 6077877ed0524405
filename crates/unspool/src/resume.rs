//! Points inside a buffer where decoding can start, with the same result as from the start of the buffer.
//!
//! ```text
//! chunk ─▶ synchronizations ─▶ decoded up to the first address, by the decoder and by one that starts there
//!          └─▶ both arrive at the same entry ─▶ **point**
//! point ─▶ frames as they were before its chunk ─▶ the bytes of the source from the synchronization on ─▶ flow
//! ```
//!
//! From a point on, chunks are those of a reader that started at the beginning, since bytes without a frame are reported
//! between chunks. What comes before the first run after a point may differ: who resumes there leaves it out. Does not know
//! steps.

use unspool_coresight::frame::Stream;
use unspool_coresight::{DecodePackets as _, InstructionDecoders, Located, Transactions, with_instruction_decoders};
use unspool_flow::{Entry, FlowDecoder, FlowItem, FlowSink, Item, Run};

use crate::indexed_steps::CaptureStart;
use crate::parallel::{Decoder, HEAD, first_entry};
use crate::program::{Moment, Moments};
use crate::steps::Inside;
use crate::watch::forward_watch;
use crate::window::{ChunkStart, Reader, SourceBytes};
use crate::{Error, Program, Trace, Watch};

/// Point inside a buffer where decoding can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamPoint {
    /// The chunk that it is in.
    pub(crate) chunk: ChunkStart,
    /// Bytes of the source in this chunk before it.
    pub(crate) skip: u64,
}

/// Sink of a flow that collects points.
pub(crate) trait PointSink: FlowSink + Watch {
    /// Whether the next point is wanted.
    fn wants_point(&mut self) -> bool;

    /// Decoding can start at a point: from the next run on, what follows is the same.
    fn point(&mut self, point: StreamPoint);
}

impl Trace<'_> {
    /// Whether decoding can start inside the buffer: not if code changes, or later elements can revoke earlier ones.
    pub(crate) fn can_have_points(&self, moments: &Moments<'_>) -> Result<bool, Error> {
        Ok(moments.is_one() && self.can_be_sharded(Transactions::Show)?)
    }

    /// As [`flow_at`](Trace::flow_at), from the start of the buffer with points, or from a point.
    pub(crate) fn flow_with_points(
        &self,
        moments: &Moments<'_>,
        from: Option<&StreamPoint>,
        sink: &mut impl PointSink,
    ) -> Result<(), Error> {
        let cuts = if from.is_none() { Cuts::Everywhere } else { Cuts::At(&[]) };
        self.flow_with_cuts(moments, from, cuts, sink)
    }

    /// The same, with points at these synchronizations.
    pub(crate) fn flow_with_cuts(
        &self,
        moments: &Moments<'_>,
        from: Option<&StreamPoint>,
        cuts: Cuts<'_>,
        sink: &mut impl PointSink,
    ) -> Result<(), Error> {
        let source = self.open_source_at(from.map(|point| &point.chunk))?;
        with_instruction_decoders!(self.config()?.0, config => {
            let mut reader = PointReader::new(config, moments.first());
            let read = reader.read(source, from, cuts, sink);
            reader.end(self.buffer().len(), sink);
            read
        }, _ => Err(self.no_instructions()?))
    }

    /// Passes on synchronizations at least `distance` bytes of the source apart, without decoding. `since`: bytes from the
    /// one before to the start of the buffer; returns those to its end.
    pub(crate) fn synchronizations(
        &self,
        since: u64,
        distance: u64,
        take: &mut impl FnMut(StreamPoint),
    ) -> Result<u64, Error> {
        let mut source = self.open_source()?;
        let (mut next, mut is_last) = (distance.saturating_sub(since), false);
        let config = self.config()?.0;
        while !is_last {
            let start = source.chunk_start();
            is_last = !source.read_chunk()?;
            source.lost().for_each(drop);
            let window = source.stream();
            if let Some(chunk) = start {
                with_instruction_decoders!(&config, config => {
                    while let Some(skip) = synchronization(config, window.bytes(), next.saturating_sub(chunk.position)) {
                        take(StreamPoint { chunk, skip });
                        next = chunk.position + skip + distance;
                    }
                }, _ => return Err(self.no_instructions()?));
            }
            skip_bytes(window, window.bytes().len());
        }
        let end = source.stream().end();
        Ok((end + distance).saturating_sub(next))
    }
}

/// The first synchronization in a chunk from an index on, with enough bytes after it for a decoder to find its state.
fn synchronization<C: InstructionDecoders>(_: &C, bytes: &[u8], from: u64) -> Option<u64> {
    let index = C::next_start(bytes, usize::try_from(from).ok()?)?;
    (index + HEAD <= bytes.len()).then_some(index as u64)
}

/// Skips bytes of a window, and the breaks in them.
fn skip_bytes(window: &mut Stream, count: usize) {
    window.consume(count);
    while window.next_break().is_some_and(|here| here <= window.start()) {
        window.pass_break();
    }
}

/// Where a reader looks for points.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cuts<'c> {
    /// At every synchronization.
    Everywhere,
    /// At these.
    At(&'c [StreamPoint]),
}

impl Cuts<'_> {
    /// Positions in the window of the points in a chunk, in order.
    fn of<C: InstructionDecoders>(self, window: &Stream, chunk: &ChunkStart) -> Vec<u64> {
        let starts = match self {
            Self::Everywhere => synchronizations::<C>(window, chunk.position),
            Self::At(points) => {
                let here = points.iter().filter(|point| point.chunk.read == chunk.read);
                here.map(|point| chunk.position.saturating_add(point.skip)).collect()
            }
        };
        starts.into_iter().filter(|start| (window.start()..window.end()).contains(start)).collect()
    }
}

impl Trace<'_> {
    /// As [`flow`](Trace::flow), from a start that an index has. Of what precedes it, the sink gets the context, the address
    /// map, the time and the cycles.
    ///
    /// # Errors
    ///
    /// If the buffer cannot be read.
    pub fn flow_from(
        &self,
        start: &CaptureStart,
        program: &Program,
        sink: &mut (impl FlowSink + Watch),
    ) -> Result<(), Error> {
        let Some(start) = start.point.inside() else {
            return self.flow(Transactions::Show, program, sink).map(drop);
        };
        let mut from_start = FromStart { sink, start: Some(start) };
        self.flow_with_points(&program.moments(self)?, Some(&start.at), &mut from_start)
    }
}

/// Greatest number of cycles at a start: a number that was forged must not take forever.
const MAX_CYCLES: u64 = 1 << 52;

/// Leaves out what precedes the first run after a start.
struct FromStart<'s, S> {
    sink: &'s mut S,
    /// `None`: the run was reached.
    start: Option<Inside>,
}

impl<S: FlowSink> FromStart<'_, S> {
    fn begin(&mut self, start: &Inside, offset: u64) {
        let mut item = |value| self.sink.item(Ok(Located { offset, length: 0, value }));
        if let Some(value) = start.timestamp {
            item(Item::Timestamp { value, cycles: None });
        }
        let mut left = start.cycles.map(|cycles| cycles.min(MAX_CYCLES));
        while let Some(cycles) = left {
            let count = u32::try_from(cycles).unwrap_or(u32::MAX);
            item(Item::CycleCount(Some(count)));
            left = Some(cycles - u64::from(count)).filter(|left| *left > 0);
        }
    }
}

impl<S: FlowSink> FlowSink for FromStart<'_, S> {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        if let Some(start) = self.start {
            if run.instructions() == 0 {
                return;
            }
            self.begin(&start, run.offset());
            self.start = None;
        }
        self.sink.run(run);
    }

    fn item(&mut self, item: FlowItem) {
        let is_state = matches!(item.map(|item| item.value), Ok(Item::Context(_) | Item::Map(_)));
        if self.start.is_none() || is_state {
            self.sink.item(item);
        }
    }
}

impl<S: FlowSink + Watch> PointSink for FromStart<'_, S> {
    fn wants_point(&mut self) -> bool {
        false
    }

    fn point(&mut self, _point: StreamPoint) {}
}

impl<S: Watch> Watch for FromStart<'_, S> {
    forward_watch!(self => self.sink);
}

/// Reads a stream and looks for points.
struct PointReader<'p, C: InstructionDecoders> {
    config: C,
    moment: Moment<'p>,
    packets: Reader<C::Packets>,
    flow: Decoder<'p, C>,
    /// Starts at synchronizations.
    probe: Decoder<'p, C>,
}

impl<'p, C: InstructionDecoders> PointReader<'p, C> {
    fn new(config: C, moment: Moment<'p>) -> Self {
        let decoder = || {
            let code = moment.program().take_known(config.flow_rules());
            FlowDecoder::with_code(&config, Transactions::Show, moment, code)
        };
        Self { config, moment, packets: Reader::new(config.packets()), flow: decoder(), probe: decoder() }
    }

    fn read(
        &mut self,
        mut source: SourceBytes<'_>,
        from: Option<&StreamPoint>,
        cuts: Cuts<'_>,
        sink: &mut impl PointSink,
    ) -> Result<(), Error> {
        let mut skip = from.map(|point| point.skip);
        loop {
            let start = source.chunk_start();
            let last = !source.read_chunk()?;
            if let Some(count) = skip.take() {
                self.start_after(source.stream(), count);
            }
            self.chunk(source.stream(), (start, cuts), last, sink);
            source.lost().for_each(|error| sink.lost(error));
            sink.bytes_read(from.map_or(0, |point| point.chunk.position) + source.stream().start());
            sink.progress(source.read, source.length);
            if last || !sink.wants_more() {
                return Ok(());
            }
        }
    }

    /// Starts after this many bytes of the first chunk.
    fn start_after(&mut self, window: &mut Stream, count: u64) {
        skip_bytes(window, usize::try_from(count).unwrap_or(usize::MAX));
        self.packets.decoder.resync_at(window.start());
    }

    /// Decodes a window to which a chunk was added. Points are looked for where it is cut.
    fn chunk(
        &mut self,
        window: &mut Stream,
        (start, cuts): (Option<ChunkStart>, Cuts<'_>),
        last: bool,
        sink: &mut impl PointSink,
    ) {
        let points = start.map_or_else(Vec::new, |start| cuts.of::<C>(window, &start));
        let mut pieces = match cuts {
            Cuts::Everywhere => split_at(window, &points),
            Cuts::At(_) => split_at(window, &with_even_cuts(window, &points)),
        };
        while let Some(piece) = pieces.pop() {
            self.packets.decode(window, false, &mut self.flow.decoding(sink));
            if !sink.wants_more() {
                return;
            }
            match start.filter(|_| points.binary_search(&piece.start()).is_ok()) {
                Some(start) => self.piece(window, piece, start, sink),
                None => window.append(&piece),
            }
        }
        self.packets.decode(window, last, &mut self.flow.decoding(sink));
    }

    /// Adds the next piece to the window, which has been decoded.
    fn piece(&mut self, window: &mut Stream, mut piece: Stream, chunk: ChunkStart, sink: &mut impl PointSink) {
        let found = if sink.wants_point() { self.entry(&piece) } else { None };
        let Some((length, entry)) = found else { return window.append(&piece) };
        let synchronization = piece.start();
        let rest = piece.split_off(synchronization + length);
        window.append(&piece);
        self.packets.decode(window, false, &mut self.flow.decoding(sink));
        let decoder = &self.packets.decoder;
        let is_there = decoder.is_between_packets() && decoder.offset() == synchronization + length;
        if is_there && self.flow.entry() == Some(entry) {
            sink.point(StreamPoint { chunk, skip: synchronization - chunk.position });
        }
        window.append(&rest);
    }

    /// The entry of a decoder that starts with a piece, and the number of bytes up to there. `None`: blocks come before it,
    /// and one who resumes there would take the first of them for the one after the point.
    fn entry(&mut self, piece: &Stream) -> Option<(u64, Entry<C::Committed>)> {
        let up_to_break = piece.next_break().map_or(u64::MAX, |here| here - piece.start());
        let length = piece.bytes().len().min(HEAD).min(usize::try_from(up_to_break).unwrap_or(usize::MAX));
        self.probe.restart();
        let mut blocks = Blocks::default();
        let found = first_entry(&self.config, &mut self.probe, &piece.bytes()[..length], &mut blocks);
        found.filter(|_| !blocks.has_any)
    }

    fn end(self, offset: u64, sink: &mut impl PointSink) {
        let Self { moment, mut flow, probe, .. } = self;
        flow.finish(offset, sink);
        [flow, probe].into_iter().for_each(|decoder| moment.program().keep_known(decoder.into_code()));
    }
}

/// Whether there are blocks in a flow.
#[derive(Default)]
struct Blocks {
    has_any: bool,
}

impl FlowSink for Blocks {
    fn run(&mut self, run: Run<'_>) {
        self.has_any |= run.instructions() > 0;
    }

    fn item(&mut self, _item: FlowItem) {}
}

/// Bytes of trace after which a reader that resumes at a point asks whether more is wanted: few instructions are.
const PIECE: usize = 4096;

/// Positions of the synchronizations of a window, at or after one.
fn synchronizations<C: InstructionDecoders>(window: &Stream, from: u64) -> Vec<u64> {
    let (bytes, mut starts) = (window.bytes(), Vec::new());
    let mut next = usize::try_from(from.saturating_sub(window.start())).unwrap_or(usize::MAX);
    while let Some(index) = C::next_start(bytes, next) {
        starts.push(window.start() + index as u64);
        next = index + 1;
    }
    starts
}

/// Positions in order, with others between them: at most a piece apart, and a decoder has a piece to find its state in.
fn with_even_cuts(window: &Stream, points: &[u64]) -> Vec<u64> {
    let (mut all, mut last) = (Vec::new(), window.start());
    for point in points.iter().copied().chain([window.end()]) {
        all.extend((1..).map(|count| last + count * PIECE as u64).take_while(|position| *position < point));
        all.extend([point].into_iter().filter(|point| *point < window.end()));
        last = point;
    }
    all
}

/// Leaves the part of a window before the first position. The pieces after it start with one each; the last is the first.
fn split_at(window: &mut Stream, positions: &[u64]) -> Vec<Stream> {
    positions.iter().rev().map(|start| window.split_off(*start)).collect()
}
