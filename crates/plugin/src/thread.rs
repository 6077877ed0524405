//! What a thread does, as records; and the way that records of all threads go.
//!
//! blocks, marks, accesses, calls ─▶ **threads** ─▶ chunks ─▶ buffers of the reader, a socket or a file
//!
//! A block is told when it starts. What is marked behind each access, or with it, shows how far it came: a block whose last
//! mark was not reached was left, by a fault.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use crate::options::Options;
use crate::stream::{self, IN_BUFFER, Records, Word};
use crate::values::{Value, When};

/// What is known of a block wherever it is executed, in the word that the emulator hands back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) id: u32,
    /// Instructions.
    pub(crate) count: u16,
    /// The last instruction that is marked; 0: none is.
    pub(crate) last_mark: u16,
    /// The instruction that recording starts with, counted from 1; 0: it is not in here.
    pub(crate) from: u16,
}

/// Bits of the numbers of instructions: the emulator has at most 512 in a block.
const INDEX: u32 = 10;
const MASK: u64 = (1 << INDEX) - 1;

impl Block {
    /// As one word.
    pub(crate) fn pack(self) -> u64 {
        let [count, last_mark, from] = [self.count, self.last_mark, self.from].map(|number| u64::from(number) & MASK);
        u64::from(self.id) | (count | last_mark << INDEX | from << (2 * INDEX)) << 32
    }

    #[inline(always)]
    pub(crate) fn unpack(word: u64) -> Self {
        let number = |place: u32| (word >> (32 + place * INDEX) & MASK) as u16;
        Self { id: word as u32, count: number(0), last_mark: number(1), from: number(2) }
    }
}

/// Where records go, and what of them is wanted.
pub(crate) struct Recorder {
    out: Mutex<Out>,
    skip: u64,
    limit: u64,
    /// Some thread has come to where recording starts.
    is_started: AtomicBool,
    process: u32,
    /// What happens when nobody listens any more.
    gone: fn(),
}

struct Out {
    to: File,
    blocks: Vec<u8>,
    has_failed: bool,
    /// Buffers of the reader that no thread uses.
    buffers: Vec<Option<&'static mut [Word]>>,
    /// Those of them that the reader does not read.
    free: Vec<u32>,
    /// How many threads use one.
    users: usize,
}

impl Recorder {
    /// Opens what records go to.
    pub(crate) fn new(
        options: &Options,
        head: &str,
        buffers: Vec<&'static mut [Word]>,
        move_up: impl Fn(OwnedFd) -> OwnedFd,
        gone: fn(),
    ) -> io::Result<Self> {
        let is_socket = std::fs::metadata(&options.out).is_ok_and(|about| about.file_type().is_socket());
        let descriptor =
            if is_socket { UnixStream::connect(&options.out)?.into() } else { File::create(&options.out)?.into() };
        let mut to = File::from(move_up(descriptor));
        to.write_all(stream::MAGIC)?;
        to.write_all(format!("{head}\n").as_bytes())?;
        let free = (0..buffers.len() as u32).rev().collect();
        let buffers = buffers.into_iter().map(Some).collect();
        let out = Out { to, blocks: Vec::new(), has_failed: false, buffers, free, users: 0 };
        Ok(Self {
            out: Mutex::new(out),
            skip: options.skip,
            limit: options.limit.unwrap_or(u64::MAX),
            is_started: AtomicBool::new(options.from.is_none()),
            process: std::process::id(),
            gone,
        })
    }

