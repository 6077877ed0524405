//! A string in the making: one record and any number of continuations.

use std::fmt::Write as _;

use super::super::record::View;
use unspool_model::digits::push_hex;

/// Maximum bytes of a string that are shown.
const SHOWN: usize = 4096;

/// A string, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// Its size; `None` where no string has started.
    size: Option<usize>,
    bytes: Vec<u8>,
    /// Nonzero bytes after its end in the last record.
    after: Vec<u8>,
}

impl Chain {
    /// Adds the part in a record. Returns the unfinished string that the record breaks off.
    #[inline]
    pub(super) fn push(&mut self, view: View<'_>) -> Option<Chain> {
        match view {
            View::StringStart(view) => {
                let broken = self.take();
                self.size = Some(usize::from(view.size()));
                self.bytes.extend_from_slice(&view.string());
                self.cut();
                broken
            }
            View::StringContinuation(view) => {
                if self.is_whole() {
                    *self = Self::default();
                }
                self.bytes.extend_from_slice(&view.string());
                self.cut();
                None
            }
            _ if self.bytes.is_empty() && self.size.is_none() => None,
            _ => self.take(),
        }
    }

    /// Starts afresh, and returns a string that is not complete.
    fn take(&mut self) -> Option<Chain> {
        let chain = std::mem::take(self);
        (chain.size.is_some() && !chain.is_whole()).then_some(chain)
    }

    /// Splits off what follows the end.
    fn cut(&mut self) {
        let size = self.size.unwrap_or(usize::MAX).min(self.bytes.len());
        self.after = self.bytes.split_off(size);
        let used = self.after.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.after.truncate(used);
    }

    fn is_whole(&self) -> bool {
        self.size.is_none_or(|size| self.bytes.len() >= size)
    }

    /// Adds two dots for a string that continues, and the string when it is complete.
    pub(super) fn write(&self, out: &mut String) {
        match self.size {
            None => {
                self.write_quoted(out);
                out.push_str(" continues no string");
            }
            Some(_) if self.is_whole() => {
                self.write_quoted(out);
                if !self.after.is_empty() {
                    out.push_str(" reserved string=0x");
                    push_hex(out, &self.after);
                }
            }
            Some(_) => out.push_str(".."),
        }
    }

    /// Adds the string, as far as it is known.
    pub(super) fn write_quoted(&self, out: &mut String) {
        let shown = &self.bytes[..self.bytes.len().min(SHOWN)];
        out.push('"');
        for chunk in shown.utf8_chunks() {
            chunk.valid().chars().for_each(|character| push_escaped(out, character));
            for byte in chunk.invalid() {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
        out.push('"');
        if shown.len() < self.bytes.len() {
            let _ = write!(out, ".. ({} bytes)", self.bytes.len());
        }
    }
}

/// Strings come from files, and a terminal interprets control characters.
fn push_escaped(out: &mut String, character: char) {
    match character {
        '\0' => out.push_str("\\0"),
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        '"' | '\\' => out.extend(['\\', character]),
        character if character.is_control() || is_formatting(character) => out.extend(character.escape_unicode()),
        character => out.push(character),
    }
}

/// Characters that reorder or hide the text around them.
fn is_formatting(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
