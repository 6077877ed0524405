//! Zip archives: any bytes open or are refused, and no member decompresses to more bytes than possible.
//!
//! Input: byte 0 selects. 0: the rest is the archive. 1 and more: one of our own archives is changed. Three bytes per change:
//! an offset (little-endian, from the end, where the index is) and the number to add.

use std::fs;
use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

use unspool_capture::Capture;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use crate::setup::byte;
use crate::walk::{scratch, sizes, walk};

/// Maximum number of bytes that deflate packs into one.
const MAX_RATIO: u64 = 1032;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let archive = match byte(&mut data) {
        0 => data.to_vec(),
        1 => changed(archive().to_vec(), data),
        _ => changed(package().to_vec(), data),
    };
    let path = path();
    fs::write(path, &archive).expect("a file");
    let Ok(capture) = Capture::open(path) else { return };
    assert!(capture.in_zip, "a file called .zip is an archive");
    walk(&capture);
    read_everything(&capture, archive.len() as u64);
}

/// No file has more bytes than can be packed into the archive, whatever the index contains.
fn read_everything(capture: &Capture, archive: u64) {
    let max = archive * MAX_RATIO + MAX_RATIO;
    let named = capture.buffers.iter().flat_map(|buffer| &buffer.files).filter(|file| file.size.is_some());
    for file in named.take(16) {
        let mut reader = capture.open_file(&file.name).expect("a member that was found opens");
        let read = std::io::copy(&mut reader, &mut std::io::sink());
        assert!(read.as_ref().map_or(true, |read| *read <= max), "{read:?} bytes from {archive}");
        assert!(read.as_ref().map_or(true, |read| Some(*read) == file.size), "{read:?} bytes, not {:?}", file.size);
    }
    assert!(sizes(capture).count() < archive as usize, "more files than the archive can name");
}

fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| scratch("zip").join("capture.zip"))
}

fn changed(mut archive: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(3) {
        let from_end = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let Some(at) = archive.len().checked_sub(1 + from_end) else { continue };
        archive[at] = archive[at].wrapping_add(change[2]);
    }
    archive
}

/// A snapshot in a folder, stored and deflated.
pub fn archive() -> &'static [u8] {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let trace: Vec<u8> = (0..=255).cycle().take(1000).collect();
        pack(&[
            ("in/snapshot.ini", b"[device_list]\nd=d.ini\nc=c.ini\n[trace]\nmetadata=t.ini\n"),
            ("in/d.ini", b"[device]\nname=E\nclass=trace_source\ntype=ETE\n[regs]\nTRCTRACEIDR=5\n"),
            ("in/c.ini", b"[device]\nname=C\nclass=core\ntype=A\n[dump]\nfile=x\naddress=0\n"),
            ("in/t.ini", b"[trace_buffers]\nbuffers=b\n[b]\nname=B\nfile=x.bin,x\nformat=coresight\nwrapped=1\nwrite_pointer=256\n[source_buffers]\nE=B\n[core_trace_sources]\nC=E\n"),
            ("in/x.bin", &trace),
            ("in/x", b"0123456789abcdef"),
        ])
    })
}

/// A package at the root, and a member that inflates to much more than it is.
pub fn package() -> &'static [u8] {
    static PACKAGE: OnceLock<Vec<u8>> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        pack(&[
            ("contents.ini", b"[trace]\nmetadata=t.ini\nbuffer0=zeros.bin\nbuffer1=empty,zeros.bin\n"),
            ("t.ini", b"[buffer]\nformat: dstream_coresight\n[trace_16]\nformat: ETM4\n[trace_17]\nformat: ETE\n"),
            ("zeros.bin", &[0; 100_000]),
            ("empty", b""),
        ])
    })
}

/// Members whose names end in `.bin` are deflated.
fn pack(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let method = if name.ends_with(".bin") { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(*name, options).expect("a member");
        zip.write_all(bytes).expect("its bytes");
    }
    zip.finish().expect("an archive").into_inner()
}
