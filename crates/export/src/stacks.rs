//! Stacks of function names with what they cost, of one trace or of two to compare.
//!
//! stacks, the outermost function first ─▶ **tree of equal stacks** ─▶ flame graphs
//!
//! Equal stacks are merged by the names of their functions.

use std::collections::HashMap;

use unspool_analyze::calls::Cost;

/// Maximum number of stacks; further ones are merged into their callers.
const LIMIT: usize = 1 << 21;

/// The parent of the outermost functions.
const NONE: u32 = u32::MAX;

/// A trace, of one or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The trace that is shown.
    Shown = 0,
    /// The trace that it is compared with.
    Base = 1,
}

/// Merged stacks.
#[derive(Debug, Clone, Default)]
pub struct StackTree {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    pub(crate) nodes: Vec<StackNode>,
    found: HashMap<(u32, u32), u32>,
}

/// A function within a stack.
#[derive(Debug, Clone)]
pub(crate) struct StackNode {
    /// Its caller, which comes before it in the tree.
    pub(crate) parent: Option<usize>,
    name: u32,
    /// Own cost in both traces.
    pub(crate) own: [Cost; 2],
}

impl StackTree {
    /// A tree without stacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of different stacks.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds the own cost of the innermost function of a stack.
    pub fn add<N: AsRef<str>>(&mut self, side: Side, stack: &[N], own: Cost) {
        let mut at = NONE;
        for name in stack {
            let name = self.number(name.as_ref());
            match self.node(at, name) {
                Some(node) => at = node,
                None => break,
            }
        }
        if let Some(node) = self.nodes.get_mut(at as usize) {
            let cost = &mut node.own[side as usize];
            cost.time = cost.time.saturating_add(own.time);
            cost.instructions = cost.instructions.saturating_add(own.instructions);
        }
    }

    /// Names of functions with their weight without and with callees, in the trace that is shown, the hottest first. A function within
    /// itself is counted once.
    pub fn functions(&self, weight: &dyn Fn(Cost) -> u64) -> Vec<(&str, u64, u64)> {
        let mut totals: Vec<u64> = self.nodes.iter().map(|node| weight(node.own[Side::Shown as usize])).collect();
        let mut rows: Vec<(&str, u64, u64)> = self.names.iter().map(|name| (&**name, 0, 0)).collect();
        for (node, own) in self.nodes.iter().zip(&totals) {
            if let Some((_, sum, _)) = rows.get_mut(node.name as usize) {
                *sum = sum.saturating_add(*own);
            }
        }
        for index in (0..self.nodes.len()).rev() {
            let total = totals[index];
            if let Some(parent) = self.nodes[index].parent {
                totals[parent] = totals[parent].saturating_add(total);
            }
        }
        for (node, total) in self.nodes.iter().zip(&totals) {
            if let Some((_, _, sum)) = rows.get_mut(node.name as usize).filter(|_| !self.is_within_itself(node)) {
                *sum = sum.saturating_add(*total);
            }
        }
        rows.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        rows
    }

    fn is_within_itself(&self, node: &StackNode) -> bool {
        let caller = |node: &&StackNode| node.parent.and_then(|parent| self.nodes.get(parent));
        std::iter::successors(caller(&node), caller).any(|outer| outer.name == node.name)
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    fn node(&mut self, parent: u32, name: u32) -> Option<u32> {
        if let Some(node) = self.found.get(&(parent, name)) {
            return Some(*node);
        }
        if self.nodes.len() >= LIMIT {
            return None;
        }
        let node = self.nodes.len() as u32;
        let is_outermost = parent == NONE;
        self.nodes.push(StackNode {
            parent: (!is_outermost).then_some(parent as usize),
            name,
            own: Default::default(),
        });
        self.found.insert((parent, name), node);
        Some(node)
    }

    pub(crate) fn name_of(&self, node: &StackNode) -> &str {
        self.names.get(node.name as usize).map_or("", |name| name)
    }
}
