//! Steps of a system: what its CPUs execute, and the exceptions between.
//!
//! records of the plugin: blocks, accesses, what the emulator logs ─▶ **steps**, one core for each CPU
//!
//! A block is told when the next one of its CPU starts. What the emulator logged between the two says whether the first
//! was left by an exception, and where: the address that an exception returns to has to fit the block. What does not
//! fit is a gap, and counted. Code of AArch32 is not told.

mod exceptions;

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;

use unspool_model::{Context, Direction, Event, SourceError, Step};

use self::exceptions::follow;
use super::super::Machine;
use super::super::Told;
use super::super::chunks::Chunks;
use super::super::stream::{self, Operand, Record, Touch, Word, damage, take_code, take_record, take_text, words};
use super::super::values::{Names, Value};
use super::SystemOptions;
use super::block::{Block, Ended};
use super::log::Entry;
use super::operands;
use super::state::State;

/// Tells the steps of a stream.
pub(super) struct Teller<C> {
    chunks: C,
    limit: u64,
    assumed: Context,
    told: Told,
    /// Registers are wanted before instructions whose address they make.
    wants_operands: bool,
    /// Recording does not start with the first instruction.
    is_part: bool,
    blocks: Vec<Option<Block>>,
    cpus: BTreeMap<u32, Cpu>,
    names: Names,
    step: Step,
    /// Places that are not told.
    gaps: u64,
    /// The stream ended.
    is_over: bool,
}

/// A CPU.
#[derive(Debug, Default)]
struct Cpu {
    number: u32,
    /// Instructions that were told.
    told: u64,
    held: Option<Held>,
    /// What was logged since the block was started.
    entries: Vec<Entry>,
    touches: Vec<(Touch, Option<Data>)>,
    /// What the next access reads or writes.
    data: Option<Data>,
    /// What is in registers before instructions of the block.
    operands: Vec<Operand>,
    /// What its instructions wrote into registers.
    values: Vec<Value>,
    /// Accesses are those of this block.
    within: Option<usize>,
    left_out: u16,
    /// Where the next block is executed, if that is elsewhere than where it was told to be.
    at: Option<u64>,
    state: State,
    /// It is in AArch32: nothing is told.
    is_narrow: bool,
    /// The state has to be told before the next instruction.
    is_context_due: bool,
    /// What comes before the first exception: until then nobody knows the level.
    waiting: Vec<u8>,
    /// So many bytes of it tell nothing of that.
    looked: usize,
    /// It executed something, or told its end, or all that is wanted was told.
    has_run: bool,
    has_ended: bool,
    is_done: bool,
}

/// What an access reads or writes, the lowest byte first.
type Data = [u64; 2];

/// A block that was started.
#[derive(Debug, Clone, Copy)]
struct Held {
    id: usize,
    /// It is executed so far from where it was told to be.
    moved_by: u64,
    left_out: usize,
    /// It was left: instructions before this one are complete.
    left: Option<u16>,
}

/// The most that is kept until the level is known: some million instructions, or what is wanted.
const MOST_WAITING: u64 = 1 << 26;
/// So much may wait in any case, and so much of an instruction.
const LEAST_WAITING: u64 = 1 << 20;
const BYTES: u64 = 64;

/// Threads of the emulator translate blocks side by side, so that their numbers may not be in order.
const MOST_AHEAD: usize = 1 << 12;

const NO_LEVEL: &str = "no exception tells at which Exception level this starts: assume one (--assume el=0..3)";

impl Cpu {
    /// What is kept of a block does not matter any more.
    fn forget_block(&mut self) {
        self.touches.clear();
        self.operands.clear();
        self.values.clear();
        self.data = None;
    }
}

type Take<'t> = &'t mut dyn FnMut(&Step) -> ControlFlow<()>;

impl<C: Chunks> Teller<C> {
    pub(super) fn new(chunks: C, options: &SystemOptions, told: Told) -> Self {
        Self {
            chunks,
            limit: options.limit.unwrap_or(u64::MAX),
            assumed: options.assumed,
            told,
            wants_operands: options.operands,
            is_part: options.from.is_some() || options.skip > 0,
            blocks: Vec::new(),
            cpus: BTreeMap::new(),
            names: Names::new(Machine::Aarch64),
            step: Step::default(),
            gaps: 0,
            is_over: false,
        }
    }

    /// Places at which what was executed and what was logged do not fit together.
    pub(super) fn gaps(&self) -> u64 {
        self.gaps
    }

