//! The call tree: calls in the order in which they began, each with its depth.
//!
//! calls, inner ones first ─▶ **tree** ─▶ calls, outer ones first
//!
//! A call is known when it ends, but comes before its callees in the tree, so the tree has to wait for the end of the
//! trace. Calls are spilled as records of fixed size into a [`Read`] + [`Write`] + [`Seek`], usually a temporary file,
//! at the offset of their ordinal. Only the page of the youngest calls is in memory. Each core needs its own tree.

mod record;

use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::calls::{Began, Call};
use record::{SIZE, from_bytes, to_bytes};

/// Number of calls in memory.
const PAGE: usize = 1 << 12;

/// Maximum number of calls that began before the trace; further ones are dropped.
const LIMIT: usize = 1 << 16;

/// A call tree under construction.
#[derive(Debug)]
pub struct Tree<S> {
    spill: S,
    /// The calls from ordinal `base` on.
    page: Vec<Option<Call>>,
    base: u64,
    root: Option<Call>,
    /// Calls that began before the trace and returned, inner ones first.
    outer: Vec<Call>,
    failed: Option<io::Error>,
}

impl<S: Read + Write + Seek> Tree<S> {
    /// An empty tree that spills calls into `spill`, which must be empty.
    pub fn new(spill: S) -> Self {
        Self { spill, page: Vec::new(), base: 1, root: None, outer: Vec::new(), failed: None }
    }

    /// Adds a call that has ended. An I/O error is reported by [`each`](Self::each).
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

    /// Passes the calls that `keep` selects to `sink`, in the order in which they began, each with its depth among the
    /// selected calls.
    pub fn each(
        &mut self,
        keep: impl Fn(&Call) -> bool,
        mut sink: impl FnMut(usize, &Call) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
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
        self.root.iter().chain(self.outer.iter().rev()).try_for_each(&mut emit)?;
        each_spilled(&mut self.spill, (self.base - 1) as usize / PAGE, &mut emit)?;
        self.page.iter().flatten().try_for_each(emit)
    }
}

fn each_spilled(
    spill: &mut (impl Read + Seek),
    pages: usize,
    emit: &mut impl FnMut(&Call) -> io::Result<()>,
) -> io::Result<()> {
    spill.seek(SeekFrom::Start(0))?;
    let mut bytes = vec![0; if pages > 0 { PAGE * SIZE } else { 0 }];
    for _ in 0..pages {
        spill.read_exact(&mut bytes)?;
        bytes.as_chunks().0.iter().filter_map(from_bytes).try_for_each(|call| emit(&call))?;
    }
    Ok(())
}

/// Offset of a call in the spill.
fn offset(ordinal: u64) -> u64 {
    (ordinal - 1) * SIZE as u64
}
