//! Exceptions and their returns: which instruction raised one, and what the builder has to be told of it.

use unspool_isa::ControlFlow;
use unspool_model::{Branch, Exception, ExceptionKind, Facet, Isa, Loss, SinkError, Step};

use super::super::access::{Access, Extent};
use super::super::builder::{self, BuildError, RecordSink, Redirection};
use super::Lowerer;
use super::access::sanitized;
use super::raised::{Syndrome, call, is_data_abort, is_fetch};
use super::registers::Next;
use super::state::Due;
use super::tell::{Open, refusal, refuse};

/// The exception class of a system error.
const SERROR: u8 = 0x2f;

impl<S: RecordSink> Lowerer<S> {
    pub(super) fn exception(&mut self, step: &Step, exception: &Exception) -> Result<(), SinkError> {
        self.change_next(exception);
        if self.is_unsupported && self.open.is_none() && !self.is_leaving(exception.target) {
            self.losses.add(Loss::Exceptions, step.position);
            return Ok(());
        }
        self.count_effects(step);
        if exception.return_address.is_some() {
            self.losses.add(Loss::ReturnAddresses, step.position);
        }
        let syndrome = std::mem::take(&mut self.syndrome);
        let class = exception.class.or(syndrome.class());
        match exception.kind {
            ExceptionKind::Synchronous => return self.synchronous(step, exception, class, &syndrome),
            ExceptionKind::Unknown if class.is_some() => return self.synchronous(step, exception, class, &syndrome),
            _ => {}
        }
        if let Some(open) = &mut self.open {
            open.resolve(exception.return_address.or(syndrome.elr));
        }
        self.close()?;
        if self.is_basic {
            self.losses.add(Loss::Exceptions, step.position);
            self.is_explained = true;
            return Ok(());
        }
        let is_virtual = exception.is_virtual.unwrap_or(false);
        let by = match exception.kind {
            ExceptionKind::Reset => Redirection::Reset,
            ExceptionKind::Irq => Redirection::Irq { is_virtual },
            ExceptionKind::Fiq => Redirection::Fiq { is_virtual },
            ExceptionKind::SError => Redirection::SError { class: class.unwrap_or(SERROR), is_virtual },
            ExceptionKind::Debug => return self.halt(step),
            ExceptionKind::Unknown | ExceptionKind::Synchronous => {
                return refuse(step.position, "nobody says what kind of exception this is, and ASTF has to tell");
            }
        };
        self.redirect(step, by, exception.target)
    }

    /// Registers stay as they are, if it is known where execution goes on.
    fn change_next(&mut self, exception: &Exception) {
        self.registers.change_stack();
        self.registers.go_on(exception.target.map_or(Next::Nowhere, Next::At));
        if exception.kind == ExceptionKind::Reset {
            self.registers.forget();
        }
    }

    /// Debug state is a mode that the format does not support.
    fn halt(&mut self, step: &Step) -> Result<(), SinkError> {
        self.losses.add(Loss::Exceptions, step.position);
        self.advance(step)?;
        self.known.due = Due::Yes;
        if self.is_unsupported { Ok(()) } else { self.enter_unsupported(step.position) }
    }

    /// Execution is redirected, and no instruction that is told is the cause.
    fn redirect(&mut self, step: &Step, by: Redirection, target: Option<u64>) -> Result<(), SinkError> {
        let target = match target {
            // Before the first instruction, it counts only if it leads there.
            target if !self.has_instruction && !self.is_unsupported && !self.is_next(target) => None,
            None if !self.is_ending => {
                return refuse(step.position, "nobody says where this exception leads, and ASTF has to");
            }
            target => target,
        };
        let Some(target) = target else {
            self.losses.add(Loss::Exceptions, step.position);
            return Ok(());
        };
        self.needs_levels(step.position)?;
        self.advance(step)?;
        if self.known.waits() && !self.is_unsupported {
            self.write_context(Some(step.position))?;
        }
        self.builder.redirected(by, target).map_err(|error| refusal(error, Some(step.position)))?;
        self.known.redirect(by != Redirection::ExceptionReturn);
        Ok(())
    }

    /// Behind an exception another level holds.
    fn needs_levels(&self, position: u64) -> Result<(), SinkError> {
        if self.coverage.has(Facet::Levels) {
            return Ok(());
        }
        refuse(
            position,
            "an exception leads to another Exception level, and the source does not tell them: \
             write a Basic trace",
        )
    }

    /// Does the instruction that follows stand there?
    fn is_next(&self, target: Option<u64>) -> bool {
        self.coming.is_some_and(|coming| Some(coming.address) == target)
    }

    /// Does it lead out of a mode that the format does not support?
    fn is_leaving(&self, target: Option<u64>) -> bool {
        self.is_next(target) && self.coming.is_some_and(|coming| coming.isa == Isa::A64)
    }

