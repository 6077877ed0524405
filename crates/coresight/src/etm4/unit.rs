//! The trace unit, the decoder's twin: what a PE does becomes the bytes of its trace.
//!
//! instructions, exceptions, contexts, time ─▶ **unit** ─▶ bytes
//!
//! Takes what the PE executed, in order, from a caller that knows the program. Produces packets, as few as the registers
//! in [`Settings`] allow. Does not know opcodes or files. A block is what was executed after one P0 instruction up to and
//! including the next: the trace cannot express less, so filters that close within a block act at its end.
//! Specification: Arm IHI 0064 (ETMv4) and DDI 0487 (ETE).

mod addresses;
mod block;
mod comparators;
mod decision_memo;
mod elements;
mod guess;
mod limits;
mod overflow;
mod pending;
mod q;
mod resources;
mod settings;
mod stack;
#[cfg(test)]
mod tests;
mod view_inst;

use crate::{Context, Security, SubIsa, Target};
use alloc::vec::Vec;

use self::addresses::Addresses;
pub use self::block::Block;
use self::decision_memo::Decision;
use self::guess::Guesses;
pub use self::overflow::Overflowed;
use self::overflow::Overflows;
use self::pending::PendingAtoms;
use self::q::QElements;
pub use self::settings::Settings;
use self::stack::ReturnStack;
use self::view_inst::ViewInst;
use super::encode::encode;
use super::packet::{ExceptionAddress, Packet, TraceInfo};
use super::{Config, Version};

/// The exception type of a PE reset: of ETE, readers take no address from it.
const RESET: u16 = 0;

/// The exception type of a PE that halts for a debugger.
pub const DEBUG_HALT: u16 = 1;

/// What an instruction is to a trace unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// The trace has no element for it.
    #[default]
    Other,
    /// A branch whose target is in the opcode.
    Direct,
    /// A branch whose target is not in the opcode.
    Indirect,
    /// Returns from an exception.
    ExceptionReturn,
    /// Always executed, has an atom, continues after itself: an instruction barrier, perhaps a wait.
    Barrier,
}

/// An instruction that the PE executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Executed {
    /// Where it is.
    pub address: u64,
    /// Its instruction set.
    pub isa: SubIsa,
    /// How many bytes it has.
    pub length: u8,
    /// What it is.
    pub class: Class,
    /// It may also do nothing.
    pub conditional: bool,
    /// Writes a return address into the link register.
    pub link: bool,
    /// It branched. Without meaning for what is no branch.
    pub taken: bool,
}

/// A trace unit at work. Its bytes are taken with [`take`](Self::take).
#[derive(Debug, Clone)]
pub struct Unit {
    config: Config,
    is_ete: bool,
    /// In bytes; more than there will ever be if there is none.
    sync_period: u64,
    times_all: bool,
    cycle_threshold: u32,
    broadcasts: bool,
    source_addresses: bool,
    out: Vec<u8>,
    /// Bytes that were taken already.
    taken: u64,
    atoms: PendingAtoms,
    addresses: Addresses,
    stack: ReturnStack,
    view: ViewInst,
    guesses: Guesses,
    q_elements: QElements,
    overflows: Overflows,
    /// What is traced of the context.
    context: Context,
    /// All of it: comparators may ask for what is not traced.
    whole_context: Context,
    /// What the trace said last.
    traced_context: Option<Context>,
    /// That is another one.
    has_moved: bool,
    /// The next instruction wants a closer look.
    attention: bool,
    /// Instructions are being traced.
    is_on: bool,
    /// Something was traced after the last P0 element.
    in_block: bool,
    /// The address where execution continues has to be traced.
    needs_address: bool,
    /// Not even the return stack may spare it.
    address_is_forced: bool,
    in_broadcast: bool,
    sync_due: bool,
    /// Where the last synchronisation was.
    synced_at: u64,
    time: Option<u64>,
    traced_time: u64,
    time_due: bool,
    cycles: u64,
    /// After an overflow the number is not known.
    cycles_are_unknown: bool,
}

