//! Address spaces over time: what is at an address of a process after each system event.
//!
//! [`SystemEvent`]s ─▶ **timeline** ─▶ numbered versions of every address space, and which process a number stands for
//!
//! The rules are those of Arm's "CoreSight trace decode metadata requirements", heading "Trace decode procedure", and for
//! logs that lost their start or end with a snapshot, those of its headings "General rules for messages" and "System
//! snapshots". A position is a number of events that have been applied, in the order of [`Timeline::events`]. Opens no
//! files: the caller gives the layout of a file that is mapped as a whole.

mod assignments;
mod build;
mod configurations;
mod contents;
mod context;
mod piece;
mod process;
mod ranges;
mod space;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use assignments::Assignments;
use build::{Built, Step, build};
use configurations::Definition;
use contents::Answer;
use piece::{Numbers, Pieces, number};
use process::Life;
use space::Space;

use crate::event::{Call, KERNEL, Mapping, PatchCode, Pid, State, SystemEvent};

pub use configurations::TraceConfiguration;
pub(crate) use configurations::trace_configurations;
pub use contents::{Contents, Hit};
pub use context::{ContextFormat, ContextGuess, ContextNumber, ContextProcess, ContextWidth};
pub use piece::{Extent, Piece};
pub use space::Version;

/// First address of the upper half of memory, which is the kernel's in every process with 64-bit addresses.
const KERNEL_HALF: u64 = 1 << 63;

/// Address spaces over time.
///
/// ```
/// use unspool_capture::{Direction, SystemLog, Timeline};
/// let log = "1 declare_thread(START, 8, 7)\n5 declare_library(END, 7, 0x9000, \"lib.so\", \"\", 0x200, 0x1000)\n";
/// let events = SystemLog::read(log.as_bytes()).events;
/// let timeline = Timeline::new(events, Direction::Backward, |_| Vec::new());
/// let position = timeline.position(3);
/// let pid = timeline.process_of(8, position);
/// let hit = timeline.lookup(pid, timeline.version_at(pid, position).into(), 0x9010).certain().unwrap();
/// assert_eq!((hit.offset, hit.left), (0x210, 0xff0));
/// ```
#[derive(Debug, Clone)]
pub struct Timeline {
    events: Vec<SystemEvent>,
    /// The time of each event, or that of the event before it if it has none; ascending.
    times: Vec<Option<u64>>,
    pieces: Pieces,
    spaces: BTreeMap<Pid, (Space, Vec<Life>)>,
    threads: Assignments,
    asids: Assignments,
    cores: Assignments,
    /// All numbers of processes and threads, by their low byte.
    ids: Vec<Vec<u32>>,
    configurations: Vec<TraceConfiguration>,
    inferred: Vec<Inferred>,
}

/// Which events count for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Only those before it.
    Forward,
    /// Those after it too: what ends, or exists later, was there before, unless an event contradicts it.
    Backward,
}

/// Something that an event implies although no event states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inferred {
    /// Index of the event in [`Timeline::events`].
    pub event: usize,
    /// The place of the event: line of a log, or offset in a file.
    pub place: u64,
    /// What it implies.
    pub what: Inference,
}

/// What an event implies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Inference {
    /// Something ends that no event started: it was there before.
    EndWithoutStart,
    /// Something exists, after the first snapshot, that no event started: it was there before.
    CurrentWithoutStart,
    /// A process that only its libraries, code or children show.
    UndeclaredProcess,
    /// A process starts, and an earlier one with its number did not end.
    StartWithoutEnd,
    /// A process exists after the end of one with its number.
    ReusedWithoutStart,
    /// The memory of a new process is unknown, because copies of memory would be too large.
    NotCopied,
}

/// Versions of an address space: one, or all from the first to the last in a window of time.
///
/// In a window it is unknown which of the versions holds: code that was added counts from its start, and code that was
/// removed up to its end; where one piece replaces another, the address is doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct View {
    /// The first version.
    pub first: Version,
    /// The last version.
    pub last: Version,
}

impl From<Version> for View {
    fn from(version: Version) -> Self {
        Self { first: version, last: version }
    }
}

