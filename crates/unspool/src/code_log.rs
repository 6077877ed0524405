//! System events made from steps: the code of each process over time, and the threads of processes.
//!
//! steps of all cores ─▶ **executed code by process, address and time** ─▶ system events
//!
//! What is executed at an address of a process is code that was there at that time. Code that never differs is an event without a
//! time; where one opcode follows another, the second is an event at a time between. Code above EL0 belongs to the kernel. Takes
//! steps in any order of cores: they are compared by their times. Memory grows with the code that is executed and with its
//! changes, not with the number of steps. Does not know files: where a program was loaded from is in no step.

mod observed;

use std::collections::BTreeMap;

use unspool_capture::{Call, KERNEL, PatchCode, Pid, State, SystemEvent};
use unspool_model::{BlockTrace, Context, Event, Instruction, Isa, Step};

use self::observed::{Moment, Observed, Sighting};

/// Number of bytes in a page.
const PAGE: u64 = 4096;
/// Number of halfwords in a page.
const SLOTS: usize = PAGE as usize / 2;
/// Maximum number of bytes of one event.
const LONGEST: usize = 16 << 10;

/// The process of code at EL0 whose context names none.
const UNNAMED: Pid = 1;

/// Executed code of all processes, collected from steps.
#[derive(Debug, Default)]
pub struct CodeLog {
    cores: Vec<Core>,
    pages: Vec<Page>,
    /// Indexes of pages, by process and number.
    numbers: BTreeMap<(Pid, u64), usize>,
    /// The last page, since the next instruction is most often there.
    last: Option<((Pid, u64), usize)>,
    /// Code that was replaced, by process and address.
    replaced: BTreeMap<(Pid, u64), Vec<Sighting<u16>>>,
    /// The process of each thread.
    threads: BTreeMap<u32, (Sighting<Pid>, Vec<Sighting<Pid>>)>,
    /// The process that last executed each block of the block traces of a core.
    known_blocks: BTreeMap<u32, Vec<Option<Pid>>>,
    /// Any code may have been executed up to this time, without a step.
    repeated_until: u64,
    untimed_change: Option<u64>,
}

/// A core: the process that it executes, and the time of its last exception or exception return.
#[derive(Debug, Clone, Copy, Default)]
struct Core {
    context: Context,
    synchronized: u64,
    is_synchronizing: bool,
}

/// Halfwords of a page, as they were last seen.
#[derive(Debug)]
struct Page(Vec<Option<Sighting<u16>>>);

impl CodeLog {
    /// Adds a step.
    pub fn step(&mut self, step: &Step) {
        let index = step.core as usize;
        if self.cores.len() <= index {
            self.cores.resize_with(index + 1, Core::default);
        }
        let Some(core) = self.cores.get_mut(index) else { return };
        match &step.event {
            Event::Instruction(instruction) => {
                if std::mem::take(&mut core.is_synchronizing) {
                    core.synchronized = step.time.unwrap_or(0);
                }
                let core = *core;
                self.instruction(&core, step.time, instruction);
            }
            Event::Context(context) => core.context = context.over(&core.context),
            Event::Exception(_) | Event::ExceptionReturn { .. } => core.is_synchronizing = true,
            Event::State | Event::Gap(_) | Event::Note => {}
        }
    }

    /// Adds a trace of blocks: the steps of those that are new in their process.
    pub fn blocks(&mut self, trace: &BlockTrace<'_>) {
        self.repeated_until = self.repeated_until.max(trace.time.unwrap_or(0));
        let index = trace.core as usize;
        let pid = self.cores.get(index).map_or(UNNAMED, |core| process_of(&core.context));
        let mut known = self.known_blocks.remove(&trace.core).unwrap_or_default();
        known.resize(known.len().max(trace.blocks.len()), None);
        for (at, execution) in trace.executions.iter().enumerate() {
            let Some(known) = known.get_mut(execution.number()).filter(|known| **known != Some(pid)) else { continue };
            *known = Some(pid);
            trace.steps(at, trace.position_of(at).unwrap_or(trace.first_position())).for_each(|step| self.step(&step));
        }
        self.known_blocks.insert(trace.core, known);
    }

