//! Executions of templates: taken at once or as steps, the records are the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at what it does not expect")]

use proptest::prelude::*;
use unspool_astf::Bytes;
use unspool_astf::check::Checker;
use unspool_astf::lower::{LowerOptions, Lowerer, header};
use unspool_astf::record::Level;
use unspool_isa::Decoded;
use unspool_model::{
    BlockExecution, Branch, Context, Coverage, Direction, Event, Facet, Instruction, Isa, Security, SinkError, Step,
    StepSink, Template, TemplateAccess, TemplateTrace, TimeUnit,
};

const BASE: u64 = 0x40_0000;
/// Instructions before the last of each template; the next one follows directly.
const BEFORE: usize = 5;

/// ADD, NOP, LDR, STR, LDP, STP, LDR of a vector, LDRB, LDADD, STXR, PRFM, LD1 of four vectors, MSR DIT.
const BODY: [(u32, &[(bool, u16)]); 13] = [
    (0x9100_0400, &[]),
    (0xd503_201f, &[]),
    (0xf940_0020, &[(false, 8)]),
    (0xf900_0020, &[(true, 8)]),
    (0xa941_53f3, &[(false, 8), (false, 8)]),
    (0xa900_a3e0, &[(true, 8), (true, 8)]),
    (0x3dc0_0020, &[(false, 8), (false, 8)]),
    (0x3940_0020, &[(false, 1)]),
    (0xf820_0041, &[(false, 8), (true, 8)]),
    (0xc800_7c41, &[(true, 8)]),
    (0xf980_0020, &[]),
    (0x4c40_2020, &[(false, 8), (false, 8), (false, 8), (false, 8), (false, 8), (false, 8), (false, 8), (false, 8)]),
    (0xd503_415f, &[]),
];

/// How a template ends: B, B.NE, CBZ, RET, BLR, nothing, SVC.
#[derive(Debug, Clone, Copy)]
enum End {
    Direct(usize),
    Conditional(usize),
    Return,
    Call,
    Nothing,
    Supervisor,
}

#[derive(Debug, Clone)]
struct Code {
    body: Vec<usize>,
    end: End,
}

/// One execution of the current template.
#[derive(Debug, Clone, Copy)]
struct Turn {
    taken: bool,
    to: usize,
    address: u64,
    /// 0: accesses are regular; 1: the last one is missing; 2: they are not adjacent.
    odd: u8,
}

fn any_code() -> impl Strategy<Value = Code> {
    let end = prop_oneof![
        4 => (0..6_usize).prop_map(End::Direct),
        6 => (0..6_usize).prop_map(End::Conditional),
        2 => Just(End::Return),
        2 => Just(End::Call),
        2 => Just(End::Nothing),
        1 => Just(End::Supervisor),
    ];
    // Irregular ones are rare, or no template would be used.
    let word = prop_oneof![40 => 0..8_usize, 1 => 8..BODY.len()];
    (prop::collection::vec(word, 0..=BEFORE), end).prop_map(|(body, end)| Code::new(body, end))
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let address = prop_oneof![
        8 => (0_u64..0x1000).prop_map(|at| 0x7f00_0000_0000 + 8 * at),
        2 => Just(0x7f00_0000_0ff8_u64),
        1 => Just(0x0a00_7f00_0000_0100),
        1 => Just(0xffff_ffff_ffff_ff00),
    ];
    let odd = prop_oneof![60 => Just(0_u8), 1 => 1..3_u8];
    (any::<bool>(), 0..6_usize, address, odd).prop_map(|(taken, to, address, odd)| Turn { taken, to, address, odd })
}

fn instruction(address: u64, opcode: u32) -> Instruction {
    Instruction { address, opcode: Some(opcode), length: 4, isa: Isa::A64, ..Instruction::default() }
}

fn start(index: usize) -> u64 {
    BASE + 4 * (BEFORE as u64 + 1) * index as u64
}

impl Code {
    /// Padded with NOPs.
    fn new(mut body: Vec<usize>, end: End) -> Self {
        body.resize(BEFORE, 1);
        Self { body, end }
    }

    fn instructions(&self, index: usize) -> Vec<Instruction> {
        let words = self.body.iter().map(|at| BODY[*at].0);
        let at = start(index) + 4 * self.body.len() as u64;
        let words_to = |to: usize| (start(to).wrapping_sub(at) / 4) as u32;
        let end = match self.end {
            End::Direct(to) => Some(0x1400_0000 | words_to(to) & 0x03ff_ffff),
            End::Conditional(to) => Some(0x5400_0001 | (words_to(to) & 0x7_ffff) << 5),
            End::Return => Some(0xd65f_03c0),
            End::Call => Some(0xd63f_0040),
            End::Nothing => Some(0xd503_201f),
            End::Supervisor => Some(0xd400_0001),
        };
        (start(index)..).step_by(4).zip(words.chain(end)).map(|(at, word)| instruction(at, word)).collect()
    }

