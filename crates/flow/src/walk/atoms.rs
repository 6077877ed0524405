//! Atoms: one step in the graph each, or a whole run of them that was walked before.
//!
//! While one known run follows another, only the node is kept up to date. Everything else wants a closer look: at the
//! block, at the return stack, at what is missing.

use unspool_coresight::{Atoms, Extent, Located, Target as ElementTarget};
use unspool_isa::Target;

use super::held::Held;
use super::{Walker, sub_isa};
use crate::graph::{Ending, FIRST, Id, LOST, NEEDS_ADDRESS, NO_CODE};
use crate::item::{Cause, Finding, FlowSink, Item, Run, Step};
use crate::memory::CodeMemory;
use crate::runs;

impl<M: CodeMemory> Walker<M> {
    /// Known runs say all: nothing is held back, and nobody keeps return addresses.
    pub(crate) fn is_quick(&self) -> bool {
        !self.rules.may_mispredict && !self.rules.return_stack
    }

    /// Atoms, if known runs say all.
    #[inline(always)]
    pub(crate) fn quick_atoms(&mut self, extent: Extent, atoms: Atoms, sink: &mut impl FlowSink) {
        let Some(&run) = self.runs.find(self.node, atoms) else { return self.rarer_atoms(extent, atoms, sink) };
        self.node = run.next;
        self.emit_kept(run, extent.offset, sink);
    }

    /// Tells a run that is kept, at once.
    #[inline(always)]
    pub(super) fn emit_kept(&self, run: runs::Run, offset: u64, sink: &mut impl FlowSink) {
        sink.run(Run {
            graph: &self.graph,
            among: self.runs.all_steps(),
            start: run.start,
            length: u32::from(run.length),
            instructions: u64::from(run.instructions),
            offset,
            generation: self.runs.generation,
        });
        if run.traits.eret() {
            self.emit_exception_return(offset, sink);
        }
    }

    #[inline(never)]
    pub(super) fn emit_exception_return(&self, offset: u64, sink: &mut impl FlowSink) {
        if self.rules.silent_exception_returns {
            sink.item(Ok(Located { offset, length: 0, value: Item::ExceptionReturn }));
        }
    }

    pub(crate) fn atoms(&mut self, extent: Extent, atoms: Atoms, sink: &mut impl FlowSink) {
        self.flush(sink);
        match self.runs.find(self.node, atoms) {
            Some(&run) => self.go_along(run, extent, sink),
            None => self.rarer_atoms(extent, atoms, sink),
        }
    }

    /// Atoms that are not among the first that were met here. Nothing is held.
    #[inline(never)]
    pub(super) fn rarer_atoms(&mut self, extent: Extent, atoms: Atoms, sink: &mut impl FlowSink) {
        let kept = self.runs.find_further(self.node, atoms);
        match kept {
            Some(run) => self.go_along(run, extent, sink),
            None => self.step_by_step(extent, atoms, sink),
        }
    }

    /// Goes along a run that is kept.
    pub(super) fn go_along(&mut self, run: runs::Run, extent: Extent, sink: &mut impl FlowSink) {
        self.node = run.next;
        self.push_links(&run);
        if self.rules.may_mispredict {
            self.held = Held::Kept(run);
            self.held_offset = extent.offset;
        } else {
            self.emit_kept(run, extent.offset, sink);
        }
    }

    /// Atoms that were not met here before, or that need a closer look.
    pub(super) fn step_by_step(&mut self, extent: Extent, atoms: Atoms, sink: &mut impl FlowSink) {
        self.look_closer();
        self.make_room(sink);
        let from = self.node;
        // What a Q element leads to stands in no run.
        let mut keeps = self.at >= FIRST;
        for (index, taken) in (1..).zip(atoms.iter()) {
            let needed_address = self.at == NEEDS_ADDRESS;
            let may_change = self.rules.may_mispredict && index == atoms.count();
            let walked = self.step(extent, taken, may_change, sink);
            keeps &= walked && !needed_address;
        }
        self.look_up();
        if keeps
            && self.at != NO_CODE
            && let Some(run) = self.runs.keep(&self.graph, from, atoms, self.node, &self.hand)
        {
            self.hand.clear();
            self.held = Held::Kept(run);
        }
        if !self.rules.may_mispredict {
            self.flush(sink);
        }
    }

