//! ViewInst: which instructions are traced, where branches are broadcast, where Q elements may be, when events occur.
//!
//! Takes the registers and, in order of execution, addresses with their context. Produces one [`Decision`] per
//! instruction. Does not know packets.
//!
//! # A memoized state machine
//!
//! ViewInst is a state machine: its state is the start/stop bit, the events that hold and the single-shot comparators
//! that have fired; its input is an address. Comparators divide the address space into windows in which they all answer
//! alike, so the input is really the number of a window, and both state and input are small numbers:
//!
//! ```text
//!               TRCACVR0      TRCACVR1
//!                  │             │
//!  addresses ──────┼──────┼──────┼──────▶         memo     window 0      window 1      window 2
//!     window 0     │ window 1    │ window 2      state 0 │ traced, →0 │ event 2, →1 │ not evaluated
//!                                                state 1 │ traced, →1 │ not eval.   │ hidden, →0
//! ```
//!
//! Each instruction is answered by the first of three levels that knows the answer:
//!
//! 1. [`CachedWindow`]: the last window, if its decision led back to the same state. One subtraction and one comparison;
//!    a loop inside one window never leaves this level.
//! 2. [`DecisionMemo`]: the table above, state × window → decision and next state.
//! 3. The registers themselves, once for each cell of the table.
//!
//! A change of context changes what comparators answer, so it clears the first two levels. Counters, the sequencer and external
//! inputs have too many states: where selectors look at them, each instruction asks the registers.

use super::decision_memo::{Decision, DecisionMemo, State, Steady, Transition};
use super::resources::Resources;
use super::settings::Settings;
use crate::etm4::config::field;
use crate::exception::{PE_RESET, SYSTEM_ERROR};
use crate::{Context, Security, Target};

/// The ViewInst function of a trace unit, and the memo of its decisions.
#[derive(Debug, Clone)]
pub(super) struct ViewInst {
    resources: Resources,
    control: u32,
    include_exclude: u32,
    start_stop: u32,
    broadcast: u32,
    q: u32,
    /// Selectors of the events; zero for those that are neither traced nor triggers.
    events: [u32; 4],
    /// Events that are traced, one bit each.
    pub(super) traced_events: u8,
    /// Selector of the event that requests timestamps.
    time: u32,
    /// Events that held with the last instruction.
    holding: u8,
    /// Between a start point and a stop point.
    is_started: bool,
    /// Some instructions may not be traced.
    filters: bool,
    /// Instructions need a decision: filters, events or timestamp requests are on.
    watches: bool,
    cached: CachedWindow,
    memo: DecisionMemo,
}

/// The last window of addresses, if the decision there left the state as it was.
#[derive(Debug, Clone, Copy, Default)]
struct CachedWindow {
    start: u64,
    /// Bytes; none if nothing is known.
    length: u64,
    /// The decision for each of its instructions.
    decision: Decision,
    /// Bytes whose instructions are traced, with no other effect.
    shown: u64,
}

impl CachedWindow {
    fn new((start, length): (u64, u64), decision: Decision) -> Self {
        Self { start, length, decision, shown: if decision == Decision::SHOWN { length } else { 0 } }
    }
}

impl ViewInst {
    pub(super) fn new(settings: &Settings) -> Self {
        let [control, include_exclude, start_stop, broadcast, q, sources, enabled] =
            ["TRCVICTLR", "TRCVIIECTLR", "TRCVISSCTLR", "TRCBBCTLR", "TRCQCTLR", "TRCEVENTCTL0R", "TRCEVENTCTL1R"]
                .map(|name| settings.low(name));
        let levels = control & 0x07ff_0000;
        let filters = levels | include_exclude | start_stop != 0 || control & 0xff != 1 || control & 1 << 9 == 0;
        let watched = enabled | u32::from(settings.triggers());
        let events = core::array::from_fn(|n| {
            let n = n as u32;
            if field(watched, n, 1) == 1 { field(sources, 8 * n, 8) } else { 0 }
        });
        // Timestamps that are always requested need no decision per instruction.
        let time = if settings.times_all() { 0 } else { settings.low("TRCTSCTLR") & 0xff };
        let watches = filters || events != [0; 4] || time != 0;
        let all = CachedWindow::new((0, u64::MAX), Decision::SHOWN);
        let resources = Resources::new(settings);
        let is_started = control & 1 << 9 != 0;
        let state = State { is_started, holding: 0, fired: resources.fired };
        Self {
            memo: DecisionMemo::new(resources.comparators.windows(), state),
            resources,
            control,
            include_exclude,
            start_stop,
            broadcast,
            q,
            events,
            traced_events: field(enabled, 0, 4) as u8,
            time,
            holding: 0,
            is_started,
            filters,
            watches,
            cached: if watches { CachedWindow::default() } else { all },
        }
    }

    /// Is the decision for this address cached, and is it to trace with no other effect?
    #[inline(always)]
    pub(super) fn is_cached_as_traced(&self, address: u64) -> bool {
        address.wrapping_sub(self.cached.start) < self.cached.shown
    }

