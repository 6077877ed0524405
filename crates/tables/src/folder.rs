//! Tables on disk: a folder of Parquet files for each table.
//!
//! ```text
//! OUT/tables.json                    version of the schema, tables
//! OUT/blocks/0003-000001.parquet     rows of source 3, in the order of time: the second file
//! ```
//!
//! All is written into a temporary folder, which gets its name when it is complete: no half table is ever seen. Each table is
//! written by a thread of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use unspool::Opened;
use unspool::target::TemporaryPath;

use crate::Error;
use crate::block_file::BlockFile;
use crate::blocks::BlockBatch;
use crate::extract::{Extraction, TakeBatch};
use crate::schema::{Table, VERSION};

/// The file that lists the tables.
const CONTENTS: &str = "tables.json";

/// Rows of a file, which is a slice of time of one source.
const FILE: usize = 1 << 24;

/// Rows of a row group: a reader may skip those whose times or addresses are others.
const GROUP: usize = 1 << 20;

/// Sources whose files are open at once: each has a row group in memory.
const OPEN: usize = 64;

/// Batches that wait for the thread of a table.
const WAITING: usize = 4;

/// Writes the tables of an open trace into a folder. Sources that cannot be read have a problem in the table `sources`.
///
/// # Errors
///
/// If the folder cannot be written, or has something else than tables.
pub fn write_tables(trace: &Opened, out: impl AsRef<Path>, tables: &[Table]) -> Result<(), Error> {
    let mut folder = FolderWriter::create(out.as_ref(), tables)?;
    let mut made_of = MadeOf::default();
    let mut extraction = Extraction::new(tables.iter().copied(), &mut folder);
    for mut source in trace.step_sources()? {
        made_of.has_problems |= extraction.trace(&source.name, &mut *source.steps, &source.program)?.is_err();
    }
    extraction.finish()?;
    folder.publish(&made_of)
}

/// Fails if there is something else than tables at a path.
pub(crate) fn require_free(target: &Path) -> Result<(), Error> {
    if target.exists() && TableFolder::at(target).is_err() && !is_empty(target) {
        let problem = "this is not a folder of tables; choose another name, or remove it";
        return Err(Error::Occupied { path: target.display().to_string(), problem });
    }
    Ok(())
}

/// What tables were made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MadeOf {
    /// Identifies the traces and how they were read; any text.
    pub identity: String,
    /// Part of the traces could not be read.
    pub has_problems: bool,
}

/// Tables that are being written.
#[derive(Debug)]
pub struct FolderWriter {
    target: PathBuf,
    unfinished: TemporaryPath,
    threads: BTreeMap<Table, TableThread>,
}

/// Rows of a table.
#[derive(Debug)]
pub(crate) enum TableRows {
    Columns(RecordBatch),
    Blocks(BlockBatch),
}

impl From<RecordBatch> for TableRows {
    fn from(batch: RecordBatch) -> Self {
        Self::Columns(batch)
    }
}

impl From<BlockBatch> for TableRows {
    fn from(batch: BlockBatch) -> Self {
        Self::Blocks(batch)
    }
}

impl TableRows {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Columns(batch) => batch.num_rows(),
            Self::Blocks(batch) => batch.len(),
        }
    }
}

/// The thread that writes the files of a table.
#[derive(Debug)]
pub(crate) struct TableThread {
    batches: SyncSender<(u32, TableRows)>,
    thread: JoinHandle<Result<(), Error>>,
}

impl FolderWriter {
    /// Creates a folder for these tables, which replaces tables that are at its path when it is complete.
    ///
    /// # Errors
    ///
    /// If there is something else at the path, or the folder cannot be created.
    pub fn create(target: &Path, tables: &[Table]) -> Result<Self, Error> {
        require_free(target)?;
        let unfinished = TemporaryPath::beside(target);
        let mut threads = BTreeMap::new();
        for table in tables {
            let folder = unfinished.path().join(table.name());
            fs::create_dir_all(&folder).map_err(|error| Error::of_file(&folder, error))?;
            threads.insert(*table, TableThread::start(*table, FileNames { folder, shard: None }));
        }
        Ok(Self { target: target.to_path_buf(), unfinished, threads })
    }

