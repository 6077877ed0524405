//! Tables that a test has written, read back.

use std::fs::{self, File};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use unspool_tables::Table;

/// The rows of a table.
pub(crate) struct Rows {
    batches: Vec<RecordBatch>,
}

impl Rows {
    /// Reads all files of a table, in the order of their names.
    pub(crate) fn read(folder: &Path, table: Table) -> Self {
        let mut files: Vec<_> =
            fs::read_dir(folder.join(table.name())).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut batches = Vec::new();
        for file in files {
            let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap().build().unwrap();
            batches.extend(reader.map(Result::unwrap));
        }
        assert!(batches.iter().all(|batch| batch.schema().fields() == table.schema().fields()));
        Self { batches }
    }

    /// The number of rows.
    pub(crate) fn count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// A column of numbers.
    pub(crate) fn numbers(&self, column: &str) -> Vec<Option<u64>> {
        self.batches.iter().flat_map(|batch| numbers(batch.column_by_name(column).unwrap().as_ref())).collect()
    }

    /// A column of text.
    pub(crate) fn texts(&self, column: &str) -> Vec<Option<String>> {
        let of = |batch: &RecordBatch| -> Vec<Option<String>> {
            let texts = batch.column_by_name(column).unwrap().as_string::<i32>();
            texts.iter().map(|text| text.map(str::to_string)).collect()
        };
        self.batches.iter().flat_map(of).collect()
    }

    /// A column of bytes, as text.
    pub(crate) fn bytes(&self, column: &str) -> Vec<Option<String>> {
        let of = |batch: &RecordBatch| -> Vec<Option<String>> {
            let bytes = batch.column_by_name(column).unwrap().as_binary::<i32>();
            bytes.iter().map(|bytes| bytes.map(|bytes| format!("{bytes:x?}"))).collect()
        };
        self.batches.iter().flat_map(of).collect()
    }
}

fn numbers(column: &dyn Array) -> Vec<Option<u64>> {
    if let Some(column) = column.as_primitive_opt::<UInt64Type>() {
        column.iter().collect()
    } else if let Some(column) = column.as_primitive_opt::<UInt32Type>() {
        column.iter().map(|value| value.map(u64::from)).collect()
    } else if let Some(column) = column.as_primitive_opt::<UInt8Type>() {
        column.iter().map(|value| value.map(u64::from)).collect()
    } else if let Some(column) = column.as_primitive_opt::<Int64Type>() {
        column.iter().map(|value| value.map(|value| value as u64)).collect()
    } else {
        column.as_boolean().iter().map(|value| value.map(u64::from)).collect()
    }
}
