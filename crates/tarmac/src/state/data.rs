//! The data of accesses: digits as bytes of memory, cut where eight bytes start anew.

use super::super::record::{Access, Byte, Order, Picture};
use super::super::value::{Digit, Value};

/// Some of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Piece {
    /// The address, divided by eight.
    pub(crate) granule: u64,
    /// The bytes, the lowest address lowest.
    pub(crate) value: u64,
    /// Which of them are accessed.
    pub(crate) bytes: u8,
    /// Which of them are known.
    pub(crate) known: u8,
}

/// The bytes of an access in the order of memory, with what is known of them: a mark a byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bytes {
    pub(crate) values: Vec<u8>,
    pub(crate) known: Vec<bool>,
}

impl Bytes {
    /// Takes the data of an access. Without data nothing is known.
    pub(crate) fn take(&mut self, access: &Access<'_>, is_big_endian: bool) {
        let size = usize::from(access.size);
        self.values.clear();
        self.known.clear();
        if let Some(data) = access.data {
            self.number(data);
        }
        let given = self.values.len();
        match access.order {
            Order::Lanes if given > size => {
                let lane = access.address.unwrap_or(0) as usize % given.next_power_of_two();
                let lane = lane.min(given - size);
                self.values.drain(..lane);
                self.known.drain(..lane);
            }
            Order::Memory => {
                self.values.reverse();
                self.known.reverse();
            }
            Order::Number if !is_big_endian && is_low_first(access) => self.swap_words(),
            _ => {}
        }
        // A number with few digits is a small number.
        let fill = given > 0 && access.order == Order::Number && self.known.iter().all(|known| *known);
        self.values.resize(size, 0);
        self.known.resize(size, fill);
        if access.order == Order::Number && is_big_endian {
            self.values.reverse();
            self.known.reverse();
        }
    }

    /// Of two words, the one that was written first is the lower.
    fn swap_words(&mut self) {
        let middle = self.values.len() / 2;
        self.values.rotate_left(middle);
        self.known.rotate_left(middle);
    }

    /// The bytes of a number, the lowest first.
    fn number(&mut self, value: Value<'_>) {
        let mut digits = value.digits().rev();
        while let Some(low) = digits.next() {
            let high = digits.next().unwrap_or(Digit::Known(0));
            let (value, is_known) = match (low, high) {
                (Digit::Known(low), Digit::Known(high)) => (high << 4 | low, true),
                _ => (0, false),
            };
            self.values.push(value);
            self.known.push(is_known);
        }
    }

    /// Its pieces at an address.
    pub(crate) fn pieces(&self, address: u64, mut take: impl FnMut(&Piece)) {
        let mut piece = Piece { granule: address / 8, ..Piece::default() };
        for (at, (value, is_known)) in self.values.iter().zip(&self.known).enumerate() {
            let address = address.wrapping_add(at as u64);
            if address / 8 != piece.granule {
                take(&piece);
                piece = Piece { granule: address / 8, ..Piece::default() };
            }
            piece.value |= u64::from(*value) << (address % 8 * 8);
            piece.bytes |= 1 << (address % 8);
            piece.known |= u8::from(*is_known) << (address % 8);
        }
        if piece.bytes != 0 {
            take(&piece);
        }
    }
}

/// Cortex-R5 prints two words of 32 bits in the order of their addresses: `MNW8____ (..) 01013ff8 w0 w1`. Where they are
/// printed as one number, or are wider, the highest is the first.
pub(crate) fn is_low_first(access: &Access<'_>) -> bool {
    let is_of_r5 = matches!(access.tag, [b'M', b'S' | b'N', b'R' | b'W', b'8', b'_', ..]);
    let words =
        |text: &[u8]| text.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).map(<[u8]>::len).eq([8, 8]);
    is_of_r5 && access.data.is_some_and(|data| words(data.0))
}

/// The pieces of an access; `room` is for those that are not simple.
#[inline]
pub(crate) fn access_pieces(access: &Access<'_>, is_big_endian: bool, room: &mut Bytes, mut take: impl FnMut(&Piece)) {
    let Some(address) = access.address else { return };
    if let Some(piece) = simple(access, address, is_big_endian) {
        return take(&piece);
    }
    room.take(access, is_big_endian);
    room.pieces(address, take);
}

/// An access whose bytes lie together, and are all known.
#[inline]
fn simple(access: &Access<'_>, address: u64, is_big_endian: bool) -> Option<Piece> {
    let size = u32::from(access.size);
    let offset = (address % 8) as u32;
    if size == 0 || offset + size > 8 || access.order == Order::Lanes {
        return None;
    }
    let (number, digits) = plain(access.data?.0)?;
    let is_number = access.order == Order::Number;
    if digits as u32 > size * 2 || !is_number && digits as u32 != size * 2 {
        return None;
    }
    let reversed = if is_number { is_big_endian } else { true };
    let value = if reversed { number.swap_bytes() >> ((8 - size) * 8) } else { number };
    let bytes = (((1_u32 << size) - 1) << offset) as u8;
    Some(Piece { granule: address / 8, value: value << (offset * 8), bytes, known: bytes })
}

/// Up to sixteen digits that are all known, and how many; `_` may stand between them.
#[inline]
fn plain(text: &[u8]) -> Option<(u64, usize)> {
    let (mut number, mut digits) = (0, 0);
    if text.len() > 17 {
        return None;
    }
    for byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'_' => continue,
            _ => return None,
        };
        number = number << 4 | u64::from(digit);
        digits += 1;
    }
    (1..=16).contains(&digits).then_some((number, digits))
}

/// The pieces of a picture.
#[inline]
pub(crate) fn picture_pieces(picture: &Picture<'_>, mut take: impl FnMut(&Piece)) {
    let mut piece = Piece { granule: picture.address / 8, ..Piece::default() };
    for (at, byte) in picture.bytes.iter().enumerate() {
        let address = picture.address.wrapping_add(at as u64);
        if address / 8 != piece.granule {
            if piece.bytes != 0 {
                take(&piece);
            }
            piece = Piece { granule: address / 8, ..Piece::default() };
        }
        let bit = 1 << (address % 8);
        match byte {
            Byte::Untouched => {}
            Byte::Unknown => piece.bytes |= bit,
            Byte::Known(value) => {
                piece.bytes |= bit;
                piece.known |= bit;
                piece.value |= u64::from(*value) << (address % 8 * 8);
            }
        }
    }
    if piece.bytes != 0 {
        take(&piece);
    }
}
