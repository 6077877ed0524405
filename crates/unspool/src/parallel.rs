//! One source decoded on several cores, with the output of one.
//!
//! window ─▶ segments ─▶ (workers) each to a sink of its own ─▶ sinks in order
//!
//! A stream is cut where an alignment synchronisation and a trace info stand: what follows relies on little of what came
//! before. Each segment is decoded as if nothing had come before. At the seam the beginning of the segment is decoded
//! once more, by a decoder that went on from the segment before; only if both arrive at the same entry does the result
//! count. Otherwise the segment is decoded again, in order. So the output cannot depend on the number of cores.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use unspool_coresight::Take;
use unspool_coresight::etm4::{Config, PacketDecoder, PacketItem, Packets, Transactions, next_start};
use unspool_coresight::frame::{FrameError, Stream};
use unspool_flow::{CodeMemory, Entry, FlowDecoder, FlowItem, FlowSink, Run, Seam, can_be_split};

use crate::trace::FlowReceiver;
use crate::window::{Reader, SourceBytes};
use crate::{Error, Trace};

/// A segment has at least so many bytes, unless asked otherwise.
const SEGMENT: usize = 1 << 20;
/// A window without a place to cut it becomes a segment all the same when it is so many times as long.
const LONGEST: usize = 4;
/// Where a segment does not depend on what came before, it shows within so many bytes.
const HEAD: usize = 4096;

/// What a worker is asked to do.
struct Segment {
    number: u64,
    stream: Arc<Stream>,
    lost: Vec<FrameError>,
    progress: Progress,
}

/// What a worker has done.
struct Decoded<S> {
    segment: Segment,
    /// `None`: the segment does not start where one can.
    outcome: Option<Outcome<S>>,
}

struct Outcome<S> {
    /// Up to here, in the stream, the segment before has to go on.
    start: u64,
    entry: Option<Entry>,
    sink: S,
    end: End,
}

/// What is left at the end of a segment.
struct End {
    reader: Reader,
    rest: Stream,
    seam: Seam,
}

/// How to decode, the same for all segments.
struct Plan<'p, M, F> {
    config: Config,
    transactions: Transactions,
    program: &'p M,
    segment: usize,
    make: F,
}

impl Trace<'_> {
    /// Goes through what was executed as [`flow`](Trace::flow) does, on several cores. `make` makes the sinks that parts
    /// of the trace go to, and `take` gets them in order; it returns whether there is interest in more. Where trace
    /// cannot be decoded in parts, there is one part. Returns how many P0 elements were still speculative at the end.
    pub fn flow_in_parts<S: FlowReceiver + Send>(
        &self,
        parts: Parts,
        transactions: Transactions,
        program: &(impl CodeMemory + Sync),
        make: impl Fn() -> S + Sync,
        take: &mut impl FnMut(S, Progress) -> bool,
    ) -> Result<u64, Error> {
        let (config, _) = self.config()?;
        let threads = parts.threads;
        if threads < 2 || !can_be_split(&config, transactions) {
            let mut sink = make();
            let outstanding = self.flow(transactions, program, &mut sink)?;
            let all = self.buffer().len();
            take(sink, Progress { read: all, all });
            return Ok(outstanding);
        }
        let plan = Plan { config, transactions, program, segment: parts.segment, make };
        let source = self.open_source()?;
        thread::scope(|scope| {
            let (to_workers, segments) = channel::<Segment>();
            let (results, from_workers) = channel();
            let segments = Arc::new(Mutex::new(segments));
            for _ in 0..threads {
                let (segments, results, plan) = (Arc::clone(&segments), results.clone(), &plan);
                scope.spawn(move || work(plan, &segments, &results));
            }
            // The channel ends when the last worker does.
            drop(results);
            let mut merge = Merge { plan: &plan, current: None, waiting: BTreeMap::new(), next: 0, take };
            merge.run(source, to_workers, &from_workers, threads)
        })
    }
}

/// In how many parts at once to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    threads: usize,
    segment: usize,
}

impl Parts {
    /// On so many cores.
    pub fn on(threads: usize) -> Self {
        Self { threads, segment: SEGMENT }
    }

