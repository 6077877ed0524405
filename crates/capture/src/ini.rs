//! Ini text, read line by line.
//!
//! Comes in: the bytes of a file. Goes out: sections with their entries, each with its line number. Nothing fails:
//! a line that is neither section, entry, comment nor blank is kept as odd. What the names mean is not known here.

use std::collections::HashSet;

use crate::error::Error;
use crate::note::{At, Note, NoteKind};

/// More bytes than any hand or tool writes into an ini file.
pub(crate) const INI_LIMIT: u64 = 16 << 20;

/// More bytes than all ini files of a package have together. A package that names a large file over and over would
/// otherwise keep us busy for hours.
pub(crate) const INI_TOTAL: u64 = 64 << 20;

/// So many notes of one sort are given for one file; the rest is counted.
const NOTE_LIMIT: usize = 8;

/// The content of one ini file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ini {
    /// In the order of the file; entries before the first header stand in a section without a name.
    pub(crate) sections: Vec<Section>,
    /// Lines, or ends of header lines, that say nothing we know.
    pub(crate) odd: Vec<Odd>,
    /// How many lines are blank or comments.
    pub(crate) quiet: u32,
}

/// A header and what follows it. A header that is repeated opens another section of the same name.
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

/// Text that is not ini.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Odd {
    pub(crate) line: u32,
    pub(crate) text: String,
}

/// What one line is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Blank, or nothing but a comment.
    Quiet,
    /// `[name]`, and what else stands on the line.
    Header { name: &'a str, rest: &'a str },
    /// A key with its value.
    Entry { key: &'a str, value: &'a str },
    /// None of these.
    Odd(&'a str),
}

impl Ini {
    /// Reads the bytes of a file; `None` if they are not text at all.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.contains(&0) {
            return None;
        }
        let ini = Self::parse(&String::from_utf8_lossy(bytes));
        let has_content = !ini.sections.is_empty() || ini.odd.is_empty();
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

    /// All sections of this name.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Section> {
        self.sections.iter().filter(move |section| section.is(name))
    }

    /// What a reader of the file should be told about its form.
    pub(crate) fn notes(&self, file: &str) -> Vec<Note> {
        let odd = self.odd.iter().map(|odd| {
            let text = shorten(&odd.text);
            At::line(file, odd.line).note(NoteKind::OddLine, format!("`{text}` is neither section, key nor comment"))
        });
        let mut notes = limited(odd, file, "odd lines");
        notes.extend(limited(self.duplicates(file), file, "repeated keys"));
        notes
    }

    fn add(&mut self, line: &Line<'_>, number: u32) {
        match *line {
            Line::Quiet => self.quiet += 1,
            Line::Header { name, rest } => {
                self.sections.push(Section { name: name.to_string(), line: number, entries: Vec::new() });
                if !rest.is_empty() {
                    self.odd.push(Odd { line: number, text: rest.to_string() });
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
            Line::Odd(text) => self.odd.push(Odd { line: number, text: text.to_string() }),
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
                let text = format!("`{}` is given again; the last one counts", entry.key);
                At::line(file, entry.line).note(NoteKind::Duplicate, text)
            })
        })
    }
}

impl Section {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The last entry of this key.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.is(key))
    }

    /// What the last entry of this key says, if it says anything.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.entry(key).map(|entry| entry.value.as_str()).filter(|value| !value.is_empty())
    }

    /// Relations list a pair a line, so their keys repeat.
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
            return Line::Quiet;
        }
        if let Some((name, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return Line::Header { name: name.trim(), rest: rest.trim() };
        }
        match separator(line).map(|at| (line[..at].trim(), line[at + 1..].trim())) {
            Some((key, value)) if !key.is_empty() => Line::Entry { key, value },
            _ => Line::Odd(line),
        }
    }
}

/// Ini text in the making, the reader's twin: what was written is what will be read, or it is refused.
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

/// The items of a comma-separated list; blanks and trailing commas do not count.
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

/// A switch: numbers, `true`/`false`, `yes`/`no`, `on`/`off`.
pub(crate) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        other => number(other).map(|value| value != 0),
    }
}

/// A comment starts the line or follows white space, so that `a#1` and `x;y` stay whole.
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

/// Where the key ends. Keys hold colons in parentheses (`PC(size:64)=0`) and values hold colons too (`C:\image`),
/// so a colon separates only when white space follows it or when there is no equals sign.
fn separator(line: &str) -> Option<usize> {
    let spaced = |at: usize| line[at + 1..].chars().next().is_none_or(char::is_whitespace);
    let separates = |&(at, c): &(usize, char)| c == '=' || spaced(at);
    let first = outside_parentheses(line).find(separates).or_else(|| outside_parentheses(line).next());
    first.map(|(at, _)| at).or_else(|| line.find('=')).or_else(|| line.find(':'))
}

/// The equals signs and colons that do not stand in parentheses.
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

fn limited(mut notes: impl Iterator<Item = Note>, file: &str, what: &str) -> Vec<Note> {
    let mut kept: Vec<Note> = notes.by_ref().take(NOTE_LIMIT).collect();
    if let Some(next) = notes.next() {
        let more = notes.count() + 1;
        kept.push(At::file(file).note(next.kind, format!("{more} more {what} are not listed")));
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
            ("", Line::Quiet),
            ("  \t", Line::Quiet),
            ("; comment", Line::Quiet),
            ("  # comment", Line::Quiet),
            ("[device]", Line::Header { name: "device", rest: "" }),
            (" [ regs ] ; comment", Line::Header { name: "regs", rest: "" }),
            ("[dump.text] rest", Line::Header { name: "dump.text", rest: "rest" }),
            ("[open", Line::Odd("[open")),
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
            ("=value", Line::Odd("=value")),
            ("just words", Line::Odd("just words")),
        ];
        for (text, expected) in rows {
            assert_eq!(Line::read(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn byte_order_mark_and_line_ends_do_not_matter() {
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
    fn what_is_not_text_is_not_ini() {
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
        assert_eq!(notes[NOTE_LIMIT].to_string(), "x.ini: 92 more odd lines are not listed");
    }

    #[test]
    fn repeated_keys_are_noted_where_they_matter() {
        let ini = Ini::parse("[a]\nx=1\nX=2\nfile=1\nfile=2\n[source_buffers]\ny=1\ny=2\n");
        let notes: Vec<String> = ini.notes("f").iter().map(ToString::to_string).collect();
        assert_eq!(notes, ["f:3: `X` is given again; the last one counts"]);
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
            let mut lines: HashSet<u32> = ini.odd.iter().map(|odd| odd.line).collect();
            for section in &ini.sections {
                lines.extend(section.entries.iter().map(|entry| entry.line));
                lines.extend((section.line != 0).then_some(section.line));
            }
            let counted = lines.len() + usize::try_from(ini.quiet).unwrap();
            prop_assert_eq!(counted, text.strip_prefix('\u{feff}').unwrap_or(&text).lines().count());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Ini::from_bytes(&bytes);
        }
    }
}
