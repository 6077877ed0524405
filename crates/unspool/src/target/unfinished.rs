//! Temporary files and directories of this process: which exist, so that a signal handler can remove them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes the temporary files of all outputs that are not complete. For a process that is about to end: those outputs cannot be
/// completed then, and a thread that begins or ends one waits for the end of the process.
pub fn remove_unfinished() {
    let mut paths = all();
    remove_below(Path::new(""), &mut paths);
    std::mem::forget(paths);
}

/// Removes those in a directory; an empty path is above all.
fn remove_below(directory: &Path, paths: &mut BTreeSet<PathBuf>) {
    let (below, others): (BTreeSet<_>, _) =
        std::mem::take(paths).into_iter().partition(|path| path.starts_with(directory));
    *paths = others;
    below.iter().for_each(|path| remove_while_written(path));
}

/// Removes what another thread still writes. Under another name first: no file is added to it then.
fn remove_while_written(path: &Path) {
    let mut away = path.as_os_str().to_owned();
    away.push(".removed");
    let away = PathBuf::from(away);
    match fs::rename(path, &away) {
        Ok(()) => remove(&away),
        Err(_) => remove(path),
    }
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
pub struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// The temporary path of a file in the same directory.
    pub fn beside(target: &Path) -> Self {
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

    /// The path itself.
    pub fn path(&self) -> &Path {
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
        remove_below(folder.path(), &mut all());
        assert_eq!(fs::read_dir(folder.path())?.count(), 0);
        // Another process may use the name then.
        fs::write(temporary.path(), "other")?;
        drop(temporary);
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }

    /// A writer that adds files until it cannot, as a packer of many files does.
    #[test]
    fn a_directory_is_removed_while_it_is_written() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        for _ in 0..100 {
            let directory = folder.path().join("capture");
            fs::create_dir(&directory)?;
            let writer = {
                let directory = directory.clone();
                std::thread::spawn(move || (0..).find(|n: &u32| fs::write(directory.join(n.to_string()), "").is_err()))
            };
            remove_while_written(&directory);
            assert!(!directory.exists());
            assert!(writer.join().is_ok());
        }
        Ok(())
    }
}
