//! ASTF files that are read from the middle.
//!
//! point of the index ─▶ input from there on ─▶ steps

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::ops::ControlFlow;
use std::path::Path;

use unspool_astf::Bytes;
use unspool_astf::read::{ReadError, ReadErrorKind, ReadOptions, Reader, resume_input};
use unspool_astf::record::{Header, Record};
pub(super) use unspool_astf::steps::StepOrPoint;
use unspool_astf::steps::{ResumePoint, Steps};
use unspool_model::{SourceError, Step, StepSource as _, TimeUnit};
use unspool_tarmac::index::{ResumeSteps, SegmentAt};

use super::{INVALID, MAX, numbers, put_numbers, unreadable};
use crate::indexed_log::LogError;

/// Opens the steps of a whole file.
pub(super) fn open<R: Read + Send + 'static>(path: &Path, file: R) -> Result<Steps<R>, LogError> {
    let reader = Reader::new(file, ReadOptions::default()).map_err(|error| failure(path, error))?;
    Ok(Steps::new(reader))
}

fn failure(path: &Path, error: ReadError) -> LogError {
    match error.kind {
        ReadErrorKind::Io(error) => LogError::of_file(path, error),
        _ => LogError::of_file(path, io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// Segments of an ASTF file.
#[derive(Debug)]
pub struct AstfSegments {
    file: File,
    header: Header,
}

impl AstfSegments {
    /// The segments, and the unit of their times.
    pub(super) fn new(path: &Path, mut file: File) -> Result<(Self, TimeUnit), LogError> {
        file.rewind().map_err(|error| LogError::of_file(path, error))?;
        let steps = Reader::in_place(&file).map_err(|error| failure(path, error)).map(Steps::new)?;
        let (header, unit) = (*steps.header(), steps.time_unit());
        Ok((Self { file, header }, unit))
    }
}

impl ResumeSteps for AstfSegments {
    fn each_from(
        &mut self,
        at: &SegmentAt<'_>,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        if at.resume.is_empty() {
            self.file.rewind().map_err(unreadable)?;
            return Steps::new(Reader::in_place(&self.file).map_err(unreadable)?).each(take);
        }
        let point = decode(at.offset, at.resume).ok_or_else(|| unreadable(INVALID))?;
        let input = resume_input(&self.header, &self.file, point.offset).map_err(unreadable)?;
        Steps::resumed(Reader::in_place(input).map_err(unreadable)?, point).each(take)
    }
}

/// Encodes a point; its offset is in the index.
pub(super) fn encode(point: &ResumePoint) -> Vec<u8> {
    let mut out = Vec::new();
    let numbers = [point.skip, point.record, u64::from(point.time.is_some()), point.time.unwrap_or(0)];
    put_numbers(&mut out, numbers);
    point.context.iter().for_each(|context| out.extend_from_slice(&context.to_bytes()));
    out
}

fn decode(offset: u64, bytes: &[u8]) -> Option<ResumePoint> {
    let ([skip, record, has_time, time], context) = numbers(bytes)?;
    if [skip, record, offset].iter().any(|number| *number > MAX) {
        return None;
    }
    let context = match context {
        [] => None,
        bytes => {
            let bytes: &Bytes = bytes.try_into().ok()?;
            let Record::Context(context) = Record::from_bytes(bytes) else { return None };
            Some(context)
        }
    };
    Some(ResumePoint { offset, skip, record, context, time: (has_time != 0).then_some(time) })
}
