//! The walk: committed elements lead through the code.
//!
//! committed elements + [`CodeMemory`] ─▶ **runs of ranges**, items
//!
//! The trace says which way branches went, the code says where they are. What a trace unit leaves out, since the code
//! tells it, is put back here. Refuses to know packets, files and what instructions look like. Nothing is guessed: where
//! code or an address is missing, that is said, and the walk goes on at the next address.
//! Specification: Arm DDI 0487, trace analyzer, stage 3.

use unspool_coresight::etm4::element::{Context, Element, ElementItem, Target as ElementTarget};
use unspool_coresight::etm4::packet::SubIsa;
use unspool_coresight::etm4::{Atoms, Config, ElementError, Located, Version};
use unspool_isa::{Isa, Target};

use crate::graph::{Ending, Graph, Id, LONGEST, LOST, Mode, NEEDS_ADDRESS, NO_CODE, Rules, SCRATCH};
use crate::item::{Cause, Finding, FlowSink, Item, Run, Step, Transaction};
use crate::memory::{CodeMemory, Space};
use crate::runs::{self, NodeId, Runs, instructions, traits};
use crate::stack::ReturnStack;

/// Items that may wait behind a P0 element whose outcome can still change.
const MOST_BEHIND: usize = 1 << 10;

/// Walks the code along the elements. Feed it with [`push`](Self::push), end with [`finish`](Self::finish).
#[derive(Debug)]
pub struct Walker<M> {
    memory: M,
    /// Targets may be left out when a return stack knows them.
    return_stack: bool,
    is_ete: bool,
    /// The outcome of the last P0 element may still change.
    speculates: bool,
    graph: Graph,
    runs: Runs,
    stack: ReturnStack,
    context: Option<Context>,
    /// The worlds of the context, for either sub-ISA.
    modes: [Mode; 2],
    /// The node of the block that is executed next, or why none is known. This is all that is kept up to date while
    /// one known run follows another.
    node: NodeId,
    /// The block itself, while there is a closer look.
    at: Id,
    /// Where execution goes on: if there is no code, or if the context has not been told yet.
    target: Option<ElementTarget>,
    /// The next address need not follow from the code: an exception was taken.
    may_be_anywhere: bool,
    /// The last run, which a mispredict may still change, and its place.
    held: Held,
    held_offset: u64,
    /// The steps of a run that is not kept.
    hand: Vec<Step>,
    /// What happened behind the last run.
    behind: Vec<Located<Item>>,
    /// A Q element that waits for the address behind it.
    q: Option<Q>,
    /// P0 elements that say nothing: how many, where the first was, and why.
    lost: u64,
    lost_offset: u64,
    cause: Cause,
}

/// A Q element whose end is not known yet.
#[derive(Debug, Clone, Copy)]
struct Q {
    place: Place,
    start: Option<u64>,
    count: Option<u32>,
    /// Its instructions follow one another; they are in the scratch block.
    in_a_row: bool,
}

/// A run that was not told yet.
#[derive(Debug, Clone, Copy)]
enum Held {
    Nothing,
    /// One that is kept.
    Kept(runs::Run),
    /// Its steps are in the hand.
    InHand,
}

/// Which bytes of the trace say it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Place {
    fn of<T>(located: &Located<T>) -> Self {
        Self { offset: located.offset, length: located.length }
    }

    fn with(self, value: Item) -> Located<Item> {
        Located { offset: self.offset, length: self.length, value }
    }
}

impl<M: CodeMemory> Walker<M> {
    /// A walker that waits for its first address.
    pub fn new(config: &Config, memory: M) -> Self {
        let mut graph = Graph::new(Rules { wfx_is_p0: config.wfx_is_p0 });
        let nowhere = Space { security: unspool_coresight::etm4::packet::Security::Secure, el: 0 };
        let modes = [graph.mode(nowhere, Isa::A32), graph.mode(nowhere, Isa::T32)];
        Self {
            memory,
            return_stack: config.return_stack,
            is_ete: matches!(config.version, Version::Ete(_)),
            speculates: config.max_speculation > 0,
            graph,
            runs: Runs::new(),
            stack: ReturnStack::new(),
            context: None,
            modes,
            node: LOST,
            at: LOST,
            target: None,
            may_be_anywhere: false,
            held: Held::Nothing,
            held_offset: 0,
            hand: Vec::new(),
            behind: Vec::new(),
            q: None,
            lost: 0,
            lost_offset: 0,
            cause: Cause::NoAddress,
        }
    }

