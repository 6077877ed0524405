//! Random histories of a small operating system, which records what is in every cell of memory of every process after
//! each event. The timeline of its log must show the same.
//!
//! The model has no ranges, versions or inferences: a process is a list of cells, and every state is kept whole.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::event::Placement;

/// Number of cells of memory, and bytes of each.
const CELLS: usize = 12;
const CELL: u64 = 16;
/// Processes are 1 to 5, threads 20 to 25, address space identifiers 0 to 3.
const PIDS: u32 = 5;
const TIDS: std::ops::Range<u32> = 20..26;
const ASIDS: u32 = 4;

/// What a cell contains.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cell {
    /// A cell of a file.
    File(String, u64),
    /// Code written by an event, and the cell of it.
    Patch(usize, u64),
}

type Cells = Vec<Option<Cell>>;

/// A file in memory: its first cell and number of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Loaded {
    name: String,
    first: usize,
    count: usize,
    is_program: bool,
}

#[derive(Debug, Clone, Default)]
struct Running {
    is_alive: bool,
    cells: Cells,
    loaded: Vec<Loaded>,
}

/// The state of everything after a number of events.
#[derive(Debug, Clone, Default)]
struct World {
    processes: BTreeMap<Pid, Running>,
    threads: BTreeMap<u32, Pid>,
    asids: BTreeMap<u32, Pid>,
    cores: BTreeMap<u32, u32>,
}

/// A log, and the state after each number of its events.
#[derive(Debug, Default)]
struct History {
    events: Vec<SystemEvent>,
    worlds: Vec<World>,
}

/// An action and its choices.
type Action = (u8, u8, u8, u8);

impl History {
    fn new(actions: &[Action]) -> Self {
        let mut history = Self { events: Vec::new(), worlds: vec![World::default()] };
        let mut world = World::default();
        actions.iter().for_each(|action| history.act(&mut world, *action));
        history
    }

    fn record(&mut self, world: &World, call: Call) {
        // Several events have the same time.
        let time = self.events.len() as u64 / 2 * 10;
        self.events.push(SystemEvent { time: Some(time), place: self.events.len() as u64 + 1, call });
        self.worlds.push(world.clone());
    }

    fn act(&mut self, world: &mut World, (action, a, b, c): Action) {
        let pid = u32::from(a) % PIDS + 1;
        let is_alive = world.processes.get(&pid).is_some_and(|process| process.is_alive);
        match action % 12 {
            0 if !is_alive => self.start(world, pid, b),
            1 | 2 if is_alive => self.load(world, pid, usize::from(b), usize::from(c)),
            3 if is_alive => self.unload(world, pid, usize::from(b)),
            4 | 5 if is_alive => self.patch(world, pid, usize::from(b), usize::from(c)),
            6 if is_alive => self.fork(world, pid, u32::from(b) % PIDS + 1),
            7 if is_alive => self.exec(world, pid, b),
            8 if is_alive => self.end(world, pid),
            9 => self.thread(world, pid, TIDS.start + u32::from(b) % (TIDS.end - TIDS.start)),
            10 => self.asid(world, pid, u32::from(b) % ASIDS),
            11 if b < 64 => self.snapshot(world),
            11 => {
                let (core, tid) = (u32::from(b) % 2, TIDS.start + u32::from(c) % 6);
                world.cores.insert(core, tid);
                self.record(world, Call::Switch { core, tid });
            }
            _ => {}
        }
    }

    fn start(&mut self, world: &mut World, pid: Pid, choice: u8) {
        let program = Loaded { name: format!("app{}", choice % 3), first: 0, count: 2, is_program: true };
        let mut process = Running { is_alive: true, cells: vec![None; CELLS], loaded: Vec::new() };
        place(&mut process, program.clone());
        world.processes.insert(pid, process);
        self.record(world, declare(State::Start, pid, &program));
    }

    /// Loads a library where no other file is. Patches may be there.
    fn load(&mut self, world: &mut World, pid: Pid, first: usize, choice: usize) {
        let (first, count) = (first % CELLS, 1 + choice % 3);
        let process = world.processes.get_mut(&pid).unwrap();
        let overlaps = |other: &Loaded| first < other.first + other.count && other.first < first + count;
        if first + count > CELLS || process.loaded.iter().any(overlaps) {
            return;
        }
        let library = Loaded { name: format!("lib{}", choice % 4), first, count, is_program: false };
        place(process, library.clone());
        self.record(world, declare(State::Start, pid, &library));
    }

