//! Model of a trace unit: turns execution into the bytes of its trace. The inverse of the decoders.
//!
//! instructions, exceptions, contexts, time ─▶ **unit** ─▶ bytes
//!
//! Takes executed instructions in order, from a caller that knows the program. Produces packets, as few as the registers
//! in [`Settings`] allow. Does not know opcodes or files. A block is the instructions after one P0 instruction up to and
//! including the next: the trace cannot express less, so filters that close within a block act at its end.
//! Specification: Arm IHI 0064 (ETMv4) and DDI 0487 (ETE).

mod addresses;
mod block;
mod comparators;
mod counters;
mod decision_memo;
mod elements;
mod exceptions;
mod guess;
mod inputs;
mod instrumentation;
mod limits;
mod pending;
mod prohibited;
mod q;
mod resources;
mod sequencer;
mod settings;
#[cfg(test)]
mod tests;
mod transactions;
mod view_inst;

use crate::{Context, Security, Target};
use alloc::vec::Vec;

use self::addresses::Addresses;
pub use self::block::Block;
use self::decision_memo::Decision;
pub use self::exceptions::DEBUG_HALT;
use self::guess::Guesses;
use self::inputs::Inputs;
use self::instrumentation::Instrumentation;
use self::pending::PendingAtoms;
use self::prohibited::Prohibited;
use self::q::QElements;
pub use self::settings::Settings;
use self::transactions::Transaction;
use self::view_inst::ViewInst;
use super::encode::encode;
use super::packet::{Packet, TraceInfo};
use super::{Config, Version};
pub use crate::unit::{Class, Executed, OverflowLosses};
use crate::unit::{Overflows, ReturnStack};

/// A running trace unit. [`take`](Self::take) hands out its bytes.
#[derive(Debug, Clone)]
pub struct Unit {
    config: Config,
    is_ete: bool,
    /// In bytes; `u64::MAX`: none.
    sync_period: u64,
    times_all: bool,
    cycle_threshold: u32,
    broadcasts: bool,
    source_addresses: bool,
    out: Vec<u8>,
    /// Number of bytes handed out so far.
    taken: u64,
    atoms: PendingAtoms,
    addresses: Addresses,
    stack: ReturnStack,
    view: ViewInst,
    inputs: Inputs,
    /// Event 0 is a trigger, and it has occurred.
    signals_triggers: bool,
    is_triggered: bool,
    guesses: Guesses,
    q_elements: QElements,
    overflows: Overflows,
    transaction: Transaction,
    instrumentation: Instrumentation,
    prohibited: Prohibited,
    /// The PE executes in a Trace Prohibited region.
    is_prohibited: bool,
    /// The traced part of the context.
    context: Context,
    /// The whole context: comparators may need identifiers that are not traced.
    whole_context: Context,
    /// The context that the trace contained last.
    traced_context: Option<Context>,
    /// The context differs from the traced one.
    context_changed: bool,
    /// The next instruction needs the slow path.
    attention: bool,
    /// Instructions are being traced.
    is_on: bool,
    /// TRCRSR.TA: the last instruction or exception outside of prohibited regions was traced.
    is_active: bool,
    /// Instructions were traced after the last P0 element.
    in_block: bool,
    /// The address where execution continues has to be traced.
    needs_address: bool,
    /// The return stack may not replace it.
    address_is_forced: bool,
    in_broadcast: bool,
    sync_due: bool,
    /// Position of the last synchronization in the stream.
    synced_at: u64,
    time: Option<u64>,
    traced_time: u64,
    time_due: bool,
    cycles: u64,
    /// The count is unknown after an overflow.
    cycles_are_unknown: bool,
}

