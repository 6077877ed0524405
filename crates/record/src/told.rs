//! Steps from the records of the plugin.
//!
//! records ─▶ blocks, each held until it is known where execution goes on ─▶ **steps**
//!
//! A block is told when the next one of its thread starts: then it is known whether its last branch was taken, how far
//! it came, and whether a signal is between them. An instruction that did not complete is not told: the kernel repeats it,
//! or the program never comes back.

mod block;
mod readings;
mod runs;

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;

use unspool_model::{Direction, Event, Exception, ExceptionKind, Isa, Refused, SourceError, Step};

use self::block::Block;
pub(super) use self::block::is_a64_swap;
pub use self::readings::Unsure;
use self::readings::{Around, Readings};
use self::runs::Runs;
use super::chunks::Chunks;
use super::stream::{self, Record, Touch, Word, block_of, damage, take_code, take_record, words};
use super::values::{Names, Value};
use super::{Listener, Machine};

/// Tells the steps of a stream.
pub(super) struct Teller<C> {
    chunks: C,
    machine: Machine,
    limit: u64,
    blocks: Vec<Block>,
    runs: Runs,
    /// How many blocks of code were told.
    known: usize,
    /// What of AArch32 may be A32 or T32.
    readings: Readings,
    /// Those that run, by the numbers of the emulator.
    threads: HashMap<u32, Thread>,
    /// All that were.
    count: u32,
    names: Names,
    step: Step,
}

/// A thread of the program.
#[derive(Debug, Default)]
struct Thread {
    core: u32,
    /// Instructions that were told.
    told: u64,
    /// The block that is started next.
    coming: Option<usize>,
    /// The block that was started, and what is special about it.
    held: Option<usize>,
    special: Option<Special>,
    accesses: Vec<Touch>,
    /// What of them reads or writes what, by their places among them; only what is told.
    data: Vec<(usize, Data)>,
    values: Vec<Value>,
    /// So many instructions of the next block are not told.
    left_out: u16,
    /// The instruction set that the last block leads to, if that does not depend on a register.
    leads: Option<Isa>,
}

/// What an access reads or writes, the lowest byte first.
type Data = [u64; 2];

/// A block that was started.
#[derive(Debug, Clone, Copy)]
struct Held {
    id: usize,
    special: Special,
}

/// What is special about it. Of most, nothing is.
#[derive(Debug, Clone, Copy, Default)]
struct Special {
    left_out: usize,
    /// It was left: instructions before this one are complete.
    left: Option<u16>,
    call: Option<Call>,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    number: i64,
    result: Option<i64>,
}

/// Threads translate blocks at the same time: so many may have numbers that are ahead.
const MOST_AHEAD: usize = 4096;

/// No block accesses memory more often.
const MOST_ACCESSES: usize = 1 << 20;

type Take<'t> = &'t mut dyn Listener;

impl<C: Chunks> Teller<C> {
    pub(super) fn new(chunks: C, machine: Machine, limit: Option<u64>) -> Self {
        Self {
            chunks,
            machine,
            limit: limit.unwrap_or(u64::MAX),
            blocks: Vec::new(),
            runs: Runs::default(),
            known: 0,
            readings: Readings::default(),
            threads: HashMap::new(),
            count: 0,
            names: Names::new(machine),
            step: Step::default(),
        }
    }

    /// What may have been told in the wrong instruction set.
    pub(super) fn unsure(&self) -> Option<Unsure> {
        self.readings.unsure()
    }

    /// Tells all steps.
    pub(super) fn each(&mut self, take: Take<'_>) -> Result<(), SourceError> {
        self.go_through(take).map_err(|error| SourceError {
            text: format!("the stream of the emulator: {error}"),
            is_damage: error.kind() == io::ErrorKind::InvalidData,
        })
    }

