//! Programs for tests, built by the cross compilers of Debian and recorded by `unspool record`.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use unspool_testing::tool;

use crate::run::{Run, UNSPOOL, send_signal, text, with_signals};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    A64,
    A32,
    T32,
    Riscv64,
}

impl Target {
    /// Compiler, its options, and the emulator.
    fn tools(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            Self::A64 => ("aarch64-linux-gnu-gcc", &[], "qemu-aarch64"),
            Self::A32 => ("arm-linux-gnueabihf-gcc", &["-marm"], "qemu-arm"),
            Self::T32 => ("arm-linux-gnueabihf-gcc", &["-mthumb"], "qemu-arm"),
            Self::Riscv64 => ("riscv64-linux-gnu-gcc", &[], "qemu-riscv64"),
        }
    }

    /// Debian package of the C library.
    fn library(self) -> &'static str {
        match self {
            Self::A64 => "libc6-dev-arm64-cross",
            Self::A32 | Self::T32 => "libc6-dev-armhf-cross",
            Self::Riscv64 => "libc6-dev-riscv64-cross",
        }
    }
}

/// The plugin that is inside the binary.
pub(crate) fn plugin() -> &'static Path {
    Path::new(concat!(env!("OUT_DIR"), "/libunspool_plugin.so"))
}

/// Builds a program of this folder; `None`: it cannot be built or run here.
pub(crate) fn built(dir: &Path, name: &str, target: Target) -> Option<PathBuf> {
    built_with(dir, name, target, &["-pthread"])
}

/// Builds the program that counts its own calls. A tail call is no call that a trace shows.
pub(crate) fn built_counted(dir: &Path, target: Target) -> Option<PathBuf> {
    built_with(dir, "counted", target, &["-finstrument-functions", "-fno-optimize-sibling-calls", "-fno-inline"])
}

/// Builds a program without optimization and with debug information.
pub(crate) fn built_for_debugging(dir: &Path, name: &str, target: Target) -> Option<PathBuf> {
    built_with(dir, name, target, &["-O0", "-g"])
}

/// Builds a program with optimization, inlined calls and debug information.
pub(crate) fn built_optimized(dir: &Path, name: &str, target: Target) -> Option<PathBuf> {
    built_with(dir, name, target, &["-O2", "-g"])
}

/// Builds a program that needs no library.
pub(crate) fn built_alone(dir: &Path, name: &str, target: Target) -> Option<PathBuf> {
    let lone = ["-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-tree-loop-distribute-patterns", "-lgcc"];
    let options: &[&str] = if target == Target::A64 { &["-march=armv8.3-a"] } else { &[] };
    built_with(dir, name, target, &[&lone, options].concat())
}

/// Builds a program in assembly, with this option of the preprocessor.
pub(crate) fn built_assembly(dir: &Path, name: &str, target: Target, option: &str) -> Option<PathBuf> {
    built_from(dir, &format!("{name}.S"), target, &["-nostdlib", option])
}

fn built_with(dir: &Path, name: &str, target: Target, settings: &[&str]) -> Option<PathBuf> {
    built_from(dir, &format!("{name}.c"), target, settings)
}

fn built_from(dir: &Path, file: &str, target: Target, settings: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/programs").join(file);
    let name = Path::new(file).file_stem()?;
    let program = dir.join(name);
    let (compiler, options, emulator) = target.tools();
    let mut build = Command::new(compiler);
    build.args(options).args(["-O1", "-static", "-o"]).arg(&program).arg(source).args(settings);
    let package = compiler.strip_suffix("-gcc").map(|triple| format!("gcc-{triple}")).unwrap_or_default();
    tool(compiler, &format!("{package}, {}", target.library()))?;
    tool(emulator, "qemu-user")?;
    Run::from(build.output().unwrap()).expect(0, &[]);
    Some(program)
}

/// Runs `unspool` without a time limit; emulated programs see the same random numbers each time.
pub(crate) fn unspool(args: &[&str]) -> Run {
    Command::new(UNSPOOL).args(args).env("QEMU_RAND_SEED", "1").output().unwrap().into()
}

/// Records a program that ends by itself.
#[track_caller]
pub(crate) fn record(options: &[&str], program: &Path, arguments: &[&str]) -> Run {
    let head = ["record", "--plugin", text(plugin())];
    let run = unspool(&[&head, options, &["--", text(program)], arguments].concat());
    let code = run.err.split_once("ended with exit code ").and_then(|(_, rest)| rest.lines().next()?.parse().ok());
    assert_eq!(code, Some(run.code), "the exit code is that of the program: {run:#?}");
    run
}

#[track_caller]
pub(crate) fn assert_clean(trace: &Path) {
    unspool(&["check", text(trace)]).expect(0, &[]);
}

/// Encodes a trace as ETMv3 with data, and compares facets of what is decoded. Each has to be in both.
#[track_caller]
pub(crate) fn assert_data_comes_back(trace: &Path, options: &[&str], facets: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("capture");
    let head = ["encode", text(trace), "-o", text(&capture), "--protocol", "etm3", "--data"];
    unspool(&[&head, options].concat()).expect(0, &[]);
    let summary = unspool(&["diff", "--json", text(&capture), text(trace)]).expect(0, &[]).json_summary();
    for name in facets {
        let facet = summary["facets"].as_array().unwrap().iter().find(|facet| facet["facet"] == *name).unwrap();
        let is_equal = facet["compared"].as_u64().unwrap() > 1000 && facet["compared"] == facet["equal"];
        assert!(is_equal && facet["only_a"] == 0 && facet["only_b"] == 0, "{options:?}: {facet}");
    }
}

/// Interrupts a run by Ctrl-C, which a terminal sends to the whole process group.
pub(crate) fn interrupted(args: &[&str]) -> Run {
    ended_by("-INT", "-", args)
}

/// Terminates the process of `unspool` alone.
pub(crate) fn terminated(args: &[&str]) -> Run {
    ended_by("-TERM", "", args)
}

/// Sends the signal of Ctrl-C to the process of `unspool` alone.
pub(crate) fn interrupted_alone(args: &[&str]) -> Run {
    ended_by("-INT", "", args)
}

fn bytes_in(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn ended_by(signal: &str, prefix: &str, args: &[&str]) -> Run {
    let mut command = with_signals();
    command.args(args).process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = args.iter().skip_while(|arg| **arg != "-o").nth(1).map(Path::new);
    let directory = output.and_then(Path::parent).unwrap();
    let enough = bytes_in(directory) + (16 << 20);
    let child = command.spawn().unwrap();
    // Every second of a recording makes millions of instructions, which have to be checked.
    let start = Instant::now();
    while bytes_in(directory) < enough && start.elapsed() < Duration::from_secs(3) {
        thread::sleep(Duration::from_millis(20));
    }
    let target = child.id() as i32;
    send_signal(signal, if prefix == "-" { -target } else { target });
    child.wait_with_output().unwrap().into()
}
