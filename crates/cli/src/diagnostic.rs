//! Messages for the user, on standard error.

use std::fmt::Display;
use std::io::{self, Write};

pub(crate) fn diagnostic(text: impl Display) {
    // With standard error closed, messages are dropped.
    let _ = writeln!(io::stderr(), "unspool: {text}");
}
