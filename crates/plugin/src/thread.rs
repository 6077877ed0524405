//! A thread of the program, or a CPU of a system: its callbacks as records.
//!
//! blocks, marks, accesses, calls ─▶ **records** ─▶ output
//!
//! A block is recorded when it starts. A mark after each access, or with it, shows how far it was executed: a block whose last mark
//! was not reached was left by a fault. Marks are in the buffer of the records, where the recorder finds them if the emulator is
//! killed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use unspool_wire::register::{FLOAT, Register};
use unspool_wire::{Data, Record};

use crate::options::Options;
use crate::output::{Output, Records};
use crate::values::{Value, When};

/// A block, in the word that the emulator passes to each callback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) id: u32,
    /// The number of instructions.
    pub(crate) count: u16,
    /// The last instruction that is marked; 0: none is.
    pub(crate) last_mark: u16,
    /// The instruction where recording starts, counted from 1; 0: not in this block.
    pub(crate) from: u16,
}

/// Maximum number of instructions of a block of the emulator.
const MAX_COUNT: u64 = 512;

/// Bits of an instruction index.
const INDEX: u32 = 10;
const MASK: u64 = (1 << INDEX) - 1;

impl Block {
    pub(crate) fn pack(self) -> u64 {
        let [count, last_mark, from] = [self.count, self.last_mark, self.from].map(|number| u64::from(number) & MASK);
        u64::from(self.id) | (count | last_mark << INDEX | from << (2 * INDEX)) << 32
    }

    #[inline(always)]
    pub(crate) fn unpack(word: u64) -> Self {
        let number = |field: u32| (word >> (32 + field * INDEX) & MASK) as u16;
        Self { id: word as u32, count: number(0), last_mark: number(1), from: number(2) }
    }
}

/// The output of all threads, and which instructions are recorded.
pub(crate) struct Recorder {
    pub(crate) output: Output,
    skip: u64,
    limit: u64,
    /// A thread has reached the start of recording.
    is_started: AtomicBool,
    /// The number of blocks that all CPUs of a system have started while they were recorded, if it is recorded as the time.
    clock: Option<AtomicU64>,
}

impl Recorder {
    pub(crate) fn new(options: &Options, output: Output) -> Self {
        Self {
            output,
            skip: options.skip,
            limit: options.limit.unwrap_or(u64::MAX),
            is_started: AtomicBool::new(options.from.is_none()),
            clock: options.has_processes.then(AtomicU64::default),
        }
    }
}

/// A thread or CPU.
pub(crate) struct Thread {
    number: u32,
    records: Records,
    phase: Phase,
    /// Instructions that are still to be skipped.
    to_skip: u64,
    /// Instructions that are still to be recorded; none while nothing is recorded.
    left: u64,
    /// Of a system, the block that accesses are expected from.
    current: u32,
    /// The address where the next block is executed, if it was translated for another.
    at: Option<u64>,
    /// Kinds of accesses, by the information of the emulator.
    kinds: [Kind; KINDS],
}

/// The [kind](unspool_wire::Access::kind) of an access, with the emulator's information about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) info: u32,
    pub(crate) kind: u8,
}

/// The number of kinds that are kept.
const KINDS: usize = 32;

impl Kind {
    /// An unused entry: the emulator has no such information.
    const NONE: Self = Self { info: u32::MAX, kind: 0 };

    /// Its index among those that are kept.
    #[inline(always)]
    fn slot(info: u32) -> usize {
        (info.wrapping_mul(0x9e37_79b9) >> 27) as usize % KINDS
    }
}

/// The progress of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No thread has reached the start of recording.
    Waiting,
    /// Instructions are skipped.
    Skipping,
    Recording,
    /// The limit is reached.
    Done,
}

impl Thread {
    /// Starts a thread. The record is sent at once: threads are numbered in the order in which they start.
    pub(crate) fn new(recorder: &Recorder, number: u32) -> Self {
        let mut records = recorder.output.new_records(number);
        records.buffer.push(Record::ThreadStart {});
        recorder.output.send(number, &mut records);
        Self {
            number,
            records,
            phase: Phase::Waiting,
            to_skip: 0,
            left: 0,
            current: 0,
            at: None,
            kinds: [Kind::NONE; KINDS],
        }
    }

