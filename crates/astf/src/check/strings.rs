//! Strings: a start, as many continuations as the size needs, and nothing between them.

use super::super::record::{StringContinuationView, StringStartView, View};
use super::report::{Report, record_name};
use super::rules::RuleId;

/// The current string.
#[derive(Debug, Clone, Default)]
pub(super) struct Strings {
    /// The record that it starts with.
    start: u64,
    /// Bytes still missing.
    left: usize,
    /// Another record interrupted it, which was reported.
    is_interrupted: bool,
    /// A zero was seen.
    is_ended: bool,
    /// The string is not printable, which was reported.
    is_unprintable: bool,
    /// A continuation without a string was reported.
    is_stray: bool,
}

impl Strings {
    pub(super) fn is_open(&self) -> bool {
        self.left > 0
    }

    /// Checks a record inside an open string.
    pub(super) fn interrupt(&mut self, view: View<'_>, out: &mut Report<'_>) {
        let rule = match view {
            View::StringContinuation(_) | View::StringStart(_) | View::Header(_) => return,
            View::Timestamp(_) => RuleId::TimestampInterleaves,
            _ => RuleId::StringInterleaves,
        };
        if !self.is_interrupted {
            let (name, start, left) = (record_name(view), self.start, self.left);
            out.add(rule, format_args!("{name} inside the string of record {start}: {left} bytes are missing"));
        }
        self.is_interrupted = true;
    }

    pub(super) fn start(&mut self, record: StringStartView<'_>, out: &mut Report<'_>) {
        self.end(out);
        let left = usize::from(record.size());
        *self = Self { start: out.record, left, ..Self::default() };
        self.append(&record.string(), out);
    }

    pub(super) fn resume(&mut self, record: StringContinuationView<'_>, out: &mut Report<'_>) {
        if self.is_open() {
            return self.append(&record.string(), out);
        }
        if !self.is_stray {
            out.add(RuleId::StringChain, format_args!("a continuation without a string that needs it"));
        }
        self.is_stray = true;
    }

    /// Reports missing bytes: another string starts, or the trace ends.
    pub(super) fn end(&mut self, out: &mut Report<'_>) {
        if self.is_open() && !self.is_interrupted {
            out.add_at(self.start, RuleId::StringChain, format_args!("the last {} bytes are missing", self.left));
        }
        self.left = 0;
    }

    fn append(&mut self, bytes: &[u8], out: &mut Report<'_>) {
        let (text, padding) = bytes.split_at(self.left.min(bytes.len()));
        self.left -= text.len();
        self.check_text(text, out);
        if padding.iter().any(|byte| *byte != 0) {
            let padding = padding.escape_ascii();
            out.add(RuleId::StringPaddingZero, format_args!("the bytes after the string are \"{padding}\""));
        }
    }

    /// Bytes that are not ASCII may be of another encoding.
    fn check_text(&mut self, text: &[u8], out: &mut Report<'_>) {
        for &byte in text {
            let is_control = byte.is_ascii_control() && !byte.is_ascii_whitespace() && byte != 0;
            let is_after_end = self.is_ended && byte != 0;
            if (is_control || is_after_end) && !self.is_unprintable {
                out.add(RuleId::StringPrintable, format_args!("the byte {byte:#04x} in \"{}\"", text.escape_ascii()));
                self.is_unprintable = true;
            }
            self.is_ended |= byte == 0;
        }
    }
}
