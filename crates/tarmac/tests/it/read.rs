//! Logs as lines: containers, line ends, lines that are too long, and the readable part of damaged files.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;

use unspool_container::{CompressOptions, CompressedWriter, Container};
use unspool_tarmac::dialect::{Dialect, Effects};
use unspool_tarmac::parse::ParseOptions;
use unspool_tarmac::read::{LONGEST, Position, ReadErrorKind, ReadOptions, Reader, lines};
use unspool_tarmac::record::{ProblemKind, Record};

use crate::fixtures::read_lines;

/// A log whose last line has no line end.
fn log(count: u32) -> Vec<u8> {
    let mut log = String::new();
    for number in 0..count {
        log += &format!("{number} clk IT ({number}) {:08x} d503201f O EL3h_s : NOP\n", 0x8000 + 4 * number);
        log += &format!("{number} clk R X1 {number:016x}\r\n\n");
    }
    log += "9 clk R X2 0000000000000001";
    log.into_bytes()
}

/// A few bytes at a time, then the end or a failure.
struct Drops<'a>(&'a [u8], Option<io::ErrorKind>);

impl Read for Drops<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.0.len().min(room.len()).min(7);
        room[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        match self.1 {
            Some(kind) if length == 0 => Err(kind.into()),
            _ => Ok(length),
        }
    }
}

/// Lines with their positions.
type Lines = Vec<(Position, Vec<u8>)>;

/// All lines, and how reading ended.
fn all(input: impl Read) -> (Lines, Result<bool, String>) {
    let mut found = Vec::new();
    let mut reader = match Reader::new(input, ReadOptions::default()) {
        Ok(reader) => reader,
        Err(error) => return (found, Err(error.to_string())),
    };
    let end = reader.each(|position, line| {
        found.push((position, line.raw.to_vec()));
        ControlFlow::Continue(())
    });
    (found, end.map_err(|error| error.to_string()))
}

/// Lines tile the log: each starts where the previous one ends, with only a line end in between.
fn assert_tiled(log: &[u8], found: &[(Position, Vec<u8>)]) {
    let (mut offset, mut line) = (0, 1);
    for (position, raw) in found {
        assert_eq!((position.offset as usize, position.line), (offset, line));
        assert!(log[offset..].starts_with(raw));
        offset += raw.len();
        for end in [&b"\r\n"[..], b"\n"] {
            if log[offset..].starts_with(end) {
                (offset, line) = (offset + end.len(), line + 1);
                break;
            }
        }
    }
    assert_eq!(offset, log.len());
}

const CONTAINERS: [Container; 3] = [Container::Gzip, Container::Xz, Container::Zstd];

