//! Resources of a plan: which comparators and resource selectors do what.
//!
//! Takes a plan; produces the address comparators, single-shot comparators, identifiers to compare with, resource selectors,
//! and the events that select them. An address means nothing without its process: the comparators of a plan for one process
//! require its identifiers, and a plan without ranges gets one of all addresses. ViewInst then needs no event, with which it
//! may be imprecise: only an event that is always true makes it exact. With several processes, an address takes a comparator
//! for each of them; a range of the filter does not, since ViewInst's event leaves out all other processes.

use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use super::{At, Event, Plan};

/// Groups of resources, as TRCRSCTLR numbers them.
const SINGLE_SHOT: u64 = 3;
const ADDRESS: u64 = 4;
const ADDRESS_RANGE: u64 = 5;
const CONTEXT_ID: u64 = 6;
const VMID: u64 = 7;
/// The first resource selector that can be programmed.
const FIRST_SELECTOR: u64 = 2;

/// An address comparator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparator {
    /// TRCACVR.
    pub(super) address: u64,
    /// TRCACATR.
    pub(super) attributes: u64,
}

/// Comparators of a plan, before it is known whether a trace unit has as many.
#[derive(Debug, Default)]
pub(super) struct Comparators {
    /// Pairs for ranges, then single ones.
    pub(super) addresses: Vec<Comparator>,
    /// Context identifier and virtual context identifier of each comparator with its number.
    pub(super) identifiers: Vec<(Option<u32>, Option<u32>)>,
    /// Numbers of pairs.
    pub(super) include: Range<usize>,
    pub(super) exclude: Range<usize>,
    timestamps: Range<usize>,
    /// Numbers of comparators.
    pub(super) start: Range<usize>,
    pub(super) stop: Range<usize>,
    /// Numbers of comparators, or of pairs for a range.
    events: [Range<usize>; 4],
}

impl Comparators {
    pub(super) fn new(plan: &Plan) -> Self {
        let identifiers = combinations(&plan.only_context_ids, &plan.only_vmids);
        let contexts: Vec<u64> = (0..).zip(&identifiers).map(|(number, one)| context(number, *one)).collect();
        let (contexts, of_filter) = match contexts[..] {
            [] => (alloc::vec![0], 0),
            [one] => (contexts, one),
            _ => (contexts, 0),
        };
        let everywhere = [0..=u64::MAX];
        let is_everywhere = of_filter != 0 && plan.include.is_empty();
        let mut all = Self { identifiers, ..Self::default() };
        all.include = all.ranges(if is_everywhere { &everywhere } else { &plan.include }, &[of_filter]);
        all.exclude = all.ranges(&plan.exclude, &[of_filter]);
        all.timestamps = all.ranges(&plan.timestamps_in, &[of_filter]);
        for (number, event) in plan.events.iter().enumerate() {
            if let Some(Event { at: At::Range(range), .. }) = event {
                all.events[number] = all.ranges(core::slice::from_ref(range), &contexts);
            }
        }
        all.start = all.points(&plan.start, &contexts);
        all.stop = all.points(&plan.stop, &contexts);
        for (number, event) in plan.events.iter().enumerate() {
            if let Some(Event { at: At::Address(address), .. }) = event {
                all.events[number] = all.points(&[*address], &contexts);
            }
        }
        all
    }

    /// Adds pairs, each range in each context. Returns their numbers.
    fn ranges(&mut self, ranges: &[RangeInclusive<u64>], contexts: &[u64]) -> Range<usize> {
        let first = self.addresses.len() / 2;
        let ends: Vec<u64> = ranges.iter().flat_map(|range| [*range.start(), *range.end()]).collect();
        for attributes in contexts {
            self.addresses.extend(ends.iter().map(|address| Comparator { address: *address, attributes: *attributes }));
        }
        first..self.addresses.len() / 2
    }

    /// Adds single comparators, each address in each context. Returns their numbers.
    fn points(&mut self, addresses: &[u64], contexts: &[u64]) -> Range<usize> {
        let first = self.addresses.len();
        for attributes in contexts {
            let all = addresses.iter().map(|address| Comparator { address: *address, attributes: *attributes });
            self.addresses.extend(all);
        }
        first..self.addresses.len()
    }
}

