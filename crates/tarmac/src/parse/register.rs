//! Registers and system operations: `R`.

use super::cursor::{CLOSE, COLON, Cursor, OPEN, decimal};
use super::prefix::is_start_of_line;
use crate::record::{Operation, Problem, ProblemKind, Record, Register};
use crate::value::Value;

/// What follows `R`.
#[inline(always)]
pub(super) fn register<'a>(cursor: &mut Cursor<'a>) -> Result<Record<'a>, Problem> {
    cursor.blanks();
    let name = cursor.until(OPEN);
    if name.is_empty() {
        return Err(cursor.problem(ProblemKind::Unexpected));
    }
    cursor.blanks();
    let (mut context, mut bits): (&[u8], _) = (&[], None);
    if let Some(b'(' | b'<' | b'[') = cursor.peek() {
        context = brackets(cursor)?;
        bits = bit_range(cursor)?;
        cursor.blanks();
        // Either can come first.
        if context.is_empty() {
            context = brackets(cursor)?;
        }
    }
    let start = *cursor;
    let Some(value) = value(cursor) else { return operation(start, name) };
    Ok(Record::Register(Register { name, context, bits, value, notes: notes(cursor)? }))
}

/// `(USR)`.
fn brackets<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Problem> {
    if !cursor.eat(b'(') {
        return Ok(&[]);
    }
    let start = cursor.at();
    while cursor.peek().is_some_and(|byte| byte != b')') {
        cursor.pass(1);
    }
    let context = cursor.since(start);
    cursor.expect(b')')?;
    cursor.blanks();
    Ok(context)
}

/// `<127:64>`, or `[32:63]` as PowerPC counts: from the highest bit of 64.
fn bit_range(cursor: &mut Cursor<'_>) -> Result<Option<(u16, u16)>, Problem> {
    let close = match cursor.peek() {
        Some(b'<') => b'>',
        Some(b'[') => b']',
        _ => return Ok(None),
    };
    cursor.pass(1);
    let start = *cursor;
    let first = decimal(cursor.until(COLON)).and_then(|bit| u16::try_from(bit).ok());
    cursor.expect(b':')?;
    let last = decimal(cursor.until(CLOSE)).and_then(|bit| u16::try_from(bit).ok());
    cursor.expect(close)?;
    match (first, last) {
        (Some(high), Some(low)) if high >= low => Ok(Some((high, low))),
        (Some(first), Some(last @ ..64)) if close == b']' => Ok(Some((63 - first, 63 - last))),
        _ => Err(start.problem(ProblemKind::Unexpected)),
    }
}

/// A word of digits, and more of them if they are groups of the same width.
#[inline(always)]
fn value<'a>(cursor: &mut Cursor<'a>) -> Option<Value<'a>> {
    if let [b'0', b'x' | b'X', ..] = cursor.rest() {
        cursor.pass(2);
    }
    let start = cursor.at();
    let digits = cursor.value_word()?;
    let first = cursor.since(start);
    while !cursor.is_at_end() && is_group(*cursor, first, digits) {
        cursor.next_word();
    }
    Some(Value(cursor.since(start)))
}

/// The next word goes on with the value. Behind dashes, which may be cut, any group does.
fn is_group(mut ahead: Cursor<'_>, first: &[u8], digits: usize) -> bool {
    ahead.blanks();
    let start = ahead.at();
    let more = ahead.value_word();
    let length = ahead.since(start).len();
    matches!(length, 8 | 16)
        && (length == first.len() || first.iter().all(|byte| *byte == b'-'))
        && more == Some(length)
        && digits == first.len()
}

/// What stands behind a value. A line that lost its end has the next one there.
#[inline(always)]
pub(super) fn notes<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Problem> {
    if cursor.is_at_end() {
        return Ok(&[]);
    }
    cursor.blanks();
    let notes = cursor.trimmed();
    if is_start_of_line(notes) { Err(cursor.problem(ProblemKind::Unexpected)) } else { Ok(notes) }
}

/// `DC CISW 00000000:00000000`.
#[cold]
fn operation<'a>(mut cursor: Cursor<'a>, kind: &'a [u8]) -> Result<Record<'a>, Problem> {
    const KINDS: [&[u8]; 12] =
        [b"AT", b"BRB", b"CFP", b"COSP", b"CPP", b"DC", b"DVP", b"GIC", b"GICR", b"IC", b"TLBI", b"TLBIP"];
    if !KINDS.iter().any(|known| known.eq_ignore_ascii_case(kind)) {
        return Err(cursor.problem(ProblemKind::NotHexadecimal));
    }
    let name = cursor.word();
    cursor.blanks();
    let start = cursor;
    match value(&mut cursor) {
        Some(value) => Ok(Record::Operation(Operation { kind, name, value })),
        None => Err(start.problem(ProblemKind::NotHexadecimal)),
    }
}
