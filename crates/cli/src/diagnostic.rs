//! Messages for the person at the terminal, on the error stream.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a message.
pub(crate) fn diagnostic(text: impl Display) {
    // A closed error stream leaves no place for messages.
    let _ = writeln!(io::stderr(), "unspool: {text}");
}
