//! Decoding of one source on several cores, with the same output as on one.
//!
//! window ─▶ shards ─▶ workers, each with a sink of its own ─▶ sinks in order
//!
//! A stream is split at points where decoding can start: an alignment synchronization with a trace info after it, or with
//! packets that soon repeat all that later ones rely on. Each shard is decoded as if nothing had come before. At the seam the beginning of the shard is decoded once more, by a
//! decoder that continues the shard before; only if both arrive at the same entry is the result used. Otherwise the
//! shard is decoded again, in order. So the output cannot depend on the number of cores.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use unspool_coresight::frame::{FrameError, Stream};
use unspool_coresight::{
    DecodePackets as _, Decoders, InstructionDecoders, Packets, Transactions, with_instruction_decoders,
};
use unspool_flow::{Entry, FlowDecoder, FlowItem, FlowSink, Run, Seam};

use crate::program::Moment;
use crate::window::{Reader, SourceBytes};
use crate::{Error, Program, Trace, Watch};

/// Default minimum size of a shard in bytes.
const MIN_SHARD: usize = 1 << 20;
/// Factor by which a shard may exceed the minimum while looking for a point to split.
const MAX_FACTOR: usize = 4;
/// Bytes within which a shard must be found to be independent of the data before it.
pub(crate) const HEAD: usize = 4096;

struct Shard {
    number: u64,
    stream: Arc<Stream>,
    lost: Vec<FrameError>,
    progress: Progress,
}

struct Decoded<C: Decoders, S> {
    shard: Shard,
    /// `None`: the shard does not start where decoding can start.
    outcome: Option<Outcome<C, S>>,
}

struct Outcome<C: Decoders, S> {
    /// Position in the stream up to which the previous shard has to continue.
    start: u64,
    entry: Option<Entry<C::Committed>>,
    sink: S,
    end: End<C>,
}

struct End<C: Decoders> {
    reader: Reader<C::Packets>,
    rest: Stream,
    seam: Seam<C::Committed>,
}

/// Flow decoder of a protocol over a program.
pub(crate) type Decoder<'p, C> = FlowDecoder<<C as Decoders>::Committed, Moment<'p>>;

/// Decoding options, the same for all shards.
struct Plan<'p, C, F> {
    config: C,
    transactions: Transactions,
    moment: Moment<'p>,
    shard: usize,
    make: F,
}

impl Trace<'_> {
    /// Whether the trace can be decoded in shards: not if later elements can revoke earlier ones.
    pub fn can_be_sharded(&self, transactions: Transactions) -> Result<bool, Error> {
        let (config, _) = self.config()?;
        Ok(config.features().max_speculation == 0 && transactions == Transactions::Show)
    }

    /// Decodes as [`flow`](Trace::flow) does, on several cores. `make` makes a sink for each shard, and `take` gets the
    /// sinks in order; it returns false to stop. Trace that cannot be sharded is one shard. Returns the number of P0
    /// elements that were still speculative at the end.
    pub fn flow_in_parts<S: FlowSink + Watch + Send>(
        &self,
        parts: Parts,
        transactions: Transactions,
        program: &Program,
        make: impl Fn() -> S + Sync,
        take: &mut impl FnMut(S, Progress) -> bool,
    ) -> Result<u64, Error> {
        if !self.config()?.0.has_instructions() {
            return Err(self.no_instructions()?);
        }
        let moments = program.moments(self)?;
        if parts.threads < 2 || !moments.is_one() || !self.can_be_sharded(transactions)? {
            let mut sink = make();
            let outstanding = self.flow(transactions, program, &mut sink)?;
            let total = self.buffer().len();
            take(sink, Progress { read: total, total });
            return Ok(outstanding);
        }
        with_instruction_decoders!(self.config()?.0, config => {
            let plan = Plan { config, transactions, moment: moments.first(), shard: parts.shard, make };
            run(&plan, self.open_source()?, parts.threads, take)
        }, _ => Err(self.no_instructions()?))
    }
}

/// Decodes a source with workers and merges their results.
fn run<C, S, F>(
    plan: &Plan<'_, C, F>,
    source: SourceBytes<'_>,
    threads: usize,
    take: &mut impl FnMut(S, Progress) -> bool,
) -> Result<u64, Error>
where
    C: InstructionDecoders<Packets: Send, Committed: Send> + Sync,
    S: FlowSink + Watch + Send,
    F: Fn() -> S + Sync,
{
    thread::scope(|scope| {
        let (to_workers, shards) = channel::<Shard>();
        let (results, from_workers) = channel();
        let shards = Arc::new(Mutex::new(shards));
        for _ in 0..threads {
            let (shards, results) = (Arc::clone(&shards), results.clone());
            scope.spawn(move || work(plan, &shards, &results));
        }
        // The channel ends when the last worker does.
        drop(results);
        let mut merge = Merge { plan, current: None, waiting: Vec::new(), next: 0, take };
        merge.run(source, to_workers, &from_workers, threads)
    })
}