    /// Takes the next element, or the error in its place.
    #[inline(always)]
    pub fn push(&mut self, item: ElementItem, sink: &mut impl FlowSink) {
        match item {
            Ok(Located { offset, length, value: Element::Atoms(atoms) }) => {
                self.atoms(Place { offset, length }, atoms, sink);
            }
            Ok(Located { offset, length, value: Element::TargetAddress(target) }) => {
                self.target(Place { offset, length }, target, sink);
            }
            Ok(other) => self.element(&other, sink),
            Err(error) => self.error(error, sink),
        }
    }

    /// Ends the trace at this place in the buffer.
    pub fn finish(&mut self, offset: u64, sink: &mut impl FlowSink) {
        let end = Place { offset, length: 0 };
        self.forget_position(sink);
        self.look_up();
        self.emit(end, Item::End, sink);
        self.flush(sink);
    }

    /// Known runs say all: nothing is held back, and nobody keeps return addresses.
    pub(crate) fn is_quick(&self) -> bool {
        !self.speculates && !self.return_stack
    }

    /// Atoms, if known runs say all.
    #[inline(always)]
    pub(crate) fn quick_atoms(&mut self, place: Place, atoms: Atoms, sink: &mut impl FlowSink) {
        let Some(run) = self.runs.find(self.node, atoms) else { return self.atoms(place, atoms, sink) };
        self.node = run.next;
        let steps = self.runs.steps(run);
        sink.run(Run { graph: &self.graph, steps, instructions: u64::from(run.instructions), offset: place.offset });
        if run.traits.eret() {
            self.tell_return(place.offset, sink);
        }
    }

    #[inline(never)]
    fn tell_return(&self, offset: u64, sink: &mut impl FlowSink) {
        if self.is_ete {
            sink.item(Ok(Located { offset, length: 0, value: Item::ExceptionReturn }));
        }
    }

    #[inline(never)]
    pub(crate) fn atoms(&mut self, place: Place, atoms: Atoms, sink: &mut impl FlowSink) {
        self.flush(sink);
        match self.runs.find(self.node, atoms).or_else(|| self.runs.find_further(self.node, atoms)).copied() {
            Some(run) => {
                self.node = run.next;
                self.held = Held::Kept(run);
                self.held_offset = place.offset;
                self.push_links(&run);
            }
            None => self.step_by_step(place, atoms, sink),
        }
        if !self.speculates {
            self.flush(sink);
        }
    }

    /// Atoms that were not met here before, or that need a closer look.
    fn step_by_step(&mut self, place: Place, atoms: Atoms, sink: &mut impl FlowSink) {
        let from = self.node;
        self.look_closer();
        let mut keeps = true;
        for (index, taken) in (1..).zip(atoms.iter()) {
            let needed_address = self.at == NEEDS_ADDRESS;
            let may_change = self.speculates && index == atoms.count();
            let walked = self.step(place, taken, may_change, sink);
            keeps &= walked && !needed_address;
        }
        self.look_up();
        if keeps && self.at != NO_CODE {
            self.runs.keep(&self.graph, from, atoms, self.node, &self.hand);
        }
    }