    /// Starts a block. False: it has to take the [slow path](Self::block_slowly).
    #[inline(always)]
    #[must_use]
    pub(crate) fn block(&mut self, block: Block) -> bool {
        let count = u64::from(block.count);
        if self.is_left() || self.left <= count || self.records.buffer.is_full() {
            return false;
        }
        self.left -= count;
        self.records.buffer.reset_marks(block.last_mark);
        self.records.buffer.block(block.id);
        true
    }

    /// Starts a [packed](Block::pack) block: there may be no room, or it is not recorded, or the one before was left.
    #[cold]
    #[inline(never)]
    pub(crate) fn block_slowly(&mut self, recorder: &Recorder, word: u64) {
        let block = Block::unpack(word);
        self.make_room(recorder);
        if self.is_left() {
            self.leave(recorder);
        }
        self.records.buffer.reset_marks(block.last_mark);
        if self.left == 0 {
            return self.block_outside_recording(recorder, block);
        }
        self.left = self.left.saturating_sub(u64::from(block.count));
        self.put_block(recorder, block.id);
    }

    fn put_block(&mut self, recorder: &Recorder, id: u32) {
        if let Some(clock) = &recorder.clock {
            self.records.buffer.push(Record::Time { ticks: clock.fetch_add(1, Ordering::Relaxed) + 1 });
            self.make_room(recorder);
        }
        if let Some(address) = self.at.take() {
            self.records.buffer.push(Record::BlockAddress { address });
        }
        self.records.buffer.block(id);
    }

    /// Marks instructions before this one as complete.
    #[inline(always)]
    pub(crate) fn mark(&mut self, index: u16) {
        self.records.buffer.set_mark(index);
    }

    /// Whether the last block was left before its last mark.
    #[inline(always)]
    fn is_left(&self) -> bool {
        let (mark, last_mark) = self.records.buffer.marks();
        mark != last_mark
    }

    /// Records an access with this information. False: it has to take the [slow path](Self::access_slowly).
    #[inline(always)]
    #[must_use]
    pub(crate) fn access(&mut self, info: u32, index: u16, address: u64) -> bool {
        let Kind { info: known, kind } = self.kinds[Kind::slot(info)];
        if known != info || self.phase != Phase::Recording || self.records.buffer.is_full() {
            return false;
        }
        self.records.buffer.access(kind, index, address);
        true
    }

    /// An access of a kind that may be new: 8 for a store, and log2 of the size.
    #[cold]
    #[inline(never)]
    pub(crate) fn access_slowly(&mut self, recorder: &Recorder, kind: Kind, index: u16, address: u64) {
        self.kinds[Kind::slot(kind.info)] = kind;
        self.make_room(recorder);
        if self.phase == Phase::Recording {
            self.records.buffer.access(kind.kind, index, address);
        }
    }

    /// Starts a block of a system, `at` another address than it was translated for.
    #[inline(always)]
    pub(crate) fn system_block(&mut self, recorder: &Recorder, block: Block, at: Option<u64>) {
        (self.current, self.at) = (block.id, at);
        if at.is_some() || recorder.clock.is_some() || !self.block(block) {
            self.block_slowly(recorder, block.pack());
        }
    }

    /// Records an access of a system. Accesses to devices may be made in a block of their own, whose start is not reported:
    /// the emulator does so if it counts instructions.
    #[inline(always)]
    pub(crate) fn system_access(&mut self, recorder: &Recorder, kind: Kind, (block, index): (u32, u16), address: u64) {
        self.switch_block(recorder, block);
        if !self.access(kind.info, index, address) {
            self.access_slowly(recorder, kind, index, address);
        }
    }

    /// Records an operand of an instruction of a system.
    pub(crate) fn register(&mut self, recorder: &Recorder, (block, index): (u32, u16), register: Register, value: u64) {
        if self.phase == Phase::Recording {
            self.switch_block(recorder, block);
            self.records.buffer.push(Record::Operand { register, index, value });
            self.make_room(recorder);
        }
    }

    /// Whether execution is recorded now.
    pub(crate) fn is_recording(&self) -> bool {
        self.phase == Phase::Recording
    }

    /// Records the value of a register after an instruction, or before one.
    pub(crate) fn value(&mut self, recorder: &Recorder, when: When, register: Register, value: Value) {
        let (is_before, index) = match when {
            When::After(index) => (false, index),
            When::Before(index) => (true, index),
        };
        self.records.buffer.push(match register {
            ..FLOAT => Record::RegisterValue { register, index, is_before, value: value[0] },
            FLOAT.. => Record::VectorValue { register, index, is_before, value },
        });
        self.make_room(recorder);
    }

