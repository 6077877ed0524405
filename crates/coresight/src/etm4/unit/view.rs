//! ViewInst: which instructions are traced; where branches are broadcast and Q elements may be; when events happen.

use super::resources::Resources;
use super::settings::Settings;
use crate::etm4::config::field;
use crate::etm4::element::Target;
use crate::etm4::packet::{Context, Security};

/// Says of each instruction whether it is traced, and what happens with it.
#[derive(Debug, Clone)]
pub(super) struct View {
    resources: Resources,
    control: u32,
    include_exclude: u32,
    start_stop: u32,
    broadcast: u32,
    q: u32,
    /// What makes the events that are traced; zero for those that are not.
    events: [u32; 4],
    /// What asks for timestamps.
    time: u32,
    /// Events that held with the last instruction.
    holding: u8,
    /// Between a start and a stop.
    is_started: bool,
    /// Some instructions may be left out.
    filters: bool,
    watches: bool,
}

/// What there is to an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// It is traced.
    pub(super) is_shown: bool,
    /// Events that start to hold with it, one bit each.
    pub(super) events: u8,
    /// A timestamp is asked for.
    pub(super) asks_for_time: bool,
}

impl View {
    pub(super) fn new(settings: &Settings) -> Self {
        let [control, include_exclude, start_stop, broadcast, q, sources, enabled] =
            ["TRCVICTLR", "TRCVIIECTLR", "TRCVISSCTLR", "TRCBBCTLR", "TRCQCTLR", "TRCEVENTCTL0R", "TRCEVENTCTL1R"]
                .map(|name| settings.low(name));
        let levels = control & 0x07ff_0000;
        let filters = levels | include_exclude | start_stop != 0 || control & 0xff != 1 || control & 1 << 9 == 0;
        let events = core::array::from_fn(|n| {
            let n = n as u32;
            if field(enabled, n, 1) == 1 { field(sources, 8 * n, 8) } else { 0 }
        });
        // Who always wants to know the time needs no look at each instruction.
        let time = if settings.times_all() { 0 } else { settings.low("TRCTSCTLR") & 0xff };
        Self {
            resources: Resources::new(settings),
            control,
            include_exclude,
            start_stop,
            broadcast,
            q,
            events,
            time,
            holding: 0,
            is_started: control & 1 << 9 != 0,
            filters,
            watches: filters || events != [0; 4] || time != 0,
        }
    }

    /// Does each instruction want a look?
    #[inline]
    pub(super) fn watches(&self) -> bool {
        self.watches
    }

    /// The PE gets to an instruction: what is there to it? To be asked of each once, in order.
    pub(super) fn look(&mut self, at: Target, context: &Context) -> Seen {
        let is_shown = !self.filters || self.passes(at, context);
        let holding = self.holding(at, context);
        let events = holding & !self.holding;
        self.holding = holding;
        let asks_for_time = self.time != 0 && self.resources.holds(self.time, at, context);
        self.resources.pass(at, context);
        Seen { is_shown, events, asks_for_time }
    }

    /// Is it traced? Start and stop points take effect.
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

    /// Are targets of direct branches at this address told?
    pub(super) fn broadcasts_at(&self, at: Target, context: &Context) -> bool {
        self.is_chosen(self.broadcast, at, context)
    }

    /// May this instruction be part of a Q element?
    pub(super) fn may_be_in_q(&self, at: Target, context: &Context) -> bool {
        self.is_chosen(self.q, at, context)
    }

    /// Ranges and a mode: inside of them, or everywhere else.
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
            // The bit of a Realm level says whether it differs from the Non-secure one.
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