    /// Outcome of the last instruction, and the next template; `None`: the one after it.
    fn branch(&self, turn: Turn) -> (Option<Branch>, Option<usize>) {
        let taken = |to: usize| (Some(Branch { taken: true, target: Some(start(to)) }), Some(to));
        match self.end {
            End::Direct(to) => taken(to),
            End::Conditional(to) if turn.taken => taken(to),
            End::Conditional(_) => (Some(Branch { taken: false, target: None }), None),
            End::Return | End::Call => taken(turn.to),
            End::Nothing | End::Supervisor => (None, None),
        }
    }

    /// Accesses by instruction index: direction, bytes and address.
    fn accesses(&self, turn: Turn) -> Vec<Touch> {
        let mut accesses = Vec::new();
        for (index, at) in (0_u16..).zip(&self.body) {
            let mut address = turn.address + 32 * u64::from(index);
            for (is_write, size) in BODY[*at].1 {
                let direction = if *is_write { Direction::Write } else { Direction::Read };
                accesses.push((TemplateAccess { index, size: *size, direction }, address));
                // A modification has one address.
                address = if BODY[*at].0 == 0xf820_0041 { address } else { address.wrapping_add((*size).into()) };
            }
        }
        match (turn.odd, accesses.len()) {
            (1, _) => drop(accesses.pop()),
            (2, 1..) => accesses.iter_mut().last().unwrap().1 ^= 0x100,
            _ => {}
        }
        accesses
    }

    /// The same, with adjacent parts merged; `None`: they cross a page.
    fn whole_accesses(&self, turn: Turn) -> Option<Vec<Touch>> {
        let mut whole: Vec<Touch> = Vec::new();
        for (part, address) in self.accesses(turn) {
            match whole.last_mut() {
                Some((before, at))
                    if (before.index, before.direction) == (part.index, part.direction)
                        && at.wrapping_add(before.size.into()) == address =>
                {
                    before.size += part.size;
                    if *at / 4096 != at.wrapping_add(u64::from(before.size) - 1) / 4096 {
                        return None;
                    }
                }
                _ => whole.push((part, address)),
            }
        }
        Some(whole)
    }

    fn template(&self, index: usize) -> Template {
        let turn = Turn { taken: false, to: 0, address: 0x1000, odd: 0 };
        let accesses = self.whole_accesses(turn).unwrap().into_iter().map(|(access, _)| access).collect();
        let end = match self.end {
            End::Direct(to) => Decoded::direct(Isa::A64, start(to)),
            End::Conditional(to) => Decoded::direct(Isa::A64, start(to)).conditionally(),
            End::Return | End::Call => Decoded::INDIRECT,
            End::Nothing | End::Supervisor => Decoded::FALL_THROUGH,
        };
        Template { instructions: self.instructions(index), accesses, end }
    }

    /// The addresses of a pass, if it can be one.
    fn pass(&self, turn: Turn) -> Option<Vec<u64>> {
        let is_odd = turn.odd != 0 && !self.accesses(Turn { odd: 0, ..turn }).is_empty();
        let touches = self.whole_accesses(turn).filter(|_| !is_odd)?;
        let target = matches!(self.end, End::Return | End::Call).then(|| start(turn.to));
        Some(touches.into_iter().map(|(_, address)| address).chain(target).collect())
    }
}

type Touch = (TemplateAccess, u64);
type Trace = (Vec<Bytes>, String, usize);

/// A trace in the making, and turns that wait to be pushed as templates.
struct Lowering<'c> {
    codes: &'c [Code],
    templates: Vec<Template>,
    lowerer: Lowerer<Vec<Bytes>>,
    position: u64,
    /// Which code, in which turn.
    turns: Vec<(usize, Turn)>,
    /// Executions that were taken at once.
    taken: usize,
}

impl<'c> Lowering<'c> {
    fn new(codes: &'c [Code]) -> Self {
        let facets =
            [Facet::Instructions, Facet::Opcodes, Facet::Branches, Facet::Accesses, Facet::Levels, Facet::Security];
        let (coverage, unit) = (Coverage::of(&facets), TimeUnit::Unknown);
        let options = LowerOptions { level: Some(Level::Basic), ..LowerOptions::default() };
        let header = header(coverage, unit, &options).unwrap();
        let mut lowerer = Lowerer::new(vec![header.to_bytes()], &header, coverage, unit, &options).unwrap();
        let mut step = Step::default();
        step.event = Event::Context(Context {
            level: Some(0),
            security: Some(Security::NonSecure),
            is_aarch64: Some(true),
            is_handler: Some(false),
            ..Context::default()
        });
        lowerer.push(&step).unwrap();
        let templates = codes.iter().enumerate().map(|(index, code)| code.template(index)).collect();
        Self { codes, templates, lowerer, position: 0, turns: Vec::new(), taken: 0 }
    }