    /// One atom, which a mispredict may still change. False: it did not lead from one known block to the next.
    fn step(&mut self, place: Place, taken: bool, may_change: bool, sink: &mut impl FlowSink) -> bool {
        if !self.locate(place, sink) {
            self.lose(place);
            return false;
        }
        let id = self.at;
        let block = self.graph.block(id);
        match block.ending {
            Ending::P0 if block.can_be(taken) || may_change => {}
            Ending::P0 => {
                let at = block.last_address();
                self.disagree(place, Finding::NotTaken { at }, sink);
                self.lose(place);
                return false;
            }
            Ending::NoCode => {
                self.run_into_nothing(place, id, sink);
                return false;
            }
            Ending::TooLong => {
                let start = block.start;
                self.disagree(place, Finding::Runaway { start }, sink);
                self.lose(place);
                return false;
            }
        }
        let is_certain = block.can_be(taken);
        let (links, behind) = (taken && block.last.link, block.behind());
        if self.return_stack {
            self.stack.clear_if_pending();
            if links {
                self.stack.push(behind);
            }
        }
        self.hand.push(Step::new(id, taken));
        self.held = Held::InHand;
        self.held_offset = place.offset;
        self.go_on(id, taken);
        is_certain
    }

    /// Known runs end here: what follows wants a closer look at the block.
    fn look_closer(&mut self) {
        self.at = self.runs.block(self.node);
    }

    /// Known runs may start here again.
    fn look_up(&mut self) {
        self.node = self.runs.node(self.at);
    }

    /// Goes where the last instruction of a block leads.
    fn go_on(&mut self, id: Id, taken: bool) {
        self.at = self.graph.follow(&self.memory, id, taken);
        if self.at == NO_CODE {
            let next = self.graph.block(id).leads_to(taken);
            self.target = next.map(|Target { address, isa }| ElementTarget { address, isa: sub_isa(isa) });
        }
    }

    /// The code ends before the block does: tells what was executed for certain.
    fn run_into_nothing(&mut self, place: Place, id: Id, sink: &mut impl FlowSink) {
        let end = self.graph.block(id).end;
        self.hand.push(Step::new(id, true));
        self.held = Held::InHand;
        self.held_offset = place.offset;
        self.flush(sink);
        self.no_code(place, end, sink);
        self.lose(place);
    }

    /// A P0 element comes: is it known where? Asks the return stack if it has to.
    fn locate(&mut self, place: Place, sink: &mut impl FlowSink) -> bool {
        self.end_q(None, sink);
        if self.at == NEEDS_ADDRESS {
            match self.stack.pop().filter(|_| self.return_stack) {
                Some(target) => self.enter(ElementTarget { address: target.address, isa: sub_isa(target.isa) }),
                None => {
                    self.at = LOST;
                    self.cause = Cause::NoAddress;
                }
            }
        }
        if self.at == NO_CODE
            && let Some(target) = self.target
        {
            self.flush(sink);
            self.no_code(place, target.address, sink);
        }
        self.at != LOST
    }

    /// There is no code at the address: the walk ends here until the next one comes. The return stack misses what was
    /// executed from here on, so nothing of it can be trusted any more.
    fn no_code(&mut self, place: Place, address: u64, sink: &mut impl FlowSink) {
        let space = self.space();
        sink.item(Ok(place.with(Item::NoCode { address, space })));
        self.at = LOST;
        self.target = None;
        self.cause = Cause::NoCode { address, space };
        self.stack.clear();
    }

    fn disagree(&mut self, place: Place, finding: Finding, sink: &mut impl FlowSink) {
        self.flush(sink);
        sink.item(Ok(place.with(Item::Finding(finding))));
        self.at = LOST;
        self.target = None;
        self.cause = Cause::Disagreement;
        self.stack.clear();
    }

    /// A P0 element says nothing.
    fn lose(&mut self, place: Place) {
        if self.lost == 0 {
            self.lost_offset = place.offset;
        }
        self.lost += 1;
    }

    fn tell_lost(&mut self, sink: &mut impl FlowSink) {
        if self.lost > 0 {
            self.flush(sink);
            let value = Item::Lost { elements: self.lost, cause: self.cause };
            sink.item(Ok(Located { offset: self.lost_offset, length: 0, value }));
            self.lost = 0;
        }
    }

