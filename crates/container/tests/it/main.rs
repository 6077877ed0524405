//! Every container: round trips; truncated or changed files yield the bytes before the damage, and its fault.

#![allow(clippy::unwrap_used)]

use std::io::{self, Cursor, Read, Write};

use proptest::prelude::*;
use unspool_container::{
    CompressOptions, CompressedWriter, Container, Damage, Decompressor, Fault, Input, MEMORY_LIMIT, MaybeSeek,
    ReadAheadBytes,
};

const COMPRESSED: [Container; 5] = [Container::Gzip, Container::Zlib, Container::Xz, Container::Lzma, Container::Zstd];

/// Bytes that compress about as well as a trace.
fn bytes(length: usize) -> Vec<u8> {
    let mut number = 1_u32;
    let next = std::iter::repeat_with(|| {
        number = number.wrapping_mul(0x9e37_79b9).wrapping_add(1) ^ number >> 15;
        if number & 3 == 0 { number as u8 } else { b'a' + (number & 7) as u8 }
    });
    next.take(length).collect()
}

fn compressed(bytes: &[u8], container: Container, options: CompressOptions) -> Vec<u8> {
    let mut writer = CompressedWriter::new(Vec::new(), container, options).unwrap();
    bytes.chunks(1000).for_each(|chunk| writer.write_all(chunk).unwrap());
    writer.finish().unwrap()
}

fn packed(bytes: &[u8], container: Container) -> Vec<u8> {
    compressed(bytes, container, CompressOptions { threads: 1, ..CompressOptions::default() })
}

/// The bytes, and the damage that ended them.
fn unpacked(input: impl Read, container: Container, threads: usize) -> (Vec<u8>, Option<Damage>) {
    let mut decompressor = Decompressor::new(Input::new(input), container, threads).unwrap();
    let mut bytes = Vec::new();
    let end = decompressor.read_to_end(&mut bytes);
    assert_eq!(decompressor.read(&mut [0]).unwrap(), 0, "an error is reported once");
    (bytes, end.err().map(|error| Damage::of(&error).unwrap()))
}

/// An input that returns at most seven bytes per call, and then an end or an error.
struct SmallReads<'a>(&'a [u8], Option<io::ErrorKind>);

impl Read for SmallReads<'_> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        let length = self.0.len().min(output.len()).min(7);
        output[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        self.1.filter(|_| length == 0).map_or(Ok(length), |kind| Err(kind.into()))
    }
}

#[test]
fn written_bytes_survive_a_round_trip() {
    for length in [0, 1, 1000, 65_535, 65_536, 3_000_000] {
        let expected = bytes(length);
        for container in Container::ALL {
            let file = packed(&expected, container);
            for threads in [1, 4] {
                assert!(unpacked(&file[..], container, threads) == (expected.clone(), None), "{container} {length}");
            }
            assert!(
                unpacked(SmallReads(&file, None), container, 1) == (expected.clone(), None),
                "{container} with small reads"
            );
            assert!(container == Container::Plain || container.has_header(&file), "{container}");
            assert_eq!(Container::of(&file).unwrap_or(container), container);
        }
    }
}

#[test]
fn threads_do_not_change_what_is_written() {
    let expected = bytes(1 << 20);
    for container in Container::ALL {
        let options = |threads| CompressOptions { threads, level: Some(1), block_bytes: 100_000 };
        let file = compressed(&expected, container, options(1));
        assert!(compressed(&expected, container, options(3)) == file, "{container}");
        for threads in [1, 3] {
            assert!(unpacked(&file[..], container, threads) == (expected.clone(), None), "{container} {threads}");
        }
    }
}

#[test]
fn a_truncated_file_yields_a_prefix() {
    let expected = bytes(3000);
    for container in COMPRESSED {
        let file = packed(&expected, container);
        for threads in [1, 2] {
            for end in 0..file.len() {
                let (bytes, damage) = unpacked(&file[..end], container, threads);
                assert!(expected.starts_with(&bytes), "{container} {end}");
                let cut = Damage { offset: end as u64, fault: Fault::CutShort };
                assert_eq!(damage, Some(cut), "{container} {end} {threads}");
            }
        }
    }
}

#[test]
fn a_read_error_comes_after_everything_before_it() {
    let expected = bytes(300_000);
    for container in Container::ALL {
        let file = packed(&expected, container);
        for end in [0, 10, file.len() / 2, file.len()] {
            let input = Input::new(SmallReads(&file[..end], Some(io::ErrorKind::PermissionDenied)));
            let mut bytes = Vec::new();
            let error = Decompressor::new(input, container, 1).unwrap().read_to_end(&mut bytes).unwrap_err();
            assert!(expected.starts_with(&bytes), "{container} {end}");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{container} {end}");
            assert!(end < file.len() || bytes == expected, "{container}");
        }
    }
}

