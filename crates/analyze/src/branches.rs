//! Branches of a trace: every execution with outcome and target, or the totals of each branch instruction.
//!
//! blocks, steps of one source ─▶ **branches** ─▶ executions, totals
//!
//! A branch is an instruction whose opcode says so, or that the source reports as one. The target of a branch that was not taken is unknown,
//! unless the opcode has it.

use std::collections::HashMap;

use unspool_isa::{ControlFlow as Flow, Decoded, decode};
use unspool_model::{Event, Instruction, Isa, Step};

/// Kind of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A branch to a fixed address.
    Direct,
    /// A branch to an address in a register or in memory.
    Indirect,
    /// A branch that stores its return address.
    Call,
    /// A call to an address in a register.
    IndirectCall,
    /// A return from a function.
    Return,
    /// A return from an exception.
    ExceptionReturn,
    /// The source reports a branch, and its opcode is unknown.
    Unknown,
}

impl Kind {
    fn of(decoded: &Decoded) -> Option<Self> {
        Some(match (decoded.flow, decoded.link, decoded.ret) {
            (Flow::ExceptionReturn, ..) => Self::ExceptionReturn,
            (Flow::Indirect, _, true) => Self::Return,
            (Flow::Indirect, true, _) => Self::IndirectCall,
            (Flow::Indirect, ..) => Self::Indirect,
            (Flow::Direct, true, _) => Self::Call,
            (Flow::Direct, ..) => Self::Direct,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Indirect => "indirect",
            Self::Call => "call",
            Self::IndirectCall => "indirect-call",
            Self::Return => "return",
            Self::ExceptionReturn => "exception-return",
            Self::Unknown => "unknown",
        }
    }
}

/// One execution of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    /// The address of the branch.
    pub address: u64,
    /// Its instruction set.
    pub isa: Isa,
    /// Its kind.
    pub kind: Kind,
    /// Whether it may fall through.
    pub is_conditional: bool,
    /// Whether it was taken, if known.
    pub is_taken: Option<bool>,
    /// The target if it was taken, or would have been; `None` if unknown.
    pub target: Option<u64>,
}

impl Executed {
    /// The branch of a step, if it is one.
    pub fn of(step: &Step) -> Option<Self> {
        match &step.event {
            Event::Instruction(instruction) => Self::of_instruction(instruction),
            _ => None,
        }
    }

    fn of_instruction(found: &Instruction) -> Option<Self> {
        let decoded = found.opcode.map(|opcode| decode(found.isa, found.address, opcode));
        let by_opcode = decoded.as_ref().and_then(Kind::of);
        let kind = by_opcode.or(found.branch.map(|_| Kind::Unknown))?;
        let fixed = decoded.as_ref().and_then(|decoded| decoded.target).map(|target| target.address);
        Some(Self {
            address: found.address,
            isa: found.isa,
            kind,
            is_conditional: decoded.is_none_or(|decoded| decoded.conditional),
            is_taken: found.branch.map(|branch| branch.taken),
            target: found.branch.and_then(|branch| branch.target).or(fixed),
        })
    }
}

/// Maximum number of branch instructions; further ones are counted together.
const MAX_BRANCHES: usize = 1 << 20;

/// Maximum number of targets of a branch that are counted by themselves.
const MAX_TARGETS: usize = 64;

/// Totals of a branch instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Its kind.
    pub kind: Kind,
    /// Whether it may fall through.
    pub is_conditional: bool,
    /// Executions that were taken.
    pub taken: u64,
    /// Executions that were not taken.
    pub not_taken: u64,
    /// Executions with an unknown outcome.
    pub unknown: u64,
    /// Taken after it was not taken, or the other way round.
    pub changes: u64,
    last: Option<bool>,
    /// Targets with the number of times that they were reached.
    targets: HashMap<u64, u64>,
    /// Executions with other targets.
    pub other_targets: u64,
}

impl Totals {
    fn new(branch: &Executed) -> Self {
        Self {
            kind: branch.kind,
            is_conditional: branch.is_conditional,
            taken: 0,
            not_taken: 0,
            unknown: 0,
            changes: 0,
            last: None,
            targets: HashMap::new(),
            other_targets: 0,
        }
    }

    /// All executions.
    pub fn executions(&self) -> u64 {
        self.taken + self.not_taken + self.unknown
    }

    /// Targets that were reached, the most frequent first.
    pub fn targets(&self) -> Vec<(u64, u64)> {
        let mut targets: Vec<(u64, u64)> = self.targets.iter().map(|(target, count)| (*target, *count)).collect();
        targets.sort_by_key(|(target, count)| (std::cmp::Reverse(*count), *target));
        targets
    }