    /// One atom, which a mispredict may still change. False: it did not lead from one known block to the next.
    pub(super) fn step(&mut self, extent: Extent, taken: bool, may_change: bool, sink: &mut impl FlowSink) -> bool {
        let is_located = self.at >= FIRST && self.q.is_none();
        if !is_located && !self.locate(extent, sink) {
            // A mispredict would be about this atom, and not about the last one whose position was known.
            self.flush(sink);
            self.lose(extent);
            return false;
        }
        let id = self.at;
        let block = self.graph.block(id);
        match block.ending {
            Ending::P0 if block.can_be(taken) || may_change => {}
            Ending::P0 => {
                let at = block.last_address();
                self.disagree(extent, Finding::NotTaken { at }, sink);
                self.lose(extent);
                return false;
            }
            Ending::NoCode => {
                self.run_into_nothing(extent, id, sink);
                return false;
            }
            Ending::TooLong => {
                let start = block.start;
                self.disagree(extent, Finding::Runaway { start }, sink);
                self.lose(extent);
                return false;
            }
        }
        let is_certain = block.can_be(taken);
        let (links, return_target) = (taken && block.last.link, block.return_target());
        if self.rules.return_stack {
            self.stack.clear_if_pending();
            if links {
                self.stack.push(return_target);
            }
        }
        self.hand.push(Step::new(id, taken));
        self.held = Held::InHand;
        self.held_offset = extent.offset;
        self.go_on(id, taken);
        is_certain
    }
    /// Known runs end here: what follows wants a closer look at the block.
    pub(super) fn look_closer(&mut self) {
        self.at = self.runs.block(self.node);
    }

    /// Known runs may start here again.
    pub(super) fn look_up(&mut self) {
        self.node = self.runs.node(&mut self.graph, self.at);
    }

    /// Goes where the last instruction of a block leads.
    #[inline]
    pub(super) fn go_on(&mut self, id: Id, taken: bool) {
        self.at = self.graph.follow(&self.memory, id, taken);
        if self.at == NO_CODE {
            let next = self.graph.block(id).leads_to(taken);
            self.target = next.map(|Target { address, isa }| ElementTarget { address, isa: sub_isa(isa) });
        }
    }

    /// The code ends before the block does: emits what was executed for certain.
    pub(super) fn run_into_nothing(&mut self, extent: Extent, id: Id, sink: &mut impl FlowSink) {
        let end = self.graph.block(id).end;
        self.hand.push(Step::new(id, true));
        self.held = Held::InHand;
        self.held_offset = extent.offset;
        self.flush(sink);
        self.no_code(extent, end, sink);
        self.lose(extent);
    }
    /// A P0 element comes: is it known where? Asks the return stack if it has to.
    pub(super) fn locate(&mut self, extent: Extent, sink: &mut impl FlowSink) -> bool {
        self.end_q(None, sink);
        self.ask_return_stack();
        if self.at == NEEDS_ADDRESS {
            self.wait_for_address();
        }
        if self.at == NO_CODE
            && let Some(target) = self.target
        {
            self.flush(sink);
            self.no_code(extent, target.address, sink);
        }
        if self.at == LOST {
            // An address without its context, from before this element, says nothing any more.
            self.target = None;
        }
        self.at != LOST
    }

    /// There is no code at the address: the walk ends here until the next one comes. The return stack misses what was
    /// executed from here on, so nothing of it can be trusted any more.
    pub(super) fn no_code(&mut self, extent: Extent, address: u64, sink: &mut impl FlowSink) {
        let space = self.space();
        sink.item(Ok(extent.locate(Item::NoCode { address, space })));
        self.at = LOST;
        self.target = None;
        self.cause = Cause::NoCode { address, space };
        self.stack.clear();
    }

    /// Nobody knows where execution goes on until an address comes.
    pub(super) fn wait_for_address(&mut self) {
        self.at = LOST;
        self.target = None;
        self.cause = Cause::NoAddress;
    }

    pub(super) fn disagree(&mut self, extent: Extent, finding: Finding, sink: &mut impl FlowSink) {
        self.flush(sink);
        sink.item(Ok(extent.locate(Item::Finding(finding))));
        self.at = LOST;
        self.target = None;
        self.cause = Cause::Disagreement;
        self.stack.clear();
    }

    /// A P0 element says nothing.
    pub(super) fn lose(&mut self, extent: Extent) {
        if self.lost == 0 {
            self.lost_offset = extent.offset;
        }
        self.lost += 1;
    }

    pub(super) fn report_lost(&mut self, sink: &mut impl FlowSink) {
        if self.lost > 0 {
            self.flush(sink);
            let value = Item::Lost { elements: self.lost, cause: self.cause };
            sink.item(Ok(Located { offset: self.lost_offset, length: 0, value }));
            self.lost = 0;
        }
    }
}
