//! The call follower: tracks the call stack of a core and emits each call when it ends.

use unspool_isa::ControlFlow;

use super::flow::Before;
use super::frame::{Fit, Frame, Interrupted};
use super::{Began, Call, Cost, Ended, Instruction};

/// Maximum number of calls in progress; beyond it, the outer half is dropped.
const LIMIT: usize = 1 << 18;

/// Maximum number of frames searched for a return, unless the stack pointer ends the search earlier.
const SEARCH: usize = 1 << 10;

/// Maximum number of instructions between the write of the link register and a call by a branch without link.
const FRESH: u64 = 8;

/// Maximum distance of the return address from a branch without link that calls.
const NEAR: u64 = 64;

/// Tracker of the calls and returns of one core.
#[derive(Debug, Clone, Default)]
pub struct Follower {
    /// The call stack; the first frame is the root.
    frames: Vec<Frame>,
    before: Option<Before>,
    /// Number of calls that have begun.
    begun: u64,
    /// Number of the instruction before which the link register was written, until a call or return uses it.
    lr_written: Option<u64>,
}

impl Follower {
    /// A follower at the start of a trace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of calls in progress, without the root.
    pub fn depth(&self) -> usize {
        self.frames.len().saturating_sub(1)
    }

    /// Processes the next instruction; calls that end before it are passed to `take`, inner ones first.
    #[inline]
    pub fn step(&mut self, now: &Instruction, take: &mut impl FnMut(&Call)) {
        if now.is_lr_written {
            self.lr_written = Some(now.site.number);
        }
        match self.before {
            Some(before) if before.next == now.site.pc => {}
            Some(before) => self.transfer(before, now, take),
            None => self.frames.push(Frame::new(0, Began::Start, None, 0, now)),
        }
        self.before = Some(Before::new(now));
    }

    /// Ends all calls at the end of the trace, the innermost first.
    pub fn finish(&mut self, take: &mut impl FnMut(&Call)) {
        let Some(before) = self.before.take() else { return };
        while !self.frames.is_empty() {
            self.end(Ended::AtEnd, &before, None, take);
        }
        *self = Self::default();
    }

    /// Handles a transfer of control: `now` does not follow `before` in memory.
    fn transfer(&mut self, before: Before, now: &Instruction, take: &mut impl FnMut(&Call)) {
        let mut from = before;
        if self.is_interrupted(&before, now) {
            return self.interrupt(before, now);
        }
        // An exception may return to the target of the branch that it interrupted.
        while let Some(outer) = self.judge(&from, &before, now, take) {
            if outer.next == now.site.pc || outer.site.pc == now.site.pc {
                return;
            }
            from = outer;
        }
    }

    /// Whether an exception was taken. If the trace does not report it, it shows as a change of mode after an instruction
    /// that is not a branch.
    fn is_interrupted(&self, before: &Before, now: &Instruction) -> bool {
        now.is_interrupted
            || (before.stack != now.stack && before.decoded().is_some_and(|decoded| !decoded.flow.is_branch()))
    }

    /// Interprets the transfer from `from` to `now`. If it ends an exception, returns the interrupted instruction, whose
    /// own transfer is to be interpreted next.
    fn judge(
        &mut self,
        from: &Before,
        exit: &Before,
        now: &Instruction,
        take: &mut impl FnMut(&Call),
    ) -> Option<Before> {
        let decoded = from.decoded();
        match decoded.map(|decoded| decoded.flow) {
            Some(ControlFlow::ExceptionReturn) => return self.resume(exit, now, take),
            Some(ControlFlow::Direct | ControlFlow::Indirect) if decoded.is_some_and(|decoded| decoded.link) => {
                self.call(from, from.next, now);
            }
            Some(ControlFlow::Direct) => self.call_by_hand(from, now),
            Some(ControlFlow::Indirect) if from.has_exception_return() && self.is_in_handler() => {
                return self.resume(exit, now, take);
            }
            Some(ControlFlow::Indirect) | None => {
                if let Some(index) = self.find(now, false) {
                    return self.return_from(index, exit, now, take);
                }
                self.unwind(exit, now, take);
                match decoded {
                    Some(decoded) if decoded.ret => self.return_before_the_trace(exit, now, take),
                    _ => self.call_by_hand(from, now),
                }
            }
            Some(_) => {
                if let Some(index) = self.find(now, true) {
                    return self.return_from(index, exit, now, take);
                }
            }
        }
        None
    }

    fn call(&mut self, from: &Before, ret: u64, now: &Instruction) {
        self.push(Began::Called, from, ret, now);
        self.lr_written = None;
    }

