//! Memory accesses with contiguous data: `MR4`, `R08`, `MNW4___D`, and those of a bus or a coprocessor.
//!
//! The letters of the first word encode the cycle (S, N, C), R or W, the size, and attributes, in an order that differs
//! between producers. The data has as many digits as the size implies, in one word or several.

use super::cursor::{Cursor, Number};
use super::instruction::{check_no_joined_line, physical};
use super::register::notes;
use crate::record::{Access, Direction, Order, Problem, ProblemKind, Purpose, Record};
use crate::value::Value;

/// Parses the fields after `MR4` and the like.
#[inline(always)]
pub(super) fn access<'a>(cursor: &mut Cursor<'a>, tag: &'a [u8], record: &mut Record<'a>) -> Result<(), Problem> {
    let mut access = of_tag(cursor, tag)?;
    cursor.blanks();
    access.owner = owner(cursor)?;
    if let [b'X', b' ', ..] = cursor.rest() {
        access.is_exclusive = true;
        cursor.next_word();
        cursor.blanks();
    }
    address(cursor, &mut access)?;
    cursor.blanks();
    data(cursor, &mut access)?;
    *record = Record::Access(access);
    Ok(())
}

/// Parses `MCW4___R (00020444:0000001f) TRANSFER 00000000`.
pub(super) fn transfer<'a>(cursor: &mut Cursor<'a>, tag: &'a [u8]) -> Result<Record<'a>, Problem> {
    let mut access = of_tag(cursor, tag)?;
    cursor.blanks();
    access.owner = owner(cursor)?;
    let mut ahead = *cursor;
    if ahead.word() == b"TRANSFER" {
        *cursor = ahead;
    } else {
        address(cursor, &mut access)?;
    }
    cursor.blanks();
    data(cursor, &mut access)?;
    Ok(Record::Transfer(access))
}

/// Parses `BNR4O__I 00000620 46c04770`, or attributes and a master before the address, which is then physical.
pub(super) fn bus<'a>(cursor: &mut Cursor<'a>, tag: &'a [u8]) -> Result<Record<'a>, Problem> {
    let mut access = of_tag(cursor, tag)?;
    cursor.blanks();
    let (start, mut notes) = (cursor.at(), None);
    if cursor.peek() == Some(b'I') {
        let inner = cursor.word();
        cursor.blanks();
        let outer = *cursor;
        if inner.is_empty() || !cursor.word().starts_with(b"O") {
            return Err(outer.problem(ProblemKind::Unexpected));
        }
        cursor.next_word();
        notes = Some(cursor.since(start));
        cursor.blanks();
        access.order = Order::Memory;
    }
    address(cursor, &mut access)?;
    cursor.blanks();
    data(cursor, &mut access)?;
    access.notes = notes.unwrap_or(access.notes);
    Ok(Record::Bus(access))
}

