//! Instructions in the flow of a program, and the state that each was executed in.

use unspool_coresight::Context;
use unspool_isa::Isa;

use crate::item::{FlowItem, Item};

/// Takes instructions in the order of execution, and what happened between them.
pub trait InstructionSink {
    /// An instruction was executed, or was passed over since its condition failed.
    fn instruction(&mut self, instruction: &Instruction, around: &Around);

    /// Something else happened, or it is not known what.
    fn item(&mut self, item: FlowItem);
}

/// One instruction in the flow of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Where it is.
    pub address: u64,
    /// Its opcode, laid out as for [`unspool_isa::decode()`].
    pub opcode: u32,
    /// Its instruction set.
    pub isa: Isa,
    /// How many bytes it has.
    pub length: u8,
    /// It is the last of its range.
    pub ends_range: bool,
    /// What became of it, if it ended its range and is of a kind that trace has an element for: branches, and those that
    /// wait, synchronise instructions or start a transaction.
    pub branch: Option<Outcome>,
    /// The offset of the packet in the trace.
    pub offset: u64,
}

/// What became of an instruction that trace has an element for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// It branched; one that is no branch was executed.
    pub taken: bool,
    /// Where a taken branch led, as far as that is known. `None` for all others: execution continues after them.
    pub target: Option<u64>,
}

/// The state around an instruction: what the trace has said before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Around {
    /// The context that execution is in.
    pub context: Option<Context>,
    /// The last timestamp.
    pub timestamp: Option<u64>,
    /// All cycles that were counted so far. Counts that the trace unit did not know are not in it.
    pub cycles: Option<u64>,
}

impl Around {
    /// Takes over what an item says.
    pub fn update(&mut self, item: &FlowItem) {
        match item.map(|item| item.value) {
            Ok(Item::Context(context)) => self.context = Some(context),
            Ok(Item::Timestamp { value, .. }) => self.timestamp = Some(value),
            Ok(Item::CycleCount(Some(cycles))) => {
                self.cycles = Some(self.cycles.unwrap_or(0).saturating_add(u64::from(cycles)));
            }
            Ok(Item::TraceOn | Item::Overflow | Item::Discard) => self.context = None,
            Err(error) if error.kind.breaks_flow() => self.context = None,
            _ => {}
        }
    }
}

impl<S: InstructionSink + ?Sized> InstructionSink for &mut S {
    #[inline]
    fn instruction(&mut self, instruction: &Instruction, around: &Around) {
        (**self).instruction(instruction, around);
    }

    fn item(&mut self, item: FlowItem) {
        (**self).item(item);
    }
}

#[inline]
pub(crate) fn length(isa: Isa, opcode: u32) -> u8 {
    // The first halfword of a longer T32 instruction is never zero.
    if isa == Isa::T32 && opcode < 0x1_0000 { 2 } else { 4 }
}
