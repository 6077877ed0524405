//! Losses of restyling, and the lines that were copied.

use std::fmt;

use super::super::read::Position;

/// Defines the table of losses.
macro_rules! losses {
    ($($(#[$doc:meta])* $id:ident $name:literal $kept:literal;)*) => {
        /// Something that the style of the result has no notation for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Loss {
            $($(#[$doc])* $id,)*
        }

        impl Loss {
            /// All losses.
            pub const ALL: &[Self] = &[$(Self::$id,)*];

            /// Stable name of the loss.
            pub fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// Whether the line was copied, so that nothing is lost to a reader that knows it.
            pub fn is_kept(self) -> bool {
                match self { $(Self::$id => $kept,)* }
            }
        }
    };
}

losses! {
    /// Rev 3 has no field for physical addresses of instructions.
    InstructionPhysical "physical address of an instruction" false;
    /// Rev 3 has no instruction numbers, and this one does not follow the previous one.
    InstructionNumber "number of an instruction" false;
    /// Rev 3 has no notation for a skipped AArch64 instruction, and neither the opcode nor the next line implies it.
    Skipped "skipped instruction" false;
    /// Only IF lines mark an instruction as folded into the previous one.
    Folded "folded instruction" false;
    /// Pictures have no attributes for exclusive, unprivileged and locked accesses.
    AccessFlags "attribute of an access (exclusive, unprivileged, locked)" false;
    /// Only some models print bus cycles, or the instruction that owns an access.
    AccessDetail "detail of an access (bus cycle, owner, notes)" false;
    /// Fast Models print no page sizes.
    PageOrder "page order" false;
    /// Fast Models print no memory type, shareability and cacheability.
    Attributes "memory attributes" false;
    /// The data of an aborted access.
    AbortedData "data of an aborted access" false;
    /// Pictures do not show sizes and order of accesses, and the opcode implies other ones.
    AccessSizes "sizes of accesses" false;
    /// An effect printed before its instruction now has the time of the instruction.
    EffectTime "time of an effect before its instruction" false;
    /// A physical address that is not contiguous with the start of its access.
    AccessPhysical "physical address of a part of an access" false;
    /// The context of a register that its name does not imply.
    Context "context of a register" false;
    /// The address, mode or argument of an event without a Rev 3 equivalent.
    EventDetail "detail of an event" false;
    /// The target of a branch that differs from where execution continues.
    Target "target of a branch" false;
    /// A timestamp of dashes.
    NoTime "event without a time" false;
    /// An event without a Rev 3 exception.
    Event "event" true;
    /// An exception or asynchronous event without a Fast Models event.
    Exception "exception" true;
    /// An instruction without an address, or without an instruction set.
    Instruction "instruction without address or instruction set" true;
    /// An access without an equivalent: a failed exclusive store, a fetch, a size or data that does not fit.
    Access "access" true;
    /// A bus, coprocessor or program flow line.
    Bus "bus, coprocessor or flow line" true;
    /// A line of a known kind that is not parsed: CADI, SIGNAL, TTW, ...
    Opaque "line of text" true;
    /// A load that the log calls a write: the opcode decides, and the result has a read.
    CorrectedLoad "load that the log calls a write" true;
    /// A comment.
    Comment "comment" true;
    /// A line that could not be parsed.
    Unknown "line that was not understood" true;
}

/// Number of occurrences of a loss, and the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Number of occurrences.
    pub count: u64,
    /// Position of the first.
    pub first: Position,
}

/// Counts of losses and of copied lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses([Option<Count>; Loss::ALL.len()]);

impl Losses {
    pub(super) fn add(&mut self, loss: Loss, position: Position) {
        self.0[loss as usize].get_or_insert(Count { count: 0, first: position }).count += 1;
    }

    /// All losses that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, Count)> {
        Loss::ALL.iter().zip(&self.0).filter_map(|(loss, count)| Some((*loss, (*count)?)))
    }

    /// Number of occurrences of a loss.
    pub fn of(&self, loss: Loss) -> u64 {
        self.0[loss as usize].map_or(0, |count| count.count)
    }

    /// Whether nothing is lost. Copied lines do not count.
    pub fn is_empty(&self) -> bool {
        self.iter().all(|(loss, _)| loss.is_kept())
    }
}

impl fmt::Display for Losses {
    /// The losses as a comma-separated list, without copied lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.iter().filter(|(loss, _)| !loss.is_kept());
        for (index, (loss, Count { count, first })) in lost.enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{count} × {} (first in line {})", loss.name(), first.line)?;
        }
        Ok(())
    }
}
