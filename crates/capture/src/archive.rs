//! Zip archives, read in place.
//!
//! path of an archive ─▶ **archive** ─▶ members by name, readers that inflate and verify
//!
//! Supports stored and deflated members. Nothing is unpacked to disk. Length and checksum are verified when the last
//! byte is read. Members whose names point outside the archive are dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use zip::CompressionMethod;

use crate::error::Error;
use crate::lookup::{Lookup, path_components};
use crate::note::{Location, Note, NoteKind};

/// Index of an archive. Names are relative to the folder of the capture.
#[derive(Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    members: BTreeMap<String, Result<Member, String>>,
    by_lower_case: BTreeMap<String, String>,
}

/// Location and compression of a member.
#[derive(Debug, Clone)]
struct Member {
    start: u64,
    packed_size: u64,
    size: u64,
    crc: u32,
    deflated: bool,
}

impl Archive {
    /// Reads the index. The notes list the members that are ignored.
    pub(crate) fn read(path: &Path) -> Result<(Self, Vec<Note>), Error> {
        let failed = |error: zip::result::ZipError| Error::Zip { path: path.to_path_buf(), reason: error.to_string() };
        let file = File::open(path).map_err(Error::io(path))?;
        let mut zip = zip::ZipArchive::new(file).map_err(failed)?;
        let mut archive = Self { path: path.to_path_buf(), members: BTreeMap::new(), by_lower_case: BTreeMap::new() };
        let mut notes = Vec::new();
        for index in 0..zip.len() {
            archive.add(&mut zip, index, &mut notes);
        }
        if zip.has_duplicate_names() {
            let text = "the archive has several members with the same name; the last one is used";
            notes.push(Location::file(&path.to_string_lossy()).note(NoteKind::Duplicate, text));
        }
        archive.index_names();
        Ok((archive, notes))
    }

    /// The folders nearest to the root that contain a file with one of these names.
    pub(crate) fn folders_with(&self, names: &[&str]) -> BTreeSet<String> {
        let holds = |name: &&String| {
            let file = name.rsplit('/').next().unwrap_or_default();
            names.iter().any(|wanted| file.eq_ignore_ascii_case(wanted))
        };
        let depth = |name: &str| name.matches('/').count();
        let nearest = self.members.keys().filter(holds).map(|name| depth(name)).min();
        let found = self.members.keys().filter(holds).filter(|name| Some(depth(name)) == nearest);
        found.map(|name| name.rsplit_once('/').map_or("", |(folder, _)| folder).to_string()).collect()
    }

