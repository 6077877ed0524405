//! Losses: information of a trace that a conversion does not carry over, or that no step has.

use std::fmt;

use crate::Facet;

/// Declares the kinds of losses: the name in reports, its description, and the facet that a source must have for it.
macro_rules! losses {
    ($($id:ident $name:literal $words:literal $facet:expr;)*) => {
        /// Kind of information that is lost.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Loss {
            $(#[doc = concat!("Lost: ", $words, ".")] $id,)*
        }

        impl Loss {
            /// All kinds.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$id),*];

            /// The name, which never changes.
            pub fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// The description in a report.
            pub fn words(self) -> &'static str {
                match self { $(Self::$id => $words,)* }
            }

            /// The facet that a source must cover for this to be lost; `None`: any source may have it.
            pub fn facet(self) -> Option<Facet> {
                match self { $(Self::$id => $facet,)* }
            }
        }
    };
}

losses! {
    Instructions "instructions" "instructions that the format cannot express" None;
    UnknownOpcodes "unknown-opcodes" "instructions without an opcode" None;
    Conditions "conditions" "outcomes of conditions" Some(Facet::Conditions);
    Accesses "accesses" "accesses to memory" Some(Facet::Accesses);
    Tags "tags" "tagged accesses" Some(Facet::Accesses);
    Data "data" "data of accesses" Some(Facet::Data);
    Registers "registers" "registers written" Some(Facet::Registers);
    State "state" "contents of registers and memory that no instruction caused" Some(Facet::Registers);
    Exceptions "exceptions" "exceptions" Some(Facet::Exceptions);
    ExceptionDetails "exception-details" "details of exceptions" Some(Facet::Exceptions);
    ReturnAddresses "return-addresses" "return addresses of exceptions" Some(Facet::Exceptions);
    ExceptionReturns "exception-returns" "exception returns" Some(Facet::Exceptions);
    Processes "processes" "processes and threads" Some(Facet::Processes);
    VirtualMachines "virtual-machines" "virtual machines" Some(Facet::Processes);
    Times "times" "times" Some(Facet::Times);
    TimeDigits "time-digits" "digits of times" Some(Facet::Times);
    Notes "notes" "notes" None;
    Modes "modes" "modes of AArch32" None;
    PhysicalAddresses "physical-addresses" "physical addresses" None;
    Attributes "attributes" "attributes, labels and numbers" None;
    CycleCounts "cycle-counts" "cycle counts" None;
    Unreadable "unreadable" "lines that cannot be read" None;
    CorrectedLoads "corrected-loads" "loads that the log calls writes" None;
}

/// Number of losses of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Their number.
    pub count: u64,
    /// Position of the first, as the source counts.
    pub first: u64,
}

impl Lost {
    /// Counts one more, at this position.
    #[inline]
    pub fn add(&mut self, position: u64) {
        if self.count == 0 {
            self.first = position;
        }
        self.count += 1;
    }
}

/// Losses by kind.
///
/// ```
/// use unspool_model::{Loss, Losses};
///
/// let mut losses = Losses::default();
/// losses.add(Loss::Data, 17);
/// losses.add(Loss::Data, 19);
/// assert_eq!(losses.of(Loss::Data).count, 2);
/// assert_eq!(losses.of(Loss::Data).first, 17);
/// assert_eq!(losses.to_string(), "2 × data of accesses");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Losses([Lost; Loss::ALL.len()]);

impl Default for Losses {
    fn default() -> Self {
        Self([Lost::default(); Loss::ALL.len()])
    }
}

impl Losses {
    /// Adds one, of the step at this position.
    #[inline]
    pub fn add(&mut self, loss: Loss, position: u64) {
        self.add_many(loss, 1, position);
    }

    /// Adds several, of the step at this position.
    #[inline]
    pub fn add_many(&mut self, loss: Loss, count: u64, position: u64) {
        let lost = &mut self.0[loss as usize];
        if lost.count == 0 {
            lost.first = position;
        }
        lost.count += count;
    }

    /// Adds the losses of another.
    pub fn add_all(&mut self, others: &Self) {
        others.iter().for_each(|(loss, lost)| self.add_many(loss, lost.count, lost.first));
    }

    /// The losses of one kind.
    pub fn of(&self, loss: Loss) -> Lost {
        self.0[loss as usize]
    }

    /// Whether nothing was lost.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The kinds of which something was lost, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, Lost)> {
        Loss::ALL.into_iter().map(|loss| (loss, self.of(loss))).filter(|(_, lost)| lost.count > 0)
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (loss, lost)) in self.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{} × {}", lost.count, loss.words())?;
        }
        Ok(())
    }
}
