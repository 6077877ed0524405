//! The main loop of a comparison, from the first instruction to the last.
//!
//! items of A, items of B ─▶ **pairs** ─▶ findings
//!
//! Both sources advance together while their addresses are equal. Otherwise the reason is determined, the harmless ones
//! first: a start, a gap, a loop that a gap interrupted, an attempted instruction. The rest are divergences.

mod blocks;
mod search;
mod steps;

use std::collections::VecDeque;

use unspool_model::{Context, Coverage, Exception, ExceptionKind, Facet, Pull};

use super::align::{Fit, Joint};
use super::compare::{Comparison, Difference, has_same_accesses};
use super::side::{Item, Side};
use super::{Around, Ending, Error, Finding, FindingSink, Options, Pair, PairSink, Site, SkipReason, Summary};

/// Number of equal consecutive instructions that ends the search, if the match is open.
const CERTAIN: usize = 64;

/// Maximum length of a match that is evaluated after a gap.
const REACH: usize = 1 << 10;

/// The same at the start, where a frequently called function matches for long.
const REACH_OF_START: usize = 1 << 14;

/// Factor by which a more distant match must be longer, if it is not open.
const BETTER: usize = 4;

pub(super) struct Run<'r> {
    options: &'r Options,
    report: &'r mut FindingSink<'r>,
    paired: Option<&'r mut PairSink<'r>>,
    sides: [Side; 2],
    /// The last pairs, for the context of a finding.
    before: VecDeque<[Site; 2]>,
    contexts: [Context; 2],
    differences: Vec<Difference>,
    repeating: Option<RepeatingSide>,
    /// Whether the events before the next pair are unknown.
    is_restart: bool,
    summary: Summary,
}

/// A side that is in a loop whose iteration is still unknown.
#[derive(Debug, Clone, Copy)]
struct RepeatingSide {
    side: usize,
    period: usize,
    reason: SkipReason,
}

/// Result of a search beyond the window.
enum FarFit {
    /// A fit in this side.
    Found(usize, Fit),
    /// No fit, or no search was possible.
    Nowhere,
    /// No fit, and the side was read to its end.
    Gone,
}

impl<'r> Run<'r> {
    pub(super) fn new(
        options: &'r Options,
        sources: [Pull; 2],
        report: &'r mut FindingSink<'r>,
        paired: Option<&'r mut PairSink<'r>>,
    ) -> Self {
        let coverage = [sources[0].coverage(), sources[1].coverage()];
        let facets = coverage[0].and(coverage[1]).and(options.facets).and(super::comparable());
        let [a, b] = sources;
        Self {
            options,
            report,
            paired,
            sides: [Side::new(a, options.cores[0]), Side::new(b, options.cores[1])],
            before: VecDeque::with_capacity(options.context.min(1 << 16)),
            contexts: [Context::default(); 2],
            differences: Vec::new(),
            repeating: None,
            is_restart: true,
            summary: Summary { facets, coverage, ..Summary::default() },
        }
    }

    pub(super) fn run(mut self) -> Result<Summary, Error> {
        if self.fill_both(1) {
            self.start();
        }
        while self.summary.ending == Ending::Complete {
            if self.may_pair_unread() {
                self.pair_blocks();
                self.pair_steps();
            }
            if !self.fill_both(1) {
                break;
            }
            self.advance();
        }
        if self.summary.ending == Ending::Complete {
            self.end();
        }
        self.finish()
    }

    fn finish(mut self) -> Result<Summary, Error> {
        for (index, mut side) in self.sides.into_iter().enumerate() {
            match side.failure.take() {
                Some(error) if !error.is_damage => return Err(Error { source_index: index, error }),
                failure => self.summary.damage[index] = failure,
            }
            self.summary.instructions[index] = side.count - side.ahead().len() as u64;
            self.summary.not_in_steps[index].clone_from(side.not_in_steps());
            self.summary.gaps[index] = side.gaps;
            self.summary.other_cores[index] = side.other_cores;
        }
        let tally = &mut self.summary.tallies[Facet::Instructions as usize];
        tally.compared = self.summary.common + tally.different;
        Ok(self.summary)
    }

    /// Handles one pair, or the reason why there is none.
    #[inline]
    fn advance(&mut self) {
        let [Some(a), Some(b)] = self.heads() else { return };
        let gaps = [a.is_after_gap, b.is_after_gap];
        if gaps != [false; 2] {
            self.bridge(gaps);
        } else if self.repeating.is_some_and(|repeating| self.is_another_round(repeating)) {
            // Iterations of the loop were skipped.
        } else if self.is_pair() {
            self.pair();
        } else if !self.skip_attempted() {
            self.diverge();
        }
    }

