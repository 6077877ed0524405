//! `record --registers`: register writes and data, compared with the log of QEMU.
//!
//! The programs do the same in each run. QEMU logs all registers before each instruction (`-d cpu`, in blocks of one), and
//! those of the trace must be equal. That needs QEMU 9.2 or later in user mode with plugins, which no package has:
//! `UNSPOOL_USER_EMULATOR` names its qemu-aarch64, beside qemu-arm and qemu-riscv64; `.ci/tools` builds them. Without it a
//! test is skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tempfile::TempDir;
use unspool::isa::{Operation, access};
use unspool::model::{Access, Direction, Event, Instruction, StepSource as _};
use unspool::{OpenSteps, open_steps};
use unspool_testing::skip;

use crate::programs::{Target, assert_clean, assert_data_comes_back, built, built_alone, plugin, unspool};
use crate::run::{Run, UNSPOOL, text};

/// Emulator that reports registers, if there is one.
fn emulator(name: &str) -> Option<PathBuf> {
    let Some(given) = env::var_os("UNSPOOL_USER_EMULATOR") else {
        skip("UNSPOOL_USER_EMULATOR names no qemu-aarch64 9.2 or newer with plugins");
        return None;
    };
    let beside = Path::new(&given).with_file_name(name);
    assert!(beside.is_file(), "{} is not there", beside.display());
    Some(beside)
}

/// Command with reproducible addresses.
fn command(program: impl AsRef<std::ffi::OsStr>, target: Target) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default()).env("QEMU_RAND_SEED", "1");
    if matches!(target, Target::A64 | Target::Riscv64) {
        command.env("QEMU_RESERVED_VA", "0xf0000000");
    }
    command
}

fn record(emulator: &Path, target: Target, options: &[&str], out: &Path, program: &Path) -> Run {
    let mut command = command(UNSPOOL, target);
    command.args(["record", "--plugin"]).arg(plugin()).arg("--emulator").arg(emulator).args(options);
    command.arg("-o").arg(out).arg("--").arg(program).output().unwrap().into()
}

/// Registers by name: value, and known bits.
type Registers = BTreeMap<String, (u128, u128)>;

/// Address of each instruction of a trace, and the registers before it.
fn registers_of_trace(trace: &Path) -> Vec<(u64, Registers)> {
    let mut source = open_steps(trace, &OpenSteps::default()).unwrap();
    let (mut registers, mut all) = (Registers::new(), Vec::new());
    let read = source.each(&mut |step| {
        if let Event::Instruction(instruction) = &step.event {
            all.push((instruction.address, registers.clone()));
        }
        for write in step.registers() {
            let number = |part: fn(&(u8, u8)) -> u8| {
                write.bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(part(byte)))
            };
            registers.insert(name_of(write.name).into(), (number(|byte| byte.0), number(|byte| byte.1)));
        }
        ControlFlow::Continue(())
    });
    read.unwrap();
    all
}

/// Name without the mode, which logs may contain.
fn name_of(name: &str) -> &str {
    match name.split_once('_').map_or(name, |(name, _)| name) {
        "lr" => "r14",
        "r13" => "sp",
        name => name,
    }
}

/// Registers that QEMU logs before each instruction, without `unspool`.
fn registers_of_log(emulator: &Path, target: Target, log: &Path, program: &Path) -> Vec<BTreeMap<String, u128>> {
    let mut alone = command(emulator, target);
    if target == Target::A64 {
        alone.args(["-cpu", "max,sve=off,sme=off"]);
    }
    alone.args(["-one-insn-per-tb", "-d", "cpu,fpu,nochain", "-D"]).arg(log).arg(program).output().unwrap();
    let mut all: Vec<BTreeMap<String, u128>> = Vec::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        if line.starts_with(" PC=") || line.starts_with(" pc ") || line.starts_with("R00=") {
            all.push(BTreeMap::new());
        }
        let Some(registers) = all.last_mut() else { continue };
        registers.extend(logged(target, line));
    }
    all
}

