//! Captures that the tests write to disk and open through the public interface.
#![allow(clippy::unwrap_used)]

mod bare;
mod buffers;
mod packages;
mod packed;
mod saved;
mod snapshots;
mod zips;

use std::fs;
use std::io::Read;
use std::path::Path;

use tempfile::TempDir;
use unspool_capture::{Capture, NoteKind};

/// A directory with these files.
fn folder<B: AsRef<[u8]>>(files: &[(&str, B)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        put(dir.path(), name, bytes);
    }
    dir
}

fn put(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// The capture in a new directory with these files. The directory exists as long as the pair.
fn open<B: AsRef<[u8]>>(files: &[(&str, B)]) -> (TempDir, Capture) {
    let dir = folder(files);
    let capture = Capture::open(dir.path()).unwrap();
    (dir, capture)
}

pub(crate) fn bytes(capture: &Capture, buffer: usize) -> Vec<u8> {
    let mut reader = capture.reader(buffer).unwrap();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!(reader.len(), bytes.len() as u64);
    bytes
}

/// The notes, one per line.
fn notes(capture: &Capture) -> String {
    capture.notes.iter().map(|note| format!("{note}\n")).collect()
}

fn has_note(capture: &Capture, kind: NoteKind, text: &str) -> bool {
    capture.notes.iter().any(|note| note.kind == kind && note.to_string().contains(text))
}

/// Name, trace ID and buffers of each source: `ETM_0:10:[0]` has ID 0x10 and is in buffer 0.
fn sources(capture: &Capture) -> Vec<String> {
    let id = |id: Option<u8>| id.map_or("-".to_string(), |id| format!("{id:x}"));
    capture.sources.iter().map(|s| format!("{}:{}:{:?}", s.name, id(s.id), s.buffers)).collect()
}

fn etm(name: &str, id: u8) -> String {
    format!("[device]\nname={name}\nclass=trace_source\ntype=ETM4.2\n[regs]\nTRCTRACEIDR={id:#x}\n")
}

fn cpu(name: &str) -> String {
    format!("[device]\nname={name}\nclass=core\ntype=Cortex-A53\n[regs]\nPC(size:64)=0x80000\n")
}

/// The main file for these devices.
fn snapshot_ini(devices: &[&str]) -> String {
    let list: String = devices.iter().enumerate().map(|(n, file)| format!("device{n}={file}\n")).collect();
    format!("[snapshot]\nversion=1.0\n\n[device_list]\n{list}\n[trace]\nmetadata=trace.ini\n")
}
