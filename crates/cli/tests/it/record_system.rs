//! `record --system`: traces of bare-metal systems that run under QEMU.
//!
//! Builds small systems in assembly with the cross compiler of Debian. Traces are compared with the log of QEMU: registers
//! before each instruction (`-d cpu`, in blocks of one), and exceptions (`-d int`). Without the compiler or the emulator, a
//! test is skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use unspool_testing::{skip, tool};

use crate::programs::{assert_clean, interrupted, plugin, terminated};
use crate::run::{Run, UNSPOOL, text};

const COMPILER: &str = "aarch64-linux-gnu-gcc";

/// Machine of `levels.S`; counted instructions make runs repeatable.
const LEVELS: &str = "-M virt,secure=on,virtualization=on -cpu cortex-a72 -nodefaults -display none -semihosting";
const COUNTED: &str = "-icount shift=1,sleep=off";
/// Machine of `cpus.S`.
const CPUS: &str = "-M virt -cpu cortex-a72 -nodefaults -display none";
/// State that the log does not contain.
const ASSUMED: &str = "security=nonsecure,sp=x";

const SYSTEM_EMULATOR: &str = "qemu-system-aarch64";

/// The emulator of `UNSPOOL_SYSTEM_EMULATOR`, otherwise the installed one.
fn emulator() -> &'static str {
    static EMULATOR: OnceLock<String> = OnceLock::new();
    EMULATOR.get_or_init(|| std::env::var("UNSPOOL_SYSTEM_EMULATOR").unwrap_or_else(|_| SYSTEM_EMULATOR.into()))
}

/// Is it QEMU 8 or older?
fn is_old() -> bool {
    static IS_OLD: OnceLock<bool> = OnceLock::new();
    *IS_OLD.get_or_init(|| {
        let help = Command::new(emulator()).arg("-help").output();
        help.is_ok_and(|help| Run::from(help).out.contains("-singlestep"))
    })
}

/// Option for blocks of one instruction.
fn single() -> &'static str {
    if is_old() { "-singlestep" } else { "-accel tcg,one-insn-per-tb=on" }
}

/// System, and a folder for its files.
struct System {
    dir: TempDir,
    image: PathBuf,
}

