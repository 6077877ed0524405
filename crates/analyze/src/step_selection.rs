//! Selection of what was executed: by address, level, process, time and number.
//!
//! blocks, steps of one source ─▶ **selected** ─▶ the blocks and steps of the selection
//!
//! All conditions of a selection must hold; of several values of one condition, one suffices, and what is not known matches
//! none. Executions of blocks stay blocks; one that is selected in part becomes the steps of its selected instructions. Knows
//! neither symbols nor formats.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use unspool_model::{
    Block, BlockAccesses, BlockSink, BlockTrace, Context, Coverage, Event, Facet, Gap, Losses, Positions, SourceError,
    Step, StepSource, TimeUnit,
};

/// Conditions on what was executed. An empty condition holds always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepSelection {
    /// Addresses of instructions.
    pub addresses: Vec<Range<u64>>,
    /// Exception levels or privilege modes.
    pub levels: Vec<u8>,
    /// Processes.
    pub processes: Vec<u64>,
    /// The time, in the unit of the source.
    pub times: Option<Range<u64>>,
    /// Numbers of the instructions of each core, counted from 0.
    pub instructions: Option<Range<u64>>,
}

impl StepSelection {
    /// Whether everything is selected.
    pub fn is_all(&self) -> bool {
        let is_any_time = self.times.is_none() && self.instructions.is_none();
        is_any_time && self.addresses.is_empty() && self.levels.is_empty() && self.processes.is_empty()
    }

    /// Whether the instruction with this number is selected.
    #[inline]
    pub fn has_instruction(&self, number: u64) -> bool {
        self.instructions.as_ref().is_none_or(|numbers| numbers.contains(&number))
    }

    /// Whether all of these instructions are selected, or none of them; `None`: some are.
    fn has_instructions(&self, first: u64, count: u64) -> Option<bool> {
        let Some(numbers) = &self.instructions else { return Some(true) };
        let end = first.saturating_add(count);
        match (numbers.start <= first && end <= numbers.end, end <= numbers.start || numbers.end <= first) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Whether an address is selected.
    #[inline]
    pub fn has_address(&self, address: u64) -> bool {
        self.addresses.is_empty() || self.addresses.iter().any(|range| range.contains(&address))
    }

    /// Whether a level and process are selected.
    pub fn has_context(&self, context: &Context) -> bool {
        (self.levels.is_empty() || context.level.is_some_and(|level| self.levels.contains(&level)))
            && (self.processes.is_empty() || context.process.is_some_and(|process| self.processes.contains(&process)))
    }

    /// Whether a time is selected.
    pub fn has_time(&self, time: Option<u64>) -> bool {
        self.times.as_ref().is_none_or(|times| time.is_some_and(|time| times.contains(&time)))
    }

    /// The first facet that a condition is about and the source does not cover: nothing of it can be selected.
    pub fn missing(&self, coverage: Coverage) -> Option<Facet> {
        let wanted = [
            (self.levels.is_empty(), Facet::Levels),
            (self.processes.is_empty(), Facet::Processes),
            (self.times.is_none(), Facet::Times),
        ];
        let missing = |(is_empty, facet): &(bool, Facet)| !is_empty && !coverage.has(*facet);
        wanted.into_iter().find(missing).map(|(_, facet)| facet)
    }
}

/// What the sink gets in place of what is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// A [`Gap::Start`], or the gap that the trace has there: for a sink to which the order of steps matters.
    Gap,
    /// Nothing, for a sink that counts. Gaps of the trace within the selected time are passed on: what is missing may have
    /// been a part of the selection.
    Nothing,
}

/// Passes the selected steps and blocks of one source to a sink.
///
/// Steps other than instructions are selected if the instruction before them on their core is at a selected address and
/// the other conditions hold for them. The context of a core is passed on, as a whole, before the first selected step in it.
pub struct Selected<'s> {
    selection: StepSelection,
    left_out: LeftOut,
    sink: &'s mut dyn BlockSink,
    cores: HashMap<u32, Core>,
    /// By the number of a block.
    blocks: Vec<Part>,
    /// Instructions that were passed on.
    instructions: u64,
    step: Step,
}

/// State of a core.
#[derive(Debug, Clone, Copy, Default)]
struct Core {
    context: Context,
    /// The context that the sink knows.
    passed: Context,
    /// Whether the last instruction is at a selected address.
    is_at_address: bool,
    /// A gap that the sink may have to get before the next step.
    gap: Option<Gap>,
    /// Number of instructions so far.
    count: u64,
}

/// How much of a block is at selected addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    None,
    /// Some of it; whether the last instruction is.
    Some(bool),
    All,
}