    /// The address of code that was replaced by other code in one process, if no step has a time: no event can express it. It
    /// is returned once.
    pub fn take_untimed_change(&mut self) -> Option<u64> {
        self.untimed_change.take()
    }

    fn instruction(&mut self, core: &Core, time: Option<u64>, instruction: &Instruction) {
        let Some(opcode) = instruction.opcode else { return };
        let pid = process_of(&core.context);
        let moment = Moment { time, synchronized: core.synchronized };
        let address = instruction.address;
        let (low, high) = (opcode as u16, (opcode >> 16) as u16);
        match (instruction.length, instruction.isa) {
            (2, _) => self.halfword(pid, address, low, moment),
            // The first halfword of T32 is the high one.
            (_, Isa::T32) => {
                self.halfword(pid, address, high, moment);
                self.halfword(pid, address.wrapping_add(2), low, moment);
            }
            _ => {
                self.halfword(pid, address, low, moment);
                self.halfword(pid, address.wrapping_add(2), high, moment);
            }
        }
        if let Some(thread) = core.context.thread.filter(|_| pid != KERNEL) {
            self.thread(thread as u32, pid, moment);
        }
    }

    fn halfword(&mut self, pid: Pid, address: u64, value: u16, moment: Moment) {
        let page = self.page((pid, address / PAGE));
        let slots = self.pages.get_mut(page).map(|page| page.0.as_mut_slice()).unwrap_or_default();
        let Some(slot) = slots.get_mut((address % PAGE / 2) as usize) else { return };
        match slot {
            None => *slot = Some(Sighting::new(value, moment)),
            Some(known) if known.value == value => known.extend(moment),
            Some(known) => {
                if moment.time.is_none() {
                    self.untimed_change.get_or_insert(address);
                }
                let mut before = std::mem::replace(known, Sighting::new(value, moment));
                before.last = before.last.max(self.repeated_until.min(moment.time.unwrap_or(0)));
                self.replaced.entry((pid, address)).or_default().push(before);
            }
        }
    }

    /// The index of a page.
    #[inline]
    fn page(&mut self, number: (Pid, u64)) -> usize {
        if let Some((_, index)) = self.last.filter(|(last, _)| *last == number) {
            return index;
        }
        let new = self.pages.len();
        let index = *self.numbers.entry(number).or_insert(new);
        if index == new {
            self.pages.push(Page(vec![None; SLOTS]));
        }
        self.last = Some((number, index));
        index
    }

    fn thread(&mut self, thread: u32, pid: Pid, moment: Moment) {
        let (known, before) = self.threads.entry(thread).or_insert_with(|| (Sighting::new(pid, moment), Vec::new()));
        if known.value == pid {
            return known.extend(moment);
        }
        before.push(std::mem::replace(known, Sighting::new(pid, moment)));
    }

    /// The events: first those without a time, then the others in order of time.
    pub fn finish(self) -> Events {
        let mut patches = Patches::default();
        let mut unordered = 0;
        let Self { pages, numbers, mut replaced, threads, .. } = self;
        for ((pid, number), index) in numbers {
            let slots = pages.get(index).map_or(&[][..], |page| page.0.as_slice());
            for (slot, sighting) in (0..).zip(slots).filter_map(|(slot, sighting)| Some((slot, (*sighting)?))) {
                let address = number * PAGE + 2 * slot;
                let earlier = replaced.remove(&(pid, address)).unwrap_or_default();
                let observed = Observed::new(earlier.into_iter().chain([sighting]));
                unordered += u64::from(!observed.is_ordered);
                for (time, value) in observed.changes {
                    patches.add(time, pid, address, value);
                }
            }
        }
        let mut list = patches.finish();
        for (thread, (last, before)) in threads {
            let observed = Observed::new(before.into_iter().chain([last]));
            unordered += u64::from(!observed.is_ordered);
            list.extend(thread_events(thread, &observed.changes));
        }
        list.sort_by_key(|event| event.time);
        Events { list, unordered }
    }
}

