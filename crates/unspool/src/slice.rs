//! Slices of trace files: selected instructions, written to one file or to one file per range.
//!
//! ```text
//! TraceFile ─▶ slicer of its format ─▶ temporary file beside OUT ─▶ OUT
//! capture ─▶ steps ─▶ selected steps ─▶ sink of a format ─▶ OUT
//! ```
//!
//! Of a damaged trace, the part before the damage is kept.

mod steps;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use unspool_analyze::selection::FunctionSelection;
use unspool_astf as astf;
use unspool_container::{CompressOptions, CompressedWriter, Container};
use unspool_model::selection::SliceSink;
use unspool_model::{CoreSelector, SinkError, SourceError};
use unspool_stf as stf;
use unspool_stf::builder::RecordSink;
use unspool_tarmac as tarmac;

pub use self::steps::slice_steps;
use crate::file::{AstfFile, End, FileError, StfFile, TarmacFile};
use crate::target::{Target, WriteError, open_astf_writer, open_log, open_writer};
pub use unspool_tarmac::slice::KeptState;

/// Output of a slice.
#[derive(Debug, Clone, Copy)]
pub struct SliceOutput<'p> {
    /// The file.
    pub path: &'p Path,
    /// One numbered file per range.
    pub split: bool,
    /// Threads that compress; `None`: one per processor.
    pub threads: Option<usize>,
    /// Registers and memory that each range starts with, as far as they are known and the format can express them: a Tarmac
    /// log has both, STF has registers, ASTF has neither.
    pub state: KeptState,
}

/// Totals of a slice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slice {
    /// Number of instructions.
    pub instructions: u64,
    /// Number of ranges of consecutive instructions.
    pub pieces: u64,
    /// STF: page table walks of earlier instructions, which keep their numbers.
    pub walks_kept: u64,
    /// STF: dependencies on transactions outside the slice.
    pub dependencies_kept: u64,
    /// Tarmac: the first line got the time of the lines before it.
    pub has_new_time: bool,
}

/// Why no slice was written, or not all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// The trace cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The slice cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The trace is damaged; the part before the damage was written, if there is any.
    #[error("the trace is damaged")]
    Damaged {
        /// Damage.
        end: End,
        /// Whether anything was written.
        has_begun: bool,
    },
    /// No instruction or transaction was selected.
    #[error("nothing is selected of {read} {unit}s")]
    Nothing {
        /// Number of those that were read.
        read: u64,
        /// Noun for them.
        unit: &'static str,
    },
    /// ASTF cannot hold these ranges in one file, or the trace cannot be cut like this.
    #[error(transparent)]
    Astf(astf::slice::SliceError),
    /// The trace cannot be cut like this.
    #[error(transparent)]
    Stf(stf::slice::SliceError),
    /// The log cannot be cut like this.
    #[error(transparent)]
    Tarmac(tarmac::slice::SliceError),
    /// The steps of a capture cannot be read.
    #[error(transparent)]
    Source(SourceError),
    /// The format cannot express the steps.
    #[error(transparent)]
    Sink(SinkError),
}

/// Cuts an ASTF file.
pub fn slice_astf(
    file: &mut AstfFile,
    selection: &mut FunctionSelection,
    storage: astf::record::Storage,
    output: SliceOutput<'_>,
) -> Result<Slice, SliceError> {
    use astf::slice::SliceError as Error;
    let header = file.header().stored(storage);
    let usual = astf::write::WriteOptions::default();
    let options = astf::write::WriteOptions { threads: output.threads.unwrap_or(usual.threads), ..usual };
    let mut files = Files::new(output, |path| open_astf_writer(path, &header, options));
    let cut = astf::slice::SliceOptions { split: output.split };
    match astf::slice::slice(file.reader(), selection, cut, &mut files) {
        Ok(sliced) => {
            files.keep()?;
            Ok(Slice { instructions: sliced.instructions, pieces: sliced.pieces, ..Slice::default() })
        }
        Err(Error::Write(error)) => Err(files.error(error).into()),
        Err(Error::Read(error)) => files.damaged(file.ended(error)?),
        Err(Error::Empty(read)) => Err(SliceError::Nothing { read, unit: "instruction" }),
        Err(error) => Err(SliceError::Astf(error)),
    }
}