    /// Code is told before any thread executes it.
    pub(crate) fn tell_block<'a>(&self, id: u32, address: u64, instructions: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.is_child() {
            return;
        }
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        stream::put_block(&mut out.blocks, id, address, instructions);
    }

    /// Are records on their way?
    pub(crate) fn is_sending(&self) -> bool {
        matches!(self.out.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// A process that was forked is not recorded: its records would be among ours.
    fn is_child(&self) -> bool {
        std::process::id() != self.process
    }

    #[cold]
    fn send(&self, thread: u32, records: &mut Records) {
        if !self.is_child() {
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            let blocks = std::mem::take(&mut out.blocks);
            out.chunk(stream::BLOCKS, &blocks);
            match records.buffer() {
                Some(buffer) => out.exchange(thread, buffer, records),
                None => out.chunk(thread, records.bytes()),
            }
            if out.has_failed {
                (self.gone)();
            }
        }
        records.clear();
    }

    /// Where a thread puts its records.
    fn records(&self) -> Records {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // The reader needs some to read.
        let is_lent = out.users < out.buffers.len() / 2 && !self.is_child();
        match is_lent.then(|| out.free.pop()).flatten().and_then(|buffer| Some((buffer, out.take(buffer)?))) {
            Some((buffer, words)) => {
                out.users += 1;
                Records::lent(buffer, words)
            }
            None => Records::new(),
        }
    }

    /// A thread has ended, and sent all that it had.
    fn take_back(&self, records: &mut Records) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((buffer, words)) = records.give_back() {
            out.put(buffer, words);
            out.free.push(buffer);
            out.users -= 1;
        }
    }
}

impl Out {
    /// If nobody listens any more, a program goes on all the same.
    fn chunk(&mut self, thread: u32, bytes: &[u8]) {
        let Ok(length) = u32::try_from(bytes.len()) else { return };
        if length == 0 || self.has_failed {
            return;
        }
        let head = [thread, length].map(u32::to_le_bytes);
        self.has_failed = self.to.write_all(head.as_flattened()).and_then(|()| self.to.write_all(bytes)).is_err();
    }

    /// Lets the reader read the buffer that these records are in, and has them go on in another.
    fn exchange(&mut self, thread: u32, buffer: u32, records: &mut Records) {
        let length = records.bytes().len() as u32;
        if length == 0 || self.has_failed {
            return;
        }
        let head = [thread, length | IN_BUFFER, buffer].map(u32::to_le_bytes);
        match self.to.write_all(head.as_flattened()).and_then(|()| self.free_buffer()) {
            Ok((next, words)) => {
                let (_, read) = std::mem::replace(records, Records::lent(next, words)).give_back().unwrap_or_default();
                self.put(buffer, read);
            }
            Err(_) => self.has_failed = true,
        }
    }

    /// A buffer that can be written to; if there is none, the reader is waited for.
    fn free_buffer(&mut self) -> io::Result<(u32, &'static mut [Word])> {
        let buffer = match self.free.pop() {
            Some(buffer) => buffer,
            None => {
                let mut number = [0; 4];
                self.to.read_exact(&mut number)?;
                u32::from_le_bytes(number)
            }
        };
        self.take(buffer).map(|words| (buffer, words)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn take(&mut self, buffer: u32) -> Option<&'static mut [Word]> {
        self.buffers.get_mut(buffer as usize)?.take()
    }

    fn put(&mut self, buffer: u32, words: &'static mut [Word]) {
        if let Some(place) = self.buffers.get_mut(buffer as usize) {
            *place = Some(words);
        }
    }
}

/// A thread.
pub(crate) struct Thread {
    number: u32,
    records: Records,
    phase: Phase,
    /// The last instruction of the block that was marked, and the one that will be the last.
    mark: u16,
    last_mark: u16,
    /// Instructions that are still to be left out.
    ahead: u64,
    /// Instructions that are still to be told; none while nothing is recorded.
    left: u64,
    /// Of a system, the block that accesses are expected from.
    current: u32,
    /// Where the block is executed that starts, if that is elsewhere than where it was told to be.
    at: Option<u64>,
    /// What the emulator said of accesses, and what that means.
    kinds: [Kind; KINDS],
}

/// What the emulator says of an access, and what it is: 8 for a store, and log2 of the size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) info: u32,
    pub(crate) kind: u8,
}

/// So many kinds are remembered.
const KINDS: usize = 32;

impl Kind {
    /// One that the emulator does not say.
    const NONE: Self = Self { info: u32::MAX, kind: 0 };

