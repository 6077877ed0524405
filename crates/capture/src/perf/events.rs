//! System events from the records of the kernel.
//!
//! record with trailer ─▶ **events** ─▶ [`SystemEvent`]s in the order of the file
//!
//! Only mappings of code are events. The end of a process is the end of its threads: its code stays, because trace of it
//! may follow. Does not know trace, nor images.

use std::collections::HashMap;

use super::attr::Trailer;
use super::bpf::BpfFunction;
use super::feature::{BuildId, Features, digits};
use super::record::{Body, Mmap, Mode, Record, Task};
use crate::event::{Call, KERNEL, Mapping, PatchCode, Pid, Placement, State, SystemEvent};

/// Maximum number of events.
const LIMIT: usize = 8 << 20;

/// A process number that stands for none, or for the kernel in a mapping.
const NONE: u32 = u32::MAX;

/// Collects events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    list: Vec<SystemEvent>,
    /// The thread that each CPU executes. Records of one CPU are in order.
    running: HashMap<u32, Pid>,
}

/// Where and when a record was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) place: u64,
    pub(crate) trailer: Trailer,
}

impl At {
    /// The time, unless the record was synthesized.
    pub(crate) fn time(&self) -> Option<u64> {
        self.trailer.time.filter(|time| !matches!(*time, 0 | u64::MAX))
    }
}

