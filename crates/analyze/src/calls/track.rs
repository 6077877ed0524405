//! The tracker: follows the calls of all cores of a source, of each thread by itself.
//!
//! ```text
//! steps ──▶ contexts ─▶ which stack ─┬─▶ Follower ─▶ calls
//! blocks ─▶ counts, calls, returns ──┘
//! ```
//!
//! A stack belongs to a thread, on whichever core that runs; to a process of a core, if the trace shows no threads; otherwise
//! to a core. Exceptions and their returns are those that the source reports. Registers are used where steps have them.

use std::collections::HashMap;
use std::ops::ControlFlow;

use unspool_model::{BlockSink, BlockTrace, Context, Event, Instruction as Executed, Step};

use super::blocks::{CallPart, Jump, KnownBlock, PartItem, Run, learn};
use super::flow::Before;
use super::follow::{Follower, Gap, LIMIT};
use super::pointers::Pointers;
use super::window::{Executions, Spans, Window};
use super::{CallSink, Instruction, Moment, Opcode, Site};

/// Maximum number of stacks; what further threads execute is not followed.
const MAX_STACKS: usize = 1 << 12;

/// Maximum number of cores; what further ones execute is not followed.
const MAX_CORES: usize = 1 << 12;

/// Minimum number of calls in progress that every stack may have.
const SHALLOW: usize = 64;

/// What a stack belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stack {
    /// The core; of a thread, the first one that it ran on.
    pub core: u32,
    /// The process, if the trace shows it.
    pub process: Option<u64>,
    /// The thread, if the trace shows it.
    pub thread: Option<u64>,
}

/// Follower of the calls of a source, which may have several cores.
#[derive(Debug)]
pub struct Tracker<S> {
    sink: S,
    cores: Vec<Core>,
    numbers: HashMap<u32, usize>,
    /// Index of the core of the last step.
    current: usize,
    stacks: Vec<Tracked>,
    known: HashMap<Stack, usize>,
    blocks: Vec<KnownBlock>,
    /// Jumps of the last run, for reuse of their memory.
    jumps: Vec<Jump>,
    not_followed: u64,
    spans: Spans,
}

#[derive(Debug)]
struct Core {
    number: u32,
    context: Context,
    /// Index of the stack; `None`: it has to be found.
    stack: Option<usize>,
    pointers: Pointers,
    /// Number of its instructions that the current stack did not execute; without a stack, of all of them.
    others: u64,
    /// The highest time so far.
    time: u64,
    is_riscv: bool,
}

#[derive(Debug)]
struct Tracked {
    of: Stack,
    follower: Follower,
    /// Number of instructions so far.
    count: u64,
    /// An exception came after the last instruction.
    exception: Option<Pending>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    return_address: Option<u64>,
}

