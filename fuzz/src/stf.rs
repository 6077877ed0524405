//! STF files, any bytes and damaged files: records, then an end or an error.
//!
//! Input: byte 0 selects. 0: the rest is the file. 1: the rest follows a valid header. 2: the rest is the chunks of a .zstf
//! file. 3 and more: the rest is records after a valid header, as far as it can be read; they are written in one of the five
//! containers, and then changed as the first bytes of the rest define.
//!
//! Checked: readers with one and two threads, of a pipe and of a file, return the same records; an error names the record
//! that is missing; every record and every unchanged file survives a round trip; seeking finds the same instruction as
//! reading. For readable files: findings refer to existing records; a slice contains what it reports, can be read, and is
//! the same if it is sliced again; the same holds for a rewrite to another version.

use std::io::{Cursor, Read};
use std::ops::ControlFlow;

use unspool_stf::builder::StfVersion;
use unspool_stf::check::Checker;
use unspool_stf::lift::Follower;
use unspool_stf::read::{ReadError, ReadOptions, Reader, Storage};
use unspool_stf::record::descriptor;
use unspool_stf::slice::{SliceOptions, Sliced, slice};
use unspool_stf::version::Rewriter;
use unspool_stf::write::{WriteOptions, Writer};
use unspool_stf::{Layout, Record};

use crate::setup::{SmallReads, change};

/// Maximum number of bytes that are read: a few bytes may decompress to gigabytes.
const MAX_BYTES: usize = 1 << 22;

/// Identifier, version, features, vector length, protocol, end of the header.
pub const HEADER: &[u8] =
    b"\x01STF\x02\x01\0\0\0\x06\0\0\0\x07\0\0\x08\0\0\0\0\0\x0a\x80\0\0\0\x0b\x01\x09\0\0\0\x80\0\0\0\0\x13";

/// Checks all properties for these bytes.
pub fn check(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    match choice {
        0 => agree(rest),
        1 => agree(&[HEADER, rest].concat()),
        2 => agree(&[b"ZSTF\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", rest].concat()),
        _ => damaged(*choice, rest),
    }
}

/// Writes records, reads them, and does so again with bytes changed.
fn damaged(choice: u8, rest: &[u8]) {
    let (changes, rest) = rest.split_at(rest.len().min(usize::from(choice / 5 % 4) * 3));
    let bytes = [HEADER, rest].concat();
    let records = &bytes[..readable(&bytes)];
    let container = Storage::ALL[usize::from(choice % 5)];
    let (threads, chunk_markers) = (1 + usize::from(choice & 1), 1 + u64::from(choice >> 6));
    let options = WriteOptions { threads, level: Some(1), chunk_markers };
    let mut writer = Writer::seekable(Cursor::new(Vec::new()), container, options).expect("memory");
    writer.write(records).expect("memory");
    let mut file = writer.finish().expect("memory").into_inner();
    let (read, error) = all(Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads: 1 }));
    // The end marker is the only record that no other record may follow.
    let is_refused = error.as_ref().is_some_and(|error| error.to_string().contains("ends before this"));
    let has_version = error.as_ref().is_some_and(|error| error.to_string().contains("version"));
    assert!(is_refused || has_version || (error.is_none() && read == records), "{container}: {error:?}");
    if container == Storage::Zstf && error.is_none() {
        check_seeking(&file);
    }
    change(&mut file, changes);
    agree(&file);
}

/// Number of bytes that are complete records.
fn readable(bytes: &[u8]) -> usize {
    let (mut layout, mut at) = (Layout::default(), 0);
    while let Ok((record, length)) = Record::parse(&bytes[at..], &layout) {
        layout.follow(&record);
        at += length;
    }
    at
}

/// Seeking an instruction finds the same one as reading.
fn check_seeking(file: &[u8]) {
    let open = || Reader::seekable(Cursor::new(file.to_vec()), ReadOptions { threads: 1 }).expect("a good file");
    let mut expected = Vec::new();
    let read = open().each_instruction(&mut Follower::default(), |instruction| {
        expected.push((instruction.number, instruction.pc, instruction.opcode));
        ControlFlow::Continue(())
    });
    if read.is_err() {
        return;
    }
    let (mut reader, mut follower) = (open(), Follower::default());
    for before in [expected.len() / 2, 0, expected.len().saturating_sub(1)] {
        let Some(expected) = expected.get(before) else { return };
        assert!(reader.seek_instruction(before as u64, &mut follower).expect("a good file"));
        let mut found = None;
        let read = reader.each_instruction(&mut follower, |instruction| {
            found = Some((instruction.number, instruction.pc, instruction.opcode));
            ControlFlow::Break(())
        });
        read.expect("a good file");
        assert_eq!(found.as_ref(), Some(expected));
    }
}

