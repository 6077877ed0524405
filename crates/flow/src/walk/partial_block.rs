//! Blocks that no atom ends: up to an exception, up to a source address, or the instructions of a Q element.

use unspool_coresight::exception::ExceptionNumber;
use unspool_coresight::{Extent, Target as ElementTarget};
use unspool_isa::Isa;

use super::state::Q;
use super::{Walker, element_target};
use crate::code::within;
use crate::graph::{Ending, LONGEST, NEEDS_ADDRESS, NO_CODE, SCRATCH};
use crate::item::{Finding, FlowSink, Item, WalkStep};
use crate::memory::CodeMemory;

impl<M: CodeMemory> Walker<M> {
    pub(super) fn exception(
        &mut self,
        extent: Extent,
        number: ExceptionNumber,
        address: Option<u64>,
        sink: &mut dyn FlowSink,
    ) {
        self.flush(sink);
        self.end_q(None, sink);
        // Before a tail-chained exception, nothing was executed since the exception return.
        let is_tail_chained = number.is_tail_chained(address);
        let known = address.filter(|_| !is_tail_chained);
        if !is_tail_chained {
            self.ask_return_stack();
        }
        if self.at == NEEDS_ADDRESS && known.is_some() {
            self.miss_target(extent, sink);
            self.count_lost(extent);
        }
        let location = self.location(self.at);
        let known = known.or_else(|| self.interrupted_address());
        if let Some(return_address) = known {
            self.walk_to(extent, return_address, sink);
        }
        self.report_lost(sink);
        self.stack.clear_if_pending();
        self.conditions.clear();
        sink.item(Ok(extent.locate(Item::Exception { number, return_address: address.or(known) })));
        self.wait_for_address();
        // The next element has the address where execution continues. If it does not, the specification continues at the
        // return address.
        if let (Some(address), Some(ElementTarget { isa, .. })) = (known, location) {
            self.enter(ElementTarget { address, isa });
        }
        self.after_exception = true;
    }

    /// An exception return has its address in the trace. On the M profile the instruction before it is a function return
    /// to a value that is no address, which no return stack predicts.
    pub(super) fn exception_return(&mut self, extent: Extent, sink: &mut dyn FlowSink) {
        if self.at == NEEDS_ADDRESS {
            self.wait_for_address();
        }
        self.emit(extent, Item::ExceptionReturn, sink);
    }

    /// Takes the target of an indirect branch from the return stack, if the trace has none.
    pub(super) fn ask_return_stack(&mut self) {
        if self.rules.return_stack
            && self.at == NEEDS_ADDRESS
            && let Some(target) = self.stack.pop()
        {
            self.enter(element_target(target));
        }
    }

    /// Walks straight-line code up to an address.
    pub(super) fn walk_to(&mut self, extent: Extent, end: u64, sink: &mut dyn FlowSink) {
        // An exception right at an address without code misses nothing.
        if self.at == NO_CODE && self.target.is_some_and(|target| target.address == end) {
            return self.end_q(None, sink);
        }
        if !self.locate(extent, sink) {
            return;
        }
        let block = self.graph.block(self.at);
        let (start, mode) = (block.start, block.mode);
        if start == end {
            return;
        }
        let isa = block.isa;
        let reach = distance(isa, start, end);
        if reach > LONGEST as u64 * 4 {
            if !self.after_exception {
                self.report_finding(extent, Finding::ReturnAddress { at: start, return_address: end }, sink);
            }
            return;
        }
        let ending = self.graph.fill_scratch(&self.memory, mode, start, |at| distance(isa, start, at) < reach);
        if self.graph.passes_unconditional_branch(SCRATCH) || self.graph.ends_in_unconditional_branch(SCRATCH) {
            return self.report_finding(extent, Finding::ReturnAddress { at: start, return_address: end }, sink);
        }
        // An instruction that was interrupted counts, but the range ends at the return address inside it.
        self.graph.end_scratch_at(end);
        self.emit_scratch(extent, !self.graph.ends_in_p0(SCRATCH), sink);
        match ending {
            None => {}
            Some(Ending::NoCode) => {
                let missing = self.graph.block(SCRATCH).end;
                self.no_code(extent, missing, sink);
            }
            Some(_) => self.report_finding(extent, Finding::Runaway { start }, sink),
        }
    }

