//! One of the two sources: its instructions with the events before each, and a lookahead queue.
//!
//! steps ─▶ **items**
//!
//! Items are reused, so memory use is that of the longest lookahead. They are boxed, since they are too large to be moved
//! for each instruction.

use std::collections::VecDeque;

use unspool_model::{
    BlockCursor, BlockPlace, Context, Event, Exception, Gap, Instruction, Losses, Pull, SourceError, Step, StepRef,
};

use super::Site;

/// An instruction and the events before it.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) step: Step,
    pub(super) instruction: Instruction,
    pub(super) number: u64,
    /// The context in which it is executed, as far as it was reported.
    pub(super) context: Context,
    /// Whether a gap is right before it.
    pub(super) is_after_gap: bool,
    /// Exceptions since the previous instruction.
    pub(super) exceptions: Vec<Exception>,
}

impl Item {
    pub(super) fn site(&self) -> Site {
        Site { number: self.number, position: self.step.position, instruction: self.instruction }
    }
}

#[derive(Debug)]
pub(super) struct Side {
    pull: Pull,
    core: u32,
    ahead: VecDeque<Box<Item>>,
    /// Items to be used again; the last one is the one used last.
    spare: VecDeque<Box<Item>>,
    context: Context,
    gap: bool,
    exceptions: Vec<Exception>,
    /// Number of instructions so far.
    pub(super) count: u64,
    pub(super) gaps: u64,
    pub(super) other_cores: u64,
    pub(super) has_ended: bool,
    pub(super) failure: Option<SourceError>,
}

impl Side {
    pub(super) fn new(pull: Pull, core: u32) -> Self {
        Self {
            pull,
            core,
            ahead: VecDeque::new(),
            spare: VecDeque::new(),
            context: Context::default(),
            gap: false,
            exceptions: Vec::new(),
            count: 0,
            gaps: 0,
            other_cores: 0,
            has_ended: false,
            failure: None,
        }
    }

    /// Data of the source that its steps do not carry, if it has ended.
    pub(super) fn not_in_steps(&self) -> &Losses {
        self.pull.losses()
    }

    /// The context of the last instruction that was read.
    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// The step that comes next, if nothing was read ahead and it is an instruction.
    #[inline]
    pub(super) fn peek(&self) -> Option<(StepRef<'_>, &Instruction)> {
        let step = self.pull.peek_step().filter(|step| self.ahead.is_empty() && step.core == self.core)?;
        Some((step, step.event.instruction()?))
    }

    /// Passes the step that comes next.
    #[inline]
    pub(super) fn pass_unread(&mut self) {
        self.pull.pass_step();
        self.count += 1;
    }

    /// The blocks that come next, if nothing was read ahead.
    pub(super) fn blocks(&self) -> Option<BlockCursor<'_>> {
        let is_next = self.ahead.is_empty() && !self.has_ended;
        self.pull.blocks().filter(|cursor| is_next && cursor.core() == self.core)
    }

    /// Continues at a place in these blocks, after this many instructions.
    pub(super) fn continue_at(&mut self, place: BlockPlace, instructions: u64) {
        self.pull.continue_at(place);
        self.count += instructions;
    }

    /// Reads this many instructions ahead; `false` if there are fewer.
    #[inline]
    pub(super) fn fill(&mut self, wanted: usize) -> bool {
        while self.ahead.len() < wanted {
            if !self.read() {
                return false;
            }
        }
        true
    }

    /// The instructions that were read ahead.
    pub(super) fn ahead(&self) -> &VecDeque<Box<Item>> {
        &self.ahead
    }

    #[inline]
    pub(super) fn at(&self, index: usize) -> Option<&Item> {
        self.ahead.get(index).map(|item| &**item)
    }

    /// Advances to the next instruction.
    #[inline]
    pub(super) fn pass(&mut self) {
        self.spare.extend(self.ahead.pop_front());
    }

    /// Advances by this many instructions, and clears the gap before the instruction there.
    pub(super) fn jump(&mut self, count: usize) {
        self.spare.extend(self.ahead.drain(..count.min(self.ahead.len())));
        if let Some(item) = self.ahead.front_mut() {
            item.is_after_gap = false;
        }
    }

    /// Advances to the end and returns the number of instructions.
    pub(super) fn drain(&mut self) -> u64 {
        let mut count = 0;
        while self.fill(1) {
            self.pass();
            count += 1;
        }
        count
    }

    fn read(&mut self) -> bool {
        if self.has_ended {
            return false;
        }
        let mut item = self.spare.pop_back().unwrap_or_default();
        if let Some(instruction) = self.next_instruction(&mut item.step) {
            item.instruction = instruction;
            (item.number, item.context) = (self.count, self.context);
            item.is_after_gap = std::mem::take(&mut self.gap);
            item.exceptions.clear();
            item.exceptions.append(&mut self.exceptions);
            self.count += 1;
            self.ahead.push_back(item);
            return true;
        }
        false
    }

    /// Reads up to the next instruction, which is the step then.
    fn next_instruction(&mut self, step: &mut Step) -> Option<Instruction> {
        loop {
            match self.pull.read_step(step) {
                Ok(true) => {}
                ended => {
                    self.failure = ended.err();
                    self.has_ended = true;
                    return None;
                }
            }
            if step.core != self.core {
                self.other_cores += 1;
                continue;
            }
            match step.event {
                Event::Instruction(instruction) => return Some(instruction),
                Event::Exception(exception) => self.raise(exception),
                Event::Context(context) => self.context = context.over(&self.context),
                Event::Gap(gap) => self.lose(gap),
                Event::State | Event::Note | Event::ExceptionReturn { .. } => {}
            }
        }
    }

    /// Adds an exception. No exception leads to EL0: without a context after it, the level is unknown.
    fn raise(&mut self, exception: Exception) {
        self.exceptions.push(exception);
        if self.context.level == Some(0) {
            (self.context.level, self.context.is_handler) = (None, None);
        }
    }

    fn lose(&mut self, gap: Gap) {
        self.gap = true;
        self.gaps += 1;
        self.exceptions.clear();
        // A trace unit still reports contexts if only the code is missing, and a failed transaction restores its own.
        if !matches!(gap, Gap::NoCode(_) | Gap::Contradiction | Gap::TransactionFailed) {
            self.context = Context::default();
        }
    }
}
