//! Data and flags, which nearly all packets are: one path for each shape instead of one step for each nibble.
//!
//! Takes nibbles with many after them, whose payloads start with the most significant nibble. Emits what `parse.rs` would,
//! or nothing for another packet. Programs write the same sequences again and again, so that the processor predicts the
//! shapes: with all lengths as constants it reads the next packets before this one is done. Only the length of a timestamp
//! has to be waited for.

use super::nibbles::{reverse, sixteen};
use super::packet::{Body, Timestamp};

/// The bytes from the one with the first nibble of a packet on: more than any packet has.
pub(super) type Window = [u8; 32];

/// Consumer of the packet. A closure would not always be inlined.
pub(super) trait Emit {
    /// Takes the content of the packet, and the number of its nibbles.
    fn emit(&mut self, body: Body, nibbles: usize);
}

/// Emits the packet at nibble 0 or 1 of the window. Returns the number of its nibbles; zero: it is another packet, or
/// malformed. Not for timestamps of the legacy format.
#[inline(always)]
pub(super) fn frequent(window: &Window, first: usize, to: &mut impl Emit) -> usize {
    let word = word(window, first);
    match word & 0xf {
        0xf => with_opcode::<2>(window, first, word, to),
        _ => with_opcode::<1>(window, first, word, to),
    }
}

/// A packet with an opcode of this number of nibbles, of which the last one shows the shape.
#[inline(always)]
fn with_opcode<const OPCODE: usize>(window: &Window, first: usize, word: u64, to: &mut impl Emit) -> usize {
    match word >> (4 * (OPCODE - 1)) & 0xf {
        4 => data::<OPCODE, 2, false>(window, first, word, to),
        5 => data::<OPCODE, 4, false>(window, first, word, to),
        6 => data::<OPCODE, 8, false>(window, first, word, to),
        7 => data::<OPCODE, 16, false>(window, first, word, to),
        8 => data::<OPCODE, 2, true>(window, first, word, to),
        9 => data::<OPCODE, 4, true>(window, first, word, to),
        10 => data::<OPCODE, 8, true>(window, first, word, to),
        11 => data::<OPCODE, 16, true>(window, first, word, to),
        12 => data::<OPCODE, 1, false>(window, first, word, to),
        13 => data::<OPCODE, 1, true>(window, first, word, to),
        14 => timed(OPCODE == 1, window, first, OPCODE, Body::Flag, to),
        _ => 0,
    }
}

#[inline(always)]
fn data<const OPCODE: usize, const NIBBLES: usize, const MARKED: bool>(
    window: &Window,
    first: usize,
    word: u64,
    to: &mut impl Emit,
) -> usize {
    let payload = if NIBBLES < 16 { word >> (4 * OPCODE) } else { sixteen(window, first + OPCODE).unwrap_or(0) };
    let (value, bits) = (reverse(payload, NIBBLES as u8), 4 * NIBBLES as u8);
    // An F before the opcode exchanges whether there is a timestamp.
    let is_timed = MARKED == (OPCODE == 1);
    let body = |timestamp| Body::Data { value, bits, marked: MARKED, timestamp };
    timed(is_timed, window, first, OPCODE + NIBBLES, body, to)
}

/// Emits a packet that perhaps ends with a timestamp, after this number of nibbles.
#[inline(always)]
fn timed(
    is_timed: bool,
    window: &Window,
    first: usize,
    nibbles: usize,
    body: impl Fn(Option<Timestamp>) -> Body,
    to: &mut impl Emit,
) -> usize {
    if !is_timed {
        to.emit(body(None), nibbles);
        return nibbles;
    }
    let word = word(window, first + nibbles);
    let length = match word & 0xf {
        length @ 0..=12 => length as u8,
        13 => 14,
        // No word has 16 nibbles and their number.
        _ => return 0,
    };
    let all = nibbles + 1 + usize::from(length);
    to.emit(body(Some(Timestamp { value: reverse(word >> 4, length), nibbles: length })), all);
    all
}

/// At least 15 nibbles from a position on, the first one in the low bits.
#[inline(always)]
fn word(window: &Window, at: usize) -> u64 {
    let bytes = window.get(at / 2..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    u64::from_le_bytes(bytes) >> (4 * (at % 2))
}