    pub(super) fn emit_scratch(&mut self, extent: Extent, taken: bool, sink: &mut dyn FlowSink) {
        if self.graph.block(SCRATCH).instructions > 0 {
            self.emit_run(&[WalkStep::new(SCRATCH, taken)], extent.offset, sink);
        }
    }

    /// Walks up to the taken branch at the source address.
    pub(super) fn source_address(&mut self, extent: Extent, source: ElementTarget, sink: &mut dyn FlowSink) {
        self.flush(sink);
        if !self.locate(extent, sink) {
            return self.count_lost(extent);
        }
        let block = self.graph.block(self.at);
        let (start, isa, mode) = (block.start, block.isa, block.mode);
        let reach = distance(isa, start, source.address);
        let finding = Finding::SourceAddress { at: start, source_address: source.address };
        if reach > LONGEST as u64 * 4 {
            self.report_finding(extent, finding, sink);
            return self.count_lost(extent);
        }
        let ending = self.graph.fill_scratch(&self.memory, mode, start, |at| distance(isa, start, at) <= reach);
        match ending {
            None if self.graph.ends_at(SCRATCH, source.address) && !self.graph.passes_unconditional_branch(SCRATCH) => {
                self.emit_scratch(extent, true, sink);
                self.push_return_address(SCRATCH, true);
                self.follow(SCRATCH, true);
            }
            Some(Ending::NoCode)
                if !self.graph.passes_unconditional_branch(SCRATCH)
                    && !self.graph.ends_in_unconditional_branch(SCRATCH) =>
            {
                self.emit_scratch(extent, !self.graph.ends_in_p0(SCRATCH), sink);
                let missing = self.graph.block(SCRATCH).end;
                self.no_code(extent, missing, sink);
                self.count_lost(extent);
            }
            _ => {
                self.report_finding(extent, finding, sink);
                self.count_lost(extent);
            }
        }
    }

    /// Starts a Q element: instructions whose branches were not traced. Up to the first branch the code determines them
    /// all the same.
    pub(super) fn q(&mut self, extent: Extent, count: Option<u32>, sink: &mut dyn FlowSink) {
        self.flush(sink);
        let known = self.locate(extent, sink);
        let start = self.position().filter(|_| known);
        if start.is_none() {
            self.count_lost(extent);
        }
        self.report_lost(sink);
        self.stack.clear_if_pending();
        let isa = self.location(self.at).unwrap_or_default().isa;
        let is_straight_line = start.is_some_and(|start| self.is_straight_line(start, count));
        self.q = Some(Q { extent, start, count, isa, is_straight_line });
        self.wait_for_address();
    }

    /// Are the instructions of a Q element consecutive, with no branch before the last? Leaves them in the scratch block.
    pub(super) fn is_straight_line(&mut self, start: u64, count: Option<u32>) -> bool {
        let mode = self.graph.block(self.at).mode;
        let Some(count) = count.filter(|&count| (1..=LONGEST as u32).contains(&count)) else { return false };
        let mut left = count;
        let ending = self.graph.fill_scratch(&self.memory, mode, start, |_| {
            left = left.wrapping_sub(1);
            left < count
        });
        ending.is_none() && !self.graph.branches_before_end(SCRATCH)
    }

    /// Ends a Q element, with the address after it if the trace has one.
    pub(super) fn end_q(&mut self, next: Option<u64>, sink: &mut dyn FlowSink) {
        let Some(Q { extent, start, count, is_straight_line, .. }) = self.q.take() else { return };
        let block = self.graph.block(SCRATCH);
        // Without a branch, execution continues after the last instruction.
        let after = block.return_target();
        let falls_through = next.is_none() && is_straight_line && !self.graph.ends_in_p0(SCRATCH);
        let known_next = if falls_through { Some(after.address) } else { next };
        match known_next.filter(|_| is_straight_line).and_then(|next| block.outcome(next)) {
            Some(taken) => self.emit_scratch(extent, taken, sink),
            None => sink.item(Ok(extent.locate(Item::Q { start, next, instructions: count }))),
        }
        if falls_through && self.context.is_some() {
            self.enter(element_target(after));
        }
    }
}

/// Distance from one address up to another, around the top of memory if necessary.
pub(super) fn distance(isa: Isa, from: u64, to: u64) -> u64 {
    within(isa, to.wrapping_sub(from))
}