/// Number of threads, and size of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    threads: usize,
    shard: usize,
}

impl Parts {
    /// Uses this many threads.
    pub fn on(threads: usize) -> Self {
        Self { threads, shard: MIN_SHARD }
    }

    /// Uses at least this many threads.
    #[must_use]
    pub(crate) fn on_at_least(self, threads: usize) -> Self {
        Self { threads: self.threads.max(threads), ..self }
    }

    /// Uses shards of at least this many bytes of the source.
    #[must_use]
    pub fn of_bytes(self, shard: usize) -> Self {
        Self { shard, ..self }
    }
}

/// Progress of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the buffer read so far.
    pub read: u64,
    /// Total.
    pub total: u64,
}

fn work<C: InstructionDecoders, S: FlowSink + Watch>(
    plan: &Plan<'_, C, impl Fn() -> S>,
    shards: &Mutex<Receiver<Shard>>,
    results: &Sender<Decoded<C, S>>,
) {
    let mut decoder = plan.decoder();
    loop {
        let next = shards.lock().map(|shards| shards.recv());
        let Ok(Ok(shard)) = next else { break };
        let outcome = plan.decode(&mut decoder, &shard);
        if results.send(Decoded { shard, outcome }).is_err() {
            break;
        }
    }
    plan.keep(decoder);
}

impl<'p, C: InstructionDecoders, S: FlowSink + Watch, F: Fn() -> S> Plan<'p, C, F> {
    fn decoder(&self) -> Decoder<'p, C> {
        let code = self.moment.program().take_known(self.config.flow_rules());
        FlowDecoder::with_code(&self.config, self.transactions, self.moment, code)
    }

    /// Keeps the code that a decoder knows for the next one.
    fn keep(&self, decoder: Decoder<'p, C>) {
        self.moment.program().keep_known(decoder.into_code());
    }

    /// Decodes a shard as if it were the start of the stream.
    fn decode(&self, decoder: &mut Decoder<'p, C>, shard: &Shard) -> Option<Outcome<C, S>> {
        decoder.restart();
        let mut rest = (*shard.stream).clone();
        let mut reader = Reader::new(self.config.packets());
        reader.decoder.resync_at(rest.start());
        let entry = match shard.number {
            // The first shard is the start of the stream.
            0 => None,
            _ => Some(self.enter(decoder, &mut reader, &mut rest)?),
        };
        let start = rest.start();
        let mut sink = (self.make)();
        reader.decode_flow(&mut rest, false, decoder, &mut sink);
        shard.lost.iter().for_each(|&error| sink.lost(error));
        Some(Outcome { start, entry, sink, end: End { reader, rest, seam: decoder.seam() } })
    }

    /// Decodes the beginning of a shard until the address of execution is known.
    fn enter(
        &self,
        decoder: &mut Decoder<'p, C>,
        reader: &mut Reader<C::Packets>,
        rest: &mut Stream,
    ) -> Option<Entry<C::Committed>> {
        let head = &rest.bytes()[..rest.bytes().len().min(HEAD)];
        let (length, _) = first_entry(&self.config, decoder, head, &mut Nowhere)?;
        // Once more with offsets in the buffer, which may be part of the state.
        decoder.restart();
        let start = rest.start() + length;
        let after = rest.split_off(start);
        reader.decode_flow(rest, false, decoder, &mut Nowhere);
        *rest = after;
        decoder.entry().filter(|_| reader.decoder.is_between_packets() && reader.decoder.offset() == start)
    }
}

/// The state that a decoder arrives at with the first address, and the number of bytes up to there. `None`: bytes that are no
/// packet come first, or there is no address.
pub(crate) fn first_entry<C: InstructionDecoders>(
    config: &C,
    decoder: &mut Decoder<'_, C>,
    head: &[u8],
    sink: &mut impl FlowSink,
) -> Option<(u64, Entry<C::Committed>)> {
    for item in Packets::new(config, head) {
        let packet = item.ok()?;
        decoder.push(Ok(packet), sink);
        if let Some(entry) = decoder.entry() {
            return Some((packet.offset + packet.length, entry));
        }
    }
    None
}

/// Merges the results of the workers, in order.
struct Merge<'m, 'p, C: InstructionDecoders, S, F, T> {
    plan: &'m Plan<'p, C, F>,
    /// Shard that may still continue.
    current: Option<(S, End<C>)>,
    /// Results that arrived out of order.
    waiting: Vec<Decoded<C, S>>,
    next: u64,
    take: &'m mut T,
}

