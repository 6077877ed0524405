//! Options that select a part of what was executed, the same for all verbs.
//!
//! options + program, and what a trace has ─▶ [`StepSelection`]

use std::ops::Range;
use std::str::FromStr;

use anyhow::bail;
use unspool::Program;
use unspool::analyze::step_selection::StepSelection;
use unspool::model::{Coverage, Facet, TimeUnit};

use crate::args::{is_number, parse_number, parse_range};

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct SelectionArgs {
    /// Only instructions of this function. Can be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Vec<String>,

    /// Only instructions at this address, or from address A up to, but not including, address B. Can be repeated
    #[arg(long, value_name = "A[..B]", value_parser = parse_place)]
    address: Vec<Range<u64>>,

    /// Only at this Exception level or privilege mode: 0 to 3. Can be repeated
    #[arg(long, value_name = "EL", value_parser = parse_level)]
    level: Vec<u8>,

    /// Only user mode (level 0), or only the kernel (the levels above)
    #[arg(long, value_name = "MODE", value_enum, conflicts_with = "level")]
    mode: Option<Mode>,

    /// Only this process: its number, or the file name of its program. Can be repeated
    #[arg(long, value_name = "PID|NAME")]
    pub(crate) process: Vec<String>,

    /// Only from time A up to, but not including, time B: in the unit of the trace, or with a unit of seconds (1.5s..2s). A or
    /// B may be left out
    #[arg(long, value_name = "A..B")]
    pub(crate) time: Option<TimeRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Level 0: EL0, or U-mode
    User,
    /// The levels above 0
    Kernel,
}

impl SelectionArgs {
    /// These processes and times.
    pub(crate) fn of(process: &[String], time: Option<&TimeRange>) -> Self {
        Self { process: process.to_vec(), time: time.cloned(), ..Self::default() }
    }

    /// Whether everything is selected.
    pub(crate) fn is_all(&self) -> bool {
        self.is_any_code() && self.process.is_empty() && self.time.is_none()
    }

    /// Whether neither addresses nor levels are selected.
    pub(crate) fn is_any_code(&self) -> bool {
        self.function.is_empty() && self.address.is_empty() && self.levels().is_empty()
    }

    /// The options that are given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
        let given = [
            (!self.function.is_empty(), "--function"),
            (!self.address.is_empty(), "--address"),
            (!self.level.is_empty(), "--level"),
            (self.mode.is_some(), "--mode"),
            (!self.process.is_empty(), "--process"),
            (self.time.is_some(), "--time"),
        ];
        given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, option)| option)
    }

    /// The selected levels; empty: all of them.
    fn levels(&self) -> Vec<u8> {
        match self.mode {
            Some(Mode::User) => vec![0],
            Some(Mode::Kernel) => vec![1, 2, 3],
            None => self.level.clone(),
        }
    }

    /// The addresses and levels of the selection.
    pub(crate) fn code<'p>(
        &self,
        programs: &(impl Iterator<Item = &'p Program> + Clone),
    ) -> anyhow::Result<StepSelection> {
        let mut addresses = self.address.clone();
        for name in &self.function {
            let before = addresses.len();
            programs.clone().for_each(|program| addresses.extend(program.functions(name)));
            if addresses.len() == before {
                bail!(
                    "no function '{name}' with a known size in the symbols of the trace; add its program with --image"
                );
            }
        }
        Ok(StepSelection { addresses, levels: self.levels(), ..StepSelection::default() })
    }

    /// The selection in a trace of this name. Fails if it does not have what the options are about.
    pub(crate) fn resolve(
        &self,
        name: &str,
        program: &Program,
        coverage: Coverage,
        unit: TimeUnit,
    ) -> anyhow::Result<StepSelection> {
        let mut selection = self.code(&std::iter::once(program))?;
        for process in &self.process {
            selection.processes.extend(find_process(name, process, program)?);
        }
        selection.times = self.time.as_ref().map(|time| time.in_unit(name, unit)).transpose()?;
        match selection.missing(coverage) {
            Some(Facet::Levels) => {
                let option = if self.mode.is_some() { "--mode" } else { "--level" };
                bail!("{name}: {option}: the trace has no Exception levels or privilege modes")
            }
            Some(Facet::Processes) => bail!("{name}: --process: the trace has no processes"),
            Some(_) => bail!("{name}: --time: the trace has no times"),
            None => Ok(selection),
        }
    }
}