impl Timeline {
    /// Applies events in order of time. An event without a time keeps its position after the event before it.
    ///
    /// `layout` has the bytes of a file that is mapped as a whole ([`Placement::Base`](crate::Placement::Base)): where
    /// they are in memory, and their offsets; an empty list if the file is unknown. It is called once for each mapping.
    pub fn new(
        events: Vec<SystemEvent>,
        direction: Direction,
        mut layout: impl FnMut(&Mapping) -> Vec<Extent>,
    ) -> Self {
        let (events, times) = in_order(events);
        let mut pieces = Pieces::default();
        let mut numbers = Numbers::default();
        let each = events.iter().enumerate();
        let steps: Vec<Step> =
            each.map(|(at, event)| step(at, event, &mut pieces, &mut numbers, &mut layout)).collect();
        let Built { spaces, inferred } = build(&steps, &pieces, direction);
        let mut timeline = Self {
            events,
            times,
            pieces,
            spaces,
            threads: Assignments::default(),
            asids: Assignments::default(),
            cores: Assignments::default(),
            ids: Vec::new(),
            configurations: Vec::new(),
            inferred: Vec::new(),
        };
        let mut inferred = inferred;
        inferred.extend(timeline.identify(direction));
        inferred.sort_by_key(|(event, _)| *event);
        timeline.inferred = inferred.into_iter().map(|(event, what)| timeline.inferred_by(event, what)).collect();
        timeline.ids = timeline.known_ids();
        timeline
    }

    /// The events, in the order in which they are applied.
    pub fn events(&self) -> &[SystemEvent] {
        &self.events
    }

    /// What events imply although none states it, in order.
    pub fn inferred(&self) -> &[Inferred] {
        &self.inferred
    }

    /// Configurations of trace units, in the order of the first event about each.
    pub fn configurations(&self) -> &[TraceConfiguration] {
        &self.configurations
    }

