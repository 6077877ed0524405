//! Instructions in the flow of a program, and the state that each was executed in.

use unspool_coresight::Context;
use unspool_isa::Isa;

use crate::flat::FlatRun;
use crate::item::{FlowItem, Item};
use crate::memory::MapId;

/// Consumer of instructions in the order of execution, and of the items between them.
pub trait InstructionSink {
    /// An instruction that was executed, or whose condition failed.
    fn instruction(&mut self, instruction: &Instruction, around: &Around);

    /// Instructions of a cached run, with nothing between them. A sink that keeps what it makes of a run need not look at each of
    /// them again.
    #[inline(always)]
    fn instructions(&mut self, run: &FlatRun<'_>, around: &Around) {
        run.instructions().for_each(|instruction| self.instruction(&instruction, around));
    }

    /// An item other than an instruction, or an error.
    fn item(&mut self, item: FlowItem);
}

/// One instruction in the flow of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its opcode, laid out as for [`unspool_isa::decode()`].
    pub opcode: u32,
    /// Its instruction set.
    pub isa: Isa,
    /// Its length in bytes.
    pub length: u8,
    /// It is the last of its range.
    pub ends_range: bool,
    /// Its outcome, if it ends its range and is of a kind that trace has an element for: a branch, a wait, a barrier or a
    /// transaction start. Where every instruction has an atom, also that of one whose condition failed.
    pub branch: Option<Outcome>,
    /// The offset of the packet in the trace.
    pub offset: u64,
}

/// Outcome of an instruction that trace has an element for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// It branched, or, if it is not a branch, was executed.
    pub taken: bool,
    /// The target of a taken branch, if known. `None` for all others: execution continues after them.
    pub target: Option<u64>,
}

/// The state around an instruction, from the trace before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Around {
    /// The context that execution is in.
    pub context: Option<Context>,
    /// The address map that execution is in.
    pub map: MapId,
    /// The last timestamp.
    pub timestamp: Option<u64>,
    /// Total of the cycles counted so far, without unknown counts.
    pub cycles: Option<u64>,
}

impl Around {
    /// Updates the state with an item.
    pub fn update(&mut self, item: &FlowItem) {
        match item.map(|item| item.value) {
            Ok(Item::Context(context)) => self.context = Some(context),
            Ok(Item::Map(map)) => self.map = map,
            Ok(Item::Timestamp { value, .. }) => self.timestamp = Some(value),
            Ok(Item::CycleCount(Some(cycles))) => {
                self.cycles = Some(self.cycles.unwrap_or(0).saturating_add(u64::from(cycles)));
            }
            Ok(Item::TraceOn | Item::Overflow | Item::Discard { .. }) => self.context = None,
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

    #[inline]
    fn instructions(&mut self, run: &FlatRun<'_>, around: &Around) {
        (**self).instructions(run, around);
    }

    fn item(&mut self, item: FlowItem) {
        (**self).item(item);
    }
}
