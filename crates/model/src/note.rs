//! Notes: text of a trace as steps. Bytes that are not text are counted as losses.

use std::borrow::Cow;

use crate::{Loss, Losses, Step};

/// Decodes text. Invalid UTF-8 is replaced and counted.
pub fn text<'b>(bytes: &'b [u8], position: u64, losses: &mut Losses) -> Cow<'b, str> {
    let text = String::from_utf8_lossy(bytes);
    if let Cow::Owned(_) = text {
        losses.add(Loss::Notes, position);
    }
    text
}

/// Makes the step a note with this text.
pub fn set(step: &mut Step, bytes: &[u8], losses: &mut Losses) {
    let text = text(bytes, step.position, losses);
    step.set_note(&text);
}

/// Splits text after at most `limit` bytes, between characters.
///
/// ```
/// assert_eq!(unspool_model::note::split("a\u{e9}", 2), ("a", "\u{e9}"));
/// ```
#[must_use]
pub fn split(text: &str, limit: usize) -> (&str, &str) {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn text_is_split_between_characters() {
        let rows = [
            ("abc", 0, ("", "abc")),
            ("abc", 2, ("ab", "c")),
            ("abc", 9, ("abc", "")),
            ("a\u{20ac}b", 3, ("a", "\u{20ac}b")),
            ("a\u{20ac}b", 4, ("a\u{20ac}", "b")),
            ("\u{20ac}", 1, ("", "\u{20ac}")),
        ];
        for (text, limit, parts) in rows {
            assert_eq!(split(text, limit), parts, "{text:?} after {limit}");
        }
    }
}