    fn unload(&mut self, world: &mut World, pid: Pid, choice: usize) {
        let process = world.processes.get_mut(&pid).unwrap();
        let libraries: Vec<usize> = (0..process.loaded.len()).filter(|at| !process.loaded[*at].is_program).collect();
        if libraries.is_empty() {
            return;
        }
        let library = process.loaded.remove(libraries[choice % libraries.len()]);
        process.cells[library.first..][..library.count].fill(None);
        self.record(world, declare(State::End, pid, &library));
    }

    fn patch(&mut self, world: &mut World, pid: Pid, first: usize, choice: usize) {
        let first = first % CELLS;
        let count = (1 + choice % 2).min(CELLS - first);
        let serial = self.events.len();
        let process = world.processes.get_mut(&pid).unwrap();
        (0..count).for_each(|at| process.cells[first + at] = Some(Cell::Patch(serial, at as u64)));
        let length = count as u64 * CELL;
        let code = PatchCode::Id(serial.to_string());
        self.record(world, Call::Patch { pid, address: first as u64 * CELL, length, code, name: String::new() });
    }

    fn fork(&mut self, world: &mut World, parent: Pid, child: Pid) {
        if world.processes.get(&child).is_some_and(|process| process.is_alive) {
            return;
        }
        world.processes.insert(child, world.processes[&parent].clone());
        self.record(world, Call::Fork { parent, child });
    }

    fn exec(&mut self, world: &mut World, pid: Pid, choice: u8) {
        let process = world.processes.get_mut(&pid).unwrap();
        (process.cells, process.loaded) = (vec![None; CELLS], Vec::new());
        self.record(world, Call::Exec { pid });
        self.load(world, pid, usize::from(choice), usize::from(choice));
    }

    /// Memory is kept until the number is used again.
    fn end(&mut self, world: &mut World, pid: Pid) {
        let process = world.processes.get_mut(&pid).unwrap();
        let Some(program) = process.loaded.iter().find(|loaded| loaded.is_program).cloned() else { return };
        process.is_alive = false;
        self.record(world, declare(State::End, pid, &program));
    }

    fn thread(&mut self, world: &mut World, pid: Pid, tid: u32) {
        let call = match world.threads.remove(&tid) {
            Some(pid) => Call::Thread { state: State::End, tid, pid },
            None => {
                world.threads.insert(tid, pid);
                Call::Thread { state: State::Start, tid, pid }
            }
        };
        self.record(world, call);
    }

    fn asid(&mut self, world: &mut World, pid: Pid, asid: u32) {
        let call = match world.asids.remove(&asid) {
            Some(pid) => Call::Asid { state: State::End, asid, pid },
            None => {
                world.asids.insert(asid, pid);
                Call::Asid { state: State::Start, asid, pid }
            }
        };
        self.record(world, call);
    }

    /// Everything that exists.
    fn snapshot(&mut self, world: &World) {
        for (pid, process) in world.processes.iter().filter(|(_, process)| process.is_alive) {
            process.loaded.iter().for_each(|loaded| self.record(world, declare(State::Current, *pid, loaded)));
        }
        for (&tid, &pid) in &world.threads {
            self.record(world, Call::Thread { state: State::Current, tid, pid });
        }
        for (&asid, &pid) in &world.asids {
            self.record(world, Call::Asid { state: State::Current, asid, pid });
        }
    }
}

fn place(process: &mut Running, loaded: Loaded) {
    for at in 0..loaded.count {
        process.cells[loaded.first + at] = Some(Cell::File(loaded.name.clone(), at as u64));
    }
    process.loaded.push(loaded);
}

/// Programs are described by their base, libraries by their part of a file.
fn declare(state: State, pid: Pid, loaded: &Loaded) -> Call {
    let (address, length) = (loaded.first as u64 * CELL, loaded.count as u64 * CELL);
    let placement =
        if loaded.is_program { Placement::Base(address) } else { Placement::Part { address, length, offset: 0 } };
    let mapping = Mapping { image: loaded.name.clone(), build_id: String::new(), placement };
    if loaded.is_program { Call::Process { state, pid, mapping } } else { Call::Library { state, pid, mapping } }
}

