//! One core, followed step by step.
//!
//! steps of a core ─▶ what it did, where it must go on, in which state ─▶ findings
//!
//! Whether an instruction was completed is told by what follows it, so it waits for that.

use unspool_isa::{ControlFlow, Decoded, Target};
use unspool_model::{Branch, Context, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Step};

use super::access::{self, Touched};
use super::context::{Cause, Change};
use super::control_flow::{Known, Next, is_same};
use super::rules::RuleId;
use super::vector::{Bases, Raised};
use super::{Out, Source};

/// Instructions that an IT block may still have, where nobody knows.
const MOST_OF_IT: u8 = 4;

/// What is known of a core.
#[derive(Debug, Clone)]
pub(super) struct Core {
    /// The last instruction, until it is known what became of it.
    last: Option<Last>,
    /// Where the next one is.
    next: Next,
    /// Its instruction set, if that is known, and the address of the last instruction there was.
    isa: Option<Isa>,
    address: u64,
    context: Context,
    /// What happened since the last instruction.
    cause: Cause,
    /// An exception that waits for its handler, and whether a context was told since it or since the last instruction.
    raised: Option<Raised>,
    has_context: bool,
    /// The state was found to be another than that of the instructions; that they are not aligned was found.
    is_told_state: bool,
    is_told_alignment: bool,
    /// Instructions that are, or may be, conditional by an IT instruction.
    it: u8,
    /// Where execution goes on if the transaction fails.
    transaction: Option<u64>,
    time: Option<u64>,
    bases: Bases,
}

impl Default for Core {
    fn default() -> Self {
        Self {
            last: None,
            next: Next::Any,
            isa: None,
            address: 0,
            context: Context::default(),
            cause: Cause { free: true, ..Cause::default() },
            raised: None,
            has_context: false,
            is_told_state: false,
            is_told_alignment: false,
            it: MOST_OF_IT,
            transaction: None,
            time: None,
            bases: Bases::default(),
        }
    }
}

/// An instruction that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) instruction: Instruction,
    pub(super) place: u64,
    pub(super) known: Known,
    pub(super) touched: Touched,
}

impl Core {
    /// Takes the next step.
    #[inline]
    pub(super) fn step(&mut self, step: &Step, source: &mut Source, out: &mut Out<'_>) {
        // What somebody says may be said later, or be of no time at all.
        if source.tells(Facet::Times) && step.event != Event::Note {
            self.time(step, out);
        }
        match &step.event {
            Event::Instruction(instruction) => self.instruction(step, instruction, source, out),
            Event::Exception(exception) => self.exception(step.place, exception, source, out),
            Event::ExceptionReturn { target } => self.exception_return(step.place, *target, source, out),
            Event::Context(context) => self.context(step.place, context, source, out),
            Event::Gap(gap) => self.gap(*gap, source, out),
            Event::State | Event::Note => {}
        }
        if source.tells(Facet::Registers) {
            self.bases.take(step, self.context.level);
        }
    }

    /// There are no more steps.
    pub(super) fn finish(&mut self, source: &Source, out: &mut Out<'_>) {
        let mut source = source.clone();
        self.settle(false, &mut source, out);
    }

    #[inline]
    fn time(&mut self, step: &Step, out: &mut Out<'_>) {
        let Some(time) = step.time else { return };
        if let Some(before) = self.time.replace(time).filter(|before| *before > time) {
            let detail = format_args!("time {time} behind {before}");
            out.add(RuleId::TimeOrder, step.place, (before, time), detail);
        }
    }

    #[inline]
    fn instruction(&mut self, step: &Step, instruction: &Instruction, source: &mut Source, out: &mut Out<'_>) {
        self.settle(true, source, out);
        let place = step.place;
        if !self.next.allows(instruction.isa, instruction.address) && self.transaction != Some(instruction.address) {
            self.is_elsewhere(place, instruction, out);
        }
        if self.isa != Some(instruction.isa) {
            self.other_isa(place, instruction, source, out);
        }
        if self.context.is_aarch64.is_some() {
            self.check_state(place, instruction, out);
        }
        // No exception leads to EL0: if no context is told behind it, the level is not known.
        if self.cause.raised && !self.has_context && self.context.level == Some(0) {
            (self.context.level, self.context.is_handler) = (None, None);
        }
        if self.raised.is_some() {
            self.handler(instruction, out);
        }
        check_length(place, instruction, out);
        let mut known = Known::of(instruction);
        if instruction.isa == Isa::T32 {
            self.within_it(&mut known.decoded);
        }
        if known.decoded.flow == ControlFlow::TransactionStart {
            self.transaction = Some(instruction.address.wrapping_add(4));
        }
        let touched = Touched::of(step);
        // Where instructions are left out, anything may be between two of them.
        let is_complete = source.tells(Facet::Instructions);
        self.next = if is_complete { Next::behind(instruction, &known) } else { Next::Any };
        self.isa = Some(instruction.isa);
        self.address = instruction.address;
        (self.cause, self.has_context) = (Cause { free: !is_complete, ..Cause::default() }, false);
        self.last = Some(Last { instruction: *instruction, place, known, touched });
    }

