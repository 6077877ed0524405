//! Trace units and the sessions that they are in.

use unspool_capture::perf::{Absent, PerfData};
use unspool_capture::{BufferFormat, NoteKind};
use unspool_coresight::Protocol;
use unspool_testing::perf::{ETE, ETM3};

use super::*;

/// Name, protocol, trace ID and buffers.
type Described = (String, Option<Protocol>, Option<u8>, Vec<usize>);

fn sources(capture: &Capture) -> Vec<Described> {
    let source = |it: &unspool_capture::Source| (it.name.clone(), it.protocol, it.id, it.buffers.clone());
    capture.sources.iter().map(source).collect()
}

#[test]
fn units_of_every_version() {
    let ete: [u64; 9] = [0x40, 0x18, 0x2800_0ea1, 0x4100_f422, 0x2000_1088, 0, 0x8c, 0x4771_5a13, 1];
    let etm4_as_ete: [u64; 8] = [0x40, 0x1a, 0x2800_0ea1, 0x4100_f422, 0x2000_1088, 0, 0x8c, 0x4772_4a13];
    let etm3 = [0x400, 0x12, 1, 0x411c_f250];
    let ptm = [0x400, 0x14, 1, 0x411c_f312];
    for version in [0, 1, 2] {
        let mut units: Vec<(u64, u64, &[u64])> =
            vec![(ETM4, 7, &[0x40, 0x1e, 0x2800_0ea1, 2, 3, 4, 5]), (ETM3, 0, &etm3), (ETM3, 100, &ptm)];
        let mut expected =
            vec![("cpu7", Protocol::Etm4, 0x1e), ("cpu0", Protocol::Etm3, 0x12), ("cpu100", Protocol::Ptm, 0x14)];
        if version > 0 {
            units.extend([(ETE, 2, &ete[..]), (ETE, 3, &etm4_as_ete[..])]);
            expected.extend([("cpu2", Protocol::Ete, 0x18), ("cpu3", Protocol::Etm4, 0x1a)]);
        }
        let mut file = writer(false);
        file.info(version, &units);
        file.aux(0, 16, 0, trace_event(7, 10));
        file.auxtrace(7, u32::MAX, 0, &[0; 16]);
        let (_dir, capture) = open(&file.file());
        let expected =
            expected.into_iter().map(|(name, protocol, id)| (name.to_string(), Some(protocol), Some(id), vec![0]));
        assert_eq!(sources(&capture), expected.collect::<Vec<_>>(), "{version}");
        assert_eq!(notes(&capture), [""; 0], "{version}");
    }
}

/// Two units whose registers have no usable ID.
fn with_hardware_ids(ids: &[(u32, u64)]) -> Vec<u8> {
    let mut file = writer(false);
    file.info(2, &[(ETM4, 3, &etm4(0x7f)), (ETM4, 7, &etm4(0x7f)), (ETM4, 9, &etm4(0x7f))]);
    file.aux(0, 32, 0, trace_event(7, 20));
    file.auxtrace(7, u32::MAX, 0, &[0; 32]);
    for (cpu, id) in ids {
        let body = file.words(&[*id]);
        file.kernel(21, 0, &body, trace_event(*cpu, 10));
    }
    file.file()
}

#[test]
fn the_kernel_reports_trace_ids() {
    let minor1 = |sink: u64, id: u64| 1 << 56 | sink << 8 | id;
    // name, CPUs and IDs; ID and buffers of each source
    type Row<'a> = (&'a str, &'a [(u32, u64)], [(Option<u8>, &'a [usize]); 3]);
    let rows: &[Row<'_>] = &[
        ("none", &[], [(None, &[]), (None, &[]), (None, &[])]),
        ("unique IDs", &[(3, 0x20), (7, 0x21)], [(Some(0x20), &[0]), (Some(0x21), &[0]), (None, &[])]),
        (
            "IDs of sinks",
            &[(3, minor1(5, 0x20)), (7, minor1(6, 0x20)), (9, minor1(6, 0x21))],
            [(Some(0x20), &[]), (Some(0x20), &[0]), (Some(0x21), &[0])],
        ),
    ];
    for (name, ids, expected) in rows {
        let (_dir, capture) = open(&with_hardware_ids(ids));
        let found: Vec<_> = capture.sources.iter().map(|it| (it.id, &it.buffers[..])).collect();
        assert_eq!(found, expected, "{name}");
    }
    let (_dir, capture) = open(&with_hardware_ids(&[(7, 0x20), (7, 0x21), (8, 0x22)]));
    let text = notes(&capture).join("\n");
    assert!(text.contains("CPU 7 has another trace ID (0x21); the first is used"), "{text}");
    assert!(text.contains("CPU 8 has a trace ID but no trace unit"), "{text}");
}

