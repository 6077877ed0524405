//! JSON lines, written by hand: a listing has millions of them.
//!
//! Takes keys and values in the order in which they are printed; produces one object per line. Knows nothing of files or
//! formats.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use crate::digits::{push_decimal, push_hex, push_short_hex};

/// Version of the JSON that the command line prints. It changes when a key or a kind is renamed or removed, not when one is
/// added.
pub const SCHEMA: u32 = 1;

/// JSON object under construction, at the end of a text. It is ended by [`end_line`](Self::end_line) or
/// [`write_line`](Self::write_line) if it is a line, by [`close_nested`](Self::close_nested) if it is nested.
#[derive(Debug)]
pub struct Object<'b> {
    text: &'b mut String,
}

impl<'b> Object<'b> {
    /// Starts the object of a line in `text`, which is cleared first.
    pub fn new(text: &'b mut String) -> Self {
        text.clear();
        text.push('{');
        Self { text }
    }

    /// Starts the summary, which is the last line of every output.
    pub fn summary(text: &'b mut String, verb: &str) -> Self {
        let mut object = Self::new(text);
        object.string("kind", "summary").plain("schema", SCHEMA).string("verb", verb);
        object
    }

    /// Starts an object that is a value within another, and appends it to `text`.
    pub fn nested(text: &'b mut String) -> Self {
        text.push('{');
        Self { text }
    }

    /// Adds a value as it is displayed, neither quoted nor escaped. The caller guarantees that this is JSON: a number, `null`.
    pub fn plain(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.key(key);
        let _ = write!(self.text, "{value}");
        self
    }

    /// Adds a number.
    pub fn number(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        push_decimal(self.text, value);
        self
    }

    /// Adds `null`.
    pub fn null(&mut self, key: &str) -> &mut Self {
        self.key(key);
        self.text.push_str("null");
        self
    }

    /// Adds `true` or `false`.
    pub fn flag(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(key);
        self.text.push_str(if value { "true" } else { "false" });
        self
    }

    /// Adds a number, or nothing if there is none.
    pub fn optional(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.plain(key, value),
            None => self,
        }
    }

    /// Adds a number or `null`.
    pub fn nullable(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.plain(key, value),
            None => self.null(key),
        }
    }

    /// Adds a number as a hexadecimal string.
    pub fn hex(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        self.text.push('"');
        push_short_hex(self.text, value);
        self.text.push('"');
        self
    }

    /// Adds a string.
    pub fn string(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.key(key);
        quoted(self.text, value);
        self
    }

    /// Adds a string or `null`.
    pub fn nullable_string(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.string(key, value),
            None => self.null(key),
        }
    }

    /// Adds a number as a hexadecimal string, or `null`.
    pub fn nullable_hex(&mut self, key: &str, value: Option<u64>) -> &mut Self {
        match value {
            Some(value) => self.hex(key, value),
            None => self.null(key),
        }
    }

    /// Adds bytes as one hexadecimal string, the first byte first.
    pub fn bytes(&mut self, key: &str, bytes: &[u8]) -> &mut Self {
        self.key(key);
        self.text.push_str("\"0x");
        push_hex(self.text, bytes);
        self.text.push('"');
        self
    }

    /// Adds a list of values; `put` writes each.
    pub fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut put: impl FnMut(&mut String, T),
    ) -> &mut Self {
        self.key(key);
        self.text.push('[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            put(self.text, item);
        }
        self.text.push(']');
        self
    }

    /// Ends a [`nested`](Self::nested) object.
    pub fn close_nested(&mut self) {
        self.text.push('}');
    }

    /// Ends the line and writes it.
    pub fn write_line(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end_line();
        out.write_all(self.text.as_bytes())
    }

    /// Ends the line, which stays in its text.
    pub fn end_line(&mut self) {
        self.text.push_str("}\n");
    }

    /// Keys are names of ours that need no escapes. No value ends with an open brace, so one at the end of the text means
    /// that this key is the first.
    fn key(&mut self, key: &str) {
        if !self.text.ends_with('{') {
            self.text.push(',');
        }
        self.text.push('"');
        self.text.push_str(key);
        self.text.push_str("\":");
    }
}

/// Adds a string with its quotes.
pub fn quoted(text: &mut String, value: impl Display) {
    text.push('"');
    let _ = write!(Escape(text), "{value}");
    text.push('"');
}

/// Escapes text for a JSON string.
struct Escape<'t>(&'t mut String);

impl std::fmt::Write for Escape<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
            self.0.push_str(text);
            return Ok(());
        }
        for character in text.chars() {
            match character {
                '"' => self.0.push_str("\\\""),
                '\\' => self.0.push_str("\\\\"),
                control if control < ' ' => write!(self.0, "\\u{:04x}", control as u32)?,
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_valid_json() {
        let mut text = String::new();
        let mut out = Vec::new();
        let mut object = Object::new(&mut text);
        object
            .plain("n", 1)
            .number("u", u64::MAX)
            .hex("z", 0)
            .hex("a", 0x1000)
            .bytes("b", &[0, 0xab])
            .string("s", "a \"b\"\\\n")
            .optional("o", None::<u8>)
            .nullable("m", None::<u8>);
        object.list("l", [1, 2], |text, number| Object::nested(text).plain("i", number).close_nested());
        object.list("e", [], |_, (): ()| {});
        object.write_line(&mut out).unwrap_or_default();
        let expected = r#"{"n":1,"u":18446744073709551615,"z":"0x0","a":"0x1000","b":"0x00ab","s":"a \"b\"\\\u000a","m":null,"l":[{"i":1},{"i":2}],"e":[]}"#;
        assert_eq!(String::from_utf8_lossy(&out), format!("{expected}\n"));
    }
}
