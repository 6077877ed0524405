//! The profile: cost per function.
//!
//! tree ─▶ **profile** ─▶ one row per function
//!
//! Functions are identified by their address. A function that calls itself, directly or through others, is on the stack
//! more than once; its total counts only the outermost of these calls, so that no total exceeds that of the trace.

use std::collections::{BTreeMap, HashMap};

use crate::calls::{Call, Cost};

/// Maximum number of functions with a row of their own.
const LIMIT: usize = 1 << 20;

/// Cost per function.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    rows: BTreeMap<u64, Row>,
    rest: Row,
    /// Cost of the root, which contains all other calls.
    total: Cost,
    /// The current stack, outermost first. A call that is not counted has the row of its caller.
    stack: Vec<Option<Key>>,
    /// Number of calls of each function on the stack.
    active: HashMap<Key, usize>,
    is_complete_only: bool,
}

/// Row of a function; `Rest`: all functions without a row of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Function(u64),
    Rest,
}

/// Cost of the calls of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// Number of calls, recursive ones too.
    pub calls: u64,
    /// Number of calls whose beginning or end is not in the trace.
    pub incomplete: u64,
    /// Cost including callees. Calls within another call of the same function are not counted again.
    pub total: Cost,
    /// Own cost, without callees.
    pub own: Cost,
}

impl Profile {
    /// An empty profile.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty profile that counts only the root and the calls whose beginning and end are in the trace. The own cost
    /// of other calls is added to their callers.
    pub fn of_complete_calls() -> Self {
        Self { is_complete_only: true, ..Self::default() }
    }

    /// Adds the next call of a complete tree with its depth. See [`Tree::each`](crate::tree::Tree::each).
    pub fn add(&mut self, depth: usize, call: &Call) {
        self.leave(depth);
        if call.is_root() {
            self.total.add(call.total());
        }
        let is_counted = !self.is_complete_only || call.is_complete() || call.is_root();
        if !is_counted {
            let caller = self.stack.iter().rev().copied().flatten().next();
            caller.into_iter().for_each(|caller| self.row(caller).own.add(call.own));
            return self.stack.push(None);
        }
        let key = self.key(call.function);
        let active = self.active.entry(key).or_default();
        let is_outermost = *active == 0;
        *active += 1;
        self.stack.push(Some(key));
        let row = self.row(key);
        row.calls += 1;
        row.incomplete += u64::from(!call.is_complete());
        row.own.add(call.own);
        if is_outermost {
            row.total.add(call.total());
        }
    }

    /// Ends the calls that are deeper than this.
    fn leave(&mut self, depth: usize) {
        while self.stack.len() > depth {
            let left = self.stack.pop().flatten();
            if let Some(active) = left.and_then(|key| self.active.get_mut(&key)) {
                *active -= 1;
            }
        }
    }

    fn key(&self, function: u64) -> Key {
        let has_row = self.rows.len() < LIMIT || self.rows.contains_key(&function);
        if has_row { Key::Function(function) } else { Key::Rest }
    }

    fn row(&mut self, key: Key) -> &mut Row {
        match key {
            Key::Function(function) => self.rows.entry(function).or_default(),
            Key::Rest => &mut self.rest,
        }
    }

    /// Cost of the whole trace: the sum of all own costs.
    pub fn total(&self) -> Cost {
        self.total
    }

    /// The rows, sorted by the address of the function.
    pub fn rows(&self) -> impl Iterator<Item = (u64, &Row)> {
        self.rows.iter().map(|(function, row)| (*function, row))
    }

    /// The functions without a row of their own, if there are too many functions.
    pub fn rest(&self) -> Option<&Row> {
        (self.rest.calls > 0).then_some(&self.rest)
    }
}
