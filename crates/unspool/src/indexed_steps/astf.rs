//! ASTF files that are read from the middle.
//!
//! point of the index ─▶ input from there on ─▶ steps

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use unspool_astf::Bytes;
use unspool_astf::read::{ReadError, ReadErrorKind, ReadOptions, Reader, resume_input};
use unspool_astf::record::{Header, Record};
use unspool_astf::steps::{ResumePoint, StepOrPoint, Steps};
use unspool_model::{SourceError, Step, StepSource as _, TimeUnit};
use unspool_tarmac::index::{ResumeSteps, SegmentAt};

use super::{Build, Built, MAX, SEGMENT, Start, numbers, put_numbers};
use crate::indexed_log::LogError;
use crate::meter::{Meter, OnProgress};

/// Unit of the times of ASTF.
pub(super) const UNIT: TimeUnit = TimeUnit::MICROSECONDS;

/// Indexes a file.
pub(super) fn index<'f>(path: &Path, start: Start<'f>, progress: &mut OnProgress<'_>) -> Result<Built<'f>, LogError> {
    let (mut steps, meter) = open(path)?;
    let mut build = match Build::new(start, UNIT) {
        Ok(build) => build,
        Err(error) => return Ok((Err(error), Ok(()))),
    };
    let mut failed = None;
    let ended = steps.each_with_points(SEGMENT, &mut |item| match item {
        StepOrPoint::Step(step) => {
            build.step(step);
            ControlFlow::Continue(())
        }
        StepOrPoint::Point(point) => {
            meter.report(progress);
            failed = build.point(point.offset, encode(point)).err();
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    });
    Ok((failed.map_or(Ok(build), Err), ended))
}

/// Opens the steps of a whole file.
fn open(path: &Path) -> Result<(Steps<impl Read + use<>>, Meter), LogError> {
    let file = File::open(path).map_err(|error| LogError::of_file(path, error))?;
    let meter = Meter::new(file.metadata().ok().map(|about| about.len()));
    let reader = Reader::new(meter.counted(file), ReadOptions::default()).map_err(|error| failure(path, error))?;
    Ok((Steps::new(reader), meter))
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
    pub(super) fn new(path: &Path, file: File) -> Result<Self, LogError> {
        let header = Reader::in_place(&file).map_err(|error| failure(path, error)).map(|reader| *reader.header())?;
        Ok(Self { file, header })
    }
}

impl ResumeSteps for AstfSegments {
    fn each_from(
        &mut self,
        at: &SegmentAt<'_>,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let failed = |text: String| SourceError { text, is_damage: false };
        let point = decode(at.offset, at.resume).ok_or_else(|| failed("the index has an invalid checkpoint".into()))?;
        let input = resume_input(&self.header, &self.file, point.offset).map_err(|error| failed(error.to_string()))?;
        let reader = Reader::in_place(input).map_err(|error| failed(error.to_string()))?;
        Steps::resumed(reader, point).each(take)
    }
}

/// Encodes a point; its offset is in the index.
fn encode(point: &ResumePoint) -> Vec<u8> {
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
