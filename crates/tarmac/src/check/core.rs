//! State of one core: its last instruction with its effects.

use super::super::dialect::{Dialect, Effects};
use super::super::opcode::facts_of;
use super::super::record::{
    Access, Branch, Byte, Direction, Instruction, InstructionSet, Line, Picture, Purpose, Record, Stamp, Time,
};
use super::findings::FindingSink;
use super::instruction::digits;
use super::rules::RuleId;
use super::step::Step;
use super::{access, flow};

#[derive(Debug, Default)]
pub(super) struct Core {
    name: Option<Vec<u8>>,
    time: Option<Time>,
    number: Option<u64>,
    pub(super) has_step: bool,
    last: Option<Step>,
    /// Number of remaining instructions in the current IT block.
    it: u8,
    /// Whether there are BR lines.
    has_branches: bool,
    /// Whether there are memory lines.
    has_accesses: bool,
}

impl Core {
    pub(super) fn new(name: Option<&[u8]>) -> Self {
        Self { name: name.map(<[u8]>::to_vec), ..Self::default() }
    }

    pub(super) fn is_named(&self, name: Option<&[u8]>) -> bool {
        self.name.as_deref() == name
    }

    /// Whether the core is in AArch64; `None` before the first instruction.
    pub(super) fn is_aarch64(&self) -> Option<bool> {
        self.last.map(|last| last.set == InstructionSet::O)
    }

    /// Checks that times and instruction numbers increase.
    pub(super) fn check_order(&mut self, line: &Line<'_>, out: &mut FindingSink<'_>) {
        if let Record::Opaque(_) | Record::Unknown(_) = line.record {
            return;
        }
        if let Stamp::At(time) = line.stamp {
            let before = self.time.filter(|last| (last.unit, last.decimals) == (time.unit, time.decimals));
            if let Some(before) = before.filter(|before| before.value > time.value) {
                let (now, before) = (time.value, before.value);
                out.add(RuleId::TimeOrder, format_args!("the time goes back from {before} to {now}"));
            }
            self.time = Some(time);
        }
        let Record::Instruction(Instruction { number: Some(number), .. }) = line.record else { return };
        if let Some(before) = self.number.filter(|before| *before >= number) {
            out.add(RuleId::Number, format_args!("the number is {number} after {before}"));
        }
        self.number = Some(number);
    }

    /// Checks the previous instruction, and starts the next.
    pub(super) fn next_instruction(
        &mut self,
        instruction: &Instruction<'_>,
        dialect: Dialect,
        out: &mut FindingSink<'_>,
    ) {
        self.has_step = true;
        let (Some(address), Some(set)) = (instruction.address, instruction.set) else {
            return self.lose_track();
        };
        if let Some(last) = self.last.take() {
            if matches!(dialect, Dialect::Rev3 | Dialect::FastModels) {
                flow::check(&last, address, self.has_branches, out);
            }
            if has_effects(dialect) {
                access::check(&last, self.has_accesses, out);
            }
        }
        let facts = facts_of(instruction);
        let is_in_it = self.it > 0;
        self.it = facts.map_or(0, |facts| facts.it).max(self.it.saturating_sub(1));
        self.last = Some(Step {
            position: out.position,
            address,
            length: instruction.length,
            opcode: instruction.opcode,
            set,
            facts,
            is_executed: instruction.is_executed,
            is_in_it,
            is_exempt: instruction.opcode.is_none(),
            branch: None,
            read: 0,
            written: 0,
        });
    }

    /// Handles an exception or an asynchronous event.
    pub(super) fn interrupt(&mut self) {
        self.has_step = true;
        self.lose_track();
    }

    /// Exempts the last instruction, since the flow of execution is unknown.
    pub(super) fn lose_track(&mut self) {
        self.it = 0;
        if let Some(last) = &mut self.last {
            last.is_exempt = true;
        }
    }

    pub(super) fn branch(&mut self, branch: &Branch, is_rev3: bool, out: &mut FindingSink<'_>) {
        self.has_branches = true;
        let is_aarch64 = match branch.set {
            Some(set) => Some(set == InstructionSet::O),
            None => self.is_aarch64(),
        };
        let (found, expected) = (branch.digits, is_aarch64.map(digits));
        if let Some(expected) = expected.filter(|expected| is_rev3 && *expected != found) {
            out.add(RuleId::BranchDigits, format_args!("the target has {found} digits, not {expected}"));
        }
        let Some(last) = &mut self.last else { return };
        flow::check_branch(last, branch.target, out);
        last.branch = Some((out.position, branch.target));
    }

    pub(super) fn count_picture(&mut self, picture: &Picture<'_>) {
        let bytes = picture.bytes.iter().filter(|byte| **byte != Byte::Untouched).count() as u64;
        self.count(picture.kind.direction(), bytes);
        if picture.kind.is_aborted() {
            self.lose_track();
        }
    }

    pub(super) fn count_access(&mut self, access: &Access<'_>) {
        if access.purpose == Purpose::Fetch {
            return;
        }
        self.count(access.direction, u64::from(access.size));
        if access.is_aborted {
            self.lose_track();
        }
    }

    fn count(&mut self, direction: Direction, bytes: u64) {
        self.has_accesses = true;
        let Some(last) = &mut self.last else { return };
        match direction {
            Direction::Read => last.read = last.read.saturating_add(bytes),
            Direction::Write => last.written = last.written.saturating_add(bytes),
        }
    }

    /// Checks the last instruction at the end of the log, where its lines may be incomplete.
    pub(super) fn end(&mut self, out: &mut FindingSink<'_>) {
        if let Some(last) = self.last.take() {
            access::check_unexpected(&last, out);
        }
    }
}

/// Whether the log has all effects of an instruction before the next instruction.
fn has_effects(dialect: Dialect) -> bool {
    dialect.effects() == Effects::After && matches!(dialect, Dialect::Rev3 | Dialect::FastModels | Dialect::Gem5)
}
