//! Parameters of a request: each is known, comes once, and is valid.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::Refusal;

/// Limit of the length of a query.
const MAX_LENGTH: usize = 8192;

/// Parameters that are still to be taken.
#[derive(Debug)]
pub(crate) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Parses the part of an address after the question mark.
    pub(crate) fn parse(query: &str) -> Result<Self, Refusal> {
        if query.len() > MAX_LENGTH {
            return Err(Refusal::malformed("the request is too long"));
        }
        let mut all = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if all.insert(name.clone(), value).is_some() {
                return Err(Refusal::malformed(format!("'{name}' is given twice")));
            }
        }
        Ok(Self(all))
    }

    /// Takes the text of a parameter that may be missing.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Whether there is such a parameter.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Takes a number.
    pub(crate) fn number<T: FromStr + PartialOrd + std::fmt::Display>(
        &mut self,
        name: &str,
        range: RangeInclusive<T>,
    ) -> Result<T, Refusal> {
        let text = self.text(name).ok_or_else(|| Refusal::malformed(format!("'{name}' is missing")))?;
        // A sign is no part of a number here.
        let digits = text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let (first, last) = (range.start(), range.end());
        digits
            .filter(|number| range.contains(number))
            .ok_or_else(|| Refusal::malformed(format!("'{name}' must be a number from {first} to {last}")))
    }

    /// Takes the number of an instruction.
    pub(crate) fn instruction(&mut self, name: &str) -> Result<u64, Refusal> {
        self.number(name, 1..=LAST)
    }

    /// Rejects what was not taken.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(Refusal::malformed(format!("there is no parameter '{name}'"))),
        }
    }
}

/// The last instruction that can be asked for: a page counts with 53 bits.
pub(crate) const LAST: u64 = (1 << 53) - 1;

/// A number in hexadecimal digits after `0x`.
pub(crate) fn address(text: &str) -> Result<u64, Refusal> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    digits
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| Refusal::malformed(format!("'{}' is no address: 0x and hexadecimal digits", shortened(text))))
}

/// The beginning of a text for messages.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Replaces `+` and `%` with two digits.
fn decoded(text: &str) -> Result<String, Refusal> {
    let malformed = || Refusal::malformed("an escape in the request is malformed");
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or_else(malformed);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_strict() {
        let mut all = Parameters::parse("from=7&place=%23+12%30&memory=0x10").unwrap();
        assert_eq!(all.number("from", 1..=10_u64).unwrap(), 7);
        assert_eq!(all.text("place").unwrap(), "# 120");
        assert_eq!(address(&all.text("memory").unwrap()).unwrap(), 16);
        all.finish().unwrap();
        for wrong in ["a=1&a=2", "a=%2", "a=%zz", "a=%ff", "%=1"] {
            assert!(Parameters::parse(wrong).is_err(), "{wrong}");
        }
        for (wrong, range) in [("n=", 0..=9_u64), ("n=+1", 0..=9), ("n=-1", 0..=9), ("n=10", 0..=9), ("m=1", 0..=9)] {
            assert!(Parameters::parse(wrong).unwrap().number("n", range).is_err(), "{wrong}");
        }
        assert!(Parameters::parse("n=1").unwrap().finish().is_err());
        assert!(["10", "0x", "0xg", "0x10000000000000000", "0x+1"].iter().all(|text| address(text).is_err()));
    }
}
