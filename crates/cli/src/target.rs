//! Where a converted trace goes: a file that appears when it is complete, or not at all; or a pipe.
//!
//! in ─▶ records ─▶ a temporary file beside OUT ─▶ OUT

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::astf::is_standard;

/// Where the result is written to.
pub(crate) enum Target {
    /// A pipe or a device: what is written is out of our hands.
    Stream(Box<dyn Write>),
    /// A file that is not complete yet.
    Partial(Partial),
}

impl Target {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        if is_standard(path) {
            return Ok(Self::Stream(Box::new(io::stdout())));
        }
        let cannot = || format!("cannot write {}", path.display());
        match fs::metadata(path) {
            Ok(about) if about.is_file() => {
                // Through a link, the file that it leads to is replaced, and not the link.
                let partial = Partial::beside(&path.canonicalize().with_context(cannot)?).with_context(cannot)?;
                fs::set_permissions(&partial.path, about.permissions()).with_context(cannot)?;
                Ok(Self::Partial(partial))
            }
            Ok(_) => Ok(Self::Stream(Box::new(File::options().write(true).open(path).with_context(cannot)?))),
            Err(_) => Ok(Self::Partial(Partial::beside(path).with_context(cannot)?)),
        }
    }

    /// Can it only be written forward?
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// The file is complete.
    pub(crate) fn keep(self) -> io::Result<()> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::Partial(partial) => partial.keep(),
        }
    }
}

/// Is it a pipe or a device, of which nothing can be taken back?
pub(crate) fn is_stream(path: &Path) -> bool {
    is_standard(path) || path.metadata().is_ok_and(|about| !about.is_file())
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(out) => out.write(bytes),
            Self::Partial(partial) => partial.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(out) => out.flush(),
            Self::Partial(partial) => partial.file.flush(),
        }
    }
}

impl Seek for Target {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Stream(_) => Err(io::ErrorKind::NotSeekable.into()),
            Self::Partial(partial) => partial.file.seek(to),
        }
    }
}

/// A file under another name, which goes away unless it is kept.
pub(crate) struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Partial {
    fn beside(target: &Path) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(name);
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok(Self { file, path, target: target.to_path_buf() })
    }

    fn keep(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After it was kept, there is nothing under this name.
        let _ = fs::remove_file(&self.path);
    }
}
