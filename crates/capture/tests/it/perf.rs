//! Recordings of perf that the tests write, opened as a user would.
#![allow(clippy::unwrap_used, clippy::panic)]

mod corpus;
mod damage;
mod forms;
mod reference;
mod units;

use std::fs;
use std::io::Read;
use std::path::Path;

use tempfile::TempDir;
use unspool_capture::Capture;
use unspool_coresight::frame::Formatter;
use unspool_testing::perf::{ETM4, Event, PerfWriter, Trailer};

/// Registers of an ETMv4: TRCCONFIGR, TRCTRACEIDR, TRCIDR0, 1, 2 and 8, TRCAUTHSTATUS.
const fn etm4(id: u64) -> [u64; 7] {
    [0x40, id, 0x2800_0ea1, 0x4100_f422, 0x2000_1088, 0, 0x8c]
}

/// The stream of a trace unit: synchronization, trace info, trace on, an address with 64 bits, atoms.
fn stream(address: u64) -> Vec<u8> {
    let mut bytes = vec![0; 11];
    bytes.extend([0x80, 0x01, 0x00, 0x04]);
    bytes.push(0x9d);
    // Two groups of seven bits, then whole bytes.
    bytes.extend([(address >> 2 & 0x7f) as u8, (address >> 9 & 0x7f) as u8]);
    bytes.extend(&address.to_le_bytes()[2..8]);
    bytes.extend([0xf7, 0xf6, 0xf7, 0xf7]);
    bytes
}

/// The frames of a stream.
fn frames(id: u8, stream: &[u8]) -> Vec<u8> {
    let mut formatter = Formatter::new();
    formatter.push(id, stream);
    formatter.finish()
}

/// The trailer of the trace event on a CPU at a time.
fn trace_event(cpu: u32, time: u64) -> Trailer {
    Trailer { event: 0, thread: (100, 101), time, cpu, id: if cpu == 3 { 78 } else { 79 } }
}

/// The trailer of the event about processes.
fn process_event(cpu: u32, time: u64) -> Trailer {
    Trailer { event: 1, id: if time == 0 { 0 } else { 80 }, ..trace_event(cpu, time) }
}

/// A recording of CPUs 3 and 7 without any record yet.
fn writer(is_big_endian: bool) -> PerfWriter {
    PerfWriter::new(is_big_endian, &[Event::trace(&[78, 79]), Event::dummy(&[80, 81])])
}

/// The records before the first of the kernel: description of the units, and what existed before.
fn start(file: &mut PerfWriter) {
    file.info(1, &[(ETM4, 3, &etm4(0x16)), (ETM4, 7, &etm4(0x1e))]);
    file.mmap2(100, 0x40_0000, 0x1000, 0, "/bin/main", process_event(0, 0));
    let comm = [file.halves(&[100, 101]), unspool_testing::perf::name("main")].concat();
    file.kernel(3, 0, &comm, process_event(0, 0));
}

/// Two sessions of CPU 7, with one of CPU 3 in between.
fn sessions_of_7(file: &mut PerfWriter) {
    let (one, two) = (frames(0x1e, &stream(0x40_0100)), frames(0x1e, &stream(0x40_0200)));
    let start = file.halves(&[100, 101]);
    file.kernel(12, 0, &start, trace_event(7, 1000));
    file.mmap2(100, 0x7f00_0000, 0x2000, 0x1000, "/lib/libc.so", process_event(7, 1100));
    file.aux(0, one.len() as u64, 0, trace_event(7, 2000));
    file.aux(one.len() as u64, two.len() as u64, 0, trace_event(7, 4000));
    file.auxtrace(7, u32::MAX, 0, &[one, two].concat());
    file.tool(68, 0, &[]);
}

fn session_of_3(file: &mut PerfWriter) {
    let trace = frames(0x16, &stream(0x40_0300));
    file.aux(0x1000, trace.len() as u64, 0, trace_event(3, 3000));
    file.auxtrace(3, u32::MAX, 0x1000, &trace);
    file.tool(68, 0, &[]);
}

/// The whole recording.
fn recording(is_big_endian: bool) -> PerfWriter {
    let mut file = writer(is_big_endian);
    let arch = file.string("aarch64");
    file.feature(6, arch);
    start(&mut file);
    sessions_of_7(&mut file);
    session_of_3(&mut file);
    file
}

/// Opens the bytes of a file.
fn open(bytes: &[u8]) -> (TempDir, Capture) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    fs::write(&path, bytes).unwrap();
    let capture = Capture::open(&path).unwrap();
    (dir, capture)
}

fn open_error(bytes: &[u8], name: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    Capture::open(Path::new(&path)).unwrap_err().to_string()
}

/// Name, format, bytes and sources of each buffer.
fn buffers(capture: &Capture) -> Vec<(String, bool, Vec<u8>, Vec<String>)> {
    let sources = |buffer: usize| {
        let inside = capture.sources.iter().filter(|source| source.buffers.contains(&buffer));
        inside.map(|source| source.name.clone()).collect()
    };
    let buffer = |index: usize| {
        let found = &capture.buffers[index];
        let mut bytes = Vec::new();
        capture.reader(index).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, found.len());
        (found.name.clone(), found.format.is_formatted(), bytes, sources(index))
    };
    (0..capture.buffers.len()).map(buffer).collect()
}

/// The buffers of the whole recording.
fn expected_buffers() -> Vec<(String, bool, Vec<u8>, Vec<String>)> {
    let row = |name: &str, id, address| {
        let both = vec!["cpu3".to_string(), "cpu7".to_string()];
        (name.to_string(), true, frames(id, &stream(address)), both)
    };
    vec![row("cpu7-0", 0x1e, 0x40_0100), row("cpu3-0", 0x16, 0x40_0300), row("cpu7-1", 0x1e, 0x40_0200)]
}

fn notes(capture: &Capture) -> Vec<String> {
    capture.notes.iter().map(ToString::to_string).collect()
}
