//! Model of a PTM: turns execution into the bytes of its trace. The inverse of the decoders.
//!
//! instructions, exceptions, contexts, time ─▶ **unit** ─▶ bytes
//!
//! Takes executed instructions in order, from a caller that knows the program. Produces packets, as few as the registers in
//! [`Settings`] allow. Does not know opcodes or files. A block is the instructions after one waypoint up to and including the
//! next. The packet of a taken branch or of an exception has the address of the next instruction, so it waits for that one.
//! Specification: Arm IHI 0035.

mod settings;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

pub use self::settings::Settings;
use super::Config;
use super::encode::encode;
use super::packet::{Address, AddressIsa, Branch, BranchInfo, InstructionSync, Packet, SyncReason};
use crate::exception::armv7;
pub use crate::unit::{Class, Executed, OverflowLosses};
use crate::unit::{Overflows, ReturnStack, Timestamps, TraceEnable};
use crate::{Atoms, Context, Security, SubIsa, Target};

/// Greatest distance in bytes from the start of a block to its waypoint. Before a longer one, there is a waypoint update.
const FARTHEST_WAYPOINT: u64 = 4096;

/// Greatest number of atoms of a packet.
const MAX_ATOMS: u8 = 5;

/// A running PTM. [`take`](Self::take) hands out its bytes.
#[derive(Debug, Clone)]
pub struct Unit {
    config: Config,
    /// In bytes; `u64::MAX`: none.
    sync_period: u64,
    times_all: bool,
    broadcasts: bool,
    barriers_request_time: bool,
    out: Vec<u8>,
    /// Number of bytes handed out so far.
    taken: u64,
    /// Outcomes that no packet contains yet, the oldest in bit 0.
    atoms: u32,
    atom_count: u8,
    /// The last address sent.
    base: Target,
    stack: ReturnStack,
    overflows: Overflows,
    /// `None`: everything is traced.
    trace_enable: Option<TraceEnable>,
    state: State,
    /// The state that the trace contained last.
    traced: State,
    /// Why tracing starts; `None`: instructions are being traced.
    starts: Option<SyncReason>,
    /// The packet that waits for the address of the next instruction.
    waiting: Option<Waiting>,
    /// The last instruction since the last waypoint.
    last: Option<Target>,
    block_start: u64,
    sync_due: bool,
    /// Position of the last synchronization in the stream.
    synced_at: u64,
    timestamps: Timestamps,
    time: Option<u64>,
    traced_time: Option<u64>,
    time_due: bool,
    /// Cycles since the last count.
    cycles: u64,
}

/// The traced part of the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    nonsecure: bool,
    hyp: bool,
    context_id: u32,
    vmid: u8,
}

/// A packet without its address.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    kind: WaitingKind,
    cycles: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitingKind {
    /// A taken branch; the return stack may predict its target.
    Branch { may_be_predicted: bool },
    /// An exception return.
    Return,
    /// An exception, with its type.
    Exception(u16),
}

