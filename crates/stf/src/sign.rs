//! Changed headers: their records, and the signature of the tool that changed them.
//!
//! Specification: STF 1.3, "STF File Anatomy": a tool that modifies a file updates its header; "CommentRecord" and
//! "TraceInfoRecord": it appends one record of each.

use super::builder::{SIGNATURE, our_trace_info};
use super::record::{Record, descriptor};

/// Records of a header in order, each with its descriptor.
#[derive(Debug, Clone, Default)]
pub(super) struct HeaderRecords(Vec<(u8, Vec<u8>)>);

impl HeaderRecords {
    pub(super) fn push(&mut self, record: &Record<'_>) {
        self.0.push(encoded(record));
    }

    /// Replaces all records that have the same descriptor. False: there is none.
    pub(super) fn replace(&mut self, record: &Record<'_>) -> bool {
        let (descriptor, bytes) = encoded(record);
        let mut found = false;
        for (_, old) in self.0.iter_mut().filter(|(other, _)| *other == descriptor) {
            old.clone_from(&bytes);
            found = true;
        }
        found
    }

    /// Replaces the records that have the same descriptor, or inserts it where it belongs.
    pub(super) fn put(&mut self, record: &Record<'_>) {
        if !self.replace(record) {
            self.insert_after(record.descriptor(), record);
        }
    }

    /// Inserts a record after the last one whose descriptor is at most `descriptor`. Headers are sorted; in one that is
    /// not, this is still before its end.
    pub(super) fn insert_after(&mut self, descriptor: u8, record: &Record<'_>) {
        let position = self.0.iter().rposition(|(other, _)| *other <= descriptor).map_or(0, |position| position + 1);
        self.0.insert(position, encoded(record));
    }

    /// Adds the records that name this tool.
    pub(super) fn sign(&mut self) {
        self.insert_after(descriptor::COMMENT, &Record::Comment(SIGNATURE.as_bytes()));
        self.insert_after(descriptor::TRACE_INFO, &Record::TraceInfo(our_trace_info()));
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        self.0.iter().for_each(|(_, record)| bytes.extend_from_slice(record));
    }
}

fn encoded(record: &Record<'_>) -> (u8, Vec<u8>) {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    (record.descriptor(), bytes)
}