    /// Records the data of the next access, in one word or two.
    pub(crate) fn data(&mut self, recorder: &Recorder, count: u32, words: [u64; 2]) {
        if self.phase == Phase::Recording {
            self.records.buffer.push(Record::AccessData { count, data: Data(words) });
            self.make_room(recorder);
        }
    }

    /// Records the block that the next records belong to, if it is another.
    #[inline(always)]
    fn switch_block(&mut self, recorder: &Recorder, block: u32) {
        if block != self.current && self.phase == Phase::Recording {
            self.records.buffer.push(Record::WithinBlock { id: block });
            self.make_room(recorder);
            self.current = block;
        }
    }

    /// Records log text of exceptions, even before the start of recording: the state follows from it.
    pub(crate) fn text(&mut self, recorder: &Recorder, text: &str) {
        if self.phase == Phase::Done {
            return;
        }
        if self.records.buffer.is_full_for(text) {
            recorder.output.send(self.number, &mut self.records);
        }
        self.records.buffer.text(text);
        self.make_room(recorder);
    }

    /// Sends all records.
    pub(crate) fn flush(&mut self, recorder: &Recorder) {
        recorder.output.send(self.number, &mut self.records);
    }

    pub(crate) fn call(&mut self, recorder: &Recorder, number: i64, arguments: [u64; 3]) {
        if self.phase == Phase::Recording {
            self.records.buffer.push(Record::SystemCall { number, arguments });
            self.make_room(recorder);
        }
    }

    pub(crate) fn call_return(&mut self, recorder: &Recorder, number: i64, result: i64) {
        if self.phase == Phase::Recording {
            self.records.buffer.push(Record::SystemCallReturn { number, result });
            self.make_room(recorder);
        }
    }

    pub(crate) fn end(&mut self, recorder: &Recorder) {
        if self.is_left() {
            self.leave(recorder);
        }
        self.records.buffer.reset_marks(0);
        self.records.buffer.push(Record::ThreadEnd {});
        recorder.output.send(self.number, &mut self.records);
        recorder.output.reclaim(&mut self.records);
    }

    /// Records that the block before was left by a fault.
    #[cold]
    fn leave(&mut self, recorder: &Recorder) {
        if self.phase == Phase::Recording {
            self.records.buffer.push(Record::BlockLeft { completed: self.records.buffer.marks().0 });
            self.make_room(recorder);
            // Those that were not executed do not count. How many there were is unknown here, and the recorder drops what is
            // too much.
            self.left = self.left.saturating_add(MAX_COUNT);
        }
    }

    fn make_room(&mut self, recorder: &Recorder) {
        if self.records.buffer.is_full() {
            recorder.output.send(self.number, &mut self.records);
        }
    }

    /// A block before the start of recording, the first one, or one after the limit.
    #[cold]
    fn block_outside_recording(&mut self, recorder: &Recorder, block: Block) {
        let mut before = 0;
        if self.phase == Phase::Waiting {
            if block.from != 0 && !recorder.is_started.swap(true, Ordering::Relaxed) {
                before = block.from - 1;
            }
            if !recorder.is_started.load(Ordering::Relaxed) {
                return;
            }
            (self.phase, self.to_skip) = (Phase::Skipping, recorder.skip);
        }
        if self.phase == Phase::Skipping {
            let rest = u64::from(block.count - before);
            if self.to_skip >= rest && self.to_skip > 0 {
                self.to_skip -= rest;
                return;
            }
            let skipped = before + u16::try_from(self.to_skip).unwrap_or(u16::MAX);
            (self.phase, self.left) = (Phase::Recording, recorder.limit);
            if skipped > 0 {
                self.records.buffer.push(Record::PartialBlock { skipped });
            }
            self.left = self.left.saturating_sub(u64::from(block.count - skipped));
            self.put_block(recorder, block.id);
        } else if self.phase == Phase::Recording {
            // The last block within the limit is complete, and continues here.
            self.records.buffer.push(Record::LimitReached { next: block.id });
            self.phase = Phase::Done;
        }
        self.make_room(recorder);
    }
}
