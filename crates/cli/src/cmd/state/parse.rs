//! Places, addresses and names, as they are written on the command line.

use std::ops::RangeInclusive;

use unspool::tarmac::index::Position;
use unspool::tarmac::record::{Time, Unit};

use crate::args::number_u64;

/// Memory that is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    All,
    Range(RangeInclusive<u64>),
}

impl Place {
    pub(super) fn range(&self) -> RangeInclusive<u64> {
        match self {
            Self::All => 0..=u64::MAX,
            Self::Range(range) => range.clone(),
        }
    }
}

/// Something whose last write is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Register(String),
    Memory(RangeInclusive<u64>),
}

const UNITS: [Unit; 10] =
    [Unit::S, Unit::Ms, Unit::Us, Unit::Ns, Unit::Ps, Unit::Fs, Unit::Clk, Unit::Cs, Unit::Cyc, Unit::Tic];

pub(super) fn position(text: &str) -> Result<Position, String> {
    let wrong = || format!("'{text}' is no line (1200), no time (1200ns, 40clk) and no instruction (#1200)");
    if let Some(number) = text.strip_prefix('#') {
        return number.parse().map(Position::Instruction).map_err(|_| wrong());
    }
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    if unit.is_empty() {
        return match number.parse() {
            Ok(0) | Err(_) => Err(wrong()),
            Ok(line) => Ok(Position::Line(line)),
        };
    }
    let unit = UNITS.into_iter().find(|known| known.name().eq_ignore_ascii_case(unit)).ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let value = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let decimals = u8::try_from(fraction.len()).map_err(|_| wrong())?;
    Ok(Position::Time(Time { value, decimals, unit }))
}

pub(super) fn memory(text: &str) -> Result<Place, String> {
    if text == "all" {
        return Ok(Place::All);
    }
    range(text, 16).map(Place::Range)
}

pub(super) fn wanted(text: &str) -> Result<Wanted, String> {
    if text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return range(text, 1).map(Wanted::Memory);
    }
    Ok(Wanted::Register(text.to_string()))
}

/// At most as much memory is shown for one option.
const MOST: u64 = 1 << 24;

fn range(text: &str, usual: u64) -> Result<RangeInclusive<u64>, String> {
    let (start, length) = match text.split_once('+') {
        Some((start, length)) => (number_u64(start)?, number_u64(length)?),
        None => (number_u64(text)?, usual),
    };
    if length == 0 || length > MOST {
        return Err(format!("the length has to be from 1 to {MOST}"));
    }
    Ok(start..=start.saturating_add(length - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let time = |value, decimals, unit| Position::Time(Time { value, decimals, unit });
        let rows = [
            ("1200", Some(Position::Line(1200))),
            ("#12", Some(Position::Instruction(12))),
            ("1200ns", Some(time(1200, 0, Unit::Ns))),
            ("10.356us", Some(time(10356, 3, Unit::Us))),
            ("40 clk", Some(time(40, 0, Unit::Clk))),
            ("0", None),
            ("", None),
            ("#", None),
            ("ns", None),
            ("12parsec", None),
            ("1.2.3ns", None),
        ];
        for (text, expected) in rows {
            assert_eq!(position(text).ok(), expected, "{text}");
        }
        assert_eq!(memory("0x10+4"), Ok(Place::Range(0x10..=0x13)));
        assert_eq!(memory("16"), Ok(Place::Range(16..=31)));
        assert_eq!(memory("all"), Ok(Place::All));
        assert!(memory("0x10+0").is_err());
        assert_eq!(wanted("sp"), Ok(Wanted::Register("sp".into())));
        assert_eq!(wanted("0x8"), Ok(Wanted::Memory(8..=8)));
        assert_eq!(memory("0xffffffffffffffff+8"), Ok(Place::Range(u64::MAX..=u64::MAX)));
    }
}
