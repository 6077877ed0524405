//! Search for instructions, exceptions, accesses and notes.
//!
//! blocks, steps of one source ─▶ **finder** ─▶ the steps that match a query
//!
//! All conditions of a query must hold; of several values of one condition, one suffices. Code that cannot match is
//! recognized once per block, so that its executions cost next to nothing. The caller supplies the mnemonics.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};

use unspool_model::{Block, BlockTrace, Context, Direction, Event, ExceptionKind, Isa, RegisterWrite, Step};

use crate::loops::LoopDetector;
use crate::step_selection::StepSelection;

/// Conditions of a search. An empty condition holds always.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Where and when they are executed.
    pub within: StepSelection,
    /// Opcodes of instructions.
    pub opcodes: Vec<OpcodePattern>,
    /// Mnemonics of instructions, in lower case.
    pub mnemonics: Vec<String>,
    /// Registers that are written.
    pub registers: Vec<RegisterPattern>,
    /// Memory that is accessed.
    pub memory: Vec<Range<u64>>,
    /// The direction of accesses; one that reads and writes has both.
    pub direction: Option<Direction>,
    /// Exceptions; `Some` of an empty list: any exception.
    pub exceptions: Option<Vec<ExceptionKind>>,
    /// Parts of notes.
    pub notes: Vec<String>,
}

/// Opcodes that have these bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpcodePattern {
    /// Values of the bits in the mask.
    pub value: u32,
    /// The bits that are compared.
    pub mask: u32,
}

/// A register, perhaps with the value that it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterPattern {
    /// Its name in lower case.
    pub name: String,
    /// The value that is written; `None`: any.
    pub value: Option<u64>,
}

impl Query {
    /// Whether it is about accesses.
    pub fn wants_accesses(&self) -> bool {
        !self.memory.is_empty() || self.direction.is_some()
    }

    /// Whether only instructions can match.
    pub fn is_of_instructions(&self) -> bool {
        self.has_instructions() && (self.is_of_code() || !self.is_of_effects())
    }

    fn has_instructions(&self) -> bool {
        self.exceptions.is_none() && self.notes.is_empty()
    }

    /// Whether it is about instructions, whatever else they have to do.
    fn is_of_code(&self) -> bool {
        !(self.within.addresses.is_empty() && self.opcodes.is_empty() && self.mnemonics.is_empty())
    }

    /// Whether only steps other than instructions, or more of them than their code, can match.
    fn is_of_effects(&self) -> bool {
        !self.registers.is_empty() || self.wants_accesses()
    }

    /// The kind of step that is meant. If no condition shows it, instructions are.
    fn is_kind(&self, event: &Event) -> bool {
        match event {
            Event::Instruction(_) => self.has_instructions(),
            Event::Exception(found) => {
                self.exceptions.as_ref().is_some_and(|kinds| kinds.is_empty() || kinds.contains(&found.kind))
            }
            Event::Note => !self.notes.is_empty(),
            // Contents that no instruction caused may be searched for too.
            Event::State => self.is_of_effects() && !self.is_of_code(),
            Event::ExceptionReturn { .. } | Event::Context(_) | Event::Gap(_) => false,
        }
    }
}

impl RegisterPattern {
    fn matches(&self, write: &RegisterWrite<'_>) -> bool {
        let is_known = |value: u64| {
            let bytes = value.to_le_bytes();
            let low = write.bytes.iter().zip(bytes.iter().chain(std::iter::repeat(&0)));
            let fits = bytes.iter().skip(write.bytes.len()).all(|byte| *byte == 0);
            write.low == 0 && fits && low.into_iter().all(|((byte, mask), wanted)| *mask == 0xff && byte == wanted)
        };
        write.name == self.name && self.value.is_none_or(is_known)
    }
}

/// Function that returns the mnemonic of an opcode.
type Namer<'n> = Box<dyn FnMut(Isa, u32) -> String + 'n>;

