//! The call tree: calls in the order in which they began, each with how deep it is.
//!
//! calls, inner ones first ─▶ **tree** ─▶ calls, outer ones first
//!
//! A call is told when it ends, but stands before all that it called, so the tree has to wait for the end of the trace.
//! It waits outside of memory: calls are records of fixed size in a [`Read`] + [`Write`] + [`Seek`], a temporary file
//! mostly, each at the place that its ordinal says. Only a page of them, the youngest, is in memory. A tree is of one
//! core.

mod record;

use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::calls::{Began, Call};
use record::{SIZE, from_bytes, to_bytes};

/// How many calls are in memory.
const PAGE: usize = 1 << 12;

/// More returns out of what began before the trace than this are no returns.
const LIMIT: usize = 1 << 16;

/// A call tree in the making.
#[derive(Debug)]
pub struct Tree<S> {
    spill: S,
    /// The calls from ordinal `base` on.
    page: Vec<Option<Call>>,
    base: u64,
    root: Option<Call>,
    /// What began before the trace and returned, inner ones first.
    outer: Vec<Call>,
    failed: Option<io::Error>,
}

impl<S: Read + Write + Seek> Tree<S> {
    /// A tree that keeps in `spill`, which is empty, what has no place in memory.
    pub fn new(spill: S) -> Self {
        Self { spill, page: Vec::new(), base: 1, root: None, outer: Vec::new(), failed: None }
    }

    /// A call has ended. That it could not be kept is told by [`each`](Self::each).
    pub fn add(&mut self, call: &Call) {
        match call.began {
            Began::Start => self.root = Some(*call),
            Began::Before if self.outer.len() < LIMIT => self.outer.push(*call),
            Began::Before => {}
            Began::Called | Began::Exception => {
                let kept = if self.failed.is_none() { self.keep(call) } else { Ok(()) };
                self.failed = self.failed.take().or(kept.err());
            }
        }
    }

    fn keep(&mut self, call: &Call) -> io::Result<()> {
        while call.ordinal >= self.base + PAGE as u64 {
            self.turn_page()?;
        }
        let Some(index) = call.ordinal.checked_sub(self.base) else {
            self.spill.seek(SeekFrom::Start(offset(call.ordinal)))?;
            return self.spill.write_all(&to_bytes(call));
        };
        let index = index as usize;
        if index >= self.page.len() {
            self.page.resize(index + 1, None);
        }
        self.page[index] = Some(*call);
        Ok(())
    }

    fn turn_page(&mut self) -> io::Result<()> {
        let record = |call: &Option<Call>| call.as_ref().map_or([0; SIZE], to_bytes);
        let mut bytes: Vec<u8> = self.page.iter().flat_map(record).collect();
        bytes.resize(PAGE * SIZE, 0);
        self.spill.seek(SeekFrom::Start(offset(self.base)))?;
        self.spill.write_all(&bytes)?;
        self.page.clear();
        self.base += PAGE as u64;
        Ok(())
    }

    /// Hands out the calls that `keep` wants, in the order in which they began, with how many of those that were handed
    /// out are around each.
    pub fn each(
        &mut self,
        keep: impl Fn(&Call) -> bool,
        mut take: impl FnMut(usize, &Call) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut open = Vec::new();
        let mut one = |call: &Call| {
            while open.last().is_some_and(|last| *last < call.ordinal) {
                open.pop();
            }
            if !keep(call) {
                return Ok(());
            }
            open.push(if call.is_root() { u64::MAX } else { call.last });
            take(open.len() - 1, call)
        };
        self.root.iter().chain(self.outer.iter().rev()).try_for_each(&mut one)?;
        each_spilled(&mut self.spill, (self.base - 1) as usize / PAGE, &mut one)?;
        self.page.iter().flatten().try_for_each(one)
    }
}

fn each_spilled(
    spill: &mut (impl Read + Seek),
    pages: usize,
    take: &mut impl FnMut(&Call) -> io::Result<()>,
) -> io::Result<()> {
    spill.seek(SeekFrom::Start(0))?;
    let mut bytes = vec![0; if pages > 0 { PAGE * SIZE } else { 0 }];
    for _ in 0..pages {
        spill.read_exact(&mut bytes)?;
        bytes.as_chunks().0.iter().filter_map(from_bytes).try_for_each(|call| take(&call))?;
    }
    Ok(())
}

/// Where a call is kept.
fn offset(ordinal: u64) -> u64 {
    (ordinal - 1) * SIZE as u64
}
