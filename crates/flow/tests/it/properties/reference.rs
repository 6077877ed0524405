//! Reference walk through the code along committed elements, instruction by instruction.
//!
//! committed elements + program ─▶ **flow events**
//!
//! Slow, short and without caches. A64 only.

use std::fmt;

use unspool_coresight::etm4::{Config, PacketItem};
use unspool_coresight::{Context, Element, ElementItem, Security, Transactions};
use unspool_flow::{
    Around, CodeMemory, Finding, FlowDecoder, FlowItem, FlowSink, Instruction, InstructionSink, Instructions, Item,
    Run, Space,
};
use unspool_isa::{ControlFlow, Decoded, Isa, decode};

/// Greatest number of instructions of a range, and up to a return or source address.
const LONGEST: u64 = 1 << 14;
const DEPTH: usize = 15;

/// Code of two Exception levels: that of EL1 starts later, so the same address is other code there.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) base: u64,
    bytes: [Vec<u8>; 2],
}

impl Program {
    pub(crate) fn new(base: u64, words: &[u32]) -> Self {
        let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let shifted: Vec<u32> = words[words.len() / 2..].iter().chain(words).copied().collect();
        Self { base, bytes: [bytes(words), bytes(&shifted)] }
    }

    pub(crate) fn facts(&self, el: u8, address: u64) -> Option<Decoded> {
        let space = Space::new(Security::NonSecure, el);
        let word = self.read(address, space, &mut []).first_chunk()?;
        Some(decode(Isa::A64, address, u32::from_le_bytes(*word)))
    }
}

/// The opcodes of EL0: EL1 has those from the middle on, and then all of them.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.bytes[0].as_chunks().0.iter().map(|&word| u32::from_le_bytes(word));
        words.enumerate().try_for_each(|(at, word)| write!(f, " {:x}:{word:08x}", self.base + 4 * at as u64))
    }
}

impl CodeMemory for Program {
    fn read<'b>(&'b self, address: u64, space: Space, _buffer: &'b mut [u8]) -> &'b [u8] {
        let offset = usize::try_from(address.wrapping_sub(self.base)).unwrap_or(usize::MAX);
        self.bytes[usize::from(space.el & 1)].get(offset..).unwrap_or_default()
    }
}

/// An event of a walk, as far as it is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowEvent {
    Range { start: u64, end: u64, taken: bool },
    Exception { number: u16, return_address: Option<u64> },
    Q { start: Option<u64>, next: Option<u64>, count: Option<u32> },
    NoCode { address: u64 },
    Lost { elements: u64 },
    Finding(Finding),
}

impl FlowEvent {
    pub(crate) fn is_problem(&self) -> bool {
        matches!(self, FlowEvent::NoCode { .. } | FlowEvent::Lost { .. } | FlowEvent::Finding(_))
    }
}

impl fmt::Debug for FlowEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowEvent::Range { start, end, taken } => {
                write!(f, "{start:x}..{end:x} {}", if *taken { "E" } else { "N" })
            }
            FlowEvent::Exception { number, return_address } => write!(f, "exception {number} {return_address:x?}"),
            FlowEvent::Q { start, next, count } => write!(f, "Q {start:x?} {next:x?} {count:?}"),
            FlowEvent::NoCode { address } => write!(f, "no code {address:x}"),
            FlowEvent::Lost { elements } => write!(f, "lost {elements}"),
            FlowEvent::Finding(finding) => write!(f, "finding: {finding}"),
        }
    }
}

/// The events of the walk under test.
pub(crate) fn flow_events(config: &Config, program: &Program, packets: &[PacketItem]) -> Vec<FlowEvent> {
    let mut decoder = FlowDecoder::new(config, Transactions::Show, program);
    let mut sink = EventSink(vec![]);
    packets.iter().for_each(|packet| decoder.push(*packet, &mut sink));
    decoder.finish(packets.len() as u64, &mut sink);
    sink.0
}

