//! The files of a capture: in a directory, in a zip archive, or loose.
//!
//! name as written in a package, with either slash ─▶ **store** ─▶ size and reader
//!
//! Names that point outside the package are refused here, so no other module has to check them. So are symbolic links in
//! a directory that lead out of it: a package from elsewhere must not make us read, or copy, a file of this machine.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::archive::{Archive, MemberReader};
use crate::error::Error;
use crate::lookup::{Lookup, path_components};

/// The files of one capture.
#[derive(Debug)]
pub(crate) enum Store {
    /// Files below this directory.
    Directory(PathBuf),
    /// Members of an archive.
    Zip(Archive),
    /// Files outside any package, by the name that the caller gave.
    Loose(BTreeMap<String, LooseFile>),
}

/// A file outside any package.
#[derive(Debug)]
pub(crate) enum LooseFile {
    /// An ordinary file.
    Named(PathBuf),
    /// A stream that was copied to an unnamed file. Readers share the handle and keep their own position.
    Spooled(Arc<Mutex<File>>, u64),
}

impl Store {
    /// Looks up a file.
    pub(crate) fn find(&self, name: &str) -> Lookup {
        match self {
            Store::Loose(files) => files.get(name).map_or(Lookup::Missing, |file| file.find(name)),
            Store::Directory(_) | Store::Zip(_) => match path_components(name) {
                None => Lookup::Outside,
                Some(path) if path.is_empty() => Lookup::Missing,
                Some(path) => self.find_inside(name, &path),
            },
        }
    }

    /// Opens a file by any name that [`find`](Store::find) accepts.
    pub(crate) fn open(&self, name: &str) -> Result<FileReader, Error> {
        let (name, size) = match self.find(name) {
            Lookup::File { name, size, .. } => (name, size),
            Lookup::Missing => return Err(Error::MissingFile { name: name.to_string() }),
            Lookup::Outside => return Err(unusable(name, "the path points outside the package")),
            Lookup::Unusable(reason) => return Err(unusable(name, &reason)),
        };
        let body = self.body(&name)?;
        Ok(FileReader { name, size, body })
    }

    /// All bytes of a file, at most `limit`.
    pub(crate) fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let file = self.open(name)?;
        let mut bytes = Vec::new();
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::io(name))?;
        if read as u64 > limit {
            return Err(Error::TooLarge { name: name.to_string(), limit });
        }
        Ok(bytes)
    }

    fn find_inside(&self, name: &str, path: &[&str]) -> Lookup {
        match self {
            Store::Directory(root) => find_in_directory(root, name, path),
            Store::Zip(archive) => archive.find(&path.join("/")),
            Store::Loose(_) => Lookup::Missing,
        }
    }

    fn body(&self, name: &str) -> Result<Body, Error> {
        let missing = || Error::MissingFile { name: name.to_string() };
        match self {
            Store::Directory(root) => open_plain(&root.join(name)),
            Store::Zip(archive) => Ok(Body::Member(Box::new(archive.open(name)?))),
            Store::Loose(files) => match files.get(name).ok_or_else(missing)? {
                LooseFile::Named(path) => open_plain(path),
                LooseFile::Spooled(file, _) => Ok(Body::Shared { file: Arc::clone(file), position: 0 }),
            },
        }
    }
}

impl LooseFile {
    /// Opens a path of the command line. `-` and everything else that can be read only once is copied first.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        if path.as_os_str() == "-" {
            return Self::spool(&mut io::stdin().lock()).map_err(Error::io(path));
        }
        let metadata = fs::metadata(path).map_err(Error::io(path))?;
        if metadata.is_dir() {
            let found = "a directory where a buffer file is expected".to_string();
            return Err(Error::NotACapture { path: path.to_path_buf(), found });
        }
        if metadata.is_file() {
            return Ok(LooseFile::Named(path.to_path_buf()));
        }
        let mut pipe = File::open(path).map_err(Error::io(path))?;
        Self::spool(&mut pipe).map_err(Error::io(path))
    }

    pub(crate) fn spool(stream: &mut impl Read) -> io::Result<Self> {
        let mut file = tempfile::tempfile()?;
        let size = io::copy(stream, &mut file)?;
        Ok(LooseFile::Spooled(Arc::new(Mutex::new(file)), size))
    }

    fn find(&self, name: &str) -> Lookup {
        let name = name.to_string();
        match self {
            LooseFile::Spooled(_, size) => Lookup::File { name, size: *size, exact: true },
            LooseFile::Named(path) => match fs::metadata(path) {
                Ok(metadata) => Lookup::File { name, size: metadata.len(), exact: true },
                Err(error) if error.kind() == io::ErrorKind::NotFound => Lookup::Missing,
                Err(error) => Lookup::Unusable(error.to_string()),
            },
        }
    }
}