/// `X00=0000000000000000 X01=..`, `Q00=0000000000000000:0000000000000000`, `PSTATE=60000000 -ZC-`, `R00=00000000`,
/// `s00=00000000 s01=00000000 d00=0000000000000000`, ` x1/ra 0000000000010564`, ` f0/ft0 0000000000000000`.
fn logged(target: Target, line: &str) -> Vec<(String, u128)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if target == Target::Riscv64 {
        let pairs = words.chunks(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)));
        let named = pairs.map(|(name, value)| (name.split_once('/').map_or(name, |(name, _)| name), value));
        return named.filter_map(|(name, value)| Some((name.into(), hex(value)?))).collect();
    }
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    pairs
        .filter_map(|(name, value)| {
            let letter = name.get(..1)?;
            let number = name.get(1..)?.parse::<u8>();
            let name = match (name, letter, number) {
                ("PC", ..) | (_, "R", Ok(15)) => "pc".into(),
                ("SP", ..) => "sp".into(),
                ("PSTATE" | "PSR", ..) => "cpsr".into(),
                (_, "X", Ok(number)) => format!("x{number}"),
                (_, "Q", Ok(number)) => format!("v{number}"),
                (_, "R", Ok(13)) => "sp".into(),
                (_, "R", Ok(number)) => format!("r{number}"),
                (_, "d", Ok(number)) => format!("d{number}"),
                _ => return None,
            };
            Some((name, hex(&value.replace(':', ""))?))
        })
        .collect()
}

fn hex(digits: &str) -> Option<u128> {
    u128::from_str_radix(digits, 16).ok()
}

/// BTYPE, which an indirect branch sets for one instruction and which is not recorded.
const BRANCH_TYPE: u128 = 0xc00;

