//! Realignment of two sources that have diverged.
//!
//! items ahead of A and of B ─▶ **number of items to skip in each**
//!
//! The search window grows, since most divergences are short. Candidates are followed for a while, since a short match is
//! often a function that was called before. Memory use is that of the last window.

use unspool_model::Facet;

use super::super::align::{Fit, Joint, Search, joint, longest_fit};
use super::super::side::{Item, Side};
use super::super::{Finding, SkipReason};
use super::{BETTER, CERTAIN, FarFit, REACH, REACH_OF_START, Run};

/// First windows and their growth, up to the window of the options.
const FIRST_WINDOW: usize = 1 << 8;
const FIRST_WINDOW_OF_START: usize = 1 << 12;
const GROWTH: usize = 16;

impl Run<'_> {
    /// Measures how long both sides have the same addresses from these positions on.
    pub(super) fn follow(&mut self, at: [usize; 2], max: usize) -> Joint {
        let mut length = 0;
        loop {
            for (side, at) in self.sides.iter_mut().zip(at) {
                side.fill(at.saturating_add(length + 1));
            }
            let heads = [0, 1].map(|side| self.sides[side].at(at[side] + length));
            let is_pair = matches!(heads, [Some(a), Some(b)] if a.instruction.address == b.instruction.address);
            if !is_pair || length >= max {
                let is_open = is_pair || heads.iter().any(|item| item.is_none_or(|item| item.is_after_gap));
                return Joint { at, length, is_open };
            }
            length += 1;
        }
    }

    /// Finds where one side continues within the other, which must be one that may be skipped; returns that side and the
    /// fit.
    pub(super) fn find_fit(&mut self, may_pass: [bool; 2], reason: SkipReason) -> Option<(usize, Fit)> {
        let (first, reach, certain) = match reason {
            SkipReason::Start => (FIRST_WINDOW_OF_START, REACH_OF_START, REACH_OF_START),
            _ => (FIRST_WINDOW, REACH, CERTAIN),
        };
        let mut best: Option<(usize, Fit)> = None;
        for window in windows(first, self.options.window) {
            self.fill_both(window.saturating_add(reach));
            let fits = [0, 1].into_iter().filter(|side| may_pass[*side]);
            let fits = fits.filter_map(|side| Some((side, self.fit_in(side, window, reach)?)));
            // The longest fit; of two with the same length, the one that skips fewer instructions.
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
        best.filter(|(side, fit)| fit.length >= self.options.min_match || self.is_whole(*side, fit))
    }

    /// Whether the fit reaches the end of one of the sides.
    fn is_whole(&self, side: usize, fit: &Fit) -> bool {
        let is_all = |side: &Side, length: usize| side.has_ended && length == side.ahead().len();
        is_all(&self.sides[1 - side], fit.length) || is_all(&self.sides[side], fit.position + fit.length)
    }

    /// As [`find_fit`](Self::find_fit), for a gap of one side that is larger than the window: the other side is skipped
    /// until it continues like the first one after its gap. Skipped instructions are not kept, so they are gone if that
    /// never happens.
    pub(super) fn find_fit_beyond_window(&mut self, reason: SkipReason, gaps: [bool; 2]) -> FarFit {
        let text = match gaps {
            [true, false] => 1,
            [false, true] => 0,
            _ => return FarFit::Nowhere,
        };
        self.sides[1 - text].fill(CERTAIN);
        let ahead = self.sides[1 - text].ahead();
        let island = ahead.iter().skip(1).take(CERTAIN - 1).take_while(|item| !item.is_after_gap).count() + 1;
        let pattern = self.keys(1 - text, 0, island);
        if pattern.len() < self.options.min_match {
            return FarFit::Nowhere;
        }
        let at = self.heads().map(|item| item.map(Item::site));
        let around = self.around();
        let Some(skipped) = self.seek(text, Search::new(&pattern)) else {
            self.report_not_found(around);
            return FarFit::Gone;
        };
        let counts = if reason == SkipReason::Start { &mut self.summary.before } else { &mut self.summary.in_gaps };
        counts[text] += skipped;
        if skipped > 0 {
            let skipped = if text == 0 { [skipped, 0] } else { [0, skipped] };
            self.report(&Finding::Skipped { reason, skipped, at });
        }
        // The iteration of a loop is determined by a search within the window.
        let found = self.find_fit(if text == 0 { [true, false] } else { [false, true] }, reason);
        found.map_or(FarFit::Nowhere, |(side, fit)| FarFit::Found(side, fit))
    }

    /// Advances a side to the start of the pattern; returns the number of skipped instructions, `None` at the end.
    fn seek(&mut self, side: usize, mut search: Search<'_>) -> Option<u64> {
        let with_opcodes = self.summary.facets.has(Facet::Opcodes);
        let side = &mut self.sides[side];
        let (mut skipped, mut seen) = (0, 0);
        while side.fill(seen + 1) {
            let Some(item) = side.at(seen) else { break };
            seen += 1;
            let is_found = search.is_complete_with(key(item, with_opcodes));
            let beyond = seen - search.length().min(seen);
            if is_found || beyond >= REACH {
                side.jump(beyond);
                (skipped, seen) = (skipped + beyond as u64, seen - beyond);
            }
            if is_found {
                return Some(skipped);
            }
        }
        side.drain();
        None
    }

    /// The best fit of the other side within this one. The instructions before a gap are enough if they are at least
    /// `min_match`.
    fn fit_in(&self, side: usize, window: usize, reach: usize) -> Option<Fit> {
        let (text, pattern) = (&self.sides[side], &self.sides[1 - side]);
        let is_end = |index: usize| index >= self.options.min_match && pattern.ahead()[index].is_after_gap;
        let island = (1..pattern.ahead().len().min(reach)).find(|index| is_end(*index));
        let pattern_keys = self.keys(1 - side, 0, island.unwrap_or(reach));
        let text_keys = self.keys(side, 0, window.saturating_add(reach));
        let fit = longest_fit(&pattern_keys, &text_keys).filter(|fit| fit.position <= window)?;
        let is_gap = text.at(fit.position + fit.length).is_some_and(|item| item.is_after_gap);
        Some(Fit { is_open: fit.is_open || is_gap, ..fit })
    }

    /// Keys of instructions ahead.
    fn keys(&self, side: usize, from: usize, count: usize) -> Vec<u64> {
        let with_opcodes = self.summary.facets.has(Facet::Opcodes);
        self.sides[side].ahead().iter().skip(from).take(count).map(|item| key(item, with_opcodes)).collect()
    }

    /// Finds where both sides are equal again, at least `from` instructions ahead.
    pub(super) fn joint(&mut self, from: usize) -> Option<Joint> {
        let mut found = None;
        for window in windows(FIRST_WINDOW, self.options.window) {
            self.fill_both(from.saturating_add(window));
            let rows = [0, 1].map(|side| self.keys(side, from, window));
            let is_seen = |(side, row): (&Side, &Vec<u64>)| side.has_ended && from + row.len() >= side.ahead().len();
            let are_complete = self.sides.iter().zip(&rows).all(is_seen);
            found = joint([&rows[0], &rows[1]], self.options.min_match, are_complete);
            let is_certain = found.is_some_and(|joint| {
                let cost = joint.cost();
                let joint = self.follow(joint.at.map(|at| at + from), REACH);
                // The match is long in comparison with what is skipped, so it is hardly by chance.
                let is_small = window > FIRST_WINDOW && joint.length >= (BETTER * cost).max(2 * self.options.min_match);
                is_small || joint.length >= if joint.is_open { CERTAIN } else { REACH / 2 }
            });
            if is_certain || are_complete {
                break;
            }
        }
        found
    }
}

/// Alignment key of an instruction: equal for equal instructions.
fn key(item: &Item, with_opcodes: bool) -> u64 {
    let opcode = item.instruction.opcode.filter(|_| with_opcodes).unwrap_or_default();
    item.instruction.address.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(opcode)
}

/// Search windows in ascending order, since most divergences are short.
fn windows(first: usize, last: usize) -> impl Iterator<Item = usize> {
    let grow = |window: &usize| window.checked_mul(GROWTH);
    std::iter::successors(Some(first), grow).take_while(move |window| *window < last).chain([last])
}

/// Whether the more distant fit is the better one.
fn is_better(near: &Fit, far: &Fit) -> bool {
    let is_open = far.is_open && !near.is_open;
    far.length > near.length && (is_open || far.length >= BETTER * near.length)
}
