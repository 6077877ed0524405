//! Messages for the user, on standard error: errors, warnings and notes.
//!
//! Takes texts; prints one line each, with its severity in front, colored on a terminal. `--quiet` drops notes.

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};

/// Are notes dropped?
static IS_QUIET: AtomicBool = AtomicBool::new(false);

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

/// The command failed, or the trace has an error.
pub(crate) fn error(text: impl Display) {
    print(ERROR, "error", text);
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

fn print(style: Style, severity: &str, text: impl Display) {
    // With standard error closed, messages are dropped.
    let _ = writeln!(anstream::stderr(), "{style}{severity}:{style:#} {text}");
}
