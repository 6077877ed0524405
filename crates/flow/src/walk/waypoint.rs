//! What only a trace of waypoints has: updates without a branch, exceptions at the current position, and code of instruction
//! sets that cannot be followed.
//!
//! Such a trace reports everything that was executed before an exception by itself, so an exception needs no address.
//! Specification: Arm IHI 0035.

use unspool_coresight::exception::ExceptionNumber;
use unspool_coresight::{Extent, OtherIsa, Target as ElementTarget};
use unspool_isa::ControlFlow;

use super::partial_block::distance;
use super::{Walker, element_target};
use crate::graph::{BlockId, Ending, LONGEST, SCRATCH};
use crate::item::{Finding, FlowSink, Item};
use crate::memory::CodeMemory;

impl<M: CodeMemory> Walker<M> {
    /// Walks straight-line code up to and including the instruction at an address. There is no waypoint in it: that would
    /// have had an outcome.
    pub(super) fn waypoint_update(&mut self, extent: Extent, waypoint: ElementTarget, sink: &mut dyn FlowSink) {
        self.flush(sink);
        if !self.locate(extent, sink) {
            return self.count_lost(extent);
        }
        let Some(at) = self.location(self.at) else { return };
        let block = self.graph.block(self.at);
        let (mode, isa) = (block.mode, block.isa);
        let finding = Finding::WaypointUpdate { at: at.address, waypoint: waypoint.address };
        let reach = distance(isa, at.address, waypoint.address);
        if reach > LONGEST as u64 * 4 || at.isa != waypoint.isa {
            self.report_finding(extent, finding, sink);
            return self.count_lost(extent);
        }
        let ending =
            self.graph.fill_scratch(&self.memory, mode, at.address, |next| distance(isa, at.address, next) <= reach);
        let passes_waypoint = self.graph.branches_before_end(SCRATCH) || self.graph.ends_in_p0(SCRATCH);
        let block = self.graph.block(SCRATCH);
        let (end, ends_there) = (block.return_target(), block.last_address() == waypoint.address);
        match ending {
            _ if passes_waypoint => {
                self.report_finding(extent, finding, sink);
                self.count_lost(extent);
            }
            None if ends_there => {
                self.emit_scratch(extent, true, sink);
                self.enter(element_target(end));
            }
            Some(Ending::NoCode) => {
                self.emit_scratch(extent, true, sink);
                self.no_code(extent, end.address, sink);
                self.count_lost(extent);
            }
            _ => {
                self.report_finding(extent, finding, sink);
                self.count_lost(extent);
            }
        }
    }

    /// An exception at the current position: the next instruction is the preferred return address, if the trace has no other.
    pub(super) fn exception_here(
        &mut self,
        extent: Extent,
        number: ExceptionNumber,
        address: Option<u64>,
        sink: &mut dyn FlowSink,
    ) {
        self.flush(sink);
        self.ask_return_stack();
        self.report_lost(sink);
        // What was executed before a reset is not known.
        let position = self.position().filter(|_| !number.is_reset());
        sink.item(Ok(extent.locate(Item::Exception { number, return_address: address.or(position) })));
        self.wait_for_address();
        self.after_exception = true;
    }

    /// The address and the instruction set that a block leads to, if its code cannot be followed. Where every instruction has
    /// an atom, a packet reports them.
    pub(super) fn enters_other_code(&self, id: BlockId, taken: bool) -> Option<(u64, OtherIsa)> {
        let block = self.graph.block(id);
        let enters = self.rules.waypoints && taken && block.last.flow == ControlFlow::EnterThumbEe;
        enters.then_some((block.end, OtherIsa::ThumbEe))
    }

    /// Execution continues in an instruction set that cannot be decoded.
    pub(super) fn other_code(&mut self, extent: Extent, address: u64, isa: OtherIsa, sink: &mut dyn FlowSink) {
        self.flush(sink);
        self.report_lost(sink);
        self.after_exception = false;
        self.lose_code(extent, address, Some(isa), sink);
    }
}
