//! Signals that stop a recording.
//!
//! The emulator ends, and the trace is complete up to there. It gets Ctrl-C from the terminal as we do; other signals are
//! forwarded to it. A second signal ends us.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The exit code of a process that a signal ended, less the number of the signal.
const BY_SIGNAL: i32 = 128;

/// Waits for signals.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// The process of the emulator; 0: there is none.
    emulator: Arc<AtomicU32>,
    /// It has to end.
    is_over: Arc<AtomicBool>,
}

impl Signals {
    /// Starts to wait.
    pub(super) fn wait() -> anyhow::Result<Self> {
        let mut received =
            signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot wait for Ctrl-C")?;
        let signals = Self::default();
        let waiting = signals.clone();
        thread::spawn(move || {
            for (count, signal) in received.forever().enumerate() {
                match signal {
                    _ if count > 0 => std::process::exit(BY_SIGNAL + signal),
                    SIGINT => {}
                    _ => waiting.end(),
                }
            }
        });
        Ok(signals)
    }

    /// This is the emulator.
    pub(super) fn hand_on_to(&self, process: u32) {
        self.emulator.store(process, Ordering::SeqCst);
        if self.is_over.load(Ordering::SeqCst) {
            self.end();
        }
    }

    /// The emulator has ended.
    pub(super) fn let_go(&self) {
        self.emulator.store(0, Ordering::SeqCst);
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let process = self.emulator.load(Ordering::SeqCst);
        if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            // It may have ended.
            let _ = kill_process(process, Signal::TERM);
        }
    }
}
