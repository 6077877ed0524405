//! Threads that execute jobs, with results in the order of the jobs.
//!
//! jobs ─▶ any free thread ─▶ results, those of each job on a channel of its own
//!
//! Threads are started when jobs arrive, and end when the [`Workers`] are dropped.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Number of results of a job that wait for the caller: a thread with more results waits too, so that memory is bounded.
const WAITING: usize = 1;

/// Jobs in flight for each thread: one at work and one that waits.
const JOBS: usize = 2;

/// Threads that turn jobs `J` into any number of results `T`.
pub struct Workers<J, T> {
    name: &'static str,
    /// Number of threads that may still be started.
    startable: usize,
    new_work: Box<dyn Fn() -> Work<J, T> + Send>,
    jobs: Sender<Job<J, T>>,
    /// The other end, for further threads. If there are none, jobs fail when all threads have failed.
    queue: Option<Arc<Mutex<Queue<J, T>>>>,
    has_started: bool,
}

type Work<J, T> = Box<dyn FnMut(J, &SyncSender<T>) + Send>;

type Job<J, T> = (J, SyncSender<T>);

type Queue<J, T> = Receiver<Job<J, T>>;

impl<J: Send + 'static, T: Send + 'static> Workers<J, T> {
    /// Creates up to `max_threads` threads, each with its own `new_work`. Sending a result fails if its receiver was dropped.
    pub fn new<W>(max_threads: usize, name: &'static str, new_work: impl Fn() -> W + Send + 'static) -> Self
    where
        W: FnMut(J, &SyncSender<T>) + Send + 'static,
    {
        let (jobs, queue) = channel();
        let new_work = Box::new(move || -> Work<J, T> { Box::new(new_work()) });
        let queue = Some(Arc::new(Mutex::new(queue)));
        Self { name, startable: max_threads, new_work, jobs, queue, has_started: false }
    }

    /// Queues a job; without threads, returns it. The results end when the job does, or when its thread fails.
    pub fn push(&mut self, job: J) -> Result<Receiver<T>, J> {
        self.start();
        if !self.has_started {
            return Err(job);
        }
        let (sender, results) = sync_channel(WAITING);
        // If all threads are gone, no result comes.
        drop(self.jobs.send((job, sender)));
        Ok(results)
    }

    /// Starts one more thread, if that is allowed and possible.
    fn start(&mut self) {
        if self.startable > 0
            && let Some(queue) = self.queue.clone()
        {
            let mut work = (self.new_work)();
            let run = move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((job, results)) = job else { return };
                    work(job, &results);
                }
            };
            let is_started = thread::Builder::new().name(self.name.into()).spawn(run).is_ok();
            self.has_started |= is_started;
            self.startable = if is_started { self.startable - 1 } else { 0 };
        }
        if self.startable == 0 {
            self.queue = None;
        }
    }
}

/// Threads that process jobs, and return them in order. With one thread, the caller does all work.
pub struct OrderedWorkers<J> {
    max_threads: usize,
    new_work: Arc<dyn Fn() -> Change<J> + Send + Sync>,
    workers: Workers<J, J>,
    /// The work of the caller, if there are no threads.
    own: Option<Change<J>>,
    order: VecDeque<Pending<J>>,
}

type Change<J> = Box<dyn FnMut(&mut J) + Send>;

enum Pending<J> {
    Done(J),
    InFlight(Receiver<J>),
}

impl<J: Send + 'static> OrderedWorkers<J> {
    /// Creates up to `max_threads` threads, each with its own `new_work`.
    pub fn new<W>(max_threads: usize, name: &'static str, new_work: impl Fn() -> W + Send + Sync + 'static) -> Self
    where
        W: FnMut(&mut J) + Send + 'static,
    {
        let new_work: Arc<dyn Fn() -> Change<J> + Send + Sync> = Arc::new(move || Box::new(new_work()));
        let of_thread = Arc::clone(&new_work);
        let threads = if max_threads > 1 { max_threads } else { 0 };
        let workers = Workers::new(threads, name, move || {
            let mut work = of_thread();
            move |mut job: J, results: &SyncSender<J>| {
                work(&mut job);
                // The receiver may be gone.
                drop(results.send(job));
            }
        });
        Self { max_threads, new_work, workers, own: None, order: VecDeque::new() }
    }

    /// Whether no job is in flight.
    pub fn is_idle(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether one more job may be in flight.
    pub fn has_room(&self) -> bool {
        let max_jobs = if self.max_threads > 1 { self.max_threads * JOBS } else { 1 };
        self.order.len() < max_jobs
    }

    /// Queues a job. There has to be [room](Self::has_room).
    pub fn push(&mut self, job: J) {
        self.order.push_back(match self.workers.push(job) {
            Ok(results) => Pending::InFlight(results),
            Err(mut job) => {
                self.own.get_or_insert_with(|| (self.new_work)())(&mut job);
                Pending::Done(job)
            }
        });
    }

    /// Waits for the oldest job and returns it, if there is one.
    pub fn pop(&mut self) -> io::Result<Option<J>> {
        match self.order.pop_front() {
            None => Ok(None),
            Some(Pending::Done(job)) => Ok(Some(job)),
            Some(Pending::InFlight(results)) => {
                results.recv().map(Some).map_err(|_| io::Error::other("a thread has failed"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_back_in_order() {
        for threads in [0, 1, 2, 5] {
            let mut workers = OrderedWorkers::new(threads, "test", || |job: &mut u32| *job *= 2);
            let mut doubled = Vec::new();
            for job in 0..100 {
                if !workers.has_room() {
                    doubled.extend(workers.pop().expect("a thread"));
                }
                workers.push(job);
            }
            assert_eq!(workers.own.is_some(), threads < 2);
            while let Some(job) = workers.pop().expect("a thread") {
                doubled.push(job);
            }
            assert_eq!(doubled, (0..100).map(|job| 2 * job).collect::<Vec<_>>(), "{threads}");
        }
    }

    #[test]
    fn a_thread_that_fails_is_an_error() {
        for jobs in [2, 4] {
            let mut workers = OrderedWorkers::new(2, "test", || |job: &mut u32| assert!(*job == 0, "on purpose"));
            (0..jobs).for_each(|job| workers.push(job));
            assert_eq!(workers.pop().ok(), Some(Some(0)));
            assert!((1..jobs).all(|_| workers.pop().is_err()));
            assert!(workers.pop().is_ok_and(|job| job.is_none()));
        }
    }

    #[test]
    fn a_job_may_have_many_results() {
        let mut workers = Workers::new(3, "test", || {
            |job: u32, results: &SyncSender<u32>| (0..job).for_each(|result| results.send(result).unwrap_or_default())
        });
        let results: Vec<_> = (0..10).filter_map(|job| workers.push(job).ok()).collect();
        let counts: Vec<usize> = results.into_iter().map(|results| results.iter().count()).collect();
        assert_eq!(counts, (0..10).collect::<Vec<_>>());
    }
}
