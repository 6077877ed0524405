//! What the plugin tells of a program: in runs or step by step, it is the same.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_model::{Branch, Direction, Event, Instruction, Pass, Refused, Run, Step, Stretch};
use unspool_record::{Listener, Machine, Stream};

/// What an instruction of a block is: NOP, LDR, STR, LDP, STP, LDADD, STXR, and the sizes and directions of its accesses.
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
    Behind,
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
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Usual,
    /// The last access is missing, or of another size.
    Missing,
    Wider,
    /// It is left by a fault, or a signal comes behind it: execution goes on in any block.
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
        2 => Just(End::Behind),
        2 => (0..BLOCKS).prop_map(End::Direct),
        4 => (0..BLOCKS).prop_map(End::Conditional),
        2 => Just(End::Return),
        1 => Just(End::Call),
    ];
    // Blocks with few accesses, each of one piece, are told apart from others.
    let word = prop_oneof![30 => 0..3_usize, 8 => 3..5_usize, 1 => 5..BODY.len()];
    (prop::collection::vec(word, LENGTH - 1), end)
}

fn turn() -> impl Strategy<Value = Turn> {
    let what = prop_oneof![
        40 => Just(What::Usual),
        1 => Just(What::Missing),
        1 => Just(What::Wider),
        1 => Just(What::Left),
        1 => Just(What::Signal),
        3 => Just(What::Chunk),
    ];
    let address = prop_oneof![6 => (0..64_u64).prop_map(|at| 0x7000 + 8 * at), 1 => Just(0xff8_u64), 1 => any::<u64>()];
    (any::<bool>(), 0..BLOCKS, address, what).prop_map(|(is_taken, to, address, what)| Turn {
        is_taken,
        to,
        address,
        what,
    })
}

/// The opcodes of a block.
fn opcodes(index: usize, (body, end): &Code) -> Vec<u32> {
    let at = start(index) + 4 * (LENGTH as u64 - 1);
    let words_to = |to: &usize| (start(*to).wrapping_sub(at) / 4) as u32;
    let last = match end {
        End::Behind => 0xd503_201f,
        End::Direct(to) => 0x1400_0000 | words_to(to) & 0x03ff_ffff,
        End::Conditional(to) => 0x5400_0001 | (words_to(to) & 0x7_ffff) << 5,
        End::Return => 0xd65f_03c0,
        End::Call => 0xd400_0001,
    };
    body.iter().map(|word| BODY[*word].0).chain([last]).collect()
}

fn rare(what: u64, number: u64) -> u64 {
    2 << 62 | what << 56 | number
}

/// A stream in which blocks are executed so.
fn stream(codes: &[Code], turns: &[Turn]) -> Vec<u8> {
    let mut bytes = b"unspool record 2\naarch64\n".to_vec();
    let mut blocks = Vec::new();
    for (index, code) in codes.iter().enumerate() {
        blocks.extend_from_slice(&(index as u32).to_le_bytes());
        blocks.extend_from_slice(&start(index).to_le_bytes());
        blocks.extend_from_slice(&(LENGTH as u16).to_le_bytes());
        for opcode in opcodes(index, code) {
            blocks.push(4);
            blocks.extend_from_slice(&opcode.to_le_bytes());
        }
    }
    chunk(&mut bytes, u32::MAX, &blocks);
    let (mut words, mut at) = (vec![rare(4, 0)], 0);
    for turn in turns {
        words.push(at as u64);
        let (body, end) = &codes[at];
        let mut address = turn.address;
        let before = words.len();
        for (index, word) in body.iter().enumerate() {
            for (is_write, size) in BODY[*word].1 {
                let top = address >> 48;
                if top != 0 && top != 0xffff {
                    words.push(rare(9, top));
                }
                let kind = (index as u64) << 53 | u64::from(*is_write) << 52 | size << 49 | (top & 1) << 48;
                words.push(1 << 62 | kind | address & ((1 << 48) - 1));
                address = address.wrapping_add(1 << size);
            }
        }
        if words.len() > before {
            match turn.what {
                What::Missing => {
                    words.pop();
                    words.pop_if(|word| *word >> 56 == 0x89);
                }
                What::Wider => *words.last_mut().unwrap() ^= 1 << 49,
                _ => {}
            }
        }
        let mut next = match end {
            End::Direct(to) => *to,
            End::Conditional(to) if turn.is_taken => *to,
            End::Return => turn.to,
            End::Behind | End::Conditional(_) => (at + 1) % BLOCKS,
            End::Call => {
                words.extend([rare(2, 0), 64, 0, 0, 0, rare(3, 0), 64, 0]);
                (at + 1) % BLOCKS
            }
        };
        match turn.what {
            What::Left => {
                words.push(rare(1, 1));
                next = turn.to;
            }
            What::Signal => next = turn.to,
            What::Chunk => {
                chunk(&mut bytes, 0, &bytes_of(&words));
                words.clear();
            }
            _ => {}
        }
        at = next;
    }
    words.push(rare(5, 0));
    chunk(&mut bytes, 0, &bytes_of(&words));
    bytes
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn chunk(bytes: &mut Vec<u8>, thread: u32, content: &[u8]) {
    bytes.extend_from_slice(&thread.to_le_bytes());
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    bytes.extend_from_slice(content);
}

/// What is told of a step: an instruction and its accesses, put together where they are side by side, or anything else.
type Told = (Option<Instruction>, Vec<(bool, u64, u64)>, String);

/// Takes all that is told.
#[derive(Default)]
struct Heard {
    told: Vec<Told>,
    /// Runs are taken, so many passes of each; all: `None`.
    most: Option<usize>,
    takes_runs: bool,
    /// Passes that came in runs.
    passes: usize,
    instructions: u64,
}

impl Heard {
    fn pass(&mut self, stretch: &Stretch, pass: Pass, addresses: &mut &[u64]) {
        let mut take = || {
            let (first, rest) = addresses.split_first().unwrap();
            *addresses = rest;
            *first
        };
        let mut accesses =
            stretch.accesses.iter().map(|access| (access, take())).collect::<Vec<_>>().into_iter().peekable();
        let end = &stretch.end;
        let target = if end.flow.is_indirect() { Some(take()) } else { end.target_address() };
        for (index, instruction) in stretch.instructions.iter().enumerate() {
            let mut instruction = *instruction;
            if index + 1 == stretch.instructions.len() && end.flow.is_branch() {
                let target = target.filter(|_| pass.is_taken());
                instruction.branch = Some(Branch { taken: pass.is_taken(), target });
            }
            let mut of_it = Vec::new();
            while let Some((access, address)) = accesses.next_if(|(access, _)| usize::from(access.index) == index) {
                of_it.push((access.direction == Direction::Write, address, access.size.into()));
            }
            self.told.push((Some(instruction), of_it, String::new()));
        }
        self.passes += 1;
        self.instructions += stretch.instructions.len() as u64;
    }
}

impl Listener for Heard {
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
            assert_eq!(step.place, self.instructions);
            self.instructions += 1;
        }
        let other = if matches!(step.event, Event::Instruction(_)) { String::new() } else { format!("{step:?}") };
        self.told.push((instruction, accesses, other));
        ControlFlow::Continue(())
    }

    fn takes_runs(&self) -> bool {
        self.takes_runs
    }

    fn run(&mut self, _: u32, run: &Run<'_>) -> ControlFlow<(), Option<Refused>> {
        let mut rest = run.addresses;
        assert_eq!(run.instructions, run.instructions_of(run.passes.len()));
        let most = self.most.unwrap_or(usize::MAX);
        for pass in run.passes.iter().take(most) {
            self.pass(&run.stretches[pass.number()], *pass, &mut rest);
        }
        if run.passes.len() <= most {
            assert!(rest.is_empty());
            return ControlFlow::Continue(None);
        }
        let addresses = run.addresses.len() - rest.len();
        ControlFlow::Continue(Some(Refused { passes: most, addresses, is_final: most == 2 }))
    }
}

