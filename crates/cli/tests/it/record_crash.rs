//! `record`: programs that crash, emulators that are killed, disks that are full, and files that exist.
//!
//! The number of instructions is known from the source (`programs/crash.S`), and is the same for all targets: 4 before a loop of
//! 100,000 × 5, a call, and 3 before the end.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use unspool_testing::skip;

use crate::programs::{Target, assert_clean, built, built_assembly, interrupted_alone, plugin, unspool};
use crate::run::{Folder, Run, UNSPOOL, send_signal, text, text_of, wait, with_signals};

/// Instructions up to the end.
const UP_TO_END: u64 = 4 + 500_000 + 1 + 3;

/// The targets, with the formats that can hold their instructions.
const TARGETS: [(Target, &[&str]); 3] = [
    (Target::A64, &["out.astf", "out.stf", "out.tarmac"]),
    (Target::A32, &["out.tarmac"]),
    (Target::Riscv64, &["out.stf", "out.zstf"]),
];

/// Ways to end, as in `crash.S`.
#[derive(Debug, Clone, Copy)]
enum End {
    Store = 1,
    Undefined = 2,
    Abort = 3,
    Wait = 4,
    Loop = 5,
}

fn crash(folder: &Folder, end: End, target: Target) -> Option<PathBuf> {
    built_assembly(folder.root(), "crash", target, &format!("-DEND={}", end as u8))
}

fn arguments<'a>(out: &'a Path, program: &'a Path) -> Vec<&'a str> {
    vec!["record", "--plugin", text(plugin()), "-o", text(out), "--", text(program)]
}

/// The number of instructions in a trace. None of a recording has faulted.
fn instructions(trace: &Path) -> u64 {
    let counted = unspool(&["stats", text(trace), "--json"]).expect(0, &[]);
    let total: Vec<u64> = counted.json().iter().filter_map(|line| line["instructions"].as_u64()).collect();
    *total.first().unwrap()
}

/// Asserts the number of instructions, and that the trace has a text.
#[track_caller]
fn assert_trace(trace: &Path, count: u64, note: &str) {
    assert_clean(trace);
    assert_eq!(instructions(trace), count, "{}", trace.display());
    let dumped = unspool(&["dump", text(trace)]).expect(0, &[]).out;
    let last: Vec<&str> = dumped.lines().rev().take(20).collect();
    assert!(last.iter().any(|line| line.contains(note)), "no {note:?} at the end of {}: {last:#?}", trace.display());
}

/// The address of a symbol plus some bytes.
fn address_after(program: &Path, symbol: &str, bytes: u64) -> u64 {
    let listing = Command::new("nm").arg(program).output().unwrap();
    let names = String::from_utf8(listing.stdout).unwrap();
    let line = names.lines().find(|line| line.ends_with(&format!(" {symbol}"))).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap() + bytes
}

#[test]
fn programs_that_crash_are_recorded_up_to_the_instruction_that_failed() {
    for (target, names) in TARGETS {
        for (end, signal, name) in [(End::Store, 11, "SIGSEGV"), (End::Undefined, 4, "SIGILL")] {
            for out in names {
                let folder = Folder::new();
                let Some(program) = crash(&folder, end, target) else { return };
                let out = folder.path(out);
                let run = unspool(&arguments(&out, &program));
                run.expect(128 + signal, &[&format!("the program was killed by {name}"), " instructions"]);
                // Three instructions of four bytes are complete.
                let fault = address_after(&program, "crash", 12);
                assert_trace(
                    &out,
                    UP_TO_END,
                    &format!("signal {signal} ({name}) at {fault:#x}: the program was killed"),
                );
                folder.assert_no_partial_file();
            }
        }
    }
}

#[test]
fn programs_that_abort_are_recorded_up_to_the_call() {
    for (target, names) in TARGETS {
        for out in names {
            let folder = Folder::new();
            let Some(program) = crash(&folder, End::Abort, target) else { return };
            let out = folder.path(out);
            unspool(&arguments(&out, &program)).expect(128 + 6, &["the program was killed by SIGABRT"]);
            assert_trace(&out, UP_TO_END + 5, "signal 6 (SIGABRT): the program was killed");
        }
    }
}

