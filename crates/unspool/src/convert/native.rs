//! Conversion within a format: the same records in another container, version or style.
//!
//! file ─▶ records or runs of bytes ─▶ temporary file beside OUT ─▶ OUT

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use unspool_astf as astf;
use unspool_container::{CompressOptions, Container};
use unspool_model::Lost;
use unspool_stf as stf;
use unspool_stf::version::Rewriter;
use unspool_tarmac::restyle::{Loss as RestyleLoss, Restyler, Style};

use super::report::LossReport;
use crate::file::{AstfFile, End, FileError, FileOptions, StfFile, TarmacFile, is_pipe};
use crate::meter::OnProgress;
use crate::target::{Target, WriteError, is_stream, open_astf_writer, open_log, open_writer};

/// Bytes that are collected before they are written.
const BATCH: usize = 1 << 16;

/// Output of a conversion, and when it is kept.
#[derive(Debug, Clone, Copy)]
pub struct NativeOutput<'p> {
    /// The file.
    pub path: &'p Path,
    /// Keep what was written before damage of the input.
    pub keep_damaged: bool,
    /// Keep nothing if something would be lost.
    pub deny_loss: bool,
    /// Keep nothing if the input had to be corrected.
    pub rejects_corrections: bool,
}

/// Why records were not converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// The input cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The version has no transactions.
    #[error("version 1.{0} has no transactions")]
    NoTransactions(u32),
}

impl NativeOutput<'_> {
    /// Whether the output is kept if reading ended like this.
    pub fn is_kept(&self, end: &End) -> bool {
        *end == End::Whole || self.keep_damaged && matches!(end, End::Damaged(_))
    }

    /// Whether the first loss stops the conversion: data written to a pipe cannot be taken back.
    pub fn stops_at_loss(&self) -> bool {
        self.deny_loss && is_stream(self.path)
    }

    /// Whether something is lost or corrected, and that is denied.
    pub fn is_denied(&self, report: &LossReport) -> bool {
        self.deny_loss && !report.is_empty() || self.rejects_corrections && report.corrections().is_some()
    }

    fn close(
        &self,
        failed: Option<io::Error>,
        end: &End,
        finish: impl FnOnce() -> io::Result<Target>,
    ) -> Result<(), WriteError> {
        let closed = match failed {
            Some(error) => Err(error),
            None if self.is_kept(end) => finish().and_then(Target::keep),
            None => Ok(()),
        };
        closed.map_err(|source| WriteError::new(self.path, source))
    }
}