#[test]
fn members_may_follow_each_other() {
    let (first, second) = (bytes(5000), b"the second".to_vec());
    let both = [&first[..], &second].concat();
    for container in COMPRESSED {
        let file = |between: &[u8]| [&packed(&first, container)[..], between, &packed(&second, container)].concat();
        let end = packed(&first, container).len() as u64;
        let trailing = |offset| (first.clone(), Some(Damage { offset, fault: Fault::Trailing }));
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2];
        let between: &[u8] = match container {
            Container::Xz => &[0; 8],
            Container::Zstd => &skippable,
            _ => &[],
        };
        let is_single = matches!(container, Container::Zlib | Container::Lzma);
        let expected = if is_single { trailing(end) } else { (both.clone(), None) };
        assert!(unpacked(&file(between)[..], container, 1) == expected, "{container}");
        assert!(unpacked(&file(b"x")[..], container, 1) == trailing(end), "{container}");
        let odd = if container == Container::Xz { trailing(end + 3) } else { trailing(end) };
        assert!(unpacked(&file(&[0; 3])[..], container, 1) == odd, "{container}");
        if !is_single {
            let cut = [&packed(&first, container)[..], &container.magic()[..2]].concat();
            let (_, damage) = unpacked(&cut[..], container, 1);
            assert_eq!(damage, Some(Damage { offset: end + 2, fault: Fault::CutShort }), "{container}");
        }
    }
}

#[test]
fn memory_limit_and_unsupported_methods_are_faults() {
    let mut lzma = packed(b"small", Container::Lzma);
    // A dictionary of 2 GiB.
    lzma[1..5].copy_from_slice(&(1_u32 << 31).to_le_bytes());
    let mut zlib = packed(b"small", Container::Zlib);
    // A preset dictionary.
    zlib[1] = 0x20 + (31 - (u16::from_be_bytes([zlib[0], 0x20]) % 31) as u8);
    zlib.splice(2..2, [1, 2, 3, 4]);
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0, (30 - 10) << 3, 0, 0, 0];
    assert_eq!(MEMORY_LIMIT, 1 << 29);
    let rows: &[(&[u8], Container, Fault)] = &[
        (&lzma, Container::Lzma, Fault::Memory),
        (&zlib, Container::Zlib, Fault::Unsupported),
        (&zstd, Container::Zstd, Fault::Memory),
        (b"no gzip at all", Container::Gzip, Fault::Damaged),
        (b"no xz at all", Container::Xz, Fault::Damaged),
    ];
    for (file, container, fault) in rows {
        let (bytes, damage) = unpacked(*file, *container, 1);
        assert_eq!((bytes, damage.map(|damage| damage.fault)), (vec![], Some(*fault)), "{container}");
    }
}

#[test]
fn reading_ahead_changes_nothing() {
    let expected = bytes(2_000_000);
    for container in Container::ALL {
        let file = packed(&expected, container);
        let decompressor = Decompressor::new(Input::new(Cursor::new(file)), container, 2).unwrap();
        let mut bytes = Vec::new();
        ReadAheadBytes::new("test", decompressor).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes == expected, "{container}");
    }
}

#[test]
fn a_file_can_seek_and_a_pipe_cannot() {
    let expected = bytes(500_000);
    let file = || Box::new(Cursor::new(expected.clone()));
    let mut input = Input::new(MaybeSeek::File(file()));
    assert_eq!(input.length().unwrap(), Some(500_000));
    for offset in [400_000_u64, 10, 20, 0, 499_990] {
        input.seek(offset).unwrap();
        assert_eq!((input.offset(), input.peek(10)), (offset, &expected[offset as usize..][..10]));
    }
    let mut taken = Vec::new();
    assert_eq!(input.append(&mut taken, 100), 10);
    input.unread(taken);
    assert_eq!((input.offset(), input.peek(100)), (499_990, &expected[499_990..]));
    let mut input = Input::new(MaybeSeek::Pipe(file()));
    assert_eq!(input.length().unwrap(), None);
    input.peek(10);
    input.seek(5).unwrap();
    input.seek(400_000).unwrap();
    assert_eq!((input.offset(), input.peek(10)), (5, &expected[5..15]));
}

proptest! {
    #[test]
    fn changed_bits_never_panic(seed in any::<u64>(), length in 0..2000_usize, threads in 1..3_usize) {
        let expected = bytes(length);
        for container in COMPRESSED {
            let mut file = packed(&expected, container);
            let at = seed as usize % file.len();
            file[at] ^= 1 << (seed >> 32 & 7);
            let (_, damage) = unpacked(&file[..], container, threads);
            prop_assert!(damage.is_none_or(|damage| damage.offset <= file.len() as u64));
        }
    }

    #[test]
    fn any_bytes_never_panic(file in prop::collection::vec(any::<u8>(), 0..300), threads in 1..3_usize) {
        for container in COMPRESSED {
            let file = [container.magic(), &file].concat();
            unpacked(&file[..], container, threads);
        }
    }
}
