//! One recording in every form: byte orders, compression, pipes, directories, indexes.

use std::fs;
use std::time::{Duration, Instant};

use unspool_capture::perf::PerfData;
use unspool_capture::{
    Call, Capture, KERNEL, Mapping, NoteKind, PackageFormat, PatchCode, Placement, State, SystemEvent,
};
use unspool_testing::perf::{Compression, Event, Index, name};

use super::*;

/// What the operating system did in the recording. Places differ between forms.
fn expected_events() -> Vec<(Option<u64>, Call)> {
    let library = |state, image: &str, address, length, offset| {
        let placement = Placement::Part { address, length, offset };
        let mapping = Mapping { image: image.to_string(), build_id: String::new(), placement };
        Call::Library { state, pid: 100, mapping }
    };
    vec![
        (None, library(State::Current, "/bin/main", 0x40_0000, 0x1000, 0)),
        (None, Call::Thread { state: State::Current, tid: 101, pid: 100 }),
        (Some(1000), Call::Switch { core: 7, tid: 101 }),
        (Some(1100), library(State::Start, "/lib/libc.so", 0x7f00_0000, 0x2000, 0x1000)),
    ]
}

fn calls(events: &[SystemEvent]) -> Vec<(Option<u64>, Call)> {
    events.iter().map(|event| (event.time, event.call.clone())).collect()
}

#[test]
fn every_form_is_the_same_capture() {
    let (little, big) = (recording(false), recording(true));
    let with = |index, compression| {
        let mut file = little.clone();
        (file.index, file.compression) = (index, compression);
        file.file()
    };
    let mut compressed = big.clone();
    compressed.compression = Some(Compression::One);
    let rows = [
        ("little-endian", little.file()),
        ("big-endian", big.file()),
        ("index of simpleperf", with(Index::Bare, None)),
        ("no index", with(Index::None, None)),
        ("compressed", with(Index::Counted, Some(Compression::One))),
        ("compressed, second form", with(Index::Counted, Some(Compression::Two))),
        ("compressed, damaged sizes", with(Index::Counted, Some(Compression::TwoDamaged))),
        ("compressed, big-endian", compressed.file()),
        ("pipe", little.pipe()),
        ("pipe, big-endian", big.pipe()),
        ("pipe, compressed", compressed.pipe()),
    ];
    for (form, bytes) in rows {
        let (_dir, capture) = open(&bytes);
        assert_eq!(notes(&capture), [""; 0], "{form}");
        assert_eq!((capture.format, capture.in_zip), (PackageFormat::Perf, false), "{form}");
        assert_eq!(buffers(&capture), expected_buffers(), "{form}");
        assert_eq!(calls(&capture.events), expected_events(), "{form}");
        let sources: Vec<_> = capture.sources.iter().map(|it| (it.name.as_str(), it.id, it.core)).collect();
        assert_eq!(sources, [("cpu3", Some(0x16), Some(0)), ("cpu7", Some(0x1e), Some(1))], "{form}");
        assert_eq!(capture.sources[1].registers.get("TRCIDR1"), Some(0x4100_f422), "{form}");
        let cores: Vec<_> = capture.cores.iter().map(|it| (it.name.as_str(), it.kind.as_str())).collect();
        assert_eq!(cores, [("cpu3", "aarch64"), ("cpu7", "aarch64")], "{form}");
        let sessions: Vec<usize> = capture.streams().iter().map(|stream| stream.session).collect();
        assert_eq!(sessions, [0, 0, 1, 1, 2, 2], "{form}");
    }
}

#[test]
fn a_directory_has_the_records_of_all_its_files() {
    for has_format in [true, false] {
        let mut main = writer(false);
        if has_format {
            main.feature(24, 1_u64.to_le_bytes().to_vec());
        }
        start(&mut main);
        let (mut of_3, mut of_7) = (writer(false), writer(false));
        session_of_3(&mut of_3);
        sessions_of_7(&mut of_7);
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in [("data", main.file()), ("data.0", of_3.records()), ("data.1", of_7.records())] {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let capture = Capture::open(dir.path()).unwrap();
        if !has_format {
            assert!(capture.buffers.is_empty(), "files that the main file does not announce");
            continue;
        }
        assert_eq!(buffers(&capture), expected_buffers());
        assert_eq!(calls(&capture.events), expected_events());
        let files: Vec<&str> = capture.buffers.iter().map(|buffer| buffer.files[0].name.as_str()).collect();
        assert_eq!(files, ["data.1", "data.0", "data.1"]);
    }
    let empty = tempfile::tempdir().unwrap();
    fs::write(empty.path().join("data"), b"something else").unwrap();
    assert!(Capture::open(empty.path()).unwrap_err().to_string().contains("no snapshot.ini"));
}

#[cfg(unix)]
#[test]
fn a_stream_is_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    for (bytes, is_recording) in [(recording(false).pipe(), true), (b"something else".to_vec(), false)] {
        let to = path.clone();
        let thread = std::thread::spawn(move || fs::write(to, bytes));
        match Capture::open(&path) {
            Ok(capture) => assert_eq!((buffers(&capture), is_recording), (expected_buffers(), true)),
            Err(error) => assert!(error.to_string().contains("a stream that is not") && !is_recording, "{error}"),
        }
        let _ = thread.join().unwrap();
    }
}

