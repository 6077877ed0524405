//! Call trees: calls in the order in which they began, each with its depth.
//!
//! calls, inner ones first ─▶ **forest**, a tree per stack ─▶ calls, outer ones first
//!
//! A call is known when it ends, but comes before its callees in the tree, so the tree has to wait for the end of the
//! trace. Calls are spilled as records of fixed size into a [`Read`] + [`Write`] + [`Seek`], usually a temporary file,
//! which the trees share page by page. Only the page of the youngest calls of each stack is in memory.

mod events;
mod record;

use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::calls::{Began, Call, CallSink};
use events::Walk;
use record::{Kept, from_bytes, push};

pub use events::{TreeEvent, TreePart, TreeSelection};

/// Number of calls of a page.
const PAGE: usize = 1 << 9;

/// Maximum number of calls that began before the trace; further ones are dropped.
const LIMIT: usize = 1 << 16;

/// Call trees under construction, one per stack.
#[derive(Debug)]
pub struct Forest<S> {
    spill: S,
    kept: Kept,
    /// Number of pages in the spill.
    pages: u64,
    trees: Vec<Tree>,
    failed: Option<io::Error>,
    /// Number of calls so far.
    calls: u64,
}

/// The tree of a stack.
#[derive(Debug)]
struct Tree {
    /// The calls from ordinal `base` on.
    page: Vec<Option<Call>>,
    base: u64,
    /// Number of each earlier page in the spill.
    spilled: Vec<u64>,
    root: Option<Call>,
    /// Calls that began before the trace and returned, inner ones first.
    outer: Vec<Call>,
}

impl<S: Read + Write + Seek> CallSink for Forest<S> {
    /// An I/O error is reported by [`each`](Self::each).
    fn ended(&mut self, stack: usize, call: &Call) {
        if self.failed.is_none() {
            self.failed = self.add(stack, call).err();
        }
    }
}

impl<S: Read + Write + Seek> Forest<S> {
    /// A forest without trees that spills calls into `spill`, which must be empty.
    pub fn new(spill: S) -> Self {
        Self { spill, kept: Kept::All, pages: 0, trees: Vec::new(), failed: None, calls: 0 }
    }

    /// As [`new`](Self::new), for profiles and timelines: of calls it keeps functions, times, numbers of instructions and costs. Positions,
    /// call sites and addresses of instructions may be missing.
    pub fn of_costs(spill: S) -> Self {
        Self { kept: Kept::Costs, ..Self::new(spill) }
    }

    /// Number of calls of all stacks.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    fn add(&mut self, stack: usize, call: &Call) -> io::Result<()> {
        while self.trees.len() <= stack {
            self.trees.push(Tree { page: Vec::new(), base: 1, spilled: Vec::new(), root: None, outer: Vec::new() });
        }
        let Some(tree) = self.trees.get_mut(stack) else { return Ok(()) };
        self.calls += 1;
        match call.began {
            Began::Start => tree.root = Some(*call),
            Began::Before if tree.outer.len() < LIMIT => tree.outer.push(*call),
            Began::Before => {}
            Began::Called | Began::Exception | Began::Gap => {
                while call.ordinal >= tree.base + PAGE as u64 {
                    tree.turn_page(&mut self.spill, &mut self.pages, self.kept)?;
                }
                tree.keep(call, &mut self.spill, self.kept)?;
            }
        }
        Ok(())
    }

    /// Passes the calls of a stack that `keep` selects to `sink`, in the order in which they began, each with its depth among
    /// the selected calls.
    pub fn each(
        &mut self,
        stack: usize,
        keep: impl Fn(&Call) -> bool,
        mut sink: impl FnMut(usize, &Call) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(tree) = self.trees.get(stack) else { return Ok(()) };
        let mut open = Vec::new();
        let mut emit = |call: &Call| {
            while open.last().is_some_and(|last| *last < call.ordinal) {
                open.pop();
            }
            if !keep(call) {
                return Ok(());
            }
            open.push(if call.is_root() { u64::MAX } else { call.last });
            sink(open.len() - 1, call)
        };
        tree.root.iter().chain(tree.outer.iter().rev()).try_for_each(&mut emit)?;
        tree.each_spilled(&mut self.spill, self.kept, &mut emit)?;
        tree.page.iter().flatten().try_for_each(emit)
    }

    /// Passes the selected calls of a stack to `sink` as beginnings and ends, in the order of execution.
    pub fn each_event(
        &mut self,
        stack: usize,
        selection: &TreeSelection,
        mut sink: impl FnMut(TreeEvent<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut walk = Walk::new(selection);
        self.each(stack, |_| true, |depth, call| walk.call(depth, call, &mut sink))?;
        walk.end_above(0, &mut sink)
    }
}

impl Tree {
    fn keep(&mut self, call: &Call, spill: &mut (impl Write + Seek), kept: Kept) -> io::Result<()> {
        let Some(index) = call.ordinal.checked_sub(self.base) else { return self.keep_earlier(call, spill, kept) };
        let index = index as usize;
        if index >= self.page.len() {
            self.page.resize(index + 1, None);
        }
        self.page[index] = Some(*call);
        Ok(())
    }

    /// Writes a call whose page was spilled.
    fn keep_earlier(&self, call: &Call, spill: &mut (impl Write + Seek), kept: Kept) -> io::Result<()> {
        let number = call.ordinal.saturating_sub(1) as usize;
        let Some(page) = self.spilled.get(number / PAGE) else { return Ok(()) };
        let mut bytes = Vec::with_capacity(kept.size());
        push(&mut bytes, call, kept);
        spill.seek(SeekFrom::Start(offset(*page, kept) + (number % PAGE * kept.size()) as u64))?;
        spill.write_all(&bytes)
    }

    fn turn_page(&mut self, spill: &mut (impl Write + Seek), pages: &mut u64, kept: Kept) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(PAGE * kept.size());
        for call in &self.page {
            match call {
                Some(call) => push(&mut bytes, call, kept),
                None => bytes.resize(bytes.len() + kept.size(), 0),
            }
        }
        bytes.resize(PAGE * kept.size(), 0);
        spill.seek(SeekFrom::Start(offset(*pages, kept)))?;
        spill.write_all(&bytes)?;
        self.spilled.push(*pages);
        *pages += 1;
        self.page.clear();
        self.base += PAGE as u64;
        Ok(())
    }

    fn each_spilled(
        &self,
        spill: &mut (impl Read + Seek),
        kept: Kept,
        emit: &mut impl FnMut(&Call) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut bytes = vec![0; if self.spilled.is_empty() { 0 } else { PAGE * kept.size() }];
        for page in &self.spilled {
            spill.seek(SeekFrom::Start(offset(*page, kept)))?;
            spill.read_exact(&mut bytes)?;
            bytes.chunks_exact(kept.size()).filter_map(from_bytes).try_for_each(|call| emit(&call))?;
        }
        Ok(())
    }
}

/// Offset of a page in the spill.
fn offset(page: u64, kept: Kept) -> u64 {
    page * (PAGE * kept.size()) as u64
}
