//! A line as a record: one pass, nothing copied.
//!
//! line ─▶ time, core ─▶ **record**
//!
//! Each line stands for itself, but for pictures of memory, which can be continued on the next line. What cannot be
//! understood is a record too, which says where and why; nothing is guessed. Knows nothing of files and of what records
//! mean together.
//! Specification: ARM-EPM-041435, and what producers print beyond it.

mod cursor;
mod event;
mod instruction;
mod memory;
mod picture;
mod prefix;
mod register;

use self::cursor::{Cursor, is_hex};
use self::prefix::Kind;
use super::record::{InstructionSet, Line, PictureKind, Problem, ProblemKind, Record, Stamp};

/// What lines do not say and a user may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParseOptions {
    /// Instructions without an instruction set are Thumb.
    pub implicit_thumb: bool,
}

/// Understands lines, one after another.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    options: ParseOptions,
    /// The line before was a picture, which may go on.
    picture: Option<Before>,
}

/// A picture that may go on in the next line.
#[derive(Debug, Clone, Copy)]
struct Before {
    kind: PictureKind,
    /// Where in the line its address starts.
    at: usize,
    /// How many digits its address has.
    digits: usize,
}

impl Parser {
    /// Starts.
    pub fn new(options: ParseOptions) -> Self {
        Self { options, picture: None }
    }

    /// Understands a line, which is given without its end.
    #[inline]
    pub fn parse<'a>(&mut self, raw: &'a [u8]) -> Line<'a> {
        let mut line = Line { raw, stamp: Stamp::Absent, core: None, record: Record::Blank };
        let before = self.picture.take();
        if let Err(problem) = self.understand(&mut line, before) {
            line.record = Record::Unknown(problem);
        }
        line
    }

    #[inline(always)]
    fn understand<'a>(&mut self, line: &mut Line<'a>, before: Option<Before>) -> Result<(), Problem> {
        if is_suspicious(line.raw) {
            binary(line.raw)?;
        }
        let mut cursor = Cursor::new(line.raw);
        cursor.many_blanks();
        if let Some(before) = before.filter(|before| continues(*before, cursor)) {
            line.record = self.picture(&mut cursor, before.kind, true)?;
            return Ok(());
        }
        match cursor.rest() {
            [] => return Ok(()),
            [b'#' | b';' | b'*', ..] | [b'/', b'/', ..] => {
                line.record = Record::Comment(cursor.rest());
                return Ok(());
            }
            [b'T', b'a', ..] => {
                if let Some(header) = event::header(line.raw) {
                    line.record = Record::Header(header?);
                    return Ok(());
                }
            }
            _ => {}
        }
        line.stamp = prefix::stamp(&mut cursor)?;
        let (kind, tag) = prefix::tag(&mut cursor, line)?;
        if !matches!(cursor.peek(), None | Some(b' ' | b'\t' | b'(')) && kind != Kind::Opaque {
            return Err(cursor.problem(ProblemKind::Unexpected));
        }
        line.record = match kind {
            // Most lines by far, and large records: they are made where they stay.
            Kind::Instruction(tag) => {
                return instruction::instruction(&mut cursor, tag, self.options, &mut line.record);
            }
            Kind::Access => return memory::access(&mut cursor, tag, &mut line.record),
            Kind::Register => register::register(&mut cursor)?,
            Kind::Picture(kind) => {
                cursor.blanks();
                self.picture(&mut cursor, kind, false)?
            }
            Kind::Branch => event::branch(&mut cursor)?,
            Kind::Event => event::event(&mut cursor)?,
            Kind::Exception => Record::Exception(instruction::exception(&mut cursor, false)?),
            Kind::Flow(kind) => event::flow(&mut cursor, kind)?,
            Kind::Transfer => memory::transfer(&mut cursor, tag)?,
            Kind::Bus => memory::bus(&mut cursor, tag)?,
            Kind::Opaque => event::opaque(&mut cursor, tag)?,
        };
        Ok(())
    }

    #[inline(always)]
    fn picture<'a>(
        &mut self,
        cursor: &mut Cursor<'a>,
        kind: PictureKind,
        is_continuation: bool,
    ) -> Result<Record<'a>, Problem> {
        let at = cursor.at();
        let picture = picture::picture(cursor, kind, is_continuation)?;
        self.picture = Some(Before { kind, at, digits: usize::from(picture.digits) });
        Ok(Record::Picture(picture))
    }
}

/// May a line that cannot be understood have told of an instruction or an exception? Yes, unless each word that lines can
/// start with starts others; the next line may be in it too.
pub(super) fn may_lead(raw: &[u8]) -> bool {
    let words = raw.split(|byte| matches!(byte, b' ' | b'\t' | b'('));
    let mut kinds = words.filter_map(prefix::kind).peekable();
    kinds.peek().is_none() || kinds.any(|kind| matches!(kind, Kind::Instruction(_) | Kind::Event | Kind::Exception))
}

/// An address stands right below that of the picture before. Digits of it may look like a time.
#[inline(always)]
fn continues(before: Before, cursor: Cursor<'_>) -> bool {
    let mut ahead = cursor;
    cursor.at() == before.at && {
        let word = ahead.word();
        word.len() == before.digits && is_hex(word)
    }
}

/// There are bytes that text seldom has. Looks at sixteen at a time, the last of them twice.
#[inline(always)]
fn is_suspicious(line: &[u8]) -> bool {
    let is_odd = |byte: &u8| byte.wrapping_sub(0x20) >= 0x5f;
    let has_odd = |bytes: &[u8; 16]| bytes.iter().fold(false, |is_found, byte| is_found | is_odd(byte));
    match line.last_chunk() {
        Some(last) => line.as_chunks().0.iter().fold(has_odd(last), |is_found, bytes| is_found | has_odd(bytes)),
        None => line.iter().any(is_odd),
    }
}

/// Text is UTF-8 without control characters; names in a disassembly may have any letters.
#[cold]
fn binary(line: &[u8]) -> Result<(), Problem> {
    let valid = match std::str::from_utf8(line) {
        Ok(_) => line.len(),
        Err(error) => error.valid_up_to(),
    };
    let control = line.iter().position(|byte| byte.is_ascii_control() && *byte != b'\t');
    match control.map_or(valid, |at| at.min(valid)) {
        at if at == line.len() => Ok(()),
        at => Err(Cursor::new(line).problem_at(at, ProblemKind::Binary)),
    }
}
