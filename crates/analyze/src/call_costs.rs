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

use unspool_model::{BlockSink, Event, Step};

use crate::calls::{Began, Call, CallSink, Cost, Stack, Tracker};
use crate::stats::footprint::Fibonacci;

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
        Self { tracker: Tracker::new(Stacks::default()), has_started: false, gaps: 0 }
    }
}

impl CallCounter {
    /// The costs of all that was executed by these processes; empty: by all.
    pub fn finish(self, processes: &[u64]) -> CallCosts {
        let not_followed = self.tracker.not_followed();
        let stacks = self.tracker.finish();
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
}

type Table<K, V> = HashMap<K, V, BuildHasherDefault<Fibonacci>>;

/// Calls in progress, and the costs of those that have ended.
#[derive(Debug, Default)]
struct Stacks {
    stacks: Vec<InProgress>,
    own: HashMap<(Function, u64), Count>,
    arcs: HashMap<CallArc, Count>,
    not_listed: u64,
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
    spare: Vec<Table<u64, Count>>,
}

#[derive(Debug)]
struct Frame {
    number: u64,
    function: Function,
    own: Table<u64, Count>,
}

impl Stacks {
    #[inline]
    fn executed(&mut self, stack: usize, address: u64, time: Option<u64>) {
        if let Some(stack) = self.stacks.get_mut(stack) {
            stack.executed(address, time);
        }
    }

    fn add_own(&mut self, function: Function, own: &Table<u64, Count>) {
        for (address, count) in own {
            let is_full = self.own.len() >= LIMIT;
            match self.own.get_mut(&(function, *address)) {
                Some(known) => known.add(*count),
                // The function stands for its further addresses.
                None if is_full => self.own.entry((function, function.address)).or_default().add(*count),
                None => drop(self.own.insert((function, *address), *count)),
            }
        }
    }

    fn add_arc(&mut self, arc: CallArc, cost: Cost) {
        if self.arcs.len() >= LIMIT && !self.arcs.contains_key(&arc) {
            self.not_listed += 1;
            return;
        }
        self.arcs.entry(arc).or_default().add(Count { count: 1, cost });
    }

    /// The innermost call ended.
    fn end(&mut self, stack: usize, call: &Call) -> Option<()> {
        let of = self.stacks.get_mut(stack)?;
        let frame = of.pop()?;
        let site = call.site.map(|site| site.pc);
        let (caller, site) = match call.began {
            Began::Start | Began::Gap => (None, site),
            // The call is just before the address that it returns to.
            Began::Before => {
                let back = call.back.map_or(call.function, |back| back.pc);
                of.push(back);
                (of.frames.last(), Some(back.wrapping_sub(1)))
            }
            Began::Called | Began::Exception => (of.frames.last(), site),
        };
        let arc =
            caller.zip(site).map(|(caller, site)| CallArc { caller: caller.function, site, callee: frame.function });
        self.add_own(frame.function, &frame.own);
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
        let Some(frame) = self.frames.last_mut() else { return };
        let number = frame.number;
        frame.own.entry(address).or_default().add(Count { count: 1, cost: Cost { time: 0, instructions: 1 } });
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
            frame.into_iter().for_each(|frame| frame.own.entry(at).or_default().add(passed));
        }
    }

