//! Cost of each instruction by the call that executed it, and cost of each call by the instruction that made it.
//!
//! blocks and steps of one source ─▶ [`Tracker`] ─▶ calls in progress ─▶ **own cost by function and address, arcs**
//!
//! A function that is called while it is on the stack is a function of its own, its recursion: the total of the outermost calls is
//! then that of a [`profile`](crate::profile), and contains every instruction once. What turns out not to be a call belongs
//! to the enclosing one. The time between two instructions is that of the first, or of the second if the first ended a call.
//! Knows neither names nor source lines.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::{ControlFlow, Range};

use unspool_model::{Block, BlockExecution, BlockSink, BlockTrace, Event, Step};

use crate::calls::{Began, Call, CallSink, Cost, Stack, Tracker};
use crate::number_hash::Fibonacci;

/// Maximum number of functions with addresses, and of arcs, that are counted by themselves.
const LIMIT: usize = 4 << 20;

/// A function, or the calls of it from within itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Function {
    /// The process, if the trace shows it.
    pub process: Option<u64>,
    /// Its address.
    pub address: u64,
    /// It was on the stack already.
    pub is_recursion: bool,
}

/// Calls of one function by one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallArc {
    /// The calling function.
    pub caller: Function,
    /// An address in the calling instruction.
    pub site: u64,
    /// The called function.
    pub callee: Function,
}

/// Cost of the calls of an arc, or of the instructions at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Calls, or executions.
    pub count: u64,
    /// Their cost: of calls, with all that they called.
    pub cost: Cost,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.cost.add(other.cost);
    }
}

/// All costs of a source.
#[derive(Debug, Default)]
pub struct CallCosts {
    /// Own cost by function and by address of the instructions.
    pub own: HashMap<(Function, u64), Count>,
    /// Cost of calls.
    pub arcs: HashMap<CallArc, Count>,
    /// The sum of all own costs.
    pub total: Cost,
    /// Calls that are on no arc: there are too many different ones.
    pub not_listed: u64,
    /// Instructions of threads that were too many to follow.
    pub not_followed: u64,
    /// How often part of the execution is missing.
    pub gaps: u64,
}

/// Counts the costs of a source.
#[derive(Debug)]
pub struct CallCounter {
    tracker: Tracker<Stacks>,
    has_started: bool,
    gaps: u64,
}

impl Default for CallCounter {
    fn default() -> Self {
        Self::of_functions(Vec::new())
    }
}

impl CallCounter {
    /// Counts only calls of functions at these addresses, with what they call. Empty: all.
    pub fn of_functions(functions: Vec<Range<u64>>) -> Self {
        let stacks = Stacks { functions, ..Stacks::default() };
        Self { tracker: Tracker::new(stacks), has_started: false, gaps: 0 }
    }

    /// The costs of all that was executed by these processes; empty: by all.
    pub fn finish(self, processes: &[u64]) -> CallCosts {
        let not_followed = self.tracker.not_followed();
        let mut stacks = self.tracker.finish();
        stacks.spread_blocks();
        let mut costs =
            CallCosts { not_followed, gaps: self.gaps, not_listed: stacks.not_listed, ..CallCosts::default() };
        let is_wanted = |function: &Function| {
            processes.is_empty() || function.process.is_some_and(|process| processes.contains(&process))
        };
        costs.own = stacks.own.into_iter().filter(|((function, _), _)| is_wanted(function)).collect();
        costs.arcs = stacks.arcs.into_iter().filter(|(arc, _)| is_wanted(&arc.callee)).collect();
        costs.own.values().for_each(|count| costs.total.add(count.cost));
        costs
    }
}