    /// The processes, in ascending order. [`KERNEL`] is among them if events name it.
    pub fn processes(&self) -> impl Iterator<Item = Pid> + '_ {
        self.spaces.keys().copied()
    }

    /// Number of different mappings.
    pub fn mappings(&self) -> usize {
        self.pieces.mappings.len()
    }

    /// A mapping of a [`Piece`].
    pub fn mapping(&self, index: usize) -> Option<&Mapping> {
        match &self.events.get(self.pieces.mappings.get(index)?.event)?.call {
            Call::Process { mapping, .. } | Call::Library { mapping, .. } => Some(mapping),
            _ => None,
        }
    }

    /// The code of a [`Piece`], if it is a patch.
    pub fn patch_code(&self, piece: &Piece) -> Option<&PatchCode> {
        let Piece::Patch { event, .. } = piece else { return None };
        match &self.events.get(*event)?.call {
            Call::Patch { code, .. } => Some(code),
            _ => None,
        }
    }

    /// The name of a [`Piece`], if it is a patch with a name.
    pub fn patch_name(&self, piece: &Piece) -> Option<&str> {
        let Piece::Patch { event, .. } = piece else { return None };
        match &self.events.get(*event)?.call {
            Call::Patch { name, .. } => Some(name.as_str()).filter(|name| !name.is_empty()),
            _ => None,
        }
    }

    /// Number of events up to a time, including those at this time. Events before the first time count always.
    pub fn position(&self, time: u64) -> usize {
        self.times.partition_point(|at| at.is_none_or(|at| at <= time))
    }

    /// Number of events before the first one with a time, which count always.
    pub fn untimed(&self) -> usize {
        self.times.partition_point(Option::is_none)
    }

    /// The last version of an address space. Versions are counted from 0; a process without events has only that.
    pub fn last_version(&self, pid: Pid) -> Version {
        self.space(pid).map_or(0, Space::last_version)
    }

    /// The version of an address space after a number of events.
    pub fn version_at(&self, pid: Pid, position: usize) -> Version {
        self.space(pid).map_or(0, |space| space.version_at(number(position)))
    }

    /// The number of events after which a version holds; `None` if there is no such version.
    pub fn position_of(&self, pid: Pid, version: Version) -> Option<usize> {
        self.space(pid)?.position_of(version).map(|position| position as usize)
    }

    /// The versions of an address space in a window between two positions, both included.
    ///
    /// For trace between timestamps T0 and T1, these are the positions of T0 and of T1: an event in between happened
    /// before or after any instruction of the window.
    pub fn version_within(&self, pid: Pid, before: usize, after: usize) -> View {
        let first = self.version_at(pid, before);
        View { first, last: self.version_at(pid, after).max(first) }
    }

    /// Whether code that one of several versions of a process has is removed or replaced in another one. What is only
    /// added is not a change of code: it is executed after the event.
    pub fn removes_code(&self, pid: Pid, view: View) -> bool {
        self.space(pid).is_some_and(|space| space.removes(view.first, view.last))
    }

    /// What is at an address of a process, whose kernel half is not considered.
    pub fn lookup(&self, pid: Pid, view: View, address: u64) -> Contents<'_> {
        let mut answer = Answer::new(self, address);
        if let Some(space) = self.space(pid) {
            answer.add(space, view);
        }
        answer.finish()
    }

    /// What is at an address while a process executes: in its own address space or in that of the kernel.
    ///
    /// The upper half of memory is the kernel's. Below it, the process comes first. Without a process, only the kernel
    /// is known.
    pub fn lookup_with_kernel(&self, process: Option<(Pid, View)>, kernel: View, address: u64) -> Contents<'_> {
        let of_process = process.filter(|_| address < KERNEL_HALF).map(|(pid, view)| self.lookup(pid, view, address));
        let of_kernel = || self.lookup(KERNEL, kernel, address);
        match of_process {
            None => of_kernel(),
            Some(Contents::Absent { left }) => match of_kernel() {
                Contents::Absent { left: other } => Contents::Absent { left: left.min(other) },
                Contents::Certain(hit) => Contents::Certain(Hit { left: hit.left.min(left), ..hit }),
                doubtful => doubtful,
            },
            Some(found) => found,
        }
    }

    /// What is at an address of an unknown process, in a window between two positions.
    ///
    /// Certain only if all processes agree that exist in the window and have anything at the address.
    pub fn lookup_in_any(&self, before: usize, after: usize, address: u64) -> Contents<'_> {
        let mut answer = Answer::new(self, address);
        let (first, last) = (number(before), number(after));
        for (pid, (space, lives)) in &self.spaces {
            let exists = latest_life(lives, last).is_some_and(|(_, until)| first < until);
            if *pid != KERNEL && exists && !answer.is_doubtful() {
                answer.add(space, self.version_within(*pid, before, after));
            }
        }
        answer.finish()
    }

    /// Whether processes disagree about an address after a number of events.
    pub fn is_ambiguous(&self, position: usize, address: u64) -> bool {
        matches!(self.lookup_in_any(position, position, address), Contents::Doubtful(..))
    }

    /// Whether a process exists after a number of events.
    pub fn is_alive(&self, pid: Pid, position: usize) -> bool {
        let position = number(position);
        pid == KERNEL || latest_life(self.lives(pid), position).is_some_and(|(_, until)| position < until)
    }

    /// The process of a thread or process number after a number of events. A number that is not that of a thread stands
    /// for the process of that number.
    pub fn process_of(&self, id: u32, position: usize) -> Pid {
        self.process_of_thread(id, position).unwrap_or(id)
    }

    /// The process of an address space identifier after a number of events.
    pub fn process_of_asid(&self, asid: u32, position: usize) -> Option<Pid> {
        self.asids.at(asid, number(position))
    }

    /// The thread that a core executes after a number of events.
    pub fn thread_on(&self, core: u32, position: usize) -> Option<Pid> {
        self.cores.at(core, number(position))
    }

    fn process_of_thread(&self, id: u32, position: usize) -> Option<Pid> {
        self.threads.at(id, number(position))
    }

    /// Whether a process exists, or has existed, after a number of events.
    fn has_begun(&self, pid: Pid, position: usize) -> bool {
        self.lives(pid).first().is_some_and(|(from, _)| *from <= number(position))
    }

    /// The processes that a number stands for at any time.
    fn processes_ever(&self, id: u32) -> Vec<Pid> {
        let own = self.spaces.contains_key(&id).then_some(id);
        own.into_iter().chain(self.threads.values(id)).collect()
    }

    fn space(&self, pid: Pid) -> Option<&Space> {
        self.spaces.get(&pid).map(|(space, _)| space)
    }

    fn lives(&self, pid: Pid) -> &[Life] {
        self.spaces.get(&pid).map_or(&[], |(_, lives)| lives)
    }

    fn inferred_by(&self, event: u32, what: Inference) -> Inferred {
        let event = event as usize;
        Inferred { event, place: self.events.get(event).map_or(0, |event| event.place), what }
    }

    /// Applies the events about threads, identifiers, cores and trace units.
    fn identify(&mut self, direction: Direction) -> Vec<(u32, Inference)> {
        let mut inferred = Vec::new();
        let mut open = HashMap::new();
        for (index, event) in (0..).zip(&self.events) {
            let (state, is_inferred) = match &event.call {
                Call::Thread { state, tid, pid } => (*state, self.threads.apply(*state, *tid, *pid, index, direction)),
                Call::Asid { state, asid, pid } => (*state, self.asids.apply(*state, *asid, *pid, index, direction)),
                Call::Switch { core, tid } => {
                    self.cores.apply(State::Start, *core, *tid, index, direction);
                    continue;
                }
                // The number is no longer that of a thread.
                Call::Process { state: State::Start, pid, .. } | Call::Fork { child: pid, .. } => {
                    self.threads.clear(*pid, index);
                    continue;
                }
                Call::Trace { state, id, source, registers } => {
                    let position = index as usize + 1;
                    let definition =
                        Definition { state: *state, id: *id, source, registers, time: event.time, position };
                    (*state, configurations::apply(&mut self.configurations, &mut open, definition, direction))
                }
                _ => continue,
            };
            if is_inferred {
                let is_end = state == State::End;
                inferred
                    .push((index, if is_end { Inference::EndWithoutStart } else { Inference::CurrentWithoutStart }));
            }
        }
        inferred
    }

    fn known_ids(&self) -> Vec<Vec<u32>> {
        let mut ids: Vec<u32> = self.spaces.keys().copied().chain(self.threads.numbers()).chain([KERNEL]).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut by_low_byte = vec![Vec::new(); 0x100];
        ids.into_iter().for_each(|id| by_low_byte[id as usize & 0xff].push(id));
        by_low_byte
    }
}