/// The ranges that the instructions of the walk under test form, with the outcome of the last of each, where known.
pub(crate) fn instruction_ranges(
    config: &Config,
    program: &Program,
    packets: &[PacketItem],
) -> Vec<(u64, u64, Option<bool>)> {
    let mut decoder = FlowDecoder::new(config, Transactions::Show, program);
    let mut sink = Instructions::new(Joiner::default());
    packets.iter().for_each(|packet| decoder.push(*packet, &mut sink));
    decoder.finish(packets.len() as u64, &mut sink);
    sink.into_sink().ranges
}

/// Joins instructions to ranges.
#[derive(Default)]
struct Joiner {
    start: Option<u64>,
    ranges: Vec<(u64, u64, Option<bool>)>,
}

impl InstructionSink for Joiner {
    fn instruction(&mut self, instruction: &Instruction, _: &Around) {
        let &Instruction { address, opcode, isa, branch, .. } = instruction;
        let start = self.start.take().unwrap_or(address);
        let facts = decode(isa, address, opcode);
        assert!(instruction.ends_range || branch.is_none());
        if let (Some(branch), Some(target)) = (branch, facts.target) {
            assert_eq!(branch.target, branch.taken.then_some(target.address));
        }
        if instruction.ends_range {
            self.ranges.push((start, address.wrapping_add(4), branch.map(|branch| branch.taken)));
        } else {
            self.start = Some(start);
        }
    }

    fn item(&mut self, _: FlowItem) {}
}

struct EventSink(Vec<FlowEvent>);

impl FlowSink for EventSink {
    fn run(&mut self, run: Run<'_>) {
        assert_eq!(run.ranges().map(|range| u64::from(range.instructions())).sum::<u64>(), run.instructions());
        for range in run.ranges() {
            let (start, end, taken) = (range.start(), range.end(), range.taken());
            assert_eq!(range.opcodes().len() as u64 * 4, end.wrapping_sub(start));
            self.0.push(FlowEvent::Range { start, end, taken });
        }
    }

    fn item(&mut self, item: FlowItem) {
        self.0.extend(match item.map(|item| item.value) {
            Ok(Item::Exception { number, return_address }) => {
                Some(FlowEvent::Exception { number: number.value, return_address })
            }
            Ok(Item::Q { start, next, instructions: count }) => Some(FlowEvent::Q { start, next, count }),
            Ok(Item::NoCode { address, .. }) => Some(FlowEvent::NoCode { address }),
            Ok(Item::Lost { elements, .. }) => Some(FlowEvent::Lost { elements }),
            Ok(Item::Finding(finding)) => Some(FlowEvent::Finding(finding)),
            _ => None,
        });
    }
}

/// The position; in the specification the synchronization state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Not synchronized, or waiting for an address.
    Unknown,
    /// After an indirect branch: an address follows, or the return stack has it.
    Awaited,
    Known(u64),
}

/// The last atom, which a mispredict may invert.
#[derive(Debug, Clone, Copy)]
struct Last {
    start: u64,
    end: u64,
    facts: Decoded,
    taken: bool,
}

/// A Q element whose next address is awaited.
#[derive(Debug)]
struct Q {
    start: Option<u64>,
    count: Option<u32>,
    /// Its instructions, if they are known.
    all: Option<Vec<Decoded>>,
}

