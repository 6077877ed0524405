//! Options of the recording of a system.

use std::ffi::OsString;
use std::path::PathBuf;

use unspool_model::Context;

/// System to record, and the selection of what is recorded.
#[derive(Debug, Clone, Default)]
pub struct SystemOptions {
    /// Arguments of the emulator: machine, CPU, memory, images.
    pub arguments: Vec<OsString>,
    /// The address where recording starts, when a CPU first reaches it.
    pub from: Option<String>,
    /// Number of instructions to skip after that, for each CPU.
    pub skip: u64,
    /// Maximum number of instructions to record of each CPU. The recording ends when all running CPUs have reached it.
    pub limit: Option<u64>,
    /// The state where nothing else is known: the user vouches for it.
    pub assumed: Context,
    /// Record the data of accesses, if the emulator reports it.
    pub data: bool,
    /// Record the values that instructions write to registers. An emulator that does not report them is an error.
    pub registers: bool,
    /// Record the registers that form addresses which no access reports, if the emulator reports them: as
    /// [`Event::State`](unspool_model::Event::State), valid for the next instruction only.
    pub operands: bool,
    /// Record processes, threads and times: [`Context::process`], [`Context::thread`] and
    /// [`Step::time`](unspool_model::Step::time). An emulator that does not report registers is an error.
    pub processes: bool,
    /// The emulator; `None`: that of AArch64, searched as a shell does.
    pub emulator: Option<PathBuf>,
    /// The plugin; `None`: the one beside the executable.
    pub plugin: Option<PathBuf>,
}
