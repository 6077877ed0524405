//! What happens on the generated machine besides execution: processes, libraries, threads, patches, and their log.

use std::collections::{BTreeMap, BTreeSet};

use unspool::capture::{Call, KERNEL, Mapping, PatchCode, Pid, Placement, State, SystemEvent};

use super::super::image::{CALL_REGISTER, JUMP, RET, branch, mark};
use super::*;

impl Machine {
    pub(super) fn note(&mut self, time: Option<u64>, call: Call, forward: bool, backward: bool) {
        let event = SystemEvent { time, place: 0, call };
        self.log.push(Logged { event, forward, backward });
    }

    /// Something happens now, later than all before it and earlier than all after it.
    pub(super) fn happens(&mut self, call: Call, forward: bool, backward: bool) {
        self.now += 1 + self.random.below(3);
        self.note(Some(self.now), call, forward, backward);
        self.now += 1;
    }

    pub(super) fn mapped_call(&self, state: State, pid: Pid, mapped: &Mapped) -> Call {
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
    pub(super) fn event(&mut self) {
        let Some(pid) = self.idle_process().filter(|_| self.log.len() < EVENTS) else { return };
        match self.random.below(12) {
            0 | 1 => self.open_library(pid),
            2 | 3 if !self.processes[&pid].is_second => self.close_library(pid),
            4 => self.fork(pid),
            5 => self.exec(pid),
            6 => self.exit(pid),
            7 if self.processes.len() < 8 => {
                let program = self.random.below(PROGRAMS as u64) as usize;
                self.start(program, false);
            }
            8 => self.start_thread(pid),
            9 => self.end_thread(pid),
            10 => self.rewrite_jit(),
            11 if self.random.flip() => self.patch_kernel(),
            11 => self.swap_asids(pid),
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

    fn reuse(&self, name: &'static str, early: &'static str) -> &'static str {
        if self.log.len() < EVENTS / 3 - 10 { early } else { name }
    }

    fn new_asid(&mut self) -> u32 {
        let asid = self.free_asids.pop().unwrap();
        let is_reused = self.log.iter().any(|logged| is_asid(&logged.event.call, asid));
        self.seen.insert(if is_reused { self.reuse("asid reuse", "asid reuse in the first third") } else { "asid" });
        asid
    }

    fn declare_asid(&mut self, state: State, asid: u32, pid: Pid) {
        self.happens(Call::Asid { state, asid, pid }, true, state == State::End);
    }

    /// Starts a process with a program and two libraries.
    pub(super) fn start(&mut self, program: usize, is_jit: bool) {
        let reused = self.free_pids.pop();
        let pid = reused.unwrap_or_else(|| self.new_id());
        let is_reused = reused.is_some();
        self.seen.insert(if is_reused { self.reuse("pid reuse", "pid reuse in the first third") } else { "start" });
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
        if self.processes.len() > 6 {
            return;
        }
        // What a JIT compiler wrote is in no file: only the fork shows that its child has it too.
        let is_jit = self.processes[&parent].is_jit;
        let (child, asid) = (self.new_id(), self.new_asid());
        let copy = Process { pid: child, asid, is_second: false, ..self.processes[&parent].clone() };
        let of_parent = self.threads.values().find(|thread| thread.pid == parent).unwrap().clone();
        self.processes.insert(child, copy);
        self.threads.insert(child, Thread { tid: child, pid: child, ..of_parent });
        self.happens(Call::Fork { parent, child }, true, is_jit);
        self.declare_asid(State::Start, asid, child);
        self.seen.insert(if is_jit { "jit fork" } else { "fork" });
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
    pub(super) fn inline_event(&mut self, pid: Pid) {
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
        let busy: BTreeSet<Pid> = self.cores.iter().filter_map(|core| core.in_window).collect();
        let idle = self.processes.values().filter(|process| process.is_jit && !busy.contains(&process.pid));
        let idle: Vec<Pid> = idle.map(|process| process.pid).collect();
        if idle.is_empty() {
            return;
        }
        let pid = self.random.pick(&idle);
        let all = self.processes[&pid].jit.clone();
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

fn is_asid(call: &Call, asid: u32) -> bool {
    matches!(call, Call::Asid { asid: other, .. } if *other == asid)
}