impl<'s> Selected<'s> {
    /// Passes on what is selected.
    pub fn new(selection: StepSelection, left_out: LeftOut, sink: &'s mut dyn BlockSink) -> Self {
        let (cores, blocks) = (HashMap::new(), Vec::new());
        Self { selection, left_out, sink, cores, blocks, instructions: 0, step: Step::default() }
    }

    /// Number of instructions that were passed on.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    fn core(&mut self, core: u32) -> &mut Core {
        let is_at_address = self.selection.addresses.is_empty();
        self.cores.entry(core).or_insert_with(|| Core { is_at_address, ..Core::default() })
    }

    /// Something of the execution of a core is left out.
    fn leave_out(&mut self, core: u32) {
        if self.left_out == LeftOut::Gap {
            self.core(core).gap.get_or_insert(Gap::Start);
        }
    }

    fn gap(&mut self, step: &Step, gap: Gap) -> ControlFlow<()> {
        let count = self.core(step.core).count;
        let is_in_time = self.selection.has_time(step.time) && self.selection.has_instruction(count);
        let left_out = self.left_out;
        let state = self.core(step.core);
        state.context = Context::default();
        if left_out == LeftOut::Nothing && is_in_time {
            (state.passed, state.gap) = (Context::default(), None);
            return self.sink.step(step);
        }
        // A gap of the trace says more than that something was left out.
        if matches!(state.gap, None | Some(Gap::Start)) {
            state.gap = Some(gap);
        }
        ControlFlow::Continue(())
    }

    /// Passes on what the sink has to know before a step at this position and time.
    fn catch_up(&mut self, core: u32, position: u64, time: Option<u64>) -> ControlFlow<()> {
        let left_out = self.left_out;
        let state = self.core(core);
        // Only a gap makes a sink forget what it knows of the context.
        let is_needed = left_out == LeftOut::Gap || state.context.over(&state.passed) != state.context;
        let gap = state.gap.take().filter(|_| is_needed);
        if gap.is_some() {
            state.passed = Context::default();
        }
        let context = (state.context != state.passed).then_some(state.context);
        state.passed = state.context;
        for event in gap.map(Event::Gap).into_iter().chain(context.map(Event::Context)) {
            self.step.clear();
            (self.step.core, self.step.position, self.step.time, self.step.event) = (core, position, time, event);
            self.sink.step(&self.step)?;
        }
        ControlFlow::Continue(())
    }

    /// Whether steps in the context of a core, and of this time, are selected.
    fn is_in_context(&mut self, core: u32, time: Option<u64>) -> bool {
        let Core { context, count, .. } = *self.core(core);
        self.selection.has_context(&context) && self.selection.has_time(time) && self.selection.has_instruction(count)
    }

    fn part_of(&self, block: &Block) -> Part {
        let mut selected = block.instructions().map(|(address, ..)| self.selection.has_address(address));
        let first = selected.next().unwrap_or(false);
        let (mut is_same, mut last) = (true, first);
        for is in selected {
            (is_same, last) = (is_same && is == first, is);
        }
        match (is_same, first) {
            (true, true) => Part::All,
            (true, false) => Part::None,
            (false, _) => Part::Some(last),
        }
    }

    fn part(&self, trace: &BlockTrace<'_>, index: usize) -> Part {
        let number = trace.executions.get(index).map(|execution| execution.number());
        number.and_then(|number| self.blocks.get(number)).copied().unwrap_or(Part::None)
    }

    /// Passes on the executions that are selected, as many at once as possible.
    fn runs(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let (mut start, mut accesses, mut position) = (0, trace.accesses, trace.first_position());
        while start < trace.executions.len() {
            let part = self.part(trace, start);
            let mut end = start + 1;
            while part != Part::Some(true) && part != Part::Some(false) && end < trace.executions.len() {
                if self.part(trace, end) != part {
                    break;
                }
                end += 1;
            }
            let run = cut(trace, start..end, position, &mut accesses);
            position += run.instructions() as u64;
            match part {
                Part::All => self.run(&run)?,
                Part::Some(_) => run.each_step(|step| self.instruction(step))?,
                Part::None => self.leave_out(trace.core),
            }
            start = end;
        }
        self.core(trace.core).is_at_address = match self.part(trace, trace.executions.len().saturating_sub(1)) {
            Part::All => true,
            Part::None => false,
            Part::Some(last) => last,
        };
        ControlFlow::Continue(())
    }

    /// Passes on executions that are selected as a whole.
    fn run(&mut self, run: &BlockTrace<'_>) -> ControlFlow<()> {
        self.instructions += run.instructions() as u64;
        self.catch_up(run.core, run.first_position(), run.time)?;
        self.sink.blocks(run)
    }

    /// An instruction in a selected context.
    fn instruction(&mut self, step: &Step) -> ControlFlow<()> {
        let is_at_address = step.event.instruction().is_some_and(|found| self.selection.has_address(found.address));
        self.core(step.core).is_at_address = is_at_address;
        if !is_at_address {
            self.leave_out(step.core);
            return ControlFlow::Continue(());
        }
        self.instructions += 1;
        self.pass(step)
    }

    fn pass(&mut self, step: &Step) -> ControlFlow<()> {
        self.catch_up(step.core, step.position, step.time)?;
        self.sink.step(step)
    }
}

