//! Progress bar for work that takes longer than a second, shown only on a terminal.
//!
//! Takes positions in the input; draws a bar on standard error, unless the output itself goes to the terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::diagnostic;

/// Work shorter than this shows no bar.
const MIN_DURATION: Duration = Duration::from_secs(1);

/// Bar that appears after [`MIN_DURATION`].
pub(crate) struct Progress {
    start: Instant,
    bar: Option<ProgressBar>,
    allowed: bool,
}

impl Progress {
    /// `hidden`: never show a bar.
    pub(crate) fn new(hidden: bool) -> Self {
        let allowed = !hidden && !diagnostic::is_quiet() && io::stderr().is_terminal();
        Self { start: Instant::now(), bar: None, allowed }
    }

    pub(crate) fn callback(&mut self) -> impl FnMut(u64, u64) + Send {
        |done, total| self.at(done, total)
    }

    pub(crate) fn at(&mut self, done: u64, total: u64) {
        if !self.allowed || self.start.elapsed() < MIN_DURATION {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| new_bar(total));
        bar.set_length(total);
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

fn new_bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec}, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
