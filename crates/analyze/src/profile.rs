//! The profile: cost per function.
//!
//! calls, as they begin and end ─▶ **profile** ─▶ one row per function
//!
//! Functions are identified by their address. A function that calls itself, directly or through others, is on the stack
//! more than once; its total counts only the outermost of these calls, so that no total exceeds that of the trace. Which call is
//! the outermost is known late, because an outer one may turn out not to be a call: until then, the total of a call waits in the
//! outer one. After a gap, it waits for the end of what follows the gap, since the outer one may have ended in the gap.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use crate::calls::{Began, Call, CallSink, Cost, Ended, Stack};
use crate::number_hash::Fibonacci;

/// Maximum number of functions with a row of their own.
const LIMIT: usize = 1 << 20;

/// Row of all functions without a row of their own.
const REST: u32 = u32::MAX;

/// No frame.
const NONE: u32 = u32::MAX;

/// Cost per function of one stack, or of several that were [merged](Self::merge).
#[derive(Debug, Clone)]
pub struct Profile {
    rows: Vec<(u64, Row)>,
    /// Indices of rows by the address of the function.
    indices: HashMap<u64, u32, BuildHasherDefault<Fibonacci>>,
    /// The innermost frame of each row.
    innermost: Vec<u32>,
    rest: Row,
    rest_innermost: u32,
    /// Cost of the roots, which contain all other calls.
    total: Cost,
    /// The current stack, outermost first.
    frames: Vec<Frame>,
    /// The frames after gaps.
    gaps: Vec<AfterGap>,
    /// Totals per row that waited for a frame after a gap, which has ended.
    waiting: Vec<(u32, Cost)>,
    is_complete_only: bool,
}

/// A call in progress.
#[derive(Debug, Clone, Copy)]
struct Frame {
    row: u32,
    /// The next outer frame of the same row.
    outer: u32,
    /// Total of the outermost calls of the same function within it.
    nested: Cost,
    /// Own cost of the calls within it that are not counted.
    extra: Cost,
}

/// A frame that ended.
struct Popped {
    frame: Frame,
    /// It is what follows a gap.
    is_after_gap: bool,
}

/// What follows a gap.
#[derive(Debug, Clone, Default)]
struct AfterGap {
    /// Index of its frame.
    frame: usize,
    /// Totals per row of calls that are within calls of the same function from before the gap, if those have not ended.
    totals: HashMap<u32, Cost, BuildHasherDefault<Fibonacci>>,
}

/// Cost of the calls of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// Number of calls, recursive ones too. What was executed after a gap without a call is not counted as one.
    pub calls: u64,
    /// Number of calls whose beginning or end is not in the trace.
    pub incomplete: u64,
    /// Cost including callees. Calls within another call of the same function are not counted again.
    pub total: Cost,
    /// Own cost, without callees.
    pub own: Cost,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.incomplete += other.incomplete;
        self.total.add(other.total);
        self.own.add(other.own);
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::new()
    }
}

impl Profile {
    /// An empty profile.
    pub fn new() -> Self {
        Self {
            rows: Vec::new(),
            indices: HashMap::default(),
            innermost: Vec::new(),
            rest: Row::default(),
            rest_innermost: NONE,
            total: Cost::default(),
            frames: Vec::new(),
            gaps: Vec::new(),
            waiting: Vec::new(),
            is_complete_only: false,
        }
    }

    /// An empty profile that counts only the root and the calls whose beginning and end are in the trace. The own cost
    /// of other calls is added to their callers.
    pub fn of_complete_calls() -> Self {
        Self { is_complete_only: true, ..Self::new() }
    }

    /// Adds the costs of another stack.
    pub fn merge(&mut self, other: &Self) {
        self.total.add(other.total);
        self.rest.add(&other.rest);
        for (function, row) in &other.rows {
            let index = self.index(*function);
            self.row(index).add(row);
        }
    }

    /// Cost of the whole trace: the sum of all own costs.
    pub fn total(&self) -> Cost {
        self.total
    }

    /// The rows, sorted by the address of the function.
    pub fn rows(&self) -> impl Iterator<Item = (u64, &Row)> {
        let mut rows: Vec<(u64, &Row)> = self.rows.iter().map(|(function, row)| (*function, row)).collect();
        rows.retain(|(_, row)| **row != Row::default());
        rows.sort_by_key(|(function, _)| *function);
        rows.into_iter()
    }

