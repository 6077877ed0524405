//! Seeking: the line of a time, an instruction number, an address or an exception.
//!
//! query ─▶ index: the segment ─▶ log: the lines of that segment ─▶ **line number**

use std::cmp::Ordering;
use std::io::{Read, Seek};
use std::ops::{Range, RangeInclusive};

use super::bytes::{Cursor, Malformed};
use super::directory::Index;
use super::query::{Found, Indexed, Segments, State};
use super::time::compare;
use super::{IndexError, IndexResult, Position};
use crate::dialect::Effects;
use crate::record::{Line, Record, Stamp, Time};

impl<T: Segments, S: Read + Seek> Indexed<T, S> {
    /// The line before the first one with a later time: the last that the state at `time` includes. `None`: the first
    /// line is later, or no time in the log is comparable.
    pub fn line_at(&mut self, time: Time) -> IndexResult<Option<u64>> {
        let is_later = |other: Time| compare(other, time).is_some_and(Ordering::is_gt);
        let segments = &self.directory().segments;
        if !segments.iter().filter_map(|segment| segment.first).any(|first| compare(first, time).is_some()) {
            return Ok(None);
        }
        let Some(segment) = segments.iter().position(|segment| segment.latest.is_some_and(is_later)) else {
            return Ok(Some(self.directory().totals.lines));
        };
        let mut found = None;
        self.each_line(segment, |number, line| {
            if matches!(line.stamp, Stamp::At(time) if is_later(time)) {
                found = Some(number);
            }
            found.is_none()
        })?;
        Ok(found.map(|line| line - 1).filter(|line| *line > 0))
    }

    /// The state at a position; `core`: only its instructions are counted. `None`: the log has no such position.
    ///
    /// # Errors
    ///
    /// If the log or the index cannot be read.
    pub fn state_at(
        &mut self,
        position: Position,
        core: Option<&[u8]>,
        ranges: &[RangeInclusive<u64>],
    ) -> IndexResult<Option<State>> {
        if let (Position::Time(time), true) = (position, self.directory().is_of_steps) {
            return self.state_at_time(time, ranges);
        }
        let line = self.line_of(position, core)?.filter(|line| *line <= self.directory().totals.lines);
        line.map(|line| self.state(line, ranges)).transpose()
    }

    /// The state of steps before the first one with a later time. Steps between two instructions share a line.
    fn state_at_time(&mut self, time: Time, ranges: &[RangeInclusive<u64>]) -> IndexResult<Option<State>> {
        let order = |other: Time| compare(other, time);
        let is_later = |other: Time| order(other).is_some_and(Ordering::is_gt);
        let segments = &self.directory().segments;
        let Some(last) = segments.len().checked_sub(1) else { return Ok(None) };
        let segment = segments.iter().position(|segment| segment.latest.is_some_and(is_later)).unwrap_or(last);
        let state =
            self.state_until(segment, |_, line| matches!(line.stamp, Stamp::At(time) if is_later(time)), ranges)?;
        // There is a step with a time up to this one.
        Ok(Some(state).filter(|state| state.time.is_some_and(|time| order(time).is_some())))
    }

    /// The instruction with a number, counted from 1, of a core or of all.
    pub fn instruction(&mut self, core: Option<&[u8]>, number: u64) -> IndexResult<Option<Found>> {
        let Some(wanted) = number.checked_sub(1) else { return Ok(None) };
        let directory = self.directory();
        // `None`: all cores; `Some(None)`: a core that the log does not have.
        let index = core.map(|core| directory.cores.iter().position(|name| name == core));
        let before = |segment: usize| match index {
            None => directory.segments[segment].instructions_before,
            Some(index) => {
                let of_cores = &directory.segments[segment].core_instructions_before;
                index.and_then(|index| of_cores.get(index)).copied().unwrap_or(0)
            }
        };
        let segments: Vec<u64> = (0..directory.segments.len()).map(before).collect();
        let Some(segment) = segments.partition_point(|before| *before <= wanted).checked_sub(1) else {
            return Ok(None);
        };
        let mut left = wanted.saturating_sub(segments[segment]);
        self.find(segment, |_, line, name| {
            let is_match = matches!(line.record, Record::Instruction(_)) && core.is_none_or(|core| core == name);
            let is_found = is_match && left == 0;
            left = left.saturating_sub(u64::from(is_match));
            is_found
        })
    }