/// Writes ASTF records in another storage.
pub fn store_astf(
    file: &mut AstfFile,
    storage: astf::record::Storage,
    options: astf::write::WriteOptions,
    output: NativeOutput<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<End, NativeError> {
    let mut writer = open_astf_writer(output.path, &file.header().stored(storage), options)?;
    let mut failed = None;
    let end = file.each(progress, |first, records| {
        // The header is written already.
        failed = writer.write(if first == 1 { &records[1..] } else { records }).err();
        failed.is_none()
    })?;
    output.close(failed, &end, || writer.finish())?;
    Ok(end)
}

/// Writes STF records in another storage. A file that has this storage already is copied, unless `is_rewritten`.
pub fn store_stf(
    file: &mut StfFile,
    input: (&Path, &FileOptions),
    storage: stf::Storage,
    (options, is_rewritten): (stf::write::WriteOptions, bool),
    output: NativeOutput<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<End, NativeError> {
    let (path, read) = input;
    if !is_rewritten && file.storage() == storage && !is_pipe(path) && path.is_file() {
        // A damaged file is not copied, and an odd one is repaired by writing it anew.
        let end = file.each_run(progress, |_| true)?;
        if end != End::Whole {
            return Ok(end);
        }
        if file.warnings().is_empty() {
            copy(path, output.path)?;
            return Ok(end);
        }
        *file = StfFile::open(path, read)?;
    }
    let mut writer = open_writer(output.path, storage, options)?;
    let mut failed = None;
    let end = file.each_run(progress, |bytes| {
        failed = writer.write(bytes).err();
        failed.is_none()
    })?;
    output.close(failed, &end, || writer.finish())?;
    Ok(end)
}

fn copy(input: &Path, output: &Path) -> Result<(), NativeError> {
    let of_file = |source| FileError::Open { name: input.display().to_string(), source };
    let mut from = File::open(input).map_err(of_file)?;
    let mut target = Target::open(output)?;
    let copied = io::copy(&mut from, &mut target).and_then(|_| target.flush()).and_then(|()| target.keep());
    Ok(copied.map_err(|source| WriteError::new(output, source))?)
}

/// Writes STF records in another version of the format. Nothing is kept if a loss is denied.
pub fn rewrite_stf(
    file: &mut StfFile,
    mut rewriter: Rewriter,
    storage: stf::Storage,
    options: stf::write::WriteOptions,
    output: NativeOutput<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<(LossReport, End), NativeError> {
    let mut writer = open_writer(output.path, storage, options)?;
    let (mut failed, mut bytes) = (None, Vec::new());
    let stops = output.stops_at_loss();
    let end = file.each(progress, |_, record| {
        rewriter.record(record, &mut bytes);
        if stops && rewriter.losses().next().is_some() {
            return false;
        }
        if bytes.len() >= BATCH {
            failed = writer.write(&bytes).err();
            bytes.clear();
        }
        failed.is_none() && !rewriter.is_impossible()
    })?;
    let minor = rewriter.version().minor();
    if rewriter.is_impossible() {
        return Err(NativeError::NoTransactions(minor));
    }
    let mut report = LossReport::new("record", format!("version 1.{minor}"));
    rewriter.losses().for_each(|(what, count)| report.add(what, false, count, None));
    if !output.is_denied(&report) {
        let failed = failed.or_else(|| writer.write(&bytes).err());
        output.close(failed, &end, || writer.finish())?;
    }
    Ok((report, end))
}

/// Writes the lines of a log in another container.
pub fn store_tarmac(
    file: &mut TarmacFile,
    container: Container,
    options: CompressOptions,
    output: NativeOutput<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<End, NativeError> {
    let mut writer = open_log(output.path, container, options)?;
    let mut failed = None;
    let end = file.each_run(progress, |run| {
        failed = writer.write_all(run).err();
        failed.is_none()
    })?;
    output.close(failed, &end, || writer.finish())?;
    Ok(end)
}

/// Writes the lines of a log in another style. Nothing is kept if a loss is denied.
pub fn restyle_tarmac(
    file: &mut TarmacFile,
    mut restyler: Restyler,
    to: Style,
    (container, options): (Container, CompressOptions),
    output: NativeOutput<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<(LossReport, End), NativeError> {
    let mut writer = open_log(output.path, container, options)?;
    let (mut lines, mut failed) = (Vec::new(), None);
    let stops = output.stops_at_loss();
    let end = file.each(progress, |position, line| {
        restyler.line(position, line, &mut lines);
        if stops && !restyler.losses().is_empty() {
            return false;
        }
        if lines.len() >= BATCH {
            failed = writer.write_all(&lines).err();
            lines.clear();
        }
        failed.is_none()
    })?;
    restyler.finish(&mut lines);
    let mut report = LossReport::new("line", to.name());
    for (loss, count) in restyler.losses().iter() {
        if loss == RestyleLoss::CorrectedLoad {
            report.add_corrected(Lost { count: count.count, first: count.first.line });
        } else {
            report.add(loss.name(), loss.is_kept(), count.count, Some(count.first.line));
        }
    }
    if !output.is_denied(&report) {
        let failed = failed.or_else(|| writer.write_all(&lines).err());
        output.close(failed, &end, || writer.finish())?;
    }
    Ok((report, end))
}