    fn heads(&self) -> [Option<&Item>; 2] {
        [self.sides[0].at(0), self.sides[1].at(0)]
    }

    #[inline]
    fn is_pair(&self) -> bool {
        matches!(self.heads(), [Some(a), Some(b)] if a.instruction.address == b.instruction.address)
    }

    fn fill_both(&mut self, wanted: usize) -> bool {
        let [a, b] = &mut self.sides;
        // Not `&&`: the second side is filled even if the first one has too few.
        a.fill(wanted) & b.fill(wanted)
    }

    // Aligned.

    #[inline]
    fn pair(&mut self) {
        if self.depends_on_next() {
            self.fill_both(2);
        }
        let is_attempted = self.sides.iter().any(|side| match (side.at(0), side.at(1)) {
            (Some(item), Some(next)) => raises_one_of(item, &next.exceptions),
            _ => false,
        });
        let [Some(a), Some(b)] = [self.sides[0].at(0), self.sides[1].at(0)] else { return };
        // While the iteration of a loop is unknown, only the code can be compared.
        let facets = match self.repeating {
            None => self.summary.facets,
            Some(_) => self.summary.facets.and(Coverage::of(&[Facet::Opcodes])),
        };
        let Summary { tallies, .. } = &mut self.summary;
        let (differences, contexts) = (&mut self.differences, &mut self.contexts);
        let mut comparison = Comparison { tallies, differences, contexts, weight: 1 };
        comparison.items([a, b], facets, self.is_restart, is_attempted);
        let sites = [a.site(), b.site()];
        if let Some(paired) = self.paired.as_mut().filter(|_| self.differences.is_empty() && self.repeating.is_none()) {
            let Item { number, .. } = *a;
            let pair = Pair { number, step: &b.step, context: &b.context, exceptions: &b.exceptions };
            if paired(&pair).is_break() {
                self.summary.ending = Ending::Stopped;
            }
        }
        if !self.differences.is_empty() {
            self.report_differences();
        }
        self.is_restart = false;
        self.summary.common += 1;
        self.summary.in_loops += u64::from(self.repeating.is_some());
        self.remember(sites);
        self.sides.iter_mut().for_each(Side::pass);
    }

    /// Whether what was not read yet may be compared without being read one by one: the last pair came right before it.
    fn may_pair_unread(&self) -> bool {
        !self.is_restart && self.repeating.is_none() && self.paired.is_none()
    }

    /// Whether the comparison of the pair at hand depends on the events after it: an exception may explain that only one
    /// side has an access.
    fn depends_on_next(&self) -> bool {
        let [Some(a), Some(b)] = self.heads() else { return true };
        let has_accesses = self.summary.facets.has(Facet::Accesses);
        self.paired.is_some() || has_accesses && !has_same_accesses([&a.step, &b.step])
    }

    /// Keeps a pair for the context of a finding.
    fn remember(&mut self, sites: [Site; 2]) {
        if self.options.context > 0 {
            if self.before.len() == self.options.context {
                self.before.pop_front();
            }
            self.before.push_back(sites);
        }
    }

    fn report_differences(&mut self) {
        self.fill_both(2);
        for Difference { facet, name, values } in std::mem::take(&mut self.differences) {
            self.difference(|run| Finding::Differs { facet, name, values, around: run.around() });
        }
    }

    /// Counts a difference, reports it up to the limit, and stops unless all are wanted.
    fn difference(&mut self, finding: impl FnOnce(&mut Self) -> Finding) {
        self.summary.differences += 1;
        if self.summary.differences <= self.options.limit {
            let finding = finding(self);
            self.report(&finding);
        }
        if !self.options.all {
            self.summary.ending = Ending::Stopped;
        }
    }

    fn report(&mut self, finding: &Finding) {
        if (self.report)(finding).is_break() {
            self.summary.ending = Ending::Stopped;
        }
    }

    fn around(&mut self) -> Around {
        let wanted = self.options.context.max(1);
        self.fill_both(wanted);
        let here = |side: &Side| side.ahead().iter().take(wanted).map(|item| item.site()).collect();
        Around { before: self.before.iter().copied().collect(), here: [here(&self.sides[0]), here(&self.sides[1])] }
    }

    // Skipped.

