//! Whole systems, recorded while they run under an emulator.
//!
//! what the emulator is given ─▶ QEMU with our plugin, and its log ─▶ the stream of the plugin ─▶ **steps**, one core
//! for each CPU
//!
//! QEMU tells plugins of no exception, but it can log them (`-d int`). The plugin reads the log where it is written, so
//! that each entry stands between the blocks that it was written between. Only AArch64 is told.

mod block;
mod log;
mod operands;
mod state;
mod teller;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use unspool_model::{Context, Coverage, SourceError, Step, StepSource};

use self::teller::Teller;
use super::chunks::{Live, Memory, read_head};
use super::launch::{accept, escaped, lend, number, plugin, refuse_without_registers, system, version_of, wishes};
use super::{Options, RecordError, Told};

/// What to record.
#[derive(Debug, Clone, Default)]
pub struct SystemOptions {
    /// What the emulator is given: machine, CPU, memory, images.
    pub arguments: Vec<OsString>,
    /// Recording starts when a CPU first comes to this address.
    pub from: Option<String>,
    /// So many instructions of each CPU are left out then.
    pub skip: u64,
    /// So many instructions of each CPU are recorded. When all that run have come so far, the recording ends.
    pub limit: Option<u64>,
    /// What holds where nothing tells it: the user vouches for it.
    pub assumed: Context,
    /// What is read and written is wanted, if the emulator tells it.
    pub data: bool,
    /// What instructions write into registers is wanted. An emulator that does not tell it is an error.
    pub registers: bool,
    /// Registers are wanted before instructions whose address only they tell, if the emulator tells them: as
    /// [`Event::State`](unspool_model::Event::State), for the next instruction and no longer.
    pub operands: bool,
    /// The emulator; `None`: that of AArch64, found in the usual places.
    pub emulator: Option<PathBuf>,
    /// The plugin; `None`: found beside the executable.
    pub plugin: Option<PathBuf>,
}

/// A system that runs and is recorded. Who drops it ends it.
pub struct SystemRecording {
    child: Started,
    teller: Teller<Live>,
    told: Told,
    watch: Watch,
    /// Keeps the place of the socket and of the logs.
    _place: tempfile::TempDir,
}

impl SystemRecording {
    /// Starts a system.
    pub fn start(options: &SystemOptions) -> Result<Self, RecordError> {
        let place = tempfile::tempdir().map_err(|source| system("a folder for the socket", source))?;
        let socket = place.path().join("stream");
        let listener = UnixListener::bind(&socket).map_err(|source| system("the socket of the plugin", source))?;
        let name = options.emulator.clone().unwrap_or_else(|| "qemu-system-aarch64".into());
        refuse_vague(&name)?;
        if options.registers {
            refuse_without_registers(&name)?;
        }
        // A log for each thread of the emulator, so that lines of several CPUs are not mixed.
        let log = place.path().join("log.%d");
        let mut argument = plugin_argument(options)?;
        for (key, path) in [(",out=", &socket), (",log=", &log)] {
            argument.push(key);
            argument.push(escaped(path));
        }
        let memory = Memory::new();
        memory.iter().for_each(|memory| lend(memory, &mut argument));
        let mut command = Command::new(&name);
        command.args(["-d", "int,plugin,tid", "-D"]).arg(&log).arg("-plugin").arg(argument).args(&options.arguments);
        let child = command.spawn().map_err(|source| match source.kind() {
            ErrorKind::NotFound => RecordError::NoSystemEmulator { name: name.display().to_string() },
            _ => system(&name.display().to_string(), source),
        })?;
        let child = Started(Arc::new(Mutex::new(child)));
        let accepted = accept(&listener, &mut child.get(), &name);
        let mut stream = accepted.inspect_err(|_| child.kill())?;
        let head = read_head(&mut stream).inspect_err(|_| child.kill());
        let told = Told::of(&head.map_err(|source| system("the stream of the plugin", source))?);
        let teller = Teller::new(Live::new(stream, memory), options, told);
        let watch = Watch::new(place.path().to_path_buf(), child.clone());
        Ok(Self { child, teller, told, watch, _place: place })
    }

    /// The process of the emulator.
    pub fn process(&self) -> u32 {
        self.child.get().id()
    }

