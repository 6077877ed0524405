//! A small machine: processes, threads, a kernel, and cores that execute them, each with a trace unit.
//!
//! seed ─▶ **simulator** ─▶ executed instructions and trace of each core, events
//!
//! It knows what is in memory by itself, one word per address, and nothing of timelines or maps. Events that replace code
//! happen where no core executes the process between two timestamps, so that all of the trace can be decoded; others happen
//! at any time.

use std::collections::{BTreeMap, BTreeSet};

use unspool::capture::{Call, KERNEL, Mapping, PatchCode, Pid, Placement, State, SystemEvent};
use unspool::coresight::etm4::unit::{Class, Executed, Settings, Unit};
use unspool::coresight::{Context, Security, SubIsa, Target};
use unspool_testing::Random;

use super::image::{BARRIER, CALL_REGISTER, CODE, EXCEPTION_RETURN, Image, JUMP, RET, SYSTEM_CALL, branch, mark};

/// Where the programs of all processes are.
const PROGRAM: u64 = 0x40_0000;
/// Where libraries are: each of these addresses is used by several.
const LIBRARIES: [u64; 4] = [0x7f80_0000_0000, 0x7f80_0001_0000, 0x7f80_0002_0000, 0x7f80_0003_0000];
/// Where the JIT compiler writes code.
const JIT: u64 = 0x7fc0_0000_0000;
/// Bytes of a function of the JIT compiler.
const JIT_FUNCTION: u64 = 0x40;
/// Where the kernel is.
const VMLINUX: u64 = 0xffff_8000_8000_0000;

/// Exception types of trace.
const CALL_EXCEPTION: u16 = 2;
const IRQ_EXCEPTION: u16 = 14;

/// What the operating system writes to CONTEXTIDR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContextId {
    Tid,
    AsidTid,
    Asid,
    Pid,
}

/// An executed instruction: address, opcode, process.
pub(crate) type Step = (u64, u32, Pid);

/// An event, and the logs that have it.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) event: SystemEvent,
    /// In a complete log.
    pub(crate) forward: bool,
    /// In a log of ends and patches.
    pub(crate) backward: bool,
}

/// A file in the memory of a process.
#[derive(Debug, Clone)]
struct Mapped {
    image: usize,
    base: u64,
    is_program: bool,
}

#[derive(Debug, Clone)]
struct Process {
    pid: Pid,
    asid: u32,
    memory: BTreeMap<u64, u32>,
    mapped: Vec<Mapped>,
    /// Functions that the JIT compiler wrote.
    jit: Vec<u64>,
    is_jit: bool,
    /// It replaced another program under its number.
    is_second: bool,
}

#[derive(Debug, Clone)]
struct Thread {
    tid: u32,
    pid: Pid,
    pc: u64,
    calls: Vec<u64>,
}

/// What the kernel does about an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// It calls the function that gets patched, and returns to the thread.
    Work,
    /// It executes another thread.
    Switch,
}

/// A core.
#[derive(Debug)]
struct Core {
    unit: Unit,
    executed: Vec<Step>,
    thread: Option<u32>,
    /// In the kernel: where, and why.
    kernel: Option<(u64, Service)>,
    kernel_calls: Vec<u64>,
    /// The process whose code may have been executed since the last timestamp.
    in_window: Option<Pid>,
    /// The function that gets patched may have been executed since the last timestamp.
    worked: bool,
    budget: u64,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) images: Vec<Image>,
    pub(crate) log: Vec<Logged>,
    context_id: ContextId,
    random: Random,
    now: u64,
    kernel: BTreeMap<u64, u32>,
    processes: BTreeMap<Pid, Process>,
    threads: BTreeMap<u32, Thread>,
    cores: Vec<Core>,
    next_id: u32,
    free_asids: Vec<u32>,
    free_pids: Vec<Pid>,
    kernel_patches: u32,
    /// Kinds of events that happened.
    pub(crate) seen: BTreeSet<&'static str>,
}

/// Number of events after which there are no others.
const EVENTS: usize = 130;

/// Indices of images.
const KERNEL_IMAGE: usize = 0;
const FIRST_PROGRAM: usize = 1;
const PROGRAMS: usize = 6;
const FIRST_LIBRARY: usize = FIRST_PROGRAM + PROGRAMS;
const SHARED_LIBRARIES: usize = 5;