/// Events, and how sure they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    /// Those without a time, then the others in order of time.
    pub list: Vec<SystemEvent>,
    /// Number of addresses and threads that changed and changed back while several cores were executed: the order of these
    /// changes is not known.
    pub unordered: u64,
}

/// The process whose code is executed.
fn process_of(context: &Context) -> Pid {
    match (context.level, context.process) {
        (Some(1..), _) => KERNEL,
        (_, process) => process.map(|process| process as Pid).filter(|pid| *pid != KERNEL).unwrap_or(UNNAMED),
    }
}

fn event(time: Option<u64>, call: Call) -> SystemEvent {
    SystemEvent { time, place: 0, call }
}

/// A thread that has the number of its process needs no declaration.
fn thread_events(tid: u32, changes: &[(Option<u64>, Pid)]) -> Vec<SystemEvent> {
    let mut before = tid;
    let mut events = Vec::new();
    for (time, pid) in changes {
        let (state, pid) = match time {
            _ if *pid == tid && before == tid => continue,
            _ if *pid == tid => (State::End, std::mem::replace(&mut before, tid)),
            None => (State::Current, *pid),
            Some(_) => (State::Start, *pid),
        };
        if state != State::End {
            before = pid;
        }
        events.push(event(*time, Call::Thread { state, tid, pid }));
    }
    events
}

/// Code by time and process, joined where it is contiguous.
#[derive(Debug, Default)]
struct Patches(BTreeMap<(Option<u64>, Pid), Vec<Patch>>);

/// An address, and the bytes from there on.
type Patch = (u64, Vec<u8>);

impl Patches {
    /// Adds a halfword. Addresses of a process ascend.
    fn add(&mut self, time: Option<u64>, pid: Pid, address: u64, value: u16) {
        let list = self.0.entry((time, pid)).or_default();
        match list.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == address && bytes.len() < LONGEST => {
                bytes.extend(value.to_le_bytes());
            }
            _ => list.push((address, value.to_le_bytes().to_vec())),
        }
    }

    fn finish(self) -> Vec<SystemEvent> {
        let patch = |time, pid, (address, bytes): Patch| {
            let length = bytes.len() as u64;
            event(time, Call::Patch { pid, address, length, code: PatchCode::Bytes(bytes), name: String::new() })
        };
        let each = self.0.into_iter();
        each.flat_map(|((time, pid), list)| list.into_iter().map(move |code| patch(time, pid, code))).collect()
    }
}

#[cfg(test)]
mod tests {
    use unspool_model::Positions;

    use super::*;

    fn step(core: u32, time: Option<u64>, event: Event) -> Step {
        let mut step = Step::default();
        (step.core, step.time, step.event) = (core, time, event);
        step
    }

    fn context(level: u8, process: Option<u64>, thread: Option<u64>) -> Event {
        Event::Context(Context { level: Some(level), process, thread, ..Context::default() })
    }

    fn instruction(isa: Isa, address: u64, opcode: u32, length: u8) -> Event {
        Event::Instruction(Instruction { address, opcode: Some(opcode), length, isa, ..Instruction::default() })
    }

    fn a64(address: u64, opcode: u32) -> Event {
        instruction(Isa::A64, address, opcode, 4)
    }

