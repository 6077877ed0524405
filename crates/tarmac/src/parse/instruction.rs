//! Instruction lines: ES, IT, IS and IF of every producer.
//!
//! The brackets contain a count, an address, an address with a serial number or an address with an opcode; only the
//! following words distinguish them. The instruction set is a word of its own, and addresses are never that short.

use super::cursor::{CLOSE, COLON, COMMA, Cursor, Number, OPEN, decimal};
use super::prefix::{LONG_DISASSEMBLY, LONG_TEXT, joined_line};
use crate::record::{Exception, Instruction, InstructionSet, Physical, Problem, ProblemKind, Record, Tag};

/// Parses the fields after the tag.
#[inline(always)]
pub(super) fn instruction<'a>(
    cursor: &mut Cursor<'a>,
    tag: Tag,
    implicit_thumb: bool,
    record: &mut Record<'a>,
) -> Result<(), Problem> {
    cursor.blanks();
    let mut instruction = Instruction { tag, length: 4, is_executed: tag != Tag::Is, ..Instruction::default() };
    match cursor.peek() {
        Some(b'(') => {
            cursor.skip(1);
            bracketed(cursor, &mut instruction)?;
        }
        _ if tag == Tag::Es => {
            *record = asynchronous(cursor)?;
            return Ok(());
        }
        _ => {
            address(cursor, &mut instruction)?;
            opcode_word(cursor, &mut instruction)?;
        }
    }
    set_and_mode(cursor, &mut instruction, implicit_thumb)?;
    text(cursor, &mut instruction)?;
    *record = Record::Instruction(instruction);
    Ok(())
}

/// Parses `ES EXC [0x00] Reset`, `ES IRQ`.
fn asynchronous<'a>(cursor: &mut Cursor<'a>) -> Result<Record<'a>, Problem> {
    let mut ahead = *cursor;
    if ahead.until(OPEN) == b"EXC" {
        return Ok(Record::Exception(exception(&mut ahead, true)?));
    }
    match cursor.peek() {
        Some(byte) if byte.is_ascii_alphabetic() => {
            check_no_joined_line(cursor, cursor.trimmed())?;
            Ok(Record::Asynchronous(cursor.trimmed()))
        }
        _ => Err(cursor.problem(ProblemKind::Unexpected)),
    }
}

/// Parses `[0x08] System Call`. The offset in brackets is hexadecimal with 0x, otherwise decimal.
pub(super) fn exception<'a>(cursor: &mut Cursor<'a>, is_step: bool) -> Result<Exception<'a>, Problem> {
    cursor.blanks();
    let mut vector = None;
    if cursor.eat(b'[') {
        let start = *cursor;
        let is_negative = cursor.eat(b'-');
        let number = if cursor.rest().starts_with(b"0x") {
            i64::try_from(cursor.hex()?.value).ok()
        } else {
            decimal(cursor.until(CLOSE)).and_then(|number| i64::try_from(number).ok())
        };
        let number = number.ok_or_else(|| start.problem(ProblemKind::Unexpected))?;
        cursor.expect(b']')?;
        vector = Some(if is_negative { -number } else { number });
    }
    cursor.blanks();
    let name = cursor.trimmed();
    if name.is_empty() && vector.is_none() {
        return Err(cursor.problem(ProblemKind::Truncated));
    }
    check_no_joined_line(cursor, name)?;
    Ok(Exception { is_step, vector, name })
}

/// Parses the brackets, and address and opcode if they follow.
#[inline(always)]
fn bracketed<'a>(cursor: &mut Cursor<'a>, instruction: &mut Instruction<'a>) -> Result<(), Problem> {
    let start = *cursor;
    let count = cursor.decimal_digits();
    if cursor.peek() != Some(b')') {
        let first = start.clone().until(COLON | CLOSE);
        cursor.seek(start.at() + first.len());
        if cursor.eat(b':') {
            return with_colon(cursor, start, first, instruction);
        }
    }
    let inside = cursor.since(start.at());
    cursor.expect(b')')?;
    cursor.blanks();
    let words = *cursor;
    let address_or_opcode = cursor.hex();
    if cursor.is_word_end() || words.peek() == Some(b'-') {
        // `(0000000000412c40) 54ffff81 O`: the address is in the brackets.
        let mut ahead = *cursor;
        ahead.word();
        ahead.blanks();
        if set(ahead.rest()).is_some() {
            *cursor = start;
            virtual_address(cursor, instruction)?;
            *cursor = words;
            return opcode_word(cursor, instruction);
        }
    }
    instruction.number = Some(count.ok_or_else(|| not_a_count(start, inside))?);
    let Number { value, digits } = address_or_opcode?;
    (instruction.address, instruction.digits) = (Some(value), digits);
    translation(cursor, instruction)?;
    opcode_word(cursor, instruction)
}

