//! The bytes of addresses.
//!
//! Takes a header byte and up to eight bytes after it. Produces an [`Address`] and its length. All forms are rows of one
//! table. The three most frequent in A64 trace are written out besides it: a processor can predict which comes next, but
//! has to wait for a table.

use super::packet::Address;
use crate::SubIsa;

/// Layout of the bytes after an address header.
#[derive(Clone, Copy)]
pub(super) struct AddressForm {
    /// Mask of the payload bits from bit 16 on, which are used in place.
    high: u64,
    /// Masks of the first two bytes.
    first: u8,
    second: u8,
    /// Payload bytes; the header is not counted.
    length: u8,
    bits: u8,
    entry: u8,
    isa: SubIsa,
}

impl AddressForm {
    /// The form after `header` (0x90 to 0x9f) when `first` is the first byte of the payload.
    #[inline(always)]
    pub(super) fn of(header: u8, first: u8) -> Self {
        FORMS[usize::from(header & 0xf) << 1 | usize::from(first >> 7)]
    }

    /// The address, and its number of payload bytes.
    #[inline(always)]
    pub(super) fn read(self, payload: u64) -> (Address, usize) {
        let first = payload & u64::from(self.first);
        let second = payload >> 8 & u64::from(self.second);
        let low = (first << 2 | second << 9) >> (self.isa as u8);
        let value = low | payload & self.high;
        (Address { value, bits: self.bits, entry: self.entry, isa: self.isa }, usize::from(self.length))
    }
}

/// The address packet at the start of `bytes` and its length, if it has one of the most frequent forms of A64 trace and
/// eight bytes follow the header; not if reserved bits are set. Tests the most frequent form first: a `match` would be reordered.
#[inline(always)]
pub(super) fn common_address(bytes: &[u8], header: u8) -> Option<(Address, usize)> {
    let payload = u64::from_le_bytes(*bytes.get(1..)?.first_chunk()?);
    if header == 0x95 {
        let more = payload >> 7 & 1;
        let second = payload & 0xff00 & more.wrapping_neg();
        let value = (payload & 0x7f) << 2 | second << 1;
        return Some((Address { value, bits: 9 + 8 * more as u8, entry: 0, isa: SubIsa::Is0 }, 2 + more as usize));
    }
    if header & 0xfc == 0x90 && header != 0x93 {
        return Some((Address::same_as(header & 3), 1));
    }
    if header == 0x9a && payload & 0x8080 == 0 {
        let value = (payload & 0x7f) << 2 | (payload & 0x7f00) << 1 | payload & 0xffff_0000;
        return Some((Address::low(SubIsa::Is0, 32, value), 5));
    }
    None
}

/// Two forms per header: bit 7 of the first byte makes a short address longer.
static FORMS: [AddressForm; 32] = {
    let mut forms = [form(0, false); 32];
    let mut index = 0;
    while index < 32 {
        forms[index] = form((index >> 1) as u8, index & 1 == 1);
        index += 1;
    }
    forms
};

const fn form(header: u8, continued: bool) -> AddressForm {
    let isa = match header {
        0x6 | 0xb | 0xe => SubIsa::Is1,
        _ => SubIsa::Is0,
    };
    let shift = isa.shift();
    // A long IS0 address has 7 bits in each of its first two bytes, a long IS1 address 7 and 8.
    let second_of_long = match isa {
        SubIsa::Is0 => 0x7f,
        SubIsa::Is1 => 0xff,
    };
    let (length, bits, second, high) = match (header, continued) {
        (0x5 | 0x6, false) => (1, 7 + shift, 0, 0),
        (0x5 | 0x6, true) => (2, 15 + shift, 0xff, 0),
        (0xa | 0xb, _) => (4, 32, second_of_long, 0xffff_0000),
        (0xd | 0xe, _) => (8, 64, second_of_long, 0xffff_ffff_ffff_0000),
        _ => (0, 0, 0, 0),
    };
    let first = if length == 0 { 0 } else { 0x7f };
    let entry = if length == 0 { header & 3 } else { 0 };
    AddressForm { high, first, second, length, bits, entry, isa }
}