/// Cuts an STF file, by the numbers of instructions or transactions or by a selection.
pub fn slice_stf(
    file: &mut StfFile,
    by: By<'_>,
    sign: bool,
    storage: stf::Storage,
    output: SliceOutput<'_>,
) -> Result<Slice, SliceError> {
    use stf::slice::SliceError as Error;
    let usual = stf::write::WriteOptions::default();
    let options = stf::write::WriteOptions { threads: output.threads.unwrap_or(usual.threads), ..usual };
    let mut files = Files::new(output, |path| open_writer(path, storage, options));
    let registers = output.state != KeptState::None;
    let options = stf::slice::SliceOptions { sign, split: output.split, registers };
    let cut = match by {
        By::Number(range) => {
            let mut one = SingleRange { sink: &mut files, has_begun: false };
            stf::slice::slice(file.reader(), range, options, &mut one)
        }
        By::Selection(selection) => stf::slice::slice_by(file.reader(), selection, options, &mut files),
    };
    match cut {
        Ok(sliced) => {
            files.keep()?;
            let stf::slice::Sliced { instructions, pieces, walks_kept, dependencies_kept, .. } = sliced;
            Ok(Slice { instructions, pieces, walks_kept, dependencies_kept, has_new_time: false })
        }
        Err(Error::Write(error)) => Err(files.error(error).into()),
        Err(Error::Read(error)) => files.damaged(file.ended(Err(error))?),
        Err(Error::NoTransaction(read)) => Err(SliceError::Nothing { read, unit: "transaction" }),
        Err(Error::Empty(read)) => Err(SliceError::Nothing { read, unit: "instruction" }),
        Err(error) => Err(SliceError::Stf(error)),
    }
}

/// Criterion for cutting an STF file.
#[derive(Debug)]
pub enum By<'s> {
    /// Numbers of instructions or transactions.
    Number(Range<u64>),
    /// Selection of instructions.
    Selection(&'s mut FunctionSelection),
}

/// Cuts a Tarmac log. `big_endian`: its data is; only state that is repeated depends on it.
pub fn slice_tarmac(
    file: &mut TarmacFile,
    selection: &mut FunctionSelection,
    core: Option<&CoreSelector>,
    container: Container,
    big_endian: bool,
    output: SliceOutput<'_>,
) -> Result<Slice, SliceError> {
    use tarmac::slice::SliceError as Error;
    let usual = CompressOptions::default();
    let options = CompressOptions { threads: output.threads.unwrap_or(usual.threads), ..usual };
    let mut files = Files::new(output, |path| open_log(path, container, options));
    let dialect = Some(file.dialect());
    let (split, state) = (output.split, output.state);
    let options = tarmac::slice::SliceOptions { split, core, dialect, state, big_endian };
    match file.slice(selection, options, &mut files) {
        Ok(sliced) if sliced.pieces == 0 => Err(SliceError::Nothing { read: sliced.seen, unit: "instruction" }),
        Ok(sliced) => {
            files.keep()?;
            let tarmac::slice::Sliced { instructions, pieces, has_new_time, .. } = sliced;
            Ok(Slice { instructions, pieces, has_new_time, ..Slice::default() })
        }
        Err(Error::Write(error)) => Err(files.error(error).into()),
        Err(Error::Read(error)) => files.damaged(file.ended(Err(error))?),
        Err(error) => Err(SliceError::Tarmac(error)),
    }
}

/// Range of time as written by the user; either end may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSpan {
    from: Option<String>,
    to: Option<String>,
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && text != ".";
        let wrong = || format!("'{text}' is not a range of time (100..200, 100.. or ..200)");
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        let side = |side: &str| (!side.is_empty()).then(|| side.to_string());
        if !is_number(from) || !is_number(to) || from.is_empty() && to.is_empty() {
            return Err(wrong());
        }
        Ok(Self { from: side(from), to: side(to) })
    }
}

impl TimeSpan {
    /// Range in units of the last decimal of the trace.
    pub fn counted(&self, decimals: u8) -> Result<Range<u64>, String> {
        let from = self.from.as_deref().map_or(Ok(0), |text| counted(text, decimals))?;
        let to = self.to.as_deref().map_or(Ok(u64::MAX), |text| counted(text, decimals))?;
        if from >= to {
            return Err("--time: the first time is not before the second".to_string());
        }
        Ok(from..to)
    }
}

fn counted(text: &str, decimals: u8) -> Result<u64, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let missing = usize::from(decimals).checked_sub(part.len());
    let number = missing.and_then(|missing| format!("0{whole}{part}{}", "0".repeat(missing)).parse().ok());
    match number {
        Some(number) => Ok(number),
        None if missing.is_none() => {
            Err(format!("--time {text}: times of this trace have {decimals} digits after the point"))
        }
        None => Err(format!("--time {text}: too large")),
    }
}

/// Writer of one file of a format.
trait FileWriter {
    type Item;

    fn put(&mut self, part: &[Self::Item]) -> io::Result<()>;

    fn finish(self) -> io::Result<Target>;
}

macro_rules! file_writer {
    ($item:ty, $writer:ty, $write:ident) => {
        impl FileWriter for $writer {
            type Item = $item;

            fn put(&mut self, part: &[$item]) -> io::Result<()> {
                self.$write(part)
            }

            fn finish(self) -> io::Result<Target> {
                self.finish()
            }
        }
    };
}

