//! Executions of each instruction, by process and address, with the outcomes of branches and conditions.
//!
//! blocks and steps of one source ─▶ [`AddressCounter`] ─▶ [`AddressCounts`]
//!
//! Coverage and annotated listings are made of these numbers. Knows neither programs nor source lines. Memory use depends on
//! the amount of code, and is limited: beyond the limit, further addresses are left out and the counts are lower bounds. So
//! are they where part of the execution is missing.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::ops::ControlFlow;

use unspool_model::{Block, BlockSink, BlockTrace, Event, Gap, Instruction, Isa, Step};

use crate::block_counts::{BlockCounts, Executions};
use crate::number_hash::Fibonacci;
use crate::pass::{Pass, Seam};

/// Maximum number of instructions at different addresses or of different processes.
const ADDRESS_LIMIT: usize = 8 << 20;

/// Executions of one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddressCount {
    /// Its instruction set.
    pub isa: Isa,
    /// Its opcode, if known; the last one if it changed.
    pub opcode: Option<u32>,
    /// Length in bytes.
    pub length: u8,
    /// Executions, with those whose condition failed.
    pub executed: u64,
    /// Executions of a branch that was taken.
    pub taken: u64,
    /// Executions of a branch that was not taken.
    pub not_taken: u64,
    /// Executions whose condition held, as far as the trace shows it.
    pub passed: u64,
    /// Executions whose condition failed, as far as the trace shows it.
    pub failed: u64,
}

impl AddressCount {
    /// Adds executions of the same instruction.
    pub fn append(&mut self, other: &Self) {
        (self.isa, self.length) = (other.isa, other.length);
        self.opcode = other.opcode.or(self.opcode);
        self.executed += other.executed;
        self.taken += other.taken;
        self.not_taken += other.not_taken;
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Executions of all instructions of a source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressCounts {
    /// By process, which is `None` if it is not known, and by address.
    pub processes: BTreeMap<Option<u64>, BTreeMap<u64, AddressCount>>,
    /// Executed instructions.
    pub instructions: u64,
    /// How often part of the execution is missing.
    pub gaps: u64,
    /// Whether there was too much code to count all of it.
    pub is_full: bool,
}

/// Counts the executions of a source.
#[derive(Debug, Default)]
pub struct AddressCounter {
    /// Executions of blocks by the process of the current core.
    blocks: BlockCounts,
    has_blocks: bool,
    tables: HashMap<Owner, Table>,
    addresses: usize,
    cores: BTreeMap<u32, Core>,
    core: u32,
    instructions: u64,
    gaps: u64,
    is_full: bool,
}

type Table = HashMap<u64, AddressCount, BuildHasherDefault<Fibonacci>>;

/// On whose behalf an instruction was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    /// A process, or an unknown one.
    Known(Option<u64>),
    /// The one that the part before ended with, on this core.
    Inherited(u32),
}

/// State of a core.
#[derive(Debug, Clone, Copy)]
struct Core {
    owner: Owner,
    /// Whether anything was executed.
    has_started: bool,
    /// How often tracing starts before the first instruction, which is no gap unless something was executed before.
    starts: u64,
}

impl AddressCounter {
    /// The counts of all that was executed.
    pub fn finish(mut self) -> AddressCounts {
        self.settle();
        let mut processes: BTreeMap<Option<u64>, BTreeMap<u64, AddressCount>> = BTreeMap::new();
        for (owner, table) in self.tables {
            let process = if let Owner::Known(process) = owner { process } else { None };
            let counts = processes.entry(process).or_default();
            for (address, count) in table {
                counts.entry(address).or_default().append(&count);
            }
        }
        AddressCounts { processes, instructions: self.instructions, gaps: self.gaps, is_full: self.is_full }
    }

    fn state(&mut self, core: u32) -> &mut Core {
        let new = || Core { owner: Owner::Inherited(core), has_started: false, starts: 0 };
        self.cores.entry(core).or_insert_with(new)
    }

    /// Continues on a core, in the process that it executes.
    fn enter(&mut self, core: u32) {
        if self.core != core {
            self.settle();
            self.core = core;
        }
        self.state(core).has_started = true;
    }

