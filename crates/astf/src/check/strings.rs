//! Strings: a start, as many continuations as the size needs, and nothing between them.

use super::super::record::{StringContinuationView, StringStartView, View};
use super::{Out, RuleId};

/// The string that is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Strings {
    /// The record that it starts with.
    start: u64,
    /// How many bytes are still to come.
    left: usize,
    /// Another record came between; that was said.
    is_interrupted: bool,
    /// A zero was seen.
    is_ended: bool,
    /// It is not printable; that was said.
    is_unprintable: bool,
    /// A continuation without a string was seen; that was said.
    is_stray: bool,
}

impl Strings {
    pub(super) fn is_open(&self) -> bool {
        self.left > 0
    }

    /// A record comes while a string is open.
    pub(super) fn meet(&mut self, view: View<'_>, out: &mut Out<'_>) {
        let rule = match view {
            View::StringContinuation(_) | View::StringStart(_) | View::Unknown(_) | View::Header(_) => return,
            View::Timestamp(_) => RuleId::TimestampInterleaves,
            _ => RuleId::StringInterleaves,
        };
        if !self.is_interrupted {
            let (name, left) = (super::name(view), self.left);
            out.add(rule, format_args!("{name} stands inside the string of record {}: {left} bytes left", self.start));
        }
        self.is_interrupted = true;
    }

    pub(super) fn start(&mut self, record: StringStartView<'_>, out: &mut Out<'_>) {
        self.end(out);
        let left = usize::from(record.size());
        *self = Self { start: out.record, left, ..Self::default() };
        self.take(&record.string(), out);
    }

    pub(super) fn go_on(&mut self, record: StringContinuationView<'_>, out: &mut Out<'_>) {
        if self.is_open() {
            return self.take(&record.string(), out);
        }
        if !self.is_stray {
            out.add(RuleId::StringChain, format_args!("a continuation, and no string that needs it"));
        }
        self.is_stray = true;
    }

    /// Another string starts, or the trace ends.
    pub(super) fn end(&mut self, out: &mut Out<'_>) {
        if self.is_open() && !self.is_interrupted {
            out.add_at(self.start, RuleId::StringChain, format_args!("the last {} bytes do not come", self.left));
        }
        self.left = 0;
    }

    fn take(&mut self, bytes: &[u8], out: &mut Out<'_>) {
        let (text, padding) = bytes.split_at(self.left.min(bytes.len()));
        self.left -= text.len();
        self.check_text(text, out);
        if padding.iter().any(|byte| *byte != 0) {
            out.add(
                RuleId::StringPaddingZero,
                format_args!("bytes behind the string are \"{}\"", padding.escape_ascii()),
            );
        }
    }

    /// Bytes that are not ASCII may be of some other text.
    fn check_text(&mut self, text: &[u8], out: &mut Out<'_>) {
        for &byte in text {
            let is_control = byte.is_ascii_control() && !byte.is_ascii_whitespace() && byte != 0;
            let is_behind_end = self.is_ended && byte != 0;
            if (is_control || is_behind_end) && !self.is_unprintable {
                out.add(RuleId::StringPrintable, format_args!("the byte {byte:#04x} in \"{}\"", text.escape_ascii()));
                self.is_unprintable = true;
            }
            self.is_ended |= byte == 0;
        }
    }
}