impl Events {
    /// Adds the events of a record.
    ///
    /// # Errors
    ///
    /// A message if the record is not an event, although one of its type is.
    pub(crate) fn add(&mut self, record: &Record<'_>, body: &Body<'_>, at: At) -> Result<(), &'static str> {
        match body {
            Body::Mmap(mmap) => self.mapping(record.mode(), mmap, at)?,
            Body::Comm { pid, tid, is_exec } => {
                self.thread(at, State::Current, *tid, *pid);
                if *is_exec {
                    self.push(at, Call::Exec { pid: *pid });
                }
            }
            Body::Fork { task, existed } => self.fork(at, *task, *existed),
            Body::Exit(task) => {
                let at = task.at(at);
                self.thread(at, State::End, task.tid, task.pid);
            }
            Body::ItraceStart { pid, tid } => {
                self.thread(at, State::Current, *tid, *pid);
                self.switch(at, *tid);
            }
            Body::Switch { is_out: true } => {
                self.current_thread(at);
                if let Some(cpu) = at.trailer.cpu {
                    self.running.remove(&cpu);
                }
            }
            Body::Switch { is_out: false } => self.switch_in(at),
            Body::SwitchCpuWide { is_out, pid, tid } => {
                self.thread(at, State::Current, *tid, *pid);
                if *is_out {
                    self.current_thread(at);
                    self.switch(at, *tid);
                } else {
                    self.switch_in(at);
                }
            }
            Body::TextPoke { address, old, new } if record.mode() != Mode::Guest => match new {
                // A trampoline is gone.
                [] => self.patch(at, *address, u64::from(*old), PatchCode::Absent, String::new()),
                new => self.patch(at, *address, new.len() as u64, PatchCode::Bytes(new.to_vec()), String::new()),
            },
            Body::Ksymbol { address, length, is_removed, name } => {
                let name = if *is_removed { String::new() } else { name.clone() };
                self.patch(at, *address, u64::from(*length), PatchCode::Absent, name);
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= LIMIT
    }

    /// The events, with the build IDs that are known by the names of files, and the code of BPF programs.
    pub(crate) fn finish(mut self, features: &Features) -> Vec<SystemEvent> {
        self.add_build_ids(&features.build_ids);
        self.add_bpf_code(&features.bpf);
        self.list
    }

    fn add_build_ids(&mut self, build_ids: &[BuildId]) {
        let by_name: HashMap<&str, &str> = build_ids.iter().map(|it| (it.file.as_str(), it.id.as_str())).collect();
        for event in &mut self.list {
            if let Call::Library { mapping, .. } = &mut event.call
                && mapping.build_id.is_empty()
                && let Some(id) = by_name.get(file_name(&mapping.image))
            {
                mapping.build_id = (*id).to_string();
            }
        }
    }

    /// Adds the code of functions at addresses that only one function had.
    fn add_bpf_code(&mut self, functions: &[BpfFunction]) {
        let mut by_address: HashMap<u64, Option<&[u8]>> = HashMap::new();
        for function in functions {
            let code = by_address.entry(function.address).or_insert(Some(&function.code));
            *code = code.filter(|code| *code == function.code);
        }
        let mut names: HashMap<u64, Option<String>> = HashMap::new();
        for (address, _, _, name) in self.list.iter_mut().filter_map(named_function) {
            if by_address.contains_key(&address) {
                let known = names.entry(address).or_insert_with(|| Some(name.clone()));
                *known = known.take().filter(|known| known == name);
            }
        }
        for (address, length, code, _) in self.list.iter_mut().filter_map(named_function) {
            let is_one = names.get(&address).is_some_and(Option::is_some);
            let known = by_address.get(&address).copied().flatten();
            if let Some(known) = known.filter(|known| is_one && known.len() as u64 == length) {
                *code = PatchCode::Bytes(known.to_vec());
            }
        }
    }

    fn push(&mut self, at: At, call: Call) {
        if !self.is_full() {
            self.list.push(SystemEvent { time: at.time(), place: at.place, call });
        }
    }

    /// Code of the kernel that changes.
    fn patch(&mut self, at: At, address: u64, length: u64, code: PatchCode, name: String) {
        if length > 0 {
            self.push(at, Call::Patch { pid: KERNEL, address, length, code, name });
        }
    }

    fn thread(&mut self, at: At, state: State, tid: u32, pid: u32) {
        if tid != NONE && pid != NONE {
            self.push(at, Call::Thread { state, tid, pid });
        }
    }

    /// The thread that ran when the record was written.
    fn current_thread(&mut self, at: At) {
        if let (Some(tid), Some(pid)) = (at.trailer.tid, at.trailer.pid) {
            self.thread(at, State::Current, tid, pid);
        }
    }

    fn switch_in(&mut self, at: At) {
        self.current_thread(at);
        if let Some(tid) = at.trailer.tid {
            self.switch(at, tid);
        }
    }

    fn switch(&mut self, at: At, tid: u32) {
        let Some(core) = at.trailer.cpu.filter(|cpu| *cpu != NONE && tid != NONE) else { return };
        if self.running.insert(core, tid) != Some(tid) {
            self.push(at, Call::Switch { core, tid });
        }
    }

    fn fork(&mut self, at: At, task: Task, existed: bool) {
        let at = task.at(at);
        if existed || at.time().is_none() {
            return self.thread(at, State::Current, task.tid, task.pid);
        }
        if task.pid != task.parent {
            self.push(at, Call::Fork { parent: task.parent, child: task.pid });
        }
        self.thread(at, State::Start, task.tid, task.pid);
    }

    fn mapping(&mut self, mode: Mode, mmap: &Mmap<'_>, at: At) -> Result<(), &'static str> {
        if !mmap.is_executable {
            return Ok(());
        }
        if mode == Mode::Guest {
            return Err("a mapping of a guest is ignored");
        }
        let is_kernel = mmap.pid == NONE || mode == Mode::Kernel;
        let placement = if is_kernel { kernel_placement(mmap) } else { Ok(part(mmap)) }?;
        let build_id = mmap.build_id.map(|(id, size)| digits(id, Some(size))).unwrap_or_default();
        let mapping = Mapping { image: mmap.name.clone(), build_id, placement };
        let state = if at.time().is_some() { State::Start } else { State::Current };
        self.push(at, Call::Library { state, pid: if is_kernel { KERNEL } else { mmap.pid }, mapping });
        Ok(())
    }
}

impl Task {
    /// The time in the record itself, where the trailer has none.
    fn at(self, at: At) -> At {
        let time = at.trailer.time.or(Some(self.time));
        At { trailer: Trailer { time, ..at.trailer }, ..at }
    }
}

/// Address, length, code and name of a function that the kernel made.
fn named_function(event: &mut SystemEvent) -> Option<(u64, u64, &mut PatchCode, &String)> {
    match &mut event.call {
        Call::Patch { address, length, code, name, .. } if !name.is_empty() => Some((*address, *length, code, name)),
        _ => None,
    }
}

fn part(mmap: &Mmap<'_>) -> Placement {
    Placement::Part { address: mmap.address, length: mmap.length, offset: mmap.offset }
}

/// The kernel itself has the address of the symbol that its name ends in; a module has the address of its text.
fn kernel_placement(mmap: &Mmap<'_>) -> Result<Placement, &'static str> {
    let is_kernel = mmap.name.starts_with("[kernel");
    match (mmap.offset, mmap.address) {
        (0, 0) if is_kernel => Err("the address of the kernel is hidden"),
        (0, address) => Ok(Placement::Base(address)),
        (symbol, _) if is_kernel => Ok(Placement::Base(symbol)),
        _ => Ok(part(mmap)),
    }
}

/// The name under which the build ID of a file is listed: `[kernel.kallsyms]_text` is `[kernel.kallsyms]` there.
fn file_name(image: &str) -> &str {
    match image.split_once(']') {
        Some((name, _)) if image.starts_with("[kernel") => image.get(..=name.len()).unwrap_or(image),
        _ => image,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::bytes::ByteOrder;
    use super::*;

    fn at(time: u64, cpu: u32, tid: u32) -> At {
        let (pid, tid, time, cpu) = (Some(4), Some(tid), Some(time), Some(cpu));
        At { place: 0, trailer: Trailer { pid, tid, time, id: None, cpu } }
    }

    fn add(events: &mut Events, misc: u16, body: &Body<'_>, at: At) -> Result<(), &'static str> {
        events.add(&Record { kind: 0, misc, bytes: &[], order: ByteOrder::Little }, body, at)
    }

    fn calls(events: Events) -> Vec<Call> {
        events.finish(&Features::default()).into_iter().map(|event| event.call).collect()
    }

    fn one(misc: u16, body: &Body<'_>, at: At) -> Vec<Call> {
        let mut events = Events::default();
        add(&mut events, misc, body, at).unwrap();
        calls(events)
    }

    #[test]
    fn mappings() {
        let user = Mmap {
            pid: 4,
            address: 0x1000,
            length: 0x200,
            offset: 0x3000,
            is_executable: true,
            build_id: None,
            name: "/bin/ls".to_string(),
        };
        let with = |name: &str, address, offset| {
            let name = name.to_string();
            Body::Mmap(Mmap { pid: u32::MAX, address, offset, name, ..user.clone() })
        };
        let placed = |body: &Body<'_>| match &one(1, body, at(0, 0, 0))[..] {
            [Call::Library { state: State::Current, pid: KERNEL, mapping }] => mapping.placement,
            other => panic!("{other:?}"),
        };
        let rows = [
            (with("[kernel.kallsyms]_text", 0xffff_8000_0000_0000, 0xffff_8000_0800_0000), 0xffff_8000_0800_0000),
            (with("[kernel.kallsyms]_stext", 0xffff_8000_0801_0000, 0), 0xffff_8000_0801_0000),
            (with("/lib/modules/rq_stats.ko", 0xffff_8000_0123_0000, 0), 0xffff_8000_0123_0000),
            (with("[rq_stats]", 0xffff_8000_0123_0000, 0), 0xffff_8000_0123_0000),
        ];
        for (body, base) in &rows {
            assert_eq!(placed(body), Placement::Base(*base), "{body:?}");
        }
        let hidden = with("[kernel.kallsyms]_text", 0, 0);
        assert!(add(&mut Events::default(), 1, &hidden, at(0, 0, 0)).is_err());
        let part = Placement::Part { address: 0x1000, length: 0x200, offset: 0x3000 };
        let mapping = Mapping { image: "/bin/ls".to_string(), build_id: String::new(), placement: part };
        let library = |state, mapping| vec![Call::Library { state, pid: 4, mapping }];
        assert_eq!(one(2, &Body::Mmap(user.clone()), at(9, 0, 0)), library(State::Start, mapping.clone()));
        assert_eq!(one(2, &Body::Mmap(user.clone()), at(0, 0, 0)), library(State::Current, mapping.clone()));
        let identified = Mmap { build_id: Some((&[0xab; 20], 4)), ..user.clone() };
        let with_id = Mapping { build_id: "abababab".to_string(), ..mapping };
        assert_eq!(one(2, &Body::Mmap(identified), at(9, 0, 0)), library(State::Start, with_id));
        assert_eq!(one(2, &Body::Mmap(Mmap { is_executable: false, ..user.clone() }), at(9, 0, 0)), []);
        assert!(add(&mut Events::default(), 5, &Body::Mmap(user), at(9, 0, 0)).is_err(), "a guest");
    }

    #[test]
    fn tasks() {
        let task = |pid, parent, tid| Task { pid, parent, tid, time: 9 };
        let thread = |state, tid, pid| Call::Thread { state, tid, pid };
        let fork = |task, existed| Body::Fork { task, existed };
        let untimed = At { place: 0, trailer: Trailer::default() };
        let rows: &[(Body<'_>, At, &[Call])] = &[
            (fork(task(4, 4, 5), false), at(9, 0, 4), &[thread(State::Start, 5, 4)]),
            (
                fork(task(5, 4, 5), false),
                at(9, 0, 4),
                &[Call::Fork { parent: 4, child: 5 }, thread(State::Start, 5, 5)],
            ),
            (fork(task(5, 4, 5), true), at(9, 0, 4), &[thread(State::Current, 5, 5)]),
            (fork(task(5, 4, 5), false), at(0, 0, 4), &[thread(State::Current, 5, 5)]),
            (fork(task(4, 4, 5), false), untimed, &[thread(State::Start, 5, 4)]),
            (Body::Exit(task(4, 1, 5)), at(9, 0, 5), &[thread(State::End, 5, 4)]),
            (
                Body::Comm { pid: 4, tid: 4, is_exec: true },
                at(9, 0, 4),
                &[thread(State::Current, 4, 4), Call::Exec { pid: 4 }],
            ),
            (Body::Comm { pid: 4, tid: 5, is_exec: false }, at(9, 0, 4), &[thread(State::Current, 5, 4)]),
        ];
        for (body, at, expected) in rows {
            assert_eq!(one(0, body, *at), *expected, "{body:?}");
        }
    }

    #[test]
    fn switches_are_changes() {
        let mut events = Events::default();
        let steps = [
            (Body::ItraceStart { pid: 4, tid: 4 }, 1, 4),
            (Body::Switch { is_out: false }, 1, 4),
            (Body::SwitchCpuWide { is_out: true, pid: 8, tid: 9 }, 1, 4),
            (Body::SwitchCpuWide { is_out: false, pid: 4, tid: 4 }, 1, 9),
            (Body::Switch { is_out: true }, 1, 9),
            (Body::Switch { is_out: false }, 1, 9),
            (Body::Switch { is_out: false }, 2, 9),
        ];
        for (body, cpu, tid) in &steps {
            add(&mut events, 0, body, at(9, *cpu, *tid)).unwrap();
        }
        let switches = calls(events).into_iter().filter(|call| matches!(call, Call::Switch { .. }));
        let expected = [(1, 4), (1, 9), (1, 9), (2, 9)].map(|(core, tid)| Call::Switch { core, tid });
        assert_eq!(switches.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn functions_that_the_kernel_makes() {
        let register = |address, name: &str| Body::Ksymbol { address, length: 4, is_removed: false, name: name.into() };
        let mut events = Events::default();
        for body in [register(0x1000, "a"), register(0x2000, "b"), register(0x2000, "c"), register(0x3000, "d")] {
            add(&mut events, 0, &body, at(9, 0, 0)).unwrap();
        }
        let function = |address, byte| BpfFunction { address, code: vec![byte; 4] };
        let bpf = vec![function(0x1000, 1), function(0x2000, 2), function(0x3000, 3), function(0x3000, 4)];
        let events = events.finish(&Features { bpf, ..Features::default() });
        let found: Vec<String> = events.iter().map(|event| event.call.to_string()).collect();
        // Two functions were at 0x2000, and two programs have code for 0x3000.
        let expected = [
            "patch_code(0, 0x1000, 4, hex\"01010101\", \"a\")",
            "patch_code(0, 0x2000, 4, None, \"b\")",
            "patch_code(0, 0x2000, 4, None, \"c\")",
            "patch_code(0, 0x3000, 4, None, \"d\")",
        ];
        assert_eq!(found, expected);
        let gone = Body::TextPoke { address: 0x1000, old: 8, new: &[] };
        assert_eq!(one(1, &gone, at(9, 0, 0))[0].to_string(), "patch_code(0, 0x1000, 8, None)");
        assert_eq!(one(4, &gone, at(9, 0, 0)), [], "of a guest");
    }

    #[test]
    fn build_ids_by_name() {
        for (image, listed) in [("[kernel.kallsyms]_text", "[kernel.kallsyms]"), ("[vdso]", "[vdso]"), ("/a]b", "/a]b")]
        {
            assert_eq!(file_name(image), listed);
        }
    }
}