/// A recording that runs, and its emulator.
struct Running {
    child: Child,
    emulator: u32,
}

impl Running {
    /// Starts a recording; the program has printed something when it returns.
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(UNSPOOL);
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        let emulator = children.split_whitespace().next().unwrap().parse().unwrap();
        Self { child, emulator }
    }

    fn kill_emulator(mut self) -> Run {
        send_signal("-KILL", self.emulator as i32);
        let (code, peak) = wait(&mut self.child);
        Run { code, out: String::new(), err: text_of(self.child.stderr.take().unwrap()), peak }
    }
}

#[test]
fn an_emulator_that_is_killed_leaves_all_that_was_executed() {
    for (target, names) in TARGETS {
        for out in names {
            let folder = Folder::new();
            let Some(program) = crash(&folder, End::Wait, target) else { return };
            let out = folder.path(out);
            let running = Running::start(&arguments(&out, &program));
            // It calls the kernel to wait, and executes nothing after that.
            wait_until_sleeping(running.emulator);
            running.kill_emulator().expect(128 + 9, &["the program was killed by SIGKILL"]);
            assert_trace(&out, UP_TO_END + 9, "signal 9 (SIGKILL): the program was killed here or later");
            folder.assert_no_partial_file();
        }
    }
}

fn wait_until_sleeping(process: u32) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(300));
        let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        if state.rsplit(')').next().unwrap().trim_start().starts_with('S') {
            return;
        }
    }
}

/// The program counts in memory that survives it.
#[test]
fn an_emulator_that_is_killed_anywhere_leaves_all_but_the_last_instructions() {
    let folder = Folder::new();
    let Some(program) = built(folder.root(), "counter", Target::A64) else { return };
    let (out, number) = (folder.path("out.astf"), folder.file("number", [0; 4096]));
    let args = [&["record", "--plugin", text(plugin()), "--from", "count", "-o"], &[text(&out), "--"][..]].concat();
    let running = Running::start(&[&args[..], &[text(&program), text(&number)]].concat());
    thread::sleep(Duration::from_millis(700));
    running.kill_emulator().expect(128 + 9, &[]);
    let counted = u64::from(u32::from_le_bytes(fs::read(number).unwrap()[..4].try_into().unwrap()));
    assert_clean(&out);
    let stats = unspool(&["stats", text(&out)]).expect(0, &[]).out;
    let writes = stats.split_once("bytes, ").and_then(|(_, rest)| rest.split_once(" writes")).unwrap().0;
    let writes: u64 = writes.replace(',', "").parse().unwrap();
    // The emulator may have been killed between a store and its record.
    assert!(counted > 1000 && (writes == counted || writes + 1 == counted), "{writes} of {counted}");
}

#[test]
fn a_full_disk_leaves_a_trace_up_to_there() {
    let rows: [(Target, &[&str]); 3] = [
        (Target::A64, &["out.astf.raw", "out.tarmac"]),
        (Target::A32, &["out.tarmac"]),
        (Target::Riscv64, &["out.stf"]),
    ];
    for (target, names) in rows {
        for name in names {
            let folder = Folder::new();
            let Some(program) = crash(&folder, End::Loop, target) else { return };
            let Some(disk) = SmallDisk::new(&folder) else { return };
            let out = disk.0.join(name);
            let run = unspool(&arguments(&out, &program));
            let message = format!("error: {}: the disk is full", out.display());
            let run = run.expect(2, &[&message]);
            let written = instructions(&out);
            assert_clean(&out);
            assert!(written > 10_000 && run.err.contains(" instructions"), "{name}: {written} {run:?}");
            let names: Vec<_> = fs::read_dir(&disk.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, [*name], "only the trace is left");
        }
    }
}

