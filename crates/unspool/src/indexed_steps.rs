//! Traces of steps on disk, with an index file beside them.
//!
//! trace ─▶ steps with points to continue from ─▶ index; place, index ─▶ one segment of the trace ─▶ state
//!
//! The index file is that of a Tarmac log, with instructions in place of lines. A trace needs storage that can be read from
//! the middle: ASTF that is not compressed, or compressed by zlib in independent blocks, as unspool writes it; STF that is not
//! compressed, or a .zstf file; a capture whose trace unit does not speculate, since its synchronizations are such places.

mod astf;
mod capture;
mod points;
mod stf;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::ControlFlow;
use std::path::Path;

use unspool_model::{SourceError, Step, StepSource as _, TimeUnit};
use unspool_tarmac::index::{
    Fingerprint, Index, IndexError, Indexed, ResumeSteps, SegmentAt, StepIndexer, StepSegments, Totals,
};

use self::astf::AstfSegments;
use self::capture::CaptureSegments;
pub use self::capture::{
    CaptureStart, capture_index_path, capture_start, find_capture_points, fingerprint_of, make_capture_index,
    open_capture_index, with_capture_index,
};
use self::points::FoundPoints;
pub use self::points::StepPoints;
use self::stf::StfSegments;
use crate::FileKind;
use crate::indexed_log::{LogError, open, write_index};
use crate::meter::{Meter, OnProgress};

/// A trace and its index.
pub type IndexedSteps = Indexed<StepSegments<TraceSegments>, File>;

/// Instructions in a segment: as many as are read in a few milliseconds.
const SEGMENT: u64 = 1 << 16;

/// Segments of a trace.
#[derive(Debug)]
pub enum TraceSegments {
    /// Those of an ASTF file.
    Astf(AstfSegments),
    /// Those of an STF file.
    Stf(StfSegments),
    /// Those of a source of a capture.
    Capture(Box<CaptureSegments>),
}

impl ResumeSteps for TraceSegments {
    fn each_from(
        &mut self,
        at: &SegmentAt<'_>,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        match self {
            Self::Astf(segments) => segments.each_from(at, take),
            Self::Stf(segments) => segments.each_from(at, take),
            Self::Capture(segments) => segments.each_from(at, take),
        }
    }
}

/// Makes the index of an ASTF or STF file. Of a damaged ASTF file, the part before the damage is indexed, and the damage
/// returned.
///
/// # Errors
///
/// If the trace cannot be read, or only from its beginning, or if the index cannot be written.
pub fn make_step_index(
    trace: &Path,
    index: &Path,
    progress: &mut OnProgress<'_>,
) -> Result<(Totals, Option<SourceError>), LogError> {
    make_with_segments(trace, index, SEGMENT, progress)
}

/// The same, with segments of about this number of instructions.
fn make_with_segments(
    trace: &Path,
    index: &Path,
    distance: u64,
    progress: &mut OnProgress<'_>,
) -> Result<(Totals, Option<SourceError>), LogError> {
    let (mut file, fingerprint) = open(trace)?;
    file.rewind().map_err(|error| LogError::of_file(trace, error))?;
    let kind = FileKind::at(trace).map_err(|error| LogError::of_file(trace, error))?;
    let meter = Meter::new(Some(fingerprint.length));
    let mut damage = None;
    let totals = write_index(index, |out| {
        let start = Start { out, fingerprint, meter: &meter, progress };
        let of_index = |error| LogError::of_index(index, error);
        let mut steps = PointedSteps::open(trace, kind, meter.counted(file))?;
        let mut built = Build::new(start, steps.time_unit()).map_err(of_index)?;
        match steps.each(distance, &mut built) {
            // An STF file may continue after damage, and its index would not.
            Err(error) if error.is_damage && kind == FileKind::Astf => damage = Some(error),
            Err(error) if error.is_damage => return Err(not_seekable(trace, "the trace is damaged, and has no index")),
            Err(error) => return Err(LogError::of_file(trace, io::Error::other(error))),
            Ok(()) => {}
        }
        match built {
            Build { failed: Some(error), .. } => Err(of_index(error)),
            Build { has_points: false, .. } => Err(not_seekable(trace, REMEDY)),
            Build { indexer, .. } => indexer.finish().map_err(of_index),
        }
    })?;
    Ok((totals, damage))
}

