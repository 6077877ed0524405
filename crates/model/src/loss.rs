//! What a format could not say, and what of a trace no step says, counted.

use std::fmt;

use crate::Facet;

/// Something that was told and is not in what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Loss {
    /// Instructions that the format cannot tell.
    Instructions,
    /// Instructions whose opcode nobody knows.
    UnknownOpcodes,
    /// That a condition held, or did not.
    Conditions,
    /// Accesses to memory.
    Accesses,
    /// That the tag of an access is checked.
    Tags,
    /// What was read or written.
    Data,
    /// What registers were given by instructions.
    Registers,
    /// Contents of registers and memory that no instruction caused.
    State,
    /// Exceptions.
    Exceptions,
    /// The class of an exception, the number of a call, that it is virtual.
    ExceptionDetails,
    /// Where an interrupted program goes on.
    ReturnAddresses,
    /// Returns from exceptions.
    ExceptionReturns,
    /// Processes and threads.
    Processes,
    /// Virtual machines.
    VirtualMachines,
    /// Times.
    Times,
    /// Digits of times.
    TimeDigits,
    /// Notes.
    Notes,
    /// Modes of AArch32, of which steps have no more than the level.
    Modes,
    /// Physical addresses.
    PhysicalAddresses,
    /// What else lines say of accesses, instructions and registers: attributes, flags, labels, numbers.
    Attributes,
    /// Cycle counts.
    CycleCounts,
    /// What cannot be read.
    Unreadable,
}

impl Loss {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Instructions,
        Self::UnknownOpcodes,
        Self::Conditions,
        Self::Accesses,
        Self::Tags,
        Self::Data,
        Self::Registers,
        Self::State,
        Self::Exceptions,
        Self::ExceptionDetails,
        Self::ReturnAddresses,
        Self::ExceptionReturns,
        Self::Processes,
        Self::VirtualMachines,
        Self::Times,
        Self::TimeDigits,
        Self::Notes,
        Self::Modes,
        Self::PhysicalAddresses,
        Self::Attributes,
        Self::CycleCounts,
        Self::Unreadable,
    ];

    /// Its name, which stays.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::UnknownOpcodes => "unknown-opcodes",
            Self::Conditions => "conditions",
            Self::Accesses => "accesses",
            Self::Tags => "tags",
            Self::Data => "data",
            Self::Registers => "registers",
            Self::State => "state",
            Self::Exceptions => "exceptions",
            Self::ExceptionDetails => "exception-details",
            Self::ReturnAddresses => "return-addresses",
            Self::ExceptionReturns => "exception-returns",
            Self::Processes => "processes",
            Self::VirtualMachines => "virtual-machines",
            Self::Times => "times",
            Self::TimeDigits => "time-digits",
            Self::Notes => "notes",
            Self::Modes => "modes",
            Self::PhysicalAddresses => "physical-addresses",
            Self::Attributes => "attributes",
            Self::CycleCounts => "cycle-counts",
            Self::Unreadable => "unreadable",
        }
    }

    /// What it is, in the words of a report.
    pub fn words(self) -> &'static str {
        match self {
            Self::Instructions => "instructions that cannot be told",
            Self::UnknownOpcodes => "instructions without an opcode",
            Self::Conditions => "outcomes of conditions",
            Self::Accesses => "accesses to memory",
            Self::Tags => "tagged accesses",
            Self::Data => "data of accesses",
            Self::Registers => "registers written",
            Self::State => "contents of registers and memory that no instruction caused",
            Self::Exceptions => "exceptions",
            Self::ExceptionDetails => "details of exceptions",
            Self::ReturnAddresses => "return addresses of exceptions",
            Self::ExceptionReturns => "exception returns",
            Self::Processes => "processes and threads",
            Self::VirtualMachines => "virtual machines",
            Self::Times => "times",
            Self::TimeDigits => "digits of times",
            Self::Notes => "notes",
            Self::Modes => "modes of AArch32",
            Self::PhysicalAddresses => "physical addresses",
            Self::Attributes => "attributes, labels and numbers",
            Self::CycleCounts => "cycle counts",
            Self::Unreadable => "lines that cannot be read",
        }
    }

    /// What a source has to tell for this to be lost; `None`: any source may have it.
    pub fn facet(self) -> Option<Facet> {
        Some(match self {
            Self::Notes
            | Self::UnknownOpcodes
            | Self::Instructions
            | Self::Modes
            | Self::PhysicalAddresses
            | Self::Attributes
            | Self::CycleCounts
            | Self::Unreadable => return None,
            Self::Conditions => Facet::Conditions,
            Self::Accesses | Self::Tags => Facet::Accesses,
            Self::Data => Facet::Data,
            Self::Registers | Self::State => Facet::Registers,
            Self::Exceptions | Self::ExceptionDetails | Self::ReturnAddresses | Self::ExceptionReturns => {
                Facet::Exceptions
            }
            Self::Processes | Self::VirtualMachines => Facet::Processes,
            Self::Times | Self::TimeDigits => Facet::Times,
        })
    }
}

/// How often something was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// How often.
    pub count: u64,
    /// Where first, as the source counts.
    pub first: u64,
}

/// All that was lost.
///
/// ```
/// use unspool_model::{Loss, Losses};
///
/// let mut losses = Losses::default();
/// losses.add(Loss::Data, 17);
/// losses.add(Loss::Data, 19);
/// assert_eq!(losses.of(Loss::Data).count, 2);
/// assert_eq!(losses.of(Loss::Data).first, 17);
/// assert_eq!(losses.to_string(), "2 data of accesses");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Losses([Lost; Loss::ALL.len()]);

impl Default for Losses {
    fn default() -> Self {
        Self([Lost::default(); Loss::ALL.len()])
    }
}

impl Losses {
    /// One more, of the step at this place.
    #[inline]
    pub fn add(&mut self, loss: Loss, position: u64) {
        self.add_many(loss, 1, position);
    }

    /// So many more, of the step at this place.
    #[inline]
    pub fn add_many(&mut self, loss: Loss, count: u64, position: u64) {
        let lost = &mut self.0[loss as usize];
        if lost.count == 0 {
            lost.first = position;
        }
        lost.count += count;
    }

    /// What others lost too.
    pub fn add_all(&mut self, others: &Self) {
        others.iter().for_each(|(loss, lost)| self.add_many(loss, lost.count, lost.first));
    }

    /// How often this was lost.
    pub fn of(&self, loss: Loss) -> Lost {
        self.0[loss as usize]
    }

    /// Nothing was.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// What was lost, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, Lost)> {
        Loss::ALL.into_iter().map(|loss| (loss, self.of(loss))).filter(|(_, lost)| lost.count > 0)
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (loss, lost)) in self.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{} {}", lost.count, loss.words())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_in_their_places_and_have_names_of_their_own() {
        let mut names: Vec<&str> = Loss::ALL.iter().map(|loss| loss.name()).collect();
        for (index, loss) in Loss::ALL.into_iter().enumerate() {
            assert_eq!(loss as usize, index);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Loss::ALL.len());
    }
}
