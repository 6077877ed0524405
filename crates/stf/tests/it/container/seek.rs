//! Seeking to instructions, and chunks and records larger than the window.

use std::io::{Cursor, Read};

use unspool_stf::lift::Follower;
use unspool_stf::read::{ReadErrorKind, ReadOptions, Reader, Storage};
use unspool_stf::record::Record;
use unspool_stf::write::WriteOptions;
use unspool_testing::Random;

use super::{ZstfFile, both, options, trace};
use crate::fixtures::{encoded, instructions_of, written};

#[test]
fn reader_seeks_to_instructions() {
    let trace = trace(50);
    let all = instructions(&mut Reader::plain(&encoded(&trace)[..]), &mut Follower::default());
    assert_eq!(all.len(), 50);
    for container in Storage::ALL {
        for chunk_markers in [1, 7, 10, 50, 100] {
            let file = written(&trace, container, options(chunk_markers));
            for threads in [1, 2] {
                for before in 0..=50 {
                    let name = format!("{container}, chunks of {chunk_markers}, {threads} threads, to {before}");
                    let mut reader = Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads }).unwrap();
                    let mut follower = Follower::default();
                    assert!(reader.seek_instruction(before as u64, &mut follower).unwrap(), "{name}");
                    assert_eq!(instructions(&mut reader, &mut follower), all[before..], "{name}");
                    let back = reader.seek_instruction(3, &mut follower);
                    if container == Storage::Zstf {
                        assert!(back.unwrap(), "{name}");
                        assert_eq!(instructions(&mut reader, &mut follower), all[3..], "{name}, and back");
                    } else {
                        assert!(matches!(back.unwrap_err().kind, ReadErrorKind::Backward(3)), "{name}");
                    }
                }
                let mut reader = Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads }).unwrap();
                assert!(!reader.seek_instruction(51, &mut Follower::default()).unwrap(), "there is none");
            }
        }
    }
}

#[test]
fn reader_seeks_without_a_valid_index() {
    let trace = trace(50);
    let all = instructions(&mut Reader::plain(&encoded(&trace)[..]), &mut Follower::default());
    let file = written(&trace, Storage::Zstf, options(5));
    for (name, at, byte) in [("other numbers", 4, 6), ("no index", 12, 0)] {
        let mut file = file.clone();
        file[at] = byte;
        file[13] = if at == 12 { 0 } else { file[13] };
        for before in [0, 4, 23, 49] {
            let mut reader = Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads: 2 }).unwrap();
            let mut follower = Follower::default();
            assert!(reader.seek_instruction(before, &mut follower).unwrap(), "{name}");
            assert_eq!(instructions(&mut reader, &mut follower), all[before as usize..], "{name}, to {before}");
        }
    }
}

/// Number, offset, address and opcode of all remaining instructions.
fn instructions<R: Read>(reader: &mut Reader<R>, follower: &mut Follower) -> Vec<(u64, u64, u64, u32)> {
    let mut all = Vec::new();
    instructions_of(reader, follower, |instruction| {
        all.push((instruction.number, instruction.position.offset, instruction.pc, instruction.opcode));
    });
    all
}

#[test]
fn large_chunks_and_records_are_read() {
    // More than one part in a chunk, and a record that is longer than many chunks.
    let long = vec![b'x'; 9 << 20];
    let mut large = trace(200_000);
    large.insert(3, Record::Comment(&long));
    large.insert(5000, Record::Comment(&long));
    let expected = encoded(&large);
    for chunk_markers in [1000, 1_000_000] {
        let file = written(&large, Storage::Zstf, options(chunk_markers));
        for threads in [1, 2] {
            for (how, outcome) in both(&file, threads) {
                outcome.assert_read(&expected, &[], how);
            }
        }
    }
}

#[test]
fn chunks_larger_than_memory_limit_are_streamed() {
    // Noise cannot be compressed, so the second of three chunks has more than 32 MiB.
    let mut random = Random::new(1);
    let noise: Vec<u8> = (0..17 << 20).map(|_| (random.bits() >> 56) as u8).collect();
    let mut trace = trace(25);
    let position = trace.iter().position(|record| matches!(record, Record::ForcePc(0xa000_000d))).unwrap();
    trace.splice(position..position, [Record::Comment(&noise), Record::Comment(&noise)]);
    let expected = encoded(&trace);
    let file = written(&trace, Storage::Zstf, WriteOptions { level: Some(1), ..options(10) });
    let zstf = ZstfFile::of(&file);
    let sizes: Vec<usize> =
        (0..3).map(|at| zstf.chunks.get(at + 1).map_or(zstf.end, |next| next.0) - zstf.chunks[at].0).collect();
    assert!(sizes[1] > 32 << 20 && sizes[0] < 1000 && sizes[2] < 1000, "{sizes:?}");
    let all = instructions(&mut Reader::plain(&expected[..]), &mut Follower::default());
    for threads in [1, 2] {
        for (how, outcome) in both(&file, threads) {
            outcome.assert_read(&expected, &[], how);
        }
        let open = || Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads }).unwrap();
        let (mut reader, mut follower) = (open(), Follower::default());
        assert_eq!(instructions(&mut reader, &mut follower), all);
        for before in [24, 12, 3, 19] {
            assert!(reader.seek_instruction(before, &mut follower).unwrap());
            assert_eq!(instructions(&mut reader, &mut follower), all[before as usize..], "{before}, {threads} threads");
        }
        let mut stats = unspool_stf::stats::Stats::default();
        assert!(!open().gather(&mut Follower::default(), &mut stats).unwrap());
        assert_eq!((stats.counts.opcodes, stats.counts.comments), (25, 6), "{threads} threads");
        // A cut inside the chunk.
        let mut file = file.clone();
        let at = zstf.chunks[1].0 + (33 << 20);
        file.truncate(at);
        for (_, outcome) in both(&file, threads) {
            assert!(outcome.text().contains("chunk 1, byte 0x"), "{}", outcome.text());
            assert!(expected.starts_with(&outcome.bytes) && outcome.bytes.len() > 17 << 20, "{threads} threads");
        }
    }
}