/// Maximum number of opcodes whose mnemonics are kept.
const MAX_OPCODES: usize = 1 << 18;

/// Finds the steps that match a query.
pub struct Finder<'n> {
    query: Query,
    name: Namer<'n>,
    /// Whether the mnemonic of an opcode matches.
    opcodes: HashMap<(Isa, u32), bool>,
    contexts: HashMap<u32, Context>,
    /// Cores whose last instruction is at one of the addresses, if other steps than instructions can match.
    at_address: HashSet<u32>,
    /// Whether the code of a block can match, by number.
    blocks: Vec<bool>,
    loops: Option<LoopDetector>,
}

impl<'n> Finder<'n> {
    /// Starts a search. `name` returns the mnemonic of an opcode.
    pub fn new(query: Query, name: impl FnMut(Isa, u32) -> String + 'n) -> Self {
        let (opcodes, contexts, at_address) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { query, name: Box::new(name), opcodes, contexts, at_address, blocks: Vec::new(), loops: None }
    }

    /// Finds only steps that close a loop without progress.
    #[must_use]
    pub fn closing_loops(self, loops: LoopDetector) -> Self {
        Self { loops: Some(loops), ..self }
    }

    /// Whether it needs the accesses of blocks.
    pub fn wants_accesses(&self) -> bool {
        self.query.wants_accesses()
    }

    /// Whether a step matches. All steps have to be passed in order, except those of blocks. A step that is no instruction is
    /// at the address of the one before it.
    pub fn step(&mut self, step: &Step) -> bool {
        match &step.event {
            Event::Context(context) => {
                let before = self.contexts.get(&step.core).copied().unwrap_or_default();
                self.contexts.insert(step.core, context.over(&before));
            }
            Event::Gap(_) => {
                self.contexts.remove(&step.core);
                self.at_address.remove(&step.core);
            }
            Event::Instruction(found) => self.arrive(step.core, found.address),
            _ => {}
        }
        let is_kind = match &mut self.loops {
            Some(loops) => loops.step(step),
            None => self.query.is_kind(&step.event),
        };
        is_kind
            && self.is_in_context(step.core, step.time)
            && self.is_at_address(step)
            && step.event.instruction().is_none_or(|found| match found.opcode {
                Some(opcode) => self.is_opcode(found.isa, opcode),
                None => !self.needs_opcode(),
            })
            && self.has_effects(step)
    }

    /// A core executes the instruction at an address.
    fn arrive(&mut self, core: u32, address: u64) {
        if self.query.is_of_instructions() && self.loops.is_none() {
            return;
        }
        match self.query.within.has_address(address) {
            true => self.at_address.insert(core),
            false => self.at_address.remove(&core),
        };
    }

    fn is_at_address(&self, step: &Step) -> bool {
        let within = &self.query.within;
        match step.event.instruction() {
            Some(found) => within.has_address(found.address),
            None => within.addresses.is_empty() || self.at_address.contains(&step.core),
        }
    }

    /// Passes on the steps of blocks that match.
    pub fn blocks(
        &mut self,
        trace: &BlockTrace<'_>,
        take: &mut impl FnMut(&Step) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.loops.is_some() {
            return trace.each_step(|step| if self.step(step) { take(step) } else { ControlFlow::Continue(()) });
        }
        let last = trace.executions.last().and_then(|last| trace.blocks.get(last.number())?.instructions().last());
        last.into_iter().for_each(|(address, ..)| self.arrive(trace.core, address));
        if !self.query.has_instructions()
            || !self.query.registers.is_empty()
            || !self.is_in_context(trace.core, trace.time)
        {
            return ControlFlow::Continue(());
        }
        for block in trace.blocks.get(self.blocks.len()..).unwrap_or_default() {
            let may_match = self.block_may_match(block);
            self.blocks.push(may_match);
        }
        if self.query.wants_accesses() {
            return trace.each_step(|step| if self.step(step) { take(step) } else { ControlFlow::Continue(()) });
        }
        trace.each_execution(|index, position| {
            if !self.blocks[trace.executions[index].number()] {
                return ControlFlow::Continue(());
            }
            trace.steps(index, position).filter(|step| self.step(step)).try_for_each(|step| take(&step))
        })
    }

