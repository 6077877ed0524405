//! Two sources side by side, from the first instruction to the last.
//!
//! items of A, items of B ─▶ **pairs** ─▶ findings
//!
//! Where both have the same address they go on together. Where not, the reason is looked for, the harmless ones first: a
//! start, a gap, a loop that a gap cut, an instruction that was only tried. What is left is a divergence.

mod search;

use std::collections::VecDeque;

use unspool_model::{Context, Coverage, Exception, ExceptionKind, Facet, Pull};

use self::search::{BETTER, CERTAIN, Far, REACH, REACH_OF_START};
use super::align::{Fit, Joint};
use super::compare::{Comparison, Unlike};
use super::side::{Item, Side};
use super::{Around, Ending, Error, Finding, Options, Pair, Paired, Site, Summary, Tell, Why};

pub(super) struct Run<'r> {
    options: &'r Options,
    tell: &'r mut Tell<'r>,
    paired: Option<&'r mut Paired<'r>>,
    sides: [Side; 2],
    /// The last pairs.
    before: VecDeque<[Site; 2]>,
    contexts: [Context; 2],
    unlike: Vec<Unlike>,
    loose: Option<Loose>,
    /// What came before the next pair is not known.
    is_fresh: bool,
    summary: Summary,
}

/// A side that repeats itself: it is not known yet which time round it is.
#[derive(Debug, Clone, Copy)]
struct Loose {
    side: usize,
    period: usize,
    why: Why,
}

impl<'r> Run<'r> {
    pub(super) fn new(
        options: &'r Options,
        sources: [Pull; 2],
        tell: &'r mut Tell<'r>,
        paired: Option<&'r mut Paired<'r>>,
    ) -> Self {
        let coverage = [sources[0].coverage(), sources[1].coverage()];
        let facets = coverage[0].and(coverage[1]).and(options.facets).and(super::comparable());
        let [a, b] = sources;
        Self {
            options,
            tell,
            paired,
            sides: [Side::new(a, options.cores[0]), Side::new(b, options.cores[1])],
            before: VecDeque::with_capacity(options.context.min(1 << 16)),
            contexts: [Context::default(); 2],
            unlike: Vec::new(),
            loose: None,
            is_fresh: true,
            summary: Summary { facets, coverage, ..Summary::default() },
        }
    }

    pub(super) fn run(mut self) -> Result<Summary, Error> {
        if self.fill_both(1) {
            self.start();
        }
        while self.summary.ending == Ending::Complete && self.fill_both(1) {
            self.go_on();
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
            self.summary.untold[index].clone_from(side.untold());
            self.summary.gaps[index] = side.gaps;
            self.summary.other_cores[index] = side.other_cores;
        }
        let tally = &mut self.summary.tallies[Facet::Instructions as usize];
        tally.compared = self.summary.common + tally.different;
        Ok(self.summary)
    }

