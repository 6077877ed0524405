//! Escaping of arbitrary text for one line, and back.

use std::io::Write as _;

/// Appends the text with line ends and control characters escaped.
pub(super) fn escape(text: &str, out: &mut Vec<u8>) {
    for letter in text.chars() {
        match letter {
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            letter if letter.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(letter));
            }
            letter => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Appends the unescaped text. An invalid escape stays as it is.
pub(crate) fn unescape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let (letter, length) = match after.as_bytes() {
            [b'\\', ..] => ('\\', 1),
            [b'n', ..] => ('\n', 1),
            [b'r', ..] => ('\r', 1),
            [b'x', high, low, ..] => match [high, low].map(|digit| char::from(*digit).to_digit(16)) {
                [Some(high), Some(low)] => (char::from((high << 4 | low) as u8), 3),
                _ => ('\\', 0),
            },
            _ => ('\\', 0),
        };
        out.push(letter);
        rest = after.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_fits_on_one_line() {
        for note in ["", "plain", "two\nlines\r\n", "\\n", "a\\", "\0\x1b\t\x7f", "größer \\x4", " text= "] {
            let mut line = Vec::new();
            escape(note, &mut line);
            assert!(!line.iter().any(u8::is_ascii_control), "{note:?}");
            let mut again = String::new();
            unescape(str::from_utf8(&line).unwrap_or_default(), &mut again);
            assert_eq!(again, note);
        }
    }
}