    fn block_may_match(&mut self, block: &Block) -> bool {
        let isa = block.isa;
        block
            .instructions()
            .any(|(address, opcode, _)| self.query.within.has_address(address) && self.is_opcode(isa, opcode))
    }

    fn is_in_context(&self, core: u32, time: Option<u64>) -> bool {
        let context = self.contexts.get(&core).copied().unwrap_or_default();
        self.query.within.has_context(&context) && self.query.within.has_time(time)
    }

    fn needs_opcode(&self) -> bool {
        !self.query.opcodes.is_empty() || !self.query.mnemonics.is_empty()
    }

    fn is_opcode(&mut self, isa: Isa, opcode: u32) -> bool {
        let Query { opcodes, mnemonics, .. } = &self.query;
        let fits = |pattern: &OpcodePattern| opcode & pattern.mask == pattern.value & pattern.mask;
        if !opcodes.is_empty() && !opcodes.iter().any(fits) {
            return false;
        }
        if mnemonics.is_empty() {
            return true;
        }
        if self.opcodes.len() >= MAX_OPCODES {
            self.opcodes.clear();
        }
        let name = &mut self.name;
        *self.opcodes.entry((isa, opcode)).or_insert_with(|| mnemonics.contains(&name(isa, opcode).to_lowercase()))
    }

