//! `record`: traces of real programs that run under QEMU.
//!
//! Builds small programs in C with the cross compilers of Debian. Without a compiler or the emulator, a test is skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use unspool_testing::{example, tool};

use crate::programs::{Target, assert_clean, built, interrupted, plugin, record, terminated, unspool};
use crate::run::{Run, UNSPOOL, text};

fn a64(dir: &TempDir, name: &str) -> Option<PathBuf> {
    built(dir.path(), name, Target::A64)
}

#[test]
fn programs_of_aarch64_become_astf_that_passes_the_check() {
    let rows = [("sort", "sorted 200\n", 7), ("calls", "1138 0\n", 0), ("signals", "102\n", 0)];
    for (name, output, code) in rows {
        let dir = TempDir::new().unwrap();
        let Some(program) = a64(&dir, name) else { return };
        let out = dir.path().join("out.astf");
        let run = record(&["-o", text(&out)], &program, &[]).expect(code, &[]);
        assert_eq!(run.out.lines().count(), output.lines().count(), "{name}: {}", run.out);
        assert!(name == "calls" || run.out == output, "{name}: {}", run.out);
        assert_clean(&out);
        // A wrong branch breaks no rule: a string marks the gap before execution resumes elsewhere.
        assert_eq!(unspool(&["dump", text(&out)]).out.matches("gap:").count(), 0, "{name}");
    }
}

#[test]
fn addresses_are_those_of_the_log_of_the_emulator() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "sort") else { return };
    let out = dir.path().join("out.tarmac");
    record(&["-o", text(&out)], &program, &["20"]);
    let (found, expected) = (addresses(&out), executed_alone(&dir, &program, &["20"]));
    assert!(found.len() > 5000);
    let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!((differs, found.len()), (None, expected.len()));
}

/// An instruction that faults is not complete: it is recorded when it is repeated.
#[test]
fn faulting_instructions_are_recorded_when_complete() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "faults") else { return };
    let (out, trace) = (dir.path().join("out.tarmac"), dir.path().join("out.astf"));
    let run = record(&["-o", text(&out)], &program, &[]);
    let (handler, hits) = run.out.trim().strip_prefix("0x").unwrap().split_once(' ').unwrap();
    assert_eq!(hits, "3");
    let handler = u64::from_str_radix(handler, 16).unwrap();
    let executed = executed_alone(&dir, &program, &[]);
    // The log contains attempts: instructions that led to the handler did not complete.
    let is_complete = |pair: &[u64]| (pair[1] != handler).then_some(pair[0]);
    let expected: Vec<u64> = executed.windows(2).filter_map(is_complete).chain(executed.last().copied()).collect();
    assert_eq!(expected.len() + 3, executed.len());
    assert!(addresses(&out) == expected);
    // Templates record the same as steps.
    record(&["-o", text(&trace)], &program, &[]);
    assert_clean(&trace);
    unspool(&["diff", text(&out), text(&trace)]).expect(0, &[]);
}

/// Executed addresses, by the log of the emulator.
fn executed_alone(dir: &TempDir, program: &Path, arguments: &[&str]) -> Vec<u64> {
    let log = dir.path().join("log");
    let settings = ["-L", "/usr/aarch64-linux-gnu", "-cpu", "max,sve=off,sme=off", "-singlestep"];
    let mut alone = Command::new("qemu-aarch64");
    alone.args(settings).args(["-d", "exec,nochain", "-D"]).arg(&log).arg(program).args(arguments);
    alone.env("QEMU_RAND_SEED", "1").output().unwrap();
    let log = fs::read_to_string(log).unwrap();
    log.lines().filter(|line| line.starts_with("Trace")).map(address_of_log).collect()
}

/// Executed addresses of a Tarmac log.
fn addresses(trace: &Path) -> Vec<u64> {
    fs::read_to_string(trace).unwrap().lines().filter_map(address_of_line).collect()
}

/// `Trace 0: 0x7f.. [flags/pc/..] symbol`
fn address_of_log(line: &str) -> u64 {
    u64::from_str_radix(line.split('/').nth(1).unwrap(), 16).unwrap()
}

/// `ES  (0000000000400680:d503201f) O el0t_ns: nop`
fn address_of_line(line: &str) -> Option<u64> {
    let (address, _) = line.trim_start().strip_prefix("ES  (")?.split_once(':')?;
    u64::from_str_radix(address, 16).ok()
}