    /// A call by a branch without link: a nearby address was written to the link register just before. It is not a call
    /// if that address is the return address of the current call (then it is a tail call), or the target.
    fn call_by_hand(&mut self, from: &Before, now: &Instruction) {
        let (Some(written), Some(lr)) = (self.lr_written, now.lr) else { return };
        let ret = if from.next & 1 == 0 { lr & !1 } else { lr };
        let is_own = self.frames.last().is_some_and(|frame| frame.ret == ret && frame.began == Began::Called);
        let is_call = now.site.number.saturating_sub(written) < FRESH
            && ret.abs_diff(from.next) < NEAR
            && ret != now.site.pc
            && !is_own;
        if is_call {
            self.call(from, ret, now);
        }
    }

    fn interrupt(&mut self, before: Before, now: &Instruction) {
        let lr_written = self.lr_written.take();
        self.push(Began::Exception, &before, before.next, now);
        if let Some(frame) = self.frames.last_mut() {
            frame.interrupted = Some(Box::new(Interrupted { before, lr_written }));
        }
    }

    fn push(&mut self, began: Began, from: &Before, ret: u64, now: &Instruction) {
        if self.frames.len() >= LIMIT {
            self.drop_outer();
        }
        self.begun += 1;
        self.frames.push(Frame::new(self.begun, began, Some(from.site), ret, now));
    }

    /// Drops the outer half of the calls; their cost goes to the root.
    fn drop_outer(&mut self) {
        let mut inner = Cost::default();
        self.frames.drain(1..LIMIT / 2).for_each(|frame| inner.add(frame.inner));
        if let Some(root) = self.frames.first_mut() {
            root.inner.add(inner);
        }
    }

    /// Index of the frame that returns to `now`.
    fn find(&self, now: &Instruction, strictly: bool) -> Option<usize> {
        for (index, frame) in self.frames.iter().enumerate().rev().take(SEARCH) {
            match frame.fits(now, strictly) {
                Fit::Ends => return Some(index),
                Fit::Other => {}
                Fit::Within => return None,
            }
        }
        None
    }

    fn is_in_handler(&self) -> bool {
        self.frames.iter().rev().take(SEARCH).any(|frame| frame.interrupted.is_some())
    }

    /// Ends the innermost exception.
    fn resume(&mut self, exit: &Before, now: &Instruction, take: &mut impl FnMut(&Call)) -> Option<Before> {
        let index = self.frames.iter().rposition(|frame| frame.interrupted.is_some())?;
        self.return_from(index, exit, now, take)
    }

    /// Ends this call. Frames within it that did not return were not calls.
    fn return_from(
        &mut self,
        index: usize,
        exit: &Before,
        now: &Instruction,
        take: &mut impl FnMut(&Call),
    ) -> Option<Before> {
        while self.frames.len() > index + 1 {
            self.absorb();
        }
        let interrupted = self.frames.last_mut().and_then(|frame| frame.interrupted.take());
        self.end(Ended::Returned, exit, Some(now), take);
        self.lr_written = interrupted.as_ref().and_then(|interrupted| interrupted.lr_written);
        interrupted.map(|interrupted| interrupted.before)
    }

    /// Removes the innermost frame, which was not a call, and adds its cost to the enclosing one.
    fn absorb(&mut self) {
        let inner = self.frames.pop().map(|frame| frame.inner);
        if let (Some(inner), Some(outer)) = (inner, self.frames.last_mut()) {
            outer.inner.add(inner);
        }
    }

    /// Ends the calls that the stack was unwound past, when execution does not continue after a call instruction. The
    /// caller of the outermost of them ends too if the stack pointer is the one with which it began.
    fn unwind(&mut self, exit: &Before, now: &Instruction, take: &mut impl FnMut(&Call)) {
        let depth = |frame: &Frame| frame.depth(now).filter(|_| frame.began == Began::Called);
        let mut is_unwound = false;
        while self.frames.last().and_then(depth).is_some_and(|depth| depth < 0 || is_unwound && depth == 0) {
            is_unwound = true;
            self.end(Ended::Unwound, exit, None, take);
        }
    }

    /// A return from the root: the call and its caller began before the trace.
    fn return_before_the_trace(&mut self, exit: &Before, now: &Instruction, take: &mut impl FnMut(&Call)) {
        let [root] = &mut self.frames[..] else { return };
        if root.depth(now).is_some_and(|depth| depth > 0) {
            return;
        }
        let call = root.end(Ended::Returned, self.begun, exit.site, Some(now.site));
        take(&Call { began: Began::Before, ..call });
        (root.function, root.sp, root.stack) = (now.site.pc, now.sp, now.stack);
        root.inner = call.total();
        self.lr_written = None;
    }

    /// Ends the innermost call.
    fn end(&mut self, ended: Ended, exit: &Before, back: Option<&Instruction>, take: &mut impl FnMut(&Call)) {
        let Some(frame) = self.frames.pop() else { return };
        let call = frame.end(ended, self.begun, exit.site, back.map(|back| back.site));
        if let Some(outer) = self.frames.last_mut() {
            outer.inner.add(call.total());
        }
        take(&call);
    }
}
