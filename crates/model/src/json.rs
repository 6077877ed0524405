//! JSON lines, written by hand: a listing has millions of them.
//!
//! Takes keys and values in the order in which they are printed; produces one object per line. Knows nothing of files or
//! formats.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use crate::digits::push_hex;

/// JSON object under construction.
#[derive(Debug)]
pub struct Object<'b> {
    text: &'b mut String,
}

impl<'b> Object<'b> {
    /// Starts an object in `text`, which is emptied.
    pub fn new(text: &'b mut String) -> Self {
        text.clear();
        text.push('{');
        Self { text }
    }

    /// Starts an object that is a value within another.
    pub fn within(text: &'b mut String) -> Self {
        text.push('{');
        Self { text }
    }

    /// Adds a number, `true`, `false` or `null`.
    pub fn plain(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.key(key);
        let _ = write!(self.text, "{value}");
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
            None => self.plain(key, "null"),
        }
    }

    /// Adds an address as a hexadecimal string.
    pub fn hex(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        let _ = write!(self.text, "\"{value:#x}\"");
        self
    }

    /// Adds a string.
    pub fn string(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.key(key);
        quoted(self.text, value);
        self
    }

    /// Adds an address as a hexadecimal string, or `null`.
    pub fn nullable_hex(&mut self, key: &str, value: Option<u64>) -> &mut Self {
        match value {
            Some(value) => self.hex(key, value),
            None => self.plain(key, "null"),
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

    /// Ends an object that is a value within another.
    pub fn close(&mut self) {
        self.text.push('}');
    }

    /// Ends the line and writes it.
    pub fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end();
        out.write_all(self.text.as_bytes())
    }

    /// Ends the line, which stays in its buffer.
    pub fn end(&mut self) {
        self.text.push_str("}\n");
    }

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
            .hex("a", 0x1000)
            .bytes("b", &[0, 0xab])
            .string("s", "a \"b\"\\\n")
            .optional("o", None::<u8>)
            .nullable("m", None::<u8>);
        object.list("l", [1, 2], |text, number| Object::within(text).plain("i", number).close());
        object.list("e", [], |_, (): ()| {});
        object.finish(&mut out).unwrap_or_default();
        let expected =
            r#"{"n":1,"a":"0x1000","b":"0x00ab","s":"a \"b\"\\\u000a","m":null,"l":[{"i":1},{"i":2}],"e":[]}"#;
        assert_eq!(String::from_utf8_lossy(&out), format!("{expected}\n"));
    }
}
