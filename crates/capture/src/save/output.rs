//! The files of a package, written one after the other into a directory or an archive.
//!
//! name and bytes ─▶ **output** ─▶ files below a directory, or members of a zip archive
//!
//! Bytes are streamed. Archives have no times, so the same package is always the same archive.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::PackageKind;
use crate::error::Error;

/// Size of the chunks that are copied.
const CHUNK: usize = 64 << 10;

/// Members from this size on have 64-bit sizes. Compression may make random bytes a little larger.
const LARGE: u64 = 0xff00_0000;

/// A package that is being written.
pub(super) struct Output {
    path: PathBuf,
    form: Form,
    files: usize,
    bytes: u64,
    chunk: Vec<u8>,
}

enum Form {
    Directory,
    Zip(Box<ZipWriter<BufWriter<File>>>),
}

impl Output {
    pub(super) fn create(path: &Path, kind: PackageKind) -> Result<Self, Error> {
        let form = match kind {
            PackageKind::Directory => {
                create_empty(path)?;
                Form::Directory
            }
            PackageKind::Zip => {
                let file = File::create_new(path).map_err(Error::io(path))?;
                Form::Zip(Box::new(ZipWriter::new(BufWriter::with_capacity(CHUNK, file))))
            }
        };
        Ok(Self { path: path.to_path_buf(), form, files: 0, bytes: 0, chunk: vec![0; CHUNK] })
    }

    /// Writes one file of about this size, and returns its size.
    pub(super) fn write(&mut self, name: &str, bytes: &mut dyn Read, size: u64) -> Result<u64, Error> {
        let written = match &mut self.form {
            Form::Directory => {
                let path = self.path.join(name);
                create_parents(&self.path, Path::new(name))?;
                let mut file = File::create_new(&path).map_err(Error::io(&path))?;
                copy(bytes, &mut file, &mut self.chunk).map_err(Error::io(&path))?
            }
            Form::Zip(zip) => {
                let options = SimpleFileOptions::default()
                    .compression_method(CompressionMethod::Deflated)
                    .last_modified_time(DateTime::default())
                    .large_file(size >= LARGE);
                let started = zip.start_file(name, options).map_err(io::Error::other);
                let copied = started.and_then(|()| copy(bytes, &mut **zip, &mut self.chunk));
                copied.map_err(Error::io(self.path.join(name)))?
            }
        };
        self.files += 1;
        self.bytes += written;
        Ok(written)
    }

    /// Completes the package, and returns the number of files and of their bytes.
    pub(super) fn finish(self) -> Result<(usize, u64), Error> {
        if let Form::Zip(zip) = self.form {
            let finished = zip.finish().map_err(io::Error::other).and_then(|mut file| file.flush());
            finished.map_err(Error::io(&self.path))?;
        }
        Ok((self.files, self.bytes))
    }
}

/// Copies in chunks of the same size, however the input is cut: a compressor may depend on it.
fn copy(from: &mut dyn Read, to: &mut dyn Write, chunk: &mut [u8]) -> io::Result<u64> {
    let mut copied = 0;
    loop {
        let read = fill(from, chunk)?;
        to.write_all(chunk.get(..read).unwrap_or_default())?;
        copied += read as u64;
        if read < chunk.len() {
            return Ok(copied);
        }
    }
}

/// Reads as many bytes as there are, up to the length of the chunk.
fn fill(from: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = chunk.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Creates the folders that a name has, but not the directory that they are in: if that is gone, an interrupted process has
/// removed it.
fn create_parents(directory: &Path, name: &Path) -> Result<(), Error> {
    let parents = name.parent().into_iter().flat_map(Path::ancestors).filter(|parent| !parent.as_os_str().is_empty());
    for parent in parents.collect::<Vec<_>>().into_iter().rev() {
        let folder = directory.join(parent);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(Error::io(&folder)(error)),
            _ => {}
        }
    }
    Ok(())
}

fn create_empty(directory: &Path) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(Error::io(directory))?;
    match fs::read_dir(directory).map_err(Error::io(directory))?.next() {
        None => Ok(()),
        Some(_) => Err(Error::NotEmpty { path: directory.to_path_buf() }),
    }
}
