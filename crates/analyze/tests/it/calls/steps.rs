//! The tracker: stories of steps with the trees of all stacks, and blocks against steps.

use std::io::Cursor;
use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_analyze::calls::{Call, CallPart, Stack, Tracker};
use unspool_analyze::tree::Forest;
use unspool_model::{
    Block, BlockExecution, BlockSink, BlockTrace, Branch, Context, Event, Exception, Gap, Instruction, Isa, Positions,
    Step,
};

use super::story;

/// (name, steps, trees). Each step is an instruction (`address opcode`, followed by registers), or one of `exception`, `eret`,
/// `gap`, `core N`, `process N`, `thread N`, `level N`.
const STORIES: [(&str, &str, &str); 19] = [
    (
        "without registers, the return address ends a call",
        "1000 bl; 2000 bl; 3000 ret; 2004 ret; 1004 nop",
        "start 1000 1-5 own 2 at end
           2000 2-4 own 2
             3000 3-3 own 1",
    ),
    (
        "a call ends in a gap where execution continues after it",
        "1000 bl; 2000 nop; gap; 1004 nop",
        "start 1000 1-3 own 2 at end, gap
           2000 2-2 own 1 in gap, gap",
    ),
    (
        "after a gap, a return to a call from before it shows which calls ended in the gap",
        "1000 bl; 2000 bl; 3000 nop; gap; 2040 bl; 4000 ret; 2044 ret; 1004 nop",
        "start 1000 1-7 own 2 at end, gap
           2000 2-6 own 3, gap
             3000 3-3 own 1 in gap, gap
             4000 5-5 own 1",
    ),
    (
        "a function that was called in a gap is no call, and neither is its caller",
        "1000 bl; 2000 nop; gap; 5000 ret; 6000 bl; 7000 ret; 6004 nop",
        "start 1000 1-6 own 1 at end, gap
           2000 2-6 own 1 at end, gap
             gap 5000 3-3 own 1
             gap 6000 4-6 own 2 at end
               7000 5-5 own 1",
    ),
    (
        "a gap within a function: execution continues in it, and it returns",
        "1000 bl; 2000 nop; gap; 2080 nop; 2084 ret; 1004 nop",
        "start 1000 1-5 own 2 at end, gap
           2000 2-4 own 3, gap",
    ),
    (
        "code that is not traced: the program resumes after the system call, in the next instruction",
        "1000 bl; 2000 svc; exception; gap; 2004 ret; 1004 nop",
        "start 1000 1-4 own 2 at end, gap
           2000 2-3 own 2, gap",
    ),
    (
        "an interrupted instruction is executed again after a handler that is not traced",
        "1000 bl; 2000 nop; exception; gap; 2000 nop; 2004 ret; 1004 nop",
        "start 1000 1-5 own 2 at end, gap
           2000 2-4 own 3, gap",
    ),
    (
        "a branch before a gap leads to what follows: it is a call",
        "1000 bl to=2000; gap; 2000 ret; 1004 nop",
        "start 1000 1-3 own 2 at end, gap
           2000 2-2 own 1",
    ),
    (
        "an exception and its return",
        "1000 bl; 2000 nop; exception; 8000 bl; 8100 ret; 8004 eret; eret; 2004 ret; 1004 nop",
        "start 1000 1-7 own 2 at end
           2000 2-6 own 2
             exception 8000 3-5 own 2
               8100 4-4 own 1",
    ),
    (
        "an exception return that only the trace reports, as of M-profile",
        "1000 nop; exception; 8000 br; eret; 1004 nop",
        "start 1000 1-3 own 2 at end
           exception 8000 2-2 own 1",
    ),
    (
        "a signal: its handler returns to code that calls the system to continue",
        "1000 bl; 2000 nop; exception; 8000 bl; 8100 ret; 8004 ret; 9000 nop; 9004 svc; exception; 2004 ret; 1004 nop",
        "start 1000 1-9 own 2 at end
           2000 2-8 own 2
             exception 8000 3-7 own 4
               8100 4-4 own 1",
    ),
    (
        "longjmp without registers: an outer function continues after a call that has returned",
        "1000 bl; 2000 bl; 5000 ret; 2004 bl; 3000 bl; 4000 br; 2004 nop; 2008 ret; 1004 nop",
        "start 1000 1-9 own 2 at end
           2000 2-8 own 4
             5000 3-3 own 1
             3000 5-6 own 1 left
               4000 6-6 own 1 left",
    ),
    (
        "longjmp out of a small function that calls itself: it branches back, so it is a call",
        "1000 bl; 2000 bl; 5000 ret; 2004 bl; 3000 nop; 3004 bl; 3000 nop; 3004 br; 2004 nop; 2008 ret; 1004 nop",
        "start 1000 1-11 own 2 at end
           2000 2-10 own 4
             5000 3-3 own 1
             3000 5-8 own 2 left
               3000 7-8 own 2 left",
    ),
    (
        "a tail call returns to the caller of the function that jumped",
        "1000 bl; 2000 b; 3000 ret; 1004 nop",
        "start 1000 1-4 own 2 at end
           2000 2-3 own 2",
    ),
    (
        "coroutines without registers: each switch returns to the other one",
        "1000 bl; 9000 ret; 2000 bl; 9000 ret; 1004 bl; 9000 ret; 2004 bl; 9000 ret; 1008 nop",
        "start 1000 1-9 own 3 at end
           9000 2-4 own 2
             9000 4-4 own 1 left
           9000 6-8 own 2
             9000 8-8 own 1 left",
    ),
    (
        "coroutines with a stack pointer",
        "1000 bl sp=1000; 9000 ret sp=900000; 2000 bl; 9000 ret sp=1000; 1004 nop",
        "start 1000 1-5 own 2 at end
           9000 2-4 own 2
             9000 4-4 own 1 left",
    ),
    (
        "two threads on one core, switched within a function",
        "thread 1; 1000 bl; 9000 nop; thread 2; 9004 ret; 2004 bl; 9000 nop; thread 1; 9004 ret; 1004 nop",
        "thread 1
         start 1000 1-4 own 2 at end
           9000 2-3 own 2
         thread 2
         start 2004 1-3 own 1 at end
           before 9004 1-1 own 1
           9000 3-3 own 1 at end",
    ),
    (
        "a thread moves to another core and returns there; processes of a core have stacks of their own",
        "thread 1; 1000 bl; 2000 nop; core 1; thread 1; 2004 ret; 1004 nop; core 2; process 7; 5000 nop; process 8; 6000 nop",
        "thread 1
         start 1000 1-4 own 2 at end
           2000 2-3 own 2
         core 2 process 7
         start 5000 1-1 own 1 at end
         core 2 process 8
         start 6000 1-1 own 1 at end",
    ),
    (
        "a thread continues elsewhere than it was left: what happened in between is missing",
        "thread 1; 1000 bl; 2000 nop; thread 2; 5000 nop; thread 1; 3000 ret; 1004 nop",
        "thread 1
         start 1000 1-4 own 2 at end, gap
           2000 2-3 own 2, gap
         thread 2
         start 5000 1-1 own 1 at end",
    ),
];

