//! A column of a row group: a page for each batch, and the dictionary of them all.
//!
//! ```text
//! arrays ─▶ values that are not null ─▶ encodings ─▶ zstd ─▶ **pages** ─▶ row group of a file
//! ```
//!
//! Does what the writer of the crate `parquet` does for columns of numbers, in a fraction of the time: that one handles value by
//! value, and compresses numbers that it could have numbered.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::basic::{CompressionCodec, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use crate::encodings::{Dictionary, append, bits, differences, levels, same_levels};
use crate::rows::Runs;

/// How the values of a column are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// As numbers of a dictionary, as long as it has room: values that repeat.
    Dictionary,
    /// As differences: values of 64 bits that grow.
    Differences,
    /// As bits.
    Bits,
}

/// A column of a row group.
pub(crate) struct ColumnChunk {
    column: ColumnDescPtr,
    kind: DataType,
    storage: Storage,
    dictionary: Dictionary,
    pages: Pages,
    rows: u64,
    nulls: u64,
    /// Encodings of the pages.
    encodings: Vec<Encoding>,
    /// The least and the greatest value that are not in the dictionary.
    range: Option<(u64, u64)>,
    /// Values of a page that are not null.
    values: Vec<u64>,
    /// A page that is not compressed yet.
    page: Vec<u8>,
}

/// Compressed pages, one after the other.
struct Pages {
    bytes: TrackedWrite<Vec<u8>>,
    /// The size that they have without compression.
    uncompressed: usize,
}

impl ColumnChunk {
    pub(crate) fn new(column: ColumnDescPtr, kind: DataType, storage: Storage) -> Self {
        let (dictionary, pages) = (Dictionary::default(), Pages::new());
        // Levels and dictionaries have these.
        let encodings = vec![Encoding::RLE, Encoding::PLAIN];
        let (values, page) = (Vec::new(), Vec::new());
        Self { column, kind, storage, dictionary, pages, rows: 0, nulls: 0, encodings, range: None, values, page }
    }

    /// Adds a page.
    pub(crate) fn add(&mut self, array: &ArrayRef, compressor: &mut Compressor<'_>) -> Result<()> {
        self.page.clear();
        if self.column.max_def_level() > 0 {
            levels(array.nulls(), array.len(), &mut self.page);
        }
        self.nulls += array.null_count() as u64;
        let encoding = match array.as_boolean_opt() {
            Some(array) => {
                bits(array.values(), array.nulls(), &mut self.page);
                Encoding::PLAIN
            }
            None => {
                self.values.clear();
                add_values(array, &mut self.values);
                self.encode()
            }
        };
        self.end_page(array.len(), encoding, compressor)
    }

    /// The number of a value that rows can have. `None`: there is no room for another value.
    pub(crate) fn number(&mut self, value: u64) -> Option<u16> {
        self.dictionary.number(value)
    }

    /// Adds a page of values by their numbers.
    pub(crate) fn add_numbers(&mut self, numbers: &[u16], compressor: &mut Compressor<'_>) -> Result<()> {
        self.page.clear();
        self.dictionary.encode(numbers, &mut self.page);
        self.end_page(numbers.len(), Encoding::RLE_DICTIONARY, compressor)
    }

    /// Adds a page of numbers that grow: the first one, and by how much each of the others is more than the one before.
    pub(crate) fn add_sums(
        &mut self,
        first: u64,
        steps: impl ExactSizeIterator<Item = u32>,
        compressor: &mut Compressor<'_>,
    ) -> Result<()> {
        self.page.clear();
        let (rows, mut last) = (steps.len() + 1, first);
        let steps = steps.map(|step| {
            last += u64::from(step);
            step.into()
        });
        differences(first, steps, &mut self.page);
        self.range = [(first, last)].into_iter().chain(self.range).reduce(wider);
        self.end_page(rows, Encoding::DELTA_BINARY_PACKED, compressor)
    }

    /// Adds a page of values that change rarely.
    pub(crate) fn add_runs(&mut self, mut runs: Runs, rows: usize, compressor: &mut Compressor<'_>) -> Result<()> {
        match runs.same() {
            Some(value) => self.add_same(value, rows, compressor),
            None => self.add(&runs.take(rows), compressor),
        }
    }

    /// Adds a page of rows that have the same value, or none.
    pub(crate) fn add_same(&mut self, value: Option<u64>, rows: usize, compressor: &mut Compressor<'_>) -> Result<()> {
        self.page.clear();
        if self.column.max_def_level() > 0 {
            same_levels(value.is_some(), rows, &mut self.page);
        }
        self.values.clear();
        match value {
            Some(value) => self.values.resize(rows, value),
            None => self.nulls += rows as u64,
        }
        let encoding = self.encode();
        self.end_page(rows, encoding, compressor)
    }