/// The emulator logs the disassembly of each block that it translates: words of A32, halfwords of T32.
#[test]
fn instructions_of_aarch32_are_those_that_the_emulator_translates() {
    for (name, target) in
        ["sort", "json", "indirect", "signals"].map(|name| [(name, Target::A32), (name, Target::T32)]).concat()
    {
        let dir = TempDir::new().unwrap();
        let Some(program) = built(dir.path(), name, target) else { return };
        let (out, log) = (dir.path().join("out.tarmac"), dir.path().join("log"));
        record(&["-o", text(&out)], &program, &[]);
        let mut alone = Command::new("qemu-arm");
        alone.args(["-L", "/usr/arm-linux-gnueabihf", "-d", "in_asm", "-D"]).arg(&log).arg(&program);
        alone.env("QEMU_RAND_SEED", "1").output().unwrap();
        let mut translated: HashMap<u64, HashSet<(char, u32, usize)>> = HashMap::new();
        let log = String::from_utf8_lossy(&fs::read(log).unwrap()).into_owned();
        for (address, one) in log.lines().filter_map(translated_line) {
            translated.entry(address).or_default().insert(one);
        }
        let trace = fs::read_to_string(out).unwrap();
        let found: Vec<_> = trace.lines().filter_map(executed_line).collect();
        assert!(found.len() > 5000 && found.iter().any(|(_, one)| one.0 == 'A'), "{name} {target:?}");
        for (address, one) in found {
            let expected = translated.get(&address);
            let is_right = expected.is_some_and(|expected| expected.contains(&one));
            assert!(is_right, "{name} {target:?}: {address:#x} is {one:x?}, not {expected:x?}");
        }
    }
}

/// `0x00010444:  e59f000c  ldr      r0, [pc, #0xc]`, `0x00010340:  f04f 0b00  mov.w    fp, #0`
fn translated_line(line: &str) -> Option<(u64, (char, u32, usize))> {
    let (address, rest) = line.strip_prefix("0x")?.split_once(":  ")?;
    let (units, _) = rest.split_once("  ")?;
    let digits = units.replace(' ', "");
    let set = if units.starts_with(&digits) && digits.len() == 8 { 'A' } else { 'T' };
    Some((u64::from_str_radix(address, 16).ok()?, (set, u32::from_str_radix(&digits, 16).ok()?, digits.len() / 2)))
}

/// `ES  (00010348:bc02)     T usr_ns:         pop {r1}`
fn executed_line(line: &str) -> Option<(u64, (char, u32, usize))> {
    let (address, rest) = line.trim_start().strip_prefix("ES  (")?.split_once(':')?;
    let (digits, rest) = rest.split_once(')')?;
    let set = rest.trim_start().chars().next()?;
    Some((u64::from_str_radix(address, 16).ok()?, (set, u32::from_str_radix(digits, 16).ok()?, digits.len() / 2)))
}

#[test]
fn accesses_that_the_emulator_does_not_report_are_dropped_by_kind() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "unreported") else { return };
    let out = dir.path().join("out.astf");
    let kinds = ["2 × prefetches, the first at 0x", "2 × operations on caches (DC, IC)", "1 × blocks zeroed (DC ZVA)"];
    record(&["-o", text(&out), "--from", "main"], &program, &[]).expect(0, &kinds);
    assert_clean(&out);
}

#[test]
fn from_skip_and_limit_select_a_part() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "sort") else { return };
    let recorded = |name: &str, options: &[&str]| -> Vec<u64> {
        let out = dir.path().join(name);
        record(&[&["-o", text(&out)], options].concat(), &program, &["20"]);
        fs::read_to_string(out).unwrap().lines().filter_map(address_of_line).collect()
    };
    let from = recorded("from.tarmac", &["--from", "main"]);
    let limited = recorded("limit.tarmac", &["--from", "main", "--limit", "300"]);
    let skipped = recorded("skip.tarmac", &["--from", "main", "--skip", "77", "--limit", "100"]);
    assert_eq!(limited, from[..300]);
    assert_eq!(skipped, from[77..177]);
    let address = format!("{:#x}", from[0]);
    assert_eq!(recorded("address.tarmac", &["--from", &address, "--limit", "5"]), from[..5]);
}

