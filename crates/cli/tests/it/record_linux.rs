//! `record --system --events`: Linux with several processes, encoded with its event log and decoded without any image.
//!
//! A kernel of Debian starts programs of `programs/linux`: two that are linked at the same address, one of them twice, a thread, and
//! code that is written while it runs. What is decoded is compared with the recording: address, opcode and process of each
//! instruction. Without the kernel, the compiler or an emulator that reports registers, the test is skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at unexpected input")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use unspool::capture::{Capture, ContextFormat, KERNEL, Pid};
use unspool::coresight::Transactions;
use unspool::flow::{Around, Cause, Finding, FlowItem, InstructionSink, Item};
use unspool::model::{Context, Event, ExceptionKind, StepSource};
use unspool::{OpenSteps, Program, SpaceOptions, Trace, Watch, open_steps};
use unspool_testing::{skip, tool};

use crate::programs::plugin;
use crate::run::{Run, UNSPOOL, text};

const COMPILER: &str = "aarch64-linux-gnu-gcc";
const CORES: usize = 2;

/// An executed instruction: its address, opcode and process. The kernel is process 0.
type Executed = (u64, u32, Pid);

/// Programs of the system: source, name, options.
const PROGRAMS: [(&str, &str, &str); 3] =
    [("init.c", "init", "-DNUMBER=0"), ("program.c", "one", "-DNUMBER=1"), ("program.c", "two", "-DNUMBER=2")];

/// The machine: time of its own, and no tests or signatures that the kernel checks beside it.
const MACHINE: &str =
    "-M virt,dtb-randomness=off -cpu cortex-a57 -smp 2 -m 256 -nodefaults -display none -serial stdio -no-reboot";
const ARGUMENTS: &str = "console=ttyAMA0 panic=-1 quiet init_on_alloc=0 cryptomgr.notests=1 mitigations=off audit=0";

struct Linux {
    dir: TempDir,
    kernel: PathBuf,
    emulator: String,
}

impl Linux {
    /// `None`: it cannot be built or run here.
    fn build() -> Option<Self> {
        let Some(kernel) = std::env::var_os("UNSPOOL_LINUX_KERNEL") else {
            skip("UNSPOOL_LINUX_KERNEL is not set (.ci/linux-kernel)");
            return None;
        };
        let Ok(emulator) = std::env::var("UNSPOOL_SYSTEM_EMULATOR") else {
            skip("UNSPOOL_SYSTEM_EMULATOR is not set");
            return None;
        };
        tool(COMPILER, "gcc-aarch64-linux-gnu")?;
        let linux = Self { dir: TempDir::new().unwrap(), kernel: kernel.into(), emulator };
        PROGRAMS.iter().for_each(|(source, name, option)| linux.compile(source, name, option));
        let mut archive = Archive::default();
        archive.add("dev", 0o040_755, (0, 0), &[]);
        archive.add("dev/console", 0o020_600, (5, 1), &[]);
        for (_, name, _) in PROGRAMS {
            archive.add(name, 0o100_755, (0, 0), &fs::read(linux.path(name)).unwrap());
        }
        archive.add("TRAILER!!!", 0, (0, 0), &[]);
        fs::write(linux.path("initrd"), archive.bytes).unwrap();
        Some(linux)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn compile(&self, source: &str, name: &str, option: &str) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/programs/linux").join(source);
        let settings = "-static -no-pie -nostdlib -ffreestanding -fno-builtin -O1 -Wall -Werror -Wl,--build-id=none";
        let mut compiler = Command::new(COMPILER);
        compiler.args(settings.split(' ')).arg(option).arg("-o").arg(self.path(name)).arg(source);
        Run::from(compiler.output().unwrap()).expect(0, &[]);
    }

    /// The address of the function that recording starts with.
    fn start(&self) -> String {
        let listed = Command::new("aarch64-linux-gnu-nm").arg(self.path("init")).output().unwrap();
        let symbols = String::from_utf8(listed.stdout).unwrap();
        let line = symbols.lines().find(|line| line.ends_with(" begin")).unwrap();
        format!("0x{}", line.split_once(' ').unwrap().0)
    }