fn two_cells(mapping: &Mapping) -> Vec<Extent> {
    let Placement::Base(address) = mapping.placement else { return Vec::new() };
    vec![Extent { address, length: 2 * CELL, offset: 0 }]
}

/// The cell of a piece, in the terms of the model.
fn cell(timeline: &Timeline, hit: Hit<'_>) -> Cell {
    match hit.piece {
        Piece::Image { mapping, .. } => {
            Cell::File(timeline.mapping(*mapping).unwrap().image.clone(), hit.offset / CELL)
        }
        piece @ Piece::Patch { .. } => match timeline.patch_code(piece) {
            Some(PatchCode::Id(id)) => Cell::Patch(id.parse().unwrap(), hit.offset / CELL),
            other => panic!("{other:?}"),
        },
    }
}

fn expected(world: &World, pid: Pid, cell: usize) -> Option<Cell> {
    world.processes.get(&pid).and_then(|process| process.cells[cell].clone())
}

/// Different contents, in no order.
fn distinct(contents: impl Iterator<Item = Option<Cell>>) -> Vec<Cell> {
    let mut found = Vec::new();
    for cell in contents.flatten() {
        if !found.contains(&cell) {
            found.push(cell);
        }
    }
    found
}

/// Compares with the different contents that are possible.
fn check(timeline: &Timeline, contents: Contents<'_>, possible: &[Cell], what: &str) -> Result<(), TestCaseError> {
    match contents {
        Contents::Absent { left } => {
            prop_assert!(possible.is_empty(), "{what}: nothing, not {possible:?}");
            prop_assert!(left > 0);
        }
        Contents::Certain(hit) => prop_assert_eq!(&[cell(timeline, hit)], possible, "{}", what),
        Contents::Doubtful(one, other) => {
            let (one, other) = (cell(timeline, one), cell(timeline, other));
            let are_possible = one != other && possible.contains(&one) && possible.contains(&other);
            prop_assert!(are_possible, "{what}: {one:?} or {other:?}, not {possible:?}");
        }
    }
    Ok(())
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    proptest::collection::vec(any::<Action>(), 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_complete_log_shows_every_state_in_both_directions(actions in actions()) {
        let history = History::new(&actions);
        for direction in [Direction::Forward, Direction::Backward] {
            let timeline = Timeline::new(history.events.clone(), direction, two_cells);
            prop_assert_eq!(timeline.inferred(), [], "{:?}", direction);
            for (position, world) in history.worlds.iter().enumerate() {
                for pid in 1..=PIDS {
                    let view = timeline.version_at(pid, position).into();
                    for at in 0..CELLS {
                        let address = at as u64 * CELL + position as u64 % CELL;
                        let possible: Vec<Cell> = expected(world, pid, at).into_iter().collect();
                        let contents = timeline.lookup(pid, view, address);
                        check(&timeline, contents, &possible, &format!("{direction:?} {pid} {position} {at}"))?;
                        if let Contents::Certain(hit) = contents {
                            check_left(&timeline, pid, view, address, hit)?;
                        }
                    }
                    let is_alive = world.processes.get(&pid).is_some_and(|process| process.is_alive);
                    prop_assert_eq!(timeline.is_alive(pid, position), is_alive);
                }
                for tid in TIDS {
                    prop_assert_eq!(timeline.process_of(tid, position), world.threads.get(&tid).copied().unwrap_or(tid));
                }
                for asid in 0..ASIDS {
                    prop_assert_eq!(timeline.process_of_asid(asid, position), world.asids.get(&asid).copied());
                }
                for core in 0..2 {
                    prop_assert_eq!(timeline.thread_on(core, position), world.cores.get(&core).copied());
                }
            }
        }
    }

    #[test]
    fn a_window_has_all_states_between_its_ends(
        actions in actions(),
        from in any::<prop::sample::Index>(),
        until in any::<prop::sample::Index>(),
    ) {
        let history = History::new(&actions);
        let timeline = Timeline::new(history.events.clone(), Direction::Backward, two_cells);
        let (a, b) = (from.index(history.worlds.len()), until.index(history.worlds.len()));
        let (before, after) = (a.min(b), a.max(b));
        for at in 0..CELLS {
            let address = at as u64 * CELL + 3;
            for pid in 1..=PIDS {
                let possible = distinct(history.worlds[before..=after].iter().map(|world| expected(world, pid, at)));
                let contents = timeline.lookup(pid, timeline.version_within(pid, before, after), address);
                check(&timeline, contents, &possible, &format!("{pid} {before} to {after} {at}"))?;
            }
            let alive = |world: &World| -> Vec<Pid> {
                world.processes.iter().filter(|(_, process)| process.is_alive).map(|(pid, _)| *pid).collect()
            };
            let world = &history.worlds[after];
            let possible = distinct(alive(world).into_iter().map(|pid| expected(world, pid, at)));
            check(&timeline, timeline.lookup_in_any(after, after, address), &possible, &format!("any {after} {at}"))?;
            prop_assert_eq!(timeline.is_ambiguous(after, address), possible.len() > 1);
        }
    }

    /// What is shown is right, or a patch that the log has lost.
    #[test]
    fn nothing_is_wrong_if_the_first_third_is_missing(actions in actions(), with_snapshot in any::<bool>()) {
        let mut actions = actions;
        if with_snapshot {
            actions.push((11, 0, 0, 0));
        }
        let history = History::new(&actions);
        let cut = history.events.len() / 3;
        let timeline = Timeline::new(history.events[cut..].to_vec(), Direction::Backward, two_cells);
        for (position, world) in history.worlds[cut..].iter().enumerate() {
            for pid in 1..=PIDS {
                let view = timeline.version_at(pid, position).into();
                for at in 0..CELLS {
                    let truth = expected(world, pid, at);
                    let is_lost = matches!(truth, Some(Cell::Patch(serial, _)) if serial < cut);
                    match timeline.lookup(pid, view, at as u64 * CELL) {
                        Contents::Certain(_) if is_lost => {}
                        Contents::Certain(hit) => {
                            let found = Some(cell(&timeline, hit));
                            let log: Vec<String> = history.events[cut..].iter().map(ToString::to_string).collect();
                            prop_assert_eq!(found, truth, "{} {} {}\n{}", pid, position, at, log.join("\n"));
                        }
                        Contents::Absent { .. } => {}
                        Contents::Doubtful(..) => prop_assert!(false, "one version is never doubtful"),
                    }
                }
            }
            for tid in TIDS {
                let found = timeline.process_of(tid, position);
                prop_assert!(found == tid || Some(&found) == world.threads.get(&tid));
            }
            for asid in 0..ASIDS {
                let found = timeline.process_of_asid(asid, position);
                prop_assert!(found.is_none() || found.as_ref() == world.asids.get(&asid));
            }
        }
        if with_snapshot {
            check_end(&history, &timeline, cut)?;
        }
    }
}

/// With a snapshot at the end, all files of the processes that exist then are known there.
fn check_end(history: &History, timeline: &Timeline, cut: usize) -> Result<(), TestCaseError> {
    let (position, world) = (history.events.len() - cut, history.worlds.last().unwrap());
    for (pid, process) in world.processes.iter().filter(|(_, process)| process.is_alive) {
        for (at, truth) in process.cells.iter().enumerate().filter(|(_, truth)| matches!(truth, Some(Cell::File(..)))) {
            let contents = timeline.lookup(*pid, timeline.version_at(*pid, position).into(), at as u64 * CELL);
            prop_assert_eq!(&contents.certain().map(|hit| cell(timeline, hit)), truth);
        }
    }
    Ok(())
}

/// The answer is the same, at ascending offsets, for the bytes that are left.
fn check_left(timeline: &Timeline, pid: Pid, view: View, address: u64, hit: Hit<'_>) -> Result<(), TestCaseError> {
    for distance in [1, hit.left / 2, hit.left - 1] {
        let later = timeline.lookup(pid, view, address + distance.min(hit.left - 1)).certain();
        let distance = distance.min(hit.left - 1);
        let expected = Hit { piece: hit.piece, offset: hit.offset + distance, left: hit.left - distance };
        prop_assert_eq!(later, Some(expected));
    }
    Ok(())
}