impl Last {
    fn leads_to(&self) -> At {
        match self.facts.flow {
            ControlFlow::Indirect | ControlFlow::ExceptionReturn if self.taken => At::Awaited,
            ControlFlow::Direct if self.taken => At::Known(self.facts.target.map_or(self.end, |target| target.address)),
            _ => At::Known(self.end),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ReferenceWalk<'p> {
    program: &'p Program,
    config: Config,
    at: At,
    /// `None`: not traced since the last break.
    context: Option<Context>,
    /// An address that came before its context.
    address: Option<u64>,
    /// An exception was taken, and no address came since.
    anywhere: bool,
    stack: Vec<u64>,
    clear_pending: bool,
    /// Calls are unknown: the trace unit may have had more on its stack.
    incomplete: bool,
    last: Option<Last>,
    /// The trace does not continue after the last atom: only a mispredict may still follow.
    broken: bool,
    q: Option<Q>,
    lost: u64,
    events: Vec<FlowEvent>,
}

impl<'p> ReferenceWalk<'p> {
    pub(crate) fn new(config: &Config, program: &'p Program) -> Self {
        Self {
            program,
            config: *config,
            at: At::Unknown,
            context: None,
            address: None,
            anywhere: false,
            stack: vec![],
            clear_pending: false,
            incomplete: false,
            last: None,
            broken: false,
            q: None,
            lost: 0,
            events: vec![],
        }
    }

    pub(crate) fn finish(mut self) -> Vec<FlowEvent> {
        self.forget();
        self.emit_last();
        self.events
    }

    pub(crate) fn element(&mut self, item: &ElementItem) {
        let element = match item {
            Ok(element) => element.value,
            Err(error) => {
                if error.kind.breaks_flow() {
                    self.forget();
                }
                return self.emit_last();
            }
        };
        match element {
            Element::Atoms(atoms) => atoms.iter().for_each(|taken| self.atom(taken)),
            Element::TargetAddress(target) => self.target(target.address),
            Element::Context(context) if self.context == Some(context) => {}
            Element::Context(context) => {
                self.report_lost();
                self.context = Some(context);
                if let Some(address) = self.address.take() {
                    self.at = At::Known(address);
                }
            }
            Element::Exception { number, address } => self.exception(number.value, address),
            Element::SourceAddress(source) => self.source(source.address),
            Element::Q { count } => self.q(count),
            Element::Mispredict => self.mispredict(),
            Element::TraceInfo { .. } => self.clear_pending = true,
            Element::TraceOn | Element::Discard | Element::Overflow => self.forget(),
            Element::TransactionFailure => {
                self.emit_last();
                self.at = At::Unknown;
                self.address = None;
            }
            _ => {}
        }
    }

    fn facts(&self, address: u64) -> Option<Decoded> {
        self.program.facts(self.context?.el, address)
    }

    fn is_p0(&self, facts: &Decoded) -> bool {
        facts.flow.is_p0() && (facts.flow != ControlFlow::Wfx || self.config.wfx_is_p0)
    }

    fn range(&mut self, start: u64, end: u64, taken: bool) {
        if start != end {
            self.events.push(FlowEvent::Range { start, end, taken });
        }
    }

    fn lose_position(&mut self, event: FlowEvent) {
        self.events.push(event);
        self.at = At::Unknown;
        self.forget_stack();
    }

    fn forget_stack(&mut self) {
        self.stack.clear();
        self.clear_pending = false;
        self.incomplete = true;
    }

    /// A P0 element whose position is unknown: it may have been a call.
    fn lose_element(&mut self) {
        self.lost += 1;
        self.forget_stack();
    }

    fn forget(&mut self) {
        self.broken = true;
        self.end_q(None);
        self.report_lost();
        self.at = At::Unknown;
        (self.context, self.address) = (None, None);
        self.clear_pending = true;
    }

    fn report_lost(&mut self) {
        match std::mem::take(&mut self.lost) {
            0 => {}
            elements => self.events.push(FlowEvent::Lost { elements }),
        }
    }

    fn ask_return_stack(&mut self) {
        if self.at == At::Awaited && self.config.return_stack {
            self.at = self.stack.pop().map_or(At::Awaited, At::Known);
        }
    }

    /// The position of a P0 element, if it is known.
    fn locate(&mut self) -> Option<u64> {
        self.emit_last();
        self.end_q(None);
        self.ask_return_stack();
        self.address = None;
        match self.at {
            At::Known(at) if self.facts(at).is_some() => Some(at),
            At::Known(address) => {
                self.lose_position(FlowEvent::NoCode { address });
                None
            }
            At::Awaited => {
                self.miss_target();
                None
            }
            At::Unknown => None,
        }
    }

    /// Nothing has the target of the indirect branch before.
    fn miss_target(&mut self) {
        if !(self.config.return_stack && self.incomplete) {
            self.lose_position(FlowEvent::Finding(Finding::NoTarget));
        }
        self.at = At::Unknown;
    }

    fn push_return_address(&mut self, facts: &Decoded, next: u64) {
        self.clear_if_pending();
        if facts.link {
            self.stack.push(next);
            self.stack.drain(..self.stack.len().saturating_sub(DEPTH));
        }
    }

    fn clear_if_pending(&mut self) {
        if std::mem::take(&mut self.clear_pending) {
            self.stack.clear();
            self.incomplete = false;
        }
    }

    fn atom(&mut self, taken: bool) {
        let Some(start) = self.locate() else { return self.lose_element() };
        let mut end = start;
        let facts = loop {
            let Some(facts) = self.facts(end) else {
                self.range(start, end, true);
                self.lost += 1;
                return self.lose_position(FlowEvent::NoCode { address: end });
            };
            end += 4;
            if self.is_p0(&facts) {
                break facts;
            }
        };
        if !taken && !facts.conditional && self.config.max_speculation == 0 {
            self.lost += 1;
            return self.lose_position(FlowEvent::Finding(Finding::NotTaken { at: end - 4 }));
        }
        self.push_return_address(&Decoded { link: facts.link && taken, ..facts }, end);
        let last = Last { start, end, facts, taken };
        (self.at, self.last) = (last.leads_to(), Some(last));
        if self.config.max_speculation == 0 {
            self.emit_last();
        }
    }

    /// Emits the last atom, which nothing can invert any more.
    fn emit_last(&mut self) {
        self.broken = false;
        let Some(last) = self.last.take() else { return };
        let finding = FlowEvent::Finding(Finding::NotTaken { at: last.end - 4 });
        match last.taken || last.facts.conditional {
            true => self.range(last.start, last.end, last.taken),
            false if self.at == last.leads_to() => self.lose_position(finding),
            // An address has since shown where execution continued.
            false => self.events.push(finding),
        }
    }

    fn mispredict(&mut self) {
        match &mut self.last {
            Some(last) => {
                last.taken = !last.taken;
                if !self.broken {
                    self.at = last.leads_to();
                }
            }
            // It is about a lost atom.
            None if self.lost > 0 => {}
            None => self.events.push(FlowEvent::Finding(Finding::Mispredict)),
        }
    }

    fn target(&mut self, found: u64) {
        self.end_q(Some(found));
        self.report_lost();
        // An impossible atom is the contradiction, not the address after it.
        let impossible = self.last.is_some_and(|last| !last.taken && !last.facts.conditional);
        let anywhere = std::mem::take(&mut self.anywhere) || impossible;
        if let At::Known(expected) = self.at
            && expected != found
            && !anywhere
        {
            self.emit_last();
            self.lose_position(FlowEvent::Finding(Finding::Unreachable { expected, found }));
        }
        if self.context.is_some() {
            self.at = At::Known(found);
        } else {
            self.address = Some(found);
        }
    }

    fn exception(&mut self, number: u16, return_address: Option<u64>) {
        self.emit_last();
        self.end_q(None);
        self.ask_return_stack();
        if self.at == At::Awaited && return_address.is_some() {
            self.miss_target();
            self.lose_element();
        }
        let was_known = matches!(self.at, At::Known(_));
        if let Some(end) = return_address {
            self.walk_to(end);
        }
        self.report_lost();
        self.clear_if_pending();
        self.events.push(FlowEvent::Exception { number, return_address });
        self.at = return_address.filter(|_| was_known).map_or(At::Unknown, At::Known);
        self.address = None;
        self.anywhere = true;
    }

    /// Walks up to an address without a taken branch.
    fn walk_to(&mut self, end: u64) {
        if self.at == At::Known(end) {
            return;
        }
        let Some(start) = self.locate() else { return };
        if end.wrapping_sub(start) > 4 * LONGEST {
            if !self.anywhere {
                let finding = Finding::ReturnAddress { at: start, return_address: end };
                self.lose_position(FlowEvent::Finding(finding));
            }
            return;
        }
        let finding = FlowEvent::Finding(Finding::ReturnAddress { at: start, return_address: end });
        let (mut at, mut last) = (start, None);
        while at != end {
            let next = self.facts(at);
            match (next, last) {
                (_, Some(last)) if is_unconditional_branch(last) => return self.lose_position(finding),
                (Some(facts), _) => last = Some(facts),
                (None, _) => {
                    self.range(start, at, last.is_none_or(|last| !self.is_p0(&last)));
                    return self.lose_position(FlowEvent::NoCode { address: at });
                }
            }
            at = at.wrapping_add(4);
        }
        match last {
            Some(last) if is_unconditional_branch(last) => self.lose_position(finding),
            Some(last) => self.range(start, end, !self.is_p0(&last)),
            None => {}
        }
    }

    /// Walks up to the taken branch at an address.
    fn source(&mut self, source_address: u64) {
        let Some(start) = self.locate() else { return self.lose_element() };
        let finding = FlowEvent::Finding(Finding::SourceAddress { at: start, source_address });
        if source_address.wrapping_sub(start) > 4 * LONGEST {
            self.lost += 1;
            return self.lose_position(finding);
        }
        let (mut end, mut last) = (start, None);
        loop {
            let next = self.facts(end);
            match (next, last) {
                (_, Some(last)) if is_unconditional_branch(last) => {
                    self.lost += 1;
                    return self.lose_position(finding);
                }
                (Some(facts), _) => last = Some(facts),
                (None, _) => {
                    self.range(start, end, last.is_none_or(|last| !self.is_p0(&last)));
                    self.lost += 1;
                    return self.lose_position(FlowEvent::NoCode { address: end });
                }
            }
            end = end.wrapping_add(4);
            let Some(facts) = last.filter(|_| end.wrapping_sub(4) == source_address) else { continue };
            if !self.is_p0(&facts) {
                self.lost += 1;
                return self.lose_position(finding);
            }
            self.push_return_address(&facts, end);
            let last = Last { start, end, facts, taken: true };
            (self.at, self.last) = (last.leads_to(), Some(last));
            // Not an atom: no mispredict can be about it.
            return self.emit_last();
        }
    }

    fn q(&mut self, count: Option<u32>) {
        let start = self.locate();
        if start.is_none() {
            self.lose_element();
        }
        self.report_lost();
        self.clear_if_pending();
        let each = |start: u64| (0..u64::from(count.unwrap_or(0))).map(move |index| start + 4 * index);
        let all = start.and_then(|start| each(start).map(|at| self.facts(at)).collect());
        self.q = Some(Q { start, count, all });
        self.at = At::Unknown;
    }

    /// Emits a Q element, as a range if there is no branch before its last instruction.
    fn end_q(&mut self, next: Option<u64>) {
        let Some(Q { start, count, all }) = self.q.take() else { return };
        let known = start.zip(all);
        // Without a branch, execution continues right after it.
        let branches = |all: &[Decoded]| all.is_empty() || all.iter().any(|facts| self.is_p0(facts));
        let following =
            known.as_ref().filter(|(_, all)| !branches(all)).map(|(start, all)| start + 4 * all.len() as u64);
        let certain = known.and_then(|(start, all)| self.straight_line(start, next.or(following)?, &all));
        self.events.push(certain.unwrap_or(FlowEvent::Q { start, next, count }));
        if let (None, Some(following), Some(_)) = (next, following, self.context) {
            self.at = At::Known(following);
        }
    }

    fn straight_line(&self, start: u64, next: u64, all: &[Decoded]) -> Option<FlowEvent> {
        let (last, before) = all.split_last()?;
        let end = start + 4 * all.len() as u64;
        let branches = match last.flow {
            ControlFlow::Indirect | ControlFlow::ExceptionReturn => true,
            ControlFlow::Direct => last.target.is_some_and(|target| target.address == next),
            _ => next == end,
        };
        let taken = !(next == end && last.conditional);
        let is_uncertain = before.iter().any(|facts| self.is_p0(facts)) || taken && !branches;
        (!is_uncertain).then_some(FlowEvent::Range { start, end, taken })
    }
}

fn is_unconditional_branch(facts: Decoded) -> bool {
    facts.flow.is_branch() && !facts.conditional
}