#[test]
fn raw_trace_belongs_to_its_cpu() {
    let mut file = writer(false);
    start(&mut file);
    let trace = stream(0x40_0100);
    file.aux(0, trace.len() as u64, 0x100, trace_event(7, 20));
    file.auxtrace(7, u32::MAX, 0, &trace);
    file.aux(0, trace.len() as u64, 0x100, trace_event(9, 30));
    file.auxtrace(9, u32::MAX, 0, &trace);
    let (_dir, capture) = open(&file.file());
    assert_eq!(capture.buffers[0].format, BufferFormat::Raw);
    let found = buffers(&capture);
    assert_eq!(found[0], ("cpu7-0".to_string(), false, trace.clone(), vec!["cpu7".to_string()]));
    assert_eq!(found[1], ("cpu9-0".to_string(), false, trace, vec![]));
    assert!(capture.notes.iter().any(|note| note.kind == NoteKind::UnknownName && note.text.contains("cpu9")));
}

#[test]
fn sessions_that_lack_something() {
    // offset, size and flags of an AUX record of CPU 7, which has 0x100 bytes from 0x1000
    type Row<'a> = (u64, u64, u64, Option<u64>, Option<Absent>, &'a [(NoteKind, &'a str)]);
    let rows: &[Row<'_>] = &[
        (0x1000, 0x100, 0, Some(0x100), None, &[]),
        (0x1000, 0, 0, None, Some(Absent::Empty), &[(NoteKind::NoTrace, "nothing was traced")]),
        (0x1000, 0x40, 1, Some(0x40), None, &[(NoteKind::TraceLost, "the buffer was full")]),
        (0x1000, 0x40, 4, Some(0x40), None, &[(NoteKind::TraceLost, "may be missing")]),
        (0x1000, 0x40, 8, Some(0x40), None, &[(NoteKind::TraceLost, "collision")]),
        (0x10c0, 0x80, 0, Some(0x40), None, &[(NoteKind::TraceAbsent, "64 of 128 bytes of trace are not in the file")]),
        (0x2000, 0x40, 0, None, Some(Absent::NotRecorded), &[(NoteKind::TraceAbsent, "announced and not in the file")]),
        // A snapshot ends at its offset, and has no more than was stored.
        (0x1100, 0x1000, 2, Some(0x100), None, &[]),
        (0x1100, 0x20, 2, Some(0x20), None, &[]),
    ];
    for (offset, size, flags, length, absent, expected) in rows {
        let mut file = writer(false);
        start(&mut file);
        file.auxtrace(7, u32::MAX, 0x1000, &[0x11; 0x100]);
        file.aux(*offset, *size, *flags, trace_event(7, 20));
        let bytes = file.file();
        let data = PerfData::read(std::io::Cursor::new(&bytes)).unwrap().unwrap();
        let session = data.sessions.iter().find(|session| !session.is_unannounced).unwrap();
        assert_eq!((session.absent, session.time), (*absent, Some(20)), "{offset:#x} {size:#x} {flags}");
        let (_dir, capture) = open(&bytes);
        let found = capture.buffers.first().filter(|_| absent.is_none()).map(unspool_capture::Buffer::len);
        assert_eq!(found, *length, "{offset:#x} {size:#x} {flags}");
        let notes: Vec<_> = capture.notes.iter().filter(|note| note.kind != NoteKind::Assumed).collect();
        assert_eq!(notes.len(), expected.len(), "{notes:?}");
        for (note, (kind, text)) in notes.iter().zip(*expected) {
            assert!(note.kind == *kind && note.text.contains(text), "{note:?}");
            assert_eq!(note.offset, Some(session.offset));
        }
    }
}

#[test]
fn trace_without_records_about_it() {
    let mut file = writer(false);
    start(&mut file);
    file.auxtrace(7, u32::MAX, 0, &frames(0x1e, &stream(0x1000)));
    let (_dir, capture) = open(&file.file());
    assert_eq!(buffers(&capture)[0].2, frames(0x1e, &stream(0x1000)));
    assert!(notes(&capture)[0].contains("that no AUX record announces is assumed to be formatted"));
    // The opposite: records about trace that was lost.
    let mut file = writer(false);
    start(&mut file);
    file.aux(0, 64, 0, trace_event(7, 20));
    let (_dir, capture) = open(&file.file());
    assert!(capture.buffers.is_empty());
    assert!(notes(&capture)[0].contains("cpu7: 64 bytes of trace are announced, and the file has none"));
}

#[test]
fn the_buffer_of_a_thread() {
    let trace = frames(0x1e, &stream(0x1000));
    let mut file = writer(false);
    start(&mut file);
    file.aux(0, trace.len() as u64, 0, trace_event(7, 20));
    file.auxtrace(u32::MAX, 101, 0, &trace);
    let (_dir, capture) = open(&file.file());
    let both = vec!["cpu3".to_string(), "cpu7".to_string()];
    assert_eq!(buffers(&capture), [("thread101-0".to_string(), true, trace, both)]);
    assert_eq!(notes(&capture), [""; 0]);
}

#[test]
fn other_recordings_are_refused() {
    let mut samples = writer(false);
    let spe = samples.words(&[4, 0]);
    samples.tool(70, 0, &spe);
    let rows = [
        (samples.file(), "without CoreSight trace"),
        (writer(false).file(), "without CoreSight trace"),
        (b"PERFFILE".to_vec(), "neither a directory"),
        (b"PERFILE2".to_vec(), "without CoreSight trace"),
    ];
    for (bytes, text) in rows {
        let error = open_error(&bytes, "perf.data");
        assert!(error.contains(text), "{error}");
    }
}
