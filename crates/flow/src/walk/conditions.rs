//! Conditional instructions other than branches: which of them were executed.
//!
//! The trace has an element for each of them, in the order of the program: the n-th since the last P0 element is the n-th such
//! instruction of the block that is being executed. Its result may come many blocks later, for all instructions with its key
//! at once, and is an item of its own then. What is not certain stays unknown; the path never depends on a result.
//! Specification: Arm IHI 0064, conditional instruction trace.

use std::collections::VecDeque;

use unspool_coresight::etm4::{ConditionOutcome, OwnElement};
use unspool_coresight::{ConditionScope, Extent};
use unspool_isa::{Isa, decode, transfers};

use super::Walker;
use crate::code::within;
use crate::graph::{BlockId, FIRST, Graph};
use crate::item::{Finding, FlowSink, Item};
use crate::memory::CodeMemory;

/// Greatest number of instructions that wait for their results; the oldest stay unknown.
const MAX_WAITING: usize = 256;

/// An instruction that waits for its result.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    key: u32,
    address: u64,
    /// Its condition, in the encoding of A32.
    condition: u8,
}

/// Instructions whose results have not come yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    waiting: VecDeque<Waiting>,
}

impl Conditions {
    /// Forgets all instructions: their results do not follow.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    fn push(&mut self, waiting: Waiting) {
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(waiting);
    }
}

impl<M: CodeMemory> Walker<M> {
    pub(super) fn etm4(&mut self, extent: Extent, own: OwnElement, sink: &mut dyn FlowSink) {
        match own {
            OwnElement::ConditionalInstruction { key, number: Some(number), follows_branch } => {
                self.conditional_instruction(extent, key, number, follows_branch, sink);
            }
            OwnElement::ConditionalResult { key: Some(key), outcome } => {
                self.conditional_result(extent, key, outcome, sink);
            }
            OwnElement::ConditionalFlush => self.conditions.clear(),
            // Markers do not concern the flow; nothing is known of the others.
            _ => {}
        }
    }

    fn conditional_instruction(
        &mut self,
        extent: Extent,
        key: Option<u32>,
        number: u32,
        follows_branch: bool,
        sink: &mut dyn FlowSink,
    ) {
        self.ask_return_stack();
        if self.at < FIRST || self.q.is_some() {
            return;
        }
        let block = self.graph.block(self.at);
        // A block of T32 that starts inside an IT block has conditions that the trace does not contain. Where loads and
        // stores end blocks, any may.
        let starts_anywhere = !follows_branch || self.rules.p0_loads || self.rules.p0_stores;
        if block.isa == Isa::T32 && starts_anywhere {
            return;
        }
        let at = block.start;
        match nth_conditional(&self.graph, self.at, self.rules.conditions, number) {
            Some((address, condition)) => {
                if let Some(key) = key {
                    self.conditions.push(Waiting { key, address, condition });
                }
            }
            None => self.emit(extent, Item::Finding(Finding::Conditional { at, number }), sink),
        }
    }

    fn conditional_result(&mut self, extent: Extent, key: u32, outcome: ConditionOutcome, sink: &mut dyn FlowSink) {
        let mut waiting = std::mem::take(&mut self.conditions.waiting);
        waiting.retain(|instruction| {
            if instruction.key != key {
                return true;
            }
            if let Some(passed) = outcome.passes(instruction.condition) {
                self.emit(extent, Item::Condition { address: instruction.address, passed }, sink);
            }
            false
        });
        self.conditions.waiting = waiting;
    }
}

/// The address and the condition of the n-th conditional instruction of a block that trace has an element for.
fn nth_conditional(graph: &Graph, id: BlockId, scope: ConditionScope, number: u32) -> Option<(u64, u8)> {
    let block = graph.block(id);
    let (isa, mut address) = (block.isa, block.start);
    let mut it = ItBlock::default();
    let mut left = number;
    for &opcode in graph.opcodes(id) {
        let condition = if isa == Isa::T32 { it.next(opcode) } else { Some((opcode >> 28) as u8) };
        let is_conditional = condition.is_some_and(|condition| condition < AL);
        let is_branch = decode(isa, address, opcode).flow.is_branch();
        if is_conditional && !is_branch && isa != Isa::A64 && is_selected(scope, isa, opcode) {
            if left == 0 {
                return condition.map(|condition| (address, condition));
            }
            left -= 1;
        }
        address = within(isa, address.wrapping_add(u64::from(isa.opcode_length(opcode))));
    }
    None
}

/// The condition that always holds.
const AL: u8 = 14;

fn is_selected(scope: ConditionScope, isa: Isa, opcode: u32) -> bool {
    let found = transfers(isa, opcode);
    match scope {
        ConditionScope::None => false,
        ConditionScope::Loads => found.loads,
        ConditionScope::Stores => found.stores,
        ConditionScope::LoadsAndStores => found.loads || found.stores,
        ConditionScope::All => true,
    }
}

/// The conditions of an IT block that are still to come: bits 7 to 4 the next one, as in the state of the PE.
#[derive(Debug, Clone, Copy, Default)]
struct ItBlock(u8);

impl ItBlock {
    /// The condition of the next instruction, if an IT instruction gave it one.
    fn next(&mut self, opcode: u32) -> Option<u8> {
        let condition = (self.0 & 0xf != 0).then_some(self.0 >> 4);
        let is_it = opcode & 0xffff_ff00 == 0xbf00 && opcode & 0xf != 0;
        self.0 = match self.0 {
            _ if is_it => opcode as u8,
            state if state & 0b111 == 0 => 0,
            state => state & 0xe0 | state << 1 & 0x1f,
        };
        condition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_it_instruction_gives_up_to_four_conditions() {
        // it eq; itte ne; ittet hi
        let rows: &[(u32, &[u8])] = &[(0xbf08, &[0]), (0xbf1a, &[1, 1, 0]), (0xbf85, &[8, 8, 9, 8])];
        for (it, expected) in rows {
            let mut block = ItBlock::default();
            assert_eq!(block.next(*it), None, "{it:#x} itself");
            let found: Vec<u8> = std::iter::from_fn(|| block.next(0x4608)).collect();
            assert_eq!(found, *expected, "{it:#x}");
        }
    }
}
