//! Applying events to processes, forward, and what they imply about the time before them.
//!
//! events in order ─▶ **build** ─▶ versions of every address space, lives of the processes
//!
//! Winding back from the end of a log is done in two passes, both forward. The first finds events about something that
//! was not there: an end without a start, a mapping that exists. Such a mapping was there before: at each of its
//! addresses since the end of the mapping that was there before it, or else since the address space was empty, or since the
//! first event of the log. The second pass starts with what the first one found. In a complete log the first pass finds
//! nothing.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::piece::{Parts, Pieces};
use super::process::{Life, Process};
use super::ranges::Range;
use super::space::Space;
use super::{Direction, Inference};
use crate::event::{KERNEL, Pid, State};

/// Maximum number of ranges that forks copy, over all processes.
const COPY_LIMIT: usize = 4 << 20;

/// An event that concerns address spaces, with numbers for its mapping or code.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Process(State, Pid, u32),
    Library(State, Pid, u32),
    Patch(Pid, Range, u32),
    Fork {
        parent: Pid,
        child: Pid,
    },
    Exec(Pid),
    /// Something else happened, or nothing.
    Other,
}

/// The address spaces of all processes.
#[derive(Debug, Clone, Default)]
pub(super) struct Built {
    pub(super) spaces: BTreeMap<Pid, (Space, Vec<Life>)>,
    pub(super) inferred: Vec<(u32, Inference)>,
}

pub(super) fn build(steps: &[Step], pieces: &Pieces, direction: Direction) -> Built {
    let mut pass = Pass::new(pieces, direction, Earlier::default());
    pass.run(steps);
    if pass.found.is_empty() || direction == Direction::Forward {
        return pass.finish();
    }
    let (earlier, inferred) = (std::mem::take(&mut pass.found), std::mem::take(&mut pass.inferred));
    let mut pass = Pass::new(pieces, direction, earlier);
    pass.run(steps);
    Built { inferred, ..pass.finish() }
}

/// A mapping, and the parts of it that were there.
type EarlierMapping = (u32, Parts);

/// Mappings that were there before the events that name them.
#[derive(Debug, Default)]
struct Earlier {
    /// By process and the event that emptied its address space, or a part of it: mappings that were there from then on, in
    /// the order of the events that show it.
    added: HashMap<(Pid, Option<u32>), Vec<EarlierMapping>>,
    /// By event: the other parts of its mapping, which were not there before.
    filled: HashMap<u32, Parts>,
    /// Ends of processes whose numbers were used again, by processes whose start is not in the log.
    reused: HashSet<u32>,
}

impl Earlier {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.filled.is_empty() && self.reused.is_empty()
    }
}

struct Pass<'a> {
    pieces: &'a Pieces,
    direction: Direction,
    earlier: Earlier,
    processes: BTreeMap<Pid, Process>,
    found: Earlier,
    inferred: Vec<(u32, Inference)>,
    /// Whether all events so far are of a snapshot.
    is_snapshot: bool,
    copied: usize,
}

impl<'a> Pass<'a> {
    fn new(pieces: &'a Pieces, direction: Direction, earlier: Earlier) -> Self {
        let (processes, found) = (BTreeMap::new(), Earlier::default());
        Self { pieces, direction, earlier, processes, found, inferred: Vec::new(), is_snapshot: true, copied: 0 }
    }

    fn run(&mut self, steps: &[Step]) {
        let mut first: Vec<Pid> =
            self.earlier.added.keys().filter(|(_, event)| event.is_none()).map(|key| key.0).collect();
        first.sort_unstable();
        first.into_iter().for_each(|pid| self.add_earlier(pid, None));
        for (event, step) in (0..).zip(steps) {
            let is_current = matches!(step, Step::Process(State::Current, ..) | Step::Library(State::Current, ..));
            self.is_snapshot &= is_current || matches!(step, Step::Other);
            self.apply(event, *step);
        }
    }

    fn finish(self) -> Built {
        let spaces = self.processes.into_iter().map(|(pid, process)| (pid, process.finish())).collect();
        Built { spaces, inferred: self.inferred }
    }

    fn apply(&mut self, event: u32, step: Step) {
        match step {
            Step::Process(State::Start, pid, mapping) => {
                self.start(event, pid);
                self.map(event, pid, mapping);
            }
            Step::Process(State::Current, pid, mapping) | Step::Library(State::Current, pid, mapping) => {
                self.find_reuse(event, pid);
                self.know(event, pid, matches!(step, Step::Process(..)));
                self.confirm(event, pid, mapping);
            }
            Step::Process(State::End, pid, mapping) => {
                self.unmap(event, pid, mapping, true);
                self.process(pid).end(event + 1);
                if self.earlier.reused.contains(&event) {
                    self.process(pid).reset(event);
                    self.process(pid).begin(event + 1);
                }
            }
            Step::Library(State::Start, pid, mapping) => {
                self.know(event, pid, false);
                self.map(event, pid, mapping);
            }
            Step::Library(State::End, pid, mapping) => self.unmap(event, pid, mapping, false),
            Step::Patch(pid, range, piece) => {
                self.know(event, pid, false);
                self.process(pid).patch(range, piece, event + 1);
            }
            Step::Fork { parent, child } => self.fork(event, parent, child),
            Step::Exec(pid) => {
                self.know(event, pid, false);
                self.process(pid).reset(event);
            }
            Step::Other => return,
        }
        let subject = match step {
            Step::Fork { child, .. } => child,
            Step::Process(_, pid, _) | Step::Library(_, pid, _) | Step::Patch(pid, ..) | Step::Exec(pid) => pid,
            Step::Other => return,
        };
        self.add_earlier(subject, Some(event));
    }

    fn process(&mut self, pid: Pid) -> &mut Process {
        self.processes.entry(pid).or_default()
    }