    fn send(&mut self, table: Table, source: u32, rows: impl Into<TableRows>) -> Result<(), Error> {
        let Some(thread) = self.threads.get(&table) else { return Ok(()) };
        if thread.send(source, rows.into()) {
            return Ok(());
        }
        // The thread ended: its error says why.
        self.threads.remove(&table).map_or(Err(Error::Thread), TableThread::finish).and(Err(Error::Thread))
    }

    /// Completes the tables.
    ///
    /// # Errors
    ///
    /// If a table could not be written.
    pub fn publish(mut self, made_of: &MadeOf) -> Result<(), Error> {
        let tables: Vec<Table> = self.threads.keys().copied().collect();
        let mut all = Ok(());
        for (_, thread) in std::mem::take(&mut self.threads) {
            all = all.and(thread.finish());
        }
        all?;
        complete(self.unfinished.path(), &self.target, &tables, made_of)
    }
}

/// Completes a folder that has all files of these tables, and gives it its name.
pub(crate) fn complete(unfinished: &Path, target: &Path, tables: &[Table], made_of: &MadeOf) -> Result<(), Error> {
    let contents = unfinished.join(CONTENTS);
    let write = || File::create(&contents)?.write_all(contents_of(tables, made_of).as_bytes());
    write().map_err(|error| Error::of_file(&contents, error))?;
    let replaced = TemporaryPath::beside(&target.with_extension("replaced"));
    if target.exists() {
        fs::rename(target, replaced.path()).map_err(|error| Error::of_file(target, error))?;
    }
    fs::rename(unfinished, target).map_err(|error| Error::of_file(target, error))
}

impl TakeBatch for FolderWriter {
    fn batch(&mut self, table: Table, source: u32, batch: RecordBatch) -> Result<(), Error> {
        self.send(table, source, batch)
    }

    fn blocks(&mut self, batch: BlockBatch) -> Result<(), Error> {
        self.send(Table::Blocks, batch.source(), batch)
    }
}

/// Names of the files of a table.
#[derive(Debug, Clone)]
pub(crate) struct FileNames {
    pub(crate) folder: PathBuf,
    /// The files are those of a shard of a source.
    pub(crate) shard: Option<u32>,
}

impl FileNames {
    fn path(&self, source: u32, count: usize) -> PathBuf {
        let shard = self.shard.map_or_else(String::new, |shard| format!("{shard:06}-"));
        self.folder.join(format!("{source:04}-{shard}{count:06}.parquet"))
    }
}

impl TableThread {
    pub(crate) fn start(table: Table, names: FileNames) -> Self {
        let (batches, received) = sync_channel(WAITING);
        let thread = std::thread::spawn(move || write_table(table, &names, &received));
        Self { batches, thread }
    }

    /// Writes rows of a source. False: the thread ended, and [`finish`](Self::finish) says why.
    pub(crate) fn send(&self, source: u32, rows: TableRows) -> bool {
        self.batches.send((source, rows)).is_ok()
    }

    pub(crate) fn finish(self) -> Result<(), Error> {
        drop(self.batches);
        self.thread.join().unwrap_or(Err(Error::Thread))
    }
}

/// A file that is being written.
enum TableFile {
    Blocks(Box<BlockFile>),
    Others(Box<ArrowWriter<File>>),
}

impl TableFile {
    fn create(table: Table, path: &Path, properties: &WriterProperties) -> Result<Self, Error> {
        let file = File::create(path).map_err(|error| Error::of_file(path, error))?;
        let properties = properties.clone();
        Ok(match table {
            Table::Blocks => Self::Blocks(Box::new(BlockFile::create(file, properties)?)),
            _ => Self::Others(Box::new(ArrowWriter::try_new(file, table.schema(), Some(properties))?)),
        })
    }

    fn write(&mut self, rows: TableRows) -> Result<(), Error> {
        match (self, rows) {
            (Self::Blocks(file), TableRows::Blocks(batch)) => file.write_blocks(batch)?,
            (Self::Blocks(file), TableRows::Columns(batch)) => file.write(&batch)?,
            (Self::Others(file), TableRows::Columns(batch)) => file.write(&batch)?,
            (Self::Others(file), TableRows::Blocks(batch)) => file.write(&batch.into_batch()?)?,
        }
        Ok(())
    }

    fn close(self) -> Result<(), Error> {
        match self {
            Self::Blocks(file) => file.close()?,
            Self::Others(file) => file.close().map(|_| ())?,
        }
        Ok(())
    }
}

