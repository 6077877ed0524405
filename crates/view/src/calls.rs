//! Calls of a source, followed once for the timeline, the call stack, the call tree and the moves.
//!
//! steps, counted ─▶ calls of each stack ─▶ numbers of instructions of the source ─▶ slices, tree, marks

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::thread::available_parallelism;

use serde_json::{Value, json};
use unspool::analyze::calls::{Began, Call, Ended, Stack, Window};
use unspool::analyze::marks::CoreNumbers;
use unspool::file::{FileOptions, TraceFile};
use unspool::model::{BlockSink, BlockTrace, Coverage, Facet, Losses, SourceError, Step, StepSource, TimeUnit};
use unspool::{
    CallMarks, FileKind, FollowedCalls, Meter, OnProgress, Program, SeekableSteps, call_marks, follow_calls,
};

use crate::Refusal;
use crate::marks::Marks;
use crate::parameters::{LAST, Parameters};
use crate::rows::hex;
use crate::slices::{Slice, SliceWriter, Slices};
use crate::source::Source;
use crate::times::Times;
use crate::tree::{Instructions, Tree};

/// Limit of the slices in an answer.
const MAX_SLICES: usize = 20_000;
/// Limit of the names of functions; further ones are called by the last.
const MAX_NAMES: usize = 1 << 20;

/// Flags of a slice.
const BEGAN_BEFORE: u8 = 1;
const ENDED_IN_GAP: u8 = 2;
const HAS_GAP: u8 = 4;
const OPEN: u8 = 8;

/// Everything that is known about the calls of a source.
#[derive(Debug)]
pub(crate) struct Calls {
    stacks: Vec<StackOfCalls>,
    slices: Slices,
    names: Vec<Name>,
    pub(crate) tree: Tree,
    pub(crate) marks: Marks,
    pub(crate) times: Times,
    /// Number of instructions of the source.
    pub(crate) instructions: u64,
}

/// A function.
#[derive(Debug)]
struct Name {
    text: String,
    address: u64,
}

#[derive(Debug)]
struct StackOfCalls {
    stack: Stack,
    deepest: u32,
}

impl Calls {
    /// Follows the calls of a source.
    pub(crate) fn follow(steps: &SeekableSteps, progress: &mut OnProgress<'_>) -> Result<Self, String> {
        let (followed, numbers) = followed(steps, progress)?;
        let has_times = steps.coverage.has(Facet::Times);
        Self::of(followed, &numbers, &steps.program, has_times)
            .map_err(|error| format!("cannot keep the calls: {error}"))
    }

    fn of(
        followed: FollowedCalls<CallMarks>,
        numbers: &SourceNumbers,
        program: &Program,
        has_times: bool,
    ) -> io::Result<Self> {
        let FollowedCalls { sink: mut marks, stacks, .. } = followed;
        let mut names = Names { program, texts: Vec::new(), known: HashMap::new() };
        let (mut writer, mut tree, mut all) = (SliceWriter::new()?, Tree::default(), Vec::new());
        let kept = Marks::of(&mut marks, numbers)?;
        let (mut instructions, mut times) = (0, Times::default());
        for (number, stack) in stacks.iter().enumerate() {
            writer.start_stack()?;
            let (mut deepest, mut last) = (0, 0);
            let CallMarks { calls, numbers: on_cores, .. } = &mut marks;
            let place = Placed { numbers, on_cores, stack: number, core: stack.core };
            calls.each(
                number,
                |_| true,
                |depth, call| {
                    let name = names.of(stack.process, call.function);
                    let cost = Instructions { own: call.own.instructions, total: call.total().instructions };
                    tree.add(depth, call.function, name, cost);
                    (deepest, last) = (deepest.max(depth as u32), last.max(call.exit.number));
                    let slice = place.slice(call, depth, name);
                    if has_times {
                        times.add(slice.start, call.entry.time);
                        times.add(slice.end.saturating_sub(1), call.exit.time);
                    }
                    writer.add(slice)
                },
            )?;
            instructions += last;
            all.push(StackOfCalls { stack: *stack, deepest });
        }
        Ok(Self {
            stacks: all,
            slices: writer.finish()?,
            names: names.texts,
            tree,
            marks: kept,
            times: times.sorted(),
            instructions,
        })
    }

