//! Fields of an instruction word.

/// The `width` bits from bit `low` on.
#[inline]
pub(crate) const fn field(word: u32, low: u32, width: u32) -> u32 {
    word >> low & ((1 << width) - 1)
}

/// Whether bit `index` is set.
#[inline]
pub(crate) const fn flag(word: u32, index: u32) -> bool {
    word >> index & 1 != 0
}

/// The lowest `width` bits as a signed number.
pub(crate) const fn signed(bits: u32, width: u32) -> i64 {
    let unused = 32 - width;
    (((bits << unused) as i32) >> unused) as i64
}
