//! Which instructions a cut has, and in how many pieces.
//!
//! instructions of a trace ─▶ **selection** ─▶ those that are wanted ─▶ the slicer of each format ─▶ pieces
//!
//! Instructions that follow one another in the trace and are all wanted are a piece. Pieces stand one behind the other in
//! one trace, with a seam between them that the format has words for, or each is a trace of its own. Knows no format.

use std::io;
use std::ops::Range;

use unspool_isa::Isa;

/// An instruction that may be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Candidate {
    /// Which core, counted from 0 in the order in which the trace tells of them.
    pub core: u32,
    /// How many instructions of the trace came before it.
    pub index: u64,
    /// Where it is; `None`: nowhere, or nobody knows.
    pub pc: Option<u64>,
    /// When, in the unit of the trace.
    pub time: Option<u64>,
    /// Its opcode, if it is known and of Arm.
    pub code: Option<(Isa, u32)>,
    /// How many bytes it has.
    pub length: u8,
    /// It was executed; its condition held.
    pub is_executed: bool,
    /// An exception was taken since the instruction before.
    pub is_interrupted: bool,
}

/// What becomes of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// It is wanted.
    Take,
    /// It is not.
    Leave,
    /// It is not, and neither is anything behind it.
    Stop,
}

/// Chooses instructions. It is asked about all of them in order, until it says [`Choice::Stop`].
pub trait Select {
    /// Is it wanted?
    fn choose(&mut self, candidate: &Candidate) -> Choice;

    /// After one that was taken: can another be wanted?
    fn wants_more(&self) -> bool {
        true
    }

    /// Is what stands before the first instruction wanted with it?
    fn wants_start(&self) -> bool {
        false
    }
}

/// Instructions by number, time and address: those that all of these have in common.
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
    /// Leave out so many more of those that would be taken otherwise.
    pub skip: u64,
    /// Take so many more at most.
    pub limit: u64,
    /// In this time only. What has no time is in none.
    pub time: Option<Range<u64>>,
    /// Times never go back: behind the end of the time nothing is wanted.
    pub times_rise: bool,
    /// In one of these ranges only, if there are any.
    pub addresses: Vec<Range<u64>>,
    /// Of this core only.
    pub core: Option<u32>,
}

impl Default for Selection {
    /// Everything.
    fn default() -> Self {
        Self { skip: 0, limit: u64::MAX, time: None, times_rise: false, addresses: Vec::new(), core: None }
    }
}

impl Selection {
    /// Instructions by number.
    pub fn of(range: &Range<u64>) -> Self {
        Self { skip: range.start, limit: range.end.saturating_sub(range.start), ..Self::default() }
    }

    /// Instructions by address.
    pub fn within(addresses: Range<u64>) -> Self {
        Self { addresses: vec![addresses], ..Self::default() }
    }

    /// Is it in the time, at one of the addresses and of the core that are wanted?
    #[inline]
    pub fn matches(&self, candidate: &Candidate) -> bool {
        let is_in = |ranges: &[Range<u64>], pc| ranges.iter().any(|range| range.contains(&pc));
        self.time.as_ref().is_none_or(|time| candidate.time.is_some_and(|now| time.contains(&now)))
            && (self.addresses.is_empty() || candidate.pc.is_some_and(|pc| is_in(&self.addresses, pc)))
            && self.core.is_none_or(|core| core == candidate.core)
    }

    /// Can nothing behind it be wanted?
    pub fn is_over(&self, candidate: &Candidate) -> bool {
        let is_late = |time: &Range<u64>| candidate.time.is_some_and(|now| now >= time.end);
        self.limit == 0 || self.times_rise && self.time.as_ref().is_some_and(is_late)
    }

    /// The next one that matches.
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

/// Where pieces go.
pub trait SliceSink<T> {
    /// A trace of its own begins here, and the one before ends. Comes before anything is taken.
    fn begin(&mut self) -> io::Result<()>;

    /// Takes more of the trace that has begun.
    fn write_part(&mut self, part: &[T]) -> io::Result<()>;
}

/// All pieces in one; there is one trace.
impl<T: Clone> SliceSink<T> for Vec<T> {
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn write_part(&mut self, part: &[T]) -> io::Result<()> {
        self.extend_from_slice(part);
        Ok(())
    }
}

/// Each piece by itself.
impl<T: Clone> SliceSink<T> for Vec<Vec<T>> {
    fn begin(&mut self) -> io::Result<()> {
        self.push(Vec::new());
        Ok(())
    }

    fn write_part(&mut self, part: &[T]) -> io::Result<()> {
        match self.last_mut() {
            Some(piece) => piece.extend_from_slice(part),
            None => self.push(part.to_vec()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_chosen() {
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
    fn what_is_not_known_is_nowhere() {
        let candidate = Candidate::default();
        assert!(Selection::default().matches(&candidate));
        assert!(!Selection { time: Some(0..1), ..Selection::default() }.matches(&candidate));
        assert!(!Selection::within(0..1).matches(&candidate));
    }
}
