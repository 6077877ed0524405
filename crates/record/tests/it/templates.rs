//! The stream of a program: its templates and its steps are the same.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_model::{
    BlockExecution, BlockSink, Branch, Direction, Event, Instruction, Step, StepSource, StoppedAt, Template,
    TemplateTrace,
};
use unspool_record::{Machine, Stream};
use unspool_wire::{Access, Record};

use crate::stream::{push_records, stream};

/// Instructions of a block: NOP, LDR, STR, LDP, STP, LDADD, STXR, and the sizes and directions of its accesses.
const BODY: [(u32, &[(bool, u64)]); 7] = [
    (0xd503_201f, &[]),
    (0xf940_0020, &[(false, 3)]),
    (0xb900_0020, &[(true, 2)]),
    (0xa941_53f3, &[(false, 3), (false, 3)]),
    (0xa900_a3e0, &[(true, 3), (true, 3)]),
    (0xf820_0041, &[(false, 3), (true, 3)]),
    (0xc800_7c41, &[(true, 3)]),
];

/// Instructions of a block; the last is one of the ends.
const LENGTH: usize = 7;
const BLOCKS: usize = 5;

#[derive(Debug, Clone, Copy)]
enum End {
    FallThrough,
    Direct(usize),
    Conditional(usize),
    Return,
    Call,
}

type Code = (Vec<usize>, End);

