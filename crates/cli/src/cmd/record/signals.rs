//! Signals that stop a recording.
//!
//! The emulator ends, and the trace is complete up to there. The terminal sends Ctrl-C to the emulator as well; other
//! signals are forwarded. A second signal ends unspool.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use unspool::target::remove_unfinished;

use super::BY_SIGNAL;
use crate::interruption::ending_signals;

#[derive(Clone, Default)]
pub(super) struct Signals {
    /// Process of the emulator; 0: there is none.
    emulator: Arc<AtomicU32>,
    /// The signal that was received; 0: none.
    received: Arc<AtomicI32>,
}

impl Signals {
    /// Starts to wait for signals.
    pub(super) fn wait() -> anyhow::Result<Self> {
        let mut received = SignalsInfo::<WithOrigin>::new(ending_signals()).context("cannot wait for Ctrl-C")?;
        let signals = Self::default();
        let waiting = signals.clone();
        thread::spawn(move || received.forever().for_each(|origin| waiting.receive(&origin)));
        Ok(signals)
    }

    fn receive(&self, origin: &Origin) {
        if self.received.swap(origin.signal, Ordering::SeqCst) != 0 {
            self.send(Signal::KILL);
            remove_unfinished();
            std::process::exit(BY_SIGNAL + origin.signal);
        }
        // The terminal sends it to all processes.
        if !(origin.signal == SIGINT && origin.cause == Cause::Kernel) {
            self.forward();
        }
    }

    pub(super) fn forward_to(&self, process: u32) {
        self.emulator.store(process, Ordering::SeqCst);
        self.forward();
    }

    /// Forgets the emulator, which has ended.
    pub(super) fn stop_forwarding(&self) {
        self.emulator.store(0, Ordering::SeqCst);
    }

    fn forward(&self) {
        match self.received.load(Ordering::SeqCst) {
            0 => {}
            SIGINT => self.send(Signal::INT),
            _ => self.send(Signal::TERM),
        }
    }

    fn send(&self, signal: Signal) {
        let process = self.emulator.load(Ordering::SeqCst);
        if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            // The emulator may have ended.
            let _ = kill_process(process, signal);
        }
    }
}