/// Finds the points of an ASTF or STF file that it can be read from. `None`: only its beginning, or it is small. Of a damaged file,
/// they are those before the damage.
///
/// # Errors
///
/// If it cannot be read.
pub fn find_step_points(trace: &Path, progress: &mut OnProgress<'_>) -> Result<Option<StepPoints>, LogError> {
    points_with_distance(trace, SEGMENT, progress)
}

/// The same, with points about this number of instructions apart.
fn points_with_distance(
    trace: &Path,
    distance: u64,
    progress: &mut OnProgress<'_>,
) -> Result<Option<StepPoints>, LogError> {
    let kind = FileKind::at(trace).map_err(|error| LogError::of_file(trace, error))?;
    let (mut file, fingerprint) = open(trace)?;
    file.rewind().map_err(|error| LogError::of_file(trace, error))?;
    let meter = Meter::new(Some(fingerprint.length));
    let mut steps = PointedSteps::open(trace, kind, meter.counted(file))?;
    let mut found = Reported { found: FoundPoints::new(distance), meter: &meter, progress };
    match steps.each(distance, &mut found) {
        Err(error) if !error.is_damage => return Err(LogError::of_file(trace, io::Error::other(error))),
        _ => {}
    }
    let Reported { found, .. } = found;
    let (file, _) = open(trace)?;
    Ok(found.finish(segments_of(trace, kind, file)?.0))
}

/// Steps of a file, with the points that it can be read from.
enum PointedSteps<R> {
    Astf(unspool_astf::steps::Steps<R>),
    Stf(stf::FileSteps),
}

impl<R: Read + Seek + Send + 'static> PointedSteps<R> {
    fn open(trace: &Path, kind: FileKind, file: R) -> Result<Self, LogError> {
        match kind {
            FileKind::Astf => astf::open(trace, file).map(Self::Astf),
            _ => stf::open(trace, file).map(Self::Stf),
        }
    }

    fn time_unit(&self) -> TimeUnit {
        match self {
            Self::Astf(steps) => steps.time_unit(),
            Self::Stf(steps) => steps.time_unit(),
        }
    }

    /// Passes on the steps, with points about this number of instructions apart.
    fn each(&mut self, distance: u64, sink: &mut impl TakePoints) -> Result<(), SourceError> {
        match self {
            Self::Astf(steps) => steps.each_with_points(distance, &mut |item| match item {
                astf::StepOrPoint::Step(step) => sink.step(step),
                astf::StepOrPoint::Point(point) => sink.point(point.offset, astf::encode(point)),
            }),
            Self::Stf(steps) => steps.each_with_points(distance, &mut |item| match item {
                stf::StepOrPoint::Step(step) => sink.step(step),
                // The offsets of a .zstf file are those of its contents, and may be past its end.
                stf::StepOrPoint::Point(point) => sink.point(0, stf::encode(point)),
            }),
        }
    }
}

/// Consumer of steps, and of the points that reading can start at.
trait TakePoints {
    fn step(&mut self, step: &Step) -> ControlFlow<()>;
    fn point(&mut self, offset: u64, resume: Vec<u8>) -> ControlFlow<()>;
}

/// Points that are found, with the progress.
struct Reported<'m, 'p> {
    found: FoundPoints,
    meter: &'m Meter,
    progress: &'m mut OnProgress<'p>,
}

impl TakePoints for Reported<'_, '_> {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.found.step(step)
    }

    fn point(&mut self, offset: u64, resume: Vec<u8>) -> ControlFlow<()> {
        self.meter.report(self.progress);
        self.found.point(offset, resume)
    }
}

