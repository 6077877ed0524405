//! Rows of the table `blocks`: executions of straight-line code of one core.
//!
//! ```text
//! executions of numbered blocks ─┐
//! steps ─▶ Joiner ─▶ blocks ─────┴─▶ numbers of rows ─▶ **BlockBatch** ─┬▶ BlockFile
//!                                                                       └▶ columns
//! ```
//!
//! A trace executes the same blocks again and again. What is known of each is held once, in `NumberedRows`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::ArrowError;
use unspool::isa::{Isa, decode};
use unspool::model::{Block, BlockExecution, Instruction};

use crate::code::{Code, Executed, Names, Piece};
use crate::rows::{Place, Places, Runs};
use crate::schema::Table;

/// Instructions that are joined to one block.
const LONGEST: usize = 1 << 12;

/// Blocks that are remembered at one address.
const REMEMBERED: usize = 16;

/// Rows that are held by number, of a trace that is read step by step.
const MANY: usize = 1 << 21;

/// Addresses at which blocks are remembered.
const MAX_KNOWN: usize = 1 << 18;

/// What is the same for all executions of a piece of a block with the same outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) address: u64,
    pub(crate) instructions: u32,
    pub(crate) code: u32,
    pub(crate) branch: Branch,
}

/// The branch at the end of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branch {
    None,
    NotTaken,
    Taken,
}

impl Row {
    fn of(piece: &Piece, is_taken: bool) -> Self {
        let Piece { address, instructions, code, ends_in_branch } = *piece;
        let branch = match (ends_in_branch, is_taken) {
            (false, _) => Branch::None,
            (true, false) => Branch::NotTaken,
            (true, true) => Branch::Taken,
        };
        Self { address, instructions, code, branch }
    }
}

/// Rows by number, which are added and never changed. Those of an execution have consecutive numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct NumberedRows {
    rows: Arc<Vec<Row>>,
    /// How often all of them were removed.
    generation: u64,
}

/// The rows of a block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NumberedBlock {
    /// The number of its first row if the branch is not taken. The rows of the other outcome come after it.
    first: u32,
    rows: u32,
    pub(crate) instructions: u32,
}

impl NumberedRows {
    /// Adds the rows of a block.
    pub(crate) fn add(&mut self, pieces: &[Piece]) -> NumberedBlock {
        // Copies the rows, if a batch has them: not more often than there are batches.
        let all = Arc::make_mut(&mut self.rows);
        let first = all.len() as u32;
        for is_taken in [false, true] {
            all.extend(pieces.iter().map(|piece| Row::of(piece, is_taken)));
        }
        let instructions = pieces.iter().map(|piece| piece.instructions).sum();
        NumberedBlock { first, rows: pieces.len() as u32, instructions }
    }

    /// Whether there are too many to keep.
    pub(crate) fn are_many(&self) -> bool {
        self.rows.len() >= MANY
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }
}

/// The blocks of one process, by number.
#[derive(Debug, Default)]
pub(crate) struct NumberedBlocks(Vec<NumberedBlock>);

