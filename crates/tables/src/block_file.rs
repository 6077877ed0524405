//! A Parquet file of the table `blocks`, which has most of the rows.
//!
//! ```text
//! BlockBatch ─▶ numbers of the dictionaries of a row group ─▶ ColumnChunk of each column
//! ```
//!
//! A row is a number in a batch, and numbers in the file. So it costs some lookups, however many bytes its columns have.

use std::fs::File;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use crate::blocks::{BlockBatch, Branch, Row, outcomes};
use crate::column_chunk::{ColumnChunk, Storage};
use crate::schema::Table;

/// The level of the compression: pages have so few bytes that a higher one saves little.
const LEVEL: i32 = 1;

/// Columns of the table.
const COLUMNS: usize = 10;

/// A file that is being written.
pub(crate) struct BlockFile {
    file: SerializedFileWriter<File>,
    /// Columns of the row group.
    columns: [ColumnChunk; COLUMNS],
    translation: Translation,
    compressor: Compressor<'static>,
    /// Rows of the row group, and when it is full.
    rows: usize,
    full: usize,
}

impl BlockFile {
    /// Writes the start of a file.
    pub(crate) fn create(file: File, properties: WriterProperties) -> Result<Self> {
        let full = properties.max_row_group_row_count().unwrap_or(usize::MAX);
        // The other writer knows how the schema is stored.
        let writer = ArrowWriter::try_new(file, Table::Blocks.schema(), Some(properties))?;
        let (file, _) = writer.into_serialized_writer()?;
        let columns = no_rows(file.schema_descr().columns());
        let compressor = Compressor::new(LEVEL)?;
        Ok(Self { file, columns, translation: Translation::default(), compressor, rows: 0, full })
    }

    /// Writes rows: a page of each column.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        for (column, array) in self.columns.iter_mut().zip(batch.columns()) {
            column.add(array, &mut self.compressor)?;
        }
        self.end_rows(batch.num_rows())
    }

    /// Writes rows that are numbers.
    pub(crate) fn write_blocks(&mut self, mut batch: BlockBatch) -> Result<()> {
        let compressor = &mut self.compressor;
        let [source, process, thread, sequence, time, address, instructions, taken, cycles, code] = &mut self.columns;
        let Some(page) = self.translation.translate(&batch, [&mut *address, &mut *instructions, &mut *code]) else {
            return self.write(&batch.into_batch()?);
        };
        address.add_numbers(&page.address, compressor)?;
        instructions.add_numbers(&page.instructions, compressor)?;
        code.add_numbers(&page.code, compressor)?;
        taken.add(&outcomes(&page.branches), compressor)?;
        if let [before_last @ .., _] = batch.numbers() {
            let steps = before_last.iter().map(|number| self.translation.rows[*number as usize].count);
            sequence.add_sums(batch.sequence(), steps, compressor)?;
        }
        source.add_same(Some(batch.source().into()), batch.len(), compressor)?;
        let count = batch.len();
        for (column, runs) in [process, thread, time, cycles].into_iter().zip(batch.take_runs()) {
            column.add_runs(runs, count, compressor)?;
        }
        self.end_rows(count)
    }

    /// Completes the file.
    pub(crate) fn close(mut self) -> Result<()> {
        self.end_group()?;
        self.file.close()?;
        Ok(())
    }

    fn end_rows(&mut self, rows: usize) -> Result<()> {
        self.rows += rows;
        if self.rows >= self.full { self.end_group() } else { Ok(()) }
    }

    /// Writes the row group, if it has rows.
    fn end_group(&mut self) -> Result<()> {
        if std::mem::take(&mut self.rows) == 0 {
            return Ok(());
        }
        self.translation = Translation::default();
        let full = std::mem::replace(&mut self.columns, no_rows(self.file.schema_descr().columns()));
        let mut group = self.file.next_row_group()?;
        for column in full {
            let (bytes, close) = column.close(&mut self.compressor)?;
            group.append_column(&bytes, close)?;
        }
        group.close()?;
        Ok(())
    }
}

