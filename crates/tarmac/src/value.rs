//! Values as they are written: digits, with what is unknown and what was not changed.
//!
//! Separators (`_`, `:`, space) mean nothing. A digit is known, or `x`: written, but nobody knows what, or `-`: not
//! changed. The first digit is the highest, as people write numbers.

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a>(pub &'a [u8]);

/// Four bits of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Digit {
    /// Known.
    Known(u8),
    /// `x` or `X`: nobody knows.
    Unknown,
    /// `-`: not changed.
    Unchanged,
}

impl<'a> Value<'a> {
    /// Its digits, the highest first.
    pub fn digits(self) -> impl DoubleEndedIterator<Item = Digit> + Clone + use<'a> {
        self.0.iter().filter_map(|byte| digit(*byte))
    }

    /// How many digits it has.
    pub fn width(self) -> usize {
        self.digits().count()
    }

    /// The number, if all digits are known and there are at most sixteen.
    #[inline]
    pub fn number(self) -> Option<u64> {
        let (mut number, mut count) = (0, 0);
        for digit in self.digits() {
            let Digit::Known(bits) = digit else { return None };
            number = number << 4 | u64::from(bits);
            count += 1;
        }
        (1..=16).contains(&count).then_some(number)
    }
}

/// What a character says of four bits; `None`: it is a separator.
#[inline(always)]
pub(super) fn digit(byte: u8) -> Option<Digit> {
    match byte {
        b'0'..=b'9' => Some(Digit::Known(byte - b'0')),
        b'a'..=b'f' => Some(Digit::Known(byte - b'a' + 10)),
        b'A'..=b'F' => Some(Digit::Known(byte - b'A' + 10)),
        b'x' | b'X' => Some(Digit::Unknown),
        b'-' => Some(Digit::Unchanged),
        _ => None,
    }
}
