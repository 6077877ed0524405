//! The list of writes: a text file, or JSON lines as `decode --json` prints them.
//!
//! Takes lines such as `0x1000 0x40:3 32 0xcafe marked` and `- 7 "text"`; produces writes with their line numbers. The format
//! is described in `docs/writes.md`.

use serde_json::{Map, Value};

use super::{SoftwareWrite, Written};

/// A write and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWrite {
    /// The line, counted from 1.
    pub line: usize,
    /// The write.
    pub write: SoftwareWrite,
}

/// A line that is not a write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct WriteListError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// Reads a list of writes. Comments start with `#`; JSON objects of other kinds are skipped.
///
/// # Errors
///
/// At the first line that is not a write.
pub fn parse_writes(text: &str) -> Result<Vec<ListedWrite>, WriteListError> {
    let mut list = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let line = index + 1;
        let write = match text.trim() {
            "" => None,
            text if text.starts_with('#') => None,
            text if text.starts_with('{') => object(text).map_err(|what| WriteListError { line, what })?,
            text => Some(plain(text).map_err(|what| WriteListError { line, what })?),
        };
        list.extend(write.map(|write| ListedWrite { line, write }));
    }
    Ok(list)
}

/// `TIME CHANNEL SIZE VALUE [marked]`, `TIME CHANNEL "text"` or `TIME CHANNEL flag`.
fn plain(line: &str) -> Result<SoftwareWrite, String> {
    let (time, rest) = word(line);
    let (channel, rest) = word(rest);
    if channel.is_empty() {
        return Err("expected a time and a channel".to_string());
    }
    let time = if time == "-" { None } else { Some(number(time)?) };
    let (master, channel) = match channel.split_once(':') {
        Some((master, channel)) => (Some(short(number(master)?, "master")?), channel),
        None => (None, channel),
    };
    let channel = short(number(channel)?, "channel")?;
    Ok(SoftwareWrite { time, master, channel, written: written(rest)? })
}

fn written(rest: &str) -> Result<Written, String> {
    if rest.starts_with('"') {
        let mut literals = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let text =
            literals.next().and_then(Result::ok).ok_or_else(|| format!("{rest} is not text in quotation marks"))?;
        end(rest.get(literals.byte_offset()..).unwrap_or_default())?;
        return Ok(Written::Text(text.into_bytes()));
    }
    let (size, rest) = word(rest);
    if size == "flag" {
        end(rest)?;
        return Ok(Written::Flag);
    }
    let (value, rest) = word(rest);
    if value.is_empty() {
        return Err("expected a size and a value, a text in quotation marks, or 'flag'".to_string());
    }
    let (mark, rest) = match word(rest) {
        ("marked", rest) => (true, rest),
        _ => (false, rest),
    };
    end(rest)?;
    value_of(number(value)?, number(size)?, mark)
}

/// Checks that nothing but a comment follows.
fn end(rest: &str) -> Result<(), String> {
    match rest.trim_start() {
        "" => Ok(()),
        rest if rest.starts_with('#') => Ok(()),
        rest => Err(format!("unexpected '{rest}'")),
    }
}

/// The first word, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let parsed = digits.map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok());
    parsed.ok_or_else(|| format!("'{text}' is not a number"))
}

fn short(number: u64, what: &str) -> Result<u16, String> {
    u16::try_from(number).map_err(|_| format!("{what} {number} is greater than 65535"))
}

fn value_of(value: u64, bits: u64, marked: bool) -> Result<Written, String> {
    let bits = match bits {
        4 | 8 | 16 | 32 | 64 => bits as u8,
        _ => return Err(format!("{bits} is not a size: 4, 8, 16, 32 or 64 bits")),
    };
    if bits < 64 && value >> bits != 0 {
        return Err(format!("{value:#x} has more than {bits} bits"));
    }
    Ok(Written::Value { value, bits, marked })
}

/// An object of `decode --json`. `None`: it is of another kind.
fn object(line: &str) -> Result<Option<SoftwareWrite>, String> {
    let object: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or("software");
    if !matches!(kind, "software" | "flag") {
        return Ok(None);
    }
    let given = |key: &str| object.get(key).filter(|value| !value.is_null());
    let field = |key: &str| given(key).map(|value| json_number(key, value)).transpose();
    let channel = field("channel")?.ok_or("a write needs a 'channel'")?;
    // A time that is not that of the element is made again from the others.
    let is_own = given("time_quality").is_none_or(|quality| quality == "exact");
    let time = field("time")?.filter(|_| is_own);
    let master = field("master")?.map(|master| short(master, "master")).transpose()?;
    let marked = given("marked").and_then(Value::as_bool).unwrap_or(false);
    let written = match (kind, given("text"), given("bytes"), field("value")?) {
        ("flag", ..) => Written::Flag,
        (_, Some(text), _, _) => Written::Text(text.as_str().ok_or("'text' is not a string")?.into()),
        (_, _, Some(bytes), _) => {
            value_of(little_endian(bytes)?, field("size")?.ok_or("a value needs a 'size'")?, marked)?
        }
        (_, _, _, Some(value)) => value_of(value, field("size")?.ok_or("a value needs a 'size'")?, marked)?,
        _ => return Err("a write needs 'bytes', 'value' or 'text'".to_string()),
    };
    Ok(Some(SoftwareWrite { time, master, channel: short(channel, "channel")?, written }))
}

