//! Signals that ask us to end while something is recorded.
//!
//! The emulator ends, and what it told until then becomes a complete trace. Ctrl-C it gets as we do; what is sent to us
//! alone is handed on to it. A second signal is for us.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The exit code of who was ended by a signal, less its number.
const BY_SIGNAL: i32 = 128;

/// Waits for them.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// The process of the emulator; 0: there is none.
    emulator: Arc<AtomicU32>,
    /// It is to end.
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
            // One that has ended cannot be ended again, and needs not.
            let _ = kill_process(process, Signal::TERM);
        }
    }
}
