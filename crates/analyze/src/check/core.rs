//! The state machine of one core.
//!
//! steps of a core ─▶ last instruction, next address, state ─▶ findings
//!
//! Whether an instruction was completed shows only in the steps after it, so its checks wait for them.

use unspool_isa::{ControlFlow, Decoded};
use unspool_model::{Branch, Context, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Step};

use super::access;
use super::blocks::State;
use super::context::{Cause, Change};
use super::control_flow::{Known, Next, is_same};
use super::exception_vectors::{Bases, Raised};
use super::last::{Last, Touched};
use super::report::{Reporter, Source};
use super::rules::RuleId;

/// Maximum number of instructions of an IT block, assumed where the block is unknown.
const MAX_IT_BLOCK: u8 = 4;

#[derive(Debug, Clone)]
pub(super) struct Core {
    /// The last instruction, until its outcome is known.
    last: Option<Last>,
    /// Expected address of the next instruction.
    next: Next,
    /// The current instruction set, if known, and the address of the last instruction.
    isa: Option<Isa>,
    address: u64,
    context: Context,
    /// Events since the last instruction.
    cause: Cause,
    /// An exception that waits for its handler, and whether a context was reported since it or since the last instruction.
    raised: Option<Raised>,
    has_context: bool,
    /// Whether a wrong Execution state and misaligned instructions were reported.
    is_state_reported: bool,
    is_alignment_reported: bool,
    /// Number of following instructions that are, or may be, in an IT block.
    it: u8,
    /// The address at which execution continues if the transaction fails.
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
            is_state_reported: false,
            is_alignment_reported: false,
            it: MAX_IT_BLOCK,
            transaction: None,
            time: None,
            bases: Bases::default(),
        }
    }
}

impl Core {
    /// Checks the next step.
    #[inline]
    pub(super) fn step(&mut self, step: &Step, source: &mut Source, out: &mut Reporter<'_>) {
        // The time of a note may be later, or meaningless.
        if source.covers(Facet::Times) && step.event != Event::Note {
            self.time(step, out);
        }
        match &step.event {
            Event::Instruction(instruction) => self.instruction(step, instruction, source, out),
            Event::Exception(exception) => self.exception(step.position, exception, source, out),
            Event::ExceptionReturn { target } => self.exception_return(step.position, *target, source, out),
            Event::Context(context) => self.context(step.position, context, source, out),
            Event::Gap(gap) => self.gap(*gap, source, out),
            Event::State | Event::Note => {}
        }
        if source.covers(Facet::Registers) {
            self.bases.record(step, self.context.level);
        }
    }

    /// Continues after instructions that need no check. The state around them does not change.
    pub(super) fn skip(&mut self, source: &mut Source, out: &mut Reporter<'_>) {
        self.settle(true, source, out);
        self.cause = Cause { free: !source.covers(Facet::Instructions), ..Cause::default() };
        (self.last, self.next, self.isa, self.it) = (None, Next::Any, None, MAX_IT_BLOCK);
        (self.raised, self.has_context) = (None, false);
    }

    /// Continues after an execution of a block that gives no finding, nor does the instruction before or after it.
    #[inline]
    pub(super) fn skip_clean(&mut self) {
        (self.last, self.next) = (None, Next::Any);
    }

    /// State that the findings of blocks depend on. `None`: on more than that.
    pub(super) fn state_of_blocks(&self, core: u32, source: &Source) -> Option<State> {
        let is_plain = self.transaction.is_none() && !self.is_alignment_reported && self.isa != Some(Isa::T32);
        is_plain.then(|| State::new(core, self.context, self.isa, source))
    }

    /// Checks what is left at the end of the steps.
    pub(super) fn finish(&mut self, source: &Source, out: &mut Reporter<'_>) {
        let mut source = source.clone();
        self.settle(false, &mut source, out);
    }

    #[inline]
    fn time(&mut self, step: &Step, out: &mut Reporter<'_>) {
        let Some(time) = step.time else { return };
        if let Some(before) = self.time.replace(time).filter(|before| *before > time) {
            let detail = format_args!("time {time} after {before}");
            out.add(RuleId::TimeOrder, step.position, (before, time), detail);
        }
    }

