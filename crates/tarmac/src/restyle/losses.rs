//! What a translation lost, and what it left as it was.

use std::fmt;

use super::super::read::Place;

/// Spells the table of losses.
macro_rules! losses {
    ($($(#[$doc:meta])* $id:ident $name:literal $kept:literal;)*) => {
        /// Something that the style of the result cannot say.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Loss {
            $($(#[$doc])* $id,)*
        }

        impl Loss {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$id,)*];

            /// What it is called; it stays.
            pub fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// The line was kept as it is, so that nothing is lost to those who can read it.
            pub fn is_kept(self) -> bool {
                match self { $(Self::$id => $kept,)* }
            }
        }
    };
}

losses! {
    /// Rev 3 has no place for physical addresses of instructions.
    InstructionPhysical "physical address of an instruction" false;
    /// Rev 3 does not count instructions, and this number is not the one after the last.
    InstructionNumber "number of an instruction" false;
    /// Rev 3 cannot say that an instruction of AArch64 was skipped, and its opcode and what follows do not either.
    Skipped "skipped instruction" false;
    /// Only IF lines say that an instruction was folded into the one before.
    Folded "folded instruction" false;
    /// Pictures do not say that an access is exclusive, unprivileged or locked.
    AccessFlags "attribute of an access (exclusive, unprivileged, locked)" false;
    /// Only some models print what the bus did, or which instruction an access belongs to.
    AccessDetail "detail of an access (bus cycle, owner, notes)" false;
    /// Fast Models have no size of pages.
    PageOrder "page order" false;
    /// Fast Models have no memory type, shareability and cacheability.
    Attributes "memory attributes" false;
    /// The data of an aborted access.
    AbortedData "data of an aborted access" false;
    /// Pictures do not say into how many accesses bytes are cut, nor in which order they come: opcodes do, but otherwise.
    AccessSizes "sizes of accesses" false;
    /// An effect that was printed before its instruction has the time of the instruction now.
    EffectTime "time of an effect before its instruction" false;
    /// A physical address that does not follow from the first of its access.
    AccessPhysical "physical address of a part of an access" false;
    /// The context of a register that its name does not say.
    Context "context of a register" false;
    /// The address, mode or argument of an event that no line of Rev 3 says.
    EventDetail "detail of an event" false;
    /// The target of a branch that is not where execution goes on.
    Target "target of a branch" false;
    /// There are dashes instead of a time.
    NoTime "event without a time" false;
    /// An event that Rev 3 has no exception for.
    Event "event" true;
    /// An exception or asynchronous event that Fast Models have no event for.
    Exception "exception" true;
    /// An instruction without an address, or without an instruction set.
    Instruction "instruction without address or instruction set" true;
    /// An access that cannot be told: a failed exclusive store, a fetch, a size or data that does not fit.
    Access "access" true;
    /// Buses, coprocessors, program flow.
    Bus "bus, coprocessor or flow line" true;
    /// Lines of a known kind that were not taken apart: CADI, SIGNAL, TTW, ...
    Opaque "line of text" true;
    /// A comment.
    Comment "comment" true;
    /// A line that was not understood.
    Unknown "line that was not understood" true;
}

/// How often something happened, and where first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// How often.
    pub count: u64,
    /// The line where it happened first.
    pub first: Place,
}

/// What was lost, and what was left as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Losses {
    counts: Vec<Option<Count>>,
}

impl Default for Losses {
    fn default() -> Self {
        Self { counts: vec![None; Loss::ALL.len()] }
    }
}

impl Losses {
    pub(super) fn add(&mut self, loss: Loss, place: Place) {
        if let Some(entry) = self.counts.get_mut(loss as usize) {
            entry.get_or_insert(Count { count: 0, first: place }).count += 1;
        }
    }

    /// What happened, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, Count)> {
        Loss::ALL.iter().zip(&self.counts).filter_map(|(loss, count)| Some((*loss, (*count)?)))
    }

    /// How often this happened.
    pub fn of(&self, loss: Loss) -> u64 {
        self.counts.get(loss as usize).and_then(Option::as_ref).map_or(0, |count| count.count)
    }

    /// Is nothing lost? Lines that were kept as they are do not count.
    pub fn is_empty(&self) -> bool {
        self.iter().all(|(loss, _)| loss.is_kept())
    }
}

impl fmt::Display for Losses {
    /// What is lost, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.iter().filter(|(loss, _)| !loss.is_kept());
        for (index, (loss, Count { count, first })) in lost.enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{count} × {} (first in line {})", loss.name(), first.line)?;
        }
        Ok(())
    }
}
