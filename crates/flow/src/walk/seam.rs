//! The seam between two walks over the same trace, where one continues the other.

use unspool_coresight::{Context, SubIsa, Target as ElementTarget};

use super::Walker;
use super::state::{Held, Position, Q, Seam};
use crate::graph::{LOST, NEEDS_ADDRESS};
use crate::item::Cause;
use crate::memory::{CodeMemory, MapId};
use crate::stack::ReturnStack;

impl<M: CodeMemory> Walker<M> {
    /// The state of the walk, for [`resume`](Self::resume). Nothing may be held back.
    pub(crate) fn seam(&self) -> Seam {
        Seam {
            context: self.context,
            position: self.seam_position(),
            after_exception: self.after_exception,
            stack: self.stack.clone(),
            q: self.q,
            lost: self.lost,
            lost_offset: self.lost_offset,
            cause: self.cause,
        }
    }

    fn seam_position(&self) -> Position {
        match self.runs.block(self.node) {
            NEEDS_ADDRESS => Position::NeedsAddress,
            LOST => Position::Lost(self.target),
            id => self.location(id).map_or(Position::Lost(None), Position::At),
        }
    }

    /// Continues where another walk of the same program was.
    pub(crate) fn resume(&mut self, seam: &Seam) {
        self.restart();
        self.context = seam.context;
        if let Some(context) = seam.context {
            self.map = self.memory.map_of(&context);
            self.modes = self.modes_of(&context);
        }
        if let Some(q) = seam.q {
            // Its instructions are read again, since they are not part of the seam.
            self.at = LOST;
            if let Some(start) = q.start {
                self.enter(ElementTarget { address: start, isa: q.isa });
            }
            let is_straight_line = q.start.is_some_and(|start| self.is_straight_line(start, q.count));
            self.q = Some(Q { is_straight_line, ..q });
        }
        self.target = None;
        match seam.position {
            Position::At(target) => self.enter(target),
            Position::NeedsAddress => self.at = NEEDS_ADDRESS,
            Position::Lost(target) => {
                self.at = LOST;
                self.target = target;
            }
        }
        self.after_exception = seam.after_exception;
        self.stack = seam.stack.clone();
        (self.lost, self.lost_offset, self.cause) = (seam.lost, seam.lost_offset, seam.cause);
        self.save_node();
    }

    /// Resets the walk, but keeps the code.
    pub(crate) fn restart(&mut self) {
        self.context = None;
        self.map = MapId::ONLY;
        self.stack = ReturnStack::new();
        (self.node, self.at, self.target) = (LOST, LOST, None);
        self.after_exception = false;
        self.held = Held::Nothing;
        self.steps.clear();
        self.held_items.clear();
        self.conditions.clear();
        self.q = None;
        (self.lost, self.cause) = (0, Cause::NoAddress);
    }

    /// The context and the address, if both are known and the following trace depends on nothing else: no P0 element has
    /// come since a trace info.
    pub(crate) fn entry(&self) -> Option<(Context, u64, SubIsa)> {
        let plain = self.lost == 0 && self.q.is_none() && !self.after_exception && self.stack.will_be_empty();
        let Position::At(target) = self.seam_position() else { return None };
        let context = self.context.filter(|_| plain && matches!(self.held, Held::Nothing))?;
        Some((context, target.address, target.isa))
    }
}