impl BlockSink for CallCounter {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.tracker.step(step);
        match step.event.instruction() {
            Some(instruction) => {
                self.has_started = true;
                if let Some(stack) = self.tracker.current_stack() {
                    self.tracker.sink_mut().executed(stack, instruction.address, step.time);
                }
            }
            None => self.gaps += u64::from(self.has_started && matches!(step.event, Event::Gap(_))),
        }
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.has_started |= !trace.executions.is_empty();
        self.tracker.sink_mut().learn(trace.blocks);
        let mut rest = trace.executions;
        self.tracker.blocks_with(trace, &mut |stacks, stack, count| {
            let (now, later) = rest.split_at(stacks.executions_of(rest, count));
            stacks.executed_blocks(stack, now, trace.time);
            rest = later;
        });
        ControlFlow::Continue(())
    }
}

type Table<K, V> = HashMap<K, V, BuildHasherDefault<Fibonacci>>;

/// Calls in progress, and the costs of those that have ended.
#[derive(Debug, Default)]
struct Stacks {
    stacks: Vec<InProgress>,
    own: HashMap<(Function, u64), Count>,
    arcs: HashMap<CallArc, Count>,
    not_listed: u64,
    /// Addresses of the functions that are counted. Empty: all.
    functions: Vec<Range<u64>>,
    /// Addresses of the instructions of blocks.
    blocks: Vec<Box<[u64]>>,
    /// Executions of blocks by functions.
    of_blocks: HashMap<(Function, u32), u64, BuildHasherDefault<Fibonacci>>,
}

/// Calls in progress of one stack.
#[derive(Debug, Default)]
struct InProgress {
    process: Option<u64>,
    /// Outermost first.
    frames: Vec<Frame>,
    /// How many frames each function has.
    active: Table<u64, u32>,
    /// The last instruction: its address, the number of its frame, and its time.
    last: Option<(u64, u64, u64)>,
    /// Number of frames so far.
    begun: u64,
    /// Tables that ended calls no longer need.
    spare: Vec<Own>,
}

/// Own cost of a call.
#[derive(Debug, Default)]
struct Own {
    /// By address.
    instructions: Table<u64, Count>,
    /// Executions of whole blocks.
    blocks: Table<u32, u64>,
}

impl Own {
    fn at(&mut self, address: u64) -> &mut Count {
        self.instructions.entry(address).or_default()
    }

    fn append(&mut self, other: &Self) {
        other.instructions.iter().for_each(|(address, count)| self.at(*address).add(*count));
        other.blocks.iter().for_each(|(block, count)| *self.blocks.entry(*block).or_default() += count);
    }

    fn clear(&mut self) {
        self.instructions.clear();
        self.blocks.clear();
    }

    fn capacity(&self) -> usize {
        self.instructions.capacity().max(self.blocks.capacity())
    }
}

#[derive(Debug)]
struct Frame {
    number: u64,
    function: Function,
    /// It is one of the functions that are counted, or within one.
    is_counted: bool,
    own: Own,
}

impl Stacks {
    #[inline]
    fn executed(&mut self, stack: usize, address: u64, time: Option<u64>) {
        if let Some(stack) = self.stacks.get_mut(stack) {
            stack.executed(address, time);
        }
    }

    /// Takes note of blocks that are new.
    fn learn(&mut self, blocks: &[Block]) {
        let new = blocks.get(self.blocks.len()..).unwrap_or_default();
        self.blocks.extend(new.iter().map(|block| block.instructions().map(|(address, ..)| address).collect()));
    }

    fn block(&self, execution: BlockExecution) -> &[u64] {
        self.blocks.get(execution.number()).map_or(&[], |block| block)
    }

    /// The number of executions that have this number of instructions.
    fn executions_of(&self, executions: &[BlockExecution], instructions: u64) -> usize {
        let mut left = instructions;
        let is_within = |execution: &&BlockExecution| {
            let is_within = left > 0;
            left = left.saturating_sub(self.block(**execution).len() as u64);
            is_within
        };
        executions.iter().take_while(is_within).count()
    }