    /// Parts of at least so many bytes of the source.
    #[must_use]
    pub fn of_bytes(self, segment: usize) -> Self {
        Self { segment, ..self }
    }
}

/// How far reading came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the buffer that were read.
    pub read: u64,
    /// All of them.
    pub all: u64,
}

/// Decodes segments until there are no more.
fn work<S: FlowReceiver, M: CodeMemory>(
    plan: &Plan<'_, M, impl Fn() -> S>,
    segments: &Mutex<Receiver<Segment>>,
    results: &Sender<Decoded<S>>,
) {
    let mut decoder = plan.decoder();
    loop {
        let next = segments.lock().map(|segments| segments.recv());
        let Ok(Ok(segment)) = next else { return };
        let outcome = plan.decode(&mut decoder, &segment);
        if results.send(Decoded { segment, outcome }).is_err() {
            return;
        }
    }
}

impl<'p, S: FlowReceiver, M: CodeMemory, F: Fn() -> S> Plan<'p, M, F> {
    fn decoder(&self) -> FlowDecoder<&'p M> {
        FlowDecoder::new(&self.config, self.transactions, self.program)
    }

    /// Decodes a segment as if nothing had come before.
    fn decode(&self, decoder: &mut FlowDecoder<&'p M>, segment: &Segment) -> Option<Outcome<S>> {
        decoder.restart(&self.config);
        let mut rest = (*segment.stream).clone();
        let mut reader = Reader::new(PacketDecoder::at(&self.config, rest.start()));
        let entry = match segment.number {
            // Nothing came before the first one.
            0 => None,
            _ => Some(self.enter(decoder, &mut reader, &mut rest)?),
        };
        let start = rest.start();
        let mut sink = (self.make)();
        reader.decode(&mut rest, false, &mut Into { decoder, sink: &mut sink });
        segment.lost.iter().for_each(|&error| sink.lost(error));
        Some(Outcome { start, entry, sink, end: End { reader, rest, seam: decoder.seam() } })
    }

    /// Reads the beginning of a segment until it is known where execution is.
    fn enter(&self, decoder: &mut FlowDecoder<&'p M>, reader: &mut Reader, rest: &mut Stream) -> Option<Entry> {
        let head = &rest.bytes()[..rest.bytes().len().min(HEAD)];
        let mut entry = None;
        let mut length = 0;
        for item in Packets::new(&self.config, head) {
            let packet = item.ok()?;
            length = packet.offset + packet.length;
            decoder.push(Ok(packet), &mut Nobody);
            entry = decoder.entry();
            if entry.is_some() {
                break;
            }
        }
        let behind = rest.split_off(rest.start() + length);
        reader.decode(rest, false, &mut |_: PacketItem| {});
        *rest = behind;
        entry.filter(|_| reader.decoder.is_between_packets())
    }
}

/// Puts the results of the workers together, in order.
struct Merge<'m, 'p, S, M, F, T> {
    plan: &'m Plan<'p, M, F>,
    /// The part that may still go on.
    current: Option<(S, End)>,
    /// Results that came too early.
    waiting: BTreeMap<u64, Decoded<S>>,
    next: u64,
    take: &'m mut T,
}

