//! One core of a capture: feeds its trace unit with its steps.
//!
//! steps of a core ─▶ instruction pending until the next step shows its outcome ─▶ **trace unit**

mod blocks;

use unspool_coresight::etm3::unit::Access;
use unspool_coresight::unit::{Class, Executed};
use unspool_coresight::{Context as PacketContext, Security as PacketSecurity, SubIsa, Target};
use unspool_isa::decode;
use unspool_model::{
    Access as MemoryAccess, Context, Direction, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Security,
    SinkError, Step, TimeUnit,
};

use self::blocks::Blocks;
use super::image::Image;
use super::known::{KNOWN, Known, Pending, outcome, slot};
use super::output::CHUNK;
use super::settings::UnitSettings;
use super::totals::Encoded;
use super::unit::{Classes, Unit, trcit};
use super::values::Values;

/// One core, its trace unit, and the instruction whose outcome the next step shows.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) settings: UnitSettings,
    pub(super) id: u8,
    pub(super) unit: Unit,
    /// Bytes of trace that are collected before they are written.
    pub(super) collects: usize,
    pub(super) image: Image,
    known: Vec<Known>,
    blocks: Blocks,
    pending: Option<Pending>,
    context: Context,
    context_is_new: bool,
    is_aarch64: bool,
    last_isa: SubIsa,
    /// Instructions that an IT instruction makes conditional.
    in_it: u8,
    classes: Classes,
    /// Whether context and virtual context identifiers are traced or compared.
    needs_ids: (bool, bool),
    /// An event log has the code that the image cannot have.
    pub(super) code_may_change: bool,
    /// Context identifiers are those of threads, where they are known.
    pub(super) has_thread_ids: bool,
    /// Accesses are traced, and those of the pending instruction.
    traces_data: bool,
    accesses: Vec<Access>,
    /// Values of registers, if instructions may write them into the trace, and that of the pending one.
    values: Option<Values>,
    instrumentation: Option<u64>,
    /// Neither data nor values are traced.
    is_plain: bool,
    counts_time: bool,
    time: Option<u64>,
    /// Totals, except those of the trace unit.
    totals: Encoded,
}

impl Core {
    pub(super) fn new(settings: UnitSettings, id: u8, time_unit: TimeUnit) -> Self {
        // No instruction is at the last address.
        let executed = Executed { address: u64::MAX, ..Executed::default() };
        let empty = Known { executed, target: 0, target_isa: None, opcode: 0, isa: Isa::A64, it: 0 };
        Self {
            unit: Unit::new(&settings),
            collects: CHUNK,
            classes: Classes::of(&settings),
            needs_ids: settings.needs_ids(),
            traces_data: settings.traces_data(),
            values: settings.traces_instrumentation().then(Values::default),
            instrumentation: None,
            is_plain: !settings.traces_data() && !settings.traces_instrumentation(),
            accesses: Vec::new(),
            settings,
            id,
            image: Image::default(),
            known: vec![empty; KNOWN],
            blocks: Blocks::default(),
            pending: None,
            context: Context::default(),
            context_is_new: true,
            is_aarch64: true,
            last_isa: SubIsa::Is0,
            in_it: 0,
            code_may_change: false,
            has_thread_ids: false,
            counts_time: time_unit == TimeUnit::Cycles,
            time: None,
            totals: Encoded { cores: 1, ..Encoded::default() },
        }
    }

    pub(super) fn totals(&self) -> Encoded {
        Encoded { overflowed: self.unit.overflowed(), has_times: self.time.is_some(), ..self.totals }
    }

    #[inline]
    pub(super) fn step(&mut self, step: &Step) -> Result<(), SinkError> {
        let Event::Instruction(instruction) = &step.event else {
            self.event(&step.event);
            self.learn(step);
            return Ok(());
        };
        if self.is_plain && self.continues(instruction) {
            self.pass_time(step.time);
            return Ok(());
        }
        self.instruction(step, instruction)
    }

    /// Handles a step that is not an instruction.
    #[inline(never)]
    fn event(&mut self, event: &Event) {
        match event {
            Event::Exception(exception) => self.exception(exception),
            Event::Context(context) => {
                self.context = context.over(&self.context);
                self.context_is_new = true;
            }
            Event::Gap(Gap::TransactionFailed) => self.fail_transaction(),
            Event::Gap(gap) => {
                self.end();
                if *gap == Gap::Overflow {
                    self.unit.overflow();
                }
            }
            Event::Instruction(_) | Event::State | Event::ExceptionReturn { .. } | Event::Note => {}
        }
    }

