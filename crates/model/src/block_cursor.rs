//! A reader of a block trace, instruction by instruction or by parts of executions.
//!
//! ```text
//! executions:  │ A A A A │ B B │ A A A A │
//! cursor:            ▲╰──╯ the rest of the execution at hand
//! ```
//!
//! A cursor borrows its trace; its place does not, so that it can be kept while the trace is elsewhere.

use unspool_isa::Isa;

use crate::{BlockAccesses, BlockTrace, Branch, Event, Instruction, Positions, Step, TemplateAccess};

/// The place of an instruction in a [`BlockTrace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockPlace {
    /// Index of the execution.
    execution: usize,
    /// Index of the instruction in its block.
    index: usize,
    /// Address of the instruction.
    address: u64,
    /// Number of instructions before it.
    instructions: u64,
    /// Number of accesses of the executions before this one.
    accesses: usize,
}

/// The rest of an execution: the instructions from the place of a cursor on.
#[derive(Debug, Clone, Copy)]
pub struct RestOfExecution<'t> {
    /// Address of the first instruction.
    pub address: u64,
    /// The instruction set.
    pub isa: Isa,
    /// The opcodes, at least one.
    pub opcodes: &'t [u32],
    /// The outcome of the branch at its end, if it ends in one.
    pub branch: Option<Branch>,
}

/// A cursor in a block trace.
#[derive(Debug, Clone, Copy)]
pub struct BlockCursor<'t> {
    trace: BlockTrace<'t>,
    place: BlockPlace,
}

impl<'t> BlockCursor<'t> {
    /// A cursor at the start of a trace.
    pub fn new(trace: BlockTrace<'t>) -> Self {
        let address = trace.executions.first().map_or(0, |first| trace.blocks[first.number()].start);
        Self { trace, place: BlockPlace { address, ..BlockPlace::default() } }
    }

    /// A cursor at a place of this trace.
    #[inline]
    pub fn at(trace: BlockTrace<'t>, place: BlockPlace) -> Self {
        Self { trace, place }
    }

    /// The place.
    #[inline]
    pub fn place(&self) -> BlockPlace {
        self.place
    }

    /// The core of the trace.
    pub fn core(&self) -> u32 {
        self.trace.core
    }

    /// The rest of the execution at hand; `None` at the end of the trace.
    #[inline]
    pub fn rest(&self) -> Option<RestOfExecution<'t>> {
        let execution = self.trace.executions.get(self.place.execution)?;
        let block = &self.trace.blocks[execution.number()];
        let branch = block.ends_in_branch.then(|| {
            let taken = execution.is_taken();
            Branch { taken, target: self.trace.continues_at(self.place.execution).filter(|_| taken) }
        });
        let opcodes = &block.opcodes[self.place.index..];
        Some(RestOfExecution { address: self.place.address, isa: block.isa, opcodes, branch })
    }

    /// The accesses of the next `count` instructions, all of the execution at hand; their index is relative to the cursor.
    #[inline]
    pub fn accesses(&self, count: usize) -> impl Iterator<Item = (TemplateAccess, u64)> + use<'t> {
        let BlockPlace { execution, index, accesses, .. } = self.place;
        let number = self.trace.executions.get(execution).map(|execution| execution.number());
        let of_execution = number.zip(self.trace.accesses).map(|(number, BlockAccesses { of_blocks, addresses })| {
            BlockAccesses { of_blocks, addresses: addresses.get(accesses..).unwrap_or_default() }.split_off(number)
        });
        of_execution.into_iter().flatten().filter_map(move |(access, address)| {
            let index = usize::from(access.index).checked_sub(index).filter(|index| *index < count)?;
            Some((TemplateAccess { index: index as u16, ..*access }, address))
        })
    }

    /// Advances by this many instructions, all of the execution at hand.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        let Some(rest) = self.rest() else { return };
        self.place.instructions += count as u64;
        let passed = rest.opcodes.iter().take(count).map(|opcode| u64::from(rest.isa.opcode_length(*opcode)));
        if count < rest.opcodes.len() {
            self.place.index += count;
            self.place.address = rest.address.wrapping_add(passed.sum()) & rest.isa.address_mask();
            return;
        }
        if let Some(BlockAccesses { of_blocks, .. }) = self.trace.accesses {
            let number = self.trace.executions[self.place.execution].number();
            self.place.accesses += of_blocks.get(number).map_or(0, Vec::len);
        }
        self.place.address = self.trace.continues_at(self.place.execution).unwrap_or_default();
        (self.place.execution, self.place.index) = (self.place.execution + 1, 0);
    }

    /// Sets a step to the instruction at hand. False at the end of the trace.
    pub fn read(&self, step: &mut Step) -> bool {
        let Some(rest) = self.rest() else { return false };
        step.clear();
        (step.core, step.time) = (self.trace.core, self.trace.time);
        step.position = self.position(self.place.execution, self.place.instructions);
        step.event = Event::Instruction(instruction(&rest, rest.address, 0));
        for (access, address) in self.accesses(1) {
            step.access(access.direction, address, access.size.into());
        }
        true
    }

    /// The last instructions before the cursor, at most `count`, with their positions.
    pub fn last(&self, count: usize) -> Vec<(u64, Instruction)> {
        let BlockPlace { mut execution, index, instructions, .. } = self.place;
        let length = |execution: usize| self.trace.blocks[self.trace.executions[execution].number()].opcodes.len();
        let mut before = index;
        while before < count && execution > 0 {
            execution -= 1;
            before += length(execution);
        }
        let mut cursor = *self;
        let first = instructions - before as u64;
        let address = self.trace.executions.get(execution).map_or(0, |it| self.trace.blocks[it.number()].start);
        cursor.place = BlockPlace { execution, index: 0, address, instructions: first, accesses: 0 };
        let mut all = Vec::with_capacity(count);
        while let Some(rest) = cursor.rest().filter(|_| cursor.place.instructions < instructions) {
            let mut address = rest.address;
            for (index, opcode) in rest.opcodes.iter().enumerate() {
                let number = cursor.place.instructions + index as u64;
                if number < instructions && number + count as u64 >= instructions {
                    all.push((self.position(cursor.place.execution, number), instruction(&rest, address, index)));
                }
                address = address.wrapping_add(rest.isa.opcode_length(*opcode).into()) & rest.isa.address_mask();
            }
            cursor.advance(rest.opcodes.len());
        }
        all
    }

    /// The position of an instruction: of this execution, with this number of instructions before it.
    fn position(&self, execution: usize, instructions: u64) -> u64 {
        match self.trace.positions {
            Positions::From(first) => first + instructions,
            Positions::Each(all) => all.get(execution).copied().unwrap_or_default(),
        }
    }
}