impl Unit {
    /// A trace unit at its start.
    pub fn new(settings: &Settings) -> Self {
        let config = settings.config();
        let context = Context { el: 0, aarch64: true, security: Security::NonSecure, vmid: None, context_id: None };
        Self {
            config,
            is_ete: matches!(config.version, Version::Ete(_)),
            sync_period: settings.sync_period().unwrap_or(u64::MAX),
            times_all: settings.times_all() && config.timestamps,
            cycle_threshold: settings.cycle_threshold(),
            broadcasts: settings.broadcasts(),
            source_addresses: settings.source_addresses,
            out: Vec::new(),
            taken: 0,
            atoms: PendingAtoms::default(),
            addresses: Addresses::default(),
            stack: ReturnStack::default(),
            view: ViewInst::new(settings),
            inputs: Inputs::new(settings),
            signals_triggers: settings.triggers(),
            is_triggered: false,
            guesses: Guesses::new(settings.guess_seed, config.max_speculation),
            q_elements: QElements::new(settings),
            overflows: Overflows::new(settings.overflow_seed),
            transaction: Transaction::default(),
            instrumentation: Instrumentation::new(settings),
            prohibited: Prohibited::new(settings),
            is_prohibited: false,
            context,
            whole_context: context,
            traced_context: None,
            context_changed: true,
            attention: true,
            is_on: false,
            is_active: settings.is_active(),
            in_block: false,
            needs_address: true,
            address_is_forced: true,
            in_broadcast: false,
            sync_due: true,
            synced_at: 0,
            time: None,
            traced_time: 0,
            time_due: false,
            cycles: 0,
            cycles_are_unknown: false,
        }
    }

    /// The bytes since the last [`take`](Self::take).
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Hands out the bytes and clears them.
    pub fn take(&mut self, mut sink: impl FnMut(&[u8])) {
        sink(&self.out);
        self.taken += self.out.len() as u64;
        self.out.clear();
    }

    /// Sets the context of the following instructions.
    pub fn context(&mut self, context: Context) {
        let fits = |value: Option<u32>, is_traced: bool, bytes: u8| {
            let mask = u32::MAX.checked_shr(32 - 8 * u32::from(bytes.min(4))).unwrap_or(0);
            is_traced.then_some(value.unwrap_or(0) & mask)
        };
        let vmid = fits(context.vmid, self.config.vmids, self.config.vmid_bytes);
        let context_id = fits(context.context_id, self.config.context_ids, self.config.context_id_bytes);
        self.context = Context { vmid, context_id, ..context };
        self.context_changed = self.traced_context != Some(self.context);
        self.whole_context = context;
        self.view.forget();
        self.attention = true;
        self.is_prohibited = self.prohibited.covers(&context);
        if self.is_prohibited {
            // Readers cannot see the end of a transaction that is open (DDI 0487, R_XQSPC).
            self.fail(self.transaction_restart().unwrap_or_default());
            self.stop_if_on();
        }
    }

    /// Traces an executed instruction.
    #[inline]
    pub fn instruction(&mut self, executed: &Executed) {
        let is_cached = !self.attention && self.view.is_cached_as_traced(executed.address);
        if !is_cached {
            self.observe(executed);
            if !self.attend(Target { address: executed.address, isa: executed.isa }, None) {
                return self.effect(executed);
            }
        }
        self.in_block = true;
        if executed.class != Class::Other {
            self.p0(executed, executed.taken);
        }
    }

    /// Stops tracing: the following instructions do not continue the preceding ones.
    pub fn stop(&mut self) {
        if self.is_on {
            self.commit_all();
        }
        self.is_on = false;
        self.stack.clear();
        self.require_address();
    }

    /// Traces an overflow: instructions from here until the next traced one are lost.
    pub fn overflow(&mut self) {
        self.stop();
        if self.written() == 0 {
            // Readers skip everything before the first synchronization.
            self.synchronize();
        }
        self.emit(&Packet::Overflow);
        self.transaction.overflow();
        // Whether tracing still counts as active is IMPLEMENTATION DEFINED (DDI 0487, R_QZPJD).
        self.is_active = false;
        (self.sync_due, self.cycles_are_unknown) = (true, true);
    }

