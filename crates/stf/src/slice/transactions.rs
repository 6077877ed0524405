//! Slices of transactions, copied unchanged.
//!
//! Records before a transaction belong to it: dependencies and comments. The cycles of the first are relative to its
//! predecessor in the trace.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::{ControlFlow, Range};

use super::super::builder::RecordSink;
use super::super::read::Reader;
use super::super::record::Record;
use super::{SliceError, SliceOptions, Sliced, SourceHeader};

/// Writes the transactions of a range; the reader is after the header.
pub(super) fn slice<R: Read>(
    reader: &mut Reader<R>,
    header: &SourceHeader,
    range: Range<u64>,
    options: SliceOptions,
    sink: &mut impl RecordSink,
) -> Result<Sliced, SliceError> {
    let mut slicer = Slicer {
        header,
        options,
        range,
        sink,
        passed: 0,
        process: None,
        group: Vec::new(),
        dependencies: Vec::new(),
        numbers: Numbers::default(),
        sliced: Sliced::default(),
        failed: None,
    };
    // Nothing is read after the last transaction, so that a damaged end does not matter.
    let read = if slicer.range.is_empty() { Ok(true) } else { reader.each(|_, record| slicer.record(record)) };
    match (slicer.failed.take(), read) {
        (Some(error), _) => Err(SliceError::Write(error)),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(_)) if slicer.sliced.transactions == 0 => Err(SliceError::NoTransaction(slicer.passed)),
        (None, Ok(_)) => Ok(slicer.sliced),
    }
}

/// A slice in progress.
struct Slicer<'a, S> {
    header: &'a SourceHeader,
    options: SliceOptions,
    range: Range<u64>,
    sink: &'a mut S,
    /// Number of transactions so far.
    passed: u64,
    /// The process recorded last before the slice.
    process: Option<[u32; 3]>,
    /// Records of the next transaction in the range.
    group: Vec<u8>,
    /// Dependencies of the next transaction.
    dependencies: Vec<u64>,
    /// Numbers of the transactions in the slice.
    numbers: Numbers,
    sliced: Sliced,
    failed: Option<io::Error>,
}

impl<S: RecordSink> Slicer<'_, S> {
    fn record(&mut self, record: &Record<'_>) -> ControlFlow<()> {
        let is_within = self.passed >= self.range.start;
        match record {
            Record::Transaction(transaction) if is_within => return self.transaction(transaction.id, record),
            Record::Transaction(_) => self.passed += 1,
            // The slice has no end mark.
            Record::ReserveEnd => {}
            Record::ProcessIdExt(ids) if !is_within => self.process = Some(*ids),
            _ if !is_within => {}
            other => {
                if let Record::TransactionDependency { id, .. } = other {
                    self.dependencies.push(*id);
                }
                other.encode(&mut self.group);
            }
        }
        ControlFlow::Continue(())
    }

    fn transaction(&mut self, id: u64, record: &Record<'_>) -> ControlFlow<()> {
        record.encode(&mut self.group);
        if let Err(error) = self.write() {
            self.failed = Some(error);
            return ControlFlow::Break(());
        }
        let outside = self.dependencies.iter().filter(|id| !self.numbers.contains(**id)).count() as u64;
        // A slice from the start has left nothing out before it.
        self.sliced.dependencies_kept += if self.range.start > 0 { outside } else { 0 };
        self.numbers.insert(id);
        self.dependencies.clear();
        self.group.clear();
        self.passed += 1;
        self.sliced.transactions += 1;
        if self.passed >= self.range.end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        if self.sliced.transactions == 0 {
            let mut bytes = self.header.for_slice(None, self.options);
            if let Some(ids) = self.process.filter(|ids| Some(*ids) != self.header.fields.process) {
                Record::ProcessIdExt(ids).encode(&mut bytes);
            }
            bytes.append(&mut self.group);
            self.group = bytes;
        }
        self.sink.write_records(&self.group)
    }
}

/// Set of numbers, stored as runs: transaction numbers increase by one in most traces, so it stays small.
#[derive(Debug, Default)]
struct Numbers {
    /// First number of a run, and its last.
    runs: BTreeMap<u64, u64>,
}

impl Numbers {
    fn contains(&self, number: u64) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    fn insert(&mut self, number: u64) {
        if self.contains(number) {
            return;
        }
        let last = number.checked_add(1).and_then(|next| self.runs.remove(&next)).unwrap_or(number);
        match self.runs.range_mut(..number).next_back() {
            Some((_, before)) if *before + 1 == number => *before = last,
            _ => {
                self.runs.insert(number, last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn numbers_are_kept_in_runs() {
        type Row = (&'static str, &'static [u64], &'static [(u64, u64)]);
        let rows: [Row; 7] = [
            ("none", &[], &[]),
            ("rising", &[1, 2, 3], &[(1, 3)]),
            ("falling", &[3, 2, 1], &[(1, 3)]),
            ("a gap", &[1, 3], &[(1, 1), (3, 3)]),
            ("a gap that is filled", &[1, 3, 2], &[(1, 3)]),
            ("twice", &[5, 5, 6, 5], &[(5, 6)]),
            ("the ends", &[u64::MAX, 0, u64::MAX - 1], &[(0, 0), (u64::MAX - 1, u64::MAX)]),
        ];
        for (name, numbers, runs) in rows {
            let mut found = Numbers::default();
            numbers.iter().for_each(|number| found.insert(*number));
            assert!(
                found.runs.iter().map(|(first, last)| (*first, *last)).eq(runs.iter().copied()),
                "{name}: {found:?}"
            );
            assert!(numbers.iter().all(|number| found.contains(*number)), "{name}");
            assert!(!found.contains(100), "{name}");
        }
    }
}
