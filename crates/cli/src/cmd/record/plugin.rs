//! The plugin of the emulator, which is inside the binary.
//!
//! plugin beside unspool, if it is the same one, or else bytes of the binary ─▶ **file** in the cache of the user
//!
//! A file is used only if its contents are those of the binary, in a folder that no other user can write to. It is written under
//! a temporary name first, so that recordings that start at once do not disturb each other.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::process::geteuid;
use tempfile::{NamedTempFile, TempDir};
use unspool::record::plugin_beside_executable;

use crate::file::cache_folder;

/// The plugin; empty on targets that have none.
const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libunspool_plugin.so"));

/// Its name has a hash of its contents: several versions of unspool share the folder.
const NAME: &str = concat!("libunspool_plugin-", env!("UNSPOOL_PLUGIN_HASH"), ".so");

/// A plugin file, as long as it is needed.
pub(super) struct Plugin {
    /// `None`: the one beside the executable, or an error that there is none.
    pub(super) path: Option<PathBuf>,
    /// The folder of the file, if there is no cache.
    _folder: Option<TempDir>,
}

impl Plugin {
    /// The plugin that the user names, or one that belongs to this binary.
    pub(super) fn find(chosen: Option<&Path>) -> anyhow::Result<Self> {
        let lasting = |path: Option<PathBuf>| Ok(Self { path, _folder: None });
        if chosen.is_some() || BYTES.is_empty() {
            return lasting(chosen.map(Path::to_path_buf));
        }
        if let Some(path) = plugin_beside_executable().filter(|path| is_same(path)) {
            return lasting(Some(path));
        }
        if let Some(Ok(path)) = cache_folder().map(|folder| unpacked_in(&folder)) {
            return lasting(Some(path));
        }
        let folder = tempfile::tempdir().context("cannot unpack the plugin")?;
        let path = unpacked_in(folder.path()).context("cannot unpack the plugin")?;
        Ok(Self { path: Some(path), _folder: Some(folder) })
    }
}

/// The plugin in this folder, where it is written if it is missing.
fn unpacked_in(folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let about = fs::metadata(folder)?;
    if about.uid() != geteuid().as_raw() || about.mode() & 0o022 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let path = folder.join(NAME);
    if !is_same(&path) {
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(BYTES)?;
        file.persist(&path)?;
    }
    Ok(path)
}

fn is_same(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.len() == BYTES.len() as u64)
        && fs::read(path).is_ok_and(|bytes| bytes == BYTES)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn damaged_files_are_replaced_and_open_folders_refused() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = folder.path().join("new/unspool");
        let path = unpacked_in(&cache)?;
        assert_eq!(fs::metadata(&cache)?.mode() & 0o777, 0o700);
        assert_eq!(fs::read(&path)?, BYTES);
        fs::write(&path, "damaged")?;
        assert_eq!(unpacked_in(&cache)?, path);
        assert_eq!(fs::read(&path)?, BYTES);
        assert_eq!(fs::read_dir(&cache)?.count(), 1);
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o777))?;
        assert!(unpacked_in(&cache).is_err());
        Ok(())
    }
}
