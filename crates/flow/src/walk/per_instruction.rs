//! Trace with an atom for every instruction (ETMv3).
//!
//! Its blocks are single instructions, so that atoms take the same path as in other trace. Here is what differs: the
//! interrupted address is that of the next instruction, addresses may replace each other, and data accompany instructions.

use unspool_coresight::Extent;
use unspool_coresight::etm3::OwnElement;

use super::Walker;
use crate::item::{FlowSink, Item};
use crate::memory::CodeMemory;

impl<M: CodeMemory> Walker<M> {
    /// The return address of an exception, which the trace does not contain: where execution is.
    pub(super) fn interrupted_address(&self) -> Option<u64> {
        self.rules.atom_per_instruction.then(|| self.position()).flatten()
    }

    pub(super) fn etm3(&mut self, extent: Extent, own: OwnElement, sink: &mut dyn FlowSink) {
        match own {
            OwnElement::NewAddress => self.after_exception = true,
            OwnElement::GapCycles(cycles) => self.emit(extent, Item::CycleCount(cycles), sink),
            _ => self.emit(extent, Item::Etm3(own), sink),
        }
    }
}