/// Words of the kernel: the vectors of system calls and interrupts, the services, the function that gets patched.
const KERNEL_WORDS: [u32; 16] = [
    0xd280_0009, // 0: system call
    JUMP,
    0xd280_0029, // 2: interrupt
    0x1400_0006, // to 9
    0xd280_0049, // 4: work
    0x9400_0008, // to 13
    0xd280_0069,
    EXCEPTION_RETURN,
    0xd280_0089,
    0xd280_00a9, // 9: switch
    BARRIER,
    0xd280_00c9,
    EXCEPTION_RETURN,
    0xd280_00e9, // 13: gets patched
    0xd280_0109,
    RET,
];
const SYSTEM_CALL_VECTOR: u64 = VMLINUX + CODE;
const INTERRUPT_VECTOR: u64 = VMLINUX + CODE + 2 * 4;
const WORK: u64 = VMLINUX + CODE + 4 * 4;
const SWITCH: u64 = VMLINUX + CODE + 9 * 4;
const PATCHED: u64 = VMLINUX + CODE + 13 * 4;

impl Machine {
    /// A machine with four processes.
    pub(crate) fn new(seed: u64, cores: usize, context_id: ContextId, settings: &Settings) -> Self {
        let mut random = Random::new(seed);
        let mut images = vec![Image::new("vmlinux", KERNEL_WORDS.to_vec(), &[0])];
        for number in 0..PROGRAMS {
            let index = images.len() as u32;
            images.push(Image::random(&format!("bin/program{number}"), index, &mut random));
        }
        for number in 0..SHARED_LIBRARIES {
            let index = images.len() as u32;
            images.push(Image::random(&format!("lib/lib{number}.so"), index, &mut random));
        }
        let core = || Core {
            unit: Unit::new(settings),
            executed: Vec::new(),
            thread: None,
            kernel: Some((SWITCH, Service::Switch)),
            kernel_calls: Vec::new(),
            in_window: None,
            worked: false,
            budget: 0,
        };
        let kernel = loaded(&images[KERNEL_IMAGE], VMLINUX);
        let mut machine = Self {
            images,
            log: Vec::new(),
            context_id,
            random,
            now: 100,
            kernel: kernel.collect(),
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
            cores: (0..cores).map(|_| core()).collect(),
            next_id: 300,
            free_asids: (1..12).rev().collect(),
            free_pids: Vec::new(),
            kernel_patches: 0,
            seen: BTreeSet::new(),
        };
        let of_kernel = Mapped { image: KERNEL_IMAGE, base: VMLINUX, is_program: true };
        machine.note(None, machine.mapped_call(State::Current, KERNEL, &of_kernel), true, false);
        for number in 0..4 {
            machine.start(number, number == 3);
        }
        machine
    }

    /// Executes instructions on all cores, and ends their traces.
    pub(crate) fn run(&mut self, count: usize) {
        for core in 0..self.cores.len() {
            let context = self.context(core, 1);
            self.cores[core].unit.context(context);
        }
        for _ in 0..count {
            let core = self.random.below(self.cores.len() as u64) as usize;
            // Bursts, so that one core executes while the other is anywhere.
            for _ in 0..1 + self.random.below(12) {
                self.step(core);
            }
        }
        for core in 0..self.cores.len() {
            let at = Target { address: self.pc(core), isa: SubIsa::Is0 };
            self.cores[core].unit.halt(at);
            self.cores[core].unit.finish();
        }
    }

    /// What a core executed, and its trace.
    pub(crate) fn core(&self, core: usize) -> (&[Step], &[u8]) {
        (&self.cores[core].executed, self.cores[core].unit.bytes())
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores.len()
    }