impl Unit {
    /// A trace unit at its start.
    pub fn new(settings: &Settings) -> Self {
        let config = settings.config();
        Self {
            config,
            sync_period: settings.registers.sync_period().unwrap_or(u64::MAX),
            times_all: settings.registers.times_all() && config.timestamps,
            broadcasts: settings.broadcasts(),
            barriers_request_time: settings.barriers_request_time(),
            out: Vec::new(),
            taken: 0,
            atoms: 0,
            atom_count: 0,
            base: Target::default(),
            stack: ReturnStack::default(),
            overflows: Overflows::new(settings.overflow_seed),
            trace_enable: TraceEnable::new(&settings.registers),
            state: State::default(),
            traced: State::default(),
            starts: Some(SyncReason::TraceEnabled),
            waiting: None,
            last: None,
            block_start: 0,
            sync_due: true,
            synced_at: 0,
            timestamps: Timestamps::new(config.timestamp_bits, config.timestamp_gray),
            time: None,
            traced_time: None,
            time_due: false,
            cycles: 0,
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

    /// Sets the context of the following instructions. Of Exception levels, the trace contains Hyp mode only.
    pub fn context(&mut self, context: Context) {
        let bytes = u32::from(self.config.context_id_bytes);
        let mask = u32::MAX.checked_shr(32 - 8 * bytes).unwrap_or(0);
        self.state = State {
            nonsecure: context.security != Security::Secure,
            hyp: context.el == 2 && self.config.version.minor > 0,
            context_id: context.context_id.unwrap_or(0) & mask,
            vmid: if self.config.vmids { context.vmid.unwrap_or(0) as u8 } else { 0 },
        };
    }

    /// Traces an executed instruction.
    #[inline]
    pub fn instruction(&mut self, executed: &Executed) {
        let at = Target { address: executed.address, isa: executed.isa };
        if self.trace_enable.as_ref().is_some_and(|enable| !enable.has(executed.address)) {
            return self.leave(at);
        }
        let is_traced = self.last.is_some() || self.start_block(at);
        if !is_traced {
            return;
        }
        match executed.class {
            Class::Other => self.last = Some(at),
            _ => self.waypoint(at, executed),
        }
    }

    /// Traces an exception, with its Armv7 type: execution ran up to the return address and continues at the next instruction.
    /// The instruction that a type such as SVC or an undefined instruction is about is the last one that was executed.
    pub fn exception(&mut self, number: u16, return_address: Target) {
        if self.starts.is_some() {
            return;
        }
        self.arrive(return_address);
        let last = self.last.take();
        // What was executed before a reset is not traced.
        if let Some(last) = last.filter(|_| number != armv7::RESET) {
            self.waypoint_update(last);
        }
        let cycles = self.count();
        if number == armv7::DEBUG_ENTRY {
            self.enter_debug_state(cycles);
        } else {
            self.waiting = Some(Waiting { kind: WaitingKind::Exception(number), cycles });
            self.time_due = true;
        }
    }

    /// The packet has no meaning apart from its type.
    fn enter_debug_state(&mut self, cycles: u32) {
        self.flush();
        let info =
            BranchInfo { exception: armv7::DEBUG_ENTRY, nonsecure: self.traced.nonsecure, ..BranchInfo::default() };
        let cycles = self.config.cycle_accurate.then_some(cycles);
        self.emit(&Packet::Branch(Branch { address: Address::full(AddressIsa::Arm, 0), info: Some(info), cycles }));
        self.turn_off(SyncReason::DebugExit);
    }

    /// The next instruction is not traced.
    fn leave(&mut self, at: Target) {
        if self.starts.is_none() {
            self.arrive(at);
            self.stop();
        }
    }

    /// Stops after all instructions up to this address: entering Debug state traces the rest of a block.
    pub fn halt(&mut self, at: Target) {
        if self.starts.is_none() && self.last.is_some() {
            return self.exception(armv7::DEBUG_ENTRY, at);
        }
        self.arrive(at);
        self.stop();
    }

    /// Stops tracing: the following instructions do not continue the preceding ones. What waits for an address is not traced, except
    /// for a branch whose target the return stack cannot be taken to predict.
    pub fn stop(&mut self) {
        let waiting = self.waiting.take().filter(|_| !self.config.return_stack);
        if let Some(Waiting { kind: WaitingKind::Branch { .. } | WaitingKind::Return, cycles }) = waiting {
            self.atom(true, cycles);
        }
        self.turn_off(SyncReason::TraceEnabled);
    }

    fn turn_off(&mut self, reason: SyncReason) {
        self.flush();
        // An overflow stays one until tracing starts again.
        self.starts = Some(self.starts.unwrap_or(reason));
        (self.waiting, self.last) = (None, None);
        self.stack.clear();
    }

    /// Stops tracing until the next instruction: the ones before it are lost.
    pub fn overflow(&mut self) {
        self.stop();
        (self.starts, self.sync_due) = (Some(SyncReason::AfterOverflow), true);
    }

    /// Losses to the overflows that the settings ask for.
    pub fn overflowed(&self) -> OverflowLosses {
        self.overflows.losses()
    }

    /// Sets the time.
    #[inline]
    pub fn time(&mut self, time: u64) {
        self.time = Some(time);
        self.time_due |= self.times_all && self.traced_time != Some(time);
    }

    /// Adds cycles of the next instruction.
    #[inline]
    pub fn cycles(&mut self, cycles: u64) {
        self.cycles = self.cycles.saturating_add(cycles);
    }

    /// Ends the trace and flushes it.
    pub fn finish(&mut self) {
        self.stop();
    }

    /// Emits everything that is due before a block. False: its first instruction is not traced.
    fn start_block(&mut self, at: Target) -> bool {
        self.arrive(at);
        if self.starts.is_none() && self.overflows.start() {
            self.overflow();
        }
        if self.overflows.lose(true) {
            return false;
        }
        match self.starts.take() {
            Some(reason) => self.synchronize(at, reason),
            None if self.written() - self.synced_at >= self.sync_period => {
                self.sync_due = true;
                self.synchronize(at, SyncReason::Periodic);
            }
            // No other packet has the Security state and the mode.
            None if self.is_moved() => self.synchronize(at, SyncReason::Periodic),
            None => {}
        }
        self.identify();
        if self.time_due {
            self.timestamp();
        }
        self.block_start = at.address;
        true
    }

    /// Emits an instruction synchronization, after an alignment synchronization if one is due.
    fn synchronize(&mut self, at: Target, reason: SyncReason) {
        self.flush();
        if core::mem::take(&mut self.sync_due) {
            self.emit(&Packet::AlignmentSync);
            self.synced_at = self.written();
            self.timestamps.forget();
            self.time_due = true;
        }
        let is_counted = self.config.cycle_accurate && reason != SyncReason::Periodic;
        // All but the one of the next instruction.
        let gap = self.cycles.saturating_sub(1);
        let cycles = is_counted.then(|| clamp(gap));
        if is_counted {
            self.cycles -= gap;
        }
        let State { nonsecure, hyp, context_id, .. } = self.state;
        self.emit(&Packet::InstructionSync(InstructionSync {
            address: at.address as u32,
            thumb: at.isa == SubIsa::Is1,
            reason,
            nonsecure,
            alternative: false,
            hyp,
            cycles,
            context_id: (self.config.context_id_bytes > 0).then_some(context_id),
        }));
        if self.config.vmids {
            self.emit(&Packet::Vmid(self.state.vmid));
        }
        (self.base, self.traced) = (at, self.state);
        self.stack.clear();
    }

    /// Does the Security state or the mode differ from the traced one?
    fn is_moved(&self) -> bool {
        (self.state.nonsecure, self.state.hyp) != (self.traced.nonsecure, self.traced.hyp)
    }

    /// Emits identifiers that have changed.
    fn identify(&mut self) {
        if self.state.context_id != self.traced.context_id {
            self.flush();
            self.emit(&Packet::ContextId(self.state.context_id));
        }
        if self.state.vmid != self.traced.vmid {
            self.flush();
            self.emit(&Packet::Vmid(self.state.vmid));
        }
        self.traced = self.state;
    }

    fn timestamp(&mut self) {
        self.time_due = false;
        let Some(time) = self.time.filter(|_| self.config.timestamps) else { return };
        self.flush();
        let (value, bits) = self.timestamps.next(time);
        // The time is that of the next instruction, no cycles after the last waypoint.
        let cycles = self.config.cycle_accurate.then_some(0);
        self.emit(&Packet::Timestamp { value, bits, clock_changed: false, cycles });
        self.traced_time = Some(time);
    }

    /// Emits the packet that waits for this address.
    fn arrive(&mut self, at: Target) {
        let Some(Waiting { kind, cycles }) = self.waiting.take() else { return };
        let may_be_predicted = kind == WaitingKind::Branch { may_be_predicted: true } && !self.is_moved();
        if may_be_predicted && self.stack.pop_if(at) {
            return self.atom(true, cycles);
        }
        self.flush();
        let exception = if let WaitingKind::Exception(number) = kind { number } else { 0 };
        let info = (exception > 0 || self.is_moved()).then(|| self.info(exception));
        let address = self.compress(at, info.is_some());
        let cycles = self.config.cycle_accurate.then_some(cycles);
        self.emit(&Packet::Branch(Branch { address, info, cycles }));
        (self.traced.nonsecure, self.traced.hyp) = (self.state.nonsecure, self.state.hyp);
        if kind == WaitingKind::Return && self.config.version.minor > 0 {
            self.emit(&Packet::ExceptionReturn);
        }
    }

    fn info(&self, exception: u16) -> BranchInfo {
        let State { nonsecure, hyp, .. } = self.state;
        // Readers may keep the mode if the packet does not have it.
        let hyp = (hyp || self.traced.hyp || exception > 0xf).then_some(hyp);
        BranchInfo { exception, nonsecure, alternative: false, hyp }
    }

    /// The shortest form of an address, which is the last one sent from now on.
    fn compress(&mut self, at: Target, has_info: bool) -> Address {
        let isa = if at.isa == SubIsa::Is1 { AddressIsa::Thumb } else { AddressIsa::Arm };
        let (steps, base) = (at.address as u32 >> isa.shift(), self.base.address as u32 >> isa.shift());
        let is_other_isa = core::mem::replace(&mut self.base, at).isa != at.isa;
        // An address of one byte has no room for information.
        let fits = |bytes: &u8| (steps ^ base) >> Address::low(*bytes, 0).bits() == 0;
        match (if has_info { 2 } else { 1 }..=4).find(fits).filter(|_| !is_other_isa) {
            Some(bytes) => Address::low(bytes, steps & ((1 << Address::low(bytes, 0).bits()) - 1)),
            None => Address::full(isa, at.address as u32),
        }
    }

    /// Traces the end of a block.
    fn waypoint(&mut self, at: Target, executed: &Executed) {
        if let Some(last) = self.last.take()
            && at.address.wrapping_sub(self.block_start) > FARTHEST_WAYPOINT
        {
            self.waypoint_update(last);
        }
        let cycles = self.count();
        let is_direct = executed.class == Class::Direct && !self.broadcasts;
        if !executed.taken || is_direct || executed.class == Class::Barrier {
            self.atom(executed.taken, cycles);
            self.time_due |= executed.class == Class::Barrier && self.barriers_request_time;
        } else {
            let kind = match executed.class {
                Class::ExceptionReturn => WaitingKind::Return,
                // Readers may push before they pop: a call must not find its own return address.
                class => WaitingKind::Branch { may_be_predicted: class == Class::Indirect && !executed.link },
            };
            self.time_due |= kind == WaitingKind::Return;
            self.waiting = Some(Waiting { kind, cycles });
        }
        if executed.link && executed.taken && self.config.return_stack {
            let address = executed.address.wrapping_add(u64::from(executed.length)) & 0xffff_ffff;
            self.stack.push(Target { address, isa: executed.isa });
        }
    }

    fn waypoint_update(&mut self, last: Target) {
        self.flush();
        let address = self.compress(last, false);
        self.emit(&Packet::WaypointUpdate { address, alternative: None });
    }

    /// The cycles since the last count.
    fn count(&mut self) -> u32 {
        clamp(core::mem::take(&mut self.cycles))
    }

    fn atom(&mut self, taken: bool, cycles: u32) {
        if self.config.cycle_accurate {
            return self.emit(&Packet::Atoms { atoms: Atoms::new(taken.into(), 1), cycles: Some(cycles) });
        }
        self.atoms |= u32::from(taken) << self.atom_count;
        self.atom_count += 1;
        if self.atom_count == MAX_ATOMS {
            self.flush();
        }
    }

    /// Emits pending atoms.
    fn flush(&mut self) {
        let atoms = Atoms::new(core::mem::take(&mut self.atoms), core::mem::take(&mut self.atom_count));
        if !atoms.is_empty() {
            self.emit(&Packet::Atoms { atoms, cycles: None });
        }
    }

    fn written(&self) -> u64 {
        self.taken + self.out.len() as u64
    }

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

/// A count of cycles as packets have it.
fn clamp(cycles: u64) -> u32 {
    cycles.min(u32::MAX.into()) as u32
}
