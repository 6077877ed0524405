//! Preconditioning: the bytes of the reader, and the file offset of each byte.

use std::fs::{self, File};
use std::io::Read;

use proptest::prelude::*;
use unspool_capture::{Capture, NoteKind};

use super::{bytes, folder, has_note, notes, open};

/// A snapshot with one buffer whose section has these lines.
fn buffer<B: AsRef<[u8]>>(lines: &str, files: &[(&str, B)]) -> (tempfile::TempDir, Capture) {
    let dir = folder(files);
    fs::write(dir.path().join("snapshot.ini"), "[trace]\nmetadata=trace.ini\n").unwrap();
    fs::write(dir.path().join("trace.ini"), format!("[trace_buffers]\nbuffers=b\n[b]\n{lines}")).unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    (dir, capture)
}

#[test]
fn files_are_joined() {
    let files = [("a", "one"), ("b", "two"), ("c,d", "three")];
    let rows = [
        ("file=a,b\n", "onetwo"),
        ("file= b , a ,\n", "twoone"),
        ("file=a\nfile=b\n", "onetwo"),
        ("file0=a\nfile1=b\n", "onetwo"),
        ("file=c,d\n", "three"),
        ("file=a,gone,b\n", "onetwo"),
        ("file=a,a\nwrite_pointer=4\n", "neoneo"),
    ];
    for (lines, expected) in rows {
        let (_dir, capture) = buffer(&format!("format=raw\n{lines}"), &files);
        assert_eq!(bytes(&capture, 0), expected.as_bytes(), "{lines}");
    }
}

#[test]
fn trailers_of_probe_blocks_are_removed() {
    let block = |byte: u8| [vec![byte; 504], vec![0xee; 8]].concat();
    let rows = [
        ("whole blocks", [block(1), block(2)].concat(), [vec![1; 504], vec![2; 504]].concat()),
        ("part of the trace", [block(1), vec![2; 100]].concat(), [vec![1; 504], vec![2; 100]].concat()),
        ("part of the trailer", [block(1), block(2)[..507].to_vec()].concat(), [vec![1; 504], vec![2; 504]].concat()),
        ("nothing", vec![], vec![]),
    ];
    for (name, stored, expected) in rows {
        let (_dir, capture) = buffer("format=dstream_coresight\nfile=a\n", &[("a", stored)]);
        assert_eq!(bytes(&capture, 0), expected, "{name}");
    }
    let split = [block(1), block(2)].concat();
    let (_dir, capture) = buffer("format=dstream_coresight\nfile=a,b\n", &[("a", &split[..510]), ("b", &split[510..])]);
    assert_eq!(bytes(&capture, 0), [vec![1; 504], vec![2; 504]].concat());
}

#[test]
fn reading_starts_at_any_byte() {
    let block = |byte: u8| [(0..=255).chain(0..248).map(|at| at ^ byte).collect(), vec![0xee; 8]].concat();
    let blocks = [block(1), block(2), block(3)[..100].to_vec()].concat();
    let files = [("a", &blocks[..600]), ("b", &blocks[600..]), ("c", b"three")];
    for lines in
        ["format=raw\nfile=a,b,c\n", "format=raw\nfile=a,c\nwrite_pointer=4\n", "format=dstream_coresight\nfile=a,b\n"]
    {
        let (_dir, capture) = buffer(lines, &files);
        let all = bytes(&capture, 0);
        for start in (0..all.len() + 3).filter(|start| start % 7 < 2 || start % 504 > 500) {
            let mut rest = Vec::new();
            let mut reader = capture.reader_at(0, start as u64).unwrap();
            reader.read_to_end(&mut rest).unwrap();
            assert_eq!(reader.len(), all.len() as u64);
            assert_eq!(rest, all.get(start..).unwrap_or_default(), "{lines} {start}");
        }
    }
}

#[test]
fn a_write_pointer_inside_a_probe_block_is_ignored() {
    let (_dir, capture) = buffer("format=dstream_coresight\nfile=a\nwrite_pointer=3\n", &[("a", [0; 512])]);
    assert!(has_note(&capture, NoteKind::BadValue, "write pointer 0x3"));
    let (_dir, capture) = buffer("format=raw\nfile=a\nwrapped=maybe\nwrite_pointer=x\n", &[("a", "abc")]);
    assert!(has_note(&capture, NoteKind::BadValue, "`maybe` is not a boolean"));
    assert!(has_note(&capture, NoteKind::BadValue, "`x` is not a number"));
    assert_eq!(bytes(&capture, 0), b"abc");
}

