//! A small machine: processes, threads, a kernel, and cores that execute them, each with a trace unit.
//!
//! seed ─▶ **simulator** ─▶ executed instructions and trace of each core, events
//!
//! It knows what is in memory by itself, one word per address, and nothing of timelines or maps. Events that replace code
//! happen where no core executes the process between two timestamps, so that all of the trace can be decoded; others happen
//! at any time.

mod events;
mod execution;

use std::collections::{BTreeMap, BTreeSet};

use unspool::capture::{Call, ContextFormat, KERNEL, Pid, State, SystemEvent};
use unspool::coresight::etm4::unit::{Settings, Unit};
use unspool::coresight::{SubIsa, Target};
use unspool_testing::Random;

use super::image::{BARRIER, CODE, EXCEPTION_RETURN, Image, JUMP, RET};

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

/// How the trace or the log shows which process executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContextId {
    Tid,
    AsidTid,
    AsidPid,
    Asid,
    Pid,
    /// Thread identifiers in CONTEXTIDR_EL2, which the trace has as a virtual context identifier.
    TidOfEl2,
    /// The trace does not, but the log has the switches of each core.
    Switches,
}

impl ContextId {
    pub(crate) const ALL: [Self; 7] =
        [Self::Tid, Self::AsidTid, Self::AsidPid, Self::Asid, Self::Pid, Self::TidOfEl2, Self::Switches];

    pub(crate) fn format(self) -> Option<ContextFormat> {
        match self {
            Self::Tid | Self::TidOfEl2 => Some(ContextFormat::Tid),
            Self::AsidTid => Some(ContextFormat::AsidTid),
            Self::AsidPid => Some(ContextFormat::AsidPid),
            Self::Asid => Some(ContextFormat::Asid),
            Self::Pid => Some(ContextFormat::Pid),
            Self::Switches => None,
        }
    }
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
    /// The bits of a context identifier that the trace has.
    mask: u32,
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
    pub(crate) fn new(seed: u64, cores: usize, context_id: ContextId, bits: u32, settings: &Settings) -> Self {
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
            mask: u32::MAX >> (32 - bits),
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
}

fn loaded(image: &Image, base: u64) -> impl Iterator<Item = (u64, u32)> + use<> {
    (base + CODE..).step_by(4).zip(image.words.clone())
}