impl System {
    /// `None`: it cannot be built or run here.
    fn build(name: &str) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/programs/{name}.S"));
        let image = dir.path().join(name);
        let settings =
            ["-nostdlib", "-static", "-Wl,-Ttext=0x40100000,-N,--build-id=none,--no-warn-rwx-segments", "-o"];
        tool(COMPILER, "gcc-aarch64-linux-gnu")?;
        if emulator() == SYSTEM_EMULATOR {
            tool(SYSTEM_EMULATOR, "qemu-system-arm")?;
        }
        Run::from(Command::new(COMPILER).args(settings).arg(&image).arg(source).output().unwrap()).expect(0, &[]);
        Some(Self { dir, image })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Arguments of the emulator.
    fn machine<'a>(&'a self, settings: &[&'a str]) -> Vec<&'a str> {
        let args = settings.iter().flat_map(|settings| settings.split_whitespace());
        args.chain(["-kernel", text(&self.image)]).collect()
    }

    fn record(&self, out: &str, options: &[&str], settings: &[&str]) -> Run {
        self.record_by(unspool, out, options, settings)
    }

    fn record_by(&self, run: fn(&[&str]) -> Run, out: &str, options: &[&str], settings: &[&str]) -> Run {
        let out = self.path(out);
        let mut args = vec!["record", "--system", "--force", "--plugin", text(plugin()), "-o", text(&out)];
        if !options.contains(&"--emulator") {
            args.extend(["--emulator", emulator()]);
        }
        args.extend_from_slice(options);
        args.push("--");
        args.extend(self.machine(settings));
        run(&args)
    }

    /// Records a system that ends by itself.
    #[track_caller]
    fn recorded(&self, out: &str, options: &[&str], settings: &[&str]) -> PathBuf {
        self.record(out, options, settings).expect(0, &[]);
        self.path(out)
    }

    /// Log of QEMU, without `unspool`.
    fn log(&self, settings: &[&str], items: &str) -> String {
        let log = self.path("log");
        let mut alone = Command::new(emulator());
        alone.args(self.machine(settings)).args(["-d", items, "-D"]).arg(&log);
        assert!(alone.output().unwrap().status.success());
        fs::read_to_string(log).unwrap()
    }
}

/// Runs `unspool` with a time limit, since a broken system may run forever.
fn unspool(args: &[&str]) -> Run {
    Command::new("timeout").args(["120", UNSPOOL]).args(args).output().unwrap().into()
}

/// Executed instruction: its address, the Exception level with `h` or `t`, and the Security state, if known.
#[derive(Debug, Default, PartialEq, Eq)]
struct Position {
    address: u64,
    mode: String,
    security: Option<String>,
}

/// Registers by name, before an instruction.
type Registers = BTreeMap<String, u128>;

/// ` PC=0000000040100000 X00=...` and, later, `SP=..`, `Q00=..:..` and `PSTATE=400003cd -Z-- NS EL1h`.
///
/// QEMU logs before it executes. If an access to a device makes it restart, or an interrupt comes first, it logs the same
/// address twice, or one that was not executed: the interrupt returns to it.
fn executed_by_log(log: &str) -> Vec<(Position, Registers)> {
    let (mut all, mut is_interrupt) = (Vec::<(Position, Registers)>::new(), false);
    for line in log.lines() {
        if let Some(rest) = line.strip_prefix(" PC=") {
            let address = u64::from_str_radix(&rest[..16], 16).unwrap();
            all.pop_if(|(last, _)| last.address == address);
            all.push((Position { address, ..Position::default() }, Registers::new()));
        } else if line.starts_with("Taking exception") {
            is_interrupt = line.contains("[IRQ]");
        } else if let Some(elr) = line.strip_prefix("...with ELR 0x") {
            let elr = u64::from_str_radix(elr, 16).unwrap();
            all.pop_if(|(last, _)| is_interrupt && last.address == elr);
        }
        let Some((position, registers)) = all.last_mut() else { continue };
        if let Some(rest) = line.strip_prefix("PSTATE=") {
            let words: Vec<&str> = rest.split_whitespace().skip(2).collect();
            position.mode = words.iter().find_map(|word| word.strip_prefix("EL")).unwrap().to_string();
            position.security = words.iter().find(|word| ["NS", "S"].contains(word)).map(|word| word.to_lowercase());
        }
        for (name, value) in line.split_whitespace().filter_map(|word| word.split_once('=')) {
            let number = name.get(1..).and_then(|digits| digits.parse::<u8>().ok());
            let name = match (name, name.get(..1), number) {
                ("SP", ..) => "SP".into(),
                ("PSTATE", ..) => "CPSR".into(),
                (_, Some("X"), Some(number)) => format!("X{number}"),
                (_, Some("Q"), Some(number)) => format!("V{number}"),
                _ => continue,
            };
            registers.extend(u128::from_str_radix(&value.replace(':', ""), 16).ok().map(|value| (name, value)));
        }
    }
    all
}

fn positions_of_log(log: &str) -> Vec<Position> {
    executed_by_log(log).into_iter().map(|(position, _)| position).collect()
}

/// `  ES  (0000000040100000:5800fc40) O el3h_s:  ldr x0, 0x40101f88`
fn positions_of_trace(trace: &Path) -> Vec<Position> {
    let position = |line: &str| {
        let rest = line.trim_start().strip_prefix("ES  (")?;
        let (address, rest) = rest.split_once(':')?;
        let (mode, security) = rest.split_once(" O el")?.1.split_once(':')?.0.split_once('_')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        Some(Position { address, mode: mode.into(), security: Some(security.into()) })
    };
    fs::read_to_string(trace).unwrap().lines().filter_map(position).collect()
}

#[test]
fn addresses_levels_and_stack_pointers_are_those_of_the_log_of_the_emulator() {
    let Some(system) = System::build("levels") else { return };
    let expected = positions_of_log(&system.log(&[LEVELS, COUNTED, single()], "cpu,int,nochain"));
    assert!(expected.len() > 1000);
    for settings in ["", single()] {
        let trace = system.recorded("out.tarmac", &["--assume", ASSUMED], &[LEVELS, COUNTED, settings]);
        let found = positions_of_trace(&trace);
        let differs = found.iter().zip(&expected).position(|(found, expected)| {
            // At EL3, and without EL3, the log does not contain the Security state.
            let is_known = expected.security.is_some();
            (found.address, &found.mode) != (expected.address, &expected.mode)
                || is_known && found.security != expected.security
        });
        assert_eq!((differs, found.len()), (None, expected.len()), "{settings}");
        for mode in ["3h", "2h", "1h", "1t", "0t"] {
            assert!(found.iter().any(|position| position.mode == mode), "{mode}");
        }
    }
}

/// `  R X0 0000000040102fd0` after the instruction that wrote it.
fn registers_of_trace(trace: &Path) -> Vec<(u64, Registers)> {
    let (mut all, mut registers) = (Vec::new(), Registers::new());
    for line in fs::read_to_string(trace).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["R", name, value] => {
                registers.extend(u128::from_str_radix(value, 16).ok().map(|value| (name.to_string(), value)));
            }
            ["ES", position, ..] if position.starts_with('(') => {
                let address = position[1..].split_once(':').unwrap().0;
                all.push((u64::from_str_radix(address, 16).unwrap(), registers.clone()));
            }
            _ => {}
        }
    }
    all
}

