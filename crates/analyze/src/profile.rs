//! The profile: cost per function.
//!
//! calls ─▶ **profile** ─▶ one row per function
//!
//! Functions are identified by their address. The cost of a recursive call is counted for the outer call too, as in
//! other tools.

use std::collections::BTreeMap;

use crate::calls::{Call, Cost};

/// Maximum number of functions with a row of their own.
const LIMIT: usize = 1 << 20;

/// Cost per function.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    rows: BTreeMap<u64, Row>,
    rest: Row,
    is_complete_only: bool,
    /// Own cost of the calls that are not counted.
    uncounted: Cost,
}

/// Cost of the calls of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// Number of calls.
    pub calls: u64,
    /// Number of calls whose beginning or end is not in the trace.
    pub incomplete: u64,
    /// Total time, including callees and both the first and the last instruction of each call: a call whose instructions
    /// all have the same time takes 1.
    pub time: u64,
    /// Total number of instructions, including callees.
    pub instructions: u64,
    /// Own cost, without callees; the time of a call is that from its first instruction to its last.
    pub own: Cost,
}

impl Profile {
    /// An empty profile.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty profile that counts only the root and the calls whose beginning and end are in the trace. The own cost
    /// of other calls is added to the root.
    pub fn of_complete_calls() -> Self {
        Self { is_complete_only: true, ..Self::default() }
    }

    /// Adds a call that has ended. The root of a core comes last.
    pub fn add(&mut self, call: &Call) {
        let mut own = call.own;
        if call.is_root() {
            own.add(std::mem::take(&mut self.uncounted));
        } else if self.is_complete_only && !call.is_complete() {
            return self.uncounted.add(own);
        }
        let total = call.total();
        let row = self.row(call.function);
        row.calls += 1;
        row.incomplete += u64::from(!call.is_complete());
        row.time = row.time.saturating_add(total.time).saturating_add(1);
        row.instructions = row.instructions.saturating_add(total.instructions);
        row.own.add(own);
    }

    fn row(&mut self, function: u64) -> &mut Row {
        if self.rows.len() >= LIMIT && !self.rows.contains_key(&function) {
            return &mut self.rest;
        }
        self.rows.entry(function).or_default()
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