#[test]
fn stories_of_steps() {
    for (name, steps, expected) in STORIES {
        let lines: Vec<&str> = expected.lines().collect();
        let margin = |line: &str| line.len() - line.trim_start().len();
        let least = lines.iter().skip(1).map(|line| margin(line)).min().unwrap_or(0);
        let has_headings = lines[0].starts_with("thread") || lines[0].starts_with("core");
        let least = if has_headings { least } else { least.saturating_sub(2) };
        let strip =
            |(index, line): (usize, &&str)| if index == 0 { line.to_string() } else { line[least..].to_string() };
        let expected: Vec<String> = lines.iter().enumerate().map(strip).collect();
        assert_eq!(trees(&parse(steps), has_headings), expected.join("\n") + "\n", "{name}");
    }
}

/// The steps of a story.
pub(super) fn parse(story: &str) -> Vec<Step> {
    let (mut core, mut steps) = (0, Vec::new());
    for (position, text) in (1..).zip(story.split(';').map(str::trim)) {
        let mut words = text.split_whitespace();
        let (first, second) = (words.next().unwrap(), words.next().unwrap_or_default());
        let number = || second.parse().unwrap();
        let context = |context| Event::Context(context);
        let mut step = Step::default();
        (step.core, step.position) = (core, position);
        step.event = match first {
            "core" => {
                core = number() as u32;
                continue;
            }
            "exception" => Event::Exception(Exception::default()),
            "eret" => Event::ExceptionReturn { target: None },
            "gap" => Event::Gap(Gap::Start),
            "process" => context(Context { process: Some(number()), ..Context::default() }),
            "thread" => context(Context { process: Some(1), thread: Some(number()), ..Context::default() }),
            "level" => context(Context { level: Some(number() as u8), ..Context::default() }),
            address => {
                let (isa, length, opcode) = story::opcode(second);
                let address = u64::from_str_radix(address, 16).unwrap();
                Event::Instruction(Instruction { address, opcode: Some(opcode), length, isa, ..Instruction::default() })
            }
        };
        for word in words {
            let (name, value) = word.split_once('=').unwrap();
            let value = u64::from_str_radix(value, 16).unwrap();
            match (name, &mut step.event) {
                ("sp", _) => step.write_register("sp", 0, &value.to_le_bytes()),
                ("to", Event::Instruction(instruction)) => {
                    instruction.branch = Some(Branch { taken: true, target: Some(value) });
                }
                _ => panic!("{word}"),
            }
        }
        steps.push(step);
    }
    steps
}