    /// The emulator said all that it has to say.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Tells all steps.
    pub(super) fn each(&mut self, take: Take<'_>) -> Result<(), SourceError> {
        self.go_through(take).map_err(|error| SourceError {
            text: match error.kind() {
                io::ErrorKind::Unsupported => error.to_string(),
                _ => format!("the stream of the emulator: {error}"),
            },
            is_damage: error.kind() == io::ErrorKind::InvalidData,
        })
    }

    fn go_through(&mut self, take: Take<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        while let Some(number) = self.chunks.next(&mut bytes)? {
            if number == stream::BLOCKS {
                self.learn(&bytes)?;
            } else if self.chunk(number, &bytes, take)?.is_break() {
                return Ok(());
            }
        }
        self.is_over = true;
        let mut cpus = std::mem::take(&mut self.cpus);
        for cpu in cpus.values_mut() {
            if has_block(&cpu.waiting) && !cpu.has_run {
                return Err(untold(NO_LEVEL));
            }
            if self.finish(cpu, None, take)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn learn(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let code = take_code(&mut bytes).ok_or_else(|| damage("code is cut off"))?;
            let id = code.id as usize;
            if id > self.blocks.len() + MOST_AHEAD {
                return Err(damage("the number of a block is too high"));
            }
            if self.blocks.len() <= id {
                self.blocks.resize_with(id + 1, || None);
            }
            if let Some(place) = self.blocks.get_mut(id) {
                *place = Block::new(code.address, &code.instructions);
            }
        }
        Ok(())
    }

    /// The records of a CPU; they wait until it is known at which level it is.
    fn chunk(&mut self, number: u32, bytes: &[u8], take: Take<'_>) -> io::Result<ControlFlow<()>> {
        let new = || Cpu { number, is_context_due: true, ..Cpu::default() };
        let mut cpu = self.cpus.remove(&number).unwrap_or_else(new);
        let mut flow = ControlFlow::Continue(());
        if !cpu.is_done {
            cpu.waiting.extend_from_slice(bytes);
            while flow.is_continue() && !cpu.waiting.is_empty() && self.finds_level(&mut cpu)? {
                let waiting = std::mem::take(&mut cpu.waiting);
                cpu.looked = 0;
                flow = self.records(&mut cpu, words(&waiting)?, take)?;
            }
        }
        self.cpus.insert(number, cpu);
        let mut running = self.cpus.values().filter(|cpu| cpu.has_run);
        Ok(if running.all(|cpu| cpu.is_done) && self.has_run() { ControlFlow::Break(()) } else { flow })
    }

    /// The level is that which the next exception comes from.
    fn finds_level(&self, cpu: &mut Cpu) -> io::Result<bool> {
        if cpu.state.level.is_some() {
            return Ok(true);
        }
        let assumed = self.assumed.level.filter(|_| !cpu.has_run);
        let looked = std::mem::replace(&mut cpu.looked, cpu.waiting.len());
        let news = cpu.waiting.get(looked..).unwrap_or_default();
        match first_level(words(news)?)?.or(assumed) {
            Some(level) if cpu.has_run => cpu.state.level = Some(level),
            Some(level) => cpu.state.start(level),
            // That something is missing was told.
            None if cpu.waiting.len() as u64 > self.most_waiting() && cpu.has_run => {
                cpu.waiting.clear();
                cpu.looked = 0;
                return Ok(false);
            }
            None if cpu.waiting.len() as u64 > self.most_waiting() => return Err(untold(NO_LEVEL)),
            None => return Ok(false),
        }
        Ok(true)
    }

    fn most_waiting(&self) -> u64 {
        self.limit.saturating_mul(BYTES).clamp(LEAST_WAITING, MOST_WAITING)
    }

    fn has_run(&self) -> bool {
        self.cpus.values().any(|cpu| cpu.has_run)
    }

    fn records(&mut self, cpu: &mut Cpu, mut words: &[Word], take: Take<'_>) -> io::Result<ControlFlow<()>> {
        while !words.is_empty() {
            if cpu.state.level.is_none() {
                cpu.waiting = words.as_flattened().to_vec();
                break;
            }
            let record = take_record(&mut words).ok_or_else(|| damage("a record is cut off"))?;
            match record {
                Record::Access(touch) => self.touch(cpu, touch),
                Record::Block { id } => {
                    if self.start_block(cpu, id as usize, take)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Record::Left { index } => cpu.held = cpu.held.map(|held| Held { left: Some(index), ..held }),
                Record::Text { length } => {
                    let text = take_text(&mut words, length).ok_or_else(|| damage("a text is cut off"))?;
                    match Entry::read(text) {
                        Some(entry) if cpu.held.is_none() => follow(cpu, &entry),
                        entry => cpu.entries.extend(entry),
                    }
                }
                Record::Register(operand) => self.operand(cpu, operand),
                // It is of the block that is held, even if that is executed in parts.
                Record::Value(value) => cpu.values.push(value),
                Record::Data { words } => cpu.data = Some(words),
                Record::At { address } => cpu.at = Some(address),
                Record::Within { id } => self.within(cpu, id as usize),
                Record::Part { left_out } => cpu.left_out = left_out,
                Record::Start => {}
                Record::End => {
                    cpu.has_ended = true;
                    if self.finish(cpu, None, take)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Record::Call { .. } | Record::Return { .. } => return Err(damage("this is a stream of a program")),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// An access; one that was made in another block belongs to the instruction with the same address.
    #[inline]
    fn touch(&self, cpu: &mut Cpu, touch: Touch) {
        let data = cpu.data.take();
        let index = self.index_now(cpu, touch.index);
        cpu.touches.extend(index.map(|index| (Touch { index, ..touch }, data)));
    }

    /// What is in a register, likewise.
    fn operand(&self, cpu: &mut Cpu, operand: Operand) {
        let index = self.index_now(cpu, operand.index);
        cpu.operands.extend(index.map(|index| Operand { index, ..operand }));
    }

    /// Which instruction of the block that is held this is.
    #[inline]
    fn index_now(&self, cpu: &Cpu, index: u16) -> Option<u16> {
        match cpu.within {
            None => Some(index),
            Some(id) => self.index_in_held(cpu, id, index),
        }
    }

    fn block(&self, id: usize) -> Option<&Block> {
        self.blocks.get(id)?.as_ref()
    }

    fn index_in_held(&self, cpu: &Cpu, id: usize, index: u16) -> Option<u16> {
        let address = self.block(id)?.instructions.get(usize::from(index))?.address;
        let held = self.block(cpu.held?.id)?;
        u16::try_from(held.position_in_page(address)?).ok()
    }

    /// An instruction is executed again, in a block of its own: what it did before does not count.
    fn within(&self, cpu: &mut Cpu, id: usize) {
        if let Some(index) = self.index_in_held(cpu, id, 0) {
            cpu.touches.retain(|(touch, _)| touch.index < index);
            cpu.operands.retain(|operand| operand.index < index);
        }
        cpu.within = Some(id);
    }

    /// A block starts, and the one before is complete.
    fn start_block(&mut self, cpu: &mut Cpu, id: usize, take: Take<'_>) -> io::Result<ControlFlow<()>> {
        let left_out = usize::from(std::mem::take(&mut cpu.left_out));
        let at = cpu.at.take();
        let moved_by = self.block(id).zip(at).map_or(0, |(block, at)| block.distance(at));
        let first = self.block(id).map(|block| block.moved(moved_by).address(left_out));
        if !std::mem::replace(&mut cpu.has_run, true) && self.is_part {
            cpu.state.forget();
        }
        let next = match first {
            _ if cpu.is_narrow => return Ok(ControlFlow::Continue(())),
            Some(Some(address)) => address,
            // Nothing of it was fetched; that an exception follows is told.
            Some(None) => return Ok(ControlFlow::Continue(())),
            None => return self.unknown_block(cpu, take),
        };
        let flow = self.finish(cpu, Some(next), take)?;
        cpu.held = Some(Held { id, moved_by, left_out, left: None });
        Ok(flow)
    }

    /// Code that is not A64: it is not told.
    fn unknown_block(&mut self, cpu: &mut Cpu, take: Take<'_>) -> io::Result<ControlFlow<()>> {
        if cpu.held.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        let entries = std::mem::take(&mut cpu.entries);
        self.lose(cpu, "code that is not A64 is executed", &entries, take)
    }

    /// Tells the block that is held, and what was logged behind it; execution goes on at `next`.
    fn finish(&mut self, cpu: &mut Cpu, next: Option<u64>, take: Take<'_>) -> io::Result<ControlFlow<()>> {
        let entries = std::mem::take(&mut cpu.entries);
        cpu.within = None;
        let Some(held) = cpu.held.take() else {
            cpu.forget_block();
            return Ok(ControlFlow::Continue(()));
        };
        let ended = {
            let Some(block) = self.block(held.id) else { return Err(damage("a block is executed that was not told")) };
            let block = block.moved(held.moved_by);
            match (next, entries.first()) {
                (None, None) => Some(block.cut(held.left, cpu.has_ended)),
                (next, entry) => block.ended(entry, next.unwrap_or(0), held.left),
            }
        };
        let Some(ended) = ended else {
            let text = format!("{entries:x?}, and execution goes on at {next:x?}");
            return self.lose(cpu, &text, &entries, take);
        };
        if self.instructions(cpu, held, ended, take)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if cpu.is_done || entries.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        self.exceptions(cpu, held, &entries, next, take)
    }

    /// What was executed of a block.
    fn instructions(&mut self, cpu: &mut Cpu, held: Held, ended: Ended, take: Take<'_>) -> io::Result<ControlFlow<()>> {
        let Some(Some(block)) = self.blocks.get(held.id) else { return Ok(ControlFlow::Continue(())) };
        let step = &mut self.step;
        let wanted = usize::try_from(self.limit.saturating_sub(cpu.told)).unwrap_or(usize::MAX);
        let count = ended.count.min(held.left_out.saturating_add(wanted));
        cpu.is_done = count < ended.count || wanted == 0;
        let mut touches = cpu.touches.iter().peekable();
        let mut values = cpu.values.iter().peekable();
        let placed = block.moved(held.moved_by);
        for index in 0..count {
            let Some(instruction) = placed.instruction(index) else { break };
            let change = block.changes.iter().find(|(at, _)| usize::from(*at) == index);
            if index < held.left_out {
                continue;
            }
            step.clear();
            if cpu.is_context_due {
                cpu.is_context_due = false;
                let context = cpu.state.context(&self.assumed).map_err(untold)?;
                (step.core, step.place, step.event) = (cpu.number, cpu.told, Event::Context(context));
                if take(step).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                step.clear();
            }
            let is_raised = ended.has_raised && index + 1 == ended.count;
            if values.peek().is_some() {
                let is_before = |value: &&Value| {
                    usize::from(value.index) < index || value.is_before && usize::from(value.index) == index
                };
                let now = std::iter::from_fn(|| values.next_if(is_before));
                if self.names.state(step, (cpu.number, cpu.told), now) && take(step).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                step.clear();
            }
            let operands = operands::take(&mut cpu.operands, index);
            if self.wants_operands && operands::state(&operands, &instruction, step) {
                (step.core, step.place) = (cpu.number, cpu.told);
                if take(step).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                step.clear();
            }
            while let Some((touch, data)) = touches.next_if(|(touch, _)| usize::from(touch.index) <= index) {
                let is_probe = !touch.is_write && block.exclusive.contains(&touch.index);
                if usize::from(touch.index) < index || is_probe || is_raised {
                    continue;
                }
                let direction = if touch.is_write { Direction::Write } else { Direction::Read };
                let is_sure = !touch.is_write || !block.unsure.contains(&touch.index);
                let data = data.iter().filter(|_| is_sure).flatten().flat_map(|word| word.to_le_bytes());
                let bytes = data.take(touch.size.into()).map(|byte| (byte, 0xff));
                step.access_known(direction, touch.address, touch.size.into(), bytes);
            }
            if !operands.is_empty() && !is_raised {
                operands::zeros(&operands, &instruction, self.told.data, step);
            }
            if !is_raised {
                let is_now = |value: &&Value| !value.is_before && usize::from(value.index) == index;
                std::iter::from_fn(|| values.next_if(is_now)).for_each(|value| self.names.put(step, value));
            }
            (step.core, step.place) = (cpu.number, cpu.told);
            step.event = Event::Instruction(instruction);
            if let (Event::Instruction(last), true) = (&mut step.event, index + 1 == block.instructions.len()) {
                last.branch = ended.branch;
            }
            cpu.told += 1;
            if take(step).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if let Some((_, change)) = change.filter(|_| !is_raised) {
                let operand = operands::source(&operands, &instruction).filter(|_| self.told.operands);
                cpu.is_context_due |= cpu.state.execute(*change, operand);
            }
        }
        cpu.forget_block();
        Ok(ControlFlow::Continue(()))
    }
}

/// The level that the first exception in a chunk comes from.
fn first_level(mut words: &[Word]) -> io::Result<Option<u8>> {
    while !words.is_empty() {
        let record = take_record(&mut words).ok_or_else(|| damage("a record is cut off"))?;
        if let Record::Text { length } = record {
            let text = take_text(&mut words, length).ok_or_else(|| damage("a text is cut off"))?;
            let level = Entry::read(text).and_then(|entry| entry.from());
            if level.is_some() {
                return Ok(level);
            }
        }
    }
    Ok(None)
}

/// Was something executed?
fn has_block(bytes: &[u8]) -> bool {
    let mut words = bytes.as_chunks().0;
    while let Some(record) = take_record(&mut words) {
        match record {
            Record::Block { .. } => return true,
            Record::Text { length } if take_text(&mut words, length).is_none() => return false,
            _ => {}
        }
    }
    false
}

/// What the user has to say.
fn untold(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}