/// A file of 20 GB with 4,000 AUXTRACE records, of which almost everything is a hole.
#[cfg(unix)]
#[test]
fn a_huge_file_opens_at_once() {
    use std::os::unix::fs::FileExt;
    const EACH: u64 = 5 << 20;
    const COUNT: u64 = 4000;
    let mut file = writer(false);
    start(&mut file);
    let beginning = file.file();
    let mut aux = writer(false);
    aux.aux(0, 0, 0, trace_event(7, 5));
    let aux_size = aux.records().len() as u64;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    fs::write(&path, &beginning).unwrap();
    let out = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut at = beginning.len() as u64;
    for index in 0..COUNT {
        let mut records = writer(false);
        records.aux(index * EACH, EACH, 0, trace_event(7, 1000 + index));
        records.auxtrace(7, u32::MAX, index * EACH, &[]);
        let mut bytes = records.records();
        let size = bytes.len() - 40;
        bytes[size..size + 8].copy_from_slice(&EACH.to_le_bytes());
        out.write_all_at(&bytes, at).unwrap();
        at += aux_size + 48 + EACH;
    }
    out.set_len(at).unwrap();
    // The data reaches to the end of the file.
    let data = u64::from_le_bytes(beginning[40..48].try_into().unwrap());
    out.write_all_at(&(at - data).to_le_bytes(), 48).unwrap();
    drop(out);
    let started = Instant::now();
    let found = PerfData::open(&path).unwrap();
    let took = started.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(found.sessions.len() as u64, COUNT);
    assert!(found.sessions.iter().all(|session| session.len() == EACH));
    assert_eq!(found.counts[&71], COUNT);
    assert_eq!(found.problems, []);
    let capture = Capture::open(&path).unwrap();
    assert_eq!(capture.buffers.len() as u64, COUNT);
}