    /// Where it is remembered.
    #[inline(always)]
    fn place(info: u32) -> usize {
        (info.wrapping_mul(0x9e37_79b9) >> 27) as usize % KINDS
    }
}

/// How much of a thread was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing: no thread came to where recording starts.
    Waits,
    /// Instructions are left out.
    Skips,
    Records,
    /// All that is wanted.
    Done,
}

impl Thread {
    /// It is told at once: threads are counted in the order in which they start.
    pub(crate) fn new(recorder: &Recorder, number: u32) -> Self {
        let mut records = recorder.records();
        records.start();
        recorder.send(number, &mut records);
        Self {
            number,
            records,
            phase: Phase::Waits,
            mark: 0,
            last_mark: 0,
            ahead: 0,
            left: 0,
            current: 0,
            at: None,
            kinds: [Kind::NONE; KINDS],
        }
    }

    /// A block starts. False: it has to be told [slowly](Self::block_slowly).
    #[inline(always)]
    #[must_use]
    pub(crate) fn block(&mut self, block: Block) -> bool {
        let count = u64::from(block.count);
        if self.mark != self.last_mark || self.left <= count || self.records.is_full() {
            return false;
        }
        self.left -= count;
        (self.mark, self.last_mark) = (0, block.last_mark);
        self.records.block(block.id);
        true
    }

    /// A block starts, which is [packed](Block::pack): there may be no room, or it is not wanted, or the one before was
    /// left.
    #[cold]
    #[inline(never)]
    pub(crate) fn block_slowly(&mut self, recorder: &Recorder, word: u64) {
        let block = Block::unpack(word);
        self.make_room(recorder);
        if self.mark != self.last_mark {
            self.leave(recorder);
        }
        (self.mark, self.last_mark) = (0, block.last_mark);
        if self.left == 0 {
            return self.out_of_turn(recorder, block);
        }
        self.left = self.left.saturating_sub(u64::from(block.count));
        self.put_block(block.id);
    }

    fn put_block(&mut self, id: u32) {
        if let Some(address) = self.at.take() {
            self.records.at(address);
        }
        self.records.block(id);
    }

    /// Instructions before this one are complete.
    #[inline(always)]
    pub(crate) fn mark(&mut self, index: u16) {
        self.mark = index;
    }

    /// An access, of which the emulator says `info`. False: it has to be told [slowly](Self::access_slowly).
    #[inline(always)]
    #[must_use]
    pub(crate) fn access(&mut self, info: u32, index: u16, address: u64) -> bool {
        let Kind { info: known, kind } = self.kinds[Kind::place(info)];
        if known != info || self.phase != Phase::Records || self.records.is_full() {
            return false;
        }
        self.records.access(kind, index, address);
        true
    }

    /// An access of a kind that may be new: 8 for a store, and log2 of the size.
    #[cold]
    #[inline(never)]
    pub(crate) fn access_slowly(&mut self, recorder: &Recorder, kind: Kind, index: u16, address: u64) {
        self.kinds[Kind::place(kind.info)] = kind;
        self.make_room(recorder);
        if self.phase == Phase::Records {
            self.records.access(kind.kind, index, address);
        }
    }

    /// A block of a system starts, `at` another place than where it was told to be.
    #[inline(always)]
    pub(crate) fn system_block(&mut self, recorder: &Recorder, block: Block, at: Option<u64>) {
        (self.current, self.at) = (block.id, at);
        if at.is_some() || !self.block(block) {
            self.block_slowly(recorder, block.pack());
        }
    }

    /// An access of a system. Accesses to devices may be made in a block of their own, which nobody says the start of:
    /// the emulator does so if it counts instructions.
    #[inline(always)]
    pub(crate) fn system_access(&mut self, recorder: &Recorder, kind: Kind, (block, index): (u32, u16), address: u64) {
        self.go_within(recorder, block);
        if !self.access(kind.info, index, address) {
            self.access_slowly(recorder, kind, index, address);
        }
    }

