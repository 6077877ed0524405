//! Headers, events, branches and opaque lines.

use super::cursor::{CLOSE, COLON, Cursor, decimal, is_hex};
use super::instruction::{check_no_joined_line, set};
use crate::record::{Branch, Event, Flow, Header, InstructionSet, OpaqueLine, Problem, ProblemKind, Record};

/// Parses `Tarmac Text Rev 3t`; `None` if the line starts differently.
pub(super) fn header(line: &[u8]) -> Option<Result<Header<'_>, Problem>> {
    let mut cursor = Cursor::new(line);
    for word in [&b"Tarmac"[..], b"Text", b"Rev"] {
        if cursor.next_word() != word {
            return None;
        }
    }
    cursor.blanks();
    let rest = cursor.trimmed();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (revision, flags) = rest.split_at(digits);
    let revision = decimal(revision).and_then(|revision| u32::try_from(revision).ok());
    let revision = revision.ok_or_else(|| cursor.problem(ProblemKind::Unexpected));
    Some(revision.map(|revision| Header { revision, flags }))
}

/// Parses `BR (00002d40) A`.
pub(super) fn branch<'a>(cursor: &mut Cursor<'a>) -> Result<Record<'a>, Problem> {
    cursor.blanks();
    cursor.expect(b'(')?;
    let target = cursor.hex()?;
    cursor.expect(b')')?;
    let set = last_set(cursor)?;
    Ok(Record::Branch(Branch { target: target.value, digits: target.digits, set }))
}

/// Parses `FD (12) 00008000 00008010 A`.
pub(super) fn flow<'a>(cursor: &mut Cursor<'a>, kind: u8) -> Result<Record<'a>, Problem> {
    cursor.blanks();
    let mut number = None;
    if cursor.eat(b'(') {
        let start = *cursor;
        number = decimal(cursor.until(CLOSE));
        if number.is_none() {
            return Err(start.problem(ProblemKind::Unexpected));
        }
        cursor.expect(b')')?;
        cursor.blanks();
    }
    let address = cursor.hex_word()?.value;
    cursor.blanks();
    let target = cursor.hex_word()?.value;
    Ok(Record::Flow(Flow { kind, number, address, target, set: last_set(cursor)? }))
}

/// Parses an instruction set or the end of the line.
fn last_set(cursor: &mut Cursor<'_>) -> Result<Option<InstructionSet>, Problem> {
    cursor.blanks();
    if cursor.is_at_end() {
        return Ok(None);
    }
    let (set, length) = set(cursor.rest()).ok_or_else(|| cursor.problem(ProblemKind::NotAnInstructionSet))?;
    cursor.skip(length);
    cursor.blanks();
    if cursor.is_at_end() { Ok(Some(set)) } else { Err(cursor.problem(ProblemKind::Unexpected)) }
}

/// Parses `CADI E simulation_stopped`, `SIGNAL: SIGNAL=poreset STATE=N`.
pub(super) fn opaque<'a>(cursor: &mut Cursor<'a>, tag: &'a [u8]) -> Result<Record<'a>, Problem> {
    cursor.eat(b':');
    cursor.blanks();
    let text = cursor.trimmed();
    check_no_joined_line(cursor, text)?;
    Ok(Record::Opaque(OpaqueLine { tag, text }))
}

/// Parses the fields after `E`: `<value> {mode} {value} <number> <name>`, or only a name with arguments.
pub(super) fn event<'a>(cursor: &mut Cursor<'a>) -> Result<Record<'a>, Problem> {
    cursor.blanks();
    let mut event = Event::default();
    let mut ahead = *cursor;
    if is_number(ahead.until(COLON)) {
        event.value = Some(cursor.hex()?.value);
        // A physical address may follow.
        cursor.word();
        cursor.blanks();
        mode_and_number(cursor, &mut event)?;
    }
    cursor.blanks();
    event.name = cursor.trimmed();
    check_no_joined_line(cursor, event.name)?;
    if event.name.is_empty() && event.number.is_none() {
        return Err(cursor.problem(ProblemKind::Truncated));
    }
    let mut words = Cursor::new(event.name);
    if words.next_word() == b"INT_TAKEN" {
        words.blanks();
        event.number = words.hex_word().ok().and_then(|number| u32::try_from(number.value).ok());
    }
    event.is_exception = is_exception(&event);
    Ok(Record::Event(event))
}

/// Whether a word is a number, which events print in full. A name can consist of hexadecimal letters, but is shorter.
fn is_number(word: &[u8]) -> bool {
    word.len() >= 8 && is_hex(word.strip_prefix(b"0x").unwrap_or(word))
}

/// Parses mode and number. The last number before the name is that of the event; Fast Models sometimes print 64 bits,
/// with junk in the upper half.
fn mode_and_number<'a>(cursor: &mut Cursor<'a>, event: &mut Event<'a>) -> Result<(), Problem> {
    let mut ahead = *cursor;
    let mode = ahead.word();
    ahead.blanks();
    if !is_number(mode) && is_number(ahead.clone().word()) {
        (event.mode, *cursor) = (mode, ahead);
    }
    while is_number(cursor.clone().word()) {
        event.number = Some(cursor.hex_word()?.value as u32);
        cursor.blanks();
    }
    Ok(())
}

/// Whether an exception is taken. Mode changes, signal levels, debug state and requests are none.
fn is_exception(event: &Event<'_>) -> bool {
    const OTHERS: [&[u8]; 8] = [b"ModeChange", b"Lockup", b"Halted", b"Sleep", b"Wakeup", b"WFI", b"WFE", b"SetEvent"];
    let mut words = Cursor::new(event.name);
    let name = words.next_word();
    match name.strip_prefix(b"CoreEvent_") {
        Some(core) => !OTHERS.iter().any(|other| core.eq_ignore_ascii_case(other)),
        None if name.is_empty() => {
            event.number.is_some_and(|number| matches!(number, 1..=5 | 7..=8 | 14 | 0x80..=0x8f))
        }
        // A signal of this name has a level after it.
        None => name == b"INT_TAKEN" || name == b"RESET" && words.trimmed().is_empty(),
    }
}
