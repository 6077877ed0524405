//! Unpacking in a thread of its own, a few batches ahead of the caller.
//!
//! unpacker ─▶ full batches ─▶ **caller** ─▶ empty batches ─▶ unpacker
//!
//! The batches go round, so there are never more of them. The thread ends when the file does, or when nobody waits for
//! batches any more and its read returns.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::unpack::Unpacker;
use super::{Batch, End, Fault, ReadErrorKind};

/// How many batches go round besides the one that the caller has.
const BATCHES: usize = 4;

/// The caller's end of the round.
pub(super) struct Ahead {
    full: Receiver<Batch>,
    empty: SyncSender<Batch>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Starts the thread.
    pub(super) fn new<R: Read + Send + 'static>(mut unpacker: Unpacker<R>) -> io::Result<Self> {
        let (to_caller, full) = sync_channel(BATCHES + 1);
        let (empty, from_caller) = sync_channel(BATCHES + 1);
        let run = move || {
            let fresh = (0..BATCHES).map(|_| Batch::new());
            for mut batch in fresh.chain(from_caller) {
                unpacker.fill(&mut batch);
                let is_last = batch.end.is_some();
                if to_caller.send(batch).is_err() || is_last {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("astf unpack".into()).spawn(run)?;
        Ok(Self { full, empty, thread: Some(thread) })
    }

    /// Gives back a batch for the next one.
    pub(super) fn swap(&mut self, batch: &mut Batch) {
        match self.full.recv() {
            // At the end nobody takes it.
            Ok(full) => drop(self.empty.send(std::mem::replace(batch, full))),
            Err(_) => {
                let kind = ReadErrorKind::Io(io::Error::other("the thread that reads has failed"));
                batch.end = Some(End::Fault(Fault::new(kind, 0)));
            }
        }
        if batch.end.is_some() {
            // It has nothing left to do. What it failed of, if it did, is told by the batch.
            self.thread.take().map(JoinHandle::join);
        }
    }
}
