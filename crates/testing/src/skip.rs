//! Skipped tests, and what tests are skipped for: the corpus and external tools.
//!
//! Lines go straight to the standard error stream: the test harness captures what `eprintln!` prints and drops it
//! when a test passes.

use std::env;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Writes one line to the standard error stream, past the capture of the test harness.
pub fn note(line: impl Display) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Reports that the current test cannot run here, and why. The caller returns.
///
/// The line has a running count per test binary, so that the last one of each crate has the total.
///
/// # Panics
///
/// Under `UNSPOOL_STRICT=1`.
#[track_caller]
pub fn skip(reason: impl Display) {
    assert!(!is_strict(), "cannot run, and UNSPOOL_STRICT is set: {reason}");
    report(reason);
}

fn is_strict() -> bool {
    env::var_os("UNSPOOL_STRICT").is_some_and(|value| !value.is_empty() && value != "0")
}

fn report(reason: impl Display) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let current = thread::current();
    note(format_args!("SKIPPED {count} in {package}: {}: {reason}", current.name().unwrap_or("a test")));
}

/// A folder of the corpus of real captures and traces, which `UNSPOOL_CORPUS` names; `None`: skipped.
///
/// `UNSPOOL_CORPUS=none` states that there is no corpus, which strict mode accepts.
#[track_caller]
#[must_use]
pub fn corpus(folder: &str) -> Option<PathBuf> {
    let Some(root) = env::var_os("UNSPOOL_CORPUS") else {
        skip("UNSPOOL_CORPUS is not set");
        return None;
    };
    if root == "none" {
        report("UNSPOOL_CORPUS is none");
        return None;
    }
    let path = PathBuf::from(root).join(folder);
    assert!(path.is_dir(), "UNSPOOL_CORPUS names no folder with {folder}/: {} does not exist", path.display());
    Some(path)
}

/// The path of an external program, looked up in `PATH`; `None`: skipped. `package` is the one of Debian that has it.
#[track_caller]
#[must_use]
pub fn tool(name: &str, package: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        skip(format_args!("{name} is not installed (Debian: {package})"));
    }
    found
}
