//! The executed code of a shard, which another process puts into versions.
//!
//! ```text
//! blocks of each shard, once each, in the order of their first execution ─▶ bytes ─▶ **merged in order** ─▶ Code
//! ```
//!
//! Whether code is of another version depends on the code that was executed before, and so on all shards. Merged in order,
//! the records have the blocks in the order in which one process adds them. To add a block again changes nothing: every
//! process that adds all of them arrives at the same versions.

use std::collections::HashSet;
use std::sync::Arc;

use unspool::Program;
use unspool::isa::Isa;

use crate::Error;
use crate::code::{Code, Executed, Names};

/// Instructions of a record: some hundred megabytes.
const MAX: usize = 1 << 23;

/// Instruction sets by number.
const ISAS: [Isa; 5] = [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64];

/// Flag: the opcode of an instruction, or the process of a block, is known.
const IS_KNOWN: u8 = 0x80;

/// Blocks in the order in which they were added, each once.
#[derive(Debug, Default)]
pub(crate) struct CodeRecord {
    /// Number of the source whose code is added, in its trace.
    source: u16,
    blocks: Vec<Box<[u8]>>,
    known: HashSet<Box<[u8]>>,
    instructions: usize,
}

impl CodeRecord {
    /// Starts with no code of a source.
    pub(crate) fn of_source(source: u16) -> Self {
        Self { source, ..Self::default() }
    }

    /// Adds a block.
    pub(crate) fn add(&mut self, process: Option<u64>, isa: Isa, block: &[Executed]) {
        let Some(first) = block.first().filter(|_| !self.is_full()) else { return };
        let mut bytes = Vec::with_capacity(23 + 5 * block.len());
        bytes.extend(self.source.to_le_bytes());
        let number = ISAS.iter().position(|known| *known == isa).unwrap_or_default();
        bytes.push(number as u8 | if process.is_some() { IS_KNOWN } else { 0 });
        bytes.extend(process.unwrap_or_default().to_le_bytes());
        bytes.extend(first.address.to_le_bytes());
        bytes.extend((block.len() as u32).to_le_bytes());
        for Executed { opcode, size, .. } in block {
            bytes.push(size | if opcode.is_some() { IS_KNOWN } else { 0 });
            bytes.extend(opcode.unwrap_or_default().to_le_bytes());
        }
        self.add_encoded(bytes.into(), block.len());
    }

    fn add_encoded(&mut self, block: Box<[u8]>, instructions: usize) {
        if !self.known.contains(&block) {
            self.instructions += instructions;
            self.known.insert(block.clone());
            self.blocks.push(block);
        }
    }

    fn is_full(&self) -> bool {
        self.instructions >= MAX
    }

    /// All of it as bytes.
    ///
    /// # Errors
    ///
    /// If there is more code than a record holds.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, Error> {
        if self.is_full() { Err(Error::MuchCode) } else { Ok(self.blocks.concat()) }
    }

    /// Adds the blocks of a record after this one.
    ///
    /// # Errors
    ///
    /// If the bytes are no record.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        each_block(bytes, &mut |block| {
            if !self.is_full() {
                self.add_encoded(block.bytes.into(), block.executed.len());
            }
        })
    }
}

/// Adds the blocks of a record to code. `program_of` has the program of a source.
///
/// # Errors
///
/// If the bytes are no record.
pub(crate) fn add_to(
    code: &mut Code,
    bytes: &[u8],
    mut program_of: impl FnMut(u16) -> Result<Arc<Program>, Error>,
) -> Result<(), Error> {
    let mut program: Option<(u16, Arc<Program>)> = None;
    let mut failed = Ok(());
    each_block(bytes, &mut |block| {
        if program.as_ref().is_none_or(|(source, _)| *source != block.source) {
            match program_of(block.source) {
                Ok(found) => program = Some((block.source, found)),
                Err(error) => failed = Err(error),
            }
        }
        if let (Some((_, program)), Ok(())) = (&program, &failed) {
            code.add(block.isa, &block.executed, false, &Names { program, process: block.process });
        }
    })?;
    failed
}

/// A block of a record.
struct RecordedBlock<'b> {
    bytes: &'b [u8],
    source: u16,
    process: Option<u64>,
    isa: Isa,
    executed: Vec<Executed>,
}

fn each_block(mut bytes: &[u8], take: &mut dyn FnMut(RecordedBlock<'_>)) -> Result<(), Error> {
    while !bytes.is_empty() {
        let (block, rest) = read_block(bytes).ok_or(Error::NoRecord)?;
        take(block);
        bytes = rest;
    }
    Ok(())
}

fn read_block(bytes: &[u8]) -> Option<(RecordedBlock<'_>, &[u8])> {
    let (source, rest) = bytes.split_first_chunk::<2>()?;
    let (&[kind], rest) = rest.split_first_chunk::<1>()?;
    let (process, rest) = rest.split_first_chunk::<8>()?;
    let (address, rest) = rest.split_first_chunk::<8>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let isa = *ISAS.get(usize::from(kind & !IS_KNOWN))?;
    let length = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(5)?;
    let (instructions, rest) = rest.split_at_checked(length)?;
    let mut address = u64::from_le_bytes(*address);
    let mut executed = Vec::with_capacity(length / 5);
    for instruction in instructions.chunks_exact(5) {
        let (&[size], opcode) = instruction.split_first_chunk::<1>()?;
        let opcode = u32::from_le_bytes(opcode.try_into().ok()?);
        let (has_opcode, size) = (size & IS_KNOWN != 0, size & !IS_KNOWN);
        executed.push(Executed { address, opcode: has_opcode.then_some(opcode), size });
        address = address.wrapping_add(size.into()) & isa.address_mask();
    }
    let process = (kind & IS_KNOWN != 0).then_some(u64::from_le_bytes(*process));
    let bytes = bytes.get(..bytes.len() - rest.len())?;
    Some((RecordedBlock { bytes, source: u16::from_le_bytes(*source), process, isa, executed }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(address: u64, opcodes: &[u32]) -> Vec<Executed> {
        let at =
            |(index, opcode): (u64, &u32)| Executed { address: address + 4 * index, opcode: Some(*opcode), size: 4 };
        (0..).zip(opcodes).map(at).collect()
    }

    #[test]
    fn merged_records_have_each_block_once_in_order() {
        let blocks = [executed(0x8000, &[1, 2]), executed(0xffff_ffc0_0000_0000, &[3]), executed(0x8000, &[1])];
        let record = |indices: &[usize]| {
            let mut record = CodeRecord::default();
            indices.iter().for_each(|index| record.add(Some(7), Isa::A64, &blocks[*index]));
            record.into_bytes().unwrap()
        };
        let mut merged = CodeRecord::default();
        for part in [record(&[0, 1, 0]), record(&[1, 2]), record(&[2, 0])] {
            merged.append(&part).unwrap();
        }
        assert_eq!(merged.into_bytes().unwrap(), record(&[0, 1, 2]));
    }

    #[test]
    fn forged_records_are_errors() {
        let mut record = CodeRecord::default();
        record.add(None, Isa::T32, &executed(0x8000, &[1, 2, 3]));
        let bytes = record.into_bytes().unwrap();
        for length in 1..bytes.len() {
            assert!(CodeRecord::default().append(&bytes[..length]).is_err(), "{length}");
        }
        for (at, value) in [(2, 0x7f), (19, 0xff), (22, 0xff)] {
            let mut forged = bytes.clone();
            forged[at] = value;
            assert!(CodeRecord::default().append(&forged).is_err(), "{at}");
        }
    }
}
