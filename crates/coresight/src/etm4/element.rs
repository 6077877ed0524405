//! Elements that only ETMv4 has: those that pair instruction trace with data trace. All others are in
//! [`Element`](crate::Element).

use super::packet::{ConditionalInstruction, ConditionalResult};

/// An element that no other protocol has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnElement {
    /// A data synchronization marker with a number.
    NumberedDataSync(u8),
    /// A data synchronization marker without a number.
    UnnumberedDataSync(u8),
    /// A conditional instruction.
    ConditionalInstruction(ConditionalInstruction),
    /// Results of conditional instructions before this point do not follow.
    ConditionalFlush,
    /// Results of conditional instructions.
    ConditionalResult(ConditionalResult),
}

impl OwnElement {
    /// The name of the element's kind that the command line and JSON use.
    pub fn name(&self) -> &'static str {
        match self {
            OwnElement::NumberedDataSync(_) => "numbered_data_sync",
            OwnElement::UnnumberedDataSync(_) => "unnumbered_data_sync",
            OwnElement::ConditionalInstruction(_) => "conditional_instruction",
            OwnElement::ConditionalFlush => "conditional_flush",
            OwnElement::ConditionalResult(_) => "conditional_result",
        }
    }
}