/// The latest life that began up to a position.
fn latest_life(lives: &[Life], position: u32) -> Option<Life> {
    let next = lives.partition_point(|(from, _)| *from <= position);
    lives.get(next.checked_sub(1)?).copied()
}

/// The events in order of time, and the times. An event without a time has that of the event before it.
fn in_order(events: Vec<SystemEvent>) -> (Vec<SystemEvent>, Vec<Option<u64>>) {
    let mut time = None;
    let mut timed: Vec<(Option<u64>, SystemEvent)> = Vec::with_capacity(events.len());
    for event in events {
        time = event.time.or(time);
        timed.push((time, event));
    }
    timed.sort_by_key(|(time, _)| *time);
    let (times, events) = timed.into_iter().unzip();
    (events, times)
}

/// What an event does to address spaces.
fn step(
    at: usize,
    event: &SystemEvent,
    pieces: &mut Pieces,
    numbers: &mut Numbers,
    layout: &mut impl FnMut(&Mapping) -> Vec<Extent>,
) -> Step {
    match &event.call {
        Call::Process { state, pid, mapping } => {
            Step::Process(*state, *pid, pieces.mapping(numbers, at, mapping, layout))
        }
        Call::Library { state, pid, mapping } => {
            Step::Library(*state, *pid, pieces.mapping(numbers, at, mapping, layout))
        }
        Call::Patch { pid, address, length, code, .. } => match ranges::range(*address, code.length(*length)) {
            Some(range) => Step::Patch(*pid, range, pieces.add(Piece::Patch { event: at, address: *address })),
            None => Step::Other,
        },
        Call::Fork { parent, child } => Step::Fork { parent: *parent, child: *child },
        Call::Exec { pid } => Step::Exec(*pid),
        Call::Thread { .. } | Call::Asid { .. } | Call::Trace { .. } | Call::Switch { .. } => Step::Other,
    }
}
