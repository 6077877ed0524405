//! The start of a line: timestamp, core, and the word that gives the kind of the line.

use super::cursor::{COLON, Cursor, OPEN, decimal};
use crate::record::{Line, PictureKind, Problem, ProblemKind, Stamp, Tag, Time, Unit};

/// Kind of a line, by its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Instruction(Tag),
    Register,
    Access,
    Transfer,
    Bus,
    Picture(PictureKind),
    Event,
    Exception,
    Branch,
    Flow(u8),
    Opaque,
}

/// The kind of a line that starts with this word.
#[inline(always)]
pub(super) fn kind(word: &[u8]) -> Option<Kind> {
    Some(match word {
        [b'R'] => Kind::Register,
        [b'I', b'T'] => Kind::Instruction(Tag::It),
        [b'E', b'S'] => Kind::Instruction(Tag::Es),
        [b'I', b'S'] => Kind::Instruction(Tag::Is),
        [b'I', b'F'] => Kind::Instruction(Tag::If),
        [b'L', b'D'] => Kind::Picture(PictureKind::Load),
        [b'S', b'T'] => Kind::Picture(PictureKind::Store),
        [b'L', b'A'] => Kind::Picture(PictureKind::AbortedLoad),
        [b'S', b'A'] => Kind::Picture(PictureKind::AbortedStore),
        [b'S', b'X'] => Kind::Picture(PictureKind::FailedStore),
        [b'B', b'R'] => Kind::Branch,
        [b'E'] => Kind::Event,
        [b'E', b'X', b'C'] => Kind::Exception,
        [b'F', flow @ (b'D' | b'I' | b'R')] => Kind::Flow(*flow),
        [b'M', b'R' | b'W', b'0'..=b'9', ..] => Kind::Access,
        [b'M', b'S' | b'N', b'R' | b'W', b'0'..=b'9', ..] => Kind::Access,
        [b'M', b'C', b'R' | b'W', b'0'..=b'9', ..] => Kind::Transfer,
        [b'R' | b'W', b'0'..=b'9', b'0'..=b'9'] => Kind::Access,
        [b'B', b'R' | b'W', b'0'..=b'9', ..] => Kind::Bus,
        [b'B', b'S' | b'N', b'R' | b'W', b'0'..=b'9', ..] => Kind::Bus,
        b"CADI"
        | b"SIGNAL"
        | b"CACHE"
        | [b'T', b'T', b'W']
        | [b'T', b'L', b'B']
        | b"WALKCACHE"
        | [b'P']
        | [b'M', b'I']
        | [b'M', b'C']
        | [b'M', b'I', b'O'] => Kind::Opaque,
        [b'I', b'N', b'F', b'O', b'_', ..] => Kind::Opaque,
        _ => return None,
    })
}

/// Parses the timestamp, if there is one.
#[inline(always)]
pub(super) fn stamp(cursor: &mut Cursor<'_>) -> Result<Stamp, Problem> {
    match cursor.peek() {
        Some(b'0'..=b'9') => time(cursor),
        Some(b'-') => Ok(dashes(cursor)),
        _ => Ok(Stamp::Absent),
    }
}

/// Parses dashes in place of a time. Eleven are specified; four or more are accepted.
fn dashes(cursor: &mut Cursor<'_>) -> Stamp {
    let mut ahead = *cursor;
    let word = ahead.word();
    if word.len() < 4 || word.iter().any(|byte| *byte != b'-') {
        return Stamp::Absent;
    }
    *cursor = ahead;
    Stamp::Dashes
}

/// Parses `41000 ns`, `271ns`, `10.356000us`, `53`. A word that only starts like a number is no time.
#[inline(always)]
fn time(cursor: &mut Cursor<'_>) -> Result<Stamp, Problem> {
    let (start, mut ahead) = (cursor.at(), *cursor);
    let mut value = ahead.decimal_digits();
    let mut decimals = 0;
    if ahead.eat(b'.') {
        (value, decimals) = fraction(&mut ahead, start);
    }
    let unit = if ahead.is_word_end() {
        separate_unit(&mut ahead)
    } else {
        let Some(unit) = unit(ahead.word()) else { return Ok(Stamp::Absent) };
        unit
    };
    let Some(value) = value else { return Err(cursor.problem_at(start, ProblemKind::TooLong)) };
    *cursor = ahead;
    Ok(Stamp::At(Time { value, decimals, unit }))
}

/// Parses the digits after the decimal point. Returns all digits as one number, and the number of decimals.
#[cold]
fn fraction(ahead: &mut Cursor<'_>, start: usize) -> (Option<u64>, u8) {
    let point = ahead.at();
    ahead.decimal_digits();
    let digits = ahead.since(start).iter().filter(|byte| **byte != b'.');
    let value =
        digits.copied().try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit & 15)));
    let decimals = u8::try_from(ahead.at() - point);
    (value.filter(|_| decimals.is_ok()), decimals.unwrap_or(0))
}

/// Parses a unit after a blank, if the next word is one.
#[inline(always)]
fn separate_unit(cursor: &mut Cursor<'_>) -> Unit {
    // The most frequent unit.
    if let [b' ', b'c', b'l', b'k', b' ', ..] = cursor.rest() {
        cursor.skip(4);
        return Unit::Clk;
    }
    let mut ahead = *cursor;
    let Some(unit) = unit(ahead.next_word()) else { return Unit::None };
    *cursor = ahead;
    unit
}

