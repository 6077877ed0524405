//! The walk through the code along committed elements.
//!
//! committed elements + [`CodeMemory`] ─▶ **runs of ranges**, items
//!
//! The trace has the outcomes of branches, the code has the branches. What a trace unit leaves out because the code
//! implies it is restored here. Does not know packets, protocols, files or opcodes. Nothing is guessed: where code or an
//! address is missing, that is an item, and the walk resumes at the next address.
//! Specification: Arm DDI 0487, trace analyzer, stage 3.

mod atoms;
mod conditions;
mod held;
mod partial_block;
mod per_instruction;
mod seam;
mod state;
mod waypoint;

use unspool_coresight::{
    Context, Element, ElementError, ElementItem, Extent, FlowRules, Located, Security, SubIsa, Target as ElementTarget,
};
use unspool_isa::{Isa, Target};

use self::conditions::Conditions;
pub(crate) use self::state::Seam;
use self::state::{Held, Q};
use crate::graph::{BlockId, Graph, LOST, Mode, NEEDS_ADDRESS, NO_CODE};
use crate::item::{Cause, Finding, FlowSink, Item, Transaction, WalkStep};
use crate::memory::{CodeMemory, MapId, Space};
use crate::runs::{NodeId, Runs};
use crate::stack::ReturnStack;

/// The space before the first context.
const NOWHERE: Space = Space::new(Security::Secure, 0);

/// Walks the code along the elements. Feed it with [`push`](Self::push), end with [`finish`](Self::finish).
#[derive(Debug)]
pub struct Walker<M> {
    memory: M,
    rules: FlowRules,
    graph: Graph,
    runs: Runs,
    stack: ReturnStack,
    context: Option<Context>,
    /// The modes of the context, for either sub-ISA.
    modes: [Mode; 2],
    /// The address map of the context.
    map: MapId,
    /// The node of the block that is executed next, or the reason why it is unknown. While cached runs follow each other,
    /// only this is up to date.
    node: NodeId,
    /// The block itself, up to date on the slow path.
    at: BlockId,
    /// The address where execution continues, if there is no code or no context yet.
    target: Option<ElementTarget>,
    /// An exception was taken: the next address need not follow from the code.
    after_exception: bool,
    /// The last run, which a mispredict may still change, and its offset.
    held: Held,
    held_offset: u64,
    /// The steps of a run that is not cached.
    steps: Vec<WalkStep>,
    /// The trace does not continue after the last run.
    held_before_break: bool,
    /// The items after the last run.
    held_items: Vec<Located<Item>>,
    /// Conditional instructions that wait for their results.
    conditions: Conditions,
    /// A Q element that waits for the address after it.
    q: Option<Q>,
    /// P0 elements that could not be followed: their number, the offset of the first, and the cause.
    lost: u64,
    lost_offset: u64,
    cause: Cause,
}

/// Code that a walk has decoded. Another walk through the same program starts with it instead of decoding it again.
#[derive(Debug)]
pub struct KnownCode {
    rules: FlowRules,
    graph: Graph,
    runs: Runs,
}

impl KnownCode {
    /// No code yet, for walks with these rules.
    pub fn new(rules: FlowRules) -> Self {
        Self { rules, graph: Graph::new(rules), runs: Runs::new() }
    }

    /// The rules of the walk.
    pub fn rules(&self) -> FlowRules {
        self.rules
    }
}

impl<M: CodeMemory> Walker<M> {
    /// A walker that waits for its first address.
    pub fn new(rules: FlowRules, memory: M) -> Self {
        Self::with_code(KnownCode::new(rules), memory)
    }

    /// A walker that starts with code of the same memory.
    pub fn with_code(KnownCode { rules, mut graph, runs }: KnownCode, memory: M) -> Self {
        let modes = [graph.mode(NOWHERE, Isa::A32), graph.mode(NOWHERE, Isa::T32)];
        Self {
            memory,
            rules,
            graph,
            runs,
            stack: ReturnStack::new(),
            context: None,
            modes,
            map: MapId::ONLY,
            node: LOST,
            at: LOST,
            target: None,
            after_exception: false,
            held: Held::Nothing,
            held_offset: 0,
            steps: Vec::new(),
            held_before_break: false,
            held_items: Vec::new(),
            conditions: Conditions::default(),
            q: None,
            lost: 0,
            lost_offset: 0,
            cause: Cause::NoAddress,
        }
    }

    /// The code that was decoded, for another walk.
    pub fn into_code(self) -> KnownCode {
        KnownCode { rules: self.rules, graph: self.graph, runs: self.runs }
    }

