//! Complete steps, in order, become calls of the builder.

use unspool_isa::{ControlFlow, call_number};
use unspool_model::{Context, Event, Gap, Instruction, Isa, Loss, SinkError, Step, note};

use super::super::builder::{self, BuildError, Effect, RecordSink};
use super::access::{self, sanitized};
use super::open::Open;
use super::raised::Syndrome;
use super::refusal::{refusal, refuse, refuse_trace};
use super::registers::Next;
use super::state::{Due, is_whole};
use super::unrecorded_access::UnrecordedAccess;
use super::{Lowerer, operand::Operands};

/// Maximum bytes of a string.
const MAX_TEXT: usize = 65_535;

impl<S: RecordSink> Lowerer<S> {
    /// Writes a step to which nothing will be added.
    #[inline]
    pub(super) fn emit(&mut self, step: &Step) -> Result<(), SinkError> {
        match &step.event {
            Event::Instruction(instruction) => self.instruction(step, instruction),
            Event::Exception(exception) => self.exception(step, exception),
            Event::ExceptionReturn { target } => self.exception_return(step, *target),
            Event::Context(context) => self.context(step, context),
            Event::Gap(gap) => self.gap(step, *gap),
            Event::Note => self.note(step),
            Event::State => self.state(step),
        }
    }

    /// The trace ends.
    pub(super) fn end(&mut self) -> Result<(), SinkError> {
        self.close()?;
        if self.known.waits() && !self.is_unsupported {
            self.write_context(None)?;
        }
        if self.has_instruction {
            return Ok(());
        }
        refuse_trace("ASTF has AArch64 instructions only, and none can be written")
    }

    #[inline]
    fn instruction(&mut self, step: &Step, instruction: &Instruction) -> Result<(), SinkError> {
        self.close()?;
        if self.syndrome.is_known() {
            self.syndrome = Syndrome::default();
        }
        match instruction.isa {
            Isa::A64 => {}
            Isa::A32 | Isa::T32 => return self.foreign(step),
            Isa::Rv32 | Isa::Rv64 => {
                return refuse(step.position, "ASTF has AArch64 instructions only, and this one is RISC-V");
            }
        }
        self.known.execute(true);
        let Some(opcode) = instruction.opcode else {
            self.count_effects(step);
            self.registers.set_next(Next::Nowhere);
            self.losses.add(Loss::UnknownOpcodes, step.position);
            self.unknown_opcode = Some(step.position);
            return Ok(());
        };
        if instruction.is_executed == Some(false) && instruction.branch.is_none() {
            self.losses.add(Loss::Conditions, step.position);
        }
        self.set_accesses(step, opcode);
        let info = *self.infos.of(opcode);
        self.open = Some(Open {
            position: step.position,
            time: step.time,
            address: instruction.address,
            opcode,
            info,
            branch: instruction.branch,
            za_index: instruction.za_index,
        });
        if self.registers.is_tracking() || info.has_address {
            self.before_effects();
        }
        // Its own writes come after.
        self.count_effects(step);
        Ok(())
    }

    /// Uses the registers as they are before the instruction writes any.
    fn before_effects(&mut self) {
        let Some(open) = &self.open else { return };
        self.registers.arrive(open.address);
        self.registers.set_next(open.next());
        if open.info.has_address && self.accesses.is_empty() {
            let open = *open;
            self.derive(&open);
        }
        if self.registers.are_operands() {
            self.registers.forget();
        } else if self.open.is_some_and(|open| open.info.sets) {
            self.registers.change_stack();
        }
    }

    /// Derives the accesses that no source reports, should nothing keep the instruction from completing.
    #[cold]
    fn derive(&mut self, open: &Open) {
        let (level, stack) = (self.known.level(), self.known.stack());
        let operands = Operands { opcode: open.opcode, pc: open.address, registers: &self.registers, level, stack };
        self.derived.clear();
        self.missing = operands.accesses(open.info.access.operation, &mut self.derived).err();
        if self.missing.is_some() {
            // Some may have been derived.
            self.derived.clear();
        }
        for access in &mut self.derived {
            access.address = sanitized(access.address, level);
        }
    }

