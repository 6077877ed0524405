//! What is missing or odd in a capture, said in one sentence and with its place.
//!
//! Notes never stop the reading. The kind is for programs, the text is for people.

use std::fmt;

/// One thing about a capture that its user may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What sort of thing.
    pub kind: NoteKind,
    /// The file that says so (or that is meant), as named inside of the package.
    pub file: String,
    /// The line in that file, counted from 1; `None` where the file as a whole is meant.
    pub line: Option<u32>,
    /// One sentence.
    pub text: String,
}

/// The sorts of notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NoteKind {
    /// A file is named but is not there.
    MissingFile,
    /// A section or a key that decoding needs is not there.
    MissingKey,
    /// A core, source or buffer is named that nobody describes.
    UnknownName,
    /// The format of a buffer or the type of a source is a word that we do not know.
    UnknownFormat,
    /// A number cannot be read, or cannot be true.
    BadValue,
    /// Something is said twice.
    Duplicate,
    /// A line is neither section, key nor comment.
    OddLine,
    /// A file is there but cannot be used: encrypted, too large, not an ini file.
    Unreadable,
    /// A path leads out of the package and is not followed.
    OutsidePackage,
    /// A file was found only by ignoring the case of its name.
    NameCase,
    /// The package does not say, and this was assumed.
    Assumed,
    /// A source is in none of the buffers.
    NoBuffer,
    /// A circular buffer does not tell where its oldest byte is.
    StartUnknown,
    /// There is more of something than we are ready to hold.
    TooMany,
    /// Saving had no place for this.
    Lost,
    /// An image is a program for another kind of processor.
    WrongMachine,
    /// A file ends before what it says it holds.
    Truncated,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// Where in the package a statement stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: Option<u32>,
}

impl<'a> At<'a> {
    pub(crate) fn file(file: &'a str) -> Self {
        Self { file, line: None }
    }

    /// Line 0 is a section that the file does not have.
    pub(crate) fn line(file: &'a str, line: u32) -> Self {
        Self { file, line: Some(line).filter(|line| *line > 0) }
    }

    pub(crate) fn note(self, kind: NoteKind, text: impl Into<String>) -> Note {
        Note { kind, file: self.file.to_string(), line: self.line, text: text.into() }
    }
}
