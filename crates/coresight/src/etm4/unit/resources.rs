//! Resources: selectors that combine comparators, counters, sequencer states and external inputs into events.
//!
//! Takes register values, then each instruction. Produces whether an event holds with it. An event is chosen by eight
//! bits: one selector, or a pair of them. Selector 0 never holds, selector 1 always. Inputs from comparators of the PE are
//! not modeled and never hold: [`Settings::unmodeled`] lists their users.

use super::comparators::{Comparators, any};
use super::counters::Counters;
use super::sequencer::Sequencer;
use super::settings::Settings;
use crate::etm4::config::field;
use crate::{Context, Target};

const SELECTORS: usize = 32;
const SHOTS: usize = 8;

/// The resources of a trace unit.
#[derive(Debug, Clone)]
pub(super) struct Resources {
    pub(super) comparators: Comparators,
    /// TRCRSCTLR. The first two are fixed.
    selectors: [u32; SELECTORS],
    /// TRCSSCCR.
    shots: [u32; SHOTS],
    /// Single-shot comparators that are in use.
    shots_in_use: u32,
    /// Single-shot comparators that have matched.
    pub(super) fired: u32,
    counters: Counters,
    sequencer: Sequencer,
    /// External inputs that are active, one bit each.
    pub(super) inputs: u32,
    /// Selectors look at counters, the sequencer or external inputs: events depend on more than addresses and contexts.
    pub(super) are_dynamic: bool,
}

impl Resources {
    pub(super) fn new(settings: &Settings) -> Self {
        let shots = core::array::from_fn(|n| settings.numbered("TRCSSCCR", n) as u32);
        let bits = |test: &dyn Fn(usize) -> bool| (0..SHOTS).fold(0, |bits, n| bits | u32::from(test(n)) << n);
        let selectors: [u32; SELECTORS] = core::array::from_fn(|n| settings.numbered("TRCRSCTLR", n) as u32);
        let is_dynamic = |control: &u32| field(*control, 0, 16) != 0 && [0, 2].contains(&field(*control, 16, 4));
        Self {
            comparators: Comparators::new(settings),
            are_dynamic: selectors.iter().any(is_dynamic),
            selectors,
            counters: Counters::new(settings),
            sequencer: Sequencer::new(settings),
            inputs: 0,
            shots,
            shots_in_use: bits(&|n: usize| shots[n] & 0xff_ffff != 0),
            fired: bits(&|n| settings.numbered("TRCSSCSR", n) >> 31 & 1 == 1),
        }
    }

    /// Would this event hold with an instruction here?
    #[inline]
    pub(super) fn holds(&self, event: u32, at: Target, context: &Context) -> bool {
        let is_pair = event >> 7 & 1 == 1;
        if is_pair { self.pair(event & 0xf, at, context) } else { self.selector(event & 0x1f, at, context) }
    }

    /// Updates the resources after an executed instruction.
    #[inline]
    pub(super) fn pass(&mut self, at: Target, context: &Context) {
        if self.are_dynamic {
            self.step(at, context);
        }
        self.fire(at, context);
    }

    /// Advances counters and sequencer, which see each other as they were.
    fn step(&mut self, at: Target, context: &Context) {
        let (mut counters, mut sequencer) = (self.counters, self.sequencer);
        let holds = |event| self.holds(event, at, context);
        counters.step(holds);
        sequencer.step(holds);
        (self.counters, self.sequencer) = (counters, sequencer);
    }

    /// Records which single-shot comparators match.
    #[inline]
    fn fire(&mut self, at: Target, context: &Context) {
        let open = self.shots_in_use & !self.fired;
        if open == 0 {
            return;
        }
        let fires = (0..SHOTS).filter(|n| open >> n & 1 == 1 && self.shot(*n, at, context));
        self.fired |= fires.fold(0, |bits, n| bits | 1 << n);
    }

    /// Both selectors of a pair, inverted if the first one says so.
    fn pair(&self, pair: u32, at: Target, context: &Context) -> bool {
        let both = self.selector(2 * pair, at, context) && self.selector(2 * pair + 1, at, context);
        both != (field(self.selectors[2 * pair as usize], 21, 1) == 1)
    }

    fn selector(&self, selector: u32, at: Target, context: &Context) -> bool {
        let control = match selector {
            0 => return false,
            1 => return true,
            _ => self.selectors[selector as usize],
        };
        let which = field(control, 0, 16);
        let holds = match field(control, 16, 4) {
            0 => which & self.inputs != 0,
            2 => which & (self.counters.at_zero() | self.sequencer.active() << 4) != 0,
            3 => any(which & 0xff, |n| self.shot(n, at, context)),
            4 => self.comparators.address(which, at, context),
            5 => self.comparators.range(which, at, context),
            6 => self.comparators.context_id(which, context),
            7 => self.comparators.vmid(which, context),
            _ => false,
        };
        holds != (field(control, 20, 1) == 1)
    }

    /// Does a single-shot comparator match? Once, unless it is set to repeat.
    fn shot(&self, n: usize, at: Target, context: &Context) -> bool {
        let control = self.shots[n];
        let may_match = field(control, 24, 1) == 1 || self.fired >> n & 1 == 0;
        let (addresses, ranges) = (field(control, 0, 16), field(control, 16, 8));
        may_match && (self.comparators.address(addresses, at, context) || self.comparators.range(ranges, at, context))
    }
}