    fn record(&self) -> (PathBuf, PathBuf) {
        let (trace, events) = (self.path("linux.tarmac"), self.path("linux.events"));
        let (start, initrd) = (self.start(), self.path("initrd"));
        let options = ["--system", "--from", &start, "--plugin", text(plugin()), "--emulator", &self.emulator];
        let mut args = vec!["record", "-o", text(&trace), "--events", text(&events)];
        args.extend(options);
        args.push("--");
        args.extend(MACHINE.split(' '));
        args.extend(["-kernel", text(&self.kernel), "-initrd", text(&initrd), "-append", ARGUMENTS]);
        let run = unspool(&args).expect(0, &[]);
        // The exit codes of the programs, the values that the written code returned, and the turns of the thread.
        assert!(run.out.contains("sum 4 written 7 turns 5"), "{run:?}");
        (trace, events)
    }
}

/// An archive in the format that the kernel unpacks: a header in hexadecimal digits, a name and contents, each padded.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    count: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), contents: &[u8]) {
        self.count += 1;
        let (length, name_length) = (contents.len() as u32, name.len() as u32 + 1);
        let fields = [self.count, mode, 0, 0, 1, 0, length, 0, 0, device.0, device.1, name_length, 0];
        let digits: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        for part in [format!("070701{digits}{name}\0").as_bytes(), contents] {
            self.bytes.extend_from_slice(part);
            self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        }
    }
}

/// Runs `unspool` with a time limit, since a broken system may run forever.
fn unspool(args: &[&str]) -> Run {
    Command::new("timeout").args(["600", UNSPOOL]).args(args).output().unwrap().into()
}

/// What was recorded of each core. An instruction that raises an exception and is executed again is not traced.
fn recorded(trace: &Path) -> Vec<Vec<Executed>> {
    let mut cores = vec![(Vec::<Executed>::new(), Context::default()); CORES];
    let mut steps = open_steps(trace, &OpenSteps::default()).unwrap();
    let each = steps.each(&mut |step| {
        let (executed, context) = &mut cores[step.core as usize];
        match &step.event {
            Event::Context(new) => *context = new.over(context),
            Event::Instruction(instruction) => {
                let process = if context.level == Some(0) { context.process.unwrap() as Pid } else { KERNEL };
                executed.push((instruction.address, instruction.opcode.unwrap(), process));
            }
            Event::Exception(exception) if exception.kind == ExceptionKind::Synchronous => {
                executed.pop_if(|last| Some(last.0) == exception.return_address);
            }
            Event::Gap(gap) => panic!("{gap:?}"),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    each.unwrap();
    cores.into_iter().map(|(executed, _)| executed).collect()
}

/// Compares what is decoded with what was recorded.
///
/// Two timestamps may have an instruction of the new code between them and the event that replaces the old one. This
/// depends on the interrupts that the run has; such an instruction is reported as doubtful, and not shown.
struct Comparison<'a> {
    program: &'a Program,
    expected: &'a [Executed],
    /// Addresses whose code was replaced.
    replaced: &'a BTreeSet<u64>,
    compared: usize,
    /// Number of reports, and whether the last one is before the next instruction.
    doubtful: usize,
    is_doubtful: bool,
}

/// Instructions that are at most missing after a report: up to the next address in the trace.
const MISSING: usize = 64;
/// Maximum number of reports. Code is replaced four times.
const DOUBTFUL: usize = 4;

impl InstructionSink for Comparison<'_> {
    fn instruction(&mut self, instruction: &unspool::flow::Instruction, around: &Around) {
        let found = (instruction.address, instruction.opcode, self.program.process_of(around.map).unwrap_or(Pid::MAX));
        if std::mem::take(&mut self.is_doubtful) {
            let rest = self.expected.get(self.compared..).unwrap_or_default();
            self.compared += rest.iter().take(MISSING).position(|executed| *executed == found).unwrap_or(0);
        }
        let expected = self.expected.get(self.compared);
        assert_eq!(Some(&found), expected, "instruction {}: {found:x?}, and not {expected:x?}", self.compared);
        self.compared += 1;
    }

    fn item(&mut self, item: FlowItem) {
        match item.map(|item| item.value) {
            Ok(Item::Finding(Finding::AmbiguousImage { address })) if self.replaced.contains(&address) => {
                (self.doubtful, self.is_doubtful) = (self.doubtful + 1, true);
            }
            Ok(Item::Lost { cause: Cause::Ambiguous { .. }, .. }) if self.is_doubtful => {}
            Ok(item @ (Item::NoCode { .. } | Item::Lost { .. } | Item::Finding(_))) => {
                panic!("instruction {}: {item:x?}", self.compared)
            }
            Ok(_) => {}
            Err(error) => panic!("instruction {}: {error}", self.compared),
        }
    }
}

impl Watch for Comparison<'_> {}

#[test]
fn linux_with_several_processes_is_decoded_exactly_by_its_event_log() {
    let Some(linux) = Linux::build() else { return };
    let (trace, events) = linux.record();
    let capture = linux.path("capture");
    // Timestamps with every block: code is written without a system call.
    let settings = ["--register", "TRCCONFIGR=0x841", "--register", "TRCTSCTLR=1", "--register", "TRCSYNCPR=16"];
    let args = ["encode", text(&trace), "-o", text(&capture), "--events", text(&events)];
    unspool(&[&args[..], &settings].concat()).expect(0, &[]);
    let images = fs::read_dir(&capture)
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("program_"));
    assert_eq!(images.count(), 0);

    let all = recorded(&trace);
    let replaced = replaced(&all);
    let opened = Capture::open(&capture).unwrap();
    assert!(opened.notes.is_empty(), "{:?}", opened.notes);
    let options = SpaceOptions { context_format: Some(ContextFormat::Tid), ..SpaceOptions::default() };
    for (trace, expected) in Trace::all(&opened).iter().zip(&all) {
        let (program, _) = Program::with_spaces(&opened, trace.source().core, &[], &options);
        let (compared, doubtful, is_doubtful) = (0, 0, false);
        let mut comparison =
            Comparison { program: &program, expected, replaced: &replaced, compared, doubtful, is_doubtful };
        trace.instructions(Transactions::Show, &program, &mut comparison).unwrap();
        assert_eq!(comparison.compared, expected.len());
        assert!(comparison.compared > 1000);
        assert!(comparison.doubtful <= DOUBTFUL, "{}", comparison.doubtful);
    }
    assert_processes(&all, &fs::read_to_string(&events).unwrap());
}

