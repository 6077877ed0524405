//! Rows of the table `blocks`: executions of straight-line code of one core.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, UInt32Array, UInt64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use unspool::isa::{Isa, decode};
use unspool::model::{Block, BlockExecution, Instruction};

use crate::code::{Code, Executed, Names, Piece};
use crate::rows::{Place, Places, Runs};

/// Instructions that are joined to one block.
const LONGEST: usize = 1 << 12;

/// Blocks that are remembered at one address.
const REMEMBERED: usize = 16;

/// Addresses at which blocks are remembered.
const MAX_KNOWN: usize = 1 << 18;

/// Pieces of the blocks of one process, by number.
#[derive(Debug, Default)]
pub(crate) struct NumberedBlocks {
    /// The first piece of each.
    first: Vec<Piece>,
    /// The other pieces of those that have more.
    others: HashMap<usize, Vec<Piece>>,
    /// For each block: it has more pieces.
    has_more: Vec<bool>,
}

impl NumberedBlocks {
    /// Learns new blocks.
    pub(crate) fn learn(&mut self, blocks: &[Block], code: &mut Code, names: &Names<'_>) {
        for block in &blocks[self.first.len()..] {
            let executed = block.instructions();
            let executed = executed.map(|(address, opcode, size)| Executed { address, opcode: Some(opcode), size });
            let mut pieces = code.add(block.isa, &executed.collect::<Vec<_>>(), block.ends_in_branch, names);
            let others = pieces.split_off(pieces.len().min(1));
            let none = Piece { address: block.start, instructions: 0, code: 0, ends_in_branch: false };
            self.has_more.push(!others.is_empty());
            if !others.is_empty() {
                self.others.insert(self.first.len(), others);
            }
            self.first.push(pieces.first().copied().unwrap_or(none));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// The number of instructions of a block.
    pub(crate) fn instructions(&self, number: usize) -> u64 {
        let others = if self.has_more[number] { self.others.get(&number) } else { None };
        let pieces = self.first.get(number).into_iter().chain(others.into_iter().flatten());
        pieces.map(|piece| u64::from(piece.instructions)).sum()
    }
}

/// Rows of one core.
#[derive(Debug, Default)]
pub(crate) struct BlockRows {
    places: Places,
    address: Vec<u64>,
    instructions: Vec<u32>,
    /// 0: not taken, 1: taken, 2: no branch.
    taken: Vec<u8>,
    cycles: Runs,
    code: Vec<u32>,
}

impl BlockRows {
    pub(crate) fn len(&self) -> usize {
        self.address.len()
    }

    /// Adds executions of blocks from `place` on; returns the number of their instructions.
    pub(crate) fn executions(
        &mut self,
        executions: &[BlockExecution],
        blocks: &NumberedBlocks,
        place: &Place,
        cycles: Option<u64>,
    ) -> u64 {
        let (before, mut sequence) = (self.len(), place.sequence);
        for execution in executions {
            let (number, is_taken) = (execution.number(), execution.is_taken());
            sequence += self.piece(blocks.first[number], sequence, is_taken);
            if blocks.has_more[number] {
                for piece in blocks.others.get(&number).into_iter().flatten() {
                    sequence += self.piece(*piece, sequence, is_taken);
                }
            }
        }
        self.end_rows(self.len() - before, place, cycles);
        sequence - place.sequence
    }

    /// Adds the pieces of one block, from `place` on.
    pub(crate) fn pieces(&mut self, pieces: &[Piece], is_taken: bool, place: &Place, cycles: Option<u64>) {
        let mut sequence = place.sequence;
        for piece in pieces {
            sequence += self.piece(*piece, sequence, is_taken);
        }
        self.end_rows(pieces.len(), place, cycles);
    }

    #[inline]
    fn piece(&mut self, piece: Piece, sequence: u64, is_taken: bool) -> u64 {
        self.places.add_sequence(sequence);
        self.address.push(piece.address);
        self.instructions.push(piece.instructions);
        self.taken.push(if piece.ends_in_branch { is_taken.into() } else { 2 });
        self.code.push(piece.code);
        piece.instructions.into()
    }

    fn end_rows(&mut self, rows: usize, place: &Place, cycles: Option<u64>) {
        self.places.add_runs(place, rows);
        self.cycles.add(cycles, rows);
    }

    /// The columns, of which no row is left.
    pub(crate) fn take(&mut self, source: u32) -> Vec<ArrayRef> {
        let rows = self.len();
        let taken = std::mem::take(&mut self.taken);
        let is_taken = BooleanBuffer::collect_bool(rows, |row| taken[row] == 1);
        let is_branch = BooleanBuffer::collect_bool(rows, |row| taken[row] != 2);
        let mut columns = self.places.take(UInt32Array::from_value(source, rows));
        columns.extend([
            Arc::new(UInt64Array::from(std::mem::take(&mut self.address))) as ArrayRef,
            Arc::new(UInt32Array::from(std::mem::take(&mut self.instructions))),
            Arc::new(BooleanArray::new(is_taken, Some(NullBuffer::new(is_branch)))),
            self.cycles.take(rows),
            Arc::new(UInt32Array::from(std::mem::take(&mut self.code))),
        ]);
        columns
    }
}

/// Joins instructions to blocks.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    isa: Isa,
    executed: Vec<Executed>,
    first: Place,
    is_taken: bool,
    ends_in_branch: bool,
    /// Blocks that were executed before, by process and address.
    known: HashMap<(Option<u64>, u64), Vec<Remembered>>,
}

#[derive(Debug)]
struct Remembered {
    isa: Isa,
    executed: Vec<Executed>,
    ends_in_branch: bool,
    pieces: Vec<Piece>,
}

impl Joiner {
    /// Whether an instruction continues the block.
    pub(crate) fn continues(&self, instruction: &Instruction) -> bool {
        let Some(last) = self.executed.last() else { return true };
        let next = last.address.wrapping_add(last.size.into()) & self.isa.address_mask();
        let has_room = self.executed.len() < LONGEST && !self.ends_in_branch;
        has_room && next == instruction.address && self.isa == instruction.isa
    }

