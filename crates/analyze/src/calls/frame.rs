//! Stack frames of the call follower: calls in progress.

use super::flow::Before;
use super::{Began, Call, Cost, Ended, Instruction, Site};

/// Maximum distance of the target of a branch with link that only loads an address: it skips some instructions. A function that
/// calls itself branches back.
const NEAR: u64 = 32;

/// Minimum distance of stack pointers that are those of different stacks.
const OTHER_STACK: u64 = 1 << 20;

/// A call in progress.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) ordinal: u64,
    pub(super) function: u64,
    pub(super) began: Began,
    /// Number of gaps before it began.
    pub(super) gaps: u32,
    pub(super) site: Option<Site>,
    pub(super) entry: Site,
    pub(super) ret: u64,
    /// The stack pointer when it began, and which one.
    pub(super) sp: Option<u64>,
    pub(super) stack: u32,
    /// Total cost of the calls that it made and that have ended.
    pub(super) inner: Cost,
    /// The interrupted instruction, if it is the handler of an exception, or the last one before a gap.
    pub(super) interrupted: Option<Box<Interrupted>>,
}

/// State to resume after an exception.
#[derive(Debug, Clone)]
pub(super) struct Interrupted {
    pub(super) before: Before,
    /// Number of the instruction before which the link register was written.
    pub(super) lr_written: Option<u64>,
    /// Number of calls that had begun.
    pub(super) begun: u64,
    /// After a gap: cost of the functions that were called in the gap and have returned.
    pub(super) after: Cost,
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
    /// The root, which begins with the instruction `now`.
    pub(super) fn root(now: &Instruction) -> Self {
        Self::new((0, 0), Began::Start, None, 0, now)
    }

    /// A call that begins with the instruction `now`, after a number of gaps.
    #[inline]
    pub(super) fn new(
        (ordinal, gaps): (u64, u32),
        began: Began,
        site: Option<Site>,
        ret: u64,
        now: &Instruction,
    ) -> Self {
        let Instruction { site: entry, sp, stack, .. } = *now;
        let (inner, interrupted) = (Cost::default(), None);
        Self { ordinal, function: entry.pc, began, gaps, site, entry, ret, sp, stack, inner, interrupted }
    }

    /// Whether a transfer to `now` ends the call. With `strictly`, the stack pointer has to confirm it.
    pub(super) fn fits(&self, now: &Instruction, strictly: bool) -> Fit {
        if self.interrupted.is_some() {
            return if self.resumes(now.site.pc) && !strictly { Fit::Ends } else { Fit::Other };
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

    /// Whether what it interrupted resumes at this address.
    pub(super) fn resumes(&self, address: u64) -> bool {
        self.interrupted
            .as_ref()
            .is_some_and(|interrupted| self.ret == address || interrupted.before.resumes_at(address))
    }

    /// Whether it began for certain, although it did not return: an exception, or a branch with link to another function. With
    /// a stack pointer, such a call is recognized when the stack is unwound, unless execution switched to another stack.
    pub(super) fn is_certain(&self, now: &Instruction) -> bool {
        let is_far = self.site.is_some_and(|site| self.function.wrapping_sub(site.pc) > NEAR);
        let is_elsewhere = self.stack == now.stack && self.depth(now).is_none();
        (self.sp.is_none() || now.sp.is_some() && is_elsewhere) && (self.began == Began::Exception || is_far)
    }

    /// Cost of what preceded it after the same gap.
    #[inline]
    pub(super) fn earlier(&self) -> Cost {
        self.interrupted.as_ref().map(|interrupted| interrupted.after).unwrap_or_default()
    }

    /// Cost of the calls that have ended since it began, or since the gap.
    pub(super) fn within(&self) -> Cost {
        let mut cost = self.inner;
        cost.add(self.earlier());
        cost
    }

    /// Growth of the stack since it began, if known. Coroutines have stacks of their own.
    pub(super) fn depth(&self, now: &Instruction) -> Option<i64> {
        match (self.sp, now.sp) {
            (Some(then), Some(sp)) if self.stack == now.stack && then.abs_diff(sp) < OTHER_STACK => {
                Some(then.wrapping_sub(sp).cast_signed())
            }
            _ => None,
        }
    }

    /// The completed call.
    #[inline]
    pub(super) fn end(&self, ended: Ended, last: u64, exit: Site, back: Option<Site>) -> Call {
        let Self { ordinal, function, began, site, entry, .. } = *self;
        let own = Cost::between(&entry, &exit).without(self.inner);
        Call { ordinal, last, function, began, ended, site, entry, exit, back, own, has_gap: false }
    }
}
