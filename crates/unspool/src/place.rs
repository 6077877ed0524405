//! Places in a trace: a position, a time, the number of an instruction, an address or a function.
//!
//! text ─▶ **place**; place, steps ─▶ the first step after it
//!
//! A place is an instruction, or a point between two steps. What is *at* an instruction includes it. Knows no format: a
//! position is a line, a record or an offset, as the trace counts.

use std::fmt;
use std::str::FromStr;

use unspool_model::{Event, Step, TimeUnit};
use unspool_tarmac::index::compare;
use unspool_tarmac::record::{Time, Unit};

use crate::Program;

/// A place in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// After a line, a record or an offset, as the trace counts.
    Position(u64),
    /// After everything up to a time.
    Time(Time),
    /// An instruction by its number, counted from 1.
    Instruction(u64),
    /// The first instruction at an address.
    Address(u64),
    /// The first instruction at the start of a function.
    Function(String),
}

/// Units of times that can be named.
const UNITS: [Unit; 10] =
    [Unit::S, Unit::Ms, Unit::Us, Unit::Ns, Unit::Ps, Unit::Fs, Unit::Clk, Unit::Cs, Unit::Cyc, Unit::Tic];

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not a position (1200), a time (1200ns, 40clk), an instruction (#1200), an address (0x1200) or \
                 a function"
            )
        };
        if let Some(number) = text.strip_prefix('#') {
            return number.parse().ok().filter(|number| *number > 0).map(Self::Instruction).ok_or_else(wrong);
        }
        if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            return u64::from_str_radix(digits, 16).map(Self::Address).map_err(|_| wrong());
        }
        if !text.starts_with(|first: char| first.is_ascii_digit()) {
            let is_name = !text.trim().is_empty();
            return is_name.then(|| Self::Function(text.to_string())).ok_or_else(wrong);
        }
        let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        if unit.is_empty() {
            return number.parse().ok().filter(|number| *number > 0).map(Self::Position).ok_or_else(wrong);
        }
        let unit = UNITS.into_iter().find(|known| known.name().eq_ignore_ascii_case(unit)).ok_or_else(wrong)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let value = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
        let decimals = u8::try_from(fraction.len()).map_err(|_| wrong())?;
        Ok(Self::Time(Time { value, decimals, unit }))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Position(number) => write!(f, "{number}"),
            Self::Time(time) => write!(f, "{time}"),
            Self::Instruction(number) => write!(f, "#{number}"),
            Self::Address(address) => write!(f, "{address:#x}"),
            Self::Function(name) => f.write_str(name),
        }
    }
}