    /// Losses to the overflows that the settings ask for.
    pub fn overflowed(&self) -> OverflowLosses {
        self.overflows.losses()
    }

    /// Traces events 0 to 3, one bit each.
    #[inline(never)]
    pub fn event(&mut self, mask: u8) {
        if mask & 15 == 0 {
            return;
        }
        if self.written() == 0 {
            self.synchronize();
        }
        self.flush();
        self.emit(&Packet::Event { mask: mask & 15 });
    }

    /// Has a trigger for the trace buffer occurred since the last call? The trace before it is complete.
    pub fn take_trigger(&mut self) -> bool {
        core::mem::take(&mut self.is_triggered)
    }

    /// Reports events of the trace buffer (ETE): its write pointer wrapped (TRB_WRAP), a Trigger Event occurred (TRB_TRIG).
    pub fn buffer_events(&mut self, has_wrapped: bool, is_triggered: bool) {
        self.inputs.buffer(has_wrapped, is_triggered);
    }

    /// Sets the time.
    #[inline]
    pub fn time(&mut self, time: u64) {
        self.time = Some(time);
    }

    /// Adds cycles.
    #[inline]
    pub fn cycles(&mut self, cycles: u64) {
        if self.config.cycle_counting {
            self.cycles = self.cycles.saturating_add(cycles);
        }
    }

    /// Ends the trace and flushes it.
    pub fn finish(&mut self) {
        self.transaction_end();
        self.stop();
    }

    /// What an instruction does to the trace without an element, whether it is traced or not.
    fn effect(&mut self, executed: &Executed) {
        match executed.class {
            // In a prohibited region, the timestamp is delayed until the PE leaves it (DDI 0487, R_XMJGY).
            Class::TraceSync => (self.time_due, self.attention) = (true, true),
            Class::TransactionStart => self.enter_transaction(executed),
            Class::TransactionCommit => self.leave_transaction(),
            _ => {}
        }
    }

    /// Sets the external inputs that are active with an instruction. Those of prohibited regions are not seen (DDI 0487, R_RFWZB).
    #[inline]
    fn observe(&mut self, executed: &Executed) {
        if self.view.is_dynamic() && !self.is_prohibited {
            let inputs = self.inputs.with(executed);
            self.view.set_inputs(inputs);
        }
    }

    /// Evaluates the filters and emits what is due before the next instruction. False: it is not traced.
    #[inline(never)]
    fn attend(&mut self, at: Target, window: Option<u16>) -> bool {
        if self.is_prohibited {
            // Nothing is traced, no comparator matches and all other resources pause (DDI 0487, R_KTMLZ, R_JLLVN).
            return false;
        }
        let decision = self.view.evaluate(at, window, &self.whole_context);
        !self.overflows.lose(decision.is_shown) && self.apply(at, decision)
    }

    /// Applies a decision to an instruction. False: it is not traced.
    #[inline(always)]
    fn apply(&mut self, at: Target, decision: Decision) -> bool {
        let in_block = self.in_traced_block();
        if !decision.is_shown && !in_block {
            self.is_active = false;
            self.stop_if_on();
            self.occur(decision.events);
            return false;
        }
        self.time_due |= decision.asks_for_time && self.time.is_some_and(|time| time != self.traced_time);
        if !in_block {
            self.start_block(at);
        }
        if decision.events != 0 {
            self.occur(decision.events);
        }
        if self.q_elements.is_open() {
            self.extend_q(at);
        }
        self.attention = self.time_due || self.q_elements.is_open() || self.context_changed;
        true
    }

    /// Events occur, one bit each: some are traced, event 0 may be a trigger.
    fn occur(&mut self, events: u8) {
        self.event(events & self.view.traced_events);
        if self.signals_triggers && events & 1 == 1 {
            self.flush();
            self.is_triggered = true;
        }
    }

