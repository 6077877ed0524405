//! Messages for the user, on standard error: errors, warnings and notes.
//!
//! Takes texts; prints one line each, with its severity in front, colored on a terminal. `--quiet` drops notes, and
//! `--verbose` adds details. While a pager has the terminal, messages wait for its end.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anstyle::{AnsiColor, Style};

/// Are notes dropped?
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Are details printed?
static IS_VERBOSE: AtomicBool = AtomicBool::new(false);

/// Are all messages dropped?
static IS_MUTED: AtomicBool = AtomicBool::new(false);

/// Messages that wait; `None`: they are printed at once.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Errors that are printed once.
static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();

/// Drops notes from now on.
pub(crate) fn set_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

pub(crate) fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Prints details from now on.
pub(crate) fn set_verbose() {
    IS_VERBOSE.store(true, Ordering::Relaxed);
}

pub(crate) fn is_verbose() -> bool {
    IS_VERBOSE.load(Ordering::Relaxed)
}

/// The command failed, or the trace has an error.
pub(crate) fn error(text: impl Display) {
    print(ERROR, "error", text);
}

/// An error that several sources may have in common: printed once.
pub(crate) fn error_once(text: String) {
    let is_new = PRINTED.lock().map_or(true, |mut printed| printed.insert(text.clone()));
    if is_new {
        error(text);
    }
}

/// The result is affected: something is lost, missing or assumed.
pub(crate) fn warning(text: impl Display) {
    print(WARNING, "warning", text);
}

/// Information, such as what was written.
pub(crate) fn note(text: impl Display) {
    if !is_quiet() {
        print(NOTE, "note", text);
    }
}

/// Detail that only `--verbose` shows.
pub(crate) fn detail(text: impl Display) {
    if is_verbose() {
        note(text);
    }
}

/// With `--verbose`: the time that a stage of the work took, when it ends.
pub(crate) struct Stage {
    name: &'static str,
    start: Instant,
}

impl Stage {
    pub(crate) fn start(name: &'static str) -> Self {
        Self { name, start: Instant::now() }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        detail(format_args!("{} took {:.3} s", self.name, self.start.elapsed().as_secs_f64()));
    }
}

/// Drops messages as long as it exists.
pub(crate) struct Muted(());

/// Drops messages: for a second reading of a trace, whose messages were printed.
pub(crate) fn mute() -> Muted {
    IS_MUTED.store(true, Ordering::Relaxed);
    Muted(())
}

impl Drop for Muted {
    fn drop(&mut self) {
        IS_MUTED.store(false, Ordering::Relaxed);
    }
}

/// Keeps messages back until [`release`].
pub(crate) fn hold() {
    if let Ok(mut held) = HELD.lock() {
        held.get_or_insert_default();
    }
}

/// Prints the messages that were kept back.
pub(crate) fn release() {
    let held = HELD.lock().ok().and_then(|mut held| held.take());
    held.into_iter().flatten().for_each(|line| print_line(&line));
}

fn print(style: Style, severity: &str, text: impl Display) {
    if IS_MUTED.load(Ordering::Relaxed) {
        return;
    }
    let line = format!("{style}{severity}:{style:#} {text}\n");
    match HELD.lock() {
        Ok(mut held) if held.is_some() => held.iter_mut().for_each(|held| held.push(line.clone())),
        _ => print_line(&line),
    }
}

fn print_line(line: &str) {
    // With standard error closed, messages are dropped.
    let _ = anstream::stderr().write_all(line.as_bytes());
}