fn json_number(key: &str, value: &Value) -> Result<u64, String> {
    let found = value.as_u64().or_else(|| value.as_str().and_then(|text| number(text).ok()));
    found.ok_or_else(|| format!("'{key}' is not a number: {value}"))
}

/// Bytes as hexadecimal digits, lowest address first.
fn little_endian(bytes: &Value) -> Result<u64, String> {
    let wrong = || format!("'bytes' are not 1 to 8 bytes in hexadecimal digits: {bytes}");
    let digits = bytes.as_str().and_then(|text| text.strip_prefix("0x")).ok_or_else(wrong)?;
    if !matches!(digits.len(), 2 | 4 | 8 | 16) {
        return Err(wrong());
    }
    let value = u64::from_str_radix(digits, 16).map_err(|_| wrong())?;
    Ok(value.swap_bytes() >> (64 - 4 * digits.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> SoftwareWrite {
        let list = parse_writes(text).unwrap();
        assert_eq!(list.len(), 1, "{text}");
        list[0].write.clone()
    }

    #[test]
    fn lines() {
        let value = |value, bits, marked| Written::Value { value, bits, marked };
        let rows = [
            ("0x1000 0x40:3 32 0xcafe marked # why", Some(0x1000), Some(0x40), 3, value(0xcafe, 32, true)),
            ("  - 7 8 65", None, None, 7, value(65, 8, false)),
            (r#"5 7 "a b\n" # c"#, Some(5), None, 7, Written::Text(b"a b\n".to_vec())),
            ("5 1:7 flag", Some(5), Some(1), 7, Written::Flag),
            (
                r#"{"kind":"software","master":64,"channel":3,"bytes":"0xfeca0000","size":32,"marked":true,"time":9}"#,
                Some(9),
                Some(64),
                3,
                value(0xcafe, 32, true),
            ),
            (
                r#"{"channel":3,"size":4,"bytes":"0x07","time":9,"time_quality":"earlier"}"#,
                None,
                None,
                3,
                value(7, 4, false),
            ),
            (r#"{"channel":"0x3","size":16,"value":"0x1234"}"#, None, None, 3, value(0x1234, 16, false)),
            (r#"{"channel":3,"text":"hi"}"#, None, None, 3, Written::Text(b"hi".to_vec())),
            (r#"{"kind":"flag","master":1,"channel":3,"time":4}"#, Some(4), Some(1), 3, Written::Flag),
        ];
        for (text, time, master, channel, written) in rows {
            assert_eq!(one(text), SoftwareWrite { time, master, channel, written }, "{text}");
        }
        assert_eq!(parse_writes("# c\n\n{\"kind\":\"summary\"}\n").unwrap(), []);
    }

    #[test]
    fn lines_that_are_not_writes_are_reported() {
        let rows = [
            ("5", "line 1: expected a time and a channel"),
            ("\nx 7 8 1", "line 2: 'x' is not a number"),
            ("5 7 8", "line 1: expected a size and a value, a text in quotation marks, or 'flag'"),
            ("5 7 9 1", "line 1: 9 is not a size: 4, 8, 16, 32 or 64 bits"),
            ("5 7 8 256", "line 1: 0x100 has more than 8 bits"),
            ("5 7 8 1 twice", "line 1: unexpected 'twice'"),
            ("5 70000 8 1", "line 1: channel 70000 is greater than 65535"),
            ("5 7 \"a", "line 1: \"a is not text in quotation marks"),
            ("{\"channel\":1}", "line 1: a write needs 'bytes', 'value' or 'text'"),
            ("{\"size\":8,\"value\":1}", "line 1: a write needs a 'channel'"),
            ("{\"channel\":1,\"value\":1}", "line 1: a value needs a 'size'"),
            (
                "{\"channel\":1,\"size\":8,\"bytes\":\"ab\"}",
                "line 1: 'bytes' are not 1 to 8 bytes in hexadecimal digits: \"ab\"",
            ),
            ("{\"channel\":-1}", "line 1: 'channel' is not a number: -1"),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_writes(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
