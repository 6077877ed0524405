//! Sequences of instructions that are executed one after the other, by their mnemonics.
//!
//! steps of one source ─▶ **tuples** ─▶ how often each sequence was executed
//!
//! Every instruction starts a sequence, so sequences overlap, and go across taken branches. An exception or a gap ends those
//! in progress. Each core is counted by itself.

use std::collections::HashMap;
use std::ops::ControlFlow;

use unspool_isa::{Isa, OpcodeCache};
use unspool_model::{BlockSink, Event, Step};

/// Longest sequence.
pub const MAX_LENGTH: usize = 8;

/// Maximum number of different sequences; further ones are counted together.
const MAX_TUPLES: usize = 1 << 20;

/// The number of a mnemonic.
type Id = u16;

/// Returns the mnemonic of an opcode.
type Name<'n> = Box<dyn FnMut(Isa, u32) -> String + 'n>;

/// Counts sequences.
pub struct Tuples<'n> {
    length: usize,
    name: Name<'n>,
    names: Vec<String>,
    ids: HashMap<String, Id>,
    known: OpcodeCache<(Isa, u32), Id>,
    /// The last mnemonics of each core, the newest in the lowest bits, and how many there are.
    recent: HashMap<u32, (u128, usize)>,
    counts: HashMap<u128, u64>,
    /// Executed instructions.
    pub instructions: u64,
    /// Executions of sequences that came when there were too many.
    pub others: u64,
}

impl<'n> Tuples<'n> {
    /// Counts sequences of this length, from 1 to [`MAX_LENGTH`].
    pub fn new(length: usize, name: impl FnMut(Isa, u32) -> String + 'n) -> Self {
        Self {
            length: length.clamp(1, MAX_LENGTH),
            name: Box::new(name),
            names: Vec::new(),
            ids: HashMap::new(),
            known: OpcodeCache::new(14),
            recent: HashMap::new(),
            counts: HashMap::new(),
            instructions: 0,
            others: 0,
        }
    }

    /// Sequences with their executions, the most frequent first.
    pub fn rows(&self) -> Vec<(Vec<&str>, u64)> {
        let mut rows: Vec<(Vec<&str>, u64)> =
            self.counts.iter().map(|(key, count)| (self.names_of(*key), *count)).collect();
        rows.sort_unstable_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
        rows
    }

    fn names_of(&self, key: u128) -> Vec<&str> {
        let ids = (0..self.length).rev().map(|at| (key >> (16 * at)) as Id);
        ids.map(|id| self.names.get(usize::from(id)).map_or("?", String::as_str)).collect()
    }

    fn id(&mut self, isa: Isa, opcode: u32) -> Id {
        if let Some(id) = self.known.get((isa, opcode)) {
            return *id;
        }
        let name = (self.name)(isa, opcode);
        let id = self.id_of(name);
        self.known.insert((isa, opcode), id);
        id
    }

    fn id_of(&mut self, name: String) -> Id {
        // There are fewer mnemonics than that.
        let next = Id::try_from(self.names.len()).unwrap_or(Id::MAX);
        let id = *self.ids.entry(name.clone()).or_insert(next);
        if usize::from(id) == self.names.len() {
            self.names.push(name);
        }
        id
    }

    fn instruction(&mut self, core: u32, isa: Isa, opcode: Option<u32>) {
        self.instructions += 1;
        let id = match opcode {
            Some(opcode) => self.id(isa, opcode),
            None => self.id_of("?".to_string()),
        };
        let mask = if self.length == MAX_LENGTH { u128::MAX } else { (1 << (16 * self.length)) - 1 };
        let (recent, count) = self.recent.entry(core).or_default();
        (*recent, *count) = ((*recent << 16 | u128::from(id)) & mask, (*count + 1).min(self.length));
        if *count == self.length {
            let key = *recent;
            self.add(key);
        }
    }

    fn add(&mut self, key: u128) {
        if self.counts.len() < MAX_TUPLES || self.counts.contains_key(&key) {
            *self.counts.entry(key).or_default() += 1;
        } else {
            self.others += 1;
        }
    }
}

impl BlockSink for Tuples<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        match &step.event {
            Event::Instruction(instruction) => self.instruction(step.core, instruction.isa, instruction.opcode),
            Event::Exception(_) | Event::Gap(_) => {
                self.recent.remove(&step.core);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use unspool_model::{Gap, Instruction};

    use super::*;

    fn step(event: Event) -> Step {
        let mut step = Step::default();
        step.event = event;
        step
    }

    #[test]
    fn sequences_overlap_and_end_at_gaps() {
        let opcode = |opcode| Event::Instruction(Instruction { opcode: Some(opcode), ..Instruction::default() });
        let events = [1, 2, 1, 2].map(opcode).into_iter().chain([Event::Gap(Gap::Start)]).chain([1, 1].map(opcode));
        for (length, expected) in [
            (1, vec![(vec!["1"], 4), (vec!["2"], 2)]),
            (2, vec![(vec!["1", "2"], 2), (vec!["1", "1"], 1), (vec!["2", "1"], 1)]),
            (3, vec![(vec!["1", "2", "1"], 1), (vec!["2", "1", "2"], 1)]),
            (8, vec![]),
        ] {
            let mut tuples = Tuples::new(length, |_, opcode| opcode.to_string());
            assert!(events.clone().all(|event| tuples.step(&step(event)).is_continue()));
            assert_eq!(tuples.rows(), expected);
            assert_eq!(tuples.instructions, 6);
        }
    }
}