fn packed(bytes: &[u8], container: Container) -> Vec<u8> {
    let mut writer = CompressedWriter::new(Vec::new(), container, CompressOptions::default()).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

#[test]
fn every_container_gives_the_same_lines() {
    let log = log(30_000);
    let (plain, end) = all(&log[..]);
    assert_eq!(end, Ok(false));
    assert_tiled(&log, &plain);
    assert_eq!(plain.len(), 3 * 30_000 + 1);
    let (first, second) = log.split_at(log.len() / 2);
    for container in CONTAINERS {
        let one = packed(&log, container);
        let two = [packed(first, container), packed(second, container)].concat();
        assert_eq!(Reader::new(&one[..], ReadOptions::default()).unwrap().container(), container);
        for packed in [&one, &two] {
            assert!(all(&packed[..]) == (plain.clone(), Ok(false)), "{container}");
        }
        assert!(all(Drops(&two, None)) == (plain.clone(), Ok(false)), "{container} in drops");
    }
}

#[test]
fn lines_before_damage_are_delivered() {
    let log = log(30_000);
    let (plain, _) = all(&log[..]);
    for name in CONTAINERS {
        let packed = packed(&log, name);
        let (found, end) = all(&packed[..packed.len() / 2]);
        let message = end.unwrap_err();
        assert!(message.contains("the file ends before"), "{name}: {message}");
        assert!(!found.is_empty(), "{name}");
        let whole = found.len() - 1;
        assert!(found[..whole] == plain[..whole], "{name}");
        let (_, end) = all(&[&packed[..], b"and more"].concat()[..]);
        assert!(end.is_err(), "{name}: something follows");
        let (found, end) = all(Drops(&packed[..packed.len() / 2], Some(io::ErrorKind::PermissionDenied)));
        assert!(!found.is_empty() && end.unwrap_err().contains("permission denied"), "{name}");
    }
    let (found, end) = all(Drops(&log[..1000], Some(io::ErrorKind::PermissionDenied)));
    assert_tiled(&log[..1000], &found);
    assert!(end.unwrap_err().starts_with("byte 0x3e8 of the log"));
    let error = Reader::new(Drops(&[], Some(io::ErrorKind::PermissionDenied)), ReadOptions::default()).err().unwrap();
    assert!(matches!(error.kind, ReadErrorKind::Io(_)));
}

#[test]
fn small_logs() {
    let rows: &[(&[u8], usize)] =
        &[(b"", 0), (b"\n", 1), (b"\r\n", 1), (b"\r", 1), (b"R r0 00000000", 1), (b"\n\n", 2)];
    for (log, count) in rows {
        let (found, end) = all(*log);
        assert_eq!((found.len(), end), (*count, Ok(false)), "{log:?}");
        assert_tiled(log, &found);
        let same: Vec<_> = lines(log).map(|(offset, raw)| (offset as u64, raw.to_vec())).collect();
        let found: Vec<_> = found.into_iter().map(|(position, raw)| (position.offset, raw)).collect();
        assert_eq!(found, same, "{log:?}");
    }
}

#[test]
fn lines_that_are_too_long_are_split() {
    for length in [LONGEST - 1, LONGEST, LONGEST + 1, 2 * LONGEST, 5 * LONGEST / 2] {
        for end in ["\n", "\r\n", ""] {
            let mut log = vec![b'a'; length];
            log.extend_from_slice(end.as_bytes());
            if !end.is_empty() {
                log.extend_from_slice(b"R r0 00000001\n");
            }
            let (found, _) = all(&log[..]);
            assert_tiled(&log, &found);
            let chunks = length.div_ceil(LONGEST) + usize::from(!end.is_empty());
            assert_eq!(found.len(), chunks, "{length} {end:?}");
            assert!(found.iter().all(|(_, raw)| raw.len() <= LONGEST), "{length} {end:?}");
            let mut kinds = Vec::new();
            read_lines(&log, |_, line| {
                kinds.push(matches!(line.record, Record::Unknown(problem) if problem.kind == ProblemKind::TooLongLine));
            });
            assert_eq!(kinds[0], length > LONGEST, "{length} {end:?}");
            assert!(end.is_empty() || !kinds[kinds.len() - 1], "{length} {end:?}");
        }
    }
}

#[test]
fn runs_are_the_log_byte_for_byte() {
    let mut log = log(20_000);
    log.extend_from_slice(&vec![b'x'; 3 * LONGEST]);
    log.extend_from_slice(b"\nlast");
    let mut reader = Reader::new(&log[..], ReadOptions::default()).unwrap();
    let mut copy = Vec::new();
    // The first lines one by one, then the rest.
    let mut count = 0;
    let more = reader.each(|position, line| {
        copy.truncate(position.offset as usize);
        copy.extend_from_slice(line.raw);
        count += 1;
        if count == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(more.unwrap());
    let next = reader.position();
    copy = log[..next.offset as usize].to_vec();
    assert_eq!(next.line, 6);
    let mut line = next.line;
    let more = reader.each_run(|position, run| {
        assert_eq!((position.offset as usize, position.line), (copy.len(), line));
        copy.extend_from_slice(run);
        line += run.iter().filter(|byte| **byte == b'\n').count() as u64;
        ControlFlow::Continue(())
    });
    assert!(!more.unwrap());
    assert!(copy == log);
}

#[test]
fn damaged_lines_are_unknown() {
    let mut log = log(100);
    let at = log.len() / 2;
    log.splice(at..at, *b"\0\xff\x80\x1f\x8b junk \n\n");
    let mut counts = [0, 0];
    read_lines(&log, |_, line| counts[usize::from(matches!(line.record, Record::Unknown(_)))] += 1);
    assert!(counts[0] >= 300 && (1..=2).contains(&counts[1]), "{counts:?}");
}

#[test]
fn dialects_are_detected() {
    let rows: &[(&str, Dialect)] = &[
        ("", Dialect::Other),
        ("hello\nworld\n", Dialect::Other),
        ("Tarmac Text Rev 3t\n", Dialect::Rev3),
        ("8 tic ES  (0000013a:c9f0)     T thrd_s:         LDM r1!,{r4-r7}\n", Dialect::Rev3),
        ("1715 ns IT (00000010:e59ff038) A svc: LDR pc,{pc}+0x40\n R R0 (USR) 00000001\n", Dialect::Rev3),
        ("1 clk IT (1) 0000a100 a106 T svc_s : ADR r1,{pc}+0x1c\n1 clk R r1 0000a11c\n", Dialect::FastModels),
        (
            "250 clk IT (1) 00034a18 9100c3e4 O EL3h_s : ADD   X4, SP, #48\n250 clk R X4 0000000000091230\n",
            Dialect::Gem5,
        ),
        ("512ns R r2 00000001\n512ns IT 00000420 4a09        LDR      r2,[pc,#36]\n", Dialect::CortexM0),
        ("4177 cyc IT (00031a40:00000006) 00031a40     4ba3 T16 LDR r3,[pc,#652]\n", Dialect::CortexM3),
        ("9 ns IT (00000100:00000000) 00000100 ea00000b A :    B pc+0x2c\n", Dialect::CortexR5),
        ("1 clk IT (1) 0000a100 a106 T svc_s : ADR r1,{pc}\n1 clk IT (1) 000", Dialect::FastModels),
    ];
    for (log, dialect) in rows {
        assert_eq!(Dialect::detect(log.as_bytes()), *dialect, "{log}");
        assert_eq!(Reader::new(log.as_bytes(), ReadOptions::default()).unwrap().dialect(), *dialect);
    }
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::from_name(dialect.name()), Some(dialect));
    }
    assert_eq!(Dialect::from_name("tarmac"), None);
    assert_eq!((Dialect::CortexM0.effects(), Dialect::Rev3.effects()), (Effects::Before, Effects::After));
}

/// Cortex-M0 is detected by its lines, which implies that they are Thumb.
#[test]
fn thumb_is_implied_where_the_producer_implies_it() {
    let log = b"512ns R r2 00000001\n512ns IT 00000420 4a09        LDR      r2,[pc,#36]\n";
    for implicit_thumb in [false, true] {
        let options = ReadOptions { parse: ParseOptions { implicit_thumb } };
        let mut reader = Reader::new(&log[..], options).unwrap();
        let mut instructions = 0;
        reader
            .each(|_, line| {
                instructions += u32::from(matches!(line.record, Record::Instruction(_)));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(instructions, 1);
    }
}