    fn add_skipped(&mut self, reason: SkipReason, skipped: [usize; 2]) {
        let at = self.heads().map(|item| item.map(Item::site));
        let counts = match reason {
            SkipReason::Start => &mut self.summary.before,
            SkipReason::End => &mut self.summary.after,
            SkipReason::Gap(_) => &mut self.summary.in_gaps,
            SkipReason::Island => &mut self.summary.islands,
            SkipReason::Attempted => &mut self.summary.attempted,
        };
        let skipped = skipped.map(|count| count as u64);
        (counts[0], counts[1]) = (counts[0] + skipped[0], counts[1] + skipped[1]);
        if skipped != [0; 2] {
            self.report(&Finding::Skipped { reason, skipped, at });
        }
    }

    fn jump(&mut self, skipped: [usize; 2]) {
        for (side, count) in self.sides.iter_mut().zip(skipped) {
            side.jump(count);
        }
        self.is_restart = true;
    }

    /// Aligns the starts: together, or one source within the other, whichever leaves fewer instructions unmatched.
    fn start(&mut self) {
        let together = self.follow([0; 2], self.options.window.clamp(REACH, REACH_OF_START));
        if together.length >= CERTAIN && together.is_open {
            return self.jump([0; 2]);
        }
        let gaps = self.heads().map(|item| item.is_some_and(|item| item.is_after_gap));
        let found = self.find_fit([true; 2], SkipReason::Start).filter(|start| self.is_start(start, &together));
        match found {
            Some((side, fit)) => self.begin(side, fit),
            None if together.length > 0 => self.jump([0; 2]),
            None if self.is_island([true; 2]) => {
                if self.fill_both(1) {
                    self.start();
                }
            }
            None => match self.find_fit_beyond_window(SkipReason::Start, gaps) {
                FarFit::Found(side, fit) => self.begin(side, fit),
                FarFit::Nowhere => self.diverge(),
                FarFit::Gone => {}
            },
        }
    }

    /// Starts one source within the other.
    fn begin(&mut self, side: usize, fit: Fit) {
        if self.options.strict {
            let apart = only(side, fit.position);
            self.difference(|run| Finding::Diverged { around: run.around(), apart: Some(apart.map(|n| n as u64)) });
            return self.jump(apart);
        }
        self.fit(SkipReason::Start, side, fit);
    }

    /// Whether one source starts at this fit within the other. It does not if starting together, diverging for a while
    /// and rejoining leaves fewer instructions unmatched.
    fn is_start(&mut self, &(side, fit): &(usize, Fit), together: &Joint) -> bool {
        let is_better = fit.length > together.length && (fit.is_open || fit.length >= BETTER * together.length);
        if !is_better || fit.position == 0 {
            return false;
        }
        let start = Joint { at: only(side, fit.position), length: fit.length, is_open: fit.is_open };
        let from = together.length;
        let Some(joint) = self.joint(from) else { return true };
        let joint = self.follow(joint.at.map(|at| at + from), start.cost() + start.length);
        start.cost() + 2 * from <= joint.cost_to(&start)
    }

    fn fit(&mut self, reason: SkipReason, side: usize, fit: Fit) {
        let skipped = only(side, fit.position);
        self.add_skipped(reason, skipped);
        self.jump(skipped);
        self.repeating = fit.period.map(|period| RepeatingSide { side, period, reason });
    }

    /// Realigns the sources after a gap, where the other source may have instructions that cannot be compared.
    fn bridge(&mut self, gaps: [bool; 2]) {
        self.repeating = None;
        if self.is_island(gaps) {
            return;
        }
        match self.find_fit([gaps[1], gaps[0]], SkipReason::Gap(gaps)) {
            Some((side, fit)) => self.fit(SkipReason::Gap(gaps), side, fit),
            // The gap lost nothing; a difference follows soon.
            None if self.is_pair() => self.jump([0; 2]),
            None => match self.find_fit_beyond_window(SkipReason::Gap(gaps), gaps) {
                FarFit::Found(side, fit) => self.fit(SkipReason::Gap(gaps), side, fit),
                FarFit::Nowhere => self.diverge(),
                FarFit::Gone => {}
            },
        }
    }

    /// Skips instructions between two gaps that are too few to align; returns whether there were any.
    fn is_island(&mut self, gaps: [bool; 2]) -> bool {
        for (index, _) in gaps.iter().enumerate().filter(|(_, gap)| **gap) {
            let side = &mut self.sides[index];
            side.fill(self.options.min_match + 1);
            let length = side.ahead().iter().skip(1).take(self.options.min_match).position(|item| item.is_after_gap);
            let Some(length) = length.map(|length| length + 1).filter(|length| *length < self.options.min_match) else {
                continue;
            };
            self.add_skipped(SkipReason::Island, only(index, length));
            // `jump` would clear the gap after the island.
            (0..length).for_each(|_| self.sides[index].pass());
            return true;
        }
        false
    }

