//! Checks of the header.

use super::super::record::{Header, Record};
use super::findings::FindingSink;
use super::rules::RuleId;

/// State of the header checks.
#[derive(Debug, Default)]
pub(super) struct Headers {
    has_header: bool,
    /// Whether the header announces times; `None` without a header.
    pub(super) has_times: Option<bool>,
}

impl Headers {
    pub(super) fn line(&mut self, record: &Record<'_>, is_first: bool, out: &mut FindingSink<'_>) {
        let Record::Header(header) = record else {
            if is_first {
                out.add(RuleId::HeaderFirst, format_args!("the first line is not a header"));
            }
            return;
        };
        if self.has_header {
            out.add(RuleId::HeaderOnce, format_args!("another header"));
        }
        self.has_header = true;
        self.has_times = Some(header.flags.contains(&b't'));
        check(header, out);
    }
}

fn check(header: &Header<'_>, out: &mut FindingSink<'_>) {
    if header.revision != 3 {
        out.add(RuleId::HeaderRevision, format_args!("the revision is {}", header.revision));
    }
    if !matches!(header.flags, b"" | b"t") {
        let flags = String::from_utf8_lossy(header.flags);
        out.add_in(header.flags, RuleId::HeaderFlags, format_args!("the flags are {flags}"));
    }
}