impl<S: CallSink> Tracker<S> {
    /// A tracker at the start of a source.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            cores: Vec::new(),
            numbers: HashMap::new(),
            current: 0,
            stacks: Vec::new(),
            known: HashMap::new(),
            blocks: Vec::new(),
            jumps: Vec::new(),
            not_followed: 0,
            spans: Spans::default(),
        }
    }

    /// Finds what the stacks execute in a window.
    #[must_use]
    pub fn in_window(self, window: Window) -> Self {
        Self { spans: Spans::new(window), ..self }
    }

    /// What the stacks executed in the window.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The stacks, in order of first appearance.
    pub fn stacks(&self) -> impl ExactSizeIterator<Item = &Stack> {
        self.stacks.iter().map(|tracked| &tracked.of)
    }

    /// Number of instructions of threads and cores that were too many to follow.
    pub fn not_followed(&self) -> u64 {
        self.not_followed
    }

    /// The stack that was executed last, if it is followed.
    #[inline]
    pub fn current_stack(&self) -> Option<usize> {
        self.cores.get(self.current)?.stack
    }

    /// The sink.
    #[inline]
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Ends the trace, and with it all calls. Returns the sink.
    pub fn finish(mut self) -> S {
        self.stacks.iter_mut().for_each(|tracked| tracked.follower.finish(&mut self.sink));
        self.sink
    }

    /// Processes a step.
    #[inline]
    pub fn step(&mut self, step: &Step) {
        if self.cores.get(self.current).is_none_or(|core| core.number != step.core) && !self.select_core(step.core) {
            self.not_followed += u64::from(step.event.instruction().is_some());
            return;
        }
        match &step.event {
            Event::Instruction(executed) => self.instruction(step, executed),
            event => {
                self.report(step);
                self.event(event);
                if let Some(core) = self.cores.get_mut(self.current) {
                    core.pointers.apply(step, core.is_riscv);
                }
            }
        }
    }

    /// Selects the core of what follows. False: there are too many.
    #[cold]
    fn select_core(&mut self, number: u32) -> bool {
        let next = self.cores.len();
        let index = *self.numbers.entry(number).or_insert(next);
        if index == next {
            if next >= MAX_CORES {
                self.numbers.remove(&number);
                return false;
            }
            let (context, pointers) = (Context::default(), Pointers::default());
            self.cores.push(Core { number, context, stack: None, pointers, others: 0, time: 0, is_riscv: false });
        }
        self.current = index;
        true
    }

    /// Passes what happened to the sink.
    fn report(&mut self, step: &Step) {
        let is_reported = match step.event {
            Event::Exception(_) | Event::ExceptionReturn { .. } | Event::Gap(_) => true,
            Event::Note => self.sink.wants_notes(),
            Event::Instruction(_) | Event::State | Event::Context(_) => false,
        };
        let Some(core) = self.cores.get(self.current).filter(|_| is_reported) else { return };
        let time = step.time.map_or(core.time, |time| core.time.max(time));
        let at = Moment { core: core.number, time, number: core.count(&self.stacks) };
        self.sink.happened(&step.event, step.note(), &at);
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Context(context) => self.context(context),
            Event::Exception(exception) => {
                let pending = Pending { return_address: exception.return_address };
                self.with_stack(|tracked| tracked.exception = Some(pending));
            }
            Event::ExceptionReturn { .. } => self.with_stack(|tracked| tracked.follower.exception_returned()),
            Event::Gap(_) => {
                self.with_stack(|tracked| tracked.follower.gap(Gap::Missing));
                if let Some(core) = self.cores.get_mut(self.current) {
                    core.pointers.forget();
                }
            }
            Event::Instruction(_) | Event::State | Event::Note => {}
        }
    }

    /// Changes the stack that was executed last on the current core, if there is one.
    fn with_stack(&mut self, change: impl FnOnce(&mut Tracked)) {
        let stack = self.cores.get(self.current).and_then(|core| core.stack);
        if let Some(tracked) = stack.and_then(|stack| self.stacks.get_mut(stack)) {
            change(tracked);
        }
    }

    fn context(&mut self, context: &Context) {
        let Some(core) = self.cores.get_mut(self.current) else { return };
        let before = (core.context.process, core.context.thread);
        core.context = context.over(&core.context);
        core.pointers.enter(&core.context, core.is_riscv);
        if (core.context.process, core.context.thread) != before {
            core.others = core.count(&self.stacks);
            core.stack = None;
        }
    }

    /// Index of the stack that is executed now, if there are not too many.
    #[inline]
    fn stack(&mut self) -> Option<usize> {
        match self.cores.get(self.current)?.stack {
            Some(stack) => Some(stack),
            None => self.find_stack(),
        }
    }

    #[cold]
    fn find_stack(&mut self) -> Option<usize> {
        let core = self.cores.get_mut(self.current)?;
        let of = Stack { core: core.number, process: core.context.process, thread: core.context.thread };
        // A thread may run on any core.
        let key = Stack { core: if of.thread.is_some() { u32::MAX } else { of.core }, ..of };
        let next = self.stacks.len();
        let index = match self.known.get(&key) {
            Some(index) => *index,
            None if next >= MAX_STACKS => return None,
            None => {
                self.known.insert(key, next);
                // All stacks together have a limited number of calls.
                let limit = (LIMIT / (next + 1)).max(SHALLOW);
                let follower = Follower::of_stack(next).with_limit(limit);
                self.stacks.push(Tracked { of, follower, count: 0, exception: None });
                self.sink.opened(next, &of);
                next
            }
        };
        let tracked = self.stacks.get_mut(index)?;
        self.sink.switched(index, tracked.count, &Moment { core: core.number, time: core.time, number: core.others });
        core.stack = Some(index);
        core.others = core.others.wrapping_sub(tracked.count);
        tracked.follower.gap(Gap::Switched);
        Some(index)
    }

    #[inline]
    fn instruction(&mut self, step: &Step, executed: &Executed) {
        let Some(stack) = self.stack() else { return self.not_followed += 1 };
        let (Some(core), Some(tracked)) = (self.cores.get_mut(self.current), self.stacks.get_mut(stack)) else {
            return;
        };
        if core.is_riscv != executed.isa.is_riscv() {
            core.is_riscv = executed.isa.is_riscv();
            core.pointers.enter(&core.context, core.is_riscv);
        }
        tracked.count += 1;
        let exception = tracked.exception.take();
        let site = core.site(step.position, step.time, tracked.count, executed.address);
        let first = tracked.count - 1;
        self.spans
            .add(stack, Executions { first, on_core: core.others.wrapping_add(first), count: 1, time: site.time });
        let code = executed.opcode.map(|opcode| Opcode { isa: executed.isa, opcode });
        let now = Instruction {
            is_executed: executed.is_executed != Some(false),
            sp: core.pointers.sp(),
            stack: core.pointers.bank(),
            lr: core.pointers.lr,
            is_lr_written: core.pointers.is_lr_written,
            is_interrupted: exception.is_some(),
            return_address: exception.and_then(|exception| exception.return_address),
            target: executed.branch.and_then(|branch| branch.target),
            ..Instruction::new(site, executed.length, code)
        };
        core.pointers.is_lr_written = false;
        core.pointers.apply(step, core.is_riscv);
        tracked.follower.step(&now, &mut self.sink);
    }

    /// Processes whole executions of blocks.
    pub fn blocks(&mut self, trace: &BlockTrace<'_>) {
        self.blocks_with(trace, &mut |_, _, _| {});
    }

    /// Processes whole executions of blocks. `executed` is called, between the calls that begin and end, with the stack and the number of
    /// instructions that its innermost call executes next.
    pub fn blocks_with(&mut self, trace: &BlockTrace<'_>, executed: &mut impl FnMut(&mut S, usize, u64)) {
        let (mut known, mut jumps) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.jumps));
        learn(&mut known, trace.blocks);
        jumps.clear();
        if let Some(run) = Run::of(trace, &known, &mut jumps) {
            self.run(&run, &known, &jumps, executed);
        }
        (self.blocks, self.jumps) = (known, jumps);
    }

    /// Processes the next part of the trace.
    pub fn part(&mut self, part: &CallPart) {
        let mut jumps = part.jumps.as_slice();
        for item in &part.items {
            match item {
                PartItem::Step(step) => self.step(step),
                PartItem::Run(run) => {
                    let (now, later) = jumps.split_at(run.jumps.min(jumps.len()));
                    self.run(run, &part.blocks, now, &mut |_, _, _| {});
                    jumps = later;
                }
            }
        }
    }

    fn run(&mut self, run: &Run, known: &[KnownBlock], jumps: &[Jump], executed: &mut impl FnMut(&mut S, usize, u64)) {
        let is_current = self.cores.get(self.current).is_some_and(|core| core.number == run.core);
        let stack = if is_current || self.select_core(run.core) { self.stack() } else { None };
        let Some(stack) = stack else {
            let instructions = run.rest + jumps.iter().map(|jump| jump.count).sum::<u64>();
            return self.not_followed += instructions;
        };
        let (Some(core), Some(tracked)) = (self.cores.get_mut(self.current), self.stacks.get_mut(stack)) else {
            return;
        };
        core.pointers.forget();
        let (first, on_core) = (tracked.count, core.others.wrapping_add(tracked.count));
        let mut executed = |sink: &mut S, count| executed(sink, stack, count);
        tracked.run(run, (known, jumps), core, &mut self.sink, &mut executed);
        let count = tracked.count - first;
        self.spans.add(stack, Executions { first, on_core, count, time: core.time });
    }
}

