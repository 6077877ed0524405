//! Steps of a system: what its CPUs execute, and the exceptions between.
//!
//! records of the plugin: blocks, accesses, log of exceptions ─▶ **steps**, one core per CPU
//!
//! A block is emitted when the next one of its CPU starts. What was logged between the two shows whether the first was left
//! by an exception, and where: the return address of an exception has to fit the block. A contradiction is a gap, and
//! counted. AArch32 code is not recorded.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;

use unspool_model::{Context, Event, Instruction, Step};
use unspool_wire::{Access, Code, EmulatorCapabilities, Record, Word, damage, decode_text, words_of};

use super::block::{Block, Ended};
use super::cpu::{Cpu, Held};
use super::exceptions::ExceptionEmitter;
use super::log::Entry;
use super::operands::{self, Operand};
use super::options::SystemOptions;
use super::processes::Processes;
use super::state::Change;
use crate::emitter::{At, BlockEmitter, Sink, emit_event, within_limit};
use crate::machine::Machine;
use crate::recorder::{MAX_AHEAD, Recorder, unknown};
use crate::registers::{RegisterNames, RegisterValue};

/// Emits the steps of a system.
pub(super) struct SystemRecorder {
    limit: u64,
    assumed: Context,
    capabilities: EmulatorCapabilities,
    /// Registers are emitted before instructions whose address they form.
    wants_operands: bool,
    /// Recording does not start with the first instruction.
    is_part: bool,
    blocks: Vec<Option<Block>>,
    cpus: BTreeMap<u32, Cpu>,
    names: RegisterNames,
    step: Step,
    pub(super) exceptions: ExceptionEmitter,
    /// Processes that were seen, if they are recorded.
    pub(super) processes: Option<Processes>,
    /// The stream has ended.
    pub(super) is_over: bool,
}

/// Maximum number of bytes that wait until the level is known: some million instructions, or the limit of instructions.
const MAX_WAITING: u64 = 1 << 26;
/// The smallest such maximum.
const MIN_WAITING: u64 = 1 << 20;
/// Maximum number of bytes of an instruction.
const BYTES: u64 = 64;

const NO_LEVEL: &str = "no exception shows at which Exception level this starts: assume one (--assume el=0..3)";

impl Recorder for SystemRecorder {
    fn code(&mut self, code: &Code<'_>) -> io::Result<()> {
        let id = code.id as usize;
        if id > self.blocks.len() + MAX_AHEAD {
            return Err(damage("the number of a block of code is too high"));
        }
        if self.blocks.len() <= id {
            self.blocks.resize_with(id + 1, || None);
        }
        if let Some(slot) = self.blocks.get_mut(id) {
            *slot = Block::new(code.address, &code.instructions);
        }
        Ok(())
    }

    /// Processes records of a CPU; they wait until its level is known.
    fn records(&mut self, number: u32, bytes: &[u8], sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
        let new = || Cpu { number, is_context_due: true, ..Cpu::default() };
        let mut cpu = self.cpus.remove(&number).unwrap_or_else(new);
        let mut flow = ControlFlow::Continue(());
        if !cpu.is_done {
            cpu.waiting.extend_from_slice(bytes);
            while flow.is_continue() && !cpu.waiting.is_empty() && self.finds_level(&mut cpu)? {
                let waiting = std::mem::take(&mut cpu.waiting);
                cpu.searched = 0;
                flow = self.each_record(&mut cpu, words_of(&waiting)?, sink)?;
            }
        }
        self.cpus.insert(number, cpu);
        let mut running = self.cpus.values().filter(|cpu| cpu.has_run);
        Ok(if running.all(|cpu| cpu.is_done) && self.has_run() { ControlFlow::Break(()) } else { flow })
    }