    fn push(&mut self, address: u64) {
        let active = self.active.entry(address).or_default();
        let function = Function { process: self.process, address, is_recursion: *active > 0 };
        *active += 1;
        self.begun += 1;
        self.frames.push(Frame { number: self.begun, function, own: self.spare.pop().unwrap_or_default() });
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
    fn give(&mut self, index: usize, own: Table<u64, Count>) {
        if let Some(frame) = self.frames.get_mut(index) {
            own.iter().for_each(|(address, count)| frame.own.entry(*address).or_default().add(*count));
        }
        self.keep(own);
    }

    fn keep(&mut self, mut own: Table<u64, Count>) {
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
        self.stacks.get_mut(stack).into_iter().for_each(|stack| stack.push(function));
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
mod tests {
    use unspool_model::{Branch, Gap, Instruction};

    use super::*;

    const BL: u32 = 0x9400_0000;
    const RET: u32 = 0xd65f_03c0;
    const NOP: u32 = 0xd503_201f;

    fn counted(steps: &[(u64, u32)]) -> CallCosts {
        let mut counter = CallCounter::default();
        for (position, (address, opcode)) in (0..).zip(steps) {
            let mut step = Step::default();
            (step.position, step.time) = (position, Some(10 * position));
            step.event = match *opcode {
                0 => Event::Gap(Gap::Overflow),
                opcode => {
                    let next = steps.get(position as usize + 1).map(|(address, _)| *address);
                    let branch = (opcode != NOP).then_some(Branch { taken: true, target: next });
                    let opcode = Some(opcode);
                    Event::Instruction(Instruction {
                        address: *address,
                        opcode,
                        length: 4,
                        branch,
                        ..Instruction::default()
                    })
                }
            };
            let _ = counter.step(&step);
        }
        counter.finish(&[])
    }

    fn bl(from: u64, to: u64) -> (u64, u32) {
        (from, BL | ((to.wrapping_sub(from) >> 2) & 0x03ff_ffff) as u32)
    }

    fn arcs(costs: &CallCosts) -> Vec<(u64, bool, u64, u64, bool, u64, u64)> {
        let arc = |(arc, count): (&CallArc, &Count)| {
            let CallArc { caller, site, callee } = *arc;
            let (calls, cost) = (count.count, count.cost.instructions);
            (caller.address, caller.is_recursion, site, callee.address, callee.is_recursion, calls, cost)
        };
        let mut arcs: Vec<_> = costs.arcs.iter().map(arc).collect();
        arcs.sort_unstable();
        arcs
    }

    /// By hand: 0x1000 calls 0x2000, which calls itself once.
    #[test]
    fn recursion_is_a_function_of_its_own() {
        let costs = counted(&[
            (0x1000, NOP),
            bl(0x1004, 0x2000),
            bl(0x2000, 0x2000),
            bl(0x2000, 0x3000),
            (0x3000, RET),
            (0x2004, RET),
            (0x2004, RET),
            (0x1008, NOP),
        ]);
        assert_eq!(
            arcs(&costs),
            [
                (0x1000, false, 0x1004, 0x2000, false, 1, 5),
                (0x2000, false, 0x2000, 0x2000, true, 1, 3),
                (0x2000, true, 0x2000, 0x3000, false, 1, 1),
            ]
        );
        let own = |address, is_recursion| {
            let of = |((function, _), count): (&(Function, u64), &Count)| {
                (function.address == address && function.is_recursion == is_recursion)
                    .then_some(count.cost.instructions)
            };
            costs.own.iter().filter_map(of).sum::<u64>()
        };
        assert_eq!([own(0x1000, false), own(0x2000, false), own(0x2000, true), own(0x3000, false)], [3, 2, 2, 1]);
        // 7 times 10 pass between the first instruction and the last.
        assert_eq!(costs.total, Cost { time: 70, instructions: 8 });
    }

    #[test]
    fn a_function_that_the_trace_starts_in_has_an_unknown_caller() {
        let costs = counted(&[(0x2000, NOP), (0x2004, RET), (0x1008, NOP)]);
        assert_eq!(arcs(&costs), [(0x1008, false, 0x1007, 0x2000, false, 1, 2)]);
        assert_eq!(costs.total.instructions, 3);
    }

    #[test]
    fn nothing_is_lost_at_a_gap() {
        let steps = [
            bl(0x1000, 0x2000),
            (0x2000, NOP),
            (0, 0),
            (0x5000, NOP),
            bl(0x5004, 0x3000),
            (0x3000, RET),
            (0x5008, NOP),
        ];
        let costs = counted(&steps);
        assert_eq!((costs.total.instructions, costs.gaps), (6, 1));
        assert!(arcs(&costs).contains(&(0x5000, false, 0x5004, 0x3000, false, 1, 1)));
    }
}
