//! Selection of the instructions of a slice.
//!
//! instructions of a trace ─▶ **selection** ─▶ selected instructions ─▶ the slicer of each format ─▶ ranges
//!
//! Consecutive selected instructions form a range. The ranges of a slice are written to one trace, with a gap between them
//! as the format marks it, or each to a trace of its own. Knows no format.

use std::io;
use std::ops::Range;

use unspool_isa::Isa;

/// An instruction that may be selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Candidate {
    /// Core number, counted from 0 in order of first appearance in the trace.
    pub core: u32,
    /// Number of instructions before it in the trace.
    pub index: u64,
    /// Its address; `None`: none, or unknown.
    pub pc: Option<u64>,
    /// Time in the unit of the trace.
    pub time: Option<u64>,
    /// Its opcode, if it is known and an Arm opcode.
    pub code: Option<(Isa, u32)>,
    /// Length in bytes.
    pub length: u8,
    /// Whether it was executed: its condition held.
    pub is_executed: bool,
    /// Whether an exception was taken since the previous instruction.
    pub is_interrupted: bool,
}

/// Decision about an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// It is selected.
    Take,
    /// It is not selected.
    Leave,
    /// Neither it nor any later instruction is selected.
    Stop,
}

/// Selects instructions. Called for each of them in order, until it returns [`Choice::Stop`].
pub trait Select {
    /// Decides about an instruction.
    fn choose(&mut self, candidate: &Candidate) -> Choice;

    /// After an instruction was selected: whether another may be.
    fn wants_more(&self) -> bool {
        true
    }

    /// Whether the records before the first instruction belong to the slice.
    fn wants_start(&self) -> bool {
        false
    }
}

/// Selection by number, time, address and core; an instruction has to match all of them.
///
/// ```
/// use unspool_model::selection::{Candidate, Choice, Select, Selection};
///
/// let mut selection = Selection { limit: 1, ..Selection::within(0x1000..0x2000) };
/// let at = |pc| Candidate { pc: Some(pc), ..Candidate::default() };
/// assert_eq!(selection.choose(&at(0x2000)), Choice::Leave);
/// assert_eq!(selection.choose(&at(0x1ffc)), Choice::Take);
/// assert_eq!(selection.choose(&at(0x1000)), Choice::Stop);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Number of matching instructions to skip first.
    pub skip: u64,
    /// Maximum number of instructions to select.
    pub limit: u64,
    /// Time range. An instruction without a time does not match.
    pub time: Option<Range<u64>>,
    /// Whether times never decrease, so that nothing matches after the end of the time range.
    pub times_rise: bool,
    /// Address ranges; empty: any address.
    pub addresses: Vec<Range<u64>>,
    /// Core number; `None`: any core.
    pub core: Option<u32>,
}

impl Default for Selection {
    /// Selects everything.
    fn default() -> Self {
        Self { skip: 0, limit: u64::MAX, time: None, times_rise: false, addresses: Vec::new(), core: None }
    }
}

impl Selection {
    /// Selects instructions by number.
    pub fn of(range: &Range<u64>) -> Self {
        Self { skip: range.start, limit: range.end.saturating_sub(range.start), ..Self::default() }
    }

    /// Selects instructions by address.
    pub fn within(addresses: Range<u64>) -> Self {
        Self { addresses: vec![addresses], ..Self::default() }
    }

    /// Whether time, address and core match.
    #[inline]
    pub fn matches(&self, candidate: &Candidate) -> bool {
        let is_in = |ranges: &[Range<u64>], pc| ranges.iter().any(|range| range.contains(&pc));
        self.time.as_ref().is_none_or(|time| candidate.time.is_some_and(|now| time.contains(&now)))
            && (self.addresses.is_empty() || candidate.pc.is_some_and(|pc| is_in(&self.addresses, pc)))
            && self.core.is_none_or(|core| core == candidate.core)
    }

    /// Whether no later instruction can match.
    pub fn is_over(&self, candidate: &Candidate) -> bool {
        let is_late = |time: &Range<u64>| candidate.time.is_some_and(|now| now >= time.end);
        self.limit == 0 || self.times_rise && self.time.as_ref().is_some_and(is_late)
    }

    /// Counts a matching instruction and decides about it.
    #[inline]
    pub fn count(&mut self) -> Choice {
        if self.limit == 0 {
            return Choice::Stop;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Choice::Leave;
        }
        self.limit -= 1;
        Choice::Take
    }
}

impl Select for Selection {
    #[inline]
    fn choose(&mut self, candidate: &Candidate) -> Choice {
        if self.matches(candidate) {
            return self.count();
        }
        if self.is_over(candidate) { Choice::Stop } else { Choice::Leave }
    }

    fn wants_more(&self) -> bool {
        self.limit > 0
    }

    fn wants_start(&self) -> bool {
        self.skip == 0 && self.limit > 0 && self.time.is_none() && self.addresses.is_empty()
    }
}

/// Consumer of slices.
pub trait SliceSink<T> {
    /// Ends the previous trace, if any, and begins a new one. Called before anything is written.
    fn begin(&mut self) -> io::Result<()>;

    /// Writes more of the current trace.
    fn write_part(&mut self, part: &[T]) -> io::Result<()>;
}

/// All ranges in one trace.
impl<T: Clone> SliceSink<T> for Vec<T> {
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn write_part(&mut self, part: &[T]) -> io::Result<()> {
        self.extend_from_slice(part);
        Ok(())
    }
}

/// One trace per range.
impl<T: Clone> SliceSink<T> for Vec<Vec<T>> {
    fn begin(&mut self) -> io::Result<()> {
        self.push(Vec::new());
        Ok(())
    }

    fn write_part(&mut self, part: &[T]) -> io::Result<()> {
        match self.last_mut() {
            Some(trace) => trace.extend_from_slice(part),
            None => self.push(part.to_vec()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_selected() {
        let all = Selection::default;
        let rows: [(&str, Selection, &[u64]); 9] = [
            ("everything", all(), &[0, 1, 2, 3, 4, 5]),
            ("nothing", Selection { limit: 0, ..all() }, &[]),
            ("by number", Selection::of(&(2..4)), &[2, 3]),
            ("an empty range", Selection { limit: 5_u64.saturating_sub(6), skip: 5, ..all() }, &[]),
            ("by time", Selection { time: Some(10..30), ..all() }, &[1, 2]),
            ("by address", Selection { addresses: vec![0..4, 0x10..0x11], ..all() }, &[0, 4]),
            ("by time and address", Selection { time: Some(20..60), ..Selection::within(0..0x10) }, &[2, 3]),
            ("the second by address", Selection { skip: 1, limit: 2, ..Selection::within(4..0x100) }, &[2, 3]),
            ("by core", Selection { core: Some(1), ..all() }, &[1, 3, 5]),
        ];
        for (name, mut selection, expected) in rows {
            let candidate = |index: u64| Candidate {
                core: index as u32 % 2,
                index,
                pc: Some(4 * index),
                time: Some(10 * index),
                ..Candidate::default()
            };
            let choices = (0..6).map(|index| (index, selection.choose(&candidate(index))));
            let taken: Vec<u64> =
                choices.filter(|(_, choice)| *choice == Choice::Take).map(|(index, _)| index).collect();
            assert_eq!(taken, expected, "{name}");
        }
    }

    #[test]
    fn unknown_time_and_address_match_no_range() {
        let candidate = Candidate::default();
        assert!(Selection::default().matches(&candidate));
        assert!(!Selection { time: Some(0..1), ..Selection::default() }.matches(&candidate));
        assert!(!Selection::within(0..1).matches(&candidate));
    }
}