    /// The functions without a row of their own, if there are too many functions.
    pub fn rest(&self) -> Option<&Row> {
        (self.rest.calls > 0).then_some(&self.rest)
    }

    /// Begins a call.
    #[inline]
    pub fn begin(&mut self, function: u64, began: Began) {
        let row = self.index(function);
        if began == Began::Gap {
            self.begin_after_gap();
        }
        let frame = self.frames.len() as u32;
        let outer = std::mem::replace(self.innermost(row), frame);
        self.frames.push(Frame { row, outer, nested: Cost::default(), extra: Cost::default() });
    }

    /// The innermost call was none.
    #[inline]
    pub fn absorb(&mut self) {
        if let Some(popped) = self.pop() {
            self.add_nested(&popped);
            self.add_extra(popped.frame.extra);
        }
    }

    /// Ends the innermost call.
    #[inline]
    pub fn end(&mut self, call: &Call) {
        if call.ended == Ended::AtEnd && !self.waiting.is_empty() {
            self.settle();
        }
        if call.began == Began::Before {
            return self.end_before_the_trace(call);
        }
        let Some(popped) = self.pop() else { return };
        if call.is_root() {
            self.total.add(call.total());
        }
        let frame = popped.frame;
        let mut own = call.own;
        own.add(frame.extra);
        if !self.is_counted(call) {
            self.add_nested(&popped);
            return self.add_extra(own);
        }
        let row = self.row(frame.row);
        row.calls += u64::from(call.began != Began::Gap);
        row.incomplete += u64::from(call.began != Began::Gap && !call.is_complete());
        row.own.add(own);
        match call.began {
            Began::Start => self.set_total(frame.row, call.total()),
            Began::Gap => self.waiting.push((frame.row, call.total())),
            _ => self.add_total(frame.row, call.total()),
        }
    }

    /// The outermost call ended, and its caller takes its place.
    fn end_before_the_trace(&mut self, call: &Call) {
        let Some(popped) = self.pop() else { return };
        let frame = popped.frame;
        let mut own = call.own;
        own.add(frame.extra);
        if self.is_counted(call) {
            let row = self.row(frame.row);
            row.calls += 1;
            row.incomplete += 1;
            row.own.add(own);
            self.set_total(frame.row, call.total());
        } else {
            self.add_nested(&popped);
        }
        self.begin(call.back.map_or(call.function, |back| back.pc), Began::Start);
        if !self.is_counted(call) {
            self.add_extra(own);
        }
    }

    /// Sets the total of a function that the trace started in: all its calls so far are within that one.
    fn set_total(&mut self, row: u32, total: Cost) {
        let is_rest = row == REST;
        let row = self.row(row);
        if is_rest {
            row.total.add(total);
        } else {
            row.total = total;
        }
    }

    /// These calls are no longer followed: what they cost belongs to the outermost call.
    fn drop_frames(&mut self, frames: Range<usize>) {
        if frames.end > self.frames.len() || frames.start == 0 {
            return;
        }
        self.settle();
        let all = std::mem::take(&mut self.frames);
        all.iter().for_each(|frame| *self.innermost(frame.row) = NONE);
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.extract_if(.., |gap| frames.contains(&gap.frame)).for_each(|gap| self.waiting.extend(gap.totals));
        gaps.iter_mut().for_each(|gap| gap.frame -= if gap.frame >= frames.end { frames.len() } else { 0 });
        for (index, frame) in all.iter().enumerate() {
            if frames.contains(&index) {
                self.add_total(frame.row, frame.nested);
                self.add_extra(frame.extra);
                continue;
            }
            let at = self.frames.len() as u32;
            let outer = std::mem::replace(self.innermost(frame.row), at);
            self.frames.push(Frame { outer, ..*frame });
        }
        self.gaps = gaps;
        self.settle();
    }

    fn is_counted(&self, call: &Call) -> bool {
        !self.is_complete_only || call.is_complete() || call.is_root()
    }

    #[inline]
    fn pop(&mut self) -> Option<Popped> {
        let frame = self.frames.pop()?;
        *self.innermost(frame.row) = frame.outer;
        let gap = self.gaps.pop_if(|gap| gap.frame == self.frames.len());
        let is_after_gap = gap.is_some();
        if let Some(gap) = gap {
            self.waiting.extend(gap.totals);
        }
        Some(Popped { frame, is_after_gap })
    }