    /// The state after the end, as events.
    pub(crate) fn snapshot(&self) -> Vec<SystemEvent> {
        let time = Some(self.now + 1000);
        let of_kernel = Mapped { image: KERNEL_IMAGE, base: VMLINUX, is_program: true };
        let mut calls = vec![self.mapped_call(State::Current, KERNEL, &of_kernel)];
        for process in self.processes.values() {
            calls.extend(process.mapped.iter().map(|mapped| self.mapped_call(State::Current, process.pid, mapped)));
            calls.push(Call::Asid { state: State::Current, asid: process.asid, pid: process.pid });
        }
        for thread in self.threads.values().filter(|thread| thread.tid != thread.pid) {
            calls.push(Call::Thread { state: State::Current, tid: thread.tid, pid: thread.pid });
        }
        calls.into_iter().map(|call| SystemEvent { time, place: 0, call }).collect()
    }

    // Execution.

    fn pc(&self, core: usize) -> u64 {
        let Core { kernel, thread, .. } = &self.cores[core];
        match (kernel, thread) {
            (Some((pc, _)), _) => *pc,
            (None, thread) => self.threads[&thread.unwrap()].pc,
        }
    }

    fn context(&self, core: usize, el: u8) -> Context {
        let context_id = self.cores[core].thread.map_or(0, |tid| {
            let process = &self.processes[&self.threads[&tid].pid];
            match self.context_id {
                ContextId::Tid => tid,
                ContextId::AsidTid => tid << 8 | process.asid,
                ContextId::Asid => process.asid,
                ContextId::Pid => process.pid,
            }
        });
        Context { el, aarch64: true, security: Security::NonSecure, vmid: None, context_id: Some(context_id) }
    }

    /// Executes an instruction.
    fn step(&mut self, core: usize) {
        self.now += 1 + self.random.below(3);
        let pc = self.pc(core);
        match self.cores[core].kernel {
            Some((_, service)) => self.kernel_step(core, pc, service),
            None => self.user_step(core, pc),
        }
    }

    /// Traces an instruction and returns the address after it.
    fn execute(&mut self, core: usize, pid: Pid, pc: u64, opcode: u32, taken: bool) -> u64 {
        let Core { unit, executed, .. } = &mut self.cores[core];
        executed.push((pc, opcode, pid));
        let is_conditional = opcode >> 24 == 0x54;
        let is_call = opcode >> 26 == 0x25;
        let class = match opcode {
            RET | JUMP | CALL_REGISTER => Class::Indirect,
            EXCEPTION_RETURN => Class::ExceptionReturn,
            BARRIER => Class::Barrier,
            _ if is_conditional || is_call || opcode >> 26 == 5 => Class::Direct,
            _ => Class::Other,
        };
        unit.time(self.now);
        unit.instruction(&Executed {
            address: pc,
            isa: SubIsa::Is0,
            length: 4,
            class,
            conditional: is_conditional,
            link: is_call || opcode == CALL_REGISTER,
            taken,
        });
        match class {
            Class::Direct if is_conditional && taken => pc.wrapping_add_signed(offset_of(opcode >> 5, 19)),
            Class::Direct if !is_conditional => pc.wrapping_add_signed(offset_of(opcode, 26)),
            _ => pc + 4,
        }
    }

    fn kernel_step(&mut self, core: usize, pc: u64, service: Service) {
        let opcode = self.kernel[&pc];
        let mut next = self.execute(core, KERNEL, pc, opcode, true);
        if service == Service::Switch && [SYSTEM_CALL_VECTOR, INTERRUPT_VECTOR].contains(&pc) {
            // The timestamp after the exception came before this instruction.
            self.cores[core].in_window = None;
            self.cores[core].worked = false;
        }
        match opcode {
            JUMP => next = if service == Service::Work { WORK } else { SWITCH },
            RET => next = self.cores[core].kernel_calls.pop().unwrap(),
            BARRIER => self.switch(core),
            EXCEPTION_RETURN => return self.leave_kernel(core),
            _ if opcode >> 26 == 0x25 => {
                self.cores[core].kernel_calls.push(pc + 4);
                self.cores[core].worked = true;
            }
            _ => {}
        }
        self.cores[core].kernel = Some((next, service));
    }

    fn leave_kernel(&mut self, core: usize) {
        self.cores[core].kernel = None;
        let context = self.context(core, 0);
        self.cores[core].unit.context(context);
    }

