//! Where two sources that are apart go on alike.
//!
//! items ahead of A and of B ─▶ **a place**: how many of each to pass over
//!
//! Looked for in windows that grow, since most that are apart are not far apart, and followed for a while, since a place
//! that soon ends is often a function that was called before. Memory is that of the last window.

use unspool_model::Facet;

use super::super::align::{Fit, Joint, Search, joint, longest};
use super::super::side::{Item, Side};
use super::super::{Finding, Why};
use super::Run;

/// This many equal instructions in a row are enough to look no further, if nothing speaks against them.
pub(super) const CERTAIN: usize = 64;

/// No more than these are held against each other behind a gap.
pub(super) const REACH: usize = 1 << 10;

/// At the start nothing is known, and a function that is called often looks like a start for long.
pub(super) const REACH_OF_START: usize = 1 << 14;

/// A place further away has to fit so many times better, if it does not fit to the end.
pub(super) const BETTER: usize = 4;

/// The first windows; they grow until the last one, which is for the user to say.
const FIRST_WINDOW: usize = 1 << 8;
const FIRST_WINDOW_OF_START: usize = 1 << 12;
const GROWTH: usize = 16;

/// What came of looking beyond the window.
pub(super) enum Far {
    /// It is at this place of this side.
    Found(usize, Fit),
    /// It could not be looked for.
    Nowhere,
    /// It is not there, and all of the side is gone.
    Gone,
}