/// Files of a source.
#[derive(Default)]
struct SourceFiles {
    file: Option<TableFile>,
    /// Rows of the file.
    rows: usize,
    /// Files that are complete.
    count: usize,
}

impl SourceFiles {
    /// Completes the file, if there is one.
    fn close(&mut self) -> Result<(), Error> {
        let Some(file) = self.file.take() else { return Ok(()) };
        (self.rows, self.count) = (0, self.count + 1);
        file.close()
    }
}

fn write_table(table: Table, names: &FileNames, batches: &Receiver<(u32, TableRows)>) -> Result<(), Error> {
    let properties = properties(table);
    let mut sources: BTreeMap<u32, SourceFiles> = BTreeMap::new();
    for (source, rows) in batches {
        let is_open = sources.get(&source).is_some_and(|files| files.file.is_some());
        if !is_open && sources.values().filter(|files| files.file.is_some()).count() >= OPEN {
            sources.values_mut().try_for_each(SourceFiles::close)?;
        }
        let files = sources.entry(source).or_default();
        let file = match &mut files.file {
            Some(file) => file,
            none => none.insert(TableFile::create(table, &names.path(source, files.count), &properties)?),
        };
        files.rows += rows.len();
        file.write(rows)?;
        if files.rows >= FILE {
            files.close()?;
        }
    }
    if sources.is_empty() && names.shard.is_none() {
        // So that a reader finds the columns.
        TableFile::create(table, &names.path(0, 0), &properties)?.close()?;
    }
    sources.values_mut().try_for_each(SourceFiles::close)
}

/// How a table is stored, except for the columns of `blocks`. Numbers that grow are differences; what repeats in patterns is left to the compression.
fn properties(table: Table) -> WriterProperties {
    let metadata = vec![
        KeyValue::new("unspool.version".to_string(), VERSION.to_string()),
        KeyValue::new("unspool.table".to_string(), table.name().to_string()),
    ];
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(metadata));
    for field in table.schema().fields() {
        let column = ColumnPath::from(field.name().as_str());
        let encoding = match field.name().as_str() {
            "source" | "process" | "thread" | "sequence" | "time" | "end_sequence" | "end_time" | "call"
            | "last_call" | "code" | "number" | "position" => Encoding::DELTA_BINARY_PACKED,
            "address" | "instruction" | "size" | "value" if table != Table::Instructions => Encoding::PLAIN,
            _ => continue,
        };
        properties = properties.set_column_dictionary_enabled(column.clone(), false);
        properties = properties.set_column_encoding(column, encoding);
    }
    properties.build()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

fn contents_of(tables: &[Table], made_of: &MadeOf) -> String {
    let mut text = String::new();
    let mut object = unspool::model::json::Object::new(&mut text);
    object.string("kind", "unspool_tables").plain("version", VERSION).string("made_of", &made_of.identity);
    object.flag("has_problems", made_of.has_problems);
    object.list("tables", tables.iter(), |text, table| {
        text.push('"');
        text.push_str(table.name());
        text.push('"');
    });
    object.end_line();
    text
}

/// A folder with tables.
#[derive(Debug, Clone)]
pub struct TableFolder {
    path: PathBuf,
    tables: Vec<Table>,
    made_of: MadeOf,
}

impl TableFolder {
    /// Opens a folder of tables with the schema of this version.
    ///
    /// # Errors
    ///
    /// If it has no tables, or tables of another version.
    pub fn at(path: &Path) -> Result<Self, Error> {
        let contents = path.join(CONTENTS);
        let text = fs::read_to_string(&contents).map_err(|error| Error::of_file(&contents, error))?;
        let other = || Error::Occupied {
            path: contents.display().to_string(),
            problem: "this is not the list of tables of this version of unspool",
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|_| other())?;
        let is_known = value["kind"] == "unspool_tables" && value["version"] == VERSION;
        let names = value["tables"].as_array().filter(|_| is_known).ok_or_else(other)?;
        let tables = names.iter().filter_map(|name| Table::named(name.as_str()?)).collect();
        let identity = value["made_of"].as_str().unwrap_or_default().to_string();
        let made_of = MadeOf { identity, has_problems: value["has_problems"] == true };
        Ok(Self { path: path.to_path_buf(), tables, made_of })
    }

    /// What the tables were made of.
    pub fn made_of(&self) -> &MadeOf {
        &self.made_of
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has this table.
    pub fn has(&self, table: Table) -> bool {
        self.tables.contains(&table)
    }
}
