//! P0 elements, which commits and cancels count, and the elements that a cancel leaves alone.

use super::Config;
use super::element::OwnElement;
use crate::Element;

/// The number of P0 elements in an element: those are what commits and cancels count.
#[inline]
pub fn p0_count(element: &Element, config: &Config) -> u32 {
    match element {
        Element::Atoms(atoms) => atoms.count(),
        Element::Q { .. } | Element::Exception { .. } | Element::SourceAddress(_) => 1,
        Element::ExceptionReturn => u32::from(config.is_m_profile),
        // Only the M profile has them.
        Element::FunctionReturn => 1,
        Element::TransactionStart => u32::from(!config.transaction_start_not_p0),
        _ => 0,
    }
}

/// Does the element remain when the P0 elements before it are canceled, discarded or rolled back? Time passed and
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