#[test]
fn events_of_every_kind() {
    let mut file = recording(false);
    let at = |time| process_event(7, time);
    let fork = |file: &PerfWriter, pid: u32, tid: u32, time: u64| {
        [file.halves(&[pid, 100, tid, 101]), file.words(&[time])].concat()
    };
    let body = fork(&file, 200, 200, 5000);
    file.kernel(7, 0, &body, at(5000));
    let body = fork(&file, 100, 102, 5100);
    file.kernel(7, 0, &body, at(5100));
    let body = [file.halves(&[200, 200]), name("other")].concat();
    file.kernel(3, 0x2000, &body, at(5200));
    let body = file.halves(&[200, 200]);
    file.kernel(15, 0x2000, &body, at(5300));
    let body = [file.words(&[0xffff_8000_0001_0000]), vec![4, 0, 4, 0], vec![1, 2, 3, 4], vec![5, 6, 7, 8, 0, 0, 0, 0]];
    file.kernel(20, 1, &body.concat(), at(5400));
    let body = fork(&file, 200, 200, 5500);
    file.kernel(4, 0, &body, at(5500));
    // The kernel is listed last, and comes first.
    let body = [
        file.halves(&[u32::MAX, 0]),
        file.words(&[0xffff_8000_0000_0000, 0x100_0000, 0xffff_8000_0800_0000]),
        name("[kernel.kallsyms]_text"),
    ];
    file.kernel(1, 1, &body.concat(), at(0));
    let body = [file.halves(&[u32::MAX]), vec![0xab; 20], vec![0; 4], name("[kernel.kallsyms]")].concat();
    file.tool(67, 0, &body);
    let ksymbol = |kind: u8, is_gone: u8, symbol: &str| {
        [&file.words(&[0xffff_8000_0100_0000])[..], &[8, 0, 0, 0, kind, 0, is_gone, 0], &name(symbol)].concat()
    };
    let (bpf, gone) = (ksymbol(1, 0, "bpf_prog"), ksymbol(1, 1, "bpf_prog"));
    file.kernel(17, 0, &bpf, at(5600));
    file.kernel(17, 0, &gone, at(5900));
    // One program: what `bpf` returns about it, then the arrays, with offsets in place of addresses.
    let mut info = vec![0; 144];
    info[16] = 8;
    info[104] = 1;
    info[108] = 1;
    info[112] = 8;
    info[120] = 16;
    let arrays = [&[1, 2, 3, 4, 5, 6, 7, 8][..], &file.words(&[0xffff_8000_0100_0000]), &file.halves(&[8, 0])];
    let program = [file.halves(&[1, 144, 24]), file.words(&[0b11001]), info, arrays.concat()].concat();
    file.feature(25, program);
    let lost = file.words(&[80, 12]);
    file.kernel(2, 0, &lost, at(5700));
    let bytes = file.file();
    let (_dir, capture) = open(&bytes);
    let expected = [
        Call::Fork { parent: 100, child: 200 },
        Call::Thread { state: State::Start, tid: 200, pid: 200 },
        Call::Thread { state: State::Start, tid: 102, pid: 100 },
        Call::Exec { pid: 200 },
        Call::Switch { core: 7, tid: 200 },
        Call::Patch {
            pid: KERNEL,
            address: 0xffff_8000_0001_0000,
            length: 4,
            code: PatchCode::Bytes(vec![5, 6, 7, 8]),
            name: String::new(),
        },
        Call::Thread { state: State::End, tid: 200, pid: 200 },
        Call::Patch {
            pid: KERNEL,
            address: 0xffff_8000_0100_0000,
            length: 8,
            code: PatchCode::Bytes(vec![1, 2, 3, 4, 5, 6, 7, 8]),
            name: "bpf_prog".to_string(),
        },
        Call::Patch {
            pid: KERNEL,
            address: 0xffff_8000_0100_0000,
            length: 8,
            code: PatchCode::Absent,
            name: String::new(),
        },
    ];
    let found: Vec<Call> = capture.events.iter().filter(|it| it.time >= Some(5000)).map(|it| it.call.clone()).collect();
    assert_eq!(found, expected);
    let kernel = Mapping {
        image: "[kernel.kallsyms]_text".to_string(),
        build_id: "ab".repeat(20),
        placement: Placement::Base(0xffff_8000_0800_0000),
    };
    let kernel = Call::Library { state: State::Current, pid: KERNEL, mapping: kernel };
    assert_eq!((capture.events[2].time, &capture.events[2].call), (None, &kernel));
    assert_eq!(notes(&capture).len(), 1);
    assert!(notes(&capture)[0].ends_with("the kernel lost 12 records"), "{:?}", notes(&capture));
    let data = PerfData::read(std::io::Cursor::new(&bytes)).unwrap().unwrap();
    let counts: Vec<u64> = [17, 2, 11, 71, 68, 10].iter().map(|kind| data.counts[kind]).collect();
    assert_eq!(counts, [2, 1, 3, 2, 2, 2]);
    // The place of an event is the offset of its record.
    for event in &capture.events {
        let kind = u32::from_le_bytes(bytes[event.place as usize..][..4].try_into().unwrap());
        assert!([1, 3, 4, 7, 10, 12, 15, 17, 20].contains(&kind), "{event:?}");
    }
}

#[test]
fn what_is_not_used_is_not_damage() {
    let mut file = recording(false);
    let kernel = [file.halves(&[u32::MAX, 0]), file.words(&[0, u64::MAX, 0]), name("[kernel.kallsyms]")].concat();
    file.kernel(1, 1, &kernel, process_event(0, 0));
    let guest = [file.halves(&[5, 5]), file.words(&[0x1000, 0x1000, 0]), name("/bin/guest")].concat();
    file.kernel(1, 5, &guest, process_event(7, 50));
    let (_dir, capture) = open(&file.file());
    let kinds: Vec<_> = capture.notes.iter().map(|note| (note.kind, note.text.as_str())).collect();
    let expected = ["the address of the kernel is hidden", "a mapping of a guest is ignored"];
    assert_eq!(kinds, expected.map(|text| (NoteKind::Unplaced, text)));
    assert_eq!(calls(&capture.events), expected_events());
}