#[cold]
fn not_a_count(start: Cursor<'_>, word: &[u8]) -> Problem {
    let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    start.problem(if is_number { ProblemKind::TooLong } else { ProblemKind::Unexpected })
}

/// Parses `(address:opcode) A` or `(address:serial) address opcode T16`.
#[inline(always)]
fn with_colon<'a>(
    cursor: &mut Cursor<'a>,
    start: Cursor<'a>,
    first: &[u8],
    instruction: &mut Instruction<'a>,
) -> Result<(), Problem> {
    let second = *cursor;
    cursor.until(CLOSE);
    cursor.expect(b')')?;
    cursor.blanks();
    if instruction.tag == Tag::Es || set(cursor.rest()).is_some() {
        let mut inside = start;
        if matches!(first, b"DBGITR" | b"EDITR") {
            inside.seek(second.at() - 1);
        } else {
            virtual_address(&mut inside, instruction)?;
        }
        inside.expect(b':')?;
        opcode(&mut inside, instruction)?;
        inside.expect(b')')?;
        return Ok(());
    }
    let mut inside = second;
    instruction.number = Some(inside.hex()?.value);
    inside.expect(b')')?;
    address(cursor, instruction)?;
    opcode_word(cursor, instruction)
}

#[inline(always)]
fn virtual_address(cursor: &mut Cursor<'_>, instruction: &mut Instruction<'_>) -> Result<(), Problem> {
    let Number { value, digits } = cursor.hex()?;
    (instruction.address, instruction.digits) = (Some(value), digits);
    Ok(())
}

/// Parses `0000944c:00000000944c_NS,00000000944e_NS`; the physical addresses are optional.
#[inline(always)]
fn address<'a>(cursor: &mut Cursor<'a>, instruction: &mut Instruction<'a>) -> Result<(), Problem> {
    virtual_address(cursor, instruction)?;
    translation(cursor, instruction)
}

/// Parses the physical addresses after the virtual one.
#[inline(always)]
fn translation<'a>(cursor: &mut Cursor<'a>, instruction: &mut Instruction<'a>) -> Result<(), Problem> {
    if cursor.eat(b':') {
        instruction.physical = Some(physical(cursor)?);
        if cursor.eat(b',') {
            instruction.second_physical = Some(physical(cursor)?);
        }
    }
    if cursor.is_word_end() { Ok(()) } else { Err(cursor.problem(ProblemKind::NotHexadecimal)) }
}

/// Parses `00000000944c_NS`.
#[inline(always)]
pub(super) fn physical<'a>(cursor: &mut Cursor<'a>) -> Result<Physical<'a>, Problem> {
    let address = cursor.hex()?.value;
    let space = if cursor.eat(b'_') { cursor.until(COMMA) } else { &[] };
    Ok(Physical { address, space, page: None })
}

/// Parses an opcode that is a whole word.
#[inline(always)]
fn opcode_word(cursor: &mut Cursor<'_>, instruction: &mut Instruction<'_>) -> Result<(), Problem> {
    cursor.blanks();
    opcode(cursor, instruction)?;
    if cursor.is_word_end() { Ok(()) } else { Err(cursor.problem(ProblemKind::NotHexadecimal)) }
}

