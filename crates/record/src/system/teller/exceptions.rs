//! What lies between the blocks of a CPU: exceptions, returns, calls that the emulator serves, and what does not fit.
//!
//! entries of the log, and where execution goes on ─▶ **steps**, and the state behind them

use std::io;
use std::ops::ControlFlow;

use unspool_model::{Event, Exception, ExceptionKind, Gap};

use super::super::super::chunks::Chunks;
use super::super::log::{Entry, Taken};
use super::{Cpu, Held, Take, Teller};

impl<C: Chunks> Teller<C> {
    /// What the emulator logged behind a block, and what execution goes on with.
    pub(super) fn exceptions(
        &mut self,
        cpu: &mut Cpu,
        held: Held,
        entries: &[Entry],
        next: Option<u64>,
        take: Take<'_>,
    ) -> io::Result<ControlFlow<()>> {
        let mut at = None;
        let mut rest = entries;
        while let Some((entry, behind)) = rest.split_first() {
            cpu.is_context_due = true;
            let is_first = rest.len() == entries.len();
            let flow = match entry {
                Entry::Taken(taken) if is_first || taken.is_between() && at == Some(taken.returns_to) => {
                    if !cpu.state.take(taken) {
                        return self.lose(cpu, &format!("{entry:x?}"), rest, take);
                    }
                    at = Some(taken.target);
                    self.taken(cpu, taken, take)
                }
                Entry::Return { from, to, target } if is_first => {
                    if !cpu.state.go_back(*from, *to) {
                        return self.lose(cpu, &format!("{entry:x?}"), rest, take);
                    }
                    at = Some(*target);
                    self.tell(cpu, Event::ExceptionReturn { target: at }, "", take)
                }
                Entry::Served { by, class, .. } if is_first => {
                    at = self.block(held.id).and_then(|block| block.moved(held.moved_by).behind());
                    self.served(cpu, by, *class, next.and(at), take)
                }
                entry => return self.lose(cpu, &format!("{entry:x?}"), rest, take),
            };
            if flow.is_break() {
                return Ok(flow);
            }
            rest = behind;
        }
        if next.is_some() && next != at {
            return self.lose(cpu, &format!("execution goes on at {next:x?} and not at {at:x?}"), &[], take);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// A call that the emulator serves: nothing of what it does is executed here, and what follows is behind the call.
    fn served(&mut self, cpu: &Cpu, by: &str, class: Option<u8>, to: Option<u64>, take: Take<'_>) -> ControlFlow<()> {
        if class.is_some() {
            let exception = Exception {
                kind: ExceptionKind::Synchronous,
                class,
                call: None,
                is_virtual: None,
                return_address: to,
                target: to,
            };
            if self.tell(cpu, Event::Exception(exception), "", take).is_break() {
                return ControlFlow::Break(());
            }
        }
        self.tell(cpu, Event::Note, &format!("served by {by}"), take)
    }

    fn taken(&mut self, cpu: &Cpu, taken: &Taken, take: Take<'_>) -> ControlFlow<()> {
        let step = &mut self.step;
        step.clear();
        if let Some(syndrome) = taken.syndrome {
            step.write_register(&format!("esr_el{}", taken.to), 0, &u64::from(syndrome).to_le_bytes());
        }
        if let Some(fault) = taken.fault {
            step.write_register(&format!("far_el{}", taken.to), 0, &fault.to_le_bytes());
        }
        (step.core, step.place) = (cpu.number, cpu.told);
        step.event = Event::Exception(Exception {
            kind: taken.kind,
            class: taken.class(),
            call: None,
            is_virtual: (taken.kind != ExceptionKind::Synchronous).then_some(taken.is_virtual),
            return_address: Some(taken.returns_to),
            target: Some(taken.target),
        });
        take(step)
    }

    pub(super) fn tell(&mut self, cpu: &Cpu, event: Event, note: &str, take: Take<'_>) -> ControlFlow<()> {
        let step = &mut self.step;
        step.clear();
        (step.core, step.place, step.event) = (cpu.number, cpu.told, event);
        if !note.is_empty() {
            step.set_note(note);
        }
        take(step)
    }

    /// Nobody knows what happened here; what was logged changes the state all the same.
    #[cold]
    pub(super) fn lose(
        &mut self,
        cpu: &mut Cpu,
        why: &str,
        rest: &[Entry],
        take: Take<'_>,
    ) -> io::Result<ControlFlow<()>> {
        self.gaps += 1;
        (cpu.held, cpu.is_context_due) = (None, true);
        cpu.forget_block();
        cpu.state.lose();
        rest.iter().for_each(|entry| follow(cpu, entry));
        if self.tell(cpu, Event::Note, &format!("the log of the emulator does not fit: {why}"), take).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        Ok(self.tell(cpu, Event::Gap(Gap::Contradiction), "", take))
    }
}

/// What is not told changes the state all the same.
pub(super) fn follow(cpu: &mut Cpu, entry: &Entry) {
    match entry {
        Entry::Taken(taken) => {
            cpu.is_narrow = false;
            let _ = cpu.state.take(taken);
        }
        Entry::Return { from, to, .. } => {
            let _ = cpu.state.go_back(*from, *to);
        }
        Entry::ReturnToAarch32 { .. } => cpu.is_narrow = true,
        Entry::Served { .. } | Entry::Other(_) => {}
    }
    cpu.is_context_due = true;
}
