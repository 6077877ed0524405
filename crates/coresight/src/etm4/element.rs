//! Elements that only ETMv4 has: those that pair instruction trace with data trace. All others are in
//! [`Element`](crate::Element).

use super::Config;
use super::packet::{ConditionalInstruction, ConditionalResult};
use crate::Element;

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

/// The number of P0 elements in an element: those are what commits and cancels count.
#[inline]
pub fn p0_count(element: &Element, config: &Config) -> u32 {
    match element {
        Element::Atoms(atoms) => atoms.count(),
        Element::Q { .. } | Element::Exception { .. } | Element::SourceAddress(_) => 1,
        Element::TransactionStart => u32::from(!config.transaction_start_not_p0),
        _ => 0,
    }
}

/// Does the element remain when the P0 elements before it are cancelled, discarded or rolled back? Time passed and
/// events occurred even if the instructions around them did not.
pub fn survives_cancel(element: &Element) -> bool {
    matches!(
        element,
        Element::CycleCount(_)
            | Element::Timestamp { .. }
            | Element::TimestampMarker
            | Element::Event { .. }
            | Element::TraceInfo { .. }
            | Element::Instrumentation { .. }
            | Element::Etm4(OwnElement::NumberedDataSync(_) | OwnElement::UnnumberedDataSync(_))
    )
}