    /// Follows the next element, or passes on the error in its place.
    #[inline(always)]
    pub fn push(&mut self, item: ElementItem, sink: &mut dyn FlowSink) {
        match item {
            Ok(Located { offset, length, value: Element::Atoms(atoms) }) => {
                self.atoms(Extent { offset, length }, atoms, sink);
            }
            Ok(Located { offset, length, value: Element::TargetAddress(target) }) => {
                self.target(Extent { offset, length }, target, sink);
            }
            Ok(Located { offset, length, value: Element::CycleCount(cycles) }) => {
                self.emit(Extent { offset, length }, Item::CycleCount(cycles), sink);
            }
            Ok(other) => self.element(&other, sink),
            Err(error) => self.error(error, sink),
        }
    }

    /// The map changes at this offset: from now on, code comes from this memory. Code that is known stays known, since the number of
    /// a map always stands for the same code.
    pub fn change_map(&mut self, offset: u64, memory: M, sink: &mut dyn FlowSink) {
        self.load_block();
        self.memory = memory;
        if let Some(context) = self.context {
            self.move_to(Extent { offset, length: 0 }, context, sink);
        }
        self.clear_if_full(sink);
        self.save_node();
    }

    /// Ends the trace at this offset in the buffer.
    pub fn finish(&mut self, offset: u64, sink: &mut dyn FlowSink) {
        let end = Extent { offset, length: 0 };
        self.forget_position(sink);
        self.save_node();
        self.emit(end, Item::End, sink);
        self.flush(sink);
    }

    #[inline(always)]
    pub(crate) fn target(&mut self, extent: Extent, target: ElementTarget, sink: &mut dyn FlowSink) {
        if self.node == NEEDS_ADDRESS
            && let Some(node) = self.graph.target_node(self.modes[target.isa as usize], target.address)
        {
            self.after_exception = false;
            self.node = node;
        } else {
            self.new_target(extent, target, sink);
        }
    }

    #[inline(never)]
    fn new_target(&mut self, extent: Extent, target: ElementTarget, sink: &mut dyn FlowSink) {
        self.load_block();
        self.end_q(Some(target.address), sink);
        self.report_lost(sink);
        self.clear_if_full(sink);
        let accepts_any = std::mem::take(&mut self.after_exception) || self.holds_impossible();
        let expected = self.position().filter(|_| !accepts_any);
        if let Some(expected) = expected.filter(|&expected| expected != target.address) {
            let finding = Finding::Unreachable { expected, found: target.address };
            self.report_finding(extent, finding, sink);
        }
        if self.context.is_some() {
            self.enter(target);
        } else {
            self.target = Some(target);
        }
        self.save_node();
        if self.context.is_some() && self.at != NO_CODE {
            self.graph.set_target_node(self.modes[target.isa as usize], target.address, self.node);
        }
    }

    /// The address and sub-ISA of a block, or of the address without code.
    fn location(&self, id: BlockId) -> Option<ElementTarget> {
        match id {
            NEEDS_ADDRESS | LOST => None,
            NO_CODE => self.target,
            block => Some(element_target(self.graph.block(block).entry())),
        }
    }

    /// The address of the code that is executed next, if it is known.
    fn position(&self) -> Option<u64> {
        self.location(self.at).map(|target| target.address)
    }

    fn enter(&mut self, target: ElementTarget) {
        let mode = self.modes[target.isa as usize];
        self.at = self.graph.enter(&self.memory, mode, target.address);
        self.target = Some(target);
    }

    /// Clears the graph and the cached runs if they have become too large.
    pub(super) fn clear_if_full(&mut self, sink: &mut dyn FlowSink) {
        if !self.graph.is_full() && !self.runs.is_full() {
            return;
        }
        self.flush(sink);
        let location = self.location(self.at);
        self.runs = Runs::new();
        self.graph = Graph::new(self.rules);
        self.modes = [self.graph.mode(NOWHERE, Isa::A32), self.graph.mode(NOWHERE, Isa::T32)];
        if let Some(context) = self.context {
            self.modes = self.modes_of(&context);
        }
        if let Some(target) = location {
            self.enter(target);
        }
        self.save_node();
    }

    #[inline(never)]
    fn element(&mut self, element: &Located<Element>, sink: &mut dyn FlowSink) {
        self.load_block();
        self.apply(element, sink);
        self.save_node();
    }

