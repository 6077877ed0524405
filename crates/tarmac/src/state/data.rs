//! Data of accesses as bytes of memory, divided into granules of eight bytes.

use super::super::record::{Access, Byte, Order, Picture};
use super::super::value::{Digit, Value};

/// The part of an access within one granule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GranulePart {
    /// The address divided by eight.
    pub(crate) granule: u64,
    /// The bytes, lowest address in the lowest bits.
    pub(crate) value: u64,
    /// Mask of the accessed bytes.
    pub(crate) bytes: u8,
    /// Mask of the known bytes.
    pub(crate) known: u8,
}

/// Bytes of an access in memory order, each with whether it is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bytes {
    pub(crate) values: Vec<u8>,
    pub(crate) known: Vec<bool>,
}

impl Bytes {
    /// Sets the bytes from an access. Without data, none is known.
    pub(crate) fn set(&mut self, access: &Access<'_>, is_big_endian: bool) {
        let size = usize::from(access.size);
        self.values.clear();
        self.known.clear();
        if let Some(data) = access.data {
            self.number(data);
        }
        if has_padding(access) {
            self.known.iter_mut().skip(PADDED_DIGITS / 2).for_each(|is_known| *is_known = false);
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
        // Omitted leading digits are zeros.
        let fill = given > 0 && access.order == Order::Number && self.known.iter().all(|known| *known);
        self.values.resize(size, 0);
        self.known.resize(size, fill);
        if access.order == Order::Number && is_big_endian {
            self.values.reverse();
            self.known.reverse();
        }
    }

    /// Swaps two words, of which the first printed one is the lower.
    fn swap_words(&mut self) {
        let middle = self.values.len() / 2;
        self.values.rotate_left(middle);
        self.known.rotate_left(middle);
    }

    /// Appends the bytes of a number, the least significant first.
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

    /// Passes on the parts of the bytes at an address, one per granule.
    fn parts(&self, address: u64, sink: impl FnMut(&GranulePart)) {
        let known = self.values.iter().zip(&self.known);
        let bytes = known.map(|(value, is_known)| if *is_known { Byte::Known(*value) } else { Byte::Unknown });
        granule_parts(address, bytes, sink);
    }
}

/// Number of digits of the data that gem5 has for any access, however wide.
pub(crate) const PADDED_DIGITS: usize = 16;

/// Whether the data is padded with zeros in front, as gem5 does for wide accesses: what these replace is unknown. Other
/// producers separate the words.
pub(crate) fn has_padding(access: &Access<'_>) -> bool {
    let Some(Value(text)) = access.data.filter(|_| access.size > 8 && access.order == Order::Number) else {
        return false;
    };
    let padding = text.len().saturating_sub(PADDED_DIGITS);
    padding > 0 && text[..padding].iter().all(|digit| *digit == b'0') && text.iter().all(u8::is_ascii_hexdigit)
}

/// Whether two words are printed in address order, as Cortex-R5 does: `MNW8____ (..) 01013ff8 w0 w1`. A single number
/// or wider words have the most significant first.
pub(crate) fn is_low_first(access: &Access<'_>) -> bool {
    let is_of_r5 = matches!(access.tag, [b'M', b'S' | b'N', b'R' | b'W', b'8', b'_', ..]);
    let words =
        |text: &[u8]| text.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).map(<[u8]>::len).eq([8, 8]);
    is_of_r5 && access.data.is_some_and(|data| words(data.0))
}

/// Passes on the parts of an access, one per granule. `scratch` is a scratch buffer for the general case.
#[inline]
pub(crate) fn access_parts(
    access: &Access<'_>,
    is_big_endian: bool,
    scratch: &mut Bytes,
    mut sink: impl FnMut(&GranulePart),
) {
    let Some(address) = access.address else { return };
    if let Some(part) = simple(access, address, is_big_endian) {
        return sink(&part);
    }
    scratch.set(access, is_big_endian);
    scratch.parts(address, sink);
}

/// The single part of an access within one granule whose bytes are all known.
#[inline]
fn simple(access: &Access<'_>, address: u64, is_big_endian: bool) -> Option<GranulePart> {
    let size = u32::from(access.size);
    let offset = (address % 8) as u32;
    if size == 0 || offset + size > 8 || access.order == Order::Lanes {
        return None;
    }
    let (number, digits) = access.data?.plain()?;
    let is_number = access.order == Order::Number;
    if digits as u32 > size * 2 || !is_number && digits as u32 != size * 2 {
        return None;
    }
    let reversed = if is_number { is_big_endian } else { true };
    let value = if reversed { number.swap_bytes() >> ((8 - size) * 8) } else { number };
    let bytes = (((1_u32 << size) - 1) << offset) as u8;
    Some(GranulePart { granule: address / 8, value: value << (offset * 8), bytes, known: bytes })
}

/// Passes on the parts of a picture, one per granule.
#[inline]
pub(crate) fn picture_parts(picture: &Picture<'_>, sink: impl FnMut(&GranulePart)) {
    granule_parts(picture.address, picture.bytes.iter().copied(), sink);
}

#[inline]
fn granule_parts(address: u64, bytes: impl Iterator<Item = Byte>, mut sink: impl FnMut(&GranulePart)) {
    let mut part = GranulePart { granule: address / 8, ..GranulePart::default() };
    for (at, byte) in bytes.enumerate() {
        let address = address.wrapping_add(at as u64);
        if address / 8 != part.granule {
            if part.bytes != 0 {
                sink(&part);
            }
            part = GranulePart { granule: address / 8, ..GranulePart::default() };
        }
        let bit = 1 << (address % 8);
        match byte {
            Byte::Untouched => {}
            Byte::Unknown => part.bytes |= bit,
            Byte::Known(value) => {
                part.bytes |= bit;
                part.known |= bit;
                part.value |= u64::from(value) << (address % 8 * 8);
            }
        }
    }
    if part.bytes != 0 {
        sink(&part);
    }
}