#[test]
fn registers_are_those_of_the_log_of_the_emulator() {
    let Some(system) = System::build("levels") else { return };
    if is_old() {
        let run = system.record("out.tarmac", &["--registers"], &[LEVELS]);
        assert!(run.err.contains("need QEMU 9.0 or later with plugins"), "{run:?}");
        // An old emulator that is named on purpose is tested as such.
        if std::env::var_os("UNSPOOL_SYSTEM_EMULATOR").is_none() {
            skip("registers need qemu-system-aarch64 9.0 or newer: set UNSPOOL_SYSTEM_EMULATOR");
        }
        return;
    }
    let expected = executed_by_log(&system.log(&[LEVELS, COUNTED, single()], "cpu,fpu,int,nochain"));
    for settings in ["", single()] {
        let options = ["--registers", "--assume", ASSUMED];
        let trace = system.recorded("out.tarmac", &options, &[LEVELS, COUNTED, settings]);
        assert_clean(&trace);
        let found = registers_of_trace(&trace);
        assert_eq!((found.len(), found.len() > 1000), (expected.len(), true), "{settings}");
        let mut compared = 0;
        for (index, ((address, found), (position, expected))) in found.iter().zip(&expected).enumerate() {
            assert_eq!(*address, position.address, "{settings} {index}");
            for (name, value) in found.iter().filter(|(name, _)| expected.contains_key(*name)) {
                // BTYPE is not recorded.
                let hidden = if name == "CPSR" { 0xc00 } else { 0 };
                let is_equal = (value ^ expected[name]) & !hidden == 0;
                assert!(is_equal, "{settings} {index} {address:#x}: {name} is {value:#x}, not {:#x}", expected[name]);
                compared += 1;
            }
        }
        assert!(compared > 32 * found.len(), "{compared}");
    }
}

#[test]
fn exceptions_are_those_of_the_log_of_the_emulator() {
    let Some(system) = System::build("levels") else { return };
    let log = system.log(&[LEVELS, COUNTED], "int");
    let value = |line: &str, name: &str| Some(line.strip_prefix(name)?.split_whitespace().next()?.to_string());
    let mut expected = Vec::new();
    let (mut class, mut returns) = (String::new(), String::new());
    for line in log.lines() {
        if line.starts_with("Taking exception") {
            class = if line.contains("[IRQ]") { "irq".into() } else { String::new() };
        } else if let (Some(esr), true) = (value(line, "...with ESR "), class.is_empty()) {
            class = esr.split_once('/').unwrap().0.into();
        } else if let Some(elr) = value(line, "...with ELR ") {
            returns = elr;
        } else if let Some((_, target)) = line.strip_prefix("...to EL").and_then(|line| line.split_once(" PC ")) {
            expected.push(format!("{class} {returns} {}", target.split_whitespace().next().unwrap()));
        } else if let Some((_, target)) = line.strip_prefix("Exception return").and_then(|line| line.split_once(" PC "))
        {
            expected.push(format!("return {target}"));
        }
    }
    let trace = system.recorded("out.tarmac", &["--assume", ASSUMED], &[LEVELS, COUNTED]);
    let trace = fs::read_to_string(trace).unwrap();
    let field = |line: &str, name: &str| line.split_whitespace().find_map(|word| value(word, name)).unwrap_or_default();
    let found: Vec<String> = trace
        .lines()
        .filter_map(|line| {
            let line = line.strip_prefix("# unspool ")?;
            match line.split_once(' ')?.0 {
                "exception" if line.contains(" irq ") => {
                    Some(format!("irq {} {}", field(line, "return="), field(line, "target=")))
                }
                "exception" => {
                    let class = u8::from_str_radix(&field(line, "class=")[2..], 16).unwrap();
                    Some(format!("{class:#x} {} {}", field(line, "return="), field(line, "target=")))
                }
                "return" => Some(format!("return {}", field(line, "target="))),
                _ => None,
            }
        })
        .collect();
    assert_eq!(found, expected);
    // SVC, HVC, SMC, breakpoint, undefined, Data Aborts from the same level and from below, interrupts.
    for class in ["0x15", "0x16", "0x17", "0x3c", "0x0", "0x25", "0x24", "irq"] {
        assert!(found.iter().any(|line| line.split_once(' ').unwrap().0 == class), "{class}");
    }
}