    /// The innermost call of a stack executes whole blocks, all at the same time.
    fn executed_blocks(&mut self, stack: usize, executions: &[BlockExecution], time: Option<u64>) {
        let (Some(first), Some(last)) = (executions.first(), executions.last()) else { return };
        let (first, last) = (self.block(*first).first().copied(), self.block(*last).last().copied());
        let (Some(first), Some(last), Some(stack)) = (first, last, self.stacks.get_mut(stack)) else { return };
        stack.arrive(first, time);
        stack.last.iter_mut().for_each(|(address, ..)| *address = last);
        let Some(frame) = stack.frames.last_mut() else { return };
        for execution in executions {
            *frame.own.blocks.entry(execution.number() as u32).or_default() += 1;
        }
    }

    /// Adds the costs of blocks to their instructions.
    fn spread_blocks(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        for ((function, block), count) in std::mem::take(&mut self.of_blocks) {
            let executed = Count { count, cost: Cost { time: 0, instructions: count } };
            let addresses = blocks.get(block as usize).into_iter().flatten();
            addresses.for_each(|address| self.add_instruction(function, *address, executed));
        }
    }

    fn add_own(&mut self, function: Function, own: &Own) {
        for (address, count) in &own.instructions {
            self.add_instruction(function, *address, *count);
        }
        for (block, count) in &own.blocks {
            let is_full = self.of_blocks.len() >= LIMIT;
            match self.of_blocks.get_mut(&(function, *block)) {
                Some(known) => *known += count,
                None if is_full => {
                    let instructions = self.blocks.get(*block as usize).map_or(0, |block| block.len() as u64);
                    let executed = count.saturating_mul(instructions);
                    let cost = Cost { time: 0, instructions: executed };
                    self.add_instruction(function, function.address, Count { count: executed, cost });
                }
                None => drop(self.of_blocks.insert((function, *block), *count)),
            }
        }
    }

    fn add_instruction(&mut self, function: Function, address: u64, count: Count) {
        let is_full = self.own.len() >= LIMIT;
        match self.own.get_mut(&(function, address)) {
            Some(known) => known.add(count),
            // The function stands for its further addresses.
            None if is_full => self.own.entry((function, function.address)).or_default().add(count),
            None => drop(self.own.insert((function, address), count)),
        }
    }

    fn add_arc(&mut self, arc: CallArc, cost: Cost) {
        if self.arcs.len() >= LIMIT && !self.arcs.contains_key(&arc) {
            self.not_listed += 1;
            return;
        }
        self.arcs.entry(arc).or_default().add(Count { count: 1, cost });
    }

    fn is_counted(&self, function: u64) -> bool {
        self.functions.is_empty() || self.functions.iter().any(|range| range.contains(&function))
    }

    /// The innermost call ended.
    fn end(&mut self, stack: usize, call: &Call) -> Option<()> {
        let is_back_counted = call.back.is_some_and(|back| self.is_counted(back.pc));
        let of = self.stacks.get_mut(stack)?;
        let frame = of.pop()?;
        let site = call.site.map(|site| site.pc);
        let (caller, site) = match call.began {
            Began::Start | Began::Gap => (None, site),
            // The call is just before the address that it returns to.
            Began::Before => {
                let back = call.back.map_or(call.function, |back| back.pc);
                of.push(back, is_back_counted);
                (of.frames.last(), Some(back.wrapping_sub(1)))
            }
            Began::Called | Began::Exception => (of.frames.last(), site),
        };
        let is_counted = frame.is_counted || caller.is_some_and(|caller| caller.is_counted);
        let caller = caller.filter(|caller| caller.is_counted);
        let arc =
            caller.zip(site).map(|(caller, site)| CallArc { caller: caller.function, site, callee: frame.function });
        if is_counted {
            self.add_own(frame.function, &frame.own);
        }
        if let Some(arc) = arc {
            self.add_arc(arc, call.total());
        }
        self.stacks.get_mut(stack)?.keep(frame.own);
        Some(())
    }
}