    fn end_page(&mut self, rows: usize, encoding: Encoding, compressor: &mut Compressor<'_>) -> Result<()> {
        self.rows += rows as u64;
        self.encodings.push(encoding);
        self.pages.add(&self.page, compressor, |buf| Page::DataPage {
            buf,
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })
    }

    /// Appends the values to the page.
    fn encode(&mut self) -> Encoding {
        if self.storage == Storage::Dictionary
            && !self.values.is_empty()
            && let Some(numbers) = self.dictionary.numbers(&self.values)
        {
            self.dictionary.encode(&numbers, &mut self.page);
            return Encoding::RLE_DICTIONARY;
        }
        self.range = range(&self.values).into_iter().chain(self.range).reduce(wider);
        if let (Storage::Differences, [first, rest @ ..]) = (self.storage, self.values.as_slice()) {
            let rest = rest.iter().zip(&self.values).map(|(after, before)| after.wrapping_sub(*before) as i64);
            differences(*first, rest, &mut self.page);
            return Encoding::DELTA_BINARY_PACKED;
        }
        plain(&self.values, &self.kind, &mut self.page);
        Encoding::PLAIN
    }

    /// Its bytes and metadata.
    pub(crate) fn close(self, compressor: &mut Compressor<'_>) -> Result<(Bytes, ColumnCloseResult)> {
        let mut all = Pages::new();
        let values = self.dictionary.values();
        if !values.is_empty() {
            let mut page = Vec::new();
            plain(values, &self.kind, &mut page);
            let (num_values, encoding) = (values.len() as u32, Encoding::PLAIN);
            all.add(&page, compressor, |buf| Page::DictionaryPage { buf, num_values, encoding, is_sorted: false })?;
        }
        let first_page = all.bytes.bytes_written();
        let uncompressed = all.uncompressed + self.pages.uncompressed;
        let mut bytes = all.bytes.into_inner()?;
        bytes.extend(self.pages.bytes.into_inner()?);
        let range = range(values).into_iter().chain(self.range).reduce(wider);
        let metadata = ColumnChunkMetaData::builder(self.column)
            .set_encodings(self.encodings)
            .set_compression_codec(CompressionCodec::ZSTD)
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(uncompressed as i64)
            .set_dictionary_page_offset((first_page > 0).then_some(0))
            .set_data_page_offset(first_page as i64)
            .set_statistics(statistics(&self.kind, range, self.nulls))
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes.into(), close))
    }
}

impl Pages {
    fn new() -> Self {
        Self { bytes: TrackedWrite::new(Vec::new()), uncompressed: 0 }
    }

    fn add(&mut self, page: &[u8], compressor: &mut Compressor<'_>, of: impl FnOnce(Bytes) -> Page) -> Result<()> {
        let compressed = CompressedPage::new(of(compressor.compress(page)?.into()), page.len());
        self.uncompressed += SerializedPageWriter::new(&mut self.bytes).write_page(compressed)?.uncompressed_size;
        Ok(())
    }
}

/// Adds the values that are not null.
fn add_values(array: &ArrayRef, to: &mut Vec<u64>) {
    if array.null_count() == array.len() {
        return;
    }
    if let Some(array) = array.as_primitive_opt::<UInt32Type>() {
        to.extend(array.values().iter().map(|value| u64::from(*value)));
    } else if let Some(array) = array.as_primitive_opt::<Int64Type>() {
        to.extend(array.values().iter().map(|value| *value as u64));
    } else if let Some(array) = array.as_primitive_opt::<UInt64Type>() {
        to.extend_from_slice(array.values());
    }
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        let mut valid = nulls.iter();
        to.retain(|_| valid.next() == Some(true));
    }
}

/// Appends values as they are in memory.
fn plain(values: &[u64], kind: &DataType, page: &mut Vec<u8>) {
    match kind {
        DataType::UInt32 => append(values, values.len(), page, |value| (*value as u32).to_le_bytes()),
        _ => append(values, values.len(), page, |value| value.to_le_bytes()),
    }
}

/// The least and the greatest value.
fn range(values: &[u64]) -> Option<(u64, u64)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(least, most), value| (least.min(*value), most.max(*value))))
}

fn wider(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0.min(other.0), one.1.max(other.1))
}

fn statistics(kind: &DataType, range: Option<(u64, u64)>, nulls: u64) -> Statistics {
    let (least, most) = range.unzip();
    match kind {
        DataType::Boolean => Statistics::boolean(None, None, None, Some(nulls), false),
        DataType::UInt32 => {
            let [least, most] = [least, most].map(|value| value.map(|value| value as i32));
            Statistics::int32(least, most, None, Some(nulls), false)
        }
        _ => {
            let [least, most] = [least, most].map(|value| value.map(|value| value as i64));
            Statistics::int64(least, most, None, Some(nulls), false)
        }
    }
}