    /// Fast path: a known instruction that follows the pending one. False: not such a case.
    #[inline(always)]
    fn continues(&mut self, instruction: &Instruction) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        let known = &self.known[slot(instruction.address)];
        let is_moved = self.context_is_new || (instruction.isa == Isa::A64) != self.is_aarch64;
        if !known.is_of(instruction) || is_moved || self.in_it | known.it > 0 {
            return false;
        }
        let at = Target { address: instruction.address, isa: known.executed.isa };
        match pending.known.executed.class {
            Class::Other | Class::Barrier if at == pending.known.next() => {}
            class if !class.is_branch() => return false,
            _ => match outcome(&pending.known, pending.taken, at) {
                Some(taken) => pending.known.executed.taken = taken,
                None => return false,
            },
        }
        self.totals.instructions += 1;
        if !self.counts_time {
            self.unit.cycles(1);
        }
        self.unit.instruction(&pending.known.executed);
        self.last_isa = at.isa;
        *pending = Pending::new(known, instruction);
        true
    }

    /// Handles any instruction: new ones, those in another context, those that do not follow.
    #[inline(never)]
    fn instruction(&mut self, step: &Step, instruction: &Instruction) -> Result<(), SinkError> {
        let known = self.lookup(step, instruction)?;
        let at = Target { address: instruction.address, isa: known.executed.isa };
        self.last_isa = at.isa;
        if let Some(pending) = self.pending {
            if at != pending.known.next() {
                // An IT instruction applies to those right after it only.
                self.in_it = 0;
            }
            self.resolve(&pending, at);
        }
        if self.context_is_new || (instruction.isa == Isa::A64) != self.is_aarch64 {
            self.change_context(instruction.isa == Isa::A64);
        }
        self.pass_time(step.time);
        let mut pending = Pending::new(&known, instruction);
        pending.known.executed.conditional |= self.in_it > 0;
        self.in_it = self.in_it.saturating_sub(1).max(known.it);
        self.pending = Some(pending);
        if self.traces_data {
            self.accesses.clear();
            self.accesses.extend(step.accesses().flat_map(words));
        }
        if known.executed.class == Class::Instrumentation {
            self.instrumentation = trcit(known.opcode).and_then(|number| self.values.as_ref()?.get(number));
        }
        self.learn(step);
        Ok(())
    }

    /// Learns the values of registers, where they matter.
    fn learn(&mut self, step: &Step) {
        if let Some(values) = &mut self.values {
            values.learn(step);
        }
    }

    /// Decodes the instruction, or finds it among the known ones. A new one is added to the program image.
    fn lookup(&mut self, step: &Step, instruction: &Instruction) -> Result<Known, SinkError> {
        let known = &self.known[slot(instruction.address)];
        if known.is_of(instruction) { Ok(*known) } else { self.discover(step, instruction) }
    }

    #[inline(never)]
    fn discover(&mut self, step: &Step, instruction: &Instruction) -> Result<Known, SinkError> {
        let refuse = |reason: String| SinkError::Refused { position: Some(step.position), reason };
        let address = instruction.address;
        let isa = instruction.isa;
        if let Some(reason) = self.classes.refusal(isa) {
            return Err(refuse(reason.into()));
        }
        let low_bits = if isa == Isa::T32 { 1 } else { 3 };
        if address & low_bits != 0 || address & !isa.address_mask() != 0 {
            return Err(refuse(format!("no {:?} instruction can be at {address:#x}", instruction.isa)));
        }
        let opcode = instruction.opcode.ok_or_else(|| {
            refuse(format!("the opcode at {address:#x} is unknown, so no decoder could follow the trace there"))
        })?;
        let decoded = decode(isa, address, opcode);
        match self.image.add(address, isa, opcode, decoded.length) {
            Err(at) if !self.code_may_change => return Err(refuse(changed(at))),
            _ => {}
        }
        let class = self.classes.class(isa, opcode, decoded.flow);
        let (conditional, link, length) = (decoded.conditional, decoded.link, decoded.length);
        let sub_isa = sub_isa(isa);
        let changes_isa = decoded.target.is_some_and(|target| self::sub_isa(target.isa) != sub_isa);
        let executed = Executed { address, isa: sub_isa, length, class, conditional, link, taken: true, changes_isa };
        let known = Known {
            executed,
            target: decoded.target_address().unwrap_or(0),
            target_isa: decoded.target.map(|target| self::sub_isa(target.isa)),
            opcode,
            isa: instruction.isa,
            it: decoded.it,
        };
        // An instruction with another effect than an element never takes the fast path.
        if class.is_branch() || matches!(class, Class::Other | Class::Barrier) {
            self.known[slot(address)] = known;
        }
        Ok(known)
    }

    /// Completes the pending instruction: execution continues at `next`.
    fn resolve(&mut self, pending: &Pending, next: Target) {
        self.pending = None;
        let mut executed = pending.known.executed;
        if !executed.class.is_branch() {
            self.execute(&executed);
            if next != pending.known.next() {
                self.break_off(pending.known.next(), Some(next));
            }
            return;
        }
        match outcome(&pending.known, pending.taken, next) {
            Some(taken) => {
                executed.taken = taken;
                self.execute(&executed);
            }
            None => self.resolve_alone(pending, Some(next)),
        }
    }

    /// Execution is at this address, and continues elsewhere: a transaction fails, or steps are missing.
    fn break_off(&mut self, at: Target, next: Option<Target>) {
        match next.is_some() && self.unit.transaction_restart() == next {
            true => self.unit.transaction_failure(at),
            false => self.halt(at),
        }
    }

    /// Completes the pending instruction without a successor: execution continues elsewhere, at `next` if that is known.
    #[inline(never)]
    fn resolve_alone(&mut self, pending: &Pending, next: Option<Target>) {
        self.pending = None;
        let mut executed = pending.known.executed;
        let is_branch = executed.class.is_branch();
        // A source that reports an unconditional branch as not taken is not trusted further.
        let taken = match (pending.taken, executed.conditional) {
            (Some(false), false) if is_branch => None,
            (taken, conditional) => taken.or((!conditional).then_some(true)),
        };
        match taken {
            Some(taken) => {
                executed.taken = taken;
                self.execute(&executed);
                let fails = next.is_some() && self.unit.transaction_restart() == next;
                match is_branch && taken {
                    true if fails => self.unit.transaction_failure(self.expected(pending)),
                    true => self.stop(pending),
                    false => self.break_off(pending.known.next(), next),
                }
            }
            // Its outcome is unknown: the trace ends before it.
            None if is_branch => self.break_off(Target { address: executed.address, isa: executed.isa }, next),
            None => {
                self.execute(&executed);
                self.break_off(pending.known.next(), next);
            }
        }
    }

    fn execute(&mut self, executed: &Executed) {
        self.totals.instructions += 1;
        if !self.counts_time {
            self.unit.cycles(1);
        }
        self.unit.instruction(executed);
        if self.traces_data {
            self.unit.accesses(self.accesses.drain(..));
        }
        if executed.class == Class::Instrumentation && self.values.is_some() {
            self.write_value();
        }
    }

    /// The value of the last instruction goes into the trace.
    fn write_value(&mut self) {
        match self.instrumentation.take() {
            Some(value) => self.unit.instrumentation(value),
            None => self.totals.unknown_values += 1,
        }
    }

    fn halt(&mut self, at: Target) {
        self.totals.breaks += 1;
        self.unit.halt(at);
        self.unit.transaction_end();
    }

    /// Stops after a taken branch.
    fn stop(&mut self, branch: &Pending) {
        self.totals.breaks += 1;
        let is_known = branch.branch_target.is_some() || branch.known.target().is_some();
        self.unit.stop(is_known.then(|| self.expected(branch)));
        self.unit.transaction_end();
    }

    /// Ends the trace at a break between steps.
    pub(super) fn end(&mut self) {
        if let Some(pending) = self.pending {
            self.resolve_alone(&pending, None);
        }
        self.in_it = 0;
    }

    /// A transaction fails, and execution continues where it started.
    fn fail_transaction(&mut self) {
        let Some(restart) = self.unit.transaction_restart() else { return self.end() };
        match self.pending {
            Some(pending) => self.resolve_alone(&pending, Some(restart)),
            None => self.unit.transaction_failure(restart),
        }
    }

    fn exception(&mut self, exception: &Exception) {
        self.in_it = 0;
        let Some(pending) = self.pending else {
            // No instruction ran before: the exception interrupts the PE at the return address.
            self.renew_context();
            if let Some(address) = exception.return_address {
                let number = self.unit.exception_number(exception, false);
                self.unit.exception(number, Target { address, isa: self.last_isa });
            }
            return;
        };
        let at = Target { address: pending.known.executed.address, isa: pending.known.executed.isa };
        let next = self.expected(&pending);
        let return_address = exception.return_address.map_or(next, |address| Target { address, isa: next.isa });
        let repeats = return_address.address == at.address;
        let may_fail = exception.kind == ExceptionKind::Synchronous && pending.taken.is_none();
        if repeats && (may_fail || next.address != at.address) {
            // The instruction was attempted, and will be repeated.
            self.pending = None;
            let number = self.unit.exception_number(exception, false);
            self.unit.attempt(&pending.known.executed, number);
            self.renew_context();
            return self.unit.exception(number, at);
        }
        let is_call = exception.class.is_none() && pending.known.is_call();
        self.resolve(&pending, return_address);
        self.renew_context();
        self.unit.exception(self.unit.exception_number(exception, is_call), return_address);
    }

    /// Successor of the instruction, as far as it is known without the next step.
    fn expected(&self, pending: &Pending) -> Target {
        if let Some(address) = pending.branch_target {
            let isa = pending.known.target().map_or(pending.known.executed.isa, |target| target.isa);
            return Target { address, isa };
        }
        let is_taken = pending.taken.unwrap_or(!pending.known.executed.conditional);
        pending.known.target().filter(|_| is_taken).unwrap_or(pending.known.next())
    }

    /// Applies a new context without an instruction.
    fn renew_context(&mut self) {
        if self.context_is_new {
            self.change_context(self.is_aarch64);
        }
    }

    #[inline(never)]
    fn change_context(&mut self, is_aarch64: bool) {
        (self.context_is_new, self.is_aarch64) = (false, is_aarch64);
        let is_known = self.context.level.is_some() && self.context.security.is_some();
        self.totals.assumed_contexts += u64::from(!is_known);
        let is_missing =
            (self.needs_ids.0 && self.context_id().is_none()) || (self.needs_ids.1 && self.context.vmid.is_none());
        self.totals.assumed_identifiers += u64::from(is_missing);
        let security = match self.context.security {
            Some(Security::Secure) => PacketSecurity::Secure,
            Some(Security::Root) => PacketSecurity::Root,
            Some(Security::Realm) => PacketSecurity::Realm,
            Some(Security::NonSecure) | None => PacketSecurity::NonSecure,
        };
        self.unit.context(PacketContext {
            el: self.context.level.unwrap_or(0) & 3,
            aarch64: is_aarch64,
            security,
            vmid: self.context.vmid,
            // A context identifier has 32 bits.
            context_id: self.context_id().map(|id| id as u32),
        });
    }

    fn context_id(&self) -> Option<u64> {
        self.context.thread.filter(|_| self.has_thread_ids).or(self.context.process)
    }

    #[inline]
    fn pass_time(&mut self, time: Option<u64>) {
        let Some(now) = time else { return };
        if self.counts_time {
            self.unit.cycles(now.saturating_sub(self.time.unwrap_or(now)));
        }
        self.time = Some(now);
        self.unit.time(now);
    }
}

/// Why code that changes is refused.
pub(super) fn changed(address: u64) -> String {
    format!("the code at {address:#x} has changed, and no time or process shows which is executed; cut the trace there")
}

fn sub_isa(isa: Isa) -> SubIsa {
    if isa == Isa::T32 { SubIsa::Is1 } else { SubIsa::Is0 }
}

/// Greatest number of bytes that an instruction of A32 or T32 accesses.
const MAX_ACCESS: u64 = 128;

/// The words of an access, each with its value if all of its bytes are known.
fn words(access: MemoryAccess<'_>) -> impl Iterator<Item = Access> {
    let is_none = access.direction == Direction::Neither;
    let size = if is_none { 0 } else { access.size.min(MAX_ACCESS) };
    (0..size).step_by(4).map(move |offset| {
        let length = (size - offset).min(4) as usize;
        let known = access.bytes.get(offset as usize..).and_then(|bytes| bytes.get(..length));
        let known = known.filter(|bytes| bytes.iter().all(|(_, mask)| *mask == 0xff));
        let value = known.map(|bytes| bytes.iter().rev().fold(0, |value, (byte, _)| value << 8 | u32::from(*byte)));
        Access { address: access.address.wrapping_add(offset) as u32, value }
    })
}
