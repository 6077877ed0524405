//! Execution of the generated machine: instructions, exceptions, and switches between threads.

use unspool::capture::{Call, KERNEL, Pid};
use unspool::coresight::etm4::unit::{Class, Executed};
use unspool::coresight::{Context, Security, SubIsa, Target};

use super::super::image::{BARRIER, CALL_REGISTER, EXCEPTION_RETURN, JUMP, RET, SYSTEM_CALL};
use super::*;

impl Machine {
    pub(super) fn pc(&self, core: usize) -> u64 {
        let Core { kernel, thread, .. } = &self.cores[core];
        match (kernel, thread) {
            (Some((pc, _)), _) => *pc,
            (None, thread) => self.threads[&thread.unwrap()].pc,
        }
    }

    pub(super) fn context(&self, core: usize, el: u8) -> Context {
        let number = self.cores[core].thread.map_or(0, |tid| {
            let process = &self.processes[&self.threads[&tid].pid];
            match self.context_id {
                ContextId::Tid | ContextId::TidOfEl2 => tid,
                ContextId::AsidTid => tid << 8 | process.asid,
                ContextId::AsidPid => process.pid << 8 | process.asid,
                ContextId::Asid => process.asid,
                ContextId::Pid => process.pid,
                ContextId::Switches => 0,
            }
        });
        let number = number & self.mask;
        let (vmid, context_id) = match self.context_id {
            ContextId::TidOfEl2 => (Some(number), None),
            ContextId::Switches => (None, None),
            _ => (None, Some(number)),
        };
        Context { el, aarch64: true, security: Security::NonSecure, vmid, context_id }
    }

    /// Executes an instruction.
    pub(super) fn step(&mut self, core: usize) {
        self.now += 1 + self.random.below(3);
        let pc = self.pc(core);
        match self.cores[core].kernel {
            Some((_, service)) => self.kernel_step(core, pc, service),
            None => self.user_step(core, pc),
        }
    }

    /// Traces an instruction and returns the address after it.
    fn execute(&mut self, core: usize, pid: Pid, pc: u64, opcode: u32, taken: bool) -> u64 {
        let Core { unit, executed, .. } = &mut self.cores[core];
        executed.push((pc, opcode, pid));
        let is_conditional = opcode >> 24 == 0x54;
        let is_call = opcode >> 26 == 0x25;
        let class = match opcode {
            RET | JUMP | CALL_REGISTER => Class::Indirect,
            EXCEPTION_RETURN => Class::ExceptionReturn,
            BARRIER => Class::Barrier,
            _ if is_conditional || is_call || opcode >> 26 == 5 => Class::Direct,
            _ => Class::Other,
        };
        unit.time(self.now);
        unit.instruction(&Executed {
            address: pc,
            isa: SubIsa::Is0,
            length: 4,
            class,
            conditional: is_conditional,
            link: is_call || opcode == CALL_REGISTER,
            taken,
            ..Executed::default()
        });
        match class {
            Class::Direct if is_conditional && taken => pc.wrapping_add_signed(offset_of(opcode >> 5, 19)),
            Class::Direct if !is_conditional => pc.wrapping_add_signed(offset_of(opcode, 26)),
            _ => pc + 4,
        }
    }

    fn kernel_step(&mut self, core: usize, pc: u64, service: Service) {
        let opcode = self.kernel[&pc];
        let mut next = self.execute(core, KERNEL, pc, opcode, true);
        if service == Service::Switch && [SYSTEM_CALL_VECTOR, INTERRUPT_VECTOR].contains(&pc) {
            // The timestamp after the exception came before this instruction.
            self.cores[core].in_window = None;
            self.cores[core].worked = false;
        }
        match opcode {
            JUMP => next = if service == Service::Work { WORK } else { SWITCH },
            RET => next = self.cores[core].kernel_calls.pop().unwrap(),
            BARRIER => self.switch(core),
            EXCEPTION_RETURN => return self.leave_kernel(core),
            _ if opcode >> 26 == 0x25 => {
                self.cores[core].kernel_calls.push(pc + 4);
                self.cores[core].worked = true;
            }
            _ => {}
        }
        self.cores[core].kernel = Some((next, service));
    }

