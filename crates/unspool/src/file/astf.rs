//! ASTF files: opened by path or from a pipe, read in batches.

use std::io::Read;
use std::path::Path;

use unspool_astf::Bytes;
use unspool_astf::read::{ReadError, ReadErrorKind, ReadOptions, Reader, Warning};
use unspool_astf::record::Header;
use unspool_astf::steps::Steps;
use unspool_container::Fault;

use super::input::{End, FileError, FileOptions, Input, OpenedSteps, open_file};
use crate::meter::{Counted, Meter, OnProgress};

/// Open ASTF file.
pub struct AstfFile {
    name: String,
    reader: Reader<Counted<Input>>,
    meter: Meter,
}

impl AstfFile {
    /// Opens a file or the standard input.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self, FileError> {
        let refusal = "this is a directory, not a trace file; try 'unspool info'";
        let (name, input, size) = open_file(path, refusal)?;
        Self::of(&name, input, size, options)
    }

    /// Opens a stream.
    pub fn of(name: &str, input: Input, size: Option<u64>, options: &FileOptions) -> Result<Self, FileError> {
        let options = options.threads.map_or_else(ReadOptions::default, |threads| ReadOptions { threads, ahead: true });
        Self::with(name, input, Meter::new(size), options)
    }

    pub(crate) fn with(name: &str, input: Input, meter: Meter, options: ReadOptions) -> Result<Self, FileError> {
        match Reader::new(meter.counted(input), options) {
            Ok(reader) => Ok(Self { name: name.to_string(), reader, meter }),
            Err(error) if is_failure(&error.kind) => Err(failure(name, error)),
            Err(error) => Err(FileError::Damaged(damage(name, &error))),
        }
    }

    /// Name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Meter of what is read.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Header.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// Oddities of the header.
    pub fn warnings(&self) -> &[Warning] {
        self.reader.warnings()
    }

    /// Steps of the file, and the meter of what is read.
    pub fn into_steps(self) -> (OpenedSteps, Meter) {
        (Box::new(Steps::new(self.reader)), self.meter)
    }

    /// Reader, for callers that drive it themselves and then call [`ended`](Self::ended).
    pub fn reader(&mut self) -> &mut Reader<impl Read + use<>> {
        &mut self.reader
    }

    /// How reading ended with this error.
    pub fn ended(&self, error: ReadError) -> Result<End, FileError> {
        if is_failure(&error.kind) {
            Err(failure(&self.name, error))
        } else {
            Ok(End::Damaged(damage(&self.name, &error)))
        }
    }

    /// Hands all records to `take` in batches, header first, with the number of the first one of each batch, until it
    /// returns false.
    pub fn each(
        &mut self,
        progress: &mut OnProgress<'_>,
        mut take: impl FnMut(u64, &[Bytes]) -> bool,
    ) -> Result<End, FileError> {
        let mut wants_more = take(1, &[self.header().to_bytes()]);
        let mut number = 2;
        while wants_more {
            match self.reader.next_records() {
                Ok([]) => return Ok(End::Whole),
                Ok(records) => {
                    wants_more = take(number, records);
                    number += records.len() as u64;
                }
                Err(error) => return self.ended(error),
            }
            self.meter.report(progress);
        }
        Ok(End::Stopped)
    }
}

/// Whether the file cannot be read at all, rather than being damaged.
fn is_failure(kind: &ReadErrorKind) -> bool {
    use ReadErrorKind::{Compressed, Empty, Io, NewerMajor, NotAstf};
    matches!(
        kind,
        Empty | NotAstf { .. } | NewerMajor(_) | Compressed(Fault::Unsupported) | Compressed(Fault::Memory) | Io(_)
    )
}

fn damage(name: &str, error: &ReadError) -> String {
    format!("{name}: record {} at offset {:#x}: {}", error.record, error.offset, error.kind)
}

fn failure(name: &str, error: ReadError) -> FileError {
    match error.kind {
        ReadErrorKind::NotAstf { found } => {
            FileError::Unsupported(format!("{name}: {}", ReadErrorKind::NotAstf { found }))
        }
        ReadErrorKind::Io(source) => FileError::Read { name: name.to_string(), offset: error.offset, source },
        ReadErrorKind::Empty | ReadErrorKind::NewerMajor(_) => {
            FileError::Unsupported(format!("{name}: {}", error.kind))
        }
        _ => FileError::Unsupported(damage(name, &error)),
    }
}
