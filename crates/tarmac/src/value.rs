//! Values as printed: digits, some of them unknown or unchanged.
//!
//! Separators (`_`, `:`, space) are ignored. A digit is a known number, `x` (written, but unknown) or `-` (not
//! changed). The most significant digit comes first.

/// A value as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Value<'a>(pub &'a [u8]);

/// Four bits of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Digit {
    /// A known digit.
    Known(u8),
    /// `x` or `X`: an unknown value.
    Unknown,
    /// `-`: not changed.
    Unchanged,
}

impl<'a> Value<'a> {
    /// The digits, the most significant first.
    pub fn digits(self) -> impl DoubleEndedIterator<Item = Digit> + Clone + use<'a> {
        self.0.iter().filter_map(|byte| digit(*byte))
    }

    /// Number of digits.
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

    /// One to sixteen known digits as a number, and how many, without separators other than `_`.
    #[inline]
    pub(super) fn plain(self) -> Option<(u64, usize)> {
        let (mut number, mut digits) = (0, 0);
        if self.0.len() > 17 {
            return None;
        }
        for byte in self.0 {
            match digit(*byte) {
                Some(Digit::Known(bits)) => (number, digits) = (number << 4 | u64::from(bits), digits + 1),
                None if *byte == b'_' => {}
                _ => return None,
            }
        }
        (1..=16).contains(&digits).then_some((number, digits))
    }
}

/// The digit of a character; `None`: it is a separator.
#[inline(always)]
pub(super) const fn digit(byte: u8) -> Option<Digit> {
    match byte {
        b'0'..=b'9' => Some(Digit::Known(byte - b'0')),
        b'a'..=b'f' => Some(Digit::Known(byte - b'a' + 10)),
        b'A'..=b'F' => Some(Digit::Known(byte - b'A' + 10)),
        b'x' | b'X' => Some(Digit::Unknown),
        b'-' => Some(Digit::Unchanged),
        _ => None,
    }
}
