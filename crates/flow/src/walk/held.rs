//! What is held back: the last run, since a mispredict may still change how it ends, and the items after it.

use unspool_coresight::{Extent, Located, Target as ElementTarget};
use unspool_isa::Target;

use super::{Walker, sub_isa};
use crate::graph::{LOST, NEEDS_ADDRESS, SCRATCH};
use crate::item::{Cause, Finding, FlowSink, Item, Run, Step};
use crate::memory::CodeMemory;
use crate::runs::{self, sum_up};

/// Items that may wait after a P0 element whose outcome can still change.
const MOST_HELD_ITEMS: usize = 1 << 10;

/// A run that was not emitted yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Held {
    Nothing,
    /// A cached one.
    Kept(runs::Run),
    /// Its steps are in `hand`.
    InHand,
}
impl<M: CodeMemory> Walker<M> {
    /// The last atom went the other way.
    pub(super) fn mispredict(&mut self, extent: Extent, sink: &mut impl FlowSink) {
        let Some((&last, before)) = self.held_steps().split_last() else {
            if self.lost > 0 {
                // It is about an atom that says nothing.
                return;
            }
            self.emit(extent, Item::Finding(Finding::Mispredict), sink);
            return;
        };
        let before: Vec<Step> = before.to_vec();
        let flipped = Step::new(last.block(), !last.taken());
        if !before.is_empty() {
            self.emit_run(&before, self.held_offset, sink);
        }
        self.hand.clear();
        self.hand.push(flipped);
        self.held = Held::InHand;
        if self.held_before_break {
            return;
        }
        match self.graph.block(flipped.block()).leads_to(flipped.taken()) {
            // In the current context, which may be newer than the branch.
            Some(Target { address, isa }) => self.enter(ElementTarget { address, isa: sub_isa(isa) }),
            None => self.at = NEEDS_ADDRESS,
        }
    }
    /// Emits an item, after what is held back.
    pub(super) fn emit(&mut self, extent: Extent, item: Item, sink: &mut impl FlowSink) {
        let holds = !matches!(self.held, Held::Nothing);
        let waits = self.rules.may_mispredict && holds && self.held_items.len() < MOST_HELD_ITEMS;
        if waits {
            self.held_items.push(extent.locate(item));
        } else {
            self.flush(sink);
            sink.item(Ok(extent.locate(item)));
        }
    }

    /// Is the outcome of the last atom one that only a mispredict can mend?
    pub(super) fn holds_impossible(&self) -> bool {
        let last = self.held_steps().last();
        last.is_some_and(|last| last.block() != SCRATCH && !self.graph.block(last.block()).can_be(last.taken()))
    }

    pub(super) fn held_steps(&self) -> &[Step] {
        match &self.held {
            Held::Nothing => &[],
            Held::Kept(run) => self.runs.steps(run),
            Held::InHand => &self.hand,
        }
    }

    /// Emits the last run: nothing can change it any more.
    pub(super) fn flush(&mut self, sink: &mut impl FlowSink) {
        if matches!(self.held, Held::Nothing) {
            return;
        }
        if let (Held::Kept(run), false) = (self.held, self.rules.may_mispredict) {
            self.held = Held::Nothing;
            return self.emit_kept(run, self.held_offset, sink);
        }
        let steps = self.held_steps();
        match steps.split_last() {
            Some((&last, before))
                if !self.graph.block(last.block()).can_be(last.taken()) && last.block() != SCRATCH =>
            {
                if !before.is_empty() {
                    self.emit_run(before, self.held_offset, sink);
                }
                self.report_impossible(last, sink);
            }
            Some(_) => self.emit_run(steps, self.held_offset, sink),
            None => {}
        }
        self.hand.clear();
        self.held = Held::Nothing;
        self.held_before_break = false;
        self.held_items.drain(..).for_each(|item| sink.item(Ok(item)));
    }

    /// No mispredict has mended the outcome of the last atom: it cannot be right. If execution went on from there, it is
    /// lost.
    pub(super) fn report_impossible(&mut self, last: Step, sink: &mut impl FlowSink) {
        let at = self.graph.block(last.block()).last_address();
        let value = Item::Finding(Finding::NotTaken { at });
        sink.item(Ok(Located { offset: self.held_offset, length: 0, value }));
        self.lose(Extent { offset: self.held_offset, length: 0 });
        let next = self.graph.block(last.block()).leads_to(last.taken()).map(|target| target.address);
        self.look_closer();
        if self.position() == next {
            self.wait_for_address();
            self.node = LOST;
            self.stack.clear();
        } else {
            // The trace contained an address where execution continued.
            let value = Item::Lost { elements: std::mem::take(&mut self.lost), cause: Cause::Disagreement };
            sink.item(Ok(Located { offset: self.lost_offset, length: 0, value }));
        }
        self.cause = Cause::Disagreement;
    }

    pub(super) fn emit_run(&self, steps: &[Step], offset: u64, sink: &mut impl FlowSink) {
        let length = steps.len() as u32;
        let (instructions, traits) = sum_up(&self.graph, steps);
        sink.run(Run { graph: &self.graph, among: steps, start: 0, length, instructions, offset, generation: 0 });
        if traits.eret() {
            self.emit_exception_return(offset, sink);
        }
    }

    /// The return addresses that a kept run leaves.
    pub(super) fn push_links(&mut self, run: &runs::Run) {
        if !self.rules.return_stack {
            return;
        }
        self.stack.clear_if_pending();
        if run.traits.links() {
            for &step in self.runs.steps(run) {
                let block = self.graph.block(step.block());
                if step.taken() && block.last.link {
                    self.stack.push(block.return_target());
                }
            }
        }
    }
}