    /// What follows an IT instruction is conditional.
    fn within_it(&mut self, decoded: &mut Decoded) {
        decoded.conditional |= self.it > 0;
        self.it = if decoded.it > 0 { decoded.it } else { self.it.saturating_sub(1) };
    }

    #[cold]
    fn is_elsewhere(&self, place: u64, instruction: &Instruction, out: &mut Out<'_>) {
        let here = instruction.address;
        let from = self.address;
        let mut add = |there: std::fmt::Arguments<'_>| {
            let behind = if self.cause.raised { "an exception behind " } else { "" };
            let detail = format_args!("at {here:#x}, and {behind}{from:#x} leads to {there}");
            out.add(RuleId::PcContinuity, place, (from, here), detail);
        };
        match self.next {
            Next::Any => {}
            Next::At(there) => add(format_args!("{there:#x}")),
            Next::Either(there, or) if there == or => add(format_args!("{there:#x}")),
            Next::Either(there, or) => add(format_args!("{there:#x} or {or:#x}")),
        }
    }

    /// Another instruction set than before.
    #[cold]
    fn other_isa(&mut self, place: u64, instruction: &Instruction, source: &Source, out: &mut Out<'_>) {
        let (after, before) = (instruction.isa, self.isa);
        self.is_told_state = false;
        let Some(before) = before else { return };
        let is_wrong = match (family(before), family(after)) {
            (Family::RiscV, Family::RiscV) => false,
            (Family::AArch32, Family::AArch32) => !self.cause.is_any() && !self.may_interwork(after),
            _ => !self.cause.is_any() && !self.returned() && source.tells(Facet::Exceptions),
        };
        if is_wrong {
            let detail = format_args!("{} behind {}", after.name(), before.name());
            out.add(RuleId::IsaChange, place, (self.address, instruction.address), detail);
        }
    }

    /// May the last instruction lead to this instruction set of AArch32?
    fn may_interwork(&self, after: Isa) -> bool {
        let Some(last) = &self.last else { return true };
        last.known.decoded.target.map_or(!last.known.falls_through(), |target| target.isa == after)
    }

    #[inline]
    fn check_state(&mut self, place: u64, instruction: &Instruction, out: &mut Out<'_>) {
        let is_a64 = match family(instruction.isa) {
            Family::A64 => true,
            Family::AArch32 => false,
            Family::RiscV => return,
        };
        if self.context.is_aarch64 != Some(is_a64) && !std::mem::replace(&mut self.is_told_state, true) {
            let state = if is_a64 { "AArch32" } else { "AArch64" };
            let detail = format_args!("{} in {state} state", instruction.isa.name());
            out.add(RuleId::IsaState, place, (instruction.address, 0), detail);
        }
    }

    /// The first instruction behind an exception.
    #[cold]
    fn handler(&mut self, instruction: &Instruction, out: &mut Out<'_>) {
        let Some(raised) = self.raised.take() else { return };
        let kind = raised.exception.kind;
        let is_arm = family(instruction.isa) != Family::RiscV;
        let is_plain = !matches!(kind, ExceptionKind::Unknown | ExceptionKind::Debug);
        if is_arm && is_plain && self.context.level == Some(0) {
            let detail = format_args!("{kind:?} to {:#x}, and execution goes on in EL0", instruction.address);
            out.add(RuleId::ExceptionLevel, raised.place, (instruction.address, kind as u64), detail);
            return;
        }
        raised.check(instruction.isa, &self.context, &self.bases, out);
    }

    /// Is it a call of a hypervisor or of firmware that is not told? Then what follows is behind the call.
    fn is_served(&self, exception: &Exception) -> bool {
        let behind = self.last.as_ref().map(|last| last.instruction.address.wrapping_add(4));
        matches!(exception.class, Some(0x16 | 0x17)) && exception.target.is_some() && exception.target == behind
    }

    fn exception(&mut self, place: u64, exception: &Exception, source: &mut Source, out: &mut Out<'_>) {
        self.check_return_address(place, exception, out);
        let is_served = self.is_served(exception);
        self.settle(false, source, out);
        let is_free = matches!(exception.kind, ExceptionKind::Unknown | ExceptionKind::Debug);
        // Of two without an instruction between, the state that the second came from is known if it was told.
        let is_known = !self.cause.is_any() && !self.returned() || self.has_context;
        let from = if is_known { self.context } else { Context::default() };
        let isa = if self.cause.is_any() || self.returned() { None } else { self.isa };
        let target = exception.target.filter(|_| source.tells(Facet::Exceptions));
        self.raised =
            target.filter(|_| !is_served).map(|target| Raised { place, exception: *exception, target, from, isa });
        self.cause.returned |= self.returned();
        self.cause.raised = true;
        self.cause.free |= is_free;
        if exception.kind == ExceptionKind::Reset {
            self.bases = Bases::default();
        }
        // Behind a reset a loader may set the PC.
        let target = target.filter(|_| exception.kind != ExceptionKind::Reset);
        self.next = target.map_or(Next::Any, Next::At);
        (self.last, self.has_context, self.it) = (None, false, 0);
    }

    /// Faults return to their instruction, or behind it; interrupts to where it leads.
    fn check_return_address(&self, place: u64, exception: &Exception, out: &mut Out<'_>) {
        let (Some(back), Some(isa)) = (exception.return_address, self.isa) else { return };
        let is_last = self.last.is_some_and(|last| is_same(isa, last.instruction.address, back));
        let is_call = self.last.is_some_and(|last| {
            is_same(isa, last.instruction.address.wrapping_add(u64::from(last.instruction.length)), back)
        });
        if !is_last && !is_call && !self.next.allows(isa, back) && self.transaction != Some(back) {
            let detail = format_args!("returns to {back:#x}, and the instruction before it is at {:#x}", self.address);
            out.add(RuleId::ExceptionPlace, place, (self.address, back), detail);
        }
    }

    fn exception_return(&mut self, place: u64, target: Option<u64>, source: &mut Source, out: &mut Out<'_>) {
        if let Some(last) = self.last {
            self.check_return_opcode(place, &last, out);
        }
        self.settle(true, source, out);
        self.cause.returned = true;
        (self.raised, self.last, self.has_context, self.it) = (None, None, false, MOST_OF_IT);
        self.next = match target {
            Some(target) => Next::At(target),
            // A branch that has told where it leads says it for its return.
            None => self.next,
        };
    }

    /// Is it an instruction that may return from an exception? M-profile returns by any branch to a register.
    fn check_return_opcode(&self, place: u64, last: &Last, out: &mut Out<'_>) {
        let Known { decoded, is_open, .. } = last.known;
        let is_indirect = last.instruction.isa == Isa::T32 && decoded.flow.is_indirect();
        let is_fine = last.known.returns() || is_open || is_indirect;
        if let Some(opcode) = last.instruction.opcode.filter(|_| !is_fine) {
            let address = last.instruction.address;
            let detail = format_args!("{opcode:#010x} at {address:#x} does not return from an exception");
            out.add(RuleId::ReturnOpcode, place, (address, u64::from(opcode)), detail);
        }
    }

    fn context(&mut self, place: u64, context: &Context, source: &Source, out: &mut Out<'_>) {
        let cause = Cause { returned: self.cause.returned || self.returned(), ..self.cause };
        let change =
            Change { before: &self.context, after: context, cause, isa: self.isa, place, address: self.address };
        change.check(source, out);
        // What tells of no exceptions tells of them so: something led elsewhere.
        if !source.tells(Facet::Exceptions) {
            (self.next, self.isa) = (Next::Any, None);
        }
        (self.context, self.has_context, self.is_told_state) = (*context, true, false);
    }

    fn gap(&mut self, gap: Gap, source: &mut Source, out: &mut Out<'_>) {
        self.settle(false, source, out);
        // Other buffers may be of other times.
        let time = self.time.filter(|_| !matches!(gap, Gap::Start | Gap::Damaged));
        *self = Self { time, address: self.address, ..Self::default() };
    }

    /// The last instruction returns from an exception, if it is still to be seen what became of it.
    #[inline]
    fn returned(&self) -> bool {
        self.last.is_some_and(|last| {
            last.known.returns() && last.instruction.branch != Some(Branch { taken: false, target: None })
        })
    }

    /// What became of the last instruction is known: it was completed, or it may have raised an exception.
    #[inline]
    fn settle(&mut self, is_whole: bool, source: &mut Source, out: &mut Out<'_>) {
        let Some(last) = &self.last else { return };
        let is_aligned = last.instruction.address & alignment(last.instruction.isa) == 0;
        if is_aligned {
            self.is_told_alignment = false;
        } else if is_whole && !std::mem::replace(&mut self.is_told_alignment, true) {
            let (address, isa) = (last.instruction.address, last.instruction.isa.name());
            out.add(RuleId::Alignment, last.place, (address, 0), format_args!("{isa} at {address:#x}"));
        }
        if last.instruction.branch.is_some() || last.instruction.is_executed == Some(false) {
            last.check_outcome(is_whole, out);
        }
        if source.tells(Facet::Accesses) {
            access::check(last, is_whole, source, out);
        }
    }
}

