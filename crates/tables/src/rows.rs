//! Columns in memory, until they are a batch.
//!
//! Values that stay the same for many rows are held once, with their number.

use std::sync::Arc;

use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, Int64Array, PrimitiveArray, UInt32Array, UInt64Array, new_null_array};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::DataType;

/// Rows of a batch.
pub(crate) const BATCH: usize = 1 << 16;

/// A column whose values change rarely.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<(Option<u64>, usize)>,
}

impl Runs {
    /// Adds a value to a number of rows.
    #[inline]
    pub(crate) fn add(&mut self, value: Option<u64>, rows: usize) {
        match self.runs.last_mut() {
            Some((last, count)) if *last == value => *count += rows,
            _ => self.runs.push((value, rows)),
        }
    }

    /// The value of all rows, if it is the same.
    pub(crate) fn same(&self) -> Option<Option<u64>> {
        if let [(value, _)] = self.runs[..] { Some(value) } else { None }
    }

    /// The values, of which none is left.
    pub(crate) fn take(&mut self, rows: usize) -> ArrayRef {
        let runs = std::mem::take(&mut self.runs);
        if runs.iter().all(|(value, _)| value.is_none()) {
            return new_null_array(&DataType::UInt64, rows);
        }
        if let [(Some(value), _)] = runs[..] {
            return Arc::new(PrimitiveArray::<UInt64Type>::from_value(value, rows));
        }
        let (mut values, mut nulls) = (Vec::with_capacity(rows), NullBufferBuilder::new(rows));
        for (value, count) in runs {
            values.resize(values.len() + count, value.unwrap_or_default());
            match value {
                Some(_) => nulls.append_n_non_nulls(count),
                None => nulls.append_n_nulls(count),
            }
        }
        Arc::new(UInt64Array::new(values.into(), nulls.finish()))
    }
}

/// The columns that most tables begin with: where and when.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) process: Runs,
    pub(crate) thread: Runs,
    sequence: Vec<i64>,
    pub(crate) time: Runs,
}

/// Where and when.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) process: Option<u64>,
    pub(crate) thread: Option<u64>,
    /// Number of instructions that the core has executed before.
    pub(crate) sequence: u64,
    pub(crate) time: Option<u64>,
}

impl Places {
    pub(crate) fn add(&mut self, place: &Place) {
        self.sequence.push(place.sequence as i64);
        self.add_runs(place, 1);
    }

    /// Adds process, thread and time of a number of rows.
    pub(crate) fn add_runs(&mut self, place: &Place, rows: usize) {
        self.process.add(place.process, rows);
        self.thread.add(place.thread, rows);
        self.time.add(place.time, rows);
    }

    /// The columns, of which no row is left. Each row has a source of its own.
    pub(crate) fn take(&mut self, source: UInt32Array) -> Vec<ArrayRef> {
        let sequence = std::mem::take(&mut self.sequence);
        self.columns(sequence, source).into()
    }

    /// The columns of rows whose process, thread and time were added; none of them is left.
    pub(crate) fn take_with(&mut self, sequence: Vec<i64>, source: u32) -> [ArrayRef; 5] {
        let source = UInt32Array::from_value(source, sequence.len());
        self.columns(sequence, source)
    }

    fn columns(&mut self, sequence: Vec<i64>, source: UInt32Array) -> [ArrayRef; 5] {
        let rows = sequence.len();
        [
            Arc::new(source),
            self.process.take(rows),
            self.thread.take(rows),
            Arc::new(Int64Array::from(sequence)),
            self.time.take(rows),
        ]
    }
}
