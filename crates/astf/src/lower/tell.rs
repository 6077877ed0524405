//! Steps in order, each with all that is known of it, as what the builder takes.

use unspool_isa::{ControlFlow, call_number};
use unspool_model::{Branch, Context, Event, Gap, Instruction, Isa, Loss, SinkError, Step};

use super::super::builder::{self, BuildError, Effect, RecordSink};
use super::access::sanitized;
use super::operand::Operands;
use super::raised::Syndrome;
use super::registers::Next;
use super::state::{Due, is_whole};
use super::untold::Untold;
use super::word::Word;
use super::{Lowerer, access, resolve};

/// The most bytes that a string has.
const MOST_TEXT: usize = 65_535;

/// An instruction that may still raise an exception.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub(super) position: u64,
    pub(super) time: Option<u64>,
    pub(super) address: u64,
    pub(super) opcode: u32,
    pub(super) word: Word,
    pub(super) branch: Option<Branch>,
    za_index: Option<u8>,
}

impl<S: RecordSink> Lowerer<S> {
    /// Takes a step of which all is known that ever will be.
    #[inline]
    pub(super) fn tell(&mut self, step: &Step) -> Result<(), SinkError> {
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
        let reason = "ASTF has instructions of AArch64 only, and there is none that can be written";
        Err(SinkError::Refused { position: None, reason: reason.into() })
    }

    #[inline]
    fn instruction(&mut self, step: &Step, instruction: &Instruction) -> Result<(), SinkError> {
        self.close()?;
        if self.syndrome.is_told() {
            self.syndrome = Syndrome::default();
        }
        match instruction.isa {
            Isa::A64 => {}
            Isa::A32 | Isa::T32 => return self.foreign(step),
            Isa::Rv32 | Isa::Rv64 => {
                return refuse(step.position, "ASTF has instructions of AArch64, and this is one of RISC-V");
            }
        }
        self.known.execute(true);
        let Some(opcode) = instruction.opcode else {
            self.count_effects(step);
            self.registers.go_on(Next::Nowhere);
            self.losses.add(Loss::UnknownOpcodes, step.position);
            self.blank = Some(step.position);
            return Ok(());
        };
        if instruction.is_executed == Some(false) && instruction.branch.is_none() {
            self.losses.add(Loss::Conditions, step.position);
        }
        self.take_accesses(step, opcode);
        let word = *self.words.of(opcode);
        self.open = Some(Open {
            position: step.position,
            time: step.time,
            address: instruction.address,
            opcode,
            word,
            branch: instruction.branch,
            za_index: instruction.za_index,
        });
        if self.registers.follow() || word.has_address {
            self.before_effects();
        }
        // What it writes was not so before.
        self.count_effects(step);
        Ok(())
    }

    /// What registers say of the instruction, which comes before what it writes.
    fn before_effects(&mut self) {
        let Some(open) = &self.open else { return };
        self.registers.arrive(open.address);
        self.registers.go_on(next(open));
        if open.word.has_address && self.accesses.is_empty() {
            let open = *open;
            self.derive(&open);
        }
        if self.registers.are_operands() {
            self.registers.forget();
        } else if self.open.is_some_and(|open| open.word.sets) {
            self.registers.change_stack();
        }
    }

    /// Where an instruction goes that no source shows, should nothing keep it from completing.
    #[cold]
    fn derive(&mut self, open: &Open) {
        let (level, stack) = (self.known.level(), self.known.stack());
        let operands = Operands { opcode: open.opcode, pc: open.address, registers: &self.registers, level, stack };
        self.derived.clear();
        self.missing = operands.accesses(open.word.access.operation, &mut self.derived).err();
        if self.missing.is_some() {
            // There may be half of them.
            self.derived.clear();
        }
        for access in &mut self.derived {
            access.address = sanitized(access.address, level);
        }
    }

    #[inline]
    fn take_accesses(&mut self, step: &Step, opcode: u32) {
        self.accesses.clear();
        if step.accesses().len() == 0 {
            return;
        }
        let word = self.words.of(opcode);
        for access in step.accesses() {
            let address = sanitized(access.address, self.known.level());
            if address != access.address {
                self.losses.add(Loss::Tags, step.position);
            }
            self.accesses.push(access::piece(&access, address, opcode, word));
        }
    }

    /// Registers and data are lost.
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

    /// Registers tell of exceptions, and are what addresses are made of.
    fn learn(&mut self, step: &Step) {
        let mut syndrome = Syndrome::default();
        for write in step.registers() {
            syndrome.take(&write);
            self.registers.learn(&write);
        }
        self.syndrome = syndrome.over(self.syndrome);
    }