/// Addresses at which a process executed different code.
fn replaced(all: &[Vec<Executed>]) -> BTreeSet<u64> {
    let executed: BTreeSet<Executed> = all.iter().flatten().copied().collect();
    let mut opcodes: BTreeMap<(u64, Pid), u32> = BTreeMap::new();
    let is_other = |(address, opcode, process): &Executed| {
        opcodes.insert((*address, *process), *opcode).is_some_and(|before| before != *opcode)
    };
    executed.iter().copied().filter(is_other).map(|executed| executed.0).collect()
}

/// The recording has what it is meant to have.
fn assert_processes(all: &[Vec<Executed>], events: &str) {
    let of_processes: BTreeSet<Executed> =
        all.iter().flatten().filter(|executed| executed.2 != KERNEL).copied().collect();
    let processes: BTreeSet<Pid> = of_processes.iter().map(|executed| executed.2).collect();
    // The first process and three that it started.
    assert_eq!(processes.len(), 4, "{processes:?}");
    let opcodes_at =
        |address: u64| of_processes.iter().filter(move |executed| executed.0 == address).map(|executed| executed.1);
    let differs = |address: &u64| opcodes_at(*address).collect::<BTreeSet<u32>>().len() > 1;
    let addresses: BTreeSet<u64> = of_processes.iter().map(|executed| executed.0).collect();
    assert!(addresses.iter().filter(|address| differs(address)).count() > 10);
    // The code that the first process wrote: `mov w0, #1` to `mov w0, #3`, and 0.
    let written =
        |value: u32| of_processes.iter().any(|executed| executed.1 == 0x5280_0000 | value << 5 && executed.2 == 1);
    assert!((0..4).all(written));
    assert!(events.lines().any(|line| line.contains("declare_thread(CURRENT, ") && line.ends_with(", 1)")));
    let is_timed = |line: &&str| !line.starts_with(['-', '#']);
    assert!(events.lines().filter(is_timed).all(|line| line.contains("patch_code")));
    assert!(events.lines().filter(is_timed).count() >= 4);
}
