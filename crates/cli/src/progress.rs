//! Progress of work that takes longer than a second, with rate and time left, shown only on a terminal.
//!
//! Takes positions in the input, from the work itself or by looking at a meter now and then; draws a line on standard
//! error, unless the output itself goes to the terminal: then the line disappears with the first output. Where the total is
//! unknown, the line has a count and the rate.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use unspool::Meter;

use crate::diagnostic;

/// Work shorter than this shows no bar.
const MIN_DURATION: Duration = Duration::from_secs(1);

/// Time between two looks at a meter.
const INTERVAL: Duration = Duration::from_millis(200);

/// Set by [`end`].
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The bar on the terminal.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Removes the bar, and shows no other: output follows on the same terminal.
pub(crate) fn end() {
    HAS_ENDED.store(true, Ordering::Relaxed);
    if let Some(bar) = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        bar.finish_and_clear();
    }
}

/// Unit of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Instructions,
}

/// Bar that appears after [`MIN_DURATION`].
pub(crate) struct Progress {
    start: Instant,
    bar: Option<ProgressBar>,
    allowed: bool,
    unit: Unit,
}

impl Progress {
    /// `hidden`: never show a bar.
    pub(crate) fn new(hidden: bool) -> Self {
        let allowed = !hidden && !diagnostic::is_quiet() && io::stderr().is_terminal();
        Self { start: Instant::now(), bar: None, allowed, unit: Unit::Bytes }
    }

    /// Bar of a recording, with the number of instructions so far. A program that writes to the terminal would be disturbed.
    pub(crate) fn of_recording() -> Self {
        let mut progress = Self::new(io::stdout().is_terminal());
        progress.unit = Unit::Instructions;
        progress
    }

    /// Bar that follows a meter until it is dropped, for work that does not report its progress.
    pub(crate) fn follow(meter: &Meter) -> Follower {
        let mut progress = Self::new(false);
        if !progress.allowed {
            return Follower::default();
        }
        let (meter, (stop, stopped)) = (meter.clone(), mpsc::channel::<()>());
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                meter.report(&mut progress.callback());
            }
        });
        Follower(Some((stop, thread)))
    }

    pub(crate) fn callback(&mut self) -> impl FnMut(u64, u64) + Send {
        |done, total| self.at(done, total)
    }

    /// `total`: 0 if it is unknown.
    pub(crate) fn at(&mut self, done: u64, total: u64) {
        if !self.allowed || done == 0 || self.start.elapsed() < MIN_DURATION || HAS_ENDED.load(Ordering::Relaxed) {
            return;
        }
        let (start, unit) = (self.start, self.unit);
        let bar = self.bar.get_or_insert_with(|| {
            let bar = new_bar(total, unit).with_elapsed(start.elapsed());
            *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
            bar
        });
        if total > 0 {
            bar.set_length(total);
        }
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Thread that draws a bar; ends when it is dropped.
#[derive(Default)]
pub(crate) struct Follower(Option<(Sender<()>, JoinHandle<()>)>);

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

fn new_bar(total: u64, unit: Unit) -> ProgressBar {
    let template = match total {
        _ if unit == Unit::Instructions => "{human_pos} instructions in {elapsed}",
        0 => "{bytes} {binary_bytes_per_sec}",
        _ => "{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec}, {eta} left",
    };
    let bar = ProgressBar::with_draw_target(Some(total).filter(|total| *total > 0), ProgressDrawTarget::stderr());
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