    fn events(steps: &[(u32, Option<u64>, Event)]) -> Vec<String> {
        let mut log = CodeLog::default();
        steps.iter().for_each(|(core, time, event)| log.step(&step(*core, *time, *event)));
        log.finish().list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn code_belongs_to_processes_and_the_kernel() {
        let found = events(&[
            (0, None, a64(0x1000, 0x0101_0101)),
            (0, None, context(0, Some(300), None)),
            (0, None, a64(0x1000, 0x0202_0202)),
            (0, None, a64(0x1004, 0x0303_0303)),
            (0, None, a64(0x100c, 0x0404_0404)),
            (0, None, context(1, Some(300), None)),
            (0, None, a64(0x1000, 0x0505_0505)),
        ]);
        assert_eq!(
            found,
            [
                "- patch_code(0, 0x1000, 4, hex\"05050505\")",
                "- patch_code(1, 0x1000, 4, hex\"01010101\")",
                "- patch_code(300, 0x1000, 8, hex\"0202020203030303\")",
                "- patch_code(300, 0x100c, 4, hex\"04040404\")",
            ]
        );
    }

    #[test]
    fn opcodes_are_in_the_order_of_memory() {
        let found = events(&[
            (0, None, instruction(Isa::T32, 0x1000, 0xf3af_8000, 4)),
            (0, None, instruction(Isa::T32, 0x1004, 0xbf00, 2)),
            (0, None, instruction(Isa::A32, 0x1008, 0xe320_f000, 4)),
        ]);
        assert_eq!(
            found,
            ["- patch_code(1, 0x1000, 6, hex\"aff3008000bf\")", "- patch_code(1, 0x1008, 4, hex\"00f020e3\")"]
        );
    }

    #[test]
    fn changes_have_the_time_after_an_exception() {
        let exception = Event::Exception(unspool_model::Exception::default());
        let found = events(&[
            (0, Some(1), context(0, Some(7), None)),
            (0, Some(1), a64(0x1000, 0x0101_0101)),
            (0, Some(9), a64(0x1000, 0x0101_0101)),
            (0, Some(9), exception),
            (0, Some(12), a64(0x2000, 0x0909_0909)),
            (0, Some(20), a64(0x1000, 0x0202_0202)),
            // Nothing was between these.
            (0, Some(31), a64(0x1000, 0x0303_0303)),
        ]);
        assert_eq!(
            found,
            [
                "- patch_code(7, 0x1000, 4, hex\"01010101\")",
                "- patch_code(7, 0x2000, 4, hex\"09090909\")",
                "12 patch_code(7, 0x1000, 4, hex\"02020202\")",
                "26 patch_code(7, 0x1000, 4, hex\"03030303\")",
            ]
        );
    }

    #[test]
    fn a_change_without_a_time_is_reported() {
        let mut log = CodeLog::default();
        log.step(&step(0, None, a64(0x1000, 1)));
        log.step(&step(0, None, a64(0x1000, 1)));
        assert_eq!(log.take_untimed_change(), None);
        log.step(&step(0, None, a64(0x1000, 0x10001)));
        assert_eq!(log.take_untimed_change(), Some(0x1002));
    }

    #[test]
    fn threads_are_declared_unless_they_are_processes() {
        let seen = |time, process, thread| (0, Some(time), context(0, Some(process), Some(thread)));
        let run = |time| (0, Some(time), a64(0x1000, 0));
        let found = events(&[
            seen(1, 300, 300),
            run(1),
            seen(2, 300, 301),
            run(2),
            // It executes another program, then the number is used again.
            seen(10, 301, 301),
            run(10),
            seen(20, 302, 301),
            run(20),
            // Threads in the kernel may be of any process.
            (0, Some(30), context(1, Some(9), Some(9))),
            run(30),
        ]);
        let threads: Vec<&str> = found.iter().map(String::as_str).filter(|line| line.contains("thread")).collect();
        assert_eq!(
            threads,
            [
                "- declare_thread(CURRENT, 301, 300)",
                "6 declare_thread(END, 301, 300)",
                "15 declare_thread(START, 301, 302)",
            ]
        );
    }

    #[test]
    fn repeated_blocks_are_executed_until_their_time() {
        let mut log = CodeLog::default();
        log.step(&step(0, Some(1), a64(0x1000, 0x0101_0101)));
        let trace = BlockTrace {
            core: 0,
            blocks: &[],
            executions: &[],
            next: None,
            positions: Positions::From(0),
            time: Some(9),
            accesses: None,
        };
        log.blocks(&trace);
        log.step(&step(0, Some(13), a64(0x1000, 0x0202_0202)));
        let last = log.finish().list.pop().map(|event| event.to_string());
        assert_eq!(last.as_deref(), Some("11 patch_code(1, 0x1000, 4, hex\"02020202\")"));
    }
}
