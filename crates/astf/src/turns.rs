//! Threads that take jobs in turn and give them back in the same order.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// How many jobs a thread has: one at work and one that waits.
const JOBS: usize = 2;

/// Threads, or only the caller. They are started when there is something to do for them.
pub(super) struct Turns<J> {
    name: &'static str,
    /// No more threads than this.
    most: usize,
    new_work: Box<dyn Fn() -> Work<J> + Send>,
    workers: Vec<Worker<J>>,
    /// Who gets the next job.
    next: usize,
    /// Who has the jobs that are on their way, the oldest first.
    order: VecDeque<usize>,
}

type Work<J> = Box<dyn FnMut(&mut J) + Send>;

enum Worker<J> {
    Caller(Work<J>, Option<J>),
    Thread(SyncSender<J>, Receiver<J>),
}

impl<J: Send + 'static> Turns<J> {
    /// So many threads, each of which does what `new_work` makes for it; with one, all is done by the caller.
    pub(super) fn new<W>(most: usize, name: &'static str, new_work: impl Fn() -> W + Send + 'static) -> Self
    where
        W: FnMut(&mut J) + Send + 'static,
    {
        let new_work = Box::new(move || -> Work<J> { Box::new(new_work()) });
        Self { name, most, new_work, workers: Vec::new(), next: 0, order: VecDeque::new() }
    }

    /// Is no job on its way?
    pub(super) fn is_idle(&self) -> bool {
        self.order.is_empty()
    }

    /// May one more job be on its way?
    pub(super) fn has_room(&self) -> bool {
        let most = if self.most > 1 { self.most * JOBS } else { 1 };
        self.order.len() < most
    }

    /// Gives a job to the thread whose turn it is. There has to be [room](Self::has_room).
    pub(super) fn give(&mut self, mut job: J) -> io::Result<()> {
        if self.next == self.workers.len() {
            self.start();
        }
        let turn = self.next;
        self.next = (turn + 1) % self.most.max(1);
        self.order.push_back(turn);
        match &mut self.workers[turn] {
            Worker::Caller(work, done) => {
                work(&mut job);
                *done = Some(job);
                Ok(())
            }
            Worker::Thread(give, _) => give.send(job).map_err(|_| failed()),
        }
    }

    /// Starts one more. Where no thread is to be had, fewer have to do.
    fn start(&mut self) {
        let thread = if self.most > 1 { Worker::thread(self.name, (self.new_work)()).ok() } else { None };
        match thread {
            Some(thread) => self.workers.push(thread),
            None if self.workers.is_empty() => {
                self.most = 1;
                self.workers.push(Worker::Caller((self.new_work)(), None));
            }
            None => (self.most, self.next) = (self.workers.len(), 0),
        }
    }

    /// Takes the oldest job back, if there is one.
    pub(super) fn take(&mut self) -> io::Result<Option<J>> {
        let Some(turn) = self.order.pop_front() else { return Ok(None) };
        match &mut self.workers[turn] {
            Worker::Caller(_, done) => Ok(done.take()),
            Worker::Thread(_, take) => take.recv().map(Some).map_err(|_| failed()),
        }
    }
}

impl<J: Send + 'static> Worker<J> {
    fn thread(name: &str, mut work: Work<J>) -> io::Result<Self> {
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
            let mut turns = Turns::new(threads, "turns", || |job: &mut u32| *job *= 2);
            let mut doubled = Vec::new();
            for job in 0..100 {
                if !turns.has_room() {
                    doubled.extend(turns.take().expect("a thread"));
                }
                turns.give(job).expect("a thread");
            }
            assert_eq!(turns.workers.len(), threads);
            while let Some(job) = turns.take().expect("a thread") {
                doubled.push(job);
            }
            assert_eq!(doubled, (0..100).map(|job| 2 * job).collect::<Vec<_>>(), "{threads}");
        }
    }

    #[test]
    fn a_thread_that_fails_is_told() {
        let mut turns = Turns::new(2, "turns", || |job: &mut u32| assert!(*job != 1, "on purpose"));
        let given: Vec<bool> = (0..2).map(|job| turns.give(job).is_ok()).collect();
        assert_eq!(given, [true, true]);
        assert_eq!(turns.take().ok(), Some(Some(0)));
        assert!(turns.take().is_err());
    }
}
