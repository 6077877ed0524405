//! Files of one shard in a folder of tables that many processes write.
//!
//! ```text
//! FOLDER/blocks/0003-000012-000001.parquet     source 3, shard 12: the second file
//! ```
//!
//! The files are written into a folder of their own, and renamed when all of them are complete. A process that ends early
//! leaves no file that counts, and one that repeats the work writes the same files with the same names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use unspool::target::TemporaryPath;

use crate::Error;
use crate::blocks::BlockBatch;
use crate::extract::TakeBatch;
use crate::folder::{FileNames, TableRows, TableThread};
use crate::schema::Table;

/// Rows of each table that were written.
pub(crate) type RowCounts = BTreeMap<Table, u64>;

/// Files of a shard that are being written.
pub(crate) struct ShardFiles {
    folder: PathBuf,
    unfinished: TemporaryPath,
    threads: BTreeMap<Table, TableThread>,
    rows: RowCounts,
    /// The source that names the files of tables without a column `source`.
    source: u32,
}

impl ShardFiles {
    /// Creates the files of a shard: its number in the trace, whose first source is `source`. No other attempt to write
    /// it has the same name.
    pub(crate) fn create(
        folder: &Path,
        (source, shard): (u32, u32),
        attempt: &str,
        tables: &[Table],
    ) -> Result<Self, Error> {
        let unfinished = TemporaryPath::beside(&folder.join(format!("{source:04}-{shard:06}-{attempt}")));
        let mut threads = BTreeMap::new();
        for table in tables {
            let own = unfinished.path().join(table.name());
            for folder in [&own, &folder.join(table.name())] {
                fs::create_dir_all(folder).map_err(|error| Error::of_file(folder, error))?;
            }
            threads.insert(*table, TableThread::start(*table, FileNames { folder: own, shard: Some(shard) }));
        }
        Ok(Self { folder: folder.to_path_buf(), unfinished, threads, rows: RowCounts::new(), source })
    }

    /// Completes the files, and gives them their names.
    pub(crate) fn publish(mut self) -> Result<RowCounts, Error> {
        let threads = std::mem::take(&mut self.threads);
        let tables: Vec<Table> = threads.keys().copied().collect();
        threads.into_values().map(TableThread::finish).fold(Ok(()), Result::and)?;
        for table in tables {
            let (from, to) = (self.unfinished.path().join(table.name()), self.folder.join(table.name()));
            let failed = |error| Error::of_file(&from, error);
            for entry in fs::read_dir(&from).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                fs::rename(entry.path(), to.join(entry.file_name())).map_err(failed)?;
            }
        }
        Ok(std::mem::take(&mut self.rows))
    }

    fn send(&mut self, table: Table, source: u32, rows: TableRows) -> Result<(), Error> {
        let Some(thread) = self.threads.get(&table) else { return Ok(()) };
        let count = rows.len() as u64;
        if thread.send(source, rows) {
            *self.rows.entry(table).or_default() += count;
            return Ok(());
        }
        self.threads.remove(&table).map_or(Err(Error::Thread), TableThread::finish).and(Err(Error::Thread))
    }
}

impl TakeBatch for ShardFiles {
    fn batch(&mut self, table: Table, source: u32, batch: RecordBatch) -> Result<(), Error> {
        let source = if table == Table::Instructions { self.source } else { source };
        self.send(table, source, batch.into())
    }

    fn blocks(&mut self, batch: BlockBatch) -> Result<(), Error> {
        self.send(Table::Blocks, batch.source(), batch.into())
    }
}

/// Consumer of no batches.
pub(crate) struct Nothing;

impl TakeBatch for Nothing {
    fn batch(&mut self, _table: Table, _source: u32, _batch: RecordBatch) -> Result<(), Error> {
        Ok(())
    }
}
