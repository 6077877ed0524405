//! Totals of a file: the counts, its transactions, and its events by name.
//!
//! Takes instructions, from several threads if need be, and the records after them; produces totals in constant memory.

use std::collections::BTreeMap;

use super::counts::Counts;
use crate::lift::Instruction;
use crate::names;
use crate::read::Gather;
use crate::record::{Event, Record};

/// Limit of event names that are listed.
const LISTED: usize = 64;

/// Limit of event names that are counted.
const COUNTED: usize = 1 << 16;

/// Key of events beyond these limits.
const OTHERS: &str = "others";

/// Totals of a file.
#[derive(Debug, Default)]
pub struct Contents {
    /// Counts of records and instructions.
    pub counts: Counts,
    /// Bus transactions.
    pub transactions: u64,
    /// Events by name.
    pub events: Events,
    /// Bytes of the records, uncompressed.
    pub bytes: u64,
}

impl Contents {
    /// Counts a record that belongs to no instruction.
    pub fn add_trailing(&mut self, record: &Record<'_>) {
        self.counts.add_trailing(record);
        self.transactions += u64::from(matches!(record, Record::Transaction(_)));
        if let Record::Event(event) = record {
            self.events.add(event);
        }
    }
}

impl Gather for Contents {
    fn push(&mut self, instruction: &Instruction<'_>) {
        let before = self.counts.events;
        self.counts.add(instruction);
        if self.counts.events > before {
            instruction.events().for_each(|event| self.events.add(&event));
        }
    }

    fn part(&self) -> Self {
        Self::default()
    }

    fn append(&mut self, part: Self) {
        self.counts.append(part.counts);
        self.events.append(part.events);
    }
}

/// Counts of events by name, in the order of their first occurrence.
#[derive(Debug, Default)]
pub struct Events(BTreeMap<String, (usize, u64)>);

impl Events {
    fn add(&mut self, event: &Event<'_>) {
        self.add_some(names::event(event).to_string(), 1);
    }

    fn add_some(&mut self, name: String, count: u64) {
        let is_counted = self.0.len() < COUNTED || self.0.contains_key(&name);
        let order = self.0.len();
        self.0.entry(if is_counted { name } else { OTHERS.into() }).or_insert((order, 0)).1 += count;
    }

    fn append(&mut self, part: Self) {
        let mut names: Vec<_> = part.0.into_iter().collect();
        names.sort_by_key(|(_, (order, _))| *order);
        names.into_iter().for_each(|(name, (_, count))| self.add_some(name, count));
    }

    /// The first names, and all others as one.
    pub fn rows(&self) -> BTreeMap<&str, u64> {
        let mut rows = BTreeMap::new();
        for (name, (order, count)) in &self.0 {
            *rows.entry(if *order < LISTED { name } else { OTHERS }).or_default() += count;
        }
        rows
    }
}
