//! Model of an ETMv3: turns execution into the bytes of its trace. The inverse of the decoders.
//!
//! instructions with their data, exceptions, contexts, time ─▶ **unit** ─▶ bytes
//!
//! Takes executed instructions in order, from a caller that knows the program. Produces packets, as few as the registers in
//! [`Settings`] allow. Does not know opcodes or files. The packet of a taken branch or of an exception has the address of the next
//! instruction, so it waits for that one. A trace unit of the A and R profiles: exceptions have the numbers of Armv7.
//! Specification: Arm IHI 0014.

mod data;
mod p_headers;
mod settings;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

pub use self::data::Access;
use self::data::Data;
use self::p_headers::PendingAtoms;
pub use self::settings::Settings;
use super::Config;
use super::encode::encode;
use super::packet::{
    Branch, BranchException, ExceptionInformation, InstructionSet, InstructionSync, Packet, SyncReason, SyncTarget,
};
use crate::exception::armv7;
pub use crate::unit::{Class, Executed, OverflowLosses};
use crate::unit::{Overflows, Timestamps, TraceEnable};
use crate::{Context, Security, SubIsa, Target};

/// Cycles without an instruction after which tracing stops: they would take more bytes than a new start.
const MAX_IDLE: u64 = 1 << 12;

/// The first version that marks exception returns on the A and R profiles.
const MARKS_RETURNS: u8 = 5;

/// A running ETMv3. [`take`](Self::take) hands out its bytes.
#[derive(Debug, Clone)]
pub struct Unit {
    config: Config,
    /// In bytes; `u64::MAX`: none.
    sync_period: u64,
    times_all: bool,
    broadcasts: bool,
    out: Vec<u8>,
    /// Number of bytes handed out so far.
    taken: u64,
    atoms: PendingAtoms,
    /// The last instruction address sent.
    base: Target,
    data: Data,
    overflows: Overflows,
    /// `None`: everything is traced.
    trace_enable: Option<TraceEnable>,
    state: State,
    /// The state that the trace contained last.
    traced: State,
    /// Why tracing starts; `None`: instructions are being traced.
    starts: Option<SyncReason>,
    /// The branch packet that waits for the address of the next instruction.
    waiting: Option<Waiting>,
    /// Something is due before the next instruction.
    attention: bool,
    sync_due: bool,
    /// Position of the last synchronization in the stream.
    synced_at: u64,
    timestamps: Timestamps,
    time: Option<u64>,
    traced_time: Option<u64>,
    time_due: bool,
    /// Cycles since the last atom.
    cycles: u64,
}

/// The traced part of the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    non_secure: bool,
    hyp: bool,
    context_id: u32,
    vmid: u8,
}

