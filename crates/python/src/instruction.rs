//! Executed instructions and blocks.

use pyo3::prelude::*;
use unspool::isa::Disassembler;
use unspool::{ExecutedBlock, ExecutedInstruction};

use crate::iterate::iterator;

/// An executed instruction. What the trace does not have is None.
#[pyclass(frozen, eq, module = "unspool")]
#[derive(PartialEq)]
pub(crate) struct Instruction(ExecutedInstruction);

#[pymethods]
impl Instruction {
    /// Number of the core; of a capture, index of the source in Trace.sources.
    #[getter]
    fn core(&self) -> u32 {
        self.0.core
    }

    /// Offset, record or line: see Trace.position_unit.
    #[getter]
    fn position(&self) -> u64 {
        self.0.position
    }

    /// Time, in Trace.time_unit.
    #[getter]
    fn time(&self) -> Option<u64> {
        self.0.time
    }

    /// Whether a part of the execution before it is missing, or left out, or it is the first of its core.
    #[getter]
    fn follows_gap(&self) -> bool {
        self.0.follows_gap
    }

    /// Address.
    #[getter]
    fn address(&self) -> u64 {
        self.0.address
    }

    /// Opcode; of T32, the first halfword is the high one.
    #[getter]
    fn opcode(&self) -> Option<u32> {
        self.0.opcode
    }

    /// Length in bytes.
    #[getter]
    fn length(&self) -> u8 {
        self.0.length
    }

    /// Instruction set: 'a64', 'a32', 't32', 'rv32' or 'rv64'.
    #[getter]
    fn isa(&self) -> &'static str {
        self.0.isa.name()
    }

    /// Whether its condition held.
    #[getter]
    fn is_executed(&self) -> Option<bool> {
        self.0.is_executed
    }

    /// Whether it was taken, if it is a branch.
    #[getter]
    fn taken(&self) -> Option<bool> {
        self.0.branch.map(|branch| branch.taken)
    }

    /// Target address, if it is a branch that was taken.
    #[getter]
    fn target(&self) -> Option<u64> {
        self.0.branch.and_then(|branch| branch.target)
    }

    /// Disassembly.
    #[getter]
    fn text(&self) -> Option<String> {
        self.0.opcode.map(|opcode| Disassembler::new().text(self.0.isa, self.0.address, opcode))
    }

    fn __repr__(&self) -> String {
        let opcode = self.0.opcode.map_or_else(|| "None".to_string(), |opcode| format!("{opcode:#010x}"));
        format!("Instruction(address={:#x}, opcode={opcode}, isa='{}')", self.0.address, self.0.isa.name())
    }
}

/// One execution of a block: straight-line code, up to a branch or to where the trace does not continue.
#[pyclass(frozen, eq, module = "unspool")]
#[derive(PartialEq)]
pub(crate) struct Block(ExecutedBlock);

#[pymethods]
impl Block {
    /// Number of the core; of a capture, index of the source in Trace.sources.
    #[getter]
    fn core(&self) -> u32 {
        self.0.core
    }

    /// Offset, record or line of its first instruction: see Trace.position_unit. Of a capture, that of its packet.
    #[getter]
    fn position(&self) -> u64 {
        self.0.position
    }

    /// Whether a part of the execution before it is missing, or left out, or it is the first of its core.
    #[getter]
    fn follows_gap(&self) -> bool {
        self.0.follows_gap
    }

    /// Address of the first instruction.
    #[getter]
    fn start(&self) -> u64 {
        self.0.start
    }

    /// Address after the last instruction.
    #[getter]
    fn end(&self) -> u64 {
        self.0.end
    }

    /// Number of instructions.
    #[getter]
    fn instructions(&self) -> u32 {
        self.0.instructions
    }

    /// Instruction set: 'a64', 'a32', 't32', 'rv32' or 'rv64'.
    #[getter]
    fn isa(&self) -> &'static str {
        self.0.isa.name()
    }

    /// Whether the branch at its end was taken; False if there is no branch.
    #[getter]
    fn taken(&self) -> bool {
        self.0.taken
    }

    fn __repr__(&self) -> String {
        let ExecutedBlock { start, end, instructions, .. } = self.0;
        format!("Block(start={start:#x}, end={end:#x}, instructions={instructions})")
    }
}

iterator! {
    /// Iterator over executed instructions.
    InstructionIterator of ExecutedInstruction as Instruction, Instruction
}

iterator! {
    /// Iterator over executed blocks.
    BlockIterator of ExecutedBlock as Block, Block
}
