//! Work in the background, with its progress: what the page waits for without waiting.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};

/// Result of work that may not have ended.
#[derive(Debug)]
pub(crate) struct Job<T> {
    state: Mutex<State<T>>,
    done: AtomicU64,
    total: AtomicU64,
}

#[derive(Debug)]
enum State<T> {
    Running,
    Done(Arc<T>),
    /// The trace does not have it, for this reason.
    Absent(String),
    Failed(String),
}

/// Why work has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoResult {
    /// The trace does not have it.
    Absent(String),
    /// It failed.
    Failed(String),
}

impl<T> Default for Job<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State::Running), done: AtomicU64::new(0), total: AtomicU64::new(0) }
    }
}

impl<T> Job<T> {
    /// The result, if the work has ended with one.
    pub(crate) fn result(&self) -> Option<Arc<T>> {
        match &*locked(&self.state) {
            State::Done(result) => Some(Arc::clone(result)),
            _ => None,
        }
    }

    /// Reports progress.
    pub(crate) fn report(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Ends it.
    pub(crate) fn end(&self, result: Result<T, NoResult>) {
        *locked(&self.state) = match result {
            Ok(result) => State::Done(Arc::new(result)),
            Err(NoResult::Absent(why)) => State::Absent(why),
            Err(NoResult::Failed(why)) => State::Failed(why),
        };
    }

    /// Its state and progress.
    pub(crate) fn json(&self) -> Value {
        let (state, why) = match &*locked(&self.state) {
            State::Running => ("running", None),
            State::Done(_) => ("done", None),
            State::Absent(why) => ("none", Some(why.clone())),
            State::Failed(why) => ("failed", Some(why.clone())),
        };
        let total = Some(self.total.load(Ordering::Relaxed)).filter(|total| *total > 0);
        json!({"state": state, "done": self.done.load(Ordering::Relaxed), "total": total, "why": why})
    }
}

/// Locks a mutex; a thread that panicked has left it as it was.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something to do.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Does all of it, in order, on several threads.
pub(crate) fn start(work: VecDeque<Work>, threads: usize) {
    let queue = Arc::new(Mutex::new(work));
    for _ in 0..threads {
        let queue = Arc::clone(&queue);
        // Without a thread the page shows work in progress; nothing else depends on it.
        let _ = thread::Builder::new().name("view-work".to_string()).spawn(move || {
            loop {
                let Some(next) = locked(&queue).pop_front() else { break };
                next();
            }
        });
    }
}