    /// Drops the members outside this folder and strips the folder from the names of the others.
    pub(crate) fn enter(&mut self, folder: &str) {
        if folder.is_empty() {
            return;
        }
        let prefix = format!("{folder}/");
        let members = std::mem::take(&mut self.members);
        let below = members.into_iter().filter_map(|(name, m)| Some((name.strip_prefix(&prefix)?.to_string(), m)));
        self.members = below.collect();
        self.index_names();
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Finds a member by its normalized name (forward slashes, no `.` or `..`).
    pub(crate) fn find(&self, name: &str) -> Lookup {
        let exact = self.members.get_key_value(name);
        let by_case = || self.by_lower_case.get(&name.to_ascii_lowercase()).and_then(|n| self.members.get_key_value(n));
        match exact.or_else(by_case) {
            None => Lookup::Missing,
            Some((_, Err(reason))) => Lookup::Unusable(reason.clone()),
            Some((stored, Ok(member))) => {
                Lookup::File { name: stored.clone(), size: member.size, exact: exact.is_some() }
            }
        }
    }

    /// Opens a member by the name that [`find`](Archive::find) returned.
    pub(crate) fn open(&self, name: &str) -> Result<MemberReader, Error> {
        let member = match self.members.get(name) {
            Some(Ok(member)) => member,
            Some(Err(reason)) => return Err(Error::Unusable { name: name.to_string(), reason: reason.clone() }),
            None => return Err(Error::MissingFile { name: name.to_string() }),
        };
        let mut file = File::open(&self.path).map_err(Error::io(&self.path))?;
        file.seek(SeekFrom::Start(member.start)).map_err(Error::io(&self.path))?;
        Ok(MemberReader::new(file.take(member.packed_size), member))
    }

    fn add(&mut self, zip: &mut zip::ZipArchive<File>, index: usize, notes: &mut Vec<Note>) {
        let listed = zip.name_for_index(index).and_then(Result::ok).map(std::borrow::Cow::into_owned);
        let archive = self.path.to_string_lossy().into_owned();
        let Some(listed) = listed else {
            notes.push(
                Location::file(&archive).note(NoteKind::Unreadable, format!("the name of member {index} is not text")),
            );
            return;
        };
        if listed.ends_with(['/', '\\']) {
            return;
        }
        let Some(name) = safe_name(&listed) else {
            let text = "the name points outside the archive; the member is ignored";
            notes.push(Location::file(&listed).note(NoteKind::OutsidePackage, text));
            return;
        };
        let member = Member::read(zip, index);
        if let Err(reason) = &member {
            notes.push(Location::file(&name).note(NoteKind::Unreadable, format!("{reason}; the member is ignored")));
        }
        self.members.insert(name, member);
    }

    fn index_names(&mut self) {
        let lower = self.members.keys().rev().map(|name| (name.to_ascii_lowercase(), name.clone()));
        self.by_lower_case = lower.collect();
    }
}

impl Member {
    fn read(zip: &mut zip::ZipArchive<File>, index: usize) -> Result<Self, String> {
        let file = zip.by_index_raw(index).map_err(|error| error.to_string())?;
        if file.encrypted() {
            return Err("encrypted".to_string());
        }
        if file.is_symlink() {
            return Err("a symbolic link".to_string());
        }
        let deflated = match file.compression() {
            CompressionMethod::Stored => false,
            CompressionMethod::Deflated => true,
            other => return Err(format!("the compression method {other} is not supported")),
        };
        let start = file.data_start().ok_or("its offset in the archive is unknown")?;
        Ok(Self { start, packed_size: file.compressed_size(), size: file.size(), crc: file.crc32(), deflated })
    }
}

/// Reader of one member that verifies its length and checksum.
#[derive(Debug)]
pub(crate) struct MemberReader {
    body: Packed,
    hasher: crc32fast::Hasher,
    left: u64,
    crc: u32,
}

#[derive(Debug)]
enum Packed {
    Stored(io::Take<File>),
    Deflated(DeflateDecoder<io::Take<File>>),
}

impl MemberReader {
    fn new(bytes: io::Take<File>, member: &Member) -> Self {
        let body = if member.deflated { Packed::Deflated(DeflateDecoder::new(bytes)) } else { Packed::Stored(bytes) };
        Self { body, hasher: crc32fast::Hasher::new(), left: member.size, crc: member.crc }
    }

    /// Accounts for bytes that were read. The checksum is compared with the last byte rather than at the end of file:
    /// a caller who knows the length may never read again.
    fn check(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        if length > self.left {
            return Err(damaged("longer than its recorded size"));
        }
        if length == 0 && self.left > 0 {
            return Err(damaged("shorter than its recorded size"));
        }
        self.left -= length;
        self.hasher.update(bytes);
        if self.left == 0 && self.hasher.clone().finalize() != self.crc {
            return Err(damaged("the checksum does not match"));
        }
        Ok(())
    }
}

impl Read for MemberReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = match &mut self.body {
            Packed::Stored(bytes) => bytes.read(buffer),
            Packed::Deflated(bytes) => bytes.read(buffer),
        }?;
        self.check(&buffer[..read])?;
        Ok(read)
    }
}

/// The name with forward slashes; `None` for names that are empty, absolute or contain `..`.
fn safe_name(listed: &str) -> Option<String> {
    let climbs = listed.split(['/', '\\']).any(|part| part == "..");
    let path = path_components(listed).filter(|path| !climbs && !path.is_empty())?;
    Some(path.join("/"))
}

fn damaged(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged member of a zip archive: {reason}"))
}
