//! Stack frames of the call follower: calls in progress.

use super::flow::Before;
use super::{Began, Call, Cost, Ended, Instruction, Site};

/// A call in progress.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) ordinal: u64,
    pub(super) function: u64,
    pub(super) began: Began,
    pub(super) site: Option<Site>,
    pub(super) entry: Site,
    pub(super) ret: u64,
    /// The stack pointer when it began, and which one.
    pub(super) sp: Option<u64>,
    pub(super) stack: u32,
    /// Total cost of the calls that it made and that have ended.
    pub(super) inner: Cost,
    /// The interrupted instruction, if it is the handler of an exception.
    pub(super) interrupted: Option<Box<Interrupted>>,
}

/// State to resume after an exception.
#[derive(Debug, Clone)]
pub(super) struct Interrupted {
    pub(super) before: Before,
    /// Number of the instruction before which the link register was written.
    pub(super) lr_written: Option<u64>,
}

/// Relation of a transfer of control to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// It ends the call.
    Ends,
    /// It does not end the call, but may end an outer one.
    Other,
    /// It stays within the call, so it ends no outer one either.
    Within,
}

impl Frame {
    /// A call that begins with the instruction `now`.
    pub(super) fn new(ordinal: u64, began: Began, site: Option<Site>, ret: u64, now: &Instruction) -> Self {
        let Instruction { site: entry, sp, stack, .. } = *now;
        let (inner, interrupted) = (Cost::default(), None);
        Self { ordinal, function: entry.pc, began, site, entry, ret, sp, stack, inner, interrupted }
    }

    /// Whether a transfer to `now` ends the call. With `strictly`, the stack pointer has to confirm it.
    pub(super) fn fits(&self, now: &Instruction, strictly: bool) -> Fit {
        if let Some(interrupted) = &self.interrupted {
            let before = &interrupted.before;
            let is_back =
                now.site.pc == self.ret || now.site.pc == before.site.pc || before.target() == Some(now.site.pc);
            return if is_back && !strictly { Fit::Ends } else { Fit::Other };
        }
        if self.began == Began::Start {
            return Fit::Within;
        }
        let is_ret = self.ret == now.site.pc;
        match self.depth(now) {
            None if strictly => Fit::Other,
            None if is_ret => Fit::Ends,
            Some(0) if is_ret => Fit::Ends,
            Some(1..) => Fit::Within,
            _ => Fit::Other,
        }
    }

    /// Growth of the stack since it began, if known.
    pub(super) fn depth(&self, now: &Instruction) -> Option<i64> {
        match (self.sp, now.sp) {
            (Some(then), Some(sp)) if self.stack == now.stack => Some(then.wrapping_sub(sp).cast_signed()),
            _ => None,
        }
    }

    /// The completed call.
    pub(super) fn end(&self, ended: Ended, last: u64, exit: Site, back: Option<Site>) -> Call {
        let Self { ordinal, function, began, site, entry, .. } = *self;
        let own = Cost::between(&entry, &exit).without(self.inner);
        Call { ordinal, last, function, began, ended, site, entry, exit, back, own }
    }
}
