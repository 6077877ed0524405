//! Ini files, read line by line, and the writer for them.
//!
//! bytes of a file ─▶ **ini** ─▶ sections with entries, each with its line number
//!
//! Parsing never fails: a line that is neither section, entry, comment nor blank is kept as malformed. The meaning of
//! section names and keys is not known here.

use std::collections::HashSet;

use crate::error::Error;
use crate::note::{Location, Note, NoteKind};

/// Maximum size of an ini file in bytes.
pub(crate) const INI_LIMIT: u64 = 16 << 20;

/// Maximum number of bytes read from all ini files of a package. Without it, a package that names one large file
/// again and again would take hours to open.
pub(crate) const INI_TOTAL: u64 = 64 << 20;

/// Maximum number of notes of one kind per file; the rest are counted.
const NOTE_LIMIT: usize = 8;

/// One parsed ini file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ini {
    /// In the order of the file; entries before the first header are in a section without a name.
    pub(crate) sections: Vec<Section>,
    /// Lines, or the rest of header lines, that are not ini syntax.
    pub(crate) malformed: Vec<MalformedLine>,
    /// Number of lines that are blank or comments.
    pub(crate) blank: u32,
}

/// A header and the entries after it. A repeated header opens another section of the same name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) line: u32,
    pub(crate) entries: Vec<Entry>,
}

/// `key=value` or `key: value`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) line: u32,
}

/// Text that is not ini syntax.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MalformedLine {
    pub(crate) line: u32,
    pub(crate) text: String,
}

/// Syntax of one line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Blank, or only a comment.
    Blank,
    /// `[name]`, and the rest of the line.
    Header { name: &'a str, rest: &'a str },
    /// A key with its value.
    Entry { key: &'a str, value: &'a str },
    /// None of these.
    Malformed(&'a str),
}

impl Ini {
    /// Parses the bytes of a file; `None` if they are not text or have no ini syntax.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.contains(&0) {
            return None;
        }
        let ini = Self::parse(&String::from_utf8_lossy(bytes));
        let has_content = !ini.sections.is_empty() || ini.malformed.is_empty();
        has_content.then_some(ini)
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut ini = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, number) in text.lines().zip(1..) {
            ini.add(&Line::read(line), number);
        }
        ini
    }

    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Section> {
        self.sections.iter().filter(move |section| section.is(name))
    }

    /// Notes about malformed lines and repeated keys.
    pub(crate) fn notes(&self, file: &str) -> Vec<Note> {
        let malformed = self.malformed.iter().map(|line| {
            let text = shorten(&line.text);
            Location::line(file, line.line)
                .note(NoteKind::MalformedLine, format!("`{text}` is neither section, key nor comment"))
        });
        let mut notes = limited(malformed, file, "malformed lines");
        notes.extend(limited(self.duplicates(file), file, "repeated keys"));
        notes
    }

    fn add(&mut self, line: &Line<'_>, number: u32) {
        match *line {
            Line::Blank => self.blank += 1,
            Line::Header { name, rest } => {
                self.sections.push(Section { name: name.to_string(), line: number, entries: Vec::new() });
                if !rest.is_empty() {
                    self.malformed.push(MalformedLine { line: number, text: rest.to_string() });
                }
            }
            Line::Entry { key, value } => {
                if self.sections.is_empty() {
                    self.sections.push(Section::default());
                }
                if let Some(section) = self.sections.last_mut() {
                    section.entries.push(Entry { key: key.to_string(), value: value.to_string(), line: number });
                }
            }
            Line::Malformed(text) => self.malformed.push(MalformedLine { line: number, text: text.to_string() }),
        }
    }

    fn duplicates(&self, file: &str) -> impl Iterator<Item = Note> {
        self.sections.iter().filter(|section| !section.may_repeat()).flat_map(move |section| {
            let mut seen = HashSet::new();
            let twice = section.entries.iter().filter(move |entry| {
                let repeated = !seen.insert(entry.key.to_ascii_lowercase());
                repeated && !entry.is("file") && !entry.is("metadata")
            });
            twice.map(move |entry| {
                let text = format!("`{}` is repeated; the last value is used", entry.key);
                Location::line(file, entry.line).note(NoteKind::Duplicate, text)
            })
        })
    }
}

impl Section {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The last entry with this key.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.is(key))
    }

    /// The value of the last entry with this key, unless it is empty.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.entry(key).map(|entry| entry.value.as_str()).filter(|value| !value.is_empty())
    }

    /// Whether keys may repeat: these sections list one pair per line.
    fn may_repeat(&self) -> bool {
        ["source_buffers", "core_trace_sources", "device_list"].iter().any(|name| self.is(name))
    }
}

