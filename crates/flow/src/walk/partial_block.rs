//! Code that no atom ends: up to an exception, up to a source address, or the instructions that a Q element counts.

use unspool_coresight::{Extent, SubIsa, Target as ElementTarget};
use unspool_isa::{Isa, Target};

use super::{Walker, sub_isa};
use crate::code::within;
use crate::graph::{Ending, LONGEST, NEEDS_ADDRESS, NO_CODE, SCRATCH};
use crate::item::{Finding, FlowSink, Item, Step};
use crate::memory::CodeMemory;

/// A Q element whose end is not known yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Q {
    pub(super) extent: Extent,
    pub(super) start: Option<u64>,
    pub(super) count: Option<u32>,
    /// The sub-ISA at its start.
    pub(super) isa: SubIsa,
    /// Its instructions follow one another; they are in the scratch block.
    pub(super) in_a_row: bool,
}
impl<M: CodeMemory> Walker<M> {
    pub(super) fn exception(&mut self, extent: Extent, number: u16, address: Option<u64>, sink: &mut impl FlowSink) {
        self.flush(sink);
        self.end_q(None, sink);
        self.ask_return_stack();
        let isa = self.sub_isa();
        if let Some(return_address) = address {
            self.walk_to(extent, return_address, sink);
        }
        self.report_lost(sink);
        self.stack.clear_if_pending();
        sink.item(Ok(extent.locate(Item::Exception { number, return_address: address })));
        self.wait_for_address();
        // The next element has the address where execution continues. If it does not, the specification continues at the
        // return address.
        if let (Some(address), Some(isa)) = (address, isa) {
            self.enter(ElementTarget { address, isa });
        }
        self.may_be_anywhere = true;
    }

    /// The trace has no address for an indirect branch: the return stack may have it.
    pub(super) fn ask_return_stack(&mut self) {
        if self.rules.return_stack
            && self.at == NEEDS_ADDRESS
            && let Some(target) = self.stack.pop()
        {
            self.enter(ElementTarget { address: target.address, isa: sub_isa(target.isa) });
        }
    }

    /// Execution went on to an address, without a taken branch.
    pub(super) fn walk_to(&mut self, extent: Extent, end: u64, sink: &mut impl FlowSink) {
        if !self.locate_quietly(extent, end, sink) {
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
            if !self.may_be_anywhere {
                self.disagree(extent, Finding::ReturnAddress { at: start, return_address: end }, sink);
            }
            return;
        }
        let ending = self.graph.fill_scratch(&self.memory, mode, start, |at| distance(isa, start, at) < reach);
        if self.graph.passes_sure_branch(SCRATCH) || self.graph.ends_in_sure_branch(SCRATCH) {
            return self.disagree(extent, Finding::ReturnAddress { at: start, return_address: end }, sink);
        }
        self.emit_scratch(extent, !self.graph.ends_in_p0(SCRATCH), sink);
        match ending {
            None => {}
            Some(Ending::NoCode) => {
                let missing = self.graph.block(SCRATCH).end;
                self.no_code(extent, missing, sink);
            }
            Some(_) => self.disagree(extent, Finding::Runaway { start }, sink),
        }
    }

    /// As for any P0 element, but an exception right at an address without code says nothing that would be missing.
    pub(super) fn locate_quietly(&mut self, extent: Extent, end: u64, sink: &mut impl FlowSink) -> bool {
        if self.at == NO_CODE && self.target.is_some_and(|target| target.address == end) {
            self.end_q(None, sink);
            return false;
        }
        self.locate(extent, sink)
    }

    pub(super) fn emit_scratch(&mut self, extent: Extent, taken: bool, sink: &mut impl FlowSink) {
        if self.graph.block(SCRATCH).instructions > 0 {
            self.emit_run(&[Step::new(SCRATCH, taken)], extent.offset, sink);
        }
    }

