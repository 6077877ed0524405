//! The last run, held back since a mispredict may still change its end, and the items after it.

use unspool_coresight::{Extent, Located};

use super::state::Held;
use super::{Walker, element_target};
use crate::graph::{BlockId, LOST, NEEDS_ADDRESS, SCRATCH};
use crate::item::{Cause, Finding, FlowSink, Item, Run, WalkStep};
use crate::memory::CodeMemory;
use crate::runs::{CachedRun, summarize};

/// Greatest number of items that wait after a P0 element whose outcome can still change.
const MAX_HELD_ITEMS: usize = 1 << 10;

impl<M: CodeMemory> Walker<M> {
    /// Inverts the last atom.
    pub(super) fn mispredict(&mut self, extent: Extent, sink: &mut dyn FlowSink) {
        let Some((&last, before)) = self.held_steps().split_last() else {
            // With lost elements, it is about one of those.
            if self.lost == 0 {
                self.emit(extent, Item::Finding(Finding::Mispredict), sink);
            }
            return;
        };
        let before: Vec<WalkStep> = before.to_vec();
        let flipped = WalkStep::new(last.block(), !last.taken());
        if !before.is_empty() {
            self.emit_run(&before, self.held_offset, sink);
        }
        self.steps.clear();
        self.steps.push(flipped);
        self.held = Held::Steps;
        if self.held_before_break {
            return;
        }
        match self.graph.block(flipped.block()).leads_to(flipped.taken()) {
            // In the current context, which may be newer than the branch.
            Some(target) => self.enter(element_target(target)),
            None => self.at = NEEDS_ADDRESS,
        }
    }

    /// Emits an item after the held run.
    pub(super) fn emit(&mut self, extent: Extent, item: Item, sink: &mut dyn FlowSink) {
        let holds = !matches!(self.held, Held::Nothing);
        let waits = self.rules.may_mispredict && holds && self.held_items.len() < MAX_HELD_ITEMS;
        if waits {
            self.held_items.push(extent.locate(item));
        } else {
            self.flush(sink);
            sink.item(Ok(extent.locate(item)));
        }
    }

    /// Is the outcome of the last atom one that only a mispredict can correct?
    pub(super) fn holds_impossible(&self) -> bool {
        self.held_steps().last().is_some_and(|&last| self.is_impossible(last))
    }

    /// The last P0 instruction, if a mispredict or an address could still have corrected it: a conditional or indirect
    /// branch.
    pub(super) fn uncertain_branch(&self) -> Option<u64> {
        let last = self.held_steps().last().filter(|last| last.block() != SCRATCH)?;
        let block = self.graph.block(last.block());
        (block.can_be(false) || block.last.flow.is_indirect()).then(|| block.last_address())
    }

    fn is_impossible(&self, step: WalkStep) -> bool {
        step.block() != SCRATCH && !self.graph.block(step.block()).can_be(step.taken())
    }

    pub(super) fn held_steps(&self) -> &[WalkStep] {
        match &self.held {
            Held::Nothing => &[],
            Held::Cached(run) => self.runs.steps(run),
            Held::Steps => &self.steps,
        }
    }

    /// Emits the held run and the items after it.
    pub(super) fn flush(&mut self, sink: &mut dyn FlowSink) {
        if matches!(self.held, Held::Nothing) {
            return;
        }
        if let (Held::Cached(run), false) = (self.held, self.rules.may_mispredict) {
            self.held = Held::Nothing;
            return self.emit_cached(run, self.held_offset, sink);
        }
        let steps = self.held_steps();
        match steps.split_last() {
            Some((&last, before)) if self.is_impossible(last) => {
                if !before.is_empty() {
                    self.emit_run(before, self.held_offset, sink);
                }
                self.report_impossible(last, sink);
            }
            Some(_) => self.emit_run(steps, self.held_offset, sink),
            None => {}
        }
        self.steps.clear();
        self.held = Held::Nothing;
        self.held_before_break = false;
        self.held_items.drain(..).for_each(|item| sink.item(Ok(item)));
    }

    /// Reports an impossible outcome that no mispredict has corrected. If the walk continued from there, its position is
    /// unknown.
    pub(super) fn report_impossible(&mut self, last: WalkStep, sink: &mut dyn FlowSink) {
        let at = self.graph.block(last.block()).last_address();
        let value = Item::Finding(Finding::NotTaken { at });
        sink.item(Ok(Located { offset: self.held_offset, length: 0, value }));
        self.add_lost(self.held_offset);
        let next = self.graph.block(last.block()).leads_to(last.taken()).map(|target| target.address);
        self.load_block();
        if self.position() == next {
            self.wait_for_address();
            self.node = LOST;
            self.stack.forget();
        } else {
            // The trace contained an address where execution continued.
            let value = Item::Lost { elements: std::mem::take(&mut self.lost), cause: Cause::Disagreement };
            sink.item(Ok(Located { offset: self.lost_offset, length: 0, value }));
        }
        self.cause = Cause::Disagreement;
    }

    pub(super) fn emit_run(&self, steps: &[WalkStep], offset: u64, sink: &mut dyn FlowSink) {
        let length = steps.len() as u32;
        let (instructions, flags) = summarize(&self.graph, steps);
        sink.run(Run { graph: &self.graph, among: steps, start: 0, length, instructions, offset, generation: 0 });
        if flags.ends_in_exception_return() {
            self.emit_exception_return(offset, sink);
        }
    }

    /// Pushes the return address of the last instruction of a block, if it is a taken call.
    pub(super) fn push_return_address(&mut self, id: BlockId, taken: bool) {
        if !self.rules.return_stack {
            return;
        }
        self.stack.clear_if_pending();
        let block = self.graph.block(id);
        if taken && block.last.link {
            self.stack.push_call(block, self.rules.waypoints);
        }
    }

    /// Pushes the return addresses of a cached run.
    pub(super) fn push_return_addresses(&mut self, run: &CachedRun) {
        if !self.rules.return_stack {
            return;
        }
        self.stack.clear_if_pending();
        if run.flags.has_call() {
            for &step in self.runs.steps(run) {
                let block = self.graph.block(step.block());
                if step.taken() && block.last.link {
                    self.stack.push_call(block, self.rules.waypoints);
                }
            }
        }
    }
}
