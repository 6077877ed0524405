//! Records as lines, in Rev 3 or Fast Models style.
//!
//! record ─▶ **line**
//!
//! Writes a record so that reading the line gives the record again. Fields that the style lacks (the instruction number
//! in Rev 3, the memory type of a picture in Fast Models) are dropped without notice; `restyle` counts them. Opaque
//! lines are written as they were read.
//! Specification: ARM-EPM-041435, "Trace Specification", and the output of Fast Models.

mod fast_models;
mod number;
mod rev3;
pub(super) mod vectors;

use super::record::{Line, Record, Stamp};
pub(super) use fast_models::push_address;
pub(super) use number::{push_decimal, push_hex};

/// Notation of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Style {
    /// Tarmac Text Rev 3: ES lines and memory pictures.
    #[default]
    Rev3,
    /// Fast Models: IT and IS lines, and accesses with their size.
    FastModels,
}

/// Error: the style has no line for this record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} has no line for this record", .0.name())]
pub struct NoSuchLine(pub Style);

impl Style {
    /// Name of the style: `rev3`, `fast-models`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rev3 => "rev3",
            Self::FastModels => "fast-models",
        }
    }

    /// Appends the line and a line end. Appends nothing if the style has no line for the record.
    ///
    /// ```
    /// use unspool_tarmac::record::{Branch, InstructionSet, Line, Record, Stamp};
    /// use unspool_tarmac::write::Style;
    ///
    /// let branch = Branch { target: 0x2d40, digits: 8, set: Some(InstructionSet::A) };
    /// let line = Line { raw: b"", stamp: Stamp::Absent, core: None, record: Record::Branch(branch) };
    /// let mut out = Vec::new();
    /// Style::Rev3.write(&line, &mut out).unwrap();
    /// assert_eq!(out, b"                    BR (00002d40) A\n");
    /// ```
    pub fn write(self, line: &Line<'_>, out: &mut Vec<u8>) -> Result<(), NoSuchLine> {
        if is_verbatim(&line.record) {
            out.extend_from_slice(line.raw);
        } else {
            let length = out.len();
            let is_written = match self {
                Self::Rev3 => rev3::write(line, out),
                Self::FastModels => fast_models::write(line, out),
            };
            if !is_written {
                out.truncate(length);
                return Err(NoSuchLine(self));
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Appends timestamp and core in the notation of the style.
pub(super) fn push_start(style: Style, stamp: Stamp, core: Option<&[u8]>, out: &mut Vec<u8>) {
    let line = Line { raw: b"", stamp, core, record: Record::Blank };
    match style {
        Style::Rev3 => rev3::push_stamp(&line, out),
        Style::FastModels => fast_models::push_stamp(&line, out),
    }
}

/// Whether the line is written as it was read, in every style.
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

/// Appends a space and the word, unless it is empty.
fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    if !word.is_empty() {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}
