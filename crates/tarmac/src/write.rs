//! Records as lines: Rev 3 and Fast Models style.
//!
//! record ─▶ **line**
//!
//! Writes what it is given, in the words of one style, so that reading the line gives the record again. What the style
//! has no place for (the number of an instruction in Rev 3, the memory type of a picture in Fast Models) is left out;
//! who translates between styles counts it. Lines that were not taken apart are written as they were read.
//! Specification: ARM-EPM-041435, "Trace Specification", and what Fast Models print.

mod fast_models;
mod number;
mod rev3;
pub(super) mod vectors;

use super::record::{Line, Record, Stamp};
pub(super) use fast_models::push_address;
pub(super) use number::{push_decimal, push_hex};

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Style {
    /// The published text: ES lines and pictures of memory.
    Rev3,
    /// IT and IS lines, and accesses by their size.
    FastModels,
}

/// The style has no line for such a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} has no line for this", .0.name())]
pub struct CannotSay(pub Style);

impl Style {
    /// What it is called: `rev3`, `fast-models`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rev3 => "rev3",
            Self::FastModels => "fast-models",
        }
    }
}

/// Writes lines in one style.
///
/// ```
/// use unspool_tarmac::record::{Branch, InstructionSet, Line, Record, Stamp};
/// use unspool_tarmac::write::Writer;
///
/// let branch = Branch { target: 0x2d40, digits: 8, set: Some(InstructionSet::A) };
/// let line = Line { raw: b"", stamp: Stamp::Absent, core: None, record: Record::Branch(branch) };
/// let mut out = Vec::new();
/// Writer::rev3().write(&line, &mut out).unwrap();
/// assert_eq!(out, b"                    BR (00002d40) A\n");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    style: Style,
}

impl Writer {
    /// Writes in this style.
    pub fn new(style: Style) -> Self {
        Self { style }
    }

    /// Writes what the published text describes.
    pub fn rev3() -> Self {
        Self::new(Style::Rev3)
    }

    /// Writes as Fast Models do.
    pub fn fast_models() -> Self {
        Self::new(Style::FastModels)
    }

    /// The style that is written.
    pub fn style(self) -> Style {
        self.style
    }

    /// Adds the line and its end. If the style has no line for the record, nothing is added.
    pub fn write(self, line: &Line<'_>, out: &mut Vec<u8>) -> Result<(), CannotSay> {
        if is_verbatim(&line.record) {
            out.extend_from_slice(line.raw);
        } else {
            let length = out.len();
            let is_said = match self.style {
                Style::Rev3 => rev3::write(line, out),
                Style::FastModels => fast_models::write(line, out),
            };
            if !is_said {
                out.truncate(length);
                return Err(CannotSay(self.style));
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Adds what lines of a style start with: when, and which core.
pub(super) fn push_start(style: Style, stamp: Stamp, core: Option<&[u8]>, out: &mut Vec<u8>) {
    let line = Line { raw: b"", stamp, core, record: Record::Blank };
    match style {
        Style::Rev3 => rev3::push_stamp(&line, out),
        Style::FastModels => fast_models::push_stamp(&line, out),
    }
}

/// Is the line written as it was read, whatever the style?
pub(super) fn is_verbatim(record: &Record<'_>) -> bool {
    matches!(
        record,
        Record::Blank
            | Record::Comment(_)
            | Record::Transfer(_)
            | Record::Bus(_)
            | Record::Flow(_)
            | Record::Opaque(_)
            | Record::Unknown(_)
    )
}

/// A word, and a space before it if it is not the first of the line.
fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    if !word.is_empty() {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}