    fn steps(&mut self, at: usize, turn: Turn) -> Result<(), SinkError> {
        let code = &self.codes[at];
        let (instructions, accesses) = (code.instructions(at), code.accesses(turn));
        for (index, instruction) in instructions.iter().enumerate() {
            let mut step = Step::default();
            step.position = self.position;
            self.position += 1;
            let branch = if index + 1 == instructions.len() { code.branch(turn).0 } else { None };
            step.event = Event::Instruction(Instruction { branch, ..*instruction });
            for (access, address) in accesses.iter().filter(|(access, _)| usize::from(access.index) == index) {
                step.access(access.direction, *address, access.size.into());
            }
            self.lowerer.push(&step)?;
        }
        Ok(())
    }

    /// Hands over the turns that wait as templates, and as steps where the lowerer stops.
    fn flush(&mut self) -> Result<(), SinkError> {
        let turns = std::mem::take(&mut self.turns);
        let (mut executions, mut addresses, mut ends) = (Vec::new(), Vec::new(), vec![0]);
        for (at, turn) in &turns {
            let is_taken = self.codes[*at].branch(*turn).0.is_some_and(|branch| branch.taken);
            executions.push(BlockExecution::new(*at as u32, is_taken));
            addresses.extend(self.codes[*at].pass(*turn).unwrap());
            ends.push(addresses.len());
        }
        let mut done = 0;
        while done < executions.len() {
            let rest = &turns[done..];
            let instructions = rest.iter().map(|(at, _)| self.codes[*at].instructions(*at).len() as u64).sum();
            let trace = TemplateTrace {
                core: 0,
                templates: &self.templates,
                executions: &executions[done..],
                addresses: &addresses[ends[done]..],
                instructions,
            };
            let stopped = self.lowerer.push_templates(&trace)?;
            let taken = stopped.map_or(executions.len() - done, |stopped| stopped.executions);
            for (at, _) in &turns[done..done + taken] {
                self.position += self.codes[*at].instructions(*at).len() as u64;
            }
            self.taken += taken;
            let before = ends[done];
            done += taken;
            if let Some(stopped) = stopped {
                assert_eq!(before + stopped.addresses, ends[done]);
                let (at, turn) = turns[done];
                self.steps(at, turn)?;
                done += 1;
            }
        }
        Ok(())
    }

    fn turns(&mut self, turns: &[Turn], at_once: bool) -> Result<(), SinkError> {
        let mut at = 0;
        for turn in turns {
            let code = &self.codes[at];
            if at_once && code.pass(*turn).is_some() {
                self.turns.push((at, *turn));
                if self.turns.len() > 7 {
                    self.flush()?;
                }
            } else {
                self.flush()?;
                self.steps(at, *turn)?;
            }
            at = code.branch(*turn).1.unwrap_or(at + 1);
            if at == self.codes.len() {
                self.flush()?;
                at = 0;
            }
        }
        self.flush()
    }
}

fn lower(codes: &[Code], turns: &[Turn], at_once: bool) -> Trace {
    let mut lowering = Lowering::new(codes);
    let ended = lowering.turns(turns, at_once);
    let Lowering { mut lowerer, taken, .. } = lowering;
    let ended = ended.and_then(|()| lowerer.finish());
    let end = ended.err().map(|error| error.to_string()).unwrap_or_default();
    let end = end + &lowerer.losses().to_string();
    (lowerer.into_sink(), end, taken)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_template_gives_the_records_of_its_steps(
        codes in prop::collection::vec(any_code(), 6),
        turns in prop::collection::vec(any_turn(), 1..60),
    ) {
        let (expected, expected_end, _) = lower(&codes, &turns, false);
        let (found, end, _) = lower(&codes, &turns, true);
        prop_assert_eq!(&end, &expected_end);
        prop_assert_eq!(found.len(), expected.len());
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            prop_assert_eq!(found, expected, "record {}", at);
        }
        let mut checker = Checker::new();
        let mut findings = Vec::new();
        found.iter().for_each(|record| checker.push(record, &mut |finding| findings.push(finding)));
        prop_assert!(findings.is_empty(), "{:?}", findings);
    }
}

#[test]
fn a_loop_is_pushed_as_templates() {
    let codes = [Code::new(vec![2, 0, 5], End::Conditional(0)), Code::new(vec![0], End::Direct(0))];
    let turn = |taken, address| Turn { taken, to: 0, address, odd: 0 };
    let turns: Vec<Turn> = (0..100).map(|at| turn(at % 10 != 0, 0x7000 + 16 * at)).collect();
    let (_, end, taken) = lower(&codes, &turns, true);
    assert_eq!(end, "");
    // The first execution has to come as steps.
    assert!(taken >= 98, "{taken}");
}
