//! Memory pictures: LD, ST and the like, sixteen bytes in four groups.

use super::cursor::{COLON, COMMA, Cursor, Number, decimal, eight_digits, is_hex};
use super::instruction::check_no_joined_line;
use crate::record::{Byte, Physical, Picture, PictureKind, Problem, ProblemKind};
use crate::value::{Digit, digit};

/// Parses address, four groups and attributes, after LD or in a continuation line.
#[inline(always)]
pub(super) fn picture<'a>(
    cursor: &mut Cursor<'a>,
    kind: PictureKind,
    is_continuation: bool,
) -> Result<Picture<'a>, Problem> {
    let Number { value, digits } = cursor.hex_word()?;
    let mut bytes = [Byte::Untouched; 16];
    for group in bytes.rchunks_exact_mut(4) {
        cursor.blanks();
        four_bytes(cursor, group)?;
    }
    cursor.blanks();
    let physical = physical(cursor)?;
    cursor.blanks();
    let attributes = cursor.trimmed();
    check_no_joined_line(cursor, attributes)?;
    Ok(Picture { kind, is_continuation, address: value, digits, bytes, physical, attributes })
}

/// Parses eight characters, the highest address first.
#[inline(always)]
fn four_bytes(cursor: &mut Cursor<'_>, group: &mut [Byte]) -> Result<(), Problem> {
    let start = cursor.at();
    if let Some(eight) = cursor.rest().first_chunk::<8>() {
        let mut ahead = *cursor;
        ahead.seek(start + 8);
        if ahead.is_word_end()
            && let Some(number) = eight_digits(*eight)
        {
            *cursor = ahead;
            group.copy_from_slice(&number.to_le_bytes().map(Byte::Known));
            return Ok(());
        }
    }
    let word = cursor.word();
    if word.len() < 8 && cursor.is_at_end() {
        return Err(cursor.problem(ProblemKind::Truncated));
    }
    if word.len() != 8 {
        return Err(cursor.problem_at(start, ProblemKind::NotAPicture));
    }
    if word == b"........" {
        return Ok(());
    }
    for (at, (pair, byte)) in word.chunks_exact(2).zip(group.iter_mut().rev()).enumerate() {
        *byte = one_byte(pair).ok_or_else(|| cursor.problem_at(start + 2 * at, ProblemKind::NotAPicture))?;
    }
    Ok(())
}

#[inline(always)]
fn one_byte(pair: &[u8]) -> Option<Byte> {
    let [high, low] = *pair else { return None };
    Some(match (high, low) {
        (b'.', b'.') => Byte::Untouched,
        (b'#', b'#') => Byte::Unknown,
        _ => match (digit(high)?, digit(low)?) {
            (Digit::Known(high), Digit::Known(low)) => Byte::Known(high << 4 | low),
            (Digit::Unchanged, _) | (_, Digit::Unchanged) => return None,
            _ => Byte::Unknown,
        },
    })
}

/// Parses `S:0000eee0/12`, `NS:000000008765abc0`, `0000000020`. An attribute has neither a colon nor that many digits.
#[inline(always)]
fn physical<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Physical<'a>>, Problem> {
    let mut ahead = *cursor;
    let word = ahead.until(COLON | COMMA);
    let space = match ahead.peek() {
        Some(b':') => {
            cursor.seek(ahead.at() + 1);
            word
        }
        _ if word.len() >= 8 && is_hex(word) => &[],
        _ => return Ok(None),
    };
    let address = cursor.hex()?.value;
    let mut page = None;
    if cursor.eat(b'/') {
        let start = *cursor;
        let order = decimal(cursor.word()).and_then(|order| u8::try_from(order).ok());
        page = Some(order.ok_or_else(|| start.problem(ProblemKind::Unexpected))?);
    }
    if !cursor.is_word_end() {
        return Err(cursor.problem(ProblemKind::NotHexadecimal));
    }
    Ok(Some(Physical { address, space, page }))
}
