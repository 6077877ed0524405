//! A core as the user names it.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A core, by its name or by its number in order of first appearance, counted from 0.
///
/// Where the names of cores are numbers themselves, a number is a name.
///
/// ```
/// use unspool_model::CoreSelector;
///
/// let Ok(second) = "1".parse::<CoreSelector>();
/// assert!(second.matches(1, b"cpu1") && !second.matches(0, b"cpu0"));
/// assert!(second.matches(0, b"1") && !second.matches(1, b"0"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreSelector {
    text: String,
    number: Option<u32>,
}

impl CoreSelector {
    /// The number, if it may be one.
    pub fn number(&self) -> Option<u32> {
        self.number
    }

    /// Whether the core with this number and name is meant.
    pub fn matches(&self, number: usize, name: &[u8]) -> bool {
        let is_named_by_number = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
        let is_number = || self.number.is_some_and(|wanted| wanted as usize == number);
        name == self.text.as_bytes() || !is_named_by_number && is_number()
    }
}

impl FromStr for CoreSelector {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self { text: text.to_string(), number: text.parse().ok() })
    }
}

impl fmt::Display for CoreSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
