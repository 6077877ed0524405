//! The call follower: tracks the call stack of a thread and emits each call when it ends.
//!
//! ```text
//! [root] [call] [call] [handler] [call]          an exception is on top of what it interrupted
//! [root] [call] [call] [after a gap] [call]      so is what follows a gap
//! ```
//!
//! Knows no source: the reader supplies instructions, or the ends of blocks, and reports exceptions and gaps.

use super::flow::{Before, Exit};
use super::frame::{Fit, Frame, Interrupted};
use super::returns::Returns;
use super::{Began, Call, CallSink, Cost, Ended, Instruction, Site};

/// Maximum number of calls in progress; beyond it, the outer half is dropped.
pub(super) const LIMIT: usize = 1 << 18;

/// Maximum number of frames searched for a return, unless the stack pointer ends the search earlier.
const SEARCH: usize = 1 << 10;

/// Maximum number of instructions between the write of the link register and a call by a branch without link.
const FRESH: u64 = 8;

/// Maximum distance of the return address from a branch without link that calls.
const NEAR: u64 = 64;

/// Tracker of the calls and returns of one stack.
#[derive(Debug, Clone)]
pub struct Follower {
    /// The number of the stack.
    stack: usize,
    /// Maximum number of calls in progress.
    limit: usize,
    /// The call stack; the first frame is the root.
    frames: Vec<Frame>,
    before: Option<Before>,
    /// Number of calls that have begun.
    begun: u64,
    /// Number of the instruction before which the link register was written, until a call or return uses it.
    lr_written: Option<u64>,
    returns: Returns,
    /// Number of frames that interrupt another.
    interrupting: usize,
    /// What came between the last instruction and the next.
    gap: Option<Gap>,
    /// Number of gaps so far.
    gaps: u32,
}

/// A break in the instructions of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// Another stack was executed.
    Switched,
    /// Instructions are missing.
    Missing,
}

impl Default for Follower {
    fn default() -> Self {
        Self::new()
    }
}

impl Follower {
    /// A follower at the start of a trace.
    pub fn new() -> Self {
        Self::of_stack(0)
    }

    /// The follower of the stack with this number.
    pub fn of_stack(stack: usize) -> Self {
        Self {
            stack,
            limit: LIMIT,
            frames: Vec::new(),
            before: None,
            begun: 0,
            lr_written: None,
            returns: Returns::default(),
            interrupting: 0,
            gap: None,
            gaps: 0,
        }
    }

    /// The same with at most this number of calls in progress.
    pub(super) fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Number of calls in progress, without the root.
    pub fn depth(&self) -> usize {
        self.frames.len().saturating_sub(1)
    }

    /// Processes the next instruction; calls that end before it are passed to `sink`, inner ones first.
    #[inline]
    pub fn step(&mut self, now: &Instruction, sink: &mut impl CallSink) {
        self.arrive(now, sink);
        self.before = Some(Before::new(now));
    }

    /// Processes the transfer to the next instruction, which is not executed yet.
    #[inline]
    pub(super) fn arrive(&mut self, now: &Instruction, sink: &mut impl CallSink) {
        if now.is_lr_written {
            self.lr_written = Some(now.site.number);
        }
        match self.before {
            Some(before) if before.next == now.site.pc && self.gap.is_none() => {}
            Some(before) => self.transfer(before, now, sink),
            None => self.start(now, sink),
        }
    }

    /// Execution continued up to this instruction without calls or returns.
    #[inline]
    pub(super) fn skip_to(&mut self, before: Before) {
        self.before = Some(before);
    }

    /// Processes the transfer from the end of a block to `now`.
    #[inline]
    pub(super) fn leave_block(&mut self, exit: Exit, from: &Before, now: &Instruction, sink: &mut impl CallSink) {
        if exit == Exit::Call {
            return self.call(from, from.next, now, sink);
        }
        let interrupted = self.judge(exit, from, from, now, sink);
        self.settle(interrupted, from, now, sink);
    }

    /// The last instruction returned from an exception.
    pub fn exception_returned(&mut self) {
        if let Some(before) = &mut self.before {
            before.is_exception_return = true;
        }
    }