/// What to do with a trace that can only be read from its beginning.
const REMEDY: &str = "no instruction that reading can start at: an index needs a file that is not compressed, ASTF with zlib as \
                      unspool writes it, or .zstf; try 'unspool convert --to zlib' or '--to zstf'";

fn not_seekable(trace: &Path, why: &'static str) -> LogError {
    LogError::NotSeekable { path: trace.display().to_string(), why }
}

/// Opens a trace with its index.
///
/// # Errors
///
/// If one of them cannot be read, or the index is not of this trace.
pub fn open_step_index(trace: &Path, index: &Path) -> Result<IndexedSteps, LogError> {
    let (file, fingerprint) = open(trace)?;
    let stored = File::open(index).map_err(|error| LogError::of_file(index, error))?;
    let opened = Index::open(stored).map_err(|error| LogError::of_index(index, error))?;
    if !opened.is_of_steps(&fingerprint) {
        return Err(LogError::of_index(index, IndexError::Changed));
    }
    let kind = FileKind::at(trace).map_err(|error| LogError::of_file(trace, error))?;
    let (segments, unit) = segments_of(trace, kind, file)?;
    Ok(Indexed::new(StepSegments::new(segments, unit), opened))
}

/// What reads a file from its points, and the unit of its times.
fn segments_of(trace: &Path, kind: FileKind, file: File) -> Result<(TraceSegments, TimeUnit), LogError> {
    match kind {
        FileKind::Astf => AstfSegments::new(trace, file).map(|(segments, unit)| (TraceSegments::Astf(segments), unit)),
        _ => StfSegments::new(trace, file).map(|(segments, unit)| (TraceSegments::Stf(segments), unit)),
    }
}

/// The file of an index, the trace that it is of, and the progress through it.
struct Start<'s, 'p> {
    out: &'s mut File,
    fingerprint: Fingerprint,
    meter: &'s Meter,
    progress: &'s mut OnProgress<'p>,
}

/// An index in the making.
struct Build<'s, 'p> {
    indexer: StepIndexer<'s, File>,
    meter: &'s Meter,
    progress: &'s mut OnProgress<'p>,
    has_points: bool,
    failed: Option<IndexError>,
}

impl<'s, 'p> Build<'s, 'p> {
    fn new(start: Start<'s, 'p>, unit: TimeUnit) -> Result<Self, IndexError> {
        let Start { out, fingerprint, meter, progress } = start;
        let indexer = StepIndexer::new(out, fingerprint, unit)?;
        Ok(Self { indexer, meter, progress, has_points: false, failed: None })
    }

    fn done(&mut self, result: Result<(), IndexError>) -> ControlFlow<()> {
        self.failed = result.err();
        if self.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl TakePoints for Build<'_, '_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let taken = self.indexer.step(step);
        self.done(taken)
    }

    /// Starts a segment at a point of the trace.
    fn point(&mut self, offset: u64, resume: Vec<u8>) -> ControlFlow<()> {
        self.has_points = true;
        self.meter.report(self.progress);
        let cut = self.indexer.cut(offset, resume);
        self.done(cut)
    }
}

/// The error of a segment that cannot be read.
fn unreadable(error: impl std::fmt::Display) -> SourceError {
    SourceError::unreadable(error)
}

/// Error of a checkpoint that is none of this format.
const INVALID: &str = "the index has an invalid checkpoint";

/// Maximum of a count or an offset in a point: a file cannot have more, and sums of them do not overflow.
const MAX: u64 = 1 << 56;

/// Numbers of a point, as bytes.
fn put_numbers(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// The numbers that bytes start with, and the bytes after them.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let (start, rest) = bytes.split_at_checked(8 * N)?;
    let mut numbers = [0; N];
    numbers.iter_mut().zip(start.as_chunks().0).for_each(|(number, bytes)| *number = u64::from_le_bytes(*bytes));
    Some((numbers, rest))
}

#[cfg(test)]
mod tests;