    #[inline(always)]
    pub(crate) fn target(&mut self, place: Place, target: ElementTarget, sink: &mut impl FlowSink) {
        if self.node == NEEDS_ADDRESS
            && let Some(node) = self.graph.noted(self.modes[target.isa as usize], target.address)
        {
            self.node = node;
        } else {
            self.new_target(place, target, sink);
        }
    }

    #[inline(never)]
    fn new_target(&mut self, place: Place, target: ElementTarget, sink: &mut impl FlowSink) {
        self.look_closer();
        self.end_q(Some(target.address), sink);
        self.tell_lost(sink);
        if self.graph.is_full() || self.runs.is_full() {
            self.start_afresh(sink);
        }
        let expected = self.position().filter(|_| !std::mem::take(&mut self.may_be_anywhere));
        if let Some(expected) = expected.filter(|&expected| expected != target.address) {
            let finding = Finding::Unreachable { expected, found: target.address };
            self.disagree(place, finding, sink);
        }
        if self.context.is_some() {
            self.enter(target);
        } else {
            self.target = Some(target);
        }
        self.look_up();
        if self.context.is_some() && self.at != NO_CODE {
            self.graph.note(self.modes[target.isa as usize], target.address, self.node);
        }
    }

    /// The sub-ISA of the code that is executed next, if it is known.
    fn sub_isa(&self) -> Option<SubIsa> {
        match self.at {
            NEEDS_ADDRESS | LOST => None,
            NO_CODE => self.target.map(|target| target.isa),
            block => Some(sub_isa(self.graph.block(block).isa)),
        }
    }

    /// Where execution is, if the code and the trace before tell.
    fn position(&self) -> Option<u64> {
        match self.at {
            NEEDS_ADDRESS | LOST => None,
            NO_CODE => self.target.map(|target| target.address),
            block => Some(self.graph.block(block).start),
        }
    }

    fn enter(&mut self, target: ElementTarget) {
        let mode = self.modes[target.isa as usize];
        self.at = self.graph.enter(&self.memory, mode, target.address);
        self.target = Some(target);
    }

    /// The graph has become too large.
    fn start_afresh(&mut self, sink: &mut impl FlowSink) {
        self.flush(sink);
        self.runs = Runs::new();
        self.graph = self.graph.emptied();
        self.at = NEEDS_ADDRESS;
        if let Some(context) = self.context {
            self.modes = self.modes_of(&context);
        }
    }

    #[inline(never)]
    fn element(&mut self, element: &Located<Element>, sink: &mut impl FlowSink) {
        self.look_closer();
        self.look_at(element, sink);
        self.look_up();
    }

    fn look_at(&mut self, element: &Located<Element>, sink: &mut impl FlowSink) {
        let place = Place::of(element);
        match element.value {
            Element::Context(context) => self.new_context(place, context, sink),
            Element::TraceInfo { .. } => self.trace_info(),
            Element::TraceOn => {
                self.forget_position(sink);
                self.emit(place, Item::TraceOn, sink);
            }
            Element::Discard => {
                self.forget_position(sink);
                self.emit(place, Item::Discard, sink);
            }
            Element::Overflow => {
                self.forget_position(sink);
                self.emit(place, Item::Overflow, sink);
            }
            Element::Mispredict => self.mispredict(place, sink),
            Element::Q { count } => self.q(place, count, sink),
            Element::Exception { number, address } => self.exception(place, number, address, sink),
            Element::SourceAddress(source) => self.source_address(place, source, sink),
            Element::ExceptionReturn => self.emit(place, Item::ExceptionReturn, sink),
            Element::FunctionReturn => self.emit(place, Item::FunctionReturn, sink),
            Element::TransactionStart => self.emit(place, Item::Transaction(Transaction::Start), sink),
            Element::TransactionCommit => self.emit(place, Item::Transaction(Transaction::Commit), sink),
            Element::TransactionFailure => {
                self.flush(sink);
                self.at = LOST;
                self.cause = Cause::NoAddress;
                self.emit(place, Item::Transaction(Transaction::Failure), sink);
            }
            Element::Timestamp { value, cycles } => self.emit(place, Item::Timestamp { value, cycles }, sink),
            Element::CycleCount(cycles) => self.emit(place, Item::CycleCount(cycles), sink),
            Element::Event { mask } => self.emit(place, Item::Event { mask }, sink),
            Element::TimestampMarker => self.emit(place, Item::Marker, sink),
            Element::Instrumentation { el, value } => self.emit(place, Item::Instrumentation { el, value }, sink),
            // Atoms and addresses do not get here, nor commits and cancels; what is left says nothing about the flow.
            _ => {}
        }
    }