    fn has_effects(&self, step: &Step) -> bool {
        let Query { registers, memory, direction, notes, .. } = &self.query;
        let is_written = |pattern: &RegisterPattern| step.registers().any(|write| pattern.matches(&write));
        let is_accessed = || {
            step.accesses().any(|access| {
                let end = access.address.saturating_add(access.size.max(1));
                let is_there = memory.is_empty() || memory.iter().any(|at| access.address < at.end && at.start < end);
                is_there
                    && direction.is_none_or(|wanted| access.direction == wanted || access.direction == Direction::Both)
            })
        };
        (registers.is_empty() || registers.iter().any(is_written))
            && (!self.query.wants_accesses() || is_accessed())
            && (notes.is_empty() || notes.iter().any(|note| step.note().contains(note.as_str())))
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a condition with one range")]
mod tests {
    use unspool_model::{BlockExecution, Exception, Instruction, Positions};

    use super::*;

    fn timed(time: u64) -> Step {
        let mut step = Step::default();
        step.time = Some(time);
        step
    }

    fn instruction(address: u64, opcode: u32) -> Step {
        let mut step = timed(address);
        step.event =
            Event::Instruction(Instruction { address, opcode: Some(opcode), length: 4, ..Instruction::default() });
        step
    }

    /// Steps with an instruction at 0x10, 0x20, 0x30, 0x40 and an exception between the last two.
    fn steps() -> Vec<Step> {
        let mut all = [(0x10, 0xd503_201f), (0x20, 0xf940_0000), (0x30, 0xb900_0000), (0x40, 0xd503_201f)]
            .map(|(address, opcode)| instruction(address, opcode));
        all[1].access(Direction::Read, 0x1000, 8);
        all[1].write_register("x0", 0, &[5, 0, 0, 0, 0, 0, 0, 0]);
        all[2].access(Direction::Write, 0x1008, 4);
        let mut exception = timed(0x38);
        exception.event = Event::Exception(Exception { kind: ExceptionKind::Irq, ..Exception::default() });
        let mut note = timed(0x39);
        note.set_note("hello there");
        let mut context = Step::default();
        context.event = Event::Context(Context { level: Some(1), process: Some(7), ..Context::default() });
        let [a, b, c, d] = all;
        vec![a, b, context, c, exception, note, d]
    }

    #[test]
    fn conditions_select_steps() {
        let all = Query::default;
        let within = |within: StepSelection| Query { within, ..Query::default() };
        let place = StepSelection::default;
        let at = |range| StepSelection { addresses: vec![range], ..place() };
        let register = |name: &str, value| vec![RegisterPattern { name: name.into(), value }];
        let rows: &[(&str, Query, &[u64])] = &[
            ("nothing", all(), &[0x10, 0x20, 0x30, 0x40]),
            ("an address", within(StepSelection { addresses: vec![0x10..0x14, 0x40..0x44], ..place() }), &[0x10, 0x40]),
            (
                "a mask",
                Query { opcodes: vec![OpcodePattern { value: 0xb900_0000, mask: 0xff00_0000 }], ..all() },
                &[0x30],
            ),
            ("a mnemonic", Query { mnemonics: vec!["nop".into()], ..all() }, &[0x10, 0x40]),
            ("a register", Query { registers: register("x0", None), ..all() }, &[0x20]),
            ("a value", Query { registers: register("x0", Some(5)), ..all() }, &[0x20]),
            ("another value", Query { registers: register("x0", Some(0x105)), ..all() }, &[]),
            ("memory", Query { memory: vec![0x1007..0x1009], ..all() }, &[0x20, 0x30]),
            ("a write", Query { direction: Some(Direction::Write), ..all() }, &[0x30]),
            (
                "a read of memory",
                Query { memory: vec![0x1008..0x1009], direction: Some(Direction::Read), ..all() },
                &[],
            ),
            ("exceptions", Query { exceptions: Some(vec![]), ..all() }, &[0x38]),
            ("one kind", Query { exceptions: Some(vec![ExceptionKind::Fiq]), ..all() }, &[]),
            (
                "exceptions after an instruction at an address",
                Query { exceptions: Some(vec![]), ..within(at(0x30..0x34)) },
                &[0x38],
            ),
            ("exceptions after one at another", Query { exceptions: Some(vec![]), ..within(at(0x40..0x44)) }, &[]),
            ("a note", Query { notes: vec!["there".into()], ..all() }, &[0x39]),
            ("a level", within(StepSelection { levels: vec![1], ..place() }), &[0x30, 0x40]),
            ("a process", within(StepSelection { processes: vec![8], ..place() }), &[]),
            ("a time", within(StepSelection { times: Some(0x20..0x31), ..place() }), &[0x20, 0x30]),
            (
                "two conditions",
                Query { mnemonics: vec!["nop".into()], ..within(StepSelection { levels: vec![1], ..place() }) },
                &[0x40],
            ),
        ];
        for (name, query, expected) in rows {
            let mut finder =
                Finder::new(query.clone(), |_, opcode| if opcode == 0xd503_201f { "NOP" } else { "?" }.into());
            let found: Vec<u64> =
                steps().iter().filter(|step| finder.step(step)).filter_map(|step| step.time).collect();
            assert_eq!(found, *expected, "{name}");
        }
    }

    #[test]
    fn blocks_are_searched_too() {
        let blocks = [Block::new(0x10, Isa::A64, vec![1, 2], true), Block::new(0x100, Isa::A64, vec![2], true)];
        let executions = [0, 1, 0].map(|number| BlockExecution::new(number, true));
        let trace = BlockTrace {
            core: 0,
            blocks: &blocks,
            executions: &executions,
            next: None,
            positions: Positions::Each(&[5, 6, 7]),
            time: None,
            accesses: None,
        };
        let query = Query {
            opcodes: vec![OpcodePattern { value: 2, mask: u32::MAX }],
            within: StepSelection { addresses: vec![0..0x20], ..StepSelection::default() },
            ..Query::default()
        };
        let mut found = Vec::new();
        let _ = Finder::new(query, |_, _| String::new()).blocks(&trace, &mut |step| {
            found.push((step.position, step.event.instruction().map(|found| found.address)));
            ControlFlow::Continue(())
        });
        assert_eq!(found, [(5, Some(0x14)), (7, Some(0x14))]);
    }
}
