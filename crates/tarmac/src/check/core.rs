//! What is remembered of a core: its last instruction with all that belongs to it.

use unspool_isa::Facts;

use super::super::dialect::Dialect;
use super::super::read::Place;
use super::super::record::{
    Access, Branch, Byte, Direction, Instruction, InstructionSet, Line, Picture, PictureKind, Purpose, Record, Stamp,
    Time,
};
use super::super::restyle::opcode::facts_of;
use super::instruction::digits;
use super::rules::RuleId;
use super::{Out, access, flow, has_effects};

/// A core.
#[derive(Debug)]
pub(super) struct Core {
    name: Option<Vec<u8>>,
    time: Option<Time>,
    number: Option<u64>,
    /// There was a step.
    pub(super) has_step: bool,
    last: Option<Step>,
    /// How many instructions are left that an IT instruction made conditional.
    it: u8,
    /// There are BR lines.
    has_branches: bool,
    /// There are accesses to memory.
    has_accesses: bool,
}

/// An instruction and its effects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) place: Place,
    pub(super) address: u64,
    pub(super) length: u8,
    pub(super) opcode: Option<u32>,
    pub(super) set: InstructionSet,
    pub(super) facts: Option<Facts>,
    pub(super) is_executed: bool,
    /// An IT instruction makes it conditional.
    pub(super) is_in_it: bool,
    /// Something came between that may have led elsewhere.
    pub(super) is_excused: bool,
    pub(super) branch: Option<(Place, u64)>,
    pub(super) read: u64,
    pub(super) written: u64,
}

impl Step {
    /// The address behind the instruction.
    pub(super) fn behind(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.length))
    }
}

impl Core {
    pub(super) fn new(name: Option<&[u8]>) -> Self {
        Self {
            name: name.map(<[u8]>::to_vec),
            time: None,
            number: None,
            has_step: false,
            last: None,
            it: 0,
            has_branches: false,
            has_accesses: false,
        }
    }

    pub(super) fn is_named(&self, name: Option<&[u8]>) -> bool {
        self.name.as_deref() == name
    }

    /// Is the core in AArch64? `None`: no instruction was there.
    pub(super) fn is_aarch64(&self) -> Option<bool> {
        self.last.map(|last| last.set == InstructionSet::O)
    }

    /// Times and numbers grow.
    pub(super) fn check_order(&mut self, line: &Line<'_>, out: &mut Out<'_>) {
        if let Record::Opaque(_) | Record::Unknown(_) = line.record {
            return;
        }
        if let Stamp::At(time) = line.stamp {
            let before = self.time.filter(|last| (last.unit, last.decimals) == (time.unit, time.decimals));
            if let Some(before) = before.filter(|before| before.value > time.value) {
                let (now, before) = (time.value, before.value);
                out.add(RuleId::TimeOrder, format_args!("the time is {now}, and was {before} before"));
            }
            self.time = Some(time);
        }
        let Record::Instruction(Instruction { number: Some(number), .. }) = line.record else { return };
        if let Some(before) = self.number.filter(|before| *before >= number) {
            out.add(RuleId::Number, format_args!("the number is {number}, and was {before} before"));
        }
        self.number = Some(number);
    }

    /// The next instruction.
    pub(super) fn arrive(&mut self, instruction: &Instruction<'_>, dialect: Dialect, out: &mut Out<'_>) {
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
            place: out.place,
            address,
            length: instruction.length,
            opcode: instruction.opcode,
            set,
            facts,
            is_executed: instruction.is_executed,
            is_in_it,
            is_excused: instruction.opcode.is_none(),
            branch: None,
            read: 0,
            written: 0,
        });
    }

    /// An exception or an asynchronous event.
    pub(super) fn interrupt(&mut self) {
        self.has_step = true;
        self.lose_track();
    }

    /// Nobody knows where execution goes on.
    pub(super) fn lose_track(&mut self) {
        self.it = 0;
        if let Some(last) = &mut self.last {
            last.is_excused = true;
        }
    }

    pub(super) fn branch(&mut self, branch: &Branch, is_rev3: bool, out: &mut Out<'_>) {
        self.has_branches = true;
        let is_aarch64 = match branch.set {
            Some(set) => Some(set == InstructionSet::O),
            None => self.is_aarch64(),
        };
        let (found, wanted) = (branch.digits, is_aarch64.map(digits));
        if let Some(wanted) = wanted.filter(|wanted| is_rev3 && *wanted != found) {
            out.add(RuleId::BranchDigits, format_args!("the target has {found} digits, not {wanted}"));
        }
        let Some(last) = &mut self.last else { return };
        flow::check_branch(last, branch.target, out);
        last.branch = Some((out.place, branch.target));
    }

    pub(super) fn touch_picture(&mut self, picture: &Picture<'_>) {
        let bytes = picture.bytes.iter().filter(|byte| **byte != Byte::Untouched).count() as u64;
        let direction = match picture.kind {
            PictureKind::Load | PictureKind::AbortedLoad => Direction::Read,
            _ => Direction::Write,
        };
        self.count(direction, bytes);
        if !matches!(picture.kind, PictureKind::Load | PictureKind::Store | PictureKind::FailedStore) {
            self.lose_track();
        }
    }

    pub(super) fn touch(&mut self, access: &Access<'_>) {
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

    /// The log ends. What belongs to the last instruction may be cut off.
    pub(super) fn end(&mut self, out: &mut Out<'_>) {
        if let Some(last) = self.last.take() {
            access::check_unexpected(&last, out);
        }
    }
}
