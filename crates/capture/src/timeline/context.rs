//! Context IDs: which process a value of CONTEXTIDR stands for.
//!
//! traced value, its width, the format ─▶ **context** ─▶ process, or unknown, or ambiguous
//!
//! The formats are those of Arm's "CoreSight trace decode metadata requirements", heading "Interpretation of
//! CONTEXTIDR", and the process identifier itself. Trace may have only the low 8 or 16 bits of the register.

use super::Timeline;
use crate::event::{KERNEL, Pid};

/// Maximum number of changes of a context ID in a window that are compared. If there are more, its process is ambiguous.
const CHANGE_LIMIT: usize = 64;

/// What an operating system writes to CONTEXTIDR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContextFormat {
    /// An address space identifier in bits 7:0, and nothing else.
    Asid,
    /// An address space identifier in bits 7:0 and a process identifier in bits 31:8.
    AsidPid,
    /// An address space identifier in bits 7:0 and a thread identifier in bits 31:8.
    AsidTid,
    /// A thread identifier in bits 31:0.
    Tid,
    /// A process identifier in bits 31:0.
    Pid,
}

/// How many bits of CONTEXTIDR are in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContextWidth {
    /// Bits 7:0.
    Bits8,
    /// Bits 15:0.
    Bits16,
    /// Bits 31:0.
    Bits32,
}

/// The number in a traced value of CONTEXTIDR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContextNumber {
    /// An address space identifier.
    Asid(u32),
    /// The low bits of a process identifier.
    Pid {
        /// The low bits.
        number: u32,
        /// How many.
        bits: u32,
    },
    /// The low bits of a thread identifier.
    Tid {
        /// The low bits.
        number: u32,
        /// How many.
        bits: u32,
    },
}

/// The process that a context ID stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContextProcess {
    /// This process.
    Known(Pid),
    /// More than one process has these low bits.
    Ambiguous,
    /// No event names it.
    Unknown,
}

/// The formats that explain the context IDs of a trace best.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextGuess {
    /// Only this one does.
    Certain(ContextFormat),
    /// Several do, or none explains more than half of them.
    Candidates(Vec<ContextFormat>),
}

impl ContextFormat {
    /// All formats.
    pub const ALL: [Self; 5] = [Self::Asid, Self::AsidPid, Self::AsidTid, Self::Tid, Self::Pid];

    /// The name of the format on the command line and in packages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asid => "asid",
            Self::AsidPid => "asid+pid",
            Self::AsidTid => "asid+tid",
            Self::Tid => "tid",
            Self::Pid => "pid",
        }
    }

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// What the register contains, for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Asid => "address space identifiers",
            Self::AsidPid => "address space and process identifiers",
            Self::AsidTid => "address space and thread identifiers",
            Self::Tid => "thread identifiers",
            Self::Pid => "process identifiers",
        }
    }

    /// The number in a traced value.
    pub fn number(self, value: u32, width: ContextWidth) -> ContextNumber {
        let value = value & width.mask();
        let (asid, upper) = (ContextNumber::Asid(value & 0xff), value >> 8);
        match (self, width.bits() - 8) {
            (Self::Asid, _) | (Self::AsidPid | Self::AsidTid, 0) => asid,
            (Self::AsidPid, bits) => ContextNumber::Pid { number: upper, bits },
            (Self::AsidTid, bits) => ContextNumber::Tid { number: upper, bits },
            (Self::Tid, _) => ContextNumber::Tid { number: value, bits: width.bits() },
            (Self::Pid, _) => ContextNumber::Pid { number: value, bits: width.bits() },
        }
    }

    fn has_asid(self) -> bool {
        matches!(self, Self::Asid | Self::AsidPid | Self::AsidTid)
    }
}

impl ContextWidth {
    /// Number of bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::Bits8 => 8,
            Self::Bits16 => 16,
            Self::Bits32 => 32,
        }
    }

    /// The width for a number of bytes in a packet; none is as all.
    pub fn of_bytes(bytes: u8) -> Self {
        match bytes {
            1 => Self::Bits8,
            2 => Self::Bits16,
            _ => Self::Bits32,
        }
    }

    fn mask(self) -> u32 {
        u32::MAX >> (32 - self.bits())
    }
}

impl ContextGuess {
    /// The format to use: the certain one, or that of threads where all values are main threads, whose identifiers are
    /// those of their processes, so that both formats give the same.
    pub fn format(&self) -> Option<ContextFormat> {
        match self {
            Self::Certain(format) => Some(*format),
            Self::Candidates(list) => match list[..] {
                [ContextFormat::AsidPid, ContextFormat::AsidTid] => Some(ContextFormat::AsidTid),
                [ContextFormat::Tid, ContextFormat::Pid] => Some(ContextFormat::Tid),
                _ => None,
            },
        }
    }
}

impl Timeline {
    /// The process that a traced value of CONTEXTIDR stands for after a number of events.
    ///
    /// Processes that exist then come before those that have ended. Where low bits fit several processes, an address
    /// space identifier beside them decides.
    pub fn process_of_context(
        &self,
        format: ContextFormat,
        value: u32,
        width: ContextWidth,
        position: usize,
    ) -> ContextProcess {
        let asid = || self.process_of_asid(value & 0xff, position);
        let found = match format.number(value, width) {
            ContextNumber::Asid(_) => return asid().map_or(ContextProcess::Unknown, ContextProcess::Known),
            ContextNumber::Pid { number, bits } => self.processes_like(number, bits, position, false),
            ContextNumber::Tid { number, bits } => self.processes_like(number, bits, position, true),
        };
        match (found[..].first(), found.len()) {
            (None, _) => ContextProcess::Unknown,
            (Some(pid), 1) => ContextProcess::Known(*pid),
            _ => match asid().filter(|pid| format.has_asid() && found.contains(pid)) {
                Some(pid) => ContextProcess::Known(pid),
                None => ContextProcess::Ambiguous,
            },
        }
    }