    /// The last line that the state at a position includes. `core`: only its instructions are counted. `None`: the log
    /// has no such time or instruction; whether it has a line is not checked.
    pub fn line_of(&mut self, position: Position, core: Option<&[u8]>) -> IndexResult<Option<u64>> {
        match position {
            Position::Line(line) => Ok(Some(line)),
            Position::Time(time) => self.line_at(time),
            // The lines of steps are the numbers of instructions.
            Position::Instruction(number) if self.directory().is_of_steps && core.is_none() => {
                Ok(Some(number).filter(|number| *number <= self.directory().totals.lines))
            }
            Position::Instruction(number) => match self.instruction(core, number)? {
                Some(found) => self.end_of_step(&found).map(Some),
                None => Ok(None),
            },
            Position::Address(address) => match self.first_at(address, core)? {
                Some(found) => self.end_of_step(&found).map(Some),
                None => Ok(None),
            },
        }
    }

    /// The first instruction at an address, of a core or of all.
    fn first_at(&mut self, address: u64, core: Option<&[u8]>) -> IndexResult<Option<Found>> {
        let mut line = 0;
        while let Some(found) = self.next_at(address, line)? {
            if core.is_none_or(|core| core == found.core) {
                return Ok(Some(found));
            }
            line = found.line;
        }
        Ok(None)
    }

    /// The last line of the step of an instruction: the one before the next step of its core.
    pub fn end_of_step(&mut self, found: &Found) -> IndexResult<u64> {
        // The effects of a step are on its line.
        if self.directory().is_of_steps || self.directory().options.dialect.effects() == Effects::Before {
            return Ok(found.line);
        }
        let Some(segment) = self.segment_of(found.line) else { return Ok(found.line) };
        let mut end = None;
        for segment in segment..self.directory().segments.len() {
            self.each_core_line(segment, |number, line, core| {
                if number > found.line && line.record.begins_step() && core == found.core {
                    end = Some(number - 1);
                }
                end.is_none()
            })?;
            if let Some(end) = end {
                return Ok(end);
            }
        }
        Ok(self.directory().totals.lines)
    }

    /// The next instruction at an address after a line.
    pub fn next_at(&mut self, pc: u64, line: u64) -> IndexResult<Option<Found>> {
        let Some(first) = self.segment_of(line.saturating_add(1)) else { return Ok(None) };
        let end = self.directory().segments.len();
        let is_match = |number: u64, other: &Line<'_>, _: &[u8]| number > line && is_at(other, pc);
        let mut segments = self.segments_with(pc, first..end)?.into_iter();
        segments.find_map(|segment| self.find(segment, is_match).transpose()).transpose()
    }

