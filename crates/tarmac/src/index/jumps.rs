//! Jumps: where in a log a time, an instruction, an address or an exception is.

use std::cmp::Ordering;
use std::io::{Read, Seek};
use std::ops::Range;

use super::bytes::{Cursor, Malformed};
use super::directory::Index;
use super::query::{Answer, Found, Indexed, starts_step};
use super::time::compare;
use super::{IndexError, Position};
use crate::dialect::Effects;
use crate::record::{Line, Record, Stamp, Time};

impl<T: Read + Seek, S: Read + Seek> Indexed<T, S> {
    /// The last line at or before a time: the one before the first that is later. `None`: all are later, or no time in
    /// the log can be compared with it.
    pub fn line_at(&mut self, time: Time) -> Answer<Option<u64>> {
        let is_later = |other: Time| compare(other, time).is_some_and(Ordering::is_gt);
        let pieces = &self.directory().pieces;
        if !pieces.iter().filter_map(|piece| piece.first).any(|first| compare(first, time).is_some()) {
            return Ok(None);
        }
        let Some(piece) = pieces.iter().position(|piece| piece.latest.is_some_and(is_later)) else {
            return Ok(Some(self.directory().totals.lines));
        };
        let mut found = None;
        self.each_line(piece, |number, line| {
            if matches!(line.stamp, Stamp::At(time) if is_later(time)) {
                found = Some(number);
            }
            found.is_none()
        })?;
        Ok(found.map(|line| line - 1).filter(|line| *line > 0))
    }

    /// The instruction of a number, counted from 1: of a core, or of all.
    pub fn instruction(&mut self, core: Option<&[u8]>, number: u64) -> Answer<Option<Found>> {
        let Some(wanted) = number.checked_sub(1) else { return Ok(None) };
        let directory = self.directory();
        let place = core.map(|core| directory.cores.iter().position(|name| name == core));
        let before = |piece: usize| match place {
            None => directory.pieces[piece].instructions,
            Some(place) => place.and_then(|place| directory.pieces[piece].of_cores.get(place)).copied().unwrap_or(0),
        };
        let pieces: Vec<u64> = (0..directory.pieces.len()).map(before).collect();
        let Some(piece) = pieces.partition_point(|before| *before <= wanted).checked_sub(1) else { return Ok(None) };
        let mut left = wanted.saturating_sub(pieces[piece]);
        self.find(piece, |line, name| {
            let is_it = matches!(line.record, Record::Instruction(_)) && core.is_none_or(|core| core == name);
            let is_found = is_it && left == 0;
            left = left.saturating_sub(u64::from(is_it));
            is_found
        })
    }

    /// The last line of a place; instructions are counted for this core, or for all. `None`: the log has no such place.
    pub fn line_of(&mut self, position: Position, core: Option<&[u8]>) -> Answer<Option<u64>> {
        match position {
            Position::Line(line) => Ok(Some(line)),
            Position::Time(time) => self.line_at(time),
            Position::Instruction(number) => match self.instruction(core, number)? {
                Some(found) => self.end_of_step(&found).map(Some),
                None => Ok(None),
            },
        }
    }

