//! A cursor in a line, which reads words and numbers.
//!
//! Knows blanks, words and hexadecimal numbers, and nothing of their meaning.

use crate::record::{Problem, ProblemKind};
use crate::value::{Digit, digit};

/// Maximum number of hexadecimal digits of a number.
const MAX_DIGITS: usize = 16;

/// Number of decimal digits that always fit in 64 bits.
const DECIMAL_DIGITS: usize = 19;

/// Character class: blanks.
pub(super) const BLANK: u8 = 1;
/// `(`, `<`, `[`.
pub(super) const OPEN: u8 = 2;
/// `)`, `>`, `]`.
pub(super) const CLOSE: u8 = 4;
pub(super) const COLON: u8 = 8;
/// `,`, `/`.
pub(super) const COMMA: u8 = 16;
/// Digits of values, `x` and `-` among them.
const DIGIT: u8 = 32;
/// Separators between digits.
const SEPARATOR: u8 = 64;

/// The classes of each character.
static CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = match at as u8 {
            b' ' | b'\t' => BLANK,
            b'(' | b'<' | b'[' => OPEN,
            b')' | b'>' | b']' => CLOSE,
            b':' => COLON | SEPARATOR,
            b'_' => SEPARATOR,
            b',' | b'/' => COMMA,
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'x' | b'X' | b'-' => DIGIT,
            _ => 0,
        };
        at += 1;
    }
    table
};

/// A number as printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub(super) value: u64,
    pub(super) digits: u8,
}

/// A position in a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The byte offset.
    #[inline(always)]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Moves to an offset.
    #[inline(always)]
    pub(super) fn seek(&mut self, at: usize) {
        self.at = at.min(self.line.len());
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, count: usize) {
        self.seek(self.at + count);
    }

    #[inline(always)]
    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.line.len()
    }

    /// The next byte; `None` at the end.
    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    /// The remaining bytes.
    #[inline(always)]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    /// The remaining bytes without surrounding blanks.
    pub(super) fn trimmed(&self) -> &'a [u8] {
        self.rest().trim_ascii()
    }

    /// The bytes since an offset.
    #[inline(always)]
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.line.get(start..self.at).unwrap_or_default()
    }

    #[inline(always)]
    pub(super) fn blanks(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips blanks, many of which are expected.
    #[inline(always)]
    pub(super) fn many_blanks(&mut self) {
        while self.rest().first_chunk() == Some(b"        ") {
            self.at += 8;
        }
        self.blanks();
    }

    /// Skips this byte if it is next.
    #[inline(always)]
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// Skips this byte, which must be next.
    #[inline(always)]
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Problem> {
        if self.eat(byte) { Ok(()) } else { Err(self.problem(ProblemKind::Unexpected)) }
    }

    /// Reads up to a blank or a byte of one of these classes.
    #[inline(always)]
    pub(super) fn until(&mut self, ends: u8) -> &'a [u8] {
        let start = self.at;
        while let Some(byte) = self.peek()
            && CLASS[usize::from(byte)] & (ends | BLANK) == 0
        {
            self.at += 1;
        }
        self.since(start)
    }

    #[inline(always)]
    pub(super) fn word(&mut self) -> &'a [u8] {
        self.until(BLANK)
    }

    /// Skips blanks and reads a word. A copy of the cursor looks ahead this way.
    #[inline(always)]
    pub(super) fn next_word(&mut self) -> &'a [u8] {
        self.blanks();
        self.word()
    }

    /// Whether a blank or the end is next.
    #[inline(always)]
    pub(super) fn is_word_end(&self) -> bool {
        matches!(self.peek(), None | Some(b' ' | b'\t'))
    }

    /// Reads decimal digits. `None`: there are none, or the number does not fit.
    #[inline(always)]
    pub(super) fn decimal_digits(&mut self) -> Option<u64> {
        let (start, mut number) = (self.at, 0_u64);
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            self.at += 1;
        }
        match self.at - start {
            0 => None,
            1..=DECIMAL_DIGITS => Some(number),
            _ => many_digits(self.since(start)),
        }
    }

    /// Reads a hexadecimal number, with or without `0x`.
    #[inline(always)]
    pub(super) fn hex(&mut self) -> Result<Number, Problem> {
        let mut start = self.at;
        let (mut value, mut digits) = leading_hex(self.rest());
        if digits == 1 && matches!(self.rest(), [b'0', b'x' | b'X', ..]) {
            start += 2;
            (value, digits) = leading_hex(self.rest().get(2..).unwrap_or_default());
        }
        self.at = start + digits;
        match digits {
            0 => Err(self.problem(ProblemKind::NotHexadecimal)),
            1..=MAX_DIGITS => Ok(Number { value, digits: digits as u8 }),
            _ => Err(self.problem_at(start, ProblemKind::TooLong)),
        }
    }

    /// Reads a hexadecimal number that is a whole word.
    #[inline(always)]
    pub(super) fn hex_word(&mut self) -> Result<Number, Problem> {
        let number = self.hex()?;
        if self.is_word_end() { Ok(number) } else { Err(self.problem(ProblemKind::NotHexadecimal)) }
    }

    /// Reads a word of digits that may be unknown (`x`) or unchanged (`-`), with separators. Returns the number of
    /// digits; `None`: it is something else.
    #[inline(always)]
    pub(super) fn value_word(&mut self) -> Option<usize> {
        let mut digits = 0;
        loop {
            if self.rest().first_chunk().is_some_and(|eight| eight_digits(*eight).is_some()) {
                digits += 8;
                self.at += 8;
                continue;
            }
            let class = self.peek().map_or(0, |byte| CLASS[usize::from(byte)]);
            if class & (DIGIT | SEPARATOR) == 0 {
                break;
            }
            digits += usize::from(class & DIGIT != 0);
            self.at += 1;
        }
        (self.is_word_end() && digits > 0).then_some(digits)
    }

    /// A parse error at this position.
    #[cold]
    pub(super) fn problem(&self, kind: ProblemKind) -> Problem {
        self.problem_at(self.at, kind)
    }

    /// A parse error at an offset. At the end of the line it is a truncation.
    #[cold]
    pub(super) fn problem_at(&self, at: usize, kind: ProblemKind) -> Problem {
        let kind = match self.line.get(at) {
            None => ProblemKind::Truncated,
            Some(128..) => ProblemKind::Binary,
            Some(_) => kind,
        };
        Problem { column: u32::try_from(at + 1).unwrap_or(u32::MAX), kind }
    }
}

