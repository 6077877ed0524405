//! Calls of anything that can be opened, in the order in which they began.
//!
//! ```text
//! part ─▶ follow_calls ─▶ call forest in a temporary file ─▶ **calls**, outer ones first
//! ```
//!
//! The line of a call comes before those of its callees and has its end, so that the first call is known when the trace was
//! read to its end.

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use unspool_analyze::calls::{Call, Stack, Window};
use unspool_capture::Code;
use unspool_model::{Facet, SourceError, StepSource};

use super::Part;
use super::items::Feed;
use crate::file::{End, FileOptions, TarmacFile, TraceFile};
use crate::{CallForest, CaptureSteps, Error, Meter, Program, call_forest, follow_calls};

/// Names of functions that are kept.
const MAX_NAMES: usize = 1 << 16;

/// A call, with its place in the call tree of a thread, process or core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutedCall {
    /// Core; of a capture, index of the source in [`Opened::sources`](super::Opened::sources).
    pub core: u32,
    /// Name of the core, if a log has one.
    pub core_name: Option<Arc<str>>,
    /// Process, if known.
    pub process: Option<u64>,
    /// Thread, if known.
    pub thread: Option<u64>,
    /// Depth in the tree; 0: the function that was executed when the trace started.
    pub depth: usize,
    /// Symbol of the function, if known.
    pub name: Option<Arc<str>>,
    /// Whether times of the call are known; otherwise they are 0.
    pub has_times: bool,
    /// The call.
    pub call: Call,
}

impl Deref for ExecutedCall {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

/// Call trees of a part, whose stacks are the cores of a log, or those of a source.
struct Followed {
    forest: CallForest,
    stacks: Vec<(Stack, Option<Arc<str>>)>,
    has_times: bool,
    program: Arc<Program>,
    ended: Result<(), SourceError>,
}

/// Feeds the calls of a part that `keep` selects; `processes`: only theirs, unless it is empty.
pub(super) fn feed_calls(
    part: Part,
    codes: &[Code],
    processes: &[u64],
    keep: &dyn Fn(&Call) -> bool,
    feed: &mut Feed<ExecutedCall>,
) -> Result<(), Error> {
    let mut followed = match part {
        Part::File { path, .. } => follow_file(&path, codes)?,
        Part::Source { capture, source, core, codes } => {
            follow_source(CaptureSteps::new(*capture, Some(&source), &codes)?.with_core(core), core)
        }
    };
    let stacks = std::mem::take(&mut followed.stacks);
    for (number, (stack, name)) in stacks.iter().enumerate() {
        if processes.is_empty() || stack.process.is_some_and(|process| processes.contains(&process)) {
            let fed = feed_stack(&mut followed, number, (stack, name), keep, feed);
            if feed.is_closed() {
                return Ok(());
            }
            fed.map_err(|error| SourceError::unreadable(format!("cannot keep the call tree: {error}")))?;
        }
    }
    Ok(followed.ended?)
}

fn feed_stack(
    followed: &mut Followed,
    number: usize,
    (stack, core_name): (&Stack, &Option<Arc<str>>),
    keep: &dyn Fn(&Call) -> bool,
    feed: &mut Feed<ExecutedCall>,
) -> io::Result<()> {
    let Followed { forest, program, has_times, .. } = followed;
    let mut names: HashMap<u64, Option<Arc<str>>> = HashMap::new();
    forest.each(number, keep, |depth, call| {
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        let symbol = || program.symbol_of(stack.process, call.function);
        let name = names.entry(call.function).or_insert_with(|| symbol().map(|(name, _)| name.into()));
        let fed = feed.push(ExecutedCall {
            core: stack.core,
            core_name: core_name.clone(),
            process: stack.process,
            thread: stack.thread,
            depth,
            name: name.clone(),
            has_times: *has_times,
            call: *call,
        });
        // The rest is dropped.
        if fed.is_continue() { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    })
}

fn follow_source(mut steps: CaptureSteps, core: u32) -> Followed {
    let (program, has_times) = (Arc::clone(steps.program()), steps.coverage().has(Facet::Times));
    let threads = available_parallelism().map_or(1, usize::from);
    let calls = steps.follow_calls(threads, &Window::default(), &Meter::default(), &mut |_, _| {}, call_forest());
    // The shards of a source do not know its number.
    let stacks = calls.stacks.into_iter().map(|stack| (Stack { core, ..stack }, None)).collect();
    Followed { forest: calls.sink, stacks, has_times, program, ended: calls.ended }
}

fn follow_file(path: &Path, codes: &[Code]) -> Result<Followed, Error> {
    let program = Arc::new(Program::new(codes.to_vec()));
    match TraceFile::open(path, &FileOptions::default())? {
        TraceFile::Tarmac(log) if !log.is_converted() => follow_log(log, program),
        file => {
            let (mut steps, meter) = file.into_steps(false);
            let has_times = steps.coverage().has(Facet::Times);
            let calls = follow_calls(&mut *steps, &Window::default(), &meter, &mut |_, _| {}, call_forest());
            let stacks = calls.stacks.into_iter().map(|stack| (stack, None)).collect();
            Ok(Followed { forest: calls.sink, stacks, has_times, program, ended: calls.ended })
        }
    }
}

fn follow_log(mut log: TarmacFile, program: Arc<Program>) -> Result<Followed, Error> {
    let mut forest = call_forest();
    let (calls, end) = log.calls(&mut |_, _| {}, &mut forest)?;
    let name = |name: &[u8]| (!name.is_empty()).then(|| String::from_utf8_lossy(name).into());
    let stack = |core| Stack { core, process: None, thread: None };
    let stacks = (0..).zip(calls.cores()).map(|(core, of)| (stack(core), name(of))).collect();
    let ended = match end {
        End::Whole | End::Stopped => Ok(()),
        End::Damaged(text) => Err(SourceError { text, is_damage: true, position: None }),
    };
    Ok(Followed { forest, stacks, has_times: calls.clock().unit().is_some(), program, ended })
}
