//! Chunks processed by several threads: the result is that of one thread, also for damaged files.

use std::io::Cursor;
use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_stf::lift::{Follower, Instruction};
use unspool_stf::read::{ChunkSizes, Gather, Position, ReadOptions, Reader, Storage, Warning};
use unspool_stf::record::{Event, MemAccess, Record, Register};
use unspool_stf::stats::Stats;

use crate::container::{header, options};
use crate::fixtures::written;

const MODES: [[u8; 8]; 2] = [0_u64.to_le_bytes(), 3_u64.to_le_bytes()];

/// The group of one instruction. Some change the state of all that follow.
fn group(number: usize) -> Vec<Record<'static>> {
    const WORDS: [u8; 32] = [7; 32];
    let mode = |mode: usize| Record::Event(Event { raw: 1 << 62, is_wide: true, data: &MODES[mode] });
    let mut group = match number % 32 {
        0 => vec![mode(number / 32 % 2)],
        3 | 19 => vec![Record::InstPcTarget(0x8000_4000 + number as u64 * 64)],
        7 => vec![
            Record::InstReg(Register { number: 5, meta: 0x11, value: &WORDS[..8] }),
            Record::InstReg(Register { number: 7, meta: 0x33, value: &WORDS }),
        ],
        9 | 21 => vec![
            Record::InstMemAccess(MemAccess { address: number as u64, size: 8, attributes: 0, kind: 1 }),
            Record::InstMemContent(number as u64),
        ],
        13 => vec![Record::Event(Event { raw: 13, is_wide: true, data: &[] }), Record::EventPcTarget(0x9000_0000)],
        15 => vec![Record::ForcePc(0xa000_0000 + number as u64 * 2), Record::InstIem(1 + (number / 64 % 2) as u16)],
        17 => vec![Record::Comment(b"in the body")],
        _ => vec![],
    };
    let opcode = match number % 3 {
        1 => Record::InstOpcode16(number as u16 | 1),
        _ => Record::InstOpcode32(0x13 | (number as u32 % 1000) << 7),
    };
    group.push(opcode);
    group
}

fn trace(instructions: usize) -> Vec<Record<'static>> {
    header().into_iter().chain((0..instructions).flat_map(group)).collect()
}

/// A trace without changes of state.
fn calm(instructions: usize) -> Vec<Record<'static>> {
    header().into_iter().chain((0..instructions).map(|number| group(number).pop().unwrap())).collect()
}

