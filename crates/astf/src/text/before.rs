//! Earlier records that the line of a record depends on, so that lines can be made from any record on.

use std::collections::VecDeque;

use crate::layout::Bytes;
use crate::record::{Context, Instruction, StringContinuation, StringStart};

/// Strings that are longer than this many records have ended: their size has 16 bits.
const MAX_STRINGS: usize = 1 << 12;

/// The records before some record that its line depends on: the last context, the last instruction, and the records of a
/// string that may continue.
#[derive(Debug, Clone, Default)]
pub struct Before {
    context: Option<Bytes>,
    instruction: Option<Bytes>,
    strings: VecDeque<Bytes>,
}

impl Before {
    /// Adds the next record.
    #[inline]
    pub fn push(&mut self, record: &Bytes) {
        match record[0] {
            StringStart::TYPE | StringContinuation::TYPE => return self.push_string(record),
            Instruction::TYPE => self.instruction = Some(*record),
            Context::TYPE => self.context = Some(*record),
            _ => {}
        }
        self.strings.clear();
    }

    fn push_string(&mut self, record: &Bytes) {
        if self.strings.len() == MAX_STRINGS {
            self.strings.pop_front();
        }
        self.strings.push_back(*record);
    }

    /// The records, in an order that has the same effect as all that were added.
    pub fn records(&self) -> impl Iterator<Item = &Bytes> {
        self.context.iter().chain(&self.instruction).chain(&self.strings)
    }
}
