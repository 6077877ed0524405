//! Iterator over items that another thread produces.
//!
//! producer ─▶ batches ─▶ **next**, next, next
//!
//! Only a few batches exist, so that memory does not grow with the trace. Dropping the iterator ends the thread and waits
//! for its end, so that its files are closed. A panic of the thread continues in the thread of the caller.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
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
    /// `None`: nothing more is received.
    batches: Option<Receiver<Sent<T>>>,
    batch: IntoIter<T>,
    producer: Option<JoinHandle<()>>,
}

impl<T> Items<T> {
    /// The next items, as many as are at hand and at least one: for a caller to whom each call has a cost. `None`: there are no
    /// more.
    pub fn next_batch(&mut self) -> Option<Result<Vec<T>, Error>> {
        let rest = std::mem::take(&mut self.batch);
        if rest.len() > 0 { Some(Ok(rest.collect())) } else { self.receive() }
    }

    fn receive(&mut self) -> Option<Sent<T>> {
        if let Ok(sent) = self.batches.as_ref()?.recv() {
            return Some(sent);
        }
        self.end();
        None
    }

    /// Waits for the producer. What it did not produce because of a panic must not look like the end of the trace.
    fn end(&mut self) {
        self.batches = None;
        if let Some(Err(panic)) = self.producer.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
    }
}

impl<T> Iterator for Items<T> {
    type Item = Result<T, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.batch.next() {
                return Some(Ok(item));
            }
            match self.receive()? {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl<T> Drop for Items<T> {
    fn drop(&mut self) {
        self.batches = None;
        // A panic was of no consequence for what was taken.
        let _ = self.producer.take().map(JoinHandle::join);
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
    let producer = thread::Builder::new().name("items".into()).spawn(work).map_err(Error::Thread)?;
    Ok(Items { batches: Some(batches), batch: Vec::new().into_iter(), producer: Some(producer) })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_panic_of_the_producer_is_not_the_end_of_the_trace() {
        let mut items = spawn(|feed: &mut Feed<u32>| {
            for item in 0..2 * BATCH as u32 {
                let _ = feed.push(item);
            }
            panic!("a defect");
        })
        .unwrap();
        assert_eq!(items.by_ref().take(2 * BATCH).filter(Result::is_ok).count(), 2 * BATCH);
        let panic = catch_unwind(AssertUnwindSafe(|| items.next().is_none())).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"a defect"));
        assert!(items.next().is_none());
    }

    #[test]
    fn dropping_waits_for_the_producer() {
        let file = Arc::new(());
        let of_producer = Arc::clone(&file);
        let mut items = spawn(move |feed: &mut Feed<u64>| {
            let _file = of_producer;
            let _ = (0..).try_for_each(|item| feed.push(item));
        })
        .unwrap();
        assert_eq!(items.next().unwrap().unwrap(), 0);
        drop(items);
        assert_eq!(Arc::strong_count(&file), 1);
    }

    #[test]
    fn batches_are_all_items_in_order() {
        let mut items = spawn(|feed| {
            let _ = (0..3000).try_for_each(|number| feed.push(number));
        })
        .unwrap();
        let mut all = vec![items.next().unwrap().unwrap()];
        while let Some(batch) = items.next_batch() {
            all.extend(batch.unwrap());
        }
        assert!(all.into_iter().eq(0..3000));
    }
}