impl Unit {
    /// A trace unit that starts.
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
            guesses: Guesses::new(settings.guess_seed, config.max_speculation),
            q_elements: QElements::new(settings),
            overflows: Overflows::new(settings.overflow_seed),
            context,
            whole_context: context,
            traced_context: None,
            has_moved: true,
            attention: true,
            is_on: false,
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

    /// The bytes that were made since the last time.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Takes the bytes out.
    pub fn take(&mut self, mut sink: impl FnMut(&[u8])) {
        sink(&self.out);
        self.taken += self.out.len() as u64;
        self.out.clear();
    }

    /// The PE is in this context from the next instruction on. Identifiers that are not traced are of no interest.
    pub fn context(&mut self, context: Context) {
        let fits = |value: Option<u32>, is_traced: bool, bytes: u8| {
            let mask = u32::MAX.checked_shr(32 - 8 * u32::from(bytes.min(4))).unwrap_or(0);
            is_traced.then_some(value.unwrap_or(0) & mask)
        };
        let vmid = fits(context.vmid, self.config.vmids, self.config.vmid_bytes);
        let context_id = fits(context.context_id, self.config.context_ids, self.config.context_id_bytes);
        self.context = Context { vmid, context_id, ..context };
        self.has_moved = self.traced_context != Some(self.context);
        self.whole_context = context;
        self.view.forget();
        self.attention = true;
    }

    /// The PE executed an instruction.
    #[inline]
    pub fn instruction(&mut self, executed: &Executed) {
        let is_cached = !self.attention && self.view.is_cached_as_traced(executed.address);
        if !is_cached && !self.attend(Target { address: executed.address, isa: executed.isa }, None) {
            return;
        }
        self.in_block = true;
        if executed.class != Class::Other {
            self.p0(executed, executed.taken);
        }
    }

    /// An exception was taken: execution ran up to the return address and goes on at the next instruction.
    pub fn exception(&mut self, number: u16, return_address: Target) {
        let return_address = self.sayable(return_address);
        if self.needs_address && self.is_on && !self.view.shows(return_address, &self.whole_context) {
            self.turn_off();
        }
        if !self.is_on {
            return;
        }
        if number == RESET && self.is_ete && self.in_block {
            // The rest of the block can only be told before.
            self.exception(DEBUG_HALT, return_address);
        }
        self.q_elements.arrive(return_address);
        self.flush_q();
        if self.needs_address && self.config.return_stack {
            // One packet for target and return address would do, but the reference decoder pops its return stack then.
            self.address_is_forced = true;
            self.find(return_address);
        }
        let is_target_too = self.needs_address;
        let address = if is_target_too { ExceptionAddress::TargetAndReturn } else { ExceptionAddress::Return };
        self.flush();
        self.emit(&Packet::Exception { number, address, fault_pending: None });
        // An exception packet cannot be told apart from its address: nothing may come between them.
        self.address(return_address, is_target_too);
        self.guesses.element(1);
        self.go_anywhere();
        self.time_due = true;
    }

    /// A return address as packets have it: they have no words for low bits that no instruction set has.
    fn sayable(&self, at: Target) -> Target {
        let is_t32 = !self.context.aarch64 && at.address & 3 == 2;
        let isa = if is_t32 { SubIsa::Is1 } else { at.isa };
        let all = if self.context.aarch64 { u64::MAX } else { 0xffff_ffff };
        Target { address: at.address & all & (u64::MAX << isa.shift()), isa }
    }

    /// The PE stops, having executed all up to this address: the rest of a block can only be told so.
    pub fn halt(&mut self, at: Target) {
        if self.is_on && self.in_block {
            self.exception(DEBUG_HALT, at);
        }
        self.stop();
    }

    /// What follows does not continue what went before.
    pub fn stop(&mut self) {
        self.turn_off();
    }

    /// The trace unit had no room: what the PE did from here until the next instruction that it tells of is lost.
    pub fn overflow(&mut self) {
        self.turn_off();
        if self.written() == 0 {
            // Readers pass over all that is before the first synchronisation.
            self.synchronise();
        }
        self.emit(&Packet::Overflow);
        (self.sync_due, self.cycles_are_unknown) = (true, true);
    }

    /// What was lost where the settings ask for overflows.
    pub fn overflowed(&self) -> Overflowed {
        self.overflows.losses()
    }

