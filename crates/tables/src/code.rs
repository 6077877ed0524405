//! The code that was executed: every instruction once, whichever block it was executed in.
//!
//! ```text
//! instructions of a block ─▶ cut at functions ─▶ **pieces**: address, number of instructions, version of the code
//! ```
//!
//! Code of one version has at most one instruction at an address, and instructions do not overlap. What does not fit, since
//! memory was overwritten, another process has other code there, or a branch led into the middle of an instruction, is of the
//! next version. So the instructions of a piece are neighbors in the table. Very much code is taken part by part, each with
//! versions of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use unspool::isa::Isa;
use unspool::lines::Lines;
use unspool::{Program, demangle};

use crate::code_record::CodeRecord;

/// Versions that are compared with new code: the first and the last ones.
const COMPARED: usize = 64;

/// Instructions that are held in memory: some hundred megabytes.
const LARGE: usize = 1 << 21;

/// An executed instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Executed {
    pub(crate) address: u64,
    pub(crate) opcode: Option<u32>,
    pub(crate) size: u8,
}

/// Part of a block within one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) instructions: u32,
    /// The version of the code.
    pub(crate) code: u32,
    /// The last instruction is a branch.
    pub(crate) ends_in_branch: bool,
}

/// An instruction with its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) isa: Isa,
    pub(crate) opcode: Option<u32>,
    pub(crate) size: u8,
    /// Its function, and the offset in it.
    pub(crate) function: Option<(Arc<str>, u64)>,
    pub(crate) image: Option<Arc<str>>,
    pub(crate) file: Option<Arc<str>>,
    pub(crate) line: Option<u32>,
}

/// Whose code it is.
pub(crate) struct Names<'p> {
    pub(crate) program: &'p Program,
    pub(crate) process: Option<u64>,
}

/// All code that was executed, except what was [taken](Code::take).
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// The number of the first version.
    first: u32,
    versions: Vec<BTreeMap<u64, Known>>,
    instructions: usize,
    names: HashMap<String, Arc<str>>,
    functions: HashMap<String, Arc<str>>,
    lines: Lines,
    /// All of it is held, however much it is: its versions do not depend on what was read.
    is_held: bool,
    /// What is added, if it is recorded.
    record: Option<CodeRecord>,
}

impl Code {
    /// Code that is held in memory as a whole. Its versions are numbered from `first` on.
    pub(crate) fn held(first: u32) -> Self {
        Self { first, is_held: true, ..Self::default() }
    }

    /// Code of a source, which is only recorded.
    pub(crate) fn recorded(source: u16) -> Self {
        Self { record: Some(CodeRecord::of_source(source)), ..Self::held(0) }
    }

    /// The record, if there is one.
    pub(crate) fn into_record(self) -> CodeRecord {
        self.record.unwrap_or_default()
    }

    /// The number of versions.
    pub(crate) fn versions(&self) -> usize {
        self.versions.len()
    }

    /// The number of instructions.
    pub(crate) fn instructions(&self) -> usize {
        self.instructions
    }

    /// Adds the instructions of a block.
    pub(crate) fn add(&mut self, isa: Isa, block: &[Executed], ends_in_branch: bool, names: &Names<'_>) -> Vec<Piece> {
        if let Some(record) = &mut self.record {
            // The table of instructions and the names are made of the records of all shards.
            record.add(names.process, isa, block);
            return counted(block, ends_in_branch);
        }
        let known: Vec<(u64, Known)> = block.iter().map(|at| (at.address, self.describe(isa, at, names))).collect();
        let mut pieces = Vec::with_capacity(1);
        for part in known.chunk_by(|(_, before), (_, after)| is_same_function(before, after)) {
            let (address, instructions) = (part[0].0, part.len() as u32);
            pieces.push(Piece { address, instructions, code: self.place(part), ends_in_branch: false });
        }
        if let Some(last) = pieces.last_mut() {
            last.ends_in_branch = ends_in_branch;
        }
        pieces
    }

    /// Whether there is so much of it that it should be taken.
    pub(crate) fn is_large(&self) -> bool {
        self.instructions >= LARGE && !self.is_held
    }