fn heard(bytes: &[u8], takes_runs: bool, most: Option<usize>) -> Heard {
    let mut heard = Heard { takes_runs, most, ..Heard::default() };
    Stream::new(bytes, Machine::Aarch64).tell(&mut heard).unwrap();
    heard
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_say_what_steps_say(
        codes in prop::collection::vec(code(), BLOCKS),
        turns in prop::collection::vec(turn(), 1..80),
        most in prop::option::of(0..4_usize),
    ) {
        let bytes = stream(&codes, &turns);
        let (steps, runs) = (heard(&bytes, false, None), heard(&bytes, true, most));
        prop_assert_eq!(steps.passes, 0);
        for (at, (run, step)) in runs.told.iter().zip(&steps.told).enumerate() {
            prop_assert_eq!(run, step, "step {}", at);
        }
        prop_assert_eq!(runs.told.len(), steps.told.len());
    }
}

#[test]
fn a_loop_comes_in_runs() {
    let codes: Vec<Code> = (0..BLOCKS).map(|at| (vec![1, 3, 0, 0, 0, 0], End::Conditional(at / 2))).collect();
    let turn = |at: u64| Turn { is_taken: !at.is_multiple_of(3), to: 0, address: 0x7000 + 16 * at, what: What::Usual };
    let turns: Vec<Turn> = (0..500).map(turn).collect();
    let heard = heard(&stream(&codes, &turns), true, None);
    assert_eq!(heard.instructions, 3500);
    // A block is told step by step once, and so is one whose pieces are in two pages.
    assert!(heard.passes > 470, "{}", heard.passes);
}

#[test]
fn a_chunk_may_have_many_words() {
    let codes: Vec<Code> = (0..BLOCKS).map(|at| (vec![1, 2, 1, 0, 0, 0], End::Direct((at + 1) % BLOCKS))).collect();
    let turn = |at: u64| Turn { is_taken: true, to: 0, address: 0x7000 + 8 * at, what: What::Usual };
    let turns: Vec<Turn> = (0..30_000).map(turn).collect();
    let bytes = stream(&codes, &turns);
    let (steps, runs) = (heard(&bytes, false, None), heard(&bytes, true, None));
    assert!(runs.told == steps.told);
    // Those are told in runs that were executed before, but for the last one and where a run has as much as it can have.
    assert!(runs.passes > 30_000 - 20, "{}", runs.passes);
}

#[test]
fn accesses_of_no_block_are_damage() {
    let codes: Vec<Code> = (0..BLOCKS).map(|at| (vec![1, 0, 0, 0, 0, 0], End::Conditional(at))).collect();
    let turns = [Turn { is_taken: true, to: 0, address: 0x7000, what: What::Usual }; 4];
    let mut bytes = stream(&codes, &turns);
    // The thread has ended.
    chunk(&mut bytes, 0, &bytes_of(&[1 << 62 | 3 << 49 | 0x7000, 0, 1 << 62 | 3 << 49 | 0x7008, rare(5, 0)]));
    for takes_runs in [false, true] {
        let mut heard = Heard { takes_runs, ..Heard::default() };
        let ended = Stream::new(&bytes[..], Machine::Aarch64).tell(&mut heard);
        assert!(ended.is_err_and(|error| error.is_damage && error.text.contains("no block")));
        assert_eq!(heard.told.iter().filter(|told| told.0.is_some()).count(), 4 * LENGTH);
    }
}