#[test]
fn a_huge_buffer_is_opened_in_constant_memory() {
    let (dir, _) = buffer("format=coresight\nfile=a\nwrite_pointer=0x10000000000\n", &[("a", "")]);
    File::options().write(true).open(dir.path().join("a")).unwrap().set_len((1 << 40) + 16).unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    let mut reader = capture.reader(0).unwrap();
    assert_eq!(reader.len(), (1 << 40) + 16);
    let mut start = [1; 64];
    reader.read_exact(&mut start).unwrap();
    assert_eq!(start, [0; 64]);
    let found = capture.buffers[0].file_offset(20).unwrap();
    assert_eq!((found.file, found.offset), (0, 4));
}

#[test]
fn a_file_that_shrank_is_an_error_when_read() {
    let (dir, capture) = buffer("format=raw\nfile=a\n", &[("a", "abcdef")]);
    fs::write(dir.path().join("a"), "abc").unwrap();
    let mut got = Vec::new();
    assert!(capture.reader(0).unwrap().read_to_end(&mut got).is_err());
    assert_eq!(got, b"abc");
}

#[test]
fn the_number_of_buffers_is_limited() {
    let names: Vec<String> = (0..2000).map(|n| format!("buffer{n}")).collect();
    let sections: String = names.iter().map(|name| format!("[{name}]\nfile=a\nformat=raw\n")).collect();
    let (_dir, capture) = open(&[
        ("snapshot.ini", "[trace]\nmetadata=trace.ini\n".to_string()),
        ("trace.ini", format!("[trace_buffers]\nbuffers={}\n{sections}", names.join(","))),
        ("a", String::new()),
    ]);
    assert_eq!(capture.buffers.len(), 1024);
    assert!(has_note(&capture, NoteKind::TooMany, "more than 1024 buffers"), "{}", notes(&capture));
}

/// The expected bytes of the reader, computed the simple way.
fn model(files: &[Vec<u8>], pointer: Option<usize>, blocks: bool) -> Vec<u8> {
    let mut joined = files.concat();
    joined.rotate_left(pointer.unwrap_or(0));
    if blocks { joined.chunks(512).flat_map(|block| &block[..block.len().min(504)]).copied().collect() } else { joined }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_read_sizes_return_the_same_bytes_and_file_offsets_match(
        files in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1500), 1..4),
        at in prop::option::of(any::<prop::sample::Index>()),
        blocks in any::<bool>(),
        sizes in prop::collection::vec(1_usize..700, 1..8),
    ) {
        let total: usize = files.iter().map(Vec::len).sum();
        let step = if blocks { 512 } else { 1 };
        let pointer = at.map(|at| at.index(total / step + 1) * step);
        let names = ["a", "b", "c"];
        let list: Vec<(&str, &Vec<u8>)> = names.into_iter().zip(&files).collect();
        let format = if blocks { "dstream_coresight" } else { "coresight" };
        let start = pointer.map_or(String::new(), |pointer| format!("write_pointer={pointer}\nwrapped=1\n"));
        let lines = format!("format={format}\nfile={}\n{start}", names[..files.len()].join(","));
        let (_dir, capture) = buffer(&lines, &list);

        let expected = model(&files, pointer, blocks);
        let mut reader = capture.reader(0).unwrap();
        prop_assert_eq!(reader.len(), expected.len() as u64);
        let mut got: Vec<u8> = Vec::new();
        for size in sizes.iter().cycle() {
            let mut part = vec![0; *size];
            let read = reader.read(&mut part).unwrap();
            if read == 0 {
                break;
            }
            got.extend(&part[..read]);
        }
        prop_assert_eq!(&got, &expected);

        let buffer = &capture.buffers[0];
        for (offset, byte) in expected.iter().enumerate() {
            let found = buffer.file_offset(offset as u64).unwrap();
            prop_assert_eq!(files[found.file][usize::try_from(found.offset).unwrap()], *byte);
        }
        prop_assert_eq!(buffer.file_offset(expected.len() as u64), None);
    }
}
