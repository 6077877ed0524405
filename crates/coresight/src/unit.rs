//! What the models of all trace units share: executed instructions, and the choices that no register controls.
//!
//! Does not know protocols: each has its own model, a module `unit` in its folder.

mod overflow;
mod registers;
mod stack;
mod timestamps;
mod trace_enable;

use crate::SubIsa;

pub use self::overflow::OverflowLosses;
pub(crate) use self::overflow::Overflows;
pub(crate) use self::registers::UnitRegisters;
pub(crate) use self::stack::ReturnStack;
pub(crate) use self::timestamps::Timestamps;
pub(crate) use self::trace_enable::TraceEnable;

/// Kind of an instruction, as far as the trace distinguishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// The trace has no element for it.
    #[default]
    Other,
    /// A branch whose target is in the opcode.
    Direct,
    /// A branch whose target is not in the opcode.
    Indirect,
    /// Returns from an exception.
    ExceptionReturn,
    /// Has an atom and continues after itself: an instruction barrier, perhaps a data barrier or a wait.
    Barrier,
    /// Waits until the trace before it is complete: TSB CSYNC. It has no element, but requests a timestamp (ETE).
    TraceSync,
    /// Starts a transaction, and has an atom: TSTART (ETE).
    TransactionStart,
    /// Ends a transaction successfully: TCOMMIT (ETE).
    TransactionCommit,
    /// Writes a value into the trace, which the caller reports: TRCIT (ETE).
    Instrumentation,
}

impl Class {
    /// Is it a branch, exception returns included?
    #[inline(always)]
    pub const fn is_branch(self) -> bool {
        matches!(self, Self::Direct | Self::Indirect | Self::ExceptionReturn)
    }
}

/// An instruction that the PE executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Executed {
    /// Its address.
    pub address: u64,
    /// Its instruction set.
    pub isa: SubIsa,
    /// Its length in bytes.
    pub length: u8,
    /// Its kind.
    pub class: Class,
    /// It may fail its condition.
    pub conditional: bool,
    /// Writes a return address into the link register.
    pub link: bool,
    /// It branched. Of instructions other than branches: its condition held. Only some trace units have an element for that.
    pub taken: bool,
    /// If it branches, it changes the instruction set. Only set for branches whose target is in the opcode.
    pub changes_isa: bool,
}

/// xorshift64*. The state is never zero.
pub(crate) fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
}
