//! Millions of arbitrary records, of every type and none: each comes back from its fields, and all of them from a file.

#![allow(clippy::unwrap_used)]

use unspool_astf::Bytes;
use unspool_astf::read::Reader;
use unspool_astf::record::{Header, Level, Record, Storage};
use unspool_astf::write::{WriteOptions, Writer};
use unspool_testing::Random;

/// Records of any bytes; most are of a known type.
fn records(count: usize, seed: u64) -> Vec<Bytes> {
    let types = [1, 5, 7, 8, 0x41, 0x43, 0x44, 0x45];
    let mut numbers = Random::new(seed);
    let mut record = || {
        let mut record = [0; 32];
        for word in record.as_chunks_mut::<8>().0 {
            *word = numbers.bits().to_le_bytes();
        }
        if let Some(&known) = types.get(usize::from(record[0] % 10)) {
            record[0] = known;
        }
        record
    };
    (0..count).map(|_| record()).collect()
}

#[test]
fn every_record_comes_back_from_its_fields() {
    for record in records(3_000_000, 1) {
        assert_eq!(Record::from_bytes(&record).to_bytes(), record);
    }
}

#[test]
fn every_record_comes_back_from_a_file() {
    for (storage, count) in [(Storage::Raw, 2_000_000), (Storage::Zlib, 1_000_000), (Storage::Lzma, 300_000)] {
        let records = records(count, count as u64);
        let header = Header::new(Level::Basic, true, storage);
        let mut writer = Writer::new(Vec::new(), &header, WriteOptions::default()).unwrap();
        records.chunks(70_001).for_each(|some| writer.write(some).unwrap());
        let file = writer.finish().unwrap();
        let mut reader = Reader::in_place(&file[..]).unwrap();
        assert_eq!(*reader.header(), header);
        let mut rest = &records[..];
        loop {
            let read = reader.next_records().unwrap();
            let (expected, after) = rest.split_at(read.len());
            assert!(read == expected, "{storage:?}: records before {} differ", records.len() - after.len());
            rest = after;
            if read.is_empty() {
                break;
            }
        }
        assert!(rest.is_empty(), "{storage:?}: {} records are missing", rest.len());
    }
}
