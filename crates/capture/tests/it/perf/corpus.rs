//! Recordings of simpleperf, in the folder that `UNSPOOL_CORPUS` names.

use std::process::Command;

use unspool_capture::perf::{Absent, PerfData};
use unspool_capture::{Call, NoteKind, Placement};
use unspool_coresight::Protocol;
use unspool_testing::{corpus, tool};

use super::*;

#[test]
fn a_recording_of_simpleperf() {
    let Some(corpus) = corpus("perf") else { return };
    let path = corpus.join("perf_etm.data");
    let data = PerfData::open(&path).unwrap();
    assert_eq!(data.problems, []);
    assert_eq!(data.features.os_release.as_deref(), Some("4.19.205-g248f514543f5-ab7734026"));
    assert_eq!((data.features.arch.as_deref(), data.features.command.len()), (Some("aarch64"), 7));
    let clock = data.features.meta.iter().find(|(key, _)| key == "clockid").map(|(_, value)| value.as_str());
    assert_eq!((clock, data.features.build_ids.len()), (Some("monotonic"), 8));
    assert_eq!(data.features.build_ids[1].id, "3a1df11a4578394874ce095dd2e4ea79");
    let ids: Vec<_> = data.units.iter().map(|unit| (unit.cpu, unit.protocol, unit.id)).collect();
    let expected: Vec<_> = (0..8).map(|cpu| (cpu, Protocol::Etm4, Some(0x10 + 2 * cpu as u8))).collect();
    assert_eq!(ids, expected);
    let sessions: Vec<_> = data.sessions.iter().map(|it| (it.cpu, it.time, it.parts[0].offset, it.len())).collect();
    let expected = [
        (Some(7), Some(1_118_687_117_325), 0x26d8, 0x50),
        (Some(7), Some(1_118_688_029_825), 0x2728, 0x50),
        (Some(7), Some(1_118_688_983_262), 0x2778, 0x50),
    ];
    assert_eq!(sessions[..3], expected);
    assert_eq!((sessions[3].2, sessions[3].3), (0x27c8, 0x90));
    // The program is execute-only memory.
    let program = data.events.iter().find_map(|event| match &event.call {
        Call::Library { pid: 17235, mapping, .. } if mapping.image.ends_with("etm_test_loop") => Some((event, mapping)),
        _ => None,
    });
    let (event, mapping) = program.unwrap();
    assert_eq!((event.time, event.place), (Some(1_118_688_864_877), 0x828));
    assert_eq!(mapping.placement, Placement::Part { address: 0x58_2b2b_1000, length: 0x1000, offset: 0x1000 });
    let exec = data.events.iter().find(|event| event.call == Call::Exec { pid: 17235 }).unwrap();
    assert!(exec.time < event.time && exec.time.is_some());
    let capture = Capture::open(&path).unwrap();
    assert_eq!((capture.buffers.len(), capture.sources.len(), capture.streams().len()), (4, 8, 32));
    assert_eq!(notes(&capture), [""; 0]);
}

#[test]
fn a_recording_whose_trace_was_lost() {
    let Some(corpus) = corpus("perf") else { return };
    let path = corpus.join("perf_with_missing_aux_data.data");
    let data = PerfData::open(&path).unwrap();
    // Marked as ETE, and of the architecture of ETMv4.
    assert!(data.units.iter().all(|unit| unit.protocol == Protocol::Etm4));
    assert_eq!(data.units[0].registers.get("TRCDEVARCH"), Some(0x4772_4a13));
    assert_eq!(data.sessions.len(), 6);
    assert!(data.sessions.iter().all(|session| session.absent == Some(Absent::NoTrace)));
    let capture = Capture::open(&path).unwrap();
    assert_eq!(capture.notes.iter().filter(|note| note.kind == NoteKind::TraceAbsent).count(), 6);
}

/// perf reads the recording once its index has a count, and lists the same records about trace.
#[test]
fn perf_reads_the_recording_of_simpleperf() {
    let Some(corpus) = corpus("perf") else { return };
    let Some(perf) = tool("perf", "linux-perf") else { return };
    let mut bytes = fs::read(corpus.join("perf_etm.data")).unwrap();
    let data = PerfData::read(std::io::Cursor::new(&bytes)).unwrap().unwrap();
    // Feature 18 is the fifth of six in the table after the data.
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (entry, end) = ((word(40) + word(48)) as usize + 4 * 16, bytes.len() as u64);
    let index: Vec<u8> = [1, data.features.auxtrace[0], 48].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    bytes[entry..entry + 16].copy_from_slice(&[end.to_le_bytes(), 24_u64.to_le_bytes()].concat());
    bytes.extend(index);
    let ours = PerfData::read(std::io::Cursor::new(&bytes)).unwrap().unwrap();
    assert_eq!((ours.sessions, &ours.problems), (data.sessions.clone(), &vec![]));
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("perf.data"), &bytes).unwrap();
    let output = Command::new(perf).args(["script", "-D", "-i"]).arg(dir.path().join("perf.data")).output().unwrap();
    let dump = String::from_utf8_lossy(&output.stdout);
    for session in &data.sessions {
        let start = format!("{} {:#x} [", session.time.unwrap(), session.offset);
        let size = format!("size: {:#x} ", session.len());
        let found = dump.lines().any(|line| line.contains(&start) && line.contains("_AUX ") && line.contains(&size));
        assert!(found, "{session:?}\n{dump}");
    }
    assert!(dump.contains("I_ADDR_CTXT_L_64IS0") && dump.contains("Addr=0x000000582B2B108C"), "{dump}");
}
