//! Follows a core from instruction to instruction, and tells calls when they end.

use unspool_isa::ControlFlow;

use super::flow::Before;
use super::frame::{Fit, Frame, Interrupted};
use super::{Began, Call, Ended, Instruction, Sums};

/// More calls than this are not held at a time; then the outermost are no longer waited for.
const LIMIT: usize = 1 << 18;

/// How far outwards a return is looked for, where no stack pointer says that it is enough.
const SEARCH: usize = 1 << 10;

/// A link register that was written this many instructions ago may still belong to a call.
const FRESH: u64 = 8;

/// A return address is this close to the branch that calls, unless that branch has link.
const NEAR: u64 = 64;

/// Follows the calls and returns of one core.
#[derive(Debug, Clone, Default)]
pub struct Follower {
    /// The outermost is what the trace started in.
    frames: Vec<Frame>,
    before: Option<Before>,
    /// How many calls have begun.
    begun: u64,
    /// The number of the instruction before which the link register was written, until a call or return uses it.
    lr_written: Option<u64>,
}

impl Follower {
    /// Starts.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many calls are in progress, besides what the trace started in.
    pub fn depth(&self) -> usize {
        self.frames.len().saturating_sub(1)
    }

    /// The next instruction; calls that end before it are handed to `take`, inner ones first.
    #[inline]
    pub fn step(&mut self, now: &Instruction, take: &mut impl FnMut(&Call)) {
        if now.is_lr_written {
            self.lr_written = Some(now.site.number);
        }
        match self.before {
            Some(before) if before.next == now.site.pc => {}
            Some(before) => self.go(before, now, take),
            None => self.frames.push(Frame::new(0, Began::Start, None, 0, now)),
        }
        self.before = Some(Before::new(now));
    }

    /// The trace ends here: so do all calls, the innermost first.
    pub fn finish(&mut self, take: &mut impl FnMut(&Call)) {
        let Some(before) = self.before.take() else { return };
        while !self.frames.is_empty() {
            self.end(Ended::AtEnd, &before, None, take);
        }
        *self = Self::default();
    }

    /// Control went elsewhere.
    fn go(&mut self, before: Before, now: &Instruction, take: &mut impl FnMut(&Call)) {
        let mut from = before;
        if self.is_interrupted(&before, now) {
            return self.interrupt(before, now);
        }
        // An exception may return to where the branch goes that it came behind.
        while let Some(outer) = self.judge(&from, &before, now, take) {
            if outer.next == now.site.pc || outer.site.pc == now.site.pc {
                return;
            }
            from = outer;
        }
    }

    /// Without a word in the trace, an exception shows as another mode behind an instruction that is no branch.
    fn is_interrupted(&self, before: &Before, now: &Instruction) -> bool {
        now.is_interrupted
            || (before.stack != now.stack && before.decoded().is_some_and(|decoded| !decoded.flow.is_branch()))
    }

    /// What going from `from` to `now` means. If it ends an exception, what was interrupted is to be judged next.
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
            Some(ControlFlow::Direct) => _ = self.call_by_hand(from, now),
            Some(ControlFlow::Indirect) if from.has_exception_return() && self.is_in_handler() => {
                return self.resume(exit, now, take);
            }
            Some(ControlFlow::Indirect) | None => {
                if let Some(index) = self.find(now, false) {
                    return self.return_from(index, exit, now, take);
                }
                self.cut_back(exit, now, take);
                match decoded {
                    Some(decoded) if decoded.ret => self.return_before_the_trace(exit, now, take),
                    _ => _ = self.call_by_hand(from, now),
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

    /// A call by a branch without link: somebody put an address into the link register just before, close to here. It
    /// is none if that is the return address of the present call (then that call goes on elsewhere), or the target.
    fn call_by_hand(&mut self, from: &Before, now: &Instruction) -> bool {
        let (Some(written), Some(lr)) = (self.lr_written, now.lr) else { return false };
        let ret = if from.next & 1 == 0 { lr & !1 } else { lr };
        let is_own = self.frames.last().is_some_and(|frame| frame.ret == ret && frame.began == Began::Called);
        let is_call = now.site.number.saturating_sub(written) < FRESH
            && ret.abs_diff(from.next) < NEAR
            && ret != now.site.pc
            && !is_own;
        if is_call {
            self.call(from, ret, now);
        }
        is_call
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
            self.forget();
        }
        self.begun += 1;
        self.frames.push(Frame::new(self.begun, began, Some(from.site), ret, now));
    }

    /// No longer waits for the outer half of the calls.
    fn forget(&mut self) {
        let mut inner = Sums::default();
        self.frames.drain(1..LIMIT / 2).for_each(|frame| inner.add(frame.inner));
        if let Some(root) = self.frames.first_mut() {
            root.inner.add(inner);
        }
    }

    /// The call that returns to `now`.
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

    /// The end of the innermost exception.
    fn resume(&mut self, exit: &Before, now: &Instruction, take: &mut impl FnMut(&Call)) -> Option<Before> {
        let index = self.frames.iter().rposition(|frame| frame.interrupted.is_some())?;
        self.return_from(index, exit, now, take)
    }

    /// The end of this call. What began within it and did not return was no call.
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

    /// The innermost call was none.
    fn absorb(&mut self) {
        let inner = self.frames.pop().map(|frame| frame.inner);
        if let (Some(inner), Some(outer)) = (inner, self.frames.last_mut()) {
            outer.inner.add(inner);
        }
    }

    /// The stack was cut back over calls that did not return, and execution went on somewhere else than behind a call.
    /// What made the outermost of them is gone too, if the stack is as it was when that began.
    fn cut_back(&mut self, exit: &Before, now: &Instruction, take: &mut impl FnMut(&Call)) {
        let depth = |frame: &Frame| frame.depth(now).filter(|_| frame.began == Began::Called);
        let mut is_cut = false;
        while self.frames.last().and_then(depth).is_some_and(|depth| depth < 0 || is_cut && depth == 0) {
            is_cut = true;
            self.end(Ended::Left, exit, None, take);
        }
    }

    /// Nobody is left to return to: the call began before the trace, and so did its caller.
    fn return_before_the_trace(&mut self, exit: &Before, now: &Instruction, take: &mut impl FnMut(&Call)) {
        let [root] = &mut self.frames[..] else { return };
        if root.depth(now).is_some_and(|depth| depth > 0) {
            return;
        }
        let call = root.end(Ended::Returned, self.begun, exit.site, Some(now.site));
        take(&Call { began: Began::Before, ..call });
        (root.function, root.sp, root.stack) = (now.site.pc, now.sp, now.stack);
        root.inner = call.whole();
        self.lr_written = None;
    }

    /// The innermost call ends.
    fn end(&mut self, ended: Ended, exit: &Before, back: Option<&Instruction>, take: &mut impl FnMut(&Call)) {
        let Some(frame) = self.frames.pop() else { return };
        let call = frame.end(ended, self.begun, exit.site, back.map(|back| back.site));
        if let Some(outer) = self.frames.last_mut() {
            outer.inner.add(call.whole());
        }
        take(&call);
    }
}
