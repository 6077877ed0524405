//! `record`: real programs, run under QEMU, and what the traces of them say.
//!
//! Comes in: small programs in C, built with the cross compilers of Debian. Where a compiler or the emulator is missing,
//! a test says so and does nothing.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

const UNSPOOL: &str = env!("CARGO_BIN_EXE_unspool");

/// The plugin, built once.
fn plugin() -> &'static Path {
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

/// A program for this machine; `None`: it cannot be built or run here.
fn built(dir: &TempDir, name: &str, triple: &str, emulator: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let program = dir.path().join(name);
    let compiler = format!("{triple}-gcc");
    let done = Command::new(&compiler).args(["-O1", "-static", "-pthread", "-o"]).arg(&program).arg(source).output();
    let has_emulator = Command::new(emulator).arg("--version").output().is_ok();
    match done {
        Ok(done) if has_emulator => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            Some(program)
        }
        _ => {
            eprintln!("skipped: {compiler} or {emulator} is not installed");
            None
        }
    }
}

fn a64(dir: &TempDir, name: &str) -> Option<PathBuf> {
    built(dir, name, "aarch64-linux-gnu", "qemu-aarch64")
}

fn unspool(words: &[&str]) -> Output {
    // Whoever compares two runs wants both to see the same.
    Command::new(UNSPOOL).args(words).env("QEMU_RAND_SEED", "1").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records, and gives back what the program said and what we said.
fn record(options: &[&str], program: &Path, arguments: &[&str]) -> (String, String) {
    let mut words = vec!["record", "--plugin", plugin().to_str().unwrap()];
    words.extend_from_slice(options);
    words.extend_from_slice(&["--", program.to_str().unwrap()]);
    words.extend_from_slice(arguments);
    let done = unspool(&words);
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    (text(&done.stdout), text(&done.stderr))
}

fn assert_clean(trace: &Path) {
    let done = unspool(&["check", trace.to_str().unwrap()]);
    assert!(done.status.success(), "{}: {}{}", trace.display(), text(&done.stdout), text(&done.stderr));
}

#[test]
fn programs_of_aarch64_become_astf_that_passes_the_check() {
    let rows = [("sort", "sorted 200\n", 7), ("calls", "1138 0\n", 0), ("signals", "102\n", 0)];
    for (name, says, code) in rows {
        let dir = TempDir::new().unwrap();
        let Some(program) = a64(&dir, name) else { return };
        let out = dir.path().join("out.astf");
        let (said, told) = record(&["-o", out.to_str().unwrap()], &program, &[]);
        assert_eq!(said.lines().count(), says.lines().count(), "{name}: {said}");
        if name != "calls" {
            assert_eq!(said, says, "{name}");
        }
        assert!(told.contains(&format!("ended with exit code {code}")), "{name}: {told}");
        assert_clean(&out);
    }
}

#[test]
fn addresses_are_those_of_the_log_of_the_emulator() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "sort") else { return };
    let (out, log) = (dir.path().join("out.tarmac"), dir.path().join("log"));
    record(&["-o", out.to_str().unwrap()], &program, &["20"]);
    let settings = ["-L", "/usr/aarch64-linux-gnu", "-cpu", "max,sve-default-vector-length=64", "-singlestep"];
    let mut alone = Command::new("qemu-aarch64");
    alone.args(settings).args(["-d", "exec,nochain", "-D"]).arg(&log).arg(&program).arg("20");
    alone.env("QEMU_RAND_SEED", "1").output().unwrap();
    let log = fs::read_to_string(log).unwrap();
    let expected: Vec<u64> = log.lines().filter(|line| line.starts_with("Trace")).map(address_of_log).collect();
    let trace = fs::read_to_string(out).unwrap();
    let found: Vec<u64> = trace.lines().filter_map(address_of_line).collect();
    assert!(found.len() > 5000);
    let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!((differs, found.len()), (None, expected.len()));
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

#[test]
fn a_part_is_recorded() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "sort") else { return };
    let recorded = |name: &str, options: &[&str]| -> Vec<u64> {
        let out = dir.path().join(name);
        record(&[&["-o", out.to_str().unwrap()], options].concat(), &program, &["20"]);
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

#[test]
fn threads_are_traces_of_their_own() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "threads") else { return };
    let (said, _) = record(&["-o", dir.path().join("out.astf").to_str().unwrap()], &program, &[]);
    assert_eq!(said, "288\n");
    for name in ["out.astf", "out.1.astf", "out.2.astf", "out.3.astf"] {
        assert_clean(&dir.path().join(name));
    }
    // The first is the one that the program starts with.
    let size = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len();
    assert!(size("out.astf") > size("out.1.astf"));
}

#[test]
fn programs_of_riscv_become_stf() {
    let dir = TempDir::new().unwrap();
    let Some(program) = built(&dir, "calls", "riscv64-linux-gnu", "qemu-riscv64") else { return };
    let out = dir.path().join("out.stf");
    record(&["-o", out.to_str().unwrap()], &program, &[]);
    assert_clean(&out);
}

#[test]
fn what_is_missing_is_told() {
    let dir = TempDir::new().unwrap();
    let Some(program) = a64(&dir, "sort") else { return };
    let program = program.to_str().unwrap();
    let plugin = plugin().to_str().unwrap();
    let rows: &[(&[&str], &str)] = &[
        (&["--plugin", plugin, "--emulator", "qemu-nowhere", "--", program], "install the package qemu-user"),
        (&["--plugin", "/nowhere.so", "--", program], "/nowhere.so"),
        (&["--plugin", plugin, "--from", "nobody", "--", program], "there is no function 'nobody'"),
        (&["--plugin", plugin, "--", "/dev/null"], "it is no ELF file"),
        (&["--plugin", plugin, "--", UNSPOOL], "is none of AArch64, AArch32 and RISC-V"),
    ];
    for (words, expected) in rows {
        let done = unspool(&[&["record"], *words].concat());
        assert_eq!(done.status.code(), Some(2), "{words:?}");
        assert!(text(&done.stderr).contains(expected), "{words:?}: {}", text(&done.stderr));
    }
}
