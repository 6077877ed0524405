//! ASTF files, any bytes and damaged files: records, then an end or an error.
//!
//! Input: byte 0 selects. 0: the rest is the file. 1 to 4: the rest follows a valid header with these flags. 5 and more: the
//! rest is records; they are written with one of the three storages, and then changed as the first bytes of the rest define.
//!
//! Checked: readers with one and two threads return the same records, and so do inputs with small reads; an error names the
//! record that is missing and an offset in the file; every record and every unchanged file survives a round trip.

use std::io::{Cursor, Read};

use unspool_astf::Bytes;
use unspool_astf::read::{ReadError, ReadOptions, Reader};
use unspool_astf::record::{Header, Level, Record, Storage};
use unspool_astf::write::{WriteOptions, Writer};

use crate::setup::{SmallReads, change};

/// Maximum number of records that are read: a few bytes may decompress to gigabytes.
const MAX_RECORDS: usize = 1 << 19;

/// Checks all properties for these bytes.
pub fn check(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    match choice {
        0 => agree(rest),
        1..=4 => {
            let mut header = Header::new(Level::Basic, false, Storage::Raw).to_bytes();
            header[8] = choice - 1;
            agree(&[&header, rest].concat());
        }
        _ => damaged(*choice, rest),
    }
}

/// Writes records, reads them, and does so again with bytes changed.
fn damaged(choice: u8, rest: &[u8]) {
    let (changes, rest) = rest.split_at(rest.len().min(usize::from(choice / 3 % 8) * 3));
    let (records, _) = rest.as_chunks();
    let storage = [Storage::Raw, Storage::Lzma, Storage::Zlib][usize::from(choice % 3)];
    let (threads, in_patterns) = (1 + usize::from(choice & 1), choice >> 3 & 1 == 1);
    let options = WriteOptions { threads, level: 1, block_bytes: 256, in_patterns };
    let mut writer = Writer::new(Vec::new(), &Header::new(Level::Basic, false, storage), options).expect("memory");
    writer.write(records).expect("memory");
    let mut file = writer.finish().expect("memory");
    let first = records.first().map_or(1, |record| record[0]);
    let (read, error) = all(Reader::in_place(&file[..]));
    // A first record of an unknown type may look like a container.
    if storage != Storage::Raw || [1, 5, 7, 8, 0x43, 0x44, 0x45].contains(&first) {
        assert!(error.is_none() && read == records, "{error:?}");
    }
    change(&mut file, changes);
    agree(&file);
}

fn agree(file: &[u8]) {
    let (records, error) = all(Reader::in_place(file));
    let (ahead, other) = all(Reader::new(Cursor::new(file.to_vec()), ReadOptions { threads: 2, ahead: true }));
    assert!(records == ahead, "{} records or {}: {error:?} or {other:?}", records.len(), ahead.len());
    assert_eq!(error.is_some(), other.is_some(), "{error:?} or {other:?}");
    if file.len() < 1000 {
        let (small, other) = all(Reader::in_place(SmallReads(file, 3)));
        assert!(records == small, "{error:?} or {other:?}");
        assert_eq!(error.as_ref().map(ToString::to_string), other.map(|other| other.to_string()));
    }
    for error in [&error, &other].into_iter().flatten() {
        assert!(error.offset <= file.len() as u64, "{error}");
    }
    for record in records.iter().take(1000) {
        assert_eq!(Record::from_bytes(record).to_bytes(), *record);
    }
}

fn all<R: Read>(reader: Result<Reader<R>, ReadError>) -> (Vec<Bytes>, Option<ReadError>) {
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut records = Vec::new();
    while records.len() < MAX_RECORDS {
        match reader.next_records() {
            Ok([]) => break,
            Ok(batch) => records.extend_from_slice(batch),
            Err(error) => {
                assert_eq!(error.record, records.len() as u64 + 2, "{error}");
                return (records, Some(error));
            }
        }
    }
    records.truncate(MAX_RECORDS);
    (records, None)
}