    fn finish(&mut self, _signal: Option<i32>, sink: Sink<'_>) -> io::Result<()> {
        self.is_over = true;
        let mut cpus = std::mem::take(&mut self.cpus);
        for cpu in cpus.values_mut() {
            if has_block(&cpu.waiting) && !cpu.has_run {
                return Err(unknown(NO_LEVEL));
            }
            if self.complete(cpu, None, sink)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl SystemRecorder {
    pub(super) fn new(options: &SystemOptions, capabilities: EmulatorCapabilities) -> Self {
        Self {
            limit: options.limit.unwrap_or(u64::MAX),
            assumed: options.assumed,
            capabilities,
            wants_operands: options.operands,
            is_part: options.from.is_some() || options.skip > 0,
            blocks: Vec::new(),
            cpus: BTreeMap::new(),
            names: RegisterNames::new(Machine::Aarch64),
            step: Step::default(),
            exceptions: ExceptionEmitter::default(),
            processes: options.processes.then(Processes::default),
            is_over: false,
        }
    }

    /// Whether the level is known: it is that which the next exception comes from.
    fn finds_level(&self, cpu: &mut Cpu) -> io::Result<bool> {
        if cpu.state.level.is_some() {
            return Ok(true);
        }
        let assumed = self.assumed.level.filter(|_| !cpu.has_run);
        let searched = std::mem::replace(&mut cpu.searched, cpu.waiting.len());
        let news = cpu.waiting.get(searched..).unwrap_or_default();
        match first_level(words_of(news)?)?.or(assumed) {
            Some(level) if cpu.has_run => cpu.state.level = Some(level),
            Some(level) => cpu.state.start(level),
            // The gap was emitted.
            None if cpu.waiting.len() as u64 > self.max_waiting() && cpu.has_run => {
                cpu.waiting.clear();
                cpu.searched = 0;
                return Ok(false);
            }
            None if cpu.waiting.len() as u64 > self.max_waiting() => return Err(unknown(NO_LEVEL)),
            None => return Ok(false),
        }
        Ok(true)
    }

    fn max_waiting(&self) -> u64 {
        self.limit.saturating_mul(BYTES).clamp(MIN_WAITING, MAX_WAITING)
    }

    fn has_run(&self) -> bool {
        self.cpus.values().any(|cpu| cpu.has_run)
    }

    fn each_record(&mut self, cpu: &mut Cpu, mut words: &[Word], sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
        while !words.is_empty() {
            if cpu.state.level.is_none() {
                cpu.waiting = words.as_flattened().to_vec();
                break;
            }
            let record = Record::decode(&mut words).ok_or_else(|| damage("a record is damaged"))?;
            match record {
                Record::Access(access) => self.access(cpu, access),
                Record::Block { id } => {
                    if self.start_block(cpu, id as usize, sink)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                // What a killed emulator did of the block after its last mark is unknown.
                Record::BlockLeft { completed } | Record::Stopped { mark: completed, .. } => {
                    cpu.held = cpu.held.map(|held| Held { left: Some(completed), ..held });
                }
                Record::LogText { length } => {
                    let text = decode_text(&mut words, length).ok_or_else(|| damage("a text is damaged"))?;
                    match Entry::read(text) {
                        Some(entry) if cpu.held.is_none() => cpu.apply(&entry),
                        entry => cpu.entries.extend(entry),
                    }
                }
                Record::Operand { register, index, value } => {
                    cpu.translation.read(register, value);
                    let index = self.index_in_held(cpu, index);
                    cpu.operands.extend(index.map(|index| Operand { index, register, value }));
                }
                // Values are of the block that is held, even if that is executed in parts.
                Record::RegisterValue { register, index, is_before, value } => {
                    cpu.values.push(RegisterValue { index, is_before, register, words: [value, 0] });
                }
                Record::VectorValue { register, index, is_before, value } => {
                    cpu.values.push(RegisterValue { index, is_before, register, words: value });
                }
                Record::AccessData { data, .. } => cpu.data = Some(data),
                Record::BlockAddress { address } => cpu.at = Some(address),
                Record::Time { ticks } => cpu.time = Some(ticks),
                Record::WithinBlock { id } => self.within(cpu, id as usize),
                Record::PartialBlock { skipped } => cpu.skipped = skipped,
                Record::ThreadStart {} => {}
                Record::ThreadEnd {} => {
                    cpu.has_ended = true;
                    if self.complete(cpu, None, sink)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Record::SystemCall { .. } | Record::SystemCallReturn { .. } | Record::LimitReached { .. } => {
                    return Err(damage("this is a stream of a program"));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Adds an access; one that was made in another block belongs to the instruction with the same address.
    #[inline]
    fn access(&self, cpu: &mut Cpu, access: Access) {
        let data = cpu.data.take();
        let index = self.index_in_held(cpu, access.index);
        cpu.accesses.extend(index.map(|index| (Access { index, ..access }, data)));
    }

    /// The instruction of the block that is held, by its index in the block that is executed.
    #[inline]
    fn index_in_held(&self, cpu: &Cpu, index: u16) -> Option<u16> {
        match cpu.within {
            None => Some(index),
            Some(id) => self.same_in_held(cpu, id, index),
        }
    }

    fn block(&self, id: usize) -> Option<&Block> {
        self.blocks.get(id)?.as_ref()
    }

    fn same_in_held(&self, cpu: &Cpu, id: usize, index: u16) -> Option<u16> {
        let address = self.block(id)?.instructions.get(usize::from(index))?.address;
        let held = self.block(cpu.held?.id)?;
        u16::try_from(held.position_in_page(address)?).ok()
    }

    /// An instruction is executed again, in a block of its own: what it did before does not count.
    fn within(&self, cpu: &mut Cpu, id: usize) {
        if let Some(index) = self.same_in_held(cpu, id, 0) {
            cpu.accesses.retain(|(access, _)| access.index < index);
            cpu.operands.retain(|operand| operand.index < index);
        }
        cpu.within = Some(id);
    }

    /// Starts a block: the one before is complete.
    fn start_block(&mut self, cpu: &mut Cpu, id: usize, sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
        let skipped = usize::from(std::mem::take(&mut cpu.skipped));
        let at = cpu.at.take();
        let moved_by = self.block(id).zip(at).map_or(0, |(block, at)| block.distance(at));
        let first = self.block(id).map(|block| block.moved(moved_by).address(skipped));
        if !std::mem::replace(&mut cpu.has_run, true) && self.is_part {
            cpu.state.forget();
        }
        let next = match first {
            _ if cpu.is_aarch32 => return Ok(ControlFlow::Continue(())),
            Some(Some(address)) => address,
            // Nothing of it was fetched; the exception that follows is logged.
            Some(None) => return Ok(ControlFlow::Continue(())),
            None => return self.unknown_block(cpu, sink),
        };
        let flow = self.complete(cpu, Some(next), sink)?;
        cpu.held = Some(Held { id, moved_by, skipped, left: None, time: cpu.time });
        Ok(flow)
    }

    /// Code that is not A64 is not recorded.
    fn unknown_block(&mut self, cpu: &mut Cpu, sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
        if cpu.held.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        let entries = std::mem::take(&mut cpu.entries);
        Ok(self.exceptions.emit_gap(cpu, "code that is not A64 is executed", &entries, sink))
    }

    /// Emits the block that is held, and what was logged after it; execution continues at `next`.
    fn complete(&mut self, cpu: &mut Cpu, next: Option<u64>, sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
        let entries = std::mem::take(&mut cpu.entries);
        cpu.within = None;
        let Some(held) = cpu.held.take() else {
            cpu.forget_block();
            return Ok(ControlFlow::Continue(()));
        };
        let Some(block) = self.block(held.id) else {
            return Err(damage("a block is executed whose code was not sent"));
        };
        let block = block.moved(held.moved_by);
        let end = block.end();
        let ended = match (next, entries.first()) {
            (None, None) => Some(block.cut(held.left, cpu.has_ended)),
            (next, entry) => block.ended(entry, next.unwrap_or(0), held.left),
        };
        let Some(ended) = ended else {
            let text = format!("{entries:x?}, and execution goes on at {next:x?}");
            return Ok(self.exceptions.emit_gap(cpu, &text, &entries, sink));
        };
        if self.emit(cpu, held, ended, sink)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if cpu.is_done || entries.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(self.exceptions.emit(cpu, end, &entries, next, sink))
    }

    /// Emits what was executed of a block.
    fn emit(&mut self, cpu: &mut Cpu, held: Held, ended: Ended, sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
        macro_rules! or_return {
            ($flow:expr) => {
                if $flow.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            };
        }
        let Some(Some(block)) = self.blocks.get(held.id) else { return Ok(ControlFlow::Continue(())) };
        let (count, is_cut) = within_limit(self.limit, cpu.emitted, held.skipped, ended.count);
        (cpu.is_done, cpu.emitted_at) = (is_cut, held.time);
        let placed = block.moved(held.moved_by);
        let mut emitter = BlockEmitter {
            core: cpu.number,
            time: held.time,
            emitted: &mut cpu.emitted,
            step: &mut self.step,
            names: &self.names,
            atomics: &block.atomics,
            accesses: cpu.accesses.iter().copied().peekable(),
            values: cpu.values.iter().peekable(),
        };
        for index in held.skipped..count {
            let Some(instruction) = placed.instruction(index) else { break };
            if std::mem::take(&mut cpu.is_context_due) {
                let mut context = cpu.state.context(&self.assumed).map_err(unknown)?;
                if let Some(processes) = &mut self.processes {
                    processes.identify(&cpu.translation, &mut context);
                }
                let at = At { core: cpu.number, position: *emitter.emitted, time: held.time };
                or_return!(emit_event(emitter.step, at, Event::Context(context), "", sink));
            }
            let is_raised = ended.has_raised && index + 1 == ended.count;
            or_return!(emitter.state_before(index, sink));
            emitter.step.clear();
            let operands = operands::remove(&mut cpu.operands, index);
            if self.wants_operands && operands::state(&operands, &instruction, emitter.step) {
                (emitter.step.core, emitter.step.position) = (cpu.number, *emitter.emitted);
                or_return!(sink.step(emitter.step));
                emitter.step.clear();
            }
            emitter.accesses(index, false, |access| usize::from(access.index) == index && !is_raised);
            if !operands.is_empty() && !is_raised {
                operands::zeros(&operands, &instruction, self.capabilities.data, emitter.step);
            }
            if !is_raised {
                emitter.values(index);
            }
            let is_last = index + 1 == block.instructions.len();
            let branch = if is_last { ended.branch } else { instruction.branch };
            or_return!(emitter.instruction(Instruction { branch, ..instruction }, sink));
            let change = block.changes.iter().find(|(at, _)| usize::from(*at) == index);
            if let Some((_, change)) = change.filter(|_| !is_raised) {
                let operand = operands::source(&operands, &instruction).filter(|_| self.capabilities.operands);
                cpu.is_context_due |= cpu.state.execute(*change, operand);
                if let Change::Translation(register) = change {
                    cpu.is_context_due |= cpu.translation.write(*register, operand) && self.processes.is_some();
                }
            }
        }
        cpu.forget_block();
        Ok(ControlFlow::Continue(()))
    }
}

/// The level that the first exception in a chunk comes from.
fn first_level(mut words: &[Word]) -> io::Result<Option<u8>> {
    while !words.is_empty() {
        let record = Record::decode(&mut words).ok_or_else(|| damage("a record is damaged"))?;
        if let Record::LogText { length } = record {
            let text = decode_text(&mut words, length).ok_or_else(|| damage("a text is damaged"))?;
            let level = Entry::read(text).and_then(|entry| entry.from());
            if level.is_some() {
                return Ok(level);
            }
        }
    }
    Ok(None)
}

/// Whether a block was executed.
fn has_block(bytes: &[u8]) -> bool {
    let mut words = bytes.as_chunks().0;
    while let Some(record) = Record::decode(&mut words) {
        match record {
            Record::Block { .. } => return true,
            Record::LogText { length } if decode_text(&mut words, length).is_none() => return false,
            _ => {}
        }
    }
    false
}
