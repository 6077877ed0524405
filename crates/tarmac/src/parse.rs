//! Parsing: a line to a record, in one pass and without copying.
//!
//! line ─▶ time, core ─▶ **record**
//!
//! Lines are independent of each other, except for pictures, which the next line can continue. A malformed line is a
//! record too, with the position and reason of the error; nothing is guessed. Knows nothing of files, nor of how
//! records relate to each other.
//! Specification: ARM-EPM-041435, and the extensions of producers.

mod cursor;
mod event;
mod instruction;
mod memory;
mod picture;
mod prefix;
mod register;

use self::cursor::{Cursor, is_hex};
use self::prefix::Kind;
use super::record::{Line, PictureKind, Problem, ProblemKind, Record, Stamp};

/// Properties of a log that its lines do not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParseOptions {
    /// Instructions without an instruction set are Thumb.
    pub implicit_thumb: bool,
}

/// Parser of the lines of a log.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    options: ParseOptions,
    /// The picture in the previous line, which may continue.
    picture: Option<PreviousPicture>,
}

/// A picture that the next line may continue.
#[derive(Debug, Clone, Copy)]
struct PreviousPicture {
    kind: PictureKind,
    /// Offset of its address in the line.
    at: usize,
    /// Number of digits of its address.
    digits: usize,
}

impl Parser {
    /// A parser for the start of a log.
    pub fn new(options: ParseOptions) -> Self {
        Self { options, picture: None }
    }

    /// Parses a line, given without its line end.
    #[inline]
    pub fn parse<'a>(&mut self, raw: &'a [u8]) -> Line<'a> {
        let mut line = Line { raw, stamp: Stamp::Absent, core: None, record: Record::Blank };
        let before = self.picture.take();
        if let Err(problem) = self.parse_record(&mut line, before) {
            line.record = Record::Unknown(problem);
        }
        line
    }

    #[inline(always)]
    fn parse_record<'a>(&mut self, line: &mut Line<'a>, before: Option<PreviousPicture>) -> Result<(), Problem> {
        let mut cursor = Cursor::new(line.raw);
        if is_suspicious(line.raw) {
            binary(line.raw)?;
            if line.raw.starts_with(MARK) {
                cursor.skip(MARK.len());
            }
        }
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
            // The most frequent and largest records: built in place.
            Kind::Instruction(tag) => {
                let implicit_thumb = self.options.implicit_thumb;
                return instruction::instruction(&mut cursor, tag, implicit_thumb, &mut line.record);
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
        self.picture = Some(PreviousPicture { kind, at, digits: usize::from(picture.digits) });
        Ok(Record::Picture(picture))
    }
}

/// Whether a malformed line may have been an instruction or an exception. It may, unless all known first words in it
/// begin other lines; the next line may be joined to it.
pub(super) fn may_be_instruction(raw: &[u8]) -> bool {
    let words = raw.split(|byte| matches!(byte, b' ' | b'\t' | b'('));
    let mut kinds = words.filter_map(prefix::kind).peekable();
    kinds.peek().is_none() || kinds.any(|kind| matches!(kind, Kind::Instruction(_) | Kind::Event | Kind::Exception))
}

/// Whether an address is right below that of the previous picture. It may look like a time.
#[inline(always)]
fn continues(before: PreviousPicture, cursor: Cursor<'_>) -> bool {
    let mut ahead = cursor;
    cursor.at() == before.at && {
        let word = ahead.word();
        word.len() == before.digits && is_hex(word)
    }
}

/// Whether there are bytes that are rare in text. Examines sixteen at a time, the last of them twice.
#[inline(always)]
fn is_suspicious(line: &[u8]) -> bool {
    let is_rare = |byte: &u8| byte.wrapping_sub(0x20) >= 0x5f;
    let has_rare = |bytes: &[u8; 16]| bytes.iter().fold(false, |is_found, byte| is_found | is_rare(byte));
    match line.last_chunk() {
        Some(last) => line.as_chunks().0.iter().fold(has_rare(last), |is_found, bytes| is_found | has_rare(bytes)),
        None => line.iter().any(is_rare),
    }
}

/// Byte order mark, which some editors put in front of UTF-8. It is not part of a record.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Checks that a line is UTF-8 without control characters; symbol names in a disassembly may have any letters.
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