    /// One pair, or why there is none.
    #[inline]
    fn go_on(&mut self) {
        let [Some(a), Some(b)] = self.heads() else { return };
        let gaps = [a.is_behind_gap, b.is_behind_gap];
        if gaps != [false; 2] {
            self.bridge(gaps);
        } else if self.loose.is_some_and(|loose| self.is_another_round(loose)) {
            // The loop goes round once more.
        } else if self.is_pair() {
            self.pair();
        } else if !self.tried() {
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
        // Both are wanted, even if one falls short.
        a.fill(wanted) & b.fill(wanted)
    }

    // Together.

    #[inline]
    fn pair(&mut self) {
        self.fill_both(2);
        let tried = self.sides.iter().any(|side| match (side.at(0), side.at(1)) {
            (Some(item), Some(next)) => comes_of(item, &next.exceptions),
            _ => false,
        });
        let [Some(a), Some(b)] = [self.sides[0].at(0), self.sides[1].at(0)] else { return };
        // In a loop that may be the wrong time round, only the code is the same.
        let facets = match self.loose {
            None => self.summary.facets,
            Some(_) => self.summary.facets.and(Coverage::of(&[Facet::Opcodes])),
        };
        let Summary { tallies, .. } = &mut self.summary;
        let mut comparison = Comparison { tallies, unlike: &mut self.unlike, contexts: &mut self.contexts };
        comparison.items([a, b], facets, self.is_fresh, tried);
        let sites = [a.site(), b.site()];
        if let Some(paired) = self.paired.as_mut().filter(|_| self.unlike.is_empty() && self.loose.is_none()) {
            let Item { number, .. } = *a;
            let pair = Pair { number, step: &b.step, context: &b.context, exceptions: &b.exceptions };
            if paired(&pair).is_break() {
                self.summary.ending = Ending::Stopped;
            }
        }
        if !self.unlike.is_empty() {
            self.tell_unlike();
        }
        self.is_fresh = false;
        self.summary.common += 1;
        self.summary.loose += u64::from(self.loose.is_some());
        if self.options.context > 0 {
            if self.before.len() == self.options.context {
                self.before.pop_front();
            }
            self.before.push_back(sites);
        }
        self.sides.iter_mut().for_each(Side::pass);
    }

    fn tell_unlike(&mut self) {
        for Unlike { facet, what, values } in std::mem::take(&mut self.unlike) {
            self.difference(|run| Finding::Differs { facet, what, values, around: run.around() });
        }
    }

    /// A difference: told if not too many are, and perhaps the last one.
    fn difference(&mut self, finding: impl FnOnce(&mut Self) -> Finding) {
        self.summary.differences += 1;
        if self.summary.differences <= self.options.limit {
            let finding = finding(self);
            self.tell(&finding);
        }
        if !self.options.all {
            self.summary.ending = Ending::Stopped;
        }
    }

    fn tell(&mut self, finding: &Finding) {
        if (self.tell)(finding).is_break() {
            self.summary.ending = Ending::Stopped;
        }
    }

    fn around(&mut self) -> Around {
        let wanted = self.options.context.max(1);
        self.fill_both(wanted);
        let here = |side: &Side| side.ahead().iter().take(wanted).map(Item::site).collect();
        Around { before: self.before.iter().copied().collect(), here: [here(&self.sides[0]), here(&self.sides[1])] }
    }

    // Passed over.

    fn passed(&mut self, why: Why, passed: [usize; 2]) {
        let at = self.heads().map(|item| item.map(Item::site));
        let counts = match why {
            Why::Start => &mut self.summary.before,
            Why::End => &mut self.summary.after,
            Why::Gap(_) => &mut self.summary.in_gaps,
            Why::Island => &mut self.summary.islands,
            Why::Tried => &mut self.summary.tried,
        };
        let passed = passed.map(|count| count as u64);
        (counts[0], counts[1]) = (counts[0] + passed[0], counts[1] + passed[1]);
        if passed != [0; 2] {
            self.tell(&Finding::Passed { why, passed, at });
        }
    }

    fn jump(&mut self, passed: [usize; 2]) {
        for (side, count) in self.sides.iter_mut().zip(passed) {
            side.jump(count);
        }
        self.is_fresh = true;
    }

    /// Sources start together, or one starts within the other: whatever leaves fewer instructions unmatched.
    fn start(&mut self) {
        let together = self.follow([0; 2], self.options.window.clamp(REACH, REACH_OF_START));
        if together.length >= CERTAIN && together.is_open {
            return self.jump([0; 2]);
        }
        let gaps = self.heads().map(|item| item.is_some_and(|item| item.is_behind_gap));
        let found = self.place([true; 2], Why::Start).filter(|place| self.is_start(place, &together));
        match found {
            Some((side, fit)) => self.begin(side, fit),
            None if together.length > 0 => self.jump([0; 2]),
            None if self.is_island([true; 2]) => {
                if self.fill_both(1) {
                    self.start();
                }
            }
            None => match self.place_far(Why::Start, gaps) {
                Far::Found(side, fit) => self.begin(side, fit),
                Far::Nowhere => self.diverge(),
                Far::Gone => {}
            },
        }
    }

    /// One source starts there, within the other.
    fn begin(&mut self, side: usize, fit: Fit) {
        if self.options.strict {
            let apart = only(side, fit.position);
            self.difference(|run| Finding::Diverged { around: run.around(), apart: Some(apart.map(|n| n as u64)) });
            return self.jump(apart);
        }
        self.fit(Why::Start, side, fit);
    }

    /// Does one source start there within the other? Not if both go on together, are apart for a while, and fewer are
    /// left unmatched then.
    fn is_start(&mut self, &(side, fit): &(usize, Fit), together: &Joint) -> bool {
        let is_better = fit.length > together.length && (fit.is_open || fit.length >= BETTER * together.length);
        if !is_better || fit.position == 0 {
            return false;
        }
        let place = Joint { at: only(side, fit.position), length: fit.length, is_open: fit.is_open };
        let from = together.length;
        let Some(joint) = self.joint(from) else { return true };
        let joint = self.follow(joint.at.map(|at| at + from), place.cost() + place.length);
        place.cost() + 2 * from <= joint.cost_to(&place)
    }

    fn fit(&mut self, why: Why, side: usize, fit: Fit) {
        let passed = only(side, fit.position);
        self.passed(why, passed);
        self.jump(passed);
        self.loose = fit.period.map(|period| Loose { side, period, why });
    }

    /// Behind a gap of one source, the other one has instructions that nobody can compare.
    fn bridge(&mut self, gaps: [bool; 2]) {
        self.loose = None;
        if self.is_island(gaps) {
            return;
        }
        match self.place([gaps[1], gaps[0]], Why::Gap(gaps)) {
            Some((side, fit)) => self.fit(Why::Gap(gaps), side, fit),
            // Nothing was lost, and a difference is near.
            None if self.is_pair() => self.jump([0; 2]),
            None => match self.place_far(Why::Gap(gaps), gaps) {
                Far::Found(side, fit) => self.fit(Why::Gap(gaps), side, fit),
                Far::Nowhere => self.diverge(),
                Far::Gone => {}
            },
        }
    }

    /// So few instructions between gaps can be anywhere.
    fn is_island(&mut self, gaps: [bool; 2]) -> bool {
        for (index, _) in gaps.iter().enumerate().filter(|(_, gap)| **gap) {
            let side = &mut self.sides[index];
            side.fill(self.options.row + 1);
            let length = side.ahead().iter().skip(1).take(self.options.row).position(|item| item.is_behind_gap);
            let Some(length) = length.map(|length| length + 1).filter(|length| *length < self.options.row) else {
                continue;
            };
            self.passed(Why::Island, only(index, length));
            // The gap behind it stays one.
            (0..length).for_each(|_| self.sides[index].pass());
            return true;
        }
        false
    }

    /// One side repeats itself. As long as it does, any time round may be the right one; where the other side leaves the
    /// loop, it has to leave as well: `true`: it does some rounds later, and they are passed over.
    fn is_another_round(&mut self, loose: Loose) -> bool {
        let Loose { side, period, why } = loose;
        self.sides[side].fill(period + 1);
        let address = |run: &Self, side: usize, index: usize| run.sides[side].at(index).map(|i| i.instruction.address);
        let other = address(self, 1 - side, 0);
        let is_repeated = |run: &Self, index| address(run, side, index) == address(run, side, index + period);
        if address(self, side, 0) == other {
            self.loose = self.loose.filter(|_| is_repeated(self, 0));
            return false;
        }
        let mut passed = period;
        while address(self, side, passed) != other {
            self.sides[side].fill(passed + period);
            if passed >= self.options.window || !(passed - period..passed).all(|index| is_repeated(self, index)) {
                self.loose = None;
                return false;
            }
            passed += period;
            self.sides[side].fill(passed + 1);
        }
        self.passed(why, only(side, passed));
        self.jump(only(side, passed));
        true
    }

    /// An instruction that an exception came of: some sources tell of it, others of the exception only.
    fn tried(&mut self) -> bool {
        self.fill_both(2);
        let is_tried = |side: usize| {
            let (item, next) = (self.sides[side].at(0)?, self.sides[side].at(1)?);
            let other = self.sides[1 - side].at(0)?;
            let is_there = next.instruction.address == other.instruction.address;
            (is_there && comes_of(item, &next.exceptions)).then_some(side)
        };
        let Some(side) = [0, 1].into_iter().find_map(is_tried) else { return false };
        self.passed(Why::Tried, only(side, 1));
        self.sides[side].pass();
        true
    }

    // Apart.

    fn diverge(&mut self) {
        let apart = self.joint(0).map(|joint| joint.at);
        self.summary.tallies[Facet::Instructions as usize].different += 1;
        self.difference(|run| Finding::Diverged {
            around: run.around(),
            apart: apart.map(|counts| counts.map(|count| count as u64)),
        });
        self.loose = None;
        let Some(apart) = apart else { return self.part() };
        let only = &mut self.summary.tallies[Facet::Instructions as usize].only;
        (only[0], only[1]) = (only[0] + apart[0] as u64, only[1] + apart[1] as u64);
        self.jump(apart);
    }

    /// What is behind a gap was looked for in all that is left of the other side.
    fn never_again(&mut self, around: Around) {
        self.summary.tallies[Facet::Instructions as usize].different += 1;
        self.difference(|_| Finding::Diverged { around, apart: None });
        self.part();
    }

    /// They do not come together again.
    fn part(&mut self) {
        if self.options.all {
            self.summary.ending = Ending::Apart;
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
        let passed = [self.sides[0].drain(), self.sides[1].drain()];
        self.summary.after = passed;
        match self.options.strict {
            true => self.difference(|_| Finding::Diverged { around, apart: Some(passed) }),
            false => self.tell(&Finding::Passed { why: Why::End, passed, at }),
        }
    }
}

fn only(side: usize, count: usize) -> [usize; 2] {
    if side == 0 { [count, 0] } else { [0, count] }
}

/// Does one of these exceptions come of the instruction before?
fn comes_of(item: &Item, exceptions: &[Exception]) -> bool {
    let address = item.instruction.address;
    let ends = [address, address.wrapping_add(u64::from(item.instruction.length))];
    exceptions.iter().any(|exception| {
        let is_kind = matches!(exception.kind, ExceptionKind::Synchronous | ExceptionKind::Unknown);
        is_kind && exception.return_address.is_none_or(|address| ends.contains(&address))
    })
}