    fn enter_kernel(&mut self, core: usize, number: u16, return_address: u64, service: Service) {
        let vector = if number == CALL_EXCEPTION { SYSTEM_CALL_VECTOR } else { INTERRUPT_VECTOR };
        self.cores[core].kernel = Some((vector, service));
        self.cores[core].unit.time(self.now);
        self.cores[core].unit.exception(number, Target { address: return_address, isa: SubIsa::Is0 });
        let context = self.context(core, 1);
        self.cores[core].unit.context(context);
    }

    fn user_step(&mut self, core: usize, pc: u64) {
        let tid = self.cores[core].thread.unwrap();
        let pid = self.threads[&tid].pid;
        self.cores[core].worked = false;
        let opcode = self.processes[&pid].memory[&pc];
        let taken = opcode >> 24 != 0x54 || self.random.below(3) > 0;
        let mut next = self.execute(core, pid, pc, opcode, taken);
        let is_call = opcode >> 26 == 0x25 || opcode == CALL_REGISTER;
        if opcode == JUMP || opcode == CALL_REGISTER {
            next = self.any_function(pid);
        }
        let entry = self.any_function(pid);
        let thread = self.threads.get_mut(&tid).unwrap();
        if is_call {
            thread.calls.push(pc + 4);
        }
        if opcode == RET {
            next = thread.calls.pop().unwrap_or(entry);
        }
        if thread.calls.len() > 12 {
            thread.calls.clear();
        }
        thread.pc = next;
        let budget = &mut self.cores[core].budget;
        *budget = budget.saturating_sub(1);
        let is_over = *budget == 0;
        if opcode == SYSTEM_CALL {
            let service = if is_over || self.random.below(3) == 0 { Service::Switch } else { Service::Work };
            self.enter_kernel(core, CALL_EXCEPTION, next, service);
        } else if is_over {
            self.enter_kernel(core, IRQ_EXCEPTION, next, Service::Switch);
        } else if self.random.below(60) == 0 {
            self.inline_event(pid);
        }
    }

    fn any_function(&mut self, pid: Pid) -> u64 {
        let process = &self.processes[&pid];
        let of_images = process
            .mapped
            .iter()
            .flat_map(|mapped| self.images[mapped.image].functions.iter().map(|offset| mapped.base + offset));
        let all: Vec<u64> = of_images.chain(process.jit.iter().copied()).collect();
        self.random.pick(&all)
    }

    /// The kernel executes another thread, after events.
    fn switch(&mut self, core: usize) {
        self.cores[core].thread = None;
        for _ in 0..self.random.below(3) {
            self.event();
        }
        let busy: Vec<u32> = self.cores.iter().filter_map(|core| core.thread).collect();
        let ready: Vec<u32> = self.threads.keys().copied().filter(|tid| !busy.contains(tid)).collect();
        let tid = self.random.pick(&ready);
        self.cores[core].thread = Some(tid);
        self.cores[core].in_window = Some(self.threads[&tid].pid);
        self.cores[core].budget = 10 + self.random.below(120);
        let context = self.context(core, 1);
        self.cores[core].unit.context(context);
    }

    // Events.

    fn note(&mut self, time: Option<u64>, call: Call, forward: bool, backward: bool) {
        let event = SystemEvent { time, place: 0, call };
        self.log.push(Logged { event, forward, backward });
    }

    /// Something happens now, later than all before it and earlier than all after it.
    fn happens(&mut self, call: Call, forward: bool, backward: bool) {
        self.now += 1 + self.random.below(3);
        self.note(Some(self.now), call, forward, backward);
        self.now += 1;
    }

    fn mapped_call(&self, state: State, pid: Pid, mapped: &Mapped) -> Call {
        let image = &self.images[mapped.image];
        // Some files are mapped in parts, as an operating system reports it.
        let placement = if mapped.image.is_multiple_of(4) && pid != KERNEL {
            let length = 4 * image.words.len() as u64;
            Placement::Part { address: mapped.base + CODE, length, offset: CODE }
        } else {
            Placement::Base(mapped.base)
        };
        let mapping = Mapping { image: image.name.clone(), build_id: String::new(), placement };
        if mapped.is_program { Call::Process { state, pid, mapping } } else { Call::Library { state, pid, mapping } }
    }