#[test]
fn basicplus_traces_pass_the_check() {
    let Some(system) = System::build("levels") else { return };
    for (name, settings) in [("counted.astf", COUNTED), ("free.astf", ""), ("single.astf.xz", single())] {
        let trace = system.recorded(name, &["--assume", ASSUMED], &[LEVELS, settings]);
        assert_clean(&trace);
        unspool(&["info", text(&trace)]).shows(&["BasicPlus"]);
    }
}

#[test]
fn accesses_are_recorded_once_even_if_the_emulator_restarts() {
    let Some(system) = System::build("levels") else { return };
    // Up to the first wfi, time does not matter; devices are accessed before.
    let beginning = |name: &str, settings: &str| {
        let trace = system.recorded(name, &["--assume", ASSUMED], &[LEVELS, settings]);
        let trace = fs::read_to_string(trace).unwrap();
        trace.split_once("wfi").unwrap().0.to_string()
    };
    let free = beginning("free.tarmac", "");
    assert_eq!(beginning("counted.tarmac", COUNTED), free);
    let after_pair = free.split_once("ldp w2, w3, [x0]\n").unwrap().1;
    let reads: Vec<&str> = after_pair.lines().take_while(|line| !line.contains("ES ")).collect();
    let positions: Vec<&str> = reads.iter().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert!(!positions.is_empty() && positions.iter().all(|position| *position == "0000000008000000"), "{reads:?}");
    // The device has eight bytes, in two words or in one.
    let digits = |line: &&str| line.split_whitespace().skip(2).filter(|word| !word.contains('.')).count();
    assert_eq!(reads.iter().map(digits).sum::<usize>(), 2, "{reads:?}");
}

#[test]
fn encoding_and_decoding_round_trips() {
    let Some(system) = System::build("levels") else { return };
    let trace = system.recorded("out.astf", &["--assume", ASSUMED], &[LEVELS, COUNTED]);
    let capture = system.path("capture");
    unspool(&["encode", text(&trace), "-o", text(&capture)]).expect(0, &[]);
    unspool(&["diff", text(&trace), text(&capture)]).expect(0, &[]).shows(&["identical in what both contain"]);
}

#[test]
fn each_cpu_has_a_trace() {
    let Some(system) = System::build("cpus") else { return };
    for (name, settings) in [("threads", ""), ("counted", COUNTED)] {
        if settings == COUNTED && !is_old() {
            continue;
        }
        system.recorded(&format!("{name}.astf"), &[], &[CPUS, "-smp 2", settings]);
        for ending in [".astf", ".1.astf"] {
            assert_clean(&system.path(&format!("{name}{ending}")));
        }
        // Execution continues after the call of firmware.
        let dump = unspool(&["dump", text(&system.path(&format!("{name}.astf")))]).out;
        let call = dump.split_once("HVC").unwrap().1;
        assert!(call.contains("Exception to <0x000000004010001c>"), "{dump}");
    }
    for settings in ["", COUNTED] {
        let run = system.record("whole.tarmac", &[], &[CPUS, "-smp 2", settings]);
        if settings == COUNTED && !is_old() {
            assert!(run.err.contains("does not distinguish CPUs"), "{run:?}");
            continue;
        }
        run.expect(0, &[]);
        let trace = fs::read_to_string(system.path("whole.tarmac")).unwrap();
        // Each CPU counts a thousand times, and calls firmware.
        let calls =
            |what: &str, name: &str| trace.lines().filter(|line| line.contains(what) && line.contains(name)).count();
        assert_eq!((calls("svc #0x0", "cpu1"), calls("svc #0x0", ""), calls("hvc #0x0", "")), (1000, 2000, 2));
    }
}