    fn change_owner(&mut self, core: u32, owner: Owner) {
        if self.state(core).owner != owner {
            if self.core == core {
                self.settle();
            }
            self.state(core).owner = owner;
        }
    }

    /// Adds the executions of blocks to those of the process.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.has_blocks) {
            return;
        }
        let owner = self.state(self.core).owner;
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.drain(|block, executions| self.add_block(owner, block, executions));
        self.blocks = blocks;
    }

    fn add_block(&mut self, owner: Owner, block: &Block, executions: Executions) {
        let last = block.opcodes.len().saturating_sub(1);
        for (index, (address, opcode, length)) in block.instructions().enumerate() {
            let mut count = AddressCount {
                isa: block.isa,
                opcode: Some(opcode),
                length,
                executed: executions.total(),
                ..AddressCount::default()
            };
            if index == last && block.ends_in_branch {
                (count.taken, count.not_taken) = (executions.taken, executions.not_taken);
            }
            self.add(owner, address, &count);
        }
    }

    fn add(&mut self, owner: Owner, address: u64, count: &AddressCount) {
        let Self { tables, addresses, is_full, .. } = self;
        let table = tables.entry(owner).or_default();
        match table.get_mut(&address) {
            Some(known) => known.append(count),
            None if *addresses < ADDRESS_LIMIT => {
                *addresses += 1;
                table.insert(address, *count);
            }
            None => *is_full = true,
        }
    }

    fn instruction(&mut self, core: u32, instruction: &Instruction) {
        self.enter(core);
        self.instructions += 1;
        let &Instruction { address, opcode, length, isa, is_executed, branch, .. } = instruction;
        let is = |outcome: Option<bool>, wanted| u64::from(outcome == Some(wanted));
        let taken = branch.map(|branch| branch.taken);
        let count = AddressCount {
            isa,
            opcode,
            length,
            executed: 1,
            taken: is(taken, true),
            not_taken: is(taken, false),
            passed: is(is_executed, true),
            failed: is(is_executed, false),
        };
        let owner = self.state(core).owner;
        self.add(owner, address, &count);
    }

    fn gap(&mut self, core: u32, gap: Gap) {
        let state = self.state(core);
        let is_start = !state.has_started && gap == Gap::Start;
        state.starts += u64::from(is_start);
        self.gaps += u64::from(!is_start);
        // The process after a gap is unknown.
        self.change_owner(core, Owner::Known(None));
    }
}