/// Reader of one file of a capture.
///
/// Length and checksum of a zip member are verified when its last byte is read.
#[derive(Debug)]
pub struct FileReader {
    name: String,
    size: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Plain(File),
    Shared { file: Arc<Mutex<File>>, position: u64 },
    Member(Box<MemberReader>),
}

impl FileReader {
    /// The size of the file when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Moves to this offset, before the first read.
    pub(crate) fn start_at(&mut self, offset: u64) -> io::Result<()> {
        match &mut self.body {
            Body::Plain(file) => file.seek(SeekFrom::Start(offset)).map(drop),
            Body::Shared { position, .. } => {
                *position = offset;
                Ok(())
            }
            Body::Member(member) => io::copy(&mut member.take(offset), &mut io::sink()).map(drop),
        }
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.body {
            Body::Plain(file) => file.read(buffer),
            Body::Shared { file, position } => read_shared(file, position, buffer),
            Body::Member(member) => member.read(buffer),
        };
        read.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.name)))
    }
}

fn read_shared(file: &Mutex<File>, position: &mut u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    file.seek(SeekFrom::Start(*position))?;
    let read = file.read(buffer)?;
    *position += read as u64;
    Ok(read)
}

fn find_in_directory(root: &Path, name: &str, path: &[&str]) -> Lookup {
    let plain = path.join("/");
    // Some tools unpack a Windows archive into files whose names contain backslashes. Such a name is also tried as it
    // is, but not with `..`: the system would go up once from a folder named `a\b`, which counts as two components here.
    let try_verbatim = name.contains('\\') && !name.split(['/', '\\']).any(|part| part == "..");
    let names = [plain.as_str(), name];
    for name in if try_verbatim { &names[..] } else { &names[..1] } {
        match fs::metadata(root.join(name)) {
            Ok(metadata) if metadata.is_file() => {
                return file_inside(root, (*name).to_string(), metadata.len(), true);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Lookup::Unusable(error.to_string());
            }
            _ => {}
        }
    }
    find_ignoring_case(root, path).unwrap_or(Lookup::Missing)
}

fn find_ignoring_case(root: &Path, path: &[&str]) -> Option<Lookup> {
    let mut name = String::new();
    for part in path {
        let entries = fs::read_dir(root.join(&name)).ok()?.filter_map(Result::ok);
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|entry| entry.eq_ignore_ascii_case(part))
            .collect();
        names.sort_unstable();
        // If several names differ only in case, the exact one is preferred.
        let chosen = names.iter().find(|entry| entry == part).or(names.first())?;
        if !name.is_empty() {
            name.push('/');
        }
        name.push_str(chosen);
    }
    let metadata = fs::metadata(root.join(&name)).ok().filter(fs::Metadata::is_file)?;
    Some(file_inside(root, name, metadata.len(), false))
}

/// A file that exists, unless a link on its path leads out of the package.
fn file_inside(root: &Path, name: String, size: u64, exact: bool) -> Lookup {
    // The path of a file in the current directory has an empty parent.
    let root_path = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    match (fs::canonicalize(root_path), fs::canonicalize(root.join(&name))) {
        (Ok(folder), Ok(file)) if file.starts_with(&folder) => Lookup::File { name, size, exact },
        (Ok(_), Ok(_)) => Lookup::Outside,
        (Err(error), _) | (_, Err(error)) => Lookup::Unusable(error.to_string()),
    }
}

