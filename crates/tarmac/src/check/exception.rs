//! Checks of exceptions and asynchronous events against those that the specification lists.

use super::super::record::Exception;
use super::super::write::vectors::{AARCH32, AARCH64, EXTERNAL, M_PROFILE, Vector};
use super::findings::FindingSink;
use super::rules::RuleId;

const ASYNCHRONOUS: [&[u8]; 5] = [b"Reset", b"External Debug Event", b"IRQ", b"FIQ", b"System Error (Abort)"];
const BACKGROUND: &[u8] = b"Background Update";
const VIRTUAL: [&[u8]; 3] = [b"Virtual IRQ", b"Virtual FIQ", b"Virtual System Error (Virtual Abort)"];

/// Exceptions without a vector: entry to debug state, a reset as plug-ins print it, and a synchronous exception whose vector
/// a converter does not know.
const PLAIN: [&[u8]; 3] = [b"Debug Halt Mode Entry", b"Reset", b"Synchronous"];

pub(super) fn check_asynchronous(name: &[u8], is_rev3: bool, out: &mut FindingSink<'_>) {
    if is_rev3 && !ASYNCHRONOUS.contains(&name) && !VIRTUAL.contains(&name) && name != BACKGROUND {
        let shown = String::from_utf8_lossy(name);
        out.add_in(name, RuleId::AsynchronousName, format_args!("{shown} is not listed"));
    }
}

pub(super) fn check(exception: &Exception<'_>, is_rev3: bool, out: &mut FindingSink<'_>) {
    if !is_rev3 {
        return;
    }
    let name = exception.name;
    let shown = String::from_utf8_lossy(name);
    let Some(vector) = exception.vector else {
        if !PLAIN.contains(&name) {
            out.add_in(name, RuleId::ExceptionName, format_args!("{shown} has no vector"));
        }
        return;
    };
    // A number with 0x is an offset; without, it is an M-profile number. ThumbEE offsets are negative.
    let is_offset = vector < 0 || out.raw.windows(3).any(|word| word == b"[0x");
    let is_row = |row: &&Vector| row.value == vector;
    let mut rows = AARCH32.iter().chain(AARCH64).filter(|_| is_offset).chain(M_PROFILE.iter().filter(|_| !is_offset));
    let mut rows = rows.by_ref().filter(is_row).peekable();
    if !is_offset && vector >= 16 {
        if name != EXTERNAL.as_bytes() {
            out.add_in(name, RuleId::ExceptionName, format_args!("{vector} is an external interrupt, not {shown}"));
        }
    } else if rows.peek().is_none() {
        out.add(RuleId::ExceptionVector, format_args!("the vector {vector:#x} is not listed"));
    } else if !rows.any(|row| is_same(row.name.as_bytes(), name)) {
        out.add_in(name, RuleId::ExceptionName, format_args!("{shown} is not the name of vector {vector:#x}"));
    }
}

/// Whether two names are equal. The specification spells EL0 with the letter O.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let normalized = |byte: &u8| if *byte == b'O' { b'0' } else { *byte };
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| normalized(one) == normalized(other))
}
