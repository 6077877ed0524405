//! Real programs, recorded while they run under an emulator.
//!
//! PROGRAM ─▶ QEMU with our plugin ─▶ its stream (`stream`) ─▶ **steps**, one core for each thread
//!
//! Or a whole system ─▶ QEMU, and what it logs of exceptions ─▶ the same, one core for each CPU ([`SystemRecording`]).
//!
//! Comes in: a program for Linux on AArch64, AArch32 or RISC-V. Goes out: its instructions with opcodes, accesses and
//! outcomes of branches, calls of the system, and where a signal sent it elsewhere. What is in
//! memory and in registers is told where the emulator tells it: QEMU 7.2 tells neither. What the kernel does is not executed by the emulator:
//! behind a call execution goes on where the kernel returned to.

mod chunks;
mod launch;
mod machine;
mod stream;
mod system;
mod told;
mod values;

use std::io::Read;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};

use unspool_model::{Coverage, Facet, Refused, Run, SourceError, Step, StepSource};

use self::chunks::{Kept, Live, read_head};
use self::launch::Launched;
pub use self::machine::Machine;
pub use self::system::{SystemOptions, SystemRecording};
use self::told::Teller;
pub use self::told::Unsure;

/// What to record.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The program.
    pub program: PathBuf,
    /// What it is given.
    pub arguments: Vec<std::ffi::OsString>,
    /// Recording starts when a thread first comes to this address or function.
    pub from: Option<String>,
    /// So many instructions of each thread are left out then.
    pub skip: u64,
    /// So many instructions of each thread are recorded.
    pub limit: Option<u64>,
    /// What is read and written is wanted, if the emulator tells it.
    pub data: bool,
    /// What instructions write into registers is wanted. An emulator that does not tell it is an error.
    pub registers: bool,
    /// The emulator; `None`: that of the machine, found in the usual places.
    pub emulator: Option<PathBuf>,
    /// The plugin; `None`: found beside the executable.
    pub plugin: Option<PathBuf>,
}

/// Why a program cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The program cannot be read.
    #[error("{}: {source}", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is none that we know an emulator for.
    #[error("{}: {what}", path.display())]
    NotSupported {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// There is no such function in the program.
    #[error("{}: there is no function '{name}'; say an address, or record from the start", path.display())]
    NoSymbol {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        name: String,
    },
    /// The emulator is missing.
    #[error(
        "'{name}' is not there: install the package qemu-user (Debian, Ubuntu: apt install qemu-user), or name another \
         one with --emulator"
    )]
    NoEmulator {
        /// Its name.
        name: String,
    },
    /// The emulator of systems is missing.
    #[error(
        "'{name}' is not there: install the package qemu-system-arm (Debian, Ubuntu: apt install qemu-system-arm), or \
         name another one with --emulator"
    )]
    NoSystemEmulator {
        /// Its name.
        name: String,
    },
    /// An emulator that does not tell where code of a system is executed.
    #[error(
        "{name}: QEMU {version} does not tell plugins where code of a system is executed, if memory is mapped in several \
         places: take QEMU 7.2, or 9.0 or later"
    )]
    Vague {
        /// Its name.
        name: String,
        /// What it says it is.
        version: String,
    },
    /// An emulator that does not tell what is in registers.
    #[error(
        "{name}: QEMU {version} does not tell plugins what is in registers: --registers needs QEMU 9.0 or later with \
         plugins (--emulator)"
    )]
    NoRegisters {
        /// Its name.
        name: String,
        /// What it says it is.
        version: String,
    },
    /// An argument of the emulator that would take its log away.
    #[error("'{argument}': the log of the emulator is needed to record a system, and cannot be had for something else")]
    LogInUse {
        /// What was asked for.
        argument: String,
    },
    /// Functions of a system are not known.
    #[error("'{name}' is no address, and functions of a system are not known")]
    NoFunctions {
        /// What was asked for.
        name: String,
    },
    /// The plugin is missing.
    #[error(
        "the plugin {name} is not beside {}: build it (cargo build -p unspool-plugin), or name it with --plugin",
        beside.display()
    )]
    NoPlugin {
        /// Its name.
        name: String,
        /// Where it was looked for.
        beside: PathBuf,
    },
    /// The emulator ended before it said anything.
    #[error(
        "{name} did not start recording ({status}); does it take plugins? Those of Debian 12 do, \
         static ones do not"
    )]
    Silent {
        /// The emulator.
        name: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// Something else of the system failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Takes what a program does.
pub trait Listener {
    /// The next step, of any thread.
    fn step(&mut self, step: &Step) -> ControlFlow<()>;

    /// Is [`run`](Self::run) of use to it?
    fn takes_runs(&self) -> bool {
        false
    }

    /// A thread, by the number of its core, executed code that it had executed before. If not all of it is taken, steps
    /// come for the pass that is not, and then the rest.
    fn run(&mut self, _core: u32, _run: &Run<'_>) -> ControlFlow<(), Option<Refused>> {
        ControlFlow::Continue(Some(Refused { passes: 0, addresses: 0, is_final: true }))
    }
}

/// Who takes steps only.
struct Steps<'t>(&'t mut dyn FnMut(&Step) -> ControlFlow<()>);