    /// An event of any kind, if the machine is in a state for it.
    fn event(&mut self) {
        let Some(pid) = self.idle_process().filter(|_| self.log.len() < EVENTS) else { return };
        // Numbers and addresses are used again only after the first third of the log.
        let is_late = self.log.len() > EVENTS / 3 + 5;
        match self.random.below(12) {
            0 | 1 => self.open_library(pid),
            2 | 3 if is_late && !self.processes[&pid].is_second => self.close_library(pid),
            4 => self.fork(pid),
            5 if is_late => self.exec(pid),
            6 if is_late => self.exit(pid),
            7 if self.processes.len() < 8 => {
                let program = self.random.below(PROGRAMS as u64) as usize;
                self.start(program, false);
            }
            8 => self.start_thread(pid),
            9 => self.end_thread(pid),
            10 if is_late => self.rewrite_jit(),
            11 if is_late && self.random.flip() => self.patch_kernel(),
            11 if is_late => self.swap_asids(pid),
            _ => {}
        }
    }

    /// A process that no core has executed since its last timestamp.
    fn idle_process(&mut self) -> Option<Pid> {
        let busy: Vec<Pid> = self.cores.iter().filter_map(|core| core.in_window).collect();
        let idle: Vec<Pid> = self.processes.keys().copied().filter(|pid| !busy.contains(pid)).collect();
        (!idle.is_empty()).then(|| self.random.pick(&idle))
    }

    fn new_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    fn new_asid(&mut self) -> u32 {
        let asid = self.free_asids.pop().unwrap();
        self.seen.insert(if self.log.iter().any(|logged| is_asid(&logged.event.call, asid)) {
            "asid reuse"
        } else {
            "asid"
        });
        asid
    }

    fn declare_asid(&mut self, state: State, asid: u32, pid: Pid) {
        self.happens(Call::Asid { state, asid, pid }, true, state == State::End);
    }

    /// Starts a process with a program and two libraries.
    fn start(&mut self, program: usize, is_jit: bool) {
        let reused = self.free_pids.pop();
        let pid = reused.unwrap_or_else(|| self.new_id());
        self.seen.insert(if reused.is_some() { "pid reuse" } else { "start" });
        let asid = self.new_asid();
        let mut process = Process {
            pid,
            asid,
            memory: BTreeMap::new(),
            mapped: Vec::new(),
            jit: Vec::new(),
            is_jit,
            is_second: reused.is_some(),
        };
        let program = Mapped { image: FIRST_PROGRAM + program, base: PROGRAM, is_program: true };
        process.memory.extend(loaded(&self.images[program.image], program.base));
        process.mapped.push(program.clone());
        self.processes.insert(pid, process);
        self.happens(self.mapped_call(State::Start, pid, &program), true, false);
        self.declare_asid(State::Start, asid, pid);
        self.open_library(pid);
        if pid.is_multiple_of(2) {
            self.open_library(pid);
        }
        let pc = self.any_function(pid);
        self.threads.insert(pid, Thread { tid: pid, pid, pc, calls: Vec::new() });
        if is_jit {
            self.write_jit(pid, JIT);
        }
    }

    /// Loads a library at a free address.
    fn open_library(&mut self, pid: Pid) {
        let process = &self.processes[&pid];
        let free: Vec<u64> =
            LIBRARIES.into_iter().filter(|base| process.mapped.iter().all(|mapped| mapped.base != *base)).collect();
        if free.is_empty() {
            return;
        }
        let base = self.random.pick(&free);
        let image = FIRST_LIBRARY + self.random.below(SHARED_LIBRARIES as u64) as usize;
        let mapped = Mapped { image, base, is_program: false };
        let words: Vec<(u64, u32)> = loaded(&self.images[image], base).collect();
        // The log has it first, or last: nothing is executed there in between.
        self.happens(self.mapped_call(State::Start, pid, &mapped), true, false);
        let process = self.processes.get_mut(&pid).unwrap();
        process.memory.extend(words);
        process.mapped.push(mapped);
        self.seen.insert("library");
    }

