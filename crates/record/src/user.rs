//! Steps of a user program from the records of the plugin.
//!
//! records ─▶ blocks, each held until it is known where execution continues ─▶ **steps, templates**
//!
//! A block is emitted when the next one of its thread starts: then it is known whether its last branch was taken, how far it
//! came, and whether a signal arrived in between. An instruction that did not complete is not emitted: the kernel repeats
//! it, or the program never returns to it.
//!
//! A fatal signal is an exception after the last complete instruction, with the address of the one that caused it. Every thread
//! ends with it, and one is where it arrived. The others, and all of an emulator that was killed itself, are emitted up to the last
//! instruction that is known to be complete.

mod a32_or_t32;
mod block;
mod templates;
mod thread;

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;

use signal_hook::low_level;
use unspool_model::{Event, Exception, ExceptionKind, Instruction, Step, StoppedAt};
use unspool_wire::{Code, Record, Word, block_of, damage, words_of};

pub use self::a32_or_t32::AmbiguousState;
use self::a32_or_t32::{OpenStates, Surroundings};
use self::block::{Block, Ended};
use self::templates::Templates;
use self::thread::{Call, Stop, Thread, Unusual, data_of};
use crate::emitter::{At, BlockEmitter, Sink, emit_event, within_limit};
use crate::machine::Machine;
use crate::recorder::{MAX_AHEAD, Recorder};
use crate::registers::{RegisterNames, RegisterValue};

/// Emits the steps of a user program.
pub(crate) struct UserRecorder {
    machine: Machine,
    limit: u64,
    blocks: Vec<Block>,
    templates: Templates,
    /// The number of blocks of code that were sent.
    known: usize,
    /// Blocks of AArch32 that may be A32 or T32.
    open_states: OpenStates,
    /// Running threads, by the numbers of the emulator.
    threads: HashMap<u32, Thread>,
    /// The number of threads that were started.
    count: u32,
    names: RegisterNames,
    step: Step,
}

/// Maximum number of accesses of a block.
const MAX_ACCESSES: usize = 1 << 20;

impl Recorder for UserRecorder {
    fn code(&mut self, code: &Code<'_>) -> io::Result<()> {
        let id = code.id as usize;
        self.known += 1;
        if id > self.known + MAX_AHEAD {
            return Err(damage("the number of a block of code is too high"));
        }
        if id >= self.blocks.len() {
            self.blocks.resize_with(id + 1, Block::default);
        }
        let block = match self.machine {
            Machine::Arm => self.open_states.block(id, code.address, &code.instructions),
            machine => Block::new(machine.isa(), code.address, &code.instructions),
        };
        self.templates.add_block(id, block.instructions.first().map(|first| first.address));
        if let Some(slot) = self.blocks.get_mut(id) {
            *slot = block;
        }
        Ok(())
    }