    fn apply(&mut self, element: &Located<Element>, sink: &mut dyn FlowSink) {
        let extent = Extent::of(element);
        match element.value {
            Element::Context(context) => self.new_context(extent, context, sink),
            // The trace unit has emptied its return stack. The P0 element before may still rely on it.
            Element::TraceInfo { .. } => {
                if self.rules.waypoints {
                    self.ask_return_stack();
                }
                self.stack.clear_later();
                // Decoding may start here, without the instructions before.
                self.conditions.clear();
            }
            Element::TraceOn => self.break_flow(extent, Item::TraceOn, sink),
            Element::Discard => {
                let uncertain_branch = self.uncertain_branch();
                self.break_flow(extent, Item::Discard { uncertain_branch }, sink);
            }
            Element::Overflow => self.break_flow(extent, Item::Overflow, sink),
            Element::Mispredict => self.mispredict(extent, sink),
            Element::Q { count } => self.q(extent, count, sink),
            Element::Exception { number, address } if self.rules.waypoints => {
                self.exception_here(extent, number, address, sink);
            }
            Element::Exception { number, address } => self.exception(extent, number, address, sink),
            Element::WaypointUpdate(waypoint) => self.waypoint_update(extent, waypoint, sink),
            Element::OtherCode { address, isa } => self.other_code(extent, address, isa, sink),
            Element::SourceAddress(source) => self.source_address(extent, source, sink),
            Element::ExceptionReturn => self.exception_return(extent, sink),
            Element::FunctionReturn => self.emit(extent, Item::FunctionReturn, sink),
            Element::TransactionStart => self.emit(extent, Item::Transaction(Transaction::Start), sink),
            Element::TransactionCommit => self.emit(extent, Item::Transaction(Transaction::Commit), sink),
            Element::TransactionFailure => {
                self.flush(sink);
                self.wait_for_address();
                self.emit(extent, Item::Transaction(Transaction::Failure), sink);
            }
            Element::Timestamp { value, cycles } => self.emit(extent, Item::Timestamp { value, cycles }, sink),
            Element::Event { mask } => self.emit(extent, Item::Event { mask }, sink),
            Element::TimestampMarker => self.emit(extent, Item::Marker, sink),
            Element::Trigger => self.emit(extent, Item::Trigger, sink),
            Element::Instrumentation { el, value } => self.emit(extent, Item::Instrumentation { el, value }, sink),
            Element::Etm4(own) => self.etm4(extent, own, sink),
            Element::Etm3(own) => self.etm3(extent, own, sink),
            // Atoms and addresses do not get here, nor commits and cancels; the others do not concern the flow.
            _ => {}
        }
    }

    #[inline(never)]
    fn error(&mut self, error: ElementError, sink: &mut dyn FlowSink) {
        if error.kind.breaks_flow() {
            self.forget_position(sink);
            self.save_node();
        }
        self.flush(sink);
        sink.item(Err(error));
    }

    fn break_flow(&mut self, extent: Extent, item: Item, sink: &mut dyn FlowSink) {
        self.forget_position(sink);
        self.emit(extent, item, sink);
    }

    /// Resets at a break: the following trace does not continue the preceding one.
    fn forget_position(&mut self, sink: &mut dyn FlowSink) {
        self.end_q(None, sink);
        self.report_lost(sink);
        self.held_before_break = !matches!(self.held, Held::Nothing);
        self.wait_for_address();
        self.after_exception = false;
        self.context = None;
        self.conditions.clear();
        self.stack.clear_later();
    }

    fn new_context(&mut self, extent: Extent, context: Context, sink: &mut dyn FlowSink) {
        if self.context == Some(context) {
            return;
        }
        self.report_lost(sink);
        self.emit(extent, Item::Context(context), sink);
        self.move_to(extent, context, sink);
        self.clear_if_full(sink);
    }

    /// Continues at the same address in the modes of a context.
    fn move_to(&mut self, extent: Extent, context: Context, sink: &mut dyn FlowSink) {
        let map = std::mem::replace(&mut self.map, self.memory.map_of(&context));
        if map != self.map {
            self.emit(extent, Item::Map(self.map), sink);
        }
        let modes = self.modes_of(&context);
        let location = if self.at == LOST { self.target } else { self.location(self.at) };
        let moves = self.modes != modes || self.context.is_none();
        self.context = Some(context);
        self.modes = modes;
        if let Some(target) = location.filter(|_| moves) {
            self.enter(target);
        }
    }

    fn modes_of(&mut self, context: &Context) -> [Mode; 2] {
        let space = Space { security: context.security, el: context.el, map: self.map };
        let isas = if context.aarch64 { [Isa::A64; 2] } else { [Isa::A32, Isa::T32] };
        isas.map(|isa| self.graph.mode(space, isa))
    }

    fn space(&self) -> Space {
        self.graph.space(self.modes[0])
    }
}

fn element_target(Target { address, isa }: Target) -> ElementTarget {
    ElementTarget { address, isa: if isa == Isa::T32 { SubIsa::Is1 } else { SubIsa::Is0 } }
}
