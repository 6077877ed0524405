//! One JSON object a line, written by hand: millions of them are ordinary.
//!
//! Comes in: keys and values, in the order in which they are to stand. Goes out: a line.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

/// An object in the making.
pub(crate) struct Object<'b> {
    text: &'b mut String,
}

impl<'b> Object<'b> {
    /// Starts an object in `text`, which is emptied.
    pub(crate) fn new(text: &'b mut String) -> Self {
        text.clear();
        text.push('{');
        Self { text }
    }

    /// Starts an object that is a value within another.
    pub(crate) fn within(text: &'b mut String) -> Self {
        text.push('{');
        Self { text }
    }

    /// A number, `true`, `false` or `null`.
    pub(crate) fn plain(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.key(key);
        let _ = write!(self.text, "{value}");
        self
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(key);
        self.text.push_str(if value { "true" } else { "false" });
        self
    }

    /// A number if there is one; otherwise the key is left out.
    pub(crate) fn optional(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.plain(key, value),
            None => self,
        }
    }

    /// A number, or `null`.
    pub(crate) fn nullable(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.plain(key, value),
            None => self.plain(key, "null"),
        }
    }

    /// An address, as a hex string.
    pub(crate) fn hex(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        let _ = write!(self.text, "\"{value:#x}\"");
        self
    }

    /// A string.
    pub(crate) fn string(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.key(key);
        quoted(self.text, value);
        self
    }

    /// An address, as a hex string, or `null`.
    pub(crate) fn nullable_hex(&mut self, key: &str, value: Option<u64>) -> &mut Self {
        match value {
            Some(value) => self.hex(key, value),
            None => self.plain(key, "null"),
        }
    }

    /// A list of values, each of which `put` adds.
    pub(crate) fn list<T>(
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

    /// The end of an object that is a value within another.
    pub(crate) fn close(&mut self) {
        self.text.push('}');
    }

    /// The end of the line.
    pub(crate) fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end();
        out.write_all(self.text.as_bytes())
    }

    /// The end of the line, which stays where it was made.
    pub(crate) fn end(&mut self) {
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

/// Adds a string, with its quotes.
pub(crate) fn quoted(text: &mut String, value: impl Display) {
    text.push('"');
    let _ = write!(Escape(text), "{value}");
    text.push('"');
}

/// Text on its way into a string.
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
    fn lines_are_json() {
        let mut text = String::new();
        let mut out = Vec::new();
        let mut object = Object::new(&mut text);
        object
            .plain("n", 1)
            .hex("a", 0x1000)
            .string("s", "a \"b\"\\\n")
            .optional("o", None::<u8>)
            .nullable("m", None::<u8>);
        object.list("l", [1, 2], |text, number| Object::within(text).plain("i", number).close());
        object.list("e", [], |_, (): ()| {});
        object.finish(&mut out).unwrap();
        let parsed: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            parsed,
            serde_json::json!({"n": 1, "a": "0x1000", "s": "a \"b\"\\\n", "m": null, "l": [{"i": 1}, {"i": 2}], "e": []})
        );
    }
}