    #[inline]
    fn instruction(&mut self, step: &Step, instruction: &Instruction, source: &mut Source, out: &mut Reporter<'_>) {
        self.settle(true, source, out);
        let position = step.position;
        if !self.next.allows(instruction.isa, instruction.address) && self.transaction != Some(instruction.address) {
            self.add_discontinuity(position, instruction, out);
        }
        if self.isa != Some(instruction.isa) {
            self.check_isa_change(position, instruction, source, out);
        }
        if self.context.is_aarch64.is_some() {
            self.check_state(position, instruction, out);
        }
        // No exception leads to EL0: without a context after it, the level is unknown.
        if self.cause.raised && !self.has_context && self.context.level == Some(0) {
            (self.context.level, self.context.is_handler) = (None, None);
        }
        if self.raised.is_some() {
            self.check_handler(instruction, out);
        }
        check_length(position, instruction, out);
        let mut known = Known::of(instruction);
        if instruction.isa == Isa::T32 {
            self.within_it(&mut known.decoded);
        }
        if known.decoded.flow == ControlFlow::TransactionStart {
            self.transaction = Some(instruction.address.wrapping_add(4));
        }
        let touched = Touched::of(step);
        // If the source omits instructions, anything may be between two of them.
        let is_complete = source.covers(Facet::Instructions);
        self.next = if is_complete { Next::after(instruction, &known) } else { Next::Any };
        self.isa = Some(instruction.isa);
        self.address = instruction.address;
        (self.cause, self.has_context) = (Cause { free: !is_complete, ..Cause::default() }, false);
        self.last = Some(Last { instruction: *instruction, position, known, touched });
    }

    /// Tracks IT blocks, whose instructions are conditional.
    fn within_it(&mut self, decoded: &mut Decoded) {
        decoded.conditional |= self.it > 0;
        self.it = if decoded.it > 0 { decoded.it } else { self.it.saturating_sub(1) };
    }