impl Place {
    /// Addresses of the instructions that it is the first of; empty: it is not a place of code.
    ///
    /// # Errors
    ///
    /// If the program has no such function.
    pub fn addresses(&self, program: &Program) -> Result<Vec<u64>, String> {
        match self {
            Self::Address(address) => Ok(vec![*address]),
            Self::Function(name) => {
                let found: Vec<u64> = program.functions(name).map(|range| range.start).collect();
                let unknown = || {
                    format!("no function '{name}' with a known size in the symbols of the program; add it with --image")
                };
                (!found.is_empty()).then_some(found).ok_or_else(unknown)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether it has a time that a trace with this unit of time can have.
    pub fn fits(&self, unit: TimeUnit) -> bool {
        match self {
            Self::Time(time) => compare(*time, time_of(0, unit)).is_some(),
            _ => true,
        }
    }

    /// Whether a time of a trace is the one of the place, or later.
    pub fn is_reached_at(&self, time: u64, unit: TimeUnit) -> bool {
        matches!(self, Self::Time(wanted) if compare(time_of(time, unit), *wanted).is_some_and(std::cmp::Ordering::is_ge))
    }

    /// Whether a time of a trace is later.
    pub fn is_before(&self, time: u64, unit: TimeUnit) -> bool {
        matches!(self, Self::Time(wanted) if compare(time_of(time, unit), *wanted).is_some_and(std::cmp::Ordering::is_gt))
    }
}

/// A time of a trace, with its unit.
pub fn time_of(value: u64, unit: TimeUnit) -> Time {
    match unit {
        TimeUnit::Unknown => Time { value, decimals: 0, unit: Unit::Tic },
        TimeUnit::Cycles => Time { value, decimals: 0, unit: Unit::Clk },
        TimeUnit::Seconds(power @ ..=0) => Time { value, decimals: power.unsigned_abs(), unit: Unit::S },
        TimeUnit::Seconds(power) => {
            let factor = 10_u64.saturating_pow(u32::from(power.unsigned_abs()));
            Time { value: value.saturating_mul(factor), decimals: 0, unit: Unit::S }
        }
    }
}

/// Finds a place in the steps of a source.
#[derive(Debug)]
pub struct PlaceFinder {
    place: Place,
    addresses: Vec<u64>,
    unit: TimeUnit,
    /// Only instructions of this core count.
    core: Option<u32>,
    instructions: u64,
    /// The place is an instruction, which was found.
    is_at: bool,
    is_found: bool,
}

impl PlaceFinder {
    /// Finds a place in the steps of a source with this unit of time, which executes this program. Only instructions of
    /// `core` count, if it is given.
    ///
    /// # Errors
    ///
    /// If the program has no such function.
    pub fn new(place: &Place, core: Option<u32>, unit: TimeUnit, program: &Program) -> Result<Self, String> {
        let addresses = place.addresses(program)?;
        Ok(Self { place: place.clone(), addresses, unit, core, instructions: 0, is_at: false, is_found: false })
    }

    /// Whether a step comes after the place. Called for each step in order, until it is true.
    #[inline]
    pub fn is_after(&mut self, step: &Step) -> bool {
        if self.is_at {
            return true;
        }
        let is_after = match &self.place {
            Place::Position(position) => {
                self.is_found |= step.position >= *position;
                step.position > *position
            }
            Place::Time(_) => {
                let is_after = step.time.is_some_and(|time| self.place.is_before(time, self.unit));
                self.is_found |= step.time.is_some() && !is_after;
                is_after
            }
            _ => false,
        };
        if let Event::Instruction(instruction) = &step.event
            && self.core.is_none_or(|core| core == step.core)
        {
            self.instructions += 1;
            self.is_at = match self.place {
                Place::Instruction(number) => self.instructions == number,
                _ => self.addresses.contains(&instruction.address),
            };
            self.is_found |= self.is_at;
        }
        is_after
    }

    /// Whether the steps so far reached the place.
    pub fn is_found(&self) -> bool {
        self.is_found && self.place.fits(self.unit)
    }
}

#[cfg(test)]
mod tests {
    use unspool_model::Instruction;

    use super::*;

    #[test]
    fn places_are_parsed() {
        let time = |value, decimals, unit| Some(Place::Time(Time { value, decimals, unit }));
        let rows = [
            ("1200", Some(Place::Position(1200))),
            ("#12", Some(Place::Instruction(12))),
            ("0x1f00", Some(Place::Address(0x1f00))),
            ("main", Some(Place::Function("main".into()))),
            ("ns", Some(Place::Function("ns".into()))),
            ("core::fmt::write", Some(Place::Function("core::fmt::write".into()))),
            ("1200ns", time(1200, 0, Unit::Ns)),
            ("10.356us", time(10356, 3, Unit::Us)),
            ("40 clk", time(40, 0, Unit::Clk)),
            ("7tic", time(7, 0, Unit::Tic)),
            ("0", None),
            ("", None),
            (" ", None),
            ("#", None),
            ("#0", None),
            ("0x", None),
            ("12parsec", None),
            ("1.2.3ns", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in rows {
            assert_eq!(text.parse::<Place>().ok(), expected, "{text}");
        }
    }

    #[test]
    fn places_are_found() {
        // Instructions at 0x1000, 0x1004, ... on cores 0 and 1 in turn; positions 10, 20, ...; times 1, 2, ... us.
        let steps: Vec<Step> = (0..6)
            .map(|index| {
                let mut step = Step::default();
                (step.core, step.position, step.time) = (index as u32 % 2, 10 * (index + 1), Some(index + 1));
                let address = 0x1000 + 4 * index;
                step.event = Event::Instruction(Instruction { address, length: 4, ..Instruction::default() });
                step
            })
            .collect();
        // Number of steps up to the place; `None`: it is not there.
        let rows = [
            ("20", None, Some(2)),
            ("25", None, Some(2)),
            ("60", None, Some(6)),
            ("61", None, None),
            ("#3", None, Some(3)),
            ("#3", Some(1), Some(6)),
            ("#4", Some(1), None),
            ("0x1008", None, Some(3)),
            ("0x1008", Some(1), None),
            ("0x2000", None, None),
            ("3us", None, Some(3)),
            ("3500ns", None, Some(3)),
            ("0.000003s", None, Some(3)),
            ("100us", None, Some(6)),
            ("500ns", None, None),
            ("3clk", None, None),
        ];
        for (text, core, expected) in rows {
            let place: Place = text.parse().unwrap();
            let program = Program::new(Vec::new());
            let mut finder = PlaceFinder::new(&place, core, TimeUnit::MICROSECONDS, &program).unwrap();
            let count = steps.iter().take_while(|step| !finder.is_after(step)).count();
            assert_eq!(finder.is_found().then_some(count), expected, "{text} {core:?}");
        }
        let place = Place::Function("main".into());
        assert!(PlaceFinder::new(&place, None, TimeUnit::Unknown, &Program::new(Vec::new())).is_err());
    }
}