    fn records(&mut self, number: u32, bytes: &[u8], sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
        let mut words = words_of(bytes)?;
        let known = self.threads.remove(&number);
        if known.is_none() && Record::decode(&mut &*words) != Some(Record::ThreadStart {}) {
            return Err(damage("a record of a thread that was not started"));
        }
        let mut thread = known.unwrap_or_default();
        while let Some(word) = words.first() {
            let flow = match block_of(word) {
                Some(_) => self.start_blocks(&mut thread, &mut words, sink)?,
                None => self.record(&mut thread, &mut words, sink)?,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        if thread.accesses.len() > MAX_ACCESSES || thread.values.len() > MAX_ACCESSES {
            return Err(damage("a block has more accesses than it can have"));
        }
        self.threads.insert(number, thread);
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self, signal: Option<i32>, sink: Sink<'_>) -> io::Result<()> {
        let mut rest: Vec<Thread> = self.threads.drain().map(|(_, thread)| thread).collect();
        rest.retain(|thread| thread.held.is_some());
        rest.sort_by_key(|thread| thread.core);
        let signaled = signal.filter(|signal| *signal != SIGKILL).and_then(|_| self.signaled(&rest));
        for mut thread in rest {
            let stop = match signal {
                Some(signal) if signaled == Some(thread.core) => Some(Stop::Signal(signal)),
                Some(signal) => Some(Stop::CutOff(signal)),
                None => None,
            };
            if self.stop(&mut thread, stop, sink).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Cannot be caused by code, and stops threads anywhere.
const SIGKILL: i32 = 9;

impl UserRecorder {
    pub(crate) fn new(machine: Machine, limit: Option<u64>) -> Self {
        Self {
            machine,
            limit: limit.unwrap_or(u64::MAX),
            blocks: Vec::new(),
            templates: Templates::default(),
            known: 0,
            open_states: OpenStates::default(),
            threads: HashMap::new(),
            count: 0,
            names: RegisterNames::new(machine),
            step: Step::default(),
        }
    }

    /// Blocks that may have been emitted in the wrong instruction set.
    pub(crate) fn ambiguous_state(&self) -> Option<AmbiguousState> {
        self.open_states.ambiguous()
    }

    /// The core of the thread that a fatal signal arrived at, which the emulator does not report: one that called the kernel to
    /// send a signal, or one that stopped at an instruction that can fail, or one that was not in the kernel.
    fn signaled(&self, threads: &[Thread]) -> Option<u32> {
        let rank = |thread: &&Thread| {
            let Unusual { call, left, .. } = thread.unusual.unwrap_or_default();
            let stopped = thread.held.and_then(|id| self.blocks.get(id)?.stopped_by(0, left, &thread.accesses));
            match call {
                Some(call) if self.machine.sends_signal(call.number) => 3,
                None if stopped.is_some() => 2,
                None => 1,
                Some(_) => 0,
            }
        };
        // The first of those with the highest rank.
        threads.iter().rev().max_by_key(rank).map(|thread| thread.core)
    }

    /// Emits the last block of a thread that has no end of its own.
    fn stop(&mut self, thread: &mut Thread, stop: Option<Stop>, sink: Sink<'_>) -> ControlFlow<()> {
        let unusual = thread.unusual.get_or_insert_default();
        unusual.stop = stop;
        if !thread.has_ended && unusual.mark.is_none() && unusual.call.is_none() {
            // It is not known how far it came in its last block.
            unusual.left.get_or_insert(0);
        }
        self.complete(thread, None, sink)
    }

    /// Processes a record that starts no block.
    #[inline]
    fn record(&mut self, thread: &mut Thread, words: &mut &[Word], sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
        match Record::decode(words).ok_or_else(|| damage("a record is damaged"))? {
            Record::Access(_) | Record::AccessData { .. } if thread.held.is_none() || thread.has_ended => {
                return match self.complete(thread, None, sink) {
                    ControlFlow::Continue(()) => Err(damage("an access by no block")),
                    flow => Ok(flow),
                };
            }
            Record::Access(access) => thread.accesses.push(access),
            Record::BlockLeft { completed } => thread.unusual.get_or_insert_default().left = Some(completed),
            Record::SystemCall { number, .. } => {
                thread.unusual.get_or_insert_default().call = Some(Call { number, result: None });
            }
            Record::SystemCallReturn { result, .. } => {
                if let Some(call) = thread.unusual.as_mut().and_then(|unusual| unusual.call.as_mut()) {
                    call.result = Some(result);
                }
            }
            Record::ThreadStart {} => {
                if self.complete(thread, None, sink).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                *thread = Thread { core: self.count, ..Thread::default() };
                self.count += 1;
            }
            Record::ThreadEnd {} => {
                thread.has_ended = true;
                // Without a call, a signal has ended it.
                if thread.unusual.is_some_and(|unusual| unusual.call.is_some()) {
                    return Ok(self.complete(thread, None, sink));
                }
            }
            Record::Stopped { mark, last_mark } => {
                let unusual = thread.unusual.get_or_insert_default();
                unusual.mark = Some(mark);
                if mark != last_mark {
                    unusual.left = Some(mark);
                }
            }
            Record::LimitReached { next } => {
                thread.next = Some(next as usize);
                let next = self.address_in(next as usize, 0)?;
                return Ok(self.complete(thread, Some(next), sink));
            }
            Record::PartialBlock { skipped } => thread.skipped = skipped,
            Record::AccessData { data, .. } => {
                let next = thread.accesses.len();
                thread.data.retain(|(at, _)| *at != next);
                thread.data.push((next, data));
            }
            Record::RegisterValue { register, index, is_before, value } => {
                thread.values.push(RegisterValue { index, is_before, register, words: [value, 0] });
            }
            Record::VectorValue { register, index, is_before, value } => {
                thread.values.push(RegisterValue { index, is_before, register, words: value });
            }
            Record::Block { .. }
            | Record::LogText { .. }
            | Record::WithinBlock { .. }
            | Record::Operand { .. }
            | Record::BlockAddress { .. }
            | Record::Time { .. } => return Err(damage("this is a stream of a system")),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Starts a block: the one before is complete, and so are those after it that do what they always do.
    fn start_blocks(
        &mut self,
        thread: &mut Thread,
        words: &mut &[Word],
        sink: Sink<'_>,
    ) -> io::Result<ControlFlow<()>> {
        let skipped = usize::from(std::mem::take(&mut thread.skipped));
        let first = self.first_address(words, skipped)?;
        thread.next = words.first().and_then(block_of);
        if self.complete(thread, Some(first), sink).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let has_values = !thread.values.is_empty() || !thread.data.is_empty();
        if skipped > 0 {
            thread.unusual = Some(Unusual { skipped, ..Unusual::default() });
        } else if thread.emitted > 0 && self.machine != Machine::Arm && !has_values && sink.takes_templates() {
            let ControlFlow::Continue(passed) = self.emit_templates(thread, words, sink) else {
                return Ok(ControlFlow::Break(()));
            };
            *words = words.get(passed..).unwrap_or_default();
            self.first_address(words, 0)?;
        }
        thread.held = words.first().and_then(block_of);
        *words = words.get(1..).unwrap_or_default();
        Ok(ControlFlow::Continue(()))
    }

    /// The address of the first instruction that is recorded of the block in the first word.
    #[inline]
    fn first_address(&self, words: &[Word], skipped: usize) -> io::Result<u64> {
        self.address_in(words.first().and_then(block_of).unwrap_or(usize::MAX), skipped)
    }

    /// The address of an instruction of a block.
    #[inline]
    fn address_in(&self, id: usize, index: usize) -> io::Result<u64> {
        let instruction = self.blocks.get(id).and_then(|block| block.instructions.get(index));
        instruction.map(|found| found.address).ok_or_else(|| damage("a block is executed whose code was not sent"))
    }

    /// Hands over blocks that do what they always do. Returns the number of their words.
    fn emit_templates(&mut self, thread: &mut Thread, words: &[Word], sink: Sink<'_>) -> ControlFlow<(), usize> {
        let passed = self.templates.find(words, self.limit.saturating_sub(thread.emitted));
        let (start, end) = (thread.emitted, thread.emitted + self.templates.instructions());
        let (mut executions, mut addresses, mut rest) = (0, 0, words);
        loop {
            let trace = self.templates.trace(thread.core, executions, addresses, thread.emitted - start);
            if trace.executions.is_empty() {
                break;
            }
            let Some(StoppedAt { executions: taken, addresses: used, is_final }) = sink.templates(&trace)? else {
                break;
            };
            thread.emitted += trace.instructions_of(taken);
            for _ in trace.executions.iter().take(taken) {
                let id = rest.first().and_then(block_of).unwrap_or(0);
                rest = rest.get(self.templates.words_of(id)..).unwrap_or_default();
            }
            let Some(id) = rest.first().and_then(block_of) else { break };
            addresses += used + self.templates.addresses_of(executions + taken);
            executions += taken + 1;
            self.emit_one_as_steps(thread, id, &mut rest, sink)?;
            if is_final {
                self.templates.give_up(id);
            }
        }
        thread.emitted = end;
        ControlFlow::Continue(passed)
    }

    /// Emits the steps of the template execution where the sink stopped.
    #[cold]
    fn emit_one_as_steps(
        &mut self,
        thread: &mut Thread,
        id: usize,
        words: &mut &[Word],
        sink: Sink<'_>,
    ) -> ControlFlow<()> {
        let (now, rest) = words.split_at_checked(self.templates.words_of(id)).unwrap_or((words, &[]));
        *words = rest;
        let mut now = now.get(1..).unwrap_or_default();
        while let Some(Record::Access(access)) = Record::decode(&mut now) {
            thread.accesses.push(access);
        }
        let next = self.first_address(rest, 0).ok();
        self.emit(thread, id, next, sink)
    }

    /// Emits the block that is held; execution continues at `next`.
    #[inline]
    fn complete(&mut self, thread: &mut Thread, next: Option<u64>, sink: Sink<'_>) -> ControlFlow<()> {
        match thread.held.take() {
            Some(id) => self.emit(thread, id, next, sink),
            None => ControlFlow::Continue(()),
        }
    }

    /// Emits the steps of a block.
    fn emit(&mut self, thread: &mut Thread, id: usize, next: Option<u64>, sink: Sink<'_>) -> ControlFlow<()> {
        let Unusual { skipped, call, left, stop, mark } = thread.unusual.take().unwrap_or_default();
        if !self.open_states.is_empty() {
            self.open_states.settle(&mut self.blocks, &Surroundings { thread, id, left, next });
        }
        let Some(block) = self.blocks.get(id) else { return ControlFlow::Continue(()) };
        if thread.emitted == 0 {
            emit_event(
                &mut self.step,
                At { core: thread.core, position: 0, time: None },
                Event::Context(self.machine.context()),
                "",
                sink,
            )?;
        }
        let mut ended = block.ended(left, next, &thread.accesses);
        let mut fault = None;
        match stop.filter(|_| call.is_none()) {
            Some(Stop::Signal(signal)) => {
                let stopped = block.stopped_by(signal, left, &thread.accesses);
                let count = stopped.unwrap_or(block.instructions.len());
                fault = block.instructions.get(count).map(|instruction| instruction.address);
                ended = Ended { count, branch: ended.branch.filter(|_| fault.is_none()), is_straight: true };
            }
            // What it did after the last mark is unknown.
            Some(Stop::CutOff(_)) => {
                let count = mark.or(left).map_or(ended.count, usize::from);
                ended = Ended { count, branch: None, is_straight: true };
            }
            None => {}
        }
        let is_whole = skipped == 0 && left.is_none() && call.is_none() && next.is_some();
        if is_whole && ended.is_straight && ended.count == block.instructions.len() {
            self.templates.learn(id, block, &thread.accesses);
        }
        if self.machine == Machine::Arm {
            thread.leads = block.leads().filter(|_| ended.is_straight && self.open_states.is_settled(id));
        }
        let values = std::mem::take(&mut thread.values);
        let (count, is_cut) = within_limit(self.limit, thread.emitted, skipped, ended.count);
        let data = &thread.data;
        let accesses = thread.accesses.iter().enumerate().map(|(at, access)| (*access, data_of(data, at)));
        let mut emitter = BlockEmitter {
            core: thread.core,
            time: None,
            emitted: &mut thread.emitted,
            step: &mut self.step,
            names: &self.names,
            atomics: &block.atomics,
            accesses: accesses.peekable(),
            values: values.iter().peekable(),
        };
        for (index, instruction) in block.instructions.iter().enumerate().take(count) {
            if index >= skipped {
                emitter.state_before(index, sink)?;
            }
            emitter.step.clear();
            emitter.accesses(index, true, |_| true);
            if index < skipped {
                continue;
            }
            let is_last = index + 1 == block.instructions.len();
            // What registers hold after the last instruction may have been written by the kernel.
            if !is_last || ended.is_straight {
                emitter.values(index);
            }
            let branch = if is_last { ended.branch } else { instruction.branch };
            emitter.instruction(Instruction { branch, ..*instruction }, sink)?;
        }
        let values = values.get(values.len() - emitter.values.len()..).unwrap_or_default();
        thread.accesses.clear();
        thread.data.clear();
        if is_cut {
            return ControlFlow::Continue(());
        }
        if call.is_some() || !ended.is_straight {
            self.emit_kernel(thread, call, next, sink)?;
        }
        if let Some(stop) = stop {
            self.emit_stop(thread, stop, fault, sink)?;
        }
        if !values.is_empty() && self.names.state(&mut self.step, (thread.core, thread.emitted), values.iter()) {
            return sink.step(&self.step);
        }
        ControlFlow::Continue(())
    }

    /// Emits a system call, or a signal that sent the program elsewhere.
    #[cold]
    fn emit_kernel(
        &mut self,
        thread: &Thread,
        call: Option<Call>,
        next: Option<u64>,
        sink: Sink<'_>,
    ) -> ControlFlow<()> {
        let note = match (call, next) {
            (Some(Call { number, result: Some(result) }), _) => format!("system call {number}: {result}"),
            (Some(Call { number, result: None }), _) => format!("system call {number}"),
            (None, Some(next)) => format!("signal: execution goes on at {next:#x}"),
            (None, None) => return ControlFlow::Continue(()),
        };
        let kind = if call.is_some() { ExceptionKind::Synchronous } else { ExceptionKind::Unknown };
        // With Arm, the number is that in the opcode.
        let has_number = matches!(self.machine, Machine::Riscv32 | Machine::Riscv64);
        let call = call.filter(|_| has_number).and_then(|call| u16::try_from(call.number).ok());
        let exception = Event::Exception(Exception { kind, call, ..Exception::default() });
        let context = next.map(|_| Event::Context(self.machine.context()));
        let at = At { core: thread.core, position: thread.emitted, time: None };
        let mut emit = |event, note| emit_event(&mut self.step, at, event, note, sink);
        emit(exception, "")?;
        emit(Event::Note, &note)?;
        context.map_or(ControlFlow::Continue(()), |context| emit(context, ""))
    }

    /// Emits the signal that killed the program: where it arrived, an exception that does not return, with the address of the
    /// instruction that caused it.
    #[cold]
    fn emit_stop(&mut self, thread: &Thread, stop: Stop, fault: Option<u64>, sink: Sink<'_>) -> ControlFlow<()> {
        let at = At { core: thread.core, position: thread.emitted, time: None };
        let signal = match stop {
            Stop::Signal(signal) => signal,
            Stop::CutOff(signal) => {
                let note = format!("signal {}: the program was killed here or later", signal_text(signal));
                return emit_event(&mut self.step, at, Event::Note, &note, sink);
            }
        };
        let exception = Exception { return_address: fault, ..Exception::default() };
        let place = fault.map(|address| format!(" at {address:#x}")).unwrap_or_default();
        let note = format!("signal {}{place}: the program was killed", signal_text(signal));
        emit_event(&mut self.step, at, Event::Exception(exception), "", sink)?;
        emit_event(&mut self.step, at, Event::Note, &note, sink)
    }
}

/// The number of a signal, and its name if it has one.
fn signal_text(signal: i32) -> String {
    match low_level::signal_name(signal) {
        Some(name) => format!("{signal} ({name})"),
        None => signal.to_string(),
    }
}