impl InProgress {
    #[inline]
    fn executed(&mut self, address: u64, time: Option<u64>) {
        self.arrive(address, time);
        if let Some(frame) = self.frames.last_mut() {
            frame.own.at(address).add(Count { count: 1, cost: Cost { time: 0, instructions: 1 } });
        }
    }

    /// Execution is at this address: adds the time that has passed since the last instruction.
    #[inline]
    fn arrive(&mut self, address: u64, time: Option<u64>) {
        let Some(number) = self.frames.last().map(|frame| frame.number) else { return };
        // A time that goes back takes none.
        let before = self.last.map(|(_, _, time)| time);
        let now = before.unwrap_or_default().max(time.or(before).unwrap_or_default());
        if let Some((last, of, before)) =
            self.last.replace((address, number, now)).filter(|(_, _, before)| *before < now)
        {
            let outer = self.frames.iter_mut().rev().take(2).find(|frame| frame.number == of);
            let (frame, at) = match outer {
                Some(frame) => (Some(frame), last),
                None => (self.frames.last_mut(), address),
            };
            let passed = Count { count: 0, cost: Cost { time: now - before, instructions: 0 } };
            frame.into_iter().for_each(|frame| frame.own.at(at).add(passed));
        }
    }

    fn push(&mut self, address: u64, is_counted: bool) {
        let is_counted = is_counted || self.frames.last().is_some_and(|outer| outer.is_counted);
        let active = self.active.entry(address).or_default();
        let function = Function { process: self.process, address, is_recursion: *active > 0 };
        *active += 1;
        self.begun += 1;
        let own = self.spare.pop().unwrap_or_default();
        self.frames.push(Frame { number: self.begun, function, is_counted, own });
    }

    fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        self.leave(frame.function.address);
        Some(frame)
    }

    fn leave(&mut self, address: u64) {
        if let Some(active) = self.active.get_mut(&address) {
            *active = active.saturating_sub(1);
            if *active == 0 {
                self.active.remove(&address);
            }
        }
    }

    /// Adds own costs to the call at this index.
    fn give(&mut self, index: usize, own: Own) {
        if let Some(frame) = self.frames.get_mut(index) {
            frame.own.append(&own);
        }
        self.keep(own);
    }

    fn keep(&mut self, mut own: Own) {
        const SPARE: usize = 64;
        const SMALL: usize = 1 << 10;
        if self.spare.len() < SPARE && own.capacity() <= SMALL {
            own.clear();
            self.spare.push(own);
        }
    }
}

impl CallSink for Stacks {
    fn opened(&mut self, stack: usize, of: &Stack) {
        if self.stacks.len() <= stack {
            self.stacks.resize_with(stack + 1, InProgress::default);
        }
        if let Some(opened) = self.stacks.get_mut(stack) {
            opened.process = of.process;
        }
    }

    fn began(&mut self, stack: usize, function: u64, _began: Began) {
        let is_counted = self.is_counted(function);
        self.stacks.get_mut(stack).into_iter().for_each(|stack| stack.push(function, is_counted));
    }

    fn absorbed(&mut self, stack: usize) {
        let Some(stack) = self.stacks.get_mut(stack) else { return };
        let Some(frame) = stack.pop() else { return };
        // The last instruction is now one of the enclosing call.
        if let (Some(last), Some(outer)) = (&mut stack.last, stack.frames.last())
            && last.1 == frame.number
        {
            last.1 = outer.number;
        }
        stack.give(stack.frames.len().saturating_sub(1), frame.own);
    }

    fn dropped(&mut self, stack: usize, calls: Range<usize>) {
        let Some(stack) = self.stacks.get_mut(stack) else { return };
        if calls.start == 0 || calls.end > stack.frames.len() {
            return;
        }
        for frame in stack.frames.drain(calls).collect::<Vec<Frame>>() {
            stack.leave(frame.function.address);
            stack.give(0, frame.own);
        }
    }

    fn ended(&mut self, stack: usize, call: &Call) {
        self.end(stack, call);
    }
}

#[cfg(test)]
mod tests;