/// One execution of a block.
#[derive(Debug, Clone, Copy)]
struct Turn {
    is_taken: bool,
    to: usize,
    address: u64,
    variation: Variation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variation {
    Usual,
    /// The last access is missing, or of another size.
    Missing,
    Wider,
    /// It is left by a fault, or a signal arrives after it: execution continues in any block.
    Left,
    Signal,
    /// A chunk ends.
    Chunk,
}

fn start(block: usize) -> u64 {
    0x40_0000 + (4 * LENGTH * block) as u64
}

fn code() -> impl Strategy<Value = Code> {
    let end = prop_oneof![
        2 => Just(End::FallThrough),
        2 => (0..BLOCKS).prop_map(End::Direct),
        4 => (0..BLOCKS).prop_map(End::Conditional),
        2 => Just(End::Return),
        1 => Just(End::Call),
    ];
    // Blocks with few accesses, each of one part, are a case of their own.
    let word = prop_oneof![30 => 0..3_usize, 8 => 3..5_usize, 1 => 5..BODY.len()];
    (prop::collection::vec(word, LENGTH - 1), end)
}

fn turn() -> impl Strategy<Value = Turn> {
    let variation = prop_oneof![
        40 => Just(Variation::Usual),
        1 => Just(Variation::Missing),
        1 => Just(Variation::Wider),
        1 => Just(Variation::Left),
        1 => Just(Variation::Signal),
        3 => Just(Variation::Chunk),
    ];
    let address = prop_oneof![6 => (0..64_u64).prop_map(|at| 0x7000 + 8 * at), 1 => Just(0xff8_u64), 1 => any::<u64>()];
    (any::<bool>(), 0..BLOCKS, address, variation).prop_map(|(is_taken, to, address, variation)| Turn {
        is_taken,
        to,
        address,
        variation,
    })
}

fn opcodes(index: usize, (body, end): &Code) -> Vec<u32> {
    let at = start(index) + 4 * (LENGTH as u64 - 1);
    let words_to = |to: &usize| (start(*to).wrapping_sub(at) / 4) as u32;
    let last = match end {
        End::FallThrough => 0xd503_201f,
        End::Direct(to) => 0x1400_0000 | words_to(to) & 0x03ff_ffff,
        End::Conditional(to) => 0x5400_0001 | (words_to(to) & 0x7_ffff) << 5,
        End::Return => 0xd65f_03c0,
        End::Call => 0xd400_0001,
    };
    body.iter().map(|word| BODY[*word].0).chain([last]).collect()
}

/// A stream in which blocks are executed in these turns.
fn stream_of(codes: &[Code], turns: &[Turn]) -> Vec<u8> {
    let blocks: Vec<_> = codes.iter().enumerate().map(|(index, code)| (start(index), opcodes(index, code))).collect();
    let (mut chunks, mut records, mut at) = (Vec::new(), vec![Record::ThreadStart {}], 0);
    for turn in turns {
        records.push(Record::Block { id: at as u32 });
        let (body, end) = &codes[at];
        let mut address = turn.address;
        for (index, word) in body.iter().enumerate() {
            for (is_write, size) in BODY[*word].1 {
                let size = 1 << size;
                records.push(Record::Access(Access { index: index as u16, size, is_write: *is_write, address }));
                address = address.wrapping_add(size.into());
            }
        }
        if let Some(Record::Access(last)) = records.last_mut() {
            match turn.variation {
                Variation::Missing => drop(records.pop()),
                Variation::Wider => last.size = 1 << (last.size.trailing_zeros() ^ 1),
                _ => {}
            }
        }
        let mut next = match end {
            End::Direct(to) => *to,
            End::Conditional(to) if turn.is_taken => *to,
            End::Return => turn.to,
            End::FallThrough | End::Conditional(_) => (at + 1) % BLOCKS,
            End::Call => {
                records.push(Record::SystemCall { number: 64, arguments: [0; 3] });
                records.push(Record::SystemCallReturn { number: 64, result: 0 });
                (at + 1) % BLOCKS
            }
        };
        match turn.variation {
            Variation::Left => {
                records.push(Record::BlockLeft { completed: 1 });
                next = turn.to;
            }
            Variation::Signal => next = turn.to,
            Variation::Chunk => chunks.push(std::mem::take(&mut records)),
            _ => {}
        }
        at = next;
    }
    records.push(Record::ThreadEnd {});
    chunks.push(records);
    stream(&blocks, &chunks)
}

/// A step: an instruction and its accesses, adjacent ones joined, or the text of any other.
type Emitted = (Option<Instruction>, Vec<(bool, u64, u64)>, String);

/// Keeps all that it receives.
#[derive(Default)]
struct Kept {
    steps: Vec<Emitted>,
    /// Maximum number of executions to accept of each template trace; `None`: all.
    limit: Option<usize>,
    takes_templates: bool,
    executions: usize,
    instructions: u64,
}

impl Kept {
    fn execute(&mut self, template: &Template, execution: BlockExecution, addresses: &mut &[u64]) {
        let mut take = || {
            let (first, rest) = addresses.split_first().unwrap();
            *addresses = rest;
            *first
        };
        let mut accesses =
            template.accesses.iter().map(|access| (access, take())).collect::<Vec<_>>().into_iter().peekable();
        let end = &template.end;
        let target = if end.flow.is_indirect() { Some(take()) } else { end.target_address() };
        for (index, instruction) in template.instructions.iter().enumerate() {
            let mut instruction = *instruction;
            if index + 1 == template.instructions.len() && end.flow.is_branch() {
                let target = target.filter(|_| execution.is_taken());
                instruction.branch = Some(Branch { taken: execution.is_taken(), target });
            }
            let mut of_it = Vec::new();
            while let Some((access, address)) = accesses.next_if(|(access, _)| usize::from(access.index) == index) {
                of_it.push((access.direction == Direction::Write, address, access.size.into()));
            }
            self.steps.push((Some(instruction), of_it, String::new()));
        }
        self.executions += 1;
        self.instructions += template.instructions.len() as u64;
    }
}

impl BlockSink for Kept {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let mut accesses: Vec<(bool, u64, u64)> = Vec::new();
        for access in step.accesses() {
            let is_write = access.direction == Direction::Write;
            match accesses.last_mut() {
                Some((before, at, size))
                    if *before == is_write
                        && at.wrapping_add(*size) == access.address
                        && *at >> 12 == access.address.wrapping_add(access.size - 1) >> 12 =>
                {
                    *size += access.size;
                }
                _ => accesses.push((is_write, access.address, access.size)),
            }
        }
        let instruction = step.event.instruction().copied();
        if instruction.is_some() {
            assert_eq!(step.position, self.instructions);
            self.instructions += 1;
        }
        let other = if matches!(step.event, Event::Instruction(_)) { String::new() } else { format!("{step:?}") };
        self.steps.push((instruction, accesses, other));
        ControlFlow::Continue(())
    }

    fn takes_templates(&self) -> bool {
        self.takes_templates
    }

    fn templates(&mut self, trace: &TemplateTrace<'_>) -> ControlFlow<(), Option<StoppedAt>> {
        let mut rest = trace.addresses;
        assert_eq!(trace.instructions, trace.instructions_of(trace.executions.len()));
        let limit = self.limit.unwrap_or(usize::MAX);
        for execution in trace.executions.iter().take(limit) {
            self.execute(&trace.templates[execution.number()], *execution, &mut rest);
        }
        if trace.executions.len() <= limit {
            assert!(rest.is_empty());
            return ControlFlow::Continue(None);
        }
        let addresses = trace.addresses.len() - rest.len();
        ControlFlow::Continue(Some(StoppedAt { executions: limit, addresses, is_final: limit == 2 }))
    }
}