    fn close_library(&mut self, pid: Pid) {
        let libraries: Vec<usize> = (0..self.processes[&pid].mapped.len())
            .filter(|index| !self.processes[&pid].mapped[*index].is_program)
            .collect();
        if libraries.is_empty() {
            return;
        }
        let index = self.random.pick(&libraries);
        let mapped = self.processes[&pid].mapped[index].clone();
        let range = mapped.base..mapped.base + 0x1_0000;
        if !self.leave(pid, range.clone()) {
            return;
        }
        let process = self.processes.get_mut(&pid).unwrap();
        process.mapped.remove(index);
        process.memory.retain(|address, _| !range.contains(address));
        self.happens(self.mapped_call(State::End, pid, &mapped), true, true);
        self.seen.insert("close");
    }

    /// Makes sure that no thread executes or returns to a range. False: one does.
    fn leave(&mut self, pid: Pid, range: std::ops::Range<u64>) -> bool {
        let mut threads = self.threads.values_mut().filter(|thread| thread.pid == pid);
        if threads.any(|thread| range.contains(&thread.pc)) {
            return false;
        }
        let threads = self.threads.values_mut().filter(|thread| thread.pid == pid);
        threads.for_each(|thread| thread.calls.retain(|address| !range.contains(address)));
        true
    }

    fn fork(&mut self, parent: Pid) {
        if self.processes.len() > 6 || self.processes[&parent].is_jit {
            return;
        }
        let (child, asid) = (self.new_id(), self.new_asid());
        let copy = Process { pid: child, asid, is_second: false, ..self.processes[&parent].clone() };
        let of_parent = self.threads.values().find(|thread| thread.pid == parent).unwrap().clone();
        self.processes.insert(child, copy);
        self.threads.insert(child, Thread { tid: child, pid: child, ..of_parent });
        self.happens(Call::Fork { parent, child }, true, false);
        self.declare_asid(State::Start, asid, child);
        self.seen.insert("fork");
    }

    /// Another program in the same process, with one thread.
    fn exec(&mut self, pid: Pid) {
        let process = &self.processes[&pid];
        if process.is_second || process.is_jit {
            return;
        }
        self.end_other_threads(pid);
        let mapped = self.processes[&pid].mapped.clone();
        mapped.iter().rev().for_each(|mapped| self.happens(self.mapped_call(State::End, pid, mapped), false, true));
        let image = FIRST_PROGRAM + self.random.below(PROGRAMS as u64) as usize;
        let program = Mapped { image, base: PROGRAM, is_program: true };
        let process = self.processes.get_mut(&pid).unwrap();
        process.memory = loaded(&self.images[image], PROGRAM).collect();
        process.mapped = vec![program.clone()];
        process.is_second = true;
        self.happens(Call::Exec { pid }, true, false);
        self.happens(self.mapped_call(State::Start, pid, &program), true, false);
        let pc = self.any_function(pid);
        self.threads.insert(pid, Thread { tid: pid, pid, pc, calls: Vec::new() });
        self.seen.insert("exec");
    }

    fn exit(&mut self, pid: Pid) {
        let process = &self.processes[&pid];
        if process.is_second || process.is_jit || self.processes.len() < 4 {
            return;
        }
        self.end_other_threads(pid);
        let process = self.processes.remove(&pid).unwrap();
        self.threads.remove(&pid);
        let mapped = process.mapped.iter().rev();
        mapped.for_each(|mapped| self.happens(self.mapped_call(State::End, pid, mapped), true, true));
        self.declare_asid(State::End, process.asid, pid);
        self.free_asids.push(process.asid);
        self.free_pids.push(pid);
        self.seen.insert("exit");
    }

    fn end_other_threads(&mut self, pid: Pid) {
        let others: Vec<u32> =
            self.threads.values().filter(|thread| thread.pid == pid).map(|thread| thread.tid).collect();
        for tid in others.into_iter().filter(|tid| *tid != pid) {
            self.threads.remove(&tid);
            self.happens(Call::Thread { state: State::End, tid, pid }, true, true);
        }
    }

    fn start_thread(&mut self, pid: Pid) {
        let tid = self.new_id();
        let pc = self.any_function(pid);
        self.happens(Call::Thread { state: State::Start, tid, pid }, true, false);
        self.threads.insert(tid, Thread { tid, pid, pc, calls: Vec::new() });
        self.seen.insert("thread");
    }

