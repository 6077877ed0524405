//! The call tree: calls of a function by the same callers are one node.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::Refusal;
use crate::calls::Calls;
use crate::parameters::{Parameters, address};
use crate::rows::hex;

/// Limit of the nodes; calls beyond are part of what called them.
const MAX_NODES: usize = 1 << 20;
/// Limit of the children in an answer.
const MAX_CHILDREN: usize = 1000;

/// Nodes of the calls of all stacks, the first of which is above all others.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// By parent and function.
    known: HashMap<(u32, u64), u32>,
    /// The nodes of the calls in progress.
    path: Vec<u32>,
}

#[derive(Debug, Default)]
struct Node {
    function: u64,
    name: u32,
    calls: u64,
    own: u64,
    total: u64,
    children: Vec<u32>,
}

/// Numbers of instructions of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instructions {
    pub(crate) own: u64,
    pub(crate) total: u64,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: vec![Node::default()], known: HashMap::new(), path: Vec::new() }
    }
}

impl Tree {
    /// Adds a call after its callers.
    pub(crate) fn add(&mut self, depth: usize, function: u64, name: u32, instructions: Instructions) {
        self.path.truncate(depth);
        let parent = self.path.last().copied().unwrap_or(0);
        let node = match self.known.get(&(parent, function)) {
            Some(node) => *node,
            None if self.nodes.len() >= MAX_NODES => parent,
            None => {
                let node = self.nodes.len() as u32;
                self.nodes.push(Node { function, name, ..Node::default() });
                self.nodes[parent as usize].children.push(node);
                self.known.insert((parent, function), node);
                node
            }
        };
        self.path.push(node);
        let is_own = node != parent;
        let node = &mut self.nodes[node as usize];
        node.own += instructions.own;
        if is_own {
            node.calls += 1;
            node.total += instructions.total;
        }
    }

    /// A node by the functions from the outermost on.
    fn find(&self, path: &[u64]) -> Option<&Node> {
        let mut node = 0;
        for function in path {
            node = *self.known.get(&(node, *function))?;
        }
        self.nodes.get(node as usize)
    }
}

/// Answers a request for the children of a node.
pub(crate) fn answer(calls: &Calls, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let path = parameters.text("path").unwrap_or_default();
    let path: Vec<u64> = path.split(',').filter(|part| !part.is_empty()).map(address).collect::<Result<_, _>>()?;
    let node = calls.tree.find(&path).ok_or_else(|| Refusal::absent("there is no such call"))?;
    let mut children: Vec<&Node> = node.children.iter().map(|child| &calls.tree.nodes[*child as usize]).collect();
    children.sort_by_key(|child| std::cmp::Reverse(child.total));
    let json = |node: &&Node| {
        json!({
            "function": calls.name(node.name), "address": hex(node.function), "calls": node.calls, "own": node.own,
            "total": node.total,
        })
    };
    Ok(json!({"nodes": children.iter().take(MAX_CHILDREN).map(json).collect::<Vec<_>>()}))
}