    fn add(&mut self, branch: &Executed) {
        match branch.is_taken {
            Some(true) => self.taken += 1,
            Some(false) => self.not_taken += 1,
            None => self.unknown += 1,
        }
        if let Some(is_taken) = branch.is_taken {
            let last = self.last.replace(is_taken);
            self.changes += u64::from(last.is_some_and(|last| last != is_taken));
        }
        if let Some(target) = branch.target.filter(|_| branch.is_taken == Some(true)) {
            let is_full = self.targets.len() >= MAX_TARGETS;
            match self.targets.get_mut(&target) {
                Some(count) => *count += 1,
                None if is_full => self.other_targets += 1,
                None => drop(self.targets.insert(target, 1)),
            }
        }
    }
}

/// Totals of all branch instructions of a source.
#[derive(Debug, Default)]
pub struct BranchTotals {
    branches: HashMap<(u64, Isa), Totals>,
    /// Executions of branches beyond the limit.
    pub not_listed: u64,
}

impl BranchTotals {
    /// Counts an execution.
    pub fn add(&mut self, branch: &Executed) {
        let key = (branch.address, branch.isa);
        if self.branches.len() >= MAX_BRANCHES && !self.branches.contains_key(&key) {
            self.not_listed += 1;
            return;
        }
        self.branches.entry(key).or_insert_with(|| Totals::new(branch)).add(branch);
    }

    /// All branch instructions by address, the most frequent first.
    pub fn rows(&self) -> Vec<(u64, &Totals)> {
        let mut rows: Vec<(u64, &Totals)> =
            self.branches.iter().map(|((address, _), totals)| (*address, totals)).collect();
        rows.sort_by_key(|(address, totals)| (std::cmp::Reverse(totals.executions()), *address, totals.kind));
        rows
    }
}

#[cfg(test)]
mod tests {
    use unspool_model::Branch;

    use super::*;

    fn step(address: u64, opcode: Option<u32>, branch: Option<Branch>) -> Step {
        let mut step = Step::default();
        step.event = Event::Instruction(Instruction { address, opcode, length: 4, branch, ..Instruction::default() });
        step
    }

    const fn taken(target: u64) -> Option<Branch> {
        Some(Branch { taken: true, target: Some(target) })
    }

    const NOT_TAKEN: Option<Branch> = Some(Branch { taken: false, target: None });

    #[test]
    fn opcodes_and_outcomes_make_a_branch() {
        type Row = (&'static str, Option<u32>, Option<Branch>, Option<(Kind, bool, Option<bool>, Option<u64>)>);
        let rows: [Row; 9] = [
            ("nop", Some(0xd503_201f), None, None),
            ("b 0x1010", Some(0x1400_0004), taken(0x1010), Some((Kind::Direct, false, Some(true), Some(0x1010)))),
            ("cbz, not taken", Some(0xb400_0080), NOT_TAKEN, Some((Kind::Direct, true, Some(false), Some(0x1010)))),
            ("bl", Some(0x9400_0004), taken(0x1010), Some((Kind::Call, false, Some(true), Some(0x1010)))),
            ("blr x0", Some(0xd63f_0000), taken(0x5000), Some((Kind::IndirectCall, false, Some(true), Some(0x5000)))),
            ("br x0", Some(0xd61f_0000), None, Some((Kind::Indirect, false, None, None))),
            ("ret", Some(0xd65f_03c0), taken(0x5000), Some((Kind::Return, false, Some(true), Some(0x5000)))),
            ("eret", Some(0xd69f_03e0), taken(0x5000), Some((Kind::ExceptionReturn, false, Some(true), Some(0x5000)))),
            ("no opcode", None, taken(0x5000), Some((Kind::Unknown, true, Some(true), Some(0x5000)))),
        ];
        for (name, opcode, branch, expected) in rows {
            let found = Executed::of(&step(0x1000, opcode, branch));
            let found = found.map(|found| (found.kind, found.is_conditional, found.is_taken, found.target));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn totals_are_per_branch() {
        let mut totals = BranchTotals::default();
        let outcomes = [taken(0x1010), taken(0x1010), NOT_TAKEN, taken(0x1010)];
        let returns = [taken(0x2000), taken(0x3000), taken(0x2000)];
        let conditional = outcomes.map(|outcome| step(0x1000, Some(0xb400_0080), outcome));
        let steps = conditional.into_iter().chain(returns.map(|outcome| step(0x1014, Some(0xd65f_03c0), outcome)));
        steps.filter_map(|step| Executed::of(&step)).for_each(|branch| totals.add(&branch));
        let rows = totals.rows();
        let [(0x1000, first), (0x1014, second)] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((first.taken, first.not_taken, first.changes), (3, 1, 2));
        assert_eq!(first.targets(), [(0x1010, 3)]);
        assert_eq!(second.targets(), [(0x2000, 2), (0x3000, 1)]);
    }
}