    /// Takes the versions of the code with their numbers, each sorted by address. Pieces that were made of them stay what they
    /// are; what is added afterwards is of other versions.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (u32, BTreeMap<u64, Known>)> + use<> {
        let (first, versions) = (self.first, std::mem::take(&mut self.versions));
        self.first += versions.len() as u32;
        self.instructions = 0;
        (first..).zip(versions)
    }

    /// The readable name of a function.
    pub(crate) fn function(&mut self, program: &Program, process: Option<u64>, address: u64) -> Option<Arc<str>> {
        let (symbol, _) = program.symbol_of(process, address)?;
        if let Some(known) = self.functions.get(symbol) {
            return Some(Arc::clone(known));
        }
        let name: Arc<str> = demangle(symbol).map_or_else(|| symbol.into(), Arc::from);
        self.functions.insert(symbol.to_string(), Arc::clone(&name));
        Some(name)
    }

    fn describe(&mut self, isa: Isa, at: &Executed, names: &Names<'_>) -> Known {
        let Names { program, process } = *names;
        let offset = program.symbol_of(process, at.address).map(|(_, offset)| offset);
        let function = self.function(program, process, at.address).zip(offset);
        let image = program.images_of_process(process, at.address).next().map(|code| self.name(&code.name));
        let frames = self.lines.find_of_process(program, process, at.address);
        let position = frames.first().and_then(|frame| frame.position.as_ref());
        let (file, line) = position.map(|position| (Arc::clone(&position.file), position.line)).unzip();
        Known { isa, opcode: at.opcode, size: at.size, function, image, file, line }
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        match self.names.get(name) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(self.names.entry(name.to_string()).or_insert_with(|| name.into())),
        }
    }

    /// The number of the version with these instructions.
    fn place(&mut self, part: &[(u64, Known)]) -> u32 {
        let count = self.versions.len();
        let compared = (0..count.min(COMPARED)).chain(COMPARED.max(count.saturating_sub(COMPARED))..count);
        let fits = |version: &BTreeMap<u64, Known>| part.iter().all(|(address, known)| fits(version, *address, known));
        let found = compared.into_iter().find(|index| self.versions.get(*index).is_some_and(fits));
        let index = found.unwrap_or_else(|| {
            self.versions.push(BTreeMap::new());
            count
        });
        if let Some(version) = self.versions.get_mut(index) {
            for (address, known) in part {
                version.entry(*address).or_insert_with(|| {
                    self.instructions += 1;
                    known.clone()
                });
            }
        }
        self.first + index as u32
    }
}

/// A block as one piece, for those who only count.
fn counted(block: &[Executed], ends_in_branch: bool) -> Vec<Piece> {
    let piece =
        |first: &Executed| Piece { address: first.address, instructions: block.len() as u32, code: 0, ends_in_branch };
    block.first().map(piece).into_iter().collect()
}

/// Whether an instruction is in this version, or there is room for it.
fn fits(version: &BTreeMap<u64, Known>, address: u64, known: &Known) -> bool {
    let end = address.saturating_add(known.size.into());
    match version.range(..end.max(address.saturating_add(1))).next_back() {
        Some((at, there)) if *at == address => there == known,
        Some((at, there)) => at.saturating_add(there.size.into()) <= address,
        None => true,
    }
}

/// Whether an instruction is in the function of the one before it.
fn is_same_function(before: &Known, after: &Known) -> bool {
    match (&before.function, &after.function) {
        (Some((before, _)), Some((after, offset))) => *offset != 0 && before == after,
        (before, after) => before.is_none() && after.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64, opcodes: &[u32]) -> Vec<Executed> {
        let at = |(index, opcode): (u64, &u32)| Executed { address: start + 4 * index, opcode: Some(*opcode), size: 4 };
        (0..).zip(opcodes).map(at).collect()
    }

    fn versions_of(blocks: &[Vec<Executed>]) -> Vec<u32> {
        let (mut code, program) = (Code::default(), Program::default());
        let names = Names { program: &program, process: None };
        let add = |block: &Vec<Executed>| code.add(Isa::A64, block, false, &names);
        blocks.iter().flat_map(add).map(|piece| piece.code).collect()
    }

    #[test]
    fn code_after_what_was_taken_is_of_other_versions() {
        let (mut code, program) = (Code::default(), Program::default());
        let names = Names { program: &program, process: None };
        let add = |code: &mut Code, block: &[Executed]| code.add(Isa::A64, block, false, &names)[0].code;
        assert_eq!(add(&mut code, &block(0x1000, &[1])), 0);
        assert_eq!(add(&mut code, &block(0x1000, &[2])), 1);
        assert_eq!(code.take().map(|(version, _)| version).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(add(&mut code, &block(0x1000, &[1])), 2);
        assert_eq!(code.take().map(|(version, known)| (version, known.len())).collect::<Vec<_>>(), [(2, 1)]);
    }

    #[test]
    fn code_that_does_not_fit_is_of_the_next_version() {
        type Row<'r> = (&'r str, &'r [Vec<Executed>], &'r [u32]);
        let rows: &[Row<'_>] = &[
            ("the same block", &[block(0x1000, &[1, 2]), block(0x1000, &[1, 2])], &[0, 0]),
            ("another entry", &[block(0x1000, &[1, 2, 3]), block(0x1004, &[2, 3])], &[0, 0]),
            ("more of it", &[block(0x1004, &[2]), block(0x1000, &[1, 2, 3])], &[0, 0]),
            ("overwritten", &[block(0x1000, &[1, 2]), block(0x1000, &[1, 3])], &[0, 1]),
            ("and back", &[block(0x1000, &[1]), block(0x1000, &[2]), block(0x1000, &[1])], &[0, 1, 0]),
            ("into the middle", &[block(0x1000, &[1, 2]), block(0x1002, &[5])], &[0, 1]),
            ("up to the middle", &[block(0x1002, &[5]), block(0x1000, &[1])], &[0, 1]),
            ("at the end of memory", &[block(u64::MAX - 3, &[1]), block(u64::MAX - 1, &[1])], &[0, 1]),
        ];
        for (name, blocks, versions) in rows {
            assert_eq!(versions_of(blocks), *versions, "{name}");
        }
    }
}
