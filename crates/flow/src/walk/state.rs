//! State of a walk that its parts share: the run that is held back, an open Q element, and the seam between two walks.

use unspool_coresight::{Context, Extent, SubIsa, Target as ElementTarget};

use crate::item::Cause;
use crate::runs;
use crate::stack::ReturnStack;

/// A run that is not emitted yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Held {
    Nothing,
    Cached(runs::Run),
    /// Its steps are in [`Walker::steps`](super::Walker).
    Steps,
}

/// A Q element whose end is not known yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Q {
    pub(super) extent: Extent,
    pub(super) start: Option<u64>,
    pub(super) count: Option<u32>,
    /// The sub-ISA at its start.
    pub(super) isa: SubIsa,
    /// Its instructions are consecutive; they are in the scratch block.
    pub(super) is_straight_line: bool,
}

/// The state of a walk at a position between two packets, without the code that is known.
#[derive(Debug, Clone)]
pub(crate) struct Seam {
    pub(super) context: Option<Context>,
    pub(super) position: Position,
    pub(super) after_exception: bool,
    pub(super) stack: ReturnStack,
    pub(super) q: Option<Q>,
    pub(super) lost: u64,
    pub(super) lost_offset: u64,
    pub(super) cause: Cause,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Position {
    At(ElementTarget),
    NeedsAddress,
    /// Perhaps with an address, but without a context.
    Lost(Option<ElementTarget>),
}