impl<C, S, F, T> Merge<'_, '_, C, S, F, T>
where
    C: InstructionDecoders,
    S: FlowSink + Watch,
    F: Fn() -> S,
    T: FnMut(S, Progress) -> bool,
{
    fn run(
        &mut self,
        mut source: SourceBytes<'_>,
        to_workers: Sender<Shard>,
        from_workers: &Receiver<Decoded<C, S>>,
        threads: usize,
    ) -> Result<u64, Error> {
        let mut sent = 0;
        let mut wants_more = true;
        let mut last = false;
        while wants_more && !last {
            last = !source.read_chunk()?;
            while let Some(stream) = split_shard::<C>(source.stream(), self.plan.shard, last) {
                let lost = source.lost().collect();
                let progress = Progress { read: source.read, total: source.length };
                // The workers live as long as the channel does.
                let _ = to_workers.send(Shard { number: sent, stream: Arc::new(stream), lost, progress });
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
            let reader = Reader::new(self.plan.config.packets());
            let decoder = self.plan.decoder();
            let end = End { reader, rest: source.stream().clone(), seam: decoder.seam() };
            self.plan.keep(decoder);
            self.current = Some((sink, end));
        }
        Ok(self.finish(source.length))
    }

    /// Waits for a result. False: reading should stop, or all workers have ended.
    fn receive(&mut self, from_workers: &Receiver<Decoded<C, S>>) -> bool {
        let Ok(decoded) = from_workers.recv() else { return false };
        self.waiting.push(decoded);
        while let Some(index) = self.waiting.iter().position(|decoded| decoded.shard.number == self.next) {
            let decoded = self.waiting.swap_remove(index);
            self.next += 1;
            if !self.join(decoded) {
                return false;
            }
        }
        true
    }

    /// Joins a shard to the previous one. False: reading should stop.
    fn join(&mut self, decoded: Decoded<C, S>) -> bool {
        let Decoded { shard, outcome } = decoded;
        let Some((mut sink, End { mut reader, mut rest, seam })) = self.current.take() else {
            self.current = outcome.map(|outcome| (outcome.sink, outcome.end));
            return true;
        };
        let mut decoder = self.plan.decoder();
        decoder.resume(&seam);
        let mut from = shard.stream.start();
        if let Some(outcome) = outcome {
            rest.append(&shard.stream.until(outcome.start));
            reader.decode_flow(&mut rest, false, &mut decoder, &mut sink);
            let is_there = reader.decoder.is_between_packets() && reader.decoder.offset() == outcome.start;
            if is_there && outcome.entry.is_some() && decoder.entry() == outcome.entry {
                self.plan.keep(decoder);
                self.current = Some((outcome.sink, outcome.end));
                return (self.take)(sink, shard.progress);
            }
            from = outcome.start;
        }
        rest.append(&(*shard.stream).clone().split_off(from));
        reader.decode_flow(&mut rest, false, &mut decoder, &mut sink);
        shard.lost.iter().for_each(|&error| sink.lost(error));
        self.current = Some(((self.plan.make)(), End { reader, rest, seam: decoder.seam() }));
        self.plan.keep(decoder);
        (self.take)(sink, shard.progress)
    }

    fn finish(&mut self, total: u64) -> u64 {
        let Some((mut sink, End { mut reader, mut rest, seam })) = self.current.take() else { return 0 };
        let mut decoder = self.plan.decoder();
        decoder.resume(&seam);
        reader.decode_flow(&mut rest, true, &mut decoder, &mut sink);
        let outstanding = decoder.finish(total, &mut sink);
        sink.bytes_read(reader.decoder.offset());
        self.plan.keep(decoder);
        (self.take)(sink, Progress { read: total, total });
        outstanding
    }
}

/// Splits a shard off the window, if it has enough bytes.
fn split_shard<C: InstructionDecoders>(window: &mut Stream, min: usize, last: bool) -> Option<Stream> {
    let bytes = window.bytes();
    let index = match C::next_start(bytes, min) {
        Some(index) => index,
        // A break may be all that is left.
        None if last && (!bytes.is_empty() || window.next_break().is_some()) => {
            let rest = Stream::new(window.id());
            return Some(std::mem::replace(window, rest));
        }
        None if !last && bytes.len() >= min.saturating_mul(MAX_FACTOR) => bytes.len(),
        None => return None,
    };
    let rest = window.split_off(window.start() + index as u64);
    Some(std::mem::replace(window, rest))
}

struct Nowhere;

impl FlowSink for Nowhere {
    fn run(&mut self, _run: Run<'_>) {}

    fn item(&mut self, _item: FlowItem) {}
}
