//! Where execution goes: addresses followed from group to group, and what the opcodes say about it.

use unspool_isa::{ControlFlow, Isa};

use super::super::read::Position;
use super::Out;
use super::group::Group;
use super::header::Header;
use super::opcode::Opcode;
use super::rules::RuleId;

/// What is still to be told about the instruction before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Nothing,
    /// It always goes elsewhere, and nothing has said where.
    Target,
    /// It calls those above, and no event says so.
    Call,
}

/// Follows execution.
#[derive(Debug)]
pub(super) struct Flow {
    /// Where the next instruction is, unless its group forces it elsewhere.
    next: u64,
    pc: u64,
    mode: Option<u64>,
    owed: Owed,
    /// An exception without an event was told.
    has_unseen: bool,
    /// A change to a lower mode that the instruction before cannot have made.
    down: Option<(Position, u64)>,
    /// The opcode of the instruction before, where it is, and its number.
    last: (Position, u64),
}

impl Default for Flow {
    fn default() -> Self {
        let nowhere = Position { record: 0, offset: 0 };
        Self { next: 0, pc: 0, mode: None, owed: Owed::Nothing, has_unseen: false, down: None, last: (nowhere, 0) }
    }
}

impl Flow {
    pub(super) fn start(&mut self, pc: u64) {
        self.next = pc;
    }

    /// Has the next group to be looked at, because of the one before?
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.owed != Owed::Nothing || self.down.is_some()
    }

    /// An instruction that nothing can be said about.
    #[inline]
    pub(super) fn go_on(&mut self, length: u8) {
        self.next = self.next.wrapping_add(u64::from(length));
    }

    /// The group says whether what the one before owes was paid. True: it forces execution elsewhere.
    pub(super) fn arrive(&mut self, group: &Group, out: &mut Out<'_>) -> bool {
        let (position, number) = self.last;
        let is_elsewhere = group.forced.is_some_and(|forced| forced != self.next);
        match (self.owed, group.forced) {
            (Owed::Target, None) => {
                let detail = format_args!("it goes elsewhere, and nothing says where");
                out.add_at(position, number, RuleId::TargetMissing, detail);
            }
            (Owed::Call, _) if is_elsewhere => self.unseen(position, number, out),
            _ => {}
        }
        if let Some((position, mode)) = self.down.filter(|_| group.forced.is_none()) {
            let detail = format_args!("the mode becomes {mode} without the return from a trap");
            out.add_at(position, number, RuleId::ModeDown, detail);
        }
        self.pc = group.forced.unwrap_or(self.next);
        is_elsewhere
    }

    /// An instruction raised an exception, and has no event. Told once.
    pub(super) fn unseen(&mut self, position: Position, instruction: u64, out: &mut Out<'_>) {
        if !self.has_unseen {
            self.has_unseen = true;
            let detail = format_args!("it raised an exception, as the forced address behind it shows");
            out.add_at(position, instruction, RuleId::EventMissing, detail);
        }
    }

    /// Where the instruction of the group leads.
    pub(super) fn leave(&mut self, group: &Group, known: &Opcode, is_first: bool, header: &Header, out: &mut Out<'_>) {
        let behind = known.behind(self.pc);
        if let Some((position, target)) = group.target {
            self.check_target(position, known.address(target), group, known, out);
        }
        self.owed = match group.target {
            _ if group.is_excused() || group.target.is_some() || group.events.target.is_some() => Owed::Nothing,
            // A jump to the next instruction needs no record to be followed.
            _ if known.always_diverts() && known.target(self.pc) == Some(behind) => Owed::Nothing,
            _ if known.always_diverts() => Owed::Target,
            _ if known.is_call() => Owed::Call,
            _ => Owed::Nothing,
        };
        self.change_mode(group, known, is_first, header);
        self.last = (out.position, out.instruction);
        let told = group.events.target.or(group.target.map(|(_, target)| target));
        self.next = told.unwrap_or(self.pc.wrapping_add(u64::from(known.length)));
    }

    fn check_target(&self, position: Position, target: u64, group: &Group, known: &Opcode, out: &mut Out<'_>) {
        if !known.is_known || group.is_excused() {
            return;
        }
        let direct = known.target(self.pc);
        match known.flow {
            ControlFlow::Direct if known.conditional && direct != Some(target) && target == known.behind(self.pc) => {
                let detail = format_args!("the target {target:#x} is behind the branch, so it was not taken");
                out.add_in(position, RuleId::TargetNotTaken, detail);
            }
            ControlFlow::Direct => {
                if let Some(direct) = direct.filter(|direct| *direct != target) {
                    let detail = format_args!("the target is {target:#x}, and the opcode says {direct:#x}");
                    out.add_in(position, RuleId::TargetOpcode, detail);
                }
            }
            ControlFlow::Indirect | ControlFlow::ExceptionReturn => {}
            _ => {
                let detail = format_args!("the target is {target:#x}, and the instruction is no branch");
                out.add_in(position, RuleId::TargetNoBranch, detail);
            }
        }
    }

    fn change_mode(&mut self, group: &Group, known: &Opcode, is_first: bool, header: &Header) {
        self.down = None;
        let Some((position, mode)) = group.events.mode else { return };
        let is_down = self.mode.map_or(mode == 0, |before| mode < before);
        // The first instruction tells where the trace starts, and a forced address where something else led.
        let is_led = known.flow == ControlFlow::ExceptionReturn || is_first || group.forced.is_some();
        if is_down && !is_led && (header.is_riscv() || header.set() == Some(Isa::A64)) {
            self.down = Some((position, mode));
        }
        self.mode = Some(mode);
    }
}