    /// The last instruction at an address before a line.
    pub fn previous_at(&mut self, pc: u64, line: u64) -> IndexResult<Option<Found>> {
        let Some(last) = self.segment_before(line) else { return Ok(None) };
        for segment in self.segments_with(pc, 0..last + 1)?.into_iter().rev() {
            let mut found = None;
            self.each_core_line(segment, |number, other, core| {
                if number < line && is_at(other, pc) {
                    found = Some(Found { line: number, core: core.to_vec(), pc });
                }
                number < line
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The next exception after a line.
    pub fn next_exception(&mut self, line: u64) -> IndexResult<Option<Found>> {
        let Some(first) = self.segment_of(line.saturating_add(1)) else { return Ok(None) };
        let find = |all: Vec<Found>| all.into_iter().find(|found| found.line > line);
        let mut segments = first..self.directory().segments.len();
        segments.find_map(|segment| self.exceptions(segment).map(find).transpose()).transpose()
    }

    /// The last exception before a line.
    pub fn previous_exception(&mut self, line: u64) -> IndexResult<Option<Found>> {
        let Some(last) = self.segment_before(line) else { return Ok(None) };
        let find = |all: Vec<Found>| all.into_iter().rfind(|found| found.line < line);
        (0..=last).rev().find_map(|segment| self.exceptions(segment).map(find).transpose()).transpose()
    }

    /// The segment of the line before a line: the first segment for line 1, the last for a line after the end.
    fn segment_before(&self, line: u64) -> Option<usize> {
        self.segment_of(line.saturating_sub(1).clamp(1, self.directory().totals.lines.max(1)))
    }

    /// The exceptions of a segment. Each is stored as line within the segment, core index and address.
    fn exceptions(&mut self, segment: usize) -> IndexResult<Vec<Found>> {
        let base = self.base(segment);
        let Index { file, directory, .. } = &mut self.index;
        let Some(block) = directory.segments[segment].exception_list else { return Ok(Vec::new()) };
        let bytes = block.load(file)?;
        let (mut cursor, mut found) = (Cursor(&bytes), Vec::new());
        let mut next = || -> Result<Found, Malformed> {
            let (line, core, pc) = (cursor.number()?, cursor.number()?, cursor.number()?);
            let core = directory.cores.get(core as usize).cloned().unwrap_or_default();
            Ok(Found { line: base.saturating_add(line), core, pc })
        };
        for _ in 0..directory.segments[segment].exceptions {
            found.push(next().map_err(|Malformed| IndexError::Damaged { offset: block.offset })?);
        }
        Ok(found)
    }

    fn segments_with(&mut self, pc: u64, segments: Range<usize>) -> IndexResult<Vec<usize>> {
        self.index.segments_with(&[only(pc)], segments)
    }

    /// The first instruction of a segment for which `is_match(line number, line, core)` holds; other lines are skipped.
    fn find(
        &mut self,
        segment: usize,
        mut is_match: impl FnMut(u64, &Line<'_>, &[u8]) -> bool,
    ) -> IndexResult<Option<Found>> {
        let mut found = None;
        self.each_core_line(segment, |number, line, core| {
            if is_match(number, line, core)
                && let Record::Instruction(instruction) = &line.record
            {
                found = Some(Found { line: number, core: core.to_vec(), pc: instruction.address.unwrap_or(0) });
            }
            found.is_none()
        })?;
        Ok(found)
    }
}

/// Start of a segment of steps.
#[derive(Debug, Clone)]
pub struct SegmentStart {
    /// Number of instructions before it.
    pub instructions: u64,
    /// How a reader of steps continues here; empty: at the start of the trace.
    pub resume: Vec<u8>,
}

impl<S: Read + Seek> Index<S> {
    /// The segment of steps that has a position: for a time, the first with one that is not before it. `None`: there is none.
    ///
    /// # Errors
    ///
    /// If the index cannot be read.
    pub fn segment_with(&mut self, position: Position) -> IndexResult<Option<SegmentStart>> {
        let count = self.directory.segments.len();
        let found = match position {
            Position::Line(number) | Position::Instruction(number) => self.segment_of_line(number),
            Position::Time(time) => {
                let is_reached = |latest: Time| compare(latest, time).is_some_and(Ordering::is_ge);
                self.directory.segments.iter().position(|segment| segment.latest.is_some_and(is_reached))
            }
            Position::Address(address) => self.segments_with(&[only(address)], 0..count)?.first().copied(),
        };
        Ok(found.and_then(|index| {
            let resume = self.directory.segments.get(index)?.resume.clone();
            Some(SegmentStart { instructions: self.directory.tree.node((0, index))?.base, resume })
        }))
    }

    /// The segment of a line, or of an instruction of steps.
    pub(super) fn segment_of_line(&self, line: u64) -> Option<usize> {
        let nodes = self.directory.tree.levels.first()?;
        let index = nodes.partition_point(|node| node.base < line).checked_sub(1)?;
        (line <= self.directory.totals.lines).then_some(index)
    }

    /// The segments with an instruction at one of these addresses.
    pub(super) fn segments_with(
        &mut self,
        addresses: &[Range<u64>],
        segments: Range<usize>,
    ) -> IndexResult<Vec<usize>> {
        let Index { file, directory, .. } = self;
        let (mut nodes, mut found) = (directory.tree.cover(segments), Vec::new());
        // A stack with the first node on top, so that segments are found in order.
        nodes.reverse();
        while let Some((level, index)) = nodes.pop() {
            let Some(node) = directory.tree.node((level, index)) else { continue };
            if !node.has_address(addresses, file)? {
                continue;
            }
            match level.checked_sub(1) {
                None => found.push(index),
                Some(below) => nodes.extend(directory.tree.children(index).rev().map(|index| (below, index))),
            }
        }
        Ok(found)
    }
}

/// The range of one address; no instruction is at the last one.
fn only(address: u64) -> Range<u64> {
    address..address.saturating_add(1)
}

fn is_at(line: &Line<'_>, pc: u64) -> bool {
    matches!(&line.record, Record::Instruction(instruction) if instruction.address == Some(pc))
}