impl Last {
    pub(super) fn is_riscv(&self) -> bool {
        family(self.instruction.isa) == Family::RiscV
    }

    /// Compares what became of it with its opcode.
    fn check_outcome(&self, is_whole: bool, out: &mut Out<'_>) {
        let Instruction { address, isa, branch, is_executed, .. } = self.instruction;
        let Some(opcode) = self.instruction.opcode else { return };
        let Known { decoded, is_open, is_sure } = self.known;
        let conditional = decoded.conditional;
        let mut add = |rule, detail: std::fmt::Arguments<'_>| {
            let detail = format_args!("{opcode:#010x} at {address:#x} {detail}");
            out.add(rule, self.place, (address, u64::from(opcode)), detail);
        };
        let is_taken = branch.map(|branch| branch.taken);
        // Whether T32 has a condition depends on what came before.
        let may_fail = conditional || is_open || isa == Isa::T32;
        let is_a32_branch = isa == Isa::A32 && decoded.flow == ControlFlow::Direct;
        match (is_executed, is_taken) {
            (Some(false), _) if !may_fail => add(RuleId::Condition, format_args!("has no condition, and it failed")),
            (Some(false), Some(true)) => add(RuleId::Condition, format_args!("is taken, and its condition failed")),
            (Some(true), Some(false)) if conditional && is_a32_branch => {
                add(RuleId::Condition, format_args!("is not taken, and its condition held"));
            }
            (_, Some(_)) if is_sure => {
                add(RuleId::BranchOpcode, format_args!("is no branch, and has the outcome of one"));
            }
            (_, Some(false)) if !may_fail && is_whole && decoded.flow.is_branch() => {
                add(RuleId::BranchTaken, format_args!("has no condition, and is not taken"));
            }
            _ => {}
        }
        let behind = address.wrapping_add(u64::from(self.instruction.length));
        // Some tell so that a branch is not taken.
        let told = branch.filter(|branch| branch.taken).and_then(|branch| branch.target);
        let told = told.filter(|told| !conditional || !is_same(isa, *told, behind));
        if let (Some(told), Some(Target { address: target, isa })) = (told, decoded.target)
            && !is_same(isa, told, target)
        {
            add(RuleId::BranchTarget, format_args!("leads to {target:#x}, and went to {told:#x}"));
        }
    }
}