impl Run<'_> {
    /// How long both go on at the same addresses, with so many of each before them.
    pub(super) fn follow(&mut self, at: [usize; 2], most: usize) -> Joint {
        let mut length = 0;
        loop {
            for (side, at) in self.sides.iter_mut().zip(at) {
                side.fill(at.saturating_add(length + 1));
            }
            let heads = [0, 1].map(|side| self.sides[side].at(at[side] + length));
            let is_pair = matches!(heads, [Some(a), Some(b)] if a.instruction.address == b.instruction.address);
            if !is_pair || length >= most {
                let is_open = is_pair || heads.iter().any(|item| item.is_none_or(|item| item.is_behind_gap));
                return Joint { at, length, is_open };
            }
            length += 1;
        }
    }

    /// Where one side goes on within the other, if that one may be passed over: which is, and where.
    pub(super) fn place(&mut self, may_pass: [bool; 2], why: Why) -> Option<(usize, Fit)> {
        let (first, reach, certain) = match why {
            Why::Start => (FIRST_WINDOW_OF_START, REACH_OF_START, REACH_OF_START),
            _ => (FIRST_WINDOW, REACH, CERTAIN),
        };
        let mut best: Option<(usize, Fit)> = None;
        for window in windows(first, self.options.window) {
            self.fill_both(window.saturating_add(reach));
            let fits = [0, 1].into_iter().filter(|side| may_pass[*side]);
            let fits = fits.filter_map(|side| Some((side, self.fit_in(side, window, reach)?)));
            // The longest, and if both are as long, that with fewer to pass over.
            let found = fits.max_by_key(|(_, fit)| (fit.length, std::cmp::Reverse(fit.position)));
            best = match (best, found) {
                (Some((side, near)), Some((_, fit))) if !is_better(&near, &fit) => Some((side, near)),
                (_, found) => found,
            };
            let is_seen = |side: &Side| side.has_ended && side.ahead().len() <= window;
            let is_all = self.sides.iter().all(is_seen);
            let is_certain = best.is_some_and(|(_, fit)| fit.is_open && fit.length >= certain);
            if is_all || is_certain {
                break;
            }
        }
        best.filter(|(side, fit)| fit.length >= self.options.row || self.is_whole(*side, fit))
    }

    /// Nothing is left of one of the sides behind it.
    fn is_whole(&self, side: usize, fit: &Fit) -> bool {
        let is_all = |side: &Side, length: usize| side.has_ended && length == side.ahead().len();
        is_all(&self.sides[1 - side], fit.length) || is_all(&self.sides[side], fit.position + fit.length)
    }

    /// As [`place`](Self::place), for a gap of one side that is larger than the window: the other side is passed over
    /// until it goes on as the one behind the gap does. What is passed over is not kept, so that it is gone if that never
    /// comes.
    pub(super) fn place_far(&mut self, why: Why, gaps: [bool; 2]) -> Far {
        let text = match gaps {
            [true, false] => 1,
            [false, true] => 0,
            _ => return Far::Nowhere,
        };
        self.sides[1 - text].fill(CERTAIN);
        let ahead = self.sides[1 - text].ahead();
        let island = ahead.iter().skip(1).take(CERTAIN - 1).take_while(|item| !item.is_behind_gap).count() + 1;
        let pattern = self.keys(1 - text, 0, island);
        if pattern.len() < self.options.row {
            return Far::Nowhere;
        }
        let at = self.heads().map(|item| item.map(Item::site));
        let around = self.around();
        let Some(passed) = self.seek(text, Search::new(&pattern)) else {
            self.never_again(around);
            return Far::Gone;
        };
        let counts = if why == Why::Start { &mut self.summary.before } else { &mut self.summary.in_gaps };
        counts[text] += passed;
        if passed > 0 {
            let passed = if text == 0 { [passed, 0] } else { [0, passed] };
            self.tell(&Finding::Passed { why, passed, at });
        }
        // Which time round a loop it is, is seen from near.
        let place = self.place(if text == 0 { [true, false] } else { [false, true] }, why);
        place.map_or(Far::Nowhere, |(side, fit)| Far::Found(side, fit))
    }

    /// Goes on in a side until what is looked for starts there: how many were passed over. `None`: all were.
    fn seek(&mut self, side: usize, mut search: Search<'_>) -> Option<u64> {
        let with_opcodes = self.summary.facets.has(Facet::Opcodes);
        let side = &mut self.sides[side];
        let (mut passed, mut seen) = (0, 0);
        while side.fill(seen + 1) {
            let Some(item) = side.at(seen) else { break };
            seen += 1;
            let is_found = search.is_complete_with(key(item, with_opcodes));
            let beyond = seen - search.length().min(seen);
            if is_found || beyond >= REACH {
                side.jump(beyond);
                (passed, seen) = (passed + beyond as u64, seen - beyond);
            }
            if is_found {
                return Some(passed);
            }
        }
        side.drain();
        None
    }

    /// Where the other side goes on within this one. What is before a gap is enough, if it is enough to tell.
    fn fit_in(&self, side: usize, window: usize, reach: usize) -> Option<Fit> {
        let (text, pattern) = (&self.sides[side], &self.sides[1 - side]);
        let is_end = |index: usize| index >= self.options.row && pattern.ahead()[index].is_behind_gap;
        let island = (1..pattern.ahead().len().min(reach)).find(|index| is_end(*index));
        let pattern_keys = self.keys(1 - side, 0, island.unwrap_or(reach));
        let text_keys = self.keys(side, 0, window.saturating_add(reach));
        let fit = longest(&pattern_keys, &text_keys).filter(|fit| fit.position <= window)?;
        let is_gap = text.at(fit.position + fit.length).is_some_and(|item| item.is_behind_gap);
        Some(Fit { is_open: fit.is_open || is_gap, ..fit })
    }

    /// Keys of instructions ahead: equal for equal ones.
    fn keys(&self, side: usize, from: usize, count: usize) -> Vec<u64> {
        let with_opcodes = self.summary.facets.has(Facet::Opcodes);
        self.sides[side].ahead().iter().skip(from).take(count).map(|item| key(item, with_opcodes)).collect()
    }

    /// Where both are together again, from so many instructions ahead on.
    pub(super) fn joint(&mut self, from: usize) -> Option<Joint> {
        let mut found = None;
        for window in windows(FIRST_WINDOW, self.options.window) {
            self.fill_both(from.saturating_add(window));
            let rows = [0, 1].map(|side| self.keys(side, from, window));
            let is_seen = |(side, row): (&Side, &Vec<u64>)| side.has_ended && from + row.len() >= side.ahead().len();
            let are_complete = self.sides.iter().zip(&rows).all(is_seen);
            found = joint([&rows[0], &rows[1]], self.options.row, are_complete);
            let is_certain = found.is_some_and(|joint| {
                let cost = joint.cost();
                let joint = self.follow(joint.at.map(|at| at + from), REACH);
                // So little is missing that it hardly is by chance.
                let is_small = window > FIRST_WINDOW && joint.length >= (BETTER * cost).max(2 * self.options.row);
                is_small || joint.length >= if joint.is_open { CERTAIN } else { REACH / 2 }
            });
            if is_certain || are_complete {
                break;
            }
        }
        found
    }
}

/// A number that is equal for equal instructions.
fn key(item: &Item, with_opcodes: bool) -> u64 {
    let opcode = item.instruction.opcode.filter(|_| with_opcodes).unwrap_or_default();
    item.instruction.address.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(opcode)
}

/// Windows from small to large: most that are apart are not far apart.
fn windows(first: usize, last: usize) -> impl Iterator<Item = usize> {
    let grow = |window: &usize| window.checked_mul(GROWTH);
    std::iter::successors(Some(first), grow).take_while(move |window| *window < last).chain([last])
}

/// Is the place further away the better one?
fn is_better(near: &Fit, far: &Fit) -> bool {
    let is_open = far.is_open && !near.is_open;
    far.length > near.length && (is_open || far.length >= BETTER * near.length)
}
