//! The string that is under way: it stands in one record and any number behind it.

use std::fmt::Write as _;

use super::super::record::View;
use unspool_model::digits::push_hex;

/// More bytes of a string than this are not shown.
const SHOWN: usize = 4096;

/// A string, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// How long it is to be; `None` where no string has started.
    size: Option<usize>,
    bytes: Vec<u8>,
    /// What stands behind its end in the last record, up to the zeros.
    behind: Vec<u8>,
}

impl Chain {
    /// Takes what a record adds. Gives what was there before it, if the record breaks it off.
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

    /// Starts afresh, and gives a string that is not whole.
    fn take(&mut self) -> Option<Chain> {
        let chain = std::mem::take(self);
        (chain.size.is_some() && !chain.is_whole()).then_some(chain)
    }

    /// What stands behind the end is no part of it.
    fn cut(&mut self) {
        let size = self.size.unwrap_or(usize::MAX).min(self.bytes.len());
        self.behind = self.bytes.split_off(size);
        let used = self.behind.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.behind.truncate(used);
    }

    fn is_whole(&self) -> bool {
        self.size.is_none_or(|size| self.bytes.len() >= size)
    }

    /// Adds two dots for a string that goes on, and the string when it is there.
    pub(super) fn write(&self, out: &mut String) {
        match self.size {
            None => {
                self.write_quoted(out);
                out.push_str(" continues no string");
            }
            Some(_) if self.is_whole() => {
                self.write_quoted(out);
                if !self.behind.is_empty() {
                    out.push_str(" reserved string=0x");
                    push_hex(out, &self.behind);
                }
            }
            Some(_) => out.push_str(".."),
        }
    }

    /// Adds the string as far as it is there.
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

/// Strings come from files, and a terminal obeys what it is sent.
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

/// Characters that turn or hide the text around them.
fn is_formatting(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