impl<'p, S, M, F, T> Merge<'_, 'p, S, M, F, T>
where
    S: FlowReceiver,
    M: CodeMemory,
    F: Fn() -> S,
    T: FnMut(S, Progress) -> bool,
{
    fn run(
        &mut self,
        mut source: SourceBytes<'_>,
        to_workers: Sender<Segment>,
        from_workers: &Receiver<Decoded<S>>,
        threads: usize,
    ) -> Result<u64, Error> {
        let mut sent = 0;
        let mut wants_more = true;
        let mut last = false;
        while wants_more && !last {
            last = !source.read_piece()?;
            while let Some(stream) = cut(source.stream(), self.plan.segment, last) {
                let lost = source.lost().collect();
                let progress = Progress { read: source.read, all: source.length };
                // The workers live as long as the channel does.
                let _ = to_workers.send(Segment { number: sent, stream: Arc::new(stream), lost, progress });
                sent += 1;
                while wants_more && sent - self.next > 2 * threads as u64 {
                    wants_more = self.receive(from_workers);
                }
            }
        }
        drop(to_workers);
        while wants_more && self.next < sent {
            wants_more = self.receive(from_workers);
        }
        if sent == 0 {
            let mut sink = (self.plan.make)();
            source.lost().for_each(|error| sink.lost(error));
            let reader = Reader::new(PacketDecoder::new(&self.plan.config));
            let end = End { reader, rest: source.stream().clone(), seam: self.plan.decoder().seam() };
            self.current = Some((sink, end));
        }
        Ok(self.finish(source.length))
    }

    /// Waits for a result. False: there is no interest in more, or nobody works any more.
    fn receive(&mut self, from_workers: &Receiver<Decoded<S>>) -> bool {
        let Ok(decoded) = from_workers.recv() else { return false };
        self.waiting.insert(decoded.segment.number, decoded);
        while let Some(decoded) = self.waiting.remove(&self.next) {
            self.next += 1;
            if !self.join(decoded) {
                return false;
            }
        }
        true
    }

    /// Joins a segment to what came before. False: there is no interest in more.
    fn join(&mut self, decoded: Decoded<S>) -> bool {
        let Decoded { segment, outcome } = decoded;
        let Some((mut sink, End { mut reader, mut rest, seam })) = self.current.take() else {
            self.current = outcome.map(|outcome| (outcome.sink, outcome.end));
            return true;
        };
        let mut decoder = self.plan.decoder();
        decoder.resume(&seam);
        let mut from = segment.stream.start();
        if let Some(outcome) = outcome {
            rest.append(&segment.stream.until(outcome.start));
            reader.decode(&mut rest, false, &mut Into { decoder: &mut decoder, sink: &mut sink });
            let is_there = reader.decoder.is_between_packets() && reader.decoder.offset() == outcome.start;
            if is_there && outcome.entry.is_some() && decoder.entry() == outcome.entry {
                self.current = Some((outcome.sink, outcome.end));
                return (self.take)(sink, segment.progress);
            }
            from = outcome.start;
        }
        rest.append(&(*segment.stream).clone().split_off(from));
        reader.decode(&mut rest, false, &mut Into { decoder: &mut decoder, sink: &mut sink });
        segment.lost.iter().for_each(|&error| sink.lost(error));
        self.current = Some(((self.plan.make)(), End { reader, rest, seam: decoder.seam() }));
        (self.take)(sink, segment.progress)
    }

    fn finish(&mut self, all: u64) -> u64 {
        let Some((mut sink, End { mut reader, mut rest, seam })) = self.current.take() else { return 0 };
        let mut decoder = self.plan.decoder();
        decoder.resume(&seam);
        reader.decode(&mut rest, true, &mut Into { decoder: &mut decoder, sink: &mut sink });
        let outstanding = decoder.finish(all, &mut sink);
        sink.bytes_read(reader.decoder.offset());
        (self.take)(sink, Progress { read: all, all });
        outstanding
    }
}

/// Takes a segment from the window, if there is enough in it.
fn cut(window: &mut Stream, least: usize, last: bool) -> Option<Stream> {
    let bytes = window.bytes();
    let index = match next_start(bytes, least) {
        Some(index) => index,
        // A break may be all that is left.
        None if last && (!bytes.is_empty() || window.next_break().is_some()) => {
            let rest = Stream::new(window.id());
            return Some(std::mem::replace(window, rest));
        }
        None if !last && bytes.len() >= least.saturating_mul(LONGEST) => bytes.len(),
        None => return None,
    };
    let rest = window.split_off(window.start() + index as u64);
    Some(std::mem::replace(window, rest))
}

/// Packets go in, what was executed goes to a sink.
struct Into<'i, M, S> {
    decoder: &'i mut FlowDecoder<M>,
    sink: &'i mut S,
}

impl<M: CodeMemory, S: FlowSink> Take<PacketItem> for Into<'_, M, S> {
    #[inline(always)]
    fn take(&mut self, item: PacketItem) {
        self.decoder.push(item, self.sink);
    }
}

/// Nobody listens.
struct Nobody;

impl FlowSink for Nobody {
    fn run(&mut self, _run: Run<'_>) {}

    fn item(&mut self, _item: FlowItem) {}
}