    /// Handles a side that is in a loop. Until the loop ends, any iteration may be the matching one. When the other side
    /// leaves the loop, this one has to leave as well: iterations before that are skipped, and `true` is returned.
    fn is_another_round(&mut self, repeating: RepeatingSide) -> bool {
        let RepeatingSide { side, period, reason } = repeating;
        self.sides[side].fill(period + 1);
        let address = |run: &Self, side: usize, index: usize| run.sides[side].at(index).map(|i| i.instruction.address);
        let other = address(self, 1 - side, 0);
        let is_repeated = |run: &Self, index| address(run, side, index) == address(run, side, index + period);
        if address(self, side, 0) == other {
            self.repeating = self.repeating.filter(|_| is_repeated(self, 0));
            return false;
        }
        let mut skipped = period;
        while address(self, side, skipped) != other {
            self.sides[side].fill(skipped + period);
            if skipped >= self.options.window || !(skipped - period..skipped).all(|index| is_repeated(self, index)) {
                self.repeating = None;
                return false;
            }
            skipped += period;
            self.sides[side].fill(skipped + 1);
        }
        self.add_skipped(reason, only(side, skipped));
        self.jump(only(side, skipped));
        true
    }

    /// Skips an instruction that raised an exception: some sources report both, others only the exception.
    fn skip_attempted(&mut self) -> bool {
        self.fill_both(2);
        let is_attempted = |side: usize| {
            let (item, next) = (self.sides[side].at(0)?, self.sides[side].at(1)?);
            let other = self.sides[1 - side].at(0)?;
            let is_there = next.instruction.address == other.instruction.address;
            (is_there && raises_one_of(item, &next.exceptions)).then_some(side)
        };
        let Some(side) = [0, 1].into_iter().find_map(is_attempted) else { return false };
        self.add_skipped(SkipReason::Attempted, only(side, 1));
        self.sides[side].pass();
        true
    }

    // Diverged.

    fn diverge(&mut self) {
        let apart = self.joint(0).map(|joint| joint.at);
        self.summary.tallies[Facet::Instructions as usize].different += 1;
        self.difference(|run| Finding::Diverged {
            around: run.around(),
            apart: apart.map(|counts| counts.map(|count| count as u64)),
        });
        self.repeating = None;
        let Some(apart) = apart else { return self.stop_diverged() };
        let only = &mut self.summary.tallies[Facet::Instructions as usize].only;
        (only[0], only[1]) = (only[0] + apart[0] as u64, only[1] + apart[1] as u64);
        self.jump(apart);
    }

    /// Reports a divergence after a gap: the rest of the other side was searched in vain.
    fn report_not_found(&mut self, around: Around) {
        self.summary.tallies[Facet::Instructions as usize].different += 1;
        self.difference(|_| Finding::Diverged { around, apart: None });
        self.stop_diverged();
    }

    /// Ends the comparison, since the sources cannot be realigned.
    fn stop_diverged(&mut self) {
        if self.options.all {
            self.summary.ending = Ending::Diverged;
        }
    }

    fn end(&mut self) {
        let rest = [self.sides[0].at(0).is_some(), self.sides[1].at(0).is_some()];
        if rest == [false; 2] || self.summary.common == 0 {
            self.sides.iter_mut().for_each(|side| {
                side.drain();
            });
            return;
        }
        let around = if self.options.strict { self.around() } else { Around::default() };
        let at = self.heads().map(|item| item.map(Item::site));
        let skipped = [self.sides[0].drain(), self.sides[1].drain()];
        self.summary.after = skipped;
        match self.options.strict {
            true => self.difference(|_| Finding::Diverged { around, apart: Some(skipped) }),
            false => self.report(&Finding::Skipped { reason: SkipReason::End, skipped, at }),
        }
    }
}

fn only(side: usize, count: usize) -> [usize; 2] {
    if side == 0 { [count, 0] } else { [0, count] }
}

/// Whether one of these exceptions may have been raised by the instruction.
fn raises_one_of(item: &Item, exceptions: &[Exception]) -> bool {
    let address = item.instruction.address;
    let ends = [address, address.wrapping_add(u64::from(item.instruction.length))];
    exceptions.iter().any(|exception| {
        let is_kind = matches!(exception.kind, ExceptionKind::Synchronous | ExceptionKind::Unknown);
        is_kind && exception.return_address.is_none_or(|address| ends.contains(&address))
    })
}