    /// The next instruction may not follow the last one.
    pub fn gap(&mut self, gap: Gap) {
        if self.gap != Some(Gap::Missing) {
            self.gap = Some(gap);
        }
    }

    /// Ends all calls at the end of the trace, the innermost first.
    pub fn finish(&mut self, sink: &mut impl CallSink) {
        let Some(before) = self.before.take() else { return };
        while !self.frames.is_empty() {
            self.end(Ended::AtEnd, before.site, None, sink);
        }
        *self = Self::of_stack(self.stack).with_limit(self.limit);
    }

    fn start(&mut self, now: &Instruction, sink: &mut impl CallSink) {
        self.gap = None;
        self.frames.push(Frame::root(now));
        sink.began(self.stack, now.site.pc, Began::Start);
    }

    /// Handles a transfer of control: `now` does not follow `before` in memory, or not at once.
    fn transfer(&mut self, before: Before, now: &Instruction, sink: &mut impl CallSink) {
        if let Some(gap) = self.gap.take() {
            let is_missing = gap == Gap::Missing;
            self.gaps += u32::from(is_missing);
            let is_repeated = now.is_interrupted && before.site.pc == now.site.pc;
            if before.next == now.site.pc || is_repeated || now.return_address == Some(now.site.pc) {
                return;
            }
            if !before.branches_to(now.site.pc) {
                self.gaps += u32::from(!is_missing);
                return self.resume_after_gap(before, now, sink);
            }
        } else if self.is_interrupted(&before, now) {
            // A system call can return from a signal.
            let Some(index) = self.find_interrupted(now) else { return self.interrupt(before, now, sink) };
            let interrupted = self.return_from(index, &before, now, sink);
            return self.settle(interrupted, &before, now, sink);
        }
        let interrupted = self.judge(before.exit(), &before, &before, now, sink);
        self.settle(interrupted, &before, now, sink);
    }

    /// Interprets the transfers of instructions that were interrupted, from the inner ones to the outer ones: an exception may
    /// return to the target of the branch that it interrupted.
    fn settle(&mut self, mut interrupted: Option<Before>, exit: &Before, now: &Instruction, sink: &mut impl CallSink) {
        while let Some(from) = interrupted {
            if from.next == now.site.pc || from.site.pc == now.site.pc {
                return;
            }
            interrupted = self.judge(from.exit(), &from, exit, now, sink);
        }
    }

    /// Whether an exception was taken. If the trace does not report it, it shows as a change of mode after an instruction
    /// that is not a branch.
    fn is_interrupted(&self, before: &Before, now: &Instruction) -> bool {
        now.is_interrupted || (before.stack != now.stack && before.exit() == Exit::Other)
    }

    /// Interprets the transfer from `from` to `now`. If it ends an exception, returns the interrupted instruction, whose
    /// own transfer is to be interpreted next.
    fn judge(
        &mut self,
        kind: Exit,
        from: &Before,
        exit: &Before,
        now: &Instruction,
        sink: &mut impl CallSink,
    ) -> Option<Before> {
        match kind {
            Exit::ExceptionReturn => return self.resume(exit, now, sink),
            Exit::Call => self.call(from, from.next, now, sink),
            Exit::Direct => self.call_by_hand(from, now, sink),
            Exit::Indirect | Exit::Return if from.has_exception_return() && self.is_in_handler() => {
                return self.resume(exit, now, sink);
            }
            Exit::Indirect | Exit::Return | Exit::Unknown => {
                if let Some(index) = self.find(now, false) {
                    return self.return_from(index, exit, now, sink);
                }
                self.unwind(exit, now, sink);
                match kind {
                    Exit::Return => self.return_to_unknown(exit, now, sink),
                    _ => self.call_by_hand(from, now, sink),
                }
            }
            Exit::Other => {
                if let Some(index) = self.find(now, true) {
                    return self.return_from(index, exit, now, sink);
                }
            }
        }
        None
    }

