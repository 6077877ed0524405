//! ViewInst: which instructions are traced; where branches are broadcast and Q elements may be; when events happen.
//!
//! Between two addresses that comparators look for, all instructions have the same answers: they are kept.

use super::answers::{Answer, Answers, Settled, State};
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
    calm: Calm,
    answers: Answers,
}

/// Addresses where every instruction sees the same, until something changes.
#[derive(Debug, Clone, Copy, Default)]
struct Calm {
    start: u64,
    /// Bytes; none if nothing is known.
    length: u64,
    /// What there is to an instruction here.
    seen: Seen,
    /// Bytes where nothing has to be done: it is shown, and that is all.
    shown: u64,
}

impl Calm {
    fn new((start, length): (u64, u64), seen: Seen) -> Self {
        Self { start, length, seen, shown: if seen == Seen::SHOWN { length } else { 0 } }
    }
}

/// What there is to an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// It is traced.
    pub(super) is_shown: bool,
    /// Events that start to hold with it, one bit each.
    pub(super) events: u8,
    /// A timestamp is asked for.
    pub(super) asks_for_time: bool,
}

impl Seen {
    /// It is traced, and that is all.
    pub(super) const SHOWN: Self = Self { is_shown: true, events: 0, asks_for_time: false };
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
        let watches = filters || events != [0; 4] || time != 0;
        let all = Calm::new((0, u64::MAX), Seen::SHOWN);
        let resources = Resources::new(settings);
        let is_started = control & 1 << 9 != 0;
        let state = State { is_started, holding: 0, fired: resources.fired() };
        Self {
            answers: Answers::new(resources.comparators.windows(), state),
            resources,
            control,
            include_exclude,
            start_stop,
            broadcast,
            q,
            events,
            time,
            holding: 0,
            is_started,
            filters,
            watches,
            calm: if watches { Calm::default() } else { all },
        }
    }

    /// Is an instruction here shown, and nothing else happens?
    #[inline(always)]
    pub(super) fn is_calm_at(&self, address: u64) -> bool {
        address.wrapping_sub(self.calm.start) < self.calm.shown
    }

    /// Another context has other answers.
    pub(super) fn forget(&mut self) {
        if self.watches {
            self.calm = Calm::default();
            self.answers.clear(self.state());
        }
    }

    /// The window that an address is in, and where that ends: all instructions of a window have the same answers.
    pub(super) fn window(&self, address: u64) -> (u16, u64) {
        let window = self.resources.comparators.window(address);
        let (start, length) = self.resources.comparators.extent(window);
        (window, start + length)
    }

    /// What happens with every instruction of a window.
    #[inline(always)]
    pub(super) fn settled(&self, window: u16) -> Settled {
        if self.watches { self.answers.settled(window) } else { Settled::Shown }
    }

    /// The PE gets to an instruction: what is there to it? To be asked of each in order, but for those that are calm. The
    /// window may be known.
    #[inline(always)]
    pub(super) fn look(&mut self, at: Target, window: Option<u16>, context: &Context) -> Seen {
        let is_known = at.address.wrapping_sub(self.calm.start) < self.calm.length;
        if is_known {
            return self.calm.seen;
        }
        let window = window.unwrap_or_else(|| self.resources.comparators.window(at.address));
        self.look_and_keep(at, window, context)
    }

    #[inline(never)]
    fn look_and_keep(&mut self, at: Target, window: u16, context: &Context) -> Seen {
        let before = self.answers.state;
        let seen = match self.answers.find(window) {
            Some(Answer { seen, next }) => {
                self.enter(next);
                seen
            }
            None => self.look_and_learn(window, at, context),
        };
        // What changed nothing changes nothing if it happens again.
        let stays = before == self.answers.state;
        let extent = if stays { self.resources.comparators.extent(window) } else { (0, 0) };
        self.calm = Calm::new(extent, seen);
        seen
    }

    #[inline(never)]
    fn look_and_learn(&mut self, window: u16, at: Target, context: &Context) -> Seen {
        let seen = self.look_closely(at, context);
        self.answers.learn(window, seen, self.state());
        seen
    }

    /// What an answer depends on, but for comparators.
    fn state(&self) -> State {
        State { is_started: self.is_started, holding: self.holding, fired: self.resources.fired() }
    }

    fn enter(&mut self, next: u16) {
        if next != self.answers.state {
            self.answers.state = next;
            let State { is_started, holding, fired } = self.answers.states[usize::from(next)];
            (self.is_started, self.holding) = (is_started, holding);
            self.resources.set_fired(fired);
        }
    }

    fn look_closely(&mut self, at: Target, context: &Context) -> Seen {
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Protocol;
    use crate::etm4::packet::SubIsa;
    use crate::etm4::unit::guess::random;

    /// Registers that look at addresses in many ways: filters, start and stop, events of all kinds, single shots.
    pub(in super::super) fn settings(state: &mut u64) -> Settings {
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
            let group = pick(&[3, 4, 5, 6]);
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
    fn what_is_kept_is_what_a_closer_look_would_find() {
        let state = &mut 1;
        let mut calm = 0;
        for row in 0..300 {
            let settings = settings(state);
            let (mut view, mut fresh) = (View::new(&settings), View::new(&settings));
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
                let expected = fresh.look(at, None, &context);
                let is_calm = view.is_calm_at(address);
                calm += u32::from(is_calm);
                let (window, _) = view.window(address);
                let window = (random >> 32 & 1 == 0).then_some(window);
                let settled = view.settled(view.window(address).0);
                let found = if is_calm { Seen::SHOWN } else { view.look(at, window, &context) };
                let is_settled_so = match settled {
                    Settled::Not => true,
                    Settled::Shown => expected == Seen::SHOWN,
                    Settled::Timed => expected == Seen { asks_for_time: true, ..Seen::SHOWN },
                    Settled::Hidden => expected == Seen { is_shown: false, ..Seen::SHOWN },
                };
                assert!(is_settled_so, "row {row}, step {step}");
                assert_eq!(found, expected, "row {row}, step {step}, {address:#x}: {settings:?}");
            }
        }
        assert!(calm > 5000, "{calm}");
    }
}