    /// An instruction of AArch32: nothing is told of such.
    fn foreign(&mut self, step: &Step) -> Result<(), SinkError> {
        self.losses.add(Loss::Instructions, step.position);
        self.registers.forget();
        if !self.is_basic && !self.is_unsupported {
            self.advance(step)?;
        }
        self.known.execute(false);
        if self.is_basic || self.is_unsupported { Ok(()) } else { self.enter_unsupported(step.position) }
    }

    /// A context with a mode that the format does not support.
    pub(super) fn enter_unsupported(&mut self, position: u64) -> Result<(), SinkError> {
        self.registers.forget();
        let state = self.known.unsupported();
        self.builder.context(&state).map_err(|error| refusal(error, Some(position)))?;
        (self.written, self.is_unsupported) = (Some(state), true);
        self.known.written();
        Ok(())
    }

    /// Nothing more belongs to the last instruction.
    #[inline]
    pub(super) fn close(&mut self) -> Result<(), SinkError> {
        if let Some(open) = self.open.take() {
            return self.write(&open).map_err(|error| self.unwritten(&open, error));
        }
        match self.blank.take() {
            Some(position) if !self.is_basic => refuse(
                position,
                "nobody knows the opcode: a BasicPlus trace has them all, \
                 write a Basic one or leave it out",
            ),
            Some(_) => {
                self.known.due = Due::Yes;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Writes an instruction.
    #[inline]
    fn write(&mut self, open: &Open) -> Result<(), BuildError> {
        if self.is_basic && open.word.flow == ControlFlow::SupervisorCall {
            return self.write_call(open);
        }
        self.advance_to(open.time, open.position)?;
        self.arrive(open)?;
        if open.word.has_address && self.accesses.is_empty() {
            self.accesses.append(&mut self.derived);
        }
        if self.leaves_out
            && self.accesses.is_empty()
            && let Some(kind) = Untold::of(&open.word.access)
            // Many of these have no address.
            && (kind != Untold::TranslationMaintenance || self.missing.is_some())
        {
            self.left_out.add(kind, open.address);
            return self.leave_out(open);
        }
        access::shape(&mut self.accesses, &open.word);
        let Some(effect) = self.effect(open) else { return self.leave_out(open) };
        let effect = if effect == Effect::None { Effect::Accesses(&self.accesses) } else { effect };
        let step =
            builder::Step { effect, sme_index: open.za_index, ..builder::Step::plain(open.address, open.opcode) };
        self.builder.instruction(&step)?;
        self.go_on();
        if open.word.sets {
            self.known.set(open.opcode);
        }
        if open.word.flow.is_branch() {
            self.behind_branch(open);
        }
        Ok(())
    }

    /// Why it is not, and what would have to be known.
    #[cold]
    fn unwritten(&self, open: &Open, error: BuildError) -> SinkError {
        match self.missing.filter(|_| open.word.has_address && self.accesses.is_empty()) {
            Some(missing) if matches!(error, BuildError::Rule { .. }) => SinkError::Refused {
                position: Some(open.position),
                reason: format!("{error}: it depends on {}, which the source does not tell", missing.0),
            },
            _ => refusal(error, Some(open.position)),
        }
    }

    /// Writes an instruction, and the exception that it raised.
    pub(super) fn write_raised(&mut self, open: &Open, raised: builder::Exception) -> Result<(), BuildError> {
        self.advance_to(open.time, open.position)?;
        self.arrive(open)?;
        let effect = match open.word.flow {
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
        self.go_on();
        Ok(())
    }

    /// A call of the kernel that nobody tells the exception of: it raised one, whatever became of it.
    fn write_call(&mut self, open: &Open) -> Result<(), BuildError> {
        let call = builder::Call { kind: builder::CallKind::Svc, index: call_number(open.opcode) };
        self.write_raised(open, builder::Exception { class: 0, call: Some(call), target: 0 })?;
        self.known.due = Due::Yes;
        Ok(())
    }

    /// An instruction was written.
    #[inline]
    pub(super) fn go_on(&mut self) {
        self.has_instruction = true;
        self.known.is_redirected = false;
        self.is_explained = false;
    }

    /// What it did besides accesses; `None`: nobody knows.
    #[inline]
    fn effect(&self, open: &Open) -> Option<Effect<'static>> {
        let taken = open.branch.map(|branch| branch.taken);
        let target = open.branch.and_then(|branch| branch.target).or(open.word.target(open.address));
        match open.word.flow {
            flow if !flow.is_branch() => Some(Effect::None),
            ControlFlow::ExceptionReturn if self.is_basic => Some(Effect::None),
            ControlFlow::ExceptionReturn => Some(Effect::ExceptionReturn(target?)),
            _ if taken == Some(false) => Some(Effect::NotTaken),
            _ if open.word.conditional && taken.is_none() => None,
            _ => Some(Effect::Taken(target?)),
        }
    }

    fn behind_branch(&mut self, open: &Open) {
        let lost = self.accesses.len() as u64;
        if open.word.flow == ControlFlow::ExceptionReturn {
            self.known.redirect(false);
            self.is_explained = self.is_basic;
        } else if lost > 0 {
            self.losses.add_many(Loss::Accesses, lost, open.position);
        }
    }

    /// Nobody knows what became of it.
    fn leave_out(&mut self, open: &Open) -> Result<(), BuildError> {
        if !self.is_basic && !self.is_ending {
            let what = if open.word.conditional {
                "has a condition, and nobody says whether it held"
            } else {
                "leads to where nobody knows"
            };
            return Err(BuildError::Effect { opcode: open.opcode, pc: open.address, what });
        }
        self.losses.add(Loss::Instructions, open.position);
        self.known.due = Due::Yes;
        self.is_explained = true;
        Ok(())
    }

    /// Writes what has to stand before an instruction.
    #[inline]
    fn arrive(&mut self, open: &Open) -> Result<(), BuildError> {
        if self.known.due != Due::No {
            self.put_context()?;
        }
        if open.word.access.vector && !self.known.has_modes() {
            let what = "is one of vectors, and nobody says how long they are: assume a length (--assume vl=BITS)";
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
            // It is told when an instruction of that kind comes, or not at all.
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
        self.known.tell(context, self.is_basic);
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
            let reason =
                format!("{}: a BasicPlus trace has no gaps, write a Basic one or cut the trace here", words(gap));
            return Err(SinkError::Refused { position: Some(step.position), reason });
        }
        self.advance(step)?;
        let text = format!("gap: {}", words(gap));
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
            let (part, rest) = text.split_at(text.floor_char_boundary(MOST_TEXT));
            self.builder.string(part.as_bytes()).map_err(|error| refusal(error, Some(step.position)))?;
            text = rest;
            if text.is_empty() {
                return Ok(());
            }
        }
    }

    /// Contents that no instruction caused; without any, time passed.
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

impl Open {
    /// Execution goes on there.
    pub(super) fn resolve(&mut self, next: Option<u64>) {
        let mut instruction = Instruction {
            address: self.address,
            opcode: Some(self.opcode),
            branch: self.branch,
            ..Instruction::default()
        };
        resolve(&mut instruction, next);
        self.branch = instruction.branch;
    }
}

/// Where execution goes on behind an instruction, if it raises no exception.
fn next(open: &Open) -> Next {
    let behind = Next::At(open.address.wrapping_add(4));
    let taken = open.branch.map(|branch| branch.taken);
    let target = open.branch.and_then(|branch| branch.target).or(open.word.target(open.address));
    match open.word.flow {
        // What answers a call may be hidden.
        flow if flow.is_exception() => Next::Nowhere,
        flow if !flow.is_branch() => behind,
        _ if taken == Some(false) => behind,
        _ if open.word.conditional && taken.is_none() => Next::Nowhere,
        _ => target.map_or(Next::Nowhere, Next::At),
    }
}

/// What a gap is.
fn words(gap: Gap) -> String {
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

pub(super) fn refuse<T>(position: u64, reason: &str) -> Result<T, SinkError> {
    Err(SinkError::Refused { position: Some(position), reason: reason.into() })
}

/// Why the builder does not write it, and what to do.
#[cold]
pub(super) fn refusal(error: BuildError, position: Option<u64>) -> SinkError {
    let advice = match &error {
        BuildError::Io(_) => "",
        BuildError::TimestampMissing => ": the source tells no time of what comes first",
        BuildError::Discontinuity { .. } => ": what is between is missing, write a Basic trace or cut it here",
        BuildError::OtherLevel { .. } => ": write a BasicPlus one",
        BuildError::ContextMissing => ": the source does not tell the state",
        BuildError::Rule { rule, .. } if rule.name == "astf-memory-ea-valid" => ": the source does not tell the access",
        _ => "",
    };
    match error {
        BuildError::Io(error) => SinkError::Io(error),
        error => SinkError::Refused { position, reason: format!("{error}{advice}") },
    }
}