fn zstf(records: &[Record<'_>], chunk_markers: u64) -> Vec<u8> {
    written(records, Storage::Zstf, options(chunk_markers))
}

/// Everything about every instruction, and statistics.
#[derive(Default)]
struct All {
    lines: Vec<String>,
    stats: Stats,
    /// Number of appended parts.
    parts: usize,
}

impl Gather for All {
    fn push(&mut self, instruction: &Instruction<'_>) {
        let mut instruction = *instruction;
        // The record number may be relative to the start of a chunk.
        instruction.position.record = 0;
        self.lines.push(format!("{instruction:?}"));
        self.stats.push(&instruction);
    }

    fn part(&self) -> Self {
        Self { stats: self.stats.part(), ..Self::default() }
    }

    fn append(&mut self, part: Self) {
        self.lines.extend(part.lines);
        self.stats.append(part.stats);
        self.parts += 1;
    }
}

/// Everything but the instructions.
#[derive(Debug, PartialEq)]
struct Outcome {
    counts: String,
    /// The end, and any damage before it after which reading resumed.
    ends: Vec<String>,
    follower: Follower,
    position: Position,
    /// Records after the last instruction.
    rest: String,
    warnings: Vec<String>,
}

/// Reads a file, in order if there are no threads: instructions, outcome, and number of chunks that threads processed.
fn read(file: &[u8], threads: Option<usize>) -> Option<(Vec<String>, Outcome, usize)> {
    let options = ReadOptions { threads: threads.unwrap_or(1) };
    let mut reader = Reader::seekable(Cursor::new(file.to_vec()), options).ok()?;
    let (mut all, mut follower) = (All::default(), Follower::default());
    let mut ends = Vec::new();
    loop {
        let end = match threads {
            Some(_) => reader.gather(&mut follower, &mut all),
            None => reader.each_instruction(&mut follower, |instruction| {
                all.push(instruction);
                ControlFlow::Continue(())
            }),
        };
        ends.push(format!("{end:?}"));
        let is_resumed = end.is_err_and(|error| reader.resume(&error, &mut follower).is_some());
        if !is_resumed {
            break;
        }
        assert!(ends.len() < 1000, "reading does not advance: {ends:?}");
    }
    let position = reader.position();
    let mut rest = Vec::new();
    let rest_end = reader.each(|position, record| {
        rest.push(format!("{position:?} {record:?}"));
        ControlFlow::Continue(())
    });
    let mut warnings: Vec<String> = reader.warnings().iter().map(ToString::to_string).collect();
    warnings.sort();
    let counts = format!("{:?} {:?}", all.stats.counts, all.stats.mix.finish());
    let rest = format!("{rest:?} {rest_end:?}");
    Some((all.lines, Outcome { counts, ends, follower, position, rest, warnings }, all.parts))
}

/// Asserts that the result does not depend on the number of threads. Returns the number of instructions, the outcome,
/// and the number of chunks that two threads processed.
#[track_caller]
fn same(name: &str, file: &[u8]) -> Option<(usize, Outcome, usize)> {
    let Some((lines, expected, _)) = read(file, None) else {
        assert!(read(file, Some(3)).is_none(), "{name}");
        return None;
    };
    let mut parts = 0;
    for threads in [1, 5, 2] {
        let (found_lines, found, chunks) = read(file, Some(threads)).unwrap();
        assert!(found_lines == lines, "{name}, {threads} threads: other instructions");
        assert_eq!(found, expected, "{name}, {threads} threads");
        assert!(threads > 1 || chunks == 0, "{name}");
        parts = chunks;
    }
    Some((lines.len(), expected, parts))
}

#[test]
fn result_does_not_depend_on_threads() {
    let rest = || vec![Record::Comment(b"after"), Record::InstMemContent(1)];
    for instructions in [0, 1, 2, 7, 8, 9, 500] {
        for (kind, trace) in [
            ("a trace", trace(instructions)),
            ("no changes of state", calm(instructions)),
            ("records after it", [trace(instructions), rest()].concat()),
            ("an end mark", [trace(instructions), vec![Record::ReserveEnd]].concat()),
        ] {
            for container in Storage::ALL {
                for chunk in [1, 2, 8, 40, 1000] {
                    let file = written(&trace, container, options(chunk));
                    let name = format!("{kind} of {instructions}, {container}, chunks of {chunk}");
                    let (count, outcome, _) = same(&name, &file).unwrap();
                    assert_eq!(count, instructions, "{name}");
                    assert_eq!(outcome.warnings, [""; 0], "{name}");
                }
            }
        }
    }
}

#[test]
fn threads_process_whole_chunks() {
    // All but the first, which has the header; without changes of state, no guess is wrong.
    let (_, _, parts) = same("calm", &zstf(&calm(1000), 10)).unwrap();
    assert_eq!(parts, 99);
    let (_, _, parts) = same("with modes", &zstf(&trace(10_000), 300)).unwrap();
    assert!(parts > 0);
}

#[test]
fn wrong_index_is_reported() {
    let file = zstf(&calm(100), 10);
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let index = word(12) as usize + 8;
    let patched = |at: usize, value: u64| {
        let mut file = file.clone();
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        file
    };
    let pc = word(index + 24 * 4 + 8);
    let wrong_pc = Warning::WrongPc { chunk: 4, index: 0x1234, found: pc }.to_string();
    let rows: &[(&str, Vec<u8>, &str)] = &[
        ("another PC", patched(index + 24 * 4 + 8, 0x1234), &wrong_pc),
        ("another size", patched(index + 24 * 4 + 16, 3), "the index has 3 bytes for chunk 4"),
        ("another size of the first", patched(index + 16, 60), "the index has 60 bytes for chunk 0"),
        (
            "a size beyond all",
            patched(index + 24 * 4 + 16, u64::MAX),
            "the index has 18446744073709551615 bytes for chunk 4",
        ),
        ("more instructions", patched(4, 11), "chunk 0 has 10 instructions instead of 11"),
        ("fewer instructions", patched(4, 9), "chunk 0 has 10 instructions instead of 9"),
        ("no index", patched(12, 0), "the file was not finished"),
        ("a chunk elsewhere", patched(index + 24 * 4, word(index + 24 * 4) + 1), "the index of the file is damaged"),
    ];
    for (name, file, text) in rows {
        let (count, outcome, _) = same(name, file).unwrap();
        assert_eq!(count, 100, "{name}");
        assert!(outcome.warnings.iter().any(|warning| warning.starts_with(text)), "{name}: {:?}", outcome.warnings);
    }
}

/// Makes a file wrong about a chunk.
type Damage<'l> = &'l dyn Fn(&mut Vec<u8>, usize);

/// After damage, chunks are read in order. One thread reports each before it reads the next; several read ahead.
#[test]
fn threefold_damage_is_reported_for_any_number_of_threads() {
    const CHUNKS: usize = 8;
    let file = zstf(&calm(40), 5);
    let word = |file: &[u8], at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let index = word(&file, 12) as usize + 8;
    let offset = |file: &[u8], chunk: usize| word(file, index + 24 * chunk) as usize;
    let set = |file: &mut Vec<u8>, at: usize, value: u64| file[at..at + 8].copy_from_slice(&value.to_le_bytes());
    let none = |_: &mut Vec<u8>, _: usize| {};
    let size = |file: &mut Vec<u8>, chunk: usize| set(file, index + 24 * chunk + 16, 3);
    let pc = |file: &mut Vec<u8>, chunk: usize| set(file, index + 24 * chunk + 8, 0x1234);
    let elsewhere = |file: &mut Vec<u8>, chunk: usize| {
        let at = offset(file, chunk) as u64 + 1;
        set(file, index + 24 * chunk, at);
    };
    let no_frame = |file: &mut Vec<u8>, chunk: usize| {
        let at = offset(file, chunk);
        file[at] ^= 0xff;
    };
    let broken = |file: &mut Vec<u8>, chunk: usize| {
        let at = offset(file, chunk) + 9;
        file[at] ^= 0xff;
    };
    // Two chunks under one entry.
    let joined = |file: &mut Vec<u8>, chunk: usize| {
        let count = word(file, index - 8) - 1;
        set(file, index - 8, count);
        file.drain(index + 24 * chunk..index + 24 * (chunk + 1));
    };
    let first: [Damage<'_>; 5] = [&none, &size, &pc, &elsewhere, &broken];
    let last: [Damage<'_>; 6] = [&size, &pc, &elsewhere, &no_frame, &broken, &joined];
    for (kind, damage) in first.iter().enumerate() {
        for (other, worse) in last.iter().enumerate() {
            for (chunk, later) in (2..CHUNKS).flat_map(|chunk| (chunk..CHUNKS).map(move |later| (chunk, later))) {
                let mut file = file.clone();
                size(&mut file, 1);
                damage(&mut file, chunk);
                worse(&mut file, later);
                same(&format!("damage {kind} of {chunk}, damage {other} of {later}"), &file);
            }
        }
    }
}

#[test]
fn every_chunk_size_is_checked() {
    let mut file = zstf(&trace(20), 5);
    file[4] = 6;
    let (_, outcome, _) = same("other numbers", &file).unwrap();
    let wrong_markers = |chunk| Warning::WrongMarkers { chunk, found: 5, expected: 6 }.to_string();
    assert_eq!(outcome.warnings, [0, 1, 2].map(wrong_markers));
    // The last chunk is unreadable, but the index has it: so the one before is not the last.
    let last = u64::from_le_bytes(file[12..20].try_into().unwrap()) as usize + 8 + 3 * 24;
    let last = u64::from_le_bytes(file[last..last + 8].try_into().unwrap()) as usize;
    file[last] ^= 0xff;
    let (_, outcome, _) = same("other numbers, and no last chunk", &file).unwrap();
    assert_eq!(outcome.warnings, [0, 1, 2].map(wrong_markers));
    // The index is right: the chunk is where it says.
    assert!(matches!(&outcome.ends[..], [end] if end.contains("Chunk { chunk: 3")), "{:?}", outcome.ends);
}

#[test]
fn chunk_sizes_are_reported() {
    let trace = trace(95);
    let file = zstf(&trace, 10);
    let all = Some(ChunkSizes { instructions: 10, count: Some(10) });
    let mut reader = Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads: 2 }).unwrap();
    assert_eq!(reader.chunks(), all);
    reader.gather(&mut Follower::default(), &mut Stats::default()).unwrap();
    assert_eq!(reader.chunks(), all);
    let mut reader = Reader::new(Cursor::new(file), ReadOptions { threads: 2 }).unwrap();
    assert_eq!(reader.chunks(), Some(ChunkSizes { instructions: 10, count: None }));
    reader.each(|_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(reader.chunks(), all);
    let file = written(&trace, Storage::GZIP, options(10));
    assert_eq!(Reader::new(Cursor::new(file), ReadOptions { threads: 2 }).unwrap().chunks(), None);
}

#[test]
fn damage_of_any_byte_is_the_same_for_threads() {
    let file = zstf(&trace(60), 7);
    for at in 0..file.len() {
        for mask in [1, 0x80] {
            let mut file = file.clone();
            file[at] ^= mask;
            same(&format!("byte {at} with {mask:#x}"), &file);
        }
        same(&format!("cut at {at}"), &file[..at]);
    }
}

/// Sizes that add up to more than a file can have do not make reading resume at the same chunk for ever.
#[test]
fn damage_with_wrong_sizes_is_the_same_for_threads() {
    let file = zstf(&trace(60), 7);
    let index = u64::from_le_bytes(file[12..20].try_into().unwrap()) as usize;
    for (chunk, size) in [(0, u64::MAX), (3, u64::MAX), (3, 1), (3, 1000)] {
        let mut wrong = file.clone();
        let at = index + 8 + 24 * chunk + 16;
        wrong[at..at + 8].copy_from_slice(&u64::to_le_bytes(size));
        for at in (20..index).step_by(5) {
            let mut damaged = wrong.clone();
            damaged[at] ^= 0x11;
            same(&format!("size {size} of chunk {chunk}, byte {at}"), &damaged);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_records_and_any_damage(
        numbers in proptest::collection::vec(0_usize..5000, 0..300),
        chunk in 1_u64..60,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        stray in proptest::option::of((any::<prop::sample::Index>(), 0_usize..4)),
    ) {
        let mut trace: Vec<Record<'_>> = header().into_iter().chain(numbers.iter().flat_map(|number| group(*number))).collect();
        if let Some((at, which)) = stray {
            // Header records and end marks anywhere after the header.
            let records = [Record::VlenConfig(256), Record::Isa(2), Record::ReserveEnd, Record::EndHeader];
            let at = header().len() + at.index(trace.len() - header().len() + 1);
            trace.insert(at, records[which]);
        }
        let mut file = zstf(&trace, chunk);
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        same("any", &file);
    }
}