    /// Events 0 to 3 happened, bits 0 to 3.
    #[inline(never)]
    pub fn event(&mut self, mask: u8) {
        if mask & 15 == 0 {
            return;
        }
        if self.written() == 0 {
            self.synchronise();
        }
        self.flush();
        self.emit(&Packet::Event { mask: mask & 15 });
    }

    /// It is this late.
    #[inline]
    pub fn time(&mut self, time: u64) {
        self.time = Some(time);
    }

    /// So many cycles went by.
    #[inline]
    pub fn cycles(&mut self, cycles: u64) {
        if self.config.cycle_counting {
            self.cycles = self.cycles.saturating_add(cycles);
        }
    }

    /// The trace ends: nothing stays behind.
    pub fn finish(&mut self) {
        self.turn_off();
    }

    /// Before the next instruction something may have to be said. False: it is not traced.
    #[inline(never)]
    fn attend(&mut self, at: Target, window: Option<u16>) -> bool {
        let decision = self.view.evaluate(at, window, &self.whole_context);
        !self.overflows.lose(decision.is_shown) && self.meet(at, decision)
    }

    /// Applies a decision to an instruction. False: it is not traced.
    #[inline(always)]
    fn meet(&mut self, at: Target, decision: Decision) -> bool {
        let goes_on = self.goes_on();
        if !decision.is_shown && !goes_on {
            self.turn_off_if_on();
            self.event(decision.events);
            return false;
        }
        self.time_due |= decision.asks_for_time && self.time.is_some_and(|time| time != self.traced_time);
        if !goes_on {
            self.start_block(at);
        }
        if decision.events != 0 {
            self.event(decision.events);
        }
        if self.q_elements.is_open() {
            self.go_on_untold(at);
        }
        self.attention = self.time_due || self.q_elements.is_open() || self.has_moved;
        true
    }

    /// Is what comes next the rest of a block that is traced?
    #[inline(always)]
    fn goes_on(&self) -> bool {
        self.is_on && self.in_block
    }

    /// The trace said this context, or none that holds.
    fn set_traced_context(&mut self, context: Option<Context>) {
        self.traced_context = context;
        self.has_moved = context.is_none();
    }

    /// Says where a block is, and what else there is to say there.
    fn start_block(&mut self, at: Target) {
        if self.q_elements.arrive(at) {
            self.flush_q();
        }
        if self.sync_due {
            self.synchronise();
        }
        if !self.is_on {
            self.flush();
            self.emit(&Packet::TraceOn);
            self.is_on = true;
            // Readers forget the context here.
            self.set_traced_context(None);
        }
        let is_spared = self.find(at);
        if self.time_due {
            self.tell_time();
        }
        // The reference decoder asks its return stack again behind a Q element that starts where the stack said.
        if self.q_elements.are_made() && !is_spared && self.q_elements.starts() {
            self.flush();
            self.q_elements.open();
        }
    }

    /// Gives readers a place to start, if it is time for that.
    #[inline(never)]
    fn synchronise(&mut self) {
        if !core::mem::take(&mut self.sync_due) {
            return;
        }
        self.flush();
        if self.config.return_stack {
            // The reference decoder empties its return stack here, before it has gone through what is speculative.
            self.commit_all();
        }
        self.emit(&Packet::AlignmentSync);
        let counts = self.config.cycle_counting;
        let speculates = self.config.max_speculation > 0;
        self.emit(&Packet::TraceInfo(TraceInfo {
            info: Some(u32::from(counts)),
            key: None,
            speculation: speculates.then_some(self.guesses.outstanding()),
            cycle_threshold: counts.then_some(self.cycle_threshold),
        }));
        self.addresses = Addresses::default();
        self.set_traced_context(None);
        self.stack.clear();
        self.traced_time = 0;
        self.go_anywhere();
        self.time_due = true;
        self.synced_at = self.written();
    }

