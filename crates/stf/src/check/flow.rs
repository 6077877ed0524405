//! Control flow: addresses from group to group, compared with the opcodes.

use unspool_isa::{ControlFlow, Isa};

use super::super::read::Position;
use super::Out;
use super::group::Group;
use super::header::Header;
use super::opcode::Opcode;
use super::rules::RuleId;

/// Missing records of the previous instruction, which the next group may excuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Owed {
    #[default]
    Nothing,
    /// It always branches, and has no target.
    Target,
    /// It is a system call of RISC-V, and has no event. The specification numbers no events of other instruction sets.
    Call,
}

#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Address of the next instruction, unless its group forces another one.
    next: u64,
    pc: u64,
    mode: Option<u64>,
    owed: Owed,
    /// An exception without an event was reported.
    has_unseen: bool,
    /// A change to a lower mode that the previous instruction cannot have made.
    down: Option<(Position, u64)>,
    /// Position and number of the previous instruction.
    last: (Position, u64),
}

impl Flow {
    pub(super) fn start(&mut self, pc: u64) {
        self.next = pc;
    }

    /// Does the previous instruction require a check of the next group?
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.owed != Owed::Nothing || self.down.is_some()
    }

    /// Continues after an instruction that needs no check.
    #[inline]
    pub(super) fn advance(&mut self, length: u8) {
        self.next = self.next.wrapping_add(u64::from(length));
    }

    /// Checks the debts of the previous instruction against the next group. True: the group forces another address.
    pub(super) fn arrive(&mut self, group: &Group, out: &mut Out<'_>) -> bool {
        let (position, number) = self.last;
        let is_redirected = group.forced.is_some_and(|forced| forced != self.next);
        match (self.owed, group.forced) {
            (Owed::Target, None) => {
                let detail = format_args!("it branches, but has no target");
                out.add_at(position, number, RuleId::TargetMissing, detail);
            }
            (Owed::Call, _) if is_redirected && !group.follows_exception => self.unseen(position, number, out),
            _ => {}
        }
        if let Some((position, mode)) = self.down.filter(|_| group.forced.is_none()) {
            let detail = format_args!("the mode becomes {mode} without a return from a trap");
            out.add_at(position, number, RuleId::ModeDown, detail);
        }
        self.pc = group.forced.unwrap_or(self.next);
        is_redirected
    }

    /// Reports an exception without an event once.
    pub(super) fn unseen(&mut self, position: Position, instruction: u64, out: &mut Out<'_>) {
        if !self.has_unseen {
            self.has_unseen = true;
            let detail = format_args!("the forced address after it shows an exception, but it has no event");
            out.add_at(position, instruction, RuleId::EventMissing, detail);
        }
    }

    /// Follows the instruction of the group.
    pub(super) fn leave(&mut self, group: &Group, known: &Opcode, is_first: bool, header: &Header, out: &mut Out<'_>) {
        let next = known.next_address(self.pc);
        if let Some((position, target)) = group.target {
            self.check_target(position, known.address(target), group, known, out);
        }
        self.owed = match group.target {
            _ if group.is_excused() || group.target.is_some() || group.events.target.is_some() => Owed::Nothing,
            // A jump to the next instruction can be followed without a record.
            _ if known.always_diverts() && known.target(self.pc) == Some(next) => Owed::Nothing,
            _ if known.always_diverts() => Owed::Target,
            _ if known.is_call() && header.is_riscv() => Owed::Call,
            _ => Owed::Nothing,
        };
        self.change_mode(group, known, is_first, header);
        self.last = (out.position, out.instruction);
        let target = group.events.target.or(group.target.map(|(_, target)| target));
        self.next = target.unwrap_or(self.pc.wrapping_add(u64::from(known.length)));
    }

    fn check_target(&self, position: Position, target: u64, group: &Group, known: &Opcode, out: &mut Out<'_>) {
        if !known.is_known || group.is_excused() {
            return;
        }
        let direct = known.target(self.pc);
        match known.flow {
            ControlFlow::Direct
                if known.conditional && direct != Some(target) && target == known.next_address(self.pc) =>
            {
                let detail =
                    format_args!("the target {target:#x} is the next instruction, so the branch was not taken");
                out.add_in(position, RuleId::TargetNotTaken, detail);
            }
            ControlFlow::Direct => {
                if let Some(direct) = direct.filter(|direct| *direct != target) {
                    let detail = format_args!("the target is {target:#x}, but the opcode branches to {direct:#x}");
                    out.add_in(position, RuleId::TargetOpcode, detail);
                }
            }
            ControlFlow::Indirect | ControlFlow::ExceptionReturn => {}
            _ => {
                let detail = format_args!("the target is {target:#x}, but the instruction is not a branch");
                out.add_in(position, RuleId::TargetNoBranch, detail);
            }
        }
    }

    fn change_mode(&mut self, group: &Group, known: &Opcode, is_first: bool, header: &Header) {
        self.down = None;
        let Some((position, mode)) = group.events.mode else { return };
        let is_down = self.mode.map_or(mode == 0, |before| mode < before);
        // The first instruction sets the initial mode, and a forced address hides what changed it.
        let is_explained = known.flow == ControlFlow::ExceptionReturn || is_first || group.forced.is_some();
        if is_down && !is_explained && (header.is_riscv() || header.set() == Some(Isa::A64)) {
            self.down = Some((position, mode));
        }
        self.mode = Some(mode);
    }
}
