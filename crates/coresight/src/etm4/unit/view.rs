//! ViewInst: which instructions are traced, and where branches are broadcast.

use super::settings::{COMPARATORS, Settings};
use crate::etm4::config::field;
use crate::etm4::element::Target;
use crate::etm4::packet::{Context, Security};

/// Says of each instruction whether it is traced.
#[derive(Debug, Clone)]
pub(super) struct View {
    control: u32,
    include_exclude: u32,
    start_stop: u32,
    broadcast: u32,
    comparators: [(u64, u64); COMPARATORS],
    /// Between a start and a stop.
    is_started: bool,
    filters: bool,
}

impl View {
    pub(super) fn new(settings: &Settings) -> Self {
        let control = settings.view_control;
        let (include_exclude, start_stop) = (settings.include_exclude, settings.start_stop);
        let levels = control & 0x07ff_0000;
        let filters = levels | include_exclude | start_stop != 0 || control & 0xff != 1 || control & 1 << 9 == 0;
        Self {
            control,
            include_exclude,
            start_stop,
            broadcast: settings.broadcast_control,
            comparators: settings.comparators,
            is_started: control & 1 << 9 != 0,
            filters,
        }
    }

    /// May any instruction be left out?
    #[inline]
    pub(super) fn filters(&self) -> bool {
        self.filters
    }

    /// The PE gets to an instruction: is it traced? To be asked of each once, in order.
    pub(super) fn look(&mut self, at: Target, context: &Context) -> bool {
        let shows = self.shows(at, context);
        // The instruction at a stop point is the last that is traced.
        let is_started = self.is_started || self.matches(self.start_stop & 0xffff, at, context);
        self.is_started = is_started && !self.matches(self.start_stop >> 16, at, context);
        shows
    }

    /// Would an instruction here be traced?
    pub(super) fn shows(&self, at: Target, context: &Context) -> bool {
        let is_started = self.is_started || self.matches(self.start_stop & 0xffff, at, context);
        is_started && self.event_is_on() && self.has_level(context) && self.has_address(at.address, context)
    }

    /// Does one of these comparators have this address?
    fn matches(&self, which: u32, at: Target, context: &Context) -> bool {
        let is_it = |n: usize| self.comparators[n].0 == at.address && self.is_at(n, context);
        which != 0 && (0..COMPARATORS).any(|n| which >> n & 1 == 1 && is_it(n))
    }

    /// Are targets of direct branches at this address told?
    pub(super) fn broadcasts_at(&self, address: u64, context: &Context) -> bool {
        let is_in = self.is_in_range(field(self.broadcast, 0, 8), address, context);
        let includes = field(self.broadcast, 8, 1) == 1;
        is_in == includes
    }

    /// Only "always" and "never" among the events are modelled.
    fn event_is_on(&self) -> bool {
        field(self.control, 0, 8) != 0
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

    fn has_address(&self, address: u64, context: &Context) -> bool {
        let (include, exclude) = (field(self.include_exclude, 0, 8), field(self.include_exclude, 16, 8));
        (include == 0 || self.is_in_range(include, address, context)) && !self.is_in_range(exclude, address, context)
    }

    /// Pairs of comparators are ranges, both ends included.
    fn is_in_range(&self, pairs: u32, address: u64, context: &Context) -> bool {
        (0..COMPARATORS / 2).filter(|pair| pairs >> pair & 1 == 1).any(|pair| {
            let (low, high) = (self.comparators[2 * pair].0, self.comparators[2 * pair + 1].0);
            (low..=high).contains(&address) && self.is_at(2 * pair, context)
        })
    }

    /// Does a comparator match at this Exception level?
    fn is_at(&self, comparator: usize, context: &Context) -> bool {
        let bit = |low: u32| self.comparators[comparator].1 >> (low + u32::from(context.el & 3)) & 1 == 1;
        let is_masked = match context.security {
            Security::Secure | Security::Root => bit(8),
            Security::NonSecure => bit(12),
            Security::Realm => bit(12) != bit(16),
        };
        !is_masked
    }
}
