//! Statistics of a trace: instruction mix, branches, accesses, exceptions, gaps and memory footprint.
//!
//! blocks, steps ─▶ **stats** ─▶ report
//!
//! Counts are kept per core, Exception level, Security state and process. Memory use does not grow with the trace:
//! opcodes, processes and pages are kept up to a limit, and the report states when one was reached. No trace format is
//! known here, and the caller supplies the mnemonics.
//!
//! ```
//! use unspool_analyze::stats::Stats;
//! use unspool_model::{Branch, Event, Instruction, Step};
//!
//! let mut stats = Stats::new(|_, _| "b".to_string());
//! let mut step = Step::default();
//! let branch = Some(Branch { taken: true, target: Some(0x1000) });
//! step.event = Event::Instruction(Instruction { address: 0x1000, opcode: Some(0x1400_0000), length: 4, branch, ..Instruction::default() });
//! stats.step(&step);
//! stats.step(&step);
//! let report = stats.finish();
//! assert_eq!(report.all().instructions, 2);
//! assert_eq!(report.branches.all().taken, 2);
//! assert_eq!(report.code.bytes, 4);
//! ```

mod branches;
pub(crate) mod footprint;
pub mod json;
mod mix;
mod tally;

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::ops::ControlFlow;

use unspool_model::{
    BlockAccesses, BlockExecution, BlockSink, BlockTrace, Context, Event, Gap, Instruction, Isa, Security, Step,
};

pub use self::branches::{BranchKind, Branches, Outcomes};
pub use self::footprint::{CodeFootprint, DataFootprint, LINE_BYTES, PAGE_BYTES};
pub use self::mix::Mix;
pub use self::tally::{Group, Tally};

use self::footprint::{CodePages, DataPages};
use self::mix::Opcodes;
use crate::block_counts::{BlockCounts, Executions};
use crate::number_hash::Fibonacci;
use crate::pass::{Pass, Seam};

/// Maximum number of groups; beyond it, groups are kept without their process.
const GROUPS: usize = 1 << 14;

/// Counters for the steps of a source.
pub struct Stats<'n> {
    /// Executions that are not in the tables yet.
    blocks: BlockCounts,
    opcodes: Opcodes<'n>,
    branches: Branches,
    code: CodePages,
    data: DataPages,
    groups: Vec<(Key, Tally)>,
    indexes: HashMap<Key, usize>,
    is_full: bool,
    /// State of the other cores.
    cores: HashMap<u32, Now, BuildHasherDefault<Fibonacci>>,
    /// The core of the last step, and its state.
    core: Option<u32>,
    now: Now,
    rest: Rest,
}

/// A group; or, until a core has a context of its own, that of the part before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    group: Group,
    is_inherited: bool,
}

/// Current state of a core.
#[derive(Debug, Clone, Copy)]
struct Now {
    context: Context,
    /// The context is that of the part before this one.
    is_inherited: bool,
    /// Index of its group, once something was counted in it.
    group: Option<usize>,
}

impl Default for Now {
    fn default() -> Self {
        Self { context: Context::default(), is_inherited: true, group: None }
    }
}

/// Counts that are not kept per group.
#[derive(Debug, Default)]
struct Rest {
    exceptions: [u64; EXCEPTIONS.len()],
    gaps: [u64; GAPS.len()],
    contexts: u64,
    notes: u64,
    states: u64,
    times: Option<(u64, u64)>,
}

