//! Lanes decoded by several threads, each into a short queue of its own.
//!
//! lanes ─▶ threads ─▶ **queue of each lane** ─▶ consumer, which chooses the lane to take from
//!
//! A thread that has to wait for the consumer does not count as running: all lanes can be open at once although few are
//! decoded at the same time. Does not know what is in the queues.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Items that wait in the queue of a lane.
const QUEUE: usize = 2;

/// Which lanes are open at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenLanes {
    /// All: the consumer may take from any lane at any time.
    All,
    /// As many as there are threads: the consumer takes lane after lane, and each to its end.
    InTurn,
}

/// Runs `decode` for each lane, on this many threads at a time, and `consume` with the queues of all lanes. Decoding ends
/// when the consumer does.
pub fn run_lanes<T: Send, R>(
    lanes: usize,
    threads: usize,
    open: OpenLanes,
    decode: impl Fn(usize, &LaneSender<'_, T>) + Sync,
    consume: impl FnOnce(Vec<LaneReceiver<T>>) -> R,
) -> R {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..lanes).map(|_| sync_channel(QUEUE)).unzip();
    let senders: Vec<Mutex<Option<SyncSender<T>>>> =
        senders.into_iter().map(|sender| Mutex::new(Some(sender))).collect();
    let (permits, next, has_ended) = (Permits::new(threads.max(1)), AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while !has_ended.load(Ordering::Relaxed) {
            let lane = next.fetch_add(1, Ordering::Relaxed);
            let Some(sender) = senders.get(lane).and_then(|sender| lock(sender).take()) else { break };
            let permit = permits.take();
            decode(lane, &LaneSender { sender, permits: &permits, has_ended: &has_ended });
            drop(permit);
        }
    };
    thread::scope(|scope| {
        let workers = if open == OpenLanes::All { lanes } else { lanes.min(threads.max(1)) };
        for _ in 0..workers {
            scope.spawn(work);
        }
        let result = consume(receivers.into_iter().map(LaneReceiver).collect());
        has_ended.store(true, Ordering::Relaxed);
        result
    })
}

/// Sending end of a lane.
#[derive(Debug)]
pub struct LaneSender<'l, T> {
    sender: SyncSender<T>,
    permits: &'l Permits,
    has_ended: &'l AtomicBool,
}

impl<T> LaneSender<'_, T> {
    /// Sends an item, and waits while the queue is full. False: the consumer wants no more.
    pub fn send(&self, item: T) -> bool {
        match self.sender.try_send(item) {
            Ok(()) => self.is_wanted(),
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(item)) => {
                self.permits.release();
                let is_sent = self.sender.send(item).is_ok();
                self.permits.acquire();
                is_sent
            }
        }
    }

    /// Does the consumer still run?
    pub fn is_wanted(&self) -> bool {
        !self.has_ended.load(Ordering::Relaxed)
    }
}

/// Receiving end of a lane: its items, as they arrive.
#[derive(Debug)]
pub struct LaneReceiver<T>(Receiver<T>);

impl<T> Iterator for LaneReceiver<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

/// Number of threads that may run.
#[derive(Debug)]
struct Permits {
    left: Mutex<usize>,
    returned: Condvar,
}

impl Permits {
    fn new(count: usize) -> Self {
        Self { left: Mutex::new(count), returned: Condvar::new() }
    }

    fn take(&self) -> Permit<'_> {
        self.acquire();
        Permit(self)
    }

    fn acquire(&self) {
        let mut left = lock(&self.left);
        while *left == 0 {
            left = self.returned.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= 1;
    }

    fn release(&self) {
        *lock(&self.left) += 1;
        self.returned.notify_one();
    }
}

/// A permit, which is returned when it is dropped.
struct Permit<'p>(&'p Permits);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the numbers 0 to 99 of a lane.
    fn count(lane: usize, sender: &LaneSender<'_, (usize, usize)>) {
        let _ = (0..100).all(|number| sender.send((lane, number)));
    }

    #[test]
    fn lanes_are_complete_with_any_number_of_threads() {
        let expected: Vec<(usize, usize)> =
            (0..7).flat_map(|lane| (0..100).map(move |number| (lane, number))).collect();
        for (threads, open) in [1, 2, 3, 20]
            .into_iter()
            .flat_map(|threads| [OpenLanes::All, OpenLanes::InTurn].map(|open| (threads, open)))
        {
            let found: Vec<(usize, usize)> =
                run_lanes(7, threads, open, count, |lanes| lanes.into_iter().flatten().collect());
            assert_eq!(found, expected, "{threads} {open:?}");
        }
    }

    #[test]
    fn any_lane_can_be_taken_from_while_all_are_open() {
        for threads in [1, 4] {
            let sums = run_lanes(5, threads, OpenLanes::All, count, |mut lanes| {
                let mut round = || lanes.iter_mut().rev().filter_map(Iterator::next).map(|(_, number)| number).sum();
                (0..100).map(|_| round()).collect::<Vec<usize>>()
            });
            assert_eq!(sums, (0..100).map(|number| 5 * number).collect::<Vec<usize>>());
        }
    }

    #[test]
    fn lanes_end_with_the_consumer() {
        let endless = |lane: usize, sender: &LaneSender<'_, usize>| while sender.send(lane) {};
        for open in [OpenLanes::All, OpenLanes::InTurn] {
            let first = run_lanes(1000, 2, open, endless, |mut lanes| lanes.first_mut().and_then(Iterator::next));
            assert_eq!(first, Some(0));
        }
    }
}
