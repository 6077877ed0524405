//! A progress bar for work that takes longer than a second, if someone is looking.
//!
//! Comes in: how far the work is. Goes out: a bar on the error stream, unless the output itself is on the terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that appears when patience ends.
pub(crate) struct Progress {
    start: Instant,
    bar: Option<ProgressBar>,
    allowed: bool,
}

impl Progress {
    /// `quiet`: never show a bar.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { start: Instant::now(), bar: None, allowed: !quiet && io::stderr().is_terminal() }
    }

    /// The bar as the library calls it.
    pub(crate) fn callback(&mut self) -> impl FnMut(u64, u64) + Send {
        |done, all| self.at(done, all)
    }

    /// The work has come this far.
    pub(crate) fn at(&mut self, done: u64, all: u64) {
        if !self.allowed || self.start.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| new_bar(all));
        bar.set_length(all);
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

fn new_bar(all: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec}, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