impl Listener for Steps<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        (self.0)(step)
    }
}

/// A program that runs and is recorded. Who drops it before its end ends it.
pub struct Recording {
    machine: Machine,
    child: Child,
    told: Told,
    teller: Option<Teller<Live>>,
    /// Keeps the place of the socket.
    _place: tempfile::TempDir,
}

impl Recording {
    /// Starts a program.
    pub fn start(options: &Options) -> Result<Self, RecordError> {
        let Launched { machine, child, mut stream, memory, place } = launch::launch(options)?;
        let mut recording = Self { machine, child, told: Told::default(), teller: None, _place: place };
        let head = read_head(&mut stream).map_err(|source| launch::system("the stream of the plugin", source))?;
        recording.told = Told::of(&head);
        recording.teller = Some(Teller::new(Live::new(stream, memory), machine, options.limit));
        Ok(recording)
    }

    /// What it is made for.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// What this emulator tells of what was asked for.
    pub fn told(&self) -> Told {
        self.told
    }

    /// The process of the emulator.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Blocks of AArch32 that were told as T32 and may be A32: nothing said which.
    pub fn unsure(&self) -> Option<Unsure> {
        self.teller.as_ref().and_then(Teller::unsure)
    }

    /// Tells all that it does, at once where it is what it did before. Is called once, in place of
    /// [`each`](StepSource::each).
    pub fn tell(&mut self, listener: &mut dyn Listener) -> Result<(), SourceError> {
        self.teller.as_mut().map_or(Ok(()), |teller| teller.each(listener))
    }

    /// Waits for its end.
    pub fn wait(mut self) -> std::io::Result<ExitStatus> {
        self.teller = None;
        self.child.wait()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // One that has ended cannot be ended again, and needs not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl StepSource for Recording {
    fn coverage(&self) -> Coverage {
        self.told.coverage()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.teller.as_mut().map_or(Ok(()), |teller| teller.each(&mut Steps(take)))
    }
}

/// The stream of the plugin, wherever it was kept (`out=FILE` says where, to the emulator), as steps.
///
/// ```
/// use std::ops::ControlFlow;
/// use unspool::model::StepSource;
/// use unspool::record::{Machine, Stream};
///
/// // A thread starts and ends.
/// let bytes = b"unspool record 2\naarch64\n\0\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\x84\0\0\0\0\0\0\0\x85";
/// let mut steps = 0;
/// Stream::new(&bytes[..], Machine::Aarch64).each(&mut |_| {
///     steps += 1;
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(steps, 0);
/// # Ok::<(), unspool::model::SourceError>(())
/// ```
pub struct Stream<R>(Teller<Kept<R>>);

impl<R: Read> Stream<R> {
    /// Reads what a program for this machine did.
    pub fn new(input: R, machine: Machine) -> Self {
        Self(Teller::new(Kept::new(input), machine, None))
    }

    /// Tells all that it did, at once where it is what it did before. Is called once, in place of
    /// [`each`](StepSource::each).
    pub fn tell(&mut self, listener: &mut dyn Listener) -> Result<(), SourceError> {
        self.0.each(listener)
    }
}

impl<R: Read> StepSource for Stream<R> {
    fn coverage(&self) -> Coverage {
        coverage()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.0.each(&mut Steps(take))
    }
}

/// What not every emulator tells, and what not everybody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Told {
    /// What is read and written: QEMU since 9.2 tells it.
    pub data: bool,
    /// What instructions write into registers: QEMU since 9.0 tells it.
    pub registers: bool,
    /// Of a system, registers where only they tell an address: QEMU since 9.0 does.
    pub operands: bool,
}

impl Told {
    /// As the first line of the stream says, behind the name of the target.
    fn of(head: &str) -> Self {
        let has = |word: &str| head.split_whitespace().skip(1).any(|other| other == word);
        Self { data: has("data"), registers: has("written"), operands: has("registers") }
    }

    fn coverage(self) -> Coverage {
        let told = [(self.data, Facet::Data), (self.registers, Facet::Registers)];
        told.iter().filter(|(is_told, _)| *is_told).fold(coverage(), |all, (_, facet)| all.with(*facet))
    }
}

/// What steps of every recording tell.
pub fn coverage() -> Coverage {
    Coverage::of(&[
        Facet::Instructions,
        Facet::Opcodes,
        Facet::Branches,
        Facet::Accesses,
        Facet::Exceptions,
        Facet::Levels,
        Facet::Security,
    ])
}