/// The leading hexadecimal number and its number of digits; only its lowest bits if there are more than sixteen.
#[inline(always)]
fn leading_hex(bytes: &[u8]) -> (u64, usize) {
    let (mut value, mut digits) = (0_u64, 0);
    let mut rest = bytes;
    while let Some((eight, more)) = rest.split_first_chunk::<8>() {
        let (number, count) = some_digits(*eight);
        value = value.unbounded_shl(4 * count) | u64::from(number);
        digits += count as usize;
        rest = more;
        if count < 8 || more.first().is_none_or(|byte| HEX[usize::from(*byte)] > 15) {
            return (value, digits);
        }
    }
    for byte in rest {
        let four = HEX[usize::from(*byte)];
        if four > 15 {
            break;
        }
        value = (value << 4) | u64::from(four);
        digits += 1;
    }
    (value, digits)
}

/// The number, if all eight bytes are digits.
#[inline(always)]
pub(super) fn eight_digits(bytes: [u8; 8]) -> Option<u32> {
    let (number, count) = some_digits(bytes);
    (count == 8).then_some(number)
}

/// The leading digits of eight bytes as a number, and how many there are. Each byte is reduced to its four bits, then
/// adjacent pairs are merged three times.
#[inline(always)]
fn some_digits(bytes: [u8; 8]) -> (u32, u32) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = 0x80 * ONES;
    let word = u64::from_le_bytes(bytes);
    let lower = word | (0x20 * ONES);
    // The highest bit of a byte is set if it is above another. Bytes that have it already are no digits, and only
    // they could carry into the next.
    let above = |byte: u64, bytes: u64| bytes.wrapping_add((0x7f - byte) * ONES);
    let decimal = above(0x2f, word) & !above(0x39, word);
    let letter = above(0x60, lower) & !above(0x66, lower);
    let others = !((decimal | letter) & !word) & HIGHEST;
    // The common case: all eight are digits.
    let (digits, count) = match others {
        0 => (word, 8),
        others => {
            let count = others.trailing_zeros() / 8;
            (word.unbounded_shl(64 - 8 * count), count)
        }
    };
    let nibbles = (digits & (0x0f * ONES)) + 9 * ((digits >> 6) & ONES);
    let bytes = ((nibbles << 4) | (nibbles >> 8)) & 0x00ff_00ff_00ff_00ff;
    let halves = ((bytes << 8) | (bytes >> 16)) & 0x0000_ffff_0000_ffff;
    (((halves << 16) | (halves >> 32)) as u32, count)
}

/// Value of each character as a hexadecimal digit; more than 15 if it is none.
static HEX: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut at = 0;
    while at < 256 {
        if let Some(Digit::Known(digit)) = digit(at as u8) {
            table[at] = digit;
        }
        at += 1;
    }
    table
};

/// Whether a word has hexadecimal digits only.
#[inline(always)]
pub(super) fn is_hex(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_hexdigit)
}

/// A decimal number; `None`: it is none, or does not fit.
#[inline(always)]
pub(super) fn decimal(word: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(word);
    cursor.decimal_digits().filter(|_| cursor.is_at_end())
}

/// A number with more digits than always fit.
#[cold]
fn many_digits(word: &[u8]) -> Option<u64> {
    word.iter().try_fold(0_u64, |number, byte| number.checked_mul(10)?.checked_add(u64::from(byte & 15)))
}
