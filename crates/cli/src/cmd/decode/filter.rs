//! Which instructions and ranges of a trace are listed: those at some addresses, and at some Exception levels.
//!
//! instructions, ranges and other items ─▶ **filter** ─▶ whether each is listed
//!
//! A range is listed if any of its instructions is selected. Other items are listed if the instruction before them is;
//! problems always are.

use unspool::analyze::step_selection::StepSelection;
use unspool::flow::{Around, FlowItem, Instruction, Item, Range};
use unspool::model;

#[derive(Debug, Clone)]
pub(super) struct CodeFilter<'s> {
    /// What is selected; `None`: all, so that nothing is compared.
    within: Option<&'s StepSelection>,
    /// Whether the last instruction is listed.
    is_listed: bool,
}

impl<'s> CodeFilter<'s> {
    pub(super) fn new(within: &'s StepSelection) -> Self {
        let within = (!within.is_all()).then_some(within);
        Self { within, is_listed: within.is_none() }
    }

    /// Is an instruction listed?
    #[inline]
    pub(super) fn instruction(&mut self, instruction: &Instruction, around: &Around) -> bool {
        if let Some(within) = self.within {
            self.is_listed = within.has_address(instruction.address) && has_level(within, around);
        }
        self.is_listed
    }

    /// Is a range listed?
    #[inline]
    pub(super) fn range(&mut self, range: &Range<'_>, around: &Around) -> bool {
        if let Some(within) = self.within {
            self.is_listed = has_level(within, around) && has_any(within, range);
        }
        self.is_listed
    }

    /// Is an item listed?
    pub(super) fn item(&self, item: &FlowItem) -> bool {
        let is_problem = match item {
            Ok(item) => matches!(item.value, Item::Finding(_) | Item::Lost { .. }),
            Err(_) => true,
        };
        self.is_listed || is_problem
    }
}

fn has_level(within: &StepSelection, around: &Around) -> bool {
    let level = around.context.and_then(|context| context.level());
    within.has_context(&model::Context { level, ..model::Context::default() })
}

/// Is any instruction of a range selected?
fn has_any(within: &StepSelection, range: &Range<'_>) -> bool {
    let (isa, mut address) = (range.isa(), range.start());
    let is_selected = range.opcodes().iter().any(|opcode| {
        let is_selected = within.has_address(address);
        address = address.wrapping_add(u64::from(isa.opcode_length(*opcode))) & isa.address_mask();
        is_selected
    });
    is_selected || range.opcodes().is_empty() && within.has_address(range.start())
}