    #[inline]
    fn call(&mut self, from: &Before, ret: u64, now: &Instruction, sink: &mut impl CallSink) {
        self.push(Began::Called, from.site, ret, now, sink);
        let caller = self.frames.len().wrapping_sub(2);
        if let Some(frame) = self.frames.get(caller) {
            self.returns.record(ret, (caller, frame.ordinal));
        }
        self.lr_written = None;
    }

    /// A call by a branch without link: a nearby address was written to the link register just before. It is not a call
    /// if that address is the return address of the current call (then it is a tail call), or the target.
    fn call_by_hand(&mut self, from: &Before, now: &Instruction, sink: &mut impl CallSink) {
        let (Some(written), Some(lr)) = (self.lr_written, now.lr) else { return };
        let ret = if from.next & 1 == 0 { lr & !1 } else { lr };
        let is_own = self.frames.last().is_some_and(|frame| frame.ret == ret && frame.began == Began::Called);
        let is_call = now.site.number.saturating_sub(written) < FRESH
            && ret.abs_diff(from.next) < NEAR
            && ret != now.site.pc
            && !is_own;
        if is_call {
            self.call(from, ret, now, sink);
        }
    }

    fn interrupt(&mut self, before: Before, now: &Instruction, sink: &mut impl CallSink) {
        self.push_interrupting(Began::Exception, before, now, sink);
    }

    /// Adds a frame on top of what was interrupted after `before`.
    fn push_interrupting(&mut self, began: Began, before: Before, now: &Instruction, sink: &mut impl CallSink) {
        let interrupted =
            Interrupted { before, lr_written: self.lr_written.take(), begun: self.begun, after: Cost::default() };
        self.push_over(began, Box::new(interrupted), now, sink);
    }

    fn push_over(&mut self, began: Began, interrupted: Box<Interrupted>, now: &Instruction, sink: &mut impl CallSink) {
        let before = &interrupted.before;
        self.push(began, before.site, now.return_address.unwrap_or(before.next), now, sink);
        if let Some(frame) = self.frames.last_mut() {
            frame.interrupted = Some(interrupted);
            self.interrupting += 1;
        }
    }

    #[inline]
    fn push(&mut self, began: Began, site: Site, ret: u64, now: &Instruction, sink: &mut impl CallSink) {
        if self.frames.len() >= self.limit {
            self.drop_outer(sink);
        }
        self.begun += 1;
        self.returns.add(ret);
        self.frames.push(Frame::new((self.begun, self.gaps), began, Some(site), ret, now));
        sink.began(self.stack, now.site.pc, began);
    }

