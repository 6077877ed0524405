//! STF files that are read from the middle.
//!
//! point of the index ─▶ reader that continues there ─▶ steps

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::ControlFlow;
use std::path::Path;

use unspool_isa::Isa;
use unspool_model::{SourceError, Step, StepSource as _, TimeUnit};
use unspool_stf::lift::Follower;
use unspool_stf::read::{Position, ReadError, ReadErrorKind, ReadOptions, Reader};
pub(super) use unspool_stf::steps::StepOrPoint;
use unspool_stf::steps::{EmitterState, ResumePoint, Steps};
use unspool_tarmac::index::{ResumeSteps, SegmentAt};

use super::{INVALID, MAX, numbers, put_numbers, unreadable};
use crate::indexed_log::LogError;

pub(super) type FileSteps = Steps<Box<dyn Read + Send>>;

/// Opens the steps of a whole file.
pub(super) fn open<R: Read + Seek + Send + 'static>(path: &Path, file: R) -> Result<FileSteps, LogError> {
    let reader = Reader::seekable(file, ReadOptions::default()).map_err(|error| failure(path, error))?;
    Ok(Steps::new(reader))
}

fn failure(path: &Path, error: ReadError) -> LogError {
    match error.kind {
        ReadErrorKind::Io(error) => LogError::of_file(path, error),
        _ => LogError::of_file(path, io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// Segments of an STF file.
#[derive(Debug)]
pub struct StfSegments {
    file: File,
}

impl StfSegments {
    /// The segments, and the unit of their times.
    pub(super) fn new(path: &Path, file: File) -> Result<(Self, TimeUnit), LogError> {
        let segments = Self { file };
        let unit = segments.open().map_err(|error| failure(path, error))?.time_unit();
        Ok((segments, unit))
    }

    fn open(&self) -> Result<FileSteps, ReadError> {
        let read = |error| ReadError { offset: 0, record: 0, kind: ReadErrorKind::Io(error) };
        let file = self.file.try_clone().map_err(read)?;
        Ok(Steps::new(Reader::seekable(file, ReadOptions { threads: 1 })?))
    }
}

impl ResumeSteps for StfSegments {
    fn each_from(
        &mut self,
        at: &SegmentAt<'_>,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let mut steps = self.open().map_err(unreadable)?;
        if !at.resume.is_empty() {
            let point = decode(at.resume).ok_or_else(|| unreadable(INVALID))?;
            let file = self.file.try_clone().map_err(unreadable)?;
            steps = steps.resume_at(&point, file).map_err(unreadable)?;
        }
        steps.each(take)
    }
}

/// The instruction sets in the order of their numbers in a point.
const SETS: [Isa; 5] = [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64];

pub(super) fn encode(point: &ResumePoint) -> Vec<u8> {
    let ResumePoint { position, follower, state } = point;
    let flags = [
        follower.mode.is_some(),
        state.mode.is_some(),
        state.next.is_some(),
        state.time.is_some(),
        state.seen[0],
        state.seen[1],
        state.seen[2],
    ];
    let flags = flags.iter().rev().fold(0, |flags, flag| flags << 1 | u64::from(*flag));
    let set = SETS.iter().position(|set| *set == state.isa).unwrap_or(0);
    let mut out = Vec::new();
    let of_execution = [follower.next_pc, follower.mode.unwrap_or(0), follower.iem.into(), follower.isa.into()];
    put_numbers(&mut out, [position.record, position.offset, follower.instructions]);
    put_numbers(&mut out, of_execution);
    put_numbers(&mut out, [state.mode, state.next, state.time].map(Option::unwrap_or_default));
    put_numbers(&mut out, [set as u64, flags]);
    out
}

fn decode(bytes: &[u8]) -> Option<ResumePoint> {
    let ([record, offset, instructions], rest) = numbers(bytes)?;
    if [record, offset, instructions].iter().any(|number| *number > MAX) {
        return None;
    }
    let ([next_pc, mode, iem, isa], rest) = numbers(rest)?;
    let ([emitted, next, time], rest) = numbers(rest)?;
    let ([set, flags], []) = numbers(rest)? else { return None };
    let is = |bit: u32| flags >> bit & 1 != 0;
    let follower = Follower {
        next_pc,
        mode: is(0).then_some(mode),
        iem: u16::try_from(iem).ok()?,
        isa: u16::try_from(isa).ok()?,
        instructions,
    };
    let state = EmitterState {
        mode: is(1).then_some(emitted),
        next: is(2).then_some(next),
        time: is(3).then_some(time),
        seen: [is(4), is(5), is(6)],
        isa: *SETS.get(usize::try_from(set).ok()?)?,
    };
    Some(ResumePoint { position: Position { record, offset }, follower, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_restored() {
        let follower = Follower { next_pc: 0x8000, mode: Some(3), iem: 2, isa: 1, instructions: 77 };
        let state = EmitterState { mode: None, next: Some(0), seen: [true, false, true], time: Some(9), isa: Isa::T32 };
        let point = ResumePoint { position: Position { record: 5, offset: 1 << 40 }, follower, state };
        let bytes = encode(&point);
        assert_eq!(decode(&bytes), Some(point));
        (0..bytes.len()).for_each(|end| assert_eq!(decode(&bytes[..end]), None));
    }
}