fn agree(file: &[u8]) {
    let piped = |threads| all(Reader::new(Cursor::new(file.to_vec()), ReadOptions { threads }));
    let seekable = |threads| all(Reader::seekable(Cursor::new(file.to_vec()), ReadOptions { threads }));
    let (first, error) = piped(1);
    for (how, (bytes, other)) in [("piped, 2", piped(2)), ("seekable, 1", seekable(1)), ("seekable, 2", seekable(2))] {
        assert!(bytes == first, "{how}: {} bytes or {}: {other:?} or {error:?}", bytes.len(), first.len());
        assert_eq!(other.is_some(), error.is_some(), "{how}: {other:?} or {error:?}");
    }
    if file.len() < 1000 {
        let (small, other) = all(Reader::new(SmallReads(Cursor::new(file.to_vec()), 3), ReadOptions { threads: 1 }));
        assert!(first == small, "{error:?} or {other:?}");
        assert_eq!(error.as_ref().map(ToString::to_string), other.map(|other| other.to_string()));
    }
    if first.len() < 1 << 16 {
        check_uses(&first);
        // The header contains nothing about instructions, so that its traces are of transactions.
        if let Some(body) = first.strip_prefix(HEADER) {
            let (end, start) = (b"\x05\x02\0\x13", &HEADER[..HEADER.len() - 1]);
            check_uses(&[start, end, body].concat());
        }
    }
    if first.len() < MAX_BYTES
        && let Ok(mut reader) = Reader::seekable(Cursor::new(file.to_vec()), ReadOptions { threads: 1 })
    {
        // Any result is fine, as long as there is one.
        let mut follower = Follower::default();
        let _ = reader.seek_instruction(3, &mut follower);
        let _ = reader.each_instruction(&mut follower, |_| ControlFlow::Continue(()));
        let _ = reader.seek_instruction(1, &mut follower);
    }
}

/// Checks rules, slices and versions of records that can be read.
fn check_uses(bytes: &[u8]) {
    let Some(markers) = checked(bytes) else { return };
    for range in [0..u64::MAX, 1..3, markers / 2..markers] {
        let Some((cut, sliced)) = slice_of(bytes, range.clone()) else { continue };
        let counted = checked(&cut).expect("a slice is valid");
        let kept = sliced.instructions.max(sliced.transactions);
        assert!(kept > 0 && kept <= range.end - range.start && kept <= counted, "{sliced:?}, {counted}");
        let (again, same) = slice_of(&cut, 0..kept).expect("a slice can be sliced");
        assert!(again == cut && (same.instructions, same.transactions) == (sliced.instructions, sliced.transactions));
    }
    for version in [StfVersion::V1_3, StfVersion::V1_6] {
        let Some(other) = rewritten(bytes, version) else { continue };
        let counted = checked(&other).expect("another version can be read");
        assert_eq!(counted, markers, "{version:?}");
        let again = rewritten(&other, version).expect("it is of this version already");
        assert!(again.ends_with(body(&other)), "{version:?}");
    }
}

/// Number of opcodes and transactions; `None` if records are not where they belong.
fn checked(bytes: &[u8]) -> Option<u64> {
    let (mut checker, mut markers, mut is_ended, mut is_proper, mut read) = (Checker::new(), 0, false, true, 0);
    let mut reader = Reader::plain(bytes);
    let result = reader.each(|position, record| {
        let at = record.descriptor();
        let is_of_body = matches!(
            at,
            descriptor::COMMENT | descriptor::INST_IEM | descriptor::PROCESS_ID_EXT | descriptor::FORCE_PC
        );
        is_proper &= if is_ended { at > descriptor::END_HEADER || is_of_body } else { at <= descriptor::END_HEADER };
        is_ended |= at == descriptor::END_HEADER;
        markers +=
            u64::from(matches!(record, Record::InstOpcode32(_) | Record::InstOpcode16(_) | Record::Transaction(_)));
        checker.push(position, record, &mut |found| assert!(found.position.record <= position.record));
        read = position.record;
        ControlFlow::Continue(())
    });
    checker.finish(&mut |found| assert!(found.position.record <= read));
    (result.is_ok() && is_ended && is_proper).then_some(markers)
}

fn slice_of(bytes: &[u8], range: std::ops::Range<u64>) -> Option<(Vec<u8>, Sliced)> {
    let mut cut = Vec::new();
    let sliced = slice(&mut Reader::plain(bytes), range, SliceOptions { sign: false, split: false, registers: false }, &mut cut).ok()?;
    Some((cut, sliced))
}

/// The records in another version, if that can express any of them.
fn rewritten(bytes: &[u8], version: StfVersion) -> Option<Vec<u8>> {
    let (mut rewriter, mut other) = (Rewriter::new(version), Vec::new());
    let read = Reader::plain(bytes).each(|_, record| {
        rewriter.record(record, &mut other);
        ControlFlow::Continue(())
    });
    read.expect("records that were read");
    (!rewriter.is_impossible()).then_some(other)
}

/// The records after the header.
fn body(bytes: &[u8]) -> &[u8] {
    let (mut layout, mut at) = (Layout::default(), 0);
    while let Ok((record, length)) = Record::parse(&bytes[at..], &layout) {
        layout.follow(&record);
        at += length;
        if record == Record::EndHeader {
            break;
        }
    }
    &bytes[at..]
}

/// The bytes of all records, each encoded again, and the error at their end.
fn all<R: Read>(reader: Result<Reader<R>, ReadError>) -> (Vec<u8>, Option<ReadError>) {
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut bytes, mut records) = (Vec::new(), 0);
    let result = reader.each(|position, record| {
        assert_eq!((position.record, position.offset), (records, bytes.len() as u64));
        record.encode(&mut bytes);
        records += 1;
        if bytes.len() < MAX_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Err(error) = &result {
        assert_eq!((error.record, error.offset), (records, bytes.len() as u64), "{error}");
    }
    (bytes, result.err())
}
