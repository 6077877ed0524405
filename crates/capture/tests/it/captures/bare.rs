//! Bare trace buffers.

use unspool_capture::{BareOptions, BufferFormat, Capture, Error, NoteKind, PackageFormat, Register};
use unspool_coresight::Protocol;

use super::{bytes, folder, has_note, sources};

#[test]
fn several_files_are_one_buffer() {
    let dir = folder(&[("a.bin", "first "), ("b.bin", "second")]);
    let mut options = BareOptions::raw(Protocol::Ete);
    options.registers.set(Register::new("TRCTRACEIDR", 7));
    let capture = Capture::bare(&[dir.path().join("a.bin"), dir.path().join("b.bin")], options).unwrap();
    assert_eq!((capture.format, capture.notes.len()), (PackageFormat::Bare, 0));
    assert_eq!((capture.buffers[0].name.as_str(), capture.buffers[0].format), ("a", BufferFormat::Raw));
    assert_eq!(sources(&capture), ["ete:7:[0]"]);
    assert_eq!(bytes(&capture, 0), b"first second");
    assert_eq!(bytes(&capture, 0), b"first second");
    let found = capture.buffers[0].file_offset(8).unwrap();
    assert_eq!((found.file, found.offset), (1, 2));
}

#[test]
fn circular_buffers_start_at_the_write_pointer() {
    let dir = folder(&[("a.bin", "345012")]);
    let rows = [
        (Some(3), Some(true), "012345", None),
        (Some(3), None, "012345", None),
        (Some(3), Some(false), "345", Some(NoteKind::Assumed)),
        (Some(6), Some(true), "345012", None),
        (Some(7), Some(true), "345012", Some(NoteKind::StartUnknown)),
        (None, Some(true), "345012", Some(NoteKind::StartUnknown)),
    ];
    for (write_pointer, wrapped, expected, note) in rows {
        let options = BareOptions { id: Some(9), write_pointer, wrapped, ..BareOptions::formatted(Protocol::Etm4) };
        let capture = Capture::bare(&[dir.path().join("a.bin")], options).unwrap();
        assert_eq!(bytes(&capture, 0), expected.as_bytes(), "{write_pointer:?} {wrapped:?}");
        assert_eq!(capture.notes.last().map(|note| note.kind), note, "{write_pointer:?} {wrapped:?}");
        assert_eq!(has_note(&capture, NoteKind::BadValue, "write pointer 0x7"), write_pointer == Some(7));
        assert_eq!(sources(&capture), ["etm4:9:[0]"]);
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error() {
    let dir = folder(&[("a.bin", "")]);
    let options = || BareOptions::raw(Protocol::Itm);
    assert!(matches!(Capture::bare(&[dir.path().join("gone")], options()), Err(Error::Io { .. })));
    assert!(matches!(Capture::bare(&[dir.path()], options()), Err(Error::NotACapture { .. })));
    assert!(matches!(Capture::bare::<&str>(&[], options()), Err(Error::NotACapture { .. })));
    assert!(bytes(&Capture::bare(&[dir.path().join("a.bin")], options()).unwrap(), 0).is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_can_be_read_twice() {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"from a pipe").unwrap();
    drop(writer);
    let path = format!("/dev/fd/{}", reader.as_raw_fd());
    let capture = Capture::bare(&[path], BareOptions::raw(Protocol::Stm)).unwrap();
    assert_eq!(bytes(&capture, 0), b"from a pipe");
    assert_eq!(bytes(&capture, 0), b"from a pipe");
}