    #[inline]
    fn set_accesses(&mut self, step: &Step, opcode: u32) {
        self.accesses.clear();
        if step.accesses().len() == 0 {
            return;
        }
        let info = self.infos.of(opcode);
        for access in step.accesses() {
            let address = sanitized(access.address, self.known.level());
            if address != access.address {
                self.losses.add(Loss::Tags, step.position);
            }
            self.accesses.push(access::from_step(&access, address, opcode, info));
        }
    }

    /// Counts the loss of registers and data.
    #[inline]
    pub(super) fn count_effects(&mut self, step: &Step) {
        let registers = step.registers().len();
        if registers > 0 {
            self.losses.add_many(Loss::Registers, registers as u64, step.position);
            self.learn(step);
        }
        let data = step.accesses().filter(|access| !access.bytes.is_empty()).count();
        if data > 0 {
            self.losses.add_many(Loss::Data, data as u64, step.position);
        }
    }

    /// Registers describe exceptions, and addresses are computed from them.
    fn learn(&mut self, step: &Step) {
        let mut syndrome = Syndrome::default();
        for write in step.registers() {
            syndrome.learn(&write);
            self.registers.learn(&write);
        }
        self.syndrome = syndrome.over(self.syndrome);
    }

    /// An AArch32 instruction, which the format cannot represent.
    fn foreign(&mut self, step: &Step) -> Result<(), SinkError> {
        self.losses.add(Loss::Instructions, step.position);
        self.registers.forget();
        if !self.is_basic && !self.is_unsupported {
            self.advance(step)?;
        }
        self.known.execute(false);
        if self.is_basic || self.is_unsupported { Ok(()) } else { self.enter_unsupported(step.position) }
    }

    /// Writes a context in a mode that the format does not support.
    pub(super) fn enter_unsupported(&mut self, position: u64) -> Result<(), SinkError> {
        self.registers.forget();
        let state = self.known.unsupported();
        self.builder.context(&state).map_err(|error| refusal(error, Some(position)))?;
        (self.written, self.is_unsupported) = (Some(state), true);
        self.known.written();
        Ok(())
    }

    /// Completes the last instruction.
    #[inline]
    pub(super) fn close(&mut self) -> Result<(), SinkError> {
        if let Some(open) = self.open.take() {
            return self.write(&open).map_err(|error| self.unwritten(&open, error));
        }
        match self.unknown_opcode.take() {
            Some(position) if !self.is_basic => refuse(
                position,
                "the opcode is unknown, and a BasicPlus trace needs all of them: write a Basic trace or leave it out",
            ),
            Some(_) => {
                self.known.due = Due::Yes;
                Ok(())
            }
            None => Ok(()),
        }
    }

    #[inline]
    fn write(&mut self, open: &Open) -> Result<(), BuildError> {
        if self.is_basic && open.info.flow == ControlFlow::SupervisorCall {
            return self.write_call(open);
        }
        self.advance_to(open.time, open.position)?;
        self.arrive(open)?;
        if open.info.has_address && self.accesses.is_empty() {
            self.accesses.append(&mut self.derived);
        }
        if self.leaves_out
            && self.accesses.is_empty()
            && let Some(kind) = UnrecordedAccess::of(&open.info.access)
            // Many of these have no address.
            && (kind != UnrecordedAccess::TranslationMaintenance || self.missing.is_some())
        {
            self.left_out.add(kind, open.address);
            return self.leave_out(open);
        }
        access::merge(&mut self.accesses, &open.info);
        let Some(effect) = self.effect(open) else { return self.leave_out(open) };
        let effect = if effect == Effect::None { Effect::Accesses(&self.accesses) } else { effect };
        let step =
            builder::Step { effect, sme_index: open.za_index, ..builder::Step::plain(open.address, open.opcode) };
        self.builder.instruction(&step)?;
        self.after_instruction();
        if open.info.sets {
            self.known.set(open.opcode);
        }
        if open.info.flow.is_branch() {
            self.after_branch(open);
        }
        Ok(())
    }