/// Compares how many bytes an instruction has with its opcode.
#[inline]
fn check_length(place: u64, instruction: &Instruction, out: &mut Out<'_>) {
    let &Instruction { address, length, opcode, isa, .. } = instruction;
    let expected = match (isa, opcode) {
        (Isa::A64 | Isa::A32, _) => 4,
        (Isa::T32, Some(half @ 0..=0xffff)) if length == 2 => Isa::T32.length(half as u16),
        (Isa::T32, Some(word)) => Isa::T32.length((word >> 16) as u16).max(if length == 2 { 4 } else { 2 }),
        // Longer forms have lengths that nobody asks for.
        (Isa::Rv32 | Isa::Rv64, Some(opcode)) if opcode & 0x1f != 0x1f => isa.length(opcode as u16),
        _ => return,
    };
    if length != expected {
        let detail = format_args!("{} of {length} bytes at {address:#x}, and its opcode has {expected}", isa.name());
        out.add(RuleId::OpcodeLength, place, (address, u64::from(length)), detail);
    }
}

/// Instruction sets between which no branch leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    A64,
    AArch32,
    RiscV,
}

#[inline]
fn family(isa: Isa) -> Family {
    match isa {
        Isa::A64 => Family::A64,
        Isa::A32 | Isa::T32 => Family::AArch32,
        Isa::Rv32 | Isa::Rv64 => Family::RiscV,
    }
}

/// The bits of an address that are zero.
#[inline]
fn alignment(isa: Isa) -> u64 {
    match isa {
        Isa::A64 | Isa::A32 => 0b11,
        Isa::T32 | Isa::Rv32 | Isa::Rv64 => 0b01,
    }
}