impl Entry {
    pub(crate) fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }

    /// The items of a comma-separated value.
    pub(crate) fn items(&self) -> impl Iterator<Item = &str> {
        items(&self.value)
    }
}

impl<'a> Line<'a> {
    pub(crate) fn read(line: &'a str) -> Self {
        let line = without_comment(line).trim();
        if line.is_empty() {
            return Line::Blank;
        }
        if let Some((name, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return Line::Header { name: name.trim(), rest: rest.trim() };
        }
        match separator(line).map(|at| (line[..at].trim(), line[at + 1..].trim())) {
            Some((key, value)) if !key.is_empty() => Line::Entry { key, value },
            _ => Line::Malformed(line),
        }
    }
}

/// Writer of ini text. Refuses names and values that [`Ini::parse`] would not read back unchanged.
#[derive(Debug)]
pub(crate) struct IniText {
    text: String,
    separator: &'static str,
}

impl IniText {
    /// A file of `key=value` lines (`"="`) or of `key: value` lines (`": "`).
    pub(crate) fn new(separator: &'static str) -> Self {
        Self { text: String::new(), separator }
    }

    pub(crate) fn section(&mut self, name: &str) -> Result<(), Error> {
        let blank = if self.text.is_empty() { "" } else { "\n" };
        let line = format!("[{name}]");
        self.check(&line, &Line::Header { name, rest: "" })?;
        self.text += &format!("{blank}{line}\n");
        Ok(())
    }

    pub(crate) fn entry(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let line = format!("{key}{}{value}", self.separator);
        self.check(&line, &Line::Entry { key, value })?;
        self.text += &line;
        self.text.push('\n');
        Ok(())
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }

    fn check(&self, line: &str, expected: &Line<'_>) -> Result<(), Error> {
        let one_line = !line.contains(['\n', '\r', '\0']);
        let same = one_line && Line::read(line) == *expected;
        if same { Ok(()) } else { Err(Error::Unwritable { text: line.to_string() }) }
    }
}

/// The items of a comma-separated list; empty items are skipped.
pub(crate) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// A hexadecimal (`0x`) or decimal number.
pub(crate) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

/// A boolean: a number, `true`/`false`, `yes`/`no` or `on`/`off`.
pub(crate) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        other => number(other).map(|value| value != 0),
    }
}

/// The line without its comment. A comment starts the line or follows white space, so `a#1` and `x;y` are kept whole.
fn without_comment(line: &str) -> &str {
    let mut after_space = true;
    for (at, c) in line.char_indices() {
        if after_space && matches!(c, ';' | '#') {
            return &line[..at];
        }
        after_space = c.is_whitespace();
    }
    line
}

/// Offset of the separator after the key. Keys contain colons in parentheses (`PC(size:64)=0`) and values contain
/// colons too (`C:\image`), so a colon separates only if white space follows it or if there is no equals sign.
fn separator(line: &str) -> Option<usize> {
    let spaced = |at: usize| line[at + 1..].chars().next().is_none_or(char::is_whitespace);
    let separates = |&(at, c): &(usize, char)| c == '=' || spaced(at);
    let first = outside_parentheses(line).find(separates).or_else(|| outside_parentheses(line).next());
    first.map(|(at, _)| at).or_else(|| line.find('=')).or_else(|| line.find(':'))
}

/// The equals signs and colons outside parentheses.
fn outside_parentheses(line: &str) -> impl Iterator<Item = (usize, char)> {
    let mut depth = 0_u32;
    line.char_indices().filter(move |(_, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(c, '=' | ':')
    })
}

fn limited(mut notes: impl Iterator<Item = Note>, file: &str, noun: &str) -> Vec<Note> {
    let mut kept: Vec<Note> = notes.by_ref().take(NOTE_LIMIT).collect();
    if let Some(next) = notes.next() {
        let more = notes.count() + 1;
        kept.push(Location::file(file).note(next.kind, format!("{more} more {noun} are not listed")));
    }
    kept
}

