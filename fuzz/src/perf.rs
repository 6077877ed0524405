//! Recordings of perf: any bytes are one or are refused, and no range of trace is outside the file.
//!
//! Input: byte 0 selects. 0: the rest is the file. 1 and more: one of our own recordings is changed. Three bytes per change:
//! an offset (little-endian) and the number to add.

use std::io::Cursor;

use unspool_capture::perf::PerfData;
use unspool_testing::perf::{Compression, ETE, ETM4, Event, Index, PerfWriter, Trailer, name};

use crate::setup::byte;

/// Maximum number of events that a record leads to.
const EVENTS_PER_RECORD: u64 = 3;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let file = match byte(&mut data) {
        0 => data.to_vec(),
        form => changed(recording(form), data),
    };
    let Some(found) = PerfData::read(Cursor::new(&file)).expect("bytes in memory can be read") else { return };
    let size = file.len() as u64;
    for session in &found.sessions {
        assert_eq!(session.parts.is_empty(), session.absent.is_some(), "bytes, or a reason why not: {session:?}");
        for part in &session.parts {
            assert!(part.length > 0 && part.offset.saturating_add(part.length) <= size, "outside the file: {part:?}");
        }
    }
    let records: u64 = found.counts.values().sum();
    assert!(found.events.len() as u64 <= records * EVENTS_PER_RECORD, "more events than records");
    assert!(found.events.is_sorted_by_key(|event| event.time), "events are in order");
    assert!(found.events.iter().all(|event| event.place < size), "an event after the end of the file");
    assert!(found.problems.iter().all(|problem| problem.offset <= size), "a problem after the end of the file");
    assert!(found.units.iter().all(|unit| unit.id.is_none_or(|id| (1..0x70).contains(&id))), "reserved trace IDs");
}

fn changed(mut file: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if let Some(byte) = file.get_mut(at) {
            *byte = byte.wrapping_add(change[2]);
        }
    }
    file
}

/// One of our own recordings: byte order, compression, and whether it was written to a pipe.
pub fn recording(form: u8) -> Vec<u8> {
    let mut file = PerfWriter::new(form & 1 == 1, &[Event::trace(&[78]), Event::dummy(&[79])]);
    let trace = Trailer { event: 0, thread: (100, 101), time: 1000, cpu: 7, id: 78 };
    let process = Trailer { event: 1, id: 79, ..trace };
    file.compression = [None, Some(Compression::One), Some(Compression::Two), Some(Compression::TwoDamaged)]
        [usize::from(form >> 1 & 3)];
    file.index = if form & 8 == 0 { Index::Counted } else { Index::Bare };
    let arch = file.string("aarch64");
    file.feature(6, arch);
    let registers = [0x40, 0x1e, 0x2800_0ea1, 0x4100_f422, 0x2000_1088, 0, 0x8c, 0x4771_5a13];
    file.info(1, &[(ETM4, 3, &registers[..7]), (ETE, 7, &registers)]);
    file.mmap2(100, 0x40_0000, 0x1000, 0, "/bin/main", Trailer { time: 0, id: 0, ..process });
    let pair = file.halves(&[100, 101]);
    file.kernel(12, 0, &pair, trace);
    file.kernel(3, 0x2000, &[&pair[..], &name("main")].concat(), process);
    let id = file.words(&[1 << 56 | 5 << 8 | 0x1e]);
    file.kernel(21, 0, &id, trace);
    let fork = [file.halves(&[200, 100, 200, 101]), file.words(&[1500])].concat();
    file.kernel(7, 0, &fork, process);
    file.kernel(15, 0x2000, &pair, process);
    file.aux(0, 0x20, 0, Trailer { time: 2000, ..trace });
    file.aux(0x20, 0x14, 0x101, Trailer { time: 3000, ..trace });
    file.auxtrace(7, u32::MAX, 0, &[0x11; 0x34]);
    file.aux(0x100, 0x1000, 2, Trailer { time: 4000, ..trace });
    file.auxtrace(u32::MAX, 101, 0xc0, &[0x22; 0x40]);
    file.tool(68, 0, &[]);
    if form & 16 == 0 { file.file() } else { file.pipe() }
}