    /// The refusal of an instruction, with what is missing.
    #[cold]
    fn unwritten(&self, open: &Open, error: BuildError) -> SinkError {
        match self.missing.filter(|_| open.info.has_address && self.accesses.is_empty()) {
            Some(missing) if matches!(error, BuildError::Rule { .. }) => SinkError::Refused {
                position: Some(open.position),
                reason: format!("{error}: it depends on {}, which the source does not report", missing.0),
            },
            _ => refusal(error, Some(open.position)),
        }
    }

    /// Writes an instruction and the exception that it raised.
    pub(super) fn write_raised(&mut self, open: &Open, raised: builder::Exception) -> Result<(), BuildError> {
        self.advance_to(open.time, open.position)?;
        self.arrive(open)?;
        let effect = match open.info.flow {
            ControlFlow::Direct | ControlFlow::Indirect => Effect::NotTaken,
            _ => Effect::Accesses(&self.accesses),
        };
        self.builder.instruction(&builder::Step {
            pc: open.address,
            opcode: open.opcode,
            effect,
            sme_index: open.za_index,
            exception: Some(raised),
        })?;
        self.after_instruction();
        Ok(())
    }

    /// A supervisor call without a reported exception: it raised one nevertheless.
    fn write_call(&mut self, open: &Open) -> Result<(), BuildError> {
        let call = builder::Call { kind: builder::CallKind::Svc, index: call_number(open.opcode) };
        self.write_raised(open, builder::Exception { class: 0, call: Some(call), target: 0 })?;
        self.known.due = Due::Yes;
        Ok(())
    }

    #[inline]
    pub(super) fn after_instruction(&mut self) {
        self.has_instruction = true;
        self.known.is_redirected = false;
        self.is_explained = false;
    }