#[test]
fn addresses_are_virtual() {
    let Some(system) = System::build("operands") else { return };
    let expected = positions_of_log(&system.log(&[CPUS, COUNTED, single()], "cpu,int,nochain"));
    assert!(expected.iter().any(|position| position.address >> 28 == 8));
    for settings in ["", COUNTED, single()] {
        let found = positions_of_trace(&system.recorded("out.tarmac", &["--assume", "sp=x"], &[CPUS, settings]));
        let pairs = found.iter().zip(&expected);
        let differs = pairs
            .clone()
            .position(|(found, expected)| (found.address, &found.mode) != (expected.address, &expected.mode));
        // QEMU also logs the instruction after the end.
        assert_eq!(differs, None, "{settings}: {:?}", differs.and_then(|at| pairs.clone().nth(at)));
        assert!(expected.len() - found.len() <= 1, "{settings}: {} of {}", found.len(), expected.len());
    }
}

/// Addresses in the registers of `operands.S`, which the records of these instructions must contain.
const OPERANDS: &[(&str, &str)] = &[
    ("PRFM", "0x0000000040200008"),
    ("PRFM", "0x0000000040200080"),
    ("PRFUM", "0x00000000401ffffd"),
    ("PRFM", "0x0000000040200010"),
    ("DC", "0x0000000040201000"),
    ("IC", "0x0000000040201000"),
    ("AT", "0x0000000040201000"),
    ("TLBI", "0x0000000040202000"),
    ("DC", "0x0000000040203040"),
];

#[test]
fn addresses_come_from_registers_where_needed() {
    let Some(system) = System::build("operands") else { return };
    if is_old() {
        let run = system.record("plus.astf", &["--assume", "sp=x"], &[CPUS]);
        assert!(run.err.contains("it depends on x1") && run.err.contains("--astf-level basic"), "{run:?}");
        let run = system.record("basic.astf", &["--assume", "sp=x", "--astf-level", "basic"], &[CPUS]);
        run.expect(
            0,
            &["4 × prefetches", "2 × operations on caches", "2 × operations on translations", "1 × blocks zeroed"],
        );
        return assert_clean(&system.path("basic.astf"));
    }
    let trace = system.recorded("plus.astf", &[], &[CPUS]);
    assert_clean(&trace);
    let dump = unspool(&["dump", text(&trace)]).out;
    let mut lines = dump.lines();
    for (name, address) in OPERANDS {
        let is_it = |line: &&str| line.split_whitespace().any(|word| word == *name);
        let line = lines.find(is_it).unwrap_or_else(|| panic!("{name} {address}: {dump}"));
        assert!(line.contains(&format!("v[{address}]")), "{name} {address}: {line}");
    }
}

#[test]
fn data_is_what_the_program_writes() {
    let Some(system) = System::build("operands") else { return };
    let run = system.record("out.tarmac", &["--assume", "sp=x"], &[CPUS]).expect(0, &[]);
    assert_eq!(run.err.contains("does not report the data of accesses"), is_old(), "{run:?}");
    let trace = fs::read_to_string(system.path("out.tarmac")).unwrap();
    let rows = [
        ("str x6, [x1]", "ST 0000000040204000 ........ ........ 11223344 55667788"),
        ("ldr w7, [x1, #0x4]", "LD 0000000040204000 ........ ........ 11223344 ........"),
        ("ldrsb x7, [x1, #0x1]", "LD 0000000040204000 ........ ........ ........ ....77.."),
        ("strb w6, [x1, #0x8]", "ST 0000000040204000 ........ ......88 ........ ........"),
        ("ldr x7, [x1, #0x8]", "LD 0000000040204000 00000000 00000088 ........ ........"),
        ("stp x6, x6, [x1]", "ST 0000000040204000 11223344 55667788 11223344 55667788"),
        ("ldr q0, [x1]", "LD 0000000040204000 11223344 55667788 11223344 55667788"),
    ];
    for (instruction, expected) in rows {
        let rest = trace.split_once(&format!("{instruction}\n")).unwrap_or_else(|| panic!("{instruction}")).1;
        let line = rest.lines().next().unwrap().trim();
        if is_old() {
            assert!(line.contains('#') && !line.contains("88"), "{instruction}: {line}");
        } else {
            assert_eq!(line, expected, "{instruction}");
        }
    }
}

#[test]
fn an_interrupted_trace_is_complete_up_to_there() {
    let Some(system) = System::build("endless") else { return };
    for (name, end) in [("interrupted.astf", interrupted as fn(&[&str]) -> Run), ("terminated.astf", terminated)] {
        system.record_by(end, name, &["--assume", "el=1"], &[CPUS]).expect(0, &[]);
        assert_clean(&system.path(name));
    }
}