    /// An exception that an instruction caused, or that of one that is not told.
    fn synchronous(
        &mut self,
        step: &Step,
        exception: &Exception,
        class: Option<u8>,
        syndrome: &Syndrome,
    ) -> Result<(), SinkError> {
        let is_fetched = self.blank.take().is_none();
        let open = self.open.filter(|open| is_fetched && open.branch.is_none() && !is_fetch(class));
        let class = class.or(open.and_then(|open| open.word.class()));
        if self.is_basic {
            return self.synchronous_in_basic(step, exception, open.as_ref());
        }
        let Some(class) = class else {
            return refuse(step.position, "nobody says the class of this exception, and ASTF has to");
        };
        let Some(open) = open else {
            return self.without_instruction(step, exception, class);
        };
        let Some(target) = exception.target else {
            return self.without_target(step, &open);
        };
        self.needs_levels(step.position)?;
        let call = call(exception, class, Some((open.opcode, &open.word)));
        let told = self.accesses.len();
        if let Some(address) = syndrome.far.filter(|_| told == 0 && is_data_abort(class)) {
            let address = sanitized(address, self.known.level());
            let extent = Extent::Bytes(open.word.access.bytes.unwrap_or(1));
            self.accesses.push(Access { address, extent, read: false, write: false, tagged: false });
        }
        self.open = None;
        match self.write_raised(&open, builder::Exception { class, call, target }) {
            Ok(()) => {}
            // Then it was not this instruction, but one behind it that is not told.
            Err(BuildError::Rule { .. }) if open.word.class().is_none() => {
                self.accesses.truncate(told);
                self.open = Some(open);
                return self.without_instruction(step, exception, class);
            }
            Err(error) => return Err(refusal(error, Some(step.position))),
        }
        if self.is_other_time(step.time, open.time) {
            self.losses.add(Loss::Times, step.position);
        }
        self.known.redirect(true);
        Ok(())
    }

    fn without_instruction(&mut self, step: &Step, exception: &Exception, class: u8) -> Result<(), SinkError> {
        self.close()?;
        let by = match call(exception, class, None) {
            Some(call) => Redirection::Call { class, call },
            None => Redirection::Synchronous(class),
        };
        self.redirect(step, by, exception.target)
    }

    /// Where the trace ends it may not be known where an exception leads; then it is as if it had ended before.
    fn without_target(&mut self, step: &Step, open: &Open) -> Result<(), SinkError> {
        if !self.is_ending {
            return refuse(step.position, "nobody says where this exception leads, and ASTF has to");
        }
        self.open = None;
        self.losses.add(Loss::Instructions, open.position);
        self.losses.add(Loss::Exceptions, step.position);
        Ok(())
    }

    /// A Basic trace has calls without what they lead to, and nothing of the others.
    fn synchronous_in_basic(
        &mut self,
        step: &Step,
        exception: &Exception,
        open: Option<&Open>,
    ) -> Result<(), SinkError> {
        self.is_explained = true;
        let Some(open) = open else {
            self.close()?;
            self.is_explained = true;
            self.losses.add(Loss::Exceptions, step.position);
            return Ok(());
        };
        self.open = None;
        let call = open.word.class().and_then(|class| call(exception, class, Some((open.opcode, &open.word))));
        if call.is_none() {
            self.losses.add(Loss::Instructions, open.position);
            self.losses.add(Loss::Exceptions, step.position);
            return Ok(());
        }
        if exception.class.is_some() || exception.target.is_some() || exception.call.is_some() {
            self.losses.add(Loss::ExceptionDetails, step.position);
        }
        let raised = builder::Exception { class: 0, call, target: 0 };
        self.write_raised(open, raised).map_err(|error| refusal(error, Some(open.position)))?;
        self.known.due = Due::Yes;
        Ok(())
    }

    pub(super) fn exception_return(&mut self, step: &Step, target: Option<u64>) -> Result<(), SinkError> {
        self.registers.change_stack();
        self.count_effects(step);
        if let Some(target) = target {
            self.registers.go_on(Next::At(target));
        }
        if let Some(open) = self.open.as_mut().filter(|open| open.word.flow == ControlFlow::ExceptionReturn) {
            let target = target.or(open.branch.and_then(|branch| branch.target));
            open.branch = Some(Branch { taken: true, target });
            if self.is_basic {
                self.losses.add(Loss::ExceptionReturns, step.position);
            } else {
                self.needs_levels(step.position)?;
            }
            return self.close();
        }
        self.close()?;
        if self.is_unsupported && self.is_leaving(target) {
            return self.redirect(step, Redirection::ExceptionReturn, target);
        }
        self.losses.add(Loss::ExceptionReturns, step.position);
        self.is_explained = true;
        Ok(())
    }
}
