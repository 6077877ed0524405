//! Threads that decompress chunks.
//!
//! chunks ─▶ whichever thread is free ─▶ pieces, of each chunk on a way of its own
//!
//! A thread that has two pieces waiting for the caller waits too, so that memory does not depend on what chunks hold.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::frame::{Packed, Piece, Then, Zstd};

/// How many pieces of a chunk wait for the caller.
const WAITING: usize = 1;

/// More threads than this are of no use here.
pub(crate) const MOST_THREADS: usize = 64;

/// Buffers that were used and can be again.
pub(super) type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// The threads. They end when nobody gives them chunks any more.
pub(super) struct Workers {
    jobs: Sender<Job>,
    pub(super) spare: Spare,
}

struct Job {
    packed: Packed,
    pieces: SyncSender<Piece>,
}

impl Workers {
    pub(super) fn new(threads: usize) -> io::Result<Self> {
        let (jobs, given) = channel();
        let given = Arc::new(Mutex::new(given));
        let spare = Spare::default();
        for _ in 0..threads.min(MOST_THREADS) {
            let (given, spare) = (Arc::clone(&given), Arc::clone(&spare));
            thread::Builder::new().name("stf unpack".into()).spawn(move || work(&given, &spare))?;
        }
        Ok(Self { jobs, spare })
    }

    /// Has a chunk decompressed.
    pub(super) fn give(&self, packed: Packed) -> Receiver<Piece> {
        let (pieces, taken) = sync_channel(WAITING);
        // If all threads are gone, the caller finds that no piece comes.
        drop(self.jobs.send(Job { packed, pieces }));
        taken
    }
}

fn work(given: &Mutex<Receiver<Job>>, spare: &Spare) {
    let Ok(mut zstd) = Zstd::new() else { return };
    loop {
        let job = given.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { mut packed, pieces }) = job else { return };
        loop {
            let piece = packed.next(&mut zstd, take(spare));
            let goes_on = piece.then == Then::More;
            if pieces.send(piece).is_err() || !goes_on {
                break;
            }
        }
    }
}

/// A buffer of any size.
pub(super) fn take(spare: &Spare) -> Vec<u8> {
    spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
}

/// Has a buffer used again.
pub(super) fn give_back(spare: &Spare, buffer: Vec<u8>) {
    spare.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
}