#[test]
fn registers_are_those_of_the_log_of_the_emulator() {
    let rows = [
        (Target::A64, "qemu-aarch64", "out.tarmac", 65),
        (Target::A64, "qemu-aarch64", "out.stf", 65),
        (Target::A32, "qemu-arm", "out.tarmac", 48),
        (Target::T32, "qemu-arm", "out.tarmac", 48),
        (Target::Riscv64, "qemu-riscv64", "out.stf", 63),
    ];
    for (target, name, out, count) in rows {
        let Some(emulator) = emulator(name) else { return };
        let dir = TempDir::new().unwrap();
        let Some(program) = built_alone(dir.path(), "values", target) else { return };
        let out = dir.path().join(out);
        record(&emulator, target, &["--registers"], &out, &program).expect(42, &["exit code 42"]);
        let expected = registers_of_log(&emulator, target, &dir.path().join("log"), &program);
        let found = registers_of_trace(&out);
        assert!(found.len() > 5000 && found.len() == expected.len(), "{target:?}: {} {}", found.len(), expected.len());
        let mut compared = 0;
        for (index, ((address, found), expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(expected.get("pc"), Some(&u128::from(*address)), "{target:?} {index}");
            for (name, expected) in expected {
                let Some((value, known)) = found.get(name) else { continue };
                let known = if target == Target::A64 && name == "cpsr" { known & !BRANCH_TYPE } else { *known };
                let is_equal = (value ^ expected) & known == 0;
                assert!(is_equal, "{target:?} {index} {address:#x}: {name} is {value:#x}, not {expected:#x}");
                compared += 1;
            }
        }
        // All registers, before each instruction.
        assert_eq!(compared, found.len() * count, "{target:?}");
    }
}

#[test]
fn data_is_read_as_it_was_written() {
    let rows = [
        (Target::A64, "qemu-aarch64", "out.tarmac"),
        (Target::T32, "qemu-arm", "out.tarmac"),
        (Target::Riscv64, "qemu-riscv64", "out.stf"),
    ];
    for (target, name, out) in rows {
        let Some(emulator) = emulator(name) else { return };
        let dir = TempDir::new().unwrap();
        let Some(program) = built_alone(dir.path(), "values", target) else { return };
        let out = dir.path().join(out);
        record(&emulator, target, &[], &out, &program).expect(42, &[]);
        let (mut memory, mut compared) = (BTreeMap::new(), 0);
        let mut source = open_steps(&out, &OpenSteps::default()).unwrap();
        let read = source.each(&mut |step| {
            assert_eq!(step.registers().len(), 0, "{target:?}: registers without --registers");
            for access in step.accesses() {
                let bytes = (access.address..).zip(access.bytes);
                for (address, (byte, known)) in bytes.filter(|(_, (_, known))| *known == 0xff) {
                    let before = memory.insert(address, *byte);
                    let is_equal = access.direction == Direction::Write || before.is_none_or(|before| before == *byte);
                    assert!(is_equal, "{target:?}: {address:#x} is {byte:#x}, not {before:x?} ({known})");
                    compared += usize::from(before.is_some() && access.direction == Direction::Read);
                }
                // A write without data makes memory unknown.
                if access.direction != Direction::Read && access.bytes.is_empty() {
                    memory.retain(|address, _| !(access.address..access.address + access.size).contains(address));
                }
            }
            // STF has no access without data: what such an instruction wrote is unknown.
            let is_read = |access: Access<'_>| access.direction == Direction::Read;
            if step.accesses().all(is_read) && step.event.instruction().is_some_and(may_write) {
                memory.clear();
            }
            ControlFlow::Continue(())
        });
        read.unwrap();
        assert!(compared > 2000, "{target:?}: {compared}");
    }
}

/// With the code of the C library, whose copies use vectors.
#[test]
fn data_comes_back_from_the_data_trace_of_an_etmv3() {
    for (name, target) in [("sort", Target::A32), ("json", Target::T32)] {
        let Some(emulator) = emulator("qemu-arm") else { return };
        let dir = TempDir::new().unwrap();
        let Some(program) = built(dir.path(), name, target) else { return };
        let out = dir.path().join("out.tarmac");
        record(&emulator, target, &["--limit", "40000"], &out, &program);
        for options in [&[][..], &["--cycle-counts"]] {
            assert_data_comes_back(&out, options, &["instructions", "accesses", "data"]);
        }
    }
}

fn may_write(instruction: &Instruction) -> bool {
    let operation = instruction.opcode.map(|opcode| access(instruction.isa, opcode).operation);
    matches!(operation, Some(Operation::Store | Operation::LoadStore))
}

/// BL writes the address after itself, on each thread.
#[test]
fn threads_have_registers_of_their_own() {
    let Some(emulator) = emulator("qemu-aarch64") else { return };
    let dir = TempDir::new().unwrap();
    let Some(program) = built(dir.path(), "threads", Target::A64) else { return };
    let out = dir.path().join("out.tarmac");
    record(&emulator, Target::A64, &["--registers"], &out, &program).expect(0, &[]);
    let mut calls: BTreeMap<u32, usize> = BTreeMap::new();
    let mut source = open_steps(&out, &OpenSteps::default()).unwrap();
    let read = source.each(&mut |step| {
        let Event::Instruction(instruction) = &step.event else { return ControlFlow::Continue(()) };
        if instruction.opcode.is_some_and(|opcode| opcode >> 26 == 0b100101) {
            let link: Vec<u8> = step.registers().flat_map(|write| write.bytes.iter().map(|byte| byte.0)).collect();
            assert_eq!(link, (instruction.address + 4).to_le_bytes(), "core {} {:#x}", step.core, instruction.address);
            *calls.entry(step.core).or_default() += 1;
        }
        ControlFlow::Continue(())
    });
    read.unwrap();
    assert!(calls.len() > 1 && calls.values().all(|count| *count > 10), "{calls:?}");
}

#[test]
fn registers_survive_other_formats() {
    let Some(emulator) = emulator("qemu-aarch64") else { return };
    let dir = TempDir::new().unwrap();
    let Some(program) = built_alone(dir.path(), "values", Target::A64) else { return };
    let [log, trace] = ["out.tarmac", "out.stf"].map(|name| dir.path().join(name));
    record(&emulator, Target::A64, &["--registers"], &log, &program).expect(42, &[]);
    // Accesses without data are lost, and counted.
    unspool(&["convert", text(&log), text(&trace)]).expect(0, &["accesses to memory"]);
    unspool(&["diff", text(&log), text(&trace), "--ignore", "accesses,data"]).expect(0, &[]);
    assert_clean(&trace);
}

/// QEMU of Debian 12 does not report registers, which is an error before the program runs.
#[test]
fn an_emulator_that_does_not_report_registers_is_rejected() {
    let dir = TempDir::new().unwrap();
    let Some(program) = built_alone(dir.path(), "values", Target::A64) else { return };
    let version = Command::new("qemu-aarch64").arg("--version").output().unwrap();
    if !String::from_utf8_lossy(&version.stdout).contains("version 7.") {
        skip("qemu-aarch64 is newer than 7.2, the version of Debian 12 (Debian 12: qemu-user)");
        return;
    }
    let out = dir.path().join("out.tarmac");
    let run = record(Path::new("qemu-aarch64"), Target::A64, &["--registers"], &out, &program);
    let run = run.expect(2, &["need QEMU 9.0 or later with plugins"]);
    assert!(!run.err.contains("exit code") && !out.exists());
}

#[test]
fn astf_has_no_registers() {
    let dir = TempDir::new().unwrap();
    let Some(program) = built_alone(dir.path(), "values", Target::A64) else { return };
    let out = dir.path().join("out.astf");
    let run = record(Path::new("qemu-aarch64"), Target::A64, &["--registers"], &out, &program);
    run.expect(2, &["--registers needs Tarmac or STF"]);
}