/// Some of the executions of a trace, of which `position` is that of the first instruction. Their accesses are split off.
fn cut<'t>(
    trace: &BlockTrace<'t>,
    run: Range<usize>,
    position: u64,
    rest: &mut Option<BlockAccesses<'t>>,
) -> BlockTrace<'t> {
    let executions = trace.executions.get(run.clone()).unwrap_or_default();
    let accesses = rest.as_mut().map(|rest| {
        let of = |number: usize| rest.of_blocks.get(number).map_or(0, Vec::len);
        let count: usize = executions.iter().map(|execution| of(execution.number())).sum();
        let (own, others) = rest.addresses.split_at(count.min(rest.addresses.len()));
        rest.addresses = others;
        BlockAccesses { of_blocks: rest.of_blocks, addresses: own }
    });
    let positions = match trace.positions {
        Positions::From(_) => Positions::From(position),
        Positions::Each(all) => Positions::Each(all.get(run.clone()).unwrap_or_default()),
    };
    let next = run.end.checked_sub(1).and_then(|last| trace.continues_at(last));
    BlockTrace { executions, next, positions, accesses, ..*trace }
}

impl BlockSink for Selected<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        match &step.event {
            Event::Context(context) => {
                let state = self.core(step.core);
                state.context = context.over(&state.context);
                return ControlFlow::Continue(());
            }
            Event::Gap(gap) => return self.gap(step, *gap),
            _ => {}
        }
        let is_in_context = self.is_in_context(step.core, step.time);
        if step.event.instruction().is_some() {
            self.core(step.core).count += 1;
        }
        match step.event {
            Event::Instruction(_) if is_in_context => return self.instruction(step),
            Event::Instruction(found) => {
                let is_at_address = self.selection.has_address(found.address);
                self.core(step.core).is_at_address = is_at_address;
                self.leave_out(step.core);
            }
            _ if is_in_context && self.core(step.core).is_at_address => return self.pass(step),
            Event::Exception(_) | Event::ExceptionReturn { .. } => self.leave_out(step.core),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        if trace.executions.is_empty() {
            return ControlFlow::Continue(());
        }
        for block in trace.blocks.get(self.blocks.len()..).unwrap_or_default() {
            let part = self.part_of(block);
            self.blocks.push(part);
        }
        let (first, count) = (self.core(trace.core).count, trace.instructions() as u64);
        match self.selection.has_instructions(first, count) {
            // The first or the last selected instruction is among them.
            None => return trace.each_step(|step| self.step(step)),
            Some(_) if self.is_in_context(trace.core, trace.time) => {
                self.core(trace.core).count += count;
                return self.runs(trace);
            }
            Some(_) => self.core(trace.core).count += count,
        }
        let last = self.part(trace, trace.executions.len() - 1);
        self.core(trace.core).is_at_address = matches!(last, Part::All | Part::Some(true));
        self.leave_out(trace.core);
        ControlFlow::Continue(())
    }

    fn wants_accesses(&self) -> bool {
        self.sink.wants_accesses()
    }
}

/// The selected steps of a source, with a gap where others are left out.
pub struct SelectedSource<S> {
    source: S,
    selection: StepSelection,
}

impl<S: StepSource> SelectedSource<S> {
    /// Selects steps of a source.
    pub fn new(source: S, selection: StepSelection) -> Self {
        Self { source, selection }
    }
}

impl<S: StepSource> StepSource for SelectedSource<S> {
    fn coverage(&self) -> Coverage {
        self.source.coverage()
    }

    fn time_unit(&self) -> TimeUnit {
        self.source.time_unit()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let mut sink = |step: &Step| take(step);
        let mut selected = Selected::new(self.selection.clone(), LeftOut::Gap, &mut sink);
        self.source.each(&mut |step| selected.step(step))
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        self.source.follow(&mut Selected::new(self.selection.clone(), LeftOut::Gap, sink))
    }

    fn losses(&self) -> Losses {
        self.source.losses()
    }
}

#[cfg(test)]
mod tests;
