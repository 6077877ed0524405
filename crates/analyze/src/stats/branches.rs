//! Branches by kind and outcome.

use unspool_isa::{ControlFlow, Decoded};
use unspool_model::Branch;

/// Set of branch properties, decoded from the opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BranchKind(u8);

const DIRECT: u8 = 1;
const INDIRECT: u8 = 1 << 1;
const CONDITIONAL: u8 = 1 << 2;
const CALL: u8 = 1 << 3;
const RETURN: u8 = 1 << 4;
const EXCEPTION_RETURN: u8 = 1 << 5;
const KINDS: usize = 1 << 6;

impl BranchKind {
    pub(super) fn new(decoded: &Decoded) -> Self {
        let is_branch = decoded.flow.is_branch();
        let found = [
            (decoded.flow == ControlFlow::Direct, DIRECT),
            (decoded.flow.is_indirect(), INDIRECT),
            (is_branch && decoded.conditional, CONDITIONAL),
            (is_branch && decoded.link, CALL),
            (is_branch && decoded.ret, RETURN),
            (decoded.flow == ControlFlow::ExceptionReturn, EXCEPTION_RETURN),
        ];
        Self(found.iter().filter(|(is, _)| *is).fold(0, |all, (_, bit)| all | bit))
    }

    /// Whether it is a branch at all.
    #[inline]
    pub fn is_branch(self) -> bool {
        self.0 & (DIRECT | INDIRECT) != 0
    }
}

/// Number of branches per outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    /// Taken branches.
    pub taken: u64,
    /// Branches that were not taken.
    pub not_taken: u64,
    /// Branches without a reported outcome.
    pub unknown: u64,
}

impl Outcomes {
    /// Total number of branches.
    pub fn total(&self) -> u64 {
        self.taken + self.not_taken + self.unknown
    }

    fn append(&mut self, other: &Self) {
        self.taken += other.taken;
        self.not_taken += other.not_taken;
        self.unknown += other.unknown;
    }
}

/// Outcomes of branches per kind.
#[derive(Debug, Clone)]
pub struct Branches([Outcomes; KINDS]);

impl Default for Branches {
    fn default() -> Self {
        Self([Outcomes::default(); KINDS])
    }
}

impl Branches {
    #[inline]
    pub(super) fn add(&mut self, kind: BranchKind, branch: Option<Branch>) {
        let outcomes = self.of(kind);
        match branch.map(|branch| branch.taken) {
            Some(true) => outcomes.taken += 1,
            Some(false) => outcomes.not_taken += 1,
            None => outcomes.unknown += 1,
        }
    }

    /// The outcomes of a kind.
    #[inline]
    pub(super) fn of(&mut self, kind: BranchKind) -> &mut Outcomes {
        &mut self.0[usize::from(kind.0) % KINDS]
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(outcomes, others)| outcomes.append(others));
    }

    /// Outcomes of all branches.
    pub fn all(&self) -> Outcomes {
        self.with(0)
    }

    /// Outcomes per kind. A branch may be of several kinds.
    pub fn kinds(&self) -> [(&'static str, Outcomes); 6] {
        [
            ("direct", self.with(DIRECT)),
            ("indirect", self.with(INDIRECT)),
            ("conditional", self.with(CONDITIONAL)),
            ("calls", self.with(CALL)),
            ("returns", self.with(RETURN)),
            ("exception-returns", self.with(EXCEPTION_RETURN)),
        ]
    }

    fn with(&self, bits: u8) -> Outcomes {
        let mut sum = Outcomes::default();
        for (kind, outcomes) in self.0.iter().enumerate() {
            if kind & usize::from(bits) == usize::from(bits) {
                sum.append(outcomes);
            }
        }
        sum
    }
}
