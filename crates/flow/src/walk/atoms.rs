//! Atoms: one step in the graph each, or a whole cached run of them.
//!
//! While cached runs follow each other, only the node is kept up to date. Everything else takes the slow path: uncached
//! runs, the return stack, missing code.

use unspool_coresight::{Atoms, Extent, Located, OtherIsa};

use super::state::Held;
use super::{Walker, element_target};
use crate::graph::{BlockId, Ending, FIRST, LOST, NEEDS_ADDRESS, NO_CODE};
use crate::item::{Cause, Finding, FlowSink, Item, Run, WalkStep};
use crate::memory::CodeMemory;
use crate::runs::CachedRun;

impl<M: CodeMemory> Walker<M> {
    /// Do cached runs suffice, with nothing held back and no return stack?
    pub(crate) fn cached_runs_suffice(&self) -> bool {
        !self.rules.may_mispredict && !self.rules.return_stack
    }

    /// Follows atoms, if [`cached_runs_suffice`](Self::cached_runs_suffice).
    #[inline(always)]
    pub(crate) fn cached_atoms(&mut self, extent: Extent, atoms: Atoms, sink: &mut impl FlowSink) {
        let Some(&run) = self.runs.find_in_node(self.node, atoms) else {
            return self.uncached_atoms(extent, atoms, sink);
        };
        self.node = run.next;
        self.emit_cached(run, extent.offset, sink);
    }

    /// Emits a cached run.
    #[inline(always)]
    pub(super) fn emit_cached<S: FlowSink + ?Sized>(&self, run: CachedRun, offset: u64, sink: &mut S) {
        sink.run(Run {
            graph: &self.graph,
            among: self.runs.all_steps(),
            start: run.start,
            length: u32::from(run.length),
            instructions: u64::from(run.instructions),
            offset,
            generation: self.runs.generation,
        });
        if run.flags.ends_in_exception_return() {
            self.emit_exception_return(offset, sink);
        }
    }

    #[inline(never)]
    pub(super) fn emit_exception_return<S: FlowSink + ?Sized>(&self, offset: u64, sink: &mut S) {
        if self.rules.silent_exception_returns {
            sink.item(Ok(Located { offset, length: 0, value: Item::ExceptionReturn }));
        }
    }

    pub(crate) fn atoms(&mut self, extent: Extent, atoms: Atoms, sink: &mut dyn FlowSink) {
        self.flush(sink);
        match self.runs.find_in_node(self.node, atoms) {
            Some(&run) => self.follow_run(run, extent, sink),
            None => self.uncached_atoms(extent, atoms, sink),
        }
    }

    /// Follows atoms whose run is not in the node itself. Nothing is held.
    #[inline(never)]
    pub(super) fn uncached_atoms(&mut self, extent: Extent, atoms: Atoms, sink: &mut dyn FlowSink) {
        match self.runs.promote_from_overflow(self.node, atoms) {
            Some(run) => self.follow_run(run, extent, sink),
            None => self.walk_atoms(extent, atoms, sink),
        }
    }

    /// Follows a cached run.
    pub(super) fn follow_run(&mut self, run: CachedRun, extent: Extent, sink: &mut dyn FlowSink) {
        self.node = run.next;
        self.push_return_addresses(&run);
        if self.rules.may_mispredict {
            self.held = Held::Cached(run);
            self.held_offset = extent.offset;
        } else {
            self.emit_cached(run, extent.offset, sink);
        }
    }

    /// Follows atoms one by one, and caches their run.
    pub(super) fn walk_atoms(&mut self, extent: Extent, atoms: Atoms, sink: &mut dyn FlowSink) {
        self.load_block();
        self.clear_if_full(sink);
        let from = self.node;
        // The position after a Q element is not part of a run.
        let mut is_cacheable = self.at >= FIRST;
        for (index, taken) in (1..).zip(atoms.iter()) {
            let needed_address = self.at == NEEDS_ADDRESS;
            let may_change = self.rules.may_mispredict && index == atoms.count();
            let walked = self.step(extent, taken, may_change, sink);
            is_cacheable &= walked && !needed_address;
        }
        self.save_node();
        if is_cacheable
            && self.at != NO_CODE
            && let Some(run) = self.runs.insert(&self.graph, from, atoms, self.node, &self.steps)
        {
            self.steps.clear();
            self.held = Held::Cached(run);
        }
        if !self.rules.may_mispredict {
            self.flush(sink);
        }
    }

    /// Follows one atom, which a mispredict may still change. False: it did not lead from one known block to the next.
    pub(super) fn step(&mut self, extent: Extent, taken: bool, may_change: bool, sink: &mut dyn FlowSink) -> bool {
        let is_located = self.at >= FIRST && self.q.is_none();
        if !is_located && !self.locate(extent, sink) {
            // A mispredict would be about this atom, and not about the last one whose position was known.
            self.flush(sink);
            self.count_lost(extent);
            return false;
        }
        let id = self.at;
        let block = self.graph.block(id);
        let is_possible = block.can_be(taken);
        let finding = match block.ending {
            Ending::P0 if is_possible || may_change => None,
            Ending::P0 => Some(Finding::NotTaken { at: block.last_address() }),
            Ending::TooLong => Some(Finding::Runaway { start: block.start }),
            Ending::NoCode => {
                self.run_into_missing_code(extent, id, sink);
                return false;
            }
        };
        if let Some(finding) = finding {
            self.report_finding(extent, finding, sink);
            self.count_lost(extent);
            return false;
        }
        let enters = self.enters_other_code(id, taken);
        self.push_return_address(id, taken);
        self.hold_step(extent, WalkStep::new(id, taken));
        self.follow(id, taken);
        if let Some((address, isa)) = enters {
            self.other_code(extent, address, isa, sink);
        }
        is_possible && enters.is_none()
    }