#[test]
fn a_limit_ends_a_system() {
    let Some(system) = System::build("levels") else { return };
    let whole = positions_of_trace(&system.recorded("whole.tarmac", &["--assume", ASSUMED], &[LEVELS, COUNTED]));
    for limit in [1, 64, 150, 1000] {
        let count = limit.to_string();
        let trace = system.recorded("out.tarmac", &["--assume", ASSUMED, "--limit", &count], &[LEVELS, COUNTED]);
        assert_eq!(positions_of_trace(&trace), whole[..limit], "{limit}");
    }
    let Some(system) = System::build("cpus") else { return };
    // With one CPU, it waits for the other one forever.
    let trace = system.recorded("out.tarmac", &["--limit", "7000"], &[CPUS, "-smp 1"]);
    assert_eq!(positions_of_trace(&trace).len(), 7000);
    let from = system.recorded("from.tarmac", &["--from", "0x40100040", "--limit", "10"], &[CPUS, "-smp 1"]);
    let from = positions_of_trace(&from);
    assert_eq!((from[0].address, from.len()), (0x4010_0040, 10));
}

#[test]
fn a_killed_recording_leaves_neither_a_file_nor_an_emulator() {
    let Some(system) = System::build("cpus") else { return };
    let (out, process) = (system.path("out.tarmac"), system.path("process"));
    let settings = format!("-smp 1 -pidfile {}", process.display());
    let args = ["record", "--system", "--plugin", text(plugin()), "--emulator", emulator(), "-o", text(&out), "--"];
    let mut recording = Command::new(UNSPOOL).args(args).args(system.machine(&[CPUS, &settings])).spawn().unwrap();
    let emulator = soon(|| fs::read_to_string(&process).ok().filter(|text| text.ends_with('\n')));
    thread::sleep(Duration::from_millis(300));
    recording.kill().unwrap();
    recording.wait().unwrap();
    let status = format!("/proc/{}/stat", emulator.trim());
    let is_gone = || fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
    soon(|| is_gone().then_some(()));
    assert!(!out.exists());
}

#[test]
fn a_cpu_that_takes_exceptions_endlessly_is_stopped() {
    let Some(system) = System::build("stuck") else { return };
    let run = system.record("out.tarmac", &["--assume", "sp=x"], &[CPUS]);
    run.expect(1, &["took exceptions endlessly and executed nothing"]);
    let trace = fs::read_to_string(system.path("out.tarmac")).unwrap();
    let executed: Vec<u64> =
        positions_of_trace(&system.path("out.tarmac")).iter().map(|position| position.address).collect();
    assert_eq!(executed, [0x4010_0000, 0x4010_0004, 0x4010_0008, 0x4010_000c, 0x4010_0010]);
    // The call, and then the vector that cannot be fetched.
    let mut exceptions = trace.lines().filter(|line| line.starts_with("# unspool exception"));
    assert!(exceptions.next().is_some_and(|line| line.ends_with("return=0x40100014 target=0x10000000200")));
    assert!(exceptions.all(|line| line.ends_with("return=0x10000000200 target=0x10000000200")));
}

/// Waits until `poll` returns something.
fn soon<T>(poll: impl Fn() -> Option<T>) -> T {
    let found = (0..1000).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        poll()
    });
    found.unwrap()
}

#[test]
fn missing_tools_and_state_are_reported() {
    let Some(system) = System::build("levels") else { return };
    let rows: &[(&[&str], &[&str], &str)] = &[
        (&["--emulator", "qemu-nowhere"], &[], "install the package qemu-system-arm"),
        (&[], &["-d int"], "'-d' cannot be used: recording a system needs the log"),
        (&["--from", "main"], &[], "'main' is not an address"),
        (&[], &[LEVELS, COUNTED], "--assume security=secure|nonsecure"),
        (&["--assume", "security=ns"], &[LEVELS, COUNTED], "--assume sp=0|x"),
    ];
    for (options, settings, expected) in rows {
        let run = system.record("out.astf", options, settings);
        // SPSR_ELx is known where registers are recorded.
        if expected.contains("sp=") && !is_old() {
            run.expect(0, &[]);
            continue;
        }
        assert_ne!(run.code, 0, "{options:?}");
        assert!(run.err.contains(expected), "{options:?}: {run:?}");
    }
}