/// A branch packet without its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// A taken branch.
    Branch,
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
            out: Vec::new(),
            taken: 0,
            atoms: PendingAtoms::default(),
            base: Target::default(),
            data: Data::new(settings.late_seed),
            overflows: Overflows::new(settings.overflow_seed),
            trace_enable: TraceEnable::new(&settings.registers),
            state: State::default(),
            traced: State::default(),
            starts: Some(SyncReason::Enabled),
            waiting: None,
            attention: true,
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
            non_secure: context.security != Security::Secure,
            hyp: context.el == 2,
            context_id: context.context_id.unwrap_or(0) & mask,
            vmid: if self.config.vmids { context.vmid.unwrap_or(0) as u8 } else { 0 },
        };
        self.attention = true;
    }

    /// Traces an executed instruction, or one whose condition failed.
    #[inline]
    pub fn instruction(&mut self, executed: &Executed) {
        let at = Target { address: executed.address, isa: executed.isa };
        if self.trace_enable.as_ref().is_some_and(|enable| !enable.has(executed.address)) {
            return self.leave(at);
        }
        if self.attention && !self.attend(at) {
            return;
        }
        if self.has_two_atoms(executed) {
            self.atom(executed.taken);
        }
        self.atom(executed.taken);
        let may_branch = !matches!(executed.class, Class::Other | Class::Barrier);
        if may_branch && executed.taken {
            self.branch(executed);
        }
        self.attention |= self.written() - self.synced_at >= self.sync_period;
    }

    /// Traces the accesses of the last instruction, in the order of their addresses. Does nothing if data are not traced.
    pub fn accesses(&mut self, accesses: impl IntoIterator<Item = Access>) {
        if self.starts.is_some() || !(self.config.data_addresses || self.config.data_values) {
            return;
        }
        let mut accesses = accesses.into_iter().peekable();
        if accesses.peek().is_some() {
            self.flush();
            self.data.trace(accesses, &self.config, &mut self.out);
        }
    }

    /// Traces an exception, with its Armv7 type: execution ran up to the return address and continues at the next instruction.
    pub fn exception(&mut self, number: u16, return_address: Target) {
        if self.starts.is_some() {
            return;
        }
        self.arrive(return_address);
        (self.waiting, self.attention, self.time_due) = (Some(Waiting::Exception(number)), true, true);
        if number == armv7::DEBUG_ENTRY {
            self.arrive(return_address);
            self.turn_off(SyncReason::DebugExit);
        }
    }

    /// The next instruction is not traced.
    fn leave(&mut self, at: Target) {
        if self.starts.is_none() {
            self.arrive(at);
            self.stop();
        }
    }

    /// Stops after all instructions up to this address.
    pub fn halt(&mut self, at: Target) {
        self.arrive(at);
        self.stop();
    }

    /// Stops tracing: the following instructions do not continue the preceding ones. A branch or an exception that waits for an
    /// address gets none.
    pub fn stop(&mut self) {
        self.turn_off(SyncReason::Enabled);
    }

    fn turn_off(&mut self, reason: SyncReason) {
        self.flush();
        self.data.finish(&self.config, &mut self.out);
        // An overflow stays one until tracing starts again.
        self.starts = Some(self.starts.unwrap_or(reason));
        (self.waiting, self.attention) = (None, true);
    }

    /// Stops tracing until the next instruction: the ones before it are lost.
    pub fn overflow(&mut self) {
        self.stop();
        (self.starts, self.sync_due) = (Some(SyncReason::Overflow), true);
    }

    /// Losses to the overflows that the settings ask for.
    pub fn overflowed(&self) -> OverflowLosses {
        self.overflows.losses()
    }

    /// Sets the time.
    #[inline]
    pub fn time(&mut self, time: u64) {
        self.time = Some(time);
        if self.times_all && self.traced_time != Some(time) {
            (self.time_due, self.attention) = (true, true);
        }
    }

    /// Adds cycles of the next instruction.
    #[inline]
    pub fn cycles(&mut self, cycles: u64) {
        if self.config.cycle_accurate {
            self.cycles = self.cycles.saturating_add(cycles);
            self.attention |= self.cycles > MAX_IDLE;
        }
    }

    /// Ends the trace and flushes it.
    pub fn finish(&mut self) {
        self.stop();
        // At the end, readers take a branch of this byte for the filler of a trace buffer.
        if self.written() > 0 && self.out.last().is_none_or(|last| *last == 0x01) {
            self.emit(&Packet::Ignore);
        }
    }

    /// Emits everything that is due before an instruction. False: it is not traced.
    #[inline(never)]
    fn attend(&mut self, at: Target) -> bool {
        self.arrive(at);
        if self.starts.is_none() && self.overflows.start() {
            self.overflow();
        }
        if self.overflows.lose(true) {
            return false;
        }
        if self.cycles > MAX_IDLE && self.starts.is_none() {
            self.stop();
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
        self.attention = false;
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
        if reason != SyncReason::Periodic {
            self.data.forget_address();
        }
        let cycles = self.gap_cycles().filter(|_| reason != SyncReason::Periodic);
        let State { non_secure, hyp, context_id, .. } = self.state;
        let isa = if at.isa == SubIsa::Is1 { InstructionSet::Thumb } else { InstructionSet::Arm };
        self.emit(&Packet::InstructionSync(InstructionSync {
            reason,
            cycles,
            context_id: (self.config.context_id_bytes > 0).then_some(context_id),
            non_secure,
            hyp,
            target: Some(SyncTarget { address: at.address as u32, isa }),
            next: None,
        }));
        if cycles.is_some() {
            self.cycles = 1;
        }
        if self.config.vmids {
            self.emit(&Packet::Vmid(self.state.vmid));
        }
        (self.base, self.traced) = (at, self.state);
    }

    /// The cycles of a gap, if there are any: all but the one of the next instruction.
    fn gap_cycles(&self) -> Option<u32> {
        let cycles = self.cycles.saturating_sub(1).min(u32::MAX.into()) as u32;
        Some(cycles).filter(|cycles| *cycles > 0)
    }

    /// Does the Security state or the mode differ from the traced one?
    fn is_moved(&self) -> bool {
        (self.state.non_secure, self.state.hyp) != (self.traced.non_secure, self.traced.hyp)
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
        self.emit(&Packet::Timestamp { value, bits, frequency_changed: false });
        self.traced_time = Some(time);
    }

    /// Emits the branch packet that waits for this address.
    fn arrive(&mut self, at: Target) {
        let Some(waiting) = self.waiting.take() else { return };
        self.flush();
        let number = if let Waiting::Exception(number) = waiting { number } else { 0 };
        let information = (number > 0 || self.is_moved()).then(|| self.information(number));
        let branch = self.compress(at, information.map(BranchException::Information));
        self.emit(&Packet::Branch(branch));
        (self.traced.non_secure, self.traced.hyp) = (self.state.non_secure, self.state.hyp);
    }

    fn information(&self, number: u16) -> ExceptionInformation {
        let State { non_secure, hyp, .. } = self.state;
        // Readers may keep the mode if the packet does not have it.
        let hyp = (hyp || self.traced.hyp || number > 0xf).then_some(hyp);
        ExceptionInformation { number, non_secure, hyp, ..ExceptionInformation::default() }
    }

    /// The shortest form of an address, which is the last one sent from now on.
    fn compress(&mut self, at: Target, exception: Option<BranchException>) -> Branch {
        let isa = if at.isa == SubIsa::Is1 { InstructionSet::Thumb } else { InstructionSet::Arm };
        let (steps, base) = (at.address as u32 >> isa.shift(), self.base.address as u32 >> isa.shift());
        let is_other_isa = core::mem::replace(&mut self.base, at).isa != at.isa;
        let is_alternative = self.config.alternative_branches;
        // The last byte of the alternative encoding has one bit for the presence of exception bytes.
        let widths: [u8; 4] = if is_alternative { [6, 12, 19, 26] } else { [6, 13, 20, 27] };
        let usable = match exception {
            None => &widths[..],
            Some(_) if is_alternative => &widths[1..],
            Some(_) => &[],
        };
        match usable.iter().find(|bits| (steps ^ base) >> **bits == 0).filter(|_| !is_other_isa) {
            Some(&bits) => Branch { value: steps & ((1 << bits) - 1), bits, isa: None, exception },
            None => Branch { value: steps, bits: 32 - isa.shift(), isa: Some(isa), exception },
        }
    }

    /// Handles a taken branch: its target follows, unless the code has it.
    fn branch(&mut self, executed: &Executed) {
        if executed.class == Class::ExceptionReturn {
            if self.config.minor >= MARKS_RETURNS {
                self.flush();
                self.emit(&Packet::ExceptionExit);
            }
            self.time_due = true;
        }
        // A change of the instruction set always has a packet.
        if executed.class != Class::Direct || self.broadcasts || executed.changes_isa {
            (self.waiting, self.attention) = (Some(Waiting::Branch), true);
        }
    }

    /// Is it a T32 call whose halfwords are instructions of their own?
    fn has_two_atoms(&self, executed: &Executed) -> bool {
        let is_call = executed.class == Class::Direct && executed.link && executed.isa == SubIsa::Is1;
        is_call && self.config.two_atoms_per_thumb_call
    }

    fn atom(&mut self, is_executed: bool) {
        let Self { atoms, config, out, cycles, .. } = self;
        let mut emit = |header| emit(&Packet::PHeader(header), config, out);
        if config.cycle_accurate {
            let cycles = core::mem::take(cycles).min(u32::MAX.into()) as u32;
            atoms.push_after(cycles, is_executed, emit);
        } else {
            atoms.push(is_executed, &mut emit);
        }
    }

    /// Emits pending atoms.
    fn flush(&mut self) {
        let Self { atoms, config, out, .. } = self;
        atoms.flush(|header| emit(&Packet::PHeader(header), config, out));
    }

    fn written(&self) -> u64 {
        self.taken + self.out.len() as u64
    }

    fn emit(&mut self, packet: &Packet) {
        emit(packet, &self.config, &mut self.out);
    }
}

/// Every packet of this unit fits its own configuration; one that does not is dropped.
fn emit(packet: &Packet, config: &Config, out: &mut Vec<u8>) {
    let start = out.len();
    if encode(packet, config, out).is_none() {
        debug_assert!(false, "{packet:?}");
        out.truncate(start);
    }
    debug_assert!(config.accepts(out[start]), "{packet:?}");
}