/// The processes with this number or name.
fn find_process(name: &str, wanted: &str, program: &Program) -> anyhow::Result<Vec<u64>> {
    if is_number(wanted) {
        return Ok(vec![parse_number(wanted).map_err(anyhow::Error::msg)?]);
    }
    let found: Vec<u64> = program.processes_named(wanted).into_iter().map(u64::from).collect();
    if found.is_empty() {
        bail!(
            "{name}: --process: no process '{wanted}' in the trace; 'unspool stats --by process' lists their numbers"
        );
    }
    Ok(found)
}

fn parse_level(text: &str) -> Result<u8, String> {
    let digits = text.strip_prefix("EL").or_else(|| text.strip_prefix("el")).unwrap_or(text);
    let level = digits.parse().ok().filter(|level| *level <= 3);
    level.ok_or_else(|| format!("'{text}' is not an Exception level or privilege mode: 0, 1, 2 or 3 (the level of compression is --compression)"))
}

/// An address, or a range of addresses.
pub(crate) fn parse_place(text: &str) -> Result<Range<u64>, String> {
    if text.contains("..") {
        return parse_range(text);
    }
    let address = parse_number(text)?;
    Ok(address..address.saturating_add(1))
}

/// Instructions of --instructions.
pub(crate) fn parse_instructions(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("'{text}' is not a range A..B of numbers of instructions (1000..2000)");
    let (start, end) = text.split_once("..").filter(|_| text != "..").ok_or_else(wrong)?;
    let parse = |text: &str, default| if text.is_empty() { Ok(default) } else { parse_number(text) };
    let range = parse(start, 0).map_err(|_| wrong())?..parse(end, u64::MAX).map_err(|_| wrong())?;
    if range.is_empty() {
        return Err(format!("'{text}' is empty: a range A..B ends before B, so A must be below B"));
    }
    Ok(range)
}

/// Times of --time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) range: Range<u64>,
    pub(crate) unit: GivenUnit,
}

/// Unit in which times were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenUnit {
    /// That of the trace, such as timestamps.
    Ticks,
    Nanoseconds,
}

impl TimeRange {
    /// The range in the unit of a trace.
    fn in_unit(&self, name: &str, unit: TimeUnit) -> anyhow::Result<Range<u64>> {
        if self.unit == GivenUnit::Ticks {
            return Ok(self.range.clone());
        }
        let Range { start, end } = self.range;
        let end = if end == u64::MAX { Some(end) } else { ticks(end, unit) };
        match (ticks(start, unit), end) {
            (Some(start), Some(end)) => Ok(start..end),
            _ => bail!("{name}: --time: the unit of its times is not known; give times as they are in the trace"),
        }
    }
}

/// The first time of this unit that is not before a number of nanoseconds.
fn ticks(nanoseconds: u64, unit: TimeUnit) -> Option<u64> {
    let ticks = TimeUnit::Seconds(-9).convert(nanoseconds, unit)?;
    let is_before = unit.convert(ticks, TimeUnit::Seconds(-9)).is_some_and(|back| back < nanoseconds);
    ticks.checked_add(u64::from(is_before))
}

