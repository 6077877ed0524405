//! Properties of an opened capture, and of the bytes of its buffers.
//!
//! Used for captures in directories and in archives. Reading is limited, since a small package may list one file many times.

use std::io::Read;
use std::path::{Path, PathBuf};

use unspool_capture::{Buffer, Capture};

/// Maximum number of bytes that are read of one buffer or file.
pub const MAX_READ: u64 = 1 << 22;
/// Maximum number of buffers, and of images, that are read.
const MAX_BUFFERS: usize = 16;

/// A directory of this process that every input uses again; in memory if possible.
pub fn scratch(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let path = parent.join(format!("unspool-fuzz-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a scratch directory");
    path
}

/// Sizes of all files of the capture.
pub fn sizes(capture: &Capture) -> impl Iterator<Item = u64> {
    let files = capture.buffers.iter().flat_map(|buffer| &buffer.files).filter_map(|file| file.size);
    let images = images(capture).filter_map(|(_, size)| size);
    files.chain(images).chain(capture.event_log.iter().filter_map(|log| log.size))
}

/// Checks that indexes are valid, and that every reader ends where it should.
pub fn walk(capture: &Capture) {
    check_indexes(capture);
    capture.notes.iter().for_each(|note| assert!(!note.to_string().is_empty()));
    for (index, buffer) in capture.buffers.iter().enumerate().take(MAX_BUFFERS) {
        check_buffer(capture, index, buffer);
    }
    for (name, size) in images(capture).take(MAX_BUFFERS) {
        let Ok(bytes) = capture.read_file(name, MAX_READ) else { continue };
        assert_eq!(Some(bytes.len() as u64), size, "the size of the image {name:?}");
    }
    assert!(capture.reader(capture.buffers.len()).is_err(), "there is no such buffer");
}

fn images(capture: &Capture) -> impl Iterator<Item = (&str, Option<u64>)> {
    let of_cores = capture.cores.iter().flat_map(|core| &core.images);
    let images = of_cores.chain(capture.devices.iter().flat_map(|device| &device.images));
    images.map(|image| (image.file.as_str(), image.size))
}

fn check_indexes(capture: &Capture) {
    for (index, source) in capture.sources.iter().enumerate() {
        assert!(source.buffers.is_sorted_by(|a, b| a < b), "buffers of {source:?} are not in order");
        assert!(source.buffers.last().is_none_or(|&last| last < capture.buffers.len()), "{source:?}");
        assert!(source.id.is_none_or(|id| id < 0x80), "{source:?}");
        let watched = source.core.map(|core| &capture.cores[core]);
        assert!(watched.is_none_or(|core| core.sources.contains(&index)), "{source:?} is unknown to its core");
    }
    for (index, core) in capture.cores.iter().enumerate() {
        let knows = |source: &usize| capture.sources[*source].core == Some(index);
        assert!(core.sources.iter().all(knows), "{core:?} has sources of other cores");
    }
    let streams = capture.streams();
    let count = capture.sources.iter().map(|source| source.buffers.len()).sum::<usize>();
    assert_eq!(streams.len(), count, "streams are missing or doubled");
    let inside = |buffer: usize, source: usize| capture.sources[source].buffers.contains(&buffer);
    assert!(streams.iter().all(|stream| inside(stream.buffer, stream.source)), "{streams:?}");
}

/// Checks that a reader returns as many bytes as it has; a damaged archive member may return an error earlier.
fn check_buffer(capture: &Capture, index: usize, buffer: &Buffer) {
    let Ok(reader) = capture.reader(index) else { return };
    assert_eq!(reader.len(), buffer.len(), "{buffer:?}");
    let mut bytes = Vec::new();
    let result = reader.take(MAX_READ).read_to_end(&mut bytes);
    let (read, wanted) = (bytes.len() as u64, buffer.len().min(MAX_READ));
    match result {
        Ok(_) => assert_eq!(read, wanted, "{buffer:?}"),
        Err(error) => assert!(capture.in_zip && read <= wanted, "{buffer:?}: {error}"),
    }
    for offset in [0, 1, read / 2, read.saturating_sub(1)].into_iter().filter(|offset| *offset < read) {
        check_offset(capture, buffer, offset, bytes[offset as usize]);
    }
    assert_eq!(buffer.file_offset(buffer.len()), None, "{buffer:?} has a byte after its end");
    assert_eq!(buffer.file_offset(u64::MAX), None, "{buffer:?} has a byte at the highest offset");
}

/// Checks that a byte is at its file offset.
fn check_offset(capture: &Capture, buffer: &Buffer, offset: u64, byte: u8) {
    let position = buffer.file_offset(offset).expect("a byte that was read has an offset");
    let Ok(file) = capture.read_file(&buffer.files[position.file].name, MAX_READ) else { return };
    assert_eq!(file.get(position.offset as usize), Some(&byte), "byte {offset} of {buffer:?} is not at {position:?}");
}
