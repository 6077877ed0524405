//! Stacks of functions with their cost, and what of it is counted: for verbs that draw or print profiles.
//!
//! call tree of a trace ─▶ equal stacks merged ─▶ names and cost of each

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use anyhow::Context;
use unspool::analyze::calls::{Call, Cost};
use unspool::analyze::folded::Folded;
use unspool::analyze::number_hash::Fibonacci;
use unspool::analyze::tree::{TreeEvent, TreeSelection};
use unspool::{CallForest, FileKind};

use super::follow::{NamedStack, Part, Times};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Weight {
    /// Time; folded stacks have whole numbers, in units of the last decimal of the first timestamp
    Time,
    /// Instructions; better where many instructions have the same time
    Instructions,
}

impl Weight {
    /// Time where every instruction has its own.
    pub(super) fn default_of(times: Times) -> Self {
        if times.are_fine { Self::Time } else { Self::Instructions }
    }

    pub(super) fn of(self, cost: Cost) -> u64 {
        match self {
            Self::Time => cost.time,
            Self::Instructions => cost.instructions,
        }
    }

    /// Where a call begins.
    pub(super) fn begin(self, call: &Call) -> u64 {
        match self {
            Self::Time => call.entry.time,
            Self::Instructions => call.entry.number.saturating_sub(1),
        }
    }

    /// Where it ends: at the time of its last instruction, or after that instruction.
    pub(super) fn end(self, call: &Call) -> u64 {
        match self {
            Self::Time => call.exit.time,
            Self::Instructions => call.exit.number,
        }
    }

    /// A weight as text.
    pub(super) fn text(self, times: Times, value: u64) -> String {
        if self == Self::Time { times.text(value) } else { value.to_string() }
    }
}

/// Maximum number of names that are remembered.
const MAX_NAMES: usize = 1 << 16;

/// Names of functions, each of which is looked up once.
pub(super) struct Names<'p> {
    part: &'p Part<'p>,
    known: HashMap<(Option<u64>, u64), Arc<str>, BuildHasherDefault<Fibonacci>>,
}

impl<'p> Names<'p> {
    pub(super) fn new(part: &'p Part<'p>) -> Self {
        Self { part, known: HashMap::default() }
    }

    /// Name of a function.
    pub(super) fn of(&mut self, process: Option<u64>, address: u64) -> &Arc<str> {
        if self.known.len() >= MAX_NAMES {
            self.known.clear();
        }
        self.known.entry((process, address)).or_insert_with(|| self.part.function(process, address).into())
    }
}

/// Consumer of stacks, each with its own cost.
type TakeStack<'t> = dyn FnMut(&[Arc<str>], Cost) -> io::Result<()> + 't;

/// What stacks are made of.
pub(super) struct Folding<'f> {
    /// The outermost frame of all.
    pub(super) heading: Option<&'f str>,
    /// Addresses of functions: only their calls, with what they call. Empty: all.
    pub(super) functions: &'f [Range<u64>],
    /// Only calls whose start and end are both in the trace.
    pub(super) complete: bool,
}

impl Folding<'_> {
    /// Passes each stack of a trace, the outermost frame first, with its own cost. With several cores or threads, each is the
    /// root of its stacks.
    pub(super) fn each_stack(
        &self,
        part: &Part<'_>,
        forest: &mut CallForest,
        take: &mut TakeStack<'_>,
    ) -> anyhow::Result<()> {
        for stack in &part.stacks {
            let functions = self.functions.to_vec();
            let selection = TreeSelection { functions, part: stack.part.clone(), ..TreeSelection::default() };
            let mut folded = if self.complete { Folded::of_complete_calls() } else { Folded::new() };
            let mut depth = 0;
            let add = |event: TreeEvent<'_>| {
                match event {
                    TreeEvent::Begin(at, call) => {
                        folded.begin(at, call);
                        depth = at + 1;
                    }
                    TreeEvent::End(call) => {
                        depth -= 1;
                        folded.add_own(depth, call.own);
                    }
                }
                Ok(())
            };
            forest
                .each_event(stack.number, &selection, add)
                .context("cannot use the temporary file of the call tree")?;
            self.each_folded(part, stack, &folded, take)?;
        }
        Ok(())
    }

    fn each_folded(
        &self,
        part: &Part<'_>,
        stack: &NamedStack,
        folded: &Folded,
        take: &mut TakeStack<'_>,
    ) -> anyhow::Result<()> {
        let root = root_of(part, stack);
        let mut path: Vec<Arc<str>> = self.heading.into_iter().map(Arc::from).collect();
        path.extend(Some(root).filter(|root| !root.is_empty()).map(Arc::from));
        let (above, mut names) = (path.len(), Names::new(part));
        let each = |functions: &[u64], own: Cost| {
            // Each stack comes after the one that it extends.
            path.truncate(above + functions.len().saturating_sub(1));
            if let Some(function) = functions.last() {
                path.push(Arc::clone(names.of(stack.process, *function)));
            }
            take(&path, own)
        };
        folded.each(each).context("cannot write the stacks")
    }
}

/// What distinguishes a stack from others, if there are several. Sources of a capture have a name if there are.
pub(super) fn root_of(part: &Part<'_>, stack: &NamedStack) -> String {
    let has_several_cores = part.has_several || part.kind == FileKind::Capture;
    let core = Some(stack.core.clone()).filter(|core| has_several_cores && !core.is_empty());
    let numbers = [("process", stack.process), ("thread", stack.thread)]
        .map(|(name, number)| number.filter(|_| part.has_several).map(|number| format!("{name} {number}")));
    core.into_iter().chain(numbers.into_iter().flatten()).collect::<Vec<_>>().join(" ")
}