    /// Its effect besides accesses; `None`: unknown.
    #[inline]
    fn effect(&self, open: &Open) -> Option<Effect<'static>> {
        let taken = open.branch.map(|branch| branch.taken);
        let target = open.branch.and_then(|branch| branch.target).or(open.info.target(open.address));
        match open.info.flow {
            flow if !flow.is_branch() => Some(Effect::None),
            ControlFlow::ExceptionReturn if self.is_basic => Some(Effect::None),
            ControlFlow::ExceptionReturn => Some(Effect::ExceptionReturn(target?)),
            _ if taken == Some(false) => Some(Effect::NotTaken),
            _ if open.info.conditional && taken.is_none() => None,
            _ => Some(Effect::Taken(target?)),
        }
    }

    fn after_branch(&mut self, open: &Open) {
        let lost = self.accesses.len() as u64;
        if open.info.flow == ControlFlow::ExceptionReturn {
            self.known.redirect(false);
            self.is_explained = self.is_basic;
        } else if lost > 0 {
            self.losses.add_many(Loss::Accesses, lost, open.position);
        }
    }

    /// Leaves out an instruction whose outcome is unknown.
    fn leave_out(&mut self, open: &Open) -> Result<(), BuildError> {
        if !self.is_basic && !self.is_ending {
            let what = if open.info.conditional {
                "has a condition, and whether it held is unknown"
            } else {
                "has an unknown target"
            };
            return Err(BuildError::Effect { opcode: open.opcode, pc: open.address, what });
        }
        self.losses.add(Loss::Instructions, open.position);
        self.known.due = Due::Yes;
        self.is_explained = true;
        Ok(())
    }

    /// Writes what has to precede an instruction.
    #[inline]
    fn arrive(&mut self, open: &Open) -> Result<(), BuildError> {
        if self.known.due != Due::No {
            self.put_context()?;
        }
        if open.info.access.vector && !self.known.has_modes() {
            let what = "is a vector instruction, and the vector length is unknown: assume one (--assume vl=BITS)";
            return Err(BuildError::Effect { opcode: open.opcode, pc: open.address, what });
        }
        if self.is_basic && self.builder.next().is_some_and(|next| next != open.address) {
            if !self.is_explained {
                self.builder.string(b"gap: execution goes on elsewhere")?;
            }
            self.known.due = Due::Yes;
            self.put_context()?;
        }
        Ok(())
    }

    pub(super) fn write_context(&mut self, position: Option<u64>) -> Result<(), SinkError> {
        self.put_context().map_err(|error| refusal(error, position))
    }

    /// Writes the context that is due.
    pub(super) fn put_context(&mut self) -> Result<(), BuildError> {
        if self.known.is_aarch32() {
            // An AArch32 context is written when an instruction of that kind follows, or not at all.
            return Ok(());
        }
        let state = self.known.state().map_err(BuildError::State)?;
        if self.known.due == Due::Yes || self.written != Some(state) {
            self.builder.context(&state)?;
        }
        (self.written, self.is_unsupported) = (Some(state), false);
        self.known.written();
        Ok(())
    }

    fn context(&mut self, step: &Step, context: &Context) -> Result<(), SinkError> {
        self.close()?;
        let is_supported = !self.is_unsupported || self.known.is_aarch64();
        if self.known.waits() && is_whole(context) && !self.known.is_aarch32() && is_supported {
            self.write_context(Some(step.position))?;
        }
        if !self.is_unsupported || context.is_aarch64 == Some(true) {
            self.advance(step)?;
        }
        if context.level.is_some() || context.is_handler.is_some() {
            self.registers.change_stack();
        }
        self.count_effects(step);
        if context.vmid.is_some() {
            self.losses.add(Loss::VirtualMachines, step.position);
        }
        self.known.learn(context, self.is_basic);
        if context.thread.is_some() && self.known.is_thread_alone() {
            self.losses.add(Loss::Processes, step.position);
        }
        Ok(())
    }

    fn gap(&mut self, step: &Step, gap: Gap) -> Result<(), SinkError> {
        self.close()?;
        self.registers.forget();
        if !self.is_basic && gap == Gap::Start && self.known.is_vague() {
            return self.enter_unsupported(step.position);
        }
        if gap == Gap::Start && !self.has_instruction {
            return Ok(());
        }
        if !self.is_basic {
            let reason = format!(
                "{}: a BasicPlus trace has no gaps; use --split for one file per range, or --astf-level basic",
                gap_text(gap)
            );
            return refuse(step.position, &reason);
        }
        self.advance(step)?;
        let text = format!("gap: {}", gap_text(gap));
        self.builder.string(text.as_bytes()).map_err(|error| refusal(error, Some(step.position)))?;
        self.known.due = Due::Yes;
        Ok(())
    }

    fn note(&mut self, step: &Step) -> Result<(), SinkError> {
        self.close()?;
        if self.is_unsupported {
            self.losses.add(Loss::Notes, step.position);
            return Ok(());
        }
        self.advance(step)?;
        if self.known.waits() {
            self.write_context(Some(step.position))?;
        }
        let mut text = step.note();
        loop {
            let (part, rest) = note::split(text, MAX_TEXT);
            self.builder.string(part.as_bytes()).map_err(|error| refusal(error, Some(step.position)))?;
            text = rest;
            if text.is_empty() {
                return Ok(());
            }
        }
    }

    /// Contents that no instruction caused; an empty one records that time passed.
    fn state(&mut self, step: &Step) -> Result<(), SinkError> {
        let contents = step.registers().len() + step.accesses().len();
        if contents > 0 {
            if !self.registers.are_operands() {
                self.losses.add_many(Loss::State, contents as u64, step.position);
            }
            step.registers().for_each(|write| self.registers.learn(&write));
            return Ok(());
        }
        self.close()?;
        self.advance(step)
    }
}

/// Text of a gap. It is written into traces.
fn gap_text(gap: Gap) -> String {
    match gap {
        Gap::Start => "tracing starts again".into(),
        Gap::Overflow => "the trace unit had no room".into(),
        Gap::Discard => "the trace unit threw away what was not committed".into(),
        Gap::NoCode(address) => format!("there is no code at {address:#x}"),
        Gap::Damaged => "the trace is damaged".into(),
        Gap::Contradiction => "trace and code contradict each other".into(),
        Gap::TransactionFailed => "a transaction failed, and what it did since its start did not happen".into(),
    }
}