    /// The last line that belongs to the instruction on a line: the one before its core's next instruction.
    pub fn end_of_step(&mut self, found: &Found) -> Answer<u64> {
        if self.directory().options.dialect.effects() == Effects::Before {
            return Ok(found.line);
        }
        let Some(piece) = self.piece_of(found.line) else { return Ok(found.line) };
        let mut end = None;
        for piece in piece..self.directory().pieces.len() {
            self.each_core_line(piece, |number, line, core| {
                if number > found.line && starts_step(&line.record) && core == found.core {
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

    /// The next instruction at an address behind a line.
    pub fn next_at(&mut self, pc: u64, line: u64) -> Answer<Option<Found>> {
        let Some(first) = self.piece_of(line.saturating_add(1)) else { return Ok(None) };
        let last = self.directory().pieces.len();
        for piece in self.pieces_with(pc, first..last)? {
            let found = self.find_numbered(piece, |number, other, _| number > line && is_at(other, pc))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The last instruction at an address before a line.
    pub fn previous_at(&mut self, pc: u64, line: u64) -> Answer<Option<Found>> {
        let Some(last) = self.piece_of(line.saturating_sub(1).clamp(1, self.directory().totals.lines.max(1))) else {
            return Ok(None);
        };
        for piece in self.pieces_with(pc, 0..last + 1)?.into_iter().rev() {
            let mut found = None;
            self.each_core_line(piece, |number, other, core| {
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

    /// The next exception behind a line.
    pub fn next_exception(&mut self, line: u64) -> Answer<Option<Found>> {
        let Some(first) = self.piece_of(line.saturating_add(1)) else { return Ok(None) };
        for piece in first..self.directory().pieces.len() {
            let found = self.exceptions(piece)?.into_iter().find(|found| found.line > line);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The last exception before a line.
    pub fn previous_exception(&mut self, line: u64) -> Answer<Option<Found>> {
        let lines = self.directory().totals.lines;
        let Some(last) = self.piece_of(line.saturating_sub(1).clamp(1, lines.max(1))) else { return Ok(None) };
        for piece in (0..=last).rev() {
            let found = self.exceptions(piece)?.into_iter().rfind(|found| found.line < line);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The exceptions of a piece.
    fn exceptions(&mut self, piece: usize) -> Answer<Vec<Found>> {
        let base = self.base(piece);
        let Index { file, directory, .. } = &mut self.index;
        let Some(block) = directory.pieces[piece].exception_list else { return Ok(Vec::new()) };
        let bytes = block.load(file)?;
        let (mut cursor, mut found) = (Cursor(&bytes), Vec::new());
        let mut next = || -> Result<Found, Malformed> {
            let (line, core, pc) = (cursor.number()?, cursor.number()?, cursor.number()?);
            let core = directory.cores.get(core as usize).cloned().unwrap_or_default();
            Ok(Found { line: base.saturating_add(line), core, pc })
        };
        for _ in 0..directory.pieces[piece].exceptions {
            found.push(next().map_err(|Malformed| IndexError::Damaged { offset: block.offset })?);
        }
        Ok(found)
    }

    /// The pieces that have an instruction at an address.
    fn pieces_with(&mut self, pc: u64, pieces: Range<usize>) -> Answer<Vec<usize>> {
        let Index { file, directory, .. } = &mut self.index;
        let (mut nodes, mut found) = (directory.tree.cover(pieces), Vec::new());
        nodes.reverse();
        while let Some((level, place)) = nodes.pop() {
            let Some(node) = directory.tree.node((level, place)) else { continue };
            if !node.has_address(pc, file)? {
                continue;
            }
            match level.checked_sub(1) {
                None => found.push(place),
                Some(below) => nodes.extend(directory.tree.children(place).rev().map(|place| (below, place))),
            }
        }
        Ok(found)
    }

    /// The first line of a piece that is the one that is looked for.
    fn find(&mut self, piece: usize, mut is_it: impl FnMut(&Line<'_>, &[u8]) -> bool) -> Answer<Option<Found>> {
        self.find_numbered(piece, |_, line, core| is_it(line, core))
    }

    fn find_numbered(
        &mut self,
        piece: usize,
        mut is_it: impl FnMut(u64, &Line<'_>, &[u8]) -> bool,
    ) -> Answer<Option<Found>> {
        let mut found = None;
        self.each_core_line(piece, |number, line, core| {
            if is_it(number, line, core)
                && let Record::Instruction(instruction) = &line.record
            {
                found = Some(Found { line: number, core: core.to_vec(), pc: instruction.address.unwrap_or(0) });
            }
            found.is_none()
        })?;
        Ok(found)
    }
}

fn is_at(line: &Line<'_>, pc: u64) -> bool {
    matches!(&line.record, Record::Instruction(instruction) if instruction.address == Some(pc))
}