fn trees(steps: &[Step], has_headings: bool) -> String {
    let mut tracker = Tracker::new(Forest::new(Cursor::new(Vec::new())));
    steps.iter().for_each(|step| tracker.step(step));
    let stacks: Vec<Stack> = tracker.stacks().copied().collect();
    let mut forest = tracker.finish();
    let mut text = String::new();
    for (number, Stack { core, process, thread }) in stacks.iter().enumerate() {
        match (thread, process) {
            _ if !has_headings => {}
            (Some(thread), _) => text += &format!("thread {thread}\n"),
            (None, Some(process)) => text += &format!("core {core} process {process}\n"),
            (None, None) => text += &format!("core {core}\n"),
        }
        let take = |depth: usize, call: &Call| {
            let gap = if call.has_gap { ", gap" } else { "" };
            text += &format!("{:indent$}{}{gap}\n", "", story::line(call), indent = depth * 2);
            Ok(())
        };
        forest.each(number, |_| true, take).unwrap();
    }
    text
}

const NOP: u32 = 0xd503_201f;

/// Last opcodes of blocks: nop, bl, ret, b, br, eret, blr.
const LAST: [u32; 7] = [NOP, 0x9400_0004, 0xd65f_03c0, 0x1400_0000, 0xd61f_0020, 0xd69f_03e0, 0xd63f_0020];

/// Sink that passes blocks on as steps.
struct AsSteps<'t, S>(&'t mut Tracker<S>);

impl<S: unspool_analyze::calls::CallSink> BlockSink for AsSteps<'_, S> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.0.step(step);
        ControlFlow::Continue(())
    }
}

/// What comes between two runs of blocks.
fn event(kind: u8) -> Option<Event> {
    match kind {
        0 => Some(Event::Exception(Exception::default())),
        1 => Some(Event::Gap(Gap::Overflow)),
        2 => Some(Event::Context(Context { process: Some(1), thread: Some(1), ..Context::default() })),
        3 => Some(Event::Context(Context { process: Some(1), thread: Some(2), ..Context::default() })),
        4 => Some(Event::ExceptionReturn { target: None }),
        _ => None,
    }
}

proptest! {
    /// Blocks have the calls that their instructions have, and so have parts of the trace that were reduced first.
    #[test]
    fn blocks_are_followed_like_their_steps(
        last in prop::collection::vec(prop::sample::select(LAST.to_vec()), 12),
        choices in prop::collection::vec((0_usize..12, 0_u8..40), 1..120),
    ) {
        let blocks: Vec<Block> = (0..).zip(&last).map(|(number, last)| {
            Block::new(0x1000 + 16 * number, Isa::A64, vec![NOP, NOP, NOP, *last], *last != NOP)
        }).collect();
        let mut calls = [Vec::new(), Vec::new(), Vec::new()];
        let [by_blocks, by_steps, by_parts] = &mut calls;
        let mut blocks_tracker = Tracker::new(|stack: usize, call: &Call| by_blocks.push((stack, *call)));
        let mut steps_tracker = Tracker::new(|stack: usize, call: &Call| by_steps.push((stack, *call)));
        let mut parts_tracker = Tracker::new(|stack: usize, call: &Call| by_parts.push((stack, *call)));
        let mut part = CallPart::default();
        let (mut executions, mut position) = (Vec::new(), 0);
        let mut number = 0;
        for (choice, between) in choices {
            // Execution continues after a block that is no branch.
            let next = if blocks[number].ends_in_branch { choice } else { (number + 1) % blocks.len() };
            let is_taken = blocks[number].ends_in_branch && blocks[next].start != blocks[number].end();
            executions.push(BlockExecution::new(number as u32, is_taken));
            let mut next = next;
            if let Some(event) = event(between) {
                if !matches!(event, Event::Context(_)) {
                    next = choice;
                }
                let trace = BlockTrace {
                    core: 0,
                    blocks: &blocks,
                    executions: &executions,
                    next: Some(blocks[next].start),
                    positions: Positions::From(position),
                    time: Some(position / 8),
                    accesses: None,
                };
                let _ = BlockSink::blocks(&mut blocks_tracker, &trace);
                let _ = AsSteps(&mut steps_tracker).blocks(&trace);
                let _ = part.blocks(&trace);
                if choice % 3 == 0 {
                    parts_tracker.part(&std::mem::take(&mut part));
                }
                position += trace.instructions() as u64;
                executions.clear();
                let mut step = Step::default();
                (step.position, step.event) = (position, event);
                blocks_tracker.step(&step);
                steps_tracker.step(&step);
                let _ = part.step(&step);
            }
            number = next;
        }
        parts_tracker.part(&part);
        let _ = (blocks_tracker.finish(), steps_tracker.finish(), parts_tracker.finish());
        let [by_blocks, by_steps, by_parts] = calls;
        prop_assert_eq!(&by_blocks, &by_steps);
        prop_assert_eq!(by_parts, by_steps);
    }
}