/// A file system in memory that is soon full.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(folder: &Folder) -> Option<Self> {
        let path = folder.path("disk");
        fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&path).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            skip("a file system cannot be mounted (needs root)");
            return None;
        }
        Some(Self(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn files_are_replaced_only_by_force() {
    let folder = Folder::new();
    let Some(program) = crash(&folder, End::Store, Target::A64) else { return };
    let out = folder.path("out.astf");
    for (name, expected) in
        [("out.astf", "out.astf exists; use --force"), ("out.3.astf", "out.3.astf exists, and may be")]
    {
        let existing = folder.file(name, "precious");
        let run = unspool(&arguments(&out, &program)).expect(2, &[expected]);
        assert!(!run.err.contains("killed"), "the program did not run: {}", run.err);
        assert_eq!(fs::read(&existing).unwrap(), b"precious");
        fs::remove_file(existing).unwrap();
    }
    folder.file("out.astf", "old");
    let forced = [&["record", "--force", "--limit", "10"], &arguments(&out, &program)[1..]].concat();
    unspool(&forced).expect(128 + 11, &["out.astf: 10 instructions"]);
    assert_clean(&out);
}

#[test]
fn an_interrupt_of_unspool_alone_ends_the_program() {
    let folder = Folder::new();
    let Some(program) = crash(&folder, End::Loop, Target::A64) else { return };
    let out = folder.path("out.astf");
    interrupted_alone(&arguments(&out, &program)).expect(128 + 2, &["the program was killed by SIGINT"]);
    assert_clean(&out);
    assert!(instructions(&out) > UP_TO_END);
    folder.assert_no_partial_file();
}

#[test]
fn a_conversion_that_is_interrupted_leaves_no_file() {
    let folder = Folder::new();
    // A pipe without a writer: the conversion waits for more.
    let (log, out) = (folder.path("in.tarmac"), folder.path("out.tarmac"));
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    for signal in ["-INT", "-TERM"] {
        let mut command = with_signals();
        let mut child = command.args(["convert", text(&log), text(&out)]).stderr(Stdio::null()).spawn().unwrap();
        let mut pipe = fs::File::options().write(true).open(&log).unwrap();
        std::io::Write::write_all(&mut pipe, LINES.repeat(2000).as_bytes()).unwrap();
        let start = Instant::now();
        while folder.names().len() < 2 && start.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(folder.names().iter().any(|name| name.contains(".part")), "{:?}", folder.names());
        send_signal(signal, child.id() as i32);
        assert_eq!(child.wait().unwrap().code(), None, "killed by the signal");
        assert_eq!(folder.names(), ["in.tarmac"]);
    }
}

const LINES: &str =
    "1 clk IT (1) 00001000 d503201f O EL1h_n : NOP\n2 clk IT (2) 00001004 17ffffff O EL1h_n : B 0x1000\n";

#[test]
fn the_plugin_is_unpacked_from_the_binary() {
    let folder = Folder::new();
    let Some(program) = crash(&folder, End::Store, Target::A64) else { return };
    // No plugin is beside the copy.
    let tool = folder.path("bin");
    fs::create_dir(&tool).unwrap();
    let tool = tool.join("unspool");
    fs::copy(UNSPOOL, &tool).unwrap();
    let cache = folder.path("cache");
    for out in ["first.astf", "second.astf"] {
        let mut command = Command::new(&tool);
        command.args(["record", "-o", text(&folder.path(out)), "--", text(&program)]).env("XDG_CACHE_HOME", &cache);
        Run::from(command.output().unwrap()).expect(128 + 11, &["500,008 instructions"]);
        let files: Vec<_> = fs::read_dir(cache.join("unspool")).unwrap().map(Result::unwrap).collect();
        let [file] = &files[..] else { unreachable!("one plugin: {files:?}") };
        let name = file.file_name().into_string().unwrap();
        assert!(name.starts_with("libunspool_plugin-") && name.ends_with(".so"), "{name}");
        assert_eq!(fs::read(file.path()).unwrap(), fs::read(plugin()).unwrap());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o022, 0, "no other user can write to it");
    }
}
