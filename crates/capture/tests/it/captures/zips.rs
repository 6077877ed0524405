//! Packages inside zip archives, intact and damaged.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use unspool_capture::{Capture, Error, NoteKind, PackageFormat};
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use super::{bytes, etm, has_note, notes, snapshot_ini, sources};

const TRACE: &str = "[trace_buffers]\nbuffers=buffer0\n[buffer0]\nname=ETB\nfile=etb.bin\nformat=coresight\n\
                     wrapped=1\nwrite_pointer=0x100\n[source_buffers]\nETM_0=ETB\n";

/// Members as a zip archive; those whose names end in `.bin` are deflated.
fn archive(files: &[(&str, Vec<u8>)]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("capture.zip");
    let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
    for (name, bytes) in files {
        let method = if name.ends_with(".bin") { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
    (dir, path)
}

/// A snapshot below a folder. Its circular buffer has its oldest byte at offset 0x100.
fn snapshot(folder: &str) -> Vec<(String, Vec<u8>)> {
    let trace: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let files = [
        ("snapshot.ini", snapshot_ini(&["etm.ini"]).into_bytes()),
        ("etm.ini", etm("ETM_0", 5).into_bytes()),
        ("trace.ini", TRACE.as_bytes().to_vec()),
        ("etb.bin", trace),
    ];
    files.map(|(name, bytes)| (format!("{folder}{name}"), bytes)).to_vec()
}

fn zip_of(files: &[(String, Vec<u8>)]) -> (TempDir, PathBuf) {
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    archive(&files)
}

#[test]
fn the_package_may_be_in_a_folder() {
    for folder in ["", "capture/", "a/b/", "win\\"] {
        let (_dir, path) = zip_of(&snapshot(folder));
        let capture = Capture::open(&path).unwrap();
        assert_eq!(notes(&capture), "", "{folder}");
        assert_eq!((capture.format, capture.in_zip), (PackageFormat::Snapshot, true));
        assert_eq!(sources(&capture), ["ETM_0:5:[0]"]);
        let rotated: Vec<u8> = (0..=255).cycle().take(744).chain(0..=255).collect();
        assert_eq!(bytes(&capture, 0), rotated, "{folder}");
    }
}

#[test]
fn hostile_names_are_never_used() {
    let mut files = snapshot("in/");
    for name in ["../evil.bin", "/etc/evil", "C:\\evil", "in/../evil"] {
        files.push((name.to_string(), b"evil".to_vec()));
    }
    let (_dir, path) = zip_of(&files);
    let capture = Capture::open(&path).unwrap();
    for name in ["../evil.bin", "/etc/evil", "C:\\evil", "in/../evil"] {
        assert!(has_note(&capture, NoteKind::OutsidePackage, name), "{name}: {}", notes(&capture));
        assert!(capture.open_file(name).is_err(), "{name}");
    }
}

#[test]
fn archives_without_or_with_several_captures_are_refused() {
    let (_dir, none) = archive(&[("a.txt", b"a".to_vec())]);
    let error = Capture::open(&none).unwrap_err().to_string();
    assert!(error.contains("neither snapshot.ini nor contents.ini among 1 members"), "{error}");
    let (_dir, empty) = archive(&[]);
    assert!(matches!(Capture::open(&empty), Err(Error::NotACapture { .. })));
    let (_dir, two) = archive(&[("a/snapshot.ini", vec![]), ("b/contents.ini", vec![])]);
    let error = Capture::open(&two).unwrap_err().to_string();
    assert!(error.contains("several captures in one archive, `a` and 1 more"), "{error}");
}

/// Writes a changed copy of an archive.
fn changed(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn position(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).position(|window| window == wanted).unwrap()
}

#[test]
fn a_truncated_archive_is_an_error_at_every_length() {
    let (_dir, path) = zip_of(&snapshot(""));
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let error = Capture::open(&path).unwrap_err();
        assert!(matches!(error, Error::Zip { .. }), "{length}: {error}");
    }
}

#[test]
fn a_changed_byte_never_panics() {
    let (_dir, path) = zip_of(&snapshot(""));
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&path, &bytes).unwrap();
        if let Ok(capture) = Capture::open(&path) {
            for buffer in 0..capture.buffers.len() {
                let _ = capture.reader(buffer).map(|reader| reader.take(1 << 20).read_to_end(&mut Vec::new()));
            }
        }
    }
}

fn zip_with_image() -> (TempDir, PathBuf) {
    let mut files = snapshot("");
    files.push(("image".to_string(), b"the image".to_vec()));
    zip_of(&files)
}

#[test]
fn a_damaged_member_is_named() {
    let (_dir, path) = zip_with_image();
    changed(&path, |bytes| {
        let at = position(bytes, b"the image");
        bytes[at] = b'T';
    });
    let capture = Capture::open(&path).unwrap();
    let error = capture.read_file("image", 100).unwrap_err().to_string();
    assert!(error.contains("image") && error.contains("the checksum does not match"), "{error}");
    let mut exact = [0; 9];
    assert!(capture.open_file("image").unwrap().read_exact(&mut exact).is_err());
}

#[test]
fn encrypted_and_unsupported_members_are_noted() {
    // Offsets of the flags and of the method in a central directory header.
    for (offset, value, expected) in [(8, 1, "encrypted"), (10, 12, "is not supported")] {
        let (_dir, path) = zip_with_image();
        changed(&path, |bytes| {
            let name = bytes.len() - 22 - b"image".len();
            assert_eq!(&bytes[name..name + 5], b"image");
            let header = name - 46;
            assert_eq!(&bytes[header..header + 4], b"PK\x01\x02");
            bytes[header + offset] |= value;
        });
        let capture = Capture::open(&path).unwrap();
        assert!(has_note(&capture, NoteKind::Unreadable, expected), "{expected}: {}", notes(&capture));
        assert!(matches!(capture.open_file("image"), Err(Error::Unusable { .. })));
    }
}