    /// A name by its number.
    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("?", |name| &name.text)
    }

    /// The address of a function by the number of its name.
    fn address(&self, number: u32) -> Option<String> {
        self.names.get(number as usize).map(|name| hex(name.address))
    }

    /// The stack that a core executes at an instruction.
    pub(crate) fn stack_at(&self, core: u32, instruction: u64) -> usize {
        self.marks
            .stack_at(core, instruction)
            .unwrap_or_else(|| self.stacks.iter().position(|stack| stack.stack.core == core).unwrap_or(0))
    }

    /// The calls of a stack in progress at an instruction, outer ones first.
    pub(crate) fn at(&self, stack: usize, instruction: u64) -> Result<Vec<Slice>, Refusal> {
        self.slices.at(stack, instruction).map_err(Refusal::unreadable)
    }

    fn stacks_json(&self) -> Vec<Value> {
        let is_only_core = self.stacks.iter().all(|stack| stack.stack.core == self.stacks[0].stack.core);
        let json = |stack: &StackOfCalls| {
            let StackOfCalls { stack: Stack { core, process, thread }, deepest } = stack;
            let core = (!is_only_core || process.or(*thread).is_none()).then(|| format!("core {core}"));
            let process_text = process.map(|number| format!("process {number}"));
            let thread_text = thread.map(|number| format!("thread {number}"));
            let label = [core, process_text, thread_text].into_iter().flatten().collect::<Vec<_>>().join(", ");
            json!({"label": label, "process": process, "thread": thread, "deepest": deepest})
        };
        self.stacks.iter().map(json).collect()
    }
}

/// Answers a request for the calls of a window.
pub(crate) fn answer(source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let (from, to) = (parameters.instruction("from")?, parameters.instruction("to")?);
    let min = parameters.number("min", 0..=LAST)?;
    let (depth, depths) = (parameters.number("depth", 0..=u32::MAX)?, parameters.number("depths", 1..=200_u32)?);
    let wanted = match parameters.text("stack").as_deref() {
        None | Some("all") => None,
        Some(number) => Some(number.parse::<usize>().map_err(|_| Refusal::malformed("'stack' is a number or 'all'"))?),
    };
    let Some(calls) = source.calls.result() else {
        let state = source.calls.json();
        return Ok(
            json!({"stacks": [], "names": [], "slices": [], "clipped": false, "state": state["state"], "why": state["why"]}),
        );
    };
    let (mut names, mut slices): (HashMap<u32, usize>, Vec<Value>) = (HashMap::new(), Vec::new());
    let (mut texts, mut is_clipped) = (Vec::new(), false);
    for stack in (0..calls.stacks.len()).filter(|stack| wanted.is_none_or(|wanted| wanted == *stack)) {
        let each = calls.slices.each(stack, &(from..to.saturating_add(1)), min, &mut |slice| {
            if !(depth..depth.saturating_add(depths)).contains(&slice.depth) {
                return ControlFlow::Continue(());
            }
            is_clipped = slices.len() >= MAX_SLICES;
            if is_clipped {
                return ControlFlow::Break(());
            }
            let name = *names.entry(slice.name).or_insert_with(|| {
                texts.push(calls.name(slice.name));
                texts.len() - 1
            });
            slices.push(json!([stack, slice.depth, slice.start, slice.end, name, slice.flags]));
            ControlFlow::Continue(())
        });
        each.map_err(Refusal::unreadable)?;
    }
    Ok(json!({"stacks": calls.stacks_json(), "names": texts, "slices": slices, "clipped": is_clipped}))
}

/// Answers a request for the call stack at an instruction.
pub(crate) fn answer_stack(source: &Source, core: u32, at: u64) -> Result<Value, Refusal> {
    let Some(calls) = source.calls.result() else { return Ok(source.calls.json()) };
    let stack = calls.stack_at(core, at);
    let frames: Vec<Value> = calls
        .at(stack, at)?
        .iter()
        .rev()
        .map(|slice| {
            let began = if slice.flags & BEGAN_BEFORE != 0 { "before" } else { "called" };
            json!({
                "function": calls.name(slice.name), "address": calls.address(slice.name), "entry": slice.start, "end": slice.end, "depth": slice.depth,
                "began": began,
            })
        })
        .collect();
    Ok(json!({"stack": stack, "frames": frames}))
}

/// Names of functions, each once.
struct Names<'p> {
    program: &'p Program,
    texts: Vec<Name>,
    known: HashMap<(Option<u64>, u64), u32>,
}

impl Names<'_> {
    fn of(&mut self, process: Option<u64>, function: u64) -> u32 {
        if let Some(known) = self.known.get(&(process, function)) {
            return *known;
        }
        let number = self.texts.len().min(MAX_NAMES) as u32;
        if self.texts.len() < MAX_NAMES {
            let name = self.program.symbol_of(process, function).map(|(name, offset)| match offset {
                0 => name.to_string(),
                offset => format!("{name}+{offset:#x}"),
            });
            self.texts.push(Name { text: name.unwrap_or_else(|| hex(function)), address: function });
            self.known.insert((process, function), number);
        }
        number
    }
}

/// Where the calls of a stack are among the instructions of the source.
struct Placed<'n> {
    numbers: &'n SourceNumbers,
    on_cores: &'n CoreNumbers,
    stack: usize,
    core: u32,
}

impl Placed<'_> {
    fn slice(&self, call: &Call, depth: usize, name: u32) -> Slice {
        let place = |number: u64| self.numbers.of(self.core, self.on_cores.of(self.stack, number));
        let mut flags = 0;
        if matches!(call.began, Began::Start | Began::Before) {
            flags |= BEGAN_BEFORE;
        }
        if call.ended == Ended::InGap {
            flags |= ENDED_IN_GAP;
        }
        if call.has_gap {
            flags |= HAS_GAP;
        }
        if call.ended == Ended::AtEnd {
            flags |= OPEN;
        }
        let (start, end) = (place(call.entry.number), place(call.exit.number) + 1);
        Slice { start, end, name, depth: depth as u32, flags }
    }
}