    #[inline]
    fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        if frame.ordinal > 0 {
            self.returns.remove(frame.ret);
        }
        self.interrupting -= usize::from(frame.interrupted.is_some());
        Some(frame)
    }

    /// Drops the outer half of the calls; their cost goes to the root.
    #[cold]
    fn drop_outer(&mut self, sink: &mut impl CallSink) {
        let (mut inner, half) = (Cost::default(), 1..self.frames.len().div_ceil(2));
        sink.dropped(self.stack, half.clone());
        for frame in self.frames.drain(half) {
            inner.add(frame.inner);
            self.returns.remove(frame.ret);
            self.interrupting -= usize::from(frame.interrupted.is_some());
        }
        if let Some(root) = self.frames.first_mut() {
            root.inner.add(inner);
        }
    }

    /// Index of the frame that returns to `now`.
    fn find(&self, now: &Instruction, strictly: bool) -> Option<usize> {
        if self.interrupting == 0 && !self.returns.may_have(now.site.pc) {
            return None;
        }
        for (index, frame) in self.frames.iter().enumerate().rev().take(SEARCH) {
            match frame.fits(now, strictly) {
                Fit::Ends => return Some(index),
                Fit::Other => {}
                Fit::Within => return None,
            }
        }
        None
    }

    /// Index of the innermost frame that interrupted what resumes with `now`.
    fn find_interrupted(&self, now: &Instruction) -> Option<usize> {
        if self.interrupting == 0 {
            return None;
        }
        let frames = self.frames.iter().enumerate().rev().take(SEARCH);
        frames.filter(|(_, frame)| frame.resumes(now.site.pc)).map(|(index, _)| index).next()
    }

    fn is_in_handler(&self) -> bool {
        self.interrupting > 0 && self.frames.iter().rev().take(SEARCH).any(|frame| frame.began == Began::Exception)
    }

    /// Ends the innermost exception. If execution was missing since, it has to be the one that resumes here.
    fn resume(&mut self, exit: &Before, now: &Instruction, sink: &mut impl CallSink) -> Option<Before> {
        let index = self.frames.iter().rposition(|frame| matches!(frame.began, Began::Exception | Began::Gap))?;
        if self.frames.get(index).is_some_and(|frame| frame.began == Began::Exception) {
            return self.return_from(index, exit, now, sink);
        }
        match self.find_interrupted(now) {
            Some(index) => self.return_from(index, exit, now, sink),
            None => {
                self.return_to_unknown(exit, now, sink);
                None
            }
        }
    }

    /// Ends this call. Frames within it that did not return were left, ended in a gap, or were not calls.
    #[inline]
    fn return_from(
        &mut self,
        index: usize,
        exit: &Before,
        now: &Instruction,
        sink: &mut impl CallSink,
    ) -> Option<Before> {
        if self.frames.len() > index + 1 {
            self.clear_above(index, (exit.site, now), None, sink);
        }
        self.end_innermost(Ended::Returned, exit, now, sink)
    }

    /// Ends the innermost call. Returns the instruction that it interrupted. What came after a gap is part of what was before,
    /// if execution is back there.
    #[inline]
    fn end_innermost(
        &mut self,
        ended: Ended,
        exit: &Before,
        now: &Instruction,
        sink: &mut impl CallSink,
    ) -> Option<Before> {
        let interrupted = if self.frames.last().is_some_and(|frame| frame.began == Began::Gap) {
            let gap = self.absorb(sink);
            sink.resolved(self.stack);
            gap
        } else {
            let interrupted = self.take_interrupted();
            self.end(ended, exit.site, Some(now.site), sink);
            interrupted
        };
        self.lr_written = interrupted.as_ref().and_then(|interrupted| interrupted.lr_written);
        interrupted.map(|interrupted| interrupted.before)
    }

    #[inline]
    fn take_interrupted(&mut self) -> Option<Box<Interrupted>> {
        let interrupted = self.frames.last_mut()?.interrupted.take()?;
        self.interrupting -= 1;
        Some(interrupted)
    }

    /// Removes the frames above this one. Those before a gap ended in it; `in_gap`: the last instruction before a gap above
    /// all of them, and the last call that had begun.
    fn clear_above(
        &mut self,
        index: usize,
        (exit, now): (Site, &Instruction),
        mut in_gap: Option<(Site, u64)>,
        sink: &mut impl CallSink,
    ) {
        let mut after_gaps = Cost::default();
        while self.frames.len() > index + 1 {
            let Some(frame) = self.frames.last() else { break };
            match (frame.began, in_gap) {
                (Began::Gap, _) => {
                    in_gap = frame.interrupted.as_ref().map(|gap| (gap.before.site, gap.begun));
                    sink.absorbed(self.stack);
                    after_gaps.add(self.pop().map(|frame| frame.within()).unwrap_or_default());
                }
                (_, Some((site, last))) => self.end_as(Ended::InGap, last, site, None, sink),
                _ if frame.is_certain(now) => self.end(Ended::Unwound, exit, None, sink),
                _ => {
                    self.absorb(sink);
                }
            }
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.inner.add(after_gaps);
        }
        sink.resolved(self.stack);
    }

    /// Removes the innermost frame, which was not a call, and adds its cost to the enclosing one. Returns what it interrupted.
    fn absorb(&mut self, sink: &mut impl CallSink) -> Option<Box<Interrupted>> {
        let frame = self.pop()?;
        if let Some(outer) = self.frames.last_mut() {
            outer.inner.add(frame.within());
        }
        sink.absorbed(self.stack);
        frame.interrupted
    }

    /// Ends the calls that the stack was unwound past, when execution does not continue after a call instruction. The
    /// caller of the outermost of them ends too if the stack pointer is the one with which it began. Without a stack pointer,
    /// the stack was unwound if an outer function continues after a call that it made.
    fn unwind(&mut self, exit: &Before, now: &Instruction, sink: &mut impl CallSink) {
        if now.sp.is_none() {
            let caller = self.returns.caller(now.site.pc, |index, ordinal| {
                self.frames.get(index).is_some_and(|frame| frame.ordinal as u32 == ordinal)
            });
            return caller.into_iter().for_each(|caller| self.clear_above(caller, (exit.site, now), None, sink));
        }
        let depth = |frame: &Frame| frame.depth(now).filter(|_| frame.began == Began::Called);
        let mut is_unwound = false;
        while self.frames.last().and_then(depth).is_some_and(|depth| depth < 0 || is_unwound && depth == 0) {
            is_unwound = true;
            self.end(Ended::Unwound, exit.site, None, sink);
        }
    }

    /// A return to an unknown address. From the root: the call and its caller began before the trace. After a gap: in the gap.
    fn return_to_unknown(&mut self, exit: &Before, now: &Instruction, sink: &mut impl CallSink) {
        let Some(frame) = self.frames.last_mut() else { return };
        if !matches!(frame.began, Began::Start | Began::Gap) || frame.depth(now).is_some_and(|depth| depth > 0) {
            return;
        }
        self.lr_written = None;
        if frame.began == Began::Gap {
            return self.return_after_gap(exit, now, sink);
        }
        let call = frame.end(Ended::Returned, self.begun, exit.site, Some(now.site));
        (frame.function, frame.sp, frame.stack) = (now.site.pc, now.sp, now.stack);
        frame.inner = call.total();
        sink.ended(self.stack, &Call { began: Began::Before, has_gap: self.gaps > 0, ..call });
    }

    /// A return from a function that was called in a gap: its caller takes its place.
    fn return_after_gap(&mut self, exit: &Before, now: &Instruction, sink: &mut impl CallSink) {
        let Some(mut frame) = self.pop() else { return };
        let call = frame.end(Ended::Returned, self.begun, exit.site, Some(now.site));
        sink.ended(self.stack, &Call { has_gap: frame.gaps != self.gaps, ..call });
        if let Some(mut gap) = frame.interrupted.take() {
            gap.after.add(call.total());
            self.push_over(Began::Gap, gap, now, sink);
        }
    }

    /// Continues after a gap: after a call that ended in it, where an exception or an earlier gap interrupted execution, or
    /// anywhere.
    fn resume_after_gap(&mut self, before: Before, now: &Instruction, sink: &mut impl CallSink) {
        let Some(index) = self.find(now, false) else {
            return self.push_interrupting(Began::Gap, before, now, sink);
        };
        self.clear_above(index, (before.site, now), Some((before.site, self.begun)), sink);
        let interrupted = self.end_innermost(Ended::InGap, &before, now, sink);
        self.settle(interrupted, &before, now, sink);
    }

    /// Ends the innermost call.
    #[inline]
    fn end(&mut self, ended: Ended, exit: Site, back: Option<Site>, sink: &mut impl CallSink) {
        self.end_as(ended, self.begun, exit, back, sink);
    }

    /// Ends the innermost call, within which the call with the ordinal `last` was the last to begin.
    #[inline]
    fn end_as(&mut self, ended: Ended, last: u64, exit: Site, back: Option<Site>, sink: &mut impl CallSink) {
        let Some(frame) = self.frames.last() else { return };
        let mut call = frame.end(ended, last, exit, back);
        call.has_gap = frame.gaps != self.gaps;
        let earlier = frame.earlier();
        if frame.ordinal > 0 {
            self.returns.remove(frame.ret);
        }
        self.interrupting -= usize::from(frame.interrupted.is_some());
        // Frames are large: this one is not moved.
        self.frames.truncate(self.frames.len() - 1);
        if let Some(outer) = self.frames.last_mut() {
            outer.inner.add(call.total());
            outer.inner.add(earlier);
        }
        sink.ended(self.stack, &call);
    }
}