impl Core {
    /// Number of its instructions so far.
    fn count(&self, stacks: &[Tracked]) -> u64 {
        let of_stack = self.stack.and_then(|stack| stacks.get(stack)).map_or(0, |tracked| tracked.count);
        self.others.wrapping_add(of_stack)
    }

    #[inline]
    fn site(&mut self, position: u64, time: Option<u64>, number: u64, pc: u64) -> Site {
        // A time that goes back takes none: otherwise a part could take longer than the whole.
        self.time = time.map_or(self.time, |time| self.time.max(time));
        Site { position, time: self.time, number, pc }
    }
}

impl Tracked {
    fn run<S: CallSink>(
        &mut self,
        run: &Run,
        (known, jumps): (&[KnownBlock], &[Jump]),
        core: &mut Core,
        sink: &mut S,
        executed: &mut impl FnMut(&mut S, u64),
    ) {
        let block = |number: u32| known.get(number as usize);
        let (Some(first), Some(last)) = (block(run.first), block(run.last)) else { return };
        let exception = self.exception.take();
        let start = core.site(run.position, run.time, self.count + 1, first.start);
        let stack = core.pointers.bank();
        let now = Instruction {
            stack,
            is_interrupted: exception.is_some(),
            return_address: exception.and_then(|exception| exception.return_address),
            ..Instruction::new(start, 0, None)
        };
        self.follower.arrive(&now, sink);
        for jump in jumps {
            let (Some(from), Some(to)) = (block(jump.from), block(jump.to)) else { continue };
            self.count += jump.count;
            executed(sink, jump.count);
            let site = Site { position: jump.position, number: self.count, pc: from.last, ..start };
            let before = Before { stack, target: Some(to.start), ..Before::at_end(from, site) };
            let site = Site { position: jump.to_position, number: self.count + 1, pc: to.start, ..start };
            let now = Instruction { stack, ..Instruction::new(site, 0, None) };
            self.follower.leave_block(from.exit, &before, &now, sink);
        }
        self.count += run.rest;
        executed(sink, run.rest);
        let site = Site { position: run.last_position, number: self.count, pc: last.last, ..start };
        self.follower.skip_to(Before { stack, target: run.target, ..Before::at_end(last, site) });
    }
}

impl<S: CallSink> BlockSink for Tracker<S> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        Self::step(self, step);
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        Self::blocks(self, trace);
        ControlFlow::Continue(())
    }
}