#[inline(always)]
pub(super) fn unit(word: &[u8]) -> Option<Unit> {
    Some(match word {
        [b'c', b'l', b'k'] => Unit::Clk,
        [b'n', b's'] => Unit::Ns,
        [b'p', b's'] => Unit::Ps,
        [b'u', b's'] => Unit::Us,
        [b'm', b's'] => Unit::Ms,
        [b'f', b's'] => Unit::Fs,
        [b's'] => Unit::S,
        [b'c', b's'] => Unit::Cs,
        [b'c', b'y', b'c'] => Unit::Cyc,
        [b't', b'i', b'c'] => Unit::Tic,
        _ => return None,
    })
}

/// Parses the word that gives the kind of the line, and the core before it.
#[inline(always)]
pub(super) fn tag<'a>(cursor: &mut Cursor<'a>, line: &mut Line<'a>) -> Result<(Kind, &'a [u8]), Problem> {
    cursor.blanks();
    let start = *cursor;
    if let Some((kind, length)) = usual_kind(cursor.rest()) {
        cursor.seek(start.at() + length);
        return Ok((kind, cursor.since(start.at())));
    }
    let word = cursor.until(OPEN | COLON);
    if let Some(kind) = kind(word) {
        return Ok((kind, word));
    }
    tag_after_core(cursor, start, line)
}

/// The most frequent first words, and their lengths.
#[inline(always)]
fn usual_kind(rest: &[u8]) -> Option<(Kind, usize)> {
    Some(match rest {
        [b'R', b' ', ..] => (Kind::Register, 1),
        [b'I', b'T', b' ', ..] => (Kind::Instruction(Tag::It), 2),
        [b'E', b'S', b' ', ..] => (Kind::Instruction(Tag::Es), 2),
        [b'M', b'R' | b'W', b'1'..=b'9', b' ', ..] => (Kind::Access, 3),
        _ => return None,
    })
}

/// Parses a core and the kind of the line after it. Any name is accepted as a core if a known kind follows.
fn tag_after_core<'a>(
    cursor: &mut Cursor<'a>,
    start: Cursor<'a>,
    line: &mut Line<'a>,
) -> Result<(Kind, &'a [u8]), Problem> {
    *cursor = start;
    let core = cursor.word();
    let is_path = core.contains(&b'.') && core.first().is_some_and(u8::is_ascii_alphabetic);
    let is_named = core.starts_with(b"cpu") || is_path;
    if core.is_empty() || !(is_named || line.stamp != Stamp::Absent) {
        return Err(start.problem(ProblemKind::UnknownTag));
    }
    cursor.blanks();
    let before = *cursor;
    let word = cursor.until(OPEN | COLON);
    match kind(word) {
        Some(kind) => {
            line.core = Some(core);
            Ok((kind, word))
        }
        None if is_named => Err(before.problem(ProblemKind::UnknownTag)),
        None => Err(start.problem(ProblemKind::UnknownTag)),
    }
}

/// Whether another line starts in the middle of this one: a time with its unit, or a word that only starts lines.
pub(super) fn is_start_of_line(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    let first = cursor.next_word();
    if unit(first).is_some() || matches!(first, b"ES" | b"IT" | b"IS" | b"R" | b"BR" | b"LD" | b"ST" | b"EXC") {
        return !cursor.trimmed().is_empty();
    }
    decimal(first).is_some() && unit(cursor.next_word()).is_some()
}

/// Length beyond which a disassembly is searched for a joined line.
pub(super) const LONG_DISASSEMBLY: usize = 48;
/// Length beyond which other text is searched for a joined line.
pub(super) const LONG_TEXT: usize = 24;

/// Offset of another line in free text, if its line end was lost. Only texts that are long or end like a value are
/// searched.
#[inline(always)]
pub(super) fn joined_line(text: &[u8], long: usize) -> Option<usize> {
    if text.len() > long || ends_like_a_value(text) { find_joined(text) } else { None }
}

/// Whether the last word consists of digits, as after `R` and `MR4`.
#[inline(always)]
fn ends_like_a_value(text: &[u8]) -> bool {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'_').count();
    digits > 1 && text.len() > digits && matches!(text[text.len() - digits - 1], b' ' | b'\t')
}

/// Searches for a time with its unit and a first word of a line, or for such a word after many blanks, as in lines
/// without a time.
#[inline(never)]
fn find_joined(text: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(text);
    loop {
        let before = cursor.at();
        cursor.blanks();
        if cursor.is_at_end() {
            return None;
        }
        let (start, is_apart) = (cursor.at(), cursor.at() - before > 8);
        let word = cursor.word();
        let mut ahead = cursor;
        let next = ahead.next_word();
        let digits = word.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        if is_apart && starts_line(word) && !next.is_empty() {
            return Some(start);
        }
        if digits > 0 && unit(next).is_some() && starts_line(ahead.next_word()) {
            return Some(start + word.len() - digits);
        }
    }
}

/// Whether a word is at the start of a line and rarely anywhere else.
fn starts_line(word: &[u8]) -> bool {
    let word = word.split(|byte| *byte == b'(').next().unwrap_or_default();
    matches!(kind(word), Some(kind) if kind != Kind::Opaque)
}
