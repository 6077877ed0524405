//! The profile: what each function comes to.
//!
//! calls ─▶ **profile** ─▶ a row a function
//!
//! Functions are told apart by where they begin. Times of calls within calls of the same function count for both, as
//! they do in other tools.

use std::collections::BTreeMap;

use crate::calls::{Call, Sums};

/// More functions than this are counted together.
const LIMIT: usize = 1 << 20;

/// What each function comes to.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    rows: BTreeMap<u64, Row>,
    rest: Row,
    is_complete_only: bool,
    /// What calls come to that are not counted.
    passed_over: Sums,
}

/// What the calls of a function come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// How many calls.
    pub calls: u64,
    /// How many of them have not both their beginning and their end in the trace.
    pub incomplete: u64,
    /// The time in it and in all that it called, the first and the last instruction of each call included: a call whose
    /// instructions all have the same time took 1.
    pub time: u64,
    /// The instructions in it and in all that it called.
    pub instructions: u64,
    /// The time, from the first instruction to the last of each call, and the instructions, without what it called.
    pub own: Sums,
}

impl Profile {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty one that counts only calls whose beginning and end are in the trace, and what it started in. What the
    /// others did by themselves counts for the latter.
    pub fn of_complete_calls() -> Self {
        Self { is_complete_only: true, ..Self::default() }
    }

    /// A call has ended. What a core started in comes last.
    pub fn add(&mut self, call: &Call) {
        let mut own = call.own;
        if call.is_root() {
            own.add(std::mem::take(&mut self.passed_over));
        } else if self.is_complete_only && !call.is_complete() {
            return self.passed_over.add(own);
        }
        let whole = call.whole();
        let row = self.row(call.function);
        row.calls += 1;
        row.incomplete += u64::from(!call.is_complete());
        row.time = row.time.saturating_add(whole.time).saturating_add(1);
        row.instructions = row.instructions.saturating_add(whole.instructions);
        row.own.add(own);
    }

    fn row(&mut self, function: u64) -> &mut Row {
        if self.rows.len() >= LIMIT && !self.rows.contains_key(&function) {
            return &mut self.rest;
        }
        self.rows.entry(function).or_default()
    }

    /// The functions by address.
    pub fn rows(&self) -> impl Iterator<Item = (u64, &Row)> {
        self.rows.iter().map(|(function, row)| (*function, row))
    }

    /// What has no row of its own, since there are too many functions.
    pub fn rest(&self) -> Option<&Row> {
        (self.rest.calls > 0).then_some(&self.rest)
    }
}