/// Number of comparators of identifiers that a plan needs.
pub(super) fn identifiers(plan: &Plan) -> usize {
    match (plan.only_context_ids.len(), plan.only_vmids.len()) {
        (count, 0) | (0, count) => count,
        (context_ids, vmids) => context_ids.saturating_mul(vmids),
    }
}

/// An address comparator has one number for both kinds of identifiers, so comparators of both hold every combination.
fn combinations(context_ids: &[u32], vmids: &[u32]) -> Vec<(Option<u32>, Option<u32>)> {
    match (context_ids, vmids) {
        (_, []) => context_ids.iter().map(|id| (Some(*id), None)).collect(),
        ([], _) => vmids.iter().map(|id| (None, Some(*id))).collect(),
        _ => context_ids.iter().flat_map(|id| vmids.iter().map(|vmid| (Some(*id), Some(*vmid)))).collect(),
    }
}

/// TRCACATR.CONTEXTTYPE and CONTEXT: the address is compared in this context only.
fn context(number: u64, (context_id, vmid): (Option<u32>, Option<u32>)) -> u64 {
    u64::from(context_id.is_some()) << 2 | u64::from(vmid.is_some()) << 3 | number << 4
}

/// Resource selectors, single-shot comparators, and the events that they make.
#[derive(Debug, Default)]
pub(super) struct Resources {
    /// TRCRSCTLR, from the first that can be programmed on.
    pub(super) selectors: Vec<u64>,
    /// TRCSSCCR.
    pub(super) single_shots: Vec<u64>,
    /// TRCVICTLR.EVENT.
    pub(super) view: u64,
    /// TRCTSCTLR.
    pub(super) timestamps: u64,
    /// TRCEVENTCTL0R.
    pub(super) events: u64,
    /// TRCEVENTCTL1R.INSTEN.
    pub(super) traced_events: u64,
}

impl Resources {
    /// The numbers of all comparators are valid: there are at most as many as the registers have bits.
    pub(super) fn new(plan: &Plan, comparators: &Comparators) -> Self {
        let mut all = Self::default();
        all.view = all.processes(plan, mask(&(0..comparators.identifiers.len())));
        if !comparators.timestamps.is_empty() {
            all.timestamps = all.select(ADDRESS_RANGE, mask(&comparators.timestamps));
        }
        for (number, event) in plan.events.iter().enumerate() {
            if let Some(event) = event {
                all.events |= all.event(event, mask(&comparators.events[number])) << (8 * number);
                all.traced_events |= 1 << number;
            }
        }
        all
    }

    /// The event of ViewInst: always, or one of several processes. A pair of selectors holds if both do.
    fn processes(&mut self, plan: &Plan, comparators: u64) -> u64 {
        const PAIR: u64 = 0x80;
        if comparators.count_ones() == 1 {
            return 1;
        }
        match (plan.only_context_ids.is_empty(), plan.only_vmids.is_empty()) {
            (true, true) => 1,
            (false, true) => self.select(CONTEXT_ID, comparators),
            (true, false) => self.select(VMID, comparators),
            (false, false) => {
                let first = self.select(CONTEXT_ID, comparators);
                self.select(VMID, comparators);
                PAIR | (first / 2)
            }
        }
    }

    fn event(&mut self, event: &Event, comparators: u64) -> u64 {
        let (group, sac_or_arc) = match event.at {
            At::Address(_) => (ADDRESS, 0),
            At::Range(_) => (ADDRESS_RANGE, 16),
        };
        if !event.once {
            return self.select(group, comparators);
        }
        self.single_shots.push(comparators << sac_or_arc);
        self.select(SINGLE_SHOT, 1 << (self.single_shots.len() - 1))
    }

    /// Adds a selector of any of these resources. Returns its number.
    fn select(&mut self, group: u64, resources: u64) -> u64 {
        self.selectors.push(group << 16 | resources);
        FIRST_SELECTOR + self.selectors.len() as u64 - 1
    }
}

/// A bit for each number.
pub(super) fn mask(numbers: &Range<usize>) -> u64 {
    numbers.clone().fold(0, |bits, number| bits | 1 << number)
}