    /// Clears what is cached: comparators may answer differently in another context.
    pub(super) fn forget(&mut self) {
        if self.watches {
            self.cached = CachedWindow::default();
            self.memo.clear(self.state());
        }
    }

    /// Is the start/stop function between a start point and a stop point?
    pub(super) fn is_started(&self) -> bool {
        self.is_started
    }

    /// Takes the start/stop function back to an earlier state (DDI 0487, R_CYQZV).
    pub(super) fn set_started(&mut self, is_started: bool) {
        self.is_started = is_started;
        self.forget();
    }

    /// Do decisions depend on more than addresses and contexts?
    pub(super) fn is_dynamic(&self) -> bool {
        self.resources.are_dynamic
    }

    /// Sets the external inputs that are active with the next instruction, one bit each.
    pub(super) fn set_inputs(&mut self, inputs: u32) {
        self.resources.inputs = inputs;
    }

    /// The window that an address is in, and the end of that window.
    pub(super) fn window(&self, address: u64) -> (u16, u64) {
        let window = self.resources.comparators.window(address);
        let (start, length) = self.resources.comparators.extent(window);
        (window, start + length)
    }

    /// The decision that every instruction of a window gets for as long as the state stays.
    #[inline(always)]
    pub(super) fn steady(&self, window: u16) -> Steady {
        if self.watches { self.memo.steady(window) } else { Steady::Shown }
    }

    /// The decision for an instruction. Call it for each instruction in order of execution; those that
    /// [`is_cached_as_traced`](Self::is_cached_as_traced) accepts may be left out.
    #[inline(always)]
    pub(super) fn evaluate(&mut self, at: Target, window: Option<u16>, context: &Context) -> Decision {
        let is_known = at.address.wrapping_sub(self.cached.start) < self.cached.length;
        if is_known {
            return self.cached.decision;
        }
        let window = window.unwrap_or_else(|| self.resources.comparators.window(at.address));
        self.evaluate_and_cache(at, window, context)
    }

    #[inline(never)]
    fn evaluate_and_cache(&mut self, at: Target, window: u16, context: &Context) -> Decision {
        if self.resources.are_dynamic {
            return self.evaluate_registers(at, context);
        }
        let before = self.memo.state;
        let decision = match self.memo.find(window) {
            Some(Transition { decision, next }) => {
                self.enter(next);
                decision
            }
            None => self.evaluate_and_memoize(window, at, context),
        };
        // A transition to the same state has the same result when it is repeated.
        let stays = before == self.memo.state;
        let extent = if stays { self.resources.comparators.extent(window) } else { (0, 0) };
        self.cached = CachedWindow::new(extent, decision);
        decision
    }

    #[inline(never)]
    fn evaluate_and_memoize(&mut self, window: u16, at: Target, context: &Context) -> Decision {
        let decision = self.evaluate_registers(at, context);
        self.memo.learn(window, decision, self.state());
        decision
    }

    /// The state of the machine.
    fn state(&self) -> State {
        State { is_started: self.is_started, holding: self.holding, fired: self.resources.fired }
    }

    fn enter(&mut self, next: u16) {
        if next != self.memo.state {
            self.memo.state = next;
            let State { is_started, holding, fired } = self.memo.states[usize::from(next)];
            (self.is_started, self.holding) = (is_started, holding);
            self.resources.fired = fired;
        }
    }

    fn evaluate_registers(&mut self, at: Target, context: &Context) -> Decision {
        let is_shown = !self.filters || self.passes(at, context);
        let holding = self.holding(at, context);
        let events = holding & !self.holding;
        self.holding = holding;
        let asks_for_time = self.time != 0 && self.resources.holds(self.time, at, context);
        self.resources.pass(at, context);
        Decision { is_shown, events, asks_for_time }
    }

    /// Is an executed instruction traced? Start and stop points take effect.
    fn passes(&mut self, at: Target, context: &Context) -> bool {
        let is_shown = self.shows(at, context);
        // The instruction at a stop point is the last that is traced.
        let is_started = self.is_started || self.resources.comparators.address(self.start_stop, at, context);
        self.is_started = is_started && !self.resources.comparators.address(self.start_stop >> 16, at, context);
        is_shown
    }

    /// Would an instruction here be traced?
    pub(super) fn shows(&self, at: Target, context: &Context) -> bool {
        let is_started = self.is_started || self.resources.comparators.address(self.start_stop, at, context);
        is_started
            && self.resources.holds(field(self.control, 0, 8), at, context)
            && self.has_level(context)
            && self.has_address(at, context)
    }

    /// Is an exception of this type always traced? TRCVICTLR.TRCRESET and TRCERR.
    pub(super) fn always_traces(&self, exception: u16) -> bool {
        match exception {
            PE_RESET => field(self.control, 10, 1) == 1,
            SYSTEM_ERROR => field(self.control, 11, 1) == 1,
            _ => false,
        }
    }

    /// Are targets of direct branches at this address traced?
    pub(super) fn broadcasts_at(&self, at: Target, context: &Context) -> bool {
        self.is_chosen(self.broadcast, at, context)
    }

    /// May this instruction be part of a Q element?
    pub(super) fn may_be_in_q(&self, at: Target, context: &Context) -> bool {
        self.is_chosen(self.q, at, context)
    }

