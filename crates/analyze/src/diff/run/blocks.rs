//! Comparison of whole blocks: what both sources execute alike is compared many instructions at once.
//!
//! blocks of A, blocks of B ─▶ **counts** of what is equal; the first instruction that is not is compared by itself
//!
//! A block has no more than addresses, opcodes, the outcome of its branch, and accesses without data. So counts of other
//! facets do not change within blocks, and the contexts are those of the last pair.

use unspool_model::{BlockCursor, Coverage, Direction, Facet, RestOfExecution};

use super::super::Site;
use super::super::compare::{Comparison, is_same_branch};
use super::Run;

/// Counts of instructions that are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Equal {
    instructions: u64,
    /// Branches whose outcome both sources report.
    branches: u64,
    /// Branches whose outcome only this source reports.
    only_branches: [u64; 2],
    accesses: u64,
}

impl Run<'_> {
    /// Passes the blocks that come next and that both sides execute alike.
    pub(super) fn pair_blocks(&mut self) {
        let [Some(mut a), Some(mut b)] = [self.sides[0].blocks(), self.sides[1].blocks()] else { return };
        let equal = pass_equal([&mut a, &mut b], self.summary.facets);
        if equal.instructions == 0 {
            return;
        }
        let shown = self.options.context.min(usize::try_from(equal.instructions).unwrap_or(usize::MAX));
        let (places, last) = ([a, b].map(|cursor| cursor.place()), [a, b].map(|cursor| cursor.last(shown)));
        for (side, place) in self.sides.iter_mut().zip(places) {
            side.continue_at(place, equal.instructions);
        }
        self.add_equal(&equal);
        let counts = [0, 1].map(|side| self.sides[side].count - shown as u64);
        let [a, b] = last;
        for (index, sites) in (0..).zip(a.into_iter().zip(b)) {
            let site =
                |side: usize, (position, instruction)| Site { number: counts[side] + index, position, instruction };
            self.remember([site(0, sites.0), site(1, sites.1)]);
        }
    }

    fn add_equal(&mut self, equal: &Equal) {
        self.summary.common += equal.instructions;
        let facets = self.summary.facets;
        let Self { summary, differences, contexts, sides, .. } = self;
        let mut comparison =
            Comparison { tallies: &mut summary.tallies, differences, contexts, weight: equal.instructions };
        if facets.has(Facet::Opcodes) {
            comparison.tallies[Facet::Opcodes as usize].compared += equal.instructions;
        }
        comparison.tallies[Facet::Accesses as usize].compared += equal.accesses;
        let branches = &mut comparison.tallies[Facet::Branches as usize];
        branches.compared += equal.branches;
        let [a, b] = equal.only_branches;
        branches.only = [branches.only[0] + a, branches.only[1] + b];
        comparison.context([sides[0].context(), sides[1].context()], facets);
    }
}

/// Advances both cursors while they are equal in these facets.
fn pass_equal([a, b]: [&mut BlockCursor<'_>; 2], facets: Coverage) -> Equal {
    let mut equal = Equal::default();
    while let (Some(one), Some(other)) = (a.rest(), b.rest()) {
        let count = one.opcodes.len().min(other.opcodes.len());
        let is_same_code =
            one.address == other.address && one.isa == other.isa && one.opcodes[..count] == other.opcodes[..count];
        if !is_same_code {
            break;
        }
        let branches = [&one, &other].map(|rest| branch_within(rest, count));
        if facets.has(Facet::Branches)
            && let [Some(one), Some(other)] = branches
            && !is_same_branch(one, other)
        {
            break;
        }
        if facets.has(Facet::Accesses) {
            let Some(accesses) = same_accesses([a, b], count) else { break };
            equal.accesses += accesses;
        }
        if facets.has(Facet::Branches) {
            let [one, other] = branches.map(|branch| u64::from(branch.is_some()));
            equal.branches += one & other;
            equal.only_branches[0] += one & !other & 1;
            equal.only_branches[1] += other & !one & 1;
        }
        equal.instructions += count as u64;
        a.advance(count);
        b.advance(count);
    }
    equal
}

/// The outcome of the branch that is the last of the next `count` instructions.
fn branch_within(rest: &RestOfExecution<'_>, count: usize) -> Option<unspool_model::Branch> {
    rest.branch.filter(|_| count == rest.opcodes.len())
}

/// Compares the accesses of the next `count` instructions; counts one for each instruction and direction. `None`: they differ.
fn same_accesses([a, b]: [&BlockCursor<'_>; 2], count: usize) -> Option<u64> {
    let (mut total, mut last) = (0, (usize::MAX, [false; 2]));
    let (mut one, mut other) = (a.accesses(count), b.accesses(count));
    loop {
        let (access, _) = match (one.next(), other.next()) {
            (None, None) => return Some(total),
            (Some(one), Some(other)) if one == other => one,
            _ => return None,
        };
        let index = usize::from(access.index);
        if last.0 != index {
            last = (index, [false; 2]);
        }
        for (direction, is_counted) in [Direction::Read, Direction::Write].into_iter().zip(&mut last.1) {
            let is_meant = access.size > 0 && (access.direction == direction || access.direction == Direction::Both);
            total += u64::from(is_meant && !std::mem::replace(is_counted, *is_counted || is_meant));
        }
    }
}
