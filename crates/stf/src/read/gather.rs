//! Parallel processing of instructions, one chunk per thread at a time.
//!
//! chunks ─▶ next free thread ─▶ parts ─▶ appended in order
//!
//! The state at the start of a chunk is known only after the previous chunk: the index has the address, but not the
//! mode or other state. A thread therefore starts with a guess, and its part counts only if the guess turns out to be
//! right. If not, or if there is anything odd about a chunk, the chunk is read again in order, like any other trace.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::super::lift::{Follower, Instruction};
use super::super::zstf::MAX_THREADS;
use super::super::zstf::chunks::Chunks;
use super::super::zstf::frame::CompressedChunk;
use super::{Layout, Position, ReadError, Reader, Source, Storage};

/// Accumulator over instructions, which several threads can fill in parts that are appended in order.
pub trait Gather: Send {
    /// Adds an instruction. Its record number may be relative to the start of a chunk.
    fn push(&mut self, instruction: &Instruction<'_>);

    /// An empty part.
    fn part(&self) -> Self;

    /// Appends a part that was accumulated over the following instructions.
    fn append(&mut self, part: Self);
}

/// State between two instructions.
#[derive(Clone, Copy)]
struct State {
    follower: Follower,
    layout: Layout,
    position: Position,
}

impl State {
    /// Is the state equal, apart from the record number, which may be relative?
    fn fits(&self, other: &Self) -> bool {
        self.follower == other.follower && self.layout == other.layout && self.position.offset == other.position.offset
    }
}

/// A chunk to process.
struct Job<G> {
    chunk: CompressedChunk,
    size: u64,
    is_last: bool,
    start: State,
    part: G,
    done: SyncSender<Done<G>>,
}

/// The result for a chunk.
struct Done<G> {
    start: State,
    /// State after it, and its part. `None`: there is something odd about it.
    end: Option<(State, G)>,
}

impl<R: Read> Reader<R> {
    /// Adds all remaining instructions, with several threads if the trace is a .zstf file with an index. The result
    /// does not depend on the number of threads. False: the trace ended, apart from records that belong to no
    /// instruction.
    pub fn gather<G: Gather>(&mut self, follower: &mut Follower, into: &mut G) -> Result<bool, ReadError> {
        if let Source::Chunks(chunks) = &self.source
            && let (2.., Some([_, _, ..])) = (chunks.threads(), chunks.index())
        {
            // After an instruction, the header has been read.
            let has_more = self.each_instruction(follower, |instruction| {
                into.push(instruction);
                ControlFlow::Break(())
            })?;
            if !has_more {
                return Ok(false);
            }
            self.gather_chunks(follower, into)?;
            return self.continue_instructions(follower, true, |instruction| {
                into.push(instruction);
                ControlFlow::Continue(())
            });
        }
        self.each_instruction(follower, |instruction| {
            into.push(instruction);
            ControlFlow::Continue(())
        })
    }

    /// Processes whole chunks until there is something odd about one.
    fn gather_chunks<G: Gather>(&mut self, follower: &mut Follower, into: &mut G) -> Result<(), ReadError> {
        let Source::Chunks(chunks) = &self.source else { return Ok(()) };
        let (threads, markers) = (chunks.threads().min(MAX_THREADS), chunks.markers());
        let (jobs, queue) = channel();
        let queue = Mutex::new(queue);
        thread::scope(|scope| {
            let start = |_: &usize| {
                let thread = thread::Builder::new().name("stf follow".into());
                thread.spawn_scoped(scope, || work(&queue, markers)).is_ok()
            };
            match (0..threads).take_while(start).count() {
                0 => Ok(()),
                threads => self.merge(jobs, threads + 2, follower, into),
            }
        })
    }

    /// Sends chunks to threads, at most `limit` at a time, and appends their parts.
    fn merge<G: Gather>(
        &mut self,
        jobs: Sender<Job<G>>,
        limit: usize,
        follower: &mut Follower,
        into: &mut G,
    ) -> Result<(), ReadError> {
        let Some(mut chunk) = self.count.chunk else { return Ok(()) };
        let Some(end) = self.end_of(chunk) else { return Ok(()) };
        let mut ahead = ReadAhead { chunk: chunk + 1, offset: end, jobs, queue: VecDeque::new() };
        self.send_ahead(&mut ahead, limit, follower, into);
        // The current chunk was started here.
        let mut is_plain = self.finish_chunk(chunk, end, follower, into)?;
        let mut wrong = 0;
        while is_plain {
            chunk += 1;
            self.send_ahead(&mut ahead, limit, follower, into);
            let job = ahead.queue.pop_front().filter(|_| wrong < MAX_WRONG_GUESSES);
            let Some(Done { start, end: Some((end, part)) }) = job.and_then(|job| job.recv().ok()) else {
                // No thread has it, or there is something odd about it: continue in order.
                self.restart_at(chunk, self.next);
                return Ok(());
            };
            let here = State { follower: *follower, layout: self.layout, position: self.next };
            if start.fits(&here) {
                into.append(part);
                (*follower, self.layout) = (end.follower, end.layout);
                self.next = Position { record: self.next.record + end.position.record, ..end.position };
                wrong = wrong.saturating_sub(1);
            } else {
                self.restart_at(chunk, self.next);
                is_plain = self.finish_chunk(chunk, end.position.offset, follower, into)?;
                wrong += 2;
            }
        }
        Ok(())
    }