    /// What this emulator tells of what was asked for.
    pub fn told(&self) -> Told {
        self.told
    }

    /// Places at which what was executed and what was logged do not fit together. They are told as gaps.
    pub fn gaps(&self) -> u64 {
        self.teller.gaps()
    }

    /// It was ended, since it took exceptions for ever and executed nothing.
    pub fn was_stuck(&self) -> bool {
        self.watch.was_stuck.load(Ordering::Relaxed)
    }

    /// Ends it; how it ended, if it did so itself.
    pub fn end(self) -> std::io::Result<Option<ExitStatus>> {
        let mut child = self.child.get();
        if self.teller.is_over() {
            return child.wait().map(Some);
        }
        child.kill()?;
        child.wait().map(|_| None)
    }
}

/// QEMU 8 may execute code where it did not translate it, and tells plugins only where that was.
fn refuse_vague(name: &Path) -> Result<(), RecordError> {
    match version_of(name).filter(|version| is_vague(version)) {
        Some(version) => Err(RecordError::Vague { name: name.display().to_string(), version }),
        None => Ok(()),
    }
}

fn is_vague(version: &str) -> bool {
    version.starts_with("8.")
}

/// An emulator that runs.
#[derive(Clone)]
struct Started(Arc<Mutex<Child>>);

impl Started {
    fn get(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill(&self) {
        let mut child = self.get();
        // One that has ended cannot be ended again, and needs not.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Asks it to end, so that it says what it has to say; one that does not is killed.
    fn stop(&self) {
        let _ = kill_process(Pid::from_child(&self.get()), Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            thread::sleep(OFTEN);
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

/// The most that the log may have before the plugin reads it: tens of thousands of exceptions.
const MOST_LOG: u64 = 1 << 23;
const OFTEN: Duration = Duration::from_millis(500);

/// How long an emulator may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ends an emulator whose log nobody reads: a system whose vectors cannot be fetched takes exceptions for ever, and
/// executes nothing. Who drops it ends the watch.
struct Watch {
    was_stuck: Arc<AtomicBool>,
    _sender: Sender<()>,
}

impl Watch {
    fn new(folder: PathBuf, child: Started) -> Self {
        let (_sender, receiver) = mpsc::channel();
        let was_stuck = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&was_stuck);
        thread::spawn(move || {
            while receiver.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                if bytes_in(&folder) > MOST_LOG {
                    told.store(true, Ordering::Relaxed);
                    return child.stop();
                }
            }
        });
        Self { was_stuck, _sender }
    }
}

/// What the files of a folder have of the disk.
fn bytes_in(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.blocks() * 512).sum()
}

impl StepSource for SystemRecording {
    fn coverage(&self) -> Coverage {
        self.told.coverage()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.teller.each(take)
    }
}

/// The plugin, and what it is told to record.
fn plugin_argument(options: &SystemOptions) -> Result<OsString, RecordError> {
    let is_log = |argument: &&OsString| *argument == "-d" || *argument == "-D";
    if let Some(argument) = options.arguments.iter().find(is_log) {
        return Err(RecordError::LogInUse { argument: argument.to_string_lossy().into_owned() });
    }
    let mut argument = escaped(&plugin(&Options { plugin: options.plugin.clone(), ..Options::default() })?);
    if let Some(from) = &options.from {
        let address = number(from).ok_or_else(|| RecordError::NoFunctions { name: from.clone() })?;
        argument.push(format!(",from={address:#x}"));
    }
    // Blocks may be left before their end, so that the plugin cannot count to a limit.
    argument.push(format!(",skip={}", options.skip));
    argument.push(wishes(options.data, options.registers));
    Ok(argument)
}

#[cfg(test)]
mod tests {
    use super::super::launch::version_in;

    #[test]
    fn versions_that_do_not_say_where_code_is_executed() {
        let said = |version: &str| format!("QEMU emulator version {version} (Debian 1:{version}+ds-1)\nCopyright");
        for (version, is_vague) in
            [("7.2.22", false), ("8.0.4", true), ("8.2.2", true), ("9.0.0", false), ("10.0.2", false)]
        {
            assert_eq!(version_in(&said(version)), Some(version));
            assert_eq!(super::is_vague(version), is_vague, "{version}");
        }
        assert_eq!(version_in("an emulator"), None);
    }
}