    /// Does the next instruction continue a traced block?
    #[inline(always)]
    fn in_traced_block(&self) -> bool {
        self.is_on && self.in_block
    }

    /// Records the context that the trace contains; `None`: none that still holds.
    fn set_traced_context(&mut self, context: Option<Context>) {
        self.traced_context = context;
        self.context_changed = context.is_none();
    }

    /// Emits everything that is due before a block: synchronization, trace on, address, context, time.
    fn start_block(&mut self, at: Target) {
        if self.q_elements.arrive(at) {
            self.flush_q();
        }
        if self.sync_due {
            self.synchronize();
        }
        if !self.is_on {
            self.turn_on();
        }
        let is_predicted = self.locate(at);
        if self.time_due {
            self.timestamp();
        }
        // The reference decoder asks its return stack again after a Q element that starts at a predicted address.
        if self.q_elements.are_made() && !is_predicted && self.q_elements.starts() {
            self.flush();
            self.q_elements.open();
        }
    }

    /// Starts tracing.
    fn turn_on(&mut self) {
        self.synchronize();
        self.flush();
        self.emit(&Packet::TraceOn);
        (self.is_on, self.is_active) = (true, true);
        self.set_traced_context(None);
        self.start_transaction();
    }

    /// Emits a point where readers can start, if one is due.
    #[inline(never)]
    fn synchronize(&mut self) {
        if !core::mem::take(&mut self.sync_due) {
            return;
        }
        self.flush();
        if self.config.return_stack {
            // The reference decoder empties its return stack here, before it has resolved speculative elements.
            self.commit_all();
        }
        self.emit(&Packet::AlignmentSync);
        let counts = self.config.cycle_counting;
        let speculates = self.config.max_speculation > 0;
        self.emit(&Packet::TraceInfo(TraceInfo {
            info: Some(u32::from(counts) | self.transaction.info()),
            key: None,
            speculation: speculates.then_some(self.guesses.outstanding()),
            cycle_threshold: counts.then_some(self.cycle_threshold),
        }));
        self.addresses = Addresses::default();
        self.set_traced_context(None);
        self.stack.clear();
        self.traced_time = 0;
        self.require_address();
        self.time_due = true;
        self.synced_at = self.written();
    }

    /// Emits address and context as far as they do not follow from the trace. True: the return stack predicts the
    /// address.
    fn locate(&mut self, at: Target) -> bool {
        let mut moved = self.context_changed;
        if moved && self.q_elements.is_open() {
            self.flush_q();
            moved = self.context_changed;
        }
        if !self.needs_address {
            if moved {
                self.flush();
                self.emit(&Packet::Context(Some(self.context)));
                self.set_traced_context(Some(self.context));
            }
            return false;
        }
        // The reference decoder does not ask its return stack before a source address.
        let may_be_predicted = !self.address_is_forced && !moved && !self.source_addresses;
        let is_predicted = may_be_predicted && self.stack.pop_if(at);
        if !is_predicted {
            self.flush();
            self.address(at, true);
        }
        (self.needs_address, self.address_is_forced) = (false, false);
        is_predicted
    }

    /// Emits an address, with the context if it changed and the packet may have one.
    fn address(&mut self, at: Target, with_context: bool) {
        if with_context && self.context_changed {
            let address = self.addresses.long(at);
            self.emit(&Packet::AddressContext { address, context: self.context });
            self.set_traced_context(Some(self.context));
        } else {
            let address = self.addresses.shortest(at);
            self.emit(&Packet::Address(address));
        }
    }