impl FromStr for TimeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a range A..B of timestamps or of seconds (0x1000..0x2000, 1.5s..2s)");
        let (start, end) = text.split_once("..").ok_or_else(wrong)?;
        let parse = |text: &str| (!text.is_empty()).then(|| parse_time(text).ok_or_else(wrong)).transpose();
        let (start, end) = (parse(start)?, parse(end)?);
        let unit = match (start, end) {
            (Some((_, one)), Some((_, other))) if one != other => {
                return Err(format!("'{text}' has two units: give both times in seconds, or both in timestamps"));
            }
            (Some((_, unit)), _) | (None, Some((_, unit))) => unit,
            (None, None) => return Err(wrong()),
        };
        let range = start.map_or(0, |(time, _)| time)..end.map_or(u64::MAX, |(time, _)| time);
        if range.is_empty() {
            return Err(format!("'{text}' is empty: a range A..B ends before B, so A must be below B"));
        }
        Ok(Self { range, unit })
    }
}

/// A time: a number of ticks, or a decimal number with a unit.
fn parse_time(text: &str) -> Option<(u64, GivenUnit)> {
    if let Ok(ticks) = parse_number(text) {
        return Some((ticks, GivenUnit::Ticks));
    }
    let units = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
    let (number, decimals) = units.iter().find_map(|(unit, decimals)| Some((text.strip_suffix(unit)?, *decimals)))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > decimals {
        return None;
    }
    format!("{whole}{fraction:0<decimals$}").parse().ok().map(|time| (time, GivenUnit::Nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::GivenUnit::{Nanoseconds, Ticks};
    use super::*;

    #[test]
    fn times() {
        let rows = [
            ("5..9", Some((5..9, Ticks))),
            ("0x10..0x20", Some((16..32, Ticks))),
            ("..9", Some((0..9, Ticks))),
            ("9..", Some((9..u64::MAX, Ticks))),
            ("1.5s..2s", Some((1_500_000_000..2_000_000_000, Nanoseconds))),
            ("0.000000001s..1us", Some((1..1000, Nanoseconds))),
            ("250ms..", Some((250_000_000..u64::MAX, Nanoseconds))),
            ("7ns..8ns", Some((7..8, Nanoseconds))),
            ("..", None),
            ("5", None),
            ("5..5", None),
            ("9..5", None),
            ("1s..5", None),
            ("1.5..2", None),
            ("1.5ns..2ns", None),
            ("-1s..2s", None),
            ("s..2s", None),
            ("99999999999999s..", None),
        ];
        for (text, expected) in rows {
            let found = text.parse::<TimeRange>().ok().map(|time| (time.range, time.unit));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn instructions() {
        let rows = [
            ("5..9", Some(5..9)),
            ("..9", Some(0..9)),
            ("9..", Some(9..u64::MAX)),
            ("..", None),
            ("5", None),
            ("5..5", None),
            ("9..5", None),
            ("5..x", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_instructions(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn times_in_units_of_a_trace() {
        let rows = [
            ("5..9", TimeUnit::Unknown, Some(5..9)),
            ("1us..2us", TimeUnit::Unknown, None),
            ("1us..2us", TimeUnit::Cycles, None),
            ("1us..2us", TimeUnit::Seconds(-9), Some(1000..2000)),
            // Microsecond 1 starts before 1001 ns, and microsecond 2 before 2001 ns.
            ("1001ns..2001ns", TimeUnit::MICROSECONDS, Some(2..3)),
            ("1us..", TimeUnit::MICROSECONDS, Some(1..u64::MAX)),
            ("..1us", TimeUnit::Seconds(-12), Some(0..1_000_000)),
        ];
        for (text, unit, expected) in rows {
            let time: TimeRange = text.parse().unwrap();
            assert_eq!(time.in_unit("trace", unit).ok(), expected, "{text} {unit:?}");
        }
    }

    #[test]
    fn levels_and_addresses() {
        assert_eq!(
            ["0", "EL1", "el3", "4", "-1", "x"].map(|text| parse_level(text).ok()),
            [Some(0), Some(1), Some(3), None, None, None]
        );
        assert_eq!(parse_place("0x10"), Ok(0x10..0x11));
        assert_eq!(parse_place("0x10..0x20"), Ok(0x10..0x20));
        assert!(parse_place("0x20..0x10").is_err());
    }
}