    fn infer(&mut self, event: u32, what: Inference) {
        self.inferred.push((event, what));
    }

    /// A process starts with an empty address space.
    fn start(&mut self, event: u32, pid: Pid) {
        let process = self.process(pid);
        let is_in_use = process.is_known() && !process.is_ended();
        process.reset(event);
        process.begin(event + 1);
        if is_in_use && pid != KERNEL {
            self.infer(event, Inference::StartWithoutEnd);
        }
    }

    /// A process exists, and may have existed before, since another one with its number ended.
    fn find_reuse(&mut self, event: u32, pid: Pid) {
        let ended_by = self.processes.get(&pid).and_then(Process::ended_by);
        if let Some(end) = ended_by.filter(|_| self.direction == Direction::Backward) {
            self.process(pid).reset_since(event, end);
            self.process(pid).begin(event + 1);
            self.found.reused.insert(end);
            self.infer(event, Inference::ReusedWithoutStart);
        }
    }

    /// A process exists. If it had ended, this is another one with the same number.
    fn know(&mut self, event: u32, pid: Pid, is_declared: bool) {
        let from = if self.direction == Direction::Backward { 0 } else { event + 1 };
        let process = self.process(pid);
        if process.is_ended() {
            process.reset(event);
            process.begin(event + 1);
            self.infer(event, Inference::ReusedWithoutStart);
        } else if !process.is_known() {
            process.begin(from);
            if !is_declared && pid != KERNEL {
                self.infer(event, Inference::UndeclaredProcess);
            }
        }
    }

    /// A mapping is added over all that is there.
    fn map(&mut self, event: u32, pid: Pid, index: u32) {
        let Some(mapping) = self.pieces.mappings.get(index as usize) else { return };
        let pieces = self.pieces;
        let process = self.process(pid);
        if !mapping.is_part() {
            unmap_at(process, pieces, mapping.base(), false, event + 1);
        }
        process.map(index, mapping, event + 1);
    }

    /// A mapping exists. It was there before, unless other mappings were.
    fn confirm(&mut self, event: u32, pid: Pid, index: u32) {
        let Some(mapping) = self.pieces.mappings.get(index as usize) else { return };
        let filled = self.earlier.filled.remove(&event);
        let process = self.process(pid);
        if process.has(index, mapping) {
            let parts = filled.unwrap_or_default();
            return process.add_parts(index, mapping, &parts, event + 1);
        }
        let (free, used) = process.free(mapping);
        self.add_found(pid, index, free);
        if !used.is_empty() {
            self.found.filled.insert(event, used);
        }
        if !self.is_snapshot {
            self.infer(event, Inference::CurrentWithoutStart);
        }
        self.map(event, pid, index);
    }

    /// A mapping is removed, or its process ends.
    fn unmap(&mut self, event: u32, pid: Pid, index: u32, is_end: bool) {
        let Some(mapping) = self.pieces.mappings.get(index as usize) else { return };
        let (pieces, from) = (self.pieces, if self.direction == Direction::Backward { 0 } else { event });
        let process = self.process(pid);
        let is_new = !process.is_known();
        if is_new {
            process.begin(from);
        }
        let is_other = process.at_base(mapping.base(), true).next().is_some();
        let is_kept = is_end || process.is_ended();
        if process.is_listed(index, mapping) {
            if !is_kept {
                process.unmap(index, mapping, event + 1);
            }
        } else if !is_other {
            let (free, _) = process.free(mapping);
            process.touch(mapping, event + 1);
            self.add_found(pid, index, free);
            self.infer(event, Inference::EndWithoutStart);
        } else if !is_kept {
            unmap_at(process, pieces, mapping.base(), true, event + 1);
        }
        if is_new && !is_end && pid != KERNEL {
            self.infer(event, Inference::UndeclaredProcess);
        }
    }

    fn fork(&mut self, event: u32, parent: Pid, child: Pid) {
        if parent == child {
            return;
        }
        self.know(event, parent, false);
        let weight = self.process(parent).weight();
        // The addresses of the kernel are those of every process; they are not copied.
        let copied = (parent != KERNEL && weight <= COPY_LIMIT - self.copied).then(|| self.process(parent).copied());
        self.start(event, child);
        match copied {
            Some(copied) => {
                self.copied += weight;
                self.process(child).copy_from(&copied, event);
            }
            None if parent == KERNEL => {}
            None => self.infer(event, Inference::NotCopied),
        }
    }

    /// Parts of a mapping were there since these events.
    fn add_found(&mut self, pid: Pid, index: u32, free: Vec<(Option<u32>, Parts)>) {
        for (since, parts) in free {
            self.found.added.entry((pid, since)).or_default().push((index, parts));
        }
    }

    /// Adds what later events showed to be there after this one.
    fn add_earlier(&mut self, pid: Pid, event: Option<u32>) {
        let Some(list) = self.earlier.added.remove(&(pid, event)) else { return };
        let position = event.map_or(0, |event| event + 1);
        let pieces = self.pieces;
        let process = self.process(pid);
        // As when winding back: the mapping of the earliest event is over the others.
        for (index, parts) in list.iter().rev() {
            if let Some(mapping) = pieces.mappings.get(*index as usize) {
                process.list(*index, mapping);
                process.add_under(*index, mapping, parts, position);
            }
        }
    }
}

/// Removes the mappings at an address by which events name them.
fn unmap_at(process: &mut Process, pieces: &Pieces, base: u64, with_parts: bool, position: u32) {
    let indexes: Vec<u32> = process.at_base(base, with_parts).collect();
    for index in indexes {
        if let Some(mapping) = pieces.mappings.get(index as usize) {
            process.unmap(index, mapping, position);
        }
    }
}
