//! Indexes of captures: of one source, and of the code that it executes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::bail;
use unspool::CaptureSteps;
use unspool::indexed_steps::{capture_index_path, fingerprint_of, make_capture_index, open_capture_index};
use unspool::tarmac::index::Fingerprint;

use super::{Args, Report, check_foreign};
use crate::args::ImageArgs;
use crate::output::is_same;
use crate::process_args::ProcessArgs;
use crate::progress::Progress;
use crate::traces::open_source;
use crate::verdict::Verdict;

/// A source of a capture, and what identifies it in its index.
pub(in crate::cmd) struct IndexableSource {
    pub(in crate::cmd) steps: CaptureSteps,
    pub(in crate::cmd) fingerprint: Fingerprint,
}

impl IndexableSource {
    pub(in crate::cmd) fn open(
        path: &Path,
        source: Option<&str>,
        images: &ImageArgs,
        processes: &ProcessArgs,
    ) -> anyhow::Result<Self> {
        let (steps, codes, spaces) = open_source(path, source, images, processes)?;
        let fingerprint = fingerprint_of(steps.capture(), steps.source_name(), &codes, &spaces);
        Ok(Self { steps, fingerprint })
    }

    /// The index file, unless another one is named.
    pub(in crate::cmd) fn index_path(&self, named: Option<&PathBuf>) -> PathBuf {
        let default = || capture_index_path(self.steps.capture(), self.steps.source_name());
        named.cloned().unwrap_or_else(default)
    }
}

/// Writes the index of a source of a capture.
pub(super) fn index_capture(args: &Args) -> anyhow::Result<Verdict> {
    let trace = &args.log.log;
    let mut source = IndexableSource::open(trace, args.source.as_deref(), &args.images, &args.processes)?;
    let path = source.index_path(args.output.as_ref());
    if is_same(&path, trace) {
        bail!("{}: this is the capture; write the index to another file", path.display());
    }
    let existing = match open_capture_index(&path, &source.fingerprint) {
        Err(error) => {
            check_foreign(&path, &error, args.force)?;
            None
        }
        Ok(index) => Some(index.totals()).filter(|_| !args.force),
    };
    let start = Instant::now();
    let (totals, took) = match existing {
        Some(totals) => (totals, None),
        None => {
            let mut progress = Progress::new(false);
            let totals = make_capture_index(&mut source.steps, source.fingerprint, &path, &mut progress.callback())?;
            (totals, Some(start.elapsed()))
        }
    };
    let report = Report { log: trace, size: source.steps.size(), path: &path, totals, took, is_of_lines: false };
    report.finish(args.json)
}