/// Numbers of instructions among those of the source, of which several cores may execute some.
#[derive(Debug, Default)]
pub(crate) struct SourceNumbers {
    cores: HashMap<u32, CoreCounts>,
    /// The core that executed last.
    last: Option<u32>,
    total: u64,
}

/// Instructions of a core.
#[derive(Debug)]
struct CoreCounts {
    count: u64,
    /// At some of the places where the core continues: its instructions so far, and those of the source.
    changes: Vec<(u64, u64)>,
    /// One of this number of places is kept.
    stride: u64,
    places: u64,
}

/// Limit of the places of a core. With more, every other one is left out: cores that alternate at that rate have about the same
/// share of the instructions between two places.
const MAX_CHANGES: usize = 1 << 21;

impl SourceNumbers {
    fn add(&mut self, core: u32, instructions: u64) {
        let counts =
            self.cores.entry(core).or_insert(CoreCounts { count: 0, changes: Vec::new(), stride: 1, places: 0 });
        if self.last != Some(core) {
            self.last = Some(core);
            if counts.places.is_multiple_of(counts.stride) {
                counts.changes.push((counts.count, self.total));
            }
            counts.places += 1;
            if counts.changes.len() > MAX_CHANGES {
                counts.stride *= 2;
                let mut index = 0_usize;
                counts.changes.retain(|_| {
                    index += 1;
                    !index.is_multiple_of(2)
                });
            }
        }
        counts.count += instructions;
        self.total += instructions;
    }

    /// The number of an instruction of a core, both counted from 1.
    pub(crate) fn of(&self, core: u32, number: u64) -> u64 {
        let Some(CoreCounts { changes, .. }) = self.cores.get(&core).filter(|_| self.cores.len() > 1) else {
            return number;
        };
        let later = changes.partition_point(|(count, _)| *count < number);
        let (count, total) = later.checked_sub(1).map_or((0, 0), |last| changes[last]);
        let exact = total + (number - count.min(number));
        changes.get(later).map_or(exact, |(_, next)| exact.min(*next))
    }
}

/// Counts the instructions of a source for each core.
struct Counted<'n, S> {
    steps: S,
    numbers: &'n mut SourceNumbers,
}

impl<S: StepSource> StepSource for Counted<'_, S> {
    fn coverage(&self) -> Coverage {
        self.steps.coverage()
    }

    fn time_unit(&self) -> TimeUnit {
        self.steps.time_unit()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.steps.each(take)
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        self.steps.follow(&mut CountingSink { numbers: self.numbers, sink })
    }

    fn losses(&self) -> Losses {
        self.steps.losses()
    }
}

struct CountingSink<'n, 's> {
    numbers: &'n mut SourceNumbers,
    sink: &'s mut dyn BlockSink,
}

impl BlockSink for CountingSink<'_, '_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        if step.event.instruction().is_some() {
            self.numbers.add(step.core, 1);
        }
        self.sink.step(step)
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.numbers.add(trace.core, trace.instructions() as u64);
        self.sink.blocks(trace)
    }

    fn wants_accesses(&self) -> bool {
        self.sink.wants_accesses()
    }
}

/// Follows the calls of a source: of a capture on all cores.
fn followed(
    steps: &SeekableSteps,
    progress: &mut OnProgress<'_>,
) -> Result<(FollowedCalls<CallMarks>, SourceNumbers), String> {
    let (window, mut numbers) = (Window::default(), SourceNumbers::default());
    let followed = if let Some(capture) = steps.capture_steps().map_err(|error| error.to_string())? {
        let meter = Meter::new(Some(capture.size()));
        let threads = available_parallelism().map_or(1, usize::from);
        capture.counting(&meter.read).follow_calls(threads, &window, &meter, progress, call_marks())
    } else {
        debug_assert_ne!(steps.kind(), FileKind::Capture);
        let file = TraceFile::open(&steps.path(), &FileOptions::default()).map_err(|error| error.to_string())?;
        let (source, meter) = file.into_steps(false);
        follow_calls(&mut Counted { steps: source, numbers: &mut numbers }, &window, &meter, progress, call_marks())
    };
    match &followed.ended {
        // What is before the damage is shown.
        Err(error) if !error.is_damage => Err(error.to_string()),
        _ => Ok((followed, numbers)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_several_cores_have_numbers_of_the_source() {
        let mut numbers = SourceNumbers::default();
        for (core, count) in [(0, 3), (1, 2), (0, 1), (1, 5)] {
            numbers.add(core, count);
        }
        let all = |core, count| (1..=count).map(|number| numbers.of(core, number)).collect::<Vec<_>>();
        assert_eq!(all(0, 4), [1, 2, 3, 6]);
        assert_eq!(all(1, 7), [4, 5, 7, 8, 9, 10, 11]);
    }
}