    #[inline(never)]
    fn error(&mut self, error: ElementError, sink: &mut impl FlowSink) {
        if error.kind.breaks_flow() {
            self.forget_position(sink);
            self.look_up();
        }
        self.flush(sink);
        sink.item(Err(error));
    }

    /// What follows does not continue what went before.
    fn forget_position(&mut self, sink: &mut impl FlowSink) {
        self.end_q(None, sink);
        self.tell_lost(sink);
        self.at = LOST;
        self.cause = Cause::NoAddress;
        self.target = None;
        self.context = None;
        self.stack.clear_later();
    }

    fn trace_info(&mut self) {
        // The trace unit has emptied its return stack, but the P0 element before may still rely on it.
        if self.return_stack
            && self.at == NEEDS_ADDRESS
            && let Some(target) = self.stack.pop()
        {
            self.enter(ElementTarget { address: target.address, isa: sub_isa(target.isa) });
        }
        self.stack.clear_later();
    }

    fn new_context(&mut self, place: Place, context: Context, sink: &mut impl FlowSink) {
        if self.context == Some(context) {
            return;
        }
        self.emit(place, Item::Context(context), sink);
        let modes = self.modes_of(&context);
        let position = match self.at {
            NEEDS_ADDRESS => None,
            LOST | NO_CODE => self.target,
            block => {
                let block = self.graph.block(block);
                Some(ElementTarget { address: block.start, isa: sub_isa(block.isa) })
            }
        };
        let moves = self.modes != modes || self.context.is_none();
        self.context = Some(context);
        self.modes = modes;
        if let Some(target) = position.filter(|_| moves) {
            self.enter(target);
        }
    }

    fn modes_of(&mut self, context: &Context) -> [Mode; 2] {
        let space = Space::of(context);
        let isas = if context.aarch64 { [Isa::A64; 2] } else { [Isa::A32, Isa::T32] };
        isas.map(|isa| self.graph.mode(space, isa))
    }

    fn space(&self) -> Space {
        self.graph.space(self.modes[0])
    }

    /// The last atom went the other way.
    fn mispredict(&mut self, place: Place, sink: &mut impl FlowSink) {
        let Some((&last, before)) = self.held_steps().split_last() else {
            self.emit(place, Item::Finding(Finding::Mispredict), sink);
            return;
        };
        let before: Vec<Step> = before.to_vec();
        let flipped = Step::new(last.block(), !last.taken());
        if !before.is_empty() {
            self.tell_run(&before, self.held_offset, sink);
        }
        self.hand.clear();
        self.hand.push(flipped);
        self.held = Held::InHand;
        self.go_on(flipped.block(), flipped.taken());
    }

    fn exception(&mut self, place: Place, number: u16, address: Option<u64>, sink: &mut impl FlowSink) {
        self.flush(sink);
        let isa = self.sub_isa();
        if let Some(return_address) = address {
            self.walk_to(place, return_address, sink);
        } else {
            self.end_q(None, sink);
        }
        self.tell_lost(sink);
        self.stack.clear_if_pending();
        sink.item(Ok(place.with(Item::Exception { number, return_address: address })));
        self.at = LOST;
        self.cause = Cause::NoAddress;
        self.target = None;
        // Where execution goes on is told next. If it is not, the specification has it go on at the return address.
        if let (Some(address), Some(isa)) = (address, isa) {
            self.enter(ElementTarget { address, isa });
        }
        self.may_be_anywhere = true;
    }