impl BlockSink for AddressCounter {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        match &step.event {
            Event::Instruction(instruction) => self.instruction(step.core, instruction),
            Event::Gap(gap) => self.gap(step.core, *gap),
            Event::Context(context) if context.process.is_some() => {
                self.change_owner(step.core, Owner::Known(context.process));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        if trace.executions.is_empty() {
            return ControlFlow::Continue(());
        }
        self.enter(trace.core);
        self.has_blocks = true;
        self.instructions += self.blocks.add(trace).instructions;
        ControlFlow::Continue(())
    }
}

impl Pass for AddressCounter {
    fn merge(&mut self, mut later: Self, seam: Seam) {
        self.settle();
        later.settle();
        for (owner, table) in std::mem::take(&mut later.tables) {
            let owner = if let Owner::Inherited(core) = owner { self.state(core).owner } else { owner };
            table.iter().for_each(|(address, count)| self.add(owner, *address, count));
        }
        for (core, state) in later.cores {
            let mine = self.state(core);
            let gaps = if mine.has_started { state.starts } else { 0 };
            mine.starts += state.starts - gaps;
            mine.has_started |= state.has_started;
            if !matches!(state.owner, Owner::Inherited(_)) {
                mine.owner = state.owner;
            }
            self.gaps += gaps;
        }
        self.gaps = (self.gaps + later.gaps).saturating_sub(u64::from(seam.repeats_gap.is_some()));
        self.instructions += later.instructions;
        self.is_full |= later.is_full;
    }
}

impl AddressCounts {
    /// Adds another run.
    pub fn append(&mut self, other: &Self) {
        for (process, counts) in &other.processes {
            let mine = self.processes.entry(*process).or_default();
            for (address, count) in counts {
                mine.entry(*address).or_default().append(count);
            }
        }
        self.instructions += other.instructions;
        self.gaps += other.gaps;
        self.is_full |= other.is_full;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unspool_model::{BlockExecution, Branch, Context, Positions};

    use super::*;

    /// What a source hands over.
    #[derive(Debug, Clone)]
    enum Item {
        Step(Event),
        Blocks(Vec<(u32, bool)>),
    }

    fn blocks() -> Vec<Block> {
        vec![Block::new(0x1000, Isa::A64, vec![1, 2], true), Block::new(0x2000, Isa::T32, vec![0x4770], false)]
    }

    fn feed(counter: &mut AddressCounter, items: &[Item]) {
        for item in items {
            let _ = match item {
                Item::Step(event) => {
                    let mut step = Step::default();
                    step.event = *event;
                    counter.step(&step)
                }
                Item::Blocks(list) => {
                    let executions: Vec<_> = list.iter().map(|(at, is)| BlockExecution::new(*at, *is)).collect();
                    counter.blocks(&BlockTrace {
                        core: 0,
                        blocks: &blocks(),
                        executions: &executions,
                        next: None,
                        positions: Positions::From(0),
                        time: None,
                        accesses: None,
                    })
                }
            };
        }
    }

    fn context(process: u64) -> Item {
        Item::Step(Event::Context(Context { process: Some(process), ..Context::default() }))
    }

    fn step(address: u64, taken: Option<bool>, is_executed: Option<bool>) -> Item {
        let branch = taken.map(|taken| Branch { taken, target: None });
        let instruction =
            Instruction { address, opcode: Some(1), length: 4, branch, is_executed, ..Instruction::default() };
        Item::Step(Event::Instruction(instruction))
    }

    #[test]
    fn executions_and_outcomes_by_process() {
        let mut counter = AddressCounter::default();
        feed(
            &mut counter,
            &[
                Item::Step(Event::Gap(Gap::Start)),
                context(1),
                Item::Blocks(vec![(0, true), (0, false), (1, false)]),
                context(2),
                Item::Blocks(vec![(0, true)]),
                step(0x1004, Some(false), Some(true)),
                step(0x3000, None, Some(false)),
                Item::Step(Event::Gap(Gap::Overflow)),
                step(0x3000, None, None),
            ],
        );
        let counts = counter.finish();
        let of = |process: Option<u64>, address: u64| {
            let count = counts.processes[&process][&address];
            (count.executed, count.taken, count.not_taken, count.passed, count.failed)
        };
        assert_eq!(of(Some(1), 0x1000), (2, 0, 0, 0, 0));
        assert_eq!(of(Some(1), 0x1004), (2, 1, 1, 0, 0));
        assert_eq!(of(Some(1), 0x2000), (1, 0, 0, 0, 0));
        assert_eq!(of(Some(2), 0x1004), (2, 1, 1, 1, 0));
        assert_eq!(of(Some(2), 0x3000), (1, 0, 0, 0, 1));
        assert_eq!(of(None, 0x3000), (1, 0, 0, 0, 0));
        assert_eq!((counts.instructions, counts.gaps), (10, 1));
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        let item = prop_oneof![
            prop::collection::vec((0_u32..2, any::<bool>()), 0..4).prop_map(Item::Blocks),
            (0_u64..3).prop_map(context),
            (0_u64..4, any::<Option<bool>>(), any::<Option<bool>>()).prop_map(|(at, taken, is)| step(
                at * 4,
                taken,
                is
            )),
            Just(Item::Step(Event::Gap(Gap::Start))),
            Just(Item::Step(Event::Gap(Gap::Overflow))),
        ];
        prop::collection::vec(item, 0..30)
    }

    proptest! {
        /// Parts of a trace, merged, give the counts of the whole.
        #[test]
        fn parts_are_merged(items in items(), cuts in prop::collection::vec(0_usize..30, 0..4)) {
            let mut whole = AddressCounter::default();
            feed(&mut whole, &items);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(items.len())).collect();
            cuts.extend([0, items.len()]);
            cuts.sort_unstable();
            let mut merged = AddressCounter::default();
            for pair in cuts.windows(2) {
                let mut part = AddressCounter::default();
                feed(&mut part, &items[pair[0]..pair[1]]);
                merged.merge(part, Seam::default());
            }
            prop_assert_eq!(merged.finish(), whole.finish());
        }
    }
}
