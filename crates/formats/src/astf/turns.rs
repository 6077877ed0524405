//! Threads that take jobs in turn and give them back in the same order.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// How many jobs a thread has: one at work and one that waits.
const JOBS: usize = 2;

/// Threads, or only the caller.
pub(super) struct Turns<J> {
    workers: Vec<Worker<J>>,
    /// How many jobs were given out, and how many came back.
    given: usize,
    taken: usize,
}

enum Worker<J> {
    Caller(Box<dyn FnMut(&mut J) + Send>, Option<J>),
    Thread(SyncSender<J>, Receiver<J>),
}

impl<J: Send + 'static> Turns<J> {
    /// So many threads, each of which does what `worker` makes for it; with one, all is done by the caller.
    pub(super) fn new<W>(threads: usize, name: &str, worker: impl Fn() -> W) -> io::Result<Self>
    where
        W: FnMut(&mut J) + Send + 'static,
    {
        let workers = match threads {
            0..=1 => vec![Worker::Caller(Box::new(worker()), None)],
            threads => (0..threads).map(|_| Worker::thread(name, worker())).collect::<io::Result<_>>()?,
        };
        Ok(Self { workers, given: 0, taken: 0 })
    }

    /// May one more job be on its way?
    pub(super) fn has_room(&self) -> bool {
        let most = match &self.workers[..] {
            [Worker::Caller(..)] => 1,
            threads => threads.len() * JOBS,
        };
        self.given - self.taken < most
    }

    /// Gives a job to the thread whose turn it is. There has to be [room](Self::has_room).
    pub(super) fn give(&mut self, mut job: J) -> io::Result<()> {
        let turn = self.given % self.workers.len();
        self.given += 1;
        match &mut self.workers[turn] {
            Worker::Caller(work, done) => {
                work(&mut job);
                *done = Some(job);
                Ok(())
            }
            Worker::Thread(give, _) => give.send(job).map_err(|_| failed()),
        }
    }

    /// Takes the oldest job back, if there is one.
    pub(super) fn take(&mut self) -> io::Result<Option<J>> {
        if self.taken == self.given {
            return Ok(None);
        }
        let turn = self.taken % self.workers.len();
        self.taken += 1;
        match &mut self.workers[turn] {
            Worker::Caller(_, done) => Ok(done.take()),
            Worker::Thread(_, take) => take.recv().map(Some).map_err(|_| failed()),
        }
    }
}

impl<J: Send + 'static> Worker<J> {
    fn thread(name: &str, mut work: impl FnMut(&mut J) + Send + 'static) -> io::Result<Self> {
        let (give, given) = sync_channel::<J>(JOBS);
        let (done, take) = sync_channel(JOBS);
        let run = move || {
            for mut job in given {
                work(&mut job);
                // Nobody waits for it any more.
                if done.send(job).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self::Thread(give, take))
    }
}

fn failed() -> io::Error {
    io::Error::other("a thread has failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_back_in_order() {
        for threads in [1, 2, 5] {
            let mut turns = Turns::new(threads, "turns", || |job: &mut u32| *job *= 2).expect("threads");
            let mut doubled = Vec::new();
            for job in 0..100 {
                if !turns.has_room() {
                    doubled.extend(turns.take().expect("a thread"));
                }
                turns.give(job).expect("a thread");
            }
            while let Some(job) = turns.take().expect("a thread") {
                doubled.push(job);
            }
            assert_eq!(doubled, (0..100).map(|job| 2 * job).collect::<Vec<_>>(), "{threads}");
        }
    }

    #[test]
    fn a_thread_that_fails_is_told() {
        let mut turns = Turns::new(2, "turns", || |job: &mut u32| assert!(*job != 1, "on purpose")).expect("threads");
        let given: Vec<bool> = (0..2).map(|job| turns.give(job).is_ok()).collect();
        assert_eq!(given, [true, true]);
        assert_eq!(turns.take().ok(), Some(Some(0)));
        assert!(turns.take().is_err());
    }
}
