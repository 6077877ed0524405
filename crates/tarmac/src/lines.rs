//! Division of a text into lines.

use memchr::memchr;

/// The line without the carriage return of its end.
#[inline(always)]
pub(super) fn without_return(line: &[u8], has_newline: bool) -> &[u8] {
    match line {
        [line @ .., b'\r'] if has_newline => line,
        line => line,
    }
}

/// The lines of a text without their ends (`\n` or `\r\n`), and the offset of each.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let newline = memchr(b'\n', rest);
        let offset = at;
        at += newline.map_or(rest.len(), |length| length + 1);
        Some((offset, without_return(&rest[..newline.unwrap_or(rest.len())], newline.is_some())))
    })
}
