//! Code at a moment of a trace, and the moments at which it changes.

use unspool_coresight::Context;
use unspool_flow::{CodeMemory, MapId, Space};

use super::Program;

/// The code of a program between two changes of its address maps, as one stream of trace sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'p> {
    program: &'p Program,
}

impl<'p> Moment<'p> {
    pub(crate) fn program(&self) -> &'p Program {
        self.program
    }
}

impl CodeMemory for Moment<'_> {
    fn read<'b>(&'b self, address: u64, space: Space, buffer: &'b mut [u8]) -> &'b [u8] {
        self.program.read(address, space, buffer)
    }

    fn map_of(&self, _context: &Context) -> MapId {
        MapId::ONLY
    }

    fn is_ambiguous(&self, address: u64, space: Space) -> bool {
        self.program.is_ambiguous(address, space)
    }
}

/// The moments of one stream, each with the offset in the buffer where it begins.
#[derive(Debug)]
pub(crate) struct Moments<'p> {
    first: Moment<'p>,
    later: Vec<(u64, Moment<'p>)>,
}

impl<'p> Moments<'p> {
    /// Code that does not change.
    pub(super) fn one(program: &'p Program) -> Self {
        Self { first: Moment { program }, later: Vec::new() }
    }

    /// The moment at the start of the stream.
    pub(crate) fn first(&self) -> Moment<'p> {
        self.first
    }

    /// Does the code stay the same?
    pub(crate) fn is_one(&self) -> bool {
        self.later.is_empty()
    }

    /// The changes after the start.
    pub(crate) fn changes(&self) -> Changes<'_, 'p> {
        Changes { left: &self.later }
    }
}

/// Changes that have not been reached yet.
#[derive(Debug)]
pub(crate) struct Changes<'m, 'p> {
    left: &'m [(u64, Moment<'p>)],
}

impl<'p> Changes<'_, 'p> {
    /// Applies the last change up to an offset.
    #[inline]
    pub(crate) fn up_to(&mut self, offset: u64, apply: impl FnOnce(Moment<'p>)) {
        if self.left.first().is_some_and(|(start, _)| *start <= offset) {
            let passed = self.left.partition_point(|(start, _)| *start <= offset);
            let (now, left) = self.left.split_at(passed);
            self.left = left;
            if let Some((_, moment)) = now.last() {
                apply(*moment);
            }
        }
    }
}
