//! Between the blocks of a CPU: exceptions, returns, calls that the emulator serves, and contradictions.
//!
//! entries of the log, and where execution continues ─▶ **steps**, and the state after them

use std::ops::ControlFlow;

use unspool_model::{Event, Exception, ExceptionKind, Gap, Step};

use super::cpu::Cpu;
use super::log::{Entry, Taken};
use crate::emitter::{At, Sink, emit_event};

/// Emits the steps between blocks.
#[derive(Debug, Default)]
pub(super) struct ExceptionEmitter {
    step: Step,
    /// Number of gaps, where the log contradicts what was executed.
    pub(super) gaps: u64,
}

impl ExceptionEmitter {
    /// Emits what was logged after a block with this end; execution continues at `next`.
    pub(super) fn emit(
        &mut self,
        cpu: &mut Cpu,
        end: Option<u64>,
        entries: &[Entry],
        next: Option<u64>,
        sink: Sink<'_>,
    ) -> ControlFlow<()> {
        let mut at = None;
        let mut rest = entries;
        while let Some((entry, later)) = rest.split_first() {
            cpu.is_context_due = true;
            let is_first = rest.len() == entries.len();
            match entry {
                Entry::Taken(taken) if is_first || taken.is_between() && at == Some(taken.returns_to) => {
                    if !cpu.state.take(taken) {
                        return self.emit_gap(cpu, &format!("{entry:x?}"), rest, sink);
                    }
                    at = Some(taken.target);
                    self.emit_taken(cpu, taken, sink)?;
                }
                Entry::Return { from, to, target } if is_first => {
                    if !cpu.state.exception_return(*from, *to) {
                        return self.emit_gap(cpu, &format!("{entry:x?}"), rest, sink);
                    }
                    at = Some(*target);
                    self.emit_event(cpu, Event::ExceptionReturn { target: at }, "", sink)?;
                }
                Entry::Served { by, class, .. } if is_first => {
                    at = end;
                    self.emit_served(cpu, by, *class, next.and(at), sink)?;
                }
                entry => return self.emit_gap(cpu, &format!("{entry:x?}"), rest, sink),
            }
            rest = later;
        }
        if next.is_some() && next != at {
            return self.emit_gap(cpu, &format!("execution goes on at {next:x?} and not at {at:x?}"), &[], sink);
        }
        ControlFlow::Continue(())
    }

    /// Emits a call that the emulator serves: nothing of it is executed, and execution continues after the call.
    fn emit_served(
        &mut self,
        cpu: &Cpu,
        by: &str,
        class: Option<u8>,
        to: Option<u64>,
        sink: Sink<'_>,
    ) -> ControlFlow<()> {
        if class.is_some() {
            let kind = ExceptionKind::Synchronous;
            let exception = Exception { kind, class, return_address: to, target: to, ..Exception::default() };
            self.emit_event(cpu, Event::Exception(exception), "", sink)?;
        }
        self.emit_event(cpu, Event::Note, &format!("served by {by}"), sink)
    }

    fn emit_taken(&mut self, cpu: &Cpu, taken: &Taken, sink: Sink<'_>) -> ControlFlow<()> {
        let step = &mut self.step;
        step.clear();
        if let Some(syndrome) = taken.syndrome {
            step.write_register(&format!("esr_el{}", taken.to), 0, &u64::from(syndrome).to_le_bytes());
        }
        if let Some(fault) = taken.fault {
            step.write_register(&format!("far_el{}", taken.to), 0, &fault.to_le_bytes());
        }
        (step.core, step.position, step.time) = (cpu.number, cpu.emitted, cpu.emitted_at);
        step.event = Event::Exception(Exception {
            kind: taken.kind,
            class: taken.class(),
            call: None,
            is_virtual: (taken.kind != ExceptionKind::Synchronous).then_some(taken.is_virtual),
            return_address: Some(taken.returns_to),
            target: Some(taken.target),
        });
        sink.step(step)
    }

    fn emit_event(&mut self, cpu: &Cpu, event: Event, note: &str, sink: Sink<'_>) -> ControlFlow<()> {
        let at = At { core: cpu.number, position: cpu.emitted, time: cpu.emitted_at };
        emit_event(&mut self.step, at, event, note, sink)
    }

    /// Emits a gap: it is unknown what happened here. What was logged changes the state all the same.
    #[cold]
    pub(super) fn emit_gap(&mut self, cpu: &mut Cpu, why: &str, rest: &[Entry], sink: Sink<'_>) -> ControlFlow<()> {
        self.gaps += 1;
        (cpu.held, cpu.is_context_due) = (None, true);
        cpu.forget_block();
        cpu.state.reset();
        rest.iter().for_each(|entry| cpu.apply(entry));
        self.emit_event(cpu, Event::Note, &format!("the log of the emulator does not fit: {why}"), sink)?;
        self.emit_event(cpu, Event::Gap(Gap::Contradiction), "", sink)
    }
}