/// The statistics of a source.
#[derive(Debug)]
pub struct Report {
    /// The instruction mix.
    pub mix: Mix,
    /// Branches with their outcomes.
    pub branches: Branches,
    /// Memory from which instructions were executed.
    pub code: CodeFootprint,
    /// Memory that instructions accessed.
    pub data: DataFootprint,
    /// Number of exceptions per kind, without zeros.
    pub exceptions: Vec<(&'static str, u64)>,
    /// Number of gaps per kind, without zeros.
    pub gaps: Vec<(&'static str, u64)>,
    /// Number of context steps.
    pub contexts: u64,
    /// Number of state steps: register and memory contents that no instruction caused.
    pub states: u64,
    /// Number of notes.
    pub notes: u64,
    /// The earliest and the latest time, in the unit of the source.
    pub times: Option<(u64, u64)>,
    /// Whether there were too many processes to count each by itself.
    pub is_full: bool,
    groups: Vec<(Group, Tally)>,
}

impl<'n> Stats<'n> {
    /// Empty statistics. `name` returns the mnemonic of an opcode and is called once for each.
    pub fn new(name: impl FnMut(Isa, u32) -> String + Send + 'n) -> Self {
        Self {
            blocks: BlockCounts::default(),
            opcodes: Opcodes::new(Box::new(name)),
            branches: Branches::default(),
            code: CodePages::default(),
            data: DataPages::default(),
            groups: Vec::new(),
            indexes: HashMap::new(),
            is_full: false,
            cores: HashMap::default(),
            core: None,
            now: Now::default(),
            rest: Rest::default(),
        }
    }

    /// Counts a step.
    #[inline]
    pub fn step(&mut self, step: &Step) {
        if self.core != Some(step.core) {
            self.change_core(step.core);
        }
        self.time(step.time);
        match &step.event {
            Event::Instruction(instruction) => self.instruction(instruction),
            Event::Exception(exception) => {
                self.rest.exceptions[exception.kind as usize] += 1;
                self.tally().exceptions += 1;
            }
            Event::ExceptionReturn { .. } => self.tally().exception_returns += 1,
            Event::Context(context) => {
                self.rest.contexts += 1;
                self.now.change(context.over(&self.now.context));
            }
            Event::Gap(gap) => {
                self.rest.gaps[gap_index(*gap)] += 1;
                self.tally().gaps += 1;
                // The context after a gap is unknown.
                self.now.change(Context::default());
            }
            Event::State => self.rest.states += 1,
            Event::Note => self.rest.notes += 1,
        }
        if step.event != Event::State {
            self.effects(step);
        }
    }

    /// The report of all counted steps.
    pub fn finish(mut self) -> Report {
        self.settle();
        Report {
            mix: self.opcodes.finish(),
            branches: self.branches,
            code: self.code.finish(),
            data: self.data.finish(),
            exceptions: nonzero(&EXCEPTIONS, &self.rest.exceptions),
            gaps: nonzero(&GAPS, &self.rest.gaps),
            contexts: self.rest.contexts,
            states: self.rest.states,
            notes: self.rest.notes,
            times: self.rest.times,
            is_full: self.is_full,
            groups: self.groups.into_iter().map(|(key, tally)| (key.group, tally)).collect(),
        }
    }

    #[inline]
    fn time(&mut self, time: Option<u64>) {
        if let Some(time) = time {
            let times = self.rest.times.get_or_insert((time, time));
            *times = (times.0.min(time), times.1.max(time));
        }
    }

    /// Adds the executions of blocks to the tables.
    fn settle(&mut self) {
        let Self { blocks, opcodes, branches, code, .. } = self;
        blocks.drain(|block, executions| {
            let last = block.opcodes.len() - 1;
            for (index, (address, opcode, length)) in block.instructions().enumerate() {
                let kind = opcodes.add(block.isa, opcode, executions.total());
                code.add(address, length);
                match (index == last && block.ends_in_branch, executions) {
                    (true, Executions { taken, not_taken }) => {
                        branches.of(kind).taken += taken;
                        branches.of(kind).not_taken += not_taken;
                    }
                    (false, _) if kind.is_branch() => branches.of(kind).unknown += executions.total(),
                    (false, _) => {}
                }
            }
        });
    }

    /// Stores the state of the current core.
    fn leave_core(&mut self) {
        if let Some(core) = self.core.take() {
            self.cores.insert(core, std::mem::take(&mut self.now));
        }
    }

    fn change_core(&mut self, core: u32) {
        self.leave_core();
        self.core = Some(core);
        self.now = self.cores.get(&core).copied().unwrap_or_default();
    }

    #[inline]
    fn instruction(&mut self, instruction: &Instruction) {
        let kind = match instruction.opcode {
            Some(opcode) => self.opcodes.add(instruction.isa, opcode, 1),
            None => self.opcodes.add_unknown(),
        };
        if instruction.branch.is_some() || kind.is_branch() {
            self.branches.add(kind, instruction.branch);
        }
        self.code.add(instruction.address, instruction.length);
        let is_skipped = instruction.is_executed == Some(false);
        let is_taken = instruction.branch.is_some_and(|branch| branch.taken);
        let tally = self.tally();
        tally.instructions += 1;
        tally.skipped += u64::from(is_skipped);
        tally.taken += u64::from(is_taken);
    }

    #[inline]
    fn effects(&mut self, step: &Step) {
        let registers = step.registers().len();
        if registers > 0 {
            self.tally().registers += registers as u64;
        }
        for access in step.accesses() {
            self.data.add(access.address, access.size);
            self.tally().access(access.direction, access.size);
        }
    }

    /// Counts the accesses of blocks.
    fn accesses(&mut self, executions: &[BlockExecution], mut rest: BlockAccesses<'_>) {
        let mut tally = Tally::default();
        for execution in executions {
            for (access, address) in rest.split_off(execution.number()) {
                self.data.add(address, access.size.into());
                tally.access(access.direction, access.size.into());
            }
        }
        self.tally().append(&tally);
    }

    /// The tally of the current core.
    #[inline]
    fn tally(&mut self) -> &mut Tally {
        let index = match self.now.group {
            Some(index) => index,
            None => self.group_index(),
        };
        &mut self.groups[index].1
    }

    #[cold]
    fn group_index(&mut self) -> usize {
        let Context { level, security, process, .. } = self.now.context;
        let group = Group { core: self.core.unwrap_or_default(), level, security, process, is_rest: false };
        let index = self.index_of(Key { group, is_inherited: self.now.is_inherited });
        self.now.group = Some(index);
        index
    }

    fn index_of(&mut self, mut key: Key) -> usize {
        if self.groups.len() >= GROUPS && !self.indexes.contains_key(&key) {
            self.is_full = true;
            key.group = Group { process: None, is_rest: true, ..key.group };
        }
        let next = self.groups.len();
        let index = *self.indexes.entry(key).or_insert(next);
        if index == next {
            self.groups.push((key, Tally::default()));
        }
        index
    }

    /// Continues with the state of a core at the end of a later part.
    fn follow(&mut self, core: u32, later: Now) {
        if !later.is_inherited {
            self.change_core(core);
            self.now = Now { group: None, ..later };
        }
    }
}

impl Now {
    fn change(&mut self, context: Context) {
        *self = Self { context, is_inherited: false, group: None };
    }
}

impl BlockSink for Stats<'_> {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.step(step);
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        if self.core != Some(trace.core) {
            self.change_core(trace.core);
        }
        self.time(trace.time);
        let executed = self.blocks.add(trace);
        let tally = self.tally();
        tally.instructions += executed.instructions;
        tally.taken += executed.taken;
        if let Some(accesses) = trace.accesses {
            self.accesses(trace.executions, accesses);
        }
        ControlFlow::Continue(())
    }