    /// Is the address in the ranges of a control register, or outside of them, as its mode bit says?
    fn is_chosen(&self, control: u32, at: Target, context: &Context) -> bool {
        let is_in = self.resources.comparators.range(control, at, context);
        is_in == (field(control, 8, 1) == 1)
    }

    fn holding(&self, at: Target, context: &Context) -> u8 {
        let holds = |event: u32| event != 0 && self.resources.holds(event, at, context);
        self.events.iter().rev().fold(0, |bits, event| bits << 1 | u8::from(holds(*event)))
    }

    fn has_level(&self, context: &Context) -> bool {
        let bit = |low: u32| self.control >> (low + u32::from(context.el & 3)) & 1 == 1;
        let is_masked = match context.security {
            Security::Secure | Security::Root => bit(16),
            Security::NonSecure => context.el < 3 && bit(20),
            // The bit of a Realm level inverts that of the Non-secure one.
            Security::Realm => context.el < 3 && bit(20) != bit(24),
        };
        !is_masked
    }

    fn has_address(&self, at: Target, context: &Context) -> bool {
        let comparators = &self.resources.comparators;
        let (include, exclude) = (field(self.include_exclude, 0, 8), field(self.include_exclude, 16, 8));
        (include == 0 || comparators.range(include, at, context)) && !comparators.range(exclude, at, context)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::unit::random;
    use crate::{Protocol, SubIsa};

    /// Registers that use addresses in many ways: filters, start and stop points, events of all kinds, single shots.
    pub(in super::super) fn settings(state: &mut u64, groups: &[u64]) -> Settings {
        let mut settings = Settings::new(Protocol::Ete);
        let mut set = |name: &str, value: u64| assert!(settings.set(name, value), "{name}");
        let mut pick = |values: &[u64]| values[random(state) as usize % values.len()];
        for n in 0..6 {
            set(&alloc::format!("TRCACVR{n}"), 0x1000 + 4 * pick(&[1, 2, 5, 6, 9, 14, 20]));
            set(&alloc::format!("TRCACATR{n}"), pick(&[0, 0, 1 << 13, 1 << 2]));
        }
        set("TRCVICTLR", pick(&[1, 0x201, 0x202, 0x82, 0x20_0201]));
        set("TRCVIIECTLR", pick(&[0, 1, 2, 0x1_0000, 0x4_0003]));
        set("TRCVISSCTLR", pick(&[0, 0x2_0001, 0x10_0008]));
        for n in 2..6 {
            let group = pick(groups);
            set(&alloc::format!("TRCRSCTLR{n}"), group << 16 | pick(&[1, 2, 3, 7]) | pick(&[0, 1, 2, 3]) << 20);
        }
        set("TRCSSCCR0", pick(&[0x100_0001, 0x1_0000, 4]));
        set("TRCSSCCR1", pick(&[0x102_0000, 0x2_0000, 8]));
        set("TRCEVENTCTL0R", pick(&[0x0302_8105, 0x8204_0302]));
        set("TRCEVENTCTL1R", pick(&[0, 5, 15]));
        set("TRCTSCTLR", pick(&[0, 2, 0x81]));
        settings
    }

    #[test]
    fn cached_and_memoized_decisions_equal_evaluated_ones() {
        let state = &mut 1;
        let mut cached = 0;
        for row in 0..300 {
            let settings = settings(state, &[3, 4, 5, 6]);
            let (mut view, mut fresh) = (ViewInst::new(&settings), ViewInst::new(&settings));
            let (el, aarch64, security) = (0, true, Security::NonSecure);
            let mut context = Context { el, aarch64, security, vmid: None, context_id: Some(0) };
            let mut address = 0x1000;
            for step in 0..300 {
                let random = random(state);
                address = if random.is_multiple_of(7) { 0x1000 + 4 * (random >> 8 & 31) } else { address + 4 };
                if random >> 16 & 31 == 0 {
                    context = Context { el: (random >> 24 & 1) as u8, context_id: Some(random as u32 & 1), ..context };
                    view.forget();
                }
                let at = Target { address, isa: SubIsa::Is0 };
                fresh.forget();
                let expected = fresh.evaluate(at, None, &context);
                let is_cached = view.is_cached_as_traced(address);
                cached += u32::from(is_cached);
                let (window, _) = view.window(address);
                let window = (random >> 32 & 1 == 0).then_some(window);
                let steady = view.steady(view.window(address).0);
                let found = if is_cached { Decision::SHOWN } else { view.evaluate(at, window, &context) };
                let matches_steady = match steady {
                    Steady::Not => true,
                    Steady::Shown => expected == Decision::SHOWN,
                    Steady::Timed => expected == Decision { asks_for_time: true, ..Decision::SHOWN },
                    Steady::Hidden => expected == Decision { is_shown: false, ..Decision::SHOWN },
                };
                assert!(matches_steady, "row {row}, step {step}");
                assert_eq!(found, expected, "row {row}, step {step}, {address:#x}: {settings:?}");
            }
        }
        assert!(cached > 5000, "{cached}");
    }
}
