//! Names of addresses, as they are printed.

use std::sync::atomic::{AtomicBool, Ordering};

use unspool::demangle;

/// Set by `--no-demangle`.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// Prints names as they are in the symbol table from now on.
pub(crate) fn keep_mangled() {
    IS_RAW.store(true, Ordering::Relaxed);
}

/// Symbol with the offset from its start: `square+0x4`. Names of C++ and Rust are those of the source.
pub(crate) fn symbol_text((name, offset): (&str, u64)) -> String {
    let is_raw = IS_RAW.load(Ordering::Relaxed);
    let name = Some(name).filter(|_| !is_raw).and_then(demangle).unwrap_or_else(|| name.to_string());
    if offset == 0 { name } else { format!("{name}+{offset:#x}") }
}

/// Text without control characters: names come from files, and a terminal would interpret them.
pub(crate) fn printable(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}
