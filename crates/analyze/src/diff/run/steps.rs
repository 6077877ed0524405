//! Comparison of steps in place: instructions that are equal in everything are counted without being copied.
//!
//! steps of A, steps of B ─▶ **counts** of what is equal; the first pair that is not is compared by itself

use unspool_model::{Access, Coverage, Direction, Facet, Instruction, StepRef};

use super::super::Tally;
use super::super::compare::Comparison;
use super::super::{Site, side::Side};
use super::Run;

type Tallies = [Tally; Facet::ALL.len()];

impl Run<'_> {
    /// Passes the instructions that come next and that are equal in both sides.
    pub(super) fn pair_steps(&mut self) {
        let facets = self.summary.facets;
        let mut count = 0;
        while let Some(sites) = self.equal_sites(facets) {
            self.remember(sites);
            self.sides.iter_mut().for_each(Side::pass_unread);
            count += 1;
        }
        if count == 0 {
            return;
        }
        self.summary.common += count;
        let Self { summary, differences, contexts, sides, .. } = self;
        let mut comparison = Comparison { tallies: &mut summary.tallies, differences, contexts, weight: count };
        comparison.context([sides[0].context(), sides[1].context()], facets);
    }

    /// Counts the next pair if it is equal in everything.
    #[inline]
    fn equal_sites(&mut self, facets: Coverage) -> Option<[Site; 2]> {
        let ((a, one), (b, other)) = (self.sides[0].peek()?, self.sides[1].peek()?);
        // Of several accesses, one may overlap another with other data.
        if one != other || a.accesses().len() > 1 || !a.has_same_effects(&b) {
            return None;
        }
        add_equal(&mut self.summary.tallies, &a, one, facets);
        let site = |side: usize, step: &StepRef<'_>, instruction: &Instruction| Site {
            number: self.sides[side].count,
            position: step.position,
            instruction: *instruction,
        };
        Some([site(0, &a, one), site(1, &b, other)])
    }
}

/// Counts the facets of an instruction that both sources have.
#[inline]
fn add_equal(tallies: &mut Tallies, step: &StepRef<'_>, instruction: &Instruction, facets: Coverage) {
    let mut add =
        |facet: Facet, count: u64| tallies[facet as usize].compared += if facets.has(facet) { count } else { 0 };
    add(Facet::Opcodes, instruction.opcode.is_some().into());
    add(Facet::Conditions, instruction.is_executed.is_some().into());
    add(Facet::Branches, instruction.branch.is_some().into());
    if let Some(access) = step.accesses().next() {
        add(Facet::Accesses, directions(&access));
        add(Facet::Data, (!access.bytes.is_empty()).into());
    }
    if step.registers().len() > 0 {
        let is_first = |(index, name): (usize, &str)| step.registers().take(index).all(|before| before.name != name);
        let names = step.registers().map(|write| write.name).enumerate();
        add(Facet::Registers, names.filter(|found| is_first(*found)).count() as u64);
    }
}

/// Number of directions in which an access touches bytes.
fn directions(access: &Access<'_>) -> u64 {
    match access.direction {
        _ if access.size == 0 => 0,
        Direction::Read | Direction::Write => 1,
        Direction::Both => 2,
        Direction::Neither => 0,
    }
}