/// Blocks that a fault ends count with what was executed of them, and nothing after the limit is in the trace.
#[test]
fn a_limit_counts_complete_instructions() {
    for (target, extension) in [(Target::A64, "astf"), (Target::A32, "tarmac"), (Target::Riscv64, "stf")] {
        let dir = TempDir::new().unwrap();
        let Some(program) = built(dir.path(), "limit", target) else { return };
        let [whole, part, out] = ["whole", "part", "out"].map(|name| dir.path().join(format!("{name}.{extension}")));
        record(&["-o", text(&whole), "--from", "main"], &program, &[]).expect(0, &[]);
        // A turn of the last loop has fewer instructions.
        for limit in 2000..2010 {
            let (limit, count) = (limit.to_string(), format!("2,{:03} instructions", limit - 2000));
            let options = ["-o", text(&out), "--force", "--from", "main", "--limit", &limit];
            record(&options, &program, &[]).expect(0, &[&count]);
            if target != Target::A32 {
                assert_clean(&out);
            }
            unspool(&["slice", "--force", text(&whole), text(&part), "--limit", &limit]).expect(0, &[]);
            unspool(&["diff", text(&part), text(&out)]).expect(0, &[]);
        }
    }
}

/// The capture of the README equals a new recording of its program.
#[test]
fn the_example_equals_a_new_recording() {
    let example = example("hello-qemu");
    if tool("qemu-aarch64", "qemu-user").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out.astf");
    let run = record(&["-o", text(&out)], &example.join("hello"), &[]);
    assert_eq!(run.out, "hello, 5 ways\nhello, 1 ways\n");
    let equal = "instructions             133            133            0            0            0";
    unspool(&["diff", text(&example), text(&out)]).expect(0, &[]).shows(&[equal]);
}

#[test]
fn each_thread_has_a_trace() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "threads") else { return };
    let run = record(&["-o", text(&dir.path().join("out.astf"))], &program, &[]);
    assert_eq!(run.out, "288\n");
    for name in ["out.astf", "out.1.astf", "out.2.astf", "out.3.astf"] {
        assert_clean(&dir.path().join(name));
    }
    // The first is the main thread.
    let size = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len();
    assert!(size("out.astf") > size("out.1.astf"));
}

#[test]
fn many_threads_are_recorded() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "many") else { return };
    let run = record(&["-o", text(&dir.path().join("out.astf"))], &program, &[]);
    assert_eq!(run.out, format!("{}\n", 100 * 999 * 1000 / 2));
    assert_clean(&dir.path().join("out.astf"));
    for number in 1..=100 {
        let out = dir.path().join(format!("out.{number}.astf"));
        let counted = unspool(&["stats", text(&out)]).out;
        let writes = counted.split_once("bytes, ").and_then(|(_, rest)| rest.split_once(" writes")).unwrap().0;
        assert!(writes.replace(',', "").parse::<u32>().unwrap() >= 1000, "{number}: {counted}");
        assert_clean(&out);
    }
    assert!(!dir.path().join("out.101.astf").exists());
}

/// Forked processes do not change the recording.
#[test]
fn forked_processes_are_not_recorded() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "forks") else { return };
    let traces = ["0", "3"].map(|work| {
        let out = dir.path().join(format!("{work}.astf"));
        assert_eq!(record(&["-o", text(&out)], &program, &[work]).out, "19674\n");
        assert_clean(&out);
        out.display().to_string()
    });
    unspool(&["diff", &traces[0], &traces[1]]).expect(0, &[]);
}

#[test]
fn programs_of_riscv_become_stf() {
    let dir = TempDir::new().unwrap();
    let Some(program) = built(dir.path(), "calls", Target::Riscv64) else { return };
    let out = dir.path().join("out.stf");
    record(&["-o", text(&out)], &program, &[]);
    assert_clean(&out);
}

#[test]
fn an_interrupted_trace_is_complete_up_to_there() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "sort") else { return };
    for (name, end) in [("interrupted", interrupted as fn(&[&str]) -> Run), ("terminated", terminated)] {
        let out = dir.path().join(format!("{name}.astf"));
        let args = ["record", "--plugin", text(plugin()), "-o", text(&out), "--", text(&program), "100000000"];
        let run = end(&args);
        assert!(run.err.contains("killed by SIG"), "{name}: {run:?}");
        assert_clean(&out);
    }
}

#[test]
fn missing_tools_are_reported() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "sort") else { return };
    let program = text(&program);
    let plugin = text(plugin());
    let rows: &[(&[&str], &str)] = &[
        (&["--plugin", plugin, "--emulator", "qemu-nowhere", "--", program], "install the package qemu-user"),
        (&["--plugin", "/nowhere.so", "--", program], "/nowhere.so"),
        (&["--plugin", plugin, "--from", "missing", "--", program], "no function 'missing'"),
        (&["--plugin", plugin, "--", "/dev/null"], "not an ELF file"),
        (&["--plugin", plugin, "--", UNSPOOL], "is not AArch64, AArch32 or RISC-V"),
    ];
    for (args, expected) in rows {
        unspool(&[&["record"], *args].concat()).expect(2, &[expected]);
    }
}
