//! A machine that executes a program and traces itself.
//!
//! program + a tape of random bytes ─▶ **packets**, and the ranges that were executed
//!
//! The tape decides the outcomes of branches, the targets of indirect ones and the exceptions. The trace unit leaves out
//! targets on its return stack, synchronizes at random, and, with speculation, mispredicts and cancels.

use unspool_coresight::etm4::packet::{Address, ExceptionAddress, FewAtoms, TraceInfo};
use unspool_coresight::etm4::{Config, Packet};
use unspool_coresight::{Atoms, Context, Security, SubIsa};
use unspool_isa::{ControlFlow, Decoded};

use super::reference::{FlowEvent, Program};

/// Depth of the trace unit's return stack; an analyzer need not know it.
const DEPTH: usize = 3;

#[derive(Debug)]
pub(crate) struct Machine<'p> {
    program: &'p Program,
    config: Config,
    tape: std::vec::IntoIter<u8>,
    el: u8,
    at: u64,
    /// Start of the current range.
    start: u64,
    stack: Vec<u64>,
    /// Atoms that no packet contains yet.
    waiting: Vec<bool>,
    /// P0 elements that are not committed.
    speculative: u32,
    pub(crate) packets: Vec<Packet>,
    pub(crate) executed: Vec<FlowEvent>,
}

impl<'p> Machine<'p> {
    pub(crate) fn new(program: &'p Program, config: &Config, tape: Vec<u8>) -> Self {
        Self {
            program,
            config: *config,
            tape: tape.into_iter(),
            el: 0,
            at: program.base,
            start: program.base,
            stack: vec![],
            waiting: vec![],
            speculative: 0,
            packets: vec![],
            executed: vec![],
        }
    }

    /// Executes until the tape or the program ends.
    pub(crate) fn run(&mut self) {
        self.synchronize(true);
        while let Some(roll) = self.tape.next() {
            let Some(facts) = self.program.facts(self.el, self.at) else { break };
            match roll {
                0..6 => self.exception(),
                6..9 => self.synchronize(false),
                9..12 => self.stop_tracing(),
                _ => self.execute(&facts, roll),
            }
        }
        self.send_atoms();
        self.commit(self.speculative);
    }

    fn context(&self) -> Context {
        Context { el: self.el, aarch64: true, security: Security::NonSecure, vmid: None, context_id: None }
    }

    fn address(&self) -> Address {
        Address::full(SubIsa::Is0, self.at)
    }

    fn send(&mut self, packet: Packet) {
        self.send_atoms();
        self.packets.push(packet);
    }

    fn synchronize(&mut self, trace_on: bool) {
        let speculation = (self.config.max_speculation > 0).then_some(0);
        self.send_atoms();
        self.commit(self.speculative);
        self.packets.push(Packet::TraceInfo(TraceInfo { speculation, ..TraceInfo::default() }));
        if trace_on {
            self.packets.push(Packet::TraceOn);
        }
        self.packets.push(Packet::AddressContext { address: self.address(), context: self.context() });
        self.stack.clear();
        if self.start != self.at {
            // In the middle of a range an address would be a contradiction: trace units send it after a P0 element.
            self.packets.pop();
            self.packets.push(Packet::Context(Some(self.context())));
        }
    }

    /// Loses the trace of the current range.
    fn stop_tracing(&mut self) {
        self.start = self.at;
        self.synchronize(true);
    }

    fn execute(&mut self, facts: &Decoded, roll: u8) {
        let next = self.at + 4;
        let is_p0 = facts.flow.is_p0() && (facts.flow != ControlFlow::Wfx || self.config.wfx_is_p0);
        if !is_p0 {
            self.at = next;
            return;
        }
        let taken = !facts.conditional || roll & 1 == 1;
        self.executed.push(FlowEvent::Range { start: self.start, end: next, taken });
        self.atom(taken, facts.conditional, roll);
        if taken && facts.link && self.config.return_stack {
            self.stack.push(next);
            self.stack.drain(..self.stack.len().saturating_sub(DEPTH));
        }
        self.at = match facts.flow {
            ControlFlow::Direct if taken => facts.target.map_or(next, |target| target.address),
            ControlFlow::Indirect | ControlFlow::ExceptionReturn if taken => self.indirect_target(roll),
            _ => next,
        };
        self.start = self.at;
        if facts.flow.is_indirect() && taken {
            self.send_target();
        }
    }

    fn indirect_target(&self, roll: u8) -> u64 {
        match self.stack.last() {
            Some(&top) if roll & 2 == 0 => top,
            _ => self.program.base + 4 * u64::from(roll >> 3),
        }
    }

    /// Sends the target of an indirect branch, unless the analyzer finds it on its return stack.
    fn send_target(&mut self) {
        if self.stack.last() == Some(&self.at) {
            self.stack.pop();
        } else {
            let address = self.address();
            self.send(Packet::Address(address));
        }
    }

    fn exception(&mut self) {
        if self.start != self.at {
            let last = self.program.facts(self.el, self.at - 4);
            let ends_in_p0 = last.is_some_and(|facts| facts.flow.is_p0());
            // A range that ends before a return address has no P0 instruction in it, except a WFI that is none.
            self.executed.push(FlowEvent::Range {
                start: self.start,
                end: self.at,
                taken: !ends_in_p0 || !self.config.wfx_is_p0,
            });
        }
        self.send(Packet::Exception { number: 14, address: ExceptionAddress::Return, fault_pending: None });
        let address = self.address();
        self.send(Packet::Address(address));
        self.deepen(1);
        let roll = self.tape.next().unwrap_or(0);
        self.el = roll & 1;
        self.at = self.program.base + 4 * u64::from(roll >> 3);
        self.start = self.at;
        let (address, context) = (self.address(), self.context());
        self.send(Packet::AddressContext { address, context });
    }

    fn atom(&mut self, taken: bool, conditional: bool, roll: u8) {
        if self.config.max_speculation == 0 {
            self.waiting.push(taken);
            if self.waiting.len() > usize::from(roll >> 5) {
                self.send_atoms();
            }
            return;
        }
        let guessed = if conditional && roll & 4 == 0 { !taken } else { taken };
        self.waiting.push(guessed);
        if guessed != taken {
            self.send(Packet::Mispredict(FewAtoms::None));
        }
        if roll & 0x18 == 0 {
            // Atoms of a wrong path, which are canceled.
            let count = u32::from(roll >> 5 & 3).min(self.config.max_speculation);
            self.send(Packet::Atoms(Atoms::new(roll.into(), count as u8)));
            self.deepen(count);
            self.packets.push(Packet::CancelFormat1 { count, mispredict: false });
            self.speculative -= count;
        }
        if roll & 0x18 == 8 {
            self.send_atoms();
            self.commit(self.speculative.min(2));
        }
    }

    fn send_atoms(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let bits = self.waiting.iter().rev().fold(0, |bits, &taken| bits << 1 | u32::from(taken));
        let atoms = Atoms::new(bits, self.waiting.len() as u8);
        self.waiting.clear();
        self.packets.push(Packet::Atoms(atoms));
        self.deepen(atoms.count());
    }

    fn deepen(&mut self, count: u32) {
        self.speculative = (self.speculative + count).min(self.config.max_speculation);
    }

    fn commit(&mut self, count: u32) {
        if count > 0 {
            self.packets.push(Packet::Commit { count });
            self.speculative -= count;
        }
    }
}