/// The instruction with this index in the rest of an execution.
fn instruction(rest: &RestOfExecution<'_>, address: u64, index: usize) -> Instruction {
    let opcode = rest.opcodes[index];
    Instruction {
        address,
        opcode: Some(opcode),
        length: rest.isa.opcode_length(opcode),
        isa: rest.isa,
        branch: rest.branch.filter(|_| index + 1 == rest.opcodes.len()),
        ..Instruction::default()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::{Block, BlockExecution, Direction};

    /// Three executions of two blocks; the first block has instructions of two and four bytes.
    fn with_trace(positions: Positions<'_>, test: impl Fn(BlockTrace<'_>)) {
        let blocks = [
            Block::new(0x1000, Isa::T32, vec![0x4770, 0xf3af_8000, 0xbf00], true),
            Block::new(0x2000, Isa::A64, vec![0xd503_201f, 0xf940_0000], false),
        ];
        let access = |index| TemplateAccess { index, size: 8, direction: Direction::Read };
        let of_blocks = [vec![access(0), access(2)], vec![access(1)]];
        let executions = [(0, true), (1, false), (0, false)].map(|(at, is)| BlockExecution::new(at, is));
        let addresses = [10, 20, 30, 40, 50];
        let accesses = Some(BlockAccesses { of_blocks: &of_blocks, addresses: &addresses });
        let next = Some(0x1008);
        test(BlockTrace {
            core: 3,
            blocks: &blocks,
            executions: &executions,
            next,
            positions,
            time: Some(7),
            accesses,
        });
    }

    fn steps_of(trace: &BlockTrace<'_>) -> Vec<Step> {
        let mut steps = Vec::new();
        let _ = trace.each_step(|step| {
            steps.push(step.clone());
            ControlFlow::Continue(())
        });
        steps
    }

    #[test]
    fn a_cursor_reads_the_steps_of_the_trace() {
        for positions in [Positions::From(100), Positions::Each(&[4, 8, 9])] {
            with_trace(positions, |trace| {
                let (mut cursor, mut step, mut found) = (BlockCursor::new(trace), Step::default(), Vec::new());
                while cursor.read(&mut step) {
                    found.push(step.clone());
                    cursor.advance(1);
                }
                assert_eq!(found, steps_of(&trace));
            });
        }
    }

    #[test]
    fn the_last_instructions_are_those_before_the_cursor() {
        with_trace(Positions::From(100), |trace| {
            let steps = steps_of(&trace);
            let mut cursor = BlockCursor::new(trace);
            for taken in 0..=steps.len() {
                for count in 0..=9 {
                    let expected = steps[taken.saturating_sub(count)..taken].iter();
                    let expected = expected.map(|step| (step.position, *step.event.instruction().unwrap()));
                    assert_eq!(cursor.last(count), expected.collect::<Vec<_>>(), "{taken} {count}");
                }
                cursor.advance(1);
            }
        });
    }

    #[test]
    fn an_execution_may_be_taken_in_parts() {
        with_trace(Positions::From(0), |trace| {
            let mut cursor = BlockCursor::new(trace);
            cursor.advance(1);
            let rest = cursor.rest().unwrap();
            assert_eq!((rest.address, rest.opcodes), (0x1002, &[0xf3af_8000, 0xbf00][..]));
            assert_eq!(rest.branch, Some(Branch { taken: true, target: Some(0x2000) }));
            assert_eq!(cursor.accesses(1).count(), 0);
            assert_eq!(
                cursor.accesses(2).map(|(access, address)| (access.index, address)).collect::<Vec<_>>(),
                [(1, 20)]
            );
            cursor.advance(2);
            assert_eq!(cursor.rest().map(|rest| rest.address), Some(0x2000));
            let resumed = BlockCursor::at(trace, cursor.place());
            assert_eq!(resumed.accesses(2).map(|(_, address)| address).collect::<Vec<_>>(), [30]);
        });
    }
}