    fn wants_accesses(&self) -> bool {
        true
    }
}

impl Pass for Stats<'_> {
    fn merge(&mut self, mut later: Self, seam: Seam) {
        later.settle();
        later.leave_core();
        self.branches.append(&later.branches);
        self.code.append(&later.code);
        self.data.append(&later.data);
        self.opcodes.append(later.opcodes);
        self.is_full |= later.is_full;
        for (key, tally) in &later.groups {
            let index = match key.is_inherited {
                true => {
                    self.change_core(key.group.core);
                    self.group_index()
                }
                false => self.index_of(*key),
            };
            self.groups[index].1.append(tally);
        }
        self.rest.append(&later.rest);
        self.rest.contexts -= u64::from(seam.repeats_context);
        if let Some(gap) = seam.repeats_gap {
            self.rest.gaps[gap_index(gap)] -= 1;
            self.tally().gaps -= 1;
        }
        later.cores.into_iter().for_each(|(core, now)| self.follow(core, now));
    }
}

impl Rest {
    fn append(&mut self, other: &Self) {
        let add =
            |counts: &mut [u64], others: &[u64]| counts.iter_mut().zip(others).for_each(|(all, more)| *all += more);
        add(&mut self.exceptions, &other.exceptions);
        add(&mut self.gaps, &other.gaps);
        self.contexts += other.contexts;
        self.notes += other.notes;
        self.states += other.states;
        let both = |(a, b): (u64, u64), (c, d): (u64, u64)| (a.min(c), b.max(d));
        self.times = match (self.times, other.times) {
            (Some(mine), Some(others)) => Some(both(mine, others)),
            (mine, others) => mine.or(others),
        };
    }
}

impl Report {
    /// Total of all groups.
    pub fn all(&self) -> Tally {
        let mut all = Tally::default();
        self.groups.iter().for_each(|(_, tally)| all.append(tally));
        all
    }

    /// Totals per core.
    pub fn by_core(&self) -> BTreeMap<u32, Tally> {
        self.by(|group| group.core)
    }

    /// Totals per Exception level or privilege mode; `None` (first) if it was not reported.
    pub fn by_level(&self) -> BTreeMap<Option<u8>, Tally> {
        self.by(|group| group.level)
    }

    /// Totals per Security state; `None` (first) if it was not reported.
    pub fn by_security(&self) -> BTreeMap<Option<&'static str>, Tally> {
        self.by(|group| group.security.map(Security::name))
    }

    /// Totals per process; `None` (first) if it was not reported. The processes beyond the limit come last.
    pub fn by_process(&self) -> BTreeMap<(bool, Option<u64>), Tally> {
        self.by(|group| (group.is_rest, group.process))
    }

    fn by<K: Ord>(&self, key: impl Fn(&Group) -> K) -> BTreeMap<K, Tally> {
        let mut rows: BTreeMap<K, Tally> = BTreeMap::new();
        for (group, tally) in &self.groups {
            rows.entry(key(group)).or_default().append(tally);
        }
        rows
    }
}

/// In the order of [`ExceptionKind`](unspool_model::ExceptionKind).
const EXCEPTIONS: [&str; 7] = ["unknown", "reset", "synchronous", "irq", "fiq", "serror", "debug"];

const GAPS: [&str; 7] = ["start", "overflow", "discard", "no-code", "damaged", "contradiction", "transaction-failed"];

fn gap_index(gap: Gap) -> usize {
    match gap {
        Gap::Start => 0,
        Gap::Overflow => 1,
        Gap::Discard => 2,
        Gap::NoCode(_) => 3,
        Gap::Damaged => 4,
        Gap::Contradiction => 5,
        Gap::TransactionFailed => 6,
    }
}

fn nonzero(names: &[&'static str], counts: &[u64]) -> Vec<(&'static str, u64)> {
    names.iter().copied().zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
}