    /// What is in a register before an instruction of a system.
    pub(crate) fn register(&mut self, recorder: &Recorder, (block, index): (u32, u16), register: u8, value: u64) {
        if self.phase == Phase::Records {
            self.go_within(recorder, block);
            self.records.register(index, register, value);
            self.make_room(recorder);
        }
    }

    /// Is what happens now told?
    pub(crate) fn is_recording(&self) -> bool {
        self.phase == Phase::Records
    }

    /// What is in a register behind an instruction, or before one.
    pub(crate) fn value(&mut self, recorder: &Recorder, when: When, register: u8, value: Value) {
        let (is_before, index) = match when {
            When::Behind(index) => (false, index),
            When::Before(index) => (true, index),
        };
        self.records.value(is_before, index, register, value);
        self.make_room(recorder);
    }

    /// What the next access reads or writes.
    pub(crate) fn data(&mut self, recorder: &Recorder, words: &[u64]) {
        if self.phase == Phase::Records {
            self.records.data(words);
            self.make_room(recorder);
        }
    }

    /// What follows may be of a block of its own.
    #[inline(always)]
    fn go_within(&mut self, recorder: &Recorder, block: u32) {
        if block != self.current && self.phase == Phase::Records {
            self.records.within(block);
            self.make_room(recorder);
            self.current = block;
        }
    }

    /// The emulator said something of exceptions. It is told before recording starts, too: the state follows from it.
    pub(crate) fn text(&mut self, recorder: &Recorder, text: &str) {
        if self.phase == Phase::Done {
            return;
        }
        if self.records.is_too_full_for(text) {
            recorder.send(self.number, &mut self.records);
        }
        self.records.text(text);
        self.make_room(recorder);
    }

    /// Sends what there is.
    pub(crate) fn flush(&mut self, recorder: &Recorder) {
        recorder.send(self.number, &mut self.records);
    }

    pub(crate) fn call(&mut self, recorder: &Recorder, number: i64, arguments: [u64; 3]) {
        if self.phase == Phase::Records {
            self.records.call(number, arguments);
            self.make_room(recorder);
        }
    }

    pub(crate) fn call_return(&mut self, recorder: &Recorder, number: i64, result: i64) {
        if self.phase == Phase::Records {
            self.records.call_return(number, result);
            self.make_room(recorder);
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, recorder: &Recorder) {
        if self.mark != self.last_mark {
            self.leave(recorder);
        }
        self.last_mark = self.mark;
        self.records.end();
        recorder.send(self.number, &mut self.records);
        recorder.take_back(&mut self.records);
    }

    /// The block before was left by a fault.
    #[cold]
    fn leave(&mut self, recorder: &Recorder) {
        if matches!(self.phase, Phase::Records | Phase::Done) {
            self.records.left(self.mark);
            self.make_room(recorder);
        }
    }

    fn make_room(&mut self, recorder: &Recorder) {
        if self.records.is_full() {
            recorder.send(self.number, &mut self.records);
        }
    }

    /// A block that is not wanted, or the first that is.
    #[cold]
    fn out_of_turn(&mut self, recorder: &Recorder, block: Block) {
        let mut ahead = 0;
        if self.phase == Phase::Waits {
            if block.from != 0 && !recorder.is_started.swap(true, Ordering::Relaxed) {
                ahead = block.from - 1;
            }
            if !recorder.is_started.load(Ordering::Relaxed) {
                return;
            }
            (self.phase, self.ahead) = (Phase::Skips, recorder.skip);
        }
        if self.phase == Phase::Skips {
            let wanted = u64::from(block.count - ahead);
            if self.ahead >= wanted && self.ahead > 0 {
                self.ahead -= wanted;
                return;
            }
            let left_out = ahead + u16::try_from(self.ahead).unwrap_or(u16::MAX);
            (self.phase, self.left) = (Phase::Records, recorder.limit);
            if left_out > 0 {
                self.records.part(left_out);
            }
            self.left = self.left.saturating_sub(u64::from(block.count - left_out));
            self.put_block(block.id);
        } else {
            self.phase = Phase::Done;
        }
        self.make_room(recorder);
    }
}