/// Rows of batches as numbers of the dictionaries of a row group.
#[derive(Debug, Default)]
struct Translation {
    /// By number of the row; those that no batch of the row group had are [`Translated::UNKNOWN`].
    rows: Vec<Translated>,
    generation: u64,
}

/// A row.
#[derive(Debug, Clone, Copy)]
struct Translated {
    /// The number of instructions. 0: the row is not known.
    count: u32,
    address: u16,
    instructions: u16,
    code: u16,
    branch: Branch,
}

/// Columns of a page, as numbers of the dictionaries.
struct TranslatedPage {
    address: Vec<u16>,
    instructions: Vec<u16>,
    code: Vec<u16>,
    branches: Vec<Branch>,
}

impl Translation {
    /// Translates the rows of a batch; what is new in it is added to the dictionaries of address, number of instructions and
    /// code. `None`: they have no room for all of it.
    fn translate(&mut self, batch: &BlockBatch, mut columns: [&mut ColumnChunk; 3]) -> Option<TranslatedPage> {
        let (rows, generation) = batch.rows();
        if self.generation != generation {
            *self = Self { generation, ..Self::default() };
        }
        self.rows.resize(rows.len(), Translated::UNKNOWN);
        let [mut address, mut instructions, mut code] = [(); 3].map(|()| vec![0; batch.len()]);
        let mut branches = vec![Branch::None; batch.len()];
        let to = address.iter_mut().zip(&mut instructions).zip(&mut code).zip(&mut branches);
        for (number, (((address, instructions), code), branch)) in batch.numbers().iter().zip(to) {
            let known = &mut self.rows[*number as usize];
            if known.count == 0 {
                *known = Translated::of(&rows[*number as usize], &mut columns)?;
            }
            (*address, *instructions, *code, *branch) = (known.address, known.instructions, known.code, known.branch);
        }
        Some(TranslatedPage { address, instructions, code, branches })
    }
}

impl Translated {
    const UNKNOWN: Self = Self { count: 0, address: 0, instructions: 0, code: 0, branch: Branch::None };

    fn of(row: &Row, [address, instructions, code]: &mut [&mut ColumnChunk; 3]) -> Option<Self> {
        Some(Self {
            count: row.instructions,
            address: address.number(row.address)?,
            instructions: instructions.number(row.instructions.into())?,
            code: code.number(row.code.into())?,
            branch: row.branch,
        })
    }
}

/// The columns of a row group without rows.
fn no_rows(columns: &[ColumnDescPtr]) -> [ColumnChunk; COLUMNS] {
    let schema = Table::Blocks.schema();
    std::array::from_fn(|index| {
        let field = schema.field(index);
        ColumnChunk::new(Arc::clone(&columns[index]), field.data_type().clone(), storage(field))
    })
}