fn open_plain(path: &Path) -> Result<Body, Error> {
    File::open(path).map(Body::Plain).map_err(Error::io(path))
}

fn unusable(name: &str, reason: &str) -> Error {
    Error::Unusable { name: name.to_string(), reason: reason.to_string() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn directory_lookup_ignores_case_and_slash_style() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("Bin")).unwrap();
        fs::write(dir.path().join("Bin/A.bin"), b"abc").unwrap();
        let store = Store::Directory(dir.path().to_path_buf());
        let rows = [
            ("Bin/A.bin", Some(true)),
            ("Bin\\A.bin", Some(true)),
            ("bin\\a.BIN", Some(false)),
            ("Bin", None),
            ("Bin/B.bin", None),
            ("", None),
        ];
        for (name, expected) in rows {
            let found =
                expected.map_or(Lookup::Missing, |exact| Lookup::File { name: "Bin/A.bin".into(), size: 3, exact });
            assert_eq!(store.find(name), found, "{name}");
        }
        assert_eq!(store.find("../x"), Lookup::Outside);
        assert_eq!(store.read("bin/a.bin", 3).unwrap(), b"abc");
        assert!(matches!(store.read("bin/a.bin", 2), Err(Error::TooLarge { limit: 2, .. })));
    }

    #[test]
    fn a_folder_name_with_a_backslash_does_not_lead_outside() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("package");
        fs::create_dir_all(root.join("a\\b")).unwrap();
        fs::write(root.join("a\\b/in"), b"in").unwrap();
        fs::write(dir.path().join("out"), b"out").unwrap();
        let store = Store::Directory(root);
        let rows = [("a\\b/../../out", false), ("a\\b\\../../../out", false), ("a\\b/in", true)];
        for (name, exists) in rows {
            assert_eq!(matches!(store.find(name), Lookup::File { .. }), exists, "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_of_a_directory_are_not_followed() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("package");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir(dir.path().join("package2")).unwrap();
        fs::write(dir.path().join("package2/secret"), b"secret").unwrap();
        fs::write(root.join("sub/file"), b"file").unwrap();
        let links = [
            ("file_out", "../package2/secret"),
            ("folder_out", "../package2"),
            ("chain", "file_out"),
            ("sub/up", "../../package2/secret"),
            ("file_in", "sub/file"),
            ("folder_in", "sub"),
            ("sub/round", "../../package/sub/file"),
            ("dangling", "nowhere"),
        ];
        links.iter().for_each(|(name, target)| symlink(target, root.join(name)).unwrap());
        symlink(dir.path().join("package2/secret"), root.join("absolute")).unwrap();
        symlink(&root, dir.path().join("link_to_package")).unwrap();
        let rows = [
            ("file_out", Some(false)),
            ("FILE_OUT", Some(false)),
            ("folder_out/secret", Some(false)),
            ("chain", Some(false)),
            ("sub/up", Some(false)),
            ("absolute", Some(false)),
            ("file_in", Some(true)),
            ("File_In", Some(true)),
            ("folder_in/file", Some(true)),
            ("sub/round", Some(true)),
            ("dangling", None),
        ];
        for root in [root, dir.path().join("link_to_package")] {
            let store = Store::Directory(root);
            for (name, expected) in rows {
                let found = match store.find(name) {
                    Lookup::File { size: 4, .. } => Some(true),
                    Lookup::Outside => Some(false),
                    other => {
                        assert_eq!(other, Lookup::Missing, "{name}");
                        None
                    }
                };
                assert_eq!((found, store.open(name).is_ok()), (expected, expected == Some(true)), "{name}");
            }
        }
    }

    #[test]
    fn a_spooled_stream_has_independent_readers() {
        let spooled = LooseFile::spool(&mut &b"0123456789"[..]).unwrap();
        let store = Store::Loose(BTreeMap::from([("-".to_string(), spooled)]));
        let (mut one, mut two) = (store.open("-").unwrap(), store.open("-").unwrap());
        two.start_at(6).unwrap();
        let mut four = [0; 4];
        one.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"0123");
        two.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"6789");
        assert_eq!(two.read(&mut four).unwrap(), 0);
    }
}