fn shorten(text: &str) -> String {
    const LENGTH: usize = 40;
    match text.char_indices().nth(LENGTH) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines() {
        let entry = |key, value| Line::Entry { key, value };
        let rows: &[(&str, Line<'_>)] = &[
            ("", Line::Blank),
            ("  \t", Line::Blank),
            ("; comment", Line::Blank),
            ("  # comment", Line::Blank),
            ("[device]", Line::Header { name: "device", rest: "" }),
            (" [ regs ] ; comment", Line::Header { name: "regs", rest: "" }),
            ("[dump.text] rest", Line::Header { name: "dump.text", rest: "rest" }),
            ("[open", Line::Malformed("[open")),
            ("name=ETM_0", entry("name", "ETM_0")),
            ("name = ETM_0 ", entry("name", "ETM_0")),
            ("format: ETM3.5", entry("format", "ETM3.5")),
            ("format:ETM3.5", entry("format", "ETM3.5")),
            ("empty=", entry("empty", "")),
            ("empty:", entry("empty", "")),
            ("PC(size:64)=0x1", entry("PC(size:64)", "0x1")),
            ("PC(size:64): 0x1", entry("PC(size:64)", "0x1")),
            ("X(id:0x4)(size:64)=0x1", entry("X(id:0x4)(size:64)", "0x1")),
            ("PC(size:64=0x1", entry("PC(size:64", "0x1")),
            ("file=C:\\images\\a.bin", entry("file", "C:\\images\\a.bin")),
            ("file: C:\\images\\a.bin", entry("file", "C:\\images\\a.bin")),
            ("note: a=b", entry("note", "a=b")),
            ("etm:0=ETB", entry("etm:0", "ETB")),
            ("Cluster 0=cpu_1,cpu_2", entry("Cluster 0", "cpu_1,cpu_2")),
            ("length=0x10 ; sixteen", entry("length", "0x10")),
            ("length=0x10\t# sixteen", entry("length", "0x10")),
            ("file=a#1;b.bin", entry("file", "a#1;b.bin")),
            ("=value", Line::Malformed("=value")),
            ("just words", Line::Malformed("just words")),
        ];
        for (text, expected) in rows {
            assert_eq!(Line::read(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn byte_order_mark_and_line_endings_are_ignored() {
        let plain = Ini::parse("[a]\nb=c\n\n[a]\nd=e\n");
        assert_eq!(Ini::parse("\u{feff}[a]\r\nb=c\r\n\r\n[a]\r\nd=e"), plain);
        assert_eq!(plain.named("A").count(), 2);
        assert_eq!(plain.sections[1].entries[0].line, 5);
    }

    #[test]
    fn entries_before_a_header_are_kept() {
        let ini = Ini::parse("a=1\n[b]\n");
        assert_eq!((ini.sections[0].name.as_str(), ini.sections[0].line), ("", 0));
    }

    #[test]
    fn binary_files_are_not_ini() {
        assert_eq!(Ini::from_bytes(b"\x7fELF\x02\x00\x00"), None);
        assert_eq!(Ini::from_bytes(b"words\nand more words\n"), None);
        assert!(Ini::from_bytes(b"").is_some());
        assert!(Ini::from_bytes(b"[a]\nname=caf\xe9\n").is_some());
    }

    #[test]
    fn notes_are_limited() {
        let notes = Ini::parse(&"odd\n".repeat(100)).notes("x.ini");
        assert_eq!(notes.len(), NOTE_LIMIT + 1);
        assert_eq!(notes[0].to_string(), "x.ini:1: `odd` is neither section, key nor comment");
        assert_eq!(notes[NOTE_LIMIT].to_string(), "x.ini: 92 more malformed lines are not listed");
    }

    #[test]
    fn repeated_keys_are_noted_where_they_matter() {
        let ini = Ini::parse("[a]\nx=1\nX=2\nfile=1\nfile=2\n[source_buffers]\ny=1\ny=2\n");
        let notes: Vec<String> = ini.notes("f").iter().map(ToString::to_string).collect();
        assert_eq!(notes, ["f:3: `X` is repeated; the last value is used"]);
        assert_eq!(ini.sections[0].value("x"), Some("2"));
    }

    #[test]
    fn numbers() {
        let rows: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("25000000", Some(25_000_000)),
            ("0x00A00005", Some(0x00a0_0005)),
            ("0XFFFFFFFFFFFFFFFF", Some(u64::MAX)),
            ("0x10000000000000000", None),
            ("-1", None),
            ("+1", None),
            ("0x+1", None),
            ("0x", None),
            ("1F", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(number(text), *expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_line_is_accounted_for(text in r"([\[\]a-c=:;#() \t]{0,12}(\n|\r\n)){0,20}|\PC*|(?s).*") {
            let ini = Ini::parse(&text);
            let mut lines: HashSet<u32> = ini.malformed.iter().map(|malformed| malformed.line).collect();
            for section in &ini.sections {
                lines.extend(section.entries.iter().map(|entry| entry.line));
                lines.extend((section.line != 0).then_some(section.line));
            }
            let counted = lines.len() + usize::try_from(ini.blank).unwrap();
            prop_assert_eq!(counted, text.strip_prefix('\u{feff}').unwrap_or(&text).lines().count());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Ini::from_bytes(&bytes);
        }
    }
}
