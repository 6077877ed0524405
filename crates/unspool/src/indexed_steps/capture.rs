//! Sources of captures that are read from the middle.
//!
//! point of the index ─▶ buffer from there on ─▶ steps
//!
//! The index is of one source, with the code that its instructions come from: another program makes another index.

use std::fs::File;
use std::io::{self, Cursor};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use unspool_capture::{Capture, Code};
use unspool_model::{SourceError, Step, StepSource as _};
use unspool_tarmac::index::{
    Fingerprint, Index, IndexError, Indexed, Position, ResumeSteps, SegmentAt, StepSegments, Totals,
};

use super::{
    Build, FoundPoints, INVALID, IndexedSteps, Reported, SEGMENT, Start, StepPoints, TakePoints as _, TraceSegments,
    not_seekable, put_numbers, unreadable,
};
use crate::indexed_log::{LogError, index_path, open, write_index};
use crate::meter::OnProgress;
use crate::steps::{CapturePoint, StepOrPoint};
use crate::{CaptureSteps, Error, SpaceOptions, Trace};

/// Makes the index of a source of a capture.
///
/// # Errors
///
/// If the source cannot be read, or only from its beginning, or if the index cannot be written.
pub fn make_capture_index(
    steps: &mut CaptureSteps,
    fingerprint: Fingerprint,
    index: &Path,
    progress: &mut OnProgress<'_>,
) -> Result<Totals, LogError> {
    make_with_segments(steps, fingerprint, index, SEGMENT, progress)
}

/// The same, with segments of about this number of instructions.
pub(super) fn make_with_segments(
    steps: &mut CaptureSteps,
    fingerprint: Fingerprint,
    index: &Path,
    distance: u64,
    progress: &mut OnProgress<'_>,
) -> Result<Totals, LogError> {
    let path = steps.capture().path.clone();
    let of_steps = |error: &dyn std::fmt::Display| LogError::of_file(&path, io::Error::other(error.to_string()));
    if let Some(why) = steps.why_no_points().map_err(|error| of_steps(&error))? {
        return Err(not_seekable(&path, why));
    }
    let (meter, unit) = (steps.meter(), steps.time_unit());
    write_index(index, |out| {
        let of_index = |error| LogError::of_index(index, error);
        let mut build = Build::new(Start { out, fingerprint, meter: &meter, progress }, unit).map_err(of_index)?;
        let mut steps_since = 0_u64;
        let ended = steps.each_with_points(distance, &mut |item| match item {
            StepOrPoint::Step(_) if steps_since >= MAX_STEPS => ControlFlow::Break(()),
            StepOrPoint::Step(step) => {
                steps_since += 1;
                build.step(step)
            }
            StepOrPoint::Point(point) => {
                steps_since = 0;
                build.point(0, encode(*point))
            }
        });
        ended.map_err(|error| of_steps(&error))?;
        match build {
            _ if steps_since >= MAX_STEPS => Err(not_seekable(&path, TOO_FAR)),
            Build { failed: Some(error), .. } => Err(of_index(error)),
            Build { indexer, .. } => indexer.finish().map_err(of_index),
        }
    })
}

/// Finds the points of a source of a capture that it can be read from. `None`: only its beginning, or it is small.
///
/// # Errors
///
/// If it cannot be read.
pub fn find_capture_points(
    mut steps: CaptureSteps,
    progress: &mut OnProgress<'_>,
) -> Result<Option<StepPoints>, Error> {
    if steps.why_no_points()?.is_some() {
        return Ok(None);
    }
    let meter = steps.meter();
    let mut found = Reported { found: FoundPoints::new(SEGMENT), meter: &meter, progress };
    steps.each_with_points(SEGMENT, &mut |item| match item {
        StepOrPoint::Step(step) => found.step(step),
        StepOrPoint::Point(point) => found.point(0, encode(*point)),
    })?;
    let Reported { found, .. } = found;
    Ok(found.finish(TraceSegments::Capture(Box::new(CaptureSegments { steps }))))
}

/// Greatest number of steps between two points: instructions of a segment are counted with 32 bits.
const MAX_STEPS: u64 = 1 << 31;
const TOO_FAR: &str = "its synchronizations are too far apart: the trace is read from its beginning";

/// Opens the index of a source of a capture.
///
/// # Errors
///
/// If it cannot be read, or is not of this source.
pub fn open_capture_index(index: &Path, fingerprint: &Fingerprint) -> Result<Index<File>, LogError> {
    let stored = File::open(index).map_err(|error| LogError::of_file(index, error))?;
    let opened = Index::open(stored).map_err(|error| LogError::of_index(index, error))?;
    match opened.is_of_steps(fingerprint) {
        true => Ok(opened),
        false => Err(LogError::of_index(index, IndexError::Changed)),
    }
}

/// Combines a source of a capture with its index.
pub fn with_capture_index(steps: CaptureSteps, index: Index<File>) -> IndexedSteps {
    let unit = steps.time_unit();
    let segments = TraceSegments::Capture(Box::new(CaptureSegments { steps }));
    Indexed::new(StepSegments::new(segments, unit), index)
}

