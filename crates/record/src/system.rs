//! Whole systems, recorded while they run under an emulator.
//!
//! arguments of the emulator ─▶ QEMU with the plugin, and its log ─▶ chunks ─▶ system recorder ─▶ **steps**, one core per CPU
//!
//! QEMU does not report exceptions to plugins, but it can log them (`-d int`). The plugin reads the log as it is written, so
//! that each entry comes between the blocks that it was logged between. Only AArch64 is recorded.

mod block;
mod cpu;
mod exceptions;
mod log;
mod operands;
mod options;
mod processes;
mod recorder;
mod state;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use unspool_model::{BlockSink, Coverage, Facet, SourceError, Step, StepSource};
use unspool_wire::EmulatorCapabilities;

pub use self::options::SystemOptions;
use self::recorder::SystemRecorder;
use crate::chunks::LiveChunks;
use crate::error::RecordError;
use crate::launch::{self, Launch, escaped};
use crate::recorder::{coverage, record};

/// A system that runs and is recorded. Dropping it kills the emulator.
pub struct SystemRecording {
    child: SharedChild,
    chunks: LiveChunks,
    recorder: SystemRecorder,
    capabilities: EmulatorCapabilities,
    watchdog: Watchdog,
    /// Holds the socket and the logs.
    _folder: TempDir,
}

impl SystemRecording {
    /// Starts a system.
    pub fn start(options: &SystemOptions) -> Result<Self, RecordError> {
        let name = options.emulator.clone().unwrap_or_else(|| "qemu-system-aarch64".into());
        require_execution_address(&name)?;
        if options.registers || options.processes {
            launch::require_registers(&name)?;
        }
        let is_log = |argument: &&OsString| *argument == "-d" || *argument == "-D";
        if let Some(argument) = options.arguments.iter().find(is_log) {
            return Err(RecordError::LogInUse { argument: argument.to_string_lossy().into_owned() });
        }
        let mut launch = Launch::new(options.plugin.as_deref())?;
        if let Some(from) = &options.from {
            let address = launch::number(from).ok_or_else(|| RecordError::NoFunctions { name: from.clone() })?;
            launch.argument.push(format!(",from={address:#x}"));
        }
        // Blocks may be left before their end, so that the plugin cannot count to a limit.
        launch.select(options.skip, options.data, options.registers);
        if options.processes {
            launch.argument.push(",processes=on");
        }
        // A log per thread of the emulator, so that lines of several CPUs are not mixed.
        let log = launch.folder.path().join("log.%d");
        launch.argument.push(",log=");
        launch.argument.push(escaped(&log));
        let mut command = Command::new(&name);
        command.args(["-d", "int,plugin,tid", "-D"]).arg(&log);
        command.arg("-plugin").arg(&launch.argument).args(&options.arguments);
        let child = launch::spawn(&mut command, &name, "qemu-system-arm")?;
        let child = SharedChild(Arc::new(Mutex::new(child)));
        let connected = launch.connect(&mut child.get(), &name);
        let (chunks, capabilities, folder) = connected.inspect_err(|_| child.kill())?;
        let recorder = SystemRecorder::new(options, capabilities);
        let watchdog = Watchdog::new(folder.path().to_path_buf(), child.clone());
        Ok(Self { child, chunks, recorder, capabilities, watchdog, _folder: folder })
    }

    /// The process of the emulator.
    pub fn process(&self) -> u32 {
        self.child.get().id()
    }

    /// Capabilities of the emulator among those that were requested.
    pub fn capabilities(&self) -> EmulatorCapabilities {
        self.capabilities
    }

    /// The number of CPUs whose last records are lost.
    pub fn lost_cpus(&self) -> usize {
        self.chunks.lost_threads()
    }

    /// Number of gaps in the steps, where the log contradicts what was executed.
    pub fn gaps(&self) -> u64 {
        self.recorder.exceptions.gaps
    }

    /// Whether it was stopped because it took exceptions endlessly and executed nothing.
    pub fn was_stuck(&self) -> bool {
        self.watchdog.was_stuck.load(Ordering::Relaxed)
    }

    /// Ends the emulator; returns its exit status, if it ended itself.
    pub fn end(self) -> std::io::Result<Option<ExitStatus>> {
        let mut child = self.child.get();
        if self.recorder.is_over {
            return child.wait().map(Some);
        }
        child.kill()?;
        child.wait().map(|_| None)
    }
}

/// Fails for QEMU 8, which may execute code at another address than it was translated for, and reports only the latter.
fn require_execution_address(name: &Path) -> Result<(), RecordError> {
    let what = "to plugins where code is executed if memory is mapped more than once: use QEMU 7.2, or 9.0 or later";
    launch::require(name, lacks_execution_address, what)
}

fn lacks_execution_address(version: &str) -> bool {
    version.starts_with("8.")
}

/// The emulator, which the watchdog may stop.
#[derive(Clone)]
struct SharedChild(Arc<Mutex<Child>>);

impl SharedChild {
    fn get(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill(&self) {
        let mut child = self.get();
        // It may have ended.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Asks it to end, so that its records are complete; one that does not end is killed.
    fn stop(&self) {
        let _ = kill_process(Pid::from_child(&self.get()), Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            thread::sleep(POLL);
            if !matches!(self.get().try_wait(), Ok(None)) {
                return;
            }
        }
        self.kill();
    }
}

impl Drop for SystemRecording {
    fn drop(&mut self) {
        self.child.kill();
    }
}

/// Maximum number of log bytes that the plugin has not read: tens of thousands of exceptions.
const MAX_LOG: u64 = 1 << 23;
const POLL: Duration = Duration::from_millis(500);

/// The time that an emulator may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stops an emulator whose log is not read: a system whose vectors cannot be fetched takes exceptions endlessly, and
/// executes nothing.
struct Watchdog {
    was_stuck: Arc<AtomicBool>,
    _sender: Sender<()>,
}

impl Watchdog {
    fn new(folder: PathBuf, child: SharedChild) -> Self {
        let (_sender, receiver) = mpsc::channel();
        let was_stuck = Arc::new(AtomicBool::new(false));
        let is_stuck = Arc::clone(&was_stuck);
        thread::spawn(move || {
            while receiver.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                if bytes_in(&folder) > MAX_LOG {
                    is_stuck.store(true, Ordering::Relaxed);
                    return child.stop();
                }
            }
        });
        Self { was_stuck, _sender }
    }
}

/// The disk space of the files in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.blocks() * 512).sum()
}

impl StepSource for SystemRecording {
    fn coverage(&self) -> Coverage {
        let all = coverage(self.capabilities);
        if self.recorder.processes.is_some() { all.with(Facet::Processes).with(Facet::Times) } else { all }
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.follow(&mut |step: &Step| take(step))
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        record(&mut self.chunks, &mut self.recorder, || Ok(None), sink)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_without_the_address_of_execution() {
        for (version, is_without) in
            [("7.2.22", false), ("8.0.4", true), ("8.2.2", true), ("9.0.0", false), ("10.0.2", false)]
        {
            assert_eq!(super::lacks_execution_address(version), is_without, "{version}");
        }
    }
}