    /// The process that a traced value of CONTEXTIDR stands for at some time between two positions, both included.
    /// Ambiguous if it stands for one process and then for another.
    pub fn process_of_context_within(
        &self,
        format: ContextFormat,
        value: u32,
        width: ContextWidth,
        (before, after): (usize, usize),
    ) -> ContextProcess {
        let mut found = self.process_of_context(format, value, width, before);
        for (count, position) in self.changes_of_context(format, value, width, (before, after)).enumerate() {
            match (found, self.process_of_context(format, value, width, position)) {
                _ if count >= CHANGE_LIMIT => return ContextProcess::Ambiguous,
                (ContextProcess::Ambiguous, _) | (_, ContextProcess::Ambiguous) => return ContextProcess::Ambiguous,
                (ContextProcess::Known(one), ContextProcess::Known(other)) if one != other => {
                    return ContextProcess::Ambiguous;
                }
                (ContextProcess::Unknown, other) => found = other,
                _ => {}
            }
        }
        found
    }

    /// The positions after the first, up to the last, at which a value may begin to stand for another process.
    fn changes_of_context(
        &self,
        format: ContextFormat,
        value: u32,
        width: ContextWidth,
        (before, after): (usize, usize),
    ) -> impl Iterator<Item = usize> + '_ {
        let ids = match format.number(value, width) {
            ContextNumber::Asid(_) => None,
            ContextNumber::Pid { number, bits } | ContextNumber::Tid { number, bits } => {
                Some(self.ids_like(number, bits))
            }
        };
        let lives = |id: u32| self.lives(id).iter().flat_map(|(from, until)| [*from, *until]);
        let of_ids = ids.into_iter().flatten().flat_map(move |id| lives(id).chain(self.threads.changes(id)));
        let of_asid = self.asids.changes(value & 0xff).filter(move |_| format.has_asid());
        of_ids.chain(of_asid).map(|position| position as usize).filter(move |at| before < *at && *at <= after)
    }

    /// The formats in which the most values, and more than half of them, are numbers that the events name, at any time.
    /// Zero is no evidence.
    pub fn guess_context(&self, values: &[u32], width: ContextWidth) -> ContextGuess {
        let values: Vec<u32> = values.iter().map(|value| value & width.mask()).filter(|value| *value != 0).collect();
        let count = |format: ContextFormat| values.iter().filter(|value| self.explains(format, **value, width)).count();
        let counts = ContextFormat::ALL.map(|format| (format, count(format)));
        let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let is_enough = values.is_empty() || 2 * most > values.len();
        let mut formats: Vec<ContextFormat> =
            counts.into_iter().filter(|(_, count)| is_enough && *count == most).map(|(format, _)| format).collect();
        if width == ContextWidth::Bits8 {
            // Only the address space identifier is traced, whatever is above it.
            formats.retain(|format| !matches!(format, ContextFormat::AsidPid | ContextFormat::AsidTid));
        }
        match formats[..] {
            [format] if !values.is_empty() => ContextGuess::Certain(format),
            _ => ContextGuess::Candidates(formats),
        }
    }

    fn explains(&self, format: ContextFormat, value: u32, width: ContextWidth) -> bool {
        let is_known = |number: u32, bits: u32, with_threads: bool| {
            // Whatever has only an address space identifier would be the kernel with it.
            let ids = self.ids_like(number, bits).filter(|id| *id != KERNEL);
            let ids = ids.filter(|id| with_threads || self.is_process(*id));
            let mut processes = ids.flat_map(|id| self.processes_ever(id));
            let asid = value & 0xff;
            processes.any(|pid| !format.has_asid() || self.has_asid_ever(asid, pid))
        };
        match format.number(value, width) {
            ContextNumber::Asid(asid) => value == asid && self.asids.has(asid),
            ContextNumber::Pid { number, bits } => is_known(number, bits, false),
            ContextNumber::Tid { number, bits } => is_known(number, bits, true),
        }
    }

    /// Whether an identifier ever stands for a process, as far as the events have identifiers at all.
    fn has_asid_ever(&self, asid: u32, pid: Pid) -> bool {
        self.asids.is_empty() || self.asids.ever(asid, pid)
    }

    /// The processes of the identifiers with these low bits.
    fn processes_like(&self, number: u32, bits: u32, position: usize, with_threads: bool) -> Vec<Pid> {
        let ids: Vec<u32> = self.ids_like(number, bits).collect();
        let thread = |id: u32| if with_threads { self.process_of_thread(id, position) } else { None };
        let alive = |id: u32| thread(id).or_else(|| Some(id).filter(|id| self.is_alive(*id, position)));
        let began = |id: u32| Some(id).filter(|id| self.has_begun(*id, position));
        let mut found: Vec<Pid> = ids.iter().filter_map(|id| alive(*id)).collect();
        if found.is_empty() {
            found = ids.iter().filter_map(|id| began(*id)).collect();
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The known identifiers with these low bits, of which there are at least eight.
    fn ids_like(&self, number: u32, bits: u32) -> impl Iterator<Item = u32> + '_ {
        let mask = u32::MAX >> (32 - bits);
        let list = self.ids.get(number as usize & 0xff).map_or(&[][..], Vec::as_slice);
        list.iter().copied().filter(move |id| (id ^ number) & mask == 0)
    }

    fn is_process(&self, id: u32) -> bool {
        id == KERNEL || self.spaces.contains_key(&id)
    }
}