    /// Adds an instruction that continues the block.
    pub(crate) fn add(&mut self, instruction: &Instruction, place: &Place) {
        if self.executed.is_empty() {
            (self.first, self.isa) = (*place, instruction.isa);
        }
        let Instruction { address, opcode, length, .. } = *instruction;
        self.executed.push(Executed { address, opcode, size: length });
        self.is_taken = instruction.branch.is_some_and(|branch| branch.taken);
        self.ends_in_branch = is_branch(instruction);
    }

    /// Ends the block, if there is one, and adds its rows.
    pub(crate) fn end(&mut self, code: &mut Code, names: &Names<'_>, counts_cycles: bool, rows: &mut BlockRows) {
        let Some(first) = self.executed.first() else { return };
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let known = self.known.entry((names.process, first.address)).or_default();
        let is_same = |known: &Remembered| {
            known.isa == self.isa && known.ends_in_branch == self.ends_in_branch && known.executed == self.executed
        };
        let index = known.iter().position(is_same).unwrap_or_else(|| {
            if known.len() == REMEMBERED {
                known.remove(0);
            }
            let pieces = code.add(self.isa, &self.executed, self.ends_in_branch, names);
            let executed = self.executed.clone();
            known.push(Remembered { isa: self.isa, executed, ends_in_branch: self.ends_in_branch, pieces });
            known.len() - 1
        });
        if let Some(found) = known.get(index) {
            let cycles = self.first.time.filter(|_| counts_cycles);
            rows.pieces(&found.pieces, self.is_taken, &self.first, cycles);
        }
        self.executed.clear();
        self.ends_in_branch = false;
    }
}

/// Whether an instruction ends a block.
fn is_branch(instruction: &Instruction) -> bool {
    let of_opcode = |opcode| decode(instruction.isa, instruction.address, opcode).flow.is_branch();
    instruction.branch.is_some() || instruction.opcode.is_some_and(of_opcode)
}