    /// Tells where execution is and in which context, as far as that does not follow from what was told. True: the return
    /// stack spares the address.
    fn find(&mut self, at: Target) -> bool {
        let mut moved = self.has_moved;
        if moved && self.q_elements.is_open() {
            self.flush_q();
            moved = self.has_moved;
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
        let may_be_spared = !self.address_is_forced && !moved && !self.source_addresses;
        let is_spared = may_be_spared && self.stack.pop_if(at);
        if !is_spared {
            self.flush();
            self.address(at, true);
        }
        (self.needs_address, self.address_is_forced) = (false, false);
        is_spared
    }

    /// An address, with the context if that is new and may be told here.
    fn address(&mut self, at: Target, with_context: bool) {
        if with_context && self.has_moved {
            let address = self.addresses.long(at);
            self.emit(&Packet::AddressContext { address, context: self.context });
            self.set_traced_context(Some(self.context));
        } else {
            let address = self.addresses.shortest(at);
            self.emit(&Packet::Address(address));
        }
    }

    /// A P0 instruction, which branched or not, whatever it says itself.
    fn p0(&mut self, executed: &Executed, taken: bool) {
        self.in_block = false;
        if self.q_elements.are_made() {
            self.attention = true;
            if self.is_untold(executed) {
                return;
            }
        }
        let is_branch = executed.class != Class::Barrier;
        let taken = taken || !is_branch;
        if self.source_addresses && taken && is_branch && self.is_ete {
            self.source_address(executed);
        } else if self.guesses.are_made() {
            // A call that is guessed wrong would be on the reader's return stack.
            self.guess(taken, executed.conditional && !executed.link);
        } else {
            self.atoms.push(taken, &mut self.out);
        }
        if is_branch && self.is_followed_up(executed) && taken {
            self.branch(executed);
        }
        self.after_p0();
    }

    /// May there be more to tell of this branch, or to remember, if it is taken?
    #[inline(always)]
    fn is_followed_up(&self, executed: &Executed) -> bool {
        executed.class != Class::Direct || self.broadcasts || (executed.link && self.config.return_stack)
    }

    fn after_p0(&mut self) {
        if self.config.cycle_counting && self.cycles >= u64::from(self.cycle_threshold) {
            self.count_cycles();
        }
        self.synchronise_if_late();
        if self.times_all && self.time.is_some_and(|time| time != self.traced_time) {
            (self.time_due, self.attention) = (true, true);
        }
        if self.overflows.start() {
            self.overflow();
        }
    }

    /// Was the last synchronisation long ago? Then there is another one before the next block.
    #[inline(always)]
    fn synchronise_if_late(&mut self) {
        if self.written() - self.synced_at >= self.sync_period {
            (self.sync_due, self.attention) = (true, true);
        }
    }

    /// A branch was taken: what has to be told of its target?
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
                self.go_anywhere();
            }
            _ if self.in_broadcast => self.go_anywhere(),
            _ => return,
        }
        self.attention = true;
    }

    /// Does every taken branch here tell its target? The return stack is of no use then.
    fn broadcast(&mut self, at: Target) {
        let was_in = self.in_broadcast;
        self.in_broadcast = self.view.broadcasts_at(at, &self.whole_context);
        if self.in_broadcast && !was_in {
            self.stack.clear();
        }
    }

    /// Where execution goes on follows from nothing that was told.
    fn go_anywhere(&mut self) {
        (self.needs_address, self.address_is_forced, self.in_block, self.attention) = (true, true, false, true);
    }

    fn turn_off_if_on(&mut self) {
        if self.is_on {
            self.turn_off();
        }
    }

    fn turn_off(&mut self) {
        if self.is_on {
            self.commit_all();
        }
        self.is_on = false;
        self.stack.clear();
        self.go_anywhere();
    }

    /// What came before is told before what comes now. There are never both.
    fn flush(&mut self) {
        self.atoms.flush(&mut self.out);
        self.flush_q();
    }

    fn written(&self) -> u64 {
        self.taken + self.out.len() as u64
    }

    #[inline(always)]
    fn emit(&mut self, packet: &Packet) {
        // What this unit makes fits the configuration that it was made from; what does not is left out.
        let start = self.out.len();
        if encode(packet, &self.config, &mut self.out).is_none() {
            debug_assert!(false, "{packet:?}");
            self.out.truncate(start);
        }
        debug_assert!(self.config.accepts(self.out[start]), "{packet:?}");
    }
}