    /// Execution went on to an address, without a taken branch.
    fn walk_to(&mut self, place: Place, end: u64, sink: &mut impl FlowSink) {
        if !self.locate_quietly(place, end, sink) {
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
                self.disagree(place, Finding::ReturnAddress { at: start, return_address: end }, sink);
            }
            return;
        }
        let ending = self.graph.stretch(&self.memory, mode, start, |at| distance(isa, start, at) < reach);
        self.tell_stretch(place, !self.graph.ends_in_p0(SCRATCH), sink);
        match ending {
            None => {}
            Some(Ending::NoCode) => {
                let missing = self.graph.block(SCRATCH).end;
                self.no_code(place, missing, sink);
            }
            Some(_) => self.disagree(place, Finding::Runaway { start }, sink),
        }
    }

    /// As for any P0 element, but an exception right at an address without code says nothing that would be missing.
    fn locate_quietly(&mut self, place: Place, end: u64, sink: &mut impl FlowSink) -> bool {
        if self.at == NO_CODE && self.target.is_some_and(|target| target.address == end) {
            self.end_q(None, sink);
            return false;
        }
        self.locate(place, sink)
    }

    fn tell_stretch(&mut self, place: Place, taken: bool, sink: &mut impl FlowSink) {
        if self.graph.block(SCRATCH).instructions > 0 {
            self.tell_run(&[Step::new(SCRATCH, taken)], place.offset, sink);
        }
    }

    /// All instructions up to the one at the source address were executed, and that one branched.
    fn source_address(&mut self, place: Place, source: ElementTarget, sink: &mut impl FlowSink) {
        self.flush(sink);
        if !self.locate(place, sink) {
            return self.lose(place);
        }
        let block = self.graph.block(self.at);
        let (start, isa, mode) = (block.start, block.isa, block.mode);
        let reach = distance(isa, start, source.address);
        let found = Finding::SourceAddress { at: start, source_address: source.address };
        if reach > LONGEST as u64 * 4 {
            self.disagree(place, found, sink);
            return self.lose(place);
        }
        let ending = self.graph.stretch(&self.memory, mode, start, |at| distance(isa, start, at) <= reach);
        match ending {
            None if self.graph.ends_at(SCRATCH, source.address) => self.branch_from_stretch(place, sink),
            Some(Ending::NoCode) => {
                self.tell_stretch(place, !self.graph.ends_in_p0(SCRATCH), sink);
                let missing = self.graph.block(SCRATCH).end;
                self.no_code(place, missing, sink);
                self.lose(place);
            }
            _ => {
                self.disagree(place, found, sink);
                self.lose(place);
            }
        }
    }

    fn branch_from_stretch(&mut self, place: Place, sink: &mut impl FlowSink) {
        let block = self.graph.block(SCRATCH);
        let (link, behind) = (block.last.link, block.behind());
        self.tell_stretch(place, true, sink);
        if self.return_stack {
            self.stack.clear_if_pending();
            if link {
                self.stack.push(behind);
            }
        }
        self.go_on(SCRATCH, true);
    }

    /// So many instructions were executed, and nobody says which way their branches went. Up to the first branch the
    /// code tells all the same.
    fn q(&mut self, place: Place, count: Option<u32>, sink: &mut impl FlowSink) {
        self.flush(sink);
        let known = self.locate(place, sink);
        let start = self.position().filter(|_| known);
        if start.is_none() {
            self.lose(place);
        }
        self.tell_lost(sink);
        self.stack.clear_if_pending();
        let in_a_row = start.is_some_and(|start| self.is_in_a_row(start, count));
        self.q = Some(Q { place, start, count, in_a_row });
        self.at = LOST;
        self.cause = Cause::NoAddress;
        self.target = None;
    }

    /// Do the instructions of a Q element follow one another, with no branch before the last? Leaves them in the scratch
    /// block.
    fn is_in_a_row(&mut self, start: u64, count: Option<u32>) -> bool {
        let mode = self.graph.block(self.at).mode;
        let Some(count) = count.filter(|&count| (1..=LONGEST as u32).contains(&count)) else { return false };
        let mut left = count;
        let ending = self.graph.stretch(&self.memory, mode, start, |_| {
            left = left.wrapping_sub(1);
            left < count
        });
        ending.is_none() && !self.graph.branches_before_end(SCRATCH)
    }

    /// The address behind a Q element is known, or will not be.
    fn end_q(&mut self, next: Option<u64>, sink: &mut impl FlowSink) {
        let Some(Q { place, start, count, in_a_row }) = self.q.take() else { return };
        match next.filter(|_| in_a_row).and_then(|next| self.graph.block(SCRATCH).outcome(next)) {
            Some(taken) => self.tell_stretch(place, taken, sink),
            None => sink.item(Ok(place.with(Item::Q { start, next, instructions: count }))),
        }
    }

    /// Tells an item, behind what is still open.
    fn emit(&mut self, place: Place, item: Item, sink: &mut impl FlowSink) {
        let holds = !matches!(self.held, Held::Nothing);
        let waits = self.speculates && holds && self.behind.len() < MOST_BEHIND;
        if waits {
            self.behind.push(place.with(item));
        } else {
            self.flush(sink);
            sink.item(Ok(place.with(item)));
        }
    }

    fn held_steps(&self) -> &[Step] {
        match &self.held {
            Held::Nothing => &[],
            Held::Kept(run) => self.runs.steps(run),
            Held::InHand => &self.hand,
        }
    }

    /// Tells the last run: nothing can change it any more.
    fn flush(&mut self, sink: &mut impl FlowSink) {
        if matches!(self.held, Held::Nothing) {
            return;
        }
        let steps = self.held_steps();
        match steps.split_last() {
            Some((&last, before))
                if !self.graph.block(last.block()).can_be(last.taken()) && last.block() != SCRATCH =>
            {
                if !before.is_empty() {
                    self.tell_run(before, self.held_offset, sink);
                }
                self.tell_impossible(last, sink);
            }
            Some(_) => self.tell_run(steps, self.held_offset, sink),
            None => {}
        }
        self.hand.clear();
        self.held = Held::Nothing;
        self.behind.drain(..).for_each(|item| sink.item(Ok(item)));
    }

    /// No mispredict has mended the outcome of the last atom: it cannot be right. If execution went on from there, it is
    /// lost.
    fn tell_impossible(&mut self, last: Step, sink: &mut impl FlowSink) {
        let at = self.graph.block(last.block()).last_address();
        let value = Item::Finding(Finding::NotTaken { at });
        sink.item(Ok(Located { offset: self.held_offset, length: 0, value }));
        if self.runs.block(self.node) == self.graph.follow(&self.memory, last.block(), last.taken()) {
            self.node = LOST;
            self.at = LOST;
            self.target = None;
            self.cause = Cause::Disagreement;
            self.stack.clear();
        }
    }

    fn tell_run(&self, steps: &[Step], offset: u64, sink: &mut impl FlowSink) {
        sink.run(Run { graph: &self.graph, steps, instructions: instructions(&self.graph, steps), offset });
        if traits(&self.graph, steps).eret() {
            self.tell_return(offset, sink);
        }
    }

    /// The return addresses that a kept run leaves.
    fn push_links(&mut self, run: &runs::Run) {
        if !self.return_stack {
            return;
        }
        self.stack.clear_if_pending();
        if run.traits.links() {
            for &step in self.runs.steps(run) {
                let block = self.graph.block(step.block());
                if step.taken() && block.last.link {
                    self.stack.push(block.behind());
                }
            }
        }
    }
}

fn sub_isa(isa: Isa) -> SubIsa {
    match isa {
        Isa::A64 | Isa::A32 => SubIsa::Is0,
        Isa::T32 => SubIsa::Is1,
    }
}

/// How far it is from one address up to another, around the top of memory if need be.
fn distance(isa: Isa, from: u64, to: u64) -> u64 {
    crate::code::within(isa, to.wrapping_sub(from))
}