/// Default path of the index of a source of a capture.
pub fn capture_index_path(capture: &Capture, source: &str) -> PathBuf {
    // Without a slash at the end, the index of a folder is beside it.
    let path: PathBuf = capture.path.components().collect();
    let path = if path.file_name().is_some() { path } else { path.canonicalize().unwrap_or(path) };
    if Trace::all(capture).iter().all(|trace| trace.source().name == source) {
        return index_path(&path);
    }
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let name = source.chars().map(|letter| if is_plain(letter) { letter } else { '_' });
    let mut path = path.into_os_string();
    path.push(".");
    path.push(name.collect::<String>());
    index_path(Path::new(&path))
}

/// Place from which a source can be read.
#[derive(Debug, Clone, Copy)]
pub struct CaptureStart {
    /// Number of instructions before it.
    pub instructions: u64,
    pub(crate) point: CapturePoint,
}

/// The start of the segment that has a position. `None`: it is the first segment, or there is no such position.
///
/// # Errors
///
/// If the index cannot be read.
pub fn capture_start(index: &mut Index<File>, position: Position) -> Result<Option<CaptureStart>, IndexError> {
    let Some(segment) = index.segment_with(position)? else { return Ok(None) };
    Ok(decode(&segment.resume).map(|point| CaptureStart { instructions: segment.instructions, point }))
}

/// Segments of a source of a capture.
#[derive(Debug)]
pub struct CaptureSegments {
    steps: CaptureSteps,
}

impl ResumeSteps for CaptureSegments {
    fn each_from(
        &mut self,
        at: &SegmentAt<'_>,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        if at.resume.is_empty() {
            return self.steps.each(take);
        }
        let point = decode(at.resume).ok_or_else(|| unreadable(INVALID))?;
        self.steps.each_from(&point, take)
    }
}

fn encode(point: CapturePoint) -> Vec<u8> {
    let mut out = Vec::new();
    put_numbers(&mut out, point.to_numbers());
    out
}

fn decode(bytes: &[u8]) -> Option<CapturePoint> {
    let (numbers, []) = bytes.as_chunks() else { return None };
    let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    CapturePoint::from_numbers(&numbers)
}

/// Identification of a source and of the code that it executes: the files of the capture, the code that is added, and where
/// other files are looked for.
pub fn fingerprint_of(capture: &Capture, source: &str, added: &[Code], spaces: &SpaceOptions) -> Fingerprint {
    let mut all = Sum::default();
    all.add(source.as_bytes());
    for path in paths_of(capture) {
        all.add(path.as_os_str().as_encoded_bytes());
        if let Ok((_, file)) = open(&path) {
            all.add_fingerprint(&file);
        }
    }
    for code in added {
        all.add(format!("{} {} {:?}", code.name, code.big_endian_code, code.machine).as_bytes());
        for region in &code.regions {
            all.add(format!("{:#x} {:?}", region.address, region.spaces).as_bytes());
            all.add_samples(&region.bytes);
        }
    }
    let SpaceOptions { search, context_format, events, jitdumps } = spaces;
    let search = (&search.sysroots, &search.debug_dirs, search.ignore_build_ids);
    all.add(format!("{search:?} {context_format:?} {events:?} {}", jitdumps.len()).as_bytes());
    all.0
}

/// The file of a capture, or the files in its folder, and files elsewhere that it names.
fn paths_of(capture: &Capture) -> Vec<PathBuf> {
    let is_folder = capture.path.is_dir();
    let base = if is_folder { Some(capture.path.as_path()) } else { capture.path.parent() };
    let file = (!is_folder).then(|| capture.path.clone());
    let named = capture.files().into_iter().map(|name| base.unwrap_or(Path::new("")).join(name));
    file.into_iter().chain(named.filter(|path| path.is_file())).collect()
}

/// A fingerprint of several things, one after the other.
struct Sum(Fingerprint);

impl Default for Sum {
    fn default() -> Self {
        Self(Fingerprint { length: 0, modified: 0, sum: 0 })
    }
}

impl Sum {
    /// Bytes that are sampled at most once, so that all of them count.
    const CHUNK: usize = 4096;

    fn add(&mut self, bytes: &[u8]) {
        self.0.length = self.0.length.wrapping_add(bytes.len() as u64);
        bytes.chunks(Self::CHUNK).for_each(|chunk| self.add_samples(chunk));
    }

    fn add_fingerprint(&mut self, file: &Fingerprint) {
        let Fingerprint { length, modified, sum } = file;
        self.add(format!("{length} {modified} {sum}").as_bytes());
    }

    /// Adds bytes by samples.
    fn add_samples(&mut self, bytes: &[u8]) {
        // Reading from memory does not fail.
        let Ok(Fingerprint { length, sum, .. }) = Fingerprint::of(&mut Cursor::new(bytes), 0) else { return };
        let both = [length.to_le_bytes(), u64::from(sum).to_le_bytes(), u64::from(self.0.sum).to_le_bytes()].concat();
        self.0.sum = Fingerprint::of(&mut Cursor::new(both), 0).map_or(0, |both| both.sum);
    }
}

#[cfg(test)]
mod tests;
