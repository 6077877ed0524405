//! System events: what an operating system did to processes, threads and code while the trace was recorded.
//!
//! event log, perf.data, `/proc` maps, jitdump ─▶ **events** ─▶ address spaces over time
//!
//! The calls are those of Arm's "CoreSight trace decode metadata requirements", heading "Dynamic changes to code", and
//! some that only other sources have: fork, exec, and the thread that a core executes.

/// A process. Threads have numbers of the same kind.
pub type Pid = u32;

/// The process number of the kernel, whose addresses are the same in every process.
pub const KERNEL: Pid = 0;

/// Something that an operating system did, or a state that it was in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemEvent {
    /// When, in ticks of the clock of the log; `None` if not known.
    pub time: Option<u64>,
    /// Where it is written: the line of a log, from 1, or the byte offset in a file.
    pub place: u64,
    /// What happened.
    pub call: Call,
}

/// Whether something begins, ends, or exists at the time of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// It begins.
    Start,
    /// It ends.
    End,
    /// It exists, and may have existed before.
    Current,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// A process with its program. Its end removes all of the address space.
    Process {
        /// Whether the process begins, ends or exists.
        state: State,
        /// The process.
        pid: Pid,
        /// The file of the program, and where it is loaded.
        mapping: Mapping,
    },
    /// A shared library of a process, a kernel module, or another part of a file in memory.
    Library {
        /// Whether it is loaded, unloaded or present.
        state: State,
        /// The process, or [`KERNEL`].
        pid: Pid,
        /// The file, and where it is loaded.
        mapping: Mapping,
    },
    /// A thread of a process.
    Thread {
        /// Whether the thread begins, ends or exists.
        state: State,
        /// The thread.
        tid: Pid,
        /// Its process.
        pid: Pid,
    },
    /// Code that was written to memory.
    Patch {
        /// The process, or [`KERNEL`].
        pid: Pid,
        /// The address of the first byte.
        address: u64,
        /// Number of bytes.
        length: u64,
        /// What was written.
        code: PatchCode,
        /// The name of the function that it is; empty if not known.
        name: String,
    },
    /// The process that an address space identifier stands for.
    Asid {
        /// Whether the assignment begins, ends or exists.
        state: State,
        /// The address space identifier.
        asid: u32,
        /// The process.
        pid: Pid,
    },
    /// A configuration of a trace unit, and the trace ID that it uses.
    Trace {
        /// Whether the configuration begins, ends or exists.
        state: State,
        /// The trace ID.
        id: u8,
        /// The name of the trace unit.
        source: String,
        /// Registers and their values, as written.
        registers: Vec<(String, u64)>,
    },
    /// A process starts with a copy of the address space of another.
    Fork {
        /// The process that is copied.
        parent: Pid,
        /// The new process.
        child: Pid,
    },
    /// A process starts another program: its address space is empty until the next event.
    Exec {
        /// The process.
        pid: Pid,
    },
    /// A core executes a thread from now on.
    Switch {
        /// The number of the core.
        core: u32,
        /// The thread.
        tid: Pid,
    },
}

impl Call {
    /// The file that the event puts into memory.
    pub fn mapping(&self) -> Option<&Mapping> {
        match self {
            Call::Process { mapping, .. } | Call::Library { mapping, .. } => Some(mapping),
            _ => None,
        }
    }

    /// The name of the file with the code of a patch.
    pub(crate) fn patch_file(&self) -> Option<&String> {
        match self {
            Call::Patch { code: PatchCode::Id(file), .. } => Some(file),
            _ => None,
        }
    }
}

/// A file in memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The path of the file, as written; it may be a name such as `[vdso]`. perf adds a symbol to the name of the kernel:
    /// `[kernel.kallsyms]_text`.
    pub image: String,
    /// The build ID or UUID of the file in hexadecimal digits; empty if not given.
    pub build_id: String,
    /// Where it is.
    pub placement: Placement,
}

/// Where a file is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// As its headers describe, with its lowest page at this address. A program that is not position-independent has its
    /// own address, whatever this one is. For a kernel with the name of a symbol, this is the address of that symbol; for
    /// a kernel module, that of its text.
    Base(u64),
    /// Bytes of the file at an address.
    Part {
        /// The address of the first byte.
        address: u64,
        /// Number of bytes.
        length: u64,
        /// The offset of the first byte in the file.
        offset: u64,
    },
}

/// The code of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchCode {
    /// The bytes themselves.
    Bytes(Vec<u8>),
    /// The name of the file, or of the image in the package, that has them.
    Id(String),
    /// Not given: the bytes are those that were in memory at the end of the trace.
    Absent,
}
