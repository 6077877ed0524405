//! Programs that are recorded while they run, and saved streams.
//!
//! program ─▶ emulator with the plugin ─▶ chunks ─▶ user recorder ─▶ **steps**, one core per thread

use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use tempfile::TempDir;
use unspool_model::{BlockSink, Coverage, SourceError, Step, StepSource};
use unspool_wire::EmulatorCapabilities;

use crate::chunks::{KeptChunks, LiveChunks};
use crate::error::RecordError;
use crate::function::offset_of_function;
use crate::launch::{self, Launch};
use crate::machine::{Machine, find_program, is_default_processor};
use crate::recorder::{coverage, record};
use crate::user::{AmbiguousState, UserRecorder};

/// Program to record, and the selection of what is recorded.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The program; a bare name is searched as a shell does.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The address or function where recording starts, when a thread first reaches it.
    pub from: Option<String>,
    /// Number of instructions to skip after that, for each thread.
    pub skip: u64,
    /// Maximum number of instructions to record of each thread.
    pub limit: Option<u64>,
    /// Record the data of accesses, if the emulator reports it.
    pub data: bool,
    /// Record the values that instructions write to registers. An emulator that does not report them is an error.
    pub registers: bool,
    /// The emulator; `None`: that of the machine, searched as a shell does.
    pub emulator: Option<PathBuf>,
    /// The plugin; `None`: the one beside the executable.
    pub plugin: Option<PathBuf>,
}

/// A program that runs and is recorded. Dropping it kills the program.
pub struct Recording {
    machine: Machine,
    child: Child,
    capabilities: EmulatorCapabilities,
    /// `None`: the connection was closed.
    chunks: Option<LiveChunks>,
    recorder: UserRecorder,
    /// The exit status, after the end of the stream.
    status: Option<ExitStatus>,
    /// Holds the socket.
    _folder: TempDir,
}

impl Recording {
    /// Starts a program.
    pub fn start(options: &Options) -> Result<Self, RecordError> {
        let path = find_program(&options.program);
        let image = std::fs::read(&path).map_err(|source| RecordError::Program { path: path.clone(), source })?;
        let machine = Machine::of_header(&path, &image)?;
        let from = options.from.as_deref().map(|from| start_option(&path, &image, from)).transpose()?;
        let mut launch = Launch::new(options.plugin.as_deref())?;
        let name = options.emulator.clone().unwrap_or_else(|| machine.emulator().into());
        if options.registers {
            launch::require_registers(&name)?;
        }
        launch.select(options.skip, options.data, options.registers);
        from.iter().for_each(|from| launch.argument.push(from));
        options.limit.iter().for_each(|limit| launch.argument.push(format!(",limit={limit}")));
        let mut command = Command::new(&name);
        if is_default_processor() {
            command.args(machine.arguments());
        }
        if env::var_os("QEMU_LD_PREFIX").is_none() && Path::new(machine.libraries()).is_dir() {
            command.args(["-L", machine.libraries()]);
        }
        command.arg("-plugin").arg(&launch.argument).arg(&path).args(&options.arguments);
        let mut child = launch::spawn(&mut command, &name, "qemu-user")?;
        let (chunks, capabilities, folder) = launch.connect(&mut child, &name).inspect_err(|_| kill(&mut child))?;
        let recorder = UserRecorder::new(machine, options.limit);
        Ok(Self { machine, child, capabilities, chunks: Some(chunks), recorder, status: None, _folder: folder })
    }

    /// The machine that the program is compiled for.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Capabilities of the emulator among those that were requested.
    pub fn capabilities(&self) -> EmulatorCapabilities {
        self.capabilities
    }

    /// The process of the emulator.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Blocks of AArch32 that were recorded as T32 and may be A32.
    pub fn ambiguous_state(&self) -> Option<AmbiguousState> {
        self.recorder.ambiguous_state()
    }

    /// The number of threads whose last records are lost, after the end: without enough shared memory, what a thread had not
    /// sent when the emulator was killed is lost, and so is everything if the program closes the connection of the plugin.
    pub fn lost_threads(&self) -> usize {
        self.chunks.as_ref().map_or(0, LiveChunks::lost_threads)
    }

    /// Waits for the end of the program.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.chunks = None;
        self.status.map_or_else(|| self.child.wait(), Ok)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.status.is_none() {
            kill(&mut self.child);
        }
    }
}

impl StepSource for Recording {
    fn coverage(&self) -> Coverage {
        coverage(self.capabilities)
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.follow(&mut |step: &Step| take(step))
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        let Some(chunks) = &mut self.chunks else { return Ok(()) };
        let (child, status) = (&mut self.child, &mut self.status);
        let signal_at_end = || {
            let ended = child.wait()?;
            *status = Some(ended);
            Ok(ended.signal())
        };
        record(chunks, &mut self.recorder, signal_at_end, sink)
    }
}

/// Steps of a saved plugin stream (`out=FILE` of the plugin).
///
/// ```
/// use std::ops::ControlFlow;
/// use unspool_model::StepSource;
/// use unspool_record::{Machine, Stream};
///
/// // A thread starts and ends.
/// let bytes = b"unspool record 3\naarch64\n\0\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\x84\0\0\0\0\0\0\0\x85";
/// let mut steps = 0;
/// Stream::new(&bytes[..], Machine::Aarch64).each(&mut |_| {
///     steps += 1;
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(steps, 0);
/// # Ok::<(), unspool_model::SourceError>(())
/// ```
pub struct Stream<R> {
    chunks: KeptChunks<R>,
    recorder: UserRecorder,
}

impl<R: Read> Stream<R> {
    /// Reads the stream of a program for this machine.
    pub fn new(input: R, machine: Machine) -> Self {
        Self { chunks: KeptChunks::new(input), recorder: UserRecorder::new(machine, None) }
    }
}

impl<R: Read> StepSource for Stream<R> {
    fn coverage(&self) -> Coverage {
        coverage(EmulatorCapabilities::default())
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.follow(&mut |step: &Step| take(step))
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        record(&mut self.chunks, &mut self.recorder, || Ok(None), sink)
    }
}

/// Ends the emulator, if it has not ended.
fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Plugin option for the address or function where recording starts.
fn start_option(path: &Path, image: &[u8], from: &str) -> Result<String, RecordError> {
    if let Some(address) = launch::number(from) {
        return Ok(format!(",from={address:#x}"));
    }
    let missing = || RecordError::NoSymbol { path: path.to_path_buf(), name: from.into() };
    let offset = offset_of_function(image, from).ok_or_else(missing)?;
    Ok(format!(",from-code={offset:#x}"))
}