impl NumberedBlocks {
    /// Learns new blocks.
    pub(crate) fn learn(&mut self, blocks: &[Block], rows: &mut NumberedRows, code: &mut Code, names: &Names<'_>) {
        for block in &blocks[self.len()..] {
            let executed = block.instructions();
            let executed = executed.map(|(address, opcode, size)| Executed { address, opcode: Some(opcode), size });
            let pieces = code.add(block.isa, &executed.collect::<Vec<_>>(), block.ends_in_branch, names);
            self.0.push(rows.add(&pieces));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of instructions of executions.
    pub(crate) fn instructions(&self, executions: &[BlockExecution]) -> u64 {
        executions.iter().map(|execution| u64::from(self.0[execution.number()].instructions)).sum()
    }
}

/// Rows of one core, which have no instructions between them.
#[derive(Debug, Default)]
pub(crate) struct BlockRows {
    numbers: Vec<u32>,
    /// `sequence` of the first row.
    sequence: u64,
    places: Places,
    cycles: Runs,
}

impl BlockRows {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Adds executions of blocks from `place` on; returns the number of their instructions.
    pub(crate) fn executions(
        &mut self,
        executions: &[BlockExecution],
        blocks: &NumberedBlocks,
        place: &Place,
        cycles: Option<u64>,
    ) -> u64 {
        let (before, mut instructions) = (self.len(), 0);
        self.numbers.reserve(executions.len());
        for execution in executions {
            let block = &blocks.0[execution.number()];
            self.add(block, execution.is_taken());
            instructions += u64::from(block.instructions);
        }
        self.end_rows(before, place, cycles);
        instructions
    }

    /// Adds an execution of one block, from `place` on.
    pub(crate) fn execution(&mut self, block: &NumberedBlock, is_taken: bool, place: &Place, cycles: Option<u64>) {
        let before = self.len();
        self.add(block, is_taken);
        self.end_rows(before, place, cycles);
    }

    #[inline]
    fn add(&mut self, block: &NumberedBlock, is_taken: bool) {
        let first = block.first + if is_taken { block.rows } else { 0 };
        if block.rows == 1 {
            self.numbers.push(first);
        } else {
            self.numbers.extend(first..first + block.rows);
        }
    }

    /// Adds what is the same for all rows from an index on.
    fn end_rows(&mut self, before: usize, place: &Place, cycles: Option<u64>) {
        if before == 0 {
            self.sequence = place.sequence;
        }
        let rows = self.len() - before;
        self.places.add_runs(place, rows);
        self.cycles.add(cycles, rows);
    }

    /// The batch, of which no row is left.
    pub(crate) fn take(&mut self, source: u32, rows: &NumberedRows) -> BlockBatch {
        let rows = rows.clone();
        BlockBatch { source, rows, of: std::mem::take(self) }
    }
}

/// Rows of the table `blocks`, of one source. What repeats is there once, and rows are numbers of it.
#[derive(Debug)]
pub struct BlockBatch {
    source: u32,
    rows: NumberedRows,
    of: BlockRows,
}

impl BlockBatch {
    /// Number of the source.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// The number of rows.
    #[allow(clippy::len_without_is_empty, reason = "no batch is empty")]
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// The rows as columns of the table.
    ///
    /// # Errors
    ///
    /// If they do not have the schema of the table: never.
    pub fn into_batch(mut self) -> Result<RecordBatch, ArrowError> {
        let rows: Vec<&Row> = self.of.numbers.iter().map(|number| &self.rows.rows[*number as usize]).collect();
        let mut next = self.of.sequence;
        let sequence = rows.iter().map(|row| {
            let sequence = next;
            next += u64::from(row.instructions);
            sequence as i64
        });
        let [source, process, thread, sequence, time] = self.of.places.take_with(sequence.collect(), self.source);
        let own: [ArrayRef; 4] = [
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.address))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.instructions))),
            outcomes(&rows.iter().map(|row| row.branch).collect::<Vec<_>>()),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.code))),
        ];
        let [address, instructions, taken, code] = own;
        let cycles = self.of.cycles.take(rows.len());
        let columns = vec![source, process, thread, sequence, time, address, instructions, taken, cycles, code];
        RecordBatch::try_new(Table::Blocks.schema(), columns)
    }

    /// Its rows by number.
    pub(crate) fn rows(&self) -> (&[Row], u64) {
        (&self.rows.rows, self.rows.generation)
    }

    /// For each row, its number.
    pub(crate) fn numbers(&self) -> &[u32] {
        &self.of.numbers
    }

    /// `sequence` of the first row.
    pub(crate) fn sequence(&self) -> u64 {
        self.of.sequence
    }

    /// The columns that change rarely: process, thread, time and cycles.
    pub(crate) fn take_runs(&mut self) -> [Runs; 4] {
        let Places { process, thread, time, .. } = std::mem::take(&mut self.of.places);
        [process, thread, time, std::mem::take(&mut self.of.cycles)]
    }
}

/// The column `taken`.
pub(crate) fn outcomes(branches: &[Branch]) -> ArrayRef {
    let is_taken = BooleanBuffer::collect_bool(branches.len(), |row| branches[row] == Branch::Taken);
    let is_branch = BooleanBuffer::collect_bool(branches.len(), |row| branches[row] != Branch::None);
    Arc::new(BooleanArray::new(is_taken, Some(NullBuffer::new(is_branch))))
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
    block: NumberedBlock,
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

    /// Forgets the blocks that were executed before.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    /// Ends the block, if there is one, and adds its rows.
    pub(crate) fn end(
        &mut self,
        (numbered, code): (&mut NumberedRows, &mut Code),
        names: &Names<'_>,
        counts_cycles: bool,
        rows: &mut BlockRows,
    ) {
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
            let block = numbered.add(&pieces);
            known.push(Remembered { isa: self.isa, executed, ends_in_branch: self.ends_in_branch, block });
            known.len() - 1
        });
        if let Some(found) = known.get(index) {
            let cycles = self.first.time.filter(|_| counts_cycles);
            rows.execution(&found.block, self.is_taken, &self.first, cycles);
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