    fn leave_kernel(&mut self, core: usize) {
        self.cores[core].kernel = None;
        let context = self.context(core, 0);
        self.cores[core].unit.context(context);
    }

    fn enter_kernel(&mut self, core: usize, number: u16, return_address: u64, service: Service) {
        let vector = if number == CALL_EXCEPTION { SYSTEM_CALL_VECTOR } else { INTERRUPT_VECTOR };
        self.cores[core].kernel = Some((vector, service));
        self.cores[core].unit.time(self.now);
        self.cores[core].unit.exception(number, Target { address: return_address, isa: SubIsa::Is0 });
        let context = self.context(core, 1);
        self.cores[core].unit.context(context);
    }

    fn user_step(&mut self, core: usize, pc: u64) {
        let tid = self.cores[core].thread.unwrap();
        let pid = self.threads[&tid].pid;
        self.cores[core].worked = false;
        let opcode = self.processes[&pid].memory[&pc];
        let taken = opcode >> 24 != 0x54 || self.random.below(3) > 0;
        let mut next = self.execute(core, pid, pc, opcode, taken);
        let is_call = opcode >> 26 == 0x25 || opcode == CALL_REGISTER;
        if opcode == JUMP || opcode == CALL_REGISTER {
            next = self.any_function(pid);
        }
        let entry = self.any_function(pid);
        let thread = self.threads.get_mut(&tid).unwrap();
        if is_call {
            thread.calls.push(pc + 4);
        }
        if opcode == RET {
            next = thread.calls.pop().unwrap_or(entry);
        }
        if thread.calls.len() > 12 {
            thread.calls.clear();
        }
        thread.pc = next;
        let budget = &mut self.cores[core].budget;
        *budget = budget.saturating_sub(1);
        let is_over = *budget == 0;
        if opcode == SYSTEM_CALL {
            let service = if is_over || self.random.below(3) == 0 { Service::Switch } else { Service::Work };
            self.enter_kernel(core, CALL_EXCEPTION, next, service);
        } else if is_over {
            self.enter_kernel(core, IRQ_EXCEPTION, next, Service::Switch);
        } else if self.random.below(60) == 0 {
            self.inline_event(pid);
        }
    }

    pub(super) fn any_function(&mut self, pid: Pid) -> u64 {
        let process = &self.processes[&pid];
        let of_images = process
            .mapped
            .iter()
            .flat_map(|mapped| self.images[mapped.image].functions.iter().map(|offset| mapped.base + offset));
        let all: Vec<u64> = of_images.chain(process.jit.iter().copied()).collect();
        self.random.pick(&all)
    }

    /// The kernel executes another thread, after events.
    fn switch(&mut self, core: usize) {
        self.cores[core].thread = None;
        for _ in 0..self.random.below(3) {
            self.event();
        }
        let busy: Vec<u32> = self.cores.iter().filter_map(|core| core.thread).collect();
        let ready: Vec<u32> = self.threads.keys().copied().filter(|tid| !busy.contains(tid)).collect();
        let tid = self.random.pick(&ready);
        self.cores[core].thread = Some(tid);
        self.cores[core].in_window = Some(self.threads[&tid].pid);
        self.cores[core].budget = 10 + self.random.below(120);
        if self.context_id == ContextId::Switches {
            self.happens(Call::Switch { core: core as u32, tid }, true, true);
        }
        let context = self.context(core, 1);
        self.cores[core].unit.context(context);
    }
}

/// A signed number of words in the low bits, as bytes.
fn offset_of(value: u32, bits: u32) -> i64 {
    i64::from((value << (32 - bits)).cast_signed() >> (32 - bits)) << 2
}
