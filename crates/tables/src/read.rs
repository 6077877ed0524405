//! A table of an open trace as a stream of batches, without files.
//!
//! A thread of its own reads the trace, as fast as the batches are taken. It ends when the stream is dropped.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use unspool::Opened;

use crate::Error;
use crate::extract::{Extraction, TakeBatch};
use crate::schema::Table;

/// Batches that wait to be taken.
const WAITING: usize = 2;

/// The rows of a table.
#[derive(Debug)]
pub struct TableReader {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, ArrowError>>,
    thread: Option<JoinHandle<()>>,
}

impl TableReader {
    /// Starts to read a table. Sources that cannot be read have a problem in the table [`Table::Sources`].
    pub fn new(trace: Arc<Opened>, table: Table) -> Self {
        let (sender, batches) = sync_channel(WAITING);
        let thread = thread::spawn(move || {
            let mut take = Sender { table, batches: sender };
            if let Err(error) = read(&trace, table, &mut take) {
                // The stream may be gone.
                let _ = take.batches.send(Err(ArrowError::ExternalError(Box::new(error))));
            }
        });
        Self { schema: table.schema(), batches, thread: Some(thread) }
    }
}

impl Iterator for TableReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Ok(batch) = self.batches.recv() {
            return Some(batch);
        }
        // A defect must not look like the end of the trace.
        let is_defect = self.thread.take()?.join().is_err();
        is_defect.then(|| Err(ArrowError::ExternalError(Box::new(Error::Thread))))
    }
}

impl RecordBatchReader for TableReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn read(trace: &Opened, table: Table, take: &mut Sender) -> Result<(), Error> {
    let mut extraction = Extraction::new([table], take);
    for mut source in trace.step_sources()? {
        // The table of sources has the problem.
        let _ = extraction.trace(&source.name, &mut *source.steps, &source.program)?;
    }
    extraction.finish()
}

struct Sender {
    table: Table,
    batches: SyncSender<Result<RecordBatch, ArrowError>>,
}

impl TakeBatch for Sender {
    fn batch(&mut self, table: Table, _: u32, batch: RecordBatch) -> Result<(), Error> {
        if table != self.table {
            return Ok(());
        }
        self.batches.send(Ok(batch)).map_err(|_| Error::Thread)
    }
}