/// How a column is stored.
fn storage(field: &Field) -> Storage {
    match field.name().as_str() {
        "sequence" | "time" | "cycles" => Storage::Differences,
        _ if *field.data_type() == DataType::Boolean => Storage::Bits,
        _ => Storage::Dictionary,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at what it does not expect")]
mod tests {
    use std::path::Path;

    use arrow_array::{ArrayRef, BooleanArray, Int64Array, UInt32Array, UInt64Array};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::basic::Encoding;
    use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use unspool_testing::Random;

    use super::*;
    use crate::blocks::{BlockRows, NumberedRows};
    use crate::code::Piece;
    use crate::rows::Place;

    /// Rows of a row group: some batches.
    const GROUP: usize = 3000;

    #[test]
    fn files_have_what_the_other_writer_writes() {
        let temporary = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| temporary.path().join(name));
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(GROUP)).build();
        let mut random = Random::new(31);
        for round in 0..200 {
            let kinds: Vec<u64> = (0..10).map(|_| random.below(7)).collect();
            // All but the last batch of a group fill it together.
            let batches: Vec<_> = (0..1 + random.below(8)).map(|_| batch(GROUP / 3, &kinds, &mut random)).collect();
            let mut file = BlockFile::create(File::create(&one).unwrap(), properties.clone()).unwrap();
            let schema = Table::Blocks.schema();
            let created = File::create(&other).unwrap();
            let mut writer = ArrowWriter::try_new(created, schema, Some(properties.clone())).unwrap();
            for batch in &batches {
                file.write(batch).unwrap();
                writer.write(batch).unwrap();
            }
            file.close().unwrap();
            writer.close().unwrap();
            let ((one, of_one), (other, of_other)) = (read(&one), read(&other));
            assert_eq!(one, other, "round {round}");
            assert_eq!(ranges(&of_one), ranges(&of_other), "round {round}");
        }
    }

    /// Rows that are numbers are the rows of their columns, in files of more addresses than a dictionary has room for, too.
    #[test]
    fn numbered_rows_are_their_columns() {
        let temporary = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| temporary.path().join(name));
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100_000)).build();
        for (seed, blocks) in [(1, 1), (2, 10), (3, 300), (4, 90_000)] {
            let mut file = BlockFile::create(File::create(&one).unwrap(), properties.clone()).unwrap();
            block_batches(seed, blocks).into_iter().for_each(|batch| file.write_blocks(batch).unwrap());
            file.close().unwrap();
            let mut file = BlockFile::create(File::create(&other).unwrap(), properties.clone()).unwrap();
            for batch in block_batches(seed, blocks) {
                file.write(&batch.into_batch().unwrap()).unwrap();
            }
            file.close().unwrap();
            let ((one, of_one), (other, of_other)) = (read(&one), read(&other));
            assert!(one == other, "seed {seed}");
            assert_eq!(ranges(&of_one), ranges(&of_other), "seed {seed}");
            assert_eq!(has_plain_addresses(&temporary.path().join("one")), blocks > 1000, "seed {seed}");
        }
    }

    /// Whether a dictionary had no room for all addresses.
    fn has_plain_addresses(path: &Path) -> bool {
        let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let groups = (0..file.num_row_groups()).map(|group| file.get_row_group(group).unwrap());
        let mut pages = groups.flat_map(|group| group.get_column_page_reader(5).unwrap().collect::<Vec<_>>());
        pages.any(|page| {
            let page = page.unwrap();
            page.is_data_page() && page.encoding() == Encoding::PLAIN
        })
    }

    /// Random executions of random blocks.
    fn block_batches(seed: u64, blocks: u64) -> Vec<BlockBatch> {
        let mut random = Random::new(seed);
        let (mut rows, mut core, mut batches) = (NumberedRows::default(), BlockRows::default(), Vec::new());
        let (mut known, mut sequence) = (Vec::new(), 77);
        for batch in 0..12 {
            if batch == 6 {
                rows.clear();
                known.clear();
            }
            for _ in 0..blocks / 4 + 1 {
                let piece = |address| Piece {
                    address,
                    instructions: 1 + (address % 400) as u32,
                    code: (address % 3) as u32,
                    ends_in_branch: address % 5 > 1,
                };
                let pieces: Vec<Piece> = (0..1 + random.below(5) / 3).map(|_| piece(random.bits() >> 20)).collect();
                known.push(rows.add(&pieces));
            }
            let mut place = Place { process: Some(batch / 5).filter(|process| *process > 0), ..Place::default() };
            for _ in 0..1 + random.below(60_000) {
                if random.below(9) == 0 {
                    place.time = Some(place.time.unwrap_or_default() + random.below(3000)).filter(|_| batch > 2);
                }
                let block = known[random.below(known.len() as u64) as usize];
                place.sequence = sequence;
                core.execution(&block, random.below(2) == 0, &place, place.time.filter(|_| batch > 4));
                sequence += u64::from(block.instructions);
            }
            batches.push(core.take(9, &rows));
        }
        batches
    }

    /// More addresses than a dictionary has room for, in batches of all sizes.
    #[test]
    fn many_addresses() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("many");
        let (mut random, mut written) = (Random::new(7), Vec::new());
        let mut file = BlockFile::create(File::create(&path).unwrap(), WriterProperties::default()).unwrap();
        for rows in [1, 300, 40_001, 40_000, 7, 9] {
            let batch = batch(rows, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2], &mut random);
            file.write(&batch).unwrap();
            written.extend((0..rows).map(|row| batch.slice(row, 1)));
        }
        file.close().unwrap();
        let (read, _) = read(&path);
        let read: Vec<_> = read.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| batch.slice(row, 1))).collect();
        assert!(read == written);
    }

    /// Random rows, with values of a kind for each column.
    fn batch(rows: usize, kinds: &[u64], random: &mut Random) -> RecordBatch {
        let schema = Table::Blocks.schema();
        let columns = schema.fields().iter().zip(kinds).map(|(field, kind)| {
            let values = values(rows, *kind, random);
            let values: Vec<Option<u64>> = match field.is_nullable() {
                true => nulls(values, random),
                false => values.into_iter().map(Some).collect(),
            };
            let array: ArrayRef = match field.data_type() {
                DataType::UInt32 => {
                    Arc::new(values.iter().map(|value| value.map(|value| value as u32)).collect::<UInt32Array>())
                }
                DataType::Int64 => {
                    Arc::new(values.iter().map(|value| value.map(|value| value as i64)).collect::<Int64Array>())
                }
                DataType::UInt64 => Arc::new(values.into_iter().collect::<UInt64Array>()),
                _ => Arc::new(values.iter().map(|value| value.map(|value| value & 1 == 1)).collect::<BooleanArray>()),
            };
            array
        });
        RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap()
    }

    fn values(rows: usize, kind: u64, random: &mut Random) -> Vec<u64> {
        let mut last = random.bits() >> 1 >> random.below(63);
        let mut next = |_| {
            match kind {
                0 => {}
                1 => last = random.below(300),
                2 => last = random.bits() >> 1,
                3 => last = (last + random.below(50)) & i64::MAX as u64,
                4 => last = (last + random.below(5000)) & i64::MAX as u64,
                5 if random.below(100) == 0 => last = random.bits() >> random.below(63) >> 1,
                5 => {}
                _ => last = last.wrapping_sub(random.below(1 << 20)) & i64::MAX as u64,
            }
            last
        };
        (0..rows).map(&mut next).collect()
    }

    /// Removes none, some or all values.
    fn nulls(values: Vec<u64>, random: &mut Random) -> Vec<Option<u64>> {
        let out_of_4 = random.below(6).saturating_sub(1);
        values.into_iter().map(|value| (random.below(4) >= out_of_4).then_some(value)).collect()
    }

    fn read(path: &Path) -> (Vec<RecordBatch>, Arc<ParquetMetaData>) {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
        let metadata = Arc::clone(reader.metadata());
        assert_eq!(reader.schema().fields(), Table::Blocks.schema().fields());
        (reader.build().unwrap().map(Result::unwrap).collect(), metadata)
    }

    /// Of the columns of each row group, except for that of booleans: least and greatest value, and number of nulls.
    fn ranges(metadata: &ParquetMetaData) -> Vec<String> {
        let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
        columns
            .filter(|column| column.column_path().string() != "taken")
            .map(|column| {
                let of = column.statistics().unwrap();
                let (least, most) = (of.min_bytes_opt(), of.max_bytes_opt());
                format!(
                    "{} {} {least:x?} {most:x?} {:?}",
                    column.column_path(),
                    column.num_values(),
                    of.null_count_opt()
                )
            })
            .collect()
    }
}