    /// Sends more chunks to threads. The guessed state is the current one, with the address from the index.
    fn send_ahead<G: Gather>(&mut self, ahead: &mut ReadAhead<G>, limit: usize, follower: &Follower, into: &G) {
        let layout = self.layout;
        let Source::Chunks(chunks) = &mut self.source else { return };
        while ahead.queue.len() < limit {
            let Some(entry) = chunks.index().and_then(|index| index.get(ahead.chunk as usize)).copied() else { return };
            let is_last = chunks.count() == Some(ahead.chunk + 1);
            let (Some(end), Some(instructions)) =
                (ahead.offset.checked_add(entry.size), ahead.chunk.checked_mul(chunks.markers()))
            else {
                return;
            };
            let Some(chunk) = chunks.compressed(ahead.chunk) else { return };
            let follower = Follower { next_pc: entry.pc, instructions, ..*follower };
            let start = State { follower, layout, position: Position { record: 0, offset: ahead.offset } };
            let (done, taken) = sync_channel(1);
            let job = Job { chunk, size: entry.size, is_last, start, part: into.part(), done };
            if ahead.jobs.send(job).is_err() {
                return;
            }
            ahead.queue.push_back(taken);
            (ahead.chunk, ahead.offset) = (ahead.chunk + 1, end);
        }
    }

    /// Processes the rest of the current chunk, which should end at `end`. False: there is something odd about it.
    fn finish_chunk<G: Gather>(
        &mut self,
        chunk: u64,
        end: u64,
        follower: &mut Follower,
        into: &mut G,
    ) -> Result<bool, ReadError> {
        if self.next.offset < end {
            self.continue_instructions(follower, true, |instruction| {
                into.push(instruction);
                let next = instruction.position.offset + instruction.bytes.len() as u64;
                if next < end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        let Source::Chunks(chunks) = &self.source else { return Ok(false) };
        let Some(index) = chunks.index() else { return Ok(false) };
        let next = Some(chunk + 1).filter(|next| *next < index.len() as u64);
        let is_at_end = self.next.offset == end && self.start == self.end && self.count.chunk == Some(chunk);
        // A chunk may be damaged after its last record.
        let is_plain = is_at_end && chunks.is_after(chunk) && self.failed.is_none();
        if is_plain {
            self.check_markers(next, chunks.markers());
        }
        Ok(is_plain)
    }

    /// Offset of the end of a chunk in the trace, according to the index.
    fn end_of(&self, chunk: u64) -> Option<u64> {
        let Source::Chunks(chunks) = &self.source else { return None };
        let mut sizes = chunks.index()?.get(..=chunk as usize)?.iter().map(|entry| entry.size);
        sizes.try_fold(0_u64, u64::checked_add)
    }
}

/// Limit of wrong guesses, minus right ones, after which no more guesses are made.
const MAX_WRONG_GUESSES: u32 = 16;

/// Chunks that were sent to threads and not received back.
struct ReadAhead<G> {
    /// The next chunk to send, and its offset in the trace.
    chunk: u64,
    offset: u64,
    jobs: Sender<Job<G>>,
    queue: VecDeque<Receiver<Done<G>>>,
}

fn work<G: Gather>(queue: &Mutex<Receiver<Job<G>>>, markers: u64) {
    let mut reader = Chunks::unknown(markers)
        .map(|chunks| Reader::<io::Empty>::with(Source::Chunks(Box::new(chunks)), Storage::Zstf, 0));
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { chunk, size, is_last, start, mut part, done }) = job else { return };
        let end = reader.as_mut().and_then(|reader| reader.follow_chunk(chunk, start, &mut part));
        let is_plain = |end: &State| {
            let found = end.follower.instructions - start.follower.instructions;
            end.position.offset - start.position.offset == size && (found == markers || is_last && found < markers)
        };
        // The receiver may be gone already.
        drop(done.send(Done { start, end: end.filter(is_plain).map(|end| (end, part)) }));
    }
}

impl Reader<io::Empty> {
    /// Processes one chunk. `None`: there is something odd about it.
    fn follow_chunk<G: Gather>(&mut self, chunk: CompressedChunk, start: State, part: &mut G) -> Option<State> {
        self.restart_at(0, start.position);
        self.layout = start.layout;
        let Source::Chunks(chunks) = &mut self.source else { return None };
        chunks.one(chunk);
        let mut follower = start.follower;
        let ended = self.each_instruction(&mut follower, |instruction| {
            part.push(instruction);
            ControlFlow::Continue(())
        });
        let is_plain = matches!(ended, Ok(false)) && self.start == self.end && self.warnings.is_empty();
        self.warnings.clear();
        is_plain.then_some(State { follower, layout: self.layout, position: self.next })
    }
}
