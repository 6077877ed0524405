//! Words and numbers of listings.

use std::fmt::Write as _;

use unspool::model::Direction;

/// Bytes as a number, the highest first; unknown digits are '?'.
pub(crate) fn known_digits(bytes: &[(u8, u8)]) -> String {
    let mut text = String::from("0x");
    for (byte, mask) in bytes.iter().rev() {
        for (shift, digit) in [(4, byte >> 4), (0, byte & 15)] {
            // Writing into a string cannot fail.
            let _ = if mask >> shift & 15 == 15 { write!(text, "{digit:x}") } else { write!(text, "?") };
        }
    }
    text
}

/// The direction of an access, in a column.
pub(crate) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "r",
        Direction::Write => "w",
        Direction::Both => "rw",
        Direction::Neither => "-",
    }
}
