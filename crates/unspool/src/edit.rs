//! STF files with other headers or fewer records, and files joined.
//!
//! ```text
//! StfFile ────────▶ editor ─┐
//! several StfFiles ▶ merger ┴▶ temporary file beside OUT ─▶ OUT
//! ```
//!
//! Of a damaged trace, the part before the damage is kept.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use unspool_stf as stf;
use unspool_stf::Record;
use unspool_stf::edit::{Edit, Editor};
use unspool_stf::merge::{MergeError, Merger, Part};

use crate::file::{End, FileError, FileOptions, StfFile};
use crate::target::{Target, WriteError, open_writer};

/// Bytes that are collected before they are written.
const BATCH: usize = 1 << 16;

/// Why no file was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The trace cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The traces do not fit together.
    #[error("{}: {error}", path.display())]
    Merge {
        /// The trace that does not fit.
        path: PathBuf,
        /// Why.
        error: MergeError,
    },
}

/// Output of an edit.
#[derive(Debug, Clone, Copy)]
pub struct EditOutput<'p> {
    /// The file.
    pub path: &'p Path,
    /// Its storage.
    pub storage: stf::Storage,
    /// Threads that compress; `None`: one per processor.
    pub threads: Option<usize>,
}

impl EditOutput<'_> {
    fn open(&self) -> Result<Output<'_>, WriteError> {
        let usual = stf::write::WriteOptions::default();
        let options = stf::write::WriteOptions { threads: self.threads.unwrap_or(usual.threads), ..usual };
        let writer = open_writer(self.path, self.storage, options)?;
        Ok(Output { path: self.path, writer, bytes: Vec::new(), whole: 0, failed: None })
    }
}

/// An output, and records that were not written yet.
struct Output<'p> {
    path: &'p Path,
    writer: stf::write::Writer<Target>,
    bytes: Vec<u8>,
    /// Bytes up to the last instruction or transaction that is whole.
    whole: usize,
    failed: Option<io::Error>,
}

impl Output<'_> {
    /// Passes the records of a file to `edit`. Damage is the end: the records before it may be the start of an instruction, and
    /// are left out.
    fn copy(&mut self, file: &mut StfFile, mut edit: impl FnMut(&Record<'_>, &mut Vec<u8>)) -> Result<End, FileError> {
        let read = file.reader().each(|_, record| {
            edit(record, &mut self.bytes);
            if matches!(record, Record::InstOpcode16(_) | Record::InstOpcode32(_) | Record::Transaction(_)) {
                self.write_whole();
            }
            if self.failed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let end = file.ended(read)?;
        if matches!(end, End::Damaged(_)) {
            self.bytes.truncate(self.whole);
        }
        Ok(end)
    }

    /// Writes what is whole, if it is enough.
    fn write_whole(&mut self) {
        self.whole = self.bytes.len();
        if self.whole >= BATCH {
            self.failed = self.writer.write(&self.bytes).err();
            self.bytes.clear();
            self.whole = 0;
        }
    }

    fn keep(mut self) -> Result<(), WriteError> {
        let kept = match self.failed.take() {
            Some(error) => Err(error),
            None => self.writer.write(&self.bytes).and_then(|()| self.writer.finish()).and_then(Target::keep),
        };
        kept.map_err(|source| WriteError::new(self.path, source))
    }
}

/// Writes an STF file with changes. Returns the number of records that were left out, and how reading ended.
///
/// # Errors
///
/// If the output cannot be written.
pub fn edit_stf(file: &mut StfFile, edit: Edit, output: EditOutput<'_>) -> Result<(u64, End), EditError> {
    let (mut editor, mut out) = (Editor::new(edit), output.open()?);
    let end = out.copy(file, |record, bytes| editor.record(record, bytes))?;
    out.keep()?;
    Ok((editor.left_out(), end))
}

/// Writes STF files as one. Returns the number of instructions. `report` gets each file after it was read, and how reading ended.
///
/// # Errors
///
/// If a file cannot be read, if the files do not fit together, or if the output cannot be written.
pub fn merge_stf(
    inputs: &[PathBuf],
    options: &FileOptions,
    is_signed: bool,
    output: EditOutput<'_>,
    mut report: impl FnMut(&mut StfFile, &End),
) -> Result<u64, EditError> {
    let parts = inputs.iter().map(|path| header(path, options)).collect::<Result<Vec<_>, _>>()?;
    let mut start = Vec::new();
    let merger = Merger::new(parts, is_signed, &mut start);
    let mut merger = merger.map_err(|(index, error)| EditError::Merge { path: inputs[index].clone(), error })?;
    let mut out = output.open()?;
    out.bytes = start;
    for path in inputs {
        let mut file = StfFile::open(path, options)?;
        merger.begin();
        let end = out.copy(&mut file, |record, bytes| merger.record(record, bytes))?;
        report(&mut file, &end);
    }
    out.keep()?;
    Ok(merger.instructions())
}

fn header(path: &Path, options: &FileOptions) -> Result<Part, FileError> {
    let mut part = Part::default();
    // Damage is reported when the whole file is read.
    StfFile::open(path, options)?.each(&mut |_, _| {}, |_, record| part.push(record).is_continue())?;
    Ok(part)
}
