//! Signals that end unspool: Ctrl-C, and requests to terminate.
//!
//! A verb that is interrupted leaves no temporary file. `record` handles signals itself, since it ends the emulator first.
//! While a pager has the terminal, Ctrl-C is for the pager, as in git.

use std::fs;
use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use unspool::target::remove_unfinished;

use crate::pager;

/// Removes temporary files when a signal arrives, which then ends unspool as it would have without this.
pub(crate) fn remove_files_at_signals() -> io::Result<()> {
    let mut received = Signals::new(ending_signals())?;
    thread::spawn(move || {
        for signal in received.forever().filter(|signal| *signal != SIGINT || !pager::is_running()) {
            remove_unfinished();
            // It returns only for signals that do not end a process.
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// Signals that end unspool. Those that it was started to ignore, as `nohup` does, stay ignored.
pub(crate) fn ending_signals() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored_in(&status);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// The mask of ignored signals in the status of a process.
fn ignored_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_found() {
        assert_eq!(ignored_in("Name:\tunspool\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), 0x1001);
        assert_eq!(ignored_in(""), 0);
    }
}
