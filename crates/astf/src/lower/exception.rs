//! Exceptions and their returns: which instruction raised one, and what the builder needs to know of it.

use unspool_isa::ControlFlow;
use unspool_model::{Branch, Exception, ExceptionKind, Facet, Isa, Loss, SinkError, Step};

use super::super::access::{Access, Extent};
use super::super::builder::{self, BuildError, RecordSink, Redirection};
use super::Lowerer;
use super::access::sanitized;
use super::open::Open;
use super::raised::{Syndrome, call, is_data_abort, is_fetch};
use super::refusal::{refusal, refuse};
use super::registers::Next;
use super::state::Due;

/// The format has a field for the target.
const UNKNOWN_TARGET: &str = "the target of this exception is unknown, and ASTF needs it";

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
                return refuse(step.position, "the kind of this exception is unknown, and ASTF needs it");
            }
        };
        self.redirect(step, by, exception.target)
    }

    /// Registers keep their values if the next address is known.
    fn change_next(&mut self, exception: &Exception) {
        self.registers.change_stack();
        self.registers.set_next(exception.target.map_or(Next::Nowhere, Next::At));
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

    /// Execution is redirected, and no instruction of the trace is the cause.
    fn redirect(&mut self, step: &Step, by: Redirection, target: Option<u64>) -> Result<(), SinkError> {
        let target = match target {
            // Before the first instruction, it counts only if it leads there.
            target if !self.has_instruction && !self.is_unsupported && !self.is_next(target) => None,
            None if !self.is_ending => {
                return refuse(step.position, UNKNOWN_TARGET);
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

    /// After an exception the Exception level differs.
    fn needs_levels(&self, position: u64) -> Result<(), SinkError> {
        if self.coverage.has(Facet::Levels) {
            return Ok(());
        }
        refuse(
            position,
            "an exception leads to another Exception level, and the source does not report levels: \
             write a Basic trace",
        )
    }

    /// Whether the next instruction is at the target.
    fn is_next(&self, target: Option<u64>) -> bool {
        self.next_instruction.is_some_and(|next_instruction| Some(next_instruction.address) == target)
    }

    /// Whether it leaves a mode that the format does not support.
    fn is_leaving(&self, target: Option<u64>) -> bool {
        self.is_next(target) && self.next_instruction.is_some_and(|next_instruction| next_instruction.isa == Isa::A64)
    }

    /// An exception caused by an instruction, which may not be in the trace.
    fn synchronous(
        &mut self,
        step: &Step,
        exception: &Exception,
        class: Option<u8>,
        syndrome: &Syndrome,
    ) -> Result<(), SinkError> {
        let is_fetched = self.unknown_opcode.take().is_none();
        let open = self.open.filter(|open| is_fetched && open.branch.is_none() && !is_fetch(class));
        let class = class.or(open.and_then(|open| open.info.class()));
        if self.is_basic {
            return self.synchronous_in_basic(step, exception, open.as_ref());
        }
        let Some(class) = class else {
            return refuse(step.position, "the class of this exception is unknown, and ASTF needs it");
        };
        let Some(open) = open else {
            return self.without_instruction(step, exception, class);
        };
        let Some(target) = exception.target else {
            return self.without_target(step, &open);
        };
        self.needs_levels(step.position)?;
        let call = call(exception, class, Some((open.opcode, &open.info)));
        let recorded = self.accesses.len();
        if recorded == 0 && is_data_abort(class) {
            self.add_faulting_access(&open, syndrome);
        }
        self.open = None;
        match self.write_raised(&open, builder::Exception { class, call, target }) {
            Ok(()) => {}
            // Not this instruction caused it, but a later one that is not in the trace.
            Err(BuildError::Rule { .. }) if open.info.class().is_none() => {
                self.accesses.truncate(recorded);
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

    /// Adds the access at the address that FAR_ELx reports.
    fn add_faulting_access(&mut self, open: &Open, syndrome: &Syndrome) {
        let Some(address) = syndrome.far else { return };
        let address = sanitized(address, self.known.level());
        let extent = Extent::Bytes(open.info.access.bytes.unwrap_or(1));
        self.accesses.push(Access { address, extent, read: false, write: false, tagged: false });
    }

    fn without_instruction(&mut self, step: &Step, exception: &Exception, class: u8) -> Result<(), SinkError> {
        self.close()?;
        let by = match call(exception, class, None) {
            Some(call) => Redirection::Call { class, call },
            None => Redirection::Synchronous(class),
        };
        self.redirect(step, by, exception.target)
    }

    /// At the end of the trace, the target of an exception may be unknown; the trace then ends before the instruction.
    fn without_target(&mut self, step: &Step, open: &Open) -> Result<(), SinkError> {
        if !self.is_ending {
            return refuse(step.position, UNKNOWN_TARGET);
        }
        self.open = None;
        self.losses.add(Loss::Instructions, open.position);
        self.losses.add(Loss::Exceptions, step.position);
        Ok(())
    }

    /// A Basic trace has calls without their target, and no other exceptions.
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
        let call = open.info.class().and_then(|class| call(exception, class, Some((open.opcode, &open.info))));
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
            self.registers.set_next(Next::At(target));
        }
        if let Some(open) = self.open.as_mut().filter(|open| open.info.flow == ControlFlow::ExceptionReturn) {
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
