//! Lines of text from the kernel and from JIT compilers: fields with their columns, and notes about bad lines.
//!
//! bytes of a text file ─▶ **lines** ─▶ one call per line, [`Fields`] of a line, [`NoteList`]
//!
//! Knows only that fields are separated by blanks. A bad line is noted with its line and column and skipped.

use crate::note::{Location, Note, NoteKind};

/// Maximum number of notes about one file.
const NOTE_LIMIT: usize = 100;

/// Maximum number of characters of the file that a note shows.
const SHOWN: usize = 40;

/// Notes about one file, a limited number.
#[derive(Debug)]
pub(super) struct NoteList<'a> {
    file: &'a str,
    notes: Vec<Note>,
    /// Number of notes that were omitted.
    omitted: usize,
}

impl<'a> NoteList<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self { file, notes: Vec::new(), omitted: 0 }
    }

    /// Notes something about a line, or about the whole file for line 0.
    pub(super) fn add(&mut self, line: usize, kind: NoteKind, text: impl FnOnce() -> String) {
        if self.notes.len() < NOTE_LIMIT {
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            self.notes.push(Location::line(self.file, line).note(kind, text()));
        } else {
            self.omitted += 1;
        }
    }

    pub(super) fn bad_line(&mut self, line: usize, bad: &BadField) {
        self.add(line, NoteKind::MalformedLine, || format!("column {}: {}", bad.column, bad.text));
    }

    pub(super) fn finish(mut self) -> Vec<Note> {
        if self.omitted > 0 {
            let text = format!("{} further notes are omitted", self.omitted);
            self.notes.push(Location::file(self.file).note(NoteKind::TooMany, text));
        }
        self.notes
    }
}

/// A field that is not what it should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadField {
    /// The column of its first byte, from 1.
    pub(super) column: usize,
    pub(super) text: String,
}

/// A line, without its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'t> {
    /// Its number, from 1.
    pub(super) number: usize,
    /// The offset of its first byte in the text.
    pub(super) offset: usize,
    pub(super) text: &'t str,
}

/// Calls `take` with each line that is not empty. Lines that are bad are noted.
pub(super) fn each_line<'t>(
    text: &'t [u8],
    notes: &mut NoteList<'_>,
    mut take: impl FnMut(Line<'t>, &mut NoteList<'_>) -> Result<(), BadField>,
) {
    let mut offset = 0;
    for (number, bytes) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let taken = match std::str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => Ok(()),
            Ok(text) => take(Line { number, offset, text: text.trim_end_matches('\r') }, notes),
            Err(error) => Err(BadField { column: error.valid_up_to() + 1, text: "is not UTF-8".to_string() }),
        };
        if let Err(bad) = taken {
            notes.bad_line(number, &bad);
        }
        offset += bytes.len() + 1;
    }
}

/// The fields of a line, from left to right.
#[derive(Debug, Clone)]
pub(super) struct Fields<'t> {
    line: &'t str,
    at: usize,
}

/// A field and its column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'t> {
    pub(super) column: usize,
    pub(super) text: &'t str,
}

impl<'t> Fields<'t> {
    pub(super) fn new(line: &'t str) -> Self {
        Self { line, at: 0 }
    }

    /// The next field.
    pub(super) fn next(&mut self, noun: &str) -> Result<Field<'t>, BadField> {
        let field = self.peek();
        let text = field.text.split([' ', '\t']).next().unwrap_or_default();
        self.at += text.len();
        match text {
            "" => Err(BadField { column: field.column, text: format!("the line ends before {noun}") }),
            text => Ok(Field { text, ..field }),
        }
    }

    /// The rest of the line, which may contain blanks and may be empty.
    pub(super) fn peek(&mut self) -> Field<'t> {
        let rest = self.line.get(self.at..).unwrap_or_default();
        let text = rest.trim_start_matches([' ', '\t']);
        self.at += rest.len() - text.len();
        Field { column: self.at + 1, text }
    }
}

impl Field<'_> {
    pub(super) fn bad(&self, expected: &str) -> BadField {
        let shown: String = self.text.chars().take(SHOWN).collect();
        BadField { column: self.column, text: format!("`{shown}` is not {expected}") }
    }

    /// A hexadecimal number of up to 64 bits; `0x` may precede it.
    pub(super) fn hex(&self, noun: &str) -> Result<u64, BadField> {
        let digits = self.text.strip_prefix("0x").unwrap_or(self.text);
        // `from_str_radix` accepts a sign.
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        number.ok_or_else(|| self.bad(noun))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_columns() {
        let mut fields = Fields::new("  ab\tc  rest of it ");
        let mut next = || fields.next("a field").map(|field| (field.column, field.text));
        assert_eq!((next(), next()), (Ok((3, "ab")), Ok((6, "c"))));
        assert_eq!((fields.peek().column, fields.peek().text), (9, "rest of it "));
        let mut empty = Fields::new("a ");
        empty.next("a field").unwrap();
        assert_eq!(
            empty.next("its name").unwrap_err(),
            BadField { column: 3, text: "the line ends before its name".into() }
        );
    }

    #[test]
    fn hexadecimal_numbers() {
        let rows = [
            ("0", Some(0)),
            ("ffff800008000000", Some(0xffff_8000_0800_0000)),
            ("0x1F", Some(0x1f)),
            ("10000000000000000", None),
            ("+1", None),
            ("-1", None),
            ("0x", None),
            ("g", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(Field { column: 1, text }.hex("a number").ok(), expected, "{text}");
        }
    }

    #[test]
    fn notes_are_limited_and_have_places() {
        let mut notes = NoteList::new("maps");
        let text = [&b"ok\n\nb\xff\r\n"[..], &b"bad\n".repeat(200)].concat();
        let mut offsets = vec![];
        each_line(&text, &mut notes, |line, _| {
            offsets.push((line.number, line.offset));
            if line.text == "ok" { Ok(()) } else { Err(Field { column: 2, text: line.text }.bad("good")) }
        });
        assert_eq!(offsets[..3], [(1, 0), (4, 8), (5, 12)]);
        let notes: Vec<String> = notes.finish().iter().map(ToString::to_string).collect();
        assert_eq!(notes[0], "maps:3: column 2: is not UTF-8");
        assert_eq!(notes[1], "maps:4: column 2: `bad` is not good");
        assert_eq!((notes.len(), notes[100].as_str()), (101, "maps: 101 further notes are omitted"));
    }
}