/// Parses the letters of the first word. The cursor is after it.
#[inline(always)]
fn of_tag<'a>(cursor: &Cursor<'a>, tag: &'a [u8]) -> Result<Access<'a>, Problem> {
    let mut access = Access { tag, ..Access::default() };
    let (has_cycle, mut rest) = match tag {
        [b'M' | b'B', b'S' | b'N' | b'C', rest @ ..] => (true, rest),
        [b'M' | b'B', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if let [letter, more @ ..] = rest {
        access.direction = if *letter == b'W' { Direction::Write } else { Direction::Read };
        rest = more;
    }
    while let [digit @ b'0'..=b'9', more @ ..] = rest {
        access.size = access.size.saturating_mul(10).saturating_add(u16::from(digit - b'0'));
        rest = more;
    }
    let start = cursor.at() - tag.len();
    if access.size == 0 || access.size == u16::MAX {
        return Err(cursor.problem_at(start, ProblemKind::WrongSize));
    }
    if !rest.is_empty() {
        attributes(&mut access, rest, has_cycle)
            .map_err(|at| cursor.problem_at(start + tag.len() - rest.len() + at, ProblemKind::UnknownTag))?;
    }
    Ok(access)
}

/// Parses the attribute letters. A letter means the same at any position, except for the last one, which gives the
/// purpose (on the Fast Models bus, the first). With a cycle and a purpose it is Cortex-M3, which prints data in memory
/// order but fetches as numbers; without a cycle it is Cortex-M0, which prints bus lanes. `Err`: the offset of an
/// invalid letter.
fn attributes(access: &mut Access<'_>, letters: &[u8], has_cycle: bool) -> Result<(), usize> {
    let is_bus = access.tag.starts_with(b"B") && !has_cycle;
    let purpose = if is_bus { letters.first() } else { letters.last().filter(|_| letters.len() > 1) };
    (access.purpose, access.order) = match purpose.copied() {
        Some(b'I') => (Purpose::Fetch, if has_cycle { Order::Number } else { Order::Lanes }),
        Some(b'D') => (Purpose::Data, if has_cycle { Order::Memory } else { Order::Lanes }),
        Some(b'A') => (Purpose::Peripheral, if has_cycle { Order::Memory } else { Order::Lanes }),
        _ => (Purpose::Data, Order::Number),
    };
    for (at, letter) in letters.iter().enumerate() {
        match letter {
            b'X' => access.is_exclusive = true,
            b'T' => access.is_unprivileged = true,
            b'L' => access.is_locked = true,
            b'O' => access.purpose = Purpose::Fetch,
            b'E' if access.order == Order::Lanes => access.is_aborted = true,
            b'_' | b'A'..=b'Z' => {}
            _ => return Err(at),
        }
    }
    Ok(())
}

/// Parses `(00020440:0000001e)`, if there is one.
#[inline(always)]
fn owner(cursor: &mut Cursor<'_>) -> Result<Option<(u64, u64)>, Problem> {
    if !cursor.eat(b'(') {
        return Ok(None);
    }
    let address = cursor.hex()?.value;
    cursor.expect(b':')?;
    let serial = cursor.hex()?.value;
    cursor.expect(b')')?;
    cursor.blanks();
    Ok(Some((address, serial)))
}

/// Parses `0000020004ffee80:020114ffee80_NS`.
#[inline(always)]
fn address<'a>(cursor: &mut Cursor<'a>, access: &mut Access<'a>) -> Result<(), Problem> {
    let Number { value, digits } = cursor.hex()?;
    (access.address, access.digits) = (Some(value), digits);
    if cursor.eat(b':') {
        access.physical = Some(physical(cursor)?);
    }
    if cursor.is_word_end() { Ok(()) } else { Err(cursor.problem(ProblemKind::NotHexadecimal)) }
}

/// Parses as many digits as the size implies, or `(ABORTED)` and other words in brackets instead.
#[inline(always)]
fn data<'a>(cursor: &mut Cursor<'a>, access: &mut Access<'a>) -> Result<(), Problem> {
    if cursor.peek() == Some(b'(') {
        return no_data(cursor, access);
    }
    if let [b'0', b'x' | b'X', ..] = cursor.rest() {
        cursor.skip(2);
    }
    let start = *cursor;
    let expected = 2 * usize::from(access.size);
    let mut digits = cursor.value_word().ok_or_else(|| start.problem(ProblemKind::NotHexadecimal))?;
    while digits < expected {
        let mut ahead = *cursor;
        ahead.blanks();
        let Some(more) = ahead.value_word() else { break };
        (digits, *cursor) = (digits + more, ahead);
    }
    if digits == expected {
        access.order = if access.order == Order::Lanes { Order::Number } else { access.order };
    } else if digits < expected || access.order != Order::Lanes {
        return Err(start.problem(ProblemKind::WrongWidth));
    }
    access.data = Some(Value(cursor.since(start.at())));
    access.notes = notes(cursor)?;
    access.is_aborted |= is_abort(access.notes);
    Ok(())
}

fn no_data<'a>(cursor: &mut Cursor<'a>, access: &mut Access<'a>) -> Result<(), Problem> {
    access.notes = cursor.trimmed();
    check_no_joined_line(cursor, access.notes)?;
    if !access.notes.contains(&b')') {
        return Err(cursor.problem_at(cursor.at() + access.notes.len(), ProblemKind::Truncated));
    }
    access.is_aborted |= is_abort(access.notes);
    Ok(())
}

fn is_abort(notes: &[u8]) -> bool {
    let starts = |word: &[u8]| notes.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    starts(b"(ABORTED)") || starts(b"(ABORT)")
}
