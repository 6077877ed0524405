//! Temporary files and directories of this process: which exist, so that a signal handler can remove them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes the temporary files of all outputs that are not complete. For a process that is about to end: those outputs cannot be
/// completed then.
pub fn remove_unfinished() {
    remove_below(Path::new(""));
}

/// Removes those in a directory; an empty path is above all.
fn remove_below(directory: &Path) {
    all().retain(|path| {
        let is_below = path.starts_with(directory);
        if is_below {
            remove(path);
        }
        !is_below
    });
}

/// Removes a temporary file or directory. It may have been removed, or renamed.
fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

fn all() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary path beside a file or directory, for its content until it is complete. What is at the path is removed at the
/// end.
#[derive(Debug)]
pub(crate) struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// The temporary path of a file in the same directory.
    pub(crate) fn beside(target: &Path) -> Self {
        Self::named(target, "part")
    }

    /// A temporary path with this extension.
    pub(super) fn named(target: &Path, extension: &str) -> Self {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}.{extension}", std::process::id()));
        let path = target.with_file_name(name);
        all().insert(path.clone());
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        if all().remove(&self.0) {
            // If the file is complete, none has this name.
            remove(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_are_removed() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let temporary = TemporaryPath::beside(&folder.path().join("out.astf"));
        fs::write(temporary.path(), "half")?;
        let directory = TemporaryPath::beside(&folder.path().join("capture"));
        fs::create_dir(directory.path())?;
        fs::write(directory.path().join("trace.bin"), "half")?;
        // Other tests have files of their own.
        remove_below(folder.path());
        assert_eq!(fs::read_dir(folder.path())?.count(), 0);
        // Another process may use the name then.
        fs::write(temporary.path(), "other")?;
        drop(temporary);
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }
}
