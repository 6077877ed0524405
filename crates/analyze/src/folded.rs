//! Folded stacks, the input of flame graphs: call stacks with their cost.
//!
//! tree ─▶ **folded stacks**
//!
//! Equal stacks are merged. The cost of a stack is the own cost of its innermost function.

use std::collections::BTreeMap;

use crate::calls::{Call, Cost};

/// Maximum number of stacks; further stacks are merged into their callers.
const LIMIT: usize = 1 << 21;

/// Maximum depth of a stack; deeper stacks lack their innermost functions.
const DEPTH: usize = 1 << 10;

/// Stacks with their cost.
#[derive(Debug, Clone, Default)]
pub struct Folded {
    nodes: Vec<Node>,
    children: BTreeMap<(Option<u32>, u64), u32>,
    /// The current stack, outermost first. A call that is not counted has the node of its caller, if that has one.
    stack: Vec<Option<u32>>,
    is_complete_only: bool,
}

#[derive(Debug, Clone)]
struct Node {
    /// Number of functions below it on the stack.
    depth: usize,
    function: u64,
    own: Cost,
}

impl Folded {
    /// An empty set of stacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set of stacks that counts only the root and the calls whose beginning and end are in the trace. The own
    /// cost of other calls is added to their callers.
    pub fn of_complete_calls() -> Self {
        Self { is_complete_only: true, ..Self::default() }
    }

    /// Adds the next call of a complete tree with its depth. See [`Forest::each`](crate::tree::Forest::each).
    pub fn add(&mut self, depth: usize, call: &Call) {
        self.begin(depth, call);
        self.add_own(depth, call.own);
    }

    /// As [`add`](Self::add), but the cost is added [when it is known](Self::add_own).
    pub fn begin(&mut self, depth: usize, call: &Call) {
        self.stack.truncate(depth);
        let parent = self.stack.last().copied().flatten();
        let is_counted = !self.is_complete_only || call.is_complete() || call.is_root();
        let node = if is_counted && depth < DEPTH { self.node(parent, call.function) } else { None };
        if self.stack.len() < DEPTH {
            self.stack.push(node.or(parent));
        }
    }

    /// Adds to the own cost of the call in progress at this depth.
    pub fn add_own(&mut self, depth: usize, own: Cost) {
        // Deeper calls have the cost of the deepest one.
        let node = self.stack.get(depth).or(self.stack.last()).copied().flatten();
        if let Some(node) = node.and_then(|node| self.nodes.get_mut(node as usize)) {
            node.own.add(own);
        }
    }

    fn node(&mut self, parent: Option<u32>, function: u64) -> Option<u32> {
        if let Some(node) = self.children.get(&(parent, function)) {
            return Some(*node);
        }
        let node = u32::try_from(self.nodes.len()).ok().filter(|node| (*node as usize) < LIMIT)?;
        let depth = parent.map_or(0, |parent| self.nodes[parent as usize].depth + 1);
        self.nodes.push(Node { depth, function, own: Cost::default() });
        self.children.insert((parent, function), node);
        Some(node)
    }

    /// Passes each stack and its cost to `sink`. A stack is the addresses of its functions, the outermost first. A stack
    /// comes before the deeper stacks that start with it; stacks of the same depth are sorted by address.
    pub fn each<E>(&self, mut sink: impl FnMut(&[u64], Cost) -> Result<(), E>) -> Result<(), E> {
        let mut path = Vec::new();
        let mut waiting: Vec<u32> = self.called_by(None).rev().collect();
        while let Some(node) = waiting.pop() {
            let Node { depth, function, own } = self.nodes[node as usize];
            path.truncate(depth);
            path.push(function);
            sink(&path, own)?;
            waiting.extend(self.called_by(Some(node)).rev());
        }
        Ok(())
    }

    fn called_by(&self, node: Option<u32>) -> impl DoubleEndedIterator<Item = u32> {
        self.children.range((node, 0)..=(node, u64::MAX)).map(|(_, node)| *node)
    }
}
