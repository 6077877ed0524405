//! State of a walk that its parts share: the run that is held back, an open Q element, and the seam between two walks.

use unspool_coresight::{Context, Extent, SubIsa, Target as ElementTarget};

use crate::item::Cause;
use crate::runs::CachedRun;
use crate::stack::ReturnStack;

/// A run that is not emitted yet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Held {
    Nothing,
    Cached(CachedRun),
    /// Its steps are in [`Walker::steps`](super::Walker).
    Steps,
}

/// A Q element whose end is not known yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Q {
    pub(crate) extent: Extent,
    pub(crate) start: Option<u64>,
    pub(crate) count: Option<u32>,
    /// The sub-ISA at its start.
    pub(crate) isa: SubIsa,
    /// Its instructions are consecutive; they are in the scratch block.
    pub(crate) is_straight_line: bool,
}

/// The state of a walk at a position between two packets, without the code that is known.
#[derive(Debug, Clone)]
pub(crate) struct Seam {
    pub(crate) context: Option<Context>,
    pub(crate) position: Position,
    pub(crate) after_exception: bool,
    pub(crate) stack: ReturnStack,
    pub(crate) q: Option<Q>,
    pub(crate) lost: u64,
    pub(crate) lost_offset: u64,
    pub(crate) cause: Cause,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Position {
    At(ElementTarget),
    NeedsAddress,
    /// Perhaps with an address, but without a context.
    Lost(Option<ElementTarget>),
}
