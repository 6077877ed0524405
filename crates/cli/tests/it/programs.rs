//! Programs for tests: built by the cross compilers of Debian, and recorded by `unspool record`.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use unspool_testing::tool;

pub(crate) const UNSPOOL: &str = env!("CARGO_BIN_EXE_unspool");

/// What a program is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    A64,
    A32,
    T32,
    Riscv64,
}

impl Target {
    /// The compiler with its options, and the emulator.
    fn tools(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            Self::A64 => ("aarch64-linux-gnu-gcc", &[], "qemu-aarch64"),
            Self::A32 => ("arm-linux-gnueabihf-gcc", &["-marm"], "qemu-arm"),
            Self::T32 => ("arm-linux-gnueabihf-gcc", &["-mthumb"], "qemu-arm"),
            Self::Riscv64 => ("riscv64-linux-gnu-gcc", &[], "qemu-riscv64"),
        }
    }

    /// The package of Debian that has the C library to link with.
    fn library(self) -> &'static str {
        match self {
            Self::A64 => "libc6-dev-arm64-cross",
            Self::A32 | Self::T32 => "libc6-dev-armhf-cross",
            Self::Riscv64 => "libc6-dev-riscv64-cross",
        }
    }
}

/// The plugin, built once.
pub(crate) fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        let target = Path::new(UNSPOOL).parent().and_then(Path::parent).unwrap();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "-q", "-p", "unspool-plugin", "--target-dir"]).arg(target);
        assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        target.join("debug/libunspool_plugin.so")
    })
}

/// A program of this folder; `None`: it cannot be built or run here.
pub(crate) fn built(dir: &Path, name: &str, target: Target) -> Option<PathBuf> {
    built_with(dir, name, target, &["-pthread"])
}

/// One that needs no library.
pub(crate) fn built_alone(dir: &Path, name: &str, target: Target) -> Option<PathBuf> {
    let lone = ["-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-tree-loop-distribute-patterns", "-lgcc"];
    let options: &[&str] = if target == Target::A64 { &["-march=armv8.3-a"] } else { &[] };
    built_with(dir, name, target, &[&lone, options].concat())
}

fn built_with(dir: &Path, name: &str, target: Target, settings: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/programs/{name}.c"));
    let program = dir.join(name);
    let (compiler, options, emulator) = target.tools();
    let mut build = Command::new(compiler);
    build.args(options).args(["-O1", "-static", "-o"]).arg(&program).arg(source).args(settings);
    let package = compiler.strip_suffix("-gcc").map(|triple| format!("gcc-{triple}")).unwrap_or_default();
    tool(compiler, &format!("{package}, {}", target.library()))?;
    tool(emulator, "qemu-user")?;
    let done = build.output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    Some(program)
}

pub(crate) fn unspool(words: &[&str]) -> Output {
    // Whoever compares two runs wants both to see the same.
    Command::new(UNSPOOL).args(words).env("QEMU_RAND_SEED", "1").output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records, and gives back what the program said and what we said.
pub(crate) fn record(options: &[&str], program: &Path, arguments: &[&str]) -> (String, String) {
    let mut words = vec!["record", "--plugin", plugin().to_str().unwrap()];
    words.extend_from_slice(options);
    words.extend_from_slice(&["--", program.to_str().unwrap()]);
    words.extend_from_slice(arguments);
    let done = unspool(&words);
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    (text(&done.stdout), text(&done.stderr))
}

/// What comes of it if it is ended by Ctrl-C while it records.
pub(crate) fn interrupted(words: &[&str]) -> Output {
    // A terminal sends it to all that it has started.
    ended_by("-INT", "-", words)
}

/// What comes of it if it is told to end, and nobody else is.
pub(crate) fn terminated(words: &[&str]) -> Output {
    ended_by("-TERM", "", words)
}

fn ended_by(signal: &str, whom: &str, words: &[&str]) -> Output {
    let mut command = Command::new(UNSPOOL);
    command.args(words).process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    thread::sleep(Duration::from_secs(3));
    let whom = format!("{whom}{}", child.id());
    assert!(Command::new("kill").args([signal, "--", &whom]).status().unwrap().success());
    child.wait_with_output().unwrap()
}
