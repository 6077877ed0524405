//! Signals that stop a recording.
//!
//! The emulator ends, and the trace is complete up to there. The terminal sends Ctrl-C to the emulator as well; other
//! signals are forwarded. A second signal ends unspool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit code of a process that was killed by a signal, minus the signal number.
const BY_SIGNAL: i32 = 128;

#[derive(Clone, Default)]
pub(super) struct Signals {
    /// Process of the emulator; 0: there is none.
    emulator: Arc<AtomicU32>,
    /// The emulator must end.
    is_over: Arc<AtomicBool>,
}

impl Signals {
    /// Starts to wait for signals.
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

    pub(super) fn forward_to(&self, process: u32) {
        self.emulator.store(process, Ordering::SeqCst);
        if self.is_over.load(Ordering::SeqCst) {
            self.end();
        }
    }

    /// Forgets the emulator, which has ended.
    pub(super) fn stop_forwarding(&self) {
        self.emulator.store(0, Ordering::SeqCst);
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let process = self.emulator.load(Ordering::SeqCst);
        if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            // The emulator may have ended.
            let _ = kill_process(process, Signal::TERM);
        }
    }
}
