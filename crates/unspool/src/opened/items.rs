//! Iterator over items that another thread produces.
//!
//! producer ─▶ batches ─▶ **next**, next, next
//!
//! Only a few batches exist, so that memory does not grow with the trace. Dropping the iterator ends the thread.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::vec::IntoIter;

use unspool_coresight::frame::FrameError;

use crate::Error;

/// Items per batch: waking a thread costs as much as many items.
const BATCH: usize = 1024;

/// Batches that may wait for the reader.
const WAITING: usize = 4;

type Sent<T> = Result<Vec<T>, Error>;

/// Iterator over the items of a capture or trace file. An error takes the place of items that could not be read; items of other
/// sources may follow it.
#[derive(Debug)]
pub struct Items<T> {
    batches: Receiver<Sent<T>>,
    batch: IntoIter<T>,
}

impl<T> Iterator for Items<T> {
    type Item = Result<T, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.batch.next() {
                return Some(Ok(item));
            }
            match self.batches.recv().ok()? {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Sending side of an iterator.
pub(super) struct Feed<T> {
    send: SyncSender<Sent<T>>,
    batch: Vec<T>,
    is_closed: bool,
    /// The source that reports the lost frames of a buffer: all sources of it have the same.
    reporters: BTreeMap<usize, usize>,
}

impl<T> Feed<T> {
    /// Whether the iterator was dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) -> ControlFlow<()> {
        self.batch.push(item);
        if self.batch.len() < BATCH { ControlFlow::Continue(()) } else { self.flush() }
    }

    /// Sends an error after the items before it.
    pub(super) fn fail(&mut self, error: Error) {
        if self.flush().is_continue() {
            self.is_closed = self.send.send(Err(error)).is_err();
        }
    }

    /// Sends an error about the frames of a buffer, once for all sources that read it.
    pub(super) fn lost(&mut self, buffer: usize, source: usize, error: FrameError) {
        if *self.reporters.entry(buffer).or_insert(source) == source {
            self.fail(error.into());
        }
    }

    fn flush(&mut self) -> ControlFlow<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        if !batch.is_empty() && !self.is_closed {
            self.is_closed = self.send.send(Ok(batch)).is_err();
        }
        if self.is_closed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Starts a thread that produces items.
pub(super) fn spawn<T: Send + 'static>(produce: impl FnOnce(&mut Feed<T>) + Send + 'static) -> Result<Items<T>, Error> {
    let (send, batches) = sync_channel(WAITING);
    let work = move || {
        let mut feed = Feed { send, batch: Vec::with_capacity(BATCH), is_closed: false, reporters: BTreeMap::new() };
        produce(&mut feed);
        // The iterator may be gone: then the rest is dropped.
        let _ = feed.flush();
    };
    thread::Builder::new().name("items".into()).spawn(work).map_err(Error::Thread)?;
    Ok(Items { batches, batch: Vec::new().into_iter() })
}