    fn go_through(&mut self, take: Take<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        while let Some(number) = self.chunks.next(&mut bytes)? {
            if number == stream::BLOCKS {
                self.learn(&bytes)?;
            } else if self.records(number, words(&bytes)?, take)?.is_break() {
                return Ok(());
            }
        }
        // One that was killed said nothing of its end, nor how far it came in its last block.
        let mut rest: Vec<Thread> = self.threads.drain().map(|(_, thread)| thread).collect();
        rest.sort_by_key(|thread| thread.core);
        for mut thread in rest {
            let special = thread.special.get_or_insert_default();
            if special.call.is_none() {
                special.left.get_or_insert(0);
            }
            if self.finish(&mut thread, None, take).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Blocks of code.
    fn learn(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let code = take_code(&mut bytes).ok_or_else(|| damage("a block of code is damaged"))?;
            let id = code.id as usize;
            self.known += 1;
            if id > self.known + MOST_AHEAD {
                return Err(damage("a block of code has an odd number"));
            }
            if id >= self.blocks.len() {
                self.blocks.resize_with(id + 1, Block::default);
            }
            let block = match self.machine {
                Machine::Arm => self.readings.block(id, code.address, &code.instructions),
                machine => Block::new(machine.isa(), code.address, &code.instructions),
            };
            self.runs.tell(id, block.instructions.first().map(|first| first.address));
            if let Some(place) = self.blocks.get_mut(id) {
                *place = block;
            }
        }
        Ok(())
    }

    fn records(&mut self, number: u32, mut words: &[Word], take: Take<'_>) -> io::Result<ControlFlow<()>> {
        let mut thread = self.threads.remove(&number);
        let is_started = thread.is_some();
        let mut thread = thread.take().unwrap_or_default();
        if !is_started && take_record(&mut &*words) != Some(Record::Start) {
            return Err(damage("a thread does something before it starts"));
        }
        while let Some(word) = words.first() {
            let flow = match block_of(word) {
                Some(_) => self.start_blocks(&mut thread, &mut words, take)?,
                None => self.record(&mut thread, &mut words, take)?,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        if thread.accesses.len() > MOST_ACCESSES || thread.values.len() > MOST_ACCESSES {
            return Err(damage("a block has more accesses than it can have"));
        }
        self.threads.insert(number, thread);
        Ok(ControlFlow::Continue(()))
    }

    /// A record that starts no block.
    #[inline]
    fn record(&mut self, thread: &mut Thread, words: &mut &[Word], take: Take<'_>) -> io::Result<ControlFlow<()>> {
        match take_record(words).ok_or_else(|| damage("a record is damaged"))? {
            Record::Access(_) | Record::Data { .. } if thread.held.is_none() => {
                return Err(damage("memory is accessed by no block"));
            }
            Record::Access(touch) => thread.accesses.push(touch),
            Record::Left { index } => thread.special.get_or_insert_default().left = Some(index),
            Record::Call { number } => {
                thread.special.get_or_insert_default().call = Some(Call { number, result: None });
            }
            Record::Return { result, .. } => {
                if let Some(call) = thread.special.as_mut().and_then(|special| special.call.as_mut()) {
                    call.result = Some(result);
                }
            }
            Record::Start => {
                *thread = Thread { core: self.count, ..Thread::default() };
                self.count += 1;
            }
            Record::End => return Ok(self.finish(thread, None, take)),
            Record::Part { left_out } => thread.left_out = left_out,
            Record::Data { words } => {
                let coming = thread.accesses.len();
                thread.data.retain(|(at, _)| *at != coming);
                thread.data.push((coming, words));
            }
            Record::Value(value) => thread.values.push(value),
            Record::Block { .. }
            | Record::Text { .. }
            | Record::Within { .. }
            | Record::Register(_)
            | Record::At { .. } => {
                return Err(damage("this is a stream of a system"));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// A block starts, and the one before is complete. So are those behind it that do what they always do.
    fn start_blocks(
        &mut self,
        thread: &mut Thread,
        words: &mut &[Word],
        take: Take<'_>,
    ) -> io::Result<ControlFlow<()>> {
        let left_out = usize::from(std::mem::take(&mut thread.left_out));
        let first = self.first_of(words, left_out)?;
        thread.coming = words.first().and_then(block_of);
        if self.finish(thread, Some(first), take).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if left_out > 0 {
            thread.special = Some(Special { left_out, ..Special::default() });
        } else if thread.told > 0 && self.machine != Machine::Arm && !thread.has_values() && take.takes_runs() {
            let ControlFlow::Continue(passed) = self.pass(thread, words, take) else {
                return Ok(ControlFlow::Break(()));
            };
            *words = words.get(passed..).unwrap_or_default();
            self.first_of(words, 0)?;
        }
        thread.held = words.first().and_then(block_of);
        *words = words.get(1..).unwrap_or_default();
        Ok(ControlFlow::Continue(()))
    }

    /// The address of the first instruction that is told of the block that the first word says.
    #[inline]
    fn first_of(&self, words: &[Word], left_out: usize) -> io::Result<u64> {
        let block = words.first().and_then(block_of).and_then(|id| self.blocks.get(id));
        let first = block.and_then(|block| block.instructions.get(left_out));
        first.map(|first| first.address).ok_or_else(|| damage("a block is executed that was not told"))
    }

    /// Tells blocks that do what they always do; how many words they have.
    fn pass(&mut self, thread: &mut Thread, words: &[Word], take: Take<'_>) -> ControlFlow<(), usize> {
        let passed = self.runs.find(words, self.limit.saturating_sub(thread.told));
        let (start, end) = (thread.told, thread.told + self.runs.instructions());
        let (mut passes, mut addresses, mut rest) = (0, 0, words);
        loop {
            let run = self.runs.run(passes, addresses, thread.told - start);
            let offered = run.passes;
            if offered.is_empty() {
                break;
            }
            let Some(Refused { passes: taken, addresses: used, is_final }) = take.run(thread.core, &run)? else {
                break;
            };
            thread.told += run.instructions_of(taken);
            for _ in offered.iter().take(taken) {
                rest = rest.get(self.runs.words_of(rest.first().and_then(block_of).unwrap_or(0))..).unwrap_or_default();
            }
            let Some(id) = rest.first().and_then(block_of) else { break };
            addresses += used + self.runs.addresses_of(passes + taken);
            passes += taken + 1;
            self.tell_pass(thread, id, &mut rest, take)?;
            if is_final {
                self.runs.give_up(id);
            }
        }
        thread.told = end;
        ControlFlow::Continue(passed)
    }

    /// Tells one block of a run step by step.
    #[cold]
    fn tell_pass(&mut self, thread: &mut Thread, id: usize, words: &mut &[Word], take: Take<'_>) -> ControlFlow<()> {
        let (now, rest) = words.split_at_checked(self.runs.words_of(id)).unwrap_or((words, &[]));
        *words = rest;
        let mut now = now.get(1..).unwrap_or_default();
        while let Some(Record::Access(touch)) = take_record(&mut now) {
            thread.accesses.push(touch);
        }
        let next = self.first_of(rest, 0).ok();
        self.tell(thread, id, next, take)
    }

    /// Tells the block that is held; execution goes on at `next`.
    #[inline]
    fn finish(&mut self, thread: &mut Thread, next: Option<u64>, take: Take<'_>) -> ControlFlow<()> {
        match thread.held.take() {
            Some(id) => self.tell(thread, id, next, take),
            None => ControlFlow::Continue(()),
        }
    }

    /// Tells the steps of a block.
    fn tell(&mut self, thread: &mut Thread, id: usize, next: Option<u64>, take: Take<'_>) -> ControlFlow<()> {
        let held = Held { id, special: thread.special.take().unwrap_or_default() };
        let Special { left_out, call, .. } = held.special;
        if !self.readings.is_empty() {
            self.readings.settle(&mut self.blocks, &Around { thread, held: &held, next });
        }
        let Some(block) = self.blocks.get(id) else { return ControlFlow::Continue(()) };
        let step = &mut self.step;
        step.clear();
        step.core = thread.core;
        if thread.told == 0 {
            step.event = Event::Context(self.machine.context());
            take.step(step)?;
        }
        let ended = block.ended(&held, next, &thread.accesses);
        let is_whole = left_out == 0 && held.special.left.is_none() && call.is_none() && next.is_some();
        if is_whole && ended.is_straight && ended.count == block.instructions.len() {
            self.runs.learn(id, block, &thread.accesses);
        }
        if self.machine == Machine::Arm {
            thread.leads = block.leads().filter(|_| ended.is_straight && self.readings.is_settled(id));
        }
        let mut touches = (0..).zip(&thread.accesses).peekable();
        let values = std::mem::take(&mut thread.values);
        let mut values = values.iter().peekable();
        let wanted = usize::try_from(self.limit.saturating_sub(thread.told)).unwrap_or(usize::MAX);
        let count = ended.count.min(left_out.saturating_add(wanted));
        let is_cut = count < ended.count || wanted == 0;
        for (index, instruction) in block.instructions.iter().enumerate().take(count) {
            let place = (thread.core, thread.told);
            if index >= left_out && values.peek().is_some() {
                let is_before = |value: &&Value| {
                    usize::from(value.index) < index || value.is_before && usize::from(value.index) == index
                };
                let now = std::iter::from_fn(|| values.next_if(is_before));
                if self.names.state(step, place, now) {
                    take.step(step)?;
                }
            }
            step.clear();
            while let Some((at, touch)) = touches.next_if(|(_, touch)| usize::from(touch.index) <= index) {
                let Touch { is_write, address, .. } = *touch;
                let size = touch.size.into();
                if !is_write && block.exclusive.contains(&touch.index) {
                    continue;
                }
                if is_write && block.modifying.contains(&touch.index) && step.accesses().len() == 0 {
                    step.access(Direction::Read, address, size);
                }
                let direction = if is_write { Direction::Write } else { Direction::Read };
                match thread.data_of(at).filter(|_| !is_write || !block.hides_data(touch.index)) {
                    Some(data) => step.access_known(direction, address, size, known(data, touch.size)),
                    None => step.access(direction, address, size),
                }
            }
            if index < left_out {
                continue;
            }
            // What is behind the last instruction of a block may be what the kernel wrote.
            if index + 1 < block.instructions.len() || ended.is_straight {
                let is_now = |value: &&Value| !value.is_before && usize::from(value.index) == index;
                std::iter::from_fn(|| values.next_if(is_now)).for_each(|value| self.names.put(step, value));
            }
            (step.core, step.place) = place;
            step.event = Event::Instruction(*instruction);
            if index + 1 == block.instructions.len()
                && let Event::Instruction(last) = &mut step.event
            {
                last.branch = ended.branch;
            }
            thread.told += 1;
            take.step(step)?;
        }
        thread.accesses.clear();
        thread.data.clear();
        if is_cut {
            return ControlFlow::Continue(());
        }
        if call.is_some() || !ended.is_straight {
            self.kernel(thread, call, next, take)?;
        }
        match values.peek().is_some() && self.names.state(&mut self.step, (thread.core, thread.told), values) {
            true => take.step(&self.step),
            false => ControlFlow::Continue(()),
        }
    }

    /// The kernel was called, or it sent the program elsewhere.
    #[cold]
    fn kernel(&mut self, thread: &Thread, call: Option<Call>, next: Option<u64>, take: Take<'_>) -> ControlFlow<()> {
        let step = &mut self.step;
        let mut tell = |event: Event, note: &str| {
            step.clear();
            (step.core, step.place, step.event) = (thread.core, thread.told, event);
            if !note.is_empty() {
                step.set_note(note);
            }
            take.step(step)
        };
        let note = match (call, next) {
            (Some(Call { number, result: Some(result) }), _) => format!("system call {number}: {result}"),
            (Some(Call { number, result: None }), _) => format!("system call {number}"),
            (None, Some(next)) => format!("signal: execution goes on at {next:#x}"),
            (None, None) => return ControlFlow::Continue(()),
        };
        let kind = if call.is_some() { ExceptionKind::Synchronous } else { ExceptionKind::Unknown };
        // With Arm, the number is that in the opcode.
        let is_told = matches!(self.machine, Machine::Riscv32 | Machine::Riscv64);
        let call = call.filter(|_| is_told).and_then(|call| u16::try_from(call.number).ok());
        tell(Event::Exception(Exception { kind, call, ..Exception::default() }), "")?;
        tell(Event::Note, &note)?;
        if next.is_some() { tell(Event::Context(self.machine.context()), "") } else { ControlFlow::Continue(()) }
    }
}

impl Thread {
    /// Was something told of registers or data that no step has yet?
    fn has_values(&self) -> bool {
        !self.values.is_empty() || !self.data.is_empty()
    }

    /// What the access with this place among those of the block reads or writes.
    fn data_of(&self, at: usize) -> Option<Data> {
        if self.data.is_empty() {
            return None;
        }
        let found = self.data.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        self.data.get(found).map(|(_, data)| *data)
    }
}

/// The bytes of so many that are known.
fn known(data: Data, size: u16) -> impl Iterator<Item = (u8, u8)> {
    let bytes = data.into_iter().flat_map(u64::to_le_bytes);
    bytes.take(size.into()).map(|byte| (byte, 0xff))
}
