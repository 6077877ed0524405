//! Shared helpers: encoded records, complete iterations, checks, and written files.

use std::io::{Cursor, Read};
use std::ops::ControlFlow;

use unspool_stf::Record;
use unspool_stf::check::{Checker, Finding};
use unspool_stf::lift::{Follower, Instruction};
use unspool_stf::read::{Position, Reader, Storage};
use unspool_stf::record::{BusAccess, PageTableWalk};
use unspool_stf::write::{WriteOptions, Writer};

pub(crate) fn encoded(records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

/// Bytes of little-endian words.
pub(crate) fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn written(records: &[Record<'_>], storage: Storage, options: WriteOptions) -> Vec<u8> {
    let mut writer = Writer::seekable(Cursor::new(Vec::new()), storage, options).unwrap();
    records.iter().for_each(|record| writer.record(record).unwrap());
    writer.finish().unwrap().into_inner()
}

pub(crate) fn bus_write(address: u64, size: u16, index: u8, attributes: u32) -> Record<'static> {
    Record::BusMasterAccess(BusAccess { address, size, initiator: 3, index, attributes, kind: 2 })
}

pub(crate) fn walk(first_use: u64, entries: &[u8]) -> Record<'_> {
    Record::PageTableWalk(PageTableWalk { address: 0x40_0000_1000, first_use, page_size: 4096, entries })
}

/// Visits all records of a reader, which has no error.
pub(crate) fn records_of<R: Read>(reader: &mut Reader<R>, mut visit: impl FnMut(Position, &Record<'_>)) {
    let read = reader.each(|position, record| {
        visit(position, record);
        ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
}

/// Visits all records of an uncompressed trace.
pub(crate) fn each_record(bytes: &[u8], mut visit: impl FnMut(&Record<'_>)) {
    records_of(&mut Reader::plain(bytes), |_, record| visit(record));
}

/// Visits all remaining instructions of a reader, which has no error.
pub(crate) fn instructions_of<R: Read>(
    reader: &mut Reader<R>,
    follower: &mut Follower,
    mut visit: impl FnMut(&Instruction<'_>),
) {
    let read = reader.each_instruction(follower, |instruction| {
        visit(instruction);
        ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
}

/// Visits all instructions of an uncompressed trace.
pub(crate) fn each_instruction(bytes: &[u8], visit: impl FnMut(&Instruction<'_>)) {
    instructions_of(&mut Reader::plain(bytes), &mut Follower::default(), visit);
}

pub(crate) fn check<R: Read>(reader: &mut Reader<R>) -> Vec<Finding> {
    let (mut checker, mut findings) = (Checker::new(), Vec::new());
    records_of(reader, |position, record| checker.push(position, record, &mut |finding| findings.push(finding)));
    checker.finish(&mut |finding| findings.push(finding));
    findings
}

pub(crate) fn findings(bytes: &[u8]) -> Vec<Finding> {
    check(&mut Reader::plain(bytes))
}