    /// Emits the element of a P0 instruction; `taken` replaces its own field. Other instructions have an effect.
    fn p0(&mut self, executed: &Executed, taken: bool) {
        let is_branch = executed.class.is_branch();
        if !is_branch && executed.class != Class::Barrier {
            if executed.class == Class::TransactionStart {
                self.flush_q();
                self.p0(&Executed { class: Class::Barrier, ..*executed }, true);
            }
            return self.effect(executed);
        }
        self.in_block = false;
        if self.q_elements.are_made() {
            self.attention = true;
            if self.is_in_q(executed) {
                return;
            }
        }
        let taken = taken || !is_branch;
        if self.source_addresses && taken && is_branch && self.is_ete {
            self.source_address(executed);
        } else if self.guesses.are_made() {
            // A mispredicted call would stay on the reader's return stack.
            self.guess(taken, executed.conditional && !executed.link);
        } else {
            self.atoms.push(taken, &mut self.out);
        }
        if is_branch && self.needs_more_than_atom(executed) && taken {
            self.branch(executed);
        }
        self.after_p0();
    }

    /// Does this branch, if taken, need more than an atom?
    #[inline(always)]
    fn needs_more_than_atom(&self, executed: &Executed) -> bool {
        executed.class != Class::Direct || self.broadcasts || (executed.link && self.config.return_stack)
    }

    fn after_p0(&mut self) {
        if self.config.cycle_counting && self.cycles >= u64::from(self.cycle_threshold) {
            self.count_cycles();
        }
        self.synchronize_if_late();
        if self.times_all && self.time.is_some_and(|time| time != self.traced_time) {
            (self.time_due, self.attention) = (true, true);
        }
        if self.overflows.start() {
            self.overflow();
        }
    }

    /// Requests a synchronization before the next block if the last one was long ago.
    #[inline(always)]
    fn synchronize_if_late(&mut self) {
        if self.written() - self.synced_at >= self.sync_period {
            (self.sync_due, self.attention) = (true, true);
        }
    }

    /// Handles a taken branch: its target and the return stack.
    #[inline]
    fn branch(&mut self, executed: &Executed) {
        if self.broadcasts {
            self.broadcast(Target { address: executed.address, isa: executed.isa });
        }
        if executed.link && self.config.return_stack && !self.in_broadcast {
            let address = executed.address.wrapping_add(u64::from(executed.length));
            let address = if self.context.aarch64 { address } else { address & 0xffff_ffff };
            self.stack.push(Target { address, isa: executed.isa });
        }
        match executed.class {
            // Readers push before they pop: a call must not find its own return address.
            Class::Indirect => (self.needs_address, self.address_is_forced) = (true, executed.link),
            Class::ExceptionReturn => {
                if !self.is_ete {
                    self.flush();
                    self.emit(&Packet::ExceptionReturn);
                }
                self.time_due = true;
                self.require_address();
            }
            _ if self.in_broadcast => self.require_address(),
            _ => return,
        }
        self.attention = true;
    }

    /// Updates whether branches are broadcast here. The return stack is unused then.
    fn broadcast(&mut self, at: Target) {
        let was_in = self.in_broadcast;
        self.in_broadcast = self.view.broadcasts_at(at, &self.whole_context);
        if self.in_broadcast && !was_in {
            self.stack.clear();
        }
    }

    /// The next address does not follow from the trace.
    fn require_address(&mut self) {
        (self.needs_address, self.address_is_forced, self.in_block, self.attention) = (true, true, false, true);
    }

    fn stop_if_on(&mut self) {
        if self.is_on {
            self.stop();
        }
    }

    /// Emits pending atoms or the pending Q element. There are never both.
    fn flush(&mut self) {
        self.atoms.flush(&mut self.out);
        self.flush_q();
    }

    fn written(&self) -> u64 {
        self.taken + self.out.len() as u64
    }

    #[inline(always)]
    fn emit(&mut self, packet: &Packet) {
        // Every packet of this unit fits its own configuration; one that does not is dropped.
        let start = self.out.len();
        if encode(packet, &self.config, &mut self.out).is_none() {
            debug_assert!(false, "{packet:?}");
            self.out.truncate(start);
        }
        debug_assert!(self.config.accepts(self.out[start]), "{packet:?}");
    }
}
