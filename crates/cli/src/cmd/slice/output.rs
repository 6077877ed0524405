//! Where pieces go: one file, or one for each of them.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use unspool::container::{CompressedWriter, Container};
use unspool::model::selection::PieceSink;
use unspool::{astf, stf};

use crate::target::Target;

/// Writes a file of a format.
pub(super) trait FileWriter<T> {
    fn put(&mut self, part: &[T]) -> io::Result<()>;

    /// The file is complete.
    fn keep(self) -> io::Result<()>;
}

impl FileWriter<astf::Bytes> for astf::write::Writer<Target> {
    fn put(&mut self, part: &[astf::Bytes]) -> io::Result<()> {
        self.write(part)
    }

    fn keep(self) -> io::Result<()> {
        self.finish().and_then(Target::keep)
    }
}

impl FileWriter<u8> for stf::write::Writer<Target> {
    fn put(&mut self, part: &[u8]) -> io::Result<()> {
        self.write(part)
    }

    fn keep(self) -> io::Result<()> {
        self.finish().and_then(Target::keep)
    }
}

impl FileWriter<u8> for CompressedWriter<Target> {
    fn put(&mut self, part: &[u8]) -> io::Result<()> {
        self.write_all(part)
    }

    fn keep(self) -> io::Result<()> {
        self.finish().and_then(Target::keep)
    }
}

/// Opens a file.
type Open<'f, W> = Box<dyn FnMut(&Path) -> anyhow::Result<W> + 'f>;

/// Files in the making.
pub(super) struct Files<'f, W> {
    path: &'f Path,
    is_split: bool,
    open: Open<'f, W>,
    /// The file at hand.
    file: Option<(PathBuf, W)>,
    count: u64,
    /// Why no file could be opened or kept.
    failed: Option<anyhow::Error>,
}

impl<'f, W> Files<'f, W> {
    /// None is opened yet.
    pub(super) fn new(path: &'f Path, is_split: bool, open: impl FnMut(&Path) -> anyhow::Result<W> + 'f) -> Self {
        Self { path, is_split, open: Box::new(open), file: None, count: 0, failed: None }
    }

    /// Was a file begun?
    pub(super) fn has_begun(&self) -> bool {
        self.count > 0
    }

    /// The last file is complete.
    pub(super) fn keep<T>(mut self) -> anyhow::Result<()>
    where
        W: FileWriter<T>,
    {
        self.keep_last()
    }

    /// Why writing failed.
    pub(super) fn why(self, error: io::Error) -> anyhow::Error {
        let cannot = |path: &Path| format!("cannot write {}", path.display());
        match (self.failed, &self.file) {
            (Some(failed), _) => failed,
            (None, Some((path, _))) => anyhow::Error::from(error).context(cannot(path)),
            (None, None) => anyhow::Error::from(error).context(cannot(self.path)),
        }
    }

    fn keep_last<T>(&mut self) -> anyhow::Result<()>
    where
        W: FileWriter<T>,
    {
        let Some((path, file)) = self.file.take() else { return Ok(()) };
        file.keep().with_context(|| format!("cannot write {}", path.display()))
    }

    fn open_next<T>(&mut self) -> anyhow::Result<()>
    where
        W: FileWriter<T>,
    {
        self.keep_last()?;
        self.count += 1;
        let path = if self.is_split { numbered(self.path, self.count) } else { self.path.to_path_buf() };
        let file = (self.open)(&path)?;
        self.file = Some((path, file));
        Ok(())
    }
}

impl<T, W: FileWriter<T>> PieceSink<T> for Files<'_, W> {
    fn begin(&mut self) -> io::Result<()> {
        self.open_next().map_err(|error| {
            self.failed = Some(error);
            io::Error::other("a file cannot be opened")
        })
    }

    fn take(&mut self, part: &[T]) -> io::Result<()> {
        match &mut self.file {
            Some((_, file)) => file.put(part),
            None => Err(io::Error::other("no file was begun")),
        }
    }
}

/// The name with a number before the extension, and before that of a compressor.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let split = |path: &Path| (path.file_stem().map(OsString::from), path.extension().map(OsString::from));
    let (mut stem, mut extension) = split(Path::new(path.file_name().unwrap_or_default()));
    if let (Some(_), Some(inner)) = (Container::from_path(path), &stem)
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
    fn pieces_have_names() {
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