fn record(bytes: &[u8], takes_templates: bool, limit: Option<usize>) -> Kept {
    let mut kept = Kept { takes_templates, limit, ..Kept::default() };
    Stream::new(bytes, Machine::Aarch64).follow(&mut kept).unwrap();
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn templates_are_equal_to_steps(
        codes in prop::collection::vec(code(), BLOCKS),
        turns in prop::collection::vec(turn(), 1..80),
        limit in prop::option::of(0..4_usize),
    ) {
        let bytes = stream_of(&codes, &turns);
        let (steps, templates) = (record(&bytes, false, None), record(&bytes, true, limit));
        prop_assert_eq!(steps.executions, 0);
        for (at, (found, expected)) in templates.steps.iter().zip(&steps.steps).enumerate() {
            prop_assert_eq!(found, expected, "step {}", at);
        }
        prop_assert_eq!(templates.steps.len(), steps.steps.len());
    }
}

#[test]
fn a_loop_comes_as_templates() {
    let codes: Vec<Code> = (0..BLOCKS).map(|at| (vec![1, 3, 0, 0, 0, 0], End::Conditional(at / 2))).collect();
    let turn = |at: u64| Turn {
        is_taken: !at.is_multiple_of(3),
        to: 0,
        address: 0x7000 + 16 * at,
        variation: Variation::Usual,
    };
    let turns: Vec<Turn> = (0..500).map(turn).collect();
    let kept = record(&stream_of(&codes, &turns), true, None);
    assert_eq!(kept.instructions, 3500);
    // A block comes as steps once, and so does an access whose parts are in two pages.
    assert!(kept.executions > 470, "{}", kept.executions);
}

#[test]
fn a_chunk_may_have_many_words() {
    let codes: Vec<Code> = (0..BLOCKS).map(|at| (vec![1, 2, 1, 0, 0, 0], End::Direct((at + 1) % BLOCKS))).collect();
    let turn = |at: u64| Turn { is_taken: true, to: 0, address: 0x7000 + 8 * at, variation: Variation::Usual };
    let turns: Vec<Turn> = (0..30_000).map(turn).collect();
    let bytes = stream_of(&codes, &turns);
    let (steps, templates) = (record(&bytes, false, None), record(&bytes, true, None));
    assert!(templates.steps == steps.steps);
    // Blocks come as templates when they were executed before, but for the last one and where a trace is full.
    assert!(templates.executions > 30_000 - 20, "{}", templates.executions);
}

#[test]
fn accesses_of_no_block_are_damage() {
    let codes: Vec<Code> = (0..BLOCKS).map(|at| (vec![1, 0, 0, 0, 0, 0], End::Conditional(at))).collect();
    let turns = [Turn { is_taken: true, to: 0, address: 0x7000, variation: Variation::Usual }; 4];
    let mut bytes = stream_of(&codes, &turns);
    // The thread has ended.
    let access = |address| Record::Access(Access { index: 0, size: 8, is_write: false, address });
    push_records(&mut bytes, &[access(0x7000), Record::Block { id: 0 }, access(0x7008), Record::ThreadEnd {}]);
    for takes_templates in [false, true] {
        let mut kept = Kept { takes_templates, ..Kept::default() };
        let ended = Stream::new(&bytes[..], Machine::Aarch64).follow(&mut kept);
        assert!(ended.is_err_and(|error| error.is_damage && error.text.contains("no block")));
        assert_eq!(kept.steps.iter().filter(|step| step.0.is_some()).count(), 4 * LENGTH);
    }
}

/// The plugin counts whole blocks: the limit may be reached there before it is reached here.
#[test]
fn the_block_after_the_limit_is_not_recorded() {
    let codes: Vec<Code> = (0..BLOCKS).map(|at| (vec![1, 0, 0, 0, 0, 0], End::Conditional(at))).collect();
    let blocks: Vec<_> = codes.iter().enumerate().map(|(index, code)| (start(index), opcodes(index, code))).collect();
    let (access, end) =
        (Record::Access(Access { index: 0, size: 8, is_write: false, address: 8 }), Record::ThreadEnd {});
    let run = |next| vec![Record::ThreadStart {}, Record::Block { id: 1 }, access, Record::LimitReached { next }, end];
    for (next, is_taken) in [(1, true), (2, false)] {
        let kept = record(&stream(&blocks, &[run(next)]), true, None);
        let instructions: Vec<_> = kept.steps.iter().filter_map(|step| step.0).collect();
        assert_eq!(instructions.len(), LENGTH);
        assert_eq!(instructions.last().and_then(|last| last.branch).map(|branch| branch.taken), Some(is_taken));
    }
    let bytes = stream(&blocks, &[run(BLOCKS as u32)]);
    let ended = Stream::new(&bytes[..], Machine::Aarch64).follow(&mut Kept::default());
    assert!(ended.is_err_and(|error| error.is_damage), "there is no such block");
}
