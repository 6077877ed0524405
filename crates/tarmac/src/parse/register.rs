//! Register writes and system operations: `R`.

use super::cursor::{CLOSE, COLON, Cursor, OPEN, decimal};
use super::prefix::is_start_of_line;
use crate::record::{Operation, Problem, ProblemKind, Record, Register};
use crate::value::Value;

/// Parses the fields after `R`.
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

/// Parses `(USR)`.
fn brackets<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Problem> {
    if !cursor.eat(b'(') {
        return Ok(&[]);
    }
    let start = cursor.at();
    while cursor.peek().is_some_and(|byte| byte != b')') {
        cursor.skip(1);
    }
    let context = cursor.since(start);
    cursor.expect(b')')?;
    cursor.blanks();
    Ok(context)
}

/// Parses `<127:64>`, or `[32:63]` in PowerPC order, counted from the highest of 64 bits.
fn bit_range(cursor: &mut Cursor<'_>) -> Result<Option<(u16, u16)>, Problem> {
    let close = match cursor.peek() {
        Some(b'<') => b'>',
        Some(b'[') => b']',
        _ => return Ok(None),
    };
    cursor.skip(1);
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

/// Parses a word of digits, and further groups of the same width.
#[inline(always)]
fn value<'a>(cursor: &mut Cursor<'a>) -> Option<Value<'a>> {
    if let [b'0', b'x' | b'X', ..] = cursor.rest() {
        cursor.skip(2);
    }
    let start = cursor.at();
    let digits = cursor.value_word()?;
    let first = cursor.since(start);
    while !cursor.is_at_end() && is_group(*cursor, first, digits) {
        cursor.next_word();
    }
    Some(Value(cursor.since(start)))
}

/// Whether the next word continues the value. After dashes, which may be abbreviated, any group does.
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

/// Parses the text after a value. Fails if another line is joined to it, because a line end was lost.
#[inline(always)]
pub(super) fn notes<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Problem> {
    if cursor.is_at_end() {
        return Ok(&[]);
    }
    cursor.blanks();
    let notes = cursor.trimmed();
    if is_start_of_line(notes) { Err(cursor.problem(ProblemKind::Unexpected)) } else { Ok(notes) }
}

/// Parses `DC CISW 00000000:00000000`.
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
