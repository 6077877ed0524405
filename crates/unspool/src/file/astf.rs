//! ASTF files: opened by path or from a pipe, read in batches.

use std::io::Read;
use std::path::Path;

use unspool_astf::Bytes;
use unspool_astf::read::{ReadError, ReadErrorKind, ReadOptions, Reader, Warning};
use unspool_astf::record::Header;
use unspool_astf::steps::Steps;
use unspool_container::Fault;

use super::{End, FileError, FileOptions, Input, open_file};
use crate::OpenedSteps;
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
        let refuse = "a directory is no trace file; 'unspool info' tells what is in it";
        let (name, input, size) = open_file(path, refuse)?;
        Self::of(&name, input, size, options)
    }

    /// Opens what is being read already.
    pub fn of(name: &str, input: Input, size: Option<u64>, options: &FileOptions) -> Result<Self, FileError> {
        let meter = Meter::new(size);
        let options = options.threads.map_or_else(ReadOptions::default, |threads| ReadOptions { threads, ahead: true });
        match Reader::new(meter.counted(input), options) {
            Ok(reader) => Ok(Self { name: name.to_string(), reader, meter }),
            Err(error) if is_failure(&error.kind) => Err(failure(name, error)),
            Err(error) => Err(FileError::Damaged(damage(name, &error))),
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How far it was read.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// What is odd about the header.
    pub fn warnings(&self) -> &[Warning] {
        self.reader.warnings()
    }

    /// Its steps, and how far it was read.
    pub fn into_steps(self) -> (OpenedSteps, Meter) {
        (Box::new(Steps::new(self.reader)), self.meter)
    }

    /// The reader, for those that read in their own way and then call [`ended`](Self::ended).
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

    /// Hands out all records in batches, header first, with the number of the first of each batch, until `take` returns
    /// false.
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

/// Is it a failure of ours or of the system, rather than a broken trace?
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
            FileError::NotAstf { name: name.to_string(), reason: error.kind.to_string(), looks_like: looks_like(found) }
        }
        ReadErrorKind::Io(source) => FileError::Read { name: name.to_string(), offset: error.offset, source },
        ReadErrorKind::Empty | ReadErrorKind::NewerMajor(_) => {
            FileError::Unsupported(format!("{name}: {}", error.kind))
        }
        _ => FileError::Unsupported(damage(name, &error)),
    }
}

/// What starts like this instead.
fn looks_like(found: [u8; 4]) -> &'static str {
    match found {
        [b'P', b'K', ..] => ", like a zip archive; 'unspool info' tells if it is a capture",
        [0x1f, 0x8b, ..] => {
            ", like a gzip file, and no STF is in it; the header of ASTF is never compressed, so unpack it"
        }
        [0xfd, b'7', b'z', b'X'] => {
            ", like an .xz file, and no STF is in it; the header of ASTF is never compressed, so unpack it"
        }
        [0x28, 0xb5, 0x2f, 0xfd] => ", like a zstd file, and no STF is in it",
        [0x7f, b'E', b'L', b'F'] => ", like a program",
        _ => "",
    }
}