    /// All instructions up to the one at the source address were executed, and that one branched.
    pub(super) fn source_address(&mut self, extent: Extent, source: ElementTarget, sink: &mut impl FlowSink) {
        self.flush(sink);
        if !self.locate(extent, sink) {
            return self.lose(extent);
        }
        let block = self.graph.block(self.at);
        let (start, isa, mode) = (block.start, block.isa, block.mode);
        let reach = distance(isa, start, source.address);
        let found = Finding::SourceAddress { at: start, source_address: source.address };
        if reach > LONGEST as u64 * 4 {
            self.disagree(extent, found, sink);
            return self.lose(extent);
        }
        let ending = self.graph.fill_scratch(&self.memory, mode, start, |at| distance(isa, start, at) <= reach);
        match ending {
            None if self.graph.ends_at(SCRATCH, source.address) && !self.graph.passes_sure_branch(SCRATCH) => {
                self.branch_from_scratch(extent, sink);
            }
            Some(Ending::NoCode)
                if !self.graph.passes_sure_branch(SCRATCH) && !self.graph.ends_in_sure_branch(SCRATCH) =>
            {
                self.emit_scratch(extent, !self.graph.ends_in_p0(SCRATCH), sink);
                let missing = self.graph.block(SCRATCH).end;
                self.no_code(extent, missing, sink);
                self.lose(extent);
            }
            _ => {
                self.disagree(extent, found, sink);
                self.lose(extent);
            }
        }
    }

    pub(super) fn branch_from_scratch(&mut self, extent: Extent, sink: &mut impl FlowSink) {
        let block = self.graph.block(SCRATCH);
        let (link, return_target) = (block.last.link, block.return_target());
        self.emit_scratch(extent, true, sink);
        if self.rules.return_stack {
            self.stack.clear_if_pending();
            if link {
                self.stack.push(return_target);
            }
        }
        self.go_on(SCRATCH, true);
    }

    /// A number of instructions were executed whose branches were not traced. Up to the first branch the code determines
    /// them all the same.
    pub(super) fn q(&mut self, extent: Extent, count: Option<u32>, sink: &mut impl FlowSink) {
        self.flush(sink);
        let known = self.locate(extent, sink);
        let start = self.position().filter(|_| known);
        if start.is_none() {
            self.lose(extent);
        }
        self.report_lost(sink);
        self.stack.clear_if_pending();
        let isa = self.sub_isa().unwrap_or_default();
        let in_a_row = start.is_some_and(|start| self.is_in_a_row(start, count));
        self.q = Some(Q { extent, start, count, isa, in_a_row });
        self.wait_for_address();
    }

    /// Do the instructions of a Q element follow one another, with no branch before the last? Leaves them in the scratch
    /// block.
    pub(super) fn is_in_a_row(&mut self, start: u64, count: Option<u32>) -> bool {
        let mode = self.graph.block(self.at).mode;
        let Some(count) = count.filter(|&count| (1..=LONGEST as u32).contains(&count)) else { return false };
        let mut left = count;
        let ending = self.graph.fill_scratch(&self.memory, mode, start, |_| {
            left = left.wrapping_sub(1);
            left < count
        });
        ending.is_none() && !self.graph.branches_before_end(SCRATCH)
    }

    /// The address after a Q element is known, or will not be.
    pub(super) fn end_q(&mut self, next: Option<u64>, sink: &mut impl FlowSink) {
        let Some(Q { extent, start, count, in_a_row, .. }) = self.q.take() else { return };
        let block = self.graph.block(SCRATCH);
        // Without a branch, execution continues after the last instruction.
        let after = Target { address: block.end, isa: block.isa };
        let goes_on = next.is_none() && in_a_row && !self.graph.ends_in_p0(SCRATCH);
        let known_next = if goes_on { Some(after.address) } else { next };
        match known_next.filter(|_| in_a_row).and_then(|next| block.outcome(next)) {
            Some(taken) => self.emit_scratch(extent, taken, sink),
            None => sink.item(Ok(extent.locate(Item::Q { start, next, instructions: count }))),
        }
        if goes_on && self.context.is_some() {
            self.enter(ElementTarget { address: after.address, isa: sub_isa(after.isa) });
        }
    }
}

/// How far it is from one address up to another, around the top of memory if need be.
fn distance(isa: Isa, from: u64, to: u64) -> u64 {
    within(isa, to.wrapping_sub(from))
}