    fn end_thread(&mut self, pid: Pid) {
        let other =
            self.threads.values().find(|thread| thread.pid == pid && thread.tid != pid).map(|thread| thread.tid);
        if let Some(tid) = other {
            self.threads.remove(&tid);
            self.happens(Call::Thread { state: State::End, tid, pid }, true, true);
        }
    }

    /// The address space identifiers of two processes that no core executes are exchanged.
    fn swap_asids(&mut self, one: Pid) {
        let Some(other) = self.idle_process().filter(|other| *other != one) else { return };
        let [a, b] = [one, other].map(|pid| self.processes[&pid].asid);
        self.declare_asid(State::End, a, one);
        self.declare_asid(State::End, b, other);
        self.processes.get_mut(&one).unwrap().asid = b;
        self.processes.get_mut(&other).unwrap().asid = a;
        self.declare_asid(State::Start, b, one);
        self.declare_asid(State::Start, a, other);
        self.seen.insert("asid swap");
    }

    /// Code is added to the memory of a process while it executes other code: in one window, on both sides.
    fn inline_event(&mut self, pid: Pid) {
        let process = &self.processes[&pid];
        let next = JIT + process.jit.len() as u64 * JIT_FUNCTION;
        match process.is_jit && process.jit.len() < 8 {
            true => self.write_jit(pid, next),
            false if self.log.len() < 40 => self.open_library(pid),
            false => {}
        }
    }

    /// The JIT compiler writes a function, perhaps over another one.
    fn write_jit(&mut self, pid: Pid, address: u64) {
        let version = self.log.len() as u32;
        let mut words: Vec<u32> =
            (0..1 + self.random.below(5) as u32).map(|at| mark(0xf000 | version << 3 | at)).collect();
        let to_start = branch(0x5400_0001, -(words.len() as i64));
        let last = self.random.pick(&[RET, JUMP, CALL_REGISTER]);
        words.extend([to_start, last, RET]);
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let process = self.processes.get_mut(&pid).unwrap();
        if !process.jit.contains(&address) {
            process.jit.push(address);
        }
        (address..).step_by(4).zip(&words).for_each(|(address, word)| _ = process.memory.insert(address, *word));
        let length = code.len() as u64;
        self.happens(
            Call::Patch { pid, address, length, code: PatchCode::Bytes(code), name: String::new() },
            true,
            true,
        );
        self.seen.insert("jit");
    }

    fn rewrite_jit(&mut self) {
        let idle: BTreeSet<Pid> = self.cores.iter().filter_map(|core| core.in_window).collect();
        let found = self.processes.values().find(|process| process.is_jit && !idle.contains(&process.pid));
        let Some((pid, all)) = found.map(|process| (process.pid, process.jit.clone())) else { return };
        let address = self.random.pick(&all);
        if self.leave(pid, address..address + JIT_FUNCTION) {
            self.write_jit(pid, address);
            self.seen.insert("rewrite");
        }
    }

    /// Replaces a function of the kernel, if no core has executed it since its last timestamp.
    fn patch_kernel(&mut self) {
        if self.cores.iter().any(|core| core.worked || matches!(core.kernel, Some((_, Service::Work)))) {
            return;
        }
        self.kernel_patches += 1;
        let first = mark(0xe000 | self.kernel_patches);
        let words = if self.random.flip() { [first, RET, RET] } else { [first, first + (8 << 5), RET] };
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        (PATCHED..).step_by(4).zip(words).for_each(|(address, word)| _ = self.kernel.insert(address, word));
        self.happens(
            Call::Patch {
                pid: KERNEL,
                address: PATCHED,
                length: 12,
                code: PatchCode::Bytes(code),
                name: String::new(),
            },
            true,
            true,
        );
        self.seen.insert("kernel patch");
    }
}

fn loaded(image: &Image, base: u64) -> impl Iterator<Item = (u64, u32)> + use<> {
    (base + CODE..).step_by(4).zip(image.words.clone())
}

/// A signed number of words in the low bits, as bytes.
fn offset_of(value: u32, bits: u32) -> i64 {
    i64::from((value << (32 - bits)).cast_signed() >> (32 - bits)) << 2
}

fn is_asid(call: &Call, asid: u32) -> bool {
    matches!(call, Call::Asid { asid: other, .. } if *other == asid)
}
