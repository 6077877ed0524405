//! Blocks that a core executes again and again: what the trace unit has to know of each is found out once.
//!
//! flow ─▶ **passes of known blocks** ─▶ the trace unit; the first pass of each block ─▶ steps

use unspool_coresight::etm4::unit::{Block, Class};
use unspool_coresight::{SubIsa, Target};
use unspool_model::{self as model, Flow, Isa, SinkError};

use super::Core;
use crate::encode::known::{Known, place};

/// What is known of blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// By their numbers.
    known: Vec<Prepared>,
    /// As the trace unit takes them: most are one, others are several.
    pieces: Vec<Block>,
}

/// A block of A64 instructions of which all is known.
#[derive(Debug, Clone, Copy)]
struct Prepared {
    start: u64,
    /// Where it leads if the branch at its end is not taken, and if it is.
    leads_to: [u64; 2],
    /// That branch leads anywhere.
    is_indirect: bool,
    instructions: u32,
    /// Where its pieces are, and how many.
    first: u32,
    pieces: u32,
}

/// No instruction is here.
const NOWHERE: u64 = 1;

impl Prepared {
    /// One of which nothing is known.
    const UNKNOWN: Self =
        Self { start: NOWHERE, leads_to: [NOWHERE; 2], is_indirect: false, instructions: 0, first: 0, pieces: 0 };

    /// Can it go on there?
    #[inline(always)]
    fn may_lead_to(&self, next: u64, is_taken: bool) -> bool {
        next == self.leads_to[usize::from(is_taken)] || (self.is_indirect && is_taken)
    }
}

impl Blocks {
    /// What is known of the block of a pass, if it can go on there.
    #[inline(always)]
    fn of_pass(&self, flow: &Flow<'_>, index: usize) -> Option<&Prepared> {
        let pass = flow.passes.get(index)?;
        self.known.get(pass.number()).filter(|known| known.may_lead_to(flow.behind(index), pass.is_taken()))
    }
}

impl Core {
    /// Takes the steps of many instructions.
    pub(in crate::encode) fn flow(&mut self, flow: &Flow<'_>) -> Result<(), SinkError> {
        let (mut index, mut place) = (0, flow.place);
        while index < flow.passes.len() {
            let (passes, instructions) = self.pass_at_once(flow, index);
            (index, place) = (index + passes, place + instructions);
            if index < flow.passes.len() {
                place += self.pass_by_steps(flow, index, place)?;
                index += 1;
            }
        }
        Ok(())
    }

    /// Tells passes from this one on, up to the first of which not all is known: how many, and their instructions.
    fn pass_at_once(&mut self, flow: &Flow<'_>, index: usize) -> (usize, u64) {
        let Some(&Prepared { start, .. }) = self.blocks.of_pass(flow, index) else { return (0, 0) };
        self.settle(start, flow.time);
        let cycles = u64::from(!self.counts_time);
        let (mut passes, mut instructions) = (0, 0);
        for (at, pass) in flow.passes.iter().enumerate().skip(index) {
            let Some(known) = self.blocks.of_pass(flow, at) else { break };
            for piece in &self.blocks.pieces[known.first as usize..][..known.pieces as usize] {
                self.unit.block(piece, pass.is_taken(), cycles);
            }
            (passes, instructions) = (passes + 1, instructions + u64::from(known.instructions));
        }
        self.instructions += instructions;
        (passes, instructions)
    }

    /// Tells a pass step by step. How many there were.
    #[inline(never)]
    fn pass_by_steps(&mut self, flow: &Flow<'_>, index: usize, place: u64) -> Result<u64, SinkError> {
        flow.steps(index, place).try_for_each(|step| self.step(&step))?;
        let number = flow.passes[index].number();
        if self.blocks.known.get(number).is_none_or(|known| known.instructions == 0) {
            self.prepare(number, &flow.blocks[number]);
        }
        Ok(flow.blocks[number].opcodes.len() as u64)
    }

    /// What was told before is over: the next A64 instruction is at `start`.
    fn settle(&mut self, start: u64, time: Option<u64>) {
        (self.in_it, self.last_isa) = (0, SubIsa::Is0);
        if let Some(pending) = self.pending {
            self.resolve(&pending, Target { address: start, isa: SubIsa::Is0 });
        }
        if self.context_is_new || !self.is_aarch64 {
            self.change_context(true);
        }
        self.pass_time(time);
    }

    /// Remembers what there is to a block whose instructions were just told, if the trace unit can take it at once.
    #[inline(never)]
    fn prepare(&mut self, number: usize, block: &model::Block) {
        let known = |index: usize| {
            let address = block.start.wrapping_add(4 * index as u64);
            let known = &self.known[place(address)];
            let is_it = (known.executed.address, known.isa, known.opcode) == (address, Isa::A64, block.opcodes[index]);
            is_it.then_some(*known)
        };
        let end = block.opcodes.len() - 1;
        let is_plain = |index: usize| known(index).is_some_and(|known| known.executed.class == Class::Other);
        let Some(last) = known(end).filter(|_| (0..end).all(is_plain)) else { return };
        let first = self.blocks.pieces.len();
        self.blocks.pieces.extend(self.unit.blocks(block.start, last.executed));
        let prepared = Prepared {
            start: block.start,
            leads_to: leads_to(&last, block),
            is_indirect: matches!(last.executed.class, Class::Indirect | Class::ExceptionReturn),
            instructions: block.opcodes.len() as u32,
            first: first as u32,
            pieces: (self.blocks.pieces.len() - first) as u32,
        };
        if self.blocks.known.len() <= number {
            self.blocks.known.resize(number + 1, Prepared::UNKNOWN);
        }
        self.blocks.known[number] = prepared;
    }
}

/// Where a block leads if the branch at its end is not taken, and if it is. What contradicts itself leads nowhere.
fn leads_to(last: &Known, block: &model::Block) -> [u64; 2] {
    let is_branch = !matches!(last.executed.class, Class::Other | Class::Barrier);
    let target = last.target().filter(|target| target.isa == SubIsa::Is0).map_or(NOWHERE, |target| target.address);
    match (is_branch, block.ends_in_branch) {
        (false, _) => [block.behind(), NOWHERE],
        (true, true) if last.executed.conditional => [block.behind(), target],
        (true, true) => [NOWHERE, target],
        (true, false) => [NOWHERE; 2],
    }
}