    /// Updates the block from the node, for the slow path.
    pub(super) fn load_block(&mut self) {
        self.at = self.runs.block(self.node);
    }

    /// Updates the node from the block, after the slow path.
    pub(super) fn save_node(&mut self) {
        self.node = self.runs.node(&mut self.graph, self.at);
    }

    /// Moves to where the last instruction of a block leads.
    #[inline]
    pub(super) fn follow(&mut self, id: BlockId, taken: bool) {
        self.at = self.graph.follow(&self.memory, id, taken);
        if self.at == NO_CODE {
            self.target = self.graph.block(id).leads_to(taken).map(element_target);
        }
    }

    /// The code ends before the block does: emits the instructions that were certainly executed.
    pub(super) fn run_into_missing_code(&mut self, extent: Extent, id: BlockId, sink: &mut dyn FlowSink) {
        let end = self.graph.block(id).end;
        self.hold_step(extent, WalkStep::new(id, true));
        self.flush(sink);
        self.no_code(extent, end, sink);
        self.count_lost(extent);
    }

    fn hold_step(&mut self, extent: Extent, step: WalkStep) {
        self.steps.push(step);
        self.held = Held::Steps;
        self.held_offset = extent.offset;
    }

    /// Locates a P0 element, with the return stack if necessary. False: its position is unknown.
    pub(super) fn locate(&mut self, extent: Extent, sink: &mut dyn FlowSink) -> bool {
        self.end_q(None, sink);
        self.ask_return_stack();
        if self.at == NEEDS_ADDRESS {
            self.miss_target(extent, sink);
        }
        if self.at == NO_CODE
            && let Some(target) = self.target
        {
            self.flush(sink);
            self.no_code(extent, target.address, sink);
        }
        if self.at == LOST {
            // An address without its context, from before this element, does not apply any more.
            self.target = None;
        }
        self.at != LOST
    }

    /// The trace has no target for the indirect branch before, and the return stack has none either. If calls are unknown,
    /// the trace unit may have had it on its stack; otherwise, the trace is wrong.
    pub(super) fn miss_target(&mut self, extent: Extent, sink: &mut dyn FlowSink) {
        match self.rules.return_stack && self.stack.is_incomplete() {
            true => self.wait_for_address(),
            false => self.report_finding(extent, Finding::NoTarget, sink),
        }
    }

    /// Reports missing code: the position is unknown until the next address. The return stack misses what is executed
    /// until then, so it is not valid any more.
    pub(super) fn no_code(&mut self, extent: Extent, address: u64, sink: &mut dyn FlowSink) {
        let space = self.space();
        if self.memory.is_ambiguous(address, space) {
            self.report_finding(extent, Finding::AmbiguousImage { address }, sink);
            self.cause = Cause::Ambiguous { address };
            return;
        }
        self.lose_code(extent, address, None, sink);
    }

    /// Reports code that is missing, or of an instruction set that cannot be decoded.
    pub(super) fn lose_code(&mut self, extent: Extent, address: u64, isa: Option<OtherIsa>, sink: &mut dyn FlowSink) {
        let space = self.space();
        sink.item(Ok(extent.locate(Item::NoCode { address, space, isa })));
        self.at = LOST;
        self.target = None;
        self.cause = Cause::NoCode { address, space };
        self.stack.forget();
    }

    /// Sets the position to unknown until the next address.
    pub(super) fn wait_for_address(&mut self) {
        self.at = LOST;
        self.target = None;
        self.cause = Cause::NoAddress;
    }

    /// Reports a contradiction between trace and code: the position is unknown until the next address.
    pub(super) fn report_finding(&mut self, extent: Extent, finding: Finding, sink: &mut dyn FlowSink) {
        self.flush(sink);
        sink.item(Ok(extent.locate(Item::Finding(finding))));
        self.at = LOST;
        self.target = None;
        self.cause = Cause::Disagreement;
        self.stack.forget();
    }

    /// Counts a P0 element that could not be followed. It may have been a call or a return.
    pub(super) fn count_lost(&mut self, extent: Extent) {
        self.add_lost(extent.offset);
        self.stack.forget();
    }

    pub(super) fn add_lost(&mut self, offset: u64) {
        if self.lost == 0 {
            self.lost_offset = offset;
        }
        self.lost += 1;
    }

    pub(super) fn report_lost(&mut self, sink: &mut dyn FlowSink) {
        if self.lost > 0 {
            self.flush(sink);
            let value = Item::Lost { elements: self.lost, cause: self.cause };
            sink.item(Ok(Located { offset: self.lost_offset, length: 0, value }));
            self.lost = 0;
        }
    }
}