    #[cold]
    fn add_discontinuity(&self, position: u64, instruction: &Instruction, out: &mut Reporter<'_>) {
        let here = instruction.address;
        let from = self.address;
        let mut add = |there: std::fmt::Arguments<'_>| {
            let exception = if self.cause.raised { "an exception after " } else { "" };
            let detail = format_args!("at {here:#x}, but {exception}{from:#x} leads to {there}");
            out.add(RuleId::PcContinuity, position, (from, here), detail);
        };
        match self.next {
            Next::Any => {}
            Next::At(there) => add(format_args!("{there:#x}")),
            Next::Either(there, or) if there == or => add(format_args!("{there:#x}")),
            Next::Either(there, or) => add(format_args!("{there:#x} or {or:#x}")),
        }
    }

    /// Checks a change of the instruction set.
    #[cold]
    fn check_isa_change(&mut self, position: u64, instruction: &Instruction, source: &Source, out: &mut Reporter<'_>) {
        let (after, before) = (instruction.isa, self.isa);
        self.is_state_reported = false;
        let Some(before) = before else { return };
        let is_wrong = if before.is_riscv() && after.is_riscv() {
            false
        } else if before.is_aarch32() && after.is_aarch32() {
            !self.cause.is_any() && !self.may_interwork(after)
        } else {
            !self.cause.is_any() && !self.returned() && source.covers(Facet::Exceptions)
        };
        if is_wrong {
            let detail = format_args!("{} after {}", after.name(), before.name());
            out.add(RuleId::IsaChange, position, (self.address, instruction.address), detail);
        }
    }

    /// Whether the last instruction may switch to this AArch32 instruction set.
    fn may_interwork(&self, after: Isa) -> bool {
        let Some(last) = &self.last else { return true };
        last.known.decoded.target.map_or(!last.known.falls_through(), |target| target.isa == after)
    }

    #[inline]
    fn check_state(&mut self, position: u64, instruction: &Instruction, out: &mut Reporter<'_>) {
        let is_a64 = instruction.isa == Isa::A64;
        if !is_a64 && !instruction.isa.is_aarch32() {
            return;
        }
        if self.context.is_aarch64 != Some(is_a64) && !std::mem::replace(&mut self.is_state_reported, true) {
            let state = if is_a64 { "AArch32" } else { "AArch64" };
            let detail = format_args!("{} in {state} state", instruction.isa.name());
            out.add(RuleId::IsaState, position, (instruction.address, 0), detail);
        }
    }

    /// Checks the first instruction after an exception.
    #[cold]
    fn check_handler(&mut self, instruction: &Instruction, out: &mut Reporter<'_>) {
        let Some(raised) = self.raised.take() else { return };
        let kind = raised.exception.kind;
        let is_arm = !instruction.isa.is_riscv();
        let is_plain = !matches!(kind, ExceptionKind::Unknown | ExceptionKind::Debug);
        if is_arm && is_plain && self.context.level == Some(0) {
            let detail = format_args!("{kind:?} to {:#x}, but execution continues in EL0", instruction.address);
            out.add(RuleId::ExceptionLevel, raised.position, (instruction.address, kind as u64), detail);
            return;
        }
        raised.check(instruction.isa, &self.context, &self.bases, out);
    }

    /// Whether it is a hypervisor or firmware call that is not traced: its target is the instruction after the call.
    fn is_untraced_call(&self, exception: &Exception) -> bool {
        let next = self.last.as_ref().map(|last| last.instruction.address.wrapping_add(4));
        matches!(exception.class, Some(0x16 | 0x17)) && exception.target.is_some() && exception.target == next
    }

    fn exception(&mut self, position: u64, exception: &Exception, source: &mut Source, out: &mut Reporter<'_>) {
        self.check_return_address(position, exception, out);
        let is_untraced_call = self.is_untraced_call(exception);
        self.settle(false, source, out);
        let is_free = matches!(exception.kind, ExceptionKind::Unknown | ExceptionKind::Debug);
        // Of two exceptions without an instruction between them, the state before the second is known only if reported.
        let is_known = !self.cause.is_any() && !self.returned() || self.has_context;
        let from = if is_known { self.context } else { Context::default() };
        let isa = if self.cause.is_any() || self.returned() { None } else { self.isa };
        let target = exception.target.filter(|_| source.covers(Facet::Exceptions));
        let traced = target.filter(|_| !is_untraced_call);
        self.raised = traced.map(|target| Raised { position, exception: *exception, target, from, isa });
        self.cause.returned |= self.returned();
        self.cause.raised = true;
        self.cause.free |= is_free;
        if exception.kind == ExceptionKind::Reset {
            self.bases = Bases::default();
        }
        // After a reset, a loader may set the PC.
        let target = target.filter(|_| exception.kind != ExceptionKind::Reset);
        self.next = target.map_or(Next::Any, Next::At);
        (self.last, self.has_context, self.it) = (None, false, 0);
    }

    /// Checks the return address: faults return to their instruction or after it, interrupts to where it leads.
    fn check_return_address(&self, position: u64, exception: &Exception, out: &mut Reporter<'_>) {
        let (Some(back), Some(isa)) = (exception.return_address, self.isa) else { return };
        let is_last = self.last.is_some_and(|last| is_same(isa, last.instruction.address, back));
        let is_call = self.last.is_some_and(|last| {
            is_same(isa, last.instruction.address.wrapping_add(u64::from(last.instruction.length)), back)
        });
        if !is_last && !is_call && !self.next.allows(isa, back) && self.transaction != Some(back) {
            let detail = format_args!("returns to {back:#x}, but the preceding instruction is at {:#x}", self.address);
            out.add(RuleId::ExceptionPlace, position, (self.address, back), detail);
        }
    }

    fn exception_return(&mut self, position: u64, target: Option<u64>, source: &mut Source, out: &mut Reporter<'_>) {
        if let Some(last) = self.last {
            self.check_return_opcode(position, &last, out);
        }
        self.settle(true, source, out);
        self.cause.returned = true;
        (self.raised, self.last, self.has_context, self.it) = (None, None, false, MAX_IT_BLOCK);
        self.next = match target {
            Some(target) => Next::At(target),
            // The branch that returns may have reported its target.
            None => self.next,
        };
    }

    /// Checks whether an instruction may return from an exception. M-profile returns by any indirect branch.
    fn check_return_opcode(&self, position: u64, last: &Last, out: &mut Reporter<'_>) {
        let Known { decoded, is_open, .. } = last.known;
        let is_indirect = last.instruction.isa == Isa::T32 && decoded.flow.is_indirect();
        let is_fine = last.known.returns() || is_open || is_indirect;
        if let Some(opcode) = last.instruction.opcode.filter(|_| !is_fine) {
            let address = last.instruction.address;
            let detail = format_args!("{opcode:#010x} at {address:#x} does not return from an exception");
            out.add(RuleId::ReturnOpcode, position, (address, u64::from(opcode)), detail);
        }
    }

    fn context(&mut self, position: u64, context: &Context, source: &Source, out: &mut Reporter<'_>) {
        let cause = Cause { returned: self.cause.returned || self.returned(), ..self.cause };
        let change =
            Change { before: &self.context, after: context, cause, isa: self.isa, position, address: self.address };
        change.check(source, out);
        // If the source does not report exceptions, a context may stand for one.
        if !source.covers(Facet::Exceptions) {
            (self.next, self.isa) = (Next::Any, None);
        }
        (self.context, self.has_context, self.is_state_reported) = (*context, true, false);
    }

    fn gap(&mut self, gap: Gap, source: &mut Source, out: &mut Reporter<'_>) {
        self.settle(false, source, out);
        // Another buffer may have been recorded at another time.
        let time = self.time.filter(|_| !matches!(gap, Gap::Start | Gap::Damaged));
        *self = Self { time, address: self.address, ..Self::default() };
    }

    /// Whether the last instruction, with its outcome still to come, returns from an exception.
    #[inline]
    fn returned(&self) -> bool {
        self.last.is_some_and(|last| {
            last.known.returns() && last.instruction.branch != Some(Branch { taken: false, target: None })
        })
    }

    /// Checks the last instruction once its outcome is known: completed (`is_whole`), or possibly with an exception.
    #[inline]
    fn settle(&mut self, is_whole: bool, source: &mut Source, out: &mut Reporter<'_>) {
        let Some(last) = &self.last else { return };
        let is_aligned = last.instruction.address % last.instruction.isa.alignment() == 0;
        if is_aligned {
            self.is_alignment_reported = false;
        } else if is_whole && !std::mem::replace(&mut self.is_alignment_reported, true) {
            let (address, isa) = (last.instruction.address, last.instruction.isa.name());
            out.add(RuleId::Alignment, last.position, (address, 0), format_args!("{isa} at {address:#x}"));
        }
        if last.instruction.branch.is_some() || last.instruction.is_executed == Some(false) {
            last.check_outcome(is_whole, out);
        }
        if source.covers(Facet::Accesses) {
            access::check(last, is_whole, source, out);
        }
    }
}

/// Compares the length of an instruction with its opcode.
#[inline]
fn check_length(position: u64, instruction: &Instruction, out: &mut Reporter<'_>) {
    let &Instruction { address, length, opcode, isa, .. } = instruction;
    let expected = match (isa, opcode) {
        (Isa::A64 | Isa::A32, _) => 4,
        (Isa::T32, Some(half @ 0..=0xffff)) if length == 2 => Isa::T32.length(half as u16),
        (Isa::T32, Some(word)) => Isa::T32.length((word >> 16) as u16).max(if length == 2 { 4 } else { 2 }),
        // Encodings longer than 32 bits are not checked.
        (Isa::Rv32 | Isa::Rv64, Some(opcode)) if opcode & 0x1f != 0x1f => isa.length(opcode as u16),
        _ => return,
    };
    if length != expected {
        let detail = format_args!("{} of {length} bytes at {address:#x}, but its opcode has {expected}", isa.name());
        out.add(RuleId::OpcodeLength, position, (address, u64::from(length)), detail);
    }
}
