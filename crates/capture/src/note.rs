//! Notes: missing or invalid parts of a capture, each with its file and line, or byte offset.
//!
//! Notes never stop the reading. The kind is for programs, the text is for people.

use std::fmt;

/// A problem in a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The kind of problem.
    pub kind: NoteKind,
    /// The name of the file inside the package.
    pub file: String,
    /// The line in that file, counted from 1; `None` if the note is about the whole file.
    pub line: Option<u32>,
    /// The byte offset in that file, if it is not text.
    pub offset: Option<u64>,
    /// The message.
    pub text: String,
}

/// The kinds of notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NoteKind {
    /// A file that the package refers to does not exist.
    MissingFile,
    /// A section or a key that decoding needs is missing.
    MissingKey,
    /// A core, source or buffer is named but not described.
    UnknownName,
    /// The format of a buffer or the type of a source is unknown.
    UnknownFormat,
    /// A value cannot be parsed or is impossible.
    BadValue,
    /// A name, key or link is given more than once.
    Duplicate,
    /// A line is neither section, key nor comment.
    MalformedLine,
    /// A file exists but cannot be used: encrypted, too large, not an ini file.
    Unreadable,
    /// A path points outside the package and is not followed.
    OutsidePackage,
    /// The name of a file matches only when case is ignored.
    NameCase,
    /// A default was used for missing information.
    Assumed,
    /// A source is in none of the buffers.
    NoBuffer,
    /// The position of the oldest byte of a circular buffer is unknown.
    StartUnknown,
    /// A limit on size or count was exceeded.
    TooMany,
    /// The package format has no field for this; it was not saved.
    Dropped,
    /// An image is a program for another kind of processor.
    WrongMachine,
    /// A file ends before its declared contents.
    Truncated,
    /// The load address of a position-independent image was found; the note is no problem.
    Placed,
    /// The load address of an image is unknown or ambiguous.
    Unplaced,
    /// A part of a recording is damaged or impossible, and was not read.
    Damaged,
    /// Nothing was traced in a session.
    NoTrace,
    /// Trace was lost while it was recorded.
    TraceLost,
    /// Trace is announced and not in the file.
    TraceAbsent,
    /// Records of the operating system were lost.
    RecordsLost,
}

impl Note {
    /// A note on something that was assumed about a file.
    pub fn assumed(file: &str, text: &str) -> Self {
        Location::file(file).note(NoteKind::Assumed, text)
    }

    /// A note on a file that is missing or cannot be used.
    pub fn missing(file: &str, text: &str) -> Self {
        Location::file(file).note(NoteKind::MissingFile, text)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.offset) {
            (Some(line), _) => write!(f, "{}:{line}: {}", self.file, self.text),
            (None, Some(offset)) => write!(f, "{}: {offset:#x}: {}", self.file, self.text),
            (None, None) => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// A line of a file of the package, or the whole file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: Option<u32>,
    pub(crate) offset: Option<u64>,
}

impl<'a> Location<'a> {
    pub(crate) fn file(file: &'a str) -> Self {
        Self { file, line: None, offset: None }
    }

    /// A line, or the whole file for line 0 (a section that the file does not contain).
    pub(crate) fn line(file: &'a str, line: u32) -> Self {
        Self { file, line: Some(line).filter(|line| *line > 0), offset: None }
    }

    /// A byte offset.
    pub(crate) fn offset(file: &'a str, offset: u64) -> Self {
        Self { file, line: None, offset: Some(offset) }
    }

    pub(crate) fn note(self, kind: NoteKind, text: impl Into<String>) -> Note {
        Note { kind, file: self.file.to_string(), line: self.line, offset: self.offset, text: text.into() }
    }
}