    /// Adds the totals of the calls of the same function within a frame that is not counted.
    #[inline]
    fn add_nested(&mut self, Popped { frame, is_after_gap }: &Popped) {
        if *is_after_gap {
            self.waiting.push((frame.row, frame.nested));
        } else {
            self.add_total(frame.row, frame.nested);
        }
    }

    /// What follows a gap begins. Totals after an earlier gap, which nothing resolved, wait longer.
    #[cold]
    fn begin_after_gap(&mut self) {
        let mut gap = AfterGap { frame: self.frames.len(), ..AfterGap::default() };
        self.waiting.drain(..).for_each(|(row, total)| gap.totals.entry(row).or_default().add(total));
        self.gaps.push(gap);
    }

    /// Adds the totals that waited for the end of what followed a gap.
    #[cold]
    fn settle(&mut self) {
        for (row, total) in std::mem::take(&mut self.waiting) {
            self.add_total(row, total);
        }
    }

    /// Adds the total of a call that ended, to its row or to the call of the same function that it is within.
    #[inline]
    fn add_total(&mut self, row: u32, total: Cost) {
        let outer = *self.innermost(row) as usize;
        match self.frames.get_mut(outer) {
            Some(frame) => match self.gaps.last_mut().filter(|gap| gap.frame > outer) {
                Some(gap) => gap.totals.entry(row).or_default().add(total),
                None => frame.nested.add(total),
            },
            None => self.row(row).total.add(total),
        }
    }

    /// Adds own cost to the innermost call.
    #[inline]
    fn add_extra(&mut self, own: Cost) {
        if let Some(frame) = self.frames.last_mut() {
            frame.extra.add(own);
        }
    }

    #[inline]
    fn index(&mut self, function: u64) -> u32 {
        if let Some(index) = self.indices.get(&function) {
            return *index;
        }
        if self.rows.len() >= LIMIT {
            return REST;
        }
        let index = self.rows.len() as u32;
        self.rows.push((function, Row::default()));
        self.innermost.push(NONE);
        self.indices.insert(function, index);
        index
    }

    #[inline]
    fn row(&mut self, index: u32) -> &mut Row {
        self.rows.get_mut(index as usize).map_or(&mut self.rest, |(_, row)| row)
    }

    #[inline]
    fn innermost(&mut self, row: u32) -> &mut u32 {
        self.innermost.get_mut(row as usize).unwrap_or(&mut self.rest_innermost)
    }
}

/// Profiles of several stacks.
#[derive(Debug, Default)]
pub struct Profiles {
    stacks: Vec<Profile>,
    is_complete_only: bool,
}

impl Profiles {
    /// No profiles yet. `is_complete_only`: they count only the root and calls whose beginning and end are in the trace.
    pub fn new(is_complete_only: bool) -> Self {
        Self { stacks: Vec::new(), is_complete_only }
    }

    /// The profile of a stack; `None`: nothing was executed on it.
    pub fn of(&self, stack: usize) -> Option<&Profile> {
        self.stacks.get(stack)
    }

    #[inline]
    fn stack(&mut self, stack: usize) -> Option<&mut Profile> {
        if self.stacks.len() <= stack {
            self.open(stack);
        }
        self.stacks.get_mut(stack)
    }

    #[cold]
    fn open(&mut self, stack: usize) {
        let new = || if self.is_complete_only { Profile::of_complete_calls() } else { Profile::new() };
        self.stacks.resize_with(stack + 1, new);
    }
}

impl CallSink for Profiles {
    fn opened(&mut self, stack: usize, _of: &Stack) {
        self.open(stack);
    }

    #[inline]
    fn began(&mut self, stack: usize, function: u64, began: Began) {
        self.stack(stack).into_iter().for_each(|profile| profile.begin(function, began));
    }

    #[inline]
    fn absorbed(&mut self, stack: usize) {
        self.stack(stack).into_iter().for_each(Profile::absorb);
    }

    fn resolved(&mut self, stack: usize) {
        self.stack(stack).into_iter().filter(|profile| !profile.waiting.is_empty()).for_each(Profile::settle);
    }

    fn dropped(&mut self, stack: usize, calls: Range<usize>) {
        self.stack(stack).into_iter().for_each(|profile| profile.drop_frames(calls.clone()));
    }

    #[inline]
    fn ended(&mut self, stack: usize, call: &Call) {
        self.stack(stack).into_iter().for_each(|profile| profile.end(call));
    }
}
