//! Blocks that a core executes repeatedly, prepared for the trace unit once.
//!
//! block trace ─▶ **executions of prepared blocks** ─▶ the trace unit; the first execution of each block ─▶ steps

use unspool_coresight::etm4::unit::Block;
use unspool_coresight::unit::Class;
use unspool_coresight::{SubIsa, Target};
use unspool_model::{self as model, BlockTrace, Isa, SinkError};

use super::Core;
use crate::encode::known::{Known, slot};
use crate::encode::unit::Unit;

/// Prepared blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// By their numbers.
    known: Vec<Prepared>,
    /// Blocks of the trace unit: most prepared blocks are one of them, some are several.
    units: Vec<Block>,
}

/// A block of A64 instructions, decoded.
#[derive(Debug, Clone, Copy)]
struct Prepared {
    start: u64,
    /// Successors if the branch at its end is not taken, and if it is taken.
    successors: [u64; 2],
    is_indirect: bool,
    instructions: u32,
    /// Its blocks of the trace unit: the index of the first, and their number.
    first: u32,
    units: u32,
}

/// Address that no instruction can have.
const NOWHERE: u64 = 1;

impl Prepared {
    const UNKNOWN: Self =
        Self { start: NOWHERE, successors: [NOWHERE; 2], is_indirect: false, instructions: 0, first: 0, units: 0 };

    /// Whether execution can continue at `next`.
    #[inline(always)]
    fn may_lead_to(&self, next: Option<u64>, is_taken: bool) -> bool {
        next.is_some_and(|next| next == self.successors[usize::from(is_taken)] || (self.is_indirect && is_taken))
    }
}

impl Blocks {
    /// Prepared block of an execution, if it can continue as the trace does.
    #[inline(always)]
    fn of_execution(&self, trace: &BlockTrace<'_>, index: usize) -> Option<&Prepared> {
        let execution = trace.executions.get(index)?;
        let known = self.known.get(execution.number());
        known.filter(|known| known.may_lead_to(trace.continues_at(index), execution.is_taken()))
    }
}

impl Core {
    pub(in crate::encode) fn blocks(&mut self, trace: &BlockTrace<'_>) -> Result<(), SinkError> {
        let (mut index, mut position) = (0, trace.first_position());
        while index < trace.executions.len() {
            let (executions, instructions) = self.execute_prepared(trace, index);
            (index, position) = (index + executions, position + instructions);
            if index < trace.executions.len() {
                position += self.execute_steps(trace, index, position)?;
                index += 1;
            }
        }
        Ok(())
    }

    /// Feeds the trace unit with executions from `index`, up to the first whose block is not prepared. Returns the
    /// numbers of executions and instructions.
    fn execute_prepared(&mut self, trace: &BlockTrace<'_>, index: usize) -> (usize, u64) {
        let Some(&Prepared { start, .. }) = self.blocks.of_execution(trace, index) else { return (0, 0) };
        self.resolve_at(start, trace.time);
        // Only these models have blocks: the others do not trace A64.
        let Unit::Etm4(unit) = &mut self.unit else { return (0, 0) };
        let cycles = u64::from(!self.counts_time);
        let (mut executions, mut instructions) = (0, 0);
        for (at, execution) in trace.executions.iter().enumerate().skip(index) {
            let Some(known) = self.blocks.of_execution(trace, at) else { break };
            for block in &self.blocks.units[known.first as usize..][..known.units as usize] {
                unit.block(block, execution.is_taken(), cycles);
            }
            (executions, instructions) = (executions + 1, instructions + u64::from(known.instructions));
        }
        self.totals.instructions += instructions;
        (executions, instructions)
    }

    /// Executes a block step by step, and prepares it. Returns the number of steps.
    #[inline(never)]
    fn execute_steps(&mut self, trace: &BlockTrace<'_>, index: usize, position: u64) -> Result<u64, SinkError> {
        let position = trace.position_of(index).unwrap_or(position);
        trace.steps(index, position).try_for_each(|step| self.step(&step))?;
        let number = trace.executions[index].number();
        if self.blocks.known.get(number).is_none_or(|known| known.instructions == 0) {
            self.prepare(number, &trace.blocks[number]);
        }
        Ok(trace.blocks[number].opcodes.len() as u64)
    }

    /// Completes the pending instruction: the next A64 instruction is at `start`.
    fn resolve_at(&mut self, start: u64, time: Option<u64>) {
        (self.in_it, self.last_isa) = (0, SubIsa::Is0);
        if let Some(pending) = self.pending {
            self.resolve(&pending, Target { address: start, isa: SubIsa::Is0 });
        }
        if self.context_is_new || !self.is_aarch64 {
            self.change_context(true);
        }
        self.pass_time(time);
    }

    /// Prepares a block whose steps were just executed, if the trace unit can execute it as a whole.
    #[inline(never)]
    fn prepare(&mut self, number: usize, block: &model::Block) {
        let known = |index: usize| {
            let address = block.start.wrapping_add(4 * index as u64);
            let known = &self.known[slot(address)];
            let is_it = (known.executed.address, known.isa, known.opcode) == (address, Isa::A64, block.opcodes[index]);
            is_it.then_some(*known)
        };
        let end = block.opcodes.len() - 1;
        let is_plain = |index: usize| known(index).is_some_and(|known| known.executed.class == Class::Other);
        let Some(last) = known(end).filter(|_| (0..end).all(is_plain)) else { return };
        let Unit::Etm4(unit) = &self.unit else { return };
        let first = self.blocks.units.len();
        self.blocks.units.extend(unit.blocks(block.start, last.executed));
        let prepared = Prepared {
            start: block.start,
            successors: successors(&last, block),
            is_indirect: matches!(last.executed.class, Class::Indirect | Class::ExceptionReturn),
            instructions: block.opcodes.len() as u32,
            first: first as u32,
            units: (self.blocks.units.len() - first) as u32,
        };
        if self.blocks.known.len() <= number {
            self.blocks.known.resize(number + 1, Prepared::UNKNOWN);
        }
        self.blocks.known[number] = prepared;
    }
}

/// Successors of a block if the branch at its end is not taken, and if it is taken. A contradiction has none.
fn successors(last: &Known, block: &model::Block) -> [u64; 2] {
    let is_branch = last.executed.class.is_branch();
    let target = last.target().filter(|target| target.isa == SubIsa::Is0).map_or(NOWHERE, |target| target.address);
    match (is_branch, block.ends_in_branch) {
        (false, _) => [block.end(), NOWHERE],
        (true, true) if last.executed.conditional => [block.end(), target],
        (true, true) => [NOWHERE, target],
        (true, false) => [NOWHERE; 2],
    }
}
