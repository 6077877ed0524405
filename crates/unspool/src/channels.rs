//! Names of masters and channels of software trace: a small text file.
//!
//! Takes lines such as `master 0x40 kernel` and `channel 0x40:0..16 log`; produces names for the numbers in a trace. The
//! format is described in `docs/channels.md`. Later lines take precedence over earlier ones.

use std::ops::Range;

/// Names of masters and channels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelNames {
    masters: Vec<(Range<u32>, String)>,
    channels: Vec<(Option<Range<u32>>, Range<u32>, String)>,
}

/// A line that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ChannelNamesError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl ChannelNames {
    /// Reads the names of a file.
    ///
    /// ```
    /// use unspool::ChannelNames;
    /// let names = ChannelNames::parse("# system trace\nmaster 0x40 kernel\nchannel 0x40:0..16 log\nchannel 7 audio\n")?;
    /// assert_eq!(names.master(0x40), Some("kernel"));
    /// assert_eq!(names.channel(Some(0x40), 3), Some("log"));
    /// assert_eq!(names.channel(None, 7), Some("audio"));
    /// # Ok::<(), unspool::ChannelNamesError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// At the first line that is neither empty nor a comment nor a name.
    pub fn parse(text: &str) -> Result<Self, ChannelNamesError> {
        let mut names = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                names.line(line).map_err(|what| ChannelNamesError { line: index + 1, what })?;
            }
        }
        Ok(names)
    }

    /// The name of a master.
    pub fn master(&self, master: u16) -> Option<&str> {
        let named = self.masters.iter().rev().find(|(range, _)| range.contains(&master.into()));
        named.map(|(_, name)| name.as_str())
    }

    /// The name of a channel of a master.
    pub fn channel(&self, master: Option<u16>, channel: u16) -> Option<&str> {
        let fits = |masters: &Option<Range<u32>>| match (masters, master) {
            (None, _) => true,
            (Some(masters), Some(master)) => masters.contains(&master.into()),
            (Some(_), None) => false,
        };
        let named =
            self.channels.iter().rev().find(|(masters, range, _)| range.contains(&channel.into()) && fits(masters));
        named.map(|(_, _, name)| name.as_str())
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(char::is_whitespace).ok_or("expected numbers and a name")?;
        let (numbers, name) = rest.trim_start().split_once(char::is_whitespace).ok_or("expected a name")?;
        let name = name.trim().to_string();
        match word {
            "master" => self.masters.push((numbers_of(numbers)?, name)),
            "channel" => {
                let (masters, channels) = match numbers.split_once(':') {
                    Some((masters, channels)) => (Some(numbers_of(masters)?), channels),
                    None => (None, numbers),
                };
                self.channels.push((masters, numbers_of(channels)?, name));
            }
            other => return Err(format!("expected 'master' or 'channel', found '{other}'")),
        }
        Ok(())
    }
}

/// `5`, `0x40` or `0..16`, without the last.
fn numbers_of(text: &str) -> Result<Range<u32>, String> {
    let number = |text: &str| {
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        parsed.ok().filter(|number| *number <= 0x1_0000).ok_or_else(|| format!("'{text}' is not a number up to 65536"))
    };
    match text.split_once("..") {
        Some((start, end)) => Ok(number(start)?..number(end)?),
        None => number(text).map(|number| number..number + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_fits_names_a_channel() {
        let names =
            ChannelNames::parse("channel 0..10 all\nchannel 0x40:3 one\n\nmaster 0x40..0x42 cores # two\n").unwrap();
        let rows = [
            (Some(0x40), 3, Some("one")),
            (Some(0x41), 3, Some("all")),
            (None, 3, Some("all")),
            (None, 9, Some("all")),
            (None, 10, None),
        ];
        for (master, channel, name) in rows {
            assert_eq!(names.channel(master, channel), name, "{master:?} {channel}");
        }
        assert_eq!([names.master(0x3f), names.master(0x41), names.master(0x42)], [None, Some("cores"), None]);
    }

    #[test]
    fn lines_that_are_not_names_are_reported() {
        let rows = [
            ("master", "line 1: expected numbers and a name"),
            ("\nmaster 5", "line 2: expected a name"),
            ("port 5 five", "line 1: expected 'master' or 'channel', found 'port'"),
            ("channel x five", "line 1: 'x' is not a number up to 65536"),
            ("channel 1:99999 five", "line 1: '99999' is not a number up to 65536"),
        ];
        for (text, expected) in rows {
            assert_eq!(ChannelNames::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
