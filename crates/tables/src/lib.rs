//! Processor traces as tables: Arrow batches, and Parquet files for DuckDB, Spark, pandas and the like.
//!
//! ```text
//! steps, blocks of each source ─▶ Extraction ─▶ batches ─┬▶ Folder: Parquet files
//!                                                        ├▶ TableReader: a stream of batches
//!                                                        └▶ any other TakeBatch
//! ```
//!
//! [`Table`] names the tables; `docs/tables.md` describes their columns. Knows no format of traces and no engine of queries.
//!
//! ```
//! use unspool_tables::{Table, TableFolder, write_tables};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello-qemu");
//! # let temporary = tempfile::tempdir()?;
//! # let out = temporary.path().join("hello.tables");
//! # /*
//! let (path, out) = ("examples/hello-qemu", "hello.tables");
//! # */
//! let trace = unspool::open(path)?;
//! write_tables(&trace, &out, &Table::ALL)?;
//! # assert!(TableFolder::at(&out)?.has(Table::Blocks));
//! # Ok(())
//! # }
//! ```

mod accesses;
mod block_file;
mod blocks;
mod calls;
mod code;
mod code_record;
mod column_chunk;
mod encodings;
mod error;
mod events;
mod extract;
mod folder;
mod read;
mod rows;
mod schema;
mod shard_files;
pub mod shards;
pub mod views;

pub use blocks::BlockBatch;
pub use error::Error;
pub use extract::{Extraction, TakeBatch};
pub use folder::{FolderWriter, MadeOf, TableFolder, write_tables};
pub use read::TableReader;
pub use schema::{Table, VERSION};