/// Parses four or eight digits, or dashes if the fetch failed.
#[inline(always)]
fn opcode(cursor: &mut Cursor<'_>, instruction: &mut Instruction<'_>) -> Result<(), Problem> {
    let start = cursor.at();
    if cursor.peek() == Some(b'-') {
        while cursor.eat(b'-') {}
        instruction.length = match cursor.at() - start {
            4 => 2,
            8 => 4,
            _ => return Err(cursor.problem_at(start, ProblemKind::WrongOpcode)),
        };
        return Ok(());
    }
    let Number { value, digits } = cursor.hex()?;
    instruction.length = match digits {
        4 => 2,
        8 => 4,
        _ if cursor.is_at_end() => return Err(cursor.problem(ProblemKind::Truncated)),
        _ => return Err(cursor.problem_at(start, ProblemKind::WrongOpcode)),
    };
    instruction.opcode = Some(value as u32);
    Ok(())
}

/// The instruction set in the next word, and the length of the word.
#[inline(always)]
pub(super) fn set(rest: &[u8]) -> Option<(InstructionSet, usize)> {
    let (set, length) = match rest {
        [b'T', b'1', b'6', ..] | [b'T', b'3', b'2', ..] => (InstructionSet::T, 3),
        [b'O', ..] => (InstructionSet::O, 1),
        [b'A', ..] => (InstructionSet::A, 1),
        [b'T', ..] => (InstructionSet::T, 1),
        [b'E' | b'X', ..] => (InstructionSet::E, 1),
        _ => return None,
    };
    matches!(rest.get(length), None | Some(b' ' | b'\t' | b':')).then_some((set, length))
}

/// Parses `O EL3h_s :`, `A svc:`, `A :`, `T16`, or nothing at all.
#[inline(always)]
fn set_and_mode<'a>(
    cursor: &mut Cursor<'a>,
    instruction: &mut Instruction<'a>,
    implicit_thumb: bool,
) -> Result<(), Problem> {
    cursor.blanks();
    let Some((set, length)) = set(cursor.rest()) else { return no_set(*cursor, instruction, implicit_thumb) };
    instruction.set = Some(set);
    cursor.skip(length);
    cursor.blanks();
    let mode_start = *cursor;
    let mode = cursor.until(COLON);
    cursor.blanks();
    if cursor.eat(b':') {
        instruction.mode = mode;
    } else if length == 3 {
        *cursor = mode_start;
    } else {
        return Err(cursor.problem(ProblemKind::Unexpected));
    }
    Ok(())
}

/// Handles a line without an instruction set; Cortex-M0 has only Thumb and prints none.
fn no_set(start: Cursor<'_>, instruction: &mut Instruction<'_>, implicit_thumb: bool) -> Result<(), Problem> {
    if instruction.tag == Tag::Es || instruction.number.is_some() {
        return Err(start.problem(ProblemKind::NotAnInstructionSet));
    }
    if !implicit_thumb {
        let column = u32::try_from(start.at() + 1).unwrap_or(u32::MAX);
        return Err(Problem { column, kind: ProblemKind::NoInstructionSet });
    }
    instruction.set = Some(InstructionSet::T);
    Ok(())
}

/// Parses the disassembly, and CCFAIL before it.
#[inline(always)]
fn text<'a>(cursor: &mut Cursor<'a>, instruction: &mut Instruction<'a>) -> Result<(), Problem> {
    cursor.many_blanks();
    if cursor.peek() == Some(b'C') {
        let mut ahead = *cursor;
        if ahead.word() == b"CCFAIL" {
            ahead.blanks();
            *cursor = ahead;
            instruction.is_executed = false;
        }
    }
    instruction.text = cursor.rest();
    check_joined(cursor, joined_line(instruction.text, LONG_DISASSEMBLY))
}

/// Fails if another line is joined to the text, because a line end was lost.
#[inline(always)]
pub(super) fn check_no_joined_line(cursor: &Cursor<'_>, text: &[u8]) -> Result<(), Problem> {
    check_joined(cursor, joined_line(text, LONG_TEXT))
}

#[inline(always)]
fn check_joined(cursor: &Cursor<'_>, joined_line: Option<usize>) -> Result<(), Problem> {
    match joined_line {
        None => Ok(()),
        Some(at) => Err(cursor.problem_at(cursor.at() + at, ProblemKind::Unexpected)),
    }
}