file_writer!(astf::Bytes, astf::write::Writer<Target>, write);
file_writer!(u8, stf::write::Writer<Target>, write);
file_writer!(u8, CompressedWriter<Target>, write_all);

type Open<'f, W> = Box<dyn FnMut(&Path) -> Result<W, WriteError> + 'f>;

/// Files of a slice, opened one after the other.
struct Files<'f, W> {
    output: SliceOutput<'f>,
    open: Open<'f, W>,
    file: Option<(PathBuf, W)>,
    count: u64,
    /// Why a file could not be opened or finished.
    failed: Option<WriteError>,
}

impl<'f, W: FileWriter> Files<'f, W> {
    fn new(output: SliceOutput<'f>, open: impl FnMut(&Path) -> Result<W, WriteError> + 'f) -> Self {
        Self { output, open: Box::new(open), file: None, count: 0, failed: None }
    }

    /// Keeps the last file, which is complete.
    fn keep(&mut self) -> Result<(), WriteError> {
        let Some((path, file)) = self.file.take() else { return Ok(()) };
        file.finish().and_then(Target::keep).map_err(|source| WriteError { path, source })
    }

    /// Keeps the part before the damage.
    fn damaged(&mut self, end: End) -> Result<Slice, SliceError> {
        self.keep()?;
        Err(SliceError::Damaged { end, has_begun: self.count > 0 })
    }

    fn error(self, source: io::Error) -> WriteError {
        let path = self.file.map_or_else(|| self.output.path.to_path_buf(), |(path, _)| path);
        self.failed.unwrap_or(WriteError { path, source })
    }

    fn open_next(&mut self) -> Result<(), WriteError> {
        self.keep()?;
        self.count += 1;
        let SliceOutput { path, split, .. } = self.output;
        let path = if split { numbered(path, self.count) } else { path.to_path_buf() };
        let file = (self.open)(&path)?;
        self.file = Some((path, file));
        Ok(())
    }
}

impl<W: FileWriter> SliceSink<W::Item> for Files<'_, W> {
    fn begin(&mut self) -> io::Result<()> {
        self.open_next().map_err(|error| {
            self.failed = Some(error);
            io::Error::other("a file cannot be opened")
        })
    }

    fn write_part(&mut self, part: &[W::Item]) -> io::Result<()> {
        match &mut self.file {
            Some((_, file)) => file.put(part),
            None => Err(io::Error::other("no file was begun")),
        }
    }
}

/// Sink of a single range, which begins with its first record.
struct SingleRange<'s, S> {
    sink: &'s mut S,
    has_begun: bool,
}

impl<S: SliceSink<u8>> RecordSink for SingleRange<'_, S> {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.sink.begin()?;
        }
        self.sink.write_part(records)
    }
}

/// Path with a number before the extensions of the format and of a compressor.
pub fn numbered(path: &Path, number: u64) -> PathBuf {
    let split = |path: &Path| (path.file_stem().map(OsString::from), path.extension().map(OsString::from));
    let (mut stem, mut extension) = split(Path::new(path.file_name().unwrap_or_default()));
    let compressors = ["gz", "xz", "zst", "zstd", "lzma", "zz", "z", "zlib"];
    let is_compressor =
        extension.as_ref().and_then(|name| name.to_str()).is_some_and(|name| compressors.contains(&name));
    if let (true, Some(inner)) = (is_compressor, &stem)
        && let (Some(inner), Some(format)) = split(Path::new(inner))
    {
        let mut both = format;
        both.push(".");
        both.push(extension.unwrap_or_default());
        (stem, extension) = (Some(inner), Some(both));
    }
    let mut name = stem.unwrap_or_default();
    name.push(format!("-{number:04}"));
    if let Some(extension) = extension {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans() {
        let rows = [
            ("100..200", 0, Some(100..200)),
            ("100..", 0, Some(100..u64::MAX)),
            ("..200", 0, Some(0..200)),
            ("1.5..2", 3, Some(1500..2000)),
            (".5..2", 1, Some(5..20)),
            ("1.25..2", 1, None),
            ("2..2", 0, None),
            ("99999999999999999999..", 0, None),
        ];
        for (text, decimals, expected) in rows {
            assert_eq!(text.parse::<TimeSpan>().unwrap().counted(decimals).ok(), expected, "{text}");
        }
        for text in ["", "..", "5", "a..b", "1..2ms", "-1..2"] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbered_paths() {
        let rows = [
            ("a.astf", 1, "a-0001.astf"),
            ("dir.x/a.astf.xz", 12, "dir.x/a-0012.astf.xz"),
            ("run.v2.tarmac", 3, "run.v2-0003.tarmac"),
            ("a.gz", 3, "a-0003.gz"),
            ("a", 12345, "a-12345"),
            (".hidden", 1, ".hidden-0001"),
        ];
        for (name, number, expected) in rows {
            assert_eq!(numbered(Path::new(name), number), Path::new(expected), "{name}");
        }
    }
}
