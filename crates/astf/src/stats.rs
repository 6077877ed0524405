//! Counts of the records in a file: types, branches, accesses, traps, contexts, processes, times, strings.
//!
//! Takes records in order; produces totals in constant memory. Names and numbers that a file can have any number of are
//! kept up to a limit. Knows nothing of containers or printing.

use std::collections::{BTreeMap, BTreeSet};

use unspool_model::note;

use crate::access::Access;
use crate::layout::Bytes;
use crate::record::{Context, ContextView, Instruction, StringContinuationView, StringStartView, TrapView, View};

/// Names of record types, in the order of [`Counts::types`].
pub const TYPES: [&str; 9] =
    ["header", "instruction", "extra_ea", "trap", "context", "string", "string_continuation", "timestamp", "unknown"];

/// Names of trap types, in the order of [`Counts::traps`].
pub const TRAPS: [&str; 8] =
    ["synchronous", "serror", "irq", "fiq", "exception_return", "reset", "reserved_6", "reserved_7"];

/// Limit of processes, and of threads per process, that are distinguished.
const PROCESSES: usize = 1024;
const THREADS: usize = 64;

/// Limit of strings that are kept, and of bytes of each.
const STRINGS: usize = 16;
const STRING_BYTES: usize = 200;

/// Totals of a file.
#[derive(Debug, Default)]
pub struct Counts {
    /// Records by type.
    pub types: [u64; 9],
    /// Instructions at each Exception level, where it is known.
    pub at_level: [u64; 4],
    /// Branches taken.
    pub taken: u64,
    /// Branches not taken.
    pub not_taken: u64,
    /// Accesses that read.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Accesses that wrote.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Accesses that neither read nor wrote.
    pub others: u64,
    /// Accesses to tags.
    pub tagged: u64,
    /// Instructions that raised an exception.
    pub trapping: u64,
    /// Traps by type.
    pub traps: [u64; 8],
    /// Contexts by Exception level and Security state.
    pub contexts: BTreeMap<String, u64>,
    /// Threads by process.
    pub processes: BTreeMap<u64, Threads>,
    /// There are more processes than are distinguished.
    pub processes_overflow: bool,
    /// The first and the last timestamp.
    pub time: Option<(u64, u64)>,
    /// The first strings.
    pub strings: Vec<String>,
    /// Count of further strings.
    pub more_strings: u64,
    level: Option<u8>,
    /// Bytes of an incomplete string, and its full length.
    string: Option<(usize, Vec<u8>)>,
}

/// Threads of one process.
#[derive(Debug, Default)]
pub struct Threads(BTreeSet<u64>);

impl Threads {
    /// Count of distinct threads.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

impl Counts {
    /// Count of all records.
    pub fn records(&self) -> u64 {
        self.types.iter().sum()
    }

    /// Count of instructions.
    pub fn instructions(&self) -> u64 {
        self.types[1]
    }

    /// Counts the next record.
    #[inline]
    pub fn add(&mut self, record: &Bytes) {
        let view = View::new(record);
        let index = match view {
            View::Header(_) => 0,
            View::Instruction(view) => {
                self.instruction(&view.get());
                1
            }
            View::ExtraEa(view) => {
                let (first, second) = view.get().accesses();
                self.access(&first);
                second.iter().for_each(|access| self.access(access));
                2
            }
            View::Trap(view) => {
                self.trap(view);
                3
            }
            View::Context(view) => {
                self.context(view);
                4
            }
            View::StringStart(view) => {
                self.string_start(view);
                5
            }
            View::StringContinuation(view) => {
                self.string_continuation(view);
                6
            }
            View::Timestamp(view) => {
                let first = self.time.map_or(view.value(), |(first, _)| first);
                self.time = Some((first, view.value()));
                7
            }
            View::Unknown(_) => 8,
        };
        self.types[index] += 1;
    }

    #[inline]
    fn instruction(&mut self, instruction: &Instruction) {
        if let Some(level) = self.level {
            self.at_level[usize::from(level & 3)] += 1;
        }
        if instruction.is_branch {
            let count = if instruction.is_taken() { &mut self.taken } else { &mut self.not_taken };
            *count += 1;
        }
        self.trapping += u64::from(instruction.trap);
        if let Some(access) = instruction.access() {
            self.access(&access);
        }
    }

    #[inline]
    fn access(&mut self, access: &Access) {
        let bytes = access.extent.bytes();
        if access.read {
            self.reads += 1;
            self.bytes_read = self.bytes_read.saturating_add(bytes);
        }
        if access.write {
            self.writes += 1;
            self.bytes_written = self.bytes_written.saturating_add(bytes);
        }
        self.others += u64::from(!access.read && !access.write);
        self.tagged += u64::from(access.tagged);
    }

    fn trap(&mut self, trap: TrapView<'_>) {
        self.traps[usize::from(trap.trap_type() & 7)] += 1;
    }

    fn context(&mut self, view: ContextView<'_>) {
        let context = view.get();
        self.level = Some(context.el);
        *self.contexts.entry(context_name(&context)).or_default() += 1;
        if !context.pid_valid {
            return;
        }
        if self.processes.len() >= PROCESSES && !self.processes.contains_key(&context.pid) {
            self.processes_overflow = true;
            return;
        }
        let threads = self.processes.entry(context.pid).or_default();
        if context.tid_valid && threads.0.len() < THREADS {
            threads.0.insert(context.tid);
        }
    }

    fn string_start(&mut self, view: StringStartView<'_>) {
        self.string = Some((usize::from(view.size()), view.string().to_vec()));
        self.string_end();
    }

    fn string_continuation(&mut self, view: StringContinuationView<'_>) {
        if let Some((_, bytes)) = &mut self.string {
            bytes.extend_from_slice(&view.string());
        }
        self.string_end();
    }

    /// Keeps the string once it is complete.
    fn string_end(&mut self) {
        let Some((size, mut bytes)) = self.string.take_if(|(size, bytes)| bytes.len() >= *size) else { return };
        if self.strings.len() == STRINGS {
            self.more_strings += 1;
            return;
        }
        bytes.truncate(size);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        text.truncate(note::split(&text, STRING_BYTES).0.len());
        self.strings.push(text);
    }
}

fn context_name(context: &Context) -> String {
    let security = if context.secure { "secure" } else { "nonsecure" };
    let unsupported = if context.unsupported { " unsupported" } else { "" };
    let streaming = if context.pstate_sm { " streaming" } else { "" };
    format!("EL{} {security}{streaming}{unsupported}", context.el)
}