/// A recording of samples that has no trace is not read to its end.
#[cfg(unix)]
#[test]
fn samples_without_trace_are_not_all_read() {
    use std::os::unix::fs::FileExt;
    const SIZE: u64 = 65_528;
    const COUNT: u64 = 5000;
    let mut bytes = writer(false).file();
    let start = bytes.len() as u64;
    bytes[48..56].copy_from_slice(&(SIZE * COUNT).to_le_bytes());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    fs::write(&path, &bytes).unwrap();
    let out = fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Only the headers: the rest of each sample is a hole.
    let header = [&9_u32.to_le_bytes()[..], &[0, 0], &(SIZE as u16).to_le_bytes()].concat();
    (0..COUNT).for_each(|index| out.write_all_at(&header, start + index * SIZE).unwrap());
    out.set_len(start + SIZE * COUNT).unwrap();
    let data = PerfData::open(&path).unwrap();
    assert!(data.problems.iter().any(|problem| problem.text.contains("no trace is described so far")), "{data:?}");
    assert!((4000..COUNT).contains(&data.counts[&9]), "{:?}", data.counts);
}

#[test]
fn trailers_may_differ() {
    // The CPU is only in the trailer of the trace event, the time only in that of the other.
    let mut trace = Event::trace(&[78, 79]);
    let mut dummy = Event::dummy(&[80, 81]);
    (trace.sample_type, dummy.sample_type) = (0x10083, 0x10007);
    let mut file = PerfWriter::new(false, &[trace, dummy]);
    start(&mut file);
    sessions_of_7(&mut file);
    session_of_3(&mut file);
    let (_dir, capture) = open(&file.file());
    let mut names: Vec<&str> = capture.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cpu3-0", "cpu7-0", "cpu7-1"]);
    assert_eq!(capture.events.last().map(|event| event.time), Some(Some(1100)));
}

#[test]
fn facts_about_the_machine() {
    let mut file = recording(false);
    let strings = [file.string("6.1.0"), file.string("6.12"), file.string("perf"), file.string("record")];
    let [release, version, one, two] = strings;
    file.feature(4, release);
    file.feature(5, version);
    file.feature(7, [8_u32.to_le_bytes(), 6_u32.to_le_bytes()].concat());
    file.feature(11, [&2_u32.to_le_bytes()[..], &one, &two].concat());
    file.feature(129, b"clockid\0monotonic\0".to_vec());
    for bytes in [file.file(), file.pipe()] {
        let data = PerfData::read(std::io::Cursor::new(bytes)).unwrap().unwrap();
        let features = &data.features;
        assert_eq!(features.os_release.as_deref(), Some("6.1.0"));
        assert_eq!(
            (features.arch.as_deref(), features.cpus),
            (Some("aarch64"), Some((8, 6)).map(|(all, on)| (on, all)))
        );
        assert_eq!(
            (features.version.as_deref(), &features.command[..]),
            (Some("6.12"), &["perf".into(), "record".into()][..])
        );
        assert_eq!(features.meta, [("clockid".to_string(), "monotonic".to_string())]);
        assert_eq!(data.attrs.iter().map(|attr| attr.kind).collect::<Vec<_>>(), [8, 1]);
    }
    let (_dir, capture) = open(&file.file());
    let text: Vec<String> = capture.extras[0].pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(text, ["os_release=6.1.0", "perf_version=6.12", "arch=aarch64", "cpus=6 of 8", "command=perf record"]);
}

#[test]
fn a_saved_recording_opens_as_a_package() {
    let (_dir, capture) = open(&recording(false).file());
    let folder = tempfile::tempdir().unwrap();
    let notes = capture.save(folder.path()).unwrap().notes;
    assert!(notes.is_empty(), "{notes:?}");
    let saved = Capture::open(folder.path()).unwrap();
    assert_eq!(buffers(&saved), expected_buffers());
    assert_eq!(saved.sources, capture.sources);
    let calls = |capture: &Capture| capture.events.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(calls(&saved), calls(&capture));
    let recorded = |capture: &Capture| capture.buffers.iter().map(|buffer| buffer.recorded).collect::<Vec<_>>();
    assert!(recorded(&saved).iter().all(Option::is_some));
    assert_eq!(recorded(&saved), recorded(&capture));
    assert_eq!((saved.notes, saved.context_format), (capture.notes, capture.context_format));
}
