//! Folded stacks, of which flame graphs are made: who called whom, and what each stack comes to.
//!
//! tree ─▶ **folded stacks**
//!
//! Stacks that are the same from the outermost function to the innermost are one. What a stack comes to is what its
//! innermost function did by itself.

use std::collections::BTreeMap;

use crate::calls::{Call, Sums};

/// More stacks than this are not told apart: the innermost functions are left out of the others.
const LIMIT: usize = 1 << 21;

/// Deeper stacks than this are told without their innermost functions.
const DEPTH: usize = 1 << 10;

/// Stacks and what they come to.
#[derive(Debug, Clone, Default)]
pub struct Folded {
    nodes: Vec<Node>,
    children: BTreeMap<(Option<u32>, u64), u32>,
    /// The present stack, outermost first. A call that is not counted has the node of the one around it.
    stack: Vec<u32>,
    is_complete_only: bool,
}

#[derive(Debug, Clone)]
struct Node {
    /// How many functions are around it.
    depth: usize,
    function: u64,
    own: Sums,
}

impl Folded {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// None yet; only calls whose beginning and end are in the trace will count, and what it started in. What the others
    /// did by themselves counts for those around them.
    pub fn of_complete_calls() -> Self {
        Self { is_complete_only: true, ..Self::default() }
    }

    /// The next call of a whole tree, and how deep it is. See [`Tree::each`](crate::tree::Tree::each).
    pub fn add(&mut self, depth: usize, call: &Call) {
        self.stack.truncate(depth);
        let parent = self.stack.last().copied();
        let is_counted = !self.is_complete_only || call.is_complete() || call.is_root();
        let node = if is_counted && depth < DEPTH { self.node(parent, call.function) } else { None };
        let Some(node) = node.or(parent) else { return };
        self.nodes[node as usize].own.add(call.own);
        if self.stack.len() < DEPTH {
            self.stack.push(node);
        }
    }

    fn node(&mut self, parent: Option<u32>, function: u64) -> Option<u32> {
        if let Some(node) = self.children.get(&(parent, function)) {
            return Some(*node);
        }
        let node = u32::try_from(self.nodes.len()).ok().filter(|node| (*node as usize) < LIMIT)?;
        let depth = parent.map_or(0, |parent| self.nodes[parent as usize].depth + 1);
        self.nodes.push(Node { depth, function, own: Sums::default() });
        self.children.insert((parent, function), node);
        Some(node)
    }

    /// Hands out the stacks with what they come to: functions by where they begin, the outermost first. A stack comes
    /// before those that are deeper, and after that the order is that of addresses.
    pub fn each<E>(&self, mut take: impl FnMut(&[u64], Sums) -> Result<(), E>) -> Result<(), E> {
        let mut path = Vec::new();
        let mut waiting: Vec<u32> = self.called_by(None).rev().collect();
        while let Some(node) = waiting.pop() {
            let Node { depth, function, own } = self.nodes[node as usize];
            path.truncate(depth);
            path.push(function);
            take(&path, own)?;
            waiting.extend(self.called_by(Some(node)).rev());
        }
        Ok(())
    }

    fn called_by(&self, node: Option<u32>) -> impl DoubleEndedIterator<Item = u32> {
        self.children.range((node, 0)..=(node, u64::MAX)).map(|(_, node)| *node)
    }
}
