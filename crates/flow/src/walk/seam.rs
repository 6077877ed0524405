//! The seam between two walks over the same trace: where one ends, another can go on.

use unspool_coresight::{Context, SubIsa, Target as ElementTarget};

use super::held::Held;
use super::partial_block::Q;
use super::{Walker, sub_isa};
use crate::graph::{LOST, NEEDS_ADDRESS, NO_CODE};
use crate::item::Cause;
use crate::memory::CodeMemory;
use crate::stack::ReturnStack;

/// The state of a walk at a position between two packets, without the code that is known.
#[derive(Debug, Clone)]
pub(crate) struct Seam {
    context: Option<Context>,
    position: Position,
    may_be_anywhere: bool,
    stack: ReturnStack,
    q: Option<Q>,
    lost: u64,
    lost_offset: u64,
    cause: Cause,
}

#[derive(Debug, Clone, Copy)]
enum Position {
    At(ElementTarget),
    NeedsAddress,
    /// Perhaps an address is known already, but no context.
    Lost(Option<ElementTarget>),
}
impl<M: CodeMemory> Walker<M> {
    /// Where the walk is, to go on from there with [`resume`](Self::resume). Nothing may be held back.
    pub(crate) fn seam(&self) -> Seam {
        Seam {
            context: self.context,
            position: self.seam_position(),
            may_be_anywhere: self.may_be_anywhere,
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
            NO_CODE => self.target.map_or(Position::Lost(None), Position::At),
            block => {
                let block = self.graph.block(block);
                Position::At(ElementTarget { address: block.start, isa: sub_isa(block.isa) })
            }
        }
    }

    /// Goes on where another walk of the same program was.
    pub(crate) fn resume(&mut self, seam: &Seam) {
        self.restart();
        self.context = seam.context;
        if let Some(context) = seam.context {
            self.modes = self.modes_of(&context);
        }
        if let Some(q) = seam.q {
            // Its instructions are looked at once more, since they are not part of the seam.
            self.at = LOST;
            if let Some(start) = q.start {
                self.enter(ElementTarget { address: start, isa: q.isa });
            }
            let in_a_row = q.start.is_some_and(|start| self.is_in_a_row(start, q.count));
            self.q = Some(Q { in_a_row, ..q });
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
        self.may_be_anywhere = seam.may_be_anywhere;
        self.stack = seam.stack.clone();
        (self.lost, self.lost_offset, self.cause) = (seam.lost, seam.lost_offset, seam.cause);
        self.look_up();
    }

    /// Forgets where the walk is, but not the code.
    pub(crate) fn restart(&mut self) {
        self.context = None;
        self.stack = ReturnStack::new();
        (self.node, self.at, self.target) = (LOST, LOST, None);
        self.may_be_anywhere = false;
        self.held = Held::Nothing;
        self.hand.clear();
        self.held_items.clear();
        self.q = None;
        (self.lost, self.cause) = (0, Cause::NoAddress);
    }

    /// The context and the address, if both are known and nothing else matters for what follows: no P0 element has come
    /// since a trace info.
    pub(crate) fn entry(&self) -> Option<(Context, u64, SubIsa)> {
        let plain = self.lost == 0 && self.q.is_none() && !self.may_be_anywhere && self.stack.will_be_empty();
        let Position::At(target) = self.seam_position() else { return None };
        let context = self.context.filter(|_| plain && matches!(self.held, Held::Nothing))?;
        Some((context, target.address, target.isa))
    }
}
